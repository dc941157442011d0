"""What one transaction changes of a table, drawn at random, with a note of what was asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..catalog.format.definitions import name_of
from ..catalog.snapshot import Snapshot
from ..errors import NotFoundError, SchemaConflict, UsageError
from .same_columns import Column
from .shown_rows import Asked, Hides, met_in, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..catalog.ambient import Ambient
    from ..catalog.commit.deleting import Mode
    from ..catalog.commit.transaction import Transaction
    from ..catalog.log.state import State
    from ..store.base import Store
    from .shown_rows import Shown
    from .simulation import World

    Met = Callable[[Mapping[str, int | None]], bool | None]

_NAMES = ("v", "w", "x")  # of columns that come and go; `k` stays
_MODES: tuple[Mode, ...] = ("auto", "predicate", "rows", "rows")
_KINDS = (
    ["write"] * 5 + ["delete"] * 6 + ["evolve"] * 3 + ["upsert", "overwrite"] * 2 + ["rewrite"]
)  # fmt: skip
# What doesn't fit a table that others have changed meanwhile.
_TOO_LATE = (UsageError, SchemaConflict, NotFoundError)


@dataclass(slots=True)
class Changes:
    """Changes of one table in one history.

    Attributes:
        table: Its name.
        now: The table as a transaction has last seen it; an empty one if that can't be told.
        kinds: Of transactions, each as often as it is wanted: in half of all histories few, so that
            those of one kind meet.
        numbers: Of columns to come.
    """

    world: World
    table: str
    now: Callable[[Transaction], Shown]
    kinds: list[str]
    numbers: Iterator[int]

    def choose_kinds(self) -> None:
        """Few or all."""
        draw = self.world.random
        kinds = [*dict.fromkeys(_KINDS)]
        few = [*draw.sample(kinds, 2), draw.choice(kinds)]
        self.kinds[:] = few if draw.random() < 0.5 else _KINDS

    def change(self, tx: Transaction, what: str = "") -> Asked | None:
        """Change something, of some kind if none is given: what was asked for; None if it came too
        late, and the transaction is over."""
        what = what or self.world.random.choice(self.kinds)
        if not self.now(tx).files:
            what = "write"
        asked = Asked()
        try:
            getattr(self, what)(tx, asked)
        except _TOO_LATE as error:
            self.world.note(f"too late to {what}: {error!r}")
            tx.discard()
            return None
        return asked

    def write(self, tx: Transaction, asked: Asked) -> None:
        """Add files, perhaps in the place of one."""
        files = sorted(self.now(tx).files)
        if files and self.world.random.random() < 0.3:
            asked.drops.add(self.world.random.choice(files))
            tx.remove(*asked.drops)
        for _ in range(self.world.random.choice((1, 1, 2))):
            self._append(tx, asked)

    def _append(self, tx: Transaction, asked: Asked) -> None:
        rows = self._some_rows(tx, self.world.random.randint(1, 4))
        self._writes(tx, asked, tx.write(self.table, _data(rows)), rows)

    def _some_rows(self, tx: Transaction, count: int) -> list[dict[str, int | None]]:
        random = self.world.random
        names = [name for name in self.now(tx).columns if name != "k"]
        values = (*range(8), None)
        return [
            {"k": random.randrange(6), **{name: random.choice(values) for name in names}}
            for _ in range(count)
        ]

    def _writes(
        self, tx: Transaction, asked: Asked, paths: list[str], rows: list[dict[str, int | None]]
    ) -> None:
        """Note what was written, by the columns that the transaction knows of by now. If it has
        columns that are none any more, it can't be committed; or they would be new ones, and it is
        given up: where the table went back, or where no file ever had a column that was dropped
        before the transaction looked at any."""
        now = self.now(tx)
        asked.names = now.columns
        if now.went_back and asked.names.keys() != rows[0].keys():
            raise UsageError("the table went back meanwhile")
        goes_by = name_of(now.definition) if now.definition else b""
        is_new = tx._intent.columns_of[self.table] == goes_by
        if is_new and not asked.names.keys() >= rows[0].keys():
            raise UsageError("columns were dropped that no file had: they would be new ones")
        if asked.names.keys() >= rows[0].keys():
            asked.writes[paths[0]] = rows_of(asked.names, rows)

    def delete(self, tx: Transaction, asked: Asked) -> None:
        """Delete rows by a predicate; perhaps add others."""
        random = self.world.random
        where, met = self._predicate(tx)
        self.world.note(f"deletes where {where}")
        mode = random.choice(_MODES)
        done = tx.delete(self.table, where, mode=mode)
        now = self.now(tx)
        of_all = done.tombstones or mode == "predicate"  # it is in conflict with such rows else
        paths = None if of_all else frozenset(now.files)
        asked.predicate = met_in(now.columns, met)
        asked.hides.append(Hides(asked.predicate, paths))
        if random.random() < 0.3:
            self._append(tx, asked)

    def _predicate(self, tx: Transaction) -> tuple[str, Met]:
        """Of the columns as they are called now: SQL text, and what it is true of."""
        random = self.world.random
        one, two = (random.choice(sorted(self.now(tx).columns)) for _ in range(2))
        this, that = random.randrange(6), random.randrange(8)
        kinds: list[tuple[str, Met]] = [
            (f"{one} = {this}", lambda row: _is(row[one], lambda a: a == this)),
            (f"{one} <> {this}", lambda row: _is(row[one], lambda a: a != this)),
            (f"{one} > {this}", lambda row: _is(row[one], lambda a: a > this)),
            (f"{one} IS NULL", lambda row: row[one] is None),
            (
                f"{one} < {this} OR {two} = {that}",
                lambda row: _is(row[one], lambda a: a < this) or _is(row[two], lambda a: a == that),
            ),
            (
                f"{one} <= {this} AND {two} >= {that}",
                lambda row: (
                    _is(row[one], lambda a: a <= this) and _is(row[two], lambda a: a >= that)
                ),
            ),
        ]
        return random.choice(kinds)

    def upsert(self, tx: Transaction, asked: Asked) -> None:
        """Write rows in the place of those with the same key."""
        rows = self._some_rows(tx, self.world.random.choice((1, 2)))
        rows = list({row["k"]: row for row in rows}.values())
        done = tx.upsert(self.table, _data(rows), key=["k"])
        self._writes(tx, asked, list(done.paths), rows)
        if done.replaced is not None:
            keys = {row["k"] for row in rows}
            met = met_in(asked.names, lambda row: row["k"] in keys)
            asked.hides.append(Hides(met, frozenset(self.now(tx).files)))

    def overwrite(self, tx: Transaction, asked: Asked) -> None:
        """Write rows in the place of those that meet a predicate."""
        where, met = self._predicate(tx)
        rows = self._some_rows(tx, self.world.random.choice((1, 2)))
        done = tx.overwrite(self.table, _data(rows), where, validate=False)
        self._writes(tx, asked, done.paths, rows)
        asked.hides.append(Hides(met_in(asked.names, met)))

    def rewrite(self, tx: Transaction, asked: Asked) -> None:
        """Write some files anew."""
        random = self.world.random
        files = sorted(self.now(tx).files)
        tx.rewrite(self.table, random.sample(files, random.randint(1, len(files))))
        asked.names = self.now(tx).columns

    def evolve(self, tx: Transaction, asked: Asked) -> None:
        """Change the columns or the key."""
        random, now = self.world.random, self.now(tx)
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
        tx.evolve(self.table, **change)
        if self.now(tx) is not now:
            raise UsageError("others have changed the table meanwhile")
        asked.columns, asked.knew = columns, now.columns

    def _new(self, columns: dict[str, Column], name: str) -> dict[str, Any]:
        default = self.world.random.choice((None, None, 3))
        columns[name] = Column(next(self.numbers), default)
        change: dict[str, Any] = {"add": {name: pa.int64()}}
        return change if default is None else change | {"default": {name: default}}


def _is(value: int | None, holds: Callable[[int], bool]) -> bool | None:
    return None if value is None else holds(value)


def _data(rows: list[dict[str, int | None]]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], pa.int64()) for name in rows[0]})


def unlike_rows(store: Store, state: State, table: str, shown: Shown, ambient: Ambient) -> str:
    """How the rows that are read of a state differ from those that there must be; empty if they
    don't."""
    found = Snapshot(store, state.database, [state], ambient).to_arrow(table)
    names, words = sorted(shown.columns), f"R2 revision {state.revision} shows"
    if sorted(found.column_names) != names:
        return f"{words} {found.column_names}, not {names}"
    rows = Counter(zip(*(found.column(name).to_pylist() for name in names), strict=True))
    wanted = shown.rows()
    return "" if rows == wanted else f"{words} {dict(rows - wanted)}, not {dict(wanted - rows)}"
