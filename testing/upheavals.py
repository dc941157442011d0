"""Random histories of a log that is rebuilt while others go on, that loses objects, whose
processes are doubled, and whose store folds names or ignores put-if-absent. What must hold is in
`annals.py`.

First owners, guests, readers, keepers and rebuilders run side by side, as in `histories.py`, and in
many histories somebody deletes objects of the log. Then, one after the other and without faults,
whatever can still happen: old plans are executed, old handles commit and write checkpoints, gc and
prune run long afterwards. At the end the log is rebuilt if it can't be read, and all must be there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..catalog.commit.checkpointer import write_checkpoint
from ..catalog.commit.writer import Writer
from ..catalog.format.names import name_prefix
from ..catalog.read.log_reader import LogReader
from ..catalog.read.lost_tail import find_unnamed, refuse_lost_tail
from ..errors import (
    CommitOutcomeUnknown,
    ForkError,
    LakelogError,
    NotFoundError,
    PlanOutdated,
    RevisionNotFound,
    SnapshotPruned,
)
from ..gc import execute_gc, execute_prune, plan_gc, plan_prune
from ..rebuild import execute_rebuild, plan_rebuild
from .annals import DATA, DATABASE, FOLDER, WRITER, Annals, Meant
from .cast import MARGINS
from .doubles import FoldingStore
from .simulation import QUIET, Faults
from .truth import Violation, hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..catalog.log.state import State
    from ..store.base import Store
    from .simulation import World

TABLE = "t"
PLANNED = ("gc", "gc", "prune", "rebuild")
ROWS = pa.table({"n": [1]})
LONG_S = 3 * MARGINS.gc_grace_s
# Bodies come whole here: a footer that was damaged on its way is taken for a damaged file.
KINDS = (
    Faults(damage=0),
    Faults(damage=0, nap=0.08, freeze=0.5),
    Faults(damage=0, die=0.04),
    QUIET,
    QUIET,
)


@dataclass(slots=True)
class Upheaval:
    """The processes of one such history.

    Attributes:
        rest_s: How long a process does nothing between two pieces of work, at the most.
        handles: Writers that were opened, with their stores: zombies to be.
        plans: Of gc, prune and rebuild, to be executed by somebody, some time.
        removed: Paths that were taken out, and may be added again.
    """

    world: World
    annals: Annals
    rest_s: float = 0.0
    handles: list[Writer] = field(default_factory=list)
    plans: list[tuple[Callable[..., Any], Any]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def rest(self) -> None:
        """Do nothing for a while; others go on."""
        if self.rest_s and self.world.chance(0.5):
            self.world.ambient().sleep_s(self.world.random.random() * self.rest_s)

    # --- Committers -------------------------------------------------------------------------------

    def owner(self, store: Store, *, shared: bool, ids: bytes = b"") -> None:
        """Opens the writer; commits a few times; perhaps writes a checkpoint at last.

        Args:
            ids: What identities are drawn from: the same for a process and its double.
        """
        random = self.world.random
        try:
            writer = self._open(store, shared=shared, ids=ids)
            for _ in range(random.randint(1, 3)):
                self.rest()
                self.transaction(writer)
            if random.random() < 0.3:
                self.rest()
                self.late_checkpoint(writer)
        except LakelogError:
            return

    def _open(self, store: Store, *, shared: bool = False, ids: bytes = b"") -> Writer:
        writer = Writer(
            store, WRITER, DATABASE, shared=shared, margins=MARGINS,
            checkpoint_every=self.world.random.choice((0, 1, 2, 3)),
            ambient=self.world.ambient(ids),
        )  # fmt: skip
        self.handles.append(writer)
        return writer

    def transaction(self, writer: Writer) -> None:
        """One transaction: files go, come, come back, or are written and given up."""
        random, annals = self.world.random, self.annals
        app = ("job", random.randint(1, 4)) if random.random() < 0.3 else (None, None)
        tx = writer.transaction(*app)
        base = tx._base[:2]
        live = annals.live_at(writer._session._committer.state.digest)
        removes, adds = set(), set()
        if live and random.random() < 0.5:
            removes.add(random.choice(live))
        for path in removes:
            tx.remove(path)
        if self.removed and random.random() < 0.3:
            path = random.choice(self.removed)
            if path not in live:
                tx.add(TABLE, path)
                adds.add(path)
        # Of another spelling: on a store that folds names it is the same folder.
        table = TABLE if random.random() < 0.8 else TABLE.upper()
        if random.random() < 0.9 or not (removes or adds):
            adds.update(tx.write(table, ROWS))
        for path in adds:
            annals.bases.setdefault(annals.fold(path), base)
        if random.random() < 0.15:
            return  # its files are left over
        meant = Meant(frozenset(adds), frozenset(removes))
        self._commit(tx, meant)
        self.removed += removes

    def _commit(self, tx: Any, meant: Meant) -> None:
        for _ in range(3):
            try:
                info = tx.commit()
            except CommitOutcomeUnknown:
                if self.world.random.random() < 0.3:
                    return  # given up: it may stand or not, and nobody asks
                continue
            if info is not None:
                self.annals.told(bytes.fromhex(tx.transaction_id), info, meant)
            return

    def late_checkpoint(self, writer: Writer) -> None:
        """A checkpoint of what a handle last knew, whatever became of the log since; also by a
        process that stood still just before its put, as long as the log has all that it had: a lost
        or pruned one may be hidden by it, or show a gap, as docs/reliability.md says."""
        session = writer._session
        state = session._committer.state
        names = session._log.names()
        if self.annals.is_lossy or names.oldest_readable() > state.revision:
            session.checkpoint()
        elif state.revision >= 0 and not state.sealed_for:
            salt = self.world.random.randbytes(16)
            exclusive = not self.world.plain
            write_checkpoint(session._log, state.copy(), exclusive=exclusive, salt=salt)

    # --- Readers and maintenance ------------------------------------------------------------------

    def reader(self, store: Store) -> None:
        """Opens, refreshes, travels in time."""
        random = self.world.random
        log = LogReader(store, WRITER, DATABASE, self.world.ambient())
        state: State | None = None
        for _ in range(4):
            self.rest()
            try:
                is_fresh = state is None or random.random() < 0.3
                newer = log.load() if state is None or is_fresh else log.advance(state)
                self.annals.read(newer, state, is_fresh=is_fresh)
                state = newer
                if state.revision > 0 and random.random() < 0.3:
                    self.annals.read(log.load(random.randint(0, state.revision)), is_fresh=True)
            except (RevisionNotFound, SnapshotPruned):
                continue
            except LakelogError:
                state = None

    def keeper(self, store: Store) -> None:
        """Plans gc, prune or a rebuild; executes that, or what was planned before."""
        for _ in range(3):
            self.rest()
            try:
                self.plan(store)
                if self.world.chance(0.8):
                    self.execute(store)
            except LakelogError:
                continue

    def plan(self, store: Store) -> None:
        """Make a plan of some kind."""
        random, ambient = self.world.random, self.world.ambient()
        kind = random.choice(("gc", "gc", "prune") if self.world.plain else PLANNED)
        if kind == "gc":
            found = plan_gc(store, WRITER, DATABASE, ambient=ambient, margins=MARGINS)
            self.plans.append((partial(execute_gc, margins=MARGINS), found))
        elif kind == "prune":
            pruned = plan_prune(
                store, WRITER, DATABASE, ambient=ambient, margins=MARGINS,
                keep_revisions=random.randint(1, 3),
            )  # fmt: skip
            self.plans.append((partial(execute_prune, margins=MARGINS), pruned))
        else:
            self.plan_rebuild(store)

    def plan_rebuild(self, store: Store) -> None:
        """Plan a rebuild, and hold the plan against the truth."""
        changes = self.annals.changes
        plan = plan_rebuild(store, WRITER, DATABASE, ambient=self.world.ambient())
        if changes == self.annals.changes:  # else it is void, and nobody will execute it
            self.annals.planned(plan)
        self.plans.append((execute_rebuild, plan))

    def execute(self, store: Store) -> None:
        """Execute the last plan, or one of those before."""
        at = -1 if self.world.chance(0.7) else self.world.random.randrange(len(self.plans))
        execute, plan = self.plans[at]
        execute(store, plan, ambient=self.world.ambient())

    # --- Disasters --------------------------------------------------------------------------------

    def loser(self, _: Store) -> None:
        """Somebody deletes objects of the log: its end, all, or any."""
        self.rest()
        self.world.request("loser", "deletes")
        self.lose()

    def lose(self) -> None:
        """The same, now."""
        random = self.world.random
        keys = [info.key for info in self.world.store.list(FOLDER)]
        if not keys:
            return
        how = random.choice(("end", "end", "all", "any"))
        if how == "end":
            names = LogReader(self.world.store, WRITER, DATABASE).names()
            least = names.head - random.randint(0, 2)
            gone = [names.key(item) for rev in range(least, names.head + 1)
                    for item in names.names_at(rev)]  # fmt: skip
        elif how == "all":
            gone = keys
        else:
            gone = random.sample(keys, min(len(keys), random.randint(1, 3)))
        self.world.note(f"lost: {how}, {len(gone)} objects")
        self.annals.lost(gone)

    # --- The course of it -------------------------------------------------------------------------

    def spawn(self) -> None:
        """A few processes of each kind."""
        world, random = self.world, self.world.random
        world.spawn("owner", partial(self.owner, shared=False))
        if random.random() < 0.5:
            world.spawn("rival", partial(self.owner, shared=random.random() < 0.5))
        if random.random() < 0.3 and not world.plain:  # there a double's names are its own's
            ids, shared = random.randbytes(8), random.random() < 0.5
            world.spawn("original", partial(self.owner, shared=shared, ids=ids))
            world.spawn("double", partial(self.owner, shared=shared, ids=ids))
        if random.random() < 0.5:
            world.spawn("reader", self.reader)
        for number in range(random.randint(0, 2)):
            world.spawn(f"keeper{number}", self.keeper)
        if random.random() < 0.3 and not world.plain:
            world.spawn("loser", self.loser)

    def check(self) -> None:
        """Nothing: all is held against the truth as it happens."""

    def counts(self) -> tuple[int, int]:
        """Transactions that stood; and those that were acknowledged."""
        return len(self.annals.entries), len(self.annals.acknowledged)

    def afterwards(self) -> None:
        """Without faults, one after the other: whatever can still happen, and the end."""
        random, store = self.world.random, self.world.bare()
        for _ in range(random.randint(2, 6)):
            self.world.now_us += int(random.choice((1.0, 1.0, LONG_S)) * 1e6)
            act = random.choice(
                (
                    self._commits,
                    self._commits,
                    self._zombie,
                    self._keeps,
                    self._keeps,
                    self._loses,
                    self._reads,
                )
            )
            try:
                act(store)
            except LakelogError as error:
                self.world.note(f"{act.__name__}: {error!r}")
        self._end(store)

    def _commits(self, store: Store) -> None:
        self.transaction(self._open(store))

    def _zombie(self, _: Store) -> None:
        if self.handles:
            writer = self.world.random.choice(self.handles)
            (self.late_checkpoint if self.world.chance(0.5) else self.transaction)(writer)

    def _reads(self, store: Store) -> None:
        log = LogReader(store, WRITER, DATABASE, self.world.ambient())
        self.annals.read(log.load(), is_fresh=True)

    def _keeps(self, store: Store) -> None:
        self.plan(store)
        self.execute(store)

    def _loses(self, _: Store) -> None:
        if self.world.chance(0.5) and not self.world.plain:
            self.lose()

    def _end(self, store: Store) -> None:
        """The log can be read or be rebuilt; then it is pruned and collected; then all is there."""
        ambient = self.world.ambient()
        for _ in range(3):
            if self._works(store):
                break
            if self.world.plain:
                self._told_of_the_fork(store)
                return
            try:
                self.plan_rebuild(store)
                execute_rebuild(store, self.plans[-1][1], ambient=ambient)
            except PlanOutdated:
                self._take_away(self.plans[-1][1].incarnation)
            except NotFoundError:
                hold(not self.annals.owed, "U3 files are owed, and there is nothing to rebuild")
                return
        self.world.now_us += int(LONG_S * 1e6)
        try:
            self._maintain(store)
        except ForkError:
            if self.world.plain:  # a commit that landed late, below a checkpoint: gc tells of it
                return
            raise
        except LakelogError:
            if not self.annals.is_lossy:  # else there may be a hole, which a checkpoint hides
                raise
        log = LogReader(store, WRITER, DATABASE, ambient)
        self.annals.end(log.load())

    def _take_away(self, incarnation: int) -> None:
        """By hand, as the error says: what a rebuild began that died."""
        begun = self.world.store.list(FOLDER + name_prefix(incarnation))
        self.world.bare().delete([info.key for info in begun])

    def _told_of_the_fork(self, store: Store) -> None:
        try:
            LogReader(store, WRITER, DATABASE, self.world.ambient()).load()
        except ForkError:
            return
        raise Violation("P2 nobody can commit, and readers are told of no fork")

    def _maintain(self, store: Store) -> None:
        ambient = self.world.ambient()
        if self.world.chance(0.5):
            pruned = plan_prune(
                store, WRITER, DATABASE, ambient=ambient, margins=MARGINS, keep_revisions=1
            )
            execute_prune(store, pruned, ambient=ambient, margins=MARGINS)
        found = plan_gc(store, WRITER, DATABASE, ambient=ambient, margins=MARGINS)
        execute_gc(store, found, ambient=ambient, margins=MARGINS)

    def _works(self, store: Store) -> bool:
        """Whether a new owner can commit, and no file says that the log lost anything."""
        try:
            writer = self._open(store)
            tx = writer.transaction()
            (path,) = tx.write(TABLE, ROWS)
            self.annals.bases[self.annals.fold(path)] = tx._base[:2]
            self._commit(tx, Meant(frozenset({path}), frozenset()))
            infos = list(store.list(DATA))
            state = LogReader(store, WRITER, DATABASE, self.world.ambient()).load()
            refuse_lost_tail(store, state, find_unnamed(state, infos))
        except LakelogError as error:
            self.world.note(f"the log doesn't work: {error!r}")
            return False
        return True


def begin_upheaval(world: World) -> Upheaval:
    """The processes of one history, on a store that may fold names."""
    random = world.random
    world.faults = random.choice(KINDS)
    world.plain = random.random() < 0.15
    annals = Annals(world, folds=random.random() < 0.3, is_plain=world.plain)
    if annals.folds:
        world.store = FoldingStore(world.store)
    world.on_applied = annals.applied
    upheaval = Upheaval(world, annals, random.choice((0.0, MARGINS.prune_floor_s, LONG_S)))
    upheaval.spawn()
    return upheaval
