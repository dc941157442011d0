"""Upserts within a transaction: rows that take the place of those with the same key.

Source: docs/changing.md, "Keys".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import InvalidPredicate, SchemaConflict, TableNotFound, UsageError, it_has
from ..data.evolution import Change
from ..data.hidden import Bitmaps
from ..data.key_rows import in_pieces
from ..data.parquet import FILE_BYTES
from ..data.scan import Projection, read_projected
from ..data.unify import FileSchema, column_names
from ..format import compute as pc
from ..format import deletes as form
from ..format.columns import array, is_null, numbers
from ..format.names import escape_name
from ..format.schema import check_key, plain
from ..log.build import require_actions
from ..parallel import parallel
from ..read.cut_tables import CutTables
from ..read.delete_plan import parts_by_path
from ..read.file_parts import projected
from ..read.keys import table_key
from ..read.row_filter import row_filter
from ..read.scan_request import kept_files
from ..scalars import value_of
from ..wire import lakelog_transaction_pb2 as wire
from .base_transaction import Upserted
from .deleting import Deleting, Rows, readable_states

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ...store import Store
    from ..data.file_part import FilePart
    from ..log.state import State


# --- Rows of a log that have given keys -----------------------------------------------------------

_AT_ONCE: Final = 4
_PIECE: Final = 1 << 20
_MOST_VALUES: Final = 10_000  # that files are judged by one by one; else by the least and greatest


@dataclass(frozen=True, slots=True)
class KeyMatches:
    """What may hold rows of some keys.

    Attributes:
        parts: By path what reading each file takes.
        target: The columns of the key, with types that hold the values of the files and of the
            keys; None: no file has all of them.
        revision: Of the state that was looked at.
    """

    parts: dict[str, FilePart]
    target: pa.Schema | None
    revision: int


def key_matches(state: State, table: str, keys: pa.Table, gone: Collection[str]) -> KeyMatches:
    """The live files of a table in one log that may hold some keys, by what it knows of them.

    Args:
        keys: Without nulls; its columns are the key.
        gone: Paths that are left out.
    Raises:
        SchemaConflict: Files and keys have no common type of a column.
        InvalidSchema: Nor can it be of a key.
    Requests: 1 GET for each piece of files, and of statistics of the columns.
    """
    tables = CutTables(state.database, [state])
    names = keys.schema.names
    try:
        schemas = tables.file_schemas(table)
    except TableNotFound:
        return KeyMatches({}, None, state.revision)
    if not set(names).issubset(column_names(schemas)) or not keys.num_rows:
        return KeyMatches({}, None, state.revision)
    given = FileSchema(keys.schema.remove_metadata(), state.writer, words="the data")
    own = projected(schemas, table, names, None).read
    target = pa.schema([_united(field, given, table) for field in own])
    check_key(target, table)
    facts = tables.facts_of(state, table)
    kept = np.ones(facts.files.table(table).num_rows, np.bool_)
    for name in names:
        kept &= _judged(facts, schemas, table, name, keys.column(name))
    paths = pc.filter(facts.files.table(table).column("path"), array(kept)).to_pylist()
    parts = parts_by_path(tables, state, table, set(paths).difference(gone))
    return KeyMatches(parts, target, state.revision)


def _united(field: pa.Field, given: FileSchema, table: str) -> pa.Field:
    from ..format.schema import widen

    kind = given.schema.field(field.name).type
    wider = widen(field.type, kind)
    if wider is None:
        raise SchemaConflict(
            f"Column {field.name!r} of table {table!r} is {field.type}, and {kind} in the data",
            key=field.name,
            hint="Nothing was written. Cast the data",
        )
    return field.with_type(wider)


def _judged(
    facts: Any, schemas: Sequence[FileSchema], table: str, name: str, values: pa.ChunkedArray
) -> np.ndarray:
    """Which live files may hold one of some values."""
    import pyarrow.compute

    distinct, field = pc.unique(values), pyarrow.compute.field(name)
    if len(distinct) <= _MOST_VALUES:
        wanted = field.isin(distinct)
    else:
        ends = pc.min_max(distinct)
        wanted = (field >= ends["min"]) & (field <= ends["max"])
    everyone: np.ndarray = np.ones(facts.files.table(table).num_rows, np.bool_)
    try:
        found = row_filter(wanted, schemas, table, decides=False)
    except InvalidPredicate:  # of a type that predicates don't have
        return everyone
    return kept_files(facts, found, proven=True)


def rows_with_keys(store: Store, found: KeyMatches, keys: pa.Table) -> list[np.ndarray]:
    """Returns per file the numbers of its rows that have one of some keys and that nothing hides
    yet, ascending. Raises as reading does.

    Requests: 1 or more GET a file.
    """
    if found.target is None:
        return []
    target, bitmaps = found.target, Bitmaps(store)
    wanted = _Keys(keys.select(target.names).cast(target.remove_metadata()))

    def of_file(part: FilePart) -> np.ndarray:
        read = read_projected(store, part, Projection(target), bitmaps)
        met = [np.zeros(0, np.int64)]
        for rows, places in in_pieces(read, target, max(_PIECE, keys.num_rows)):
            met.append(places[wanted.among(rows)])
        return np.concatenate(met)

    return parallel(of_file, list(found.parts.values()), at_once=_AT_ONCE)


class _Keys:
    """Some keys without nulls, to be found among others: the beginnings of keys are numbered,
    column by column."""

    def __init__(self, keys: pa.Table) -> None:
        self._values = [pc.unique(values) for values in keys.columns]
        self._begun: list[np.ndarray] = []  # numbers of what is begun and the next value, sorted
        numbered = np.zeros(keys.num_rows, np.int64)
        for values, distinct in zip(keys.columns, self._values, strict=True):
            pairs = numbered * len(distinct) + numbers(pc.index_in(values, distinct))
            self._begun.append(np.unique(pairs))
            numbered = np.searchsorted(self._begun[-1], pairs)

    def among(self, rows: pa.Table) -> np.ndarray:
        """Which rows have one of these keys."""
        found = np.ones(rows.num_rows, np.bool_)
        numbered = np.zeros(rows.num_rows, np.int64)
        for values, distinct, begun in zip(rows.columns, self._values, self._begun, strict=True):
            at = pc.index_in(values, distinct)
            missing = [is_null(chunk) for chunk in at.chunks]
            found &= ~np.concatenate(missing) if missing else found
            pairs = numbered * len(distinct) + np.where(found, numbers(at), 0)
            numbered = np.minimum(np.searchsorted(begun, pairs), len(begun) - 1)
            found &= begun[numbered] == pairs
        return found


# --- Upserts --------------------------------------------------------------------------------------


class Upserting(Deleting):
    """The part of a transaction that writes rows by their key."""

    def upsert(
        self,
        table: str,
        data: Any,
        partition: str = "",
        *,
        key: Sequence[str] | None = None,
        partition_by: Sequence[str] | None = None,
        clock: tuple[int, int] | None = None,
        file_bytes: int = FILE_BYTES,
        bloom: Sequence[str] = (),
    ) -> Upserted:
        """Write rows in the place of those that have the same key. The data is held in memory; of
        two of its rows with one key the later counts.

        On a table with this key (`evolve(table, key=...)`) it is a write: of all writers' rows
        readers give the one with the newest clock. On another table, the rows of this writer's
        files that were committed before and have such a key are deleted by their numbers: these
        files' columns of the key are read now.

        Args:
            data, partition, partition_by, file_bytes, bloom: As for `write`.
            key: Names of columns; the table's key if not given: that of this log, else that of the
                other logs of the database, which this one then gives the table, too.
            clock: As for `write`. If not given, it is above those of all files of the table in this
                log: where the table has a key, perhaps by another log, older rows would hide these.
        Raises:
            UsageError: There is no key, or the data has no such columns; or without the table's key
                this transaction has added files to the table. Nothing was written.
            SchemaConflict: Other logs give the table different keys. Nothing was written.
            InvalidSchema: A type that no key can have, or a null in a column of the key. Nothing
                was written.
            Else as `write` and `delete`.
        Requests: Those of `write`; 1 LIST, and 1 GET for each new transaction; 1 GET for each piece
            of a checkpoint that holds files of the table, the first time. On a table without the
            key those of `delete` by rows, too. Where no key is given and this log has none, those
            of `other_states`.
        """
        with self._intent.asking():
            return self._upsert(
                table, data, partition, key=key, clock=clock,
                partition_by=partition_by, file_bytes=file_bytes, bloom=bloom,
            )  # fmt: skip

    def _upsert(
        self,
        table: str,
        data: Any,
        partition: str,
        *,
        key: Sequence[str] | None,
        clock: tuple[int, int] | None,
        **options: Any,
    ) -> Upserted:
        self._check_open("row_delta")
        self._session.refuse_fenced()
        table = value_of(table)
        escape_name(table, "table")
        self._session.ask_anew(lambda _: None)  # another may have given the table its key
        own = self._key_of(table)
        taken_over: tuple[str, ...] = ()
        if key is None and not own:
            own = taken_over = table_key(readable_states(self._session), table)
        names = _names(key, own, table)
        schema, batches = self._rows(table, data, fits=True)
        rows = pa.Table.from_batches(list(batches), schema)
        rows = _newest(rows, _checked(rows, names, table))
        clock = clock or self._newer(table)
        if set(names) == set(own):
            paths = self.write(table, rows, partition, clock=clock, **options)
            if taken_over:
                self._evolve(table, Change(key=taken_over))
            return Upserted(rows.num_rows, None, 0, 0, tuple(paths))
        self._intent.refuse_begun(table)
        if table in self._added.values():
            raise UsageError(
                f"This transaction has added files to table {table!r}, of which an upsert by "
                "another key than the table's can't replace rows",
                key=table,
                hint="Commit it, and upsert in another transaction",
            )
        found = self._replaced(table, rows.select(names))
        actions: list[wire.Action] = [
            wire.Action(remove=wire.Remove(path=path, table=table)) for path in found.whole
        ]
        # An object of deletes is there before the rows are: were the transaction committed without
        # them, a rebuild would find what it deletes.
        with self._operation_guard.doing("upsert", table):
            if found.bitmaps:
                actions += require_actions([form.ROW_DELETES])
                actions += self._objects(found.bitmaps, actions)
            self._message_size.take(actions)
            # Before the rows: the footers of their files then say what they replace.
            self._removed.update(dict.fromkeys((table, path) for path in found.whole))
            paths = self.write(table, rows, partition, clock=clock, **options)
        self._intent.counted.update({(table, path): found.revision for path in found.whole})
        self._intent.actions.extend(actions)
        return Upserted(
            rows.num_rows, found.rows, len(found.whole), len(found.bitmaps), tuple(paths)
        )

    def _replaced(self, table: str, keys: pa.Table) -> Rows:
        """The rows of this writer's files that have some keys."""
        gone = {path for own, path in self._removed if own == table}

        def looked(state: State) -> KeyMatches:
            return key_matches(state, table, keys, gone)

        found = self._session.ask_anew(looked)
        matching = rows_with_keys(self._session.wide, found, keys)
        stay = partial(self._files_stay, table)
        revision = found.revision
        return Rows(self._session, table, found.parts, matching, revision=revision, stay=stay)

    def _newer(self, table: str) -> tuple[int, int]:
        """A clock above those of all files of a table, in the log and in this transaction."""
        own = [
            action.add.last_clock
            for action in self._intent.actions
            if action.WhichOneof("kind") == "add" and action.add.table == table
        ]
        known = self._session.ask(lambda state: newest_clock([state], table))
        own += [] if known is None else [known]
        return newer_than(max(own, default=None), self._session.clock())


