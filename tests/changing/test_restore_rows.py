"""Going back across deletes, changed columns and keys: every engine reads what was there."""

from __future__ import annotations

import pyarrow as pa
import pytest
from changing_cases import World
from lakelog.catalog.read.cut_tables import ConflictWarning
from lakelog.errors import (
    ColumnsChanged,
    FileNotLive,
    ObjectNotFound,
    OperationConflict,
    PlanOutdated,
    UsageError,
)

DAY_S = 86_400


@pytest.fixture
def world():
    return World()


def commit(world, act, writer="oslo", **options):
    world.clock.now_s += 1
    with world.writer(writer, **options) as opened, opened.transaction() as tx:
        return act(tx)


def delete(world, where, mode="predicate", **options):
    return commit(world, lambda tx: tx.delete("hourly", where, mode=mode), **options)


def evolve(world, **change):
    world.clock.now_s += 1
    world.catalog.evolve("weather", "hourly", **change)


def restore(world, to, **options):
    world.clock.now_s += 1
    return world.catalog.restore("weather", to=to, execute=True, **options)


def read(world, as_of=None):
    """The rows, as every engine reads them."""
    snapshot = world.catalog.snapshot("weather", as_of)

    def plain(rows):
        return sorted(rows, key=repr)

    found = plain(snapshot.to_arrow("hourly").to_pylist())
    connection = snapshot.to_duckdb()
    assert plain(connection.sql("FROM hourly").to_arrow_table().to_pylist()) == found
    assert plain(snapshot.to_polars("hourly").collect().to_dicts()) == found
    assert plain(snapshot.dataset("hourly").to_table().to_pylist()) == found
    assert snapshot.dataset("hourly").count_rows() == len(found)
    return found


def numbers(world):
    return [row["n"] for row in read(world)]


@pytest.mark.parametrize("mode", ["predicate", "rows"])
def test_deleted_rows_come_back_and_go_again(world, mode):
    world.write(1, 2, 3)
    world.write(4, 5)
    before = world.token
    delete(world, "n = 2 OR n = 4", mode)
    after = world.token
    plan = world.catalog.restore("weather", to=before)
    assert (plan.files_removed, plan.files_added) == (0, 0)
    assert (plan.rows_back, plan.rows_deleted) == (2, 0)
    (change,) = plan.changes
    told = change.deletes.select(["row_count", "deleted_now", "deleted_then", "added_again"])
    assert told.sort_by("row_count").to_pylist() == [
        {"row_count": 2, "deleted_now": 1, "deleted_then": 0, "added_again": True},
        {"row_count": 3, "deleted_now": 1, "deleted_then": 0, "added_again": True},
    ]
    assert numbers(world) == [1, 3, 5]
    restore(world, before)
    assert numbers(world) == [1, 2, 3, 4, 5]
    assert world.catalog.restore("weather", to=before).is_empty
    plan = world.catalog.restore("weather", to=after, execute=True)
    assert (plan.rows_back, plan.rows_deleted) == (0, 2)
    assert not any(plan.changes[0].deletes["added_again"].to_pylist())  # no row comes back
    assert numbers(world) == [1, 3, 5]
    restore(world, before)
    assert numbers(world) == [1, 2, 3, 4, 5]


def test_the_rows_deleted_then_stay_deleted_while_others_come_back(world):
    world.write(1, 2, 3, 4)
    delete(world, "n = 1")
    before = world.token
    delete(world, "n = 2", "rows")
    delete(world, "n = 3")
    restore(world, before)
    assert numbers(world) == [2, 3, 4]
    with world.writer() as writer:
        writer.checkpoint()
    assert numbers(world) == [2, 3, 4]
    delete(world, "n = 4", "rows")  # together with what is deleted by then
    assert numbers(world) == [2, 3]


def test_files_that_come_back_have_the_rows_that_they_had(world):
    path = world.write(1, 2, 3)
    delete(world, "n < 2")
    before = world.token
    world.take_out(path)
    world.write(9)
    plan = restore(world, before)
    assert (plan.files_removed, plan.files_added) == (1, 1)
    (told,) = plan.changes[0].deletes.to_pylist()
    assert (told["deleted_now"], told["deleted_then"], told["added_again"]) == (None, 1, False)
    assert numbers(world) == [2, 3]


