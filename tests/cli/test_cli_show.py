"""`lakelog show`: every field of one object."""

from __future__ import annotations

import csv
import io
import random
import re
import shutil
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
from cli_cases import both_copies
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.store import open_store
from lakelog.testing.logs import LogBuilder, add_action, schema_action

SHOW = """\
transaction      EWR/weather/transactions/998-999999999998-1.e93b5e71.transaction
log id           38b4e652e44da7f2370d9e260e271365
incarnation      1
revision         1
committed at     2013-06-30T02:00:00.000000Z
epoch            1
uuid             e93b5e71c279e43c9f0ded2b16864d96
digest           DIGEST
previous uuid    648025039cb2e4bf77d9869cccf3fdad
previous digest  DIGEST
successor uuid   00a5a54a157d2a833a1047895d94c5c6

append, 1 action
  transaction id  7504d90e945de2e8f54ee781cc75f636
  application     load version 7
  summary         lakelog.table_count: 1, lakelog.tables: ["hourly"], source: file

add     data/day 2/hourly/1-7504d90e945de2e8f54ee781cc75f636-0.parquet
        table       hourly
        partition   day 2
        holds       3 rows, SIZE
        row groups  1, footer of N bytes
        clock       1372557600000000 to 1372557600000000
        schema      ae82fcda086c604e2744ced62dbb268a
        statistics  of 4 columns
        COLUMN     NULLS  MIN                       MAX                       NO NAN
        origin         0  EWR                       EWR                       -
        time_hour      0  2013-06-30T03:00:00.000Z  2013-06-30T05:00:00.000Z  -
        temp           1  60.5                      62.5                      yes
        hour           0  3                         5                         -
"""


def without_digests(text: str) -> str:
    """Digests, and lengths of footers, differ between versions of pyarrow."""
    text = re.sub(r"digest( +)[0-9a-f]{64}", r"digest\1DIGEST", text)
    return re.sub(r"footer of [\d,]+ bytes", "footer of N bytes", text)


def test_a_transaction_as_text(cli, weather):
    result = cli("show", weather, "weather", "--writer", "EWR", "-r", "1", "--statistics")
    assert without_digests(result.text) == SHOW
    short = cli("show", weather, "weather", "--writer", "EWR", "-r", "1")
    assert without_digests(short.text) == SHOW[: SHOW.index("        COLUMN ")]


def test_a_transaction_as_json_says_what_the_object_says(cli, weather):
    found = cli("show", weather, "weather", "--writer", "EWR", "-o", "json").json
    log = LogReader(open_store(weather), "EWR", "weather")
    decoded = log.transaction(log.names().transactions[3][0])
    message = decoded.message
    assert found["kind"] == "transaction"
    assert found["revision"] == message.revision == 3
    assert found["digest"] == decoded.digest.hex()
    assert found["previous_uuid"] == message.previous_uuid.hex()
    assert found["members"][0]["operation"] == "overwrite"
    remove, add = found["actions"]
    assert (remove["kind"], add["kind"]) == ("remove", "add")
    assert list(remove) == list(add), "all actions have the same keys"
    assert (remove["table"], add["table"]) == ("hourly", "hourly")
    assert (found["log_id"], found["incarnation"]) == (decoded.log.log_id.hex(), 1)
    assert found["slot_seed"] == message.commit.slot_seed.hex()
    for one in (message, message.commit):
        names = {field.name.removesuffix("_us") for field in one.DESCRIPTOR.fields} - {"commit"}
        assert names <= set(found)
    assert {field.name for field in wire.Add.DESCRIPTOR.fields} <= set(add)
    assert add["footer_digest"] == message.actions[1].add.footer_digest.hex()
    assert add["footer_bytes"] == message.actions[1].add.footer_bytes
    assert add["statistics"][1] == {
        "column": "time_hour",
        "nulls": 0,
        "min": "2013-06-30T06:00:00.000Z",
        "max": "2013-06-30T07:00:00.000Z",
        "min_exact": True,
        "max_exact": True,
        "no_nan": False,
    }
    assert [one["column"] for one in add["statistics"] if one["no_nan"]] == ["temp"]


