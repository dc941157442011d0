"""What an operation is given is held against the table as readers will see it: columns that came
anew, that changed names, and that data leaves to their default."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog import open_catalog
from lakelog.catalog.commit.distributed_write import Sharing, write_part
from lakelog.errors import OperationInvalid, UsageError

INT = pa.int64()


def ints(**columns):
    return pa.table({name: pa.array(values, INT) for name, values in columns.items()})


@pytest.fixture
def catalog(tmp_path):
    return open_catalog(str(tmp_path / "lake"))


@pytest.fixture
def writer(catalog):
    """Its table has rows from before the column `b` came anew, and one from after."""
    with catalog.writer("w", "db") as opened:
        do(opened, lambda tx: tx.write("t", ints(a=[1, 2], b=[5, 6])))
        do(opened, lambda tx: tx.evolve("t", drop=["b"]))
        do(opened, lambda tx: tx.evolve("t", add={"b": INT}))
        do(opened, lambda tx: tx.write("t", ints(a=[3], b=[7])))
        yield opened


@pytest.fixture
def defaulting(catalog):
    """Its table has a row that leaves `b` to its default, and one that has null in it."""
    with catalog.writer("w", "db") as opened:
        do(opened, lambda tx: tx.write("t", ints(a=[1])))
        do(opened, lambda tx: tx.evolve("t", add={"b": INT}, default={"b": 50}))
        do(opened, lambda tx: tx.write("t", ints(a=[3], b=[None])))
        yield opened


def do(writer, change):
    with writer.transaction() as tx:
        return change(tx)


def rows(catalog):
    found = catalog.snapshot("db").to_arrow("t").select(["a", "b"]).to_pylist()
    return sorted((row["a"], row["b"]) for row in found)


def paths(catalog, *, newest):
    found = catalog.snapshot("db").files("t")["path"].to_pylist()
    return found[-1:] if newest else found


@pytest.mark.parametrize("values", [[123, 456, 7], [5, 6, 7], [None, None, 8]])
def test_a_rewrite_has_the_values_that_readers_see(catalog, writer, values):
    with pytest.raises(OperationInvalid, match="with other values"):
        do(writer, lambda tx: tx.rewrite("t", paths(catalog, newest=False),
                                         ints(a=[1, 2, 3], b=values)))  # fmt: skip
    data = ints(a=[1, 2, 3], b=[None, None, 7])  # without anything that says of which `b`
    do(writer, lambda tx: tx.rewrite("t", paths(catalog, newest=False), data))
    assert rows(catalog) == [(1, None), (2, None), (3, 7)]
    assert catalog.history("db").to_pylist()[-1]["operation"] == "rewrite"


def test_a_rewrite_does_not_leave_a_null_to_the_default(catalog, defaulting):
    with pytest.raises(OperationInvalid, match="with other values"):
        do(defaulting, lambda tx: tx.rewrite("t", paths(catalog, newest=True), ints(a=[3])))
    data = ints(a=[1, 3], b=[50, None])
    do(defaulting, lambda tx: tx.rewrite("t", paths(catalog, newest=False), data))
    assert rows(catalog) == [(1, 50), (3, None)]
    one = pa.concat_tables([ints(a=[1], b=[50]), ints(a=[3], b=[None])])
    do(defaulting, lambda tx: tx.rewrite("t", paths(catalog, newest=False), one))


def overwritten(writer, data, where):
    return do(writer, lambda tx: tx.overwrite("t", data, where))


def overwritten_by_tasks(writer, data, where):
    """As Spark's tasks do it."""
    with writer.transaction() as tx:
        sharing = Sharing(tx, "t", data.schema, overwrite=True, where=where)
        store, batches = writer._session.wide, iter(data.to_batches())
        sharing.finish([write_part(store, sharing.share, batches, task=0, attempt=0)])


@pytest.mark.parametrize("way", [overwritten, overwritten_by_tasks])
def test_data_meets_a_predicate_as_readers_see_it(catalog, writer, way):
    with pytest.raises(OperationInvalid, match="don't meet b IS NULL"):
        way(writer, ints(a=[9], b=[100]), "b IS NULL")
    way(writer, ints(a=[9], b=[7]), "b = 7")
    assert rows(catalog) == [(1, None), (2, None), (9, 7)]


@pytest.mark.parametrize("way", [overwritten, overwritten_by_tasks])
def test_data_that_lacks_a_column_has_its_default(catalog, defaulting, way):
    with pytest.raises(OperationInvalid, match=r"the first has .*50"):
        way(defaulting, ints(a=[9]), "b IS NULL")
    way(defaulting, ints(a=[9]), "b = 50")
    assert rows(catalog) == [(3, None), (9, 50)]


@pytest.mark.parametrize("swaps", range(1, 5))
def test_names_that_were_swapped(catalog, swaps):
    with catalog.writer("w", "db") as writer:
        do(writer, lambda tx: tx.write("t", ints(a=[1, 2], b=[5, 6])))
        for _ in range(swaps):
            do(writer, lambda tx: tx.evolve("t", rename={"a": "b", "b": "a"}))
        left = [pair for pair in rows(catalog) if pair[0] >= 2]
        overwritten(writer, ints(a=[0], b=[1]), "a < 2")
        assert rows(catalog) == [(0, 1), *left]
        tx = writer.transaction()
        assert tx.plan_overwrite("t", ints(a=[], b=[]).schema, "a < 2").rows_removed == 1
        tx.discard()


def test_nothing_is_read_of_a_table_whose_columns_the_transaction_has_changed(writer):
    tx = writer.transaction()
    tx.evolve("t", rename={"b": "c"})
    with pytest.raises(UsageError, match="Commit that first"):
        tx.overwrite("t", ints(a=[1], b=[1]), "a = 1")
    tx.discard()
