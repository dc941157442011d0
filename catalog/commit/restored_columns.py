"""The columns and keys that tables had at an earlier state, as definitions to be committed anew.
Pure, but for the pieces of the states.

Source: docs/changing.md, "Going back"; docs/format.md, section 5.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import UsageError
from ..data.evolution import plain_type
from ..data.unify import FileSchema, agreed
from ..format.definitions import decode_definition, encode_definition, field_of
from ..format.schema import generation
from .live_schemas import live_schemas

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
        message = then[table].wire if table in then else _as_found(back_to, table)
        data = message.SerializeToString(deterministic=True)
        if table not in now or now[table].message != data:
            found.append(message)
    return found


def _as_found(state: State, table: str) -> wire.Definition:
    """A definition that changes nothing of what files show, for there is no way back to none: of
    one column, as it is read; all others stay as they are in the files."""
    entries = live_schemas(state, table, ()) or state.schemas_of(table).of_table(table)
    schemas = [FileSchema(entry.schema, state.writer) for entry in entries]
    united, _ = agreed(schemas, table)
    # Of all columns files may disagree about the types: they go on to.
    first = (united if len(united) else schemas[0].schema).field(0)
    column = field_of(first.name, plain_type(first.type), generation(first))
    sources = {first.name: [(first.name, generation(first))]}
    return encode_definition(table, pa.schema([column]), sources, {}, ())


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
