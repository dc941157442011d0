"""The order in which the files of a table are read: that of the commits which added them. Pure.

A log keeps its files by path, and a path begins with the random id of its transaction: rows read in
that order come otherwise than they were committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..format import compute as pc

if TYPE_CHECKING:
    import pyarrow as pa

# The end of `names.data_path`: epoch, transaction id, number of the file.
_NUMBERED: Final = r"/[1-9][0-9]{0,18}-[0-9a-f]{32}-(?P<number>[0-9]{1,9})\.parquet$"


def by_commit(files: pa.Table) -> pa.Table:
    """Files of one log by revision; those of one revision by logical clock, then in the order in
    which they were written, other names after them by path.

    Args:
        files: With path, revision and first_clock.
    """
    number = file_numbers(files.column("path"))
    keys = ("revision", "first_clock", "number", "path")
    order = pc.sort_indices(
        files.select([key for key in keys if key != "number"]).append_column("number", number),
        sort_keys=[(key, "ascending") for key in keys],
    )
    return files.take(order)


def file_numbers(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which file of its transaction each is, as its name says; null for other names."""
    numbered = pc.extract_regex(paths, _NUMBERED)
    return pc.cast(pc.struct_field(numbered, "number"), "int32")
