"""The schemas that a log knows, by table and fingerprint: pieces of a checkpoint and what
transactions named since. Pure.

A schema is looked into only when rows are read by it: one that this Arrow can't decode makes its
table's rows unreadable, not the log.

Source: docs/format.md, sections 5.3 and 6.2.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import CorruptObject
from ..format.columns import rows_to_table
from ..format.path_column import table_ranges
from ..format.schema import decode_log_schema, fingerprint
from ..format.segments import SCHEMAS, SCHEMAS_COLUMNS, decode_segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from ..format.objects import DecodedTransaction
    from ..format.pieces import Piece

Identity = tuple[str, bytes]
_AT_ONCE: Final = 1_024  # rows as Python's objects take many times their bytes


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """One schema known to the log.

    Attributes:
        table: Whose it is.
        fingerprint: Its name, 16 bytes.
        message: Its Arrow IPC message, as in the log.
        revision: Where it was first named.
        where: The object it was read from, for errors.
    """

    table: str
    fingerprint: bytes
    message: bytes
    key: tuple[str, ...]
    sort_order: tuple[str, ...]
    revision: int
    where: str = field(default="", compare=False)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with the ids of columns in the fields' metadata. Raises `CorruptObject`
        if this Arrow can't read it."""
        try:
            return decode_log_schema(self.message)
        except ValueError as error:
            raise CorruptObject(
                f"{self.where} holds an invalid schema of table {self.table!r}: {error}",
                key=self.where,
                hint="Its files can be listed, its rows can't be read. Was it written by a newer "
                "Arrow?",
            ) from error


@dataclass(slots=True)
class KnownSchemas:
    """All schemas of a log, or those of the tables that were loaded, by table and fingerprint
    (`entries`), in the order they were learnt."""

    entries: dict[Identity, SchemaEntry] = field(default_factory=dict)
    _named: dict[str, set[bytes]] = field(default_factory=dict, compare=False)  # by table

    def copy(self) -> KnownSchemas:
        """An independent copy."""
        return KnownSchemas(
            dict(self.entries), {table: set(names) for table, names in self._named.items()}
        )

    def __contains__(self, identity: Identity) -> bool:
        return identity in self.entries

    def load(self, rows: pa.Table, where: str, only: frozenset[str] | None = None) -> None:
        """Takes in a sound SCHEMAS segment, of the tables `only` or of all."""
        if only is not None:
            ranges = table_ranges(rows.column("table"))
            parts = [rows.slice(a, b - a) for t, (a, b) in ranges.items() if t in only]
            if not parts:
                return
            rows = rows if len(parts) == len(ranges) else pa.concat_tables(parts)
        for entry in schema_entries(rows, where):
            self._learn(entry)

    def apply(self, transaction: DecodedTransaction) -> None:
        """Take in the Schema and Forget actions of one more transaction."""
        for action in transaction.message.actions:
            kind = action.WhichOneof("kind")
            if kind == "schema":
                item = action.schema
                self._learn(
                    SchemaEntry(
                        item.table, item.fingerprint, item.arrow_schema, tuple(item.key),
                        tuple(item.sort_order), transaction.message.revision, transaction.key,
                    )
                )  # fmt: skip
            elif kind == "forget":
                for gone in action.forget.schemas:
                    self._forget(gone.table, [gone.fingerprint])
                for table in action.forget.tables:
                    self._forget(table, list(self._named.get(table, ())))

    def take(self, other: KnownSchemas, tables: Iterable[str]) -> None:
        """Take over what another one knows of some tables."""
        for table in tables:
            for name in other._named.get(table, ()):
                self.entries[table, name] = other.entries[table, name]
                self._named.setdefault(table, set()).add(name)

    def _forget(self, table: str, names: Iterable[bytes]) -> None:
        for name in names:
            self.entries.pop((table, name), None)
            self._named.get(table, set()).discard(name)
        if not self._named.get(table):
            self._named.pop(table, None)

    def _learn(self, entry: SchemaEntry) -> None:
        identity = (entry.table, entry.fingerprint)
        known = self.entries.get(identity)
        self._named.setdefault(entry.table, set()).add(entry.fingerprint)
        # Named again: only its key and sort order can be new.
        self.entries[identity] = (
            entry
            if known is None
            else replace(
                known,
                key=entry.key,
                sort_order=entry.sort_order,
                revision=min(known.revision, entry.revision),
            )
        )

    def of_table(self, table: str) -> list[SchemaEntry]:
        """Schemas of a table, oldest first."""
        found = [self.entries[table, name] for name in self._named.get(table, ())]
        return sorted(found, key=lambda entry: (entry.revision, entry.fingerprint))

    def fingerprints(self) -> dict[str, set[bytes]]:
        """Per table the fingerprints of its schemas."""
        return {table: set(names) for table, names in self._named.items()}

    def fingerprints_of(self, table: str) -> Set[bytes]:
        """Fingerprints of one table's schemas; not to be changed."""
        return self._named.get(table, frozenset())

    def tables(self) -> set[str]:
        """Names of the tables that have a schema."""
        return set(self._named)

    def arrow_schemas(self, identities: Iterable[Identity]) -> dict[Identity, pa.Schema]:
        """The schemas that are known and can be decoded."""
        found = {}
        for identity in identities:
            entry = self.entries.get(identity)
            if entry is not None:
                try:
                    found[identity] = entry.schema
                except CorruptObject:
                    continue
        return found


