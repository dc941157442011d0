"""What a log knows of the columns of a table's files: null counts, bounds, bloom filters.

What is damaged, contradictory or not understood is unknown: it costs skipping, never rows.

Source: docs/format.md, sections 5.2 and 6.5.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import CorruptError
from ..format import compute as pc
from ..format.columns import array, column, empty_table, numbers, rows_to_table
from ..format.run import files_rows
from ..format.segments import (
    MAX_EXACT,
    MAX_NUMBER,
    MIN_EXACT,
    NO_NAN,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS,
    STATISTICS,
)
from ..format.statistics import bound_type, byte_forms
from ..format.statistics_rows import statistics_rows
from ..log.checkpoint_files import decode_describing
from ..log.merge import rows_schema
from ..log.part import in_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from ..log.files import Files
    from ..log.known_schemas import KnownSchemas
    from ..log.part import Part
    from ..log.state import State

    _Identity = tuple[str, bytes]


STATISTICS_OUTPUT: Final = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("row_group", pa.int32()),
        pa.field("column", pa.string()),
        pa.field("bound_type", pa.string()),
        pa.field("null_count", pa.int64()),
        pa.field("min", pa.binary()),
        pa.field("max", pa.binary()),
        pa.field("min_exact", pa.bool_()),
        pa.field("max_exact", pa.bool_()),
        pa.field("no_nan", pa.bool_()),
        pa.field("bloom_offset", pa.int64()),
        pa.field("bloom_bytes", pa.int64()),
    ]
)
DOUBLE: Final = pa.float64()


class StatisticsWarning(UserWarning):
    """Statistics could not be read: nothing is skipped by them."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Statistics as they stand beside some files.

    Attributes:
        files: All columns of FILES.
        live: Per file, whether it is live and of the table.
        row_groups, rows: As they are worked with.
    """

    files: pa.Table
    live: np.ndarray
    row_groups: pa.Table
    rows: pa.Table


def table_statistics(
    state: State,
    table: str,
    *,
    partition: str | None = None,
    row_groups: bool = False,
    of: tuple[Files, KnownSchemas] | None = None,
) -> pa.Table:
    """All that is known of the columns of a table's live files.

    Args:
        partition: Only of files of this one.
        row_groups: Of the row groups of files that have more than one, instead of whole files.
        of: What `state.table_of(table, partition)` gave, where the caller has it already.
    Returns:
        Columns of `STATISTICS_OUTPUT`, a row a file (or row group) and column of which something is
        known, by path, row group and column. `row_group` is null for whole files; `min` and `max`
        are in the byte form of docs/format.md, section 5.2, and null where unknown. `no_nan` is
        true where no value is NaN; false is unknown, and all there is but for bounds of `double`.
    Raises:
        CorruptObject: The files of the table can't be told.
    Requests: 1 GET for each piece of statistics that may hold the table.
    """
    kind = ROW_GROUP_STATISTICS if row_groups else STATISTICS
    files, known = of or state.table_of(table, partition)
    schemas = known.arrow_schemas((e.table, e.fingerprint) for e in known.of_table(table))
    by_fingerprint = {fingerprint: schema for (_, fingerprint), schema in schemas.items()}
    rows: list[tuple[Any, ...]] = []
    for source in _sources(state, files, (table, partition), kind, schemas):
        rows += _known(source, kind, by_fingerprint)
    rows.sort(key=lambda row: (row[0].encode(), -1 if row[1] is None else row[1], row[2].encode()))
    return rows_to_table(rows, STATISTICS_OUTPUT)


def sources_of(
    state: State, table: str, kind: int, is_wanted: Callable[[Part], bool]
) -> Iterator[_Source]:
    """Statistics of one kind as they stand beside a table's files, of the parts that are wanted.

    Requests: 1 GET for each piece of them.
    """
    files, known = state.table_of(table)
    schemas = known.arrow_schemas((e.table, e.fingerprint) for e in known.of_table(table))
    return _sources(state, files, (table, None), kind, schemas, is_wanted=is_wanted)


def statistics_of_batch(
    files: pa.Table, statistics: pa.Table, schemas: Mapping[bytes, pa.Schema]
) -> pa.Table:
    """What statistics beside the files of a batch say of whole files.

    Args:
        files: All columns of FILES.
        statistics: Of kind STATISTICS, as they are worked with.
        schemas: By fingerprint.
    Returns:
        As `table_statistics`, in the order of columns and rows.
    """
    everything = np.ones(files.num_rows, np.bool_)
    source = _Source(files, everything, empty_table(rows_schema(ROW_GROUPS)), statistics)
    return rows_to_table(list(_known(source, STATISTICS, schemas)), STATISTICS_OUTPUT)


def _sources(
    state: State,
    files: Files,
    wanted: tuple[str, str | None],
    kind: int,
    schemas: Mapping[_Identity, pa.Schema],
    *,
    is_wanted: Callable[[Part], bool] = lambda part: True,
) -> Iterator[_Source]:
    table, partition = wanted
    for part in files.parts:
        if table in part.run.ranges and is_wanted(part):
            start, end = part.run.ranges[table]
            live = np.zeros(part.run.rows, np.bool_)
            live[start:end] = True
            if part.dead is not None:
                live &= ~part.dead
            if partition is not None:
                live &= numbers(in_partition(part.run.core, partition))
            groups = _read(state, part, ROW_GROUPS)
            yield _Source(part.run.full(), live, groups, _read(state, part, kind))
    added = [
        add for add, _ in files.added.get(table, {}).values() if partition in (None, add.partition)
    ]
    if added:
        found = statistics_rows(added, schemas)
        rows = found.groups if kind == ROW_GROUP_STATISTICS else found.files
        everything = np.ones(len(added), np.bool_)
        yield _Source(files_rows(added, [0] * len(added)), everything, found.row_groups, rows)


def _read(state: State, part: Part, kind: int) -> pa.Table:
    """What pieces of one kind say of the rows of a part; a damaged piece says nothing."""
    found = [empty_table(rows_schema(kind))]
    for piece in part.described_by:
        if piece.kind != kind:
            continue
        try:
            found.append(decode_describing(state.bytes_of([piece])[0], piece))
        except CorruptError as error:
            warnings.warn(f"{error.message}: unknown", StatisticsWarning, stacklevel=4)
    return pa.concat_tables(found)


def _known(
    source: _Source, kind: int, schemas: Mapping[bytes, pa.Schema]
) -> Iterator[tuple[Any, ...]]:
    """Rows of the output, from those that mean something."""
    rows = source.rows
    places = numbers(rows.column("row"))
    inside = places < len(source.live)
    kept = inside & source.live[np.where(inside, places, 0)]
    if kind == ROW_GROUP_STATISTICS:
        kept &= _in_known_groups(source, places, numbers(rows.column("row_group")), inside)
    rows, places = rows.filter(array(kept)), places[kept]
    keys = list(
        zip(rows.column("column").to_pylist(), places.tolist(), _groups(rows, kind), strict=True)
    )
    twice = {key for key, count in Counter(keys).items() if count > 1}
    paths, fingerprints, counts = (
        source.files.column(name).take(array(places.astype(np.int64))).to_pylist()
        for name in ("path", "schema_fingerprint", "row_groups")
    )
    kinds = [
        bound_type_of(schemas.get(f), key[0]) for f, key in zip(fingerprints, keys, strict=True)
    ]
    lows, highs = _bounds(rows, "min", kinds), _bounds(rows, "max", kinds)
    facts = [
        rows.column(n).to_pylist() for n in ("null_count", "exact", "bloom_offset", "bloom_bytes")
    ]
    for at, (name, _, group) in enumerate(keys):
        if kinds[at] is False or keys[at] in twice:
            continue
        nulls, exact, offset, size = (values[at] for values in facts)
        bloom = _sane(offset) and _sane(size) and (kind == ROW_GROUP_STATISTICS or counts[at] == 1)
        row = (
            paths[at], group, name, "" if kinds[at] is None else str(kinds[at]),
            nulls if _sane(nulls) else None, lows[at], highs[at],
            lows[at] is not None and bool(exact & MIN_EXACT),
            highs[at] is not None and bool(exact & MAX_EXACT),
            kinds[at] == DOUBLE and bool(exact & NO_NAN),
            offset if bloom else None, size if bloom else None,
        )  # fmt: skip
        if row[9] or any(value is not None for value in (*row[4:7], row[10])):
            yield row


def _groups(rows: pa.Table, kind: int) -> list[int | None]:
    if kind != ROW_GROUP_STATISTICS:
        return [None] * rows.num_rows
    return rows.column("row_group").to_pylist()  # type: ignore[no-any-return]


def _in_known_groups(
    source: _Source, places: np.ndarray, groups: np.ndarray, inside: np.ndarray
) -> np.ndarray:
    """Whether a row group is one of a file of which all row groups are known, each once."""
    stated = numbers(source.files.column("row_groups"))
    rows = numbers(source.row_groups.column("row")).astype(np.int64)
    order = numbers(source.row_groups.column("row_group"))
    valid = rows < len(stated)
    valid &= order < stated[np.where(valid, rows, 0)]
    pairs = rows[valid] * (1 << 31) + order[valid]
    sound = np.bincount(rows[valid], minlength=len(stated)) == stated
    unique, found = np.unique(pairs, return_counts=True)
    sound[(unique[found > 1] >> 31).astype(np.int64)] = False
    all_valid = np.bincount(rows[rows < len(stated)], minlength=len(stated)) == stated
    sound &= all_valid & (stated > 1)
    at = np.where(inside, places, 0)
    return sound[at] & (groups < stated[at]) & inside  # type: ignore[no-any-return]


def bound_type_of(schema: pa.Schema | None, name: str) -> pa.DataType | bool | None:
    """The bound type of a column; None if it has none, False if the schema has no such column."""
    if schema is None or len(schema.get_all_field_indices(name)) != 1:
        return False
    return bound_type(schema.field(name).type)


def _bounds(rows: pa.Table, which: str, kinds: list[Any]) -> list[bytes | None]:
    """One bound of each row in its byte form, or None."""
    found: list[bytes | None] = [None] * rows.num_rows
    keys, whole = (rows.column(name).combine_chunks() for name in (which, f"{which}_bytes"))
    for kind in {str(kind): kind for kind in kinds if kind not in (None, False)}.values():
        at = [place for place, other in enumerate(kinds) if other == kind]
        chosen = column(at, pa.int64())
        forms = byte_forms(keys.take(chosen), whole.take(chosen), kind)
        for place, form in zip(at, forms, strict=True):
            found[place] = form
    return found


def _sane(value: int | None) -> bool:
    return value is not None and 0 <= value < MAX_NUMBER


# --- What differs in two states of one revision: a checkpoint against the log itself --------------


def differences(one: State, other: State) -> list[str]:
    """In what two states of one revision differ, in words. What says where rows may be (row groups
    and statistics) is not compared: it may lawfully be left out."""
    found: list[str] = []
    facts = (
        "log", "named", "revision", "uuid", "digest", "epoch", "committed_at_us", "successor_uuid",
        "transaction_id", "first_epoch", "begun_at_us", "reader_features", "writer_features",
        "locations",
    )  # fmt: skip
    found += [name for name in facts if getattr(one, name) != getattr(other, name)]
    if not one.applications.rows().equals(other.applications.rows()):
        found.append("application versions")
    if one.schemas.entries != other.schemas.entries:
        found.append("schemas")
    if one.definitions.entries != other.definitions.entries:
        found.append("definitions")
    for table in sorted({*one.files.tables(), *other.files.tables()}):
        if _files(one, table) != _files(other, table):
            found.append(f"files of table {table!r}")
    found += [f"deletes of table {table!r}" for table in _different_deletes(one, other)]
    if _common_history(one, other) != _common_history(other, one):
        found.append("history")
    return found


def _files(state: State, table: str) -> pa.Table:
    rows = state.files.table(table, whole=True)
    return rows.sort_by("path").combine_chunks()


def _different_deletes(one: State, other: State) -> list[str]:
    """The tables with deletes that differ. A checkpoint leaves out tombstones of no live file."""
    found = []
    deleted = {*one.deletes.tombstones, *other.deletes.tombstones}
    for table in sorted({*one.files.tables(), *other.files.tables(), *deleted}):
        oldest = pc.min(one.files.table(table).column("revision")).as_py()
        said = []
        for state in (one, other):
            tombstones = [
                t
                for t in state.deletes.of_table(table)
                if oldest is not None and oldest < t.revision
            ]
            said.append((tombstones, state.deletes.rows_of(table)))
        if said[0] != said[1]:
            found.append(table)
    return found


def _common_history(state: State, other: State) -> pa.Table:
    """Rows of the revisions that both histories hold."""
    firsts = [s.history.table().column("revision")[0].as_py() for s in (state, other)]
    table = state.history.table()
    return table.slice(max(firsts) - firsts[0]).combine_chunks()


# --- What differs in their statistics -------------------------------------------------------------

_KINDS: Final = (ROW_GROUPS, STATISTICS, ROW_GROUP_STATISTICS)
_WORDS: Final = {
    ROW_GROUPS: "row groups",
    STATISTICS: "statistics",
    ROW_GROUP_STATISTICS: "statistics of row groups",
}
# The fact and, for a bound, the bit that says whether it is exact.
_NUMBERS: Final = ("null_count", "bloom_offset", "bloom_bytes", "row_count")
_BOUNDS: Final = (("min", 1), ("max", 2))


def all_differences(one: State, other: State) -> list[str]:
    """In what two states of one revision differ, in words, with statistics and row groups: these
    may lawfully be left out, and differ only where both know them, or where `other` knows more than
    `one` of NaN.

    Requests: 1 GET for each piece that is not read yet; of those that describe files only what
        isn't common to both.
    """
    found = differences(one, other)
    if not found:
        for table in sorted(one.files.tables()):
            found += [
                f"{words} of table {table!r}" for words in differing_statistics(one, other, table)
            ]
    return found


def differing_statistics(one: State, other: State, table: str) -> Iterator[str]:
    """What of the statistics of a table differs, in words.

    Args:
        one, other: They have the same files of the table. What `other` says is in question.
    Requests: 1 GET for each piece that describes files of the table and is not common to both.
    """
    shared = _descriptions(one, table) & _descriptions(other, table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatisticsWarning)  # what is damaged is unknown
        paths = one.files.table(table).column("path")
        is_double = cache(lambda: _doubles(one, table))
        for kind in _KINDS:
            mine = _known_values(one, table, paths, kind, shared)
            theirs = None if mine is None else _known_values(other, table, paths, kind, shared)
            if mine is not None and theirs is not None and _differ(mine, theirs, is_double):
                yield _WORDS[kind]


def _doubles(state: State, table: str) -> Callable[[int, str], bool]:
    """Whether a column of a file, by its place among the paths, has bounds of `double`."""
    files, known = state.table_of(table)
    fingerprints = files.table(table).column("schema_fingerprint")
    schemas = known.arrow_schemas((e.table, e.fingerprint) for e in known.of_table(table))

    @cache
    def is_double(fingerprint: bytes, name: str) -> bool:
        return bool(bound_type_of(schemas.get((table, fingerprint)), name) == DOUBLE)

    return lambda file, name: is_double(fingerprints[file].as_py(), name)


def _descriptions(state: State, table: str) -> set[tuple[bytes, ...]]:
    parts = (part for part in state.files.parts if table in part.run.ranges)
    return {found for part in parts if (found := _description(part))}


def _description(part: Part) -> tuple[bytes, ...]:
    """Which segment objects describe the files of a part; nothing if it is described otherwise."""
    found = tuple(piece.digest for piece in part.described_by)
    return found if all(found) else ()


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one kind: a row for each file (and row group, and column).

    Attributes:
        files: The file of each row, by its place among the paths of the table.
        groups: Its row group; 0 where files are meant.
        columns: Its column; empty where row groups are meant.
        facts: Beside these.
    """

    files: np.ndarray
    groups: np.ndarray
    columns: pa.ChunkedArray
    facts: pa.Table


