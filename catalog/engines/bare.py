"""Files of a table that DuckDB may read by its own Parquet reader, which is several times as fast
as a stream of Arrow: for tables where that gives the very same rows.

That reader knows nothing of the log and verifies no checksum. So before each query the files are
held against the log; and once in a process the pages against their checksums, of the columns that
are asked for. Only files that lakelog wrote itself, of one schema and of types that both ways of
reading give alike.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import CorruptObject, LakelogError
from ..data.parquet import UNKNOWN_DIGEST
from ..format.columns import numbers
from ..format.names import parse_data_file
from ..format.schema import partition_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...store import Store
    from ..data.file_part import FilePart
    from ..data.unify import FileSchema
    from .bare_deletes import LeftRows

MOST_FILES: Final = 256  # each is opened for every query, whatever it asks for
MOST_BYTES: Final = 1 << 29  # of which all pages may have to be read once
LEAST_ROWS: Final = 100_000  # below, the stream is as quick
_PATTERN: Final = re.compile(r"[*?\[\]]")
_AT_ONCE: Final = 4

# What DuckDB makes of a type, by either way of reading, and how lakelog's files hold it.
_TYPES: Final = {
    pa.bool_(): ("BOOLEAN", "BOOLEAN", "NONE"),
    pa.int8(): ("TINYINT", "INT32", "INT"),
    pa.int16(): ("SMALLINT", "INT32", "INT"),
    pa.int32(): ("INTEGER", "INT32", "NONE"),
    pa.int64(): ("BIGINT", "INT64", "NONE"),
    pa.uint8(): ("UTINYINT", "INT32", "INT"),
    pa.uint16(): ("USMALLINT", "INT32", "INT"),
    pa.uint32(): ("UINTEGER", "INT32", "INT"),
    pa.uint64(): ("UBIGINT", "INT64", "INT"),
    pa.float32(): ("FLOAT", "FLOAT", "NONE"),
    pa.float64(): ("DOUBLE", "DOUBLE", "NONE"),
    pa.string(): ("VARCHAR", "BYTE_ARRAY", "STRING"),
    pa.large_string(): ("VARCHAR", "BYTE_ARRAY", "STRING"),
    pa.binary(): ("BLOB", "BYTE_ARRAY", "NONE"),
    pa.large_binary(): ("BLOB", "BYTE_ARRAY", "NONE"),
    pa.date32(): ("DATE", "INT32", "DATE"),
}


class BareFiles:
    """The files of one table, by path.

    Attributes:
        paths: In the order of the rows.
        left: Which of their rows deletes leave.
        wanted: Columns that a query asks for; None: not known, so all.
    """

    def __init__(
        self,
        store: Store,
        parts: Sequence[FilePart],
        paths: Sequence[str],
        schema: pa.Schema,
        left: LeftRows,
    ) -> None:
        self._store = store
        self._parts = parts
        self._schema = schema
        self._seen: dict[str, tuple[tuple[int, ...], frozenset[str]]] = {}
        self.paths = list(paths)
        self.left = left
        self.wanted: frozenset[str] | None = None
        self._tell: Callable[[LakelogError], None] = lambda _: None

    def telling(self, tell: Callable[[LakelogError], None]) -> BareFiles:
        """The same, and errors go to `tell` as well: DuckDB gives their words only."""
        self._tell = tell
        return self

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Names of the columns, and their types as DuckDB calls them."""
        return [(field.name, _named(field.type)[0]) for field in self._schema]

    def named_in(self, plan: str) -> frozenset[str]:
        """The columns whose names a plan of DuckDB's has somewhere, which are at least those that
        it reads; names that would stand there otherwise count, too."""
        names = self._schema.names
        return frozenset(n for n in names if n in plan or not n.isprintable() or '"' in n)

    def check(self) -> None:
        """Hold all files against the log, and what a query asks for against its checksums, as far
        as that wasn't done before on these very files.

        Raises:
            ObjectNotFound, CorruptObject, AccessDenied.
        """
        wanted = frozenset(self._schema.names) if self.wanted is None else self.wanted
        wanted |= self.left.columns
        new = [
            (part, path)
            for part, path in zip(self._parts, self.paths, strict=True)
            if not self._is_seen(path, wanted)
        ]
        if not new:
            return
        from concurrent.futures import ThreadPoolExecutor

        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(lambda each: self._check(each[0], each[1], wanted), new))
        except LakelogError as error:
            self._tell(error)
            raise

    def bits(self, chunk: int) -> bytes:
        """As `LeftRows.bits`."""
        try:
            return self.left.bits(chunk)
        except LakelogError as error:
            self._tell(error)
            raise

    def _is_seen(self, path: str, wanted: frozenset[str]) -> bool:
        identity, columns = self._seen.get(path, ((), frozenset()))
        return wanted <= columns and identity == _identity(path)

    def _check(self, part: FilePart, path: str, wanted: frozenset[str]) -> None:
        from ..data.pages import check_pages

        identity = _identity(path)
        old, columns = self._seen.get(path, ((), frozenset()))
        if old != identity:
            columns = frozenset()
        metadata = check_pages(self._store, part, wanted - columns)
        if not _as_written(metadata, self._schema):
            raise CorruptObject(
                f"{part.key} has the name of a file that lakelog wrote, and isn't one",
                key=part.key,
                hint="`scan` reads it; add files under names of their own",
            )
        self._seen[path] = identity, columns | wanted


