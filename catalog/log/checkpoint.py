"""The checkpoint of a state: it refers to the pieces of the one before and writes only what has
changed since. Pure.

The bytes follow from the state and its base alone: rows are sorted, runs are merged by their sizes,
and nothing reads a clock.

Source: docs/format.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ...errors import CorruptError, CorruptObject, UnsupportedFeature
from ..format.columns import array, numbers
from ..format.messages import has_unknown_fields
from ..format.names import LogObject, log_folder, segment_name
from ..format.objects import (
    DecodedCheckpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from ..format.pieces import Attachments, Piece, describe, frame_segment
from ..format.references import decode_references, reference_rows
from ..format.run import Run, files_rows
from ..format.segment_bytes import decode_segment, encode_ipc
from ..format.segments import ROWS_PER_SEGMENT, total
from ..format.statistics_form import unpack_statistics
from ..format.statistics_rows import statistics_rows
from ..format.wire_kinds import APPLICATIONS, FILES, HISTORY, REFERENCES, ROW_GROUPS, SCHEMAS
from ..wire import lakelog_checkpoint_pb2 as wire
from .applications import Applications, application_rows, merge_applications
from .files import Files, Part
from .history import history_rows, transaction_row
from .known_schemas import KnownSchemas, check_schemas, schema_rows
from .merge import (
    DESCRIBING,
    Rows,
    RunSize,
    first_to_merge,
    merged,
    pieces_of,
    size_of_merge,
)
from .validate import is_own_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..format.frame import LogIdentity
    from ..format.objects import DecodedTransaction
    from .state import State

SPILL_FROM_BYTES: Final = 32 << 10
MAX_INLINE_BYTES: Final = 256 << 10
MAX_COUNT: Final = (1 << 64) - 1


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


@dataclass(slots=True)
class _Sink:
    """Gathers pieces: small ones inline, others as objects."""

    log: LogIdentity
    salt: bytes = b""
    attachments: Attachments = field(default_factory=Attachments)
    segments: list[tuple[str, bytes]] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)

    def write(
        self,
        kind: int,
        rows: pa.Table,
        columns: Sequence[str] = (),
        *,
        part: int = -1,
        run: int = -1,
    ) -> None:
        data = encode_ipc(rows)
        segment = describe(kind, rows, columns)
        if self._spills(len(data)):
            if self.salt:
                data = encode_ipc(rows, self.salt)
            body, digest = frame_segment(self.log, segment, data)
            self.segments.append((segment_name(digest), body))
            self.pieces.append(Piece(segment, digest, len(body), "", None, part, run))
        else:
            offset = self.attachments.add(data)
            self.pieces.append(
                Piece(segment, b"", len(data), "", memoryview(data), part, run, None, offset)
            )

    def keep(
        self, piece: Piece, *, part: int = -1, run: int = -1, dead: bytes | None = None
    ) -> None:
        """Refer to a piece of the checkpoint before; an inline one is copied."""
        offset = 0 if piece.inline is None else self.attachments.add(bytes(piece.inline))
        self.pieces.append(replace(piece, part=part, run=run, dead=dead, offset=offset))

    def _spills(self, size: int) -> bool:
        return size > SPILL_FROM_BYTES or self.attachments.length + size > MAX_INLINE_BYTES


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
    sink = _Sink(log, salt)
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
    )
    new_parts = _write_files(state, sink, message.counts)
    _write_schemas(state, sink)
    _write_applications(state, sink)
    _write_history(state, sink, retained_from)
    references = reference_rows(sink.pieces)
    message.references.CopyFrom(sink.attachments.add_rows(REFERENCES, references))
    body, _ = encode_checkpoint(log, message, sink.attachments.joined())
    name = LogObject(log.incarnation, state.revision, state.uuid[:4].hex(), "checkpoint").name
    decoded = decode_checkpoint(body, log_folder(state.writer, state.database) + name)
    pieces = _decoded_pieces(state, decoded)
    files = None if new_parts is None else Files(None, _with_pieces(new_parts, pieces))
    return EncodedCheckpoint(name, body, tuple(sink.segments), decoded, pieces, files)


def _decoded_pieces(state: State, decoded: DecodedCheckpoint) -> tuple[Piece, ...]:
    assert decoded.references.inline is not None, "references are written inline"
    folder = f"{state.writer}/{state.database}/segments/"
    return decode_references(
        decoded.references.inline, decoded.references.rows, decoded.attachments, decoded.key, folder
    )


def _refuse_unknown(state: State) -> None:
    newer = [t.key for t in state.tail if has_unknown_fields(t.message)]
    if state.base is not None and has_unknown_fields(state.base.message):
        newer.append(state.base.key)
    if newer:
        raise UnsupportedFeature(
            f"{newer[0]} holds fields that this lakelog doesn't know, so it writes no checkpoint",
            key=newer[0],
            hint="Upgrade lakelog. Nothing is lost: the log can be read and committed to",
        )


# --- Files ----------------------------------------------------------------------------------------


def _write_files(state: State, sink: _Sink, counts: wire.Counts) -> list[Part] | None:
    """Runs of the base, as far as they stay, and one run of what has come since.

    Returns:
        The parts of the new checkpoint, if the state's files were loaded.
    """
    recent = _recent_files(state)
    files = state.files if recent is None else None  # something of the base was removed
    old = [piece for piece in state.pieces if piece.kind == FILES]
    if files is not None:
        _refuse_broken(files)
        based = [part for part in files.parts if part.in_run is not None]
        fresh = Files(None, [part for part in files.parts if part.in_run is None], files.added)
        old = [replace(p, dead=_bitmap(part.dead)) for p, part in zip(old, based, strict=True)]
    else:
        assert recent is not None
        fresh, loaded = recent, state._files
        based = [] if loaded is None else [part for part in loaded.parts if part.in_run is not None]
    _count(state, fresh, old, based, counts)
    runs = [[piece for piece in old if piece.run == run] for run in range(_runs(old))]
    start = first_to_merge([_size(run) for run in runs], fresh.count)
    kept = [piece for run in runs[:start] for piece in run]
    going = [piece for run in runs[start:] for piece in run]
    parts = based[len(kept) :] if based else state.parts_of(going)
    sources = [_rows_of(state, part) for part in parts] + _fresh_rows(state, fresh)
    segments = list(merged(sources))
    for number, piece in enumerate(kept):
        sink.keep(piece, part=number, run=piece.run, dead=piece.dead)
    for number, rows in enumerate(segments, len(kept)):
        sink.write(FILES, rows.files, part=number, run=start)
    _keep_describing(state, sink, kept)
    for number, rows in enumerate(segments, len(kept)):
        for kind in DESCRIBING:
            for table, columns in pieces_of(kind, rows.describing[kind]):
                sink.write(kind, table, columns, part=number)
    if state._files is None:
        return None
    fresh_parts = [Part(Run.of_table(rows.files, sink.log.log_id.hex())) for rows in segments]
    return [*based[: len(kept)], *fresh_parts]


def _recent_files(state: State) -> Files | None:
    """What the tail added and has left live; None if it removed more than that."""
    if state._files is not None:
        files = state._files
        _refuse_broken(files)
        untouched = all(
            part.dead is None or _bitmap(part.dead) == piece.dead
            for part, piece in zip(
                (part for part in files.parts if part.in_run is not None),
                (piece for piece in state.pieces if piece.kind == FILES),
                strict=True,
            )
        )
        if not untouched:
            return None
        return Files(None, [part for part in files.parts if part.in_run is None], files.added)
    files = Files(known=set(state.base_schemas().entries))
    for transaction in state.tail:
        files.apply(transaction)
    if files.broken or files.broken_ranges or not _are_new(files, state.tail):
        return None  # what doesn't fit by itself may fit the files of the base, or the reverse
    return files


def _are_new(files: Files, tail: Sequence[DecodedTransaction]) -> bool:
    """Whether the names of all added files say that they can't be in the base already."""
    own = {one for transaction in tail for one in transaction.transaction_ids}
    paths = (path for chunk in files.paths() for path in chunk.to_pylist())
    return all(is_own_file(path, own) for path in paths)


