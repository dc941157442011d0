"""The ids of columns: which the log of a table has given, and whether a commit gives any of them
another meaning. Pure, but for the pieces of the state.

A column gets its id when it first appears, and no other column of the table ever has it again.
Writers choose ids before they commit: of two that race, and give one id to different columns or one
column different ids, the later one is refused.

Source: docs/format.md, sections 5.3 and 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import ColumnsChanged, CorruptObject
from ..format.definitions import (
    decode_definition,
    encode_definition,
    name_of,
    no_columns,
)
from ..format.schema import (
    MAX_COLUMN_ID,
    column_id,
    column_of,
    decode_log_schema,
    plain,
    widen,
    with_column_id,
)
from .definitions import definition_actions
from .lookup import schemas_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..format.definitions import Definition
    from ..wire import lakelog_transaction_pb2 as wire
    from .build import Intent
    from .state import State


@dataclass(slots=True)
class ColumnIds:
    """The ids that a log has given to the columns of a table.

    Attributes:
        ids: Of the columns that the table has now, by name: those that its definition declares, and
            those that came with files since.
        former: By a name that files have and the table no more, what that column is called now;
            None: it was dropped.
        last: The highest id.
    """

    ids: dict[str, int] = field(default_factory=dict)
    former: dict[str, str | None] = field(default_factory=dict)
    last: int = 0
    _defined: Definition | None = None

    def with_schemas(self, schemas: Iterable[bytes]) -> ColumnIds:
        """Returns the same with the ids of more schemas (messages). Raises `CorruptObject` if one
        can't be read."""
        was = self._defined
        defined = 0 if was is None else was.last_id
        names = {} if was is None else {number: name for name, number in was.ids().items()}
        ids, former, last = dict(self.ids), dict(self.former), self.last
        for message in schemas:
            for name, number in named_ids(message):
                last = max(last, number)
                if number > defined:
                    ids.setdefault(name, number)
                elif names:  # a table that the log forgot begins again, and has dropped nothing
                    former[name] = names.get(number)
        former = {name: now for name, now in former.items() if name not in ids}
        return ColumnIds(ids, former, last, self._defined)

    def stamped(self, each: pa.Field) -> pa.Field:
        """Returns a column of data with the id of the table's column of its name; a new one gets
        the next id. Raises `ColumnsChanged` if no id is left."""
        number = self.ids.get(each.name, 0)
        if not number:
            number = self.ids[each.name] = self.last = self.last + 1
            if number > MAX_COLUMN_ID:
                raise ColumnsChanged("The table has had too many columns", hint="Begin another")
        return with_column_id(each, number)


def ids_in(state: State, table: str, definition: Definition | None) -> ColumnIds:
    """Returns the ids that a log has given to the columns of a table. Raises `CorruptObject` if a
    schema can't be read.

    Args:
        definition: Of the table, perhaps not committed yet; None: it has none.
    Requests: 1 GET for each piece of schemas of the table, the first time.
    """
    known = schemas_with(state, [table]).of_table(table)
    return column_ids(definition).with_schemas(entry.message for entry in known)


def column_ids(definition: Definition | None) -> ColumnIds:
    """The ids that a definition gives."""
    if definition is None:
        return ColumnIds()
    return ColumnIds(definition.ids(), {}, definition.last_id, definition)


@lru_cache(maxsize=4096)
def named_ids(message: bytes) -> tuple[tuple[str, int], ...]:
    """Returns the ids of a schema's columns by name. Raises `CorruptObject` if it can't be read."""
    try:
        return tuple((field.name, column_id(field)) for field in decode_log_schema(message))
    except ValueError as error:
        raise CorruptObject(f"The log holds an invalid schema: {error}") from error


def newest_columns(
    table: str, definition: Definition | None, schemas: Iterable[bytes]
) -> wire.Definition | None:
    """What a log without a word of it has to say of columns that were dropped and came again: of
    each name the one of the highest id is the table's. None: there is none, or ids have several
    names.

    Args:
        definition: What is known of the table.
        schemas: Of all its files, as messages.
    """
    defined = 0 if definition is None else definition.last_id
    columns: dict[str, pa.Field] = {}
    names: dict[int, str] = {}
    several = False
    for message in schemas:
        for each in decode_log_schema(message):
            number = column_id(each)
            if number <= defined:
                continue
            if names.setdefault(number, each.name) != each.name:
                return None
            known = columns.get(each.name)
            several |= known is not None and column_id(known) != number
            if known is None or column_id(known) <= number:
                columns[each.name] = column_of(each.name, plain(each.type), number)
    if not several:
        return None
    declared = {} if definition is None else {each.name: each for each in definition.schema}
    schema = pa.schema(list((columns | declared).values()))
    defaults, key = ({}, ()) if definition is None else (definition.defaults, definition.key)
    return encode_definition(table, schema, defaults, max(names), key=key)


