"""Writes the statistics segments that TestStatisticsOfAnotherWriter reads, by pyarrow alone:

    python testdata/make_statistics.py

Of a part of 40 files, of the columns `n` (int64, all files) and `s` (string, every third), with
columns that are not ours among ours; and of the row groups of its files 1 and 39, of `n`.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

FILES = 40
EMPTY = -(1 << 63)  # the key of the empty text


def batch(column: list[int], delta: list[int], group: list[int] | None = None) -> pa.RecordBatch:
    """Bounds of `n` are the row and the row plus 1,000; of `s` nothing and a text of 9 bytes."""
    rows: list[int] = []
    for place, step in zip(column, delta, strict=True):
        rows.append(step if len(rows) == column.index(place) else rows[-1] + step)
    number = [place == 0 for place in column]
    high = int.from_bytes(b"hamburg-", "big") - (1 << 63)
    whole = [None if n else b"hamburg-" + bytes([97 + row % 26]) for n, row in zip(number, rows)]
    arrays = {
        "bloom_bytes": pa.array([None if n else 64 for n in number], pa.int64()),
        "not_ours": pa.array([[{"a": "x" * row, "b": None}] for row in rows]),
        "column": pa.array(column, pa.int32()),
        "row_delta": pa.array(delta, pa.int32()),
        "null_count": pa.array([row if n else -1 for n, row in zip(number, rows)], pa.int64()),
        "min": pa.array([row if n else EMPTY for n, row in zip(number, rows)], pa.int64()),
        "max": pa.array([row + 1000 if n else high for n, row in zip(number, rows)], pa.int64()),
        "nor_this": pa.array(["view"] * len(rows), pa.string_view()),
        "min_bytes": pa.array([None] * len(rows), pa.binary()),
        "max_bytes": pa.array(whole, pa.binary()),
        "exact": pa.array([row % 4 for row in rows], pa.uint8()),
        "bloom_offset": pa.array([None if n else row for n, row in zip(number, rows)], pa.int64()),
    }
    if group is not None:
        arrays["row_group"] = pa.array(group, pa.int32())
    return pa.RecordBatch.from_pydict(arrays)


def write(name: str, rows: pa.RecordBatch, codec: str | None) -> None:
    """One Arrow IPC file of one record batch."""
    options = pa.ipc.IpcWriteOptions(compression=codec)
    path = Path(__file__).with_name(f"{name}.arrow")
    with pa.ipc.new_file(str(path), rows.schema, options=options) as writer:
        writer.write_batch(rows)


if __name__ == "__main__":
    thirds = len(range(0, FILES, 3))
    of_files = batch([0] * FILES + [1] * thirds, [0] + [1] * (FILES - 1) + [0] + [3] * (thirds - 1))
    of_groups = batch([0] * 4, [1, 0, FILES - 2, 0], [0, 1, 0, 1])
    for name, codec in (("plain", None), ("zstd", "zstd")):
        write(f"statistics-{name}", of_files, codec)
        write(f"group-statistics-{name}", of_groups, codec)
