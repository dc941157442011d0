"""Changes row by row across deletes in the files of all writers: the rows that they hide are told
deleted, by the commit that says so, and each row is told as often as it came or went."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest
from cut_cases import checkpoint, delete, do, rows, write
from lakelog.catalog.commit.other_logs import OtherLogs


def changes(lake, since, until=None, **how) -> list[str]:
    """As `-b3 a1`: row 3 of b was deleted by revision 1 of a."""
    told = lake.changes("db", "t", since, until, **how).read_all().to_pylist()
    signs = {"insert": "+", "delete": "-"}
    return [
        f"{signs[row['_change']]}{row['w']}{row['n']} {row['_writer']}{row['_revision']}"
        for row in told
    ]


@pytest.mark.parametrize("net", [True, False])
def test_rows_that_others_deleted_are_told_with_their_commit(lake, net) -> None:
    since = lake.snapshot("db").token
    delete(lake, "n = 2")
    after = lake.snapshot("db").token
    assert changes(lake, since, net=net) == ["-a2 a1", "-b2 a1"]
    write(lake, "b", [2])
    delete(lake, "n = 3", by="c")
    assert changes(lake, since, net=net) == ["-a2 a1", "-a3 c0", "-b2 a1", "+b2 b1", "-b3 c0"]
    assert changes(lake, after, net=net) == ["-a3 c0", "+b2 b1", "-b3 c0"]
    checkpoint(lake, "a", "b", "c")
    assert changes(lake, after, net=net) == ["-a3 c0", "+b2 b1", "-b3 c0"]
    assert changes(lake, lake.snapshot("db").token, net=net) == []
    (row,) = lake.history("db", "a").slice(1).to_pylist()
    told = lake.changes("db", "t", since, after, net=net).read_all()
    assert set(told["_committed_at"].to_pylist()) == {row["committed_at"]}


def test_rows_that_came_and_that_others_deleted(lake) -> None:
    since = lake.snapshot("db").token
    write(lake, "b", [7, 8])
    delete(lake, "n = 7 OR n = 1")
    write(lake, "b", [7])
    assert changes(lake, since) == ["-a1 a1", "+b8 b1", "-b1 a1", "+b7 b2"]
    every = ["-a1 a1", "+b7 b1", "+b8 b1", "-b1 a1", "-b7 a1", "+b7 b2"]
    assert changes(lake, since, net=False) == every


def test_files_that_came_under_a_delete_come_without_its_rows(lake) -> None:
    """The first cut has the delete, and not yet the files that it names."""
    write(lake, "b", [2, 9])
    delete(lake, "n = 2")
    for net in (True, False):
        assert changes(lake, {"a": 1, "b": 0}, net=net) == ["+b9 b1"]
        assert changes(lake, {"a": 0, "b": 0}, {"a": 1, "b": 0}, net=net) == ["-a2 a1", "-b2 a1"]
        assert changes(lake, {"a": 1}, net=net) == ["+b1 b0", "+b3 b0", "+b4 b0", "+b9 b1"]


@pytest.mark.parametrize("net", [True, False])
def test_a_rewrite_that_leaves_deleted_rows_out_gives_none(lake, net) -> None:
    since = lake.snapshot("db").token
    delete(lake, "n = 2")
    paths = lake.snapshot("db").files("t", writer="b")["path"].to_pylist()
    middle = lake.snapshot("db").token
    do(lake, "b", lambda tx: tx.rewrite("t", paths))
    assert changes(lake, since, net=net) == ["-a2 a1", "-b2 a1"]
    assert changes(lake, middle, net=net) == []
    assert changes(lake, {"b": 0}, {"b": 1}, net=net) == [
        "-b1 b1", "-b2 b1", "-b3 b1", "-b4 b1", "+b1 b1", "+b3 b1", "+b4 b1",
    ]  # fmt: skip


def test_a_rewrite_that_had_not_seen_the_delete(lake) -> None:
    """Both were committed at once: the rows are in files that the delete doesn't name."""
    cut = lake.snapshot("db")
    paths = cut.files("t", writer="b")["path"].to_pylist()
    looks = mock.patch.object(OtherLogs, "refuse_deleted")
    with looks, lake.writer("b", "db") as writer, writer.transaction() as tx:
        tx.rewrite("t", paths)
        delete(lake, "n = 2", cut)
    assert rows(lake) == ["a1", "a3", "a4", "b1", "b2", "b3", "b4"]
    told = changes(lake, cut.token)
    assert sorted(told) == sorted(
        ["-a2 a1", "-b2 a1", "-b1 b1", "-b3 b1", "-b4 b1", "+b1 b1", "+b2 b1", "+b3 b1", "+b4 b1"]
    )


def test_a_restore_gives_back_what_others_deleted(lake) -> None:
    since = lake.snapshot("db").token
    delete(lake, "n = 2")
    middle = lake.snapshot("db").token
    lake.restore("db", to=since, execute=True)
    assert changes(lake, since) == []
    assert changes(lake, middle) == ["+a2 a2", "+b2 b1"]
    assert changes(lake, since, net=False) == ["-a2 a1", "+a2 a2", "-b2 a1", "+b2 b1"]
    lake.restore("db", to=middle, execute=True)
    assert changes(lake, since) == ["-a2 a3", "-b2 b2"]
    assert changes(lake, middle) == []


def test_a_delete_that_names_its_own_log_comes_with_its_commit(lake) -> None:
    """It is of an earlier cut: what went in between went before it."""
    cut = lake.snapshot("db")
    since = cut.token
    do(lake, "a", lambda tx: tx.delete("t", "n = 3", mode="rows"))
    delete(lake, "n >= 3", cut)
    assert changes(lake, since) == ["-a3 a1", "-a4 a2", "-b3 a2", "-b4 a2"]
    assert changes(lake, since, net=False) == changes(lake, since)

    def replaced(tx) -> None:
        tx.delete("t", "n = 1", cut=lake.snapshot("db"))
        tx.write("t", pa.table({"w": ["a"], "n": [1]}))

    middle = lake.snapshot("db").token
    do(lake, "a", replaced)
    assert changes(lake, middle) == ["-a1 a3", "+a1 a3", "-b1 a3"]


def test_of_a_table_with_a_key(lake) -> None:
    lake.evolve("db", "t", key=["n"])
    since = lake.snapshot("db").token
    kept = rows(lake)
    delete(lake, "n = 2")
    gone = [row for row in kept if row[1] == "2"]
    assert changes(lake, since) == [f"-{row} {row[0]}None" for row in gone]
    assert changes(lake, since, net=False) == [f"-{row} a2" for row in gone]
    lake.restore("db", to=since, execute=True)
    assert changes(lake, since) == []


def test_columns_that_logs_call_otherwise(lake) -> None:
    do(lake, "b", lambda tx: tx.evolve("t", rename={"n": "m"}))
    since = lake.snapshot("db").token
    delete(lake, "n = 2 OR m = 3")
    told = lake.changes("db", "t", since).read_all().to_pylist()
    assert [(r["_change"], r["_writer"], r["w"], r["n"], r["m"]) for r in told] == [
        ("delete", "a", "a", 2, None),
        ("delete", "a", "b", None, 3),
    ]
