"""Random histories of a log that is rebuilt while others go on, that loses objects, whose
processes are doubled, and whose store folds names, or ignores put-if-absent or lets several win
that come at once. What must hold is in `annals.py`.

First owners, guests, readers, keepers and rebuilders run side by side, as in `histories.py`, and in
many histories somebody deletes objects of the log. Then, one after the other and without faults,
whatever can still happen: old plans are executed, old handles commit and write checkpoints, gc and
prune run long afterwards. At the end the log is rebuilt if it can't be read, and all must be there.

In some of them rows and columns of a table change beside (`changes.py`), which is also taken back,
and out (`undoing.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ..catalog.read.log_reader import LogReader
from ..errors import (
    ForkError,
    LakelogError,
    LostTail,
    NotFoundError,
)
from ..gc.collect import execute_gc, plan_gc
from ..gc.prune import execute_prune, plan_prune
from .actors import LONG_S, ROWS, TABLE, Actors
from .annals import DATABASE, WRITER, Annals
from .cast import MARGINS
from .changes import Changes
from .doubles import FoldingStore
from .entries import Meant
from .row_annals import CHANGED, RowAnnals
from .simulation import QUIET, Faults
from .truth import Violation, hold
from .undoing import Undoing

if TYPE_CHECKING:
    from ..store.base import Store
    from .simulation import World

# Bodies come whole here: a footer that was damaged on its way is taken for a damaged file.
KINDS = (
    Faults(damage=0),
    Faults(damage=0, nap=0.08, freeze=0.5),
    Faults(damage=0, die=0.04),
    QUIET,
    QUIET,
)


@dataclass(slots=True)
class Upheaval(Actors):
    """The course of one such history."""

    def spawn(self) -> None:
        """A few processes of each kind."""
        world, random = self.world, self.world.random
        world.spawn("owner", partial(self.owner, shared=False))
        if random.random() < 0.5 or world.looks_first:  # there two must come at once
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

    def begin(self) -> None:
        """Nothing: the log is empty."""

    def check(self) -> None:
        """Nothing: all is held against the truth as it happens."""

    def counts(self) -> tuple[int, int]:
        """Transactions that stood; and those that were acknowledged."""
        return len(self.annals.entries), len(self.annals.acknowledged)

    def afterwards(self) -> None:
        """Without faults, one after the other: whatever can still happen, and the end."""
        random, store = self.world.random, self.world.bare()
        acts = [self._commits, self._commits, self._zombie, self._keeps, self._keeps]
        acts += [self._loses, self._reads]
        if self.changes is not None and not self.world.plain:
            acts += [self._changes, self._changes, self._rebuilds, self._rebuilds]
        for _ in range(random.randint(2, 6)):
            self.world.now_us += int(random.choice((1.0, 1.0, LONG_S)) * 1e6)
            act = random.choice(acts)
            try:
                act(store)
            except LakelogError as error:
                self.world.note(f"{act.__name__}: {error!r}")
        self._end(store)

    def _commits(self, store: Store) -> None:
        self.transaction(self._open(store))

    def _changes(self, store: Store) -> None:
        writer = self._open(store)
        assert self.changes is not None
        for _ in range(2):
            self.change(writer, self.changes)

    def _rebuilds(self, store: Store) -> None:
        self.plan_rebuild(store)
        self.plans[-1][0](store, self.plans[-1][1], ambient=self.world.ambient())

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
            if not self._rebuilt(store):
                return
        if self.annals.is_lossy and not self.world.plain and not self._rebuilt(store):
            return
        self.world.now_us += int(LONG_S * 1e6)
        if self._maintained(store):
            state = LogReader(store, WRITER, DATABASE, ambient).load()
            self.annals.end(state)
            if self.annals.rows is not None:
                problem = self.annals.rows.unlike(store, state, ambient)
                hold(not problem, problem)

    def _rebuilt(self, store: Store) -> bool:
        """Whether there was anything to rebuild."""
        try:
            self._rebuilds(store)
        except NotFoundError:
            hold(not self.annals.owed, "U3 files are owed, and there is nothing to rebuild")
            return False
        return True

    def _maintained(self, store: Store) -> bool:
        """Prune and gc.

        Returns:
            False on a store that forks the log, where they tell of a commit that landed late, below
            or under a checkpoint.
        """
        try:
            self._maintain(store)
        except (ForkError, LostTail) as error:
            if not self.world.plain and not (self.annals.is_lossy and isinstance(error, LostTail)):
                raise
            return False
        return True

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
        """Whether a new owner can commit."""
        try:
            writer = self._open(store)
            tx = writer.transaction()
            (path,) = tx.write(TABLE, ROWS)
            self._commit(tx, Meant(frozenset({path}), frozenset()))
        except LakelogError as error:
            self.world.note(f"the log doesn't work: {error!r}")
            return False
        return True


def begin_upheaval(world: World, *, changes: bool) -> Upheaval:
    """The processes of one history, on a store that may fold names.

    Args:
        changes: Whether they change rows and columns of a table beside.
    """
    random = world.random
    world.faults = random.choice(KINDS)
    world.plain = random.random() < 0.2
    world.looks_first = world.plain and random.random() < 0.5
    if world.plain:  # what stands there is told by listings alone
        world.faults = replace(world.faults, miss=0)
    annals = Annals(world, folds=random.random() < 0.3, is_plain=world.plain)
    if annals.folds or world.plain:  # what is looked up by name there isn't kept by folders
        world.cached_s = 0.0
    if annals.folds:
        world.store = FoldingStore(world.store)
    world.on_applied = annals.applied
    upheaval = Upheaval(world, annals, random.choice((0.0, MARGINS.prune_floor_s, LONG_S)))
    if changes:
        rows = annals.rows = RowAnnals()
        upheaval.changes = Changes(world, CHANGED, upheaval.shown, rows.kinds, rows.numbers)
        upheaval.changes.choose_kinds()
        if not world.plain:  # restores commit as guests, and there are none
            upheaval.undoing = Undoing(world, annals, rows, MARGINS)
    upheaval.spawn()
    return upheaval
