"""What changed: files, tables and columns between two cuts; and the rows, commit by commit."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pyarrow as pa
import pytest
from changing_cases import World
from lakelog.catalog.read.changes import ABOUT
from lakelog.errors import (
    MissingTransaction,
    SnapshotPruned,
    TableNotFound,
    UsageError,
)
from lakelog.rebuild import execute_rebuild, plan_rebuild


@pytest.fixture
def world():
    return World()


def rewrite(world, *paths, rows=None, operation="rewrite"):
    """Replace files by one with their rows, or with these."""
    world.clock.now_s += 1
    with world.writer() as writer:
        found = world.catalog.snapshot("weather", {"oslo": writer.revision})
        parts = {part.key.removeprefix("oslo/weather/") for part in found.file_parts("hourly")}
        assert parts.issuperset(paths)
        with writer.transaction(operation=operation) as tx:
            for path in paths:
                tx.remove(path)
            return tx.write("hourly", pa.table({"n": pa.array(rows, pa.int64())}))[0]


def changes(world, since, until=None, **options):
    rows = world.catalog.changes("weather", "hourly", since, until, **options).read_all()
    return [(row["_change"], row["_revision"], row["n"]) for row in rows.to_pylist()]


def diff(world, since, table=None):
    now = world.catalog.snapshot("weather")
    return world.catalog.snapshot("weather", since).diff(now, table)


# --- diff -----------------------------------------------------------------------------------------


def test_equal_cuts_do_not_differ(world):
    world.write(1)
    assert diff(world, world.token).is_empty


def test_files_tables_and_rows(world):
    first = world.write(1, 2)
    world.write(9, table="old")
    before = world.token
    world.take_out(first)
    second = world.write(3)
    world.write(4, table="new", writer="bergen")
    world.catalog.drop("weather", "old", execute=True)
    found = diff(world, before)
    assert found.tables.to_pylist() == [
        {"change": "removed", "table": "old"},
        {"change": "added", "table": "new"},
    ]
    files = [(f["change"], f["writer"], f["table"], f["path"]) for f in found.files.to_pylist()]
    assert files[0][:3] == ("added", "bergen", "new")
    assert files[1] == ("removed", "oslo", "hourly", first)
    assert files[2][:3] == ("removed", "oslo", "old")
    assert files[3] == ("added", "oslo", "hourly", second)
    rows = {(r["table"], r["writer"]): r for r in found.rows.to_pylist()}
    hourly = rows["hourly", "oslo"]
    assert (hourly["rows_added"], hourly["rows_removed"], hourly["exact"]) == (1, 2, True)
    assert rows["new", "bergen"]["files_added"] == 1
    assert diff(world, before, "new").files.num_rows == 1
    assert diff(world, before, "new").tables.to_pylist() == [{"change": "added", "table": "new"}]
    with pytest.raises(TableNotFound):
        diff(world, before, "nowhere")


def test_the_other_way_round_is_the_other_way_round(world):
    world.write(1)
    before = world.catalog.snapshot("weather")
    world.write(2)
    after = world.catalog.snapshot("weather")
    assert [f["change"] for f in before.diff(after).files.to_pylist()] == ["added"]
    assert [f["change"] for f in after.diff(before).files.to_pylist()] == ["removed"]


def test_columns_that_came_went_or_changed(world):
    with world.writer() as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("t", pa.table({"a": [1], "b": pa.array([1], pa.int32())}))
        before = world.token
        with writer.transaction() as tx:
            tx.remove(path)
            tx.write("t", pa.table({"b": pa.array([1], pa.int64()), "c": ["x"]}))
    assert diff(world, before).schemas.to_pylist() == [
        {"change": "removed", "table": "t", "column": "a", "before": "int64", "after": None},
        {"change": "changed", "table": "t", "column": "b", "before": "int32", "after": "int64"},
        {"change": "added", "table": "t", "column": "c", "before": None, "after": "string"},
    ]


def test_a_rewrite_between_makes_numbers_of_its_tables_inexact(world):
    first, second = world.write(1), world.write(2)
    before = world.token
    rewrite(world, first, second, rows=[1, 2])
    world.write(3, table="other")
    then, now = (world.catalog.snapshot("weather", token) for token in (before, world.token))
    for found in (then.diff(now), now.diff(then)):  # backwards, too
        exact = {row["table"]: row["exact"] for row in found.rows.to_pylist()}
        assert exact == {"hourly": False, "other": True}


def test_cuts_of_two_databases_are_refused(world):
    world.write(1)
    with world.catalog.writer("oslo", "other") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"n": [1]}))
    with pytest.raises(UsageError, match="database"):
        world.catalog.snapshot("weather").diff(world.catalog.snapshot("other"))


# --- changes --------------------------------------------------------------------------------------


def test_inserts_and_deletes_with_their_commits(world):
    first = world.write(1, 2)
    before = world.token
    world.write(3)
    world.take_out(first)
    found = world.catalog.changes("weather", "hourly", before).read_all()
    assert found.schema.names == [*ABOUT.names, "n"]
    rows = found.to_pylist()
    assert [(r["_change"], r["_revision"], r["n"]) for r in rows] == [
        ("insert", 1, 3),
        ("delete", 2, 1),
        ("delete", 2, 2),
    ]
    times = world.catalog.history("weather").column("committed_at").to_pylist()
    assert [r["_committed_at"] for r in rows] == [times[1], times[2], times[2]]
    assert {r["_writer"] for r in rows} == {"oslo"}


def test_rewrites_give_none(world):
    path = world.write(1)
    for operation in ("rewrite", "maintenance"):
        second = world.write(2)
        before = world.token
        path = rewrite(world, path, second, rows=world.rows(), operation=operation)
        assert changes(world, before) == []
        assert changes(world, before, net=False) == []


def test_what_calls_itself_a_rewrite_and_has_other_rows_is_shown(world):
    """At least where the numbers say so. (A `rewrite` is refused then, `maintenance` isn't.)"""
    path = world.write(1)
    before = world.token
    rewrite(world, path, rows=[5, 6], operation="maintenance")
    assert changes(world, before) == [("delete", 1, 1), ("insert", 1, 5), ("insert", 1, 6)]


def test_rows_that_were_added_and_then_rewritten_are_inserted_once(world):
    first = world.write(1)
    before = world.token
    second = world.write(2)
    path = rewrite(world, first, second, rows=[1, 2])
    assert changes(world, before) == [("insert", 1, 2)]
    world.take_out(path)
    counts = Counter()
    for change, _, value in changes(world, before):
        counts[value] += 1 if change == "insert" else -1
    assert counts == {1: -1, 2: 0}


def test_what_came_and_went_between_gives_none_unless_asked_for(world):
    first = world.write(1)
    before = world.token
    second = world.write(2)
    world.take_out(second)
    world.take_out(first)
    world.catalog.restore("weather", to=before, execute=True)
    assert changes(world, before) == []
    every = [("insert", 1, 2), ("delete", 2, 2), ("delete", 3, 1), ("insert", 4, 1)]
    assert changes(world, before, net=False) == every


def test_of_three_the_last_counts(world):
    first = world.write(1)
    world.take_out(first)
    before = world.token
    world.catalog.restore("weather", to={"oslo": 0}, execute=True)
    world.take_out(first)
    world.catalog.restore("weather", to={"oslo": 0}, execute=True)
    assert changes(world, before) == [("insert", 4, 1)]


def test_types_and_columns_over_both_cuts(world):
    with world.writer() as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("hourly", pa.table({"n": pa.array([1], pa.int32()), "a": ["x"]}))
        before = world.token
        with writer.transaction() as tx:
            tx.remove(path)
            tx.write("hourly", pa.table({"n": pa.array([2], pa.int64()), "b": [True]}))
    found = world.catalog.changes("weather", "hourly", before).read_all()
    assert found.drop_columns(["_committed_at", "_writer", "_revision"]).to_pylist() == [
        {"_change": "delete", "n": 1, "a": "x", "b": None},
        {"_change": "insert", "n": 2, "a": None, "b": True},
    ]
    only = world.catalog.changes("weather", "hourly", before, columns=["b"]).read_all()
    assert only.schema.names == [*ABOUT.names, "b"]
    with pytest.raises(UsageError, match="no column"):
        world.catalog.changes("weather", "hourly", before, columns=["c"])


def test_a_table_of_which_nothing_changed_and_one_that_is_not_there(world):
    world.write(1)
    assert changes(world, world.token) == []
    with pytest.raises(TableNotFound):
        world.catalog.changes("weather", "nowhere", world.token)


def test_a_table_that_was_dropped_and_made_again_with_other_columns(world):
    """Schemas that were forgotten between are still those of the files that were removed."""
    world.write(1)
    before = world.token
    with world.writer() as writer, writer.transaction() as tx:
        tx.write("hourly", pa.table({"gone": ["x"], "n": [2]}))
    world.catalog.drop("weather", "hourly", execute=True)
    world.write(3)
    found = world.catalog.changes("weather", "hourly", before, net=False).read_all().to_pylist()
    assert [(r["_change"], r["n"], r["gone"]) for r in found] == [
        ("insert", 2, "x"),
        ("delete", 1, None),
        ("delete", 2, "x"),
        ("insert", 3, None),
    ]
    assert changes(world, before) == [("delete", 2, 1), ("insert", 4, 3)]


def test_a_column_of_a_name_that_changes_have_is_refused(world):
    with world.writer() as writer, writer.transaction() as tx:
        tx.write("hourly", pa.table({"_change": ["x"], "n": [1]}))
    with pytest.raises(UsageError, match="_change"):
        world.catalog.changes("weather", "hourly", {"oslo": 0})
    since = {"oslo": 0}
    assert world.catalog.changes("weather", "hourly", since, columns=["n"]).read_all().num_rows == 0


def test_many_members_of_one_commit(world):
    """A commit that several transactions share counts each by what it says of itself."""
    from lakelog.catalog.commit.session import Session

    first = world.write(1)
    before = world.token
    catalog = world.catalog
    with world.writer() as writer:
        session: Session = writer._session
        rewriting = writer.transaction(operation="rewrite")
        rewriting.remove(first)
        rewriting.write("hourly", pa.table({"n": [1]}))
        adding = writer.transaction()
        adding.write("hourly", pa.table({"n": [2]}))
        done = session._commit_all([rewriting._intent, adding._intent])
        rewriting._closed = adding._closed = True
    assert {info.revision for info in done} == {1}
    assert catalog.history("weather").num_rows == 2
    assert changes(world, before) == [("insert", 1, 2)]


def test_cuts_that_do_not_follow_each_other_are_refused(world):
    world.write(1)
    before = world.token
    world.write(2)
    world.write(3, writer="bergen")
    after = world.token
    with pytest.raises(UsageError, match="nothing of bergen"):
        world.catalog.changes("weather", "hourly", after, before)
    with pytest.raises(UsageError, match="later"):
        world.catalog.changes("weather", "hourly", {"oslo": 1}, {"oslo": 0})
    execute_rebuild(world.catalog, plan_rebuild(world.catalog, "oslo", "weather"))
    with pytest.raises(UsageError, match="rebuilt"):
        world.catalog.changes("weather", "hourly", before)


def test_a_writer_that_came_later_counts_from_its_beginning(world):
    world.write(1)
    then = world.clock.time() + dt.timedelta(seconds=0.5)
    world.write(2, writer="bergen")
    assert changes(world, then) == [("insert", 0, 2)]


def test_commits_that_were_pruned_are_told(world):
    """What is left says of the writer that came later only what it has now."""
    world.write(1)
    before = world.token
    for value in range(3):
        world.write(10 + value, writer="bergen")
    world.prune("bergen")
    with pytest.raises(SnapshotPruned, match="revision 0 of bergen/weather"):
        world.catalog.changes("weather", "hourly", before)


def test_a_commit_that_is_lost_is_told(world):
    world.write(1)
    before = world.token
    world.write(2)
    world.write(3)
    with world.writer() as writer:
        writer.checkpoint()
    (key,) = (
        info.key
        for info in world.store.list("oslo/weather/transactions/")
        if "-1." in info.key and info.key.endswith(".transaction")
    )
    world.store.delete([key])
    assert world.rows() == [1, 2, 3]  # the checkpoint knows
    with pytest.raises(MissingTransaction, match="revision 1"):
        world.catalog.changes("weather", "hourly", before)


def test_rows_come_file_by_file(world):
    """The stream is lazy: what is not asked for is not read."""
    world.write(0)
    before = world.token
    paths = [world.write(*range(n * 10, n * 10 + 5)) for n in range(12)]
    world.store.delete([f"oslo/weather/{paths[-1]}"])
    reader = world.catalog.changes("weather", "hourly", before)
    assert reader.read_next_batch()["n"].to_pylist() == [0, 1, 2, 3, 4]
    reader.close()
