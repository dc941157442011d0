"""`tx.upsert`: rows in the place of those with the same key."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog import Catalog, open_catalog
from lakelog.errors import (
    InvalidSchema,
    OperationInvalid,
    OperationNotAllowed,
    SchemaConflict,
    UsageError,
)
from lakelog.store import open_store
from lakelog.testing.counting import CountingStore


@pytest.fixture
def catalog(tmp_path):
    return open_catalog(str(tmp_path / "lake"))


def rows(ids, values, **more):
    return pa.table({"id": pa.array(ids, pa.int64()), "v": values, **more})


def write(writer, data, **options):
    with writer.transaction() as tx:
        return tx.write("t", data, **options)


def read(catalog):
    found = catalog.snapshot("db").to_arrow("t").to_pylist()
    return sorted((row["id"], row["v"]) for row in found)


def test_rows_of_a_table_without_a_key_are_replaced(catalog):
    writer = catalog.writer("u", "db")
    write(writer, rows([1, 2, 3], ["a", "b", "c"]))
    write(writer, rows([4, 2], ["d", "e"]))
    write(writer, rows([50, 60], ["far", "far"]))
    with writer.transaction() as tx:
        said = tx.upsert("t", rows([2, 4, 9, 9], ["B", "D", "x", "X"]), key=["id"])
    assert (said.rows, said.replaced, said.files_removed, said.files_touched) == (3, 3, 1, 1)
    assert len(said.paths) == 1
    assert read(catalog) == [
        (1, "a"), (2, "B"), (3, "c"), (4, "D"), (9, "X"), (50, "far"), (60, "far")
    ]  # fmt: skip
    assert catalog.snapshot("db").to_arrow("t").num_rows == 7


def test_upserts_are_told_from_other_operations(catalog):
    writer = catalog.writer("u", "db")
    with writer.transaction() as tx:
        tx.upsert("t", rows([1], ["a"]), key=["id"])
    assert catalog.history("db", "u")["operation"].to_pylist() == ["row_delta"]
    with pytest.raises(OperationInvalid, match="asked for row_delta"):
        writer.transaction(operation="maintenance").upsert("t", rows([1], ["a"]), key=["id"])


def test_a_writer_for_other_operations_writes_nothing_for_an_upsert(catalog, tmp_path):
    with catalog.writer("u", "db") as first:
        write(first, rows([1], ["a"]))
    before = sorted(tmp_path.rglob("*.*"))
    writer = catalog.writer("u", "db", operations={"append"}, shared=True)
    with pytest.raises(OperationNotAllowed, match="row_delta"), writer.transaction() as tx:
        tx.upsert("t", rows([1], ["b"]), key=["id"])
    assert sorted(tmp_path.rglob("*.*")) == before


def test_who_goes_on_after_a_refused_upsert_commits_what_is_asked_for_then(catalog):
    write(catalog.writer("u", "db"), rows([1, 2], ["a", "b"]))
    writer = catalog.writer("u", "db", operations={"append", "delete"}, shared=True)
    with writer.transaction() as tx:
        with pytest.raises(OperationNotAllowed):
            tx.upsert("t", rows([1], ["b"]), key=["id"])
        tx.delete("t", "id = 2")
    assert catalog.history("db", "u")["operation"].to_pylist()[-1] == "delete"


def test_a_key_of_several_columns(catalog):
    writer = catalog.writer("u", "db")
    write(writer, rows([1, 1, 2, 2], ["a", "b", "a", "b"], n=[0, 0, 0, 0]))
    with writer.transaction() as tx:
        said = tx.upsert("t", rows([1, 2, 3], ["b", "a", "b"], n=[1, 1, 1]), key=["id", "v"])
    assert said.replaced == 2
    found = catalog.snapshot("db").to_arrow("t").to_pylist()
    assert sorted((row["id"], row["v"], row["n"]) for row in found) == [
        (1, "a", 0), (1, "b", 1), (2, "a", 1), (2, "b", 0), (3, "b", 1),
    ]  # fmt: skip


def test_only_this_writers_rows_are_replaced(catalog):
    write(catalog.writer("v", "db"), rows([1], ["of v"]))
    writer = catalog.writer("u", "db")
    with writer.transaction() as tx:
        tx.upsert("t", rows([1], ["of u"]), key=["id"])
    assert read(catalog) == [(1, "of u"), (1, "of v")]


def test_rows_that_are_deleted_are_not_counted(catalog):
    writer = catalog.writer("u", "db")
    write(writer, rows([1, 2, 3], ["a", "b", "c"]))
    for value in ("B", "BB"):
        with writer.transaction() as tx:
            said = tx.upsert("t", rows([2], [value]), key=["id"])
        assert said.replaced == 1
    assert read(catalog) == [(1, "a"), (2, "BB"), (3, "c")]


def test_on_a_table_with_the_key_it_is_newer_than_all_of_this_log(catalog):
    writer = catalog.writer("u", "db")
    far = 1 << 60
    write(writer, rows([1, 2], ["a", "b"]), clock=(far, far))
    with writer.transaction() as tx:
        tx.evolve("t", key=["id"])
    with writer.transaction() as tx:
        said = tx.upsert("t", rows([1, 1, 3], ["x", "X", "c"]))
    assert (said.rows, said.replaced, said.files_touched) == (2, None, 0)
    with writer.transaction() as tx:
        tx.upsert("t", rows([3], ["once"]))
        tx.upsert("t", rows([3], ["C"]), key=["id"])
    assert read(catalog) == [(1, "X"), (2, "b"), (3, "C")]
    with writer.transaction() as tx:
        tx.upsert("t", rows([3], ["late"]), clock=(5, 5))
    assert read(catalog) == [(1, "X"), (2, "b"), (3, "C")]


def test_another_key_on_a_table_with_one_leaves_all_files(catalog):
    writer = catalog.writer("u", "db")
    write(writer, rows([1], ["old"]), clock=(1, 1))
    write(writer, rows([1], ["a"]), clock=(2, 2))
    with writer.transaction() as tx:
        tx.evolve("t", key=["id"])
    with writer.transaction() as tx:
        said = tx.upsert("t", rows([7], ["a"]), key=["v"])
    assert (said.replaced, said.files_removed, said.files_touched) == (1, 0, 1)
    assert read(catalog) == [(7, "a")]  # not (1, "old")


def test_types_that_are_wider_in_the_files_or_in_the_data(catalog):
    writer = catalog.writer("u", "db")
    write(writer, pa.table({"id": pa.array([1, 2], pa.int16()), "v": ["a", "b"]}))
    with writer.transaction() as tx:
        assert tx.upsert("t", rows([2, 1 << 40], ["B", "c"]), key=["id"]).replaced == 1
    small = pa.table({"id": pa.array([1], pa.int8()), "v": ["A"]})
    with writer.transaction() as tx:
        assert tx.upsert("t", small, key=["id"]).replaced == 1
    assert read(catalog) == [(1, "A"), (2, "B"), (1 << 40, "c")]
    with writer.transaction() as tx, pytest.raises(SchemaConflict):
        tx.upsert("t", pa.table({"id": ["1"], "v": ["A"]}), key=["id"])


def test_a_column_that_comes_with_the_data(catalog):
    writer = catalog.writer("u", "db")
    write(writer, pa.table({"v": ["a"]}))
    with writer.transaction() as tx:
        assert tx.upsert("t", rows([1], ["b"]), key=["id"]).replaced == 0
    assert catalog.snapshot("db").to_arrow("t").num_rows == 2


def test_what_is_refused(catalog):
    writer = catalog.writer("u", "db")
    data = rows([1], ["a"])
    with writer.transaction() as tx:
        for table, options, error in (
            (data, {}, UsageError),
            (data, {"key": ["none"]}, UsageError),
            (data, {"key": "id"}, UsageError),
            (data, {"key": ["id", "id"]}, UsageError),
            (rows([1, None], ["a", "b"]), {"key": ["id"]}, InvalidSchema),
            (pa.table({"f": [1.5]}), {"key": ["f"]}, InvalidSchema),
        ):
            with pytest.raises(error):
                tx.upsert("t", table, **options)
        assert not tx._intent.actions
        tx.write("t", data)
        with pytest.raises(UsageError, match="another transaction"):
            tx.upsert("t", data, key=["id"])
    assert read(catalog) == [(1, "a")]


FAR = 1 << 60  # clocks that count nanoseconds are above a writer's own


def test_new_rows_by_another_key_are_newer_than_those_that_they_replace(catalog):
    writer = catalog.writer("u", "db")
    write(writer, rows([1], ["a"]), clock=(FAR, FAR))
    with writer.transaction() as tx:
        tx.evolve("t", key=["id"])
    with writer.transaction() as tx:
        assert tx.upsert("t", rows([1], ["a"], w=["new"]), key=["v"]).replaced == 1
    assert read(catalog) == [(1, "a")], "the deleted row of its key doesn't hide it"


@pytest.mark.parametrize("how", ["row_delta", "upsert"])
def test_new_rows_are_newer_where_another_log_gives_the_key(catalog, how):
    writer, other = catalog.writer("u", "db"), catalog.writer("v", "db")
    write(writer, rows([1, 2], ["a", "b"]), clock=(FAR, FAR))
    write(other, rows([3], ["c"]), clock=(FAR, FAR))
    with other.transaction() as tx:
        tx.evolve("t", key=["id"])
    with writer.transaction() as tx:
        if how == "upsert":
            assert tx.upsert("t", rows([1], ["A"]), key=["id"]).replaced == 1
        else:
            tx.row_delta("t", rows([1], ["A"]), "id = 1")
    assert read(catalog) == [(1, "A"), (2, "b"), (3, "c")]


def test_a_new_writer_takes_over_the_key_of_the_others(tmp_path):
    counting = CountingStore(open_store(str(tmp_path / "lake")))
    catalog = Catalog(counting)
    with catalog.writer("a", "db") as a:
        write(a, rows([1, 2], ["a", "a"]))
        with a.transaction() as tx:
            tx.evolve("t", key=["id"])
    with catalog.writer("b", "db") as b:
        with pytest.raises(UsageError, match=r"has no column 'id'"), b.transaction() as tx:
            tx.upsert("t", pa.table({"v": ["x"]}))
        with b.transaction() as tx:
            assert tx.upsert("t", rows([2, 3], ["b", "b"])).replaced is None
        assert read(catalog) == [(1, "a"), (2, "b"), (3, "b")]
        counting.reset()
        with b.transaction() as tx:
            tx.upsert("t", rows([3], ["c"]))
        assert counting.counts["list"] <= 1  # it is in this log now
    definitions = [state.definitions.of("t") for state in catalog.snapshot("db")._states]
    assert [one.key for one in definitions] == [("id",), ("id",)]
    assert read(catalog) == [(1, "a"), (2, "b"), (3, "c")]


def test_it_is_so_where_this_log_knows_the_table_without_a_key(catalog):
    with catalog.writer("a", "db") as a, catalog.writer("b", "db") as b:
        write(a, rows([1], ["a"]))
        write(b, rows([2], ["b"]))
        with a.transaction() as tx:
            tx.evolve("t", key=["id"])
        with b.transaction() as tx:
            tx.upsert("t", rows([1, 2], ["B", "B"]))
    assert read(catalog) == [(1, "B"), (2, "B")]


def test_keys_that_contradict_each_other_are_refused_with_the_writers(catalog):
    for writer, key in (("a", ["id"]), ("b", ["v"])):
        with catalog.writer(writer, "db") as one, one.transaction() as tx:
            tx.write("t", rows([1], [writer]))
            tx.evolve("t", key=key)
    with (
        catalog.writer("c", "db") as c,
        pytest.raises(SchemaConflict, match=r"\(id\) in the log of 'a' and \(v\) in that of 'b'"),
        c.transaction() as tx,
    ):
        tx.upsert("t", rows([2], ["c"]))
    with catalog.writer("c", "db") as c, c.transaction() as tx:
        assert tx.upsert("t", rows([2], ["c"]), key=["id"]).rows == 1
