"""What tests of files that lie elsewhere share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from lakelog.catalog.format.names import location_id

if TYPE_CHECKING:
    from pathlib import Path

    from lakelog.catalog.catalog import Catalog

HERE = location_id("file://")


def parquet(path: Path, *values: object, **columns: list[object]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns or {"a": list(values)}), path)
    return str(path)


def values(catalog: Catalog, **options: object) -> list[int]:
    found = catalog.snapshot("db").scan("t", **options).read_all().column("a").to_pylist()
    return sorted(found)
