"""What a first day asks of messages: why, which name was meant, and what the output is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(cli, text: str, table: str = "t"):
    Path("a.csv").write_text(text)
    result = cli("write", "lake", "d", table, "a.csv", "--writer", "w")
    assert result.code == 0
    return result.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n1\n2\nx\n", "a because of a.csv, line 4 ('x')"),
        ("a,day\nx,2024-02-01\ny,2024-02-30\n", "day because of a.csv, line 3 ('2024-02-30')"),
        ("zip\n12\n007\n", "zip because of a.csv, line 3 ('007')"),
    ],
)
def test_a_column_that_one_value_makes_text_is_told(cli, text, said):
    assert f"columns are text: {said}. --type" in write(cli, text)
    assert write(cli, text) == ""  # of a table that is there


@pytest.mark.parametrize("text", ["a\nx\ny\n", "a\n1\n2\n", "a\n007\n8\n", "a\n1\n2.5\n"])
def test_texts_and_numbers_are_what_they_are(cli, text):
    assert write(cli, text) == ""


def test_names_that_resemble_one_are_told(cli):
    write(cli, "origin\nx\n", "flights")
    for args, said in (
        (("scan", "lake", "d", "flihgts"), "Did you mean 'flights'? It has: flights"),
        (("scan", "lake", "d", "FLIGHTS"), "Did you mean 'flights'? It has: flights"),
        (("scan", "lake", "e", "flights"), "It has: d"),
        (("scan", "lake", "d", "flights", "--columns", "orign"), "Did you mean 'origin'?"),
        (("scan", "lake", "d", "flights", "--where", "orign = 'x'"), "there is 'origin'"),
        (("remve", "lake"), "Did you mean remove?"),
        (("drop", "lake", "d", "flihgts"), "Did you mean 'flights'?"),
        (("restore", "lake", "d", "flihgts", "--to", "w=0"), "Did you mean 'flights'?"),
        (("changes", "lake", "d", "flihgts", "--since", "w=0"), "Did you mean 'flights'?"),
        (("compact", "lake", "d", "flights", "--sort-by", "orign"), "Did you mean 'origin'?"),
        (("gc", "lake", "d", "--writer", "w1"), "It has: w"),
    ):
        assert said in cli(*args).err
    assert "pg_" not in cli("query", "lake", "d", "SELECT * FROM sequences").err


def test_names_that_differ_in_case_only_are_told_of_tables_that_are_asked(cli):
    write(cli, "ID,id\n1,2\n", "twins")
    assert cli("query", "lake", "d", "SELECT 1").err == ""
    assert "differ in case" in cli("query", "lake", "d", "SELECT * FROM Twins").err


def test_intervals_are_iso_8601(cli):
    write(cli, "a\n1\n")
    query = "SELECT INTERVAL 14 MONTH + INTERVAL 3 DAY a, INTERVAL '-1.5 s' b, INTERVAL 0 DAY c"
    assert cli("query", "lake", "d", query, "-o", "csv").out == "a,b,c\nP14M3D,PT-1.5S,PT0S\n"


def test_files_without_a_common_column_are_told(cli):
    for name in ("x", "y", "z"):
        pq.write_table(pa.table({"id" if name == "z" else name: [1]}), f"{name}.parquet")
    write(cli, "id\n1\n")
    found = cli("add", "lake", "d", "t", "x.parquet", "y.parquet", "z.parquet", "--writer", "w")
    assert found.code == 0
    assert "2 files share no column with the others of the table: " in found.err
    assert "z.parquet" not in found.err


def test_an_error_in_an_input_says_nothing_of_the_catalog(cli, monkeypatch):
    monkeypatch.setenv("LAKELOG_URL", "lake")
    Path("bad.csv").write_text('a\n"1\n')
    assert "LAKELOG_URL" not in cli("write", "d", "t", "bad.csv", "--writer", "w").err
    assert "that of LAKELOG_URL, lake" in cli("tables", "d").err


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("vacuum", "`lakelog gc`, after `lakelog prune`"),
        ("optimize", "`lakelog compact`"),
        ("expire-snapshots", "`lakelog prune`"),
        ("expire_snapshots", "`lakelog prune`"),
        ("cleanup", "`lakelog maintain`"),
        ("fsck", "`lakelog check`"),
        ("history", "`lakelog log`"),
    ],
)
def test_what_other_programs_call_it_is_answered_with_the_command_here(cli, name, here):
    done = cli(name, "lake", "--retain", "7 days")
    assert (done.code, done.out) == (2, "")
    assert f"hint: Here it is {here}: " in done.err
    assert f"  {name}" not in cli("--help").out
