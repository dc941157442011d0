"""The history of one log: a row a revision, from the pieces of a checkpoint and from transactions
since. Pieces are read when they are asked for, newest first. Pure: the reading is handed in.

Source: docs/format.md, section 6.3.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from ...errors import CorruptError, CorruptObject, UnsupportedFeature
from ..format import compute as pc
from ..format.columns import array, column, numbers, rows_to_table
from ..format.segments import HISTORY, HISTORY_COLUMNS, MAX_NUMBER, MAX_TIME_US, decode_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..format.objects import DecodedTransaction
    from ..format.pieces import Piece

Row = dict[str, Any]
_T = TypeVar("_T")
_SUMMARY = ("summary_keys", "summary_values")


def transaction_row(found: DecodedTransaction) -> Row:
    """The history row of one transaction, with the fields of `HISTORY_COLUMNS`; times in µs."""
    message = found.message
    adds = [action.add for action in message.actions if action.WhichOneof("kind") == "add"]
    removed = sum(action.WhichOneof("kind") == "remove" for action in message.actions)
    batches = [p.segment for pieces in found.batches.values() for p in pieces if p.kind == 1]
    members = message.commit.members
    said = {key: value for member in members for key, value in member.summary.items()}
    summary = sorted(said.items())
    operations = list(dict.fromkeys(member.operation for member in members))
    rows = sum(add.row_count for add in adds) + sum(batch.total_rows for batch in batches)
    size = sum(add.size_bytes for add in adds) + sum(batch.total_bytes for batch in batches)
    return {
        "revision": message.revision,
        "uuid": message.uuid,
        "digest": found.digest,
        "committed_at": message.commit.committed_at_us,
        "epoch": message.epoch,
        "guest": message.guest,
        "operation": "+".join(operations),
        "transaction_ids": [member.transaction_id for member in members],
        "files_added": len(adds) + sum(batch.row_count for batch in batches),
        "files_removed": removed,
        "rows_added": min(rows, MAX_NUMBER - 1),
        "bytes_added": min(size, MAX_NUMBER - 1),
        "summary_keys": [key for key, _ in summary],
        "summary_values": [value for _, value in summary],
    }


def summary_of(row: Row) -> dict[str, str]:
    """What the members of a commit say of it, from its row."""
    return dict(zip(row["summary_keys"], row["summary_values"], strict=True))


def summaries(table: pa.Table) -> list[dict[str, str]]:
    """The same of each row of a table of history rows."""
    return [summary_of(row) for row in table.select(list(_SUMMARY)).to_pylist()]


def history_rows(rows: Sequence[Row]) -> pa.Table:
    """History rows as a table with the columns of `HISTORY_COLUMNS`."""
    return rows_to_table(
        [[row[name] for name in HISTORY_COLUMNS.names] for row in rows], HISTORY_COLUMNS
    )


def check_history(pieces: Sequence[Piece], key: str) -> None:
    """Raises `CorruptObject` if a checkpoint (`key`) doesn't refer to a history without gaps."""
    for one, two in itertools.pairwise(pieces):
        if two.segment.first_revision != one.segment.last_revision + 1:
            raise CorruptObject(f"{two.where} leaves a gap in the history", key=two.where)
    if not pieces:
        raise CorruptObject(f"{key} holds no history", key=key)


