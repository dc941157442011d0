"""Whether a table can still be read once files with one more schema are in it.

Readers unite the schemas of a table's live files. All that the log knows are at hand already when a
table is written to, so they are united first, once for each new one; only if one of them is in the
way, it is looked up whether any live file has it.

It is a check of one log, as far as this process knows it: what others commit meanwhile, or to logs
of their own, is held against it by nobody.

Source: docs/format.md, section 5.3.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import CorruptObject, InvalidSchema, SchemaConflict, UsageError
from ..data.unify import FileSchema, only, shown, unify
from ..format import compute as pc
from ..format.columns import column
from ..format.schema import common_type, decode_schema, widen
from ..log.files import Files
from ..log.lookup import schemas_with

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set

    from ..format.definitions import Definition
    from ..format.schema import EncodedSchema
    from ..log.known_schemas import SchemaEntry
    from ..log.state import State

    _Ask = Callable[[Callable[["UnitedSchemas", State], Any]], Any]


# --- Timestamps out of range of the unit that the table is read with ------------------------------

_WORDS: Final = ("timestamp", "date", "duration")
_TIMES_HINT: Final = (
    "Nothing of this write becomes visible. Write earlier times, or remove the files that have the "
    "finer unit first, in the same transaction; on_conflict='allow' writes it all the same, and "
    "then the column can't be read as a whole"
)


def time_columns(schema: pa.Schema) -> list[str]:
    """The columns that may hold times, perhaps inside of lists and structs."""
    return [field.name for field in schema if any(word in str(field.type) for word in _WORDS)]


def refuse_misfits(
    batches: Iterator[pa.RecordBatch], read_as: Callable[[bool], pa.Schema], table: str
) -> Iterator[pa.RecordBatch]:
    """Yields the batches. Raises `SchemaConflict` if readers can't read a time in them.

    Args:
        read_as: Columns and their types, by all schemas that the log knows; or, if it is asked so,
            only by those of live files.
    """
    target = read_as(False)
    for batch in batches:
        if _misfit(batch, target) is not None:
            target = read_as(True)
            found = _misfit(batch, target)
            if found is not None:
                raise SchemaConflict(
                    f"Column {found.name!r} of table {table!r} is read as {found.type}, which ends "
                    f"before times that are to be written as {batch.schema.field(found.name).type}",
                    key=found.name,
                    hint=_TIMES_HINT,
                )
        yield batch


def _misfit(batch: pa.RecordBatch, target: pa.Schema) -> pa.Field | None:
    for wanted in target:
        try:
            batch.column(wanted.name).cast(wanted.type)
        except pa.ArrowInvalid:
            return wanted
    return None


# --- Columns that hold no null --------------------------------------------------------------------


def hold_not_null(
    schema: pa.Schema, data: Any, batches: Iterator[pa.RecordBatch], table: str
) -> Iterator[pa.RecordBatch]:
    """Refuse nulls in columns that a schema declares not null.

    Args:
        schema: That the files will have.
        data: What was given, as far as it can be looked at before it is written.
        batches: The same, to be read once.
    Returns:
        The batches, of this schema.
    Raises:
        InvalidSchema: There is a null where the data itself declares that there is none; of a
            stream perhaps only while its batches are read.
        SchemaConflict: There is one where the table does; likewise.
    """
    names = [field.name for field in schema if not field.nullable]
    if not names:
        return batches
    if isinstance(data, pa.Table | pa.RecordBatch):
        _refuse_nulls(data, names, table)
    return _without_nulls(schema, batches, names, table)


def _without_nulls(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], names: Sequence[str], table: str
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        _refuse_nulls(batch, names, table)
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _refuse_nulls(rows: pa.Table | pa.RecordBatch, names: Sequence[str], table: str) -> None:
    for name in names:
        count = rows.column(name).null_count
        if not count:
            continue
        own = not rows.schema.field(name).nullable
        raise (InvalidSchema if own else SchemaConflict)(
            f"Column {name!r} of table {table!r} is declared not null, and the data has null in it "
            f"({count:,} of {rows.num_rows:,} rows)",
            key=name,
            hint=f"Nothing of this write becomes visible. Fill them, or leave them out. {_NULLS}",
        )


_NULLS: Final = (
    "For the table to take nulls from now on, write a column that is declared nullable with "
    "on_conflict='allow' (tx.write or tx.add)"
)


# --- Whole numbers written as doubles, into a column of integers ----------------------------------


def as_whole(
    schema: pa.Schema, data: Any, batches: Iterator[pa.RecordBatch], conflict: SchemaConflict
) -> Iterator[pa.RecordBatch]:
    """The batches with columns of floats as the integers that a schema has.

    Args:
        conflict: Of the types; raised if a value isn't whole, or out of range, of a stream perhaps
            only while its batches are read.
    """
    if isinstance(data, pa.Table | pa.RecordBatch):
        for each in schema:
            if pa.types.is_floating(data.schema.field(each.name).type):
                _whole(data.column(each.name), each.type, conflict)
    for batch in batches:
        columns = [
            _whole(column, each.type, conflict)
            for column, each in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _whole(values: Any, kind: pa.DataType, conflict: SchemaConflict) -> Any:
    try:
        return values if values.type.equals(kind) else values.cast(kind)
    except pa.ArrowInvalid as error:
        conflict.hint = (
            f"{error!s:.80}. Round the values, or write them under another name, as a new column. "
            f"{conflict.hint}"
        )
        raise conflict from error


# --- Schemas --------------------------------------------------------------------------------------

ON_CONFLICT: Final = ("raise", "allow")
_HINT: Final = (
    "Nothing was written. Cast the data to the table's type, or remove the files that have the "
    "other one first, in the same transaction; on_conflict='allow' writes it all the same, and "
    "then the table can't be read as a whole"
)


def check_on_conflict(value: Any) -> bool:
    """Returns whether conflicts are to be refused. Raises `UsageError` for another value."""
    if value not in ON_CONFLICT:
        raise UsageError(
            f"on_conflict can't be {value!r:.60}", hint="Give 'raise' (the default) or 'allow'"
        )
    return bool(value == "raise")


def live_schemas(
    state: State, table: str, removed: Collection[tuple[str, str]]
) -> list[SchemaEntry]:
    """Returns the schemas that live files of a table have in one log, oldest first; those that are
    `removed` (table and path) don't count."""
    files, known = state.table_of(table)
    rows = files.table(table)
    paths = sorted(path for of, path in removed if of == table)
    if paths:
        gone = pc.is_in(rows.column("path"), column(paths, pa.string()))
        rows = pc.filter(rows, pc.invert(gone))
    live = set(pc.unique(rows.column("schema_fingerprint")).to_pylist())
    return [entry for entry in known.of_table(table) if entry.fingerprint in live]


