"""The columns that tables have for one transaction: what its log says of them, and what it says
itself.

Source: docs/format.md, section 5.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import SchemaConflict, TableNotFound
from ..data.evolution import evolved
from ..data.unify import FileSchema, agreed, fits, shown
from ..format.definitions import decode_definition
from ..format.schema import decode_log_schema, described, encode_schema, with_column_id
from ..log.column_ids import ids_in
from ..log.definitions import definition_actions
from ..log.lookup import schemas_with
from .schema_compatibility import live_schemas

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..data.evolution import Change
    from ..data.unify import Shown
    from ..format.definitions import Definition
    from ..format.schema import EncodedSchema
    from ..log.build import Intent
    from ..log.column_ids import ColumnIds
    from ..log.state import State
    from ..wire import lakelog_transaction_pb2 as wire
    from .schema_compatibility import OwnSchemas
    from .session import Session


class Columns:
    """The columns of the tables that a transaction writes to, as they were when it first looked.

    Args:
        intent: Learns under which definitions files were added.
    """

    def __init__(self, session: Session, intent: Intent) -> None:
        self._session = session
        self._intent = intent
        self._known: dict[str, Definition | None] = {}
        self._ids: dict[str, ColumnIds] = {}
        self._last: dict[str, int] = {}  # by table the highest id that the log had given

    def of(self, table: str) -> Definition | None:
        """Returns the definition of a table, or None. Raises `CorruptObject` if it can't be
        read."""
        if table not in self._known:
            found = self._session.ask(lambda state: state.definitions.of(table))
            self._known[table] = found
            self._intent.columns_of[table] = b"" if found is None else found.name
        return self._known[table]

    def fit(self, table: str, schema: pa.Schema, *, checked: bool) -> pa.Schema:
        """The columns of data as those that the table has: each with the id of the table's column
        of its name, or a new one. Ids that the data brings along are others' and count for nothing.

        Args:
            checked: Refuse types that the table's don't hold.
        Raises:
            SchemaConflict: Columns that were dropped, or renamed; or such types.
        """
        definition, ids = self.of(table), self._ids_of(table)
        for each in schema:
            if each.name in ids.former:
                raise _is_former(each.name, table, ids.former[each.name])
            if checked and definition is not None and each.name in definition.schema.names:
                _check_type(each, definition)
        return pa.schema([ids.stamped(each) for each in schema])

    def _ids_of(self, table: str) -> ColumnIds:
        if table not in self._ids:
            definition = self.of(table)
            found = self._session.ask(lambda state: ids_in(state, table, definition))
            self._last.setdefault(table, found.last)
            self._ids[table] = found.with_schemas(self._own(table))
        return self._ids[table]

    def names(self, table: str) -> list[str]:
        """The names of a table's columns in this log."""
        return list(self._ids_of(table).ids)

    def now_called(self, table: str, names: Sequence[str]) -> list[str]:
        """What columns of a table are called now, by what files call them."""
        former = self._ids_of(table).former
        return [former.get(name) or name for name in names]

    def _own(self, table: str) -> list[bytes]:
        """The schemas that this transaction names."""
        named = [a.schema for a in self._intent.actions if a.WhichOneof("kind") == "schema"]
        return [schema.arrow_schema for schema in named if schema.table == table]

    def seen(self, table: str, schema: pa.Schema, *, checked: bool) -> Shown:
        """What data shows to readers once it is written.

        Args, Raises: As for `fit`.
        """
        return shown(self.fit(table, schema, checked=checked), self.of(table))

    def evolve(
        self,
        table: str,
        change: Change,
        removed: Collection[tuple[str, str]],
        *,
        rest: bool = False,
    ) -> list[wire.Action]:
        """The actions that change a table's columns. `keep` makes them count for what follows.

        Args:
            removed: Tables and paths that the transaction removes.
            rest: Leave out what is done in this log already: see `Change.still_to_do`.
        Raises: As `data.evolution.evolved`; also
            TableNotFound: This log doesn't know the table.
            SchemaConflict: Its files disagree about the type of a column that stays.
        """
        before, ids = self.of(table), self._ids_of(table)
        own = [decode_log_schema(message) for message in self._own(table)]

        def asked(state: State) -> list[wire.Action]:
            visible = visible_columns(state, table, before, own, removed, dropped=change.drop)
            visible = pa.schema([with_column_id(each, ids.ids[each.name]) for each in visible])
            defaults = {} if before is None else before.defaults
            wanted = change.still_to_do(visible, defaults, table) if rest else change
            features = state.reader_features & state.writer_features
            message = evolved(visible, before, ids.last, wanted, table)
            return definition_actions(features, message)

        actions = self._session.ask(asked)
        self._intent.last_ids[table] = self._last[table]
        return actions

    def keep(self, actions: list[wire.Action]) -> None:
        """Go by these actions from here on."""
        message = actions[-1].definition
        self._known[message.table] = decode_definition(message, "this transaction")
        self._ids.pop(message.table, None)


