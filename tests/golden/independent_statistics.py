"""Statistics for the independent reader: docs/format.md, sections 5.2 and 6.5."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from independent_ipc import storage
from independent_wire import BIG

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from independent_wire import Message

PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
FAMILIES = {
    "int64": ("int8", "int16", "int32", "int64"),
    "uint64": ("uint8", "uint16", "uint32", "uint64"),
    "double": ("float", "double"),
    "string": ("string", "large_string", "string_view"),
    "binary": ("binary", "large_binary", "binary_view"),
}
ALONE = ("bool", "date32[day]", "time32[s]", "time32[ms]", "time64[us]", "time64[ns]")


@dataclass(frozen=True)
class Known:
    """What is known of a column of a file or row group; bounds in their byte form."""

    nulls: int | None = None
    least: bytes | None = None
    greatest: bytes | None = None
    least_exact: bool = False
    greatest_exact: bool = False
    bloom: tuple[int, int] | None = None
    no_nan: bool = False

    def __bool__(self) -> bool:
        said = (self.nulls, self.least, self.greatest, self.bloom)
        return self.no_nan or said != (None,) * 4


def bound_type(kind: pa.DataType) -> str | None:
    """The bound type of a column's type; None if it has no bounds."""
    kind, types = storage(kind), pa.types
    if types.is_dictionary(kind):
        return bound_type(kind.value_type)
    if types.is_timestamp(kind):
        return f"timestamp[{kind.unit}, tz=UTC]" if kind.tz else f"timestamp[{kind.unit}]"
    if types.is_decimal128(kind):
        return f"decimal128(38, {kind.scale})"
    name = str(kind)
    for family, members in FAMILIES.items():
        if name in members:
            return family
    return name if name in ALONE else None


def bound_value(raw: bytes, kind: str) -> Any:
    """A bound as a plain value that sorts as the format says; None for unknown."""
    if kind == "bool":
        return {b"\0": False, b"\1": True}.get(raw)
    if kind == "string":
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError:
            return None
        return raw
    if kind == "binary":
        return raw
    if kind.startswith("decimal"):
        number = int.from_bytes(raw, "little", signed=True)
        return number if len(raw) == 16 and abs(number) < 10**38 else None
    if len(raw) != 8:
        return None
    if kind == "double":
        real = struct.unpack("<d", raw)[0]
        return real if real == real else None
    number = int.from_bytes(raw, "little", signed=kind != "uint64")
    if kind.startswith(("time32", "time64")):
        return number if 0 <= number < PER_DAY[kind[7:-1]] else None
    return None if kind.startswith("date32") and not -(1 << 31) <= number < 1 << 31 else number


# --- Keys -----------------------------------------------------------------------------------------

LOW, HIGH = -(1 << 63), (1 << 63) - 1


def flip(bits: int) -> int:
    """The signed bits of a double as a number in its order, and back again."""
    return bits if bits >= 0 else bits ^ HIGH


def key_of(raw: bytes, kind: str) -> int:
    """The key of a bound that is a value of its type."""
    if kind == "bool":
        return raw[0]
    if kind in ("string", "binary"):
        return int.from_bytes(raw[:8].ljust(8, b"\0"), "big") + LOW
    number = int.from_bytes(raw, "little", signed=kind != "uint64")
    if kind == "uint64":
        return number + LOW
    if kind == "double":
        return flip(number)
    return max(LOW, min(HIGH, number))


def from_key(key: int, kind: str) -> bytes | None:
    """The bytes that a key gives back; they need not be a value of the type."""
    if kind == "bool":
        return bytes([key]) if key in (0, 1) else None
    if kind in ("string", "binary"):
        return (key - LOW).to_bytes(8, "big").rstrip(b"\0")
    if kind == "uint64":
        return (key - LOW).to_bytes(8, "little")
    width = 16 if kind.startswith("decimal") else 8
    return (flip(key) if kind == "double" else key).to_bytes(width, "little", signed=True)


