"""Bounds and null counts of columns: from Parquet metadata into the log, and their byte form. Pure.

What isn't known for certain is left out; a missing bound never prunes.

Source: docs/format.md, section 5.2.
"""

from __future__ import annotations

import json
import math
import re
import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from google.protobuf.message import DecodeError

from ..wire import lakelog_transaction_pb2 as wire
from . import compute as pc
from .foreign_statistics import bounds_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


MAX_BOUND_BYTES: Final = 64
_INT = struct.Struct("<q")
_UINT = struct.Struct("<Q")
_FLOAT = struct.Struct("<d")
_UNIT_OF_NAME = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_DECIMAL: Final = re.compile(r"decimal128\(38, (?P<scale>-?\d+)\)")
_TIMESTAMP: Final = re.compile(r"timestamp\[(?P<unit>s|ms|us|ns)(?P<zone>, tz=UTC)?\]")


def bound_type(kind: pa.DataType) -> pa.DataType | None:
    """The type in which bounds of a column are kept, one per family; None for a column that has
    none."""
    types = pa.types
    if types.is_dictionary(kind):
        return bound_type(kind.value_type)
    if types.is_boolean(kind) or types.is_date32(kind) or types.is_time(kind):
        return kind
    if types.is_signed_integer(kind):
        return pa.int64()
    if types.is_unsigned_integer(kind):
        return pa.uint64()
    if types.is_float32(kind) or types.is_float64(kind):
        return pa.float64()
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_decimal128(kind):
        return pa.decimal128(38, kind.scale)
    if types.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC" if kind.tz else None)
    return None


def has_nan(kind: pa.DataType) -> bool:
    """Whether NaN can be a value of a column that has bounds: of those alone it can be known that
    it is none."""
    bounds = bound_type(kind)
    return bounds is not None and bool(pa.types.is_float64(bounds))


def parse_bound_type(name: str) -> pa.DataType | None:
    """The bound type that its own name means, as `Snapshot.statistics` gives it; None for a column
    without bounds."""
    if not name:
        return None
    if found := _DECIMAL.fullmatch(name):
        return pa.decimal128(38, int(found["scale"]))
    if found := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(found["unit"], "UTC" if found["zone"] else None)
    return pa.type_for_alias(name)


def encode_bound(value: Any, kind: pa.DataType) -> bytes:
    """One bound in its byte form.

    Args:
        value: int for integers, dates, times and timestamps (in the type's unit) and for decimals
            (unscaled).
        kind: A type that `bound_type` returns.
    """
    types = pa.types
    if types.is_boolean(kind):
        return b"\x01" if value else b"\x00"
    if types.is_unsigned_integer(kind):
        return _UINT.pack(value)
    if types.is_float64(kind):
        return _FLOAT.pack(value)
    if types.is_string(kind) or types.is_binary(kind):
        return bytes(value)
    if types.is_decimal(kind):
        return int(value).to_bytes(16, "little", signed=True)
    return _INT.pack(value)


def decode_bounds(values: list[bytes | None], kind: pa.DataType) -> pa.Array:
    """Many bounds of one type as an Arrow array. None stays null; so does what can't be a bound: a
    value of the wrong length, one out of the type's range, NaN."""
    from .columns import column

    types = pa.types
    if types.is_string(kind):
        return column([_text(value) for value in values], pa.string())
    if types.is_binary(kind):
        return column(values, pa.binary())
    if types.is_boolean(kind):
        flags = {b"\x00": False, b"\x01": True}
        return column([None if value is None else flags.get(value) for value in values], kind)
    if types.is_decimal(kind):
        raw = column([_decimal(value) for value in values], pa.binary(16))
        return pa.Array.from_buffers(kind, len(raw), raw.buffers(), null_count=raw.null_count)
    plain = [_number(value, kind) for value in values]
    if types.is_floating(kind) or types.is_integer(kind):
        return column(plain, kind)
    return column(plain, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)


def _number(value: bytes | None, kind: pa.DataType) -> int | float | None:
    if value is None or len(value) != 8:
        return None
    if pa.types.is_floating(kind):
        real = float(_FLOAT.unpack(value)[0])
        return None if math.isnan(real) else real
    number = int((_UINT if pa.types.is_unsigned_integer(kind) else _INT).unpack(value)[0])
    if pa.types.is_time(kind):
        return number if 0 <= number < 86_400 * _PER_SECOND[kind.unit] else None
    return number if kind.bit_width == 64 or -(1 << 31) <= number < 1 << 31 else None


