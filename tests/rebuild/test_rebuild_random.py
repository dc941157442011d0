"""rebuild(footers) against random histories: the live set at the end and after each transaction.

What footers can't say (a removal that nothing replaces) is kept out of these histories and has
tests of its own. Everything else is in: several tables and partitions, replacements of any files,
several owners one after the other, predecessors that still write, overlapping transactions,
shared commits, discarded transactions, deleted files, and rebuilds in between.

`LAKELOG_EXAMPLES=2000 pytest tests/rebuild` runs it longer, on other seeds with LAKELOG_SEED.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.committer import CommitInfo
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import ConflictError, FencedError
from lakelog.rebuild import RebuildPlan, execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient
from sample import examples

pytestmark = pytest.mark.usefixtures("parts_decoded_once")

TABLES = ("hourly", "daily %", "日")
PARTITIONS = ("", "2013-01", "a/b", "_")

Live = frozenset[str]


def live_files(store, target: int | None = None) -> Live:
    """Paths in the log's own state at a revision."""
    state = LogReader(store, "EWR", "weather").load(target)
    for table in state.files.tables():
        state.files.check(table)
    return frozenset(path for paths in state.files.paths() for path in paths.to_pylist())


@dataclass
class World:
    """A writer's history, and what is true of it.

    Attributes:
        committed: Transaction ids (hex) in order of their commits, with the live set after each.
        discarded: Ids of transactions with files that never got in.
        reordered: Whether one of two overlapping transactions was begun first and committed last:
            where no later footer names either, nobody can tell then which came first.
        collected: Whether gc took files, so that nothing tells of a schema any more but the log.
    """

    store: MemoryStore = field(default_factory=MemoryStore)
    fake: FakeAmbient = field(default_factory=FakeAmbient)
    committed: list[tuple[str, Live]] = field(default_factory=list)
    discarded: set[str] = field(default_factory=set)
    reordered: bool = False
    collected: bool = False

    def __post_init__(self) -> None:
        self.catalog = Catalog(self.store, ambient=self.fake.ambient)
        self.owners = [self.open()]

    def open(self):
        return self.catalog.writer("EWR", "weather", checkpoint_every=3)

    @property
    def live(self) -> Live:
        return self.committed[-1][1] if self.committed else frozenset()

    def begin(self, owner, draw, *, replace: bool):
        """An open transaction with a file or more; maybe in place of others. In place of an owner
        that knows that it is fenced, or finds out, a new one begins it."""
        self.fake.move(0.001)
        try:
            return self._begin(owner, draw, replace=replace)
        except FencedError:
            self.owners.append(self.open())
            return self._begin(self.owners[-1], draw, replace=replace)

    def _begin(self, owner, draw, *, replace: bool):
        tx = owner.transaction()
        gone = []
        if replace:
            known = sorted(path for path in self.live if owner._session.tables_of(path))
            gone = draw(st.lists(st.sampled_from(known), max_size=3, unique=True)) if known else []
        for path in gone:
            tx.remove(path)
        added = []
        for number in range(draw(st.integers(1, 2))):
            data = pa.table({"n": [number], "t": [tx.transaction_id]})
            table, partition = draw(st.sampled_from(TABLES)), draw(st.sampled_from(PARTITIONS))
            added += tx.write(table, data, partition)
        if len(added) > 1 and draw(st.integers(0, 4)) == 0:  # writes, thinks better of it
            tx.remove(added[0])
            added += tx.write("hourly", pa.table({"n": [9]}))
            gone = [*gone, added.pop(0)]
        return tx, added, gone

    def end(self, begun, info: CommitInfo | None) -> None:
        """Note what became of a transaction."""
        tx, added, gone = begun
        if info is None:
            self.discarded.add(tx.transaction_id)
        else:
            self.committed.append((tx.transaction_id, (self.live - set(gone)) | set(added)))

    def commit(self, begun) -> None:
        self.fake.move(0.001)
        try:
            info = begun[0].commit()
        except ConflictError:
            info = None
        self.end(begun, info)

    def commit_together(self, all_begun) -> None:
        """As threads would: one object for all, but for those that remove files. The order within
        an object is that of the list."""
        owner = self.owners[-1]
        results = owner._session._commit_all([begun[0]._intent for begun in all_begun])
        infos = [result if isinstance(result, CommitInfo) else None for result in results]
        revisions = [info.revision for info in infos if info]
        self.reordered |= revisions != sorted(revisions)
        ended = list(zip(all_begun, infos))
        for begun, info in sorted(ended, key=lambda one: one[1].revision if one[1] else -1):
            self.end(begun, info)

    def collect(self) -> None:
        """Delete the files that are not live any more, those of discarded transactions too."""
        keys = [info.key for info in self.store.list("EWR/weather/data/")]
        dead = [key for key in keys if key.removeprefix("EWR/weather/") not in self.live]
        self.store.delete(dead)
        self.collected = True
        self.discarded.clear()
        left = {path.split("-")[-2] for path in self.live}
        end = self.live
        self.committed = [
            (transaction_id, live & end)
            for transaction_id, live in self.committed
            if transaction_id in left
        ]

    def lose_the_log(self) -> None:
        keys = [info.key for info in self.store.list("EWR/weather/transactions/")]
        self.store.delete(keys)


