"""What statistics take in the log, per file and column, beside the typed bounds themselves: the
same minima and maxima as the buffers of Arrow columns, in the same order, each compressed.

    python bench/bounds.py [--share 1.0]

Nothing is stored: the log is built in memory. `--share` scales all sizes, for a look. Null counts,
exactness, the places of rows, names of columns and all framing are in ours, not in the bounds.
"""

from __future__ import annotations

import argparse
import struct
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import tables
from lakelog.catalog.format.schema import EncodedSchema, encode_schema
from lakelog.catalog.format.segments import STATISTICS
from lakelog.catalog.format.statistics import bound_type, byte_forms, decode_bounds
from lakelog.catalog.format.statistics_rows import unpack_statistics
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.testing.logs import LogBuilder, numbered

KINDS = (pa.int64(), pa.timestamp("us", "UTC"), pa.float64(), pa.string())
STEP = 20_000
ZSTD = pa.Codec("zstd", compression_level=1)


def schema_of(columns: int) -> pa.Schema:
    return pa.schema([(f"c{n:04d}", KINDS[n % len(KINDS)]) for n in range(columns)])


def bounds(number: int, column: int) -> tuple[bytes, bytes]:
    """Bounds of one column of one file, as different from file to file as real ones are."""
    seed = ((number * 1009 + column + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 20
    low, width = seed % 1_000_000_007, seed % 997
    match column % len(KINDS):
        case 0:
            return struct.pack("<q", low), struct.pack("<q", low + width)
        case 1:
            at = tables.START_US + number * 3_600_000_000 + low % 1000
            return struct.pack("<q", at), struct.pack("<q", at + 3_599_000_000 + width)
        case 2:
            return struct.pack("<d", low / 1000), struct.pack("<d", (low + width) / 1000)
    return b"station-%07d" % (low % 10**7), b"station-%07d" % (low % 10**7 + width)


def action(number: int, table: str, encoded: EncodedSchema, columns: int, rows: int) -> wire.Action:
    add = wire.Add(
        path=tables.path(number, table=table),
        table=table,
        partition="2026-11",
        size_bytes=1_000_000,
        row_count=rows,
        schema_fingerprint=encoded.fingerprint,
        first_clock=number,
        last_clock=number,
        footer_bytes=900,
        footer_digest=bytes.fromhex(tables.digits(number)[:16]),
    )
    group = add.row_groups.add(row_count=rows)
    for column in range(columns):
        low, high = bounds(number, column)
        if rows == 1:
            high = low
        group.columns.add(
            column=column, null_count=0, min=low, max=high, min_exact=True, max_exact=True
        )
    return wire.Action(add=add)


def transactions(
    names: list[str], files: int, columns: int, rows: int, *, at_once: bool
) -> Iterator[list[wire.Action]]:
    """The actions of each transaction: schemas, then so many files for each table."""
    encoded = encode_schema(numbered(schema_of(columns)))
    pending: list[wire.Action] = []
    for name in names:
        item = wire.Schema(
            table=name, fingerprint=encoded.fingerprint, arrow_schema=encoded.message
        )
        pending.append(wire.Action(schema=item))
        if len(pending) >= 5_000 and not at_once:
            yield pending
            pending = []
    number = 0
    for _ in range(files):
        for name in names:
            pending.append(action(number, name, encoded, columns, rows))
            number += 1
            if len(pending) >= STEP and not at_once:
                yield pending
                pending = []
    yield pending


def typed_bounds(builder: LogBuilder, schema: pa.Schema, pieces) -> tuple[int, int]:
    """Bytes of the bounds alone, piece by piece and column by column; how many rows those are."""
    size = count = 0
    for piece in pieces:
        names = list(piece.segment.columns)
        data = builder.state.bytes_of([piece])[0]
        rows = unpack_statistics(data, STATISTICS, piece.rows, names, piece.where)
        count += rows.num_rows
        codes = rows["column"].combine_chunks().dictionary_encode()
        for code, name in enumerate(codes.dictionary.to_pylist()):
            part = rows.filter(pc.equal(codes.indices, code)).combine_chunks()
            kind = bound_type(schema.field(name).type)
            for end in ("min", "max"):
                keys, whole = part[end].chunk(0), part[f"{end}_bytes"].chunk(0)
                size += compressed(decode_bounds(byte_forms(keys, whole, kind), kind))
    return size, count


def compressed(array: pa.Array) -> int:
    """Bytes of an array's values, each buffer compressed if that makes it smaller; no names, no
    framing."""
    array = pa.concat_arrays([array])
    _, *buffers = array.buffers()
    if len(buffers) == 1:
        exact = [buffers[0].slice(0, len(array) * array.type.bit_width // 8)]
    else:
        offsets = buffers[0].slice(0, (len(array) + 1) * 4)
        end = int.from_bytes(offsets.slice(len(array) * 4, 4).to_pybytes(), "little")
        exact = [offsets, buffers[1].slice(0, end)]
    assert not array.null_count
    return sum(min(buffer.size, ZSTD.compress(buffer).size) for buffer in exact)


def measure(
    what: str, names: list[str], files: int, columns: int, *, rows: int = 1000,
    at_once: bool = False,
) -> None:  # fmt: skip
    builder = LogBuilder()
    largest, start = 0, time.perf_counter()
    for actions in transactions(names, files, columns, rows, at_once=at_once):
        builder.commit(*actions)
        largest = max(largest, len(builder.objects[-1][1]))
        builder.objects.clear()
        builder.transactions.clear()
    built_s, start = time.perf_counter() - start, time.perf_counter()
    encoded = builder.checkpoint()
    taken_s = time.perf_counter() - start
    pieces = [piece for piece in encoded.pieces if piece.kind == STATISTICS]
    ours = sum(piece.length for piece in pieces)
    whole = len(encoded.body) + sum(len(body) for _, body in encoded.segments)
    typed, count = typed_bounds(builder, schema_of(columns), pieces)
    assert count == len(names) * files * columns, (count, len(names), files, columns)
    tables.row(
        what, f"{ours / count:.1f}", f"{typed / count:.1f}", f"{ours / typed:.2f}",
        f"{ours / 1e6:.2f} MB", f"{whole / 1e6:.2f} MB, {taken_s:.1f} s",
        f"{largest / 1e6:.2f} MB", f"{built_s:.0f} s",
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0)
    share = parser.parse_args().share

    def some(number: int) -> int:
        return max(1, int(number * share))

    print("## Statistics in a checkpoint: bytes per file and column")
    tables.head(
        "what", "lakelog", "typed bounds", "ratio", "statistics", "whole checkpoint",
        "largest transaction", "building it",
    )  # fmt: skip
    columns, many = some(1_000), some(500)
    measure(f"1 file of {columns:,} columns", ["t"], 1, columns)
    one_row = [f"t{n:06d}" for n in range(many)]
    measure(
        f"{many:,} one-row tables, 4 columns, one transaction", one_row, 1, 4, rows=1, at_once=True
    )
    files, several = some(1_000_000), some(100_000)
    measure(f"{files:,} files of 20 columns", ["t"], files, 20)
    names = [f"t{n:06d}" for n in range(several)]
    measure(f"{several:,} tables of 5 files, 4 columns", names, 5, 4)


if __name__ == "__main__":
    main()