def forgotten_ids(state: State, tables: Iterable[str], intent: Intent) -> list[wire.Action]:
    """What stays of tables that an intent forgets: the highest ids that they have given."""
    actions: list[wire.Action] = []
    features = state.reader_features & state.writer_features
    for table in tables:
        last = ids_in(state, table, state.definitions.of(table)).last
        intent.last_ids[table] = last
        found = definition_actions(features, no_columns(table, last))
        actions += found if not actions else found[-1:]
    return actions


def refuse_changed_columns(state: State, intents: Sequence[Intent]) -> None:
    """Refuse files for columns that another commit has changed since, a tombstone that files which
    came with new names would escape, a definition that would undo another one unseen, and ids that
    another commit has given to other columns. An append whose columns all are the table's still,
    under the same names, is none of these.

    Args:
        intents: One after the other.
    Raises:
        ColumnsChanged: Names the table.
    """
    tables: dict[str, _Table] = {}

    def of(table: str) -> _Table:
        if table not in tables:
            tables[table] = _Table(state, table)
        return tables[table]

    for intent in intents:
        for table, name in intent.columns_of.items():
            if of(table).name != name and not _still_fits(state, intent, of(table)):
                raise _changed(state, table)
        refuse_other_ids(state, intent, of)
        for action in intent.actions:
            _follow(action, of)


def _still_fits(state: State, intent: Intent, table: _Table) -> bool:
    """Checks whether an append's files of a table have columns of its newest definition alone."""
    if intent.said_operation != "append" or intent.last_ids or intent.again:
        return False
    ids, definition = table.ids.ids, table.definition
    name = table.table
    added = {a.add.schema_fingerprint for a in intent.actions if a.add.table == name}
    known = schemas_with(state, [name]).of_table(name)
    messages = {entry.fingerprint: entry.message for entry in known}
    messages |= {a.schema.fingerprint: a.schema.arrow_schema for a in intent.actions}
    for fingerprint in added:
        if fingerprint not in messages:
            return False
        for each in decode_log_schema(messages[fingerprint]):
            if ids.get(each.name) != column_id(each):
                return False
            if definition is not None and each.name in definition.schema.names:
                declared = definition.schema.field(each.name).type
                wider = widen(declared, each.type)
                if wider is None or not wider.equals(plain(declared)):
                    return False
    return True


def refuse_other_ids(state: State, intent: Intent, of: Callable[[str], _Table]) -> None:
    """Raises `ColumnsChanged` if columns came since that a definition would take for others."""
    for table, last in intent.last_ids.items():
        if of(table).ids.last != last:
            raise _changed(state, table)


def _follow(action: wire.Action, of: Callable[[str], _Table]) -> None:
    kind = action.WhichOneof("kind")
    if kind == "schema":
        of(action.schema.table).add(action.schema)
    elif kind == "definition":
        of(action.definition.table).define(action.definition)
    elif kind == "forget":
        for table in action.forget.tables:
            of(table).forget()


class _Table:
    """The columns of a table as some intents make them, one after the other."""

    def __init__(self, state: State, table: str) -> None:
        self._state, self.table = state, table
        entry = state.definitions.entries.get(table)
        self.name = name_of(entry.message) if entry is not None else b""
        self.definition = state.definitions.of(table)
        self._found: ColumnIds | None = None
        self._last = 0

    @property
    def ids(self) -> ColumnIds:
        """The ids of its columns."""
        if self._found is None:
            definition = self.definition
            self._found = ids_in(self._state, self.table, definition)
            self._last = 0 if definition is None else definition.last_id
        return self._found

    def add(self, schema: wire.Schema) -> None:
        """Take in a schema, unless the log knows it."""
        known = schemas_with(self._state, [self.table])
        if (self.table, schema.fingerprint) in known:
            return
        found, last = self.ids, self.ids.last
        for name, number in named_ids(schema.arrow_schema):
            if number <= self._last:
                continue  # read under the name that the definition has for it, or not at all
            taken = number <= last and found.ids.get(name) != number
            if taken or found.ids.setdefault(name, number) != number:
                raise _changed(self._state, self.table)
            found.last = max(found.last, number)

    def forget(self) -> None:
        """The table has no schemas any more; its ids stay given."""
        self.ids.ids.clear()

    def define(self, message: wire.Definition) -> None:
        """Take in a definition, if it was made with all columns in sight."""
        if message.last_id < self.ids.last:
            raise _changed(self._state, self.table)
        definition = decode_definition(message, "this transaction")
        self.name, self.definition = definition.name, definition
        self._found = column_ids(definition)
        self._last = definition.last_id


def _changed(state: State, table: str) -> ColumnsChanged:
    return ColumnsChanged(
        f"The columns of table {table!r} of {state.writer}/{state.database} were changed by "
        "another commit since this transaction looked at them",
        key=table,
        hint="Nothing was committed. Begin another transaction, and go by the columns that the "
        "table has now",
    )
