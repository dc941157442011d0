"""Which files of a table, and which row groups of them, can hold rows that meet a predicate: by the
log's statistics alone, without a look into the files. What is unknown is never skipped.

Source: docs/format.md, sections 5.2 and 5.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..format.columns import array

if TYPE_CHECKING:
    from .row_filter import RowFilter
    from .table_facts import TableFacts


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