def schema_entries(rows: pa.Table, where: str) -> list[SchemaEntry]:
    """The rows of a SCHEMAS segment, as entries."""
    return [
        SchemaEntry(
            row["table"], row["fingerprint"], row["arrow_schema"], tuple(row["key"] or ()),
            tuple(row["sort_order"] or ()), row["revision"], where,
        )
        for row in rows.to_pylist()
    ]  # fmt: skip


def decode_schemas(data: memoryview, piece: Piece, newest: int, *, exact: bool = False) -> pa.Table:
    """Returns a SCHEMAS segment of the checkpoint of the revision `newest`, checked. Raises
    `CorruptObject`, and with `exact` `UnsupportedFeature` for columns of a later version, which
    would be lost by rewriting the rows."""
    rows = decode_segment(data, SCHEMAS, piece.rows, piece.where, exact=exact)
    _check_table_range(rows, piece)
    check_schemas(rows, piece.where, newest)
    return rows


def check_schemas(rows: pa.Table, where: str, newest: int) -> None:
    """Raises `CorruptObject` if a row of a SCHEMAS segment breaks its rules; `newest` is the
    checkpoint's revision."""
    batches = rows.to_batches(max_chunksize=_AT_ONCE)
    for row in itertools.chain.from_iterable(batch.to_pylist() for batch in batches):
        named = row["fingerprint"] == fingerprint(row["arrow_schema"])
        if row["revision"] > newest or not named:
            raise CorruptObject(
                f"{where} holds a schema of {row['table']!r} that its fingerprint doesn't name",
                key=where,
            )


def _check_table_range(rows: pa.Table, piece: Piece) -> None:
    """Raises `CorruptObject` if the schemas of a piece are out of the range in its reference."""
    tables = rows.column("table")
    found = (tables[0].as_py(), tables[len(tables) - 1].as_py())
    if found != (piece.segment.first_table, piece.segment.last_table):
        raise CorruptObject(
            f"{piece.where} holds other schemas than its reference says", key=piece.where
        )


def schema_rows(entries: Iterable[SchemaEntry]) -> pa.Table:
    """Entries as rows of a SCHEMAS segment, sorted."""
    ordered = sorted(entries, key=lambda entry: (entry.table.encode(), entry.fingerprint))
    rows = [
        (
            entry.table, entry.fingerprint, entry.message, list(entry.key),
            list(entry.sort_order), entry.revision,
        )
        for entry in ordered
    ]  # fmt: skip
    return rows_to_table(rows, SCHEMAS_COLUMNS)
