"""Random histories of one log, and what must hold after every step of them.

The truth is a small dictionary, kept by watching what takes effect in the store: which transaction
stands on which revision, and which files are live after it. Owners, zombies of the same writer,
guests, readers, checkpoint makers, prune and gc run the real code; whatever they are told, and
whatever they delete, is held against the truth at once.

Invariants (I1 to I12 of docs/reliability.md):
    I1  an acknowledged transaction stays readable, or lies below a point that prune may take
    I2  a reader sees exactly what stood at its revision; nobody's unacknowledged half
    I3  one transaction a revision, each transaction once
    I4  after everything, opening works; I12: and a commit succeeds within a few attempts
    I5  a reader's head never goes back
    I6  a checkpoint says what replay says
    I7  damage on the way to a reader is an error or a retry, never another result
    I9  no file that a retained or later revision names is ever deleted
    I10 a writer writes below its own prefix only
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..catalog.codec import decode_transaction
from ..catalog.listing import Listing, read_listing
from ..catalog.log import Log
from ..catalog.margins import Margins
from ..catalog.names import data_path
from ..catalog.schema import encode_schema
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..catalog.writer import Writer
from ..errors import (
    CommitOutcomeUnknown,
    ConflictError,
    CorruptError,
    DuplicateFile,
    FencedError,
    FileNotLive,
    LakelogError,
    SnapshotPruned,
    StorageError,
)
from ..gc import execute_gc, execute_prune, plan_gc, plan_prune
from .doubles import PassingStore
from .simulation import QUIET, Faults, World

if TYPE_CHECKING:
    from ..catalog.outcome import CommitInfo
    from ..catalog.state import State
    from ..store.base import Store

WRITER, DATABASE, TABLE = "w", "db", "t"
FOLDER = f"{WRITER}/{DATABASE}/transactions/"
BASE = f"{WRITER}/{DATABASE}/"
MARK, SCHEMA = encode_schema(pa.schema([("a", pa.int64())]))
MARGINS = Margins(prune_floor_s=100_000.0, gc_grace_s=500_000.0)


class Violation(AssertionError):
    """An invariant broke. The message begins with its name."""


@dataclass(slots=True)
class Slot:
    """What stands on one revision: transaction ids, and the live paths after it."""

    ids: tuple[bytes, ...]
    live: frozenset[str]


@dataclass(slots=True)
class Truth:
    """What has taken effect, by watching the store.

    Attributes:
        slots: By revision.
        acknowledged: Transaction id to revision, as its committer was told.
        attempted: All transaction ids that anybody tried to commit.
        deleted: Data paths that were deleted.
        junk: Keys of transactions that came after their revision was pruned.
    """

    world: World
    slots: dict[int, Slot] = field(default_factory=dict)
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    attempted: set[bytes] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    junk: set[str] = field(default_factory=set)

    def applied(self, verb: str, key: str, body: bytes) -> None:
        """A writing request took effect."""
        _hold(key.startswith(f"{WRITER}/"), f"I10 {verb} {key} is outside the writer's prefix")
        if verb == "DELETE":
            self._deleted(key)
        elif key.endswith(".transaction"):
            self._landed(key, body)

    def _landed(self, key: str, body: bytes) -> None:
        found = decode_transaction(body, key)
        revision = found.message.revision
        ids = tuple(member.transaction_id for member in found.message.commit.members)
        if revision < max(self.slots, default=-1):
            # Only a process that slept past the floor can do this; it must never be acknowledged.
            self.junk.add(key)
            return
        if revision in self.slots:
            _hold(self.slots[revision].ids == ids, f"I3 {key} replaces another transaction")
            return
        _hold(revision == max(self.slots, default=-1) + 1, f"I3 {key} leaves a gap")
        stood = {mark for slot in self.slots.values() for mark in slot.ids}
        _hold(not stood & set(ids), f"I3 a transaction of {key} stands already")
        live = set(self.slots[revision - 1].live) if revision else set()
        for action in found.message.actions:
            kind = action.WhichOneof("kind")
            if kind == "add":
                path = action.add.path
                _hold(path not in live, f"I2 {path} is added twice")
                _hold(path not in self.deleted, f"I9 {path} is committed and was deleted before")
                live.add(path)
            elif kind == "remove":
                _hold(action.remove.path in live, f"I2 {action.remove.path} is removed, not live")
                live.discard(action.remove.path)
        self.slots[revision] = Slot(ids, frozenset(live))

    def _deleted(self, key: str) -> None:
        if key.startswith(BASE + "data/"):
            path = key[len(BASE) :]
            self.deleted.add(path)
            oldest = self.listing().oldest_readable()
            for revision, slot in self.slots.items():
                if revision >= oldest and path in slot.live:
                    raise Violation(f"I9 {path} was deleted; revision {revision} needs it")
        elif key.startswith(FOLDER) and key not in self.junk:
            listing = self.listing()
            _hold(
                listing.oldest_readable() <= listing.head == max(self.slots),
                f"I1 after the deletion of {key} the head can't be read",
            )

    def listing(self) -> Listing:
        """The log's names as they are in the store, without any request."""
        names = (item.key[len(FOLDER) :] for item in self.world.store.list(FOLDER))
        return read_listing(WRITER, DATABASE, names)

    def told(self, transaction_id: bytes, info: CommitInfo) -> None:
        """A committer was told of success."""
        slot = self.slots.get(info.revision)
        _hold(slot is not None, f"I1 acknowledged at revision {info.revision}, which isn't there")
        assert slot is not None
        _hold(
            transaction_id in slot.ids, f"I3 acknowledged at {info.revision}, another stands there"
        )
        self.acknowledged[transaction_id] = info.revision

    def refused(self, transaction_id: bytes, error: LakelogError) -> None:
        """A committer was told that its transaction doesn't fit."""
        stands = any(transaction_id in slot.ids for slot in self.slots.values())
        _hold(not stands, f"I3 a transaction that stands was told as a conflict: {error.message}")

    def read(self, state: State) -> None:
        """A reader got a state."""
        if state.revision < 0:
            return
        slot = self.slots.get(state.revision)
        _hold(slot is not None, f"I2 a reader sees revision {state.revision}, which isn't there")
        assert slot is not None
        files = state.tables.get(TABLE)
        seen = set(files.table().column("path").to_pylist()) if files else set()
        _hold(
            seen == slot.live,
            f"I2 a reader of {state.revision} sees {len(seen)} files, {len(slot.live)} are live",
        )

    def whole(self) -> None:
        """At the end: every checkpoint and every readable revision says what the truth says."""
        log = Log(self.world.store, WRITER, DATABASE, self.world.ambient())
        listing = log.names()
        if listing.head < 0:
            _hold(not self.acknowledged, "I1 acknowledged, and the log is empty")
            return
        _hold(listing.head == max(self.slots), f"I4 the head is {listing.head}")
        for revision in range(listing.oldest_readable(), listing.head + 1):
            self.read(log.load(revision, listing))
        for names in listing.checkpoints.values():
            for item in names:
                if item.revision >= listing.oldest_readable():
                    self.read(log.checkpoint_state(item))
        for mark, revision in self.acknowledged.items():
            _hold(mark in self.slots[revision].ids, "I1 acknowledged and gone")


