"""The order of files whose clocks are the same, after they were taken out and came back: the newest
row of each key, and the order in which rows are read, are those of the point gone back to."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changing_cases import World
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lakelog import open_catalog
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.replication.replicate import replicate
from sample import examples

WRITERS = ("oslo", "bergen")


def commit(world: World, act: Any, writer: str = "oslo", **options: Any) -> Any:
    world.clock.now_s += 1
    with world.writer(writer, **options) as opened, opened.transaction() as tx:
        return act(tx)


def put(world: World, rows: dict[int, str], clock: int = 5, writer: str = "oslo") -> str:
    """Commit one file with these rows, by key; its path."""
    data = pa.table({"n": pa.array(rows, pa.int64()), "v": list(rows.values())})
    (path,) = commit(world, lambda tx: tx.write("hourly", data, clock=(clock, clock)), writer)
    return str(path)


def read(world: World, as_of: Any = None) -> list[dict[str, Any]]:
    """The rows in the order in which they are read."""
    rows = world.catalog.snapshot("weather", as_of).to_arrow("hourly").to_pylist()
    return list(rows)


def restore(world: World, to: str) -> None:
    world.clock.now_s += 1
    world.catalog.restore("weather", to=to, execute=True)
    plan = world.catalog.restore("weather", to=to)
    assert all(change.is_empty for change in plan.changes)


def live(world: World, path: str) -> dict[str, Any]:
    """What the newest state says of a file."""
    (state,) = world.catalog._states("weather", None)
    rows = state.files.table("hourly", whole=True).to_pylist()
    return next(row for row in rows if row["path"] == path)


def taken_back() -> tuple[World, str, list[dict[str, Any]]]:
    """A table with a key: the older of two files of one clock was taken out, and came back. With it
    the path of that file, and the rows that there are to be."""
    world = World()
    old = put(world, {1: "old", 2: "older"})
    world.catalog.evolve("weather", "hourly", key=["n"])
    put(world, {1: "new"})
    before, rows = world.token, read(world)
    assert rows == [{"n": 2, "v": "older"}, {"n": 1, "v": "new"}]
    world.take_out(old)
    restore(world, before)
    return world, old, rows


def test_the_newest_row_of_each_key_is_the_one_that_it_was():
    world, old, rows = taken_back()
    assert read(world) == rows
    by_duckdb = world.catalog.snapshot("weather").to_duckdb().sql("FROM hourly")
    assert sorted(by_duckdb.to_arrow_table().to_pylist(), key=repr) == sorted(rows, key=repr)
    facts = live(world, old)
    assert (facts["revision"], facts["original_revision"]) == (4, 0)
    later = world.token
    for _ in range(3):  # each restore is as exact as the first
        world.take_out(old)
        restore(world, later)
        assert read(world) == rows
    assert live(world, old)["original_revision"] == 0
    assert read(world, later) == rows


def test_a_file_that_is_added_for_the_first_time_says_nothing_of_it():
    world = World()
    path = put(world, {1: "a"})
    (state,) = world.catalog._states("weather", None)
    (add,) = (one.add for one in state.tail[0].message.actions if one.HasField("add"))
    assert not add.HasField("original_revision")
    assert live(world, path)["original_revision"] is None


def test_checkpoints_keep_it():
    world, _, rows = taken_back()
    world.prune()
    left = list(world.store.list("oslo/weather/transactions/"))
    assert len(left) == 2  # a checkpoint, and the transaction of its revision
    assert read(world) == rows
    put(world, {1: "newest"})
    world.prune()
    assert read(world) == [rows[0], {"n": 1, "v": "newest"}]


def test_replicas_have_it():
    world, _, rows = taken_back()
    copy = World()
    for _ in range(2):
        report = replicate(world.catalog, copy.catalog)
        assert not report.errors
        assert read(copy) == rows
        put(world, {3: "more"}, clock=6)
        rows = [*rows, {"n": 3, "v": "more"}]


def test_a_rebuild_keeps_it():
    """Of the log as it is: files that came back stay where they were."""
    world, _, rows = taken_back()
    execute_rebuild(world.catalog, plan_rebuild(world.catalog, "oslo", "weather"))
    assert read(world) == rows


@pytest.mark.parametrize("wrong_way", [False, True])
def test_a_rebuild_from_footers_orders_files_by_the_revisions_that_these_prove(wrong_way):
    """The names of files don't say which came first."""
    world = World()
    while True:
        paths = [put(world, {1: value}) for value in ("old", "new")]
        if (paths[0] > paths[1]) == wrong_way:
            break
    put(world, {2: "last"}, clock=6)
    keys = [info.key for info in world.store.list("oslo/weather/")]
    world.store.delete([key for key in keys if not key.startswith("oslo/weather/data/")])
    execute_rebuild(world.catalog, plan_rebuild(world.catalog, "oslo", "weather"))
    world.catalog.evolve("weather", "hourly", key=["n"])
    assert read(world) == [{"n": 1, "v": "new"}, {"n": 2, "v": "last"}]


