"""One cut of a database, read: tables, schemas, files, rows.

Source: docs/format.md, section 7.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import TableNotFound, UsageError, some_names
from .data.scan import FilePart, scan_files
from .data.unify import FileSchema, distinct, unify
from .format import compute as pc
from .format.columns import column
from .format.cut import TOKEN_DIGEST_BYTES, Cut, Position
from .format.names import base_folder, is_text
from .log.state import SMALL_BYTES
from .parallel import parallel
from .read.cut_checks import refuse_twins
from .read.file_order import by_commit
from .read.log_reader import LogReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..store import Store
    from .ambient import Ambient
    from .log.files import Files
    from .log.known_schemas import KnownSchemas, SchemaEntry
    from .log.state import State

_OUTPUT = ("partition", "size_bytes", "row_count", "revision")
_PART = [
    "path",
    "size_bytes",
    "row_count",
    "schema_fingerprint",
    "footer_bytes",
    "footer_digest",
]
_ORDER = ["revision", "first_clock"]
_DETAILS = ("first_clock", "last_clock", "footer_bytes", "row_groups", "schema_fingerprint")


class Snapshot:
    """A database at one revision of each writer. It never changes; `refresh` gives a newer one.

    Attributes:
        database: Its name.
        cut: Revision and digest by writer.
        token: The cut as a short string; `Catalog.snapshot(database, token)` reads the very same
            again.
    """

    def __init__(
        self, store: Store, database: str, states: Sequence[State], ambient: Ambient
    ) -> None:
        self.database = database
        self._store = store
        self._ambient = ambient
        self._tables: dict[tuple[str, str], tuple[Files, KnownSchemas]] = {}
        self._schemas: dict[tuple[str, str], list[SchemaEntry]] = {}
        self._states = sorted(
            (state for state in states if state.revision >= 0), key=lambda s: s.writer
        )
        self.cut = Cut(
            database,
            {
                s.writer: Position(s.revision, s.digest[:TOKEN_DIGEST_BYTES], s.log)
                for s in self._states
            },
        )

    def __repr__(self) -> str:
        return f"Snapshot({self.database!r}, {self.cut.revisions})"

    @property
    def token(self) -> str:
        return self.cut.token

    def refresh(self) -> Snapshot:
        """The same writers at their newest revisions; this very object if nothing is new. Never
        goes back.

        A writer that is new to the database is not seen: open a new snapshot for that.

        Raises:
            SameLogTwice: A log was replaced by a copy of another one of these.
        Warns:
            LostLogWarning: A revision that is held here isn't there any more: what is held stays,
                and who reads anew doesn't see it.
        Requests: 1 LIST for each writer; 1 GET for each new transaction; for a log of one revision
            1 GET.
        """
        logs = [
            LogReader(self._store, state.writer, self.database, self._ambient)
            for state in self._states
        ]
        newer = parallel(lambda pair: pair[0].advance(pair[1]), zip(logs, self._states))
        if all(new is old for new, old in zip(newer, self._states)):
            return self
        if len({state.log.log_id for state in self._states if state.log}) == len(self._states):
            refuse_twins(newer)  # else both were asked for
        return Snapshot(self._store, self.database, newer, self._ambient)

    def tables(self) -> list[str]:
        """Names of the tables, sorted. A table whose files were all removed is still one.

        Where a part of the names is damaged the others are given, with a `TablesWarning` that says
        which range is missing.

        Raises:
            CorruptError: None can be listed.
        """
        from .read.tables import table_names

        return sorted({name for state in self._states for name in table_names(state)})

    def schema(self, table: str) -> pa.Schema:
        """The schema that rows of a table have: that of all its live files, unified.

        Raises:
            TableNotFound, SchemaConflict.
        """
        return unify(self._file_schemas(table), table)

    def column_names(self, table: str) -> list[str]:
        """Names of the columns of a table, in order; also where types of a column conflict.

        Raises:
            TableNotFound.
        """
        return _names(self._file_schemas(table))

    def _file_schemas(self, table: str) -> list[FileSchema]:
        """The schemas of the live files of a table; those of former ones where there are none."""
        self._check_table(table)

        def found(*, live: bool) -> list[FileSchema]:
            return [i for s in self._states for i in self._file_schemas_in(s, table, live=live)]

        return distinct(found(live=True) or found(live=False))

    def files(self, table: str, *, partition: str | None = None, details: bool = False) -> pa.Table:
        """The live files of a table.

        Args:
            partition: Only files of this one (`""`: of none); pieces of a checkpoint without any
                are not read.
            details: Also first_clock, last_clock, footer_bytes, row_groups and schema_fingerprint.
        Returns:
            writer, path (relative to `<writer>/<database>/`), url (as an engine opens it),
            partition, size_bytes (exact), row_count, revision (that added it). In order of writer;
            within one the order is not specified.
        Raises:
            TableNotFound: The cut doesn't know the table.
            CorruptObject: The files of the table can't be told.
        Requests: 1 GET for each piece of a checkpoint that may hold the table, the first time, or
            the partition, each time until all of the table was asked for; with details 1 GET for
            each of files.
        """
        self._check_table(table, partition)
        parts = []
        for state in self._states:
            files = self._files_of(state, table, partition)
            rows = files.table(table, whole=details, partition=partition)
            parts.append(self._output(state, rows, details))
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

        self._check_table(table, partition)
        parts = []
        for state in self._states:
            held = self._table_of(state, table, partition)
            found = table_statistics(
                state, table, partition=partition, row_groups=row_groups, of=held
            )
            writers = pa.repeat(_scalar(state.writer), found.num_rows)
            names = ["writer", *found.schema.names]
            parts.append(pa.Table.from_arrays([writers, *found.columns], names=names))
        return pa.concat_tables(parts)

    def scan(self, table: str, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The rows of a table, as a stream: files are read ahead, and memory stays bounded.

        Args:
            columns: Names, in the order wanted; all if not given. Types need to agree in these
                alone.
        Returns:
            Batches of `schema(table)` (or the columns asked for); a column that a file lacks is
            null there. In order of writer; of one writer in the order of its commits, and within a
            commit by logical clock, then as written.
        Raises:
            TableNotFound, SchemaConflict.
            UsageError: No such column, or one twice.
            ObjectNotFound, CorruptObject: While reading: a data file is gone or not what the log
                says.
        Requests: 1 GET for each piece of a checkpoint that holds files of the table; 1 or more GET
            a file.
        """
        schemas = self._file_schemas(table)
        if columns is None:
            unified = unify(schemas, table)
        else:
            names = _checked(columns, _names(schemas), table)
            chosen = [
                replace(item, schema=pa.schema([f for f in item.schema if f.name in names]))
                for item in schemas
            ]
            unified = unify(chosen, table)
            unified = pa.schema([unified.field(name) for name in names])
        return scan_files(self._store, self.file_parts(table), unified)

    def to_arrow(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """`scan` as one table in memory."""
        return self.scan(table, columns).read_all()

    def file_parts(self, table: str) -> list[FilePart]:
        """The live files with what reading them needs: for engines that read Parquet themselves.

        Returns:
            In the order of `scan`: see `read.file_order`.
        Requests: 1 GET for each piece of a checkpoint that holds files of the table.
        """
        self._check_table(table)
        parts = []
        for state in self._states:
            files = self._files_of(state, table)
            known = {entry.fingerprint: entry for entry in self._schemas_of(state, table)}
            folder = base_folder(state.writer, self.database)
            rows = by_commit(files.table(table, whole=True).select([*_PART, *_ORDER]))
            schemas: dict[bytes, pa.Schema] = {}
            columns = (rows.column(name).to_pylist() for name in _PART)
            for path, size, count, fingerprint, *footer in zip(*columns, strict=True):
                if fingerprint not in schemas:
                    schemas[fingerprint] = known[fingerprint].schema
                schema = schemas[fingerprint]
                parts.append(FilePart(folder + path, size, count, schema, fingerprint, *footer))
        return parts

    def _check_table(self, table: str, partition: str | None = None) -> None:
        for what, name in (("table", table), ("partition", "" if partition is None else partition)):
            if not is_text(name):
                raise UsageError(
                    f"The name of a {what} is text, not {name!r}",
                    hint="Give it as valid Unicode",
                )
        if any(self._schemas_of(state, table) for state in self._states):
            return
        for state in self._states:  # it may have files: such a table is there, and can't be used
            self._files_of(state, table)
        if not any(self._schemas_of(state, table) for state in self._states):
            raise TableNotFound(
                f"Database {self.database!r} has no table {table!r} at this point in time",
                key=table,
                hint=f"It has: {some_names(self.tables())}",
            )

    def _files_of(self, state: State, table: str, partition: str | None = None) -> Files:
        return self._table_of(state, table, partition)[0]

    def _table_of(
        self, state: State, table: str, partition: str | None = None
    ) -> tuple[Files, KnownSchemas]:
        """The files and schemas of a table in one log, of one base, read once; those of a partition
        are not kept."""
        key = (state.writer, table)
        if key not in self._tables:
            if partition is not None:
                return state.table_of(table, partition)
            self._tables[key] = state.table_of(table)
            self._schemas[key] = self._tables[key][1].of_table(table)
        return self._tables[key]

    def _schemas_of(self, state: State, table: str) -> list[SchemaEntry]:
        """What one log knows of a table, oldest first, read once."""
        key = (state.writer, table)
        if key not in self._schemas:
            self._schemas[key] = state.schemas_of(table).of_table(table)
        return self._schemas[key]

    def _output(self, state: State, rows: pa.Table, details: bool) -> pa.Table:
        folder = base_folder(state.writer, state.database)
        prefix = self._store.object_url(folder + "x")[:-1]
        columns: dict[str, Any] = {
            "writer": pa.repeat(_scalar(state.writer), rows.num_rows),
            "path": rows.column("path"),
            "url": _urls(prefix, rows.column("path")),
        }
        columns |= {name: rows.column(name) for name in (*_OUTPUT, *(_DETAILS if details else ()))}
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))

    def _file_schemas_in(self, state: State, table: str, *, live: bool) -> list[FileSchema]:
        """A log's schemas of a table, oldest first; only those of live files, if so asked."""
        used = self._files_of(state, table).fingerprints(table) if live else None
        entries = self._schemas_of(state, table)
        if used is not None:
            entries = [entry for entry in entries if entry.fingerprint in used]
        return [
            FileSchema(
                entry.schema, state.writer, partial(self._example, state, table, entry.fingerprint)
            )
            for entry in entries
        ]

    def _example(self, state: State, table: str, fingerprint: bytes) -> str:
        """The path of a live file with a schema; nothing if there is none."""
        rows = self._files_of(state, table).table(table)
        same = pc.equal(rows.column("schema_fingerprint"), column([fingerprint], pa.binary(16))[0])
        return min(rows.filter(same).column("path").to_pylist(), default="")


