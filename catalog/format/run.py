"""A sorted run of the files of one table, and what a large commit brings as one. Pure.

A run comes from a checkpoint or a large commit and may hold a million rows; it is never rewritten
in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..wire.lakelog_checkpoint_pb2 import SegmentRef
from . import segments
from .path_column import PathIndex
from .segment_bytes import decode_segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..wire import lakelog_transaction_pb2 as wire

# What opening a snapshot and listing its files needs; the rest is decoded when it is asked for.
CORE_COLUMNS: Final = (
    "path",
    "partition",
    "size_bytes",
    "row_count",
    "revision",
    "schema_fingerprint",
)


class Run:
    """Files sorted by path, without repeats.

    Statistics columns are decoded from the segment's bytes only when somebody asks for them.
    """

    __slots__ = ("_index", "_raw", "_rows", "core", "key")

    def __init__(self, core: pa.Table, raw: memoryview | bytes | pa.Table, key: str) -> None:
        self.core = core
        self.key = key
        self._raw = raw
        self._rows = core.num_rows
        self._index: PathIndex | None = None

    @classmethod
    def of_segment(cls, data: memoryview | bytes, rows: int, key: str) -> Run:
        """A run from Arrow IPC bytes; only the core columns are decoded now.

        Raises:
            CorruptObject: Not a segment of files, or not sorted.
        """
        core = decode_segment(data, SegmentRef.FILES, rows, key, columns=CORE_COLUMNS)
        return cls(core, data, key)

    @classmethod
    def of_table(cls, table: pa.Table, key: str) -> Run:
        """A run from a table with the columns of `segments.FILES` and any statistics columns,
        sorted by path."""
        return cls(table.select(CORE_COLUMNS), table, key)

    def full(self) -> pa.Table:
        """All columns, statistics included."""
        if isinstance(self._raw, pa.Table):
            return self._raw
        return decode_segment(self._raw, SegmentRef.FILES, self._rows, self.key)

    def without(self, gone: pa.Array) -> Run:
        """This run, or one without these paths."""
        hit = pc.is_in(self.core.column("path"), gone)
        if not pc.any(hit).as_py():
            return self
        return Run.of_table(self.full().filter(pc.invert(hit)), self.key)

    def find(self, path: str) -> int:
        """Row of a path, or -1."""
        if self._index is None:
            self._index = PathIndex(self.core.column("path"))
        return self._index.find(path)


RawSegment = tuple[memoryview | bytes, int, str]


@dataclass(frozen=True, slots=True)
class Batch:
    """A decoded `AddBatch`.

    Attributes:
        run: Its files.
        row_groups: Its ROW_GROUPS segment, raw: bytes, row count, key; None if it has none.
    """

    run: Run
    row_groups: RawSegment | None


def sorted_by_path(table: pa.Table, *more: str) -> pa.Table:
    """The table in ascending order of path (as UTF-8 bytes), then of `more`; untouched if it is so
    already."""
    paths = table.column("path").combine_chunks()
    if isinstance(paths, pa.ChunkedArray):
        paths = pa.concat_arrays(paths.chunks)
    if not more and (len(paths) < 2 or pc.all(pc.less(paths[:-1], paths[1:])).as_py()):
        return table
    keys = [("path", "ascending"), *((name, "ascending") for name in more)]
    return table.take(pc.sort_indices(table, sort_keys=keys))


def batch_rows(
    adds: Sequence[wire.Add], revision: int, schemas: dict[bytes, pa.Schema]
) -> tuple[pa.Table, pa.Table]:
    """Adds of one transaction as the two tables of an `AddBatch`: files (sorted by path, with
    statistics), row groups."""
    ordered = sorted(adds, key=lambda add: add.path.encode())
    table = segments.files_table(ordered, [revision] * len(ordered))
    return segments.with_statistics(table, ordered, schemas), segments.row_groups_table(
        ordered, schemas
    )
