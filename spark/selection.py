"""What of a table a Spark DataFrame reads: columns, rows, files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ..catalog.where.emit import to_sql
from ..errors import UsageError, some_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from ..catalog.data.file_part import FilePart
    from ..catalog.read.file_skipping import JudgedFiles
    from ..catalog.read.row_filter import RowFilter
    from ..catalog.read.scan_request import FileList
    from ..catalog.snapshot import Snapshot

WRITER_COLUMN: Final = "_writer"
"""The column that tells whose a row is, where a user asks for it."""

FILE_COLUMN: Final = "__lakelog_file"
"""The column that names the file of a row, for DELETE, UPDATE and MERGE: its writer, `/`, its
key."""
PLACE_COLUMN: Final = "__lakelog_place"
"""The column that tells the number of a row in its file."""

# What to do where a file of a cut isn't there any more.
GONE: Final = (
    "Was it deleted by hand, or by gc after prune had forgotten this cut? Make the frame again to "
    "read the newest cut, and keep history for longer than queries run (lakelog prune --keep-days)"
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Columns and rows of one table of a cut.

    Attributes:
        snapshot, table: Of which.
        schema: The columns that are read, those of the condition included.
        columns: Those that are given; None: all that are read.
        where: The predicate, as the user gave it; None: all rows.
        found: The same, bound to the table.
        partition, writer: Only of these.
        with_writer: Whether rows say who wrote them.
        with_places: Whether rows say where they are: their file, and their number there.
        keys: Only of files that are these objects; None: of all.
    """

    snapshot: Snapshot
    table: str
    schema: pa.Schema
    columns: tuple[str, ...] | None = None
    where: str | None = None
    found: RowFilter | None = None
    partition: str | None = None
    writer: str | None = None
    with_writer: bool = False
    with_places: bool = False
    keys: tuple[str, ...] | None = None

    @property
    def given(self) -> pa.Schema:
        """The schema of the rows that are given."""
        names = self.schema.names if self.columns is None else self.columns
        return self._with_more(self.snapshot.schema(self.table, names, writer=self.writer))

    @property
    def read_schema(self) -> pa.Schema:
        """The columns that are read, and those of the writer and of the rows' places."""
        return self._with_more(self.schema)

    def _with_more(self, schema: pa.Schema) -> pa.Schema:
        more = [pa.field(WRITER_COLUMN, pa.string())] if self.with_writer else []
        if self.with_places:
            more += [pa.field(FILE_COLUMN, pa.string()), pa.field(PLACE_COLUMN, pa.int64())]
        return pa.schema([*schema, *more], schema.metadata) if more else schema

    @property
    def cut(self) -> str:
        """The cut in words."""
        found = self.snapshot.cut
        named = [f"{writer}={number}" for writer, number in sorted(found.revisions.items())]
        return f"table {self.table!r} of {found.database!r} at {some_names(named)}"

    def file_parts(self) -> list[FilePart]:
        """The files that may hold such rows.

        Requests: those of `Snapshot.file_parts`.
        """
        parts = self.snapshot.file_parts(
            self.table, where=self.where, partition=self.partition, writer=self.writer
        )
        if self.keys is None:
            return parts
        chosen = set(self.keys)
        found = [part for part in parts if part.key in chosen]
        if len(found) < len(chosen):
            raise UsageError(
                f"{len(chosen) - len(found)} of the files that are asked for are none of table "
                f"{self.table!r}",
                key=self.table,
                hint="Leave the option files out: it is for lakelog's own use",
            )
        return found

    def file_list(self) -> FileList:
        """The same files as columns, whatever `keys` says.

        Requests: those of `Snapshot.file_list`.
        """
        return self.snapshot.file_list(
            self.table, where=self.where, partition=self.partition, writer=self.writer
        )

    def judged(self, files: FileList) -> JudgedFiles:
        """Files of such a list, to be judged by the filters of a query."""
        keys = files.rows.column("key")
        return self.snapshot.judged(self.table, keys, partition=self.partition, writer=self.writer)

    def of(self, frame: DataFrame) -> DataFrame:
        """The rows and columns that are asked for, of a frame with those that are read.

        Raises:
            InvalidPredicate: Spark has no such type or value.
        """
        if self.found is not None:
            frame = frame.where(to_sql(self.found.predicate, "spark"))
        if self.columns is None or list(self.columns) == self.schema.names:
            return frame
        names = [*self.columns, *([WRITER_COLUMN] if self.with_writer else [])]
        return frame.select(*(f"`{name.replace('`', '``')}`" for name in names))

    @property
    def options(self) -> dict[str, str]:
        """The same for `format("lakelog")`, which reads the very cut."""
        found = {
            "database": self.snapshot.database,
            "table": self.table,
            "asOf": self.snapshot.token,
        }
        if self.columns is not None:
            found["columns"] = json.dumps(self.columns)
        for name in ("where", "partition", "writer"):
            value = getattr(self, name)
            if value is not None:
                found[name] = value
        if self.with_writer:
            found["withWriter"] = "true"
        if self.with_places:
            found["withPlaces"] = "true"
        if self.keys is not None:
            found["files"] = json.dumps(self.keys)
        return found


def selection(
    snapshot: Snapshot,
    table: str,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    partition: str | None = None,
    writer: str | None = None,
    with_writer: bool = False,
) -> Selection:
    """What is asked for, checked.

    Raises:
        TableNotFound, WriterNotFound, SchemaConflict, InvalidPredicate.
        UsageError: No such column, or one twice; a predicate that is no text; a column of the table
            that is called as that of the writer.
    """
    rows: dict[str, Any] = {
        "where": where, "partition": partition, "writer": writer, "with_writer": with_writer,
    }  # fmt: skip
    looked_at: list[str] = []
    if where is not None:
        if not isinstance(where, str):
            raise UsageError(
                f"where= is SQL text, not {type(where).__name__}",
                hint="Give a text, or use the DataFrame's own where()",
            )
        rows["found"] = snapshot.row_filter(table, where, writer=writer)
        looked_at = rows["found"].target.names
    if columns is None:
        schema = snapshot.schema(table, writer=writer)
        return _checked(Selection(snapshot, table, schema, **rows))
    snapshot.schema(table, columns, writer=writer)  # refuses those that aren't there
    read = [*columns, *(name for name in looked_at if name not in columns)]
    schema = snapshot.schema(table, read, writer=writer)
    return _checked(Selection(snapshot, table, schema, tuple(columns), **rows))


def _checked(asked: Selection) -> Selection:
    if asked.with_writer and WRITER_COLUMN in asked.schema.names:
        raise UsageError(
            f"Table {asked.table!r} has a column {WRITER_COLUMN!r} of its own",
            key=WRITER_COLUMN,
            hint="Leave with_writer out, or that column by columns=",
        )
    return asked


def owner_of(file: str) -> str:
    """The writer that a value of `FILE_COLUMN` names."""
    return file.partition("/")[0]
