"""The tables of a cut: what each log of it knows of their files and schemas, each read once.

Source: docs/format.md, section 7.
"""

from __future__ import annotations

from functools import partial
from threading import RLock
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import TableNotFound, UsageError, WriterNotFound, some_names
from ..data.shown import shown
from ..data.unify import FileSchema, distinct
from ..format import compute as pc
from ..format.columns import column
from ..format.names import is_text
from ..scalars import value_of
from .tables import table_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...store import Store
    from ..data.file_part import FilePart
    from ..data.shown import Shown
    from ..log.files import Files
    from ..log.known_schemas import KnownSchemas, SchemaEntry
    from ..log.state import State
    from .keys import TableKeys
    from .table_facts import TableFacts


class CutTables:
    """The tables of one database at a cut.

    Attributes:
        database: Its name.
        states: Of the logs, by writer.
    """

    def __init__(self, database: str, states: Sequence[State]) -> None:
        self.database = database
        self.states = states
        self._tables: dict[tuple[str, str], tuple[Files, KnownSchemas]] = {}
        self._schemas: dict[tuple[str, str], list[SchemaEntry]] = {}
        self._shown: dict[tuple[str, str, bytes], Shown] = {}
        self._of_files: dict[tuple[str, str | None], list[FileSchema]] = {}
        self._facts: dict[tuple[str, str], TableFacts] = {}
        self._keys: dict[str, TableKeys | None] = {}
        self._reading = RLock()

    def names(self) -> list[str]:
        """Names of the tables, sorted."""
        return sorted({name for state in self.states for name in table_names(state)})

    def of_writer(self, writer: str | None) -> Sequence[State]:
        """The logs that are asked for: one, or all.

        Raises:
            WriterNotFound: There is no such one in the cut.
        """
        if writer is None:
            return self.states
        found = [state for state in self.states if state.writer == writer]
        if not found:
            raise WriterNotFound(
                f"Writer {writer!r} has committed nothing to {self.database!r} at this point in "
                "time",
                key=str(writer),
                hint=f"These have: {some_names([state.writer for state in self.states])}",
            )
        return found

    def check(self, table: str, partition: str | None = None) -> None:
        """Refuse a table that the cut doesn't know.

        Raises:
            TableNotFound: It doesn't.
            UsageError: A name that is no text.
            CorruptObject: It may know it, and can't be read.
        """
        for what, name in (("table", table), ("partition", "" if partition is None else partition)):
            if not is_text(name):
                raise UsageError(
                    f"The name of a {what} is text, not {name!r}",
                    hint="Give it as valid Unicode",
                )
        if any(self.schemas_of(state, table) for state in self.states):
            return
        for state in self.states:  # it may have files: such a table is there, and can't be used
            self.table_of(state, table)
        if not any(self.schemas_of(state, table) for state in self.states):
            raise TableNotFound(
                f"Database {self.database!r} has no table {table!r} at this point in time",
                key=table,
                hint=f"It has: {some_names(self.names())}",
            )

    def table_of(
        self, state: State, table: str, partition: str | None = None
    ) -> tuple[Files, KnownSchemas]:
        """The files and schemas of a table in one log, of one base, read once; those of a partition
        are not kept."""
        key = (state.writer, table)
        if partition is not None and key not in self._tables:
            return state.table_of(table, partition)
        with self._reading:  # threads that ask for one table read it once
            if key not in self._tables:
                self._tables[key] = found = state.table_of(table)
                self._schemas[key] = found[1].of_table(table)
            return self._tables[key]

    def facts_of(self, state: State, table: str, partition: str | None = None) -> TableFacts:
        """What one log knows of the columns of a table's files; kept as `table_of` is."""
        from .table_facts import TableFacts

        of = self.table_of(state, table, partition)
        key = (state.writer, table)
        if of is not self._tables.get(key):
            return TableFacts(state, table, of)
        return self._facts.setdefault(key, TableFacts(state, table, of))

    def schemas_of(self, state: State, table: str) -> list[SchemaEntry]:
        """What one log knows of a table, oldest first, read once."""
        key = (state.writer, table)
        with self._reading:
            if key not in self._schemas:
                self._schemas[key] = state.schemas_of(table).of_table(table)
            return self._schemas[key]

    def shown(self, state: State, table: str, fingerprint: bytes) -> Shown:
        """What files of a schema show in one log.

        Raises:
            CorruptObject: The schema, or what the log says of the table's columns, can't be read.
        """
        key = (state.writer, table, fingerprint)
        with self._reading:
            if key not in self._shown:
                definition = state.definitions.of(table)
                for entry in self.schemas_of(state, table):
                    if entry.fingerprint == fingerprint:
                        self._shown[key] = shown(entry.schema, definition)
            return self._shown[key]

    def leaves_out(self, table: str) -> bool:
        """Whether some live files of a table are left out."""
        return False

    def keys_of(self, table: str) -> TableKeys | None:
        """What is known of the keys of a table; None if it has no key.

        Raises:
            SchemaConflict: Logs give it different ones.
        """
        with self._reading:
            if table not in self._keys:
                from .keys import TableKeys, table_key

                key = table_key(self.states, table)
                self._keys[table] = TableKeys(self, table, key) if key else None
            return self._keys[table]

    def touched(self, table: str) -> int:
        """How many files of a table may hold a key that another row has.

        Requests: 1 GET for each piece of statistics of the columns of the key, the first time.
        """
        keys = self.keys_of(table)
        return 0 if keys is None else keys.touched()

    def key_files(self, state: State, table: str, files: Sequence[str]) -> list[int]:
        """Per file of a log among how many its keys are resolved; 0: they are known, or there is no
        key. See `touched`."""
        keys = self.keys_of(table)
        return [0] * len(files) if keys is None else keys.meeting(state.writer, files)

    def resolved(
        self, store: Store, table: str, asked: Sequence[tuple[State, Sequence[FilePart]]]
    ) -> list[FilePart]:
        """Files of a table that are asked for, by log; where it has a key, each with the rows that
        newer ones supersede. See `TableKeys.resolved`."""
        keys = self.keys_of(table)
        if keys is None:
            return [part for _, parts in asked for part in parts]
        return keys.resolved(store, asked)

    def file_schemas(self, table: str, writer: str | None = None) -> list[FileSchema]:
        """The schemas of the live files of a table (of one writer); those of former ones where
        there are none.

        Raises:
            TableNotFound, WriterNotFound.
        """
        table, writer = value_of(table), value_of(writer)
        self.check(table)
        states = self.of_writer(writer)

        def found(*, live: bool) -> list[FileSchema]:
            return [item for state in states for item in self._schemas_in(state, table, live=live)]

        if (table, writer) not in self._of_files:
            live = found(live=True)
            self._of_files[table, writer] = distinct(live or found(live=False))
        return self._of_files[table, writer]

    def _schemas_in(self, state: State, table: str, *, live: bool) -> list[FileSchema]:
        """A log's schemas of a table, oldest first; only those of live files, if so asked."""
        used = self.table_of(state, table)[0].fingerprints(table) if live else None
        entries = self.schemas_of(state, table)
        if used is not None:
            entries = [entry for entry in entries if entry.fingerprint in used]
        return [self._file_schema(state, table, entry.fingerprint) for entry in entries]

    def _file_schema(self, state: State, table: str, fingerprint: bytes) -> FileSchema:
        example = partial(self._example, state, table, fingerprint)
        return FileSchema(self.shown(state, table, fingerprint).schema, state.writer, example)

    def _example(self, state: State, table: str, fingerprint: bytes) -> str:
        """The path of a live file with a schema; nothing if there is none."""
        rows = self.table_of(state, table)[0].table(table)
        same = pc.equal(rows.column("schema_fingerprint"), column([fingerprint], pa.binary(16))[0])
        return min(rows.filter(same).column("path").to_pylist(), default="")
