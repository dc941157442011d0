"""By which columns rows are partitioned that SQL inserts: a lake's log keeps no such columns of a
table, so the names of its partitions say them.

Source: docs/spark.md, "SQL".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.data.partitioned import check_type
from ..catalog.format import compute as pc
from ..catalog.format.columns import numbers
from ..catalog.format.partition_names import parse_partition
from ..errors import DatabaseNotFound, InvalidSchema, NotACatalog

if TYPE_CHECKING:
    import pyarrow as pa

    from ..catalog.catalog import Catalog


def insert_partitions(
    catalog: Catalog, database: str, table: str, writer: str, schema: pa.Schema
) -> list[str]:
    """The columns by which the newest partition is named: of this writer's files, or else of all.

    Files in the partition without a name, as UPDATE and MERGE write them, say nothing.

    Args:
        schema: Of the rows that come.
    Returns:
        No columns if the name tells of anything but columns, of some that don't come, or of such
        as make no names; none of a table that isn't there yet.
    Requests: those of `Catalog.snapshot`, and of the table's files.
    """
    try:
        states = catalog.snapshot(database)._states
    except (DatabaseNotFound, NotACatalog):
        return []
    newest: tuple[bool, int] | None = None
    name = ""
    for state in states:
        rows = state.table_of(table)[0].table(table, whole=True)
        rows = rows.filter(pc.not_equal(rows.column("partition"), ""))
        if rows.num_rows:
            clocks = numbers(rows.column("last_clock"))
            found = (state.writer == writer, int(clocks.max()))
            if newest is None or found > newest:
                newest = found
                name = rows.column("partition")[int(clocks.argmax())].as_py()
    columns = list(parse_partition(name))
    is_told = bool(name) and len(columns) == name.count("/") + 1
    return columns if is_told and all(_makes_names(column, schema) for column in columns) else []


def _makes_names(column: str, schema: pa.Schema) -> bool:
    if schema.names.count(column) != 1:
        return False
    try:
        check_type(schema.field(column))
    except InvalidSchema:
        return False
    return True
