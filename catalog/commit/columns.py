"""The columns that tables have for one transaction: what its log says of them, and what it says
itself.

Source: docs/format.md, section 5.5.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from ...errors import SchemaConflict, TableNotFound, UsageError
from ..data.evolution import evolved
from ..data.shown import fits, shown
from ..data.unify import FileSchema, agreed
from ..format.definitions import decode_definition, field_of, generations_in
from ..format.schema import GENERATION, decode_schema, generation
from ..log.columns_changed import refuse_forgotten
from ..log.definitions import definition_actions
from ..log.lookup import schemas_with
from .live_schemas import live_schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ..data.evolution import Change
    from ..data.shown import Shown
    from ..format.definitions import Definition, Identity
    from ..log.build import Intent
    from ..log.state import State
    from ..wire import lakelog_transaction_pb2 as wire
    from .session import Session

_T = TypeVar("_T")


class Columns:
    """The columns of the tables that a transaction writes to, as they were when it first looked.

    Args:
        intent: Learns under which definitions files were added.
    """

    def __init__(self, session: Session, intent: Intent) -> None:
        self._session = session
        self._intent = intent
        self._known: dict[str, Definition | None] = {}

    def of(self, table: str) -> Definition | None:
        """The definition of a table; None if it has none.

        Raises:
            CorruptObject: It can't be read.
        """
        if table not in self._known:
            found = self._session.ask(lambda state: state.definitions.of(table))
            self._known[table] = found
            self._intent.columns_of[table] = b"" if found is None else found.name
        return self._known[table]

    def fit(self, table: str, schema: pa.Schema, *, checked: bool) -> pa.Schema:
        """The columns of data as those that the table has: each with its generation. To be asked
        `unless_changed`.

        Args:
            checked: Refuse types that the table's don't hold.
        Raises:
            SchemaConflict: Columns that were dropped, or renamed; or such types.
        """
        definition = self.of(table)
        if definition is None:
            return schema
        return pa.schema([_fitted(each, definition, checked=checked) for each in schema])

    def seen(self, table: str, schema: pa.Schema, *, checked: bool) -> Shown:
        """What data shows to readers once it is written.

        Args, Raises: As for `fit`.
        Requests: those of `unless_changed`.
        """
        return self.unless_changed(
            table, lambda: shown(self.fit(table, schema, checked=checked), self.of(table))
        )

    def unless_changed(self, table: str, asked: Callable[[], _T]) -> _T:
        """What is asked of a table's columns. No refusal is told from a log that may be long past,
        unless this transaction goes by it already.

        Requests: none; 1 LIST, and 1 GET for each new transaction, before it is refused.
        """
        first = table not in self._known
        try:
            return asked()
        except (UsageError, SchemaConflict, TableNotFound):
            if not first:
                raise
        self._known.pop(table, None)
        self._session.ask_anew(lambda _: None)
        return asked()

    def evolve(
        self, table: str, change: Change, removed: Collection[tuple[str, str]]
    ) -> list[wire.Action]:
        """The actions that change a table's columns. `keep` makes them count for what follows.

        Args:
            removed: Tables and paths that the transaction removes.
        Raises: As `data.evolution.evolved`; also
            TableNotFound: This log doesn't know the table.
            SchemaConflict: Its files disagree about the type of a column that stays.
        """
        actions = self.unless_changed(table, lambda: self._evolved(table, change, removed))
        schemas = self._session.ask(lambda state: state.schemas_of(table).of_table(table))
        if schemas:
            known = frozenset(entry.fingerprint for entry in schemas)
            self._intent.fits.append(partial(refuse_forgotten, table, known))
        return actions

    def _evolved(
        self, table: str, change: Change, removed: Collection[tuple[str, str]]
    ) -> list[wire.Action]:
        before = self.of(table)
        own = [
            decode_schema(a.schema.arrow_schema, _numbers(a.schema))
            for a in self._intent.actions
            if a.WhichOneof("kind") == "schema" and a.schema.table == table
        ]

        def asked(state: State) -> list[wire.Action]:
            visible, known = visible_columns(
                state, table, before, own, removed, dropped=change.drop
            )
            features = state.reader_features & state.writer_features
            return definition_actions(features, evolved(visible, before, known, change, table))

        return self._session.ask(asked)

    def keep(self, actions: list[wire.Action]) -> None:
        """Go by these actions from here on."""
        message = actions[-1].definition
        self._known[message.table] = decode_definition(message, "this transaction")


def visible_columns(
    state: State,
    table: str,
    before: Definition | None,
    own: Sequence[pa.Schema] = (),
    removed: Collection[tuple[str, str]] = (),
    *,
    dropped: Collection[str] = (),
) -> tuple[pa.Schema, set[Identity]]:
    """The columns that files of a table show in one log; and all that files of it ever had, as far
    as it knows.

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
    identities: set[Identity] = set().union(*map(generations_in, [*known, *own]))
    if before is not None:
        identities |= before.identities()
    held = [*live, *own] or known
    return _united(held, before, table, dropped, state.writer), identities


