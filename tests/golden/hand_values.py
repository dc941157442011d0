"""Random column types and statistics for logs by hand. See `logs_by_hand`."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa
from independent_statistics import Known, bound_type, bound_value

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

TYPES = [
    pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.uint16(), pa.uint64(), pa.float32(),
    pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.decimal128(7, 2),
    pa.decimal128(38, -2), pa.date32(), pa.time32("s"), pa.time64("us"), pa.timestamp("ms"),
    pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin"), pa.list_(pa.int32()),
    pa.struct([("x", pa.int8())]), pa.duration("s"), pa.dictionary(pa.int8(), pa.string()),
    pa.float16(), pa.date64(), pa.binary(4),
]  # fmt: skip
ID = b"PARQUET:field_id"


def with_ids(schema: pa.Schema, ids: Iterable[int]) -> pa.Schema:
    """Columns with these ids, in their order."""
    pairs = zip(schema, ids, strict=True)
    return pa.schema([f.with_metadata({**(f.metadata or {}), ID: f"{n}"}) for f, n in pairs])


OPERATIONS = ["append", "delete", "overwrite", "rewrite", "row_delta", "maintenance", "größer"]
NUMBERS = [0, 1, 5, 255, 1000, 86_399, 1 << 31, (1 << 62) - 1]


def random_bound(rng: random.Random, kind: str) -> bytes:
    """Bytes that are mostly a value of a bound type."""
    if rng.random() < 0.05:
        return rng.randbytes(rng.choice([0, 1, 4, 8, 16]))
    if kind == "bool":
        return bytes([rng.randrange(2)])
    if kind == "string":
        texts = ["", "abc", "Zürich", "hamburg-altona", "x" * 64, "a\0", "12345678", "\U0010ffff"]
        return rng.choice(texts).encode()
    if kind == "binary":
        return rng.choice([b"", b"a\0", b"\xff" * 8, rng.randbytes(20), b"\0" * 9, b"\xff\xfe"])
    number = rng.choice([*NUMBERS, *(-n for n in NUMBERS)])
    if kind == "double":
        return struct.pack("<d", rng.choice([1.5, -1.5, float("inf"), 1e300, float(number)]))
    if kind.startswith("decimal"):
        wide = rng.choice([number, 10**22, -(10**22), 10**38 - 1, (1 << 63) - 1, -(1 << 63)])
        return wide.to_bytes(16, "little", signed=True)
    if kind.startswith(("uint", "time32", "time64")):
        number = abs(number)
    return number.to_bytes(8, "little", signed=kind != "uint64")


def random_known(rng: random.Random, type_: pa.DataType, rows: int, bloom: bool) -> Known:
    kind = bound_type(type_)
    nulls = rng.choice([None, 0, rows, min(rows, 1)])
    bounds: list[bytes | None] = [None, None]
    if kind is not None:
        bounds = [random_bound(rng, kind) if rng.random() < 0.8 else None for _ in range(2)]
        right = [None if b is None or bound_value(b, kind) is None else b for b in bounds]
        bounds = right if rng.random() < 0.9 else bounds
    least, greatest = bounds
    known = [
        b is not None and kind is not None and bound_value(b, kind) is not None for b in bounds
    ]
    where = (rng.choice(NUMBERS), rng.choice(NUMBERS)) if bloom and rng.random() < 0.3 else None
    return Known(
        nulls,
        least if known[0] else None,
        greatest if known[1] else None,
        known[0] and rng.random() < 0.5,
        known[1] and rng.random() < 0.5,
        where,
        kind == "double" and rng.random() < 0.5,
    )