@dataclass(slots=True)
class History:
    """Rows in ascending revision order.

    Attributes:
        pieces: Of a checkpoint, ascending, without gaps.
        fetch: Reads pieces.
        rows: Of transactions since.
        expected: Revision, digest and commit time (µs) of the last row of the pieces.
        older: Gives the history from an older checkpoint when a piece is damaged, or raises the
            error.
    """

    pieces: tuple[Piece, ...] = ()
    fetch: Any = None
    rows: list[Row] = field(default_factory=list)
    expected: tuple[int, bytes, int] | None = None
    older: Callable[[CorruptError], History] | None = None
    _tables: dict[int, pa.Table] = field(default_factory=dict)

    def copy(self) -> History:
        """An independent copy; tables are shared."""
        return replace(self, rows=list(self.rows), _tables=dict(self._tables))

    def apply(self, transaction: DecodedTransaction) -> None:
        """One more revision."""
        self.rows.append(transaction_row(transaction))

    def table(self) -> pa.Table:
        """All rows, with the columns of `HISTORY_COLUMNS`."""
        return self._sound(self._table)

    def _table(self) -> pa.Table:
        tables = [self.piece(place) for place in range(len(self.pieces))]
        if self.rows or not tables:
            tables.append(history_rows(self.rows))
        return pa.concat_tables(tables)

    def after(self, revision: int) -> list[Row]:
        """The rows of later revisions, ascending."""
        return self._sound(lambda: self._after(revision))

    def _after(self, revision: int) -> list[Row]:
        found = [row for row in self.rows if row["revision"] > revision]
        for place, piece in reversed(list(enumerate(self.pieces))):
            if piece.segment.last_revision <= revision:
                break
            table = self.piece(place)
            found[:0] = _python_rows(table.filter(array(numbers(table["revision"]) > revision)))
        return found

    def of_transactions(self, wanted: set[bytes]) -> dict[bytes, Row]:
        """Returns the rows of some transactions, by transaction id; looks at the newest first."""
        return self._sound(lambda: self._of_transactions(wanted))

    def _of_transactions(self, wanted: set[bytes]) -> dict[bytes, Row]:
        found: dict[bytes, Row] = {}
        for row in self.rows:
            found |= {own: row for own in row["transaction_ids"] if own in wanted}
        for place in reversed(range(len(self.pieces))):
            if len(found) == len(wanted):
                break
            table = self.piece(place)
            ids = table["transaction_ids"].combine_chunks()
            hit = pc.is_in(ids.flatten(), column(sorted(wanted), pa.binary(16)))
            for row in _python_rows(table.take(pc.list_parent_indices(ids).filter(hit))):
                found |= {own: row for own in row["transaction_ids"] if own in wanted}
        return found

    def holds(self, revision: int) -> bool:
        """Whether the row of a revision is still there."""
        return any(row["revision"] == revision for row in self.rows) or any(
            piece.segment.first_revision <= revision <= piece.segment.last_revision
            for piece in self.pieces
        )

    def first(self) -> int:
        """The oldest revision that has a row; -1 if none has."""
        if self.pieces:
            return self.pieces[0].segment.first_revision
        return int(self.rows[0]["revision"]) if self.rows else -1

    def first_epoch(self) -> int:
        """Returns the epoch of that revision; 0 if none has a row. Raises `CorruptError` if its
        piece is damaged, and no older checkpoint serves."""
        return self._sound(self._first_epoch)

    def _first_epoch(self) -> int:
        if self.pieces:
            return int(self.piece(0)["epoch"][0].as_py())
        return int(self.rows[0]["epoch"]) if self.rows else 0

    def revision_at(self, at_us: int) -> int | None:
        """The newest revision committed at or before a time (µs, UTC), or None."""
        return self._sound(lambda: self._revision_at(at_us))

    def _revision_at(self, at_us: int) -> int | None:
        for row in reversed(self.rows):
            if row["committed_at"] <= at_us:
                return int(row["revision"])
        for place in reversed(range(len(self.pieces))):
            table = self.piece(place)
            times = numbers(table.column("committed_at"))
            count = int(np.searchsorted(times, at_us, side="right"))
            if count:
                return int(table.column("revision")[count - 1].as_py())
        return None

    def _sound(self, read: Callable[[], _T]) -> _T:
        """Returns what `read` gives; from an older checkpoint, if a piece is damaged. Raises
        `CorruptError` as at the highest checkpoint."""
        first: CorruptError | None = None
        while True:
            try:
                return read()
            except UnsupportedFeature:
                raise
            except CorruptError as error:
                first = first or error
                if self.older is None:
                    raise first from None
                self._take_over(self.older(first))

    def _take_over(self, other: History) -> None:
        """Go on with another history of the same revisions."""
        last = self.rows[-1]["revision"] if self.rows else (self.expected or (-1,))[0]
        known = [row for row in other.rows if row["revision"] <= last]
        end = known[-1]["revision"] if known else (other.expected or (-1,))[0]
        self.rows = known + [row for row in self.rows if row["revision"] > end]
        self.pieces, self.fetch, self.expected = other.pieces, other.fetch, other.expected
        self.older, self._tables = other.older, {}

    def piece(self, place: int, *, exact: bool = False) -> pa.Table:
        """Returns the rows of one piece, read once; `exact` refuses columns of a later version.
        Raises `CorruptObject` if they aren't those of its revisions."""
        if place not in self._tables:
            piece = self.pieces[place]
            data = self.fetch([piece])[0]
            table = decode_segment(data, HISTORY, piece.rows, piece.where, exact=exact)
            self._check(table, place)
            self._tables[place] = table
            self._check_order(place)
        return self._tables[place]

    def _check_order(self, place: int) -> None:
        """Commit times ascend from piece to piece too."""
        for low, high in ((place - 1, place), (place, place + 1)):
            if low in self._tables and high in self._tables:
                before = numbers(self._tables[low].column("committed_at"))[-1]
                if before >= numbers(self._tables[high].column("committed_at"))[0]:
                    where = self.pieces[high].where
                    raise CorruptObject(f"{where} goes back in time", key=where)

    def _check(self, table: pa.Table, place: int) -> None:
        """A piece ascends without gaps, begins after the one before, and ends as it should."""
        piece = self.pieces[place]
        revisions = numbers(table.column("revision"))
        times = numbers(table.column("committed_at"))
        last = len(revisions) - 1
        sound = (
            (np.diff(revisions) == 1).all()
            and (times[:-1] < times[1:]).all()
            and times[0] > 0
            and times[-1] < MAX_TIME_US
            and numbers(table.column("epoch")).min() > 0
            and (revisions[0], revisions[-1])
            == (piece.segment.first_revision, piece.segment.last_revision)
        )
        lengths = [numbers(pc.list_value_length(table.column(name))) for name in _SUMMARY]
        sound = sound and (lengths[0] == lengths[1]).all()
        if place + 1 < len(self.pieces):
            follows = self.pieces[place + 1].segment.first_revision == revisions[-1] + 1
        else:
            end = (int(revisions[-1]), table.column("digest")[last].as_py(), int(times[-1]))
            follows = self.expected is None or end == self.expected
        if not (sound and follows):
            raise CorruptObject(
                f"{piece.where} holds a history that is not that of its revisions", key=piece.where
            )


def _python_rows(table: pa.Table) -> list[Row]:
    """Rows of a table as `transaction_row` gives them: times in µs."""
    place = table.schema.get_field_index("committed_at")
    times = table.column(place).cast(pa.int64())
    return list(table.set_column(place, "committed_at", times).to_pylist())
