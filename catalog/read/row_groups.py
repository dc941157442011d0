"""The row groups of files that have several, as units to be judged: those of files of which all row
groups are known, each once. Pure.

Source: docs/format.md, sections 6.2 and 6.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..format.columns import numbers
from .column_facts import Units

if TYPE_CHECKING:
    import pyarrow as pa

_SHIFT = 31  # rows and row groups are below 2^31


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Row groups, by file and number.

    Attributes:
        places: Per row group its file.
        numbers: Per row group its number in the file.
        units: What is known of them.
    """

    places: np.ndarray
    numbers: np.ndarray
    units: Units

    def places_of(self, rows: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Which of these some row groups are, by file and number; -1: none."""
        keys = (self.places << _SHIFT) + self.numbers
        spoken = (rows << _SHIFT) + order.astype(np.int64)
        found = np.searchsorted(keys, spoken)
        hit = (found < len(keys)) & (rows >= 0)
        hit[hit] = keys[found[hit]] == spoken[hit]
        return np.where(hit, found, -1)


def known_row_groups(
    files: Units, live: np.ndarray, stated: np.ndarray, said: pa.Table | None
) -> RowGroups:
    """The row groups that can be judged.

    Args:
        files: Those of the files.
        live: Per file whether it is.
        stated: Per file how many row groups it has.
        said: Rows of ROW_GROUPS; None: there are none.
    """
    if said is None or not said.num_rows:
        nothing = np.zeros(0, np.int64)
        return RowGroups(nothing, nothing, Units(nothing, nothing, files.schemas))
    places, order, rows = (
        numbers(said.column(name)).astype(np.int64) for name in ("row", "row_group", "row_count")
    )
    inside = (places >= 0) & (places < len(live))
    at = np.where(inside, places, 0)
    fits = inside & (order >= 0) & (order < stated[at])
    sound = live & (stated > 1)
    for counted in (inside, fits):  # as many as stated, and no other
        sound &= np.bincount(at[counted], minlength=len(live)) == stated
    keys = (places << _SHIFT) + order
    unique, often = np.unique(keys[fits], return_counts=True)
    sound[unique[often > 1] >> _SHIFT] = False
    chosen = np.flatnonzero(fits & sound[at])
    chosen = chosen[np.argsort(keys[chosen])]
    units = Units(rows[chosen], files.schema_numbers[places[chosen]], files.schemas)
    return RowGroups(places[chosen], order[chosen], units)
