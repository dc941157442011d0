"""Whether what two states of one revision say of the columns and row groups of their files agrees.

What one of them leaves out is unknown there, and no difference. Pieces that both refer to are the
same bytes, and are not read.

Source: docs/format.md, sections 5.2, 6.2 and 6.5.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..format.columns import array, column, numbers
from ..format.wire_kinds import ROW_GROUP_STATISTICS, ROW_GROUPS, STATISTICS
from ..log.differences import differences
from .statistics import StatisticsWarning, sources_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

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
    may lawfully be left out, and differ only where both know them.

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
        one, other: They have the same files of the table.
    Requests: 1 GET for each piece that describes files of the table and is not common to both.
    """
    shared = _descriptions(one, table) & _descriptions(other, table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatisticsWarning)  # what is damaged is unknown
        for kind in _KINDS:
            known = [_known(state, table, kind, shared) for state in (one, other)]
            if _differ(*known):
                yield _WORDS[kind]


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
        keys: path, row group (or -1) and column (or nothing), in columns; no two alike.
        facts: Beside these.
    """

    keys: pa.Table
    facts: pa.Table


def _known(state: State, table: str, kind: int, shared: Collection[tuple[bytes, ...]]) -> _Known:
    keys, facts = [], []
    wanted = STATISTICS if kind == ROW_GROUPS else kind

    def is_wanted(part: Part) -> bool:
        return _description(part) not in shared

    for source in sources_of(state, table, wanted, is_wanted):
        rows = source.row_groups if kind == ROW_GROUPS else source.rows
        places = numbers(rows.column("row"))
        inside = places < len(source.live)
        kept = inside & source.live[np.where(inside, places, 0)]
        rows, places = rows.filter(array(kept)), places[kept]
        paths = source.files.column("path").take(array(places.astype(np.int64)))
        names = {name: rows.column(name) for name in ("row_group", "column") if _has(rows, name)}
        keys.append(pa.table({"path": paths, **names}))
        facts.append(rows.drop_columns(["row", *names]))
    if not keys:
        empty = pa.table({"path": pa.array([], pa.string())})
        return _Known(empty, empty)
    return _once(pa.concat_tables(keys), pa.concat_tables(facts))


def _once(keys: pa.Table, facts: pa.Table) -> _Known:
    """Without what is said twice: all that is said of it is unknown."""
    numbered = keys.append_column("place", column(range(keys.num_rows), pa.int64()))
    counted = numbered.group_by(keys.schema.names).aggregate([("place", "count"), ("place", "min")])
    if counted.num_rows == keys.num_rows:
        return _Known(keys, facts)
    once = counted.filter(pc.equal(counted.column("place_count"), 1)).column("place_min")
    return _Known(keys.take(once), facts.take(once))


def _has(rows: pa.Table, name: str) -> bool:
    return name in rows.schema.names


def _differ(one: _Known, other: _Known) -> bool:
    """Whether a fact that both know differs."""
    if not one.keys.num_rows or not other.keys.num_rows:
        return False
    at = "place"
    sides = [
        known.keys.append_column(at, column(range(known.keys.num_rows), pa.int64()))
        for known in (one, other)
    ]
    names = one.keys.schema.names
    both = sides[0].join(sides[1], keys=names, join_type="inner", right_suffix="_of_other")
    mine = one.facts.take(both.column(at))
    theirs = other.facts.take(both.column(f"{at}_of_other"))
    for name in set(_NUMBERS).intersection(mine.schema.names):
        if _any_differs(mine.column(name), theirs.column(name)):
            return True
    return "exact" in mine.schema.names and any(
        _bounds_differ(mine, theirs, name, bit) for name, bit in _BOUNDS
    )


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
