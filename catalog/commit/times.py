"""Times that the type doesn't hold which their table is read with: of a year beyond 2262 beside
files that hold nanoseconds, say. Who reads the table would fail at them, so they aren't written.

Source: docs/format.md, section 5.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import SchemaConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WORDS: Final = ("timestamp", "date", "duration")
_HINT: Final = (
    "Nothing of this write becomes visible. Write earlier times, or remove the files that have the "
    "finer unit first, in the same transaction; on_conflict='allow' writes it all the same, and "
    "then the column can't be read as a whole"
)


def time_columns(schema: pa.Schema) -> list[str]:
    """The columns that may hold times, perhaps inside of lists and structs."""
    return [field.name for field in schema if any(word in str(field.type) for word in _WORDS)]


def refuse_misfits(
    batches: Iterator[pa.RecordBatch], read_as: Callable[[bool], pa.Schema], table: str
) -> Iterator[pa.RecordBatch]:
    """The batches as they come, each held against what readers make of its times.

    Args:
        read_as: Columns and their types, by all schemas that the log knows; or, if it is asked so,
            only by those of live files.
    Raises (while they are read):
        SchemaConflict: A time doesn't fit.
    """
    target = read_as(False)
    for batch in batches:
        if _misfit(batch, target) is not None:
            target = read_as(True)
            found = _misfit(batch, target)
            if found is not None:
                raise SchemaConflict(
                    f"Column {found.name!r} of table {table!r} is read as {found.type}, which ends "
                    f"before times that are to be written as {batch.schema.field(found.name).type}",
                    key=found.name,
                    hint=_HINT,
                )
        yield batch


def _misfit(batch: pa.RecordBatch, target: pa.Schema) -> pa.Field | None:
    for field in target:
        try:
            batch.column(field.name).cast(field.type)
        except pa.ArrowInvalid:
            return field
    return None
