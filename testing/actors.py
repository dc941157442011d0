"""The processes of an upheaval (`upheavals.py`): who commits, reads, maintains, and who loses
objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..catalog.commit.checkpointer import write_checkpoint
from ..catalog.commit.writer import Writer
from ..catalog.read.log_reader import LogReader
from ..errors import (
    CommitOutcomeUnknown,
    LakelogError,
    RevisionNotFound,
    SnapshotPruned,
)
from ..gc.collect import execute_gc, plan_gc
from ..gc.prune import execute_prune, plan_prune
from ..rebuild import execute_rebuild, plan_rebuild
from .annals import DATABASE, FOLDER, WRITER, Annals
from .cast import MARGINS
from .entries import Meant
from .row_annals import CHANGED
from .shown_rows import UNTOLD, Shown
from .truth import hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..catalog.log.state import State
    from ..store.base import Store
    from .changes import Changes
    from .simulation import SimulatedStore, World
    from .undoing import Undoing

TABLE = "t"
PLANNED = ("gc", "gc", "prune", "rebuild")
ROWS = pa.table({"n": [1]})
LONG_S = 3 * MARGINS.gc_grace_s
GOES_BACK = 50  # of 256 changes of the table beside: told by their ids, without a draw


@dataclass(slots=True)
class Actors:
    """The processes of one such history.

    Attributes:
        rest_s: How long a process does nothing between two pieces of work, at the most.
        handles: Writers that were opened, with their stores: zombies to be.
        plans: Of gc, prune and rebuild, to be executed by somebody, some time.
        changes: What transactions change of a table beside, if they do.
        undoing: What takes that table back, if somebody does.
    """

    world: World
    annals: Annals
    rest_s: float = 0.0
    handles: list[Writer] = field(default_factory=list)
    plans: list[tuple[Callable[..., Any], Any]] = field(default_factory=list)
    changes: Changes | None = None
    undoing: Undoing | None = None

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
        """One transaction: files go, come, or are written and given up; or rows and
        columns of another table change."""
        if self.changes is not None and self.world.chance(0.5):
            self.change(writer, self.changes)
            return
        random, annals = self.world.random, self.annals
        app = ("job", random.randint(1, 4)) if random.random() < 0.3 else (None, None)
        tx = writer.transaction(*app)
        live = annals.live_at(writer._session._committer.state.digest)
        live = [path for path in live if f"/{CHANGED}/" not in path]
        removes: set[str] = set()
        adds: set[str] = set()
        if live and random.random() < 0.5:
            removes.add(random.choice(live))
        for path in removes:
            tx.remove(path)
        # Of another spelling: on a store that folds names it is the same folder.
        table = TABLE if random.random() < 0.8 else TABLE.upper()
        if random.random() < 0.9 or not (removes or adds):
            adds.update(tx.write(table, ROWS))
        if random.random() < 0.15:
            return  # its files are left over
        meant = Meant(frozenset(adds), frozenset(removes))
        self._commit(tx, meant)

    def change(self, writer: Writer, changes: Changes) -> None:
        """One transaction that changes rows and columns of the table beside."""
        tx = writer.transaction()
        if self.undoing is not None and tx._intent.transaction_id[0] < GOES_BACK:
            tx.discard()
            self.undoing.act(writer._session.store)
            return
        asked = changes.change(tx)
        if asked is None or self.annals.rows is None:
            return
        if self.world.chance(0.15):
            tx.discard()
            return  # its files are left over
        self.annals.rows.asks(tx._intent.transaction_id, asked)
        self._commit(tx, Meant(frozenset(asked.writes), frozenset(asked.drops), asked))

    def shown(self, tx: Any) -> Shown:
        """The table beside as a transaction has last seen it."""
        digest = tx._session._committer.state.digest
        return (self.annals.rows and self.annals.rows.shown.get(digest)) or UNTOLD

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

    def reader(self, store: SimulatedStore) -> None:
        """Opens, refreshes, travels in time."""
        random = self.world.random
        log = LogReader(store, WRITER, DATABASE, self.world.ambient())
        state: State | None = None
        for _ in range(4):
            self.rest()
            try:
                is_fresh = state is None or random.random() < 0.3
                missed = store.missed
                newer = log.load() if state is None or is_fresh else log.advance(state)
                # What asks the store alone knows no more than a listing that missed a name.
                is_older = is_fresh and store.missed > missed
                self.annals.read(newer, None if is_older else state, is_fresh=is_fresh)
                state = newer
                if self.annals.rows is not None and not self.annals.is_lossy:
                    problem = self.annals.rows.unlike(store, state, self.world.ambient())
                    hold(not problem, problem)
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
