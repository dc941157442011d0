"""The columns and keys that tables had at an earlier state, as definitions to be committed anew.
Pure, but for the pieces of the states.

Source: docs/changing.md, "Going back"; docs/format.md, section 5.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import CorruptObject, UsageError
from ..data.evolution import plain_type
from ..data.shown import shown
from ..data.unify import FileSchema, agreed
from ..format.definitions import (
    decode_definition,
    encode_definition,
    field_of,
    generations_in,
)
from ..format.schema import generation
from .live_schemas import live_schemas

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..format.definitions import Identity
    from ..log.state import State
    from ..wire import lakelog_transaction_pb2 as wire


def restored_columns(head: State, back_to: State, only: str | None) -> list[wire.Definition]:
    """What the log must say of columns so that files show what they showed at an earlier state; of
    tables that it knows there, be it by their columns alone, and of which the head says something
    else.

    Args:
        only: A table; None: all.
    Raises:
        CorruptObject: A schema can't be read.
    """
    now, then = head.definitions.entries, back_to.definitions.entries
    wanted = (now.keys() & back_to.schemas.tables()) | then.keys()
    found = []
    for table in sorted(wanted if only is None else wanted & {only}, key=str.encode):
        message = _as_it_was(head, back_to, table)
        data = message.SerializeToString(deterministic=True)
        if table not in now or now[table].message != data:
            found.append(message)
    return found


def _as_it_was(head: State, back_to: State, table: str) -> wire.Definition:
    """The definition of then, which drops what came since: the log goes on to know the schemas of
    files that leave, and shows their columns as soon as the table has no file.

    Where there was none there is no way back to none: it declares one column, as it is read, and
    the others stay as they are in the files."""
    try:
        came = _came_since(head, back_to, table)
    except CorruptObject:
        came = set()  # what can't be read isn't shown either: no reason not to go back
    if not came and table in back_to.definitions.entries:
        return back_to.definitions.entries[table].wire
    return _dropping(came, back_to, table)


def _dropping(came: set[Identity], back_to: State, table: str) -> wire.Definition:
    then = back_to.definitions.of(table)
    known = back_to.schemas_of(table).of_table(table)
    entries = live_schemas(back_to, table, ()) or known
    schemas = [FileSchema(shown(entry.schema, then).schema, back_to.writer) for entry in entries]
    united, conflicts = agreed(schemas, table)
    fields = [] if then is None else list(then.schema)
    sources = {} if then is None else dict(then.sources)
    free = [field for field in united if field.name not in sources]
    # Of those that nobody declared files may disagree about the types: they go on to. But data with
    # the name of a dropped column is refused unless one of that name is declared.
    names = {name for name, _ in came if name in sources or name not in conflicts}
    if names.isdisjoint(field.name for field in free):
        free = [] if sources else [(free or schemas[0].schema)[0]]
    for field in free:
        fields.append(field_of(field.name, plain_type(field.type), generation(field)))
        sources[field.name] = ((field.name, generation(field)),)
    every = came.union(*(generations_in(entry.schema) for entry in known))
    dropped = {one for one in every if one[0] in names}.difference(*sources.values())
    if then is None:
        return encode_definition(table, pa.schema(fields), sources, {}, dropped)
    dropped |= then.dropped
    return encode_definition(
        table, pa.schema(fields), sources, then.defaults, dropped, key=then.key
    )


def _came_since(head: State, back_to: State, table: str) -> set[Identity]:
    """Columns that files brought since an earlier state, and that would be shown without files:
    those that definitions said something of. All, if the table had no file then, for these would be
    shown at once; else others may come again, as nobody declared them."""
    now, then = head.definitions.of(table), back_to.definitions.of(table)
    first = back_to.schemas_of(table).of_table(table)
    known = {entry.fingerprint for entry in first}
    schemas = head.schemas_of(table).of_table(table)
    new = [entry.schema for entry in schemas if entry.fingerprint not in known]
    came: set[Identity] = set().union(*map(generations_in, new))
    if came and live_schemas(back_to, table, ()):
        came &= set() if now is None else now.identities()
    came -= set().union(*(generations_in(entry.schema) for entry in first))
    return came if then is None else came - then.identities()


def refuse_two_keys(
    back: Mapping[str, Sequence[wire.Definition]], everyone: Iterable[State]
) -> None:
    """Refuse to give a table another key in some logs than it has in others: it couldn't be read.

    Args:
        back: By writer the definitions that come back.
        everyone: The heads of all logs of the database.
    Raises:
        UsageError: It would be so.
    """
    heads = list(everyone)
    for table in sorted({message.table for some in back.values() for message in some}):
        keys: dict[frozenset[str], tuple[str, Any]] = {}
        for head in heads:
            mine = [m for m in back.get(head.writer, ()) if m.table == table]
            if mine:
                key = decode_definition(mine[0], head.writer).key
            else:
                now = head.definitions.of(table)
                key = () if now is None else now.key
            if key:
                keys.setdefault(frozenset(key), (head.writer, key))
        if len(keys) > 1:
            (one, first), (other, second) = list(keys.values())[:2]
            raise UsageError(
                f"Table {table!r} would have the key ({', '.join(first)}) in the log of {one!r} "
                f"and ({', '.join(second)}) in that of {other!r}: it couldn't be read",
                key=table,
                hint="Nothing was committed. Take the other writers back too, or first take the "
                "key away: catalog.evolve(database, table, key=[])",
            )
