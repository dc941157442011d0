"""Predicates out of pyarrow's expressions, as far as they can be understood. Pure.

An expression can't be looked into, but it can be pickled: as an Arrow IPC file of one row, whose
schema's metadata lists the calls, fields and literals in order, and whose columns hold the literals
and the options of the calls. What was read is built anew, and must equal the expression.

An expression means what pyarrow would do: IEEE's comparisons, in which NaN is neither less nor
greater than anything. So `f > 5` becomes `f > 5 AND f <= inf` here.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa

from ..format.flatbuffers import Table, uint32
from .arrow_calls import Call, Field, Item, Unknown, understand

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from .tree import Predicate

_MAX_PARTS = 20_000
_MAX_DEPTH = 200


def from_arrow(expression: pc.Expression, schema: pa.Schema) -> Predicate | None:
    """The tree of an expression over a table; None if it can't be understood, or means something
    that predicates can't say.

    Args:
        expression: As DuckDB and Polars give it to a pyarrow dataset, or as a user wrote it.
        schema: Of the table, in the cut that is read.
    """
    try:
        pickled = expression.__reduce__()[1][0]
        item = _read(_parts(memoryview(pickled)), _literals(pickled), schema).condition()
    except (Unknown, pa.ArrowException, LookupError, ValueError, TypeError, struct.error):
        return None
    return item.predicate if item.expression.equals(expression) else None


def _literals(pickled: pa.Buffer) -> list[pa.Scalar]:
    with pa.ipc.open_file(pickled) as file:
        return [column[0] for column in file.get_batch(0).columns]


def _parts(file: memoryview) -> list[tuple[str, str]]:
    """Keys and values of the schema's metadata, in order: pyarrow gives them as a dict, and keys
    repeat."""
    length = struct.unpack_from("<i", file, len(file) - 10)[0]
    footer = file[len(file) - 10 - length : len(file) - 10]
    schema = Table(footer, Table(footer, uint32(footer, 0)).indirect(1))
    first, count = schema.vector(2)
    if count > _MAX_PARTS:
        raise Unknown

    def text(pair: Table, slot: int) -> str:
        at, size = pair.vector(slot)
        return bytes(footer[at : at + size]).decode()

    places = range(first, first + 4 * count, 4)
    pairs = [Table(footer, at + uint32(footer, at)) for at in places]
    return [(text(pair, 0), text(pair, 1)) for pair in pairs]


def _read(parts: list[tuple[str, str]], literals: list[pa.Scalar], schema: pa.Schema) -> Item:
    """What the parts say: calls are open from `call` to `end`."""
    calls: list[Call] = [Call("")]
    for key, value in parts:
        if key == "call":
            calls.append(Call(value))
            if len(calls) > _MAX_DEPTH:
                raise Unknown
        elif key == "field_ref":
            calls[-1].arguments.append(Field.of(value, schema))
        elif key == "literal":
            calls[-1].arguments.append(Item.of(literals[int(value)]))
        elif key == "options":
            calls[-1].options = literals[int(value)]
        elif key == "end" and value == calls[-1].name and len(calls) > 1:
            done = understand(calls.pop())
            calls[-1].arguments.append(done)
        else:
            raise Unknown
    if len(calls) != 1 or len(calls[0].arguments) != 1:
        raise Unknown
    only: Item = calls[0].arguments[0]
    return only
