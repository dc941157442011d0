"""Whether what two states of one revision say of the columns and row groups of their files agrees.

What one of them leaves out is unknown there, and no difference; but that there is no NaN is what
the other must say too, where it says anything of the column. Pieces that both refer to are the
same bytes, and are not read.

Source: docs/format.md, sections 5.2, 6.2 and 6.5.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..format.columns import array, column, numbers
from ..format.segments import NO_NAN, ROW_GROUP_STATISTICS, ROW_GROUPS, STATISTICS
from ..log.differences import differences
from .statistics import DOUBLE, StatisticsWarning, bound_type_of, sources_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ..log.part import Part
    from ..log.state import State

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
            mine = _known(one, table, paths, kind, shared)
            theirs = None if mine is None else _known(other, table, paths, kind, shared)
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


def _known(
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
