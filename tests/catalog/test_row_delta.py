"""A row delta: rows go and others come in one commit."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest
from lakelog import open_catalog
from lakelog.errors import (
    InvalidPredicate,
    ObjectNotFound,
    OperationInvalid,
    OperationNotAllowed,
    SchemaConflict,
    UsageError,
)
from table_cases import table


@pytest.fixture
def writer(catalog):
    with catalog.writer("w", "db", checkpoint_every=0) as opened:
        with opened.transaction() as tx:
            tx.append("t", table(1, 2, 3))
        yield opened


def rows(catalog):
    return sorted(catalog.snapshot("db").to_arrow("t").column("a").to_pylist())


@pytest.mark.parametrize("mode", ["predicate", "rows"])
def test_rows_go_and_others_come(catalog, writer, mode):
    with writer.transaction() as tx:
        done = tx.row_delta("t", table(2, 4), "a = 2 OR a = 3", mode=mode)
    assert (done.deleted.files_touched, len(done.paths)) == (1, 1)
    assert rows(catalog) == [1, 2, 4], "the data is none of what is deleted"
    assert catalog.history("db").to_pylist()[-1]["operation"] == "row_delta"


def test_a_predicate_that_does_not_fit_leaves_the_transaction_as_it_was(catalog, writer):
    with writer.transaction() as tx:
        with pytest.raises(InvalidPredicate):
            tx.row_delta("t", table(5), "nowhere = 2")
        tx.append("t", table(6))
    assert rows(catalog) == [1, 2, 3, 6]


@pytest.mark.parametrize("call", ["row_delta", "delete"])
def test_what_was_refused_says_nothing_of_the_operation(catalog, writer, call):
    (path,) = catalog.snapshot("db").files("t").column("path").to_pylist()
    with writer.transaction() as tx:
        refused = tx.delete if call == "delete" else partial(tx.row_delta, "t", table(5))
        asked = ("t", "nowhere = 2") if call == "delete" else ("nowhere = 2",)
        with pytest.raises(InvalidPredicate):
            refused(*asked)
        tx.rewrite("t", [path])
    assert catalog.history("db").to_pylist()[-1]["operation"] == "rewrite"


def test_half_of_it_is_never_committed(catalog, writer):
    tx = writer.transaction()
    with pytest.raises(SchemaConflict):
        tx.row_delta("t", pa.table({"a": ["text"]}), "a = 1")
    with pytest.raises(UsageError, match="row_delta of table 't' broke off"):
        tx.commit()
    tx.discard()
    assert rows(catalog) == [1, 2, 3]


def test_who_is_for_something_else_is_refused(catalog, writer):
    tx = writer.transaction(operation="append")
    with pytest.raises(OperationInvalid):
        tx.row_delta("t", table(7), "a = 1")
    tx.discard()
    writer.close()
    with catalog.writer("w", "db", operations={"append"}) as opened:
        tx = opened.transaction()
        with pytest.raises(OperationNotAllowed):
            tx.row_delta("t", table(7), "a = 1")
        tx.discard()
    assert rows(catalog) == [1, 2, 3]
    with catalog.writer("w", "db", operations={"row_delta"}) as opened, opened.transaction() as tx:
        tx.row_delta("t", table(8), "a < 3")
    assert rows(catalog) == [3, 8]


def test_a_store_that_fails_while_rows_are_counted_leaves_the_transaction_as_it_was(
    tmp_path,
):
    catalog = open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("t", table(1, 2, 3))
        with writer.transaction() as tx:
            tx.delete("t", "a = 2", mode="predicate")
        file = tmp_path / "lake" / "w" / "db" / path
        with writer.transaction() as tx:
            file.rename(tmp_path / "away")
            for call in (lambda: tx.delete("t", "a < 5"),
                         lambda: tx.row_delta("t", table(1, 4), "a < 5")):  # fmt: skip
                with pytest.raises(ObjectNotFound):
                    call()
            (tmp_path / "away").rename(file)
            tx.append("u", table(9))
    assert rows(catalog) == [1, 3]
    assert catalog.history("db").to_pylist()[-1]["operation"] == "append"


@pytest.mark.parametrize("call", ["row_delta", "upsert"])
def test_other_operations_may_come_after_it(catalog, writer, call):
    with writer.transaction() as tx:
        (other,) = tx.write("u", table(1, 2))
    with writer.transaction() as tx:
        if call == "row_delta":
            tx.row_delta("t", table(4), "a = 3")
        else:
            tx.upsert("t", table(3), key=["a"])
        tx.rewrite("u", [other])
        tx.overwrite("u", table(5), "a = 2", validate=False)
    assert catalog.history("db").to_pylist()[-1]["operation"] == "overwrite"
    assert rows(catalog) == ([1, 2, 4] if call == "row_delta" else [1, 2, 3])


@pytest.mark.parametrize("declared", ["rewrite", "maintenance", "delete"])
def test_what_is_declared_otherwise_is_refused(writer, declared):
    tx = writer.transaction(operation=declared)
    with pytest.raises(OperationInvalid, match=f"declared as {declared}, and is asked for row_d"):
        tx.row_delta("t", table(8, 9, 10), "a < 5")
    tx.discard()


def test_of_a_table_with_a_key_the_new_rows_are_newer(catalog, writer):
    with writer.transaction() as tx:
        tx.write("t", table(7), clock=(4 * 10**15, 4 * 10**15))
        tx.evolve("t", key=["a"])
    with writer.transaction() as tx:
        tx.row_delta("t", table(7, 8), "a = 7")
    assert rows(catalog) == [1, 2, 3, 7, 8]