def step(world: World, draw) -> None:
    """One thing that happens."""
    what = draw(st.sampled_from([
        "write", "write", "write", "replace", "replace", "reopen", "discard", "zombie", "overlap",
        "overlap", "together", "rebuild", "gc",
    ]))  # fmt: skip
    owner = world.owners[-1]
    if what in {"write", "replace"}:
        world.commit(world.begin(owner, draw, replace=what == "replace"))
    elif what == "reopen":
        world.owners.append(world.open())
    elif what == "discard":
        begun = world.begin(owner, draw, replace=draw(st.booleans()))
        world.end(begun, None)
    elif what == "zombie":
        old = draw(st.sampled_from(world.owners))
        world.commit(world.begin(old, draw, replace=draw(st.booleans())))
    elif what == "overlap":
        other = draw(st.sampled_from([owner, *world.owners[-2:]]))
        pair = [world.begin(one, draw, replace=True) for one in (owner, other)]
        if draw(st.booleans()):
            pair.reverse()
            world.reordered = True
        for begun in pair:
            world.commit(begun)
    elif what == "gc":
        world.collect()
    elif what == "together":
        world.commit_together([world.begin(world.owners[-1], draw, replace=False) for _ in "abc"])
    elif what == "rebuild" and world.committed:
        if draw(st.booleans()):
            check_rebuild(world)
        else:
            check_next_incarnation(world)
        world.owners = [world.open()]


def replayed(plan: RebuildPlan) -> list[tuple[str, Live]]:
    """What the transactions of a plan lead to, one after the other."""
    live: set[str] = set()
    result = []
    for item in plan.transactions:
        live |= {file.path for file in item.files}
        live -= {path for _, path in item.removes}
        result.append((item.transaction_id, frozenset(live)))
    return result


def check_next_incarnation(world: World) -> None:
    """Rebuild a log that can be read: it decides. The history goes on from there."""
    before = {info.key: world.store.get(info.key) for info in world.store.list("")}
    plan = plan_rebuild(world.store, "EWR", "weather", ambient=world.fake.ambient)
    order = [transaction_id for transaction_id, _ in world.committed]
    assert not plan.unproven
    # Schemas of files that gc took are carried over, by transactions of their own at the end.
    carried = [item for item in plan.transactions if not item.files]
    assert [item.transaction_id for item in plan.transactions[len(order) :]] == [
        item.transaction_id for item in carried
    ]
    assert all(item.schemas and item.operation == "maintenance" for item in carried)
    assert not carried or world.collected
    assert [item.transaction_id for item in plan.transactions[: len(order)]] == order
    assert replayed(plan)[: len(order)] == world.committed
    assert {item.transaction_id for item in plan.left_out} == world.discarded
    execute_rebuild(world.store, plan, ambient=world.fake.ambient)
    for item, (transaction_id, live) in zip(plan.transactions, world.committed):
        assert live_files(world.store, item.revision) == live, transaction_id
    now = {info.key: world.store.get(info.key) for info in world.store.list("")}
    assert before.items() <= now.items()


