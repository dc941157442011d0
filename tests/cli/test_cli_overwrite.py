"""`lakelog write --overwrite`: a plan first, and what it does when it is told to."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def day(tmp_path):
    """A lake with two files of a table, and a file for the command; returns the command's words."""
    import lakelog
    import pyarrow as pa

    root = str(tmp_path / "lake")
    with lakelog.open_catalog(root).writer("w", "db") as writer:
        for values in ([1, 2], [3, 3]):
            with writer.transaction() as tx:
                tx.append("t", pa.table({"day": values}))
    path = tmp_path / "day.csv"
    path.write_text("day\n3\n")
    return ["write", root, "db", "t", str(path), "--writer", "w", "--overwrite"]


def days(cli, words):
    rows = cli("scan", words[1], "db", "t", "-o", "jsonl").out.splitlines()
    return sorted(json.loads(row)["day"] for row in rows)


def test_it_is_a_plan_first(cli, day):
    done = cli(*day, "--where", "day >= 2")
    assert done.code == 0, done.err
    assert "would replace 3 rows: 2 files removed, 1 row of them rewritten" in done.out
    assert "DRY RUN: nothing was written; add --execute" in done.err
    assert days(cli, day) == [1, 2, 3, 3]
    plan = json.loads(cli(*day, "--where", "day >= 2", "-o", "json").out)
    assert (plan["dry_run"], plan["rows_removed"], plan["rows_rewritten"]) == (True, 3, 1)
    assert len(plan["removed"]) == 2
    assert set(plan["read"]) < set(plan["removed"])


def test_executed_it_replaces(cli, day):
    done = cli(*day, "--where", "day = 3", "--execute")
    assert done.code == 0, done.err
    assert "committed revision 2" in done.out
    assert "1 file removed: 2 rows replaced, 0 rows rewritten" in done.out
    assert days(cli, day) == [1, 2, 3]
    (last,) = json.loads(cli("log", day[1], "db", "--limit", "1", "-o", "json").out)["commits"]
    assert (last["operation"], last["replaced_where"]) == ("overwrite", "day = 3")
    assert " where: day = 3" in cli("log", day[1], "db").out
    record = json.loads(cli(*day, "--execute", "-o", "json").out)
    assert (record["files_removed"], record["rows_removed"]) == (2, 3)
    assert days(cli, day) == [3]


def test_rows_that_do_not_meet_the_predicate_are_refused(cli, day):
    done = cli(*day, "--where", "day = 2", "--execute")
    assert done.code == 2
    assert "don't meet day = 2" in done.err
    assert days(cli, day) == [1, 2, 3, 3]


@pytest.mark.parametrize(
    "words",
    [["--where", "day = 3"], ["--execute"], ["--overwrite", "-w", "x="]],
)
def test_options_that_do_not_go_together(cli, day, words):
    assert cli(*day[:-1], *words).code == 2
    assert days(cli, day) == [1, 2, 3, 3]
