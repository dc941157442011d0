"""Whether the newest row of each key would be the same after a table was taken back: files that are
added again stand at a later revision than they did, which tells of two of the same clock which one
is newer.

Source: docs/format.md, section 5.5; docs/changing.md, "Going back".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import UsageError
from ..format import compute as pc
from ..format.columns import array, column, numbers
from ..read.cut_tables import CutTables
from ..read.file_order import file_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..log.state import State
    from ..read.key_ranges import KeyRanges
    from .plan_change import Prepared

_ORDER = ("log", "revision", "number", "path")


class _Turned(NamedTuple):
    """Two files of which the other one would be newer."""

    clock: int
    first: str
    second: str


def refuse_turned_order(prepared: Sequence[Prepared], everyone: Sequence[State]) -> None:
    """Refuse to go back where another row of a key could be the newest than was: of two files with
    one clock, whose keys may meet, the order of their commits would be another one.

    Args:
        prepared: What is to be committed.
        everyone: The heads of all logs of the database.
    Raises:
        UsageError: It would be so; names two files.
    Requests: those of `key_ranges`, for tables with a key to which files are added again.
    """
    own = {each.head.writer: each for each in prepared}
    # As it is going to be: what is taken back is as it was then.
    states = [own[s.writer].back_to if s.writer in own else s for s in everyone]
    tables = CutTables(everyone[0].database, states) if everyone else None
    added: set[str] = set()
    for each in prepared:
        files = each.change.coming_or_going("added")
        added.update(pc.unique(files.column("table")).to_pylist())
    for table in sorted(added, key=str.encode):
        assert tables is not None
        keys = tables.keys_of(table)
        if keys is None or not keys.touched():
            continue
        found = _turned(tables, table, keys.ranges, [own.get(s.writer) for s in states])
        if found is not None:
            raise UsageError(
                f"Files {found.first} and {found.second} of table {table!r} have the same clock, "
                f"{found.clock}, and may have rows of the same keys: the one that was committed "
                "later is the newer one, and by being added again it would be the other one",
                key=table,
                hint="Nothing was committed. Take other tables back one by one, and upsert the "
                "rows of that point in time",
            )


def _turned(
    tables: CutTables, table: str, ranges: KeyRanges, prepared: Sequence[Prepared | None]
) -> _Turned | None:
    rows = _files(tables, table, ranges, prepared)
    clocks = numbers(rows.column("last_clock"))
    then, now = (_ranks(rows, name) for name in ("then", "now"))
    moved = numbers(rows.column("then")) != numbers(rows.column("now"))
    low, high = ranges.low, ranges.high
    _, places, counts = np.unique(clocks, return_inverse=True, return_counts=True)
    for at in np.flatnonzero(moved & (counts[places] > 1)):
        met = (clocks == clocks[at]) & (low <= high[at]) & (high >= low[at])
        met &= (then < then[at]) != (now < now[at])
        if met.any():
            paths = [ranges.paths[int(n)].as_py() for n in (at, np.flatnonzero(met)[0])]
            return _Turned(int(clocks[at]), *paths)
    return None


def _ranks(rows: pa.Table, revision: str) -> np.ndarray:
    """Which place each file has among those of its clock."""
    ordered = rows.rename_columns(
        ["revision" if name == revision else name for name in rows.schema.names]
    )
    order = numbers(
        pc.sort_indices(ordered, sort_keys=[(name, "ascending") for name in _ORDER])
    ).astype(np.int64)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _files(
    tables: CutTables, table: str, ranges: KeyRanges, prepared: Sequence[Prepared | None]
) -> pa.Table:
    """The files of some ranges, in their order, with their revisions then and as they will be."""
    found = []
    for number, (state, each) in enumerate(zip(tables.states, prepared, strict=True)):
        places = np.flatnonzero(ranges.logs == number)
        paths = ranges.paths.take(array(places))
        held = tables.table_of(state, table)[0].table(table, whole=True)
        at = pc.index_in(paths, value_set=held.column("path").combine_chunks())
        rows = held.select(["last_clock", "revision", "path"]).take(at)
        then = rows.column("revision")
        now = then if each is None else _as_committed(each, table, rows)
        found.append(
            rows.select(["last_clock", "path"])
            .append_column("then", then)
            .append_column("now", now)
            .append_column("log", column([number] * len(places), pa.int64()))
            .append_column("number", file_numbers(rows.column("path")))
            .append_column("place", array(places.astype(np.int64)))
        )
    return pa.concat_tables(found).sort_by("place").combine_chunks()


def _as_committed(each: Prepared, table: str, rows: pa.Table) -> pa.Array:
    """The revisions that files of a log will have."""
    added = each.change.coming_or_going("added")
    mine = added.filter(pc.equal(added.column("table"), column([table], pa.string())[0]))
    again = pc.is_in(rows.column("path").combine_chunks(), mine.column("path").combine_chunks())
    live = each.head.table_of(table)[0].table(table)
    at = pc.index_in(rows.column("path"), value_set=live.column("path").combine_chunks())
    now = pc.take(live.column("revision"), at).combine_chunks()
    later = column([each.head.revision + 1], pa.int64())[0]
    return pc.if_else(again, later, now)