def newest_clock(states: Sequence[State], table: str) -> int | None:
    """Returns the greatest clock of a table's rows in some logs; None if it has no row."""
    found = []
    for state in states:
        clocks = numbers(state.table_of(table)[0].table(table, whole=True).column("last_clock"))
        found += [int(clocks.max())] if len(clocks) else []
    return max(found, default=None)


def newer_than(newest: int | None, now: tuple[int, int]) -> tuple[int, int]:
    """Returns a reading of the clock, if it is above another one; else the next above that."""
    if newest is None or now[0] > newest:
        return now
    return newest + 1, newest + 1


def _names(key: Any, own: tuple[str, ...], table: str) -> list[str]:
    if key is None:
        if not own:
            raise UsageError(
                f"No log of the database gives table {table!r} a key",
                key=table,
                hint="Give key=[...], or give the table one: "
                "catalog.evolve(database, table, key=[...])",
            )
        return list(own)
    given = [] if isinstance(key, str) else [value_of(name) for name in key]
    if not given or not all(isinstance(n, str) for n in given) or len(set(given)) < len(given):
        raise UsageError(
            f"key= is a list of names of columns, each once, not {key!r:.60}", hint="Give ['id']"
        )
    return given


def _checked(rows: pa.Table, names: Sequence[str], table: str) -> list[str]:
    """Returns the columns of the key. Raises `UsageError` if the data lacks one, and
    `InvalidSchema` if one can't be of a key, or holds null."""
    from ...errors import InvalidSchema

    for name in names:
        if name not in rows.schema.names:
            raise UsageError(
                f"The data has no column {name!r}, which is of the key",
                key=name,
                hint=it_has(name, rows.schema.names),
            )
    check_key([rows.schema.field(name) for name in names], table)
    for name in names:
        if rows.column(name).null_count:
            raise InvalidSchema(
                f"Column {name!r} of the key holds {rows.column(name).null_count} nulls: such a "
                "row takes no other's place",
                key=name,
                hint="Nothing was written. Write such rows with tx.write",
            )
    return list(names)


def _newest(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows whose key doesn't come again, in their order."""
    keys = rows.select(list(names))
    keys = keys.cast(pa.schema([(field.name, plain(field.type)) for field in keys.schema]))
    forms = [str(number) for number in range(len(names))]
    keys = keys.rename_columns(forms)
    keys = keys.append_column("place", array(np.arange(rows.num_rows, dtype=np.int64)))
    last = numbers(keys.group_by(forms).aggregate([("place", "max")]).column("place_max"))
    if len(last) == rows.num_rows:
        return rows
    return pc.take(rows, array(np.sort(last)))
