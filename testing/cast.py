"""The processes of one log: owners, zombies of the same writer, guests, readers, checkpoint makers,
prune and gc run the real code. Whatever takes effect, whatever they are told and whatever they read
is held against the truth (`truth.py`) at once.

The invariants are those of `truth.py`, and here:
    I4, I12  once faults stop, a new owner opens, and commits at the first attempt
    I5       a reader's head never goes back
    I7       damage on the way to a reader is an error or a retry, never another result
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from ..catalog.catalog import Catalog
from ..catalog.commit.writer import Writer
from ..catalog.format.names import data_path
from ..catalog.format.schema import column_of, encode_schema
from ..catalog.log.build import Claim
from ..catalog.margins import Margins
from ..catalog.read.log_reader import LogReader
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..errors import (
    CommitOutcomeUnknown,
    ConflictError,
    CorruptError,
    DuplicateFile,
    FencedError,
    FileNotLive,
    LakelogError,
    OperationConflict,
    RevisionNotFound,
    SnapshotPruned,
    StorageError,
    UnknownSchema,
)
from ..gc.collect import execute_gc, plan_gc
from ..gc.prune import execute_prune, plan_prune
from .naming import Names
from .simulation import QUIET, Faults
from .truth import BASE, DATABASE, TABLE, WRITER, Truth, Violation, hold

if TYPE_CHECKING:
    from ..catalog.commit.transaction import Transaction
    from ..catalog.log.build import Intent
    from ..catalog.log.files import Files
    from ..catalog.log.state import State
    from ..store.base import Store
    from .simulation import World

_ENCODED = encode_schema(pa.schema([column_of("a", pa.int64(), 1)]))
FINGERPRINT, SCHEMA = _ENCODED.fingerprint, _ENCODED.message
MARGINS = Margins(prune_floor_s=100_000.0, gc_grace_s=500_000.0)
OVERWRITES = 96  # of 256 transactions that take out a file: told by their ids, without a draw
# A little of everything goes wrong; or much sleep, of paused machines too, much death, much
# damage; or long sleep and listings that miss; or nothing.
KINDS = (
    Faults(),
    Faults(nap=0.08),
    Faults(nap=0.08, freeze=0.5),
    Faults(die=0.04),
    Faults(damage=0.1, miss=0.4),
    Faults(0, 0, 0, 0, miss=0.5, die=0.02, nap=0.15, jump_s=900_000.0),
    QUIET,
)


@dataclass(slots=True)
class Cast:
    """The processes of one history.

    Attributes:
        rest_s: How long a process does nothing between two pieces of work, at the most.
        freeze_share: How often its clocks stand still meanwhile.
        checkpoint_every: One of these numbers of commits; 0: never.
        trim_share: How often an owner ends with a checkpoint that leaves out what was pruned.
        prune_share: How often a keeper prunes, instead of collecting garbage.
        keep_revisions: What prune keeps, at the most.
        is_watched: Whether the whole store is compared after each change.
        names: Tags and published cuts, where there are any.
        seen: The changes that were looked at.
    """

    world: World
    truth: Truth
    rest_s: float = 0.0
    freeze_share: float = 0.0
    checkpoint_every: tuple[int, ...] = (0, 2, 3)
    trim_share: float = 0.1
    prune_share: float = 0.5
    keep_revisions: int = 3
    is_watched: bool = False
    names: Names | None = None
    seen: int = 0

    def begin(self) -> None:
        """What there is before all processes: nothing."""

    def rest(self) -> None:
        """Do nothing for a while; others go on."""
        if self.rest_s and self.world.chance(0.5):
            rest_s = self.world.random.random() * self.rest_s
            if self.world.chance(self.freeze_share):
                self.world.freeze(int(rest_s * 1e6))
            else:
                self.world.ambient().sleep_s(rest_s)

    def owner(self, store: Store, *, shared: bool, rounds: int) -> None:
        """Opens the writer again and again; commits, retries what is in doubt, or gives up."""
        random = self.world.random
        for _ in range(rounds):
            try:
                writer = Writer(
                    store, WRITER, DATABASE, shared=shared, margins=MARGINS,
                    checkpoint_every=random.choice(self.checkpoint_every),
                    ambient=self.world.ambient(),
                )  # fmt: skip
                for _ in range(random.randint(1, 3)):
                    self.rest()
                    self.transaction(store, writer)
                if random.random() < self.trim_share:
                    writer.checkpoint()
            except UnknownSchema:
                if self.truth.rows is None:  # only where rows change are tables dropped
                    raise
            except (StorageError, CorruptError, ConflictError):
                continue

    def transaction(self, store: Store, writer: Writer, *, adds: int = 0) -> None:
        """One transaction, of at least so many added files."""
        random = self.world.random
        tx = writer.transaction()
        transaction_id = tx._intent.transaction_id
        self.truth.openings[transaction_id] = writer
        actions = tx._intent.actions
        if not writer._session.knows_schema(TABLE, FINGERPRINT):
            schema = wire.Schema(table=TABLE, fingerprint=FINGERPRINT, arrow_schema=SCHEMA)
            actions.append(wire.Action(schema=schema))
        paths = self.truth.live_at(writer._session._committer.state.revision)
        if paths and random.random() < 0.4:
            path = random.choice(paths)
            actions.append(wire.Action(remove=wire.Remove(path=path, table=TABLE)))
            if transaction_id[0] < OVERWRITES:
                self._overwrite(tx._intent, writer._session._committer.state.revision)
        for number in range(random.randint(adds if paths else 1, 2)):
            path = data_path("", TABLE, tx._intent.epoch, transaction_id, number)
            store.put(BASE + path, b"rows")
            add = wire.Add(path=path, table=TABLE, size_bytes=4, schema_fingerprint=FINGERPRINT)
            actions.append(wire.Action(add=add))
        self.commit(tx)

    def commit(self, tx: Transaction) -> None:
        """Commit, again where it is in doubt, and hold the answer against the truth."""
        transaction_id = tx._intent.transaction_id
        for _ in range(3):
            try:
                info = tx.commit()
            except CommitOutcomeUnknown:
                if self.world.random.random() < 0.3:
                    return  # given up: it may stand or not, and nobody asks
                continue
            except (DuplicateFile, FileNotLive, OperationConflict) as error:
                self.truth.refused(transaction_id, error)
                raise
            if info is not None:
                self.truth.told(transaction_id, info)
            return

    def _overwrite(self, intent: Intent, revision: int) -> None:
        """Rely on that no file comes from here on: as an overwrite of all rows does, for which the
        files that it leaves may as well be empty."""
        intent.asked.add("overwrite")
        intent.claims.append(Claim(TABLE, revision, "all rows", _paths))
        self.truth.claims[intent.transaction_id] = revision

    def reader(self, store: Store, *, rounds: int) -> None:
        """Opens, refreshes, travels in time; holds each state against the truth."""
        random = self.world.random
        log = LogReader(store, WRITER, DATABASE, self.world.ambient())
        state: State | None = None
        for _ in range(rounds):
            self.rest()
            try:
                if state is None or random.random() < 0.3:
                    fresh = log.load()
                    self.look(store, fresh)
                    if state is None or fresh.revision > state.revision:
                        state = fresh
                elif random.random() < 0.7:
                    newer = log.advance(state)
                    hold(newer.revision >= state.revision, "I5 a reader's head went back")
                    state = newer
                    self.look(store, state)
                elif state.revision >= 0:
                    self.look(store, log.load(random.randint(0, state.revision)))
            except (RevisionNotFound, SnapshotPruned):
                continue
            except (StorageError, CorruptError, ConflictError):
                continue

    def look(self, _: Store, state: State) -> None:
        """Hold what a reader got against the truth."""
        self.truth.read(state)

    def keeper(self, store: Store, *, rounds: int) -> None:
        """Prunes and collects garbage, with plans that may be old when they are executed."""
        random = self.world.random
        ambient = self.world.ambient()
        for _ in range(rounds):
            self.rest()
            try:
                if random.random() < self.prune_share:
                    plan = plan_prune(
                        store, WRITER, DATABASE, ambient=ambient, margins=MARGINS,
                        keep_revisions=random.randint(1, self.keep_revisions),
                    )  # fmt: skip
                    execute_prune(store, plan, ambient=ambient, margins=MARGINS)
                    if self.names is not None:
                        self.names.check()
                else:
                    plan = plan_gc(store, WRITER, DATABASE, ambient=ambient, margins=MARGINS)
                    execute_gc(store, plan, ambient=ambient, margins=MARGINS)
            except LakelogError:
                continue

    def restorer(self, store: Store, *, rounds: int) -> None:
        """Goes back to revisions, however long ago, if they are still there."""
        random = self.world.random
        catalog = Catalog(store, ambient=self.world.ambient(), margins=MARGINS)
        for _ in range(rounds):
            self.rest()
            to = random.randint(0, max(self.truth.slots, default=0))
            try:
                done = catalog.restore(DATABASE, to={WRITER: to}, execute=True)
            except LakelogError:
                continue
            for change in done.changes:
                if change.commit is not None:
                    self.truth.restored(change.commit.revision, to)

    def counts(self) -> tuple[int, int]:
        """Revisions that stand; and commits that were acknowledged."""
        return len(self.truth.slots), len(self.truth.acknowledged)

    def check(self) -> None:
        """After a step: if it changed anything, everything in the store is read and compared."""
        if self.is_watched and self.truth.changes > self.seen and self.truth.slots:
            self.truth.whole()
        self.seen = self.truth.changes

    def afterwards(self) -> None:
        """I4 and I12: once faults stop, a new owner opens and commits at the first attempt."""
        world, before = self.world, len(self.truth.slots)
        world.now_us += 1_000_000
        store = world.bare()
        writer = Writer(
            store, WRITER, DATABASE, margins=MARGINS, checkpoint_every=2, ambient=world.ambient()
        )
        try:
            self.transaction(store, writer, adds=1)
        except FencedError as error:
            raise Violation(f"I12 a new owner is fenced at once: {error}") from error
        hold(len(self.truth.slots) > before, "I12 a new owner's commit doesn't stand")
        self.truth.whole(sample=not self.is_watched)
        if self.names is not None:
            self.names.check()


def _paths(_: State, files: Files) -> list[str]:
    parts = (part.rows(TABLE).column("path").to_pylist() for part in files.parts)
    return [*files.added.get(TABLE, ()), *(path for paths in parts for path in paths)]


def _spawn_some(world: World, cast: Cast, *, goes_back: bool) -> None:
    """A few of each kind."""
    random = world.random
    if goes_back:  # to what was pruned, or collected, a moment ago
        world.faults = Faults(0, 0, 0, 0, miss=0, die=0, nap=0.1, jump_s=MARGINS.prune_floor_s)
        cast.rest_s, cast.keep_revisions = 3 * MARGINS.prune_floor_s, 1
        world.spawn("restorer", partial(cast.restorer, rounds=5))
        cast.names = names = Names(world, cast.truth, MARGINS)
        world.on_applied = partial(_applied, cast.truth, names)
        for number in range(2):
            world.spawn(f"namer{number}", partial(names.namer, rounds=6))
        world.spawn("keeper of old", partial(cast.keeper, rounds=8))
    for number in range(random.randint(1, 2)):
        rounds = random.randint(1, 2)
        world.spawn(f"owner{number}", partial(cast.owner, shared=False, rounds=rounds))
    for number in range(random.randint(0, 2)):
        world.spawn(f"guest{number}", partial(cast.owner, shared=True, rounds=1))
    if random.random() < 0.6:
        world.spawn("reader", partial(cast.reader, rounds=4))
    if random.random() < 0.6:
        world.spawn("keeper", partial(cast.keeper, rounds=3))


def _applied(truth: Truth, names: Names, verb: str, key: str, body: bytes) -> None:
    truth.applied(verb, key, body)
    names.applied(verb, key, body)


def _spawn_rivals(world: World, truth: Truth, cast: type[Cast]) -> Cast:
    """Two owners of one epoch that rest for long, or just not long enough to look again, while
    guests commit and the log is pruned."""
    world.faults = QUIET
    patience = world.random.choice((12, 0.9)) * MARGINS.prune_floor_s
    freeze_share = world.random.choice((0.0, 0.0, 0.7))  # then they believe that they were quick
    patient = cast(world, truth, rest_s=patience, freeze_share=freeze_share)
    busy = cast(
        world, truth, rest_s=patience / 6, checkpoint_every=(1, 2), trim_share=1.0,
        prune_share=0.9, keep_revisions=1,
    )  # fmt: skip
    for number in range(2):
        world.spawn(f"owner{number}", partial(patient.owner, shared=False, rounds=1))
    world.spawn("guest", partial(busy.owner, shared=True, rounds=3))
    world.spawn("keeper", partial(busy.keeper, rounds=7))
    return patient


def begin_log(
    world: World, *, is_watched: bool, goes_back: bool = False, kind: type[Cast] = Cast
) -> Cast:
    """The processes of one history: some of each kind, or two owners of one epoch.

    Args:
        is_watched: Whether the whole store is read and compared after each change.
        goes_back: Whether one of them restores earlier revisions.
        kind: What they do.
    """
    truth, random = Truth(world, MARGINS.gc_grace_s / 2), world.random
    world.on_applied = truth.applied
    world.faults = random.choice(KINDS)
    if random.random() < 0.06 and not goes_back:
        cast = _spawn_rivals(world, truth, kind)
    else:
        cast = kind(world, truth, random.choice((0.0, 3 * MARGINS.prune_floor_s)))
        _spawn_some(world, cast, goes_back=goes_back)
    cast.is_watched = is_watched
    return cast
