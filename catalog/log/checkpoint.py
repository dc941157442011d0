"""The checkpoint of a state: it refers to the pieces of the one before and writes only what has
changed since. Pure.

The bytes follow from the state and its base alone: rows are sorted, runs are merged by their sizes,
and nothing reads a clock.

Source: docs/format.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import CorruptError, UnsupportedFeature
from ..format import compute as pc
from ..format.columns import array, numbers
from ..format.frame import has_unknown_fields
from ..format.names import LogObject, log_folder
from ..format.objects import DecodedCheckpoint, decode_checkpoint, encode_checkpoint
from ..format.pieces import decode_references, reference_rows
from ..format.segments import (
    APPLICATIONS,
    DEFINITIONS,
    HISTORY,
    REFERENCES,
    ROW_DELETES,
    ROWS_PER_SEGMENT,
    SCHEMAS,
    TOMBSTONES,
    decode_segment,
)
from ..wire import lakelog_checkpoint_pb2 as wire
from .applications import Applications, application_rows, merge_applications
from .checkpoint_files import PieceSink, with_pieces, write_files
from .definitions import decode_definitions
from .deletes import KINDS, Deletes
from .files import Files
from .history import history_rows
from .known_schemas import KnownSchemas, decode_schemas, schema_rows
from .merge import size_of_merge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..format.frame import LogIdentity
    from ..format.pieces import Piece
    from .state import State


@dataclass(frozen=True, slots=True)
class EncodedCheckpoint:
    """A checkpoint ready to be written.

    Attributes:
        name: The checkpoint object's name.
        body: Its bytes.
        segments: Segment objects, which must be durable before it: name and bytes.
        decoded: What the body says: the base of states from here on.
        pieces: Its pieces.
        files: The live files in the pieces of this checkpoint; None if they were not loaded.
    """

    name: str
    body: bytes
    segments: tuple[tuple[str, bytes], ...]
    decoded: DecodedCheckpoint
    pieces: tuple[Piece, ...]
    files: Files | None


def encode_state(state: State, *, retained_from: int = 0, salt: bytes = b"") -> EncodedCheckpoint:
    """The checkpoint of a state.

    Args:
        state: Based on the checkpoint before, if there is one.
        retained_from: History of lower revisions may be left out: prune took them.
        salt: Makes new segments differ from others of the same content.
    Raises:
        UnsupportedFeature: A later version has written what this one can't carry over.
        CorruptObject: Files of a table don't fit: a checkpoint would hide it.
    """
    assert state.log is not None, "there is nothing to checkpoint"
    assert not state.sealed_for, "a checkpoint can't say that the log is sealed"
    own = (state.base, state.tail)
    first: CorruptError | None = None
    while True:
        try:
            return _encode(state, state.log, retained_from, salt)
        except UnsupportedFeature:
            raise
        except CorruptError as error:
            first = first or error
        try:
            state.fall_back(first)
        except CorruptError:
            state.start_from(*own)
            raise
        state.start_from(state.base, state.tail)


def _encode(state: State, log: LogIdentity, retained_from: int, salt: bytes) -> EncodedCheckpoint:
    """The checkpoint of a state, from the base that it has."""
    _refuse_unknown(state)
    sink = PieceSink(log, salt)
    message = wire.Checkpoint(
        revision=state.revision,
        uuid=state.uuid,
        successor_uuid=state.successor_uuid,
        digest=state.digest,
        epoch=state.epoch,
        committed_at_us=state.committed_at_us,
        transaction_id=state.transaction_id,
        required_reader_features=sorted(state.reader_features),
        required_writer_features=sorted(state.writer_features),
        writer=state.named[0],
        database=state.named[1],
        first_epoch=state.first_epoch,
        begun_at_us=state.begun_at_us,
        locations=sorted(state.locations),
    )
    new_parts = write_files(state, sink, message.counts)
    _write_schemas(state, sink)
    _write_definitions(state, sink)
    _write_applications(state, sink)
    _write_history(state, sink, retained_from)
    newer = write_deletes(state, sink)
    _refuse_newer([*state.newer, *newer])
    references = reference_rows(sink.pieces)
    message.references.CopyFrom(sink.attachments.add_rows(REFERENCES, references))
    body, _ = encode_checkpoint(log, message, sink.attachments.joined())
    name = LogObject(log.incarnation, state.revision, state.uuid[:4].hex(), "checkpoint").name
    decoded = decode_checkpoint(body, log_folder(state.writer, state.database) + name)
    pieces = _decoded_pieces(state, decoded)
    files = None
    if new_parts is not None:
        files = Files(None, with_pieces(new_parts, pieces), known=state.files.known)
    return EncodedCheckpoint(name, body, tuple(sink.segments), decoded, pieces, files)


def _decoded_pieces(state: State, decoded: DecodedCheckpoint) -> tuple[Piece, ...]:
    assert decoded.references.inline is not None, "references are written inline"
    folder = f"{state.writer}/{state.database}/segments/"
    return decode_references(
        decoded.references.inline, decoded.references.rows, decoded.attachments, decoded.key,
        folder, decoded.log,
    )  # fmt: skip


def _refuse_unknown(state: State) -> None:
    """Refuse to write where a later version has written what would be lost."""
    newer = [t.key for t in state.tail if has_unknown_fields(t.message)]
    if state.base is not None and has_unknown_fields(state.base.message):
        newer.append(state.base.key)
    _refuse_newer(newer)
    if state.base is not None:
        found = state.base.references
        data = state.bytes_of([found])[0]
        decode_segment(data, REFERENCES, found.rows, state.base.key, exact=True)


def _refuse_newer(newer: Sequence[str]) -> None:
    if newer:
        raise UnsupportedFeature(
            f"{newer[0]} holds fields that this lakelog doesn't know, so it writes no checkpoint",
            key=newer[0],
            hint="Upgrade lakelog. Nothing is lost: the log can be read and committed to",
        )


# --- All parts but files --------------------------------------------------------------------------


def _of_kind(state: State, kind: int) -> list[Piece]:
    return [piece for piece in state.pieces if piece.kind == kind]


def _forgets(state: State) -> bool:
    return any(
        action.WhichOneof("kind") == "forget" for t in state.tail for action in t.message.actions
    )


def _rows(state: State, pieces: Sequence[Piece]) -> list[pa.Table]:
    """Pieces that are written anew, decoded."""
    return [
        decode_segment(data, piece.kind, piece.rows, piece.where, exact=True)
        for piece, data in zip(pieces, state.bytes_of(pieces), strict=True)
    ]


def _write_schemas(state: State, sink: PieceSink) -> None:
    """Pieces of the base, and one of what has come since; all anew once something is forgotten."""
    if _forgets(state):
        _rows(state, _of_kind(state, SCHEMAS))
        for table in _cut(schema_rows(state.schemas.entries.values())):
            sink.write(SCHEMAS, table)
        return
    recent = KnownSchemas()
    for transaction in state.tail:
        recent.apply(transaction)
    old = _of_kind(state, SCHEMAS)
    start = size_of_merge([piece.rows for piece in old], len(recent.entries))
    for piece in old[:start]:
        sink.keep(piece)
    known = KnownSchemas()
    for piece, data in zip(old[start:], state.bytes_of(old[start:]), strict=True):
        assert state.base is not None
        rows = decode_schemas(data, piece, state.base.message.revision, exact=True)
        known.load(rows, piece.where)
    for transaction in state.tail:
        known.apply(transaction)
    for table in _cut(schema_rows(known.entries.values())):
        sink.write(SCHEMAS, table)


def _write_definitions(state: State, sink: PieceSink) -> None:
    """Pieces of the base; all anew once something is said of one."""
    old = _of_kind(state, DEFINITIONS)
    said = {a.WhichOneof("kind") for t in state.tail for a in t.message.actions}
    if said.isdisjoint({"definition", "forget"}):
        for piece in old:
            sink.keep(piece)
        return
    for piece, data in zip(old, state.bytes_of(old), strict=True):
        assert state.base is not None
        decode_definitions(data, piece, state.base.message.revision, exact=True)
    for table in _cut(state.definitions.rows()):
        sink.write(DEFINITIONS, table)


def _write_applications(state: State, sink: PieceSink) -> None:
    old = _of_kind(state, APPLICATIONS)
    recent = Applications()
    if _forgets(state):
        _rows(state, old)
        for table in _cut(state.applications.rows()):
            sink.write(APPLICATIONS, table)
        return
    for transaction in state.tail:
        recent.apply(transaction)
    start = size_of_merge([piece.rows for piece in old], len(recent.recent))
    for piece in old[:start]:
        sink.keep(piece)
    based = Applications()
    for piece, rows in zip(old[start:], _rows(state, old[start:]), strict=True):
        based.load(rows, piece.where)
    for table in _cut(merge_applications([*based.tables, application_rows(recent.recent)])):
        sink.write(APPLICATIONS, table)


def _write_history(state: State, sink: PieceSink, retained_from: int) -> None:
    retained_from = min(retained_from, state.revision)
    history = state.load_history()
    old = [p for p in history.pieces if p.segment.last_revision >= retained_from]
    start = size_of_merge([piece.rows for piece in old], len(history.rows))
    for piece in old[:start]:
        sink.keep(piece)
    end = len(history.pieces)
    merged = range(end - len(old) + start, end)
    tables = [history.piece(place, exact=True) for place in merged]
    table = pa.concat_tables([*tables, history_rows(history.rows)])
    if start == 0:
        table = table.filter(array(numbers(table.column("revision")) >= retained_from))
    for part in _cut(table):
        sink.write(HISTORY, part)


def _cut(table: pa.Table) -> Iterable[pa.Table]:
    for start in range(0, table.num_rows, ROWS_PER_SEGMENT):
        yield table.slice(start, ROWS_PER_SEGMENT)


# --- Deletes --------------------------------------------------------------------------------------


def write_deletes(state: State, sink: PieceSink) -> list[str]:
    """Writes the deletes of a state; returns the objects that hold fields of a later version."""
    old = [piece for piece in state.pieces if piece.kind in KINDS]
    kinds = {a.WhichOneof("kind") for t in state.tail for a in t.message.actions}
    if not old and kinds.isdisjoint({"tombstone", "row_deletes"}):
        return []
    if kinds.isdisjoint({"tombstone", "row_deletes", "remove", "forget"}):
        for piece in old:
            sink.keep(piece)
        return []
    found = state.load_deletes(exact=True)
    if "remove" in kinds:
        _drop_spent(state, found)
    for kind, rows in ((ROW_DELETES, found.row_rows()), (TOMBSTONES, found.tombstone_rows())):
        for start in range(0, rows.num_rows, ROWS_PER_SEGMENT):
            sink.write(kind, rows.slice(start, ROWS_PER_SEGMENT))
    return found.newer


def _drop_spent(state: State, found: Deletes) -> None:
    """Leave out tombstones that no live file is older than: what is added from here on is newer."""
    removed = {
        action.remove.table
        for transaction in state.tail
        for action in transaction.message.actions
        if action.WhichOneof("kind") == "remove"
    }
    for table in removed & found.tombstones.keys():
        oldest = pc.min(state.files.table(table).column("revision")).as_py()
        kept = [t for t in found.tombstones[table] if oldest is not None and oldest < t.revision]
        found.tombstones[table] = kept
        if not kept:
            del found.tombstones[table]