def test_deletes_go_by_the_commit_that_added_a_file_last():
    """What was deleted since comes back, though the file is as old as it was; what was deleted
    then stays so."""
    world = World()
    path = put(world, {1: "a", 2: "b", 3: "c"})
    commit(world, lambda tx: tx.delete("hourly", "n = 2"))
    before, rows = world.token, read(world)
    world.take_out(path)
    put(world, {1: "other", 3: "c"})
    commit(world, lambda tx: tx.delete("hourly", "n = 1"))
    restore(world, before)
    assert read(world) == rows == [{"n": 1, "v": "a"}, {"n": 3, "v": "c"}]
    commit(world, lambda tx: tx.delete("hourly", "n = 3"))
    assert read(world) == rows[:1]


def test_rows_are_read_in_the_order_that_they_had():
    world = World()
    paths = [put(world, {n: "x"}, clock=9 - n) for n in range(6)]
    before, rows = world.token, read(world)
    assert [row["n"] for row in rows] == [*range(6)]
    world.take_out(paths[4], paths[0], paths[2])
    restore(world, before)
    assert read(world) == rows


def test_a_file_of_somebody_else_has_the_clock_and_place_that_it_had(tmp_path):
    """It is live in both states, but was taken out between and added anew: all of its rows."""
    catalog = open_catalog(tmp_path / "lake")
    url = str(tmp_path / "other.parquet")
    pq.write_table(pa.table({"n": [1, 2], "v": ["theirs", "deleted"]}), url)
    with catalog.writer("oslo", "weather") as writer:

        def add(clock: int) -> None:
            with writer.transaction() as tx:
                tx.add("hourly", url, clock=(clock, clock))

        add(5)
        catalog.evolve("weather", "hourly", key=["n"])
    with catalog.writer("oslo", "weather") as writer:
        with writer.transaction() as tx:
            tx.write("hourly", pa.table({"n": [1], "v": ["ours"]}), clock=(5, 5))
        with writer.transaction() as tx:
            tx.delete("hourly", "n = 2")
        before = catalog.snapshot("weather")
        with writer.transaction() as tx:
            tx.remove(url)
        add(5)
        now = catalog.snapshot("weather").to_arrow("hourly")["v"].to_pylist()
        assert now == ["theirs", "deleted"]
        done = catalog.restore("weather", to=before.token, execute=True)
        assert (done.files_removed, done.files_added) == (1, 1)
    after = catalog.snapshot("weather")
    rows = [each.to_arrow("hourly")["v"].to_pylist() for each in (before, after)]
    assert rows == [["ours"], ["ours"]]


class History:
    """A table with a key whose clocks collide, and what was read at each point of it."""

    def __init__(self, drawn: random.Random) -> None:
        self.random, self.world = drawn, World()
        self.points: list[tuple[str, list[dict[str, Any]]]] = []
        self.count = 0

    def write(self) -> None:
        self.count += 1
        keys = self.random.sample(range(4), self.random.randint(1, 3))
        rows = {key: f"{self.count}.{key}" for key in keys}
        put(self.world, rows, self.random.randint(1, 2), self.random.choice(WRITERS))

    def take_out(self) -> None:
        writer = self.random.choice(WRITERS)
        files = self.world.catalog.snapshot("weather").files("hourly").to_pylist()
        own = [file["path"] for file in files if file["writer"] == writer]
        if own:
            count = self.random.randint(1, len(own))
            self.world.take_out(*self.random.sample(own, count), writer=writer)

    def delete(self) -> None:
        mode, where = self.random.choice(["predicate", "rows"]), f"n = {self.random.randrange(4)}"
        writer = self.random.choice(WRITERS)
        commit(self.world, lambda tx: tx.delete("hourly", where, mode=mode), writer)

    def restore(self) -> None:
        token, rows = self.random.choice(self.points)
        restore(self.world, token)
        assert read(self.world) == rows

    def checkpoint(self) -> None:
        with self.world.writer(self.random.choice(WRITERS)) as opened:
            opened.checkpoint()

    def rebuild(self) -> None:
        writer = self.random.choice(WRITERS)
        rows = read(self.world)
        execute_rebuild(self.world.catalog, plan_rebuild(self.world.catalog, writer, "weather"))
        assert sorted(read(self.world), key=repr) == sorted(rows, key=repr)


STEPS = ("write", "write", "write", "take_out", "take_out", "delete", "restore", "restore")


@pytest.mark.slow("each example is a history of a dozen commits, all of whose points are read")
@settings(
    max_examples=examples(2),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.integers(0, 2**32 - 1))
def test_every_point_can_be_gone_back_to(seed):
    history = History(random.Random(seed))
    world = history.world
    for writer in WRITERS:
        put(world, {0: writer}, 1, writer)
    world.catalog.evolve("weather", "hourly", key=["n"])
    for _ in range(history.random.randint(6, 16)):
        history.points.append((world.token, read(world)))
        getattr(history, history.random.choice([*STEPS, "checkpoint", "rebuild"]))()
    for token, rows in history.points:
        assert read(world, token) == rows
    for token, rows in history.random.sample(history.points, 3):
        restore(world, token)
        assert read(world) == rows
    copy = World()
    assert not replicate(world.catalog, copy.catalog).errors
    assert read(copy) == read(world)
