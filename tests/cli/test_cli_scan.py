"""`lakelog scan` and `schema`: rows and columns of a table, and what becomes of a conflict."""

from __future__ import annotations

import re

import lakelog
import pyarrow as pa
import pytest
from cli_cases import TOKEN, body


def test_schema(cli, weather):
    assert body(cli("schema", weather, "weather", "hourly")) == [
        "COLUMN     TYPE                   NULLABLE  FILES",
        "origin     string                 yes           5",
        "time_hour  timestamp[ms, tz=UTC]  yes           5",
        "temp       double                 yes           4",
        "hour       int64                  yes           5",
        "",
        "5 of 5 files differ",
        "",
        "FILES  WRITERS   DIFFERENCE",
        "    4  EWR, JFK  hour is int32",
        "    1  JFK       no temp",
        "",
        "as of  EWR=3,JFK=2",
        TOKEN,
    ]


def test_schema_where_all_agree(cli, weather):
    lines = body(cli("schema", weather, "weather", "hourly", "--as-of", "EWR=2"))
    assert "all 3 files agree" in lines


def test_schema_as_json(cli, weather):
    found = cli("schema", weather, "weather", "hourly", "-o", "json").json
    names = ["table", "conflict", "columns", "key", "variants", "as_of", "token"]
    assert list(found) == names
    assert found["columns"][3] == {
        "column": "hour", "type": "int64", "nullable": True, "files": 5,
    }  # fmt: skip
    assert found["variants"][0] == {
        "files": 4,
        "writers": {"EWR": 3, "JFK": 1},
        "missing": [],
        "types": {"hour": "int32"},
    }
    assert found["as_of"] == {"EWR": 3, "JFK": 2}


def test_a_schema_conflict_is_shown_and_then_an_error(cli, own_weather):
    with (
        lakelog.open_catalog(own_weather).writer("LGA", "weather") as writer,
        writer.transaction() as tx,
    ):
        tx.write("hourly", pa.table({"hour": ["noon"]}))
    result = cli("schema", own_weather, "weather", "hourly", "-o", "json")
    assert result.code == 4
    assert "'LGA'" in result.json["conflict"]
    kinds = {column["column"]: column["type"] for column in result.json["columns"]}
    assert set(kinds["hour"].split(" | ")) == {"int32", "int64", "string"}
    assert result.err.startswith("lakelog: error: Column 'hour'")
    tables = cli("tables", own_weather, "weather")
    assert tables.code == 0, "one table's conflict doesn't hide the others"
    assert tables.err.startswith("lakelog: warning: Column 'hour'")
    assert "stations" in tables.out


SCAN = """\
origin  time_hour                 temp  hour
EWR     2013-06-30T00:00:00.000Z  60.5     0
EWR     2013-06-30T01:00:00.000Z  null     1
EWR     2013-06-30T02:00:00.000Z  62.5     2
"""


def test_scan(cli, weather):
    everything = cli("scan", weather, "weather", "hourly")
    assert everything.out.startswith(SCAN)
    assert everything.out.count("\n") == 13
    assert cli("scan", weather, "weather", "hourly", "-n", "3").out == SCAN
    assert cli("scan", weather, "weather", "hourly", "-n", "0").out == "(no rows)\n"


def test_scan_as_json_and_csv(cli, weather):
    rows = cli("scan", weather, "weather", "hourly", "-n", "2", "-o", "json").json["rows"]
    assert rows == [
        {"origin": "EWR", "time_hour": "2013-06-30T00:00:00.000Z", "temp": 60.5, "hour": 0},
        {"origin": "EWR", "time_hour": "2013-06-30T01:00:00.000Z", "temp": None, "hour": 1},
    ]
    result = cli("scan", weather, "weather", "hourly", "-o", "csv", "-c", "hour,temp", "-n", "2")
    assert result.out == "hour,temp\n0,60.5\n1,\n"


def test_scan_gives_the_rows_that_the_library_gives(cli, weather):
    rows = cli("scan", weather, "weather", "hourly", "-c", "origin,hour,temp", "-o", "json").json[
        "rows"
    ]
    table = lakelog.open_catalog(weather).snapshot("weather").to_arrow("hourly")
    assert rows == table.select(["origin", "hour", "temp"]).to_pylist()


def test_scan_of_columns_whose_names_hold_commas(cli, tmp_path):
    with lakelog.open_catalog(str(tmp_path)).writer("W", "db") as w, w.transaction() as tx:
        tx.write("t", pa.table({"a,b": [1], " c": [2], "d": [3]}))
    assert cli("scan", tmp_path, "db", "t", "-c", "a,b", "-c", "d, c", "-o", "csv").out == (
        '"a,b",d," c"\n1,3,2\n'
    )
    assert cli("scan", tmp_path, "db", "t", "-c", "d,d").code == 2
    assert cli("scan", tmp_path, "db", "t", "-c", "d,").code == 2
    assert cli("scan", tmp_path, "db", "t", "-c", "x").code == 2


@pytest.fixture
def conflicting(tmp_path) -> str:
    """A table whose column y is a text in one file and a number in the other."""
    with lakelog.open_catalog(str(tmp_path)).writer("W", "db") as writer:
        for y in ("text", 1):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"x": [1], "y": [y], "a,b": [2]}), on_conflict="allow")
    return str(tmp_path)


def test_a_scan_needs_types_to_agree_in_the_columns_asked_for_alone(cli, conflicting):
    assert cli("scan", conflicting, "db", "t").code == 4
    assert cli("scan", conflicting, "db", "t", "-c", "y").code == 4
    assert cli("scan", conflicting, "db", "t", "-c", "x", "-o", "csv").out == "x\n1\n1\n"
    both = cli("scan", conflicting, "db", "t", "-c", "a,b", "-c", "x", "-o", "csv")
    assert both.out == '"a,b",x\n2,1\n2,1\n'
    assert cli("scan", conflicting, "db", "t", "-c", "z").code == 2


def test_a_conflict_names_a_file_of_each_side(cli, conflicting):
    paths = {
        row["path"] for row in cli("files", conflicting, "db", "t", "-o", "json").json["files"]
    }
    err = cli("schema", conflicting, "db", "t").err
    assert set(re.findall(r"\((data/\S+) for one\)", err)) == paths
    assert len(paths) == 2