def _known_values(
    state: State,
    table: str,
    paths: pa.ChunkedArray,
    kind: int,
    shared: Collection[tuple[bytes, ...]],
) -> _Known | None:
    wanted = STATISTICS if kind == ROW_GROUPS else kind

    def is_wanted(part: Part) -> bool:
        return _description(part) not in shared

    files, groups, columns, facts = [], [], [], []
    for source in sources_of(state, table, wanted, is_wanted):
        rows = source.row_groups if kind == ROW_GROUPS else source.rows
        ids = numbers(pc.fill_null(pc.index_in(source.files.column("path"), value_set=paths), -1))
        places = numbers(rows.column("row"))
        inside = places < len(source.live)
        kept = inside & source.live[np.where(inside, places, 0)]
        rows, names = rows.filter(array(kept)), rows.schema.names
        files.append(ids[places[kept]])
        groups.append(
            numbers(rows.column("row_group"))
            if "row_group" in names
            else np.zeros(rows.num_rows, np.int32)
        )
        blank = pa.chunked_array([column([""] * rows.num_rows, pa.string())])
        columns.append(rows.column("column") if "column" in names else blank)
        facts.append(rows.drop_columns([n for n in ("row", "row_group", "column") if n in names]))
    if not sum(map(len, files)):
        return None
    chunks = pa.chunked_array([c for one in columns for c in one.chunks], pa.string())
    return _Known(np.concatenate(files), np.concatenate(groups), chunks, pa.concat_tables(facts))


