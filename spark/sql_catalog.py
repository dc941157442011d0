"""A lake in Spark's SQL: `attach` makes it a catalog of the session, with its databases, tables and
time travel, and `create_views` makes views at one cut, on Spark Connect as well.

The catalog holds no rows and no files: it asks here, by py4j's callbacks, and each table that a
query names is the DataFrame that `lakelog.spark.read` makes of it.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from ..catalog.data.partitioned import can_partition
from ..catalog.format import compute as pc
from ..catalog.format.columns import numbers
from ..catalog.log.partitioning import columns_of
from ..catalog.read.points_in_time import point_in_time
from ..errors import (
    DatabaseNotFound,
    InvalidName,
    LakelogError,
    NotACatalog,
    SparkUnsupported,
    TableNotFound,
    UsageError,
)
from .access import Access
from .arrow_types import arrow_schema
from .filters_java import FILTERS
from .jvm import JavaBiFunction, compiled, first_line, typed_errors
from .read import frame_of
from .selection import FILE_COLUMN, PLACE_COLUMN, selection
from .sql_changes import Statement, change
from .sql_java import INSTALLER_CLASS, SQL
from .stages import watched
from .swap import add_rule
from .write import owner_turn, write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from ..catalog.catalog import Catalog
    from ..catalog.changing import AsOf
    from ..catalog.snapshot import Snapshot
    from .stages import Stages

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPARKS_OWN: Final = ("spark_catalog", "system", "session", "builtin")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TEXTS: Final = (FILTERS, SQL)
_QUERIES: Final = 16  # that may be looked at at once, in threads of one session


def attach(
    spark: SparkSession,
    name: str,
    url: str,
    *,
    as_of: AsOf = None,
    writer: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    location_options: Mapping[str, Mapping[str, Any]] | None = None,
    progress: bool | Callable[[Stages], None] = False,
) -> None:
    """Make a lake a catalog of the session: `SELECT ... FROM name.database.table`.

    All tables of one query are of one cut of each database; the next query sees what was committed
    since. `VERSION AS OF '<token>'` and `TIMESTAMP AS OF` read a table at another point in time.

    Args:
        spark: A classic session.
        name: As SQL shall call the lake. One that is attached already is replaced.
        url: The catalog's root, as `lakelog.open_catalog` takes it.
        as_of: The point in time that the tables are read at unless a query says another one, as
            `Catalog.snapshot` takes it; None: the newest.
        writer: Whose log `INSERT INTO`, `INSERT OVERWRITE` (of this writer's rows) and `CREATE
            TABLE ... AS` commit to, as `lakelog.spark.write` does, and the rows that a `MERGE`
            inserts; `DELETE`, `UPDATE` and `MERGE` change rows in the logs of all writers, as
            guests. None: all of these are refused.
        storage_options, location_options: As for `lakelog.spark.read`.
        progress: How far statements that write are, as for `lakelog.spark.write`.
    Raises:
        InvalidName: Not a plain name, or one that Spark has a catalog of another kind for.
        SparkUnsupported: Spark Connect, or a Spark that keeps its catalogs otherwise.
        UsageError: A writer beside `as_of`.
        As `lakelog.open_catalog`.
    Requests: none, but those of opening the catalog; a query makes those of `Catalog.snapshot` for
        each database, and those of `Snapshot.files` for each table.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    if not _NAME.fullmatch(name) or name.lower() in _SPARKS_OWN:
        raise InvalidName(
            f"{name!r} can't be a catalog's name", key=name, hint="Give a plain name, like lake"
        )
    if writer is not None and as_of is not None:
        raise UsageError(
            "A lake that is attached at a point in time can't be written to",
            key=name,
            hint="Attach it once more, under another name, without as_of=",
        )
    access = Access.of(spark, url, storage_options, location_options)
    installer, session = _installer(spark)
    add_rule(spark)
    with typed_errors(_unfit(spark)):
        is_free = installer.isFree(session, name)
    if not is_free:
        raise InvalidName(
            f"Spark has another catalog {name!r}", key=name, hint="Give the lake another name"
        )
    ensure_callback_server_started(spark.sparkContext._gateway)
    answers = _Answers(spark, access, as_of, writer, progress)
    with typed_errors(_unfit(spark)):
        installer.attach(session, name, answers, writer is not None)


def detach(spark: SparkSession, name: str) -> bool:
    """Forgets a lake that was attached; returns whether there was one. Raises as `attach`."""
    installer, session = _installer(spark)
    with typed_errors(_unfit(spark)):
        return bool(installer.detach(session, name))


def create_views(
    spark: SparkSession,
    url: str,
    database: str,
    as_of: AsOf = None,
    *,
    prefix: str = "",
    storage_options: Mapping[str, Any] | None = None,
    location_options: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Make a temporary view of each table of a database, all at one cut.

    Args:
        spark: Any session, classic or Connect.
        prefix: What the views' names begin with, before those of the tables.
    Returns:
        The token of the cut.
    Raises:
        As `lakelog.spark.read`.
    Requests: Those of `Catalog.snapshot`, and of `Snapshot.files` for each table.
    """
    access = Access.of(spark, url, storage_options, location_options)
    snapshot = access.catalog.snapshot(database, as_of)
    for table in snapshot.tables():
        frame = frame_of(spark, access, selection(snapshot, table))
        frame.createOrReplaceTempView(f"`{(prefix + table).replace('`', '``')}`")
    return snapshot.token


def _unfit(spark: SparkSession) -> str:
    return f"lakelog's catalog doesn't fit Spark {spark.version}"


def _installer(spark: SparkSession) -> tuple[Any, Any]:
    """What was compiled for the session's JVM, and the session there.

    Raises:
        SparkUnsupported: There is no JVM at hand, or another Spark inside.
    """
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        raise SparkUnsupported(
            "Spark Connect gives no access to its catalogs",
            hint="Make views of the tables with lakelog.spark.create_views",
        )
    try:
        beside = add_rule(spark)
        made = compiled(spark.sparkContext._gateway, INSTALLER_CLASS, _TEXTS, beside=beside)
    except Exception as error:
        raise SparkUnsupported(
            f"The catalog doesn't compile on Spark {spark.version}: {first_line(error)}",
            hint="Make views of the tables with lakelog.spark.create_views",
        ) from error
    return made.entry, session


class _Answers(JavaBiFunction):
    """What the catalog in the JVM asks for."""

    def __init__(
        self,
        spark: SparkSession,
        access: Access,
        as_of: AsOf,
        writer: str | None,
        progress: bool | Callable[[Stages], None],
    ) -> None:
        self._spark = spark
        self._access = access
        self._as_of = as_of
        self._writer = writer
        self._progress = progress
        self._lock = Lock()
        self._cuts: dict[tuple[str, str, str, str], Snapshot] = {}

    def apply(self, question: str, frame: Any) -> Any:
        """The answer to a question: a Java list of how it went and of what was found.

        Args:
            frame: Rows to be inserted, or the query of a change; else None.
        """
        from pyspark.errors import PySparkException

        word, *given = json.loads(question)
        try:
            if word == "insert":
                answer = self._insert(frame, *given)
            elif word == "change":
                answer = self._change(frame, *given)
            elif word == "placed":
                answer = self._placed(*given)
            else:
                answer = self._table(*given) if word == "table" else self._names(word, *given)
        except TableNotFound:
            answer = ("no table",)
        except DatabaseNotFound:
            answer = ("no namespace",)
        except (LakelogError, PySparkException) as error:
            answer = ("refused", f"{type(error).__name__}: {error}")
        except Exception as error:  # as a job of Spark's that was given up
            answer = ("refused", f"{type(error).__name__}: {first_line(error)}")
        found = self._spark._jvm.java.util.ArrayList()
        for item in answer:
            found.add(item)
        return found

    @property
    def _catalog(self) -> Catalog:
        return self._access.catalog

    def _databases(self) -> list[str]:
        """None of a lake that the first commit makes."""
        try:
            return self._catalog.databases()
        except NotACatalog:
            if self._writer is None:
                raise
            return []

    def _names(self, word: str, *namespace: str) -> tuple[Any, ...]:
        if word == "databases":
            return "names", json.dumps(self._databases())
        if len(namespace) != 1 or namespace[0] not in self._databases():
            return ("no namespace",)
        return "names", json.dumps(self._catalog.snapshot(namespace[0], self._as_of).tables())

    def _table(
        self, database: str, table: str, kind: str, when: str, query: str
    ) -> tuple[Any, ...]:
        if database not in self._databases():
            return ("no namespace",)
        snapshot = self._cut(database, kind, when, query)
        frame = frame_of(self._spark, self._access, selection(snapshot, table))
        return "rows", snapshot.token, frame._jdf

    def _placed(self, database: str, table: str, token: str) -> tuple[Any, ...]:
        """The rows of a table at a cut, each with its file and its number there."""
        from pyspark.sql import functions as F

        asked = selection(self._catalog.snapshot(database, token), table)
        frame = frame_of(self._spark, self._access, replace(asked, with_places=True))
        columns = {name: F.col(f"`{name.replace('`', '``')}`") for name in frame.columns}
        # Spark has to know that they are never null.
        columns[FILE_COLUMN] = F.coalesce(columns[FILE_COLUMN], F.lit("")).alias(FILE_COLUMN)
        number = F.coalesce(columns[PLACE_COLUMN], F.lit(-1).cast("bigint"))
        columns[PLACE_COLUMN] = number.alias(PLACE_COLUMN)
        return "placed", frame.select(*columns.values())._jdf

    def _insert(self, frame: Any, mode: Any, database: str, table: str, by: str) -> tuple[Any, ...]:
        from pyspark.sql import DataFrame

        rows, own = DataFrame(frame, self._spark), self._writer
        assert own is not None
        columns = by.split("\n")
        if not by:
            schema = arrow_schema(rows.schema)
            columns = insert_partitions(self._catalog, database, table, own, schema)

        def put(partition_by: list[str]) -> None:
            write(
                rows, self._catalog.url, database, table, writer=own, mode=mode,
                partition_by=partition_by, storage_options=self._access.storage_options,
                progress=self._progress,
            )  # fmt: skip

        try:
            put(columns)
        except UsageError as error:
            if by or not columns or type(error) not in (InvalidName, UsageError):
                raise
            put([])  # values that make no names, or too many: nobody asked for partitions
        return ("done",)

    def _change(self, query: Any, *words: str) -> tuple[Any, ...]:
        from pyspark.sql import DataFrame

        assert self._writer is not None
        statement, frame = Statement.of(*words), DataFrame(query, self._spark)
        doing = f"{statement.command} of {statement.table}"
        turn = owner_turn(self._catalog.url, statement.database, self._writer)
        with turn, watched(self._spark, self._progress, doing) as watch, watch.tagged():
            change(self._access, self._writer, statement, frame)
        return ("done",)

    def _cut(self, database: str, kind: str, when: str, query: str) -> Snapshot:
        """The same for all tables of a query."""
        key = (query, database, kind, when)
        with self._lock:
            found = self._cuts.get(key) if query else None
            if found is None:
                found = self._catalog.snapshot(database, self._point(database, kind, when))
                if query:
                    self._cuts[key] = found
                while len(self._cuts) > _QUERIES:
                    del self._cuts[next(iter(self._cuts))]
            return found

    def _point(self, database: str, kind: str, when: str) -> AsOf:
        if kind == "now":
            return self._as_of
        if kind == "micros":
            try:
                return _EPOCH + dt.timedelta(microseconds=int(when))
            except OverflowError:
                raise UsageError(
                    f"No lake is read as of {when} µs after 1970",
                    key=when,
                    hint="Give a time of the years 1 to 9999",
                ) from None
        if when.isascii() and when.isdigit():
            writers = self._catalog.writers(database)
            if len(writers) != 1:
                raise UsageError(
                    f"A number is no version of {database!r}: it has {len(writers)} writers, each "
                    "with revisions of its own",
                    key=database,
                    hint="Give a token (VERSION AS OF 'll1-...'), a tag ('@name'), or revisions "
                    "('EWR=3,JFK=2')",
                )
            return {writers[0]: int(when)}
        return point_in_time(when)


# --- Partitions -----------------------------------------------------------------------------------
#
# A log keeps no partition columns of a table; the names of its partitions tell them.


def insert_partitions(
    catalog: Catalog, database: str, table: str, writer: str, schema: pa.Schema
) -> list[str]:
    """The columns by which the newest partition is named: of this writer's files, or else of all.

    Files in the partition without a name, as UPDATE and MERGE write them, say nothing.

    Args:
        schema: Of the rows that come.
    Returns:
        No columns if the name tells of anything but columns, of some that don't come, or of such
        as make no names; none of a table that isn't there yet.
    Requests: those of `Catalog.snapshot`, and of the table's files.
    """
    try:
        states = catalog.snapshot(database)._states
    except (DatabaseNotFound, NotACatalog):
        return []
    newest: tuple[bool, int] | None = None
    name = ""
    for state in states:
        rows = state.table_of(table)[0].table(table, whole=True)
        rows = rows.filter(pc.not_equal(rows.column("partition"), ""))
        if rows.num_rows:
            clocks = numbers(rows.column("last_clock"))
            found = (state.writer == writer, int(clocks.max()))
            if newest is None or found > newest:
                newest = found
                name = rows.column("partition")[int(clocks.argmax())].as_py()
    columns = list(columns_of(name))
    return columns if all(can_partition(column, schema) for column in columns) else []
