"""Segments as they are referred to: what a piece holds, where it lies, and its bytes in a frame of
its own. Pure.

Source: docs/format.md, section 6.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptObject, UnsupportedFeature
from ..wire import lakelog_segment_pb2 as wire
from . import compute as pc
from .columns import is_constant, rows_to_table
from .frame import (
    FrameKind,
    LogIdentity,
    decode_frame,
    encode_frame,
    has_unknown_fields,
    parse_message,
)
from .names import segment_name
from .segments import (
    FILES,
    HISTORY,
    MAX_NUMBER,
    NAMES,
    REFERENCES,
    REFERENCES_COLUMNS,
    ROW_DELETES,
    ROW_GROUP_STATISTICS,
    SCHEMAS,
    STATISTICS,
    TOMBSTONES,
    decode_segment,
    encode_ipc,
    total,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


DIGEST_BYTES: Final = 32
OF_A_PART: Final = frozenset({2, 3, 4})  # they describe rows of a FILES segment
BY_TABLE: Final = frozenset({FILES, SCHEMAS, ROW_DELETES, TOMBSTONES})  # they have a range


@dataclass(frozen=True, slots=True)
class Piece:
    """A segment that a checkpoint or a transaction refers to.

    Attributes:
        segment: What it holds: kind, rows, ranges.
        digest: Frame digest of the segment object; empty for an inline piece.
        length: Bytes of the object, or of the inline piece.
        where: For errors: the object, or the place inside one.
        inline: Its Arrow IPC bytes; None for a piece by reference.
        part: Of which FILES segment it is or describes rows; -1 for other kinds.
        run: The run that a FILES segment belongs to; -1 for other kinds.
        dead: FILES: bitmap of rows that are no longer live; None: none are.
        log: The log of the checkpoint that refers to it; None: not kept.
    """

    segment: wire.Segment
    digest: bytes
    length: int
    where: str
    inline: memoryview | None = None
    part: int = -1
    run: int = -1
    dead: bytes | None = None
    offset: int = field(default=0, compare=False)
    log: LogIdentity | None = field(default=None, compare=False)

    @property
    def kind(self) -> int:
        return int(self.segment.kind)

    @property
    def rows(self) -> int:
        return int(self.segment.row_count)

    @property
    def name(self) -> str:
        """The name of the segment object, without its folder; empty for an inline piece."""
        return segment_name(self.digest) if self.digest else ""

    @property
    def place(self) -> tuple[str, int]:
        """Where it begins: the object, and the byte within its attachments."""
        return self.where, self.offset

    @property
    def dead_rows(self) -> int:
        """How many of its rows are no longer live."""
        return int.from_bytes(self.dead, "little").bit_count() if self.dead else 0

    def may_hold(self, table: str) -> bool:
        """Whether rows of a table may be in it, by its range. For kinds that have one."""
        said = self.segment
        return said.first_table.encode() <= table.encode() <= said.last_table.encode()

    def may_hold_path(self, table: str, path: str) -> bool:
        """Whether a file of a table may be in it, by its range. For FILES."""
        said, wanted = self.segment, (table.encode(), path.encode())
        first = said.first_table.encode(), said.first_path.encode()
        return first <= wanted <= (said.last_table.encode(), said.last_path.encode())

    def may_hold_partition(self, partition: str) -> bool:
        """Whether files of a partition may be in it. For FILES."""
        said = self.segment
        return said.min_partition.encode() <= partition.encode() <= said.max_partition.encode()


def describe(kind: int, rows: pa.Table, columns: Sequence[str] = ()) -> wire.Segment:
    """What a segment of these rows says of itself.

    Args:
        columns: The names of the columns that statistics are of.
    """
    message = wire.Segment(kind=kind, row_count=rows.num_rows)  # type: ignore[arg-type]

    def edge(name: str, row: int) -> str:
        return str(rows.column(name)[row].as_py())

    last = rows.num_rows - 1
    if kind in BY_TABLE:
        message.first_table, message.last_table = edge("table", 0), edge("table", last)
    if kind == FILES:
        message.first_path, message.last_path = edge("path", 0), edge("path", last)
        message.min_partition, message.max_partition = partitions_of(rows)
        message.total_rows = min(total(rows, "row_count"), MAX_NUMBER - 1)
        message.total_bytes = min(total(rows, "size_bytes"), MAX_NUMBER - 1)
    message.columns.extend(columns)
    if kind == HISTORY:
        revisions = rows.column("revision")
        message.first_revision = revisions[0].as_py()
        message.last_revision = revisions[last].as_py()
    return message


def partitions_of(rows: pa.Table) -> tuple[str, str]:
    """The least and the greatest partition of some files, in UTF-8 order."""
    partitions = rows.column("partition")
    if is_constant(partitions):
        return (first := partitions[0].as_py()), first
    found = pc.min_max(partitions).as_py()
    return found["min"], found["max"]


def frame_segment(log: LogIdentity, message: wire.Segment, ipc: bytes) -> tuple[bytes, bytes]:
    """A segment object: its bytes and digest."""
    return encode_frame(FrameKind.SEGMENT, log, message.SerializeToString(deterministic=True), ipc)


def open_segment(
    data: bytes, piece: Piece, log: LogIdentity, newer: list[str] | None = None
) -> memoryview:
    """The Arrow IPC bytes of a segment object that a piece refers to.

    Args:
        newer: Takes its key, if its message holds fields of a later version.
    Raises:
        CorruptObject: Damaged, of another log, or not what the reference says.
    """
    frame = decode_frame(data, FrameKind.SEGMENT, piece.where)
    if frame.digest != piece.digest or len(data) != piece.length:
        raise CorruptObject(
            f"{piece.where} is not the segment that is referred to", key=piece.where
        )
    if frame.log.log_id != log.log_id or frame.log.incarnation > log.incarnation:
        raise CorruptObject(f"{piece.where} belongs to another log", key=piece.where)
    message = wire.Segment()
    parse_message(message, frame.message, piece.where)
    if newer is not None and has_unknown_fields(message):
        newer.append(piece.where)
    message.DiscardUnknownFields()
    if message != piece.segment:
        raise CorruptObject(
            f"{piece.where} says that it holds something else than its reference", key=piece.where
        )
    return frame.attachments


def piece_of_ref(
    ref: wire.SegmentRef, attachments: memoryview, key: str, *, folder: str, inline_only: bool
) -> Piece:
    """A reference in a message, checked.

    Args:
        folder: Key prefix of segment objects, for errors.
        inline_only: Whether it must be inline, as in a transaction.
    Raises:
        UnsupportedFeature: A kind of the future.
        CorruptObject: It can't be followed.
    """
    kind = int(ref.segment.kind)
    check_kind(kind, key)
    where = key if not ref.digest else f"{folder}{segment_name(ref.digest)}"
    if len(ref.digest) not in ((0,) if inline_only else (0, DIGEST_BYTES)):
        raise CorruptObject(f"{key} refers to a segment by a wrong digest", key=key)
    sums = (ref.segment.total_rows, ref.segment.total_bytes)
    absurd = kind == FILES and max(sums) >= MAX_NUMBER
    if absurd or not 1 <= ref.segment.row_count < 1 << 31:
        raise CorruptObject(f"{key} refers to a segment of {ref.segment.row_count} rows", key=key)
    inline = None
    if not ref.digest:
        inline = slice_of(attachments, ref.offset, ref.length, key)
    segment = wire.Segment()
    segment.CopyFrom(ref.segment)
    segment.DiscardUnknownFields()
    return Piece(segment, ref.digest, ref.length, where, inline, offset=ref.offset)


def check_kind(kind: int, key: str) -> None:
    """Raises `UnsupportedFeature` if a kind of segment isn't known here."""
    if kind not in NAMES:
        raise UnsupportedFeature(
            f"{key} holds a segment of kind {kind}, which this lakelog doesn't know",
            key=key,
            hint="Upgrade lakelog",
        )


