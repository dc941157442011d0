"""Files that tests of `lakelog write` make, and what they ask of the table."""

from __future__ import annotations

from pathlib import Path

import lakelog
import pyarrow as pa


def put(files: dict[str, str | bytes]) -> list[str]:
    """Write files into the working directory; their names."""
    for name, body in files.items():
        Path(name).write_bytes(body.encode() if isinstance(body, str) else body)
    return list(files)


def wrote(cli, files, *options, url="cat"):
    """The result of `lakelog write` of some files to table t."""
    return cli("write", url, "db", "t", *put(files), "--writer", "W", *options)


def read(url="cat", table="t") -> pa.Table:
    return lakelog.open_catalog(url).snapshot("db").to_arrow(table)


def nothing_written(url="cat") -> bool:
    """Whether not even a data file was uploaded."""
    return not [path for path in Path(url).rglob("*.parquet")]
