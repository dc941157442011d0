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
    assert [plan[name] for name in figures] == [done[name] for name in figures] == [0, 1, 1]
    assert rows(lake) == ["b1", "b2", "b3"]


def test_of_all_writers(cli, lake) -> None:
    words = ("delete", lake, "db", "t", "--writer", "a", "--where", "n = 2", "--all-writers")
    plan = cli(*words, "--count", "--output", "json").json
    assert (plan["files_touched"], plan["tombstones"], plan["rows"]) == (2, 1, 2)
    assert plan["revision"] is None
    assert plan["cut"] == open_catalog(lake).snapshot("db").token
    assert len(rows(lake)) == 6
    done = cli(*words, "--execute")
    assert "deleted from t of all writers in the cut, by a/db, in revision 1" in done.out
    assert rows(lake) == ["a1", "a3", "b1", "b3"]
    shown = cli("show", lake, "db", "--writer", "a", "--output", "json").json
    (tombstone,) = [one["fields"] for one in shown["actions"] if one["kind"] == "tombstone"]
    assert [(at["writer"], at["revision"]) for at in tombstone["logs"]] in (
        [("a", 0), ("b", 0)],
        [("b", 0), ("a", 0)],
    )
    told = cli("log", lake, "db").out
    assert 'lakelog.deletes_of: ["a", "b"], where: n = 2' in told
    assert [line.split() for line in cli("diff", lake, "db", "a=0,b=0", "now").out.splitlines()][
        1:3
    ] == [["t", "a", "deletes"], ["t", "b", "deletes"]]


def test_of_a_cut(cli, lake) -> None:
    words = ("delete", lake, "db", "t", "--writer", "a", "--where", "n = 2", "--cut", "b=0")
    plan, done = (cli(*words, *more, "-o", "json").json for more in ((), ("--execute",)))
    assert done["files_touched"] == 1
    assert plan["token"] is None
    assert done["token"] == cli("tables", lake, "db", "-o", "json").json["token"]
    assert rows(lake) == ["a1", "a2", "a3", "b1", "b3"]


@pytest.mark.parametrize("more", [(), ("--execute",), ("--all-writers", "--execute")])
def test_a_writer_that_is_not_there(cli, lake, more) -> None:
    """Nothing is begun for it, and those that are there are named."""
    done = cli("delete", lake, "db", "t", "--writer", "EWR", "--where", "n = 2", *more)
    assert done.code == 3
    assert "Writer 'EWR' has no log of database 'db'" in done.err
    assert "Its writers: a, b" in done.err
    assert open_catalog(lake).writers("db") == ["a", "b"]
    assert len(rows(lake)) == 6


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--all-writers", "--cut", "b=0"), "not allowed with argument"),
        (("--all-writers", "--mode", "rows"), "can't be deleted by their numbers"),
        (("--cut", "c=0"), "has no log of database"),
    ],
)
def test_what_can_not_be(cli, lake, more, says) -> None:
    done = cli("delete", lake, "db", "t", "--writer", "a", "--where", "n = 2", *more, "--execute")
    assert done.code in (2, 3)
    assert says in done.err
    assert len(rows(lake)) == 6