def _hold(condition: bool, words: str) -> None:
    if not condition:
        raise Violation(words)


@dataclass(slots=True)
class Cast:
    """The processes of one history."""

    world: World
    truth: Truth

    def owner(self, store: Store, *, shared: bool, rounds: int) -> None:
        """Opens the writer again and again; commits, retries what is in doubt, or gives up."""
        random = self.world.random
        for _ in range(rounds):
            try:
                writer = Writer(
                    store, WRITER, DATABASE, shared=shared, margins=MARGINS,
                    checkpoint_every=random.choice((0, 2, 3)), ambient=self.world.ambient(),
                )  # fmt: skip
                for _ in range(random.randint(1, 4)):
                    self.transaction(store, writer)
            except (StorageError, CorruptError, ConflictError):
                continue

    def transaction(self, store: Store, writer: Writer, *, adds: int = 0) -> None:
        """One transaction, of at least so many added files."""
        random = self.world.random
        tx = writer.transaction()
        mark = tx._intent.transaction_id
        self.truth.attempted.add(mark)
        actions = tx._intent.actions
        if not writer.knows_schema(TABLE, MARK):
            schema = wire.Schema(table=TABLE, fingerprint=MARK, arrow_schema=SCHEMA)
            actions.append(wire.Action(schema=schema))
        live = writer._committer.state.tables.get(TABLE)
        paths = sorted(live.table().column("path").to_pylist()) if live else []
        if paths and random.random() < 0.4:
            path = random.choice(paths)
            actions.append(wire.Action(remove=wire.Remove(path=path)))
        for number in range(random.randint(adds if paths else 1, 2)):
            path = data_path("", TABLE, tx._intent.epoch, mark, number)
            store.put(BASE + path, b"rows")
            add = wire.Add(path=path, table=TABLE, size_bytes=4, schema_fingerprint=MARK)
            actions.append(wire.Action(add=add))
        for _ in range(3):
            try:
                info = tx.commit()
            except CommitOutcomeUnknown:
                if random.random() < 0.3:
                    return  # given up: it may stand or not, and nobody asks
                continue
            except (DuplicateFile, FileNotLive) as error:
                self.truth.refused(mark, error)
                raise
            if info is not None:
                self.truth.told(mark, info)
            return

    def reader(self, store: Store, *, rounds: int) -> None:
        """Opens, refreshes, travels in time; holds each state against the truth."""
        random = self.world.random
        log = Log(store, WRITER, DATABASE, self.world.ambient())
        state: State | None = None
        for _ in range(rounds):
            try:
                if state is None or random.random() < 0.3:
                    fresh = log.load()
                    self.truth.read(fresh)
                    if state is None or fresh.revision > state.revision:
                        state = fresh
                elif random.random() < 0.7:
                    newer = log.advance(state)
                    _hold(newer.revision >= state.revision, "I5 a reader's head went back")
                    state = newer
                    self.truth.read(state)
                elif state.revision >= 0:
                    self.truth.read(log.load(random.randint(0, state.revision)))
            except SnapshotPruned:
                continue
            except (StorageError, CorruptError, ConflictError):
                continue

    def keeper(self, store: Store, *, rounds: int) -> None:
        """Prunes and collects garbage, with plans that may be old when they are executed."""
        random = self.world.random
        ambient = self.world.ambient()
        for _ in range(rounds):
            try:
                if random.random() < 0.5:
                    plan = plan_prune(
                        store, WRITER, DATABASE, keep_revisions=random.randint(1, 3),
                        ambient=ambient, margins=MARGINS,
                    )  # fmt: skip
                    execute_prune(store, plan, ambient=ambient, margins=MARGINS)
                else:
                    plan = plan_gc(store, WRITER, DATABASE, ambient=ambient, margins=MARGINS)
                    execute_gc(store, plan, ambient=ambient, margins=MARGINS)
            except LakelogError:
                continue


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one history came to.

    Attributes:
        seed: It.
        steps: Requests.
        commits: Revisions that stand.
        acknowledged: Commits that were acknowledged.
        violation: The invariant that broke, or empty.
    """

    seed: int
    steps: int
    commits: int
    acknowledged: int
    violation: str = ""


def run_history(
    seed: int, *, faults: Faults | None = None, trace: list[str] | None = None
) -> Outcome:
    """One history, from its seed alone.

    Args:
        faults: Those of the seed if not given.
        trace: Filled with a line a request.
    """
    world = World(seed, trace=trace)
    truth = Truth(world)
    world.on_applied = truth.applied
    random = world.random
    world.faults = faults or random.choice((Faults(), Faults(nap=0.08), Faults(die=0.04), QUIET))
    cast = Cast(world, truth)
    for number in range(random.randint(1, 2)):
        play = partial(cast.owner, shared=False, rounds=random.randint(1, 3))
        world.spawn(f"owner{number}", play)
    for number in range(random.randint(0, 2)):
        world.spawn(f"guest{number}", lambda s: cast.owner(s, shared=True, rounds=2))
    if random.random() < 0.6:
        world.spawn("reader", lambda s: cast.reader(s, rounds=6))
    if random.random() < 0.6:
        world.spawn("keeper", lambda s: cast.keeper(s, rounds=3))
    violation = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            world.run(lambda: None)
            world.faults = QUIET
            _recover(world, truth)
            truth.whole()
        except Violation as error:
            violation = str(error)
        except Exception as error:  # an error without a type is a finding too
            violation = f"I4 {type(error).__name__}: {error}"
    return Outcome(seed, world.steps, len(truth.slots), len(truth.acknowledged), violation)


def _recover(world: World, truth: Truth) -> None:
    """I4 and I12: once faults stop, a new owner opens and commits at the first attempt."""
    world.now_us += 1_000_000
    cast = Cast(world, truth)
    before = len(truth.slots)
    writer: Any = Writer(
        world.store, WRITER, DATABASE, margins=MARGINS, checkpoint_every=2, ambient=world.ambient()
    )
    watched = _Watched(world)
    writer._log = Log(watched, WRITER, DATABASE, world.ambient())
    writer._committer.log = writer._log
    try:
        cast.transaction(watched, writer, adds=1)
    except FencedError as error:
        raise Violation(f"I12 a new owner is fenced at once: {error}") from error
    _hold(len(truth.slots) > before, "I12 a new owner's commit doesn't stand")


class _Watched(PassingStore):
    """The bare store, with its writes shown to the truth."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store)
        self._world = world

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        super().put(key, body, if_absent=if_absent)
        self._world.on_applied("PUT", key, body)
