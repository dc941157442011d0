"""What statistics take in a log beside the bounds themselves."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.format.segments import STATISTICS, encode_ipc
from lakelog.catalog.format.statistics_rows import statistics_rows
from lakelog.catalog.log.merge import pieces_of
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.testing.logs import add_action, numbered

KINDS = {
    "number": pa.int64(), "time": pa.timestamp("us"), "float": pa.float64(), "text": pa.string(),
}  # fmt: skip
SCHEMA = pa.schema(KINDS.items())
ZSTD = pa.Codec("zstd", compression_level=1)


def bounds(rng: random.Random, number: int) -> list[tuple[object, object]]:
    low, width = rng.randrange(10**9), rng.randrange(1000)
    at = 1_700_000_000_000_000 + number * 3_600_000_000
    return [
        (low, low + width),
        (at + rng.randrange(1000), at + 3_599_000_000 + rng.randrange(1000)),
        (low / 1000, (low + width) / 1000),
        (f"station-{low % 10**7:07d}", f"station-{low % 10**7 + width:07d}"),
    ]


def as_bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return struct.pack("<q" if isinstance(value, int) else "<d", value)


@pytest.mark.parametrize("files", [1_000, 20_000])
def test_statistics_take_at_most_half_as_much_again_as_compressed_bounds(files):
    rng = random.Random(files)
    values = [bounds(rng, number) for number in range(files)]
    adds = []
    for number, own in enumerate(values):
        columns = [
            wire.ColumnStatistics(
                column=place, null_count=rng.randrange(3), min=as_bytes(low), max=as_bytes(high),
                min_exact=True, max_exact=True,
            )
            for place, (low, high) in enumerate(own)
        ]  # fmt: skip
        group = wire.RowGroup(row_count=10, columns=columns)
        adds.append(add_action(f"data/{number:06d}", schema=SCHEMA, row_groups=[group]).add)
    fingerprint = encode_schema(numbered(SCHEMA)).fingerprint
    found = statistics_rows(adds, {("t", fingerprint): SCHEMA}).files
    assert found.num_rows == files * len(KINDS)
    ours = sum(len(encode_ipc(rows)) for rows, _ in pieces_of(STATISTICS, found))
    arrays = [
        pa.array([own[place][side] for own in values], kind)
        for place, kind in enumerate(KINDS.values())
        for side in (0, 1)
    ]
    theirs = sum(
        len(ZSTD.compress(buffer, asbytes=True))
        for array in arrays
        for buffer in array.buffers()
        if buffer is not None
    )
    assert ours <= 1.5 * theirs, ours / theirs
