"""`lakelog delete`: one writer's rows, or all writers'; what it shows, does and refuses."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog import open_catalog


@pytest.fixture
def lake(tmp_path) -> str:
    """Two writers with a file each."""
    url = str(tmp_path / "lake")
    for name in "ab":
        with open_catalog(url).writer(name, "db") as writer, writer.transaction() as tx:
            tx.write("t", pa.table({"w": [name] * 3, "n": [1, 2, 3]}))
    return url


def rows(url: str) -> list[str]:
    found = open_catalog(url).snapshot("db").to_arrow("t").to_pylist()
    return sorted(f"{row['w']}{row['n']}" for row in found)


def test_of_one_writer(cli, lake) -> None:
    words = ("delete", lake, "db", "t", "--writer", "a", "--where", "n = 2")
    done = cli(*words, "--count")
    assert done.out.splitlines()[1:] == [
        "  by a predicate, which may be true of rows of 1 file",
        "  1 row in all",
    ]
    assert len(rows(lake)) == 6
    assert cli(*words, "--execute").code == 0
    assert rows(lake) == ["a1", "a3", "b1", "b2", "b3"]


def test_the_plan_is_what_is_done_where_another_log_gives_the_key(cli, lake) -> None:
    """No file of such a table goes as a whole: older rows would be read again."""
    with open_catalog(lake).writer("b", "db") as writer, writer.transaction() as tx:
        tx.evolve("t", key=["n", "w"])
    words = ("delete", lake, "db", "t", "--writer", "a", "--where", "n > 0", "--output", "json")
    plan, done = cli(*words).json, cli(*words, "--execute").json
    assert (plan["dry_run"], done["dry_run"]) == (True, False)
    figures = ("files_removed", "files_touched", "tombstones")
    for found in (plan, done):
        (log,) = found["logs"]
        assert [log[name] for name in figures] == [0, 1, 1]
    assert rows(lake) == ["b1", "b2", "b3"]


def test_of_all_writers(cli, lake) -> None:
    words = ("delete", lake, "db", "t", "--where", "n = 2")
    plan = cli(*words, "--count", "--output", "json").json
    assert [(log["writer"], log["rows"], log["revision"]) for log in plan["logs"]] == [
        ("a", 1, None), ("b", 1, None),
    ]  # fmt: skip
    shown = cli(*words)
    assert "DRY RUN: nothing was deleted; add --execute" in shown.err
    assert plan["token"] is None
    assert len(rows(lake)) == 6
    done = cli(*words, "--execute")
    for name in "ab":
        assert f"deleted from t of {name}/db, in revision 1:" in done.out
    assert rows(lake) == ["a1", "a3", "b1", "b3"]
    shown = cli("show", lake, "db", "--writer", "a", "--output", "json").json
    (tombstone,) = [one["fields"] for one in shown["actions"] if one["kind"] == "tombstone"]
    assert (tombstone["predicate"], tombstone["paths"]) == ("n = 2", [])
    assert [line.split() for line in cli("diff", lake, "db", "a=0,b=0", "now").out.splitlines()][
        1:3
    ] == [["t", "a", "deletes"], ["t", "b", "deletes"]]


def test_forms_of_output(cli, lake) -> None:
    words = ("delete", lake, "db", "t", "--where", "n < 9", "--execute")
    found = cli(*words, "--output", "csv").out.splitlines()
    token = cli("tables", lake, "db", "-o", "json").json["token"]
    assert found[0] == "writer,files_removed,files_touched,tombstones,rows,revision,token"
    assert found[1:] == [f"a,1,0,0,3,1,{token}", f"b,1,0,0,3,1,{token}"]
    assert cli(*words).out.startswith("no row of t meets the condition")


@pytest.mark.parametrize("more", [(), ("--execute",)])
def test_a_writer_that_is_not_there(cli, lake, more) -> None:
    """Nothing is begun for it, and those that are there are named."""
    done = cli("delete", lake, "db", "t", "--writer", "EWR", "--where", "n = 2", *more)
    assert done.code == 3
    assert "Writer 'EWR' has no log of database 'db'" in done.err
    assert "It has: a, b" in done.err
    assert open_catalog(lake).writers("db") == ["a", "b"]
    assert len(rows(lake)) == 6
