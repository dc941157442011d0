"""The deletes of a transaction as `lakelog show` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .show_definition import definition_form

if TYPE_CHECKING:
    from ..catalog.wire import lakelog_transaction_pb2 as wire


def tombstone_form(item: wire.Tombstone) -> dict[str, Any]:
    """A tombstone."""
    columns = definition_form(item.columns)["columns"] if item.HasField("columns") else []
    return {
        "table": item.table,
        "predicate": item.predicate,
        "columns": columns,
        "paths": list(item.paths),
    }


def row_deletes_form(item: wire.RowDeletes) -> dict[str, Any]:
    """Rows of a file by their numbers."""
    return {
        "table": item.table,
        "path": item.path,
        "rows": item.cardinality,
        "object": item.object,
        "bytes": item.length,
        "digest": item.digest.hex(),
        "covers_below": item.covers_below,
    }
