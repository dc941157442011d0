"""The commits between two states of a log, gathered as steps of one table.

Source: docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject, MissingTransaction, SnapshotPruned, UsageError
from ..data.hidden import Bitmaps, Hidden
from ..data.scan import hidden_rows, scan_each
from ..data.unify import shown
from ..format.columns import column
from ..format.deletes import MAX_ROWS, encode_bitmap
from ..format.objects import decode_transaction
from ..format.schema import column_id
from ..log.changelog import DELETE, INSERT, Marks, Steps, View
from ..log.replay import apply
from .hidden import may_hide, spared_by
from .log_reader import LogReader
from .table_facts import TableFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ...store import Store
    from ..ambient import Ambient
    from ..data.file_part import FilePart
    from ..data.scan import Projection
    from ..data.unify import Shown
    from ..format.definitions import Definition
    from ..log.deletes import Tombstone
    from ..log.state import State
    from .cut_tables import CutTables


# --- Rows of one step -----------------------------------------------------------------------------

ABOUT: Final = pa.schema(
    [
        pa.field("_change", pa.string(), nullable=False),
        pa.field("_writer", pa.string(), nullable=False),
        pa.field("_revision", pa.int64()),
        pa.field("_committed_at", pa.timestamp("us", "UTC")),
    ]
)


class Seen(NamedTuple):
    """What can be seen of a file at one point: whether it is live, and what hides rows of it."""

    is_live: bool
    hidden: Hidden | None = None


class Stamp(NamedTuple):
    """Who changed rows, and when; None: no commit that could be named."""

    writer: str
    revision: int | None
    committed_at_us: int | None


class RowStep(NamedTuple):
    """Rows of a file that came or went.

    Attributes:
        writer: In whose log it is.
        file: Tells it from others.
        part: What reading it takes, whatever hides rows of it.
        sign: INSERT or DELETE.
        before, after: What could be seen of it.
        stamp: By what commit.
        place: Which of several steps of the file this is; None: it is the only one that counts.
    """

    writer: str
    file: object
    part: FilePart
    sign: int
    before: Seen
    after: Seen
    stamp: Stamp
    place: int | None = None


def step_batches(
    store: Store,
    steps: Iterable[RowStep],
    together: Callable[[object], Sequence[tuple[Seen, Seen]]],
    projection: Projection,
    *,
    about: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The rows of steps, in the order of the steps.

    Args:
        store: A `WideStore`.
        together: Of a file with several steps all of them, in order: rows that came and went again
            are left out.
        about: Put the columns of `ABOUT` before theirs.
    Raises:
        ObjectNotFound, CorruptObject, SchemaConflict: As for `scan_each`.
        UsageError: A file has more rows than can be numbered.
    """
    rows = _StepRows(store, together)
    given: list[RowStep] = []

    def parts() -> Iterator[FilePart]:
        for step in steps:
            part = rows.part_of(step)
            if part is not None:
                given.append(step)
                yield part

    schema = pa.schema([*ABOUT, *projection.given])
    for number, batch in scan_each(store, parts(), projection):
        if not about:
            yield batch
            continue
        step = given[number]
        change = "delete" if step.sign == DELETE else "insert"
        values = zip((change, *step.stamp), ABOUT, strict=True)
        arrays = [pa.repeat(column([v], f.type)[0], batch.num_rows) for v, f in values]
        yield pa.RecordBatch.from_arrays([*arrays, *batch.columns], schema=schema)


class _StepRows:
    """Finds the rows of steps; of files with several steps all at once, and keeps them, a few bytes
    a row that came or went."""

    def __init__(
        self, store: Store, together: Callable[[object], Sequence[tuple[Seen, Seen]]]
    ) -> None:
        self._store = store
        self._together = together
        self._bitmaps = Bitmaps(store)
        self._known: dict[object, list[dict[int, Hidden | None]]] = {}

    def part_of(self, step: RowStep) -> FilePart | None:
        """The file with all rows hidden but those of a step; None: there are none."""
        if step.place is None and not (step.before.is_live and step.after.is_live):
            seen = step.before if step.before.is_live else step.after
            return replace(step.part, hidden=seen.hidden)
        if step.place is None:
            (found,) = self._resolved(step.part, [(step.before, step.after)])
        else:
            if step.file not in self._known:
                self._known[step.file] = self._resolved(step.part, self._together(step.file))
            found = self._known[step.file][step.place]
        hidden = found[step.sign]
        return None if hidden is None else replace(step.part, hidden=hidden)

    def _resolved(
        self, part: FilePart, steps: Sequence[tuple[Seen, Seen]]
    ) -> list[dict[int, Hidden | None]]:
        """Per step and sign what hides all rows but its own; None: it has none. Of the steps of a
        row the last ones are left, of the sign that is left over."""
        if part.row_count > MAX_ROWS:
            raise UsageError(
                f"{part.key} has {part.row_count} rows, more than can be told one by one",
                key=part.key,
                hint="Compare both points in time by reading them",
            )
        seen: dict[Seen, np.ndarray] = {}
        left = np.zeros(part.row_count, np.int16)
        for pair in steps:
            for each in pair:
                if each not in seen:
                    seen[each] = self._visible(part, each)
            left += _signs(seen, pair)
        found: list[dict[int, Hidden | None]] = []
        for pair in reversed(steps):
            sign = _signs(seen, pair)
            met = (sign != 0) & (np.sign(left) == sign)
            left -= np.where(met, sign, 0).astype(np.int16)
            found.append({one: _only(met & (sign == one)) for one in (DELETE, INSERT)})
        found.reverse()
        return found

    def _visible(self, part: FilePart, seen: Seen) -> np.ndarray:
        rows = np.full(part.row_count, seen.is_live)
        if seen.hidden is not None:
            rows[hidden_rows(self._store, replace(part, hidden=seen.hidden), self._bitmaps)] = False
        return rows