@dataclass(slots=True)
class _Live:
    """What was let through beside conflicts that were there already.

    Attributes:
        fingerprints: The schemas of the table's live files then, and of those that came since.
        revision: Up to which commits are in it.
        passed: The schemas that were let through; none once files went, or came with one more
            schema.
    """

    fingerprints: Set[bytes]
    revision: int
    passed: set[bytes] = field(default_factory=set)

    def lets(self, fingerprint: bytes, state: State, table: str) -> bool:
        """Whether a schema was let through, and no commit since may have changed that."""
        based_at = -1 if state.base is None else state.base.message.revision
        if not based_at <= self.revision <= state.revision:
            return False
        since = [found for found in state.tail if found.message.revision > self.revision]
        files = Files(frozenset({table}))
        for transaction in since:
            files.apply(transaction)
        added = files.fingerprints(table)
        actions = (action for transaction in since for action in transaction.message.actions)
        if not added <= self.fingerprints or any(one.remove.table == table for one in actions):
            self.passed.clear()
        self.fingerprints, self.revision = self.fingerprints | added, state.revision
        return fingerprint in self.passed


@dataclass(frozen=True, slots=True)
class Own:
    """What one transaction makes of a table.

    Attributes:
        table: Its name.
        written: The schemas that it has written to it, by fingerprint.
        definition: By which readers see its files.
        removed: Tables and paths that it removes.
    """

    table: str
    written: Mapping[bytes, pa.Schema]
    definition: Definition | None
    removed: Collection[tuple[str, str]]

    @property
    def place(self) -> tuple[str, bytes]:
        """What is known of the table is known by its definition."""
        return self.table, b"" if self.definition is None else self.definition.name


