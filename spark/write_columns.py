"""Which of a table's columns those of a DataFrame are: a column that was dropped and came anew is
another one than that of its name before, and a frame's is the one that the table has now.

Source: docs/format.md, section 5.3; docs/changing.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..catalog.format.schema import GENERATION, generation
from ..errors import DatabaseNotFound, NotACatalog, SchemaConflict, TableNotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..catalog.catalog import Catalog
    from ..catalog.commit.transaction import Transaction
    from ..catalog.log.state import State


def as_the_table_has_them(
    schema: pa.Schema, tx: Transaction, catalog: Catalog, table: str
) -> pa.Schema:
    """A frame's columns with the generations that the table's have: in the writer's own log, or
    where that doesn't know one, in the newest cut. To be asked once for each write: the table may
    change before it ends.

    Where the writer's log defines the table, `Transaction` goes by that.

    Requests: none if the log knows all of these columns; else those of `Catalog.snapshot`.
    """

    def asked(state: State) -> dict[str, int] | None:
        if state.definitions.of(table) is not None:
            return None
        return _generations(entry.schema for entry in state.schemas_of(table).of_table(table))

    own = tx._session.ask(asked)
    if own is None:
        return schema
    if not own.keys() >= set(schema.names):
        own = _of_others(tx, catalog, table) | own
    return pa.schema([_stamped(field, own.get(field.name, 0)) for field in schema])


def _of_others(tx: Transaction, catalog: Catalog, table: str) -> dict[str, int]:
    try:
        return _generations([catalog.snapshot(tx._session.database).schema(table)])
    except (NotACatalog, DatabaseNotFound, TableNotFound, SchemaConflict):
        return {}


def _generations(schemas: Iterable[pa.Schema]) -> dict[str, int]:
    """By column the highest of its name."""
    found: dict[str, int] = {}
    for schema in schemas:
        for field in schema:
            found[field.name] = max(generation(field), found.get(field.name, 0))
    return found


def _stamped(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({GENERATION: str(number)}) if number else field