def slice_of(attachments: memoryview, offset: int, length: int, key: str) -> memoryview:
    """Returns a piece of the attachments of a frame. Raises `CorruptObject` if they end before
    it."""
    if offset + length > len(attachments):
        raise CorruptObject(f"{key} refers to bytes that it doesn't have", key=key)
    return attachments[offset : offset + length]


def has_sound_columns(piece: Piece) -> bool:
    """Whether the names of columns ascend strictly, and are there for statistics only."""
    names = [name.encode() for name in piece.segment.columns]
    wanted = piece.kind in (STATISTICS, ROW_GROUP_STATISTICS)
    return (
        bool(names) == wanted
        and all(names)
        and all(low < high for low, high in itertools.pairwise(names))
    )


def has_sound_range(piece: Piece) -> bool:
    """Whether no range is inverted."""
    said = piece.segment
    if piece.kind == HISTORY:
        return bool(said.first_revision <= said.last_revision)
    if piece.kind not in BY_TABLE:
        return True
    first, last = said.first_table.encode(), said.last_table.encode()
    if piece.kind == FILES and said.min_partition.encode() > said.max_partition.encode():
        return False
    if piece.kind == FILES and first == last:
        return bool(said.first_path.encode() <= said.last_path.encode())
    return bool(first <= last)