@dataclass(frozen=True, slots=True)
class _Declared:
    """What some schemas (`names`) of a table say together.

    Attributes:
        not_null: The columns that all of them declare so.
        integers: The columns that are integers in all that have them, and their common types.
    """

    names: Set[bytes]
    not_null: frozenset[str]
    integers: dict[str, pa.DataType]


def _declared(schemas: Sequence[pa.Schema], names: Set[bytes]) -> _Declared:
    strict = [{one.name for one in schema if not one.nullable} for schema in schemas]
    kinds: dict[str, list[pa.DataType]] = {}
    for schema in schemas:
        for one in schema:
            kinds.setdefault(one.name, []).append(one.type)
    integers = {}
    for name, own in kinds.items():
        held = [kind for kind in own if not pa.types.is_null(kind)]
        common = common_type(held) if held and all(map(pa.types.is_integer, held)) else None
        if common is not None and pa.types.is_integer(common):
            integers[name] = common
    return _Declared(names, frozenset(set.intersection(*strict) if strict else ()), integers)


class UnitedSchemas:
    """The schemas of one writer's log that are known to unite, by table, kept from write to
    write."""

    def __init__(self, writer: str) -> None:
        self._writer = writer
        self._united: dict[tuple[str, bytes], Set[bytes]] = {}
        self._live: dict[tuple[str, bytes], _Live] = {}
        self._columns: dict[tuple[str, bytes], _Declared] = {}

    def not_null(self, state: State, own: Own) -> frozenset[str]:
        """The columns that all schemas of a table declare not null, as far as the log knows it."""
        return self._declared(state, own).not_null

    def integers(self, state: State, own: Own, schema: pa.Schema) -> dict[str, pa.DataType]:
        """The columns of floats in data that are integers in all schemas of a table, of a type that
        has none in common with theirs."""
        floats = [each for each in schema if pa.types.is_floating(each.type)]
        known = self._declared(state, own).integers if floats else {}
        return {
            each.name: known[each.name]
            for each in floats
            if each.name in known and widen(known[each.name], each.type) is None
        }

    def _declared(self, state: State, own: Own) -> _Declared:
        known = schemas_with(state, [own.table])
        names = {*own.written, *known.fingerprints_of(own.table)}
        kept = self._columns.get(own.place)
        if kept is None or kept.names != names:
            items = self._decoded(known.of_table(own.table), own)
            items += [self._item(one, own) for one in own.written.values()]
            kept = self._columns[own.place] = _declared([item.schema for item in items], names)
        return kept

    def check(
        self, state: State, own: Own, fingerprint: bytes, schema: pa.Schema, *, empty: bool
    ) -> None:
        """Refuse a schema that makes its table unreadable.

        Args:
            own: What the same transaction makes of the table.
            schema: As files have it.
            empty: No file will have this schema.
        Raises:
            SchemaConflict: Two types of one column have no common type.
        """
        table, known = own.table, schemas_with(state, [own.table])
        names = {fingerprint, *own.written, *known.fingerprints_of(table)}
        if names <= self._united.get(own.place, set()):
            return
        alone = not (own.written or own.removed or empty)
        kept = self._live.get(own.place) if alone else None
        if kept is not None and kept.lets(fingerprint, state, table):
            return
        new = self._item(schema, own, "the data to be written")
        written = [self._item(one, own, "this transaction") for one in own.written.values()]
        if unites([*self._decoded(known.of_table(table), own), *written, new], table):
            self._united[own.place] = names
            return
        entries = live_schemas(state, table, own.removed)
        if not entries and empty and not written:
            entries = known.of_table(table)  # readers go by all that the log knows
        rows = state.table_of(table)[0].table(table)
        _refuse_new_conflict([*self._decoded(entries, own, rows), *written], new, table)
        if alone:
            live = {entry.fingerprint for entry in entries}
            self._live[own.place] = _Live(live, state.revision, {fingerprint})

    def read_as(self, state: State, own: Own, schema: pa.Schema, *, live: bool) -> pa.Schema:
        """What readers make of the columns of a schema, as far as it isn't their own type.

        Args:
            own: As for `check`.
            schema: As files will have it.
            live: By the schemas of live files alone; else perhaps by more.
        """
        table = own.table
        known = schemas_with(state, [table]).of_table(table)
        held = self._decoded(live_schemas(state, table, own.removed) if live else known, own)
        held += [self._item(one, own) for one in own.written.values()]
        found = []
        for each in schema:
            items = [_of_column(item, each.name) for item in held if each.name in item.schema.names]
            items.append(_of_column(self._item(pa.schema([each]), own), each.name))
            with suppress(SchemaConflict):  # it can't be read as it is
                read = unify(items, table).field(each.name)
                if not read.type.equals(each.type):
                    found.append(read)
        return pa.schema(found)

    def _item(self, schema: pa.Schema, own: Own, words: str = "") -> FileSchema:
        return FileSchema(shown(schema, own.definition).schema, self._writer, words=words)

    def _decoded(
        self, entries: Iterable[SchemaEntry], own: Own, rows: pa.Table | None = None
    ) -> list[FileSchema]:
        """As far as this Arrow can decode them: rows of others can't be read here anyway."""
        found = []
        for entry in entries:
            with suppress(CorruptObject):
                schema = shown(entry.schema, own.definition).schema
                example = partial(_example, rows, entry.fingerprint)
                found.append(FileSchema(schema, self._writer, example))
        return found


