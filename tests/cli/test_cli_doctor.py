"""`lakelog doctor`: what it finds, what it writes, and its exit code."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
from cli_cases import objects
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import LogObject
from lakelog.catalog.read.health import examine_store
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.store import Capabilities, keep_finding, kept_key, open_store, probe
from lakelog.store.local import LocalStore
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import PlainStore
from lakelog.testing.logs import LogBuilder, add_action, schema_action

SOUND = """\
catalog        URL
backend        file
put-if-absent  works
probe          of 2 that raced for each of 5 names one won, and what it wrote stayed
names          told apart byte by byte
probed with    objects of its own below EWR/_probe/

meaning  Commits race for one name, which only one can win: a log can't fork, and several processes
         may share one.

DATABASE  WRITER  HEAD  COMMITTED AT                 EPOCH  LOG       INCARNATION
weather   EWR        3  2013-06-30T04:00:00.000000Z      1  38b4e652            1
weather   JFK        2  2013-06-30T07:00:00.000000Z      1  237cb11f            1

no problems found
what the logs hold was not read: lakelog check does
"""


def test_a_sound_catalog(cli, own_weather):
    before = objects(own_weather)
    result = cli("doctor", own_weather)
    assert result.out.replace(own_weather, "URL") == SOUND
    assert (result.code, result.err) == (0, "")
    assert objects(own_weather) == before, "the objects that were raced for are gone again"


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
        "url", "backend", "put_if_absent", "probe_prefix", "probe", "meaning", "names", "logs",
        "problems", "notes",
    ]  # fmt: skip
    (log,) = found["logs"]
    assert log == {
        "database": "weather",
        "writer": "EWR",
        "head": 3,
        "committed_at": "2013-06-30T04:00:00.000000Z",
        "epoch": 1,
        "log_id": "38b4e652e44da7f2370d9e260e271365",
        "incarnation": 1,
        "named_writer": "EWR",
        "named_database": "weather",
        "sealed_for": None,
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
    assert path.name in problem["text"]
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
    assert [log["head"] for log in result.json["logs"]] == [3, 2]
    assert "lakelog check URL weather --writer EWR" in problem["hint"]


def test_a_lost_log_is_a_problem(cli, own_weather):
    shutil.rmtree(Path(own_weather, "EWR/weather/transactions"))
    result = cli("doctor", own_weather, "-o", "json")
    assert result.code == 1
    (problem,) = result.json["problems"]
    assert (problem["writer"], problem["database"]) == ("EWR", "weather")
    assert "`lakelog repair URL weather --writer EWR --execute`" in problem["hint"]
    assert [log["head"] for log in result.json["logs"]] == [3, 2]  # as the mirror says
    assert cli("doctor", own_weather, "weather", "--writer", "EWR").code == 1
    assert cli("doctor", own_weather, "weather", "--writer", "JFK").code == 0


def test_every_log_is_lost(cli, own_weather):
    for log in Path(own_weather).glob("*/weather/transactions"):
        shutil.rmtree(log)
    result = cli("doctor", own_weather, "-o", "json")
    assert (result.code, len(result.json["problems"]), len(result.json["logs"])) == (1, 2, 2)


def test_both_copies_of_a_log_are_lost(cli, own_weather):
    shutil.rmtree(Path(own_weather, "EWR/weather/transactions"))
    shutil.rmtree(Path(own_weather, "EWR/weather/mirror"))
    result = cli("doctor", own_weather, "-o", "json")
    said = result.json["problems"] + result.json["notes"]
    (said,) = [item for item in said if item["writer"] == "EWR"]
    assert "`lakelog rebuild URL weather --writer EWR`" in said["hint"]
    assert [log["writer"] for log in result.json["logs"]] == ["JFK"]


def test_files_of_a_first_commit_under_way_are_a_note(cli, own_weather):
    catalog = lakelog.open_catalog(own_weather)
    with catalog.writer("NEW", "weather") as writer:
        writer.transaction().write("t", pa.table({"a": [1]}))
        result = cli("doctor", own_weather, "-o", "json")
    assert (result.code, result.json["problems"]) == (0, [])
    (note,) = [note for note in result.json["notes"] if note["writer"] == "NEW"]
    assert "lakelog rebuild" in note["hint"]


def test_a_fork(cli, own_weather, log_object):
    path = log_object("EWR", 3)
    twin = path.with_name(path.name.replace(path.name.split(".")[1], "deadbeef"))
    twin.write_bytes(path.read_bytes())
    result = cli("doctor", own_weather, "-o", "json")
    assert result.code == 1
    text = " ".join(problem["text"] for problem in result.json["problems"])
    assert path.name in text
    assert twin.name in text


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
    def plain(url, *options):
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


def test_a_renamed_log_is_a_problem_until_it_is_adopted(cli, own_weather):
    Path(own_weather, "EWR").rename(Path(own_weather, "LGA"))
    result = cli("doctor", own_weather, "-o", "json")
    assert result.code == 1
    (problem,) = result.json["problems"]
    assert (problem["writer"], problem["database"]) == ("LGA", "weather")
    assert "says that it is that of EWR/weather" in problem["text"]
    assert "`lakelog adopt-name URL weather --writer LGA`" in problem["hint"]
    (_, log) = result.json["logs"]
    assert log["named_writer"] == "EWR"
    adopt = ("adopt-name", own_weather, "weather", "--writer", "LGA", "--execute")
    assert cli(*adopt).code == 0
    assert cli("doctor", own_weather).code == 0


def test_the_same_log_twice_is_a_problem_of_the_copy(cli, own_weather):
    shutil.copytree(Path(own_weather, "EWR"), Path(own_weather, "AAA"))
    problems = cli("doctor", own_weather, "-o", "json").json["problems"]
    assert {problem["writer"] for problem in problems} == {"AAA"}
    assert any("the same log as EWR/weather" in problem["text"] for problem in problems)
    assert cli("adopt-name", own_weather, "weather", "--writer", "AAA", "--execute").code == 0
    (problem,) = cli("doctor", own_weather, "-o", "json").json["problems"]
    assert "rows would count twice" in problem["text"]


def test_the_same_log_in_two_databases_is_a_note(cli, own_weather):
    shutil.copytree(Path(own_weather, "EWR/weather"), Path(own_weather, "EWR/copy"))
    assert cli("adopt-name", own_weather, "copy", "--writer", "EWR", "--execute").code == 0
    result = cli("doctor", own_weather, "-o", "json")
    assert (result.code, len(result.json["notes"])) == (0, 1)
    assert "the same log as" in result.json["notes"][0]["text"]


def test_ids_that_differ_only_in_case_are_a_note(cli, own_weather):
    Path(own_weather, "ewr").mkdir()
    if len(list(Path(own_weather).iterdir())) < 3:
        pytest.skip("this file system folds case")
    Path(own_weather, "ewr", "notes").write_text("x")
    Path(own_weather, "JFK", "Weather").mkdir()
    Path(own_weather, "JFK", "Weather", "notes").write_text("x")
    result = cli("doctor", own_weather, "-o", "json")
    assert result.code == 0
    assert [note["text"] for note in result.json["notes"]] == [
        "Writers differ only in case: EWR, ewr",
        "Databases of JFK differ only in case: Weather, weather",
    ]


def put_log(url: Path, *builders: LogBuilder) -> None:
    store = open_store(str(url))
    for builder in builders:
        for name, data in builder.objects:
            store.put(f"W/db/transactions/{name}", data)
    store.put("W/db/data/_/t/a.parquet", bytes(110))  # as `add_action` says


def sealed_log() -> LogBuilder:
    builder = LogBuilder("W", "db")
    builder.commit(schema_action(), add_action("data/_/t/a.parquet"))
    builder.commit(wire.Action(seal=wire.Seal(next_incarnation=2, rebuild_id=b"\2" * 16)))
    return builder


def test_a_seal_without_its_rebuild(cli, tmp_path):
    put_log(tmp_path, sealed_log())
    result = cli("doctor", tmp_path, "-o", "json")
    assert result.code == 1
    (problem,) = result.json["problems"]
    assert "was sealed for a rebuild, and incarnation 2" in problem["text"]
    assert problem["key"].endswith(".transaction")
    assert "`lakelog rebuild URL db --writer W --execute`" in problem["hint"]
    assert result.json["logs"][0]["sealed_for"] == 2


def test_a_log_that_can_not_be_read(cli, tmp_path):
    name = LogObject(2, 0, "00000000", "transaction").name
    (tmp_path / "W/db/transactions").mkdir(parents=True)
    (tmp_path / "W/db/transactions" / name).write_bytes(b"junk")
    for args in ((), ("db",), ("db", "--writer", "W")):
        result = cli("doctor", tmp_path, *args, "-o", "json")
        assert result.code == 1
        assert name in result.json["problems"][0]["text"]
        assert result.json["logs"][0]["head"] is None


def test_a_log_stamped_by_a_clock_far_ahead_of_the_store(cli, tmp_path, monkeypatch):
    put_log(tmp_path, sealed_log())
    later = dt.datetime.fromtimestamp(0, dt.UTC)
    monkeypatch.setattr(LocalStore, "server_time", lambda self: later)
    notes = cli("doctor", tmp_path, "-o", "json").json["notes"]
    assert ["by the store's clock" in note["text"] for note in notes] == [True]


def test_a_writer_that_took_a_plain_store_for_an_exclusive_one_is_told():
    """The finding that it kept is put right, so that openings to come know better."""
    store = PlainStore(MemoryStore("doctor"))
    keep_finding(store, "w/", Capabilities("memory", True, "two won, and nobody saw it"))
    assert probe(PlainStore(store.inner), "w/").put_if_absent, "an opening believes it"
    before = {info.key for info in store.list("")}
    found, detail, (problem,) = examine_store(store, "w", ["w", "another"])
    assert not found.put_if_absent
    assert "ignored" in detail
    assert problem.severity == "problem"
    assert "'w' was opened as if it did" in problem.what
    assert problem.key == kept_key(store, "w/")
    assert not probe(PlainStore(store.inner), "w/").put_if_absent
    assert {info.key for info in store.list("")} == before


def test_a_writer_that_takes_an_exclusive_store_for_a_plain_one_is_a_note():
    store = MemoryStore("doctor's")
    keep_finding(store, "w/", Capabilities("memory", False, "two won"))
    found, _, (note,) = examine_store(store, "w", ["w"])
    assert found.put_if_absent
    assert note.severity == "note"
    assert (note.key, "two won" in note.what) == (kept_key(store, "w/"), True)
    assert not probe(store, "w/").put_if_absent, "who trusts the new finding deletes the old one"
