"""What one operation does to another: found by random histories of all of them together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from changing_cases import World
from lakelog.catalog.data.parquet import ROW_GROUP_ROWS
from lakelog.errors import ColumnsChanged, OperationConflict, SchemaConflict, UsageError
from lakelog.rebuild import execute_rebuild, plan_rebuild


@pytest.fixture
def world():
    return World()


def texts(*values):
    return pa.table({"a": pa.array(values, pa.string())})


def test_a_table_that_comes_again_after_a_drop_is_skipped_by_its_own_files_alone(world):
    world.write(1, 2)
    world.write(3, table="daily")  # in one piece of the checkpoint with it
    with world.writer() as opened:
        opened.checkpoint()
    world.catalog.drop("weather", "hourly", execute=True)
    with world.writer(checkpoint_every=0) as opened, opened.transaction() as tx:
        tx.write("hourly", texts("x", "y"))
    snapshot = world.catalog.snapshot("weather")
    assert snapshot.to_arrow("hourly", where="a = 'x'").to_pylist() == [{"a": "x"}]
    assert snapshot.to_arrow("hourly", where="a = 'z'").num_rows == 0
    assert snapshot.explain("hourly", "a = 'z'")["kept"].to_pylist() == [False]
    assert snapshot.statistics("hourly").num_rows == 1


def test_a_query_that_skips_all_files_may_have_deletes_of_a_rebuilt_log(world):
    world.write(1, 2)
    world.write(7)
    with world.writer() as opened, opened.transaction() as tx:
        assert tx.delete("hourly", "n = 1", mode="predicate").tombstones == 1
    execute_rebuild(world.catalog, plan_rebuild(world.catalog, "oslo", "weather"))
    snapshot = world.catalog.snapshot("weather")
    assert snapshot.to_arrow("hourly", where="n > 100").num_rows == 0
    assert snapshot.to_arrow("hourly", where="n < 3")["n"].to_pylist() == [2]


@pytest.mark.parametrize("other", [{"add": {"n": pa.int64()}}, {"rename": {"m": "n"}}])
def test_a_column_of_a_key_can_not_be_dropped_for_another_of_its_name(world, other):
    with world.writer() as opened:
        with opened.transaction() as tx:
            tx.write("hourly", pa.table({"n": [1, 2], "m": [3, 4]}))
            tx.evolve("hourly", key=["n"])
        with opened.transaction() as tx:
            with pytest.raises(UsageError, match="'n' is of the key of table 'hourly'"):
                tx.evolve("hourly", drop=["n"], **other)
            tx.evolve("hourly", drop=["n"], key=["n"], **other)
    assert world.catalog.snapshot("weather").key("hourly") == ("n",)


def test_a_writer_that_is_open_learns_of_changed_columns(world):
    """A writer that only appends would be refused for good: nothing of it reaches the log."""
    world.write(1)
    numbers = pa.table({"n": pa.array([2], pa.int64()), "m": pa.array([1 << 40], pa.int64())})
    with world.writer() as owner:
        with owner.transaction() as tx:
            tx.write("hourly", pa.table({"m": pa.array([1], pa.int32())}))
            tx.evolve("hourly", order=["n"])
        world.catalog.evolve("weather", "hourly", widen={"m": pa.int64()})
        with owner.transaction() as tx:
            tx.write("hourly", numbers)
        world.catalog.evolve("weather", "hourly", add={"x": pa.string()})
        with owner.transaction() as tx:
            tx.evolve("hourly", drop=["x"])
        late = owner.transaction()
        world.catalog.evolve("weather", "hourly", rename={"m": "x"})
        late.write("hourly", pa.table({"n": [3]}))
        late.write("hourly", pa.table({"x": ["text"]}))
        with pytest.raises(ColumnsChanged):
            late.commit()
    rows = world.catalog.snapshot("weather").to_arrow("hourly")
    assert sorted(map(str, rows["n"].to_pylist())) == ["1", "2", "None"]


def test_a_delete_meets_a_file_that_came_since_and_whose_types_it_can_not_look_at(world):
    """The predicate would hold of it, too, and nobody could read the file any more."""
    world.write(1, 2)
    with world.writer(shared=True) as opened:
        late = opened.transaction()
        assert late.delete("hourly", "n = 1", mode="predicate").tombstones == 1
        with world.writer(shared=True) as other:
            with other.transaction() as tx:
                tx.write("hourly", pa.table({"m": [9]}))
            with other.transaction() as tx:
                tx.write("hourly", pa.table({"n": ["one"], "m": [8]}), on_conflict="allow")
        with pytest.raises(OperationConflict, match=r"revision 0.* column 'n' has a type"):
            late.commit()
        with opened.transaction() as tx, pytest.raises(SchemaConflict):
            tx.delete("hourly", "n = 1", mode="predicate")
    assert world.catalog.snapshot("weather").to_arrow("hourly", columns=["m"])["m"].null_count == 2


def test_a_delete_of_a_table_that_was_dropped_meanwhile_is_refused(world):
    world.write(1, 2)
    with world.writer(shared=True) as opened:
        late = opened.transaction()
        late.delete("hourly", "n = 1", mode="predicate")
        world.catalog.drop("weather", "hourly", execute=True)
        with pytest.raises(OperationConflict, match="the table has been dropped since"):
            late.commit()
    assert "hourly" not in world.catalog.snapshot("weather").tables()


def test_a_refused_upsert_loses_its_transaction_for_its_deletes_are_written(world):
    """A rebuild would believe them, were the rest of the transaction committed."""
    with world.writer() as opened:
        with opened.transaction() as tx:
            tx.write("hourly", pa.table({"n": [1, 2], "v": [1, 2]}))
        tx = opened.transaction()
        with pytest.raises(SchemaConflict):
            tx.upsert("hourly", pa.table({"n": [1], "v": ["text"]}), key=["n"])
        with pytest.raises(UsageError, match="The upsert of table 'hourly' broke off"):
            tx.write("daily", pa.table({"n": [1]}))


def test_an_older_claim_holds_beside_a_later_one(world):
    """Rows that somebody deleted would come back, as they were read before that."""
    with world.writer(shared=True) as opened, world.writer(shared=True) as other:
        with opened.transaction() as tx:
            (path,) = tx.write("hourly", pa.table({"n": [1, 2, 3]}))
            tx.write("hourly", pa.table({"n": [7]}))
            tx.write("daily", pa.table({"n": [1]}))
        late = opened.transaction()
        with other.transaction() as tx:
            tx.delete("hourly", "n = 1")
        late.delete("daily", "n = 99")  # its session learns of the other's revision
        late.overwrite("hourly", pa.table({"n": [7]}), "n = 7")
        late.remove(path)
        late.write("hourly", pa.table({"n": [1, 2, 3]}))
        with pytest.raises(OperationConflict):
            late.commit()


def test_a_write_that_breaks_off_takes_its_transaction_with_it(world):
    """Its files say that they are the transaction's: a rebuild would count them beside those of the
    write that took its place."""
    schema = pa.schema([("n", pa.int64())])

    def breaking():
        for number in range(3):
            yield pa.record_batch([pa.array(np.full(ROW_GROUP_ROWS, number))], schema)
        raise RuntimeError("the source has gone away")

    with world.writer() as opened:
        tx = opened.transaction()
        reader = pa.RecordBatchReader.from_batches(schema, breaking())
        with pytest.raises(RuntimeError):
            tx.write("hourly", reader, file_bytes=1)
        data = [key for key in world.store.list("") if "/data/" in key.key]
        assert data, "files were put"
        with pytest.raises(UsageError, match="write of table 'hourly' broke off"):
            tx.write("hourly", pa.table({"n": [1]}))
        with pytest.raises(UsageError, match="write of table 'hourly' broke off"):
            tx.commit()
        with opened.transaction() as tx:
            tx.write("hourly", pa.table({"n": [1]}))
    assert world.catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist() == [1]


@pytest.mark.parametrize("where", ["n = 50", "n >= 3"])
def test_a_delete_that_leaves_no_predicate_meets_rows_that_came_since(world, where):
    """Nothing in the log says that they go."""
    world.write(1, 2)
    world.write(3, 4)
    with world.writer(shared=True) as opened, world.writer(shared=True) as other:
        late, beside = opened.transaction(), opened.transaction()
        done = late.delete("hourly", where, mode="predicate")
        assert (done.tombstones, done.files_removed) == (0, int(where == "n >= 3"))
        beside.delete("hourly", "n = 70", mode="predicate")
        with other.transaction() as tx:
            tx.write("hourly", pa.table({"n": [40, 60]}))
        with pytest.raises(OperationConflict, match=f"that it deletes: rows with {where}"):
            late.commit()
        assert beside.commit() is None, "no such row has come"
        with opened.transaction() as tx:
            assert tx.delete("hourly", where, mode="predicate").rows != 0
    rows = world.catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist()
    assert sorted(rows) == ([1, 2, 3, 4, 40, 60] if where == "n = 50" else [1, 2])


def test_two_row_deltas_of_one_new_id_do_not_both_stand(world):
    world.write(1, 2)
    with world.writer(shared=True) as opened, world.writer(shared=True) as other:
        late, first = opened.transaction(), other.transaction()
        for tx in (late, first):
            tx.row_delta("hourly", pa.table({"n": [9]}), "n = 9")
        first.commit()
        with pytest.raises(OperationConflict, match="row_delta of table 'hourly'"):
            late.commit()
        with opened.transaction() as tx:
            tx.row_delta("hourly", pa.table({"n": [9]}), "n = 9")
    rows = world.catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist()
    assert sorted(rows) == [1, 2, 9]


def test_deletes_of_others_are_no_conflict_with_a_row_delta(world):
    world.write(1, 2)
    with world.writer(shared=True) as opened, world.writer(shared=True) as other:
        late = opened.transaction()
        late.row_delta("hourly", pa.table({"n": [9]}), "n = 9")
        with other.transaction() as tx:
            tx.delete("hourly", "n = 1")
        late.commit()
    assert sorted(world.catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist()) == [2, 9]


@pytest.mark.parametrize("has_key", [False, True])
def test_a_row_delta_does_not_delete_newer_rows_of_its_keys(world, has_key):
    """They would hide the rows that come, and be deleted themselves: no row would be left."""
    one, two = (pa.table({"n": [1], "v": [v]}) for v in ("one", "two"))
    with world.writer() as opened, opened.transaction() as tx:
        tx.write("hourly", pa.table({"n": [1, 2], "v": ["a", "b"]}))
        if has_key:
            tx.evolve("hourly", key=["n"])
    with world.writer(shared=True) as opened, world.writer(shared=True) as other:
        late = opened.transaction()
        late.row_delta("hourly", one, "n = 1", mode="predicate")
        world.clock.now_s += 5
        with other.transaction() as tx:
            tx.write("hourly", two)
        if has_key:
            with pytest.raises(OperationConflict, match="newer than the rows that come"):
                late.commit()
            with opened.transaction() as tx:
                tx.row_delta("hourly", one, "n = 1", mode="predicate")
        else:
            late.commit()
    rows = world.catalog.snapshot("weather").to_arrow("hourly").to_pylist()
    assert sorted(row["v"] for row in rows) == ["b", "one"]
