"""The order in which the files of a table are read: that of the commits which first added them.
Pure.

A log keeps its files by path, and a path begins with the random id of its transaction: rows read in
that order come otherwise than they were committed. A file that is added again, as by a restore,
keeps its place. Which deletes hold of it goes by the revision that added it last.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from ..format import compute as pc
from ..format.columns import column
from ..format.run import original_revisions

_FEW: Final = 64  # names that are looked at sooner than Arrow has compiled the pattern
# The end of `names.data_path`: epoch, transaction id, number of the file.
_NUMBERED: Final = r"/[1-9][0-9]{0,18}-[0-9a-f]{32}-(?P<number>[0-9]{1,9})\.parquet"
_END: Final = re.compile(_NUMBERED + r"\Z")


def by_commit(files: pa.Table) -> pa.Table:
    """Files of one log by the revision that first added them; those of one revision by logical
    clock, then in the order in which they were written, other names after them by path.

    Args:
        files: With path, revision, original_revision and first_clock.
    """
    if files.num_rows < 2:
        return files
    rows = (
        files.select(["first_clock", "path"])
        .append_column("original", original_revisions(files))
        .append_column("number", file_numbers(files.column("path")))
    )
    keys = ("original", "first_clock", "number", "path")
    return files.take(pc.sort_indices(rows, sort_keys=[(key, "ascending") for key in keys]))


def file_numbers(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which file of its transaction each is, as its name says; null for other names."""
    if len(paths) <= _FEW:
        found = [_END.search(path) for path in paths.to_pylist()]
        few = [None if match is None else int(match["number"]) for match in found]
        return pa.chunked_array([column(few, pa.int32())])
    numbered = pc.extract_regex(paths, _NUMBERED + "$")
    return pc.cast(pc.struct_field(numbered, "number"), "int32")
