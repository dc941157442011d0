"""Rows on their way through an operation, batch by batch: counted, filtered, sorted.

Source: docs/changing.md, "Operations".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import OperationInvalid, UsageError
from ..format.columns import array
from ..read.rows_met import meets
from ..scalars import value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..data.row_digest import RowDigest
    from ..data.shown import Shown
    from ..read.row_filter import RowFilter
    from .inputs import Group
    from .session import Session


class Counted:
    """Batches with rows, counted as they go by; can be asked first whether there are any."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = (batch for batch in batches if batch.num_rows)
        self._first: list[pa.RecordBatch] = []
        self.rows = 0

    def any(self) -> bool:
        """Whether there is a row at all."""
        if not self._first:
            self._first = [batch for batch in [next(self._batches, None)] if batch is not None]
        return bool(self._first)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while self.any():
            batch = self._first.pop()
            self.rows += batch.num_rows
            yield batch


def within(
    batches: Iterable[pa.RecordBatch],
    shows: Shown,
    wanted: RowFilter | None,
    table: str,
    where: Any,
) -> Iterator[pa.RecordBatch]:
    """Data that is to come, each row of which must meet what is replaced, as readers will see it.

    Args:
        shows: What it shows to them.
    """
    for batch in batches:
        if wanted is not None:
            rows = shows.seen(batch)
            met = meets(wanted, rows)
            if not met.all():
                outside = rows.slice(int(met.argmin()), 1).select(
                    [name for name in wanted.target.names if name in rows.schema.names]
                )
                raise OperationInvalid(
                    f"{int((~met).sum()):,} of {len(met):,} rows of the data for table {table!r} "
                    f"don't meet {where}: the first has {str(outside.to_pylist())[:200]}",
                    key=table,
                    hint="Nothing becomes visible; the transaction is lost. Leave these rows out, "
                    "or give validate=False",
                )
        yield batch


def staying(group: Group, session: Session, wanted: RowFilter | None) -> Iterator[pa.RecordBatch]:
    """The rows of files that don't meet what is replaced: for which it is false, or null."""
    assert wanted is not None, "only files that hold other rows too are read"
    for batch in group.read(session):
        yield batch.filter(array(~meets(wanted, batch)))


def digested(
    batches: Iterable[pa.RecordBatch], digest: RowDigest, shows: Shown | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows that are taken into a digest as they go by.

    Args:
        shows: What they show to readers; None: what they are.
    """
    for batch in batches:
        digest.add(batch if shows is None else shows.seen(batch))
        yield batch


def refuse_other_rows(taken: RowDigest, given: RowDigest, table: str) -> None:
    """Hold the rows of a rewrite's data against those of the files that go.

    Raises:
        OperationInvalid: They aren't the same.
    """
    if taken.value == given.value:
        return
    same = "the same number of" if taken.rows == given.rows else f"{given.rows:,}"
    what = ", with other values" if taken.rows == given.rows else ""
    raise OperationInvalid(
        f"The rewrite of table {table!r} takes out {taken.rows:,} rows and puts in {same} "
        f"rows{what}",
        key=table,
        hint="Nothing becomes visible; the transaction is lost. A rewrite keeps every row as it "
        "is: what changes rows is an overwrite",
    )


def columns_to_sort(sort_by: Any) -> list[str]:
    """Names of columns to sort by; none: not at all.

    Raises:
        UsageError: Something else.
    """
    names = [sort_by] if isinstance(sort_by, str) else list(sort_by or ())
    found = [value_of(name) for name in names]
    if not all(isinstance(name, str) for name in found):
        raise UsageError(f"sort_by= has {found!r:.80}", hint="Give names of columns")
    return found


def in_order(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, order: list[str], table: str
) -> Iterator[pa.RecordBatch]:
    """The same rows, sorted; as they come if there is nothing to sort by."""
    if not order:
        yield from batches
        return
    lacking = [name for name in order if name not in schema.names]
    if lacking:
        raise UsageError(
            f"Files of table {table!r} have no column {lacking[0]!r} to be sorted by",
            key=lacking[0],
            hint=f"They have: {', '.join(schema.names)}",
        )
    rows = pa.Table.from_batches(batches, schema)
    try:
        found = rows.sort_by([(name, "ascending") for name in order])
    except (pa.ArrowException, TypeError) as error:
        raise UsageError(
            f"Rows of table {table!r} can't be sorted by {', '.join(order)}: {error}",
            key=order[0],
            hint="Sort by columns of numbers, times or texts",
        ) from error
    yield from found.to_batches()
