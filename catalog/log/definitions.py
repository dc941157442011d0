"""The definitions of a log: pieces of a checkpoint, and what transactions said since. Pure.

Source: docs/format.md, sections 5.5 and 6.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptObject
from ..format.columns import rows_to_table
from ..format.definitions import FEATURE, decode_definition, parse_definition
from ..format.segments import DEFINITIONS, DEFINITIONS_COLUMNS, decode_segment
from ..wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Set

    import pyarrow as pa

    from ..format.definitions import Definition
    from ..format.objects import DecodedTransaction
    from ..format.pieces import Piece


_AT_ONCE: Final = 1_024  # rows as Python's objects take many times their bytes


@dataclass(frozen=True, slots=True)
class DefinitionEntry:
    """One definition known to the log.

    Attributes:
        message: As in the log.
        revision: That said it.
        where: The object it was read from, for errors.
    """

    message: bytes
    revision: int
    where: str = field(default="", compare=False)

    @property
    def wire(self) -> wire.Definition:
        """The message."""
        return wire.Definition.FromString(self.message)

    @property
    def definition(self) -> Definition:
        """What rows are read by. Raises `CorruptObject` if this Arrow can't read its schema, or it
        doesn't fit the rest."""
        return decode_definition(self.wire, self.where)


@dataclass(slots=True)
class Definitions:
    """All definitions of a log, by table (`entries`)."""

    entries: dict[str, DefinitionEntry] = field(default_factory=dict)
    _decoded: dict[str, tuple[DefinitionEntry, Definition]] = field(
        default_factory=dict, compare=False
    )

    def copy(self) -> Definitions:
        """An independent copy."""
        return Definitions(dict(self.entries), dict(self._decoded))

    def of(self, table: str) -> Definition | None:
        """Returns the definition of a table, or None. Raises `CorruptObject` if it can't be
        read."""
        entry = self.entries.get(table)
        if entry is None:
            return None
        known = self._decoded.get(table)
        if known is None or known[0] is not entry:
            known = self._decoded[table] = (entry, entry.definition)
        return known[1]

    def load(self, rows: pa.Table, where: str) -> None:
        """Take in a DEFINITIONS segment that was found sound."""
        for row in _rows(rows):
            self.entries[row["table"]] = DefinitionEntry(row["definition"], row["revision"], where)

    def apply(self, transaction: DecodedTransaction) -> None:
        """Take in what one more transaction says."""
        for action in transaction.message.actions:
            kind = action.WhichOneof("kind")
            if kind == "definition":
                message = action.definition.SerializeToString(deterministic=True)
                entry = DefinitionEntry(message, transaction.message.revision, transaction.key)
                self.entries[action.definition.table] = entry
            elif kind == "forget":
                for table in action.forget.tables:
                    self.entries.pop(table, None)

    def rows(self) -> pa.Table:
        """All of them as rows of a DEFINITIONS segment, sorted."""
        ordered = sorted(self.entries.items(), key=lambda item: item[0].encode())
        rows = [(table, entry.message, entry.revision) for table, entry in ordered]
        return rows_to_table(rows, DEFINITIONS_COLUMNS)


def load_definitions(
    pieces: Sequence[Piece],
    bodies: Sequence[memoryview],
    newest: int,
    tail: Iterable[DecodedTransaction],
) -> Definitions:
    """Returns the definitions of a state: of the pieces of its base (of the revision `newest`),
    with their Arrow IPC bytes, and of the transactions since. Raises `CorruptObject`."""
    found = Definitions()
    for piece, data in zip(pieces, bodies, strict=True):
        found.load(decode_definitions(data, piece, newest), piece.where)
    for transaction in tail:
        found.apply(transaction)
    return found


def decode_definitions(
    data: memoryview, piece: Piece, newest: int, *, exact: bool = False
) -> pa.Table:
    """Returns a DEFINITIONS segment of the checkpoint of the revision `newest`, checked. Raises
    `CorruptObject`, and with `exact` `UnsupportedFeature` for columns of a later version."""
    rows = decode_segment(data, DEFINITIONS, piece.rows, piece.where, exact=exact)
    for row in _rows(rows):
        message = parse_definition(row["definition"], piece.where)
        if message.table != row["table"] or row["revision"] > newest:
            raise CorruptObject(
                f"{piece.where} holds a definition of {row['table']!r} that isn't its own",
                key=piece.where,
            )
    return rows


def _rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in rows.to_batches(max_chunksize=_AT_ONCE):
        yield from batch.to_pylist()


def definition_actions(features: Set[str], message: wire.Definition) -> list[wire.Action]:
    """Returns the action that defines a table, after the one that requires what it takes to read
    it, but for `features` that the log requires already."""
    upgrade = wire.Upgrade(required_reader_features=[FEATURE], required_writer_features=[FEATURE])
    first = [] if FEATURE in features else [wire.Action(upgrade=upgrade)]
    return [*first, wire.Action(definition=message)]