def _refuse_broken(files: Files) -> None:
    for error in (*files.broken.values(), *(error for _, error in files.broken_ranges)):
        raise CorruptObject(
            f"No checkpoint: {error.message}", key=error.key, hint=error.hint
        ) from error


def _count(
    state: State, fresh: Files, old: Sequence[Piece], based: Sequence[Part], counts: wire.Counts
) -> None:
    """Files, rows and bytes that are live."""
    before = state.base.message.counts if state.base is not None else wire.Counts()
    tables = [part.rows(None) for part in fresh.parts]
    tables.append(
        files_rows(
            [add for added in fresh.added.values() for add, _ in added.values()],
            [0] * sum(map(len, fresh.added.values())),
        )
    )
    if based and any(part.dead is not None for part in based):
        tables += [part.rows(None) for part in based]
        before = wire.Counts()
    counts.files = before.files + sum(table.num_rows for table in tables)
    counts.rows = min(before.rows + sum(total(t, "row_count") for t in tables), MAX_COUNT)
    counts.bytes = min(before.bytes + sum(total(t, "size_bytes") for t in tables), MAX_COUNT)


def _runs(pieces: Sequence[Piece]) -> int:
    return pieces[-1].run + 1 if pieces else 0


def _size(run: Sequence[Piece]) -> RunSize:
    return RunSize(sum(piece.rows for piece in run), sum(piece.dead_rows for piece in run))