def test_a_file_that_comes_back_says_which_revision_first_added_it(cli, weather, tmp_path):
    lake = shutil.copytree(weather, tmp_path / "lake")
    args = ("show", lake, "weather", "--writer", "EWR")
    removed, _ = cli(*args, "-r", "3", "-o", "json").json["actions"]
    lakelog.open_catalog(lake).restore("weather", to={"EWR": 2}, writers=["EWR"], execute=True)
    text = cli(*args).text
    back = text[text.index(f"add     {removed['path']}") :]
    assert "first added  by revision " in back
    adds = [one for one in cli(*args, "-o", "json").json["actions"] if one["kind"] == "add_batch"]
    assert len(adds) == 1
    assert adds[0]["original_revision"] in range(3)


def test_a_transaction_as_csv_is_its_actions(cli, weather):
    out = cli("show", weather, "weather", "--writer", "EWR", "-r", "0", "-o", "csv").out
    identity, schema, add = csv.DictReader(io.StringIO(out))
    assert (identity["kind"], schema["kind"], add["kind"]) == ("identity", "schema", "add")
    assert identity["fields"] == '{"writer": "EWR", "database": "weather", "begun_at": null}'
    assert '"time_hour": "timestamp[ms, tz=UTC]"' in schema["fields"]
    assert add["path"].startswith("data/day 1/hourly/")


def test_a_checkpoint(cli, weather):
    args = ("show", weather, "weather", "--writer", "EWR", "--checkpoint")
    found = cli(*args, "-o", "json").json
    assert found["kind"] == "checkpoint"
    assert found["revision"] == 2
    assert (found["writer"], found["database"], found["incarnation"]) == ("EWR", "weather", 1)
    assert found["counts"]["rows"] == 9
    references, *others = found["references"]
    assert (references["kind"], references["row_count"]) == ("references", len(others))
    assert [(r["kind"], r["part"], r["run"], r["row_count"]) for r in others] == [
        ("files", 0, 0, 3), ("statistics", 0, None, 12), ("schemas", None, None, 1),
        ("applications", None, None, 1), ("history", None, None, 3),
    ]  # fmt: skip
    files, statistics, *_, history = others
    assert (files["first_table"], files["dead_rows"], files["total_rows"]) == ("hourly", 0, 9)
    assert statistics["columns"] == ["hour", "origin", "temp", "time_hour"]
    assert (history["first_revision"], history["last_revision"]) == (0, 2)
    assert found["size_bytes"] == (Path(weather) / found["key"]).stat().st_size
    text = cli(*args, "--revision", "3").text
    assert "revision        2\n" in text, "the newest at or before"
    assert "live            3 files, 9 rows, SIZE" in text
    rows = list(csv.DictReader(io.StringIO(cli(*args, "-o", "csv").out)))
    assert rows[1]["first_table"] == "hourly"
    listed = [" ".join(line.split()) for line in cli(*args).text.splitlines()]
    assert "files 0 0 3 0 SIZE hourly inline" in listed
    assert "history - - 3 - SIZE 0 to 2 inline" in listed


def test_an_object_by_its_key(cli, weather):
    by_number = cli("show", weather, "weather", "--writer", "JFK", "-r", "2", "-o", "json")
    by_key = cli("show", weather, by_number.json["key"], "-o", "json")
    assert by_key == by_number


@pytest.mark.parametrize(
    "key",
    [
        "EWR/weather/transactions/notes.txt",
        "EWR/weather/data/day 1/hourly/x.parquet",
        "EWR/weather/transactions/00000000000000000001.50a4a3a6.transaction",
        "EWR/transactions/998-999999999998-1.e93b5e71.transaction",
        "EWR/weather/segments/notes.segment",
        f"EWR/weather/transactions/{'0' * 64}.segment",
        f"EWR/segments/{'0' * 64}.segment",
        "EWR/weather/../../../etc/passwd",
        "/etc/passwd",
    ],
)
def test_what_is_no_key_of_a_log_object(cli, weather, key):
    result = cli("show", weather, key)
    assert result.code == 2
    assert result.out == ""


