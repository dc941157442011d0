"""`lakelog schema --evolve` and `--history`, and what `lakelog show` makes of a definition."""

from __future__ import annotations

from cli_cases import body, objects
from lakelog.catalog.catalog import open_catalog

CHANGE = ("--evolve", "--drop", "temp", "--add", "note string 'n/a yet'", "--add", "ok bool",
          "--rename", "origin=airport", "--order", "note")  # fmt: skip


def test_a_plan_first_then_the_commits(cli, own_weather):
    before = objects(own_weather)
    result = cli("schema", own_weather, "weather", "hourly", *CHANGE)
    assert result.code == 0
    assert "DRY RUN: nothing was changed; add --execute" in result.err
    rows = {line.split()[0] for line in result.out.splitlines()[1:]}
    assert rows == {"EWR", "JFK"}
    assert "note string, airport string" in result.out
    assert objects(own_weather) == before
    done = cli("schema", own_weather, "weather", "hourly", *CHANGE, "--execute", "-o", "json").json
    assert done["token"] == open_catalog(own_weather).snapshot("weather").token
    revisions = open_catalog(own_weather).snapshot("weather").cut.revisions
    assert {row["writer"]: row["revision"] for row in done["logs"]} == revisions == done["as_of"]
    lines = body(cli("schema", own_weather, "weather", "hourly"))
    assert [line.split()[0] for line in lines[1:4]] == ["note", "airport", "time_hour"]
    rows = cli("scan", own_weather, "weather", "hourly", "-o", "json").json["rows"]
    assert {row["note"] for row in rows} == {"n/a yet"}
    assert "temp" not in rows[0]


def test_only_one_writer_s(cli, own_weather):
    asked = ("--evolve", "--drop", "temp", "--writer", "JFK", "--execute", "-o", "json")
    (done,) = cli("schema", own_weather, "weather", "hourly", *asked).json["logs"]
    assert done["writer"] == "JFK"
    assert "temp" in open_catalog(own_weather).snapshot("weather").schema("hourly").names


def test_the_history_tells_each_schema_and_definition(cli, own_weather):
    asked = ("schema", own_weather, "weather", "hourly")
    cli(*asked, "--evolve", "--rename", "temp=degrees", "--writer", "JFK", "--execute")
    cli(*asked, "--evolve", "--drop", "degrees", "--writer", "JFK", "--execute")
    found = cli(*asked, "--history", "--writer", "JFK", "-o", "json").json
    told = found["history"]
    defined = [row for row in told if row["kind"] == "definition"]
    assert [row["revision"] for row in told] == sorted(row["revision"] for row in told)
    (named,) = {
        row["columns"] for row in told if row["kind"] == "schema" and "temp" in row["columns"]
    }
    (temp,) = [one for one in named.split(", ") if one.endswith(" temp double")]
    assert temp.replace("temp", "degrees") in defined[0]["columns"].split(", ")
    assert "degrees" not in defined[1]["columns"]
    assert all(row["committed_at"] for row in told)
    catalog = open_catalog(own_weather)
    with catalog.writer("JFK", "weather") as writer:
        writer.checkpoint()
    assert cli(*asked, "--history", "--writer", "JFK", "-o", "json").json == found


def test_what_can_t_be_is_refused(cli, own_weather):
    asked = ("schema", own_weather, "weather", "hourly")
    for more, code, said in (
        (("--evolve",), 2, "No change of the columns is given"),
        (("--add", "x int64"), 2, "--evolve is missing"),
        (("--execute",), 2, "--evolve is missing"),
        (("--evolve", "--add", "x"), 2, "--add can't be 'x'"),
        (("--evolve", "--add", "x wrong"), 2, "no type 'wrong'"),
        (("--evolve", "--add", "x int64 five"), 2, "five is no int64"),
        (("--evolve", "--rename", "temp"), 2, "--rename can't be"),
        (("--evolve", "--drop", "nope"), 2, "no column 'nope'"),
        (("--evolve", "--add", "temp int64"), 4, "has a column 'temp'"),
        (("--evolve", "--drop", "temp", "--as-of", "EWR=1"), 2, "takes no --as-of"),
        (("--history", "--as-of", "EWR=1"), 2, "takes no --as-of"),
    ):
        result = cli(*asked, *more)
        assert (result.code, said in result.err) == (code, True), (more, result.err)


def test_show_tells_what_a_transaction_and_a_segment_define(cli, own_weather):
    asked = ("schema", own_weather, "weather", "hourly")
    added = ("--add", "note string none", "--drop", "temp", "--writer", "JFK", "--execute")
    cli(*asked, "--evolve", *added)
    catalog = open_catalog(own_weather)
    revision = catalog.snapshot("weather").cut.revisions["JFK"]
    shown = cli("show", own_weather, "weather", "--writer", "JFK", "--revision", str(revision))
    assert shown.code == 0, shown.err
    assert "note string default none" in shown.out
    assert "temp" not in shown.out
