"""The commits between two states of a log, gathered as steps of one table.

Source: docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from ...errors import CorruptObject, MissingTransaction, SnapshotPruned
from ..data.shown import shown
from ..format.objects import decode_transaction
from ..log.replay import apply
from ..log.steps import Steps
from ..log.touched import Marks, View
from .hidden import may_hide, spared_by
from .log_reader import LogReader
from .table_facts import TableFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import pyarrow as pa

    from ...store import Store
    from ..ambient import Ambient
    from ..data.shown import Shown
    from ..format.definitions import Definition
    from ..log.deletes import Tombstone
    from ..log.state import State
    from .cut_tables import CutTables
    from .step_rows import RowStep, Seen

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
        last: What the log says of them; None: files have them so.
        earlier: What it said before, the newest first.
    """

    last: Definition | None
    earlier: Sequence[Definition] = ()

    def shown(self, schema: pa.Schema) -> Shown:
        """What files of a schema are told by. If the table has none of their columns any more, for
        it was dropped, that is what was said last while it had."""
        for definition in (self.last, *self.earlier):
            found = shown(schema, definition)
            if found.stored:
                return found
        return shown(schema, None)


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
    return ToldBy(state.definitions.of(table), earlier[::-1])


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
    """What two states of a log tell of the deletes of a table; statistics are read when they are
    asked for.

    Args:
        states: The earlier and the later one.

    Attributes:
        before, after: The states.
        table: Its name.
    """

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
