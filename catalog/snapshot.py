"""One cut of a database, read: tables, schemas, files, rows.

Source: docs/format.md, section 7.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from ..errors import TableNotFound, UsageError, it_has
from .data.scan import scan_files
from .data.unify import column_names, unify
from .engines.bare import bare_files
from .engines.source import Source
from .format.columns import numbers, text_scalar
from .format.names import base_folder
from .log.compared import Pair, compared
from .log.state import empty_state
from .parallel import parallel
from .read.cut_tables import CutTables
from .read.file_order import by_commit
from .read.file_parts import checked, file_parts, keyed, keys_of, projected, urls_of
from .read.hidden import with_deletes
from .read.log_folder import writer_ids
from .read.log_reader import LogReader
from .read.points_in_time import cut_of, refuse_twins
from .read.scan_request import Asked, asked_groups, asked_rows, by_blooms, held
from .scalars import value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    import pandas
    import polars
    from pyarrow.dataset import Dataset

    from ..store import Store
    from .ambient import Ambient
    from .data.file_part import FilePart
    from .engines.bare import BareFiles
    from .log.state import State
    from .read.file_skipping import JudgedFiles
    from .read.row_filter import RowFilter
    from .read.scan_request import FileList


Where: TypeAlias = Any  # SQL text, or a pyarrow.compute.Expression, which takes long to import
_OUTPUT = ("partition", "size_bytes", "row_count", "revision")
_DETAILS = ("first_clock", "last_clock", "footer_bytes", "row_groups", "schema_fingerprint")


@dataclass(frozen=True, slots=True)
class Diff:
    """What differs between two cuts; all tables are empty if nothing does.

    Attributes:
        before, after: Tokens of the cuts.
        tables: change (added, removed), table.
        schemas: change (added, removed, changed), table, column, before, after (types as text, null
            where there is none), of tables that both cuts have.
        rows: table, writer, files_added, files_removed, rows_added, rows_removed, bytes_added,
            bytes_removed; exact (false where a commit between may have replaced files by others
            with the same rows, or the history doesn't tell).
        files: change (added, removed), writer, table, path, partition, row_count, size_bytes,
            revision (that added it).
        in_place: table, writer, what: `deletes` (of rows of files that are in both), `columns`
            (what `evolve` said of them) or `key`.
    """

    before: str
    after: str
    tables: pa.Table
    schemas: pa.Table
    rows: pa.Table
    files: pa.Table
    in_place: pa.Table

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        found = (self.tables, self.schemas, self.rows, self.files, self.in_place)
        return not any(table.num_rows for table in found)


class Snapshot:
    """A database at one revision of each writer. It never changes; `refresh` gives a newer one.

    Attributes:
        database: Its name.
        cut: Revision and digest by writer.
        token: The cut as a short string; `Catalog.snapshot(database, token)` reads the very same
            again.
    """

    def __init__(
        self,
        store: Store,
        database: str,
        states: Sequence[State],
        ambient: Ambient,
        *,
        of_writers: bool = False,
    ) -> None:
        """Make the snapshot of some states.

        Args:
            of_writers: The caller chose the writers by name: `refresh` keeps to them.
        """
        self.database = database
        self._of_writers = of_writers
        self._store = store
        self._ambient = ambient
        begun = [state for state in states if state.revision >= 0]
        self._states = sorted(begun, key=lambda s: s.writer)
        self._tables = CutTables(database, self._states)
        self.cut = cut_of(database, self._states)

    def __repr__(self) -> str:
        return f"Snapshot({self.database!r}, {self.cut.revisions})"

    @property
    def token(self) -> str:
        return self.cut.token

    def refresh(self) -> Snapshot:
        """Returns the newest snapshot of the database; this very object if nothing is new.

        It contains writers that have come since, unless this snapshot was asked for by a mapping of
        writers: then it keeps to these. No writer goes back, and none is left out again.

        Raises:
            SameLogTwice: A log was replaced by a copy of another one of these.
            ForkError, CorruptError, UnsupportedFeature: A log that can't be read.
        Warns:
            LostLogWarning: A revision that is held here isn't there any more: what is held stays,
                and who reads anew doesn't see it.
        Requests: 1 LIST for each writer, and 1 to find new ones; 2 LIST for each writer of the
            catalog that has no log of the database; 1 GET for each new transaction; for a log of
            one revision 1 GET; for each new log those of `LogReader.load`. Of writers that were
            named the first LIST for each alone.
        """
        held = {state.writer: state for state in self._states}
        writers = [*held]
        if not self._of_writers:
            writers += [name for name in writer_ids(self._store) if name not in held]

        def newest(writer: str) -> State:
            log = LogReader(self._store, writer, self.database, self._ambient)
            return log.advance(held[writer]) if writer in held else log.load()

        states = [state for state in parallel(newest, writers) if state.revision >= 0]
        if all(state is held.get(state.writer) for state in states):
            return self
        if len({state.log.log_id for state in self._states if state.log}) == len(self._states):
            refuse_twins(states)  # else both were asked for
        return Snapshot(
            self._store, self.database, states, self._ambient, of_writers=self._of_writers
        )

    def without_conflicts(self) -> Snapshot:
        """The same cut without files that can't be read together with others: of two types of a
        column that have no common one, the files of one are left out, as a whole, by every way of
        reading; a `ConflictWarning` says which. (`refresh` goes back to all files.)

        Requests: none; those of `files` when a table is first asked for.
        """
        from .read.cut_tables import AgreeingTables

        found = copy(self)
        found._tables = AgreeingTables(self._tables.database, self._tables.states)
        return found

    def diff(self, other: Snapshot, table: str | None = None) -> Diff:
        """What differs in a later cut of the same database (or in any other): files, rows, schemas,
        tables. By the logs alone.

        Args:
            other: The later snapshot.
            table: The only one to look at; None: all.
        Raises:
            UsageError: It is of another database.
            TableNotFound: Neither cut knows the table.
            CorruptError: The files of a table can't be told.
        Requests: 1 GET for each piece of a checkpoint that holds files or schemas.
        """
        if not isinstance(other, Snapshot):
            raise UsageError(
                f"A snapshot is compared with another one, not with {other!r:.60}",
                hint="Give catalog.snapshot(...)",
            )
        before, after = self.cut, other.cut
        if before.database != after.database:
            raise UsageError(
                f"One cut is of database {before.database!r}, the other of {after.database!r}",
                key=after.database,
                hint="Compare two cuts of one database",
            )
        pairs = _pairs(before.database, self._states, other._states)
        states = (state for pair in pairs for state in pair)
        if table is not None and not any(s.schemas_of(table).of_table(table) for s in states):
            raise TableNotFound(
                f"Neither cut has a table {table!r}",
                key=table,
                hint=it_has(table, sorted({*self.tables(), *other.tables()})),
            )
        return Diff(before.token, after.token, **compared(pairs, table))

    def tables(self) -> list[str]:
        """Names of the tables, sorted. A table whose files were all removed is still one.

        Where a part of the names is damaged the others are given, with a `TablesWarning`.

        Raises:
            CorruptError: None can be listed.
        """
        return self._tables.names()

    def schema(
        self, table: str, columns: Sequence[str] | None = None, *, writer: str | None = None
    ) -> pa.Schema:
        """The schema that rows of a table have: that of all its live files, unified.

        Args:
            columns: Names, in the order wanted; types need to agree in these alone.
            writer: Only of files of this one.
        Raises:
            TableNotFound, WriterNotFound, SchemaConflict.
            UsageError: No such column, or one twice.
        """
        table = value_of(table)
        schemas = self._tables.file_schemas(table, writer)
        if columns is None:
            return unify(schemas, table)
        return projected(schemas, table, checked(columns, schemas, table), None).read

    def column_names(self, table: str) -> list[str]:
        """Returns the columns of a table, in order; also where types conflict. Raises
        `TableNotFound`."""
        return column_names(self._tables.file_schemas(table))

    def files(
        self,
        table: str,
        *,
        where: Where | None = None,
        partition: str | None = None,
        writer: str | None = None,
        details: bool = False,
    ) -> pa.Table:
        """The live files of a table.

        Args:
            where: Only files that may hold rows which meet this predicate, by the log's statistics:
                SQL text (docs/reading.md, "Predicates"), or a pyarrow expression.
            partition: Only files of this one (`""`: of none); pieces of a checkpoint without any
                are not read.
            writer: Only files of this one.
            details: Also first_clock, last_clock, footer_bytes, row_groups and schema_fingerprint.
        Returns:
            writer, path (as the log has it), url (as an engine opens it),
            partition, size_bytes (exact), row_count, revision (that added it). In order of writer;
            within one the order is not specified.
        Raises:
            TableNotFound, WriterNotFound: The cut doesn't know the table, or the writer.
            InvalidPredicate: No predicate over this table.
            SchemaConflict: Files disagree about the type of a column that it looks at.
            CorruptObject: The files of the table can't be told.
        Requests: 1 GET for each piece of a checkpoint that may hold the table, the first time, or
            the partition, each time until all of the table was asked for; with details 1 GET for
            each of files; with `where` 1 GET for each piece of statistics of its columns.
        """
        asked = self._asked(table, where, partition, writer)
        parts = []
        for state in self._tables.of_writer(asked.writer):
            files, facts = held(self._tables, state, asked)
            rows = asked_rows(files, asked, facts, whole=details)
            parts.append(self._output(state, rows, details))
        return pa.concat_tables(parts) if len(parts) > 1 else parts[0]

    def explain(
        self,
        table: str,
        where: Where,
        *,
        partition: str | None = None,
        writer: str | None = None,
        read_filters: bool = False,
    ) -> pa.Table:
        """Which files a predicate leaves, and why each other one is skipped.

        Args:
            where, partition, writer: As for `files`.
            read_filters: Ask the bloom filters of files, as `scan` does; else none is read.
        Returns:
            writer, path, partition, size_bytes, row_count, kept (bool), reason: which part of the
            predicate no row can meet, and by what the log knows (or "bloom filter"); empty for
            files that are kept; bloom_filters: in how many row groups `scan` asks one; deletes:
            what hides rows of a file that is kept; key_files: among how many its keys are resolved.
            In the order of `files`.
        Raises: As for `files`.
        Requests: As for `files`; where a column must equal a value, those of `file_parts`; with
            `read_filters` also 1 GET for each of these filters.
        """
        from .read.explain import explained, with_filters, with_hidden_rows

        asked = self._asked(table, where, partition, writer)
        parts = []
        for state in self._tables.of_writer(asked.writer):
            found = explained(held(self._tables, state, asked)[1], asked)
            left, folder = self._parts_of(state, asked), base_folder(state.writer, self.database)
            keys = keys_of(found.column("path"), folder, state)
            meets = self._tables.key_files(state, asked.table, keys)
            hides = any(meets) or state.deletes.hide(asked.table)
            hidden = list(left) if hides else None
            found = with_hidden_rows(found, keys, hidden or (), meets)
            rest = left if hidden is None else hidden
            parts.append(with_filters(found, self._store, keys, rest, asked, read=read_filters))
        return pa.concat_tables(parts) if len(parts) > 1 else parts[0]

    def statistics(
        self, table: str, *, partition: str | None = None, row_groups: bool = False
    ) -> pa.Table:
        """What the log knows of the columns of a table's live files.

        Args:
            partition: Only of files of this one, as for `files`.
            row_groups: Of the row groups of files that have more than one, instead of whole files.
        Returns:
            writer, path, row_group (null for whole files), column, bound_type, null_count, min, max
            (bytes as in docs/format.md, section 5.2), min_exact, max_exact, no_nan, bloom_offset,
            bloom_bytes; null is unknown. `min` and `max` say nothing of NaN; `no_nan` is true where
            a column of float or double is known to hold none, else false. By writer, path, row
            group and column.
        Raises:
            TableNotFound, CorruptObject: As for `files`.
        Requests: As for `files`; 1 GET for each piece of statistics beside these.
        """
        from .read.statistics import table_statistics

        table, partition = value_of(table), value_of(partition)
        self._tables.check(table, partition)
        parts = []
        for state in self._states:
            held = self._tables.table_of(state, table, partition)
            found = table_statistics(
                state, table, partition=partition, row_groups=row_groups, of=held
            )
            writers = pa.repeat(text_scalar(state.writer), found.num_rows)
            names = ["writer", *found.schema.names]
            parts.append(pa.Table.from_arrays([writers, *found.columns], names=names))
        return pa.concat_tables(parts)

    def scan(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        where: Where | None = None,
        partition: str | None = None,
        writer: str | None = None,
    ) -> pa.RecordBatchReader:
        """The rows of a table, as a stream: files are read ahead, and memory stays bounded.

        Args:
            columns: Names, in the order wanted; all if not given. Types need to agree in these
                alone, and in those that `where` looks at.
            where: Only rows that meet this predicate, as for `files`. Files and row groups that
                can't hold any are not read.
            partition, writer: Only rows of files of these.
        Returns:
            Batches of `schema(table)` (or the columns asked for); a column that a file lacks is
            null there. In order of writer; of one writer in the order of its commits, and within a
            commit by logical clock, then as written.
        Raises:
            TableNotFound, WriterNotFound, SchemaConflict, InvalidPredicate.
            UsageError: No such column, or one twice.
            ObjectNotFound, CorruptObject: While reading: a data file is gone or not what the log
                says.
        Requests: those of `files`; with `where` also 1 GET for each piece of row groups, of their
            statistics, and for each bloom filter (docs/reading.md); 1 or more GET a file.
        """
        return self._scan(self._asked(table, where, partition, writer), columns)

    def file_parts(
        self,
        table: str,
        *,
        where: Where | None = None,
        partition: str | None = None,
        writer: str | None = None,
    ) -> list[FilePart]:
        """The live files with what reading them needs: for engines that read Parquet themselves.

        Args:
            where, partition, writer: As for `files`; row groups are left out by `where`.
        Returns:
            In the order of `scan`: see `read.file_order`.
        Requests: those of `scan`, without those for files; of a table with a key for its columns.
        """
        return self._parts(self._asked(table, where, partition, writer))

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
        from .read.scan_request import list_files

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
        from .read.file_skipping import JudgedFiles

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
    ) -> Dataset:
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
        from .engines.dataset import TableDataset

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
        from .engines.source import data_frame, package

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
        from .engines.polars import lazy_frame

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
            connection: Where; if not given, a new one in memory, which takes no Python variable
                for a table: register yours. Views are its own: a cursor of it doesn't see them.
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
        from .engines.duck import make_views

        chosen = self.tables() if tables is None else [value_of(table) for table in tables]
        strict = tables is not None
        return make_views(connection, self._source, chosen, schema, all_or_nothing=strict)

    def _scan(
        self, asked: Asked, columns: Sequence[str] | None, *, exact: bool = True
    ) -> pa.RecordBatchReader:
        schemas = self._tables.file_schemas(asked.table, asked.writer)
        names = None if columns is None else checked(columns, schemas, asked.table)
        projection = projected(schemas, asked.table, names, asked.found if exact else None)
        left = by_blooms(self._store, self._parts(asked), asked)
        return scan_files(self._store, left, projection)

    def _source(
        self, table: str, partition: str | None = None, writer: str | None = None
    ) -> Source:
        table, partition, writer = value_of(table), value_of(partition), value_of(writer)

        def scan(
            columns: Sequence[str] | None, where: Where | None, *, exact: bool = True
        ) -> pa.RecordBatchReader:
            asked = self._asked(table, where, partition, writer, exact=exact)
            return self._scan(asked, columns, exact=exact)

        def held_rows() -> list[pa.Table]:
            files = (held(self._tables, state, whole)[0] for state in states)
            return [asked_rows(each, whole, None, whole=False) for each in files]

        def row_count() -> int:
            if touched() or any(state.deletes.hide(table) for state in states):
                return sum(batch.num_rows for batch in scan([], None))
            return sum(int(numbers(rows.column("row_count")).sum()) for rows in held_rows())

        def bare() -> BareFiles | None:
            parts = partial(self._parts, whole)
            return None if touched() else bare_files(self._store, schemas, schema, held_rows, parts)

        touched = partial(self._tables.touched, table)
        whole, states = self._asked(table, None, partition, writer), self._tables.of_writer(writer)
        schemas = self._tables.file_schemas(table, writer)
        schema = unify(schemas, table)
        return Source(table, schema, scan, row_count, bare)

    def row_filter(
        self, table: str, where: Where, *, writer: str | None = None, decides: bool = True
    ) -> RowFilter:
        """Returns the meaning of `where=` for a table, for engines that filter rows themselves.
        Raises as `files`.

        Args:
            decides: Whether rows are filtered by it; else files are skipped by it only.
        """
        from .read.row_filter import row_filter

        schemas = self._tables.file_schemas(table, writer)
        return row_filter(value_of(where), schemas, value_of(table), decides=decides)

    def _parts(self, asked: Asked) -> list[FilePart]:
        logs = self._tables.of_writer(asked.writer)
        found = [(state, list(self._parts_of(state, asked))) for state in logs]
        return self._tables.resolved(self._store, asked.table, found)

    def _parts_of(self, state: State, asked: Asked) -> Iterator[FilePart]:
        files, facts = held(self._tables, state, asked)
        rows = by_commit(asked_rows(files, asked, facts, whole=True))
        folder = base_folder(state.writer, self.database)
        shown = partial(self._tables.shown, state, asked.table)
        groups = asked_groups(asked, facts, rows)
        parts = file_parts(rows, folder, shown, *groups, writer=state.writer)
        yield from with_deletes(self._tables, state, asked, rows, keyed(parts, folder, state))

    def _asked(
        self,
        table: str,
        where: Where | None,
        partition: str | None,
        writer: str | None,
        *,
        exact: bool = True,
    ) -> Asked:
        table, where, partition, writer = map(value_of, (table, where, partition, writer))
        self._tables.check(table, partition)
        self._tables.of_writer(writer)
        found = None
        if where is not None:
            found = self.row_filter(table, where, writer=writer, decides=exact)
        return Asked(table, found, partition, writer)

    def _output(self, state: State, rows: pa.Table, details: bool) -> pa.Table:
        folder = base_folder(state.writer, state.database)
        columns: dict[str, Any] = {
            "writer": pa.repeat(text_scalar(state.writer), rows.num_rows),
            "path": rows.column("path"),
        }
        columns["url"] = urls_of(rows.column("path"), folder, state, self._store)
        columns |= {name: rows.column(name) for name in (*_OUTPUT, *(_DETAILS if details else ()))}
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))


def _pairs(database: str, before: Sequence[State], after: Sequence[State]) -> list[Pair]:
    earlier = {state.writer: state for state in before}
    later = {state.writer: state for state in after}
    nothing = {writer: empty_state(writer, database) for writer in (*earlier, *later)}
    return [
        Pair(earlier.get(writer, nothing[writer]), later.get(writer, nothing[writer]))
        for writer in sorted(nothing)
    ]
