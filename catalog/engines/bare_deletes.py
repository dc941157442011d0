"""Rows that deletes hide, told to DuckDB in its own SQL, of files that it reads by its own reader.

A tombstone becomes a condition: only where each of its columns has the same type in the file, the
view and the tombstone, so that DuckDB decides the predicate as lakelog does. Numbers of rows become
bits, a function's constants, looked up by the file's name and the row's number. Both are filters
over the reader; a join would lose the order of the rows, and DuckDB may turn its sides around.

Source: docs/format.md, sections 5.6 and 5.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...errors import InvalidPredicate
from ..data.hidden import Bitmaps
from ..read.hidden import TombstoneFilter, TombstoneTest, bound_filter
from ..where.sql import to_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from ...store import Store
    from ..data.file_part import FilePart

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
        """A bit for each of some rows of a file, set where one is hidden; the first is the highest
        of its byte.

        Raises:
            ObjectNotFound, CorruptObject, UnsupportedFeature: As `Bitmaps.rows`.
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
    """What is told of files; None where DuckDB might read other rows than lakelog.

    Args:
        schema: Of all of them.
        named: What DuckDB calls a type, first; nothing for one that it might read otherwise.
    Raises:
        CorruptObject: A tombstone can't be understood.
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
