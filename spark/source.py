"""`format("lakelog")`: a Python data source, which reads by fsspec and yields Arrow. How it writes
is in `write_source`, how it streams in `stream_source` and `stream_sink`.

On classic sessions Spark's own reader takes its place where it can (`swap`); what is here serves
elsewhere: on Spark Connect, and where Spark has no connector for the store.

Filters of a query are not pushed into it: in Spark 4.3 a filter of one query leaks into the next
one on the same DataFrame. The option `where` is: by it files are skipped, and rows filtered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ..catalog.format.cut import is_token, parse_token
from ..catalog.format.schema import pack_schema
from ..catalog.read.points_in_time import point_in_time
from ..errors import ObjectNotFound, UsageError
from ..store.places import is_url
from .arrow_types import as_spark, exchanged
from .selection import FILE_COLUMN, GONE, PLACE_COLUMN, WRITER_COLUMN, Selection, selection
from .source_options import (
    SourceAccess,
    changes_options,
    flag,
    is_followed,
    names,
    need,
    refuse_not_null,
    refuse_unknown,
    stream_options,
)
from .source_tasks import Share, cut_words, packs, read_task, share, step_tasks, told_whose
from .versions import check_no_columns, check_stream_sink, check_stream_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

    from ..catalog.changing import AsOf
    from ..catalog.data.scan import Projection
    from ..catalog.read.changes import Changes
    from ..catalog.snapshot import Snapshot
    from ..store import Store
    from .source_options import Followed
    from .stream_sink import LakelogStreamWriter
    from .stream_source import LakelogStreamReader
    from .write_source import LakelogWriter

OPTIONS: Final = (
    "database", "table", "asOf", "columns", "where", "partition", "writer", "withWriter",
    "withPlaces", "storageOptions", "locationOptions", "path", "files", "native",
)  # fmt: skip
_AS_OF: Final = "as_of"  # how Python callers of `lakelog.spark.read` know it


class LakelogDataSource(DataSource):
    """The data source `lakelog`.

    Options: `database`, `table`; `asOf`, also `as_of` (a token, an ISO time with its zone, or
    revisions: `EWR=3,JFK=2`);
    `columns` (a JSON list of names), `where` (docs/reading.md, "Predicates"), `partition`,
    `writer`, `files` (a JSON list of keys): only such columns, rows, and files; `withWriter`
    (true: with the column `_writer`), `withPlaces` (true: with the file of a row, and its number
    there); `native` (false: never by Spark's own reader);
    `storageOptions`, `locationOptions` (JSON). The path is the catalog's URL.
    Other options are refused. Those of streams and changes are in `stream_options`,
    those for writing in `write_source`.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._token: str | None = None

    @classmethod
    def name(cls) -> str:
        return "lakelog"

    def schema(self) -> StructType:
        """The table's schema at the cut; from here on the cut is fixed.

        Requests: those of `Catalog.snapshot`.
        """
        from .arrow_types import spark_schema

        if is_followed(self.options):
            from .stream_table import followed_schema

            self._token, found = followed_schema(self.options)
            return found
        snapshot = self._snapshot()
        self._token = snapshot.token  # the reader, made of a pickled copy, reads this very cut
        return spark_schema(_selection(self.options, snapshot).given)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of the cut, or of what changed between two. Raises `UsageError` if the
        schema has a NOT NULL.

        Requests: those of `Catalog.snapshot`.
        """
        refuse_not_null(schema)
        if is_followed(self.options):
            return LakelogChangesReader(changes_options(self.options), schema, self._token)
        return LakelogReader(self.asked(), schema, self.access())

    def streamReader(self, schema: StructType) -> LakelogStreamReader:
        """What follows the table; see `LakelogStreamReader`.

        Raises:
            SparkUnsupported: This Spark can't have one.
            UsageError: The schema has a NOT NULL.
        """
        refuse_not_null(schema)
        asked = stream_options(self.options)
        check_stream_source(pyspark.__version__)
        from .stream_source import LakelogStreamReader

        return LakelogStreamReader(asked, schema, is_told=self._token is None)

    def writer(self, schema: StructType, overwrite: bool) -> LakelogWriter:
        """What writes one frame; see `LakelogWriter`."""
        from .write_source import LakelogWriter

        return LakelogWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakelogStreamWriter:
        """Returns the writer of a stream's batches. Raises `SparkUnsupported` if this Spark can't
        have one."""
        check_stream_sink(pyspark.__version__)
        from .stream_sink import LakelogStreamWriter

        return LakelogStreamWriter(self.options, schema, overwrite)

    @property
    def is_fixed(self) -> bool:
        """Whether it reads one cut, however often: not where nobody asked for its schema."""
        return self._token is not None

    def asked(self) -> Selection:
        """What is read of a table.

        Requests: those of `Catalog.snapshot`.
        """
        return _selection(self.options, self._snapshot())

    def access(self) -> SourceAccess:
        """Where the catalog is."""
        return SourceAccess.of(self.options)

    def _snapshot(self) -> Snapshot:
        flag(self.options, "native", default=True)
        refuse_unknown(self.options, OPTIONS, "format('lakelog')", [_AS_OF])
        self._need("table")
        catalog = self.access().open()
        return catalog.snapshot(self._need("database"), self._token or _point(self.options))

    def _need(self, name: str) -> str:
        return need(self.options, name, f".option({name!r}, ...)")


def _selection(options: Any, snapshot: Snapshot) -> Selection:
    """What the options ask for."""
    found = selection(
        snapshot, str(options["table"]), names(options, "columns"), options.get("where"),
        partition=options.get("partition"), writer=options.get("writer"),
        with_writer=flag(options, "withWriter"),
    )  # fmt: skip
    found = replace(found, with_places=flag(options, "withPlaces"))
    return replace(found, keys=names(options, "files"))


def _point(options: Any) -> AsOf:
    """The point in time that the options name."""
    given = {str(options[name]) for name in ("asOf", _AS_OF) if options.get(name) is not None}
    if not given:
        return None
    if len(given) > 1:
        raise UsageError(
            "The options asOf and as_of name different points in time",
            key="asOf",
            hint="Give one of them",
        )
    return point_in_time(given.pop())


class LakelogReader(DataSourceReader):
    """Reads the files of one cut, whatever is committed meanwhile.

    Args:
        asked: What of which table.
        schema: What Spark asks for: all of its columns, or some that the user named.
    """

    def __init__(self, asked: Selection, schema: StructType, access: SourceAccess) -> None:
        if not schema.fields:
            check_no_columns(pyspark.__version__)
        for name in schema.names:
            if name not in asked.read_schema.names:
                raise UsageError(
                    f"Table {asked.table!r} has no column {name!r}",
                    key=name,
                    hint=f"It has: {', '.join(asked.schema.names)}",
                )
        self._access = access
        self._schema = schema
        self._target = pack_schema(asked.schema.remove_metadata())
        self._options = asked.options
        self._cut = asked.cut
        self._asked: Selection | None = asked

    def __getstate__(self) -> dict[str, Any]:
        """All but the snapshot: Spark sends the reader to every task, which has its own files."""
        return self.__dict__ | {"_asked": None}

    def partitions(self) -> Sequence[InputPartition]:
        """The files, packed into tasks.

        Requests: none; on a copy that was pickled, those of `Catalog.snapshot`.
        """
        asked = self._asked
        if asked is None:
            token = self._options["asOf"]
            snapshot = self._access.open().snapshot(self._options["database"], token)
            asked = _selection(self._options, snapshot)
        parts = asked.file_parts()
        apart = asked.with_writer or asked.with_places
        writers = {part.writer for part in parts} if apart else {""}
        shares = [
            share(pack, owner=writer)
            for writer in sorted(writers)
            for pack in packs(
                (part for part in parts if not writer or part.writer == writer),
                lambda part: part.size_bytes,
            )
        ]
        return shares or [Share((), ())]  # without partitions Spark would call read(None)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task's files, in Arrow batches of exactly the schema that Spark wants.

        Requests: 1 or more GET a file.
        """
        from ..catalog.data.scan import scan_files
        from ..catalog.format.columns import text_scalar

        if not isinstance(partition, Share):
            raise UsageError(f"{type(partition).__name__} is no partition of format('lakelog')")
        wanted = exchanged(self._schema)
        store = self._access.open().wide
        try:
            if "withPlaces" in self._options:
                for batch in self._placed(store, partition):
                    yield as_spark(batch, wanted)
                return
            whose = text_scalar(partition.owner)
            for batch in scan_files(store, partition.parts(), self._projection()):
                more = {WRITER_COLUMN: pa.repeat(whose, batch.num_rows)}
                own = self._with_more(batch, more) if "withWriter" in self._options else batch
                yield as_spark(own, wanted)
        except ObjectNotFound as error:
            if not is_url(str(error.key)):  # else it says already whose file it is
                error.hint = f"The data file is gone. The query reads {self._cut}. {GONE}"
            raise

    def _placed(self, store: Store, share: Share) -> Iterator[pa.RecordBatch]:
        """The rows of one task's files, each with its place."""
        from ..catalog.data.hidden import Bitmaps
        from ..catalog.data.scan import read_projected
        from ..catalog.format.columns import array, text_scalar

        projection, bitmaps = self._projection(), Bitmaps(store)
        for part in share.parts():
            file = text_scalar(f"{share.owner}/{part.key}")
            for batch, places in read_projected(store, part, projection, bitmaps, whole=False):
                more = {FILE_COLUMN: pa.repeat(file, len(places)), PLACE_COLUMN: array(places)}
                yield self._with_more(batch, more)

    def _with_more(self, batch: pa.RecordBatch, more: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """The columns that Spark wants, some of which the files don't have."""
        names = self._schema.names
        columns = [more[name] if name in more else batch.column(name) for name in names]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _projection(self) -> Projection:
        """The columns and rows that Spark wants, and no other columns than these need."""
        from ..catalog.data.scan import Projection
        from ..catalog.data.unify import FileSchema
        from ..catalog.format.schema import unpack_schema
        from ..catalog.read.row_filter import row_filter

        target = unpack_schema(self._target)
        where = self._options.get("where")
        keep, looked_at = None, []
        if where is not None:
            found = row_filter(where, [FileSchema(target, "")], self._options["table"])
            keep, looked_at = found.keep, found.target.names
        names = self._schema.names
        own = [name for name in names if name not in (WRITER_COLUMN, FILE_COLUMN, PLACE_COLUMN)]
        if "withWriter" in self._options or "withPlaces" in self._options:
            names = own or target.names[:1]
        read = {*names, *looked_at}
        return Projection(pa.schema([field for field in target if field.name in read]), keep, names)


# --- Changes --------------------------------------------------------------------------------------


class LakelogChangesReader(DataSourceReader):
    """Reads what changed.

    Args:
        asked: Between which points, of which table.
        schema: What Spark asks for.
        newest: The cut of when the frame was made: where the changes end by default.
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
    is_one = isinstance(found, str) and is_token(found)
    return cut_words(parse_token(str(found))) if is_one else point or "now"