def _rows_of(state: State, part: Part) -> Rows:
    """The rows of a part with all that describes them."""
    describing: dict[int, pa.Table] = {}
    for piece in part.described_by:
        try:
            data = state.bytes_of([piece])[0]
            rows = decode_describing(data, piece, exact=True)
        except CorruptObject:  # what it said is unknown: no reason to do without checkpoints
            continue
        known = describing.get(piece.kind)
        describing[piece.kind] = rows if known is None else pa.concat_tables([known, rows])
    return Rows(part.run.full(exact=True), describing, None if part.dead is None else ~part.dead)


def decode_describing(data: memoryview, piece: Piece, *, exact: bool = False) -> pa.Table:
    """Row groups or statistics of a piece, as they are worked with.

    Args:
        exact: Refuse columns of a later version.
    Raises:
        CorruptObject: Not sound.
    """
    if piece.kind == ROW_GROUPS:
        return decode_segment(data, ROW_GROUPS, piece.rows, piece.where, exact=exact)
    names = list(piece.segment.columns)
    return unpack_statistics(data, piece.kind, piece.rows, names, piece.where, exact=exact)


def _fresh_rows(state: State, fresh: Files) -> list[Rows]:
    sources = [_rows_of(state, part) for part in fresh.parts]
    added = [found for files in fresh.added.values() for found in files.values()]
    if added:
        adds = [add for add, _ in added]
        identities = {(add.table, add.schema_fingerprint) for add in adds if add.row_groups}
        found = statistics_rows(adds, state.schemas.arrow_schemas(identities) if identities else {})
        describing = dict(
            zip(DESCRIBING, (found.row_groups, found.files, found.groups), strict=True)
        )
        sources.append(Rows(files_rows(adds, [revision for _, revision in added]), describing))
    return sources


def _keep_describing(state: State, sink: _Sink, kept: Sequence[Piece]) -> None:
    new_number = {piece.part: number for number, piece in enumerate(kept)}
    for piece in state.pieces:
        if piece.kind in DESCRIBING and piece.part in new_number:
            sink.keep(piece, part=new_number[piece.part])


def _with_pieces(parts: Sequence[Part], pieces: Sequence[Piece]) -> list[Part]:
    """Parts as they are once the pieces stand: each with the pieces that describe it."""
    described: dict[int, list[Piece]] = {}
    runs = [piece.run for piece in pieces if piece.kind == FILES]
    for piece in pieces:
        if piece.kind in DESCRIBING:
            described.setdefault(piece.part, []).append(piece)
    return [
        replace(part, described_by=tuple(described.get(number, ())), in_run=runs[number])
        for number, part in enumerate(parts)
    ]


def _bitmap(dead: np.ndarray | None) -> bytes | None:
    if dead is None or not dead.any():
        return None
    return np.packbits(dead, bitorder="little").tobytes()


# --- The other parts ------------------------------------------------------------------------------


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


def _write_schemas(state: State, sink: _Sink) -> None:
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
    for piece, rows in zip(old[start:], _rows(state, old[start:]), strict=True):
        check_schemas(rows, piece.where, state.revision)
        known.load(rows, piece.where)
    for transaction in state.tail:
        known.apply(transaction)
    for table in _cut(schema_rows(known.entries.values())):
        sink.write(SCHEMAS, table)


def _write_applications(state: State, sink: _Sink) -> None:
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
    tables = _rows(state, old[start:])
    for table in _cut(merge_applications([*tables, application_rows(recent.recent)])):
        sink.write(APPLICATIONS, table)


def _write_history(state: State, sink: _Sink, retained_from: int) -> None:
    retained_from = min(retained_from, state.revision)
    old = [p for p in _of_kind(state, HISTORY) if p.segment.last_revision >= retained_from]
    rows = [transaction_row(transaction) for transaction in state.tail]
    start = size_of_merge([piece.rows for piece in old], len(rows))
    for piece in old[:start]:
        sink.keep(piece)
    tables = _rows(state, old[start:])
    table = pa.concat_tables([*tables, history_rows(rows)])
    if start == 0:
        table = table.filter(array(numbers(table.column("revision")) >= retained_from))
    for part in _cut(table):
        sink.write(HISTORY, part)


def _cut(table: pa.Table) -> Iterable[pa.Table]:
    for start in range(0, table.num_rows, ROWS_PER_SEGMENT):
        yield table.slice(start, ROWS_PER_SEGMENT)