def _decimal(value: bytes | None) -> bytes | None:
    if value is None or len(value) != 16:
        return None
    return value if abs(int.from_bytes(value, "little", signed=True)) < 10**38 else None


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def column_statistics(
    chunk: Any, column: Any, position: int, field: pa.Field, *, foreign: str | None
) -> wire.ColumnStatistics:
    """What the log keeps of one column chunk.

    Args:
        chunk: pyarrow ColumnChunkMetaData.
        column: pyarrow ColumnSchema of the same column.
        position: Of the column among the schema's top-level fields.
        field: The Arrow field.
        foreign: The program that wrote the file, as its footer names it; None: lakelog.
    """
    result = wire.ColumnStatistics(column=position)
    found = chunk.statistics if chunk.is_stats_set else None
    if found is not None and found.has_null_count and foreign is None:
        result.null_count = found.null_count
    if chunk.bloom_filter_offset is not None:
        result.bloom_offset = chunk.bloom_filter_offset
        if chunk.bloom_filter_length is not None:
            result.bloom_bytes = chunk.bloom_filter_length
    kind = bound_type(field.type)
    if found is None or kind is None or not found.has_min_max:
        return result
    if foreign is not None and not bounds_count(foreign, column.physical_type, kind):
        return result
    try:
        low = _raw_bound(found, "min", column, kind)
        high = _raw_bound(found, "max", column, kind)
    except (
        ValueError,
        TypeError,
        OverflowError,
        struct.error,
        NotImplementedError,
        pa.ArrowException,
    ):
        return result
    if foreign is not None and low == high == b"":
        return result  # of a writer that keeps none
    _put_bounds(result, low, high, kind, is_foreign=foreign is not None)
    # Arrow takes the bounds of a dictionary array over the whole dictionary.
    if foreign is not None or pa.types.is_dictionary(field.type):
        result.min_exact = result.max_exact = False
    return result


def _put_bounds(
    result: wire.ColumnStatistics,
    low: bytes | None,
    high: bytes | None,
    kind: pa.DataType,
    *,
    is_foreign: bool,
) -> None:
    text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    if low is not None:
        result.min = low[:MAX_BOUND_BYTES] if not pa.types.is_string(kind) else _cut(low)
        result.min_exact = result.min == low
    if high is None:
        return
    top: bytes | None = high
    if text:
        end = _after_prefix if is_foreign else _round_up
        top = end(high, pa.types.is_string(kind))
    if top is not None:
        result.max = top
        result.max_exact = top == high


def value_statistics(value: pa.Scalar, position: int, rows: int) -> wire.ColumnStatistics:
    """What the log keeps of a column that has one value, or null, in all rows.

    Args:
        value: Of a type without NaN.
    """
    kind = bound_type(value.type)
    result = wire.ColumnStatistics(column=position, null_count=0 if value.is_valid else rows)
    if not value.is_valid or kind is None:
        return result
    types = pa.types
    if types.is_string(kind):
        raw = value.as_py().encode()
        top = _round_up(raw, True)
        result.min, result.min_exact = _cut(raw), len(raw) <= MAX_BOUND_BYTES
        if top is not None:
            result.max, result.max_exact = top, top == raw
        return result
    if types.is_decimal(kind):
        sign, digits, _ = value.as_py().as_tuple()  # with the type's scale
        plain: Any = int("".join(map(str, digits))) * (-1 if sign else 1)
    else:
        plain = value.value if types.is_temporal(kind) else value.as_py()
    result.min = result.max = encode_bound(plain, kind)
    result.min_exact = result.max_exact = True
    return result


def encode_float(value: float, which: str) -> bytes:
    """-0.0 and 0.0 compare equal but sort apart: the bound takes in both."""
    return _FLOAT.pack((-0.0 if which == "min" else 0.0) if value == 0 else value)


