"""One cut of a database, read: tables, schemas, files, rows.

Source: docs/format.md, section 7.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import TableNotFound, UsageError
from .data.scan import FilePart, scan_files
from .data.unify import FileSchema, distinct, unify
from .format.cut import DIGEST_BYTES, Cut, Position
from .format.names import base_folder
from .log.state import State
from .log.table_files import TableFiles
from .parallel import parallel
from .read.log_reader import LogReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..store import Store
    from .ambient import Ambient

_OUTPUT = ("partition", "size_bytes", "row_count", "revision")
_MORE = ("first_clock", "last_clock")


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
        self._states = sorted(
            (state for state in states if state.revision >= 0), key=lambda s: s.writer
        )
        self.cut = Cut(
            database,
            {s.writer: Position(s.revision, s.digest[:DIGEST_BYTES]) for s in self._states},
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

        Requests: 1 LIST for each writer; 1 GET for each new transaction.
        """
        logs = [
            LogReader(self._store, state.writer, self.database, self._ambient)
            for state in self._states
        ]
        newer = parallel(lambda pair: pair[0].advance(pair[1]), zip(logs, self._states))
        if all(new is old for new, old in zip(newer, self._states)):
            return self
        return Snapshot(self._store, self.database, newer, self._ambient)

    def tables(self) -> list[str]:
        """Names of the tables, sorted. A table whose files were all removed is still one."""
        return sorted({name for state in self._states for name, _ in state.schemas})

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
        live = [item for state in self._states for item in _schemas(state, table, live=True)]
        return distinct(live or [i for s in self._states for i in _schemas(s, table, live=False)])

    def files(self, table: str, *, statistics: bool = False) -> pa.Table:
        """The live files of a table.

        Args:
            statistics: Also first_clock, last_clock, and the columns of statistics as
                docs/format.md, section 6.1 names them.
        Returns:
            writer, path (relative to `<writer>/<database>/`), url (as an engine opens it),
            partition, size_bytes (exact), row_count, revision (that added it). In order of writer;
            within one the order is not specified.
        Raises:
            TableNotFound: The cut doesn't know the table.
        """
        self._check_table(table)
        parts = [
            self._files_of(state, table, statistics)
            for state in self._states
            if table in state.tables
        ]
        if not parts:
            empty = State(self._states[0].writer, self.database)
            parts = [self._output(empty, TableFiles().table({} if statistics else None))]
        return pa.concat_tables(parts, promote_options="default") if len(parts) > 1 else parts[0]

    def scan(self, table: str, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The rows of a table, as a stream: files are read ahead, and memory stays bounded.

        Args:
            columns: Names, in the order wanted; all if not given. Types need to agree in these
                alone.
        Returns:
            Batches of `schema(table)` (or the columns asked for); a column that a file lacks is
            null there. In order of writer and file; within a file in the file's order.
        Raises:
            TableNotFound, SchemaConflict.
            UsageError: No such column, or one twice.
            ObjectNotFound, CorruptObject: While reading: a data file is gone or not what the log
                says.
        Requests: 1 or more GET a file.
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
            In the order of `scan`.
        """
        self._check_table(table)
        parts = []
        for state in self._states:
            if table not in state.tables:
                continue
            schemas = state.arrow_schemas(table)
            folder = base_folder(state.writer, self.database)
            rows = (
                state.tables[table]
                .table()
                .select(["path", "size_bytes", "row_count", "schema_fingerprint"])
            )
            order = pc.sort_indices(rows, sort_keys=[("path", "ascending")])
            for path, size, count, fingerprint in zip(
                *(c.to_pylist() for c in rows.take(order).columns)
            ):
                parts.append(FilePart(folder + path, size, count, schemas[fingerprint]))
        return parts

    def _check_table(self, table: str) -> None:
        if not any(name == table for state in self._states for name, _ in state.schemas):
            raise TableNotFound(
                f"Database {self.database!r} has no table {table!r} at this point in time",
                key=table,
                hint=f"It has: {', '.join(self.tables()) or 'none'}",
            )

    def _files_of(self, state: State, table: str, statistics: bool) -> pa.Table:
        schemas = state.arrow_schemas(table) if statistics else None
        return self._output(state, state.tables[table].table(schemas))

    def _output(self, state: State, rows: pa.Table) -> pa.Table:
        folder = base_folder(state.writer, state.database)
        prefix = self._store.object_url(folder + "x")[:-1]
        columns: dict[str, Any] = {
            "writer": pa.repeat(pa.scalar(state.writer, pa.string()), rows.num_rows),
            "path": rows.column("path"),
            "url": pc.binary_join_element_wise(
                pa.scalar(prefix), rows.column("path"), pa.scalar("")
            ),
        }
        columns |= {name: rows.column(name) for name in _OUTPUT}
        more = (name for name in rows.schema.names if name in _MORE or ":" in name)
        columns |= {name: rows.column(name) for name in more}
        return pa.table(columns)


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
                hint=f"It has: {', '.join(names)}",
            )
        if name in seen:
            raise UsageError(
                f"Column {name!r} is asked for twice", key=name, hint="Name each column once"
            )
        seen.add(name)
    return columns


def _schemas(state: State, table: str, *, live: bool) -> list[FileSchema]:
    """A state's schemas of a table, oldest first; only those of live files, if so asked."""
    fingerprints = state.tables[table].fingerprints() if live and table in state.tables else None
    if live and fingerprints is None:
        return []
    entries = [
        (entry.revision, fingerprint, entry)
        for (name, fingerprint), entry in state.schemas.items()
        if name == table and (fingerprints is None or fingerprint in fingerprints)
    ]
    return [
        FileSchema(entry.schema, state.writer, partial(_example, state, table, fingerprint))
        for _, fingerprint, entry in sorted(entries, key=lambda e: e[:2])
    ]


def _example(state: State, table: str, fingerprint: bytes) -> str:
    """The path of a live file with a schema; nothing if there is none."""
    if table not in state.tables:
        return ""
    rows = state.tables[table].table()
    same = pc.equal(rows.column("schema_fingerprint"), pa.scalar(fingerprint, pa.binary()))
    paths = sorted(rows.filter(same).column("path").to_pylist())
    return paths[0] if paths else ""
