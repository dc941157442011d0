"""By which columns the rows of a table are split: those that its newest named partition tells of.
Pure.

Source: docs/writing.md, "Partitions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import CorruptError
from ..format import compute as pc
from ..format.names import parse_partition
from ..format.segments import FILES
from .part import Part, batch_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..format.objects import DecodedTransaction
    from ..format.pieces import Piece
    from ..format.run import Run
    from .state import State


def columns_of(partition: str) -> tuple[str, ...]:
    """The columns that the name of a partition tells of; none if it tells of anything else."""
    names = tuple(parse_partition(partition)) if partition else ()
    return names if len(names) == partition.count("/") + 1 else ()


class Partitionings:
    """The newest named partition of each table of one log, as far as it was asked for. Files in the
    partition without a name say nothing.

    What a damaged piece says is left out: rows are right wherever they lie.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._revision = -1  # up to which transactions are in it
        self._read: set[tuple[str, int]] = set()

    def of(self, state: State, table: str) -> tuple[str, ...]:
        """The columns by which a table is partitioned; none if it isn't.

        Requests: none where no file of the checkpoint is in a named partition, or files of one
            table alone fill a piece; else 1 GET, the first time.
        """
        for transaction in state.tail:
            if transaction.message.revision > self._revision:
                self._follow(transaction)
                self._revision = transaction.message.revision
        if table not in self._names:
            self._names[table] = ""
            state.sound(lambda: self._look(state, table))
        return columns_of(self._names[table])

    def _follow(self, transaction: DecodedTransaction) -> None:
        for position, action in enumerate(transaction.message.actions):
            if action.HasField("add") and action.add.partition:
                self._names[action.add.table] = action.add.partition
            elif action.HasField("forget"):
                self._names.update(dict.fromkeys(action.forget.tables, ""))
            elif action.HasField("add_batch"):
                pieces = transaction.batches[position]
                if _named(pieces):
                    for part, _ in batch_parts(pieces):
                        if isinstance(part, Part):
                            self._names |= _newest(part.run)

    def _look(self, state: State, table: str) -> None:
        for piece in _named(state.of_kind(FILES)):
            if not piece.may_hold(table):
                continue
            if piece.segment.first_table == piece.segment.last_table:
                self._names[table] = piece.segment.max_partition
            elif piece.place not in self._read:
                try:
                    (part,) = state.parts_of([piece])
                except CorruptError:
                    continue
                self._read.add(piece.place)
                known = {name: own for name, own in self._names.items() if own or name != table}
                self._names |= _newest(part.run) | known


def _named(pieces: Sequence[Piece]) -> list[Piece]:
    return [piece for piece in pieces if piece.kind == FILES and piece.segment.max_partition]


def _newest(run: Run) -> dict[str, str]:
    """By table the name of a partition, of those that have named ones."""
    names = run.core.column("partition")
    found = {
        table: pc.min_max(names.slice(start, end - start))["max"].as_py()
        for table, (start, end) in run.ranges.items()
    }
    return {table: name for table, name in found.items() if name}
