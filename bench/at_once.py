"""A log of millions of files in minutes: one checkpoint of rows made as columns.

The files are as those of `tables`, but without statistics, which opening doesn't read.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import tables
from lakelog.catalog.format.columns import array, column
from lakelog.catalog.format.run import Run
from lakelog.catalog.format.segments import FILES_COLUMNS, ROWS_PER_SEGMENT
from lakelog.catalog.log.files import Files
from lakelog.catalog.log.part import Part


def lakelog_table_at_once(url: str, files: int, options=None) -> None:
    """As `tables.lakelog_table`, of one table and partition."""
    writer = tables.lakelog_table(url, 0, options=options, checkpoint=False)
    starts = range(0, files, ROWS_PER_SEGMENT)
    parts = [_rows(start, min(ROWS_PER_SEGMENT, files - start), files) for start in starts]
    known = {"t": {tables.ENCODED.fingerprint}}
    state = writer._session._committer.state
    state._files = Files(None, [Part(Run.of_table(rows, "made")) for rows in parts], known=known)
    writer.checkpoint()
    writer.close()


def _rows(start: int, count: int, files: int) -> pa.Table:
    """Some of the files, whose paths are greater than those of the files before them."""
    numbers = np.arange(start, start + count, dtype=np.int64)
    thousand = np.full(count, 1000, np.int64)
    values = {
        "table": column(["t"] * count, pa.string()),
        "path": column(sorted(_path(int(n), files) for n in numbers), pa.string()),
        "partition": column(["2026-11"] * count, pa.string()),
        "size_bytes": array(1_000_000 + numbers % 1000),
        "row_count": array(thousand),
        "revision": array(np.zeros(count, np.int64)),
        "schema_fingerprint": column([tables.ENCODED.fingerprint] * count, pa.binary(16)),
        "first_clock": array(numbers),
        "last_clock": array(numbers),
        "footer_bytes": array(thousand),
        "footer_digest": column([os.urandom(8) for _ in range(count)], pa.binary(8)),
        "row_groups": array(np.ones(count, np.int32)),
    }
    return pa.Table.from_arrays([values[n] for n in FILES_COLUMNS.names], schema=FILES_COLUMNS)


def _path(number: int, files: int) -> str:
    """With digits that look random, but ascend from one piece to the next."""
    digits = f"{number * (1 << 32) // files:08x}{tables.digits(number)[8:]}"
    return f"data/2026-11/t/1-{digits}-{number}.parquet"