def _scalar(text: str) -> pa.Scalar:
    """A text as Arrow has it, without `pa.scalar`, which would import pandas."""
    return column([text], pa.string())[0]


def _urls(prefix: str, paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each path behind a prefix."""
    before, between = _scalar(prefix), _scalar("")

    def joined(chunk: pa.StringArray) -> pa.StringArray:
        return pc.binary_join_element_wise(before, chunk, between)

    at_once = 2 if paths.nbytes > SMALL_BYTES else 1
    return pa.chunked_array(parallel(joined, paths.chunks, at_once=at_once), pa.string())


def _names(schemas: Sequence[FileSchema]) -> list[str]:
    return list(dict.fromkeys(name for item in schemas for name in item.schema.names))


def _checked(columns: Sequence[str], names: Sequence[str], table: str) -> Sequence[str]:
    """The columns asked for, if they can be."""
    if isinstance(columns, str):
        raise UsageError(
            f"Columns are a list of names, not {columns!r}", hint=f"Give [{columns!r}]"
        )
    seen: set[str] = set()
    for name in columns:
        if name not in names:
            raise UsageError(
                f"Table {table!r} has no column {name!r}",
                key=str(name),
                hint=f"It has: {some_names(names)}",
            )
        if name in seen:
            raise UsageError(
                f"Column {name!r} is asked for twice", key=name, hint="Name each column once"
            )
        seen.add(name)
    return columns
