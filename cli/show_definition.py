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
    """The columns with their types, what files call them, and their defaults; those that were
    dropped; and the key. The types are empty where this Arrow can't read them."""
    from ..catalog.format.definitions import decode_definition

    try:
        found = decode_definition(message, "the definition")
        types = {field.name: str(field.type) for field in found.schema}
        defaults = {name: _plain(value) for name, value in found.defaults.items()}
    except CorruptObject:
        types, defaults = {}, {}
    columns = []
    for column in message.columns:
        name = column.sources[0].column
        columns.append(
            {
                "column": name,
                "type": types.get(name, ""),
                "default": defaults.get(name),
                "sources": [_named(one) for one in column.sources],
            }
        )
    dropped = [_named(one) for one in message.dropped]
    return {"columns": columns, "dropped": dropped, "key": list(message.key)}


def _named(one: wire.ColumnIdentity) -> dict[str, Any]:
    return {"column": one.column, "generation": one.generation}


def _plain(value: pa.Scalar) -> Any:
    import pyarrow as pa

    return plain(pa.repeat(value, 1))[0]


def print_definition(form: dict[str, Any]) -> None:
    """Print it for people."""
    output.pairs(
        [
            ("columns", ", ".join(map(_column, form["columns"]))),
            ("dropped", ", ".join(_identity(one) for one in form["dropped"])),
            ("key", ", ".join(map(cell, form["key"]))),
        ],
        indent="        ",
    )


def _column(column: dict[str, Any]) -> str:
    text = f"{cell(column['column'])} {column['type']}"
    older = [_identity(source) for source in column["sources"][1:]]
    text += f" (once {', '.join(older)})" if older else ""
    return text if column["default"] is None else f"{text} default {column['default']}"


def _identity(one: dict[str, Any]) -> str:
    number = one["generation"]
    return f"{cell(one['column'])}.{number}" if number else str(cell(one["column"]))
