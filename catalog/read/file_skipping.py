"""Files that were listed once, to be judged by what the log knows of them: for engines that list
first, and are told what is asked for when they plan.

Source: docs/format.md, sections 5.2 and 5.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ..format import compute as pc
from ..format.columns import array, is_null, numbers, one_chunk
from ..format.names import base_folder
from ..format.statistics import bound_type
from .file_parts import key_column
from .scan_request import kept_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..log.state import State
    from ..where.outcomes import Facts
    from .cut_tables import CutTables
    from .row_filter import RowFilter
    from .table_facts import TableFacts


class OneValues(NamedTuple):
    """The one value that a column has in each of some files.

    Attributes:
        known: Per file whether it has one, for certain.
        values: Per file which, in the column's type: null where all of its rows are null, and where
            it isn't known.
    """

    known: np.ndarray
    values: pa.ChunkedArray


def one_values(facts: TableFacts, wanted: pa.Field) -> OneValues:
    """Those of the live files of a table, in the order of `Files.table(table)`.

    Args:
        wanted: The column as the cut has it.
    Requests: as `TableFacts.of_files`.
    """
    found = [nothing_known(0, wanted.type)]
    for source in facts.of_files([wanted.name]):
        parts = [nothing_known(0, wanted.type)]
        places = np.zeros(len(source.live), np.int64)
        for members, of_column in source.units.by_schema(pa.schema([wanted]), proven=True):
            places[members] = sum(len(part.known) for part in parts) + np.arange(len(members))
            parts.append(_of_facts(of_column(wanted.name), wanted.type))
        found.append(taken(joined(parts), places[source.live]))
    return joined(found)


def nothing_known(count: int, kind: pa.DataType) -> OneValues:
    """Of some files nothing."""
    values = pa.chunked_array([pa.nulls(count, kind)])
    return OneValues(np.zeros(count, np.bool_), values)


def joined(parts: Sequence[OneValues]) -> OneValues:
    """Those of some files, and of others, and so on: at least of one list."""
    chunks = [chunk for part in parts for chunk in part.values.chunks]
    values = pa.chunked_array(chunks, parts[0].values.type)
    return OneValues(np.concatenate([part.known for part in parts]), values)


def taken(of: OneValues, places: np.ndarray) -> OneValues:
    """Those of some of the files, by their places."""
    return OneValues(of.known[places], pc.take(of.values, array(places)))


def _of_facts(facts: Facts, kind: pa.DataType) -> OneValues:
    count = len(facts.rows)
    if facts.kind is None or pa.types.is_null(facts.kind):
        return OneValues(np.ones(count, np.bool_), pa.chunked_array([pa.nulls(count, kind)]))
    only_nulls = nothing_known(count, kind)._replace(known=facts.nulls == facts.rows)
    low, high = facts.low, facts.high
    if low is None or high is None or not _is_told(bound_type(facts.kind)):
        return only_nulls
    if isinstance(low.values, np.ndarray):
        same = low.values == high.values
    else:
        same = numbers(pc.fill_null(pc.equal(low.values, high.values), False))
    one = low.known & high.known & same & (facts.nulls == 0)
    try:
        values = pc.cast(_values(low.values, one, facts.kind), kind)
    except pa.ArrowException:  # one that the cut's type can't hold: who reads the file is told so
        return only_nulls
    return OneValues(one | only_nulls.known, pa.chunked_array([values]))


def _is_told(bounds: pa.DataType) -> bool:
    """Whether bounds that are equal tell the one value. Not those of floats: NaN and the signs of
    zeros are in no bound."""
    types = pa.types
    return bool(
        types.is_boolean(bounds)
        or types.is_integer(bounds)
        or types.is_string(bounds)
        or types.is_date32(bounds)
        or types.is_timestamp(bounds)
        or types.is_decimal(bounds)
    )


def _values(keys: np.ndarray | pa.Array, known: np.ndarray, kind: pa.DataType) -> pa.Array:
    """What bounds stand for; null where they aren't known.

    Source: docs/format.md, section 6.5.
    """
    bounds = bound_type(kind)
    types = pa.types
    if not isinstance(keys, np.ndarray):
        return pc.cast(pc.if_else(array(known), keys, pa.nulls(1, keys.type)[0]), bounds)
    data = keys
    if types.is_boolean(bounds):
        data = np.packbits(keys == 1, bitorder="little")
    elif types.is_unsigned_integer(bounds):
        data = keys.view(np.uint64) ^ np.uint64(1 << 63)
    elif types.is_decimal(bounds):
        data = np.stack([keys, keys >> 63], axis=1)  # of 128 bits, the lower half first
    elif types.is_date32(bounds):
        data = keys.astype(np.int32)
    there = pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(
        bounds, len(keys), [there, pa.py_buffer(np.ascontiguousarray(data))]
    )


# --- Files that were listed once, and are judged when an engine plans -----------------------------


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

    def may_hold(self, wanted: RowFilter, *, proven: bool = False) -> np.ndarray:
        """Which of the files may hold rows that are asked for.

        Args:
            proven: As for `Units.by_schema`.
        Returns:
            A mask over the keys, in their order.
        Requests: as `TableFacts.of_files`.
        """
        known, kept = (np.zeros(len(self._keys), np.bool_) for _ in range(2))
        for facts, found, places in self._known():
            known[found] = True
            # Several logs may have one external file, under other partitions.
            kept[found] |= kept_files(facts, wanted, proven=proven)[places]
        return kept | ~known  # a file that no log knows may hold anything

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
        paths = facts.files.table(self._table).column("path")
        own = key_column(paths, base_folder(state.writer, state.database), state)
        places = one_chunk(pc.index_in(keys, own))
        known = np.flatnonzero(~is_null(places))
        return facts, known, numbers(places)[known].astype(np.int64)