def test_a_dropped_table_with_deletes_columns_and_a_key_comes_back(world):
    commit(world, lambda tx: tx.write("hourly", pa.table({"n": [1, 2, 3], "b": [5, 5, 6]})))
    evolve(world, drop=["b"], rename={"n": "m"})
    evolve(world, add={"b": pa.int64()}, default={"b": 50}, key=["m"])
    commit(world, lambda tx: tx.upsert("hourly", pa.table({"m": [2], "b": [7]})))
    delete(world, "m = 3")
    wanted, token = read(world), world.token
    assert wanted == [{"m": 1, "b": 50}, {"m": 2, "b": 7}]
    world.catalog.drop("weather", "hourly", execute=True)
    restore(world, token)
    assert read(world) == wanted
    assert world.catalog.snapshot("weather").key("hourly") == ("m",)


def test_every_definition_comes_back_and_none_of_another_column(world):
    commit(world, lambda tx: tx.write("hourly", pa.table({"n": [1], "b": [5]})))
    points = [world.token]
    evolve(world, drop=["b"])
    points.append(world.token)
    evolve(world, add={"b": pa.int64()}, default={"b": 50})
    points.append(world.token)
    commit(world, lambda tx: tx.write("hourly", pa.table({"n": [2], "b": [6]})))
    points.append(world.token)
    evolve(world, rename={"b": "c"})
    points.append(world.token)
    wanted = [read(world, token) for token in points]
    assert wanted[0] == [{"n": 1, "b": 5}]
    assert wanted[2] == [{"n": 1, "b": 50}]
    for first in range(len(points)):
        for second in range(len(points)):
            restore(world, points[first])
            restore(world, points[second])
            assert read(world) == wanted[second]
    restore(world, points[0])
    evolve(world, drop=["b"])  # goes on from there, and old values stay away
    evolve(world, add={"b": pa.int64()})
    assert read(world) == [{"n": 1, "b": None}]
    restore(world, points[3])
    assert read(world) == wanted[3]


def test_a_table_without_a_definition_has_free_columns_again(world):
    world.write(1)
    before = world.token
    evolve(world, add={"b": pa.int64()}, default={"b": 9})
    plan = restore(world, before)
    assert plan.changes[0].columns == ("hourly",)
    assert read(world) == [{"n": 1}]
    commit(world, lambda tx: tx.write("hourly", pa.table({"n": [2], "b": ["text"]})))
    assert read(world) == [{"n": 1, "b": None}, {"n": 2, "b": "text"}]
    assert world.catalog.restore("weather", to=before).changes[0].columns == ()


def test_files_that_disagree_go_on_to_where_columns_go_back(world):
    world.write(1)
    other = pa.table({"n": ["x"]})
    commit(world, lambda tx: tx.write("hourly", other, on_conflict="allow"))
    before = world.token
    with pytest.warns(ConflictWarning):
        schema = world.catalog.snapshot("weather").without_conflicts().schema("hourly")
    evolve(world, drop=["n"], add={"b": pa.int64()})
    restore(world, before)
    again = world.catalog.snapshot("weather").without_conflicts()
    with pytest.warns(ConflictWarning):
        assert again.schema("hourly").equals(schema)
    assert again.to_arrow("hourly").to_pylist() == [{"n": 1}]


def test_rows_superseded_by_a_key_are_there_again(world):
    world.write(1, 1, 2)
    before = world.token
    evolve(world, key=["n"])
    keyed = world.token
    assert numbers(world) == [1, 2]
    restore(world, before)
    assert numbers(world) == [1, 1, 2]
    restore(world, keyed)
    assert numbers(world) == [1, 2]


def test_two_keys_for_one_table_are_refused(world):
    data = pa.table({"n": [1], "m": [1]})
    for writer in ("oslo", "rome"):
        commit(world, lambda tx: tx.write("hourly", data), writer)
    evolve(world, key=["n"])
    before = world.token
    evolve(world, key=[])
    evolve(world, key=["m"])
    head = world.token
    with pytest.raises(UsageError, match=r"the key \(n\) in the log of 'oslo' and \(m\)"):
        world.catalog.restore("weather", to=before, writers=["oslo"])
    assert world.token == head
    restore(world, before)
    assert world.catalog.snapshot("weather").key("hourly") == ("n",)