def bound_of(key: int | None, raw: bytes | None, kind: str) -> bytes | None:
    """The bound that a row of a segment tells."""
    if key is None:
        return None
    told = from_key(key, kind) if raw is None else raw
    if told is None or bound_value(told, kind) is None:
        return None
    return told if raw is None or key_of(told, kind) == key else None


def count(value: int | None) -> int | None:
    return value if value is not None and 0 <= value < BIG else None


def bloom_of(offset: int | None, size: int | None) -> tuple[int, int] | None:
    start, length = count(offset), count(size)
    return None if start is None or length is None else (start, length)


def known_of(row: Mapping[str, Any], kind: str | None, bloom: bool) -> Known:
    """What a row of STATISTICS or ROW_GROUP_STATISTICS says."""
    least = bound_of(row["min"], row["min_bytes"], kind) if kind else None
    greatest = bound_of(row["max"], row["max_bytes"], kind) if kind else None
    return Known(
        count(row["null_count"]),
        least,
        greatest,
        least is not None and bool(row["exact"] & 1),
        greatest is not None and bool(row["exact"] & 2),
        bloom_of(row["bloom_offset"], row["bloom_bytes"]) if bloom else None,
        kind == "double" and bool(row["exact"] & 4),
    )


# --- Row groups of an Add -------------------------------------------------------------------------


def group_statistics(group: Message, schema: pa.Schema) -> dict[int, Known]:
    """What is known of each column of a row group, by position."""
    found: dict[int, Known] = {}
    positions = [item.column for item in group.columns]
    for item in group.columns:
        if item.column >= len(schema):
            continue
        kind = bound_type(schema.field(item.column).type)
        least, greatest = (
            item.values[name] if name in item.there and kind is not None else None
            for name in ("min", "max")
        )
        if least is not None and bound_value(least, kind or "") is None:
            least = None
        if greatest is not None and bound_value(greatest, kind or "") is None:
            greatest = None
        known = Known(
            count(item.null_count if "null_count" in item.there else None),
            least,
            greatest,
            least is not None and item.min_exact,
            greatest is not None and item.max_exact,
            bloom_of(
                item.bloom_offset if "bloom_offset" in item.there else None,
                item.bloom_bytes if "bloom_bytes" in item.there else None,
            ),
            kind == "double" and item.no_nan,
        )
        found[item.column] = known if positions.count(item.column) == 1 else Known()
    return found


def merge(parts: Sequence[tuple[int, Mapping[int, Known]]], schema: pa.Schema) -> dict[int, Known]:
    """Statistics of a whole file from those of its row groups, each with its row count."""
    if len(parts) == 1:
        return dict(parts[0][1])
    merged: dict[int, Known] = {}
    for position in range(len(schema)) if parts else ():
        if all(position in known for _, known in parts):
            kind = bound_type(schema.field(position).type)
            merged[position] = merge_column([(n, known[position]) for n, known in parts], kind)
    return merged


def merge_column(parts: Iterable[tuple[int, Known]], kind: str | None) -> Known:
    parts = list(parts)
    nulls = [known.nulls for _, known in parts]
    total = sum(n for n in nulls if n is not None) if None not in nulls else None
    full = [known for rows, known in parts if known.nulls != rows]
    least = greatest = None
    if kind and full and all(known.least is not None for known in full):
        least = min(full, key=lambda known: bound_value(known.least or b"", kind))
    if kind and full and all(known.greatest is not None for known in full):
        # Of equal ones the last counts, and max() gives the first.
        order = sorted(full, key=lambda known: bound_value(known.greatest or b"", kind))
        greatest = order[-1]
    return Known(
        count(total),
        least.least if least else None,
        greatest.greatest if greatest else None,
        bool(least and least.least_exact),
        bool(greatest and greatest.greatest_exact),
        no_nan=kind == "double" and not any(not known.no_nan for known in full),
    )
