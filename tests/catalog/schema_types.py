"""Types of columns, some of each family."""

from __future__ import annotations

import pyarrow as pa

INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]

UINTS = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]

FLOATS = [pa.float16(), pa.float32(), pa.float64()]

DECIMALS = [
    pa.decimal128(5, 2),
    pa.decimal128(9, 0),
    pa.decimal128(20, 10),
    pa.decimal128(38, 38),
    pa.decimal128(38, 0),
    pa.decimal256(60, 30),
]

TIMES = [
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    pa.timestamp("s"),
    pa.timestamp("ns"),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("us", "Europe/Berlin"),
    pa.timestamp("us", "UTC"),
    pa.duration("s"),
    pa.duration("us"),
]

TEXTS = [
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(4),
    pa.dictionary(pa.int8(), pa.string()),
    pa.bool_(),
    pa.null(),
]

NESTED = [
    pa.list_(pa.int8()),
    pa.list_(pa.int64()),
    pa.large_list(pa.float32()),
    pa.list_(pa.string()),
    pa.struct([("x", pa.int8())]),
    pa.struct([("x", pa.int64()), ("y", pa.string())]),
    pa.struct([("y", pa.large_string()), ("x", pa.int16())]),
    pa.struct([("z", pa.list_(pa.int32()))]),
    pa.struct([("x", pa.decimal128(5, 2))]),
    pa.map_(pa.string(), pa.int32()),
]

TYPES = [*INTS, *UINTS, *FLOATS, *DECIMALS, *TIMES, *TEXTS, *NESTED]