def visible_columns(
    state: State,
    table: str,
    before: Definition | None,
    own: Sequence[pa.Schema] = (),
    removed: Collection[tuple[str, str]] = (),
    *,
    dropped: Collection[str] = (),
) -> pa.Schema:
    """The columns that files of a table show in one log.

    Args:
        before: Its definition.
        own: Schemas of files that are added together with a change.
        removed: Tables and paths of files that are removed with it.
        dropped: Columns that go: their types may conflict.
    Raises:
        TableNotFound: The log doesn't know it.
        SchemaConflict: Files disagree about the type of a column.
    """
    known = [entry.schema for entry in schemas_with(state, [table]).of_table(table)]
    if not known and not own:
        raise TableNotFound(
            f"The log of {state.writer}/{state.database} knows no table {table!r}",
            key=table,
            hint="Write to it first: this changes the columns of one writer's files",
        )
    live = [entry.schema for entry in live_schemas(state, table, removed)] if known else []
    return _united([*live, *own] or known, before, table, dropped, state.writer)


def _check_type(each: pa.Field, definition: Definition) -> None:
    name, kind = each.name, definition.schema.field(each.name).type
    if not fits(each.type, kind):
        raise SchemaConflict(
            f"Column {name!r} of table {definition.table!r} is {kind}, and {each.type} in the "
            "data to be written",
            key=name,
            hint="Nothing was written. Cast the data, or widen the column: "
            f"tx.evolve({definition.table!r}, widen={{{name!r}: ...}})",
        )


def _is_former(name: str, table: str, now: str | None) -> SchemaConflict:
    if now is not None:
        return SchemaConflict(
            f"Column {name!r} of table {table!r} was renamed to {now!r}",
            key=name,
            hint=f"Nothing was written. Name it {now!r} in the data; for a new column of the old "
            f"name: tx.evolve({table!r}, add={{{name!r}: ...}})",
        )
    return SchemaConflict(
        f"Column {name!r} of table {table!r} was dropped",
        key=name,
        hint="Nothing was written. Leave it out, or bring a column of this name back, without the "
        f"old values: tx.evolve({table!r}, add={{{name!r}: ...}})",
    )


def _united(
    schemas: list[pa.Schema],
    before: Definition | None,
    table: str,
    dropped: Collection[str],
    writer: str,
) -> pa.Schema:
    """Returns the columns of a table. Raises `SchemaConflict` if types conflict, but for columns
    that are dropped."""
    items = [FileSchema(shown(schema, before).schema, writer) for schema in schemas]
    found, conflicts = agreed(items, table)
    for name, conflict in conflicts.items():
        if name not in dropped:
            raise conflict
    if not conflicts:
        return found
    first = [next(i.schema.field(n) for i in items if n in i.schema.names) for n in conflicts]
    return pa.schema([*found, *(pa.field(f.name, f.type) for f in first)])


def fitted(
    columns: Columns, own: OwnSchemas, table: str, schema: pa.Schema, *, refuses: bool
) -> tuple[pa.Schema, EncodedSchema]:
    """Returns the columns of data as those that a table has.

    Args:
        refuses: Refuse types that the table's don't hold, or that make it unreadable, and hold to
            the columns that it declares not null.
    Returns:
        The schema of the files, with the data's own metadata; and as the log keeps it.
    Raises:
        SchemaConflict: There are some; or columns were dropped, or renamed, or are lacking.
    """
    found = columns.fit(table, schema, checked=refuses)
    if refuses:
        found = own.with_not_null(table, found)
    encoded = encode_schema(found)
    if refuses:
        own.refuse_conflict(table, encoded)
    return described(found, schema), encoded
