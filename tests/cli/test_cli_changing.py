"""`diff`, `changes`, `restore`, `remove`, `drop`: what they print, write and refuse."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def lines(text):
    return text.splitlines()


def test_diff_for_people(cli, weather):
    done = cli("diff", weather, "weather", "EWR=2,JFK=1", "now")
    assert done.code == 0
    found = lines(done.text)
    assert found[0].split() == ["CHANGE", "TABLE"]
    assert found[1].split() == ["added", "stations"]
    heads = ["TABLE", "WRITER", "FILES", "ADDED", "FILES", "REMOVED", "ROWS", "ADDED"]
    assert found[3].split()[:8] == heads
    assert found[4].split()[:6] == ["hourly", "EWR", "1", "1", "2", "3"]
    files = [line.split() for line in found if line.startswith(("added ", "removed "))]
    assert [words[:3] for words in files[1:]] == [
        ["removed", "EWR", "hourly"],
        ["added", "EWR", "hourly"],
        ["added", "JFK", "stations"],
    ]
    assert [line.split()[0] for line in found[-2:]] == ["before", "after"]


def test_diff_of_one_table_in_every_form(cli, weather):
    cuts = ("EWR=1,JFK=0", "EWR=1,JFK=1")
    found = cli("diff", weather, "weather", "hourly", *cuts, "--output", "json").json
    assert found["tables"] == []
    changed = {(s["column"], s["change"]): (s["before"], s["after"]) for s in found["schemas"]}
    assert changed == {("hour", "changed"): ("int32", "int32 or int64")}
    assert [row["rows_added"] for row in found["rows"]] == [2]
    assert found["before"].startswith("ll1-")
    (file,) = found["files"]
    assert (file["change"], file["writer"], file["row_count"]) == ("added", "JFK", 2)
    told = cli("diff", weather, "weather", "hourly", *cuts, "--output", "csv")
    (row,) = csv.DictReader(io.StringIO(told.out))
    assert row["path"] == file["path"]


def test_nothing_differs(cli, weather):
    done = cli("diff", weather, "weather", "now", "now")
    assert (done.code, lines(done.out)[0]) == (0, "nothing differs")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("diff", "weather", "EWR=1"), 2, "CUT"),
        (("diff", "weather", "yesterday", "now"), 2, "no point in time"),
        (("diff", "weather", "nowhere", "EWR=1", "now"), 3, "no"),
        (("diff", "weather", "hourly", "EWR=1", "EWR=99"), 3, "99"),
        (("changes", "weather", "hourly"), 2, "--since"),
        (("changes", "weather", "hourly", "--since", "EWR=3,JFK=2", "--until", "EWR=1"), 2, "JFK"),
        (("restore", "weather"), 2, "--to"),
        (("restore", "weather", "--to", "EWR=1"), 2, "JFK"),
        (("restore", "weather", "nowhere", "--to", "EWR=1,JFK=1"), 3, "nowhere"),
        (("remove", "weather", "hourly", "--writer", "EWR"), 2, "nothing to remove"),
        (("remove", "weather", "hourly", "data/x.parquet"), 2, "--writer"),
        (("remove", "weather", "hourly", "data/x.parquet", "--writer", "EWR"), 4, "not live"),
        (("drop", "weather", "nowhere"), 3, "nowhere"),
        (("drop", "weather", "hourly", "--writer", "LGA"), 3, "LGA"),
    ],
)
def test_what_is_refused(cli, weather, words, code, says):
    command, *rest = words
    done = cli(command, weather, *rest)
    assert (done.code, done.out) == (code, "")
    assert says in done.err


def test_changes_as_rows(cli, weather):
    done = cli(
        *("changes", weather, "weather", "hourly", "--since", "EWR=2,JFK=2"),
        *("--columns", "origin,hour", "--output", "csv"),
    )
    found = list(csv.DictReader(io.StringIO(done.out)))
    assert [(row["_change"], row["_writer"], row["hour"]) for row in found] == [
        *(("delete", "EWR", str(hour)) for hour in (6, 7, 8)),
        *(("insert", "EWR", str(hour)) for hour in (6, 7)),
    ]
    assert {row["_committed_at"] for row in found} == {"2013-06-30T04:00:00.000000Z"}
    done = cli("changes", weather, "weather", "hourly", "--since", "EWR=2,JFK=2", "--limit", "1")
    assert lines(done.out)[0].split()[:4] == ["_change", "_writer", "_revision", "_committed_at"]
    assert len(lines(done.out)) == 2


def test_restore_shows_its_plan_and_writes_nothing(cli, own_weather):
    before = cli("log", own_weather, "weather", "--output", "json").json
    done = cli("restore", own_weather, "weather", "--to", "EWR=2,JFK=1")
    assert done.code == 0
    first = "restore of weather: would remove 2 files, and add 1 file again"
    assert lines(done.out)[0] == first
    assert "DRY RUN: nothing was committed; add --execute" in done.err
    assert cli("log", own_weather, "weather", "--output", "json").json == before
    plan = cli("restore", own_weather, "weather", "--to", "EWR=2,JFK=1", "-o", "json").json
    assert (plan["as_of"], plan["token"]) == (None, None)
    assert plan["dry_run"] is True
    assert [(c["writer"], c["files_removed"], c["files_added"]) for c in plan["changes"]] == [
        ("EWR", 1, 1),
        ("JFK", 1, 0),
    ]
    assert {file["change"] for file in plan["files"]} == {"added", "removed"}
    told = cli("restore", own_weather, "weather", "--to", "EWR=2,JFK=1", "-o", "jsonl")
    assert len(lines(told.out)) == 3


def test_restore_goes_back_and_forth(cli, own_weather):
    token = cli("tables", own_weather, "weather", "--output", "json").json["token"]
    done = cli("restore", own_weather, "weather", "--to", "EWR=2,JFK=1", "--execute")
    assert lines(done.out)[0] == "restore of weather: removed 2 files, and added 1 file again"
    assert [line.split()[-1] for line in lines(done.out)[3:5]] == ["4", "3"]
    files = cli("files", own_weather, "weather", "hourly", "--as-of", "EWR=4,JFK=3", "-o", "json")
    then = cli("files", own_weather, "weather", "hourly", "--as-of", "EWR=2,JFK=1", "-o", "json")
    paths = [{file["path"] for file in told.json["files"]} for told in (files, then)]
    assert paths[0] == paths[1]
    back = cli("restore", own_weather, "weather", "--to", token, "--execute", "-o", "json").json
    after = cli("tables", own_weather, "weather", "--output", "json").json
    assert (back["as_of"], back["token"]) == (after["as_of"], after["token"])
    assert [change["revision"] for change in back["changes"]] == [5, 4]
    told = cli("diff", own_weather, "weather", token, "now")
    assert lines(told.out)[0] == "nothing differs"
    log = cli("log", own_weather, "weather", "--limit", "1", "-o", "json").json
    assert log["commits"][0]["summary"]["lakelog.restore"].startswith("ll1-")


def test_restore_of_one_writer_and_table(cli, own_weather):
    words = ("restore", own_weather, "weather", "hourly", "--to", "EWR=1", "--writer", "EWR")
    done = cli(*words, "--execute", "--output", "json").json
    assert [change["writer"] for change in done["changes"]] == ["EWR"]
    assert (done["table"], done["changes"][0]["files_removed"]) == ("hourly", 1)


def test_nothing_to_do_is_said(cli, own_weather):
    done = cli("restore", own_weather, "weather", "--to", "EWR=3,JFK=2")
    assert lines(done.out)[0] == "restore of weather: nothing to do"
    assert done.err == ""


def test_remove_and_drop(cli, own_weather):
    words = ("remove", own_weather, "weather", "hourly", "--writer", "EWR", "--partition", "day 1")
    done = cli(*words)
    assert lines(done.out)[0] == "remove of weather/hourly: would remove 1 file"
    done = cli(*words, "--execute")
    assert lines(done.out)[0] == "remove of weather/hourly: removed 1 file"
    (path,) = (
        file["path"]
        for file in cli("files", own_weather, "weather", "stations", "-o", "json").json["files"]
    )
    done = cli("remove", own_weather, "weather", "stations", path, "--writer", "JFK", "--execute")
    assert done.code == 0
    done = cli("drop", own_weather, "weather", "stations", "--execute")
    assert lines(done.out)[0] == "drop of weather/stations: removed 0 files, and forgot the table"
    names = cli("tables", own_weather, "weather", "-o", "json").json["tables"]
    assert [table["table"] for table in names] == ["hourly"]


def test_the_url_of_the_environment(cli, weather, monkeypatch):
    monkeypatch.setenv("LAKELOG_URL", weather)
    assert "two ways" in cli("diff", "weather", "hourly", "EWR=1,JFK=1", "now").err
    assert cli("diff", "weather", "EWR=1,JFK=1", "now").code == 0
    assert cli("diff", weather, "weather", "hourly", "EWR=1,JFK=1", "now").code == 0


def test_restore_and_changes_across_deletes_and_columns(cli, own_weather):
    good = cli("diff", own_weather, "weather", "now", "now", "--output", "json").json["after"]
    where = (
        "delete",
        own_weather,
        "weather",
        "hourly",
        "--writer",
        "EWR",
        "--where",
        "temp IS NOT NULL",
    )
    assert cli(*where, "--mode", "rows", "--execute").code == 0
    columns = ("schema", own_weather, "weather", "hourly", "--evolve", "--rename", "temp=celsius")
    assert cli(*columns, "--execute").code == 0
    changes = ("changes", own_weather, "weather", "hourly", "--since", good, "--output", "json")
    gone = cli(*changes).json["rows"]
    assert gone
    assert {row["_change"] for row in gone} == {"delete"}
    assert all("celsius" in row and "temp" not in row for row in gone)
    restore = ("restore", own_weather, "weather", "--to", good)
    plan = cli(*restore, "--output", "json").json
    assert plan["dry_run"]
    assert sum(change["rows_back"] for change in plan["changes"]) == len(gone)
    assert {file["deleted_then"] for file in plan["deletes"]} == {0}
    shown = cli(*restore).text
    assert f"{len(gone)} deleted rows would come back; columns and keys of hourly would go" in shown
    assert "ADDED AGAIN" in shown
    assert "came back" in cli(*restore, "--execute").text
    assert cli(*changes).json["rows"] == []


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_an_external_file_is_removed_by_its_url(cli, tmp_path, form):
    file, lake = tmp_path / "a.parquet", tmp_path / "lake"
    pq.write_table(pa.table({"i": [1]}), file)
    assert cli("add", lake, "db", "t", file, "--writer", "W").code == 0
    file.unlink()  # which is when one wants that
    name = form.format(file)
    done = cli("remove", lake, "db", "t", name, "--writer", "W", "--execute")
    assert (done.code, "removed 1 file" in done.out) == (0, True)
    again = cli("remove", lake, "db", "t", name, "--writer", "W", "--execute")
    assert again.code in (3, 4)


def test_an_own_file_is_removed_by_its_absolute_path(cli, tmp_path):
    lake = tmp_path / "lake"
    (tmp_path / "a.csv").write_text("i\n1\n")
    assert cli("write", lake, "db", "t", tmp_path / "a.csv", "--writer", "W").code == 0
    (file,) = lake.rglob("*.parquet")
    assert cli("remove", lake, "db", "t", file, "--writer", "W", "--execute").code == 0
