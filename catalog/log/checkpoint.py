"""A checkpoint from a state, and a state from a checkpoint. Pure.

The bytes are deterministic: rows are sorted, segments are cut at fixed row counts, and nothing
reads a clock.

Source: docs/format.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import CorruptObject
from ..format import segments
from ..format.frame import MAX_ATTACHMENT_BYTES
from ..format.names import LogObject
from ..format.objects import MAX_TIME_US, DecodedCheckpoint, encode_checkpoint, frame_segment
from ..format.run import RawSegment, Run, sorted_by_path
from ..format.schema import decode_schema, fingerprint
from ..format.segment_bytes import decode_segment, encode_ipc
from ..wire import lakelog_checkpoint_pb2 as wire
from ..wire.lakelog_checkpoint_pb2 import SegmentRef
from .history import History
from .state import SchemaEntry, State
from .table_files import TableFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SPILL_FROM_BYTES: Final = 1 << 20
MAX_INLINE_BYTES: Final = 16 << 20
THREADS_FROM_BYTES: Final = 1 << 20
MAX_COUNT: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class EncodedCheckpoint:
    """A checkpoint ready to be written.

    Attributes:
        name: The checkpoint object's name.
        body: Its bytes.
        spilled: Segment objects, which must be durable before it: name and bytes.
    """

    name: str
    body: bytes
    spilled: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: int
    table: str
    rows: pa.Table

    @property
    def bounds(self) -> tuple[str, str]:
        if "path" not in self.rows.schema.names or not self.rows.num_rows:
            return "", ""
        column = self.rows.column("path")
        return column[0].as_py(), column[-1].as_py()


def encode_state(
    state: State, *, retained_from: int = 0, first_segment: int = 0
) -> EncodedCheckpoint:
    """The checkpoint of a state.

    Args:
        retained_from: History rows of lower revisions are left out: prune took them.
        first_segment: Number of the first spilled segment (higher when a name was found taken).
    """
    stem = LogObject(state.revision, state.uuid[:4].hex(), "checkpoint")
    message = wire.Checkpoint(
        revision=state.revision,
        uuid=state.uuid,
        successor_uuid=state.successor_uuid,
        digest=state.digest,
        epoch=state.epoch,
        committed_at_us=state.committed_at_us,
        transaction_ids=list(state.transaction_ids),
        required_reader_features=sorted(state.reader_features),
        required_writer_features=sorted(state.writer_features),
        app_versions=[
            wire.AppVersion(app_id=app, app_version=version)
            for app, version in sorted(state.app_versions.items())
        ],
    )
    inline: list[bytes] = []
    inline_bytes = 0
    spilled: list[tuple[str, bytes]] = []
    for piece in _pieces(state, retained_from):
        data = encode_ipc(piece.rows)
        low, high = piece.bounds
        ref = message.segments.add(
            kind=piece.kind,
            table=piece.table,
            row_count=piece.rows.num_rows,
            first_path=low,
            last_path=high,
        )
        if len(data) > SPILL_FROM_BYTES or inline_bytes + len(data) > MAX_INLINE_BYTES:
            number = first_segment + len(spilled)
            ref.name = LogObject(stem.revision, stem.uuid8, "segment", number).name
            body, ref.digest = frame_segment(piece.rows)
            ref.length = len(body)
            spilled.append((ref.name, body))
        else:
            # Arrow wants its buffers on 8-byte boundaries to read them without a copy.
            padding = -inline_bytes % 64
            inline.append(b"\0" * padding)
            ref.offset, ref.length = inline_bytes + padding, len(data)
            inline.append(data)
            inline_bytes += padding + len(data)
    _count(message.counts, state)
    body, _ = encode_checkpoint(message, b"".join(inline))
    return EncodedCheckpoint(stem.name, body, tuple(spilled))


def _count(counts: wire.Counts, state: State) -> None:
    for files in state.tables.values():
        table = files.table()
        counts.files += table.num_rows
        counts.rows = min(counts.rows + segments.total(table, "row_count"), MAX_COUNT)
        counts.bytes = min(counts.bytes + segments.total(table, "size_bytes"), MAX_COUNT)


def _pieces(state: State, retained_from: int) -> list[_Piece]:
    pieces: list[_Piece] = []
    for name in sorted(state.tables, key=str.encode):
        files = state.tables[name]
        schemas = state.arrow_schemas(name)
        table = _without_empty_statistics(sorted_by_path(files.table(schemas)), segments.FILES)
        pieces += _cut(SegmentRef.FILES, name, table)
    for name in sorted(state.tables, key=str.encode):
        groups = state.tables[name].row_groups_table(state.arrow_schemas(name))
        if groups.num_rows:
            groups = sorted_by_path(groups, "row_group")
            pieces += _cut(
                SegmentRef.ROW_GROUPS, name, _without_empty_statistics(groups, segments.ROW_GROUPS)
            )
    pieces.append(_Piece(SegmentRef.SCHEMAS, "", _schemas_table(state)))
    history = state.history.table()
    kept = history.filter(pc.greater_equal(history.column("revision"), retained_from))
    pieces += _cut(SegmentRef.HISTORY, "", kept)
    return pieces


def _without_empty_statistics(table: pa.Table, core: pa.Schema) -> pa.Table:
    """Statistics columns sorted by name, without those that say nothing: equal states give equal
    bytes."""
    extra = sorted(
        name
        for name in table.schema.names
        if name not in core.names and table.column(name).null_count < table.num_rows
    )
    return table.select([*core.names, *extra]).replace_schema_metadata(None)


def _cut(kind: int, name: str, table: pa.Table) -> list[_Piece]:
    size = segments.rows_per_segment(table.num_columns)
    count = max(1, -(-table.num_rows // size))
    return [
        _Piece(kind, name, table.slice(index * size, size).combine_chunks())
        for index in range(count)
    ]


def _schemas_table(state: State) -> pa.Table:
    order = sorted(state.schemas, key=lambda name: (name[0].encode(), name[1]))
    entries = [state.schemas[name] for name in order]
    columns = [
        [entry.table for entry in entries],
        [name[1] for name in order],
        [entry.message for entry in entries],
        [list(entry.key) for entry in entries],
        [list(entry.sort_order) for entry in entries],
        [entry.revision for entry in entries],
    ]
    return pa.Table.from_arrays(
        [pa.array(values, item.type) for values, item in zip(columns, segments.SCHEMAS)],
        schema=segments.SCHEMAS,
    )


def referenced(checkpoint: DecodedCheckpoint) -> list[tuple[str, bytes]]:
    """Names and digests of the segment objects that a checkpoint needs."""
    return [(ref.name, ref.digest) for ref in checkpoint.message.segments if ref.name]


def decode_state(
    checkpoint: DecodedCheckpoint,
    fetched: dict[str, memoryview],
    writer: str,
    database: str,
    *,
    map_large: Callable[..., Iterable[Any]] = map,
) -> State:
    """The state that a checkpoint holds.

    Args:
        fetched: Arrow IPC bytes of the segments by reference, by name.
        map_large: Decodes the segments of a large checkpoint, in order, as `map` does: perhaps
            several at a time.
    Raises:
        CorruptObject: A segment isn't what the checkpoint says of it.
    """
    message, key = checkpoint.message, checkpoint.key
    state = State(
        writer,
        database,
        revision=message.revision,
        uuid=message.uuid,
        successor_uuid=message.successor_uuid,
        digest=message.digest,
        epoch=message.epoch,
        committed_at_us=message.committed_at_us,
        transaction_ids=tuple(message.transaction_ids),
        reader_features=frozenset(message.required_reader_features),
        writer_features=frozenset(message.required_writer_features),
        app_versions={item.app_id: item.app_version for item in message.app_versions},
    )
    history: list[pa.Table] = []
    for ref, found in zip(
        message.segments, _decode_all(checkpoint, fetched, map_large), strict=True
    ):
        files = state.tables.setdefault(ref.table, TableFiles()) if ref.table else TableFiles()
        where = f"{key} ({ref.name or 'inline'})"
        if isinstance(found, Run):
            if ref.row_count:
                _check_run(found, ref, files, where)
                files.runs.append(found)
        elif ref.kind == SegmentRef.ROW_GROUPS:
            files.row_groups.append(found)
        elif ref.kind == SegmentRef.SCHEMAS:
            _load_schemas(state, found, where)
        else:
            history.append(found)
    state.history = History(_check_history(message, history, key))
    _check_whole(message, state, key)
    return state


def _decode_all(
    checkpoint: DecodedCheckpoint,
    fetched: dict[str, memoryview],
    map_large: Callable[..., Iterable[Any]],
) -> list[Run | RawSegment | pa.Table]:
    """Each segment in its form, in order."""

    def decode(ref: wire.SegmentRef) -> Run | RawSegment | pa.Table:
        where = f"{checkpoint.key} ({ref.name or 'inline'})"
        if ref.name:
            data = fetched[ref.name]
        else:
            data = checkpoint.attachments[ref.offset : ref.offset + ref.length]
        if ref.kind == SegmentRef.FILES:
            return Run.of_segment(data, ref.row_count, where)
        if ref.kind == SegmentRef.ROW_GROUPS:
            return data, ref.row_count, where
        return decode_segment(data, ref.kind, ref.row_count, where)

    size = sum(ref.length for ref in checkpoint.message.segments)
    run = map_large if size > THREADS_FROM_BYTES else map
    return list(run(decode, checkpoint.message.segments))


def _check_run(run: Run, ref: wire.SegmentRef, files: TableFiles, where: str) -> None:
    paths = run.core.column("path")
    if (paths[0].as_py(), paths[-1].as_py()) != (ref.first_path, ref.last_path):
        raise CorruptObject(f"{where} holds other paths than its reference says", key=where)
    if (
        files.runs
        and not files.runs[-1].core.column("path")[-1].as_py().encode() < ref.first_path.encode()
    ):
        raise CorruptObject(f"{where} overlaps the segment before it", key=where)


def _load_schemas(state: State, table: pa.Table, where: str) -> None:
    for row in table.to_pylist():
        try:
            schema = decode_schema(row["arrow_schema"])
            if row["fingerprint"] != fingerprint(row["arrow_schema"]):
                raise ValueError("it is not the one that its fingerprint names")
        except ValueError as error:
            raise CorruptObject(f"{where} holds an invalid schema", key=where) from error
        state.schemas[row["table"], row["fingerprint"]] = SchemaEntry(
            row["table"],
            schema,
            row["arrow_schema"],
            tuple(row["key"] or ()),
            tuple(row["sort_order"] or ()),
            row["revision"],
        )


def _check_history(message: wire.Checkpoint, parts: list[pa.Table], key: str) -> pa.Table:
    """The history, if it ends with the checkpoint's own revision, in order and without gaps."""
    table = pa.concat_tables(parts) if parts else segments.HISTORY.empty_table()
    revisions = table.column("revision").to_numpy()
    times = table.column("committed_at").cast(pa.int64()).to_numpy()
    digests = table.column("digest")
    if not (
        table.num_rows
        and (revisions[-1], digests[-1].as_py()) == (message.revision, message.digest)
        and (np.diff(revisions) == 1).all()
        and (times[:-1] < times[1:]).all()
        and times[0] > 0
        and times[-1] < MAX_TIME_US
    ):
        raise CorruptObject(f"{key} holds a history that is not that of its revision", key=key)
    return table


def _check_whole(message: wire.Checkpoint, state: State, key: str) -> None:
    found = sum(files.count for files in state.tables.values())
    if found != message.counts.files:
        raise CorruptObject(f"{key} counts {message.counts.files} files and holds {found}", key=key)
    for table, files in state.tables.items():
        if any((table, name) not in state.schemas for name in files.fingerprints()):
            raise CorruptObject(f"{key} holds a file of {table!r} without its schema", key=key)


assert MAX_INLINE_BYTES < MAX_ATTACHMENT_BYTES
