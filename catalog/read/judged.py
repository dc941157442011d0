"""Files that were listed once, to be judged by what the log knows of them: for engines that list
first, and are told what is asked for when they plan.

Source: docs/format.md, sections 5.2 and 5.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..format import compute as pc
from ..format.columns import column, is_null, numbers, one_chunk
from ..format.names import base_folder
from .one_values import joined, nothing_known, one_values, taken
from .skipping import kept_files

if TYPE_CHECKING:
    from ..log.state import State
    from .cut_tables import CutTables
    from .one_values import OneValues
    from .row_filter import RowFilter
    from .table_facts import TableFacts


class JudgedFiles:
    """Live files of a table of a cut.

    Args:
        partition, writer: Of which they are; None: of any.
        keys: Of their objects.
    """

    def __init__(
        self,
        tables: CutTables,
        table: str,
        keys: pa.ChunkedArray,
        *,
        partition: str | None = None,
        writer: str | None = None,
    ) -> None:
        self._tables = tables
        self._table = table
        self._keys = keys
        self._of = (partition, writer)
        self._logs: list[tuple[TableFacts, np.ndarray, np.ndarray]] | None = None

    def may_hold(self, wanted: RowFilter) -> np.ndarray:
        """Which of the files may hold rows that are asked for.

        Returns:
            A mask over the keys, in their order.
        Requests: as `TableFacts.of_files`.
        """
        kept = np.ones(len(self._keys), np.bool_)  # a file that no log knows is unknown
        for facts, found, places in self._known():
            kept[found] = kept_files(facts, wanted)[places]
        return kept

    def one_values(self, wanted: pa.Field) -> OneValues:
        """The one value that a column has in each file, in the order of the keys.

        Args:
            wanted: The column as the cut has it.
        Requests: as `TableFacts.of_files`.
        """
        parts = [nothing_known(1, wanted.type)]  # for a file that no log knows
        where = np.zeros(len(self._keys), np.int64)
        for facts, found, places in self._known():
            where[found] = sum(len(part.known) for part in parts) + places
            parts.append(one_values(facts, wanted))
        return taken(joined(parts), where)

    def _known(self) -> list[tuple[TableFacts, np.ndarray, np.ndarray]]:
        if self._logs is None:
            self._logs = [
                self._places(state, self._keys) for state in self._tables.of_writer(self._of[1])
            ]
        return self._logs

    def _places(
        self, state: State, keys: pa.ChunkedArray
    ) -> tuple[TableFacts, np.ndarray, np.ndarray]:
        """What one log knows of its files; which of the keys are of these, and which of these."""
        facts = self._tables.facts_of(state, self._table, self._of[0])
        folder, nothing = column([base_folder(state.writer, state.database), ""], pa.string())
        paths = facts.files.table(self._table).column("path")
        own = pc.binary_join_element_wise(folder, paths, nothing)
        places = one_chunk(pc.index_in(keys, own))
        known = np.flatnonzero(~is_null(places))
        return facts, known, numbers(places)[known].astype(np.int64)
