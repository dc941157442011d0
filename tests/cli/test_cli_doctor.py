"""`lakelog doctor`: what it finds, what it writes, and its exit code."""

from __future__ import annotations

import shutil
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import StorageError
from lakelog.store.local import LocalStore
from lakelog.testing.doubles import PlainStore

SOUND = """\
catalog        URL
backend        file
put-if-absent  works
probe          a second put-if-absent on one key was refused and left the first body alone
probed with    an object of its own below EWR/_probe/

meaning  Commits race for one name, which only one can win: a log can't fork, and several processes
         may share one.

DATABASE  WRITER  HEAD  COMMITTED AT                 EPOCH  OLDEST  CHECKPOINT  BEHIND  SOUND
weather   EWR        3  2013-06-30T04:00:00.000000Z      1       0           2       1  yes
weather   JFK        2  2013-06-30T07:00:00.000000Z      1       0           -       -  yes

no problems found
"""


def objects(url: str) -> set[Path]:
    return {path for path in Path(url).rglob("*") if path.is_file()}


def test_a_sound_catalog(cli, own_weather):
    before = objects(own_weather)
    result = cli("doctor", own_weather)
    assert result.out.replace(own_weather, "URL") == SOUND
    assert (result.code, result.err) == (0, "")
    assert objects(own_weather) == before, "the probe object is gone again"


def test_without_a_probe_nothing_is_written(cli, own_weather, monkeypatch):
    def put(self, key, body, *, if_absent=False):
        raise AssertionError(f"wrote {key}")

    monkeypatch.setattr(LocalStore, "put", put)
    found = cli("doctor", own_weather, "--no-probe", "-o", "json")
    assert found.code == 0
    assert (found.json["put_if_absent"], found.json["probe"]) == (None, "not probed")


@pytest.mark.parametrize(("given", "prefix"), [((), "EWR/_probe/"), (("JFK",), "JFK/_probe/")])
def test_the_only_thing_written_is_below_one_writers_probe_prefix(
    cli, own_weather, monkeypatch, given, prefix
):
    written = []
    real = LocalStore.put

    def put(self, key, body, *, if_absent=False):
        written.append(key)
        return real(self, key, body, if_absent=if_absent)

    monkeypatch.setattr(LocalStore, "put", put)
    writer = ("--writer", *given) if given else ()
    found = cli("doctor", own_weather, *writer, "-o", "json").json
    assert found["probe_prefix"] == prefix
    assert {key.rpartition("/")[0] + "/" for key in written} == {prefix}


def test_as_json_and_csv(cli, own_weather):
    found = cli("doctor", own_weather, "weather", "--writer", "EWR", "-o", "json").json
    assert list(found) == [
        "url", "backend", "put_if_absent", "probe_prefix", "probe", "meaning", "logs", "problems",
        "notes",
    ]  # fmt: skip
    (log,) = found["logs"]
    assert log == {
        "database": "weather",
        "writer": "EWR",
        "head": 3,
        "committed_at": "2013-06-30T04:00:00.000000Z",
        "epoch": 1,
        "oldest_readable": 0,
        "readable": "0-3",
        "transactions": 4,
        "checkpoints": 1,
        "checkpoint_revision": 2,
        "checkpoint_age_revisions": 1,
        "checkpoint_committed_at": "2013-06-30T03:00:00.000000Z",
        "forks": [],
        "unknown_names": [],
        "sound": True,
    }
    assert cli("doctor", own_weather, "-o", "csv").out.count("\n") == 3