def test_one_writer_and_one_table(world):
    for writer in ("oslo", "rome"):
        world.write(1, 2, writer=writer)
        world.write(1, 2, table="daily", writer=writer)
    before = world.token
    for table in ("hourly", "daily"):
        for writer in ("oslo", "rome"):
            commit(world, lambda tx, t=table: tx.delete(t, "n = 1"), writer)
    world.catalog.restore("weather", "hourly", to=before, writers=["rome"], execute=True)
    assert (world.rows(), world.rows("daily")) == ([1, 2, 2], [2, 2])


def test_a_plan_that_says_otherwise_by_now_is_not_executed(world):
    world.write(1, 2)
    before = world.token
    delete(world, "n = 1")
    plan = world.catalog.restore("weather", to=before)
    delete(world, "n = 2")
    with pytest.raises(PlanOutdated):
        world.catalog.restore("weather", to=before, execute=plan)


def test_a_lost_object_of_deletes_stops_it(world):
    world.write(1, 2)
    delete(world, "n = 1", "rows")
    before = world.token
    delete(world, "n = 2", "rows")
    found = [info.key for info in world.store.list("oslo/weather/data/")]
    world.store.delete([key for key in found if key.endswith(".deletes")])
    head = world.token
    with pytest.raises(ObjectNotFound):
        world.catalog.restore("weather", to=before, execute=True)
    assert world.token == head


@pytest.mark.parametrize("mode", ["predicate", "rows"])
def test_gc_keeps_what_comes_back(world, mode):
    """Files that were removed long ago, and the bitmaps that say which rows of them are deleted."""
    path = world.write(1, 2, 3)
    delete(world, "n = 1", mode)
    before = world.token
    delete(world, "n = 2", mode)
    world.take_out(path)
    world.clock.now_s += 30 * DAY_S
    world.gc()
    restore(world, before)
    assert numbers(world) == [2, 3]
    for _ in range(2):
        world.prune()
        world.clock.now_s += 30 * DAY_S
        world.gc()
        assert numbers(world) == [2, 3]
    left = [info.key for info in world.store.list("oslo/weather/data/")]
    assert len([key for key in left if key.endswith(".deletes")]) == 1


# --- Beside others --------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["rewrite", "overwrite"])
def test_rows_that_came_back_are_not_written_away(world, what):
    """Who read a file while rows of it were deleted doesn't take it out with them."""
    path = world.write(1, 2)
    before = world.token
    delete(world, "n = 1")
    with world.writer(shared=True) as other:
        late = other.transaction()
        if what == "rewrite":
            late.rewrite("hourly", [path])
        else:
            late.overwrite("hourly", pa.table({"n": [20]}), "n = 2", validate=False)
        restore(world, before)
        with pytest.raises(OperationConflict, match=r"added .* again"):
            late.commit()
    assert numbers(world) == [1, 2]


def test_a_rewrite_of_files_without_a_row_left_takes_none_that_came_back(world):
    path = world.write(1, 2)
    before = world.token
    delete(world, "n = 1")
    delete(world, "n = 2")
    with world.writer(shared=True) as other:
        late = other.transaction()
        assert late.rewrite("hourly", [path]).rows_rewritten == 0
        restore(world, before)
        with pytest.raises(OperationConflict, match=r"added .* again"):
            late.commit()
    assert numbers(world) == [1, 2]


@pytest.mark.parametrize("what", ["delete", "upsert"])
def test_a_file_whose_last_row_was_deleted_stays_if_others_came_back(world, what):
    world.write(1, 2)
    before = world.token
    delete(world, "n = 1", "rows")
    with world.writer(shared=True) as other:
        late = other.transaction()
        if what == "delete":
            assert late.delete("hourly", "n = 2", mode="rows").files_removed == 1
        else:
            late.upsert("hourly", pa.table({"n": [2]}), key=["n"])
        restore(world, before)
        with pytest.raises(OperationConflict, match=r"added .* again"):
            late.commit()
    assert numbers(world) == [1, 2]


def test_deletes_and_columns_of_before_are_refused_after(world):
    world.write(1, 2, 3)
    before = world.token
    delete(world, "n = 1", "rows")
    evolve(world, add={"b": pa.int64()})
    with world.writer(shared=True) as other:
        by_number, writes = other.transaction(), other.transaction()
        by_number.delete("hourly", "n = 2", mode="rows")
        writes.write("hourly", pa.table({"n": [7], "b": [8]}))
        restore(world, before)
        with pytest.raises(FileNotLive):
            by_number.commit()
        with pytest.raises(ColumnsChanged):
            writes.commit()
    assert numbers(world) == [1, 2, 3]
