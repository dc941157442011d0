"""What a snapshot shows to other engines: all read by its own scan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from ..scalars import value_of

_Cut = TypeVar("_Cut", bound="EngineReads")

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    import pandas
    import polars
    import pyarrow as pa
    import pyarrow.dataset

    from ...store import Store
    from ..data.file_part import FilePart
    from ..log.state import State
    from ..read.asked import Asked
    from ..read.cut_tables import CutTables
    from ..read.file_list import FileList
    from ..read.judged import JudgedFiles
    from .source import Source


class EngineReads(ABC):
    """Tables of a cut, whole and for other engines."""

    _tables: CutTables
    _store: Store

    @abstractmethod
    def tables(self) -> list[str]:
        """Names of the tables."""

    @abstractmethod
    def scan(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        where: Any | None = None,
        partition: str | None = None,
        writer: str | None = None,
    ) -> pa.RecordBatchReader:
        """The rows as a stream."""

    @abstractmethod
    def _parts_of(self, state: State, asked: Asked) -> Iterator[FilePart]:
        """The files of one log that are asked for."""

    @abstractmethod
    def _parts(self, asked: Asked) -> list[FilePart]:
        """The files that are asked for, each with what hides rows of it."""

    @abstractmethod
    def _asked(
        self,
        table: str,
        where: Any | None,
        partition: str | None,
        writer: str | None,
        *,
        exact: bool = True,
    ) -> Asked:
        """What is asked for, checked."""

    @abstractmethod
    def _source(
        self, table: str, partition: str | None = None, writer: str | None = None
    ) -> Source:
        """What an engine reads of a table."""

    def without_conflicts(self: _Cut) -> _Cut:
        """The same cut without files that can't be read together with others: of two types of a
        column that have no common one, the files of one are left out, as a whole, by every way of
        reading; a `ConflictWarning` says which. (`refresh` goes back to all files.)

        Requests: none; those of `files` when a table is first asked for.
        """
        from ..read.agreeing import AgreeingTables

        found = copy(self)
        found._tables = AgreeingTables(self._tables.database, self._tables.states)
        return found

    def key(self, table: str) -> tuple[str, ...]:
        """The columns of a table's key: of its rows with one value in these `scan` gives one, the
        newest (docs/changing.md, "Keys"). Empty for none.

        Raises:
            TableNotFound.
            SchemaConflict: Two logs give it different ones.
        """
        table = value_of(table)
        self._tables.check(table)
        found = self._tables.keys_of(table)
        return () if found is None else found.key

    def plain_parts(self, table: str) -> list[FilePart]:
        """All live files of a table with what reading them needs, older rows of keys included.

        Requests: those of `files` with details.
        """
        from ..read.asked import Asked

        self._tables.check(table)
        asked = Asked(table, None, None, None)
        return [
            part for state in self._tables.of_writer(None) for part in self._parts_of(state, asked)
        ]

    def file_list(
        self,
        table: str,
        *,
        where: Any | None = None,
        partition: str | None = None,
        writer: str | None = None,
    ) -> FileList:
        """The live files as columns: for engines that read Parquet themselves, and many files.

        Args:
            where, partition, writer: As for `files`.
        Raises: As for `files`.
        Requests: those of `files` with details; where a row may be hidden those of `file_parts`.
        """
        from ..read.file_list import list_files

        asked = self._asked(table, where, partition, writer)
        return list_files(self._store, self._tables, asked, lambda: self._parts(asked))

    def judged(
        self,
        table: str,
        keys: pa.ChunkedArray,
        *,
        partition: str | None = None,
        writer: str | None = None,
    ) -> JudgedFiles:
        """Files that `file_list` gave, to be judged by further predicates.

        Args:
            keys: Of their objects.
            partition, writer: As they were given there.
        Requests: none; later 1 GET for each piece of statistics of columns that are asked for.
        """
        from ..read.judged import JudgedFiles

        return JudgedFiles(self._tables, table, keys, partition=partition, writer=writer)

    def to_arrow(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        where: Any | None = None,
        partition: str | None = None,
        writer: str | None = None,
    ) -> pa.Table:
        """`scan` as one table in memory."""
        found = self.scan(table, columns, where=where, partition=partition, writer=writer)
        return found.read_all()

    def dataset(
        self, table: str, *, partition: str | None = None, writer: str | None = None
    ) -> pyarrow.dataset.Dataset:
        """A table as a dataset of pyarrow, for engines that take one; they push columns and
        filters down, and files are skipped as by `scan`.

        Filters mean what pyarrow makes of them: NaN is neither less nor greater than anything. That
        is so for DuckDB as well, which pushes no other; not for Polars: use `to_polars`.

        Args:
            partition, writer: Only rows of files of these.
        Raises:
            TableNotFound, WriterNotFound, SchemaConflict.
        Requests: those of `schema`; those of `scan` each time it is read.
        """
        from .dataset import TableDataset

        return TableDataset(self._source(table, partition, writer))

    def to_pandas(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        where: Any | None = None,
        partition: str | None = None,
        writer: str | None = None,
    ) -> pandas.DataFrame:
        """`to_arrow` as a frame of pandas. Integers and booleans that hold nulls have its nullable
        types; in floats null becomes NaN.

        Raises:
            MissingDependency: pandas isn't installed; else as `scan`.
        """
        from .pandas import data_frame
        from .source import package

        package("pandas")  # before anything is read
        found = self.to_arrow(table, columns, where=where, partition=partition, writer=writer)
        return data_frame(found)

    def to_polars(
        self, table: str, *, partition: str | None = None, writer: str | None = None
    ) -> polars.LazyFrame:
        """A table as a lazy frame of Polars: of its columns and files only those are read that the
        query needs.

        Args:
            partition, writer: Only rows of files of these.
        Raises:
            MissingDependency: Polars isn't installed.
            TableNotFound, WriterNotFound, SchemaConflict.
        Requests: those of `schema`; those of `scan` each time it is collected.
        """
        from .polars import lazy_frame

        return lazy_frame(self._source(table, partition, writer))

    def to_duckdb(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        tables: Sequence[str] | None = None,
        *,
        schema: str | None = None,
    ) -> duckdb.DuckDBPyConnection:
        """A view a table in DuckDB. Views read when they are queried, always this very cut; columns
        and conditions of a query reach the log's statistics. Of some local tables DuckDB reads the
        files itself, after they were held against the log (docs/engines.md).

        Args:
            connection: Where; if not given, a new one in memory. Views are its own: a cursor of it
                doesn't see them.
            tables: Which; if not given, all. Of these one that can't have a view has none, with a
                `ViewsWarning`: files of it disagree about a type, DuckDB lacks one of its types,
                or its name differs from another's in case only. Where names of columns do, a
                `ViewsWarning` says what they are called.
            schema: A name to put before theirs, as `june` in `june.hourly`: so views of two cuts
                can be in one query. If not given they are temporary views.
        Returns:
            The connection.
        Raises:
            MissingDependency: DuckDB isn't installed.
            TableNotFound; for `tables` also SchemaConflict, UsageError.
            UsageError: `schema` is the name of a database that the connection has, or none at all.
        Requests: those of `tables` and of each one's `schema`, in a local folder those of `files`;
            those of `scan` for each query.
        """
        from .duck import make_views

        chosen = self.tables() if tables is None else [value_of(table) for table in tables]
        strict = tables is not None
        return make_views(connection, self._source, chosen, schema, all_or_nothing=strict)
