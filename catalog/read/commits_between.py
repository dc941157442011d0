"""The commits between two states of a log, gathered as steps of one table.

Source: docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from ...errors import CorruptObject, MissingTransaction, SnapshotPruned
from ..data.hidden import Bitmaps
from ..data.scan import hidden_rows
from ..data.shown import shown
from ..format.names import base_folder
from ..format.objects import decode_transaction
from ..format.schema import column_id
from ..log.replay import apply
from ..log.steps import Steps, Told
from ..log.touched import Marks, View
from .file_parts import file_parts
from .hidden import hidden_of, may_hide, spared_by
from .in_place import keyed
from .log_reader import LogReader
from .table_facts import TableFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import pyarrow as pa

    from ...store import Store
    from ..ambient import Ambient
    from ..data.shown import Shown
    from ..format.definitions import Definition
    from ..log.deletes import Holding, Tombstone
    from ..log.state import State
    from .cut_tables import CutTables
    from .scopes import Scopes
    from .step_rows import RowStep, Seen

_AT_ONCE: Final = 256  # transactions in memory


@dataclass(frozen=True, slots=True)
class Between:
    """One log of two cuts, and what was committed between.

    Attributes:
        before, after: Its states.
        steps: The steps of the table.
        columns: By which its rows are told.
        told: What was said between of its files by name, by this log or by others.
    """

    before: State
    after: State
    steps: Steps
    columns: ToldBy
    told: Sequence[Told]

    @property
    def writer(self) -> str:
        """Whose log."""
        return self.after.writer

    def shown(self, fingerprint: bytes) -> Shown:
        """What files of a schema are told by."""
        return self.columns.shown(self.steps.schemas[fingerprint].schema)


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
    scopes: tuple[Scopes, Scopes],
    told_by: CutTables,
    *,
    table: str,
) -> Between:
    """What was committed to a log.

    Args:
        states: Its earlier and its later one.
        scopes: Of the earlier and the later cut.
        told_by: The tables of the cut by whose columns rows are told: the later one, or one after
            it.
    Raises, Requests: As for `steps_between`.
    """
    before, state = states
    known = Known(store, states, scopes, table)
    told = known.told()
    steps = steps_between(store, ambient, known, told)
    others = [entry.definition for entry in steps.definitions]
    return Between(before, state, steps, told_columns(told_by, before, table, others), told)


class ToldBy(NamedTuple):
    """The columns by which rows of one log are told that are of an earlier point in time: those
    that the table has now, whatever they were called then.

    Attributes:
        last: What the log says of them; None: files have them so.
        before: Of a table that the log has forgotten since, what it said before that.
    """

    last: Definition | None
    before: Definition | None = None

    def shown(self, schema: pa.Schema) -> Shown:
        """What files of a schema are told by."""
        last = self.last
        if last is None or last.schema.names or max(map(column_id, schema)) > last.last_id:
            return shown(schema, last)
        return shown(schema, self.before)


def told_columns(
    told: CutTables, before: State, table: str, others: Sequence[Definition] = ()
) -> ToldBy:
    """The columns by which rows of a log are told.

    Args:
        told: The tables of the cut that has these columns.
        before: The log's state at the earlier point.
        others: What commits since said of the columns.
    """
    (state,) = (each for each in told.states if each.writer == before.writer)
    earlier = [each for each in (before.definitions.of(table), *others) if each is not None]
    kept = next((each for each in reversed(earlier) if each.schema.names), None)
    return ToldBy(state.definitions.of(table), kept)


def steps_between(store: Store, ambient: Ambient, known: Known, told: Sequence[Told]) -> Steps:
    """The steps of one log between two of its states.

    Args:
        known: What the states tell.
        told: What begins to hold between.
    Raises:
        SnapshotPruned, MissingTransaction: A commit is not there.
        CorruptObject: The commits don't lead from one to the other.
    Requests: 1 LIST; 1 GET a transaction. Where there are tombstones, those of their columns'
        statistics in both states.
    """
    before, after = known.before, known.after
    steps = Steps(before, known.table, known.marks)
    by_place: dict[int, list[Told]] = {}
    for each in told:
        by_place.setdefault(each.after, []).append(each)

    def tell(revision: int) -> None:
        for each in by_place.get(revision, ()):
            steps.tell(each)

    tell(before.revision)
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
            tell(revision)
    if probe.digest != after.digest:
        raise CorruptObject(
            f"The commits of {after.writer}/{after.database} don't lead from revision "
            f"{before.revision} to {after.revision} as it was read",
            key=listing.folder,
            hint="`lakelog doctor` tells more",
        )
    return steps


class Known:
    """What two states of a log tell of the deletes of a table; statistics are read when they are
    asked for.

    Args:
        states: The earlier and the later one.
        scopes: Of their cuts.

    Attributes:
        before, after: The states.
        table: Its name.
    """

    def __init__(
        self,
        store: Store,
        states: tuple[State, State],
        scopes: tuple[Scopes, Scopes],
        table: str,
    ) -> None:
        self.before, self.after = states
        self.table = table
        self._store = store
        self._scopes = scopes
        self._holding = scopes[0].of(self.before, table)
        self._met: dict[Holding, Collection[str]] = {}
        self._spared: dict[Tombstone, Collection[str]] = {}
        self._bitmaps = Bitmaps(store)

    @property
    def marks(self) -> Marks:
        """The same, as the resolver takes it."""
        standing = [each for each in self._named() if not self._is_new(each)]
        return Marks(self._views(), self._met_by, self._spared_by, standing, self._hides)

    def told(self) -> list[Told]:
        """The tombstones that name the log and were told between the two cuts, each with its place
        among the commits: its own log's where that told it; of others the last of which it holds,
        for they have no order among each other but that they have seen it. At one place that of
        its own log, which others have seen, comes first, and these by time."""
        found = []
        for holding in filter(self._is_new, self._named()):
            revision = holding.tombstone.revision
            at = min(max(holding.below - 1, self.before.revision), self.after.revision)
            own = holding.teller == self.after.writer
            found.append(Told(holding, revision, revision if own else at))
        if len({each.holding.teller for each in found}) > 1:
            times = self._times(found)
            found.sort(
                key=lambda each: (
                    each.holding.teller != self.after.writer,
                    times.get((each.holding.teller, each.revision), 0),
                    each.holding.teller,
                )
            )
        return found

    def _times(self, told: Sequence[Told]) -> dict[tuple[str, int], int]:
        """By writer and revision when commits were that told something, µs; those of others, too.

        Requests: 1 GET for each piece of the history of their logs that these are in.
        """
        first: dict[str, int] = {}
        for each in told:
            teller = each.holding.teller
            first[teller] = min(each.revision, first.get(teller, each.revision))
        return {
            (state.writer, row["revision"]): row["committed_at"]
            for state in self._scopes[1].states
            if state.writer in first
            for row in state.history.after(first[state.writer] - 1)
        }

    def _named(self) -> list[Holding]:
        """Those of the later cut that name the log."""
        return [each for each in self._scopes[1].of(self.after, self.table) if each.tombstone.logs]

    def _is_new(self, holding: Holding) -> bool:
        """Whether the earlier cut doesn't have it."""
        known = {state.writer: state.revision for state in self._scopes[0].states}
        return holding.tombstone.revision > known.get(holding.teller, -1)

    @cached_property
    def _facts(self) -> tuple[TableFacts, TableFacts]:
        first, last = (
            TableFacts(state, self.table, state.table_of(self.table), as_stored=True)
            for state in (self.before, self.after)
        )
        return first, last

    def _views(self) -> dict[str, View]:
        """By path what hid rows of files at first."""
        met = may_hide(self._holding, self._facts[0]) if self._holding else {}
        found = {path: View(tuple(tombstones)) for path, tombstones in met.items()}
        for path, rows in self.before.deletes.rows_of(self.table).items():
            found[path] = found.get(path, View())._replace(rows=tuple(rows))
        return found

    def _met_by(self, holding: Holding) -> Collection[str]:
        if holding not in self._met:
            self._met[holding] = may_hide([holding], self._facts[0])
        return self._met[holding]

    def _spared_by(self, tombstone: Tombstone) -> Collection[str]:
        if tombstone not in self._spared:
            self._spared[tombstone] = spared_by(tombstone, self._facts[1])
        return self._spared[tombstone]

    def _hides(self, file: pa.Table, schema: pa.Schema, view: View) -> int:
        folder = base_folder(self.after.writer, self.after.database)
        parts = file_parts(file, folder, lambda _: shown(schema, None), {}, {})
        (part,) = keyed(parts, folder, self.after)
        found = replace(part, hidden=hidden_of(view, folder))
        return len(hidden_rows(self._store, found, self._bitmaps))


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
