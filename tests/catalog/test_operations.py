"""Operations with intent: what each does, what it refuses, and what its commit says."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import (
    ConflictError,
    FileNotLive,
    InvalidPredicate,
    LakelogError,
    OperationConflict,
    OperationInvalid,
    OperationNotAllowed,
    SchemaConflict,
    UsageError,
)
from lakelog.testing.counting import CountingStore
from table_cases import table


@pytest.fixture
def writer(catalog):
    with catalog.writer("w", "db", checkpoint_every=0) as opened:
        yield opened


def commit(writer, *batches, **options):
    """One file for each batch; their paths."""
    with writer.transaction() as tx:
        return [path for batch in batches for path in tx.append("t", table(*batch), **options)]


def rows(catalog, name="t"):
    return sorted(catalog.snapshot("db").to_arrow(name).column("a").to_pylist())


def last(catalog):
    return catalog.history("db").to_pylist()[-1]


# --- What they do ---------------------------------------------------------------------------------


def test_an_overwrite_takes_out_reads_or_leaves_each_file(catalog, writer):
    first, middle, end = commit(writer, [1, 2], [3, 4], [5, 6])
    with writer.transaction() as tx:
        done = tx.overwrite("t", table(40, 60), "a >= 4")
    assert rows(catalog) == [1, 2, 3, 40, 60]
    assert set(done.removed) == {middle, end}
    assert (done.rows_added, done.rows_removed, done.rows_rewritten) == (2, 3, 1)
    live = set(catalog.snapshot("db").files("t").column("path").to_pylist())
    assert live == {first, *done.paths, *done.rewritten}
    said = last(catalog)
    assert (said["operation"], said["replaced_where"]) == ("overwrite", "a >= 4")
    assert (said["rows_added"], said["rows_removed"], said["rows_rewritten"]) == (3, 4, 1)


def test_files_that_surely_match_are_not_read(catalog, writer, store, fake):
    commit(writer, [1, 2], [5, 6])
    counting = CountingStore(store)
    counted = Catalog(counting, ambient=fake.ambient)
    with counted.writer("w", "db", checkpoint_every=0) as again, again.transaction() as tx:
        counting.reset()
        tx.overwrite("t", table(7), "a >= 5")
        assert counting.counts["get"] == counting.counts["head"] == 0


def test_without_a_predicate_all_of_this_writers_rows_go(catalog, writer):
    commit(writer, [1, 2], [3])
    with catalog.writer("other", "db") as other:
        commit(other, [100])
    with writer.transaction() as tx:
        tx.overwrite("t", table(7))
    assert rows(catalog) == [7, 100]


def test_a_partition_can_be_replaced(catalog, writer):
    commit(writer, [1], partition="p")
    commit(writer, [2, 3], partition="q")
    with writer.transaction() as tx:
        tx.overwrite("t", table(9, 10), partition="q")
    assert rows(catalog) == [1, 9, 10]
    with writer.transaction() as tx:
        tx.overwrite("t", table(), "a < 10", partition="q")
    assert rows(catalog) == [1, 10]


def test_the_first_overwrite_makes_the_table(catalog, writer):
    with writer.transaction() as tx:
        tx.overwrite("t", table(1, 2), "a > 0")
    assert rows(catalog) == [1, 2]
    assert last(catalog)["operation"] == "overwrite"


def test_what_the_transaction_wrote_before_counts(catalog, writer):
    commit(writer, [1, 2])
    with writer.transaction() as tx:
        tx.append("t", table(3, 4))
        tx.overwrite("t", table(20), "a = 2 OR a = 20")
        tx.overwrite("t", table(30), "a = 3 OR a = 20 OR a = 30")
    assert rows(catalog) == [1, 4, 30]
    assert last(catalog)["replaced_where"] == "a = 2 OR a = 20; a = 3 OR a = 20 OR a = 30"


def test_an_expression_that_lakelog_does_not_understand_takes_only_what_meets_it(catalog, writer):
    """No file is taken out by its statistics for it."""
    commit(writer, [1, 2, None], [5, 6])
    with writer.transaction() as tx:
        tx.overwrite("t", table(7), pc.add(pc.field("a"), 1) >= 6)
    assert catalog.snapshot("db").to_arrow("t").column("a").to_pylist() == [1, 2, None, 7]


@pytest.mark.parametrize("where", ["a <> 1", "NOT a = 1", pc.field("a") != 1])
def test_rows_for_which_a_predicate_is_null_stay(catalog, writer, where):
    commit(writer, [1, 2, None], [None, None], [3, 3])
    with writer.transaction() as tx:
        done = tx.overwrite("t", table(), where)
    assert catalog.snapshot("db").to_arrow("t").column("a").to_pylist() == [None, None, 1, None]
    assert (done.rows_removed, done.rows_rewritten) == (3, 2)


def test_rows_keep_their_partitions_clocks_and_types(catalog, writer):
    with writer.transaction() as tx:
        tx.append("t", pa.table({"a": pa.array([1, 2], pa.int8())}), "p", clock=(5, 7))
        tx.append("t", pa.table({"a": pa.array([3, 4], pa.int64()), "b": ["x", "y"]}), "p")
    with writer.transaction() as tx:
        done = tx.overwrite("t", table(), "a = 2 OR a = 3")
    files = catalog.snapshot("db").files("t", details=True).to_pylist()
    assert len(done.rewritten) == 2, "one for each schema"
    assert {file["partition"] for file in files} == {"p"}
    assert (5, 7) in {(file["first_clock"], file["last_clock"]) for file in files}
    assert len({file["schema_fingerprint"] for file in files}) == 2


def test_a_rewrite_puts_rows_together(catalog, writer):
    paths = commit(writer, [3, 1], [2], [None, 2])
    with writer.transaction() as tx:
        done = tx.rewrite("t", paths, sort_by="a")
    assert len(done.rewritten) == 1
    assert catalog.snapshot("db").to_arrow("t").column("a").to_pylist() == [1, 2, 2, 3, None]
    assert last(catalog)["operation"] == "rewrite"
    assert last(catalog)["rows_rewritten"] == 5


def test_a_rewrite_takes_the_same_rows_from_elsewhere(catalog, writer):
    paths = commit(writer, [3, 1], [2])
    with writer.transaction() as tx:
        tx.rewrite("t", paths, pa.table({"a": pa.array([1, 2, 3], pa.int16())}), partition="p")
    assert rows(catalog) == [1, 2, 3]


def test_a_rewrite_beside_an_append_is_an_overwrite(catalog, writer):
    paths = commit(writer, [1])
    with writer.transaction() as tx:
        tx.rewrite("t", paths)
        tx.append("t", table(2))
    assert last(catalog)["operation"] == "overwrite"
    assert rows(catalog) == [1, 2]


# --- What they refuse -----------------------------------------------------------------------------


@pytest.mark.parametrize("other", [[1, 2], [1, 2, 3, 3], [1, 2, 2], [1, 2, None]])
def test_a_rewrite_that_changes_rows_is_refused(catalog, writer, other):
    paths = commit(writer, [3, 1], [2])
    with pytest.raises(OperationInvalid, match="'t'") as caught, writer.transaction() as tx:
        tx.rewrite("t", paths, table(*other))
    assert "3 rows" in str(caught.value)
    assert rows(catalog) == [1, 2, 3]


def test_a_declared_rewrite_is_counted(catalog, writer):
    (path,) = commit(writer, [1, 2])
    for message, removes in ((r"'t'.* 2 rows .* 1 rows", True), (r"0 rows .* 1 rows", False)):
        tx = writer.transaction(operation="rewrite")
        if removes:
            tx.remove(path)
        tx.write("t", table(1))
        with pytest.raises(OperationInvalid, match=message):
            tx.commit()
    with writer.transaction(operation="rewrite") as tx:
        tx.remove(path)
        tx.write("t", table(2, 1))
    assert rows(catalog) == [1, 2]


def test_an_append_removes_nothing_and_a_delete_adds_nothing(catalog, writer):
    (path,) = commit(writer, [1])
    with (
        pytest.raises(OperationInvalid, match="append, and removes"),
        writer.transaction(operation="append") as tx,
    ):
        tx.remove(path)
    with (
        pytest.raises(OperationInvalid, match="delete, and adds"),
        writer.transaction(operation="delete") as tx,
    ):
        tx.append("t", table(1))
    assert rows(catalog) == [1]


def test_actions_are_held_to_what_was_declared_at_the_commit_too(writer):
    (path,) = commit(writer, [1])
    tx = writer.transaction(operation="append")
    tx.append("t", table(2))
    tx._take_out([("t", path)])
    with pytest.raises(OperationInvalid, match="removes 1 file of table 't'"):
        tx.commit()


def test_data_outside_of_what_is_replaced_is_refused(catalog, writer):
    commit(writer, [1, 2])
    tx = writer.transaction()
    with pytest.raises(OperationInvalid, match=r"2 of 3 rows .* table 't' .* a = 2"):
        tx.overwrite("t", table(2, None, 3), "a = 2")
    with pytest.raises(UsageError, match="broke off"):
        tx.commit()
    tx.discard()
    assert rows(catalog) == [1, 2]
    with writer.transaction() as tx:
        tx.overwrite("t", table(2, 3), "a = 2", validate=False)
    assert rows(catalog) == [1, 2, 3]


def test_half_an_overwrite_is_never_committed(catalog, writer, store):
    """Somebody catches the error and goes on: nothing of it may become visible."""
    gone, _ = commit(writer, [1, 9], [2, 9])
    store.delete([f"w/db/{gone}"])
    with (
        pytest.raises(UsageError, match="broke off"),
        writer.transaction() as tx,
        pytest.raises(LakelogError, match=gone),
    ):
        tx.overwrite("t", table(5), "a < 6")
    assert catalog.snapshot("db").files("t").num_rows == 2
    with pytest.raises(UsageError, match="broke off"):
        tx.append("t", table(1))


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (InvalidPredicate, lambda tx, path: tx.overwrite("t", table(1), "nothing = 1")),
        (UsageError, lambda tx, path: tx.overwrite("t", table(1), 7)),
        (LakelogError, lambda tx, path: tx.overwrite("t", None, "a = 1")),
        (LakelogError, lambda tx, path: tx.overwrite("", table(1))),
        (FileNotLive, lambda tx, path: tx.rewrite("t", [path, "data/x.parquet"])),
        (FileNotLive, lambda tx, path: tx.rewrite("u", [path])),
        (UsageError, lambda tx, path: tx.rewrite("t", path)),
        (UsageError, lambda tx, path: tx.rewrite("t", [path], partition="p")),
        (UsageError, lambda tx, path: tx.rewrite("t", [path], table(1), sort_by="a")),
        (UsageError, lambda tx, path: tx.rewrite("t", [path], sort_by=[1])),
    ],
)
def test_what_cannot_be_leaves_the_transaction_as_it_was(catalog, writer, error, call):
    (path,) = commit(writer, [1])
    with writer.transaction() as tx:
        with pytest.raises(error):
            call(tx, path)
        tx.append("t", table(2))
    assert rows(catalog) == [1, 2]


def test_a_table_stays_readable(catalog, writer):
    commit(writer, [1, 2])
    with pytest.raises(SchemaConflict), writer.transaction() as tx:
        tx.overwrite("t", pa.table({"a": ["x"]}), "a = 2")
    assert rows(catalog) == [1, 2]


# --- Who may do what ------------------------------------------------------------------------------


def test_a_writer_does_only_what_it_was_opened_for(catalog, writer, store):
    (path,) = commit(writer, [1])
    with catalog.writer("w", "db", operations={"append"}) as opened:
        before = [info.key for info in store.list("w/db/")]
        tx = opened.transaction()
        for call in (
            lambda: tx.remove(path),
            lambda: tx.overwrite("t", table(2)),
            lambda: tx.rewrite("t", [path]),
            lambda: opened.transaction(operation="overwrite"),
            lambda: opened.forget(tables=["u"]),
        ):
            with pytest.raises(OperationNotAllowed, match="opened for append"):
                call()
        tx.discard()
        assert [info.key for info in store.list("w/db/")] == before
        commit(opened, [2])
        with opened.transaction() as tx:
            tx.append("u", table())  # only the columns of a table
        opened.transaction(app_id="job", app_version=1).commit()
    assert rows(catalog) == [1, 2]


def test_what_is_known_late_is_refused_at_the_commit(catalog, writer):
    (path,) = commit(writer, [1])
    with catalog.writer("w", "db", operations=["overwrite"]) as opened:
        with pytest.raises(OperationNotAllowed, match="this is append"), opened.transaction() as tx:
            tx.append("t", table(2))
        with opened.transaction() as tx:
            tx.append("t", table(2))
            tx.remove(path)
    with (
        catalog.writer("w", "db", operations=["delete"]) as opened,
        pytest.raises(OperationNotAllowed),
        opened.transaction() as tx,
    ):
        tx.append("t", table(3))
    assert rows(catalog) == [2]


@pytest.mark.parametrize("operations", [[], "append", ["appends"], 7, [None]])
def test_operations_have_names(catalog, operations):
    with pytest.raises(UsageError, match="operations="):
        catalog.writer("w", "db", operations=operations)


# --- Conflicts ------------------------------------------------------------------------------------


def test_a_conflict_says_with_whom(catalog, writer):
    commit(writer, [1])
    tx = catalog.writer("w", "db", shared=True).transaction()
    tx.overwrite("t", table(1), "a = 1")
    with writer.transaction(app_id="loader", app_version=3) as theirs:
        (path,) = theirs.append("t", table(0, 2))
    with pytest.raises(OperationConflict, match="'loader'") as caught:
        tx.commit()
    error = caught.value
    assert (error.transaction_id, error.revision) == (theirs.transaction_id, 1)
    assert (error.operation, error.app_id, error.table) == ("append", "loader", "t")
    assert error.key == path
    assert error.exit_code == ConflictError.exit_code


def test_what_an_owner_did_that_nobody_raced_costs_no_request(catalog, writer, store, fake):
    counting = CountingStore(store)
    counted = Catalog(counting, ambient=fake.ambient)
    with counted.writer("w", "db", checkpoint_every=0) as owner:
        commit(owner, [1], [2])
        tx = owner.transaction()
        tx.overwrite("t", table(2), "a = 2")
        counting.reset()
        tx.commit()
        assert {kind: n for kind, n in counting.counts.items() if n} == {"put": 1}


def test_a_wider_column_that_came_meanwhile_is_a_conflict(catalog, writer):
    """The predicate was bound to narrower integers: 3000000000 was none of them."""
    with writer.transaction() as tx:
        tx.append("t", pa.table({"a": pa.array([1], pa.int32())}))
    tx = catalog.writer("w", "db", shared=True).transaction()
    narrow = pa.table({"a": pa.array([7], pa.int32())})
    tx.overwrite("t", narrow, "a = 3000000000", validate=False)
    commit(writer, [3_000_000_000])
    with pytest.raises(OperationConflict):
        tx.commit()


def test_two_threads_of_one_writer_meet_in_one_commit(catalog, writer):
    """An overwrite is not put together with an append that it may meet: it sees it first."""
    commit(writer, [1])
    overwrite, append = writer.transaction(), writer.transaction()
    overwrite.overwrite("t", table(5), "a >= 5")
    append.append("t", table(7))
    results = writer._session._committer.commit([append._intent, overwrite._intent])
    assert results[0].revision == 1
    assert isinstance(results[1], OperationConflict)
    assert results[1].transaction_id == append.transaction_id
    again, other = writer.transaction(), writer.transaction()
    again.overwrite("t", table(5), "a >= 5 AND a < 7")
    other.append("t", table(7))
    first, second = writer._session._committer.commit([other._intent, again._intent])
    assert (first.revision, second.revision) == (2, 3)
    assert rows(catalog) == [1, 5, 7, 7]
