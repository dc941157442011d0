"""What the columns of a table are in a log, as JSON-ready values and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import CorruptObject
from . import output
from .text import cell
from .values import plain

if TYPE_CHECKING:
    import pyarrow as pa

    from ..catalog.wire import lakelog_transaction_pb2 as wire


def definition_form(message: wire.Definition) -> dict[str, Any]:
    """The columns with their ids, types and defaults; the highest id so far; and the key. The types
    are empty where this Arrow can't read them."""
    from ..catalog.format.definitions import decode_definition

    try:
        found = decode_definition(message, "the definition")
        types = {field.name: str(field.type) for field in found.schema}
        defaults = {name: _plain(value) for name, value in found.defaults.items()}
    except CorruptObject:
        types, defaults = {}, {}
    columns = [
        {
            "column": column.name,
            "id": column.id,
            "type": types.get(column.name, ""),
            "default": defaults.get(column.name),
        }
        for column in message.columns
    ]
    return {"columns": columns, "last_id": message.last_id, "key": list(message.key)}


def _plain(value: pa.Scalar) -> Any:
    import pyarrow as pa

    return plain(pa.repeat(value, 1))[0]


def print_definition(form: dict[str, Any]) -> None:
    """Print it for people."""
    output.pairs(
        [
            ("columns", ", ".join(map(_column, form["columns"]))),
            ("key", ", ".join(map(cell, form["key"]))),
        ],
        indent="        ",
    )


def _column(column: dict[str, Any]) -> str:
    text = f"{column['id']} {cell(column['column'])} {column['type']}"
    return text if column["default"] is None else f"{text} default {column['default']}"