def _raw_bound(found: Any, which: str, column: Any, kind: pa.DataType) -> bytes | None:
    types = pa.types
    if types.is_unsigned_integer(kind) or types.is_boolean(kind):
        return encode_bound(getattr(found, which), kind)
    raw = getattr(found, f"{which}_raw")
    if raw is None:
        return None
    if types.is_float64(kind):
        value = float(raw)
        if math.isnan(value):
            return None
        return encode_float(value, which)
    if types.is_string(kind):
        return bytes(raw).decode("utf-8").encode()  # a foreign file may hold anything
    if types.is_binary(kind):
        return bytes(raw)
    if types.is_decimal(kind):
        unscaled = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
        return encode_bound(unscaled, kind)
    if types.is_timestamp(kind) or types.is_time(kind):
        # The file's unit need not be that of its Arrow type: Parquet has no seconds.
        unit = _UNIT_OF_NAME.get(json.loads(column.logical_type.to_json()).get("timeUnit", ""))
        if unit is None:
            return None
        have, want = _PER_SECOND[unit], _PER_SECOND[kind.unit]
        scaled = int(raw) * want
        return None if scaled % have else encode_bound(scaled // have, kind)
    return encode_bound(int(raw), kind)


def _cut(value: bytes) -> bytes:
    """At most 64 bytes of a UTF-8 string, ending at a character's end."""
    if len(value) <= MAX_BOUND_BYTES:
        return value
    return value[:MAX_BOUND_BYTES].decode("utf-8", errors="ignore").encode("utf-8")


def _round_up(value: bytes, text: bool) -> bytes | None:
    """A short value that is not less than `value`, or None if there is none."""
    if len(value) <= MAX_BOUND_BYTES:
        return value
    return _after_prefix(value, text)


def _after_prefix(value: bytes, text: bool) -> bytes | None:
    """Returns a short value above every value that begins with `value`, or None."""
    if not text:
        head = bytearray(value[:MAX_BOUND_BYTES])
        while head and head[-1] == 0xFF:
            head.pop()
        if not head:
            return None
        head[-1] += 1
        return bytes(head)
    chars = list(_cut(value).decode("utf-8"))
    while chars:
        code = ord(chars.pop()) + 1
        if 0xD800 <= code <= 0xDFFF:
            code = 0xE000
        if code <= 0x10FFFF:
            return "".join([*chars, chr(code)]).encode("utf-8")
    return None


# --- Floats, from their values: Parquet says nothing of NaN ---------------------------------------


def is_float(kind: pa.DataType) -> bool:
    """Whether a column is one of floats, whatever its type is wrapped in."""
    return bool(pa.types.is_floating(unwrapped(kind)))


def unwrapped(kind: pa.DataType) -> pa.DataType:
    """A type without what it is wrapped in: an extension, a dictionary."""
    while isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind):
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind.storage_type
    return kind


def float_statistics(values: pa.ChunkedArray, position: int) -> wire.ColumnStatistics:
    """What the log keeps of a column of floats, from its values: NaN is left out of bounds.

    Args:
        position: Of the column among the schema's top-level fields.
    """
    result = wire.ColumnStatistics(column=position, null_count=values.null_count)
    if bound_type(values.type) is None or pa.types.is_dictionary(values.type):
        return result
    low, high = _whole_bounds(values)
    result.no_nan = low is not None or not pc.any(pc.is_nan(values)).as_py()
    if low is None:
        found = pc.min_max(values)
        low, high = found["min"].as_py(), found["max"].as_py()
    if low is not None and high is not None and not math.isnan(low):
        result.min, result.max = encode_float(low, "min"), encode_float(high, "max")
        result.min_exact = result.max_exact = True
    return result


def _whole_bounds(values: pa.ChunkedArray) -> tuple[float, float] | tuple[None, None]:
    """Returns the bounds of values without null and NaN, ten times as fast; else None."""
    import numpy as np  # what only reads footers does without

    form = {pa.float64(): np.float64, pa.float32(): np.float32}.get(values.type)
    if form is None or values.null_count or not len(values):
        return None, None
    width = values.type.bit_width // 8
    found = [
        np.frombuffer(chunk.buffers()[1], form, len(chunk), chunk.offset * width)
        for chunk in values.chunks
        if len(chunk)
    ]
    low = [float(some.min()) for some in found]  # NaN if one is
    return (
        (None, None)
        if any(map(math.isnan, low))
        else (min(low), max(float(some.max()) for some in found))
    )


def encode_floats(groups: Sequence[wire.RowGroup]) -> bytes:
    """What a footer keeps: of each row group its rows and its columns of floats; nothing if there
    are no such columns."""
    if not any(group.columns for group in groups):
        return b""
    return wire.Add(row_groups=groups).SerializeToString(deterministic=True)


def tell_floats(facts: wire.Add, floats: bytes) -> None:
    """Put what is known of floats into the other facts of their file.

    Args:
        floats: What `encode_floats` gave, of this very file.
    """
    if not floats:
        return
    told = wire.Add.FromString(floats)
    told.DiscardUnknownFields()
    for group, own in zip(facts.row_groups, told.row_groups, strict=True):
        known = {each.column: each for each in own.columns}
        for entry in group.columns:
            if entry.column in known:
                entry.MergeFrom(known[entry.column])


def fit(floats: bytes, facts: wire.Add, schema: pa.Schema) -> bool:
    """Whether this may be what `encode_floats` gave of a file: its row groups, and of its columns
    those of floats alone."""
    try:
        told = wire.Add.FromString(floats)
    except DecodeError:
        return False
    counts = [group.row_count for group in facts.row_groups]
    if [group.row_count for group in told.row_groups] != counts:
        return False
    places = {at for at, field in enumerate(schema) if is_float(field.type)}
    listed = [[each.column for each in group.columns] for group in told.row_groups]
    return all(len(set(one)) == len(one) and places.issuperset(one) for one in listed)


# --- Bounds as order-preserving signed 64-bit keys ------------------------------------------------

