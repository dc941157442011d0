"""One change of a table's columns in the logs of several writers, each by a guest's commit.

Source: docs/changing.md, "Schemas".
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import LakelogError, TableNotFound, UsageError, some_names
from ..data.evolution import evolved
from ..format.definitions import decode_definition
from ..format.schema import with_column_id
from ..log.column_ids import ids_in
from .change_all import tell_committed
from .columns import visible_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..data.evolution import Change
    from ..format.definitions import Definition
    from ..log.state import State
    from ..read.cut_tables import CutTables
    from .transaction import Transaction
    from .writer import Writer


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
    """Refuse to change a column that no log has.

    Raises:
        UsageError: There is one.
    """
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
            hint=f"It has: {some_names(list(seen))}",
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