class Attachments:
    """Inline pieces of one frame, laid end to end on multiples of 64 bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.length = 0

    def add(self, data: bytes) -> int:
        """Append bytes; returns their offset."""
        padding = -self.length % 64
        self._parts += [b"\0" * padding, data]
        offset = self.length + padding
        self.length = offset + len(data)
        return offset

    def joined(self) -> bytes:
        return b"".join(self._parts)

    def add_rows(self, kind: int, rows: pa.Table, columns: Sequence[str] = ()) -> wire.SegmentRef:
        """Append rows as an inline segment; returns the reference to it."""
        data = encode_ipc(rows)
        segment = describe(kind, rows, columns)
        return wire.SegmentRef(segment=segment, offset=self.add(data), length=len(data))


# --- The REFERENCES segment of a checkpoint: all its other segments as rows -----------------------

_AT_ONCE: Final = 1_024  # rows as Python's objects take many times their bytes
_SEGMENT_FIELDS = (
    "kind", "row_count", "total_rows", "total_bytes", "first_table", "first_path", "last_table",
    "last_path", "min_partition", "max_partition", "columns", "first_revision", "last_revision",
)  # fmt: skip


def reference_rows(pieces: Sequence[Piece]) -> pa.Table:
    """Pieces as rows of a REFERENCES segment, in the order given."""

    def value(piece: Piece, name: str) -> Any:
        if name == "columns":
            return list(piece.segment.columns)
        if name == "row_count":
            return piece.rows
        if name == "digest":
            return piece.digest or None
        own = ("part", "run", "offset", "length", "dead")
        return getattr(piece, name) if name in own else getattr(piece.segment, name)

    names = REFERENCES_COLUMNS.names
    rows = [[value(piece, name) for name in names] for piece in pieces]
    return rows_to_table(rows, REFERENCES_COLUMNS)


def decode_references(  # noqa: PLR0917 - what a checkpoint says of them
    data: memoryview | bytes,
    rows: int,
    attachments: memoryview,
    key: str,
    folder: str,
    log: LogIdentity | None = None,
) -> tuple[Piece, ...]:
    """The pieces of a checkpoint.

    Args:
        data: Arrow IPC bytes of the REFERENCES segment.
        attachments: Of the checkpoint: inline pieces are in them.
        folder: Key prefix of segment objects, for errors.
        log: Of the checkpoint; None: pieces don't keep it.
    Raises:
        UnsupportedFeature: A kind of segment of the future.
        CorruptObject: Not sound.
    """
    try:
        table = decode_segment(data, REFERENCES, rows, key)
    except CorruptObject:
        # What is wrong may be a rule of the future: "too new" goes before "damaged".
        _check_kinds(decode_segment(data, REFERENCES, rows, key, columns=["kind"]), key)
        raise
    _check_kinds(table, key)
    pieces = []
    batches = table.to_batches(max_chunksize=_AT_ONCE)
    for row in itertools.chain.from_iterable(batch.to_pylist() for batch in batches):
        digest = row["digest"] or b""
        inline = None
        if not digest:
            inline = slice_of(attachments, row["offset"], row["length"], key)
        try:
            segment = wire.Segment(**{name: row[name] for name in _SEGMENT_FIELDS})
        except ValueError as error:
            raise CorruptObject(f"{key} refers to a segment absurdly: {error}", key=key) from error
        where = f"{folder}{segment_name(digest)}" if digest else key
        pieces.append(
            Piece(
                segment, digest, row["length"], where, inline, row["part"], row["run"],
                row["dead"], row["offset"], log,
            )
        )  # fmt: skip
    _check(pieces, key)
    return tuple(pieces)


def check_live_rows(pieces: Sequence[Piece], files: int, key: str) -> None:
    """Raises `CorruptObject` if a checkpoint doesn't refer to as many live files as it counts."""
    live = sum(piece.rows - piece.dead_rows for piece in pieces if piece.kind == FILES)
    if live != files:
        raise CorruptObject(f"{key} counts {files} files and refers to {live}", key=key)


def _check_kinds(table: pa.Table, key: str) -> None:
    for kind in pc.unique(table.column("kind")).to_pylist():
        check_kind(kind, key)


def _check(pieces: Sequence[Piece], key: str) -> None:
    """Whether parts and runs are numbered as they must be, and bitmaps fit their rows."""
    files = [piece for piece in pieces if piece.kind == FILES]
    sound = all(has_sound_columns(piece) and has_sound_range(piece) for piece in pieces) and (
        all(piece.kind == FILES for piece in pieces[: len(files)])
        and [piece.part for piece in files] == list(range(len(files)))
        and all(1 <= piece.rows < 1 << 31 for piece in pieces)
        and all(
            0 <= piece.part < len(files) if piece.kind in OF_A_PART else piece.part == -1
            for piece in pieces[len(files) :]
        )
        and all(piece.run == -1 and piece.dead is None for piece in pieces[len(files) :])
        and all(piece.kind != REFERENCES for piece in pieces)
        and all(map(_dead_fits, files))
    )
    runs = [piece.run for piece in files]
    sound = sound and all(b - a in (0, 1) for a, b in itertools.pairwise(runs))
    sound = sound and runs[:1] in ([], [0])
    for one, two in itertools.pairwise(files):
        if one.run == two.run:
            last = (one.segment.last_table.encode(), one.segment.last_path.encode())
            sound = sound and last < (
                two.segment.first_table.encode(),
                two.segment.first_path.encode(),
            )
    if not sound:
        raise CorruptObject(f"{key} refers to segments that don't fit together", key=key)


def _dead_fits(piece: Piece) -> bool:
    if piece.dead is None:
        return True
    spare = len(piece.dead) * 8 - piece.rows
    return 0 <= spare < 8 and piece.dead[-1] >> (8 - spare) == 0
