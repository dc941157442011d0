"""`--where`, `--partition` and `--writer` on files and scan, and `lakelog explain`."""

from __future__ import annotations

import re

import lakelog
import pyarrow as pa
import pytest
from cli_cases import TOKEN, body

HOURLY = ("weather", "hourly")


def paths(found) -> list[str]:
    return [row["path"] for row in found.json["files"]]


EXPLAINED = [
    "WRITER  PATH ROWS SIZE  KEPT  REASON",
    "EWR     PATH    3 SIZE  no    not hour > 5: hour is 0 to 2",
    "EWR     PATH    3 SIZE  no    not hour > 5: hour is 3 to 5",
    "EWR     PATH    2 SIZE  yes",
    "JFK     PATH    2 SIZE  no    not hour > 5: hour is 0 to 1",
    "JFK     PATH    2 SIZE  no    not hour > 5: hour is 1 to 2",
]


def test_explain_says_which_files_are_kept_and_why_others_are_not(cli, weather):
    found = cli("explain", weather, *HOURLY, "--where", "hour > 5")
    *rows, blank, summary, _, cut, token = body(found)
    rows = [re.sub(r"data/.*\.parquet|PATH", "PATH", row) for row in rows]
    rows, wanted = ([re.sub("PATH +", "PATH ", row) for row in of] for of in (rows, EXPLAINED))
    assert rows[:4] == wanted[:4]
    assert sorted(rows[4:]) == wanted[4:], "in order of paths, which are random"
    assert re.fullmatch(r"kept: 1 of 5 files, 2 of 12 rows,.*", summary)
    assert (blank, cut, token) == ("", "as of  EWR=3,JFK=2", TOKEN)


@pytest.mark.parametrize(
    "where",
    ["hour > 5", "temp is null", "origin = 'JFK'", "temp > 62 and hour < 3", "hour in (0, 7)"],
)
def test_files_explain_and_scan_agree(cli, weather, where):
    at = (weather, *HOURLY, "--where", where, "-o", "json")
    explained = cli("explain", *at).json
    kept = [row["path"] for row in explained["files"] if row["kept"]]
    assert kept == paths(cli("files", *at))
    assert all(row["kept"] == (row["reason"] == "") for row in explained["files"])
    assert explained["where"] == where
    files = cli("files", weather, *HOURLY, "-o", "json").json["files"]
    for name, of in (("all", files), ("kept", [row for row in files if row["path"] in kept])):
        assert explained[name] == {
            "files": len(of),
            "row_count": sum(row["row_count"] for row in of),
            "size_bytes": sum(row["size_bytes"] for row in of),
        }


@pytest.mark.parametrize(
    ("where", "meets"),
    [
        ("hour > 5", lambda row: row["hour"] > 5),
        ("temp is null", lambda row: row["temp"] is None),
        ("origin = 'JFK' and hour = 1", lambda row: row["origin"] == "JFK" and row["hour"] == 1),
        ("not temp > 61", lambda row: row["temp"] is not None and row["temp"] <= 61),
    ],
)
def test_scan_gives_the_rows_that_meet_it(cli, weather, where, meets):
    everything = cli("scan", weather, *HOURLY, "-o", "json").json["rows"]
    found = cli("scan", weather, *HOURLY, "-w", where, "-o", "json").json["rows"]
    assert found == [row for row in everything if meets(row)]
    assert 0 < len(found) < len(everything)
    fewer = cli("scan", weather, *HOURLY, "-w", where, "-c", "origin", "-n", "1", "-o", "json")
    assert fewer.json["rows"] == [{"origin": found[0]["origin"]}]


def test_partition_and_writer_narrow_each_command(cli, weather):
    rows = cli("scan", weather, *HOURLY, "--partition", "day 2", "-o", "json").json["rows"]
    assert [row["hour"] for row in rows] == [3, 4, 5]
    of = ("--writer", "JFK", "--where", "hour >= 1", "-o", "json")
    assert [r["hour"] for r in cli("scan", weather, *HOURLY, *of).json["rows"]] == [1, 1, 2]
    assert {r["writer"] for r in cli("explain", weather, *HOURLY, *of).json["files"]} == {"JFK"}
    assert cli("explain", weather, *HOURLY, *of).json["as_of"] == {"JFK": 2}
    at = ("--partition", "day 1", "--where", "hour > 5", "-o", "json")
    assert cli("files", weather, *HOURLY, *at).json["files"] == []
    (one,) = cli("explain", weather, *HOURLY, *at).json["files"]
    assert (one["partition"], one["kept"]) == ("day 1", False)


def test_explain_lists_what_is_asked_for_and_counts_all(cli, weather):
    at = ("explain", weather, *HOURLY, "--where", "hour > 5")
    whole = cli(*at, "-o", "json").json
    kept, skipped = (cli(*at, f"--{name}", "-o", "json").json for name in ("kept", "skipped"))
    assert [row["kept"] for row in kept["files"]] == [True]
    assert [row["kept"] for row in skipped["files"]] == [False] * 4
    assert kept["all"] == skipped["all"] == whole["all"]
    first = cli(*at, "--skipped", "--limit", "1").out
    assert "\nand 3 more\n\nkept: 1 of 5 files" in first
    assert cli(*at, "--limit", "0").out.startswith("and 5 more\n\nkept: 1 of 5 files")
    assert cli(*at, "--kept", "--skipped").code == 2
    assert "(no such files)" in cli(*at, "--kept", "--as-of", "EWR=0").out
    assert cli(*at, "--as-of", "EWR=0", "-o", "json").json["all"]["files"] == 1


def test_statistics_of_the_files_that_are_kept(cli, weather):
    at = (weather, *HOURLY, "--where", "hour > 5", "-o", "json")
    rows = cli("files", *at, "--statistics").json["statistics"]
    assert {row["path"] for row in rows} == set(paths(cli("files", *at)))
    assert len(rows) == 4


def test_a_long_reason_is_not_cut(cli, tmp_path):
    long = [f"{letter}{'x' * 30}" for letter in "abcdefg"]
    with (
        lakelog.open_catalog(str(tmp_path)).writer("W", "db") as writer,
        writer.transaction() as tx,
    ):
        tx.write("t", pa.table({"name": ["zzz"]}))
    where = f"name in ({', '.join(map(repr, long))})"
    (row,) = cli("explain", tmp_path, "db", "t", "--where", where, "-o", "json").json["files"]
    assert len(row["reason"]) > 100
    assert row["reason"] in cli("explain", tmp_path, "db", "t", "--where", where).out


@pytest.mark.parametrize("command", ["files", "scan", "explain"])
@pytest.mark.parametrize(
    ("where", "place"),
    [
        ("hour > 1 and nope = 3", "at character 14 ('nope = 3')"),
        ("hour + 1 > 2", "at character 1 ("),
        ("hour > 'noon'", "at character "),
        ("hour >", "something is missing at character 6 ('>')"),
        ("", "empty"),
    ],
)
def test_what_is_no_predicate_is_shown_in_its_place(cli, weather, command, where, place):
    result = cli(command, weather, *HOURLY, "--where", where)
    assert (result.code, result.out) == (2, "")
    assert place in result.err
    assert "\nhint: " in result.err


def test_explain_needs_a_condition(cli, weather):
    result = cli("explain", weather, *HOURLY)
    assert (result.code, "--where" in result.err) == (2, True)
