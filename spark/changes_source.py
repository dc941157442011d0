"""`spark.read.format("lakelog")` with `readChangeFeed`: what changed between two points in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from ..catalog.format.cut import parse_token
from ..catalog.points import point_in_time
from ..errors import UsageError
from .step_tasks import cut_words, read_task, step_tasks, told_whose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from ..catalog.read.changes import Changes
    from .stream_options import Followed


class LakelogChangesReader(DataSourceReader):
    """Reads what changed.

    Args:
        asked: Between which points, of which table.
        schema: What Spark asks for.
        newest: The cut of when the frame was made: where the changes end if nothing else is said.
    """

    def __init__(self, asked: Followed, schema: StructType, newest: str | None) -> None:
        if not asked.feed:
            raise UsageError(
                "since and until are for changes and streams, and this is a read of rows",
                key="since",
                hint="Add .option('readChangeFeed', 'true'), or use asOf, or readStream",
            )
        self._asked = asked
        self._schema = schema
        self._until = asked.until or newest

    def partitions(self) -> Sequence[InputPartition]:
        """The steps between, packed into tasks.

        Requests: Those of `Catalog.changes`, but for reading rows.
        """
        found = self._found()
        return told_whose(step_tasks(found.found, found.projection), self._whose())

    def _whose(self) -> str:
        """Which changes these are, and what to do where a file of them is gone."""
        since, until = (_words(text or "") for text in (self._asked.since, self._until))
        return (
            f"The changes of table {self._asked.table!r} of {self._asked.database!r} from {since} "
            f"to {until} are read. Ask for those since a later cut, and keep history for longer "
            "than changes are asked for (lakelog prune --keep-days)"
        )

    def _found(self) -> Changes:
        asked = self._asked
        until = None if self._until is None else point_in_time(self._until)
        since = point_in_time(asked.since)
        catalog = asked.access.open()
        columns = None if asked.columns is None else list(asked.columns)
        return catalog._changes(asked.database, asked.table, since, until, columns, net=asked.net)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task.

        Raises, Requests: As `read_task`.
        """
        return read_task(self._asked.access, partition, self._schema, about=True)


def _words(point: str) -> str:
    """A point in time; of a token its revisions."""
    found = point_in_time(point) if point else None
    return cut_words(parse_token(found)) if isinstance(found, str) else point or "now"
