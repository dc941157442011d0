"""The schema that a table has in the log, before new files come."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import LakelogError, NotFoundError, SchemaConflict
from ..errors import CommandWarning
from ..opening import existing_log

if TYPE_CHECKING:
    from ...catalog.catalog import Catalog
    from ...catalog.snapshot import Snapshot


def known_schema(catalog: Catalog, database: str, table: str, writer: str) -> pa.Schema | None:
    """The schema of a table, as all writers have it; None if there is no such table. Columns that
    can't be read as it is are left out. If the database can't be read, the writer's own log is
    asked alone.

    Requests: as for a snapshot, and the pieces of it that hold the table.
    """
    try:
        return _schema(catalog.snapshot(database), table)
    except NotFoundError:
        return None
    except LakelogError as error:
        problem = error.message
    try:
        _, listing = existing_log(catalog, writer, database)
        found = _schema(catalog.snapshot(database, {writer: listing.head}), table)
    except LakelogError:
        return None  # there is no such table, or opening the writer tells what is wrong
    warnings.warn(
        f"types are held against this writer's files alone: {problem}", CommandWarning, stacklevel=2
    )
    return found


def _schema(snapshot: Snapshot, table: str) -> pa.Schema:
    try:
        return snapshot.schema(table)
    except SchemaConflict:
        fields = []
        for name in snapshot.column_names(table):
            try:
                with snapshot.scan(table, [name]) as reader:
                    fields.append(reader.schema.field(name))
            except SchemaConflict:
                continue
        return pa.schema(fields)