def _differ(
    one: _Known, other: _Known, is_double: Callable[[], Callable[[int, str], bool]]
) -> bool:
    """Whether a fact that both know differs, or the other knows more of NaN."""
    keys = _keys(one, other)
    # What is said twice is unknown.
    once = [np.unique(own, return_index=True, return_counts=True) for own in keys]
    (mine, at_mine), (theirs, at_theirs) = ((u[c == 1], i[c == 1]) for u, i, c in once)
    _, first, second = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    ours = one.facts.take(array(at_mine[first]))
    others = other.facts.take(array(at_theirs[second]))
    for name in set(_NUMBERS).intersection(ours.schema.names):
        if _any_differs(ours.column(name), others.column(name)):
            return True
    if "exact" not in ours.schema.names:
        return False
    if any(_bounds_differ(ours, others, name, bit) for name, bit in _BOUNDS):
        return True
    said, told = (numbers(side.column("exact")) & NO_NAN for side in (ours, others))
    more = at_theirs[second][told > said]
    # On other columns that bit means nothing.
    return any(is_double()(int(other.files[at]), other.columns[int(at)].as_py()) for at in more)


def _keys(one: _Known, other: _Known) -> tuple[np.ndarray, np.ndarray]:
    """A number for each row of both: the same one for the same file, row group and column."""
    names = pc.unique(pa.chunked_array([*one.columns.chunks, *other.columns.chunks], pa.string()))
    groups, places = np.unique(np.concatenate([one.groups, other.groups]), return_inverse=True)
    cut = len(one.groups)
    keys = []
    for known, group in ((one, places[:cut]), (other, places[cut:])):
        columns = numbers(pc.index_in(known.columns, value_set=names)).astype(np.int64)
        file = known.files.astype(np.int64) * max(1, len(names)) + columns
        keys.append(file * max(1, len(groups)) + group)
    return keys[0], keys[1]


def _bounds_differ(one: pa.Table, other: pa.Table, name: str, bit: int) -> bool:
    """Whether a bound that both know differs, or whether it is exact."""
    whole = f"{name}_bytes"
    if _any_differs(one.column(name), other.column(name)):
        return True
    if _any_differs(one.column(whole), other.column(whole)):
        return True
    known = pc.and_(pc.is_valid(one.column(name)), pc.is_valid(other.column(name)))
    exact = [numbers(side.column("exact").filter(known)) & bit for side in (one, other)]
    return bool((exact[0] != exact[1]).any())


def _any_differs(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether two columns differ where both are known."""
    return bool(pc.any(pc.not_equal(one, other)).as_py())  # null where one of them is
