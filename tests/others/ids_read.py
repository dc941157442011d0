"""The ids of rows that were read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:
    import pyarrow as pa
    from lakelog.catalog.snapshot import Snapshot


def ids_of_file(snapshot: Snapshot, writer: str, path: str) -> list[int]:
    files = snapshot.files("t", writer=writer).to_pylist()
    (url,) = (row["url"] for row in files if row["path"] == path)
    table = pq.read_table(url.removeprefix("file://"), partitioning=None)
    return list(table.column("id").to_pylist())


def ids(found: pa.Table) -> list[int]:
    return sorted(found.column("id").to_pylist())
