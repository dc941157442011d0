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

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject, InvalidPredicate, LakelogError
from ..data.hidden import Bitmaps
from ..data.parquet import UNKNOWN_DIGEST
from ..format.columns import numbers
from ..format.names import parse_data_file
from ..format.schema import partition_columns
from ..read.hidden import TombstoneFilter, TombstoneTest, bound_filter
from ..where.emit import to_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...store import Store
    from ..data.file_part import FilePart
    from ..data.unify import FileSchema


# --- The rows that deletes leave, in DuckDB's SQL -------------------------------------------------

CHUNK_ROWS: Final = 1 << 18  # DuckDB copies the bits of so many for each 2,048 that it reads
MOST_CHUNKS: Final = 512
MOST_TEXT: Final = 200_000  # of SQL, which DuckDB parses for every query
MOST_TESTS: Final = 20_000  # of it, in tombstones: beyond some hundred values the stream is quicker
FILE: Final = "file (lakelog)"
LEFT: Final = "left by deletes (lakelog)"  # so an EXPLAIN calls the condition, which can be long
# The reader adds columns. As virtual ones, which need no option, they are an internal error of
# DuckDB 2.0 where it materializes late (`ORDER BY ... LIMIT`).
OPTIONS: Final = f"filename = '{FILE}', file_row_number = true"
_ADDED: Final = frozenset({FILE, LEFT, "filename", "file_row_number", "file_index"})


