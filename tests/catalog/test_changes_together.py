"""Deletes, changed columns, keys and operations of one table, where one follows the other."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import (
    ColumnsChanged,
    OperationConflict,
    OperationInvalid,
    OperationNotAllowed,
    UsageError,
)
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore


@pytest.fixture
def catalog():
    return Catalog(MemoryStore("together"))


def rows(catalog, table="t", **asked):
    found = catalog.snapshot("db").to_arrow(table, **asked).to_pylist()
    assert catalog.snapshot("db").to_duckdb().sql(f"from {table}").arrow().read_all().num_rows >= 0
    return [tuple(row.values()) for row in found]


def commit(writer, do):
    with writer.transaction() as tx:
        return do(tx)


def test_a_tombstone_follows_renames_and_defaults(catalog):
    writer = catalog.writer("w", "db")
    commit(writer, lambda tx: tx.write("t", pa.table({"a": ["x", "y"], "b": [5, 6]})))
    commit(writer, lambda tx: tx.evolve("t", drop=["b"]))
    commit(writer, lambda tx: tx.evolve("t", add={"b": pa.int64()}, default={"b": 50}))
    commit(writer, lambda tx: tx.evolve("t", rename={"a": "name"}))
    commit(writer, lambda tx: tx.write("t", pa.table({"name": ["z"], "b": [5]})))
    assert rows(catalog) == [("x", 50), ("y", 50), ("z", 5)]
    commit(writer, lambda tx: tx.delete("t", "b = 5 AND name <> 'q'", mode="predicate"))
    assert rows(catalog) == [("x", 50), ("y", 50)], "the old b, 5, was another column"
    commit(writer, lambda tx: tx.delete("t", "b = 50 AND name = 'x'", mode="predicate"))
    assert rows(catalog) == [("y", 50)], "files without it have the default"
    commit(writer, lambda tx: tx.evolve("t", rename={"name": "called"}, drop=["b"]))
    assert rows(catalog) == [("y",)]
    writer.checkpoint()
    assert rows(Catalog(catalog.store)) == [("y",)]


def test_a_delete_by_predicate_is_refused_where_files_came_under_new_names(catalog):
    """Seed 90000007 of the simulator: the tombstone knew b, and the file that came meanwhile,
    which is older than it, calls that c."""
    writer = catalog.writer("w", "db", shared=True)
    commit(writer, lambda tx: tx.write("t", pa.table({"a": [1, 0], "b": [5, 6]})))
    tx = writer.transaction()
    tx.delete("t", "b = 5", mode="predicate")
    other = catalog.writer("w", "db", shared=True)
    commit(other, lambda tx: tx.evolve("t", rename={"b": "c"}))
    commit(other, lambda tx: tx.write("t", pa.table({"a": [2], "c": [5]})))
    with pytest.raises(ColumnsChanged):
        tx.commit()
    assert sorted(rows(catalog)) == [(0, 6), (1, 5), (2, 5)]
    commit(writer, lambda tx: tx.delete("t", "c = 5", mode="predicate"))
    assert rows(catalog) == [(0, 6)]


@pytest.mark.parametrize("mode", ["predicate", "rows"])
def test_what_is_written_anew_has_no_deleted_rows(catalog, mode):
    writer = catalog.writer("w", "db")
    commit(writer, lambda tx: tx.write("t", pa.table({"n": list(range(10))})))
    commit(writer, lambda tx: tx.delete("t", "n IN (0, 2, 4)", mode=mode))
    paths = catalog.snapshot("db").files("t")["path"].to_pylist()
    done = commit(writer, lambda tx: tx.rewrite("t", paths))
    assert done.rows_rewritten == 7
    assert sorted(rows(catalog)) == [(1,), (3,), (5,), (6,), (7,), (8,), (9,)]
    commit(writer, lambda tx: tx.delete("t", "n = 9", mode=mode))
    done = commit(
        writer, lambda tx: tx.overwrite("t", pa.table({"n": [77]}), "n >= 7", validate=False)
    )
    assert (done.rows_removed, done.rows_rewritten) == (2, 4)
    assert sorted(rows(catalog)) == [(1,), (3,), (5,), (6,), (77,)]


@pytest.mark.parametrize("mode", ["predicate", "rows"])
@pytest.mark.parametrize("what", ["rewrite", "overwrite", "by hand"])
def test_a_delete_meanwhile_is_a_conflict_for_what_writes_rows_anew(catalog, mode, what):
    """Else the deleted rows would come back with the new file."""
    one, other = (catalog.writer("w", "db", shared=True) for _ in range(2))
    commit(one, lambda tx: tx.write("t", pa.table({"n": list(range(10))})))
    commit(other, lambda tx: tx.write("u", pa.table({"n": [1]})))
    (path,) = catalog.snapshot("db").files("t")["path"].to_pylist()
    tx = one.transaction()
    if what == "rewrite":
        tx.rewrite("t", [path])
    elif what == "overwrite":
        tx.overwrite("t", pa.table({"n": [9]}), "n = 9")
    else:
        tx.remove(path)
        tx.write("t", pa.table({"n": list(range(10))}))
    commit(other, lambda own: own.delete("t", "n = 3", mode=mode))
    with pytest.raises(OperationConflict, match="deleted rows since"):
        tx.commit()
    assert sorted(rows(catalog)) == [(n,) for n in range(10) if n != 3]


def test_not_after_deletes_or_changed_columns_of_the_same_transaction(catalog):
    writer = catalog.writer("w", "db")
    commit(writer, lambda tx: tx.write("t", pa.table({"n": [1, 2]})))

    def overwritten_after(before):
        with writer.transaction() as tx:
            before(tx)
            tx.overwrite("t", pa.table({"n": [2]}), "n = 2")

    for before in (
        lambda tx: tx.delete("t", "n = 1"),
        lambda tx: tx.evolve("t", rename={"n": "m"}),
    ):
        with pytest.raises(UsageError, match="Commit that first"):
            overwritten_after(before)
    assert rows(catalog) == [(1,), (2,)]


def test_files_of_a_table_with_a_key_are_not_replaced(catalog):
    writer = catalog.writer("w", "db")
    commit(writer, lambda tx: tx.write("t", pa.table({"id": [1, 2], "s": ["a", "b"]})))
    commit(writer, lambda tx: tx.evolve("t", key=["id"]))
    commit(writer, lambda tx: tx.upsert("t", pa.table({"id": [2], "s": ["B"]})))
    paths = catalog.snapshot("db").files("t")["path"].to_pylist()
    data = pa.table({"id": [3], "s": ["B"]})
    with pytest.raises(UsageError, match="has a key"), writer.transaction() as tx:
        tx.overwrite("t", data, "s = 'B'")
    with pytest.raises(UsageError, match="has a key"), writer.transaction() as tx:
        tx.rewrite("t", paths)
    commit(writer, lambda tx: tx.delete("t", "s = 'B'"))
    assert rows(catalog) == [(1, "a")], "the older row of 2 doesn't come back"

    def in_the_place_of_others(tx):
        tx.delete("t", "id <= 2")
        tx.write("t", pa.table({"id": [2, 3], "s": ["new", "new"]}))

    commit(writer, in_the_place_of_others)
    assert rows(catalog) == [(2, "new"), (3, "new")]


def test_a_writer_learns_that_a_table_has_no_key_any_more(catalog):
    writer = catalog.writer("w", "db", shared=True)
    commit(writer, lambda tx: tx.write("t", pa.table({"a": [1, 2]})))
    commit(writer, lambda tx: tx.evolve("t", key=["a"]))
    commit(catalog.writer("w", "db", shared=True), lambda tx: tx.evolve("t", key=[]))
    commit(writer, lambda tx: tx.overwrite("t", pa.table({"a": [3]})))
    assert rows(catalog) == [(3,)]


def test_rows_are_not_deleted_after_their_columns_or_files_changed_in_the_same_transaction(catalog):
    writer = catalog.writer("w", "db")
    commit(writer, lambda tx: tx.write("t", pa.table({"x": [1, 2, 3], "b": [1, 50, 7]})))
    new = pa.table({"x": [30], "b": [0]})

    def changes(tx, kind):
        if kind == "columns":
            tx.evolve("t", drop=["b"], add={"b": pa.int64()}, default={"b": 50})
        else:
            tx.overwrite("t", new, "x = 3", validate=False)

    def do(kind, what):
        with writer.transaction() as tx:
            changes(tx, kind)
            what(tx)

    for kind in ("columns", "overwrite"):
        for what in (
            lambda tx: tx.delete("t", "x = 1"),
            lambda tx: tx.upsert("t", pa.table({"x": [1], "b": [5]}), key=["x"]),
        ):
            with pytest.raises(UsageError, match="can't be deleted in a transaction that has"):
                do(kind, what)
    assert rows(catalog) == [(1, 1), (2, 50), (3, 7)]


@pytest.mark.parametrize("operation", ["append", "rewrite"])
def test_appends_and_rewrites_delete_no_rows(catalog, operation):
    writer = catalog.writer("w", "db")
    commit(writer, lambda tx: tx.write("t", pa.table({"x": [1, 2], "v": ["old", "old"]})))
    writer.close()
    writer = catalog.writer("w", "db", operations={operation})

    def do(what):
        with writer.transaction(operation=operation) as tx:
            what(tx)

    for what in (
        lambda tx: tx.upsert("t", pa.table({"x": [1], "v": ["new"]}), key=["x"]),
        lambda tx: tx.delete("t", "x = 2", mode="rows"),
        lambda tx: tx.delete("t", "v IS NOT NULL AND x = 2", mode="predicate"),
    ):
        with pytest.raises((OperationInvalid, OperationNotAllowed)):
            do(what)
    assert rows(catalog) == [(1, "old"), (2, "old")]


def test_maintenance_is_what_it_does(catalog):
    writer = catalog.writer("w", "db", operations={"maintenance"})

    def do():
        with writer.transaction(operation="maintenance") as tx:
            tx.write("t", pa.table({"x": [1]}))

    with pytest.raises(OperationNotAllowed):
        do()


def test_changes_of_a_table_to_which_another_log_gives_a_key(catalog):
    one, other = catalog.writer("a", "db"), catalog.writer("b", "db")
    commit(one, lambda tx: tx.write("t", pa.table({"k": [1], "v": [1]})))
    commit(one, lambda tx: tx.evolve("t", key=["k"]))
    since = catalog.snapshot("db").token
    commit(other, lambda tx: tx.write("t", pa.table({"k": [1], "v": [2]})))
    assert rows(catalog) == [(1, 2)]
    for start in ({"a": 1}, since):
        found = catalog.changes("db", "t", since=start).read_all().to_pylist()
        told = [(row["_change"], row["_writer"], row["v"]) for row in found]
        assert told == [("delete", "a", 1), ("insert", "b", 2)]


def test_a_filter_that_leaves_no_file_of_a_rebuilt_log_with_deletes(catalog):
    writer = catalog.writer("w", "db")
    commit(writer, lambda tx: tx.write("t", pa.table({"x": [1, 2, 3]})))
    commit(writer, lambda tx: tx.delete("t", "x = 2", mode="predicate"))
    writer.close()
    execute_rebuild(catalog, plan_rebuild(catalog, "w", "db"))
    assert rows(catalog) == [(1,), (3,)]
    assert rows(catalog, where="x > 100") == []


def test_what_is_no_plan_and_no_snapshot_is_refused_by_type(catalog):
    writer = catalog.writer("w", "db")
    commit(writer, lambda tx: tx.write("t", pa.table({"x": [1]})))
    with pytest.raises(UsageError, match="execute="):
        catalog.drop("db", "t", execute="yes")
    with pytest.raises(UsageError, match="compared with another one"):
        catalog.snapshot("db").diff(5)


def test_diff_tells_what_is_read_otherwise_in_place(catalog):
    writer = catalog.writer("w", "db")
    commit(writer, lambda tx: tx.write("t", pa.table({"id": [1, 2], "s": ["a", "b"]})))
    before = catalog.snapshot("db")
    assert before.diff(catalog.snapshot("db")).is_empty
    for do, what in (
        (lambda tx: tx.delete("t", "id = 1", mode="rows"), ["deletes"]),
        (lambda tx: tx.evolve("t", rename={"s": "text"}), ["columns"]),
        (lambda tx: tx.evolve("t", key=["id"]), ["key", "columns"]),
    ):
        before = catalog.snapshot("db")
        commit(writer, do)
        found = before.diff(catalog.snapshot("db"), "t")
        assert not found.is_empty
        assert found.in_place.to_pylist() == [
            {"table": "t", "writer": "w", "what": each} for each in what
        ]
        assert found.files.num_rows == 0


def test_a_table_keeps_the_key_that_one_log_gives_it(catalog):
    one, other = catalog.writer("a", "db"), catalog.writer("b", "db")
    commit(one, lambda tx: tx.write("t", pa.table({"k": [1], "v": [1]})))
    commit(one, lambda tx: tx.evolve("t", key=["k"]))
    for value in (2, 3):
        commit(other, lambda tx, v=value: tx.write("t", pa.table({"k": [1], "v": [v]})))
    with pytest.raises(UsageError, match="would show older rows again"):
        catalog.drop("db", "t", writers=["a"], execute=True)
    assert rows(catalog) == [(1, 3)]
    catalog.drop("db", "t", execute=True)
    assert catalog.snapshot("db").tables() == []