def flipped(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[70] ^= 1
    path.write_bytes(body)


def test_a_damaged_head(cli, own_weather, log_object):
    path = log_object("EWR", 3)
    flipped(path)
    result = cli("doctor", own_weather)
    assert result.code == 1
    assert "1 problem found" in result.out
    (problem,) = cli("doctor", own_weather, "-o", "json").json["problems"]
    assert problem["key"].endswith(path.name)
    assert (problem["writer"], problem["database"]) == ("EWR", "weather")
    assert problem["hint"]


def test_a_checkpoint_that_can_not_be_used(cli, own_weather, log_object):
    path = log_object("EWR", 2, "checkpoint")
    path.write_bytes(path.read_bytes()[:100])
    result = cli("doctor", own_weather, "-o", "json")
    assert result.code == 1
    assert result.err == "", "it is a problem of the report, not a warning beside it"
    (problem,) = result.json["problems"]
    assert path.name in problem["text"]
    assert [log["sound"] for log in result.json["logs"]] == [False, True]


@pytest.mark.parametrize("revision", [0, 1])
def test_a_damaged_transaction_below_the_checkpoint(cli, own_weather, log_object, revision):
    path = log_object("EWR", revision)
    flipped(path)
    result = cli("doctor", own_weather, "-o", "json")
    assert result.code == 1
    (problem,) = result.json["problems"]
    assert problem["key"].endswith(path.name)
    assert "its plan shows that first" in problem["hint"]
    log = result.json["logs"][0]
    readable = ["2-3", "0, 2-3"][revision]
    assert (log["sound"], log["readable"], log["oldest_readable"]) == (False, readable, 2)


def test_transactions_that_can_not_be_read_are_a_problem(cli, own_weather, monkeypatch):
    real = LocalStore.get_many

    def get_many(self, keys):
        if any("/00000000000000000000." in key for key in keys):
            raise StorageError("can't read: Input/output error", key=keys[0])
        return real(self, keys)

    monkeypatch.setattr(LocalStore, "get_many", get_many)
    result = cli("doctor", own_weather, "weather", "--writer", "EWR", "-o", "json")
    assert result.code == 1
    assert "Input/output" in result.json["problems"][0]["text"]


def test_a_lost_log_is_a_problem(cli, own_weather):
    shutil.rmtree(Path(own_weather, "EWR/weather/transactions"))
    result = cli("doctor", own_weather, "-o", "json")
    assert result.code == 1
    (problem,) = result.json["problems"]
    assert (problem["writer"], problem["database"]) == ("EWR", "weather")
    assert "`lakelog rebuild URL weather --writer EWR`" in problem["hint"]
    assert [log["writer"] for log in result.json["logs"]] == ["JFK"]
    assert cli("doctor", own_weather, "weather", "--writer", "EWR").code == 1
    assert cli("doctor", own_weather, "weather", "--writer", "JFK").code == 0


def test_every_log_is_lost(cli, own_weather):
    for log in Path(own_weather).glob("*/weather/transactions"):
        shutil.rmtree(log)
    result = cli("doctor", own_weather, "-o", "json")
    assert (result.code, len(result.json["problems"]), result.json["logs"]) == (1, 2, [])


def test_files_of_a_first_commit_under_way_are_a_note(cli, own_weather):
    catalog = lakelog.open_catalog(own_weather)
    with catalog.writer("NEW", "weather") as writer:
        writer.transaction().write("t", pa.table({"a": [1]}))
        result = cli("doctor", own_weather, "-o", "json")
    assert (result.code, result.json["problems"]) == (0, [])
    (note,) = [note for note in result.json["notes"] if note["writer"] == "NEW"]
    assert "lakelog rebuild" in note["hint"]


def test_a_lost_transaction(cli, own_weather, log_object):
    log_object("EWR", 1).unlink()
    result = cli("doctor", own_weather, "-o", "json")
    assert result.code == 1
    assert "only 0, 2-3" in result.json["problems"][0]["text"]
    assert result.json["logs"][0]["readable"] == "0, 2-3"


def test_a_fork(cli, own_weather, log_object):
    path = log_object("EWR", 3)
    twin = path.with_name(path.name.replace(path.name.split(".")[1], "deadbeef"))
    twin.write_bytes(path.read_bytes())
    result = cli("doctor", own_weather, "-o", "json")
    assert result.code == 1
    assert result.json["logs"][0]["forks"] == [3]
    text = " ".join(problem["text"] for problem in result.json["problems"])
    assert path.name in text
    assert twin.name in text


def test_a_foreign_name_is_a_note_and_no_problem(cli, own_weather):
    Path(own_weather, "EWR/weather/transactions/notes.txt").write_text("x")
    result = cli("doctor", own_weather)
    assert result.code == 0
    assert "note  EWR/weather: Names that are not lakelog's" in result.out
    assert "no problems found" in result.out


def test_a_clock_ahead_is_a_note(cli, own_weather, monkeypatch):
    monkeypatch.setattr("lakelog.catalog.ambient.SYSTEM", FrozenAmbient)
    result = cli("doctor", own_weather, "-o", "json")
    assert result.code == 0
    assert ["in the future" in note["text"] for note in result.json["notes"]] == [True, True]


class FrozenAmbient:
    @staticmethod
    def now_us() -> int:
        return 1_000_000_000_000_000

    @staticmethod
    def sleep_s(seconds: float) -> None:
        raise AssertionError("nothing to wait for")


def test_a_store_without_put_if_absent_is_told_what_that_means(cli, own_weather, monkeypatch):
    def plain(url, storage_options=None):
        return Catalog(PlainStore(LocalStore(own_weather)))

    monkeypatch.setattr("lakelog.catalog.catalog.open_catalog", plain)
    result = cli("doctor", own_weather)
    assert result.code == 0, "a plain store is no fault of the logs"
    assert "put-if-absent  does not work" in result.out
    assert "Let only one process at a time commit" in result.out


def test_a_place_where_nothing_is_yet(cli, tmp_path):
    assert cli("doctor", tmp_path / "new").code == 3
    result = cli("doctor", tmp_path / "new", "--writer", "W")
    assert result.code == 0
    assert "no logs yet" in result.out
    assert cli("doctor", tmp_path / "new", "db", "--writer", "W").code == 3
    assert cli("doctor", tmp_path / "new", "--writer", "_bad").code == 2


def test_every_database_is_looked_at(cli, tmp_path):
    catalog = lakelog.open_catalog(str(tmp_path))
    for writer_id, database in (("A", "one"), ("A", "two"), ("B", "two")):
        with catalog.writer(writer_id, database) as writer, writer.transaction() as tx:
            tx.write("t", pa.table({"a": [1]}))
    logs = cli("doctor", tmp_path, "-o", "json").json["logs"]
    assert [(log["database"], log["writer"]) for log in logs] == [
        ("one", "A"), ("two", "A"), ("two", "B"),
    ]  # fmt: skip
    logs = cli("doctor", tmp_path, "--writer", "B", "-o", "json").json["logs"]
    assert [(log["database"], log["writer"]) for log in logs] == [("two", "B")]
