"""Processes that change data: they delete rows in each way, upsert, overwrite and rewrite, and
change columns and keys, in a table of tiny Parquet files. Which rows there must be is told by
`shown_rows.py`.

Invariants, beside those of `cast.py` and `truth.py`:
    R1  a transaction does to the rows what its committer asked for, whatever others did since
    R2  a reader sees these rows, and the deletes and columns that stand
    I9  an object of row deletes that a retained revision needs is never deleted
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..catalog.commit.writer import Writer
from ..catalog.read.log_reader import LogReader
from ..catalog.snapshot import Snapshot
from ..errors import NotFoundError, SchemaConflict, UsageError
from .cast import MARGINS, Cast
from .shown_rows import Asked, Column, Hides, RowTruth, Shown, met_in, rows_of
from .simulation import QUIET
from .truth import DATABASE, TABLE, WRITER, hold

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..catalog.commit.transaction import Transaction
    from ..catalog.log.state import State
    from ..store.base import Store

    Met = Callable[[Mapping[str, int | None]], bool | None]

_NAMES = ("v", "w", "x")  # of columns that come and go; `k` stays
_MODES = ("auto", "predicate", "rows", "rows")
_KINDS = (
    ["write"] * 5 + ["delete"] * 6 + ["evolve"] * 3 + ["upsert", "overwrite"] * 2 + ["rewrite"]
)  # fmt: skip
_FIRST = (["write"], ["write", "delete"], ["write", "upsert"], ["write", "evolve", "write"])
# What doesn't fit a table that others have changed meanwhile.
_TOO_LATE = (UsageError, SchemaConflict, NotFoundError)


@dataclass(slots=True)
class Changing(Cast):
    """The processes of one history.

    Attributes:
        rows: What the table shows: the same for all of them.
    """

    rows: RowTruth = field(default_factory=RowTruth)

    def __post_init__(self) -> None:
        self.truth.rows = self.rows = self.truth.rows or self.rows

    def begin(self) -> None:
        """Some rows that each process finds, perhaps deleted ones too, and perhaps of long ago: then
        they can be pruned and collected at once. In half of all histories there are few kinds of
        transactions, so that those of one kind meet."""
        world, random, ambient = self.world, self.world.random, self.world.ambient()
        faults, world.faults = world.faults, QUIET
        kinds = [*dict.fromkeys(_KINDS)]
        few = [*random.sample(kinds, 2), random.choice(kinds)]
        self.rows.kinds = few if random.random() < 0.5 else list(_KINDS)
        writer = Writer(
            world.bare(), WRITER, DATABASE, margins=MARGINS, checkpoint_every=0, ambient=ambient
        )
        for what in random.choice(_FIRST):
            self._transaction(writer, what)
        if random.random() < 0.5:
            writer.checkpoint()
            world.now_us += int(random.choice((0, 1.1, 1.1)) * MARGINS.prune_floor_s * 1e6)
        world.faults = faults
        if random.random() < 0.5:
            for number in range(2):
                world.spawn(f"rival{number}", partial(self.owner, shared=True, rounds=1))

    # --- Transactions -----------------------------------------------------------------------------

    def transaction(self, store: Store, writer: Writer, *, adds: int = 0) -> None:
        """One transaction, of some kind; of at least so many added files."""
        self._transaction(writer, "write" if adds else self.world.random.choice(self.rows.kinds))

    def _transaction(self, writer: Writer, what: str) -> None:
        tx = writer.transaction()
        transaction_id = tx._intent.transaction_id
        self.truth.openings[transaction_id] = writer
        self.rows.asked[transaction_id] = Asked()
        if not self._now(tx).files:
            what = "write"
        try:
            getattr(self, f"_{what}")(tx, self.rows.asked[transaction_id])
        except _TOO_LATE as error:
            self.world.note(f"too late to {what}: {error!r}")
            tx.discard()
            return
        self.commit(tx)

    def _now(self, tx: Transaction) -> Shown:
        """The table as a transaction has last seen it; an empty one if that can't be told."""
        return self.rows.at(tx._session._committer.state.revision) or Shown()

    def _write(self, tx: Transaction, asked: Asked) -> None:
        files = sorted(self._now(tx).files)
        if files and self.world.random.random() < 0.3:
            asked.drops.add(self.world.random.choice(files))
            tx.remove(*asked.drops)
        for _ in range(self.world.random.choice((1, 1, 2))):
            self._append(tx, asked)

    def _append(self, tx: Transaction, asked: Asked) -> None:
        rows = self._some_rows(tx, self.world.random.randint(1, 4))
        self._writes(tx, asked, tx.write(TABLE, _data(rows)), rows)

    def _some_rows(self, tx: Transaction, count: int) -> list[dict[str, int | None]]:
        random = self.world.random
        names = [name for name in self._now(tx).columns if name != "k"]
        values = (*range(8), None)
        return [
            {"k": random.randrange(6), **{name: random.choice(values) for name in names}}
            for _ in range(count)
        ]

    def _writes(
        self, tx: Transaction, asked: Asked, paths: list[str], rows: list[dict[str, int | None]]
    ) -> None:
        """Note what was written, by the columns that the transaction knows of by now."""
        asked.names = self._now(tx).columns
        asked.writes[paths[0]] = rows_of(asked.names, rows)

    def _delete(self, tx: Transaction, asked: Asked) -> None:
        random = self.world.random
        where, met = self._predicate(tx)
        self.world.note(f"deletes where {where}")
        done = tx.delete(TABLE, where, mode=random.choice(_MODES))
        now = self._now(tx)
        asked.predicate = met_in(now.columns, met)
        paths = None if done.tombstones else frozenset(now.files)
        asked.hides.append(Hides(asked.predicate, paths))
        if random.random() < 0.3:
            self._append(tx, asked)

    def _predicate(self, tx: Transaction) -> tuple[str, Met]:
        """Of the columns as they are called now: SQL text, and what it is true of."""
        random = self.world.random
        one, two = (random.choice(sorted(self._now(tx).columns)) for _ in range(2))
        this, that = random.randrange(6), random.randrange(8)
        kinds: list[tuple[str, Met]] = [
            (f"{one} = {this}", lambda row: _is(row[one], lambda a: a == this)),
            (f"{one} <> {this}", lambda row: _is(row[one], lambda a: a != this)),
            (f"{one} > {this}", lambda row: _is(row[one], lambda a: a > this)),
            (f"{one} IS NULL", lambda row: row[one] is None),
            (
                f"{one} < {this} OR {two} = {that}",
                lambda row: (
                    _is(row[one], lambda a: a < this) or _is(row[two], lambda a: a == that)
                ),
            ),
            (
                f"{one} <= {this} AND {two} >= {that}",
                lambda row: (
                    _is(row[one], lambda a: a <= this) and _is(row[two], lambda a: a >= that)
                ),
            ),
        ]
        return random.choice(kinds)

    def _upsert(self, tx: Transaction, asked: Asked) -> None:
        rows = self._some_rows(tx, self.world.random.choice((1, 2)))
        rows = list({row["k"]: row for row in rows}.values())
        done = tx.upsert(TABLE, _data(rows), key=["k"])
        self._writes(tx, asked, list(done.paths), rows)
        if done.replaced is not None:
            keys = {row["k"] for row in rows}
            met = met_in(asked.names, lambda row: row["k"] in keys)
            asked.hides.append(Hides(met, frozenset(self._now(tx).files)))

    def _overwrite(self, tx: Transaction, asked: Asked) -> None:
        where, met = self._predicate(tx)
        rows = self._some_rows(tx, self.world.random.choice((1, 2)))
        done = tx.overwrite(TABLE, _data(rows), where, validate=False)
        self._writes(tx, asked, done.paths, rows)
        asked.hides.append(Hides(met_in(asked.names, met)))

    def _rewrite(self, tx: Transaction, asked: Asked) -> None:
        random = self.world.random
        files = sorted(self._now(tx).files)
        tx.rewrite(TABLE, random.sample(files, random.randint(1, len(files))))
        asked.names = self._now(tx).columns

    def _evolve(self, tx: Transaction, asked: Asked) -> None:
        random, now = self.world.random, self._now(tx)
        columns, free = dict(now.columns), [name for name in _NAMES if name not in now.columns]
        own = [name for name in columns if name != "k"]
        change: dict[str, Any]
        if own and random.random() < 0.5:
            old = random.choice(own)
            if free and random.random() < 0.5:
                change = {"rename": {old: free[0]}}
                columns = {free[0] if name == old else name: c for name, c in columns.items()}
            else:
                del columns[old]
                change = {"drop": [old]}
                if random.random() < 0.5:
                    change |= self._new(columns, old)
        elif free and random.random() < 0.7:
            change = self._new(columns, random.choice(free))
        else:
            change = {"key": [] if now.key else ["k"]}
            asked.key = () if now.key else (columns["k"].number,)
        tx.evolve(TABLE, **change)
        if self._now(tx) is not now:
            raise UsageError("others have changed the table meanwhile")
        asked.columns = columns

    def _new(self, columns: dict[str, Column], name: str) -> dict[str, Any]:
        default = self.world.random.choice((None, None, 3))
        columns[name] = Column(next(self.rows.numbers), default)
        change: dict[str, Any] = {"add": {name: pa.int64()}}
        return change if default is None else change | {"default": {name: default}}

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
        snapshot = Snapshot(store, DATABASE, [state], self.world.ambient())
        found = snapshot.to_arrow(TABLE)
        names = sorted(shown.columns)
        words = f"R2 revision {state.revision} shows"
        hold(sorted(found.column_names) == names, f"{words} {found.column_names}, not {names}")
        rows = Counter(zip(*(found.column(name).to_pylist() for name in names), strict=True))
        hold(rows == shown.rows(), f"{words} {dict(rows)}, not {dict(shown.rows())}")

    def afterwards(self) -> None:
        """As of all logs; and rows of the head and of another retained revision are read."""
        Cast.afterwards(self)
        store = self.world.bare()
        log = LogReader(store, WRITER, DATABASE, self.world.ambient())
        listing = log.names()
        for revision in {listing.head, self.world.random.randint(listing.oldest_readable(), listing.head)}:
            self._scan(store, log.load(revision, listing))


def _is(value: int | None, holds: Callable[[int], bool]) -> bool | None:
    return None if value is None else holds(value)


def _data(rows: list[dict[str, int | None]]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], pa.int64()) for name in rows[0]})