def _fitted(each: pa.Field, definition: Definition, *, checked: bool) -> pa.Field:
    name, brought = each.name, generation(each)
    if name in definition.sources:
        current = definition.sources[name][0][1]
        if brought not in (0, current):
            raise SchemaConflict(
                f"Column {name!r} of the data is another one than the table has: it was dropped "
                f"and added {brought} times, the table's {current} times",
                key=name,
                hint="Nothing was written. Take the metadata off the field if it is the table's",
            )
        kind = definition.schema.field(name).type
        if checked and not fits(each.type, kind):
            raise SchemaConflict(
                f"Column {name!r} of table {definition.table!r} is {kind}, and {each.type} in the "
                "data to be written",
                key=name,
                hint="Nothing was written. Cast the data, or widen the column: "
                f"tx.evolve({definition.table!r}, widen={{{name!r}: ...}})",
            )
        return _stamped(each, current)
    for called, sources in definition.sources.items():
        if any(name == old for old, _ in sources):
            raise SchemaConflict(
                f"Column {name!r} of table {definition.table!r} was renamed to {called!r}",
                key=name,
                hint=f"Nothing was written. Name it {called!r} in the data; for a new column of "
                f"the old name: tx.evolve({definition.table!r}, add={{{name!r}: ...}})",
            )
    if any(name == old for old, _ in definition.dropped):
        raise SchemaConflict(
            f"Column {name!r} of table {definition.table!r} was dropped",
            key=name,
            hint="Nothing was written. Leave it out, or bring a column of this name back, without "
            f"the old values: tx.evolve({definition.table!r}, add={{{name!r}: ...}})",
        )
    return each


def _stamped(each: pa.Field, number: int) -> pa.Field:
    metadata = dict(each.metadata or {})
    metadata.pop(GENERATION, None)
    if number:
        metadata[GENERATION] = str(number).encode()
    return each.with_metadata(metadata or None)


def _numbers(schema: wire.Schema) -> list[tuple[str, int]]:
    return [(item.column, item.generation) for item in schema.generations]


def _united(
    schemas: list[pa.Schema],
    before: Definition | None,
    table: str,
    dropped: Collection[str],
    writer: str,
) -> pa.Schema:
    """The columns of a table; of those that are dropped types may conflict.

    Raises:
        SchemaConflict: Others are.
    """
    items = [FileSchema(shown(schema, before).schema, writer) for schema in schemas]
    found, conflicts = agreed(items, table)
    for name, conflict in conflicts.items():
        if name not in dropped:
            raise conflict
    if not conflicts:
        return found
    first = [next(i.schema.field(n) for i in items if n in i.schema.names) for n in conflicts]
    return pa.schema([*found, *(field_of(f.name, f.type, generation(f)) for f in first)])
