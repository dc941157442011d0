"""The columns and keys that tables had at an earlier state, as definitions to be committed anew.
Pure, but for the pieces of the states.

Source: docs/changing.md, "Going back"; docs/format.md, section 5.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import UsageError
from ..data.evolution import plain_type
from ..data.unify import FileSchema, agreed, shown
from ..format.definitions import decode_definition, encode_definition
from ..format.schema import column_of
from ..log.column_ids import ids_in
from .schema_compatibility import live_schemas

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..log.state import State
    from ..wire import lakelog_transaction_pb2 as wire


def restored_columns(head: State, back_to: State, only: str | None) -> list[wire.Definition]:
    """Returns the definitions that show files as at an earlier state: of tables that one of the two
    states defines, and that differ at the head. Raises `CorruptObject` if a schema can't be read.

    Args:
        only: A table; None: all.
    """
    now, then = head.definitions.entries, back_to.definitions.entries
    wanted = (now.keys() & back_to.schemas.tables()) | then.keys()
    found = []
    for table in sorted(wanted if only is None else wanted & {only}, key=str.encode):
        message = _as_it_was(head, back_to, table)
        if not message.columns:
            continue  # the log had forgotten the table then: there are no columns to go back to
        same = table in now and table in then and now[table].message == then[table].message
        if same and live_schemas(back_to, table, ()):
            continue  # what came since may come again: nobody declared it
        if table not in now or _with_last(now[table].wire, message.last_id) != message:
            found.append(message)
    return found


def _as_it_was(head: State, back_to: State, table: str) -> wire.Definition:
    """The definition of all columns that files showed then. Ids that were given since stay given:
    what came with them is not read."""
    then = back_to.definitions.of(table)
    last = ids_in(head, table, head.definitions.of(table)).last
    ids = ids_in(back_to, table, then).ids
    known = back_to.schemas_of(table).of_table(table)
    entries = live_schemas(back_to, table, ()) or known
    columns = {} if then is None else {each.name: each for each in then.schema}
    schemas = [FileSchema(shown(entry.schema, then).schema, back_to.writer) for entry in entries]
    united, _ = agreed(schemas, table)
    # Of those that nobody declared files may disagree about the types: they go on to.
    for each in (*united, *(each for item in schemas for each in item.schema)):
        new = column_of(each.name, plain_type(each.type), ids[each.name])
        columns.setdefault(each.name, new)
    schema = pa.schema(list(columns.values()))
    if then is None:
        return encode_definition(table, schema, {}, last)
    return encode_definition(table, schema, then.defaults, last, key=then.key)


def _with_last(message: wire.Definition, last_id: int) -> wire.Definition:
    message.last_id = last_id
    return message


def refuse_two_keys(
    back: Mapping[str, Sequence[wire.Definition]], everyone: Iterable[State]
) -> None:
    """Raises `UsageError` if a table would get another key in some logs than in others.

    Args:
        back: By writer the definitions that come back.
        everyone: The heads of all logs of the database.
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
