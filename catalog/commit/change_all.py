"""Rows of a table deleted or updated in the logs of all writers: a guest's commit in each log that
holds such rows. Each commit is whole: what becomes of a log's rows stands in that log.

Source: docs/changing.md, "All writers".
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from ...errors import (
    ColumnsChanged,
    CommitOutcomeUnknown,
    EpochChanged,
    FileNotLive,
    LakelogError,
    OperationConflict,
    TableNotFound,
    UsageError,
    it_has,
    some_names,
)
from ..data.evolution import evolved
from ..format.definitions import decode_definition
from ..format.schema import with_column_id
from ..log.column_ids import ids_in
from ..read.cut_tables import CutTables
from ..read.delete_plan import matching_rows, plan_delete, visible_rows
from .columns import visible_columns
from .deleting import MOST_TOMBSTONES, Mode
from .updating import plan_update

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ...store import Store
    from ..data.evolution import Change
    from ..format.definitions import Definition
    from ..log.state import State
    from .transaction import Transaction
    from .writer import Writer


TRIES: Final = 5
# What another commit's coming first causes: nothing was committed, and it can be tried again.
OVERTAKEN: Final = (OperationConflict, FileNotLive, ColumnsChanged, EpochChanged)


@dataclass(frozen=True, slots=True)
class LogChange:
    """What becomes of a table's rows in one writer's log.

    Attributes:
        writer: Whose.
        rows: How many are deleted or updated; None: they were not counted.
        files_removed: Files that go as a whole.
        files_touched: Files that keep some rows while others go.
        tombstones: How many predicates the log keeps.
        revision: Of the commit; None: it isn't committed.
    """

    writer: str
    rows: int | None
    files_removed: int
    files_touched: int
    tombstones: int = 0
    revision: int | None = None


class LogsNow(NamedTuple):
    """The newest states of the logs, however often they are asked for.

    Attributes:
        states: Reads them.
        opened: Opens the log of a writer as a guest.
        writers: The only ones whose logs are changed; None: all.
    """

    states: Callable[[], Sequence[State]]
    opened: Callable[[str], Writer]
    writers: Collection[str] | None = None


def delete_all(
    logs: LogsNow,
    table: str,
    where: str,
    mode: Mode,
    *,
    execute: bool,
    counted: Store | None,
) -> list[LogChange]:
    """Deletes rows: see `Catalog.delete`. Counts them in the store `counted`, if it is given."""
    states = logs.states()
    planned = [
        _delete_of(state, states, table, where, mode, counted=counted)
        for state in _changed(logs, states, table)
    ]

    def done(tx: Transaction, others: Sequence[State]) -> LogChange:
        found = tx._delete(table, where, mode, others)
        return LogChange(
            tx._session.writer_id, found.rows, found.files_removed, found.files_touched,
            found.tombstones,
        )  # fmt: skip

    return _executed(logs, states, planned, done) if execute else _some(planned)


def update_all(
    logs: LogsNow, table: str, values: Mapping[str, Any], where: Any, *, execute: bool
) -> list[LogChange]:
    """See `Catalog.update`."""
    states = logs.states()
    planned = []
    for state in _changed(logs, states, table):
        plan = plan_update(state, _others(states, state.writer), table, values, where)
        planned.append(LogChange(state.writer, None, 0, plan.paths.num_rows))

    def done(tx: Transaction, others: Sequence[State]) -> LogChange:
        found = tx._update(table, values, where, others)
        return LogChange(
            tx._session.writer_id, found.rows, found.files_removed, found.files_touched
        )

    return _executed(logs, states, planned, done) if execute else _some(planned)


def _delete_of(
    state: State, states: Sequence[State], table: str, where: str, mode: Mode, *,
    counted: Store | None,
) -> LogChange:  # fmt: skip
    plan = plan_delete(state, table, where, others=_others(states, state.writer))
    if any(found.key for s in states if (found := s.definitions.of(table)) is not None):
        plan = plan.without_whole()  # older rows would be read again
    by_rows = mode == "rows" or plan.tombstone is None
    by_rows = by_rows or (mode == "auto" and plan.live >= MOST_TOMBSTONES)
    tombstones = int(bool(plan.touched) and not by_rows)
    rows = None
    if counted is not None:
        rows = visible_rows(counted, [plan.parts[path] for path in plan.whole])
        touched = [plan.parts[path] for path in plan.touched]
        rows += sum(len(each) for each in matching_rows(counted, touched, plan.wanted))
    return LogChange(state.writer, rows, len(plan.whole), len(plan.touched), tombstones)


def _changed(logs: LogsNow, states: Sequence[State], table: str) -> list[State]:
    """Returns the logs that may be changed. Raises `TableNotFound` or `WriterNotFound`."""
    tables = CutTables(states[0].database, states)
    tables.check(table)
    if logs.writers is None:
        return list(states)
    return [state for name in logs.writers for state in tables.of_writer(name)]


def _others(states: Sequence[State], writer: str) -> list[State]:
    return [state for state in states if state.writer != writer]


def _some(planned: Sequence[LogChange]) -> list[LogChange]:
    return [one for one in planned if one.files_removed or one.files_touched]


def _executed(
    logs: LogsNow,
    states: Sequence[State],
    planned: Sequence[LogChange],
    change: Callable[[Transaction, Sequence[State]], LogChange],
) -> list[LogChange]:
    """Commits to each log that may hold such rows, one after the other. The error of the first
    commit that fails names the logs that are done, and the others."""
    done: list[LogChange] = []
    names = [one.writer for one in _some(planned)]
    for writer in names:
        try:
            found = _committed(logs, states, writer, change)
        except LakelogError as error:
            tell_committed(error, writer, {d.writer: d.revision for d in done}, names)
            raise
        if found.revision is not None:
            done.append(found)
    return done


def _committed(
    logs: LogsNow,
    states: Sequence[State],
    writer: str,
    change: Callable[[Transaction, Sequence[State]], LogChange],
) -> LogChange:
    """Commit to one log; again where another commit came first, a few times."""
    for left in reversed(range(TRIES)):
        with logs.opened(writer) as opened:
            tx = opened.transaction()
            try:
                found = change(tx, _others(states, writer))
                info = tx.commit()
            except OVERTAKEN:
                tx.discard()
                if not left:
                    raise
            except BaseException:
                tx.discard()
                raise
            else:
                return replace(found, revision=None if info is None else info.revision)
        states = logs.states()
    raise AssertionError("the last try returns or raises")


def tell_committed(
    error: LakelogError, writer: str, done: Mapping[str, int | None], names: Sequence[str]
) -> None:
    """Tell in the error of one log's commit what became of the others.

    Args:
        done: By writer the revisions that were committed before.
        names: Of all writers whose logs were to be changed.
    """
    committed = ", ".join(f"{name!r} (revision {at})" for name, at in done.items())
    rest = [name for name in names if name not in done]
    known = [name for name in rest if name != writer or not isinstance(error, CommitOutcomeUnknown)]
    said = f"Committed in the logs of: {committed or 'none'}; not in those of: {some_names(known)}"
    said += "" if known == rest else f"; unknown of: {writer}"
    if len(names) > 1:
        said += f". Repeat the call for the rest: writers={rest!r}"
    error.hint = f"{error.hint}. {said}" if error.hint else said
    error.message = f"The log of {writer!r}: {error.message}"


# --- Columns of a table in all logs ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Evolved:
    """What becomes of a table's columns in one writer's log.

    Attributes:
        writer: Whose.
        before, after: The columns that its files show.
        key: The columns of the table's key after it, in this log.
        changes: Whether anything is to be changed in this log.
        revision: That says so; None: it isn't committed.
    """

    writer: str
    before: pa.Schema
    after: pa.Schema
    key: tuple[str, ...]
    changes: bool
    revision: int | None = None


def evolve_all(
    tables: CutTables,
    opened: Callable[[str], Writer],
    table: str,
    change: Change,
    writers: Sequence[str] | None,
    *,
    execute: bool,
) -> list[Evolved]:
    """See `Catalog.evolve`.

    Args:
        tables: Of the newest cut.
        opened: Opens the log of a writer as a guest.
    """
    states = _states(tables, table, writers)
    _refuse_missing(states, table, change)
    planned = [_planned(state, table, change) for state in states]
    done: dict[str, int] = {}
    if execute:
        with ExitStack() as stack:
            begun: dict[str, Transaction] = {}
            for name in (item.writer for item in planned if item.changes):
                writer = stack.enter_context(opened(name))
                begun[name] = writer.transaction(operation="maintenance")
                stack.callback(begun[name].discard)
                begun[name]._evolve(table, change, rest=True)
            _commit(begun, done)
    return [replace(item, revision=done.get(item.writer)) for item in planned]


def _commit(begun: dict[str, Transaction], done: dict[str, int]) -> None:
    for name, transaction in begun.items():
        try:
            info = transaction.commit()
        except LakelogError as error:
            tell_committed(error, name, done, list(begun))
            raise
        assert info is not None
        done[name] = info.revision


def _states(tables: CutTables, table: str, writers: Sequence[str] | None) -> list[State]:
    if isinstance(writers, str):
        raise UsageError(f"writers= is a list, not {writers!r}", hint=f"Give [{writers!r}]")
    names = [None] if writers is None else list(dict.fromkeys(writers))
    chosen = [state for name in names for state in tables.of_writer(name)]
    found = [state for state in chosen if tables.schemas_of(state, table)]
    if not found:
        tables.check(table)
        raise TableNotFound(
            f"No log of {some_names([state.writer for state in chosen])} knows table {table!r}",
            key=table,
            hint="Name other writers, or none",
        )
    return found


def _refuse_missing(states: Sequence[State], table: str, change: Change) -> None:
    """Raises `UsageError` if a change names a column that no log has."""
    seen: dict[str, None] = {}
    for state in states:
        before = state.definitions.of(table)
        seen |= dict.fromkeys(visible_columns(state, table, before, dropped=change.drop).names)
    new = {*change.add, *change.rename.values()}
    missing = [name for name in (*change.drop, *change.rename) if name not in seen]
    later = (*change.widen, *change.order, *(change.key or ()))
    missing += [name for name in later if name not in {*seen, *new}]
    if missing:
        raise UsageError(
            f"Table {table!r} has no column {missing[0]!r}",
            key=missing[0],
            hint=it_has(missing[0], list(seen)),
        )


def _planned(state: State, table: str, change: Change) -> Evolved:
    before = state.definitions.of(table)
    ids = ids_in(state, table, before)
    visible = visible_columns(state, table, before, dropped=change.drop)
    visible = pa.schema([with_column_id(each, ids.ids[each.name]) for each in visible])
    rest = change.still_to_do(visible, {} if before is None else before.defaults, table)
    message = evolved(visible, before, ids.last, rest, table)
    after = decode_definition(message, "the change")
    changes = _differs(visible, before, after)
    return Evolved(state.writer, visible, after.schema, after.key, changes)


def _differs(visible: pa.Schema, before: Definition | None, after: Definition) -> bool:
    if before is None:
        return bool(after.key) or not after.schema.equals(visible, check_metadata=True)
    return after.name != before.name