def unites(schemas: Sequence[FileSchema], table: str) -> bool:
    """Whether a table can be read with some schemas."""
    try:
        unify(schemas, table)
    except SchemaConflict:
        return False
    return True


def _refuse_new_conflict(held: Sequence[FileSchema], own: FileSchema, table: str) -> None:
    """Raises `SchemaConflict` if a schema brings a conflict that isn't there without it."""
    for name in own.schema.names:
        before = [_of_column(item, name) for item in held if name in item.schema.names]
        if not unites(before, table):
            continue  # this column can't be read as it is
        try:
            unify([*before, _of_column(own, name)], table)
        except SchemaConflict as error:
            error.hint = _HINT
            raise


def _of_column(item: FileSchema, name: str) -> FileSchema:
    return FileSchema(only(item.schema, {name}), item.writer, item.example, item.words)


def _example(rows: pa.Table | None, fingerprint: bytes) -> str:
    if rows is None:
        return ""
    same = pc.equal(rows.column("schema_fingerprint"), column([fingerprint], pa.binary(16))[0])
    return min(pc.filter(rows, same).column("path").to_pylist(), default="")


class OwnSchemas:
    """What one transaction has written to its tables, and whether they can still be read.

    Args:
        ask: `Session.ask_united`.
        removed: Tables and paths that the transaction removes, kept up to date by it.
        definition_of: The definition that the transaction goes by.
    """

    def __init__(
        self,
        ask: _Ask,
        removed: Collection[tuple[str, str]],
        definition_of: Callable[[str], Definition | None],
    ) -> None:
        self._ask, self._removed, self._definition_of = ask, removed, definition_of
        self._sound: set[tuple[tuple[str, bytes], bytes]] = set()
        self._written: dict[str, dict[bytes, pa.Schema]] = {}

    def copy(self) -> OwnSchemas:
        """What may be learnt more of it is not learnt here."""
        found = OwnSchemas(self._ask, self._removed, self._definition_of)
        found._sound = set(self._sound)
        found._written = {table: dict(known) for table, known in self._written.items()}
        return found

    def refuse_conflict(self, table: str, encoded: EncodedSchema, *, empty: bool = False) -> None:
        """Raises `SchemaConflict` if a schema makes its table unreadable.

        Args:
            empty: There are no rows, so no file will have it.
        """
        own, fingerprint = self._own(table), encoded.fingerprint
        if (own.place, fingerprint) in self._sound and not empty:
            return
        schema = decode_schema(encoded.message)
        self._ask(lambda united, state: united.check(state, own, fingerprint, schema, empty=empty))
        if not empty:
            self._sound.add((own.place, fingerprint))

    def with_integers(self, table: str, schema: pa.Schema) -> pa.Schema:
        """The columns of data, floats as integers where the table has these; the same schema if
        there are none."""
        own = self._own(table)
        kinds = self._ask(lambda united, state: united.integers(state, own, schema))
        fields = [each.with_type(kinds.get(each.name, each.type)) for each in schema]
        return pa.schema(fields, schema.metadata) if kinds else schema

    def not_null(self, table: str) -> frozenset[str]:
        """The columns that a table declares not null."""
        own = self._own(table)
        names: frozenset[str] = self._ask(lambda united, state: united.not_null(state, own))
        return names

    def refuse_nullable(self, table: str, encoded: EncodedSchema) -> None:
        """Raises `SchemaConflict` if files of a schema may hold null, or lack a column, where the
        table declares it not null."""
        schema = decode_schema(encoded.message)
        for name in sorted(self.not_null(table)):
            if name not in schema.names or schema.field(name).nullable:
                what = "may hold null there" if name in schema.names else "lacks it"
                raise SchemaConflict(
                    f"column {name!r} of table {table!r} is declared not null, and the file {what}",
                    key=name,
                    hint=f"Nothing was added. Write its rows (tx.write). {_NULLS}",
                )

    def with_not_null(self, table: str, schema: pa.Schema, *, refuses: bool = True) -> pa.Schema:
        """The columns of data, of which those are not null that the table has so. Raises
        `SchemaConflict` if it has one that the data lacks; not if it only `refuses` nulls."""
        names = self.not_null(table)
        lacking = sorted(names.difference(schema.names))
        if lacking and refuses:
            raise SchemaConflict(
                f"Column {lacking[0]!r} of table {table!r} is declared not null, and the data "
                "lacks it",
                key=lacking[0],
                hint=f"Nothing was written. Give the data this column. {_NULLS}",
            )
        return pa.schema([f.with_nullable(False) if f.name in names else f for f in schema])

    def refuse_misfits(
        self, table: str, schema: pa.Schema, data: Any, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Refuse times that its readers could not read.

        Args:
            data: What was given, as far as it can be looked at before it is written.
            batches: The same, to be read once.
        Returns:
            The batches.
        Raises:
            SchemaConflict: There are some; of a stream perhaps only while its batches are read.
        """
        names = time_columns(schema)
        if not names:
            return batches

        def read_as(live: bool) -> pa.Schema:
            return self.times_read_as(table, schema, live=live)

        if not isinstance(data, pa.Table | pa.RecordBatch):
            return refuse_misfits(batches, read_as, table)
        from ..data.dataframes import to_batches

        for _ in refuse_misfits(to_batches(data.select(names))[1], read_as, table):
            pass
        return batches

    def times_read_as(self, table: str, schema: pa.Schema, *, live: bool) -> pa.Schema:
        """Returns the columns of times of data, in the types that the table's readers read them in:
        by the schemas of live files if `live`, else by all that the log knows."""
        times = pa.schema([schema.field(name) for name in time_columns(schema)])
        own = self._own(table)
        found: pa.Schema = self._ask(
            lambda united, state: united.read_as(state, own, times, live=live)
        )
        return found

    def _own(self, table: str) -> Own:
        written = self._written.get(table, {})
        return Own(table, written, self._definition_of(table), self._removed)

    def learn(self, table: str, encoded: EncodedSchema) -> None:
        """Remember what was written to a table."""
        known = self._written.setdefault(table, {})
        if encoded.fingerprint not in known:
            known[encoded.fingerprint] = decode_schema(encoded.message)
