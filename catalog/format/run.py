"""A run's piece: the files of one FILES segment, sorted by table and path, decoded as far as they
are asked for. Pure.

It comes from a checkpoint or a large commit and may hold 131,072 rows; it is never changed. Which
of its rows are still live is kept beside it.

Source: docs/format.md, section 6.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from . import compute as pc
from .columns import column
from .path_column import PathIndex, table_ranges
from .segments import FILES, FILES_COLUMNS, decode_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..wire import lakelog_transaction_pb2 as wire

# What opening a snapshot and listing its files needs; the rest is decoded when it is asked for.
CORE_COLUMNS: Final = (
    "table",
    "path",
    "partition",
    "size_bytes",
    "row_count",
    "revision",
    "schema_fingerprint",
    "original_revision",
)


_FEW: Final = 256  # paths that are looked up one by one in any case,
_SHARE: Final = 8  # and so are one in so many


class Run:
    """The rows of one FILES segment.

    Attributes:
        core: Columns of `CORE_COLUMNS` but `table`; one chunk, in the segment's order.
        ranges: Per table the first of its rows and the one after the last.
        key: Named in errors.
    """

    __slots__ = ("_asked", "_index", "_places", "_whole", "core", "key", "ranges")

    def __init__(self, core: pa.Table, whole: Callable[[bool], pa.Table], key: str) -> None:
        self.ranges = table_ranges(core.column("table"))
        self.core = core.drop_columns(["table"])
        self.key = key
        self._whole = whole
        self._index: PathIndex | None = None
        self._places: dict[str, dict[str, int]] = {}
        self._asked = 0

    @classmethod
    def of_segment(
        cls,
        data: memoryview | bytes,
        rows: int,
        key: str,
        again: Callable[[], memoryview | bytes] | None = None,
    ) -> Run:
        """A piece from Arrow IPC bytes; only the core columns are kept.

        Args:
            again: Reads the bytes once more when other columns are asked for; None: they are kept.
        Raises:
            CorruptObject: Not a segment of files, or not sorted.
        """
        whole = decode_segment(data, FILES, rows, key)  # what is damaged anywhere is not used
        read = again or (lambda: data)
        return cls(
            whole.select(CORE_COLUMNS),
            lambda exact: decode_segment(read(), FILES, rows, key, exact=exact),
            key,
        )

    @classmethod
    def of_table(cls, table: pa.Table, key: str) -> Run:
        """A piece from a table with the columns of FILES, sorted, of one chunk a column."""
        return cls(table.select(CORE_COLUMNS), lambda _: table, key)

    @property
    def rows(self) -> int:
        """Number of rows, live or not."""
        return int(self.core.num_rows)

    def full(self, *, exact: bool = False) -> pa.Table:
        """All columns of FILES.

        Args:
            exact: Refuse columns of a later version.
        Raises:
            CorruptObject: A column that was not decoded before is not sound.
        """
        return self._whole(exact)

    def find(self, table: str, path: str) -> int:
        """Row of a file, or -1."""
        start, end = self.ranges.get(table, (0, 0))
        if start == end:
            return -1
        if self._asked > _FEW and self._asked * _SHARE > self.rows:
            return self._place(table, path, start, end)
        self._asked += 1
        if self._index is None:
            self._index = PathIndex(self.core.column("path").chunk(0))
        return self._index.find(path, start, end)

    def _place(self, table: str, path: str, start: int, end: int) -> int:
        """The same, once so many were looked up that a dictionary of the table costs less."""
        places = self._places.get(table)
        if places is None:
            paths = self.core.column("path").slice(start, end - start).to_pylist()
            places = self._places[table] = dict(zip(paths, range(start, end), strict=True))
        return places.get(path, -1)


def files_rows(adds: Sequence[wire.Add], revisions: Sequence[int]) -> pa.Table:
    """Added files as rows of FILES, in the order given."""
    columns: list[Sequence[Any]] = [
        [add.table for add in adds],
        [add.path for add in adds],
        [add.partition for add in adds],
        [add.size_bytes for add in adds],
        [add.row_count for add in adds],
        revisions,
        [add.schema_fingerprint for add in adds],
        [add.first_clock for add in adds],
        [add.last_clock for add in adds],
        [add.footer_bytes for add in adds],
        [add.footer_digest or b"\0" * 8 for add in adds],
        [len(add.row_groups) for add in adds],
        [add.original_revision if add.HasField("original_revision") else None for add in adds],
    ]
    arrays = [column(part, item.type) for part, item in zip(columns, FILES_COLUMNS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=FILES_COLUMNS)


def original_revisions(files: pa.Table) -> pa.ChunkedArray:
    """The revision that first added each file."""
    return pc.coalesce(files.column("original_revision"), files.column("revision"))


def at_revisions(
    files: pa.Table, revisions: pa.Array, original: pa.Array | pa.ChunkedArray
) -> pa.Table:
    """The same files as added by some revisions."""
    for name, values in {"revision": revisions, "original_revision": original}.items():
        place = FILES_COLUMNS.get_field_index(name)
        files = files.set_column(place, FILES_COLUMNS.field(place), values)
    return files
