"""What is asked of a table at a cut, and the live files that may have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..format import compute as pc
from ..format.columns import array
from ..log.part import in_partition

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from ...store import Store
    from ..data.file_part import BloomPlace, FilePart
    from ..log.files import Files
    from ..log.state import State
    from .cut_tables import CutTables
    from .row_filter import RowFilter
    from .table_facts import TableFacts


class Asked(NamedTuple):
    """What of a table is asked for: rows that meet a filter, of one partition, of one writer; None:
    of any."""

    table: str
    found: RowFilter | None
    partition: str | None
    writer: str | None


def held(tables: CutTables, state: State, asked: Asked) -> tuple[Files, TableFacts | None]:
    """The files of a table in one log; and what is known of them, where rows are filtered."""
    if asked.found is None:
        return tables.table_of(state, asked.table, asked.partition)[0], None
    facts = tables.facts_of(state, asked.table, asked.partition)
    return facts.files, facts


def asked_rows(files: Files, asked: Asked, facts: TableFacts | None, *, whole: bool) -> pa.Table:
    """Of the live files of a table in one log those that are asked for.

    Args:
        facts: What is known of their columns, where rows are filtered.
        whole: All columns of FILES, instead of the core ones.
    """
    rows = files.table(asked.table, whole=whole)
    if asked.found is not None and facts is not None:
        rows = pc.filter(rows, array(kept_files(facts, asked.found)))
    if asked.partition is None:
        return rows
    return pc.filter(rows, in_partition(rows, asked.partition))


def asked_groups(
    asked: Asked, facts: TableFacts | None, rows: pa.Table
) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[BloomPlace, ...]]]:
    """By path the row groups to be read, where some can be skipped, and the bloom filters that may
    say more of them.

    Args:
        rows: Of `asked_rows`, whole.
    """
    if asked.found is None or facts is None:
        return {}, {}
    from .blooms import bloom_places

    return kept_row_groups(facts, asked.found), bloom_places(facts, asked.found, rows)


def by_blooms(store: Store, parts: list[FilePart], asked: Asked) -> Iterable[FilePart]:
    """The files that bloom filters leave, which are asked as these are consumed."""
    if asked.found is None or not any(part.blooms for part in parts):
        return parts
    from .blooms import sifted

    return sifted(store, parts, asked.found)


def kept_files(facts: TableFacts, wanted: RowFilter) -> np.ndarray:
    """Which live files of a table may hold rows that are asked for.

    Returns:
        A mask over the rows of `Files.table(table)`, in its order.
    Requests: as `TableFacts.of_files`.
    """
    masks = [np.zeros(0, np.bool_)]
    for source in facts.of_files(wanted.target.names):
        masks.append(source.units.judge(wanted).true[source.live])
    return np.concatenate(masks)


def kept_row_groups(facts: TableFacts, wanted: RowFilter) -> dict[str, tuple[int, ...]]:
    """Which row groups of live files may hold rows that are asked for.

    Returns:
        By path, in file order, for files of which some can be skipped and all are known.
    Requests: as `TableFacts.of_row_groups`.
    """
    kept: dict[str, tuple[int, ...]] = {}
    for source in facts.of_row_groups(wanted.target.names):
        groups = source.row_groups
        assert groups is not None
        if not len(groups.places):
            continue
        true = groups.units.judge(wanted).true
        some = np.unique(groups.places[~true])
        paths = source.files.column("path").take(array(some)).to_pylist()
        for place, path in zip(some.tolist(), paths, strict=True):
            first, last = np.searchsorted(groups.places, [place, place + 1])
            kept[path] = tuple(groups.numbers[first:last][true[first:last]].tolist())
    return kept
