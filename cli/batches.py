"""Rows that come as Arrow batches, printed in any form while they come: memory stays bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import output
from .progress import Progress
from .values import is_number, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


def print_batches(
    form: str,
    reader: pa.RecordBatchReader,
    *,
    limit: int | None = None,
    head: Mapping[str, Any] | None = None,
) -> int:
    """Print the rows of a reader.

    Args:
        form: One of `output.FORMS`.
        limit: At most so many rows; no more batches are asked for than that takes.
        head: What json says beside the rows, such as `opening.cut_fields`.
    Returns:
        The number of rows printed.
    Raises:
        UsageError: The form can't be written; see `typed`.
    """
    printer = _printer(form, reader.schema, head)
    done = 0
    with Progress("rows read", streaming=True) as progress:
        while limit is None or done < limit:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                break
            batch = batch if limit is None else batch.slice(0, limit - done)
            done += batch.num_rows
            progress.step(batch.num_rows)
            printer.add(batch)
    printer.close()
    return done


class _Plain:
    """Batches in the forms that hold plain values."""

    def __init__(self, stream: output.Stream) -> None:
        self._stream = stream

    def add(self, batch: pa.RecordBatch) -> None:
        """Print more rows."""
        self._stream.add([plain(column) for column in batch.columns])

    def close(self) -> None:
        """Print what stands at the end."""
        self._stream.close()


def _printer(form: str, schema: pa.Schema, head: Mapping[str, Any] | None) -> Any:
    if form in output.TYPED:
        from .typed import TypedStream

        return TypedStream(form, schema)
    right = [is_number(field.type) for field in schema]
    return _Plain(output.Stream(form, schema.names, right, head))
