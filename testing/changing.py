"""Processes that change data: they delete rows in each way, upsert, overwrite and rewrite, and
change columns and keys, in a table of tiny Parquet files, and go back over all that, remove files
and drop the table (`going_back.py`). Which rows there must be is told by
`shown_rows.py`.

Invariants, beside those of `cast.py` and `truth.py`:
    R1  a transaction does to the rows what its committer asked for, whatever others did since
    R2  a reader sees these rows, and the deletes and columns that stand
    I9  an object of row deletes that a retained revision needs is never deleted
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ..catalog.commit.writer import Writer
from ..catalog.read.log_reader import LogReader
from .cast import MARGINS, Cast
from .changes import Changes, unlike_rows
from .going_back import GoingBack
from .shown_rows import UNTOLD, RowTruth, Shown
from .simulation import QUIET
from .truth import DATABASE, TABLE, WRITER, hold

if TYPE_CHECKING:
    from ..catalog.commit.transaction import Transaction
    from ..catalog.log.state import State
    from ..store.base import Store

GOES_BACK = 20  # of 256 transactions: told by their ids, without a draw
_FIRST = (["write"], ["write", "delete"], ["write", "upsert"], ["write", "evolve", "write"])


@dataclass(slots=True)
class Changing(Cast):
    """The processes of one history.

    Attributes:
        rows: What the table shows.
        changes: What transactions change of it.
        goes_back: What takes it back, or out.
    """

    rows: RowTruth = field(init=False)
    changes: Changes = field(init=False)
    goes_back: GoingBack = field(init=False)

    def __post_init__(self) -> None:
        self.rows = self.truth.rows = self.truth.rows or RowTruth()
        kinds, numbers = self.rows.kinds, self.rows.numbers
        self.changes = Changes(self.world, TABLE, self._now, kinds, numbers)
        self.goes_back = GoingBack(self.world, self.truth, self.rows, MARGINS)

    def begin(self) -> None:
        """Some rows that each process finds, perhaps deleted ones too; perhaps of long ago, so that
        they can be pruned and collected at once."""
        world, random, ambient = self.world, self.world.random, self.world.ambient()
        faults, world.faults = world.faults, QUIET
        self.changes.choose_kinds()
        writer = Writer(
            world.bare(), WRITER, DATABASE, margins=MARGINS, checkpoint_every=0, ambient=ambient
        )
        for what in random.choice(_FIRST):
            self._change(writer, writer.transaction(), what)
        if random.random() < 0.5:
            writer.checkpoint()
            world.now_us += int(random.choice((0, 1.1, 1.1)) * MARGINS.prune_floor_s * 1e6)
        world.faults = faults
        if random.random() < 0.5:
            for number in range(2):
                world.spawn(f"rival{number}", partial(self.owner, shared=True, rounds=1))

    # --- Transactions -----------------------------------------------------------------------------

    def transaction(self, store: Store, writer: Writer, *, adds: int = 0) -> None:
        """One transaction, of some kind; of at least so many added files. Or, instead, somebody who
        holds no writer takes the table back."""
        tx = writer.transaction()
        if not adds and tx._intent.transaction_id[0] < GOES_BACK:
            tx.discard()
            self.goes_back.act(store)
        else:
            self._change(writer, tx, "write" if adds else "")

    def _change(self, writer: Writer, tx: Transaction, what: str) -> None:
        self.truth.openings[tx._intent.transaction_id] = writer
        asked = self.changes.change(tx, what)
        if asked is not None:
            self.rows.asked[tx._intent.transaction_id] = asked
            self.commit(tx)

    def _now(self, tx: Transaction) -> Shown:
        return self.rows.at(tx._session._committer.state.revision) or UNTOLD

    # --- Readers ----------------------------------------------------------------------------------

    def look(self, store: Store, state: State) -> None:
        """Hold what a reader got against the truth, some of the rows too."""
        Cast.look(self, store, state)
        if self.world.chance(0.4):
            self._scan(store, state)

    def _scan(self, store: Store, state: State) -> None:
        """Read the rows of a state, and hold them against the truth."""
        shown, slot = self.rows.at(state.revision), self.truth.slots.get(state.revision)
        if shown is None or slot is None or not shown.files:
            return
        if not self.truth.overdue.isdisjoint(slot.live | slot.objects):
            return  # they may be gone, and nobody was told that they stand
        problem = unlike_rows(store, state, TABLE, shown, self.world.ambient())
        hold(not problem, problem)

    def afterwards(self) -> None:
        """As of all logs; and rows of the head and of another retained revision are read."""
        Cast.afterwards(self)
        store = self.world.bare()
        log = LogReader(store, WRITER, DATABASE, self.world.ambient())
        listing = log.names()
        some = self.world.random.randint(listing.oldest_readable(), listing.head)
        for revision in {some, listing.head}:
            self._scan(store, log.load(revision, listing))