def test_the_only_writer_needs_no_name_and_several_do(cli, weather, tmp_path):
    result = cli("show", weather, "weather")
    assert result.code == 2
    assert "hint: Choose one with --writer: EWR, JFK\n" in result.err
    with lakelog.open_catalog(str(tmp_path)).writer("W", "db") as w, w.transaction() as tx:
        tx.write("t", pa.table({"a": [1]}))
    assert cli("show", tmp_path, "db").code == 0


def test_what_is_not_there(cli, weather):
    result = cli("show", weather, "weather", "--writer", "EWR", "--revision", "9")
    assert result.code == 3
    assert result.err == (
        "lakelog: error: EWR/weather has no transaction 9\n"
        "hint: Its newest revision is 3; readable are 0-3\n"
    )
    result = cli("show", weather, "weather", "--writer", "JFK", "--checkpoint")
    assert result.code == 3
    assert "`lakelog checkpoint --execute` writes one" in result.err


def test_a_fork_names_both(cli, own_weather, log_object):
    path = log_object("EWR", 3)
    twin = path.with_name(path.name.replace(path.name.split(".")[1], "deadbeef"))
    twin.write_bytes(path.read_bytes())
    result = cli("show", own_weather, "weather", "--writer", "EWR", "-r", "3")
    assert result.code == 4
    assert path.name in result.err
    assert twin.name in result.err


def test_one_object_can_be_read_whatever_else_is_broken(cli, own_weather, log_object):
    for copy in both_copies(log_object("EWR", 0)):
        copy.write_bytes(b"broken")
    log_object("EWR", 2, "checkpoint").write_bytes(b"broken")
    found = cli("show", own_weather, "weather", "--writer", "EWR", "-r", "1", "-o", "json")
    assert found.code == 0
    add = found.json["actions"][0]
    assert add["row_count"] == 3
    assert add["statistics"] is None, "its schema stood in the broken one"


def many_files(count: int) -> list[wire.Action]:
    group = wire.RowGroup(row_count=10)
    group.columns.add(column=0, null_count=1, min=b"\1" + b"\0" * 7, min_exact=True)
    return [
        add_action(f"data/_/t/{n:04d}.parquet", row_groups=[group] if n else [])
        for n in range(count)
    ]


def test_a_batch_of_files_shows_each(cli, tmp_path):
    builder = LogBuilder("W", "db")
    builder.commit(schema_action(), *many_files(300))
    store = open_store(str(tmp_path))
    for name, data in builder.objects:
        store.put(f"W/db/transactions/{name}", data)
    result = cli("show", tmp_path, "db", "-o", "json")
    assert result.err == ""
    found = result.json
    files = [action for action in found["actions"] if action["kind"] == "add_batch"]
    assert len({file["action"] for file in files}) == 1
    assert [file["path"] for file in files] == [f"data/_/t/{n:04d}.parquet" for n in range(300)]
    assert list(files[0]) == list(found["actions"][0])
    assert files[0]["statistics"] is None
    assert files[1]["statistics"] == [
        {
            "column": "a",
            "nulls": 1,
            "min": 1,
            "max": None,
            "min_exact": True,
            "max_exact": None,
            "no_nan": False,
        }
    ]
    assert "and 252 more; --output csv lists them all" in cli("show", tmp_path, "db").out


def test_actions_without_a_form_of_their_own_are_shown_as_they_are(cli, tmp_path):
    builder = LogBuilder("W", "db")
    upgrade = wire.Upgrade(required_writer_features=["time-machine"])
    builder.commit(wire.Action(upgrade=upgrade), wire.Action(optional=True))
    store = open_store(str(tmp_path))
    for name, data in builder.objects:
        store.put(f"W/db/transactions/{name}", data)
    _, upgrade, unknown = cli("show", tmp_path, "db", "-o", "json").json["actions"]
    assert upgrade["fields"] == {
        "required_reader_features": [],
        "required_writer_features": ["time-machine"],
    }
    assert unknown["kind"] == "unknown"
    assert "time-machine" in cli("show", tmp_path, "db").out