def check_rebuild(world: World) -> None:
    """Lose the log, rebuild it, and compare; the history goes on from there."""
    before = world.live
    assert live_files(world.store) == before  # the test's own book-keeping
    world.lose_the_log()
    data = {info.key: world.store.get(info.key) for info in world.store.list("EWR/weather/data/")}
    every = plan_rebuild(world.store, "EWR", "weather", ambient=world.fake.ambient)
    order = [transaction_id for transaction_id, _ in world.committed]
    planned = [item.transaction_id for item in every.transactions]
    out = {item.transaction_id: item for item in every.left_out}
    unproven = {item.transaction_id for item in every.unproven}
    assert set(planned) | set(out) == set(order) | world.discarded
    assert {item.kind for item in every.left_out} <= {"disproved", "undecided"}
    # Never is a committed transaction taken for one that can't be; never is one that wasn't
    # committed taken for proven.
    assert not {
        transaction_id for transaction_id, item in out.items() if item.kind == "disproved"
    } & set(order)
    assert set(planned) - unproven <= set(order)

    # With what was never committed excluded (as far as it isn't already), all is as it was.
    guesses = {transaction_id for transaction_id in world.discarded if transaction_id in unproven}
    while True:
        plan = plan_rebuild(
            world.store, "EWR", "weather", exclude=guesses, ambient=world.fake.ambient
        )
        more = {item.transaction_id for item in plan.unproven} & world.discarded
        if not more:
            break
        guesses |= more  # the other one of two that exclude each other
    assert frozenset(plan.live) == before
    rebuilt = [item.transaction_id for item in plan.transactions]
    if world.reordered:
        assert sorted(rebuilt) == sorted(order)
        known = [item for item in plan.transactions if item.original_revision is not None]
        named = {item.transaction_id for item in known}
        assert [item.transaction_id for item in known] == [
            transaction_id for transaction_id in order if transaction_id in named
        ]
        world.committed = replayed(plan)
        world.reordered = False
    else:
        assert rebuilt == order
        assert replayed(plan) == world.committed
    info = execute_rebuild(world.store, plan, ambient=world.fake.ambient)
    assert (info.transactions, info.files) == (len(order), len(before))
    for item, (transaction_id, live) in zip(plan.transactions, world.committed):
        assert live_files(world.store, item.revision) == live, transaction_id
    table = Catalog(world.store).history("weather")
    assert table["transaction_ids"].to_pylist() == [[transaction_id] for transaction_id in rebuilt]
    now = {info.key: world.store.get(info.key) for info in world.store.list("EWR/weather/data/")}
    assert now == data
    rows = sum(
        Catalog(world.store).snapshot("weather").to_arrow(name).num_rows
        for name in Catalog(world.store).snapshot("weather").tables()
    )
    assert rows == info.rows


@pytest.mark.slow("some whole histories, each rebuilt")
@settings(
    max_examples=examples(12),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data(), st.integers(1, 14))
def test_rebuild_equals_what_was_lost(data, steps):
    world = World()
    world.commit(world.begin(world.owners[0], data.draw, replace=False))
    for _ in range(steps):
        step(world, data.draw)
    check_rebuild(world)
    with world.open() as owner:
        world.commit(world.begin(owner, data.draw, replace=True))
    assert live_files(world.store) == world.live
