"""What one transaction has written to its tables, held against what readers can read.

Source: docs/format.md, section 5.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..data.shown import shown
from ..data.unify import FileSchema
from ..format.schema import decode_schema, encode_schema
from .readable import Own, name_of, telling, unites
from .times import refuse_misfits, time_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ..format.definitions import Definition
    from ..format.schema import EncodedSchema
    from ..log.state import State
    from .columns import Columns
    from .readable import Readable

    _Ask = Callable[[Callable[[Readable, State], Any]], Any]


class OwnSchemas:
    """What one transaction has written to its tables, and whether they can still be read.

    Args:
        ask: `Session.ask_readable`.
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
        self._sound: set[tuple[str, bytes, bytes]] = set()
        self._written: dict[str, dict[bytes, pa.Schema]] = {}
        self._uniting: dict[tuple[str, bytes], list[FileSchema]] = {}

    def copy(self) -> OwnSchemas:
        """What may be learnt more of it is not learnt here."""
        found = OwnSchemas(self._ask, self._removed, self._definition_of)
        found._sound, found._uniting = set(self._sound), dict(self._uniting)
        found._written = {table: dict(known) for table, known in self._written.items()}
        return found

    def refuse_conflict(self, table: str, encoded: EncodedSchema, *, empty: bool = False) -> None:
        """Refuse a schema that makes its table unreadable.

        Args:
            empty: There are no rows, so no file will have it.
        Raises:
            SchemaConflict: It does.
        """
        definition, fingerprint = self._definition_of(table), encoded.fingerprint
        identity = (table, fingerprint, name_of(definition))
        if identity in self._sound and not empty:
            return
        schema = shown(_as_read(encoded), definition).schema
        self._ask(
            lambda readable, state: readable.check(
                state, self._own(table, definition), fingerprint, schema, empty=empty
            )
        )
        if not empty:
            self._sound.add(identity)

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
        """The columns of times of data, in the types that the table's readers read them in.

        Args:
            schema: Of the data.
            live: By the schemas of live files alone, not by all that the log knows.
        """
        own = pa.schema([schema.field(name) for name in time_columns(schema)])
        definition = self._definition_of(table)
        found: pa.Schema = self._ask(
            lambda readable, state: readable.read_as(
                state, self._own(table, definition), own, live=live
            )
        )
        return found

    def _own(self, table: str, definition: Definition | None) -> Own:
        return Own(table, self._beside(table, definition), definition, self._removed)

    def _beside(self, table: str, definition: Definition | None) -> list[pa.Schema]:
        """What was written to a table, as readers see it; as much of it as unites."""
        place = (table, name_of(definition))
        if place not in self._uniting:
            items: list[FileSchema] = []
            for schema in self._written.get(table, {}).values():
                more = [*items, FileSchema(shown(schema, definition).schema, "")]
                items = telling(more) if unites(more, table) else items
            self._uniting[place] = items
        return [one.schema for one in self._uniting[place]]

    def learn(self, table: str, encoded: EncodedSchema) -> None:
        """Remember what was written to a table."""
        known = self._written.setdefault(table, {})
        if encoded.fingerprint not in known:
            known[encoded.fingerprint] = _as_read(encoded)
            for place in [place for place in self._uniting if place[0] == table]:
                del self._uniting[place]


def _as_read(encoded: EncodedSchema) -> pa.Schema:
    """As readers have it: an extension type that nobody knows here is its storage."""
    return decode_schema(encoded.message)


def fitted(
    columns: Columns, own: OwnSchemas, table: str, schema: pa.Schema, *, refuses: bool
) -> tuple[pa.Schema, EncodedSchema]:
    """The columns of data as those that a table has, which others may just have changed or dropped.

    Args:
        refuses: Refuse types that the table's don't hold, or that make it unreadable.
    Raises:
        SchemaConflict: There are some; or columns were dropped, or renamed.
    """

    def asked() -> tuple[pa.Schema, EncodedSchema]:
        found = columns.fit(table, schema, checked=refuses)
        encoded = encode_schema(found)
        if refuses:
            own.refuse_conflict(table, encoded)
        return found, encoded

    return columns.unless_changed(table, asked)
