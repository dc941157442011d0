"""Arrow columns from Python and numpy values and back, by their buffers. Pure.

`pa.array`, `pa.scalar`, `to_numpy` and comparisons with Python values look whether pandas is
concerned, and import it for that: a second or so, in every process that opens a log where pandas is
installed. Nothing here does.
"""

from __future__ import annotations

import array as machine
import itertools
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from . import compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NUMBERS = {
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.uint8(): np.uint8,
    pa.uint64(): np.uint64,
    pa.float64(): np.float64,
}
# By the type's id: a type itself is slow to look up.
_NUMPY = {kind.id: form for kind, form in _NUMBERS.items()} | {pa.timestamp("us").id: np.int64}
_FEW = 64  # values that Python's own arrays hold sooner than numpy begins
_TEXT, _BINARY = pa.string().id, pa.binary().id
_FIXED, _LIST, _BOOLEAN = pa.binary(1).id, pa.list_(pa.int32()).id, pa.bool_().id


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of values; None is null.

    Args:
        values: int for integers and timestamps (in their unit), bool, str, bytes, or sequences of
            these for a list.
        kind: int32, int64, uint8, uint64, double, bool, timestamp, string, binary, fixed-size
            binary, or a list of one of these.
    """
    count = len(values)
    nulls = _nulls(values)
    validity = _bitmap(value is not None for value in values) if nulls else None
    if kind.id == _LIST:
        return _lists(values, kind, validity, nulls)
    if kind.id in (_TEXT, _BINARY):
        encode = kind.id == _TEXT
        raw = [b"" if v is None else v.encode() if encode else v for v in values]
        buffers = [validity, _offsets(map(len, raw), count), pa.py_buffer(b"".join(raw))]
        return pa.Array.from_buffers(kind, count, buffers, nulls)
    if kind.id == _FIXED:
        empty = bytes(kind.byte_width)
        joined = b"".join(empty if value is None else value for value in values)
        if len(joined) != count * kind.byte_width:
            raise ValueError(f"values of another length than {kind.byte_width} bytes")
        return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(joined)], nulls)
    if kind.id == _BOOLEAN:
        data = _bitmap(bool(value) for value in values)
        return pa.Array.from_buffers(kind, count, [validity, data], nulls)
    form = _NUMPY[kind.id]
    filled = [0 if value is None else value for value in values] if nulls else values
    data = pa.py_buffer(np.array(filled, form))
    return pa.Array.from_buffers(kind, count, [validity, data], nulls)


def array(values: np.ndarray) -> pa.Array:
    """A numpy array of numbers or booleans as an Arrow array."""
    if values.dtype == np.bool_:
        data = pa.py_buffer(np.packbits(values, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, data])
    kind = next(arrow for arrow, form in _NUMBERS.items() if values.dtype == form)
    whole = np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(whole), [None, pa.py_buffer(whole)])


def numbers(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Numbers, times (as int64) or booleans as a numpy array; nulls may come as anything."""
    if isinstance(values, pa.ChunkedArray):
        parts = [numbers(chunk) for chunk in values.chunks]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else numbers(pa.nulls(0, values.type))
    data, start, count = values.buffers()[1], values.offset, len(values)
    kind = values.type.id
    if kind == _BOOLEAN:
        if not count:
            return np.zeros(0, np.bool_)
        bits = np.frombuffer(data, np.uint8)
        return np.unpackbits(bits, count=start + count, bitorder="little")[start:].astype(np.bool_)
    form = _NUMPY[kind]
    if data is None or not count:
        return np.zeros(0, form)
    size = np.dtype(form).itemsize
    return np.frombuffer(data, form, count, start * size)


def distinct(values: pa.ChunkedArray) -> list[Any]:
    """The values of a column of text or fixed-size binary without nulls, each once. Most such
    columns of a log hold one, which is seen sooner than counted."""
    if not len(values):
        return []
    if is_constant(values):
        return [values[0].as_py()]
    return pc.unique(values).to_pylist()  # type: ignore[no-any-return]


def is_constant(values: pa.ChunkedArray) -> bool:
    """Whether a column of text or fixed-size binary, without nulls and in one piece, is the same
    value throughout; False may be wrong."""
    return values.num_chunks == 1 and len(values) > 0 and _repeats(values.chunk(0))


def _repeats(values: pa.Array) -> bool:
    buffers, first, count = values.buffers(), values.offset, len(values)
    if values.null_count:
        return False
    if values.type.id == _FIXED:
        width, begin = values.type.byte_width, first * values.type.byte_width
    else:
        offsets = np.frombuffer(buffers[1], np.int32, count + 1, 4 * first)
        width, begin = int(offsets[1] - offsets[0]), int(offsets[0])
        if (np.diff(offsets) != width).any():
            return False
    if not width:
        return True
    raw = np.frombuffer(buffers[-1], np.uint8, count * width, begin)
    return np.array_equal(raw[width:], raw[:-width])


def one_chunk(values: pa.ChunkedArray) -> pa.Array:
    """A column as one array; not copied, where it is one already."""
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def is_null(values: pa.Array) -> np.ndarray:
    """Per value whether it is null."""
    bits, start, count = values.buffers()[0], values.offset, len(values)
    if bits is None or not count:
        return np.zeros(count, np.bool_)
    there = np.unpackbits(np.frombuffer(bits, np.uint8), count=start + count, bitorder="little")
    return ~there[start:].astype(np.bool_)


def rows_to_table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """A table from rows of values, in the order of the schema's columns."""
    if not rows:
        return empty_table(schema)
    columns = zip(*rows, strict=True)
    arrays = [column(values, item.type) for values, item in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


# By the schema's identity, which the schema beside it keeps from being another's.
_EMPTY: dict[int, tuple[pa.Schema, pa.Table]] = {}
_MOST_EMPTY = 64  # the format has fewer than twenty schemas


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows: of each schema of the format always the same one."""
    kept = _EMPTY.get(id(schema))
    if kept is not None:
        return kept[1]
    made = pa.Table.from_arrays([column((), item.type) for item in schema], schema=schema)
    if len(_EMPTY) < _MOST_EMPTY:
        _EMPTY[id(schema)] = schema, made
    return made


def _lists(values: Sequence[Any], kind: pa.DataType, validity: Any, nulls: int) -> pa.Array:
    inner = column([item for value in values for item in value or ()], kind.value_type)
    offsets = _offsets((len(value or ()) for value in values), len(values))
    return pa.Array.from_buffers(kind, len(values), [validity, offsets], nulls, children=[inner])


def _nulls(values: Sequence[Any]) -> int:
    """How many are None."""
    if isinstance(values, (list, tuple)):
        return values.count(None)
    return sum(map(operator.is_, values, itertools.repeat(None)))


def _offsets(lengths: Iterable[int], count: int) -> pa.Buffer:
    """Where values begin and end, as int32."""
    if count <= _FEW:
        return pa.py_buffer(machine.array("i", itertools.accumulate(lengths, initial=0)))
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.fromiter(lengths, np.int32, count), out=offsets[1:])
    return pa.py_buffer(offsets)


def _bitmap(flags: Iterable[bool]) -> pa.Buffer:
    bits = np.fromiter(flags, np.bool_)
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def text_scalar(text: str) -> pa.Scalar:
    """A text as Arrow has it, without `pa.scalar`, which would import pandas."""
    return column([text], pa.string())[0]
