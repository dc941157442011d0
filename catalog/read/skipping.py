"""Which files of a table, and which row groups of them, can hold rows that meet a predicate: by the
log's statistics alone, without a look into the files. What is unknown is never skipped.

Source: docs/format.md, sections 5.2, 5.3 and 6.5.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import CorruptError
from ..format.columns import array, empty_table, numbers
from ..format.run import files_rows
from ..format.statistics_rows import statistics_rows
from ..format.wire_kinds import ROW_GROUP_STATISTICS, ROW_GROUPS, STATISTICS
from ..log.checkpoint_files import decode_describing
from ..log.merge import rows_schema
from .column_facts import Units, outcomes_in
from .statistics import StatisticsWarning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..format.pieces import Piece
    from ..log.files import Files
    from ..log.known_schemas import KnownSchemas
    from ..log.part import Part
    from ..log.state import State
    from ..where.outcomes import Outcomes
    from .row_filter import RowFilter


@dataclass(frozen=True, slots=True)
class _Source:
    """The files of a table in one piece, or what was added since.

    Attributes:
        files: Core columns of FILES, of the table alone.
        live: Per file whether it is live.
        said: By kind what is said of them, as it is worked with; rows count from the first file.
        group_counts: Per file the number of its row groups; None where they weren't asked for.
    """

    files: pa.Table
    live: np.ndarray
    said: dict[int, pa.Table]
    group_counts: np.ndarray | None = None


def kept_files(
    state: State, table: str, of: tuple[Files, KnownSchemas], wanted: RowFilter
) -> np.ndarray:
    """Which live files of a table may hold rows that are asked for.

    Args:
        of: What `state.table_of(table)` gave, in whole or of one partition.
    Returns:
        A mask over the rows of `Files.table(table)`, in its order.
    Requests: 1 GET for each piece of statistics of the predicate's columns.
    """
    masks = [np.zeros(0, np.bool_)]
    for _, live, units in units_of_files(state, table, of, wanted):
        masks.append(_outcomes(units, wanted).true[live])
    return np.concatenate(masks)


def units_of_files(
    state: State, table: str, of: tuple[Files, KnownSchemas], wanted: RowFilter
) -> Iterator[tuple[pa.Table, np.ndarray, Units]]:
    """The files of a table piece by piece, with core columns, which of them are live, and what is
    known of them.

    Requests: as `kept_files`.
    """
    for source in _sources(state, table, of, wanted, (STATISTICS,)):
        yield source.files, source.live, _of_files(source, of[1], table)


def kept_row_groups(
    state: State, table: str, of: tuple[Files, KnownSchemas], wanted: RowFilter
) -> dict[str, tuple[int, ...]]:
    """Which row groups of live files may hold rows that are asked for.

    Returns:
        By path, in file order, for files of which some can be skipped and all are known.
    Requests: 1 GET for each piece of row groups, and of statistics of the predicate's columns.
    """
    kept: dict[str, tuple[int, ...]] = {}
    for source in _sources(state, table, of, wanted, (ROW_GROUPS, ROW_GROUP_STATISTICS)):
        places, numbers_in_file, units = _of_groups(source, of[1], table)
        if not len(units.rows):
            continue
        true = _outcomes(units, wanted).true
        some = np.unique(places[~true])
        paths = source.files.column("path").take(array(some)).to_pylist()
        for place, path in zip(some.tolist(), paths, strict=True):
            first, last = np.searchsorted(places, [place, place + 1])
            kept[path] = tuple(numbers_in_file[first:last][true[first:last]].tolist())
    return kept


def _outcomes(units: Units, wanted: RowFilter) -> Outcomes:
    return outcomes_in(units, wanted.predicate, wanted.target, is_ieee=wanted.is_ieee)


# --- What is judged -------------------------------------------------------------------------------


def _of_files(source: _Source, known: KnownSchemas, table: str) -> Units:
    said = source.said[STATISTICS]
    places = numbers(said.column("row")).astype(np.int64)
    places[(places < 0) | (places >= source.files.num_rows)] = -1
    schema_numbers, schemas = _schemas(source.files, known, table)
    rows = numbers(source.files.column("row_count"))
    return Units(rows, schema_numbers, schemas, said, places)


def _of_groups(
    source: _Source, known: KnownSchemas, table: str
) -> tuple[np.ndarray, np.ndarray, Units]:
    """The row groups of live files that have several, all of which are known, each once: their
    files, their numbers, and what is known of them, by file and number."""
    said = source.said[ROW_GROUPS]
    places, order, rows = (
        numbers(said.column(name)).astype(np.int64) for name in ("row", "row_group", "row_count")
    )
    count = source.files.num_rows
    assert source.group_counts is not None
    inside = (places >= 0) & (places < count)
    at = np.where(inside, places, 0)
    fits = inside & (order >= 0) & (order < source.group_counts[at])
    sound = source.live & (source.group_counts > 1)
    sound &= np.bincount(at[inside], minlength=count) == source.group_counts
    sound &= np.bincount(at[fits], minlength=count) == source.group_counts
    keys = (places << 31) + order
    unique, often = np.unique(keys[fits], return_counts=True)
    sound[(unique[often > 1] >> 31)] = False
    chosen = fits & sound[at]
    sorting = np.argsort(keys[chosen])
    keys, places, order, rows = (part[chosen][sorting] for part in (keys, places, order, rows))
    schema_numbers, schemas = _schemas(source.files, known, table)
    found = source.said[ROW_GROUP_STATISTICS]
    spoken = (numbers(found.column("row")).astype(np.int64) << 31) + numbers(
        found.column("row_group")
    )
    where = np.searchsorted(keys, spoken)
    hit = where < len(keys)
    hit[hit] = keys[where[hit]] == spoken[hit]
    units = Units(rows, schema_numbers[places], schemas, found, np.where(hit, where, -1))
    return places, order, units


def _schemas(
    files: pa.Table, known: KnownSchemas, table: str
) -> tuple[np.ndarray, list[pa.Schema]]:
    """Per file the number of its schema, and the schemas."""
    coded = files.column("schema_fingerprint").combine_chunks().dictionary_encode()
    entries = {entry.fingerprint: entry for entry in known.of_table(table)}
    schemas = [entries[fingerprint].schema for fingerprint in coded.dictionary.to_pylist()]
    return numbers(coded.indices), schemas


# --- What the log says ----------------------------------------------------------------------------


def _sources(
    state: State,
    table: str,
    of: tuple[Files, KnownSchemas],
    wanted: RowFilter,
    kinds: tuple[int, ...],
) -> Iterator[_Source]:
    """The files of a table, piece by piece in the order of `Files.table`."""
    files, known = of
    columns = frozenset(wanted.target.names)
    parts = [part for part in files.parts if table in part.run.ranges]
    bodies = _fetched(state, [piece for part in parts for piece in _pieces(part, columns, kinds)])
    for part in parts:
        start, end = part.run.ranges[table]
        live = np.ones(end - start, np.bool_) if part.dead is None else ~part.dead[start:end]
        said = {
            kind: _decoded([p for p in _pieces(part, columns, (kind,))], kind, bodies, start)
            for kind in kinds
        }
        counts = None
        if ROW_GROUPS in kinds:
            counts = numbers(part.run.full().column("row_groups")).astype(np.int64)[start:end]
        yield _Source(part.run.core.slice(start, end - start), live, said, counts)
    added = [add for add, _ in files.added.get(table, {}).values()]
    if added:
        schemas = known.arrow_schemas((e.table, e.fingerprint) for e in known.of_table(table))
        found = statistics_rows(added, schemas)
        rows = files_rows(added, [0] * len(added))
        said = {
            STATISTICS: found.files,
            ROW_GROUPS: found.row_groups,
            ROW_GROUP_STATISTICS: found.groups,
        }
        counts = numbers(rows.column("row_groups")).astype(np.int64)
        yield _Source(rows, np.ones(len(added), np.bool_), said, counts)


def _pieces(part: Part, columns: frozenset[str], kinds: tuple[int, ...]) -> list[Piece]:
    return [
        piece
        for piece in part.described_by
        if piece.kind in kinds
        and (piece.kind == ROW_GROUPS or not columns.isdisjoint(piece.segment.columns))
    ]


def _fetched(state: State, pieces: Sequence[Piece]) -> dict[int, memoryview]:
    """Bytes of pieces, by their identity; those that are damaged or gone are left out."""
    try:
        return dict(zip(map(id, pieces), state.bytes_of(pieces), strict=True))
    except CorruptError:
        pass
    found = {}
    for piece in pieces:
        try:
            found[id(piece)] = state.bytes_of([piece])[0]
        except CorruptError as error:
            _warn(error)
    return found


def _decoded(
    pieces: Sequence[Piece], kind: int, bodies: dict[int, memoryview], start: int
) -> pa.Table:
    """What pieces of one kind say, with rows counted from the first file of the table."""
    found = [empty_table(rows_schema(kind))]
    for piece in pieces:
        if id(piece) in bodies:
            try:
                found.append(decode_describing(bodies[id(piece)], piece))
            except CorruptError as error:
                _warn(error)
    rows = pa.concat_tables(found).combine_chunks()
    if not start:
        return rows
    shifted = array((numbers(rows.column("row")) - start).astype(np.int32))
    return rows.set_column(rows.schema.get_field_index("row"), rows.schema.field("row"), shifted)


def _warn(error: CorruptError) -> None:
    warnings.warn(
        f"{error.message}: unknown, so nothing is skipped by it", StatisticsWarning, stacklevel=6
    )
