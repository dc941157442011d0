"""Going back: what is committed, what is refused, and that gc never takes what came back."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changing_cases import World, rows_of
from hooked import HookedStore
from lakelog.catalog.commit.plan_change import plan_restore
from lakelog.errors import (
    FileNotLive,
    ObjectNotFound,
    PlanOutdated,
    TableNotFound,
    UsageError,
    WriterNotFound,
)
from own_files import add_own


@pytest.fixture
def world():
    return World()


def restore(world, to, table=None, **options):
    return world.catalog.restore("weather", table, to=to, **{"execute": True, **options})


def test_nothing_is_written_without_execute(world):
    world.write(1)
    before = world.token
    world.write(2)
    after = world.token
    plan = restore(world, before, execute=False)
    assert (plan.files_added, plan.files_removed, plan.is_done) == (0, 1, False)
    assert world.token == after


def test_what_came_goes_and_what_went_comes_back(world):
    first, second = world.write(1, 2), world.write(3)
    before, then = world.token, rows_of(world.catalog.snapshot("weather"))
    world.take_out(first)
    world.write(4)
    plan = restore(world, before)
    snapshot = world.catalog.snapshot("weather")
    assert rows_of(snapshot) == then
    assert (plan.files_added, plan.files_removed) == (1, 1)
    (commit,) = [change.commit for change in plan.changes]
    last = world.catalog.history("weather").to_pylist()[-1]
    assert (last["revision"], last["operation"]) == (commit.revision, "overwrite")
    assert "lakelog.restore" in last["summary"]
    assert last["tables"] == ["hourly"]
    assert second in snapshot.files("hourly")["path"].to_pylist()


def test_all_that_the_log_knows_of_a_file_comes_back(world):
    data = pa.table({"n": [1, 5, None], "x": [0.5, 1.5, 2.5], "s": ["a", "b", "c"]})
    with world.writer() as writer, writer.transaction() as tx:
        (path,) = tx.write("hourly", data, partition="p", clock=(7, 9), bloom=["s"])
    snapshot = world.catalog.snapshot("weather")
    facts = snapshot.files("hourly", details=True).drop_columns(["revision"])
    said = snapshot.statistics("hourly")
    world.take_out(path)
    restore(world, snapshot.token)
    for _ in range(2):  # from the commit's own rows, then from a checkpoint's
        again = world.catalog.snapshot("weather")
        assert again.files("hourly", details=True).drop_columns(["revision"]).equals(facts)
        assert again.statistics("hourly").equals(said)
        assert again.files("hourly", where="n > 5").num_rows == 0
        with world.writer() as writer:
            writer.checkpoint()


def test_a_file_that_reads_otherwise_by_now_is_taken_back_too(world):
    """It is live in both, under another partition, which tells a column of it."""
    path, body = "data/own.parquet", io.BytesIO()
    pq.write_table(pa.table({"n": [1]}), body)
    world.store.put(f"oslo/weather/{path}", body.getvalue())

    def put_in(year):
        with world.writer() as writer, writer.transaction() as tx:
            add_own(tx, "hourly", path, f"year={year}", partition_by={"year": pa.int64()})

    put_in(2025)
    before = world.token
    world.take_out(path)
    put_in(2026)
    plan = restore(world, before)
    assert (plan.files_added, plan.files_removed) == (1, 1)
    rows = world.catalog.snapshot("weather").to_arrow("hourly").to_pylist()
    assert rows == [{"n": 1, "year": 2025}]
    world.clock.now_s += 3 * 86_400  # where others would be named first
    restore(world, {"oslo": 2})
    rows = world.catalog.snapshot("weather").to_arrow("hourly").to_pylist()
    assert rows == [{"n": 1, "year": 2026}]


def test_row_groups_come_back(world):
    """Statistics of row groups too, from a state without and one with a checkpoint."""
    path, body = "data/own.parquet", io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(range(50), pa.int64())}), body, row_group_size=10)
    world.store.put(f"oslo/weather/{path}", body.getvalue())
    with world.writer() as writer, writer.transaction() as tx:
        add_own(tx, "hourly", path)
    snapshot = world.catalog.snapshot("weather")
    said = snapshot.statistics("hourly", row_groups=True)
    assert said.num_rows
    for _ in range(2):
        world.take_out(path)
        restore(world, snapshot.token)
        again = world.catalog.snapshot("weather")
        assert again.statistics("hourly", row_groups=True).equals(said)
        with world.writer() as writer:
            writer.checkpoint()


def test_a_restore_can_be_taken_back(world):
    world.write(1)
    before = world.token
    world.write(2)
    after = world.token
    restore(world, before)
    restore(world, after)
    assert world.rows() == [1, 2]
    restore(world, before)
    assert world.rows() == [1]


def test_one_table_goes_back_and_the_others_stay(world):
    world.write(1)
    world.write(1, table="daily")
    before = world.token
    world.write(2)
    world.write(2, table="daily")
    restore(world, before, "hourly")
    assert (world.rows(), world.rows("daily")) == ([1], [1, 2])


def test_of_a_time_a_writer_that_came_later_is_emptied(world):
    world.write(1)
    then = world.clock.time()
    world.write(2, writer="bergen")
    plan = restore(world, then)
    assert world.rows() == [1]
    assert "bergen" in plan.notes[0]


def test_a_cut_that_does_not_name_all_writers_leaves_it_to_the_caller(world):
    world.write(1)
    world.write(2, writer="bergen")
    cut = {"oslo": 0}
    world.write(3)
    for to in (cut, world.catalog.snapshot("weather", cut).token):
        with pytest.raises(UsageError, match="bergen"):
            restore(world, to)
    restore(world, cut, writers=["oslo"])
    assert world.rows() == [1, 2]
    restore(world, cut, writers=["bergen"])
    assert world.rows() == [1]


def test_a_mistyped_writer_empties_nobody(world):
    world.write(1)
    world.write(2)
    for execute in (False, True):
        with pytest.raises(WriterNotFound, match="'olso' has no log") as caught:
            restore(world, {"olso": 0}, writers=["oslo"], execute=execute)
        assert "oslo" in caught.value.hint
    assert world.rows() == [1, 2]


def test_a_table_that_was_dropped_comes_back_with_its_schemas(world):
    world.write(1)
    world.write(2, table="daily")
    before = world.token
    plan = world.catalog.drop("weather", "daily", execute=True)
    assert plan.files_removed == 1
    assert world.catalog.snapshot("weather").tables() == ["hourly"]
    plan = restore(world, before)
    assert plan.changes[0].schemas == ("daily",)
    assert world.rows("daily") == [2]


def test_a_table_can_be_written_after_going_back_to_its_drop(world):
    world.write(1)
    before = world.token
    world.catalog.drop("weather", "hourly", execute=True)
    dropped = world.token
    restore(world, before)
    assert world.rows() == [1]
    restore(world, dropped)
    assert rows_of(world.catalog.snapshot("weather")) == {}
    world.write(2)
    assert world.rows() == [2]


def test_an_emptied_table_is_forgotten_by_drop_alone(world):
    path = world.write(1, table="daily")
    world.take_out(path)
    assert world.catalog.snapshot("weather").tables() == ["daily"]
    world.catalog.drop("weather", "daily", execute=True)
    assert world.catalog.snapshot("weather").tables() == []
    with pytest.raises(TableNotFound):
        world.catalog.drop("weather", "daily")


def test_drop_of_one_writer_leaves_the_others(world):
    world.write(1)
    world.write(2, writer="bergen")
    world.catalog.drop("weather", "hourly", writers=["bergen"], execute=True)
    assert world.rows() == [1]
    with pytest.raises(WriterNotFound):
        world.catalog.drop("weather", "hourly", writers=["tromso"])


def test_remove_takes_paths_and_partitions(world):
    first = world.write(1)
    with world.writer() as writer, writer.transaction() as tx:
        tx.write("hourly", pa.table({"n": [2]}), partition="p")
    world.write(3)
    remove = world.catalog.remove
    plan = remove("weather", "hourly", writer="oslo", paths=[first], partition="p", execute=True)
    assert (plan.files_removed, world.rows()) == (2, [3])
    with pytest.raises(FileNotLive):
        remove("weather", "hourly", writer="oslo", paths=[first])
    with pytest.raises(UsageError, match="partition 'p'"):
        remove("weather", "hourly", writer="oslo", partition="p")
    with pytest.raises(UsageError, match="nothing to remove"):
        remove("weather", "hourly", writer="oslo")


def test_a_living_owner_goes_on_beside_it(world):
    world.write(1)
    before = world.token
    with world.writer() as owner:
        with owner.transaction() as tx:
            tx.write("hourly", pa.table({"n": [2]}))
        restore(world, before)
        with owner.transaction() as tx:
            tx.write("hourly", pa.table({"n": [3]}))
    assert world.rows() == [1, 3]


def test_a_plan_holds_for_its_head_alone(world):
    world.write(1)
    before = world.token
    world.write(2)
    plan = restore(world, before, execute=False)
    world.write(3)
    with pytest.raises(PlanOutdated, match="something else"):
        restore(world, before, execute=plan)
    assert world.rows() == [1, 2, 3]
    plan = restore(world, before, execute=False)
    assert restore(world, before, execute=plan).is_done
    assert world.rows() == [1]


def test_who_commits_between_plan_and_put_stops_it(world):
    """The other commit comes when the restore is about to put its own."""
    world.write(1)
    before = world.token
    world.write(2)
    calm = world.store

    def other(request, key):
        if request == "put" and key.endswith(".transaction"):
            world.store = calm
            world.write(3)

    world.store = HookedStore(calm, other)
    with pytest.raises(PlanOutdated, match="Others have committed"):
        restore(world, before)
    assert world.rows() == [1, 2, 3]


def test_a_file_that_is_gone_stops_it_before_anything_is_committed(world):
    path = world.write(1)
    world.write(2)
    before = world.token
    world.take_out(path)
    world.write(4, writer="bergen")
    after = world.token
    key = f"oslo/weather/{path}"
    body = world.store.get(key)
    world.store.delete([key])
    for text in ("gone", "shorter"):
        with pytest.raises(ObjectNotFound, match=path):
            restore(world, before, writers=["oslo", "bergen"])
        assert world.token == after, text
        world.store.put(key, body[:-1])


def test_of_many_files_the_one_that_is_gone_is_found(world):
    """Above a thousand they are listed, not asked for one by one."""
    with world.writer() as writer, writer.transaction() as tx:
        paths = [tx.write("hourly", pa.table({"n": [n]}))[0] for n in range(1_005)]
    before = world.token
    world.take_out(*paths)
    key = f"oslo/weather/{paths[500]}"
    body = world.store.get(key)
    world.store.delete([key])
    with pytest.raises(ObjectNotFound, match=paths[500]):
        restore(world, before)
    world.store.put(key, body)
    restore(world, before)
    assert world.rows() == list(range(1_005))


def test_files_that_lie_elsewhere_come_back(tmp_path):
    import lakelog

    pq.write_table(pa.table({"n": [5]}), tmp_path / "far.parquet")
    catalog = lakelog.open_catalog(str(tmp_path / "lake"))
    with catalog.writer("oslo", "weather") as writer:
        with writer.transaction() as tx:
            tx.add("hourly", tmp_path / "far.parquet")
        before = catalog.snapshot("weather").token
        with writer.transaction() as tx:
            tx.remove(str(tmp_path / "far.parquet"))
    (tmp_path / "far.parquet").rename(tmp_path / "away")
    with pytest.raises(ObjectNotFound, match="far"):
        catalog.restore("weather", to=before, execute=True)
    (tmp_path / "away").rename(tmp_path / "far.parquet")
    catalog.restore("weather", to=before, execute=True)
    assert catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist() == [5]


def test_a_time_before_everything_and_no_time_at_all(world):
    world.write(1)
    with pytest.raises(UsageError, match="no point in time"):
        restore(world, None)
    long_ago = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
    plan = restore(world, long_ago, writers=["oslo"])
    assert (plan.files_removed, world.rows()) == (1, [])


def test_a_cut_that_was_read_after_the_log_is_an_outdated_plan(world):
    """Another committed between the two readings."""
    world.write(1)
    (earlier,) = world.catalog.snapshot("weather")._states
    world.write(2)
    (later,) = world.catalog.snapshot("weather")._states
    with pytest.raises(PlanOutdated, match=r"later than its newest.*Look again"):
        plan_restore(world.store, earlier, later, None)