KeyedBound = tuple[int, bytes | None]
_FLIP: Final = 1 << 63
_SIGN_LESS: Final = (1 << 63) - 1
_INT64: Final = (-(1 << 63), (1 << 63) - 1)
MAX_KEPT_BYTES: Final = 128  # lakelog writes bounds of 64 bytes and a few; a longer one is unknown


def key_function(kind: pa.DataType) -> Callable[[bytes], KeyedBound | None]:
    """How bounds of a bound type, in their byte form (section 5.2), become keys.

    Returns:
        A function from bytes to the key and, where the key doesn't give the bound back, the bytes;
        None for what is no value of the type.
    """
    types = pa.types
    if types.is_string(kind) or types.is_binary(kind):
        return _text_key if types.is_string(kind) else _binary_key
    if types.is_decimal(kind):
        return _decimal_key
    if types.is_boolean(kind):
        return {b"\x00": (0, None), b"\x01": (1, None)}.get
    if types.is_unsigned_integer(kind):
        return lambda value: (_signed(_INT.unpack(value)[0]), None) if len(value) == 8 else None
    if types.is_float64(kind):
        return _double_key
    return _number_key(kind)


def _signed(bits: int) -> int:
    """A 64-bit pattern with its highest bit turned over: unsigned order becomes signed order."""
    return (bits & ((1 << 64) - 1) ^ _FLIP) - (1 << 64 if (bits & _FLIP) == 0 else 0)


def _number_key(kind: pa.DataType) -> Callable[[bytes], KeyedBound | None]:
    def key(value: bytes) -> KeyedBound | None:
        if len(value) != 8 or decode_bounds([value], kind).null_count:
            return None
        return _INT.unpack(value)[0], None

    def plain(value: bytes) -> KeyedBound | None:
        return (_INT.unpack(value)[0], None) if len(value) == 8 else None

    whole = pa.types.is_integer(kind) or pa.types.is_timestamp(kind)
    return plain if whole else key  # dates and times have a narrower range


def _double_key(value: bytes) -> KeyedBound | None:
    if len(value) != 8:
        return None
    bits: int = _INT.unpack(value)[0]
    if bits & 0x7FF0_0000_0000_0000 == 0x7FF0_0000_0000_0000 and bits & 0x000F_FFFF_FFFF_FFFF:
        return None  # NaN
    return (bits if bits >= 0 else bits ^ _SIGN_LESS), None


def _decimal_key(value: bytes) -> KeyedBound | None:
    if len(value) != 16:
        return None
    number = int.from_bytes(value, "little", signed=True)
    if abs(number) >= 10**38:
        return None
    clamped = min(max(number, _INT64[0]), _INT64[1])
    return clamped, None if clamped == number else value


def _text_key(value: bytes) -> KeyedBound | None:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return _binary_key(value)


def _binary_key(value: bytes) -> KeyedBound | None:
    if len(value) > MAX_KEPT_BYTES:
        return None
    key = _signed(int.from_bytes(value[:8].ljust(8, b"\0"), "big"))
    return key, value if len(value) > 8 or value[-1:] == b"\0" else None


def byte_forms(keys: pa.Array, whole: pa.Array, kind: pa.DataType) -> list[bytes | None]:
    """Bounds in their byte form (section 5.2) from their keys; None for unknown, and for a key that
    doesn't fit what stands beside it."""
    key_of = key_function(kind)

    def fits(form: bytes | None, key: int | None) -> bool:
        found = None if form is None else key_of(form)
        return found is not None and found[0] == key

    forms = _byte_forms(keys, whole, kind)
    pairs = zip(forms, keys.to_pylist(), strict=True)
    return [form if fits(form, key) else None for form, key in pairs]


def _byte_forms(keys: pa.Array, whole: pa.Array, kind: pa.DataType) -> list[bytes | None]:
    types = pa.types
    text = types.is_string(kind) or types.is_binary(kind)
    wide = types.is_decimal(kind)
    found: list[bytes | None] = []
    for key, full in zip(keys.to_pylist(), whole.to_pylist(), strict=True):
        if key is None or full is not None:
            found.append(None if key is None else full)
        elif text:
            bits = (key & ((1 << 64) - 1)) ^ _FLIP
            found.append(bits.to_bytes(8, "big").rstrip(b"\0"))
        elif types.is_boolean(kind):
            found.append(bytes([key]) if key in (0, 1) else None)
        elif types.is_unsigned_integer(kind):
            found.append((key + _FLIP).to_bytes(8, "little"))
        elif types.is_float64(kind):
            found.append(_INT.pack(key if key >= 0 else key ^ _SIGN_LESS))
        else:
            found.append(key.to_bytes(16 if wide else 8, "little", signed=True))
    return found
