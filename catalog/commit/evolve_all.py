"""One change of a table's columns in the logs of several writers, each by a guest's commit.

Source: docs/changing.md, "Schemas".
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...errors import LakelogError, SchemaConflict, TableNotFound, UsageError, some_names
from ..data.evolution import evolved
from ..format.definitions import decode_definition
from ..format.schema import generation
from .columns import visible_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from ..data.evolution import Change
    from ..format.definitions import Definition, Identity
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
    whole = _for_all(states, table, change)
    planned = [_planned(state, table, whole) for state in states]
    _refuse_apart(planned, whole, table)
    done: dict[str, int] = {}
    if execute:
        with ExitStack() as stack:
            begun: dict[str, Transaction] = {}
            for name in (item.writer for item in planned if item.changes):
                writer = stack.enter_context(opened(name))
                begun[name] = writer.transaction(operation="maintenance")
                stack.callback(begun[name].discard)
                begun[name]._evolve(table, whole)
            _commit(begun, done)
    return [replace(item, revision=done.get(item.writer)) for item in planned]


def _commit(begun: dict[str, Transaction], done: dict[str, int]) -> None:
    for name, transaction in begun.items():
        try:
            info = transaction.commit()
        except LakelogError as error:
            others = ", ".join(f"{other!r} (revision {at})" for other, at in done.items())
            said = f"Committed in the logs of: {others or 'none'}. Repeat the call for the rest"
            error.hint = f"{error.hint}. {said}" if error.hint else said
            error.message = f"The log of {name!r}: {error.message}"
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


def _for_all(states: Sequence[State], table: str, change: Change) -> Change:
    """The change as each log makes it: new columns of one generation, and what is dropped in one is
    dropped in all.

    Raises:
        UsageError: A column that is to be changed is in no log.
    """
    seen: dict[str, int] = {}  # by name of a column the generation that it has
    floor: dict[str, int] = {}
    gone: set[Identity] = set()
    for state in states:
        before = state.definitions.of(table)
        visible, known = visible_columns(state, table, before, dropped=change.drop)
        for field in visible:
            seen[field.name] = max(seen.get(field.name, 0), generation(field))
        for name, number in known:
            floor[name] = max(floor.get(name, 0), number + 1)
        for name in set(change.drop) & set(visible.names):
            own = ((name, generation(visible.field(name))),)
            gone.update(before.sources.get(name, own) if before else own)
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
    freed = {*change.drop, *change.rename}
    least = {
        name: floor.get(name, 0) if name in freed or name not in seen else seen[name]
        for name in new
    }
    return replace(change, lenient=True, floor=least, gone=frozenset(gone))


def _planned(state: State, table: str, change: Change) -> Evolved:
    before = state.definitions.of(table)
    visible, known = visible_columns(state, table, before, dropped=change.drop)
    message = evolved(visible, before, known, change, table)
    after = decode_definition(message, "the change")
    changes = _differs(visible, before, after)
    return Evolved(state.writer, visible, after.schema, after.key, changes)


def _differs(visible: pa.Schema, before: Definition | None, after: Definition) -> bool:
    if before is None:
        return bool(after.dropped or after.key) or not after.schema.equals(
            visible, check_metadata=True
        )
    return after.name != before.name


def _refuse_apart(planned: Sequence[Evolved], change: Change, table: str) -> None:
    """Refuse new columns that would be told apart by their generations: the values of one would not
    be read.

    Raises:
        SchemaConflict: There are such ones.
    """
    for name in (*change.add, *change.rename.values()):
        found = {
            item.writer: generation(item.after.field(name))
            for item in planned
            if name in item.after.names
        }
        if len(set(found.values())) > 1:
            newest = max(found, key=lambda writer: found[writer])
            raise SchemaConflict(
                f"A column {name!r} of table {table!r} was dropped in the log of {newest!r}, and "
                "is in use in others",
                key=name,
                writers=tuple(found),
                hint="Take another name, or drop the column in all logs first",
            )
