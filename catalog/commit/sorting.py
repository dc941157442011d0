"""Rows sorted in bounded memory.

Rows that fit are sorted at once. More are read several times: each time those of one range of the
first column, which are sorted and given before the next range is read.

Source: docs/maintenance.md, "compact".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import UsageError
from ..format import compute as pc
from ..format.columns import array, column, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..data.row_digest import RowDigest

MEMORY_BYTES: Final = 1 << 30
_STEP: Final = 100  # of so many rows one is looked at, to find the ranges
_PASSES: Final = 1_000


@dataclass(slots=True)
class Sorting:
    """Sorts rows of a table.

    Attributes:
        order: The columns, ascending; rows of the same values stay in their order.
        table: For messages.
        memory_bytes: What rows may take in memory, before and after they are sorted; more only
            where very many have one value of the first column.
        places: Where each row that was given stood among those that were read.
    """

    order: Sequence[str]
    table: str
    memory_bytes: int = MEMORY_BYTES
    places: list[np.ndarray] = field(default_factory=list)

    def rows(
        self,
        read: Callable[[], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
        taken: RowDigest,
    ) -> Iterator[pa.RecordBatch]:
        """Yields all rows, sorted.

        Args:
            read: Reads them; each time the same, in the same order.
            taken: Takes in all of them, once.
        Raises:
            UsageError: No such column, or not one to be sorted by.
        """
        lacking = [name for name in self.order if name not in schema.names]
        if lacking:
            raise UsageError(
                f"Files of table {self.table!r} have no column {lacking[0]!r} to be sorted by",
                key=lacking[0],
                hint=f"They have: {', '.join(schema.names)}",
            )
        held: list[pa.RecordBatch] | None = []
        sampled: list[pa.Array] = []
        size_bytes = rows = 0
        for batch in read():
            taken.add(batch)
            size_bytes += batch.nbytes
            some = np.arange(-rows % _STEP, batch.num_rows, _STEP)
            sampled.append(pc.take(batch.column(self.order[0]), array(some)))
            rows += batch.num_rows
            if held is not None:
                held.append(batch)
            if 2 * size_bytes > self.memory_bytes:
                held = None
        if held is not None:
            yield from self._sorted(held, schema, None)
            return
        passes = min(-(-2 * size_bytes // self.memory_bytes), _PASSES)
        for within in self._ranges(pa.chunked_array(sampled), passes):
            yield from self._of_range(read, schema, within)

    def _of_range(
        self,
        read: Callable[[], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
        within: tuple[Any, Any],
    ) -> Iterator[pa.RecordBatch]:
        start = 0
        held: list[pa.RecordBatch] = []
        places: list[np.ndarray] = []
        for batch in read():
            first = batch.column(self.order[0])
            kept = _below(first, within[1]) & ~_below(first, within[0], none=False)
            if kept.any():
                held.append(pc.filter(batch, array(kept)))
                places.append(np.flatnonzero(kept) + start)
            start += batch.num_rows
        if held:
            yield from self._sorted(held, schema, np.concatenate(places))

    def _sorted(
        self, held: list[pa.RecordBatch], schema: pa.Schema, places: np.ndarray | None
    ) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(held, schema)
        held.clear()
        try:
            found = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in self.order])
        except (pa.ArrowException, TypeError) as error:
            raise self._unsortable(error) from error
        order = numbers(found).astype(np.int64)
        self.places.append(order if places is None else places[order])
        rows = rows.take(found)
        yield from rows.to_batches()

    def _ranges(self, sampled: pa.ChunkedArray, count: int) -> list[tuple[Any, Any]]:
        """Ranges of the first column, each from a value on, up to, without, another; None: no such
        end. What is neither below nor above, as null, is in the last one."""
        try:
            values = sampled.drop_null()
            values = values.take(pc.sort_indices(values)).combine_chunks()
            if not len(values):
                return [(None, None)]
            at = np.linspace(0, len(values), count + 1).astype(np.int64)[1:-1]
            cuts = pc.unique(pc.take(values, array(at)))
            pc.less(values, cuts[0])
        except (pa.ArrowException, TypeError) as error:
            raise self._unsortable(error) from error
        return list(pairwise([None, *cuts, None]))

    def _unsortable(self, error: Exception) -> UsageError:
        return UsageError(
            f"Rows of table {self.table!r} can't be sorted by {', '.join(self.order)}: {error}",
            key=self.order[0],
            hint="Sort by columns of numbers, times or texts",
        )


_FALSE: Final = column([False], pa.bool_())[0]


def _below(values: pa.Array, end: Any, *, none: bool = True) -> np.ndarray:
    """Which values are below an end; `none` for all if there is no end."""
    if end is None:
        return np.full(len(values), none)
    found: np.ndarray = numbers(pc.coalesce(pc.less(values, end), _FALSE)).astype(np.bool_)
    return found