def _signs(seen: Mapping[Seen, np.ndarray], pair: tuple[Seen, Seen]) -> np.ndarray:
    """Per row whether it went (-1) or came (1)."""
    before, after = (seen[each].astype(np.int8) for each in pair)
    found: np.ndarray = after - before
    return found


def _only(rows: np.ndarray) -> Hidden | None:
    """What hides all rows but these; None if there are none."""
    if not rows.any():
        return None
    others = np.flatnonzero(~rows)
    if not len(others):
        return Hidden()
    return Hidden(superseded=encode_bitmap(others), superseded_rows=len(others))


# --- Commits between two cuts ---------------------------------------------------------------------

_AT_ONCE: Final = 256  # transactions in memory


@dataclass(frozen=True, slots=True)
class Between:
    """One log of two cuts, and what was committed between.

    Attributes:
        before, after: Its states.
        steps: The steps of the table.
        columns: By which its rows are told.
    """

    before: State
    after: State
    steps: Steps
    columns: ToldBy

    @property
    def writer(self) -> str:
        """Whose log."""
        return self.after.writer

    def shown(self, fingerprint: bytes) -> Shown:
        """What files of a schema are told by."""
        return self.columns.shown(self.steps.schemas[fingerprint].schema, fingerprint)


class Found(NamedTuple):
    """The steps of a table between two cuts.

    Attributes:
        steps: In the order in which they are told.
        together: Of a file with several steps what could be seen of it before and after each.
        fingerprints: By writer the schemas of the files.
    """

    steps: Iterable[RowStep]
    together: Callable[[object], Sequence[tuple[Seen, Seen]]]
    fingerprints: Mapping[str, Collection[bytes]]


def between(
    store: Store,
    ambient: Ambient,
    states: tuple[State, State],
    told_by: CutTables,
    *,
    table: str,
) -> Between:
    """What was committed to a log.

    Args:
        states: Its earlier and its later one.
        told_by: The tables of the cut by whose columns rows are told: the later one, or one after
            it.
    Raises, Requests: As for `steps_between`.
    """
    before, state = states
    steps = steps_between(store, ambient, Known(states, table))
    others = [entry.definition for entry in steps.definitions]
    return Between(before, state, steps, told_columns(told_by, before, table, others))


class ToldBy(NamedTuple):
    """The columns by which rows of one log are told that are of an earlier point in time: those
    that the table has now, whatever they were called then.

    Attributes:
        tables: Of the cut that has these columns.
        state: Of the log, in this cut.
        table: Its name.
        earlier: What the log said of the columns before, the newest first.
    """

    tables: CutTables
    state: State
    table: str
    earlier: Sequence[Definition]

    def shown(self, schema: pa.Schema, fingerprint: bytes) -> Shown:
        """What files of a schema are told by. If the table has none of their columns any more, for
        it was dropped or went back to others, that is what was said last while it had."""
        last = self.state.definitions.of(self.table)
        now = shown(schema, last)
        if now.stored:
            return now
        known = self.tables.schemas_of(self.state, self.table)
        is_dropped = all(entry.fingerprint != fingerprint for entry in known)
        newest = max((column_id(each) for each in schema), default=0)
        its_last: Definition | None = None
        for definition in self.earlier:
            if not is_dropped and (last is None or not _goes_back(definition, last)):
                continue
            found = shown(schema, definition)
            if found.stored:
                return found
            if not len(definition.schema) and definition.last_id >= newest:
                its_last = None  # what was said since the table was dropped is of another one
            elif its_last is None:
                its_last = definition
        return shown(schema, its_last) if is_dropped else now


