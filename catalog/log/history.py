"""The history of one log: a row a revision, from a checkpoint's segment and from transactions
since. Pure.

Source: docs/format.md, section 6.3.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ..format import segments

if TYPE_CHECKING:
    from ..format.objects import DecodedTransaction

Row = dict[str, Any]


def transaction_row(found: DecodedTransaction) -> Row:
    """The history row of one transaction, with the fields of `segments.HISTORY`."""
    message = found.message
    adds = [action.add for action in message.actions if action.WhichOneof("kind") == "add"]
    removed = sum(action.WhichOneof("kind") == "remove" for action in message.actions)
    batches = [batch.run.core for batch in found.batches.values()]
    members = message.commit.members
    summary = {key: value for member in members for key, value in sorted(member.summary.items())}
    operations = list(dict.fromkeys(member.operation for member in members))
    return {
        "revision": message.revision,
        "uuid": message.uuid,
        "digest": found.digest,
        "committed_at": message.commit.committed_at_us,
        "epoch": message.epoch,
        "guest": message.guest,
        "operation": "+".join(operations),
        "transaction_ids": [member.transaction_id for member in members],
        "files_added": len(adds) + sum(batch.num_rows for batch in batches),
        "files_removed": removed,
        "rows_added": sum(add.row_count for add in adds) + _sum(batches, "row_count"),
        "bytes_added": sum(add.size_bytes for add in adds) + _sum(batches, "size_bytes"),
        "summary": json.dumps(summary, sort_keys=True, ensure_ascii=False) if summary else None,
    }


def _sum(batches: list[pa.Table], column: str) -> int:
    return sum(pc.sum(batch.column(column)).as_py() or 0 for batch in batches)


def rows_to_table(rows: list[Row]) -> pa.Table:
    """History rows as a table with the columns of `segments.HISTORY`."""
    return pa.Table.from_arrays(
        [pa.array([row[column.name] for row in rows], column.type) for column in segments.HISTORY],
        schema=segments.HISTORY,
    )


@dataclass(slots=True)
class History:
    """Rows in ascending revision order: a table from a checkpoint, then rows of transactions
    since."""

    base: pa.Table | None = None
    rows: list[Row] = field(default_factory=list)

    def copy(self) -> History:
        """An independent copy; the table is shared."""
        return History(self.base, list(self.rows))

    def append(self, row: Row) -> None:
        """One more revision."""
        self.rows.append(row)

    def table(self) -> pa.Table:
        """All rows, with the columns of `segments.HISTORY`."""
        if self.base is None:
            return rows_to_table(self.rows)
        if not self.rows:
            return self.base
        return pa.concat_tables([self.base, rows_to_table(self.rows)])

    def after(self, revision: int) -> list[Row]:
        """The rows of later revisions."""
        late = [row for row in self.rows if row["revision"] > revision]
        if self.base is None:
            return late
        return _base_rows(self.base.filter(pc.greater(self.base["revision"], revision))) + late

    def of_transactions(self, wanted: set[bytes]) -> dict[bytes, Row]:
        """The rows that some transactions stand in, by transaction id."""
        rows = list(self.rows)
        if self.base is not None and self.base.num_rows:
            ids = self.base["transaction_ids"].combine_chunks()
            hit = pc.is_in(ids.flatten(), pa.array(sorted(wanted), pa.binary(16)))
            rows += _base_rows(self.base.take(pc.list_parent_indices(ids).filter(hit)))
        return {each: row for row in rows for each in row["transaction_ids"] if each in wanted}

    def holds(self, revision: int) -> bool:
        """Whether the row of a revision is still there."""
        if any(row["revision"] == revision for row in self.rows):
            return True
        return self.base is not None and bool(
            pc.any(pc.equal(self.base["revision"], revision)).as_py()
        )

    def revision_at(self, at_us: int) -> int | None:
        """The newest revision committed at or before a time (µs, UTC), or None."""
        for row in reversed(self.rows):
            if row["committed_at"] <= at_us:
                return int(row["revision"])
        if self.base is None:
            return None
        times = self.base.column("committed_at").cast(pa.int64())
        count = pc.sum(pc.less_equal(times, at_us)).as_py() or 0
        return int(self.base.column("revision")[count - 1].as_py()) if count else None


def _base_rows(table: pa.Table) -> list[Row]:
    """Rows of a table as `transaction_row` gives them: times in µs."""
    place = table.schema.get_field_index("committed_at")
    times = table.column(place).cast(pa.int64())
    return list(table.set_column(place, "committed_at", times).to_pylist())