def bare_files(
    store: Store,
    schemas: Sequence[FileSchema],
    schema: pa.Schema,
    held: Callable[[], Sequence[pa.Table]],
    parts: Callable[[], Sequence[FilePart]],
) -> BareFiles | None:
    """The files of a table, if DuckDB may read them itself.

    Args:
        schemas: That the files have.
        schema: That they are read with.
        held: The files as logs know them.
        parts: The same with what reading them needs.
    """
    if not _are_alike(store, schemas, schema) or not _fit(held()):
        return None
    found = parts()
    if not all(_known(store, part) for part in found):
        return None
    from .bare_deletes import left_rows

    paths = [_path(store, part) for part in found]
    left = left_rows(store, found, paths, schema, _named)
    return None if left is None else BareFiles(store, found, paths, schema, left)


def _fit(files: Sequence[pa.Table]) -> bool:
    """Whether files, as logs know them, are so few and so large that it is quicker for DuckDB to
    open each."""
    if not 0 < sum(rows.num_rows for rows in files) <= MOST_FILES:
        return False
    rows, size = (
        sum(int(numbers(each.column(name)).sum()) for each in files)
        for name in ("row_count", "size_bytes")
    )
    return rows >= LEAST_ROWS and size <= MOST_BYTES


def _are_alike(store: Store, schemas: Sequence[FileSchema], schema: pa.Schema) -> bool:
    """By all that is known without the files: types, and that one schema is that of all."""
    if store.local_path("data") is None or not len(schema):
        return False
    names = [name.lower() for name in schema.names]
    if len(set(names)) < len(names) or not all(_named(field.type) for field in schema):
        return False
    own = [(field.name, field.type) for field in schema]
    return all([(field.name, field.type) for field in item.schema] == own for item in schemas)


def _known(store: Store, part: FilePart) -> bool:
    """Whether lakelog wrote a file, by its name, and the log knows its footer; no name that DuckDB
    would take for a pattern."""
    if not part.footer_bytes or part.footer_digest == UNKNOWN_DIGEST:
        return False
    path = store.local_path(part.key)
    own = parse_data_file(part.key) is not None and not partition_columns(part.schema)
    own = own and (part.shown is None or part.shown.is_as_stored)
    return own and path is not None and _PATTERN.search(path) is None


def _path(store: Store, part: FilePart) -> str:
    path = store.local_path(part.key)
    assert path is not None
    return path


def _identity(path: str) -> tuple[int, ...]:
    """What changes when a file is replaced or written to; empty if it isn't there."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _named(kind: pa.DataType) -> tuple[str, ...]:
    """A type as DuckDB calls it, and how a column of it is stored; nothing where the two ways of
    reading might differ."""
    if pa.types.is_decimal128(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})", "", "DECIMAL"
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        zone = " WITH TIME ZONE" if kind.tz else ""
        return f"TIMESTAMP{zone}", "INT64", "TIMESTAMP"
    return _TYPES.get(kind, ())


def _as_written(metadata: Any, schema: pa.Schema) -> bool:
    """Whether a file holds each column in the way that lakelog's writer does."""
    leaves = [metadata.schema.column(leaf) for leaf in range(metadata.num_columns)]
    if [leaf.path for leaf in leaves] != schema.names:
        return False
    for leaf, field in zip(leaves, schema, strict=True):
        _, physical, logical = _named(field.type)
        same = leaf.physical_type == physical or not physical
        if not same or leaf.logical_type.type != logical or leaf.max_repetition_level:
            return False
    return True