def _goes_back(before: Definition, after: Definition) -> bool:
    """Whether a definition has columns again that another one had dropped."""
    ids = set(after.ids().values()).difference(before.ids().values())
    return any(number <= before.last_id for number in ids)


def told_columns(
    told: CutTables, before: State, table: str, others: Sequence[Definition] = ()
) -> ToldBy:
    """Returns the columns that `changes` gives to rows of a log.

    Args:
        before: The log's state at the earlier point.
        others: What commits since said of the columns.
    """
    (state,) = (each for each in told.states if each.writer == before.writer)
    earlier = [each for each in (before.definitions.of(table), *others) if each is not None]
    return ToldBy(told, state, table, earlier[::-1])


def steps_between(store: Store, ambient: Ambient, known: Known) -> Steps:
    """The steps of one log between two of its states.

    Args:
        known: What the states tell.
    Raises:
        SnapshotPruned, MissingTransaction: A commit is not there.
        CorruptObject: The commits don't lead from one to the other.
    Requests: 1 LIST; 1 GET a transaction. Where there are tombstones, those of their columns'
        statistics in both states.
    """
    before, after = known.before, known.after
    steps = Steps(before, known.table, known.marks)
    if before.revision == after.revision:
        return steps
    assert after.log is not None
    log = LogReader(store, after.writer, after.database, ambient)
    listing = log.names(after.log.incarnation)
    wanted = range(before.revision + 1, after.revision + 1)
    missing = next((r for r in wanted if r not in listing.transactions), None)
    if missing is not None:
        raise _lost(after, missing, listing.first_readable())
    probe = before.copy()
    probe.start_from(before.base, list(before.tail))
    for low in range(wanted.start, wanted.stop, _AT_ONCE):
        revisions = range(low, min(low + _AT_ONCE, wanted.stop))
        keys = [listing.key(listing.transactions[r][0]) for r in revisions]
        for revision, key, body in zip(revisions, keys, store.get_many(keys), strict=True):
            if body is None:
                raise _lost(after, revision, listing.first_readable())
            transaction = decode_transaction(body, key)
            apply(probe, transaction)
            probe.tail.clear()
            steps.take(transaction)
    if probe.digest != after.digest:
        raise CorruptObject(
            f"The commits of {after.writer}/{after.database} don't lead from revision "
            f"{before.revision} to {after.revision} as it was read",
            key=listing.folder,
            hint="`lakelog check` tells more",
        )
    return steps


class Known:
    """What two states of a log tell of the deletes of a table; statistics are read when needed."""

    def __init__(self, states: tuple[State, State], table: str) -> None:
        self.before, self.after = states
        self.table = table
        self._met: dict[Tombstone, Collection[str]] = {}
        self._spared: dict[Tombstone, Collection[str]] = {}

    @property
    def marks(self) -> Marks:
        """The same, as the resolver takes it."""
        return Marks(self._views(), self._met_by, self._spared_by)

    @cached_property
    def _facts(self) -> tuple[TableFacts, TableFacts]:
        first, last = (
            TableFacts(state, self.table, state.table_of(self.table), as_stored=True)
            for state in (self.before, self.after)
        )
        return first, last

    def _views(self) -> dict[str, View]:
        """By path what hid rows of files at first."""
        tombstones = self.before.deletes.of_table(self.table)
        met = may_hide(tombstones, self._facts[0]) if tombstones else {}
        found = {path: View(tuple(some)) for path, some in met.items()}
        for path, rows in self.before.deletes.rows_of(self.table).items():
            found[path] = found.get(path, View())._replace(rows=tuple(rows))
        return found

    def _met_by(self, tombstone: Tombstone) -> Collection[str]:
        if tombstone not in self._met:
            self._met[tombstone] = may_hide([tombstone], self._facts[0])
        return self._met[tombstone]

    def _spared_by(self, tombstone: Tombstone) -> Collection[str]:
        if tombstone not in self._spared:
            self._spared[tombstone] = spared_by(tombstone, self._facts[1])
        return self._spared[tombstone]


def _lost(after: State, revision: int, oldest: int) -> SnapshotPruned | MissingTransaction:
    where = f"{after.writer}/{after.database}"
    if revision < oldest:
        return SnapshotPruned(
            f"What revision {revision} of {where} changed can't be told: it was pruned",
            key=where,
            hint=f"Ask for changes since revision {oldest} or later, or compare the files with "
            "`lakelog diff`",
        )
    return MissingTransaction(
        f"What revision {revision} of {where} changed can't be told: it is missing",
        key=where,
        hint="Restore the object from a copy, or compare the files with `lakelog diff`",
    )