def test_a_seal_and_what_is_forgotten(cli, tmp_path):
    builder = LogBuilder("W", "db")
    name = wire.SchemaName(table="t", fingerprint=b"\1" * 16)
    forget = wire.Forget(applications_before_us=1, tables=["old"], schemas=[name])
    builder.commit(wire.Action(forget=forget))
    builder.commit(wire.Action(seal=wire.Seal(next_incarnation=2, rebuild_id=b"\2" * 16)))
    store = open_store(str(tmp_path))
    for key, data in builder.objects:
        store.put(f"W/db/transactions/{key}", data)
    _, forget = cli("show", tmp_path, "db", "-r", "0", "-o", "json").json["actions"]
    assert forget["fields"] == {
        "applications_before": "1970-01-01T00:00:00.000001Z",
        "tables": ["old"],
        "schemas": [{"table": "t", "fingerprint": "01" * 16}],
    }
    (seal,) = cli("show", tmp_path, "db", "-o", "json").json["actions"]
    assert seal["fields"] == {"next_incarnation": 2, "rebuild_id": "02" * 16}
    text = cli("show", tmp_path, "db").out
    assert f"seal\n        next incarnation  2\n        rebuild id        {'02' * 16}\n" in text


@pytest.fixture(scope="module")
def spilled(tmp_path_factory):
    """A log whose checkpoint has segments of its own, and the names of these by kind."""
    url = str(tmp_path_factory.mktemp("spilled"))
    drawn = random.Random(1)
    with lakelog.open_catalog(url).writer("W", "db") as writer:
        with writer.transaction() as tx:
            for _ in range(60):
                row = {f"c{n}": [drawn.randbytes(32).hex()] for n in range(40)}
                tx.write("t", pa.table(row))
        assert writer.checkpoint().segments > 0
    return url


def test_a_segment_by_its_name(cli, spilled):
    found = cli("show", spilled, "db", "--checkpoint", "-o", "json").json
    objects = {item["kind"]: item for item in found["references"] if item["name"]}
    assert objects, "something is large enough"
    for kind, item in objects.items():
        key = f"W/db/segments/{item['name']}"
        segment = cli("show", spilled, key, "-o", "json").json
        assert (segment["kind"], segment["holds"], segment["key"]) == ("segment", kind, key)
        assert (segment["log_id"], segment["incarnation"]) == (found["log_id"], 1)
        assert segment["size_bytes"] == item["length"] == (Path(spilled) / key).stat().st_size
        assert f"{segment['digest']}.segment" == item["name"]
        assert len(segment["rows"]) == segment["row_count"] == item["row_count"]
        rows = list(csv.DictReader(io.StringIO(cli("show", spilled, key, "-o", "csv").out)))
        assert [list(row) for row in rows[:1]] == [list(segment["rows"][0])]
        assert f"segment      {key}\n" in cli("show", spilled, key).out
    statistics = f"W/db/segments/{objects['statistics']['name']}"
    first = cli("show", spilled, statistics, "-o", "json").json["rows"][0]
    assert (first["column"], first["row"], first["null_count"]) == ("c0", 0, 0)
    assert objects["statistics"]["name"] in cli("show", spilled, "db", "--checkpoint").out


def test_a_damaged_segment_and_one_that_is_not_there(cli, spilled, tmp_path):
    url = tmp_path / "copy"
    shutil.copytree(spilled, url)
    path = next((url / "W/db/segments").iterdir())
    key = str(path.relative_to(url))
    body = bytearray(path.read_bytes())
    body[-1] ^= 1
    path.write_bytes(body)
    assert cli("show", url, key).code == 5
    other = path.with_name("0" * 64 + ".segment")
    other.write_bytes((Path(spilled) / key).read_bytes())
    result = cli("show", url, str(other.relative_to(url)))
    assert result.code == 5
    assert "is not the segment that its name says" in result.err
    assert cli("show", url, f"W/db/segments/{'1' * 64}.segment").code == 3
