"""Random histories of one log with everything at once: commits of owners and guests, old openings
that go on, removals alone, checkpoints, prune, gc, rebuilds that are broken off and finished, and
anybody's step before any request of maintenance. One seed is one history.

What must hold, after each step:

- A fresh reader sees exactly what was acknowledged (or what a commit in doubt may have added).
- No opening from before a rebuild is ever told of success again.
- Every data file that a live revision of any incarnation names is there, and its rows are read.
- A token from before reads what it did, or says that it was pruned.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import random
import warnings
from dataclasses import dataclass, field
from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.log import piece_sink
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import (
    CommitOutcomeUnknown,
    ConflictError,
    CorruptError,
    FencedError,
    LakelogError,
    NotFoundError,
    SnapshotPruned,
    StorageError,
)
from lakelog.gc import execute_gc, execute_prune, plan_gc, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.crashing import Crash
from lakelog.testing.doubles import FakeAmbient, PassingStore
from seeds import base_seed

pytestmark = pytest.mark.usefixtures("parts_decoded_once")

W, D = "EWR", "weather"
DAY_S = 86_400.0
HISTORIES = 24
PARTS = 3  # for the workers to share
STEPS = 14


class Interrupted(PassingStore):
    """Does something before one of its requests, and dies at another."""

    def __init__(self, store, at=-1, step=None, dies_at=-1):
        super().__init__(store)
        self.seen, self._at, self._step, self._dies_at = 0, at, step, dies_at
        self.dead = False

    def _enter(self):
        number, self.seen = self.seen, self.seen + 1
        if self.dead or number == self._dies_at:
            self.dead = True
            raise Crash
        if number == self._at:
            self._step()

    def put(self, key, body, *, if_absent=False):
        self._enter()
        self.inner.put(key, body, if_absent=if_absent)

    def delete(self, keys, *, ordered=True):
        for key in keys:
            self._enter()
            self.inner.delete([key])

    def list(self, prefix, **options):
        self._enter()
        yield from self.inner.list(prefix, **options)

    def server_time(self):
        return self.inner.server_time()


@dataclass
class World:
    """A log, and what is true of it.

    Attributes:
        live: Paths that are live, by all that was acknowledged.
        tokens: Of snapshots, with the live paths of each.
        doubtful: Whether a commit in doubt makes that unsure, until it is looked at.
        incarnation: In use.
    """

    seed: int
    store: MemoryStore = None
    fake: FakeAmbient = None
    random: random.Random = None
    live: frozenset = frozenset()
    doubtful: bool = False
    incarnation: int = 1
    sealed: bool = False
    openings: list = field(default_factory=list)
    tokens: dict = field(default_factory=dict)
    told: list = field(default_factory=list)

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.fake = FakeAmbient(self.seed)
        self.store = MemoryStore("maintained", now=self._now)
        self.catalog = Catalog(self.store, ambient=self.fake.ambient)
        self.openings.append(self.catalog.writer(W, D, checkpoint_every=3))
        while not self.live:
            self.commit()

    def _now(self):
        return dt.datetime.fromtimestamp(self.fake.wall_us / 1e6, dt.UTC)

    def note(self, *words):
        self.told.append(" ".join(map(str, words)))

    # --- Steps ------------------------------------------------------------------------------------

    def open(self):
        options = {"shared": self.random.random() < 0.3}
        try:
            writer = self.catalog.writer(
                W, D, checkpoint_every=self.random.choice([0, 3]), **options
            )
        except FencedError as error:
            self.note("not opened", error)
            return
        self.openings.append(writer)

    def commit(self):
        """By any opening that there ever was, of files, of removals or of both."""
        if not self.openings:
            self.open()
        writer = self.random.choice(self.openings[-4:])
        self.fake.move(0.01)
        kind = self.random.choice(["add", "add", "replace", "remove"])
        live = sorted(self.live)
        gone = self.random.sample(live, min(len(live), self.random.randint(1, 2)))
        gone = gone if kind != "add" else []
        if kind == "remove" and not gone:
            return
        try:
            with writer.transaction() as tx:
                for path in gone:
                    tx.remove(path)
                added = []
                if kind != "remove":
                    added = tx.write("hourly", pa.table({"n": [len(self.told)]}))
                if self.random.random() < 0.1:
                    tx.discard()
                    return
            info = tx.commit_info
        except CommitOutcomeUnknown:
            self.doubtful = True
            return
        except (ConflictError, CorruptError) as error:
            self.note("refused", type(error).__name__)
            return
        state = LogReader(self.store, W, D, self.fake.ambient).load()
        mine = writer._session._committer.identity
        assert mine == state.log, "a zombie was told of success"
        assert not state.sealed_for, "a commit behind the seal"
        if info is not None:
            self.note("commit", info.revision, kind, state.log.incarnation)
            self.live = (self.live - set(gone)) | set(added)

    def checkpoint(self):
        try:
            self.random.choice(self.openings[-3:]).checkpoint()
        except (ConflictError, StorageError, CorruptError) as error:
            self.note("no checkpoint", type(error).__name__)

    def token(self):
        if self.live and not self.doubtful:
            self.tokens[self.catalog.snapshot(D).token] = self.live

    def rest(self):
        self.fake.move(self.random.choice([3_600.0, 2 * DAY_S, 9 * DAY_S]))

    def maintain(self):
        """One of prune, gc and rebuild, with somebody's step before a request of it; it may die."""
        what = self.random.choice(["prune", "gc", "rebuild", "rebuild"])
        step = self.random.choice(
            [self.commit, self.commit, self.open, self.checkpoint, self.prune]
        )
        at = self.random.choice([-1, self.random.randint(0, 25)])
        dies_at = self.random.choice([-1, -1, self.random.randint(0, 25)])
        store = Interrupted(self.store, at, step, dies_at)
        store.probed = None
        try:
            getattr(self, what)(store)
        except Crash:
            self.note(what, "died")

    def prune(self, store=None):
        try:
            keep = self.random.choice(
                [{"keep_revisions": 1}, {"keep_revisions": 3}, {"keep_days": 4}]
            )
            plan = plan_prune(store or self.store, W, D, ambient=self.fake.ambient, **keep)
            execute_prune(store or self.store, plan, ambient=self.fake.ambient)
            self.note("pruned", plan.objects)
        except LakelogError as error:
            self.note("no prune", type(error).__name__)

    def gc(self, store=None):
        try:
            plan = plan_gc(store or self.store, W, D, ambient=self.fake.ambient)
            execute_gc(store or self.store, plan, ambient=self.fake.ambient)
            self.note("collected", plan.objects)
        except LakelogError as error:
            self.note("no gc", type(error).__name__)

    def rebuild(self, store=None):
        try:
            plan = plan_rebuild(store or self.store, W, D, ambient=self.fake.ambient)
            execute_rebuild(store or self.store, plan, ambient=self.fake.ambient)
            self.note("rebuilt", plan.incarnation)
        except (ConflictError, NotFoundError) as error:
            self.note("no rebuild", type(error).__name__, error)

    # --- What must hold ---------------------------------------------------------------------------

    def check(self):
        state = LogReader(self.store, W, D, self.fake.ambient).load()
        seen = frozenset(path for paths in state.files.paths() for path in paths.to_pylist())
        for table in state.files.tables():
            state.files.check(table)
        if self.doubtful:
            self.live, self.doubtful = seen, False
        assert seen == self.live, f"{len(seen)} files are live, {len(self.live)} should be"
        assert state.log.incarnation >= self.incarnation, "an incarnation fell back"
        self.incarnation, self.sealed = state.log.incarnation, bool(state.sealed_for)
        there = {info.key.removeprefix(f"{W}/{D}/") for info in self.store.list(f"{W}/{D}/data/")}
        assert self.live <= there, "a live file was deleted"
        if self.live:
            rows = self.catalog.snapshot(D).to_arrow("hourly").num_rows
            assert rows == len(self.live)
        self.tokens = {
            token: live for token, live in self.tokens.items() if self.reads(token, live)
        }

    def reads(self, token, live):
        """Whether a token reads what it did; if not, that was pruned."""
        try:
            snapshot = self.catalog.snapshot(D, token)
            found = set(snapshot.files("hourly")["path"].to_pylist())
        except SnapshotPruned:
            return False
        assert found == live
        rows = snapshot.to_arrow("hourly").num_rows
        assert rows == len(live), "rows of a token are gone"
        return True

    def run(self):
        steps = [
            self.commit, self.commit, self.commit, self.open, self.checkpoint, self.token,
            self.rest, self.maintain, self.maintain,
        ]  # fmt: skip
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.check()
        # Once nobody interferes all of it can be done, and goes on.
        self.rebuild()
        self.check()
        assert not self.sealed, "a rebuild could not be finished"
        self.rest()
        self.prune()
        self.gc()
        self.check()
        self.openings = []
        before = len(self.told)
        self.random.seed(1)
        self.commit()
        assert any(words.startswith("commit") for words in self.told[before:]), (
            "no new owner can commit"
        )
        self.check()


def run_history(seed):
    spilling = mock.patch.object(piece_sink, "SPILL_FROM_BYTES", 0)
    with warnings.catch_warnings(), spilling if seed % 2 else contextlib.nullcontext():
        warnings.simplefilter("error")
        world = World(seed)
        try:
            world.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}\n" + "\n".join(world.told)) from error
    return world


@pytest.mark.parametrize("part", range(PARTS))
def test_histories_of_maintenance(part):
    count = HISTORIES // PARTS
    first = base_seed() + part * count
    for seed in range(first, first + count):
        run_history(seed)


@pytest.mark.long
def test_many_histories_of_maintenance():
    for seed in range(base_seed(), base_seed() + 5_000):
        run_history(seed)


def test_histories_come_to_all_of_it():
    told = [words for seed in range(12) for words in run_history(seed).told]
    for begin in ("commit", "refused", "rebuilt", "rebuild died", "pruned", "collected"):
        assert any(words.startswith(begin) for words in told), begin