class LeftRows:
    """Which rows of the files of a table are left, as DuckDB is told.

    Args:
        parts, paths: The files; no path twice.
        tests: Conditions for rows that a tombstone leaves, each with which files it holds of.

    Attributes:
        columns: Those that the conditions look at.
        everywhere: A condition over the reader's columns that holds of all files; empty for none.
    """

    def __init__(
        self,
        store: Store,
        parts: Sequence[FilePart],
        paths: Sequence[str],
        tests: Sequence[tuple[str, Sequence[bool]]],
        columns: frozenset[str],
    ) -> None:
        self._parts = parts
        self._paths = paths
        self._bitmaps = Bitmaps(store)
        self._packed: dict[int, np.ndarray] = {}
        self.columns = columns
        self.everywhere = " AND ".join(text for text, held in tests if all(held))
        self._tests = [(text, held) for text, held in tests if not all(held)]
        self._chunks = [
            (number, start)
            for number, part in enumerate(parts)
            if _bitmaps_of(part)
            for start in range(0, part.row_count, CHUNK_ROWS)
        ]

    @property
    def are_all(self) -> bool:
        """Whether nothing is hidden."""
        return not (self.everywhere or self._tests or self._chunks)

    @property
    def chunk_count(self) -> int:
        """How many values `bits` has."""
        return len(self._chunks)

    def somewhere(self, bits: str) -> str:
        """A condition over the reader's columns and those that `OPTIONS` add, which differs by
        file; empty for none.

        Args:
            bits: What DuckDB is to call the function `bits`.
        """
        found = []
        for text, held in self._tests:
            is_held = _by_file(self._paths, ["TRUE" if each else "FALSE" for each in held])
            found.append(f"(NOT {is_held} OR {text})")
        if self._chunks:
            chunks: dict[int, list[tuple[int, str]]] = {}
            for chunk, (number, start) in enumerate(self._chunks):
                row = f"CAST(file_row_number - {start} AS INTEGER)"
                row = row if start else "CAST(file_row_number AS INTEGER)"
                bit = f"system.main.get_bit(CAST({bits}({chunk}) AS BIT), {row}) = 0"
                chunks.setdefault(number, []).append((start, bit))
            leaves = [_by_row(chunks.get(number, [])) for number in range(len(self._parts))]
            found.append(_by_file(self._paths, leaves))
        return " AND ".join(found)

    def bits(self, chunk: int) -> bytes:
        """Returns a bit for each of some rows of a file, set where one is hidden; the first is the
        highest of its byte. Raises as `Bitmaps.rows`.

        Requests: 1 GET for an object of bitmaps, the first time.
        """
        number, start = self._chunks[chunk]
        if number not in self._packed:
            part = self._parts[number]
            hidden = np.zeros(part.row_count, np.bool_)
            hidden[self._bitmaps.rows(_bitmaps_of(part), part.row_count)] = True
            self._packed[number] = np.packbits(hidden)
        return self._packed[number][start // 8 : (start + CHUNK_ROWS) // 8].tobytes()


def left_rows(
    store: Store,
    parts: Sequence[FilePart],
    paths: Sequence[str],
    schema: pa.Schema,
    named: Callable[[pa.DataType], tuple[str, ...]],
) -> LeftRows | None:
    """Returns the rows that are left of files; None where DuckDB might read other rows than
    lakelog. Raises `CorruptObject` if a tombstone can't be understood.

    Args:
        schema: Of all of them.
        named: What DuckDB calls a type, first; nothing for one that it might read otherwise.
    """
    hidden = [part.hidden for part in parts]
    if not any(hidden):
        return LeftRows(store, parts, paths, [], frozenset())
    if any(each is not None and each.superseded for each in hidden):
        return None
    if len(set(paths)) < len(paths) or not all(_is_text(path) for path in paths):
        return None
    if _ADDED.intersection(name.lower() for name in schema.names):
        return None
    held: dict[Any, list[bool]] = {}
    for number, each in enumerate(hidden):
        for test in each.tests if each is not None else ():
            held.setdefault(test, [False] * len(parts))[number] = True
    tests, columns = [], set()
    for test, files in held.items():
        told = _told_of_all(test, [part for part, own in zip(parts, files) if own], schema, named)
        if told is None:
            return None
        tests.append((told[0], files))
        columns.update(told[1])
    found = LeftRows(store, parts, paths, tests, frozenset(columns))
    if found.chunk_count > MOST_CHUNKS:
        return None
    long = sum(len(text) for text, _ in tests) > MOST_TESTS
    long = long or len(found.everywhere) + len(found.somewhere("")) > MOST_TEXT
    return None if long else found


def _told_of_all(
    test: Any,
    parts: Sequence[FilePart],
    schema: pa.Schema,
    named: Callable[[pa.DataType], tuple[str, ...]],
) -> tuple[str, list[str]] | None:
    """As `_told`, if it is the same of all files: a column of one name may be another in some."""
    first = parts[0]
    found = _told(test, first, schema, named)
    others = (part for part in parts if not part.schema.equals(first.schema, check_metadata=True))
    return found if all(_told(test, part, schema, named) == found for part in others) else None


def _told(
    test: Any, part: FilePart, schema: pa.Schema, named: Callable[[pa.DataType], tuple[str, ...]]
) -> tuple[str, list[str]] | None:
    """The condition for rows that a test leaves, and its columns; None if there is none."""
    if not isinstance(test, TombstoneTest):
        return None
    found = bound_filter(test.tombstone, part.schema)
    if not isinstance(found, TombstoneFilter) or not _is_alike(found, schema, named):
        return None
    try:
        text = to_sql(found.predicate, "duckdb")
    except InvalidPredicate:
        return None
    return (f"({text} IS NOT TRUE)", found.target.names) if _is_text(text) else None


def _is_alike(
    found: TombstoneFilter, schema: pa.Schema, named: Callable[[pa.DataType], tuple[str, ...]]
) -> bool:
    """Whether a tombstone looks at columns of the view, under their names and as their types."""
    if list(found.names) != found.target.names or not set(found.names) <= set(schema.names):
        return False
    pairs = [(named(field.type), named(schema.field(field.name).type)) for field in found.target]
    return all(asked and asked == own for asked, own in pairs)


def _bitmaps_of(part: FilePart) -> Sequence[Any]:
    return () if part.hidden is None else part.hidden.bitmaps


def _is_text(text: str) -> bool:
    """Whether it can be in SQL: DuckDB takes no lone surrogates, and ends a text at NUL."""
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def _by_row(chunks: Sequence[tuple[int, str]]) -> str:
    """What is told of the rows of one file: of those from a number on, ascending."""
    if not chunks:
        return "TRUE"
    if len(chunks) == 1:
        return chunks[0][1]
    half = len(chunks) // 2
    below, above = _by_row(chunks[:half]), _by_row(chunks[half:])
    return f"CASE WHEN file_row_number < {chunks[half][0]} THEN {below} ELSE {above} END"


def _by_file(paths: Sequence[str], told: Sequence[str]) -> str:
    """What is told of each file, as one expression that comes to a file in few steps: DuckDB takes
    them once for each 2,048 rows."""
    order = sorted(range(len(paths)), key=lambda number: paths[number].encode())
    return _steps([(paths[number], told[number]) for number in order])


def _steps(told: Sequence[tuple[str, str]]) -> str:
    if all(text == told[0][1] for _, text in told):
        return f"({told[0][1]})"
    half = len(told) // 2
    path = told[half][0].replace("'", "''")
    below, above = _steps(told[:half]), _steps(told[half:])
    return f"CASE WHEN (\"{FILE}\" COLLATE C) < '{path}' THEN {below} ELSE {above} END"


# --- Files ----------------------------------------------------------------------------------------

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
        """Compares all files with the log, and the columns of a query with their checksums, unless
        that was done before on these very files. Raises `ObjectNotFound`, `CorruptObject` or
        `AccessDenied`."""
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
