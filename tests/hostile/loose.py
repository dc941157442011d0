"""A checkpoint taken apart: anything in it can be changed, and is put together again with all
lengths, places and digests right. Lies are told after that."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lakelog.catalog.format.frame import LogIdentity
from lakelog.catalog.format.names import segment_name
from lakelog.catalog.format.objects import decode_checkpoint, encode_checkpoint
from lakelog.catalog.format.pieces import (
    Attachments,
    Piece,
    decode_references,
    describe,
    frame_segment,
    open_segment,
    piece_of_ref,
    reference_rows,
)
from lakelog.catalog.format.segments import (
    REFERENCES,
    REFERENCES_COLUMNS,
    decode_segment,
    encode_ipc,
)
from lakelog.catalog.wire import lakelog_checkpoint_pb2 as checkpoint_wire
from lakelog.catalog.wire import lakelog_segment_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Row = dict[str, Any]
SAID = (
    "kind", "row_count", "first_table", "first_path", "last_table", "last_path", "columns",
    "first_revision", "last_revision", "total_rows", "total_bytes", "min_partition",
    "max_partition",
)  # fmt: skip


@dataclass
class LoosePiece:
    """One piece.

    Attributes:
        row: Its row of REFERENCES; digest, offset and length are set anew.
        data: Its Arrow IPC bytes.
        said: What its own object says, where that is not what the row says.
    """

    row: Row
    data: bytes
    said: wire.Segment | None = None

    def table(self) -> pa.Table:
        """Its rows."""
        return decode_segment(self.data, self.row["kind"], self.row["row_count"], "loose")

    def put(self, rows: pa.Table, *, tell: bool = True) -> None:
        """Other rows in place of its own.

        Args:
            tell: Whether the reference says what they are now.
        """
        self.data = encode_ipc(rows)
        if tell:
            found = describe(self.row["kind"], rows, list(self.row["columns"]))
            self.row |= {name: getattr(found, name) for name in SAID}
            self.row["columns"] = list(found.columns)


@dataclass
class Loose:
    """A checkpoint and its pieces.

    Attributes:
        log: The log it belongs to.
        message: Its head; its references are set anew.
        pieces: In the order of REFERENCES.
    """

    log: LogIdentity
    message: checkpoint_wire.Checkpoint
    pieces: list[LoosePiece]

    @classmethod
    def of_checkpoint(cls, body: bytes, key: str, segments: Mapping[str, bytes]) -> Loose:
        """Take a sound one apart.

        Args:
            segments: Segment objects by name.
        """
        decoded = decode_checkpoint(body, key)
        opened = [decoded.references]
        folder = key.partition("transactions/")[0] + "segments/"

        def bytes_of(piece: Piece) -> bytes:
            if piece.inline is not None:
                return bytes(piece.inline)
            return bytes(open_segment(segments[piece.name], piece, decoded.log))

        data = bytes_of(decoded.references)
        pieces = decode_references(data, opened[0].rows, decoded.attachments, key, folder)
        rows = reference_rows(pieces).to_pylist()
        loose = [LoosePiece(row, bytes_of(piece)) for row, piece in zip(rows, pieces, strict=True)]
        return cls(decoded.log, decoded.message, loose)

    def copy(self) -> Loose:
        """An independent copy."""
        message = checkpoint_wire.Checkpoint()
        message.CopyFrom(self.message)
        pieces = [LoosePiece(copy.deepcopy(p.row), p.data, p.said) for p in self.pieces]
        return Loose(self.log, message, pieces)

    def of_kind(self, kind: int) -> list[LoosePiece]:
        """Its pieces of a kind."""
        return [piece for piece in self.pieces if piece.row["kind"] == kind]

    def build(
        self,
        *,
        spill: bool,
        lie: Callable[[list[Row]], None] = lambda rows: None,
        table: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    ) -> tuple[bytes, dict[str, bytes]]:
        """The checkpoint object, and its segments by name.

        Args:
            spill: Whether pieces are objects of their own.
            lie: Changes the rows of REFERENCES once they are right.
            table: Changes them once they are a table.
        """
        attachments, objects = Attachments(), {}
        rows = []
        for piece in self.pieces:
            row = dict(piece.row)
            if spill:
                said = piece.said or wire.Segment(**{name: row[name] for name in SAID})
                body, digest = frame_segment(self.log, said, piece.data)
                objects[segment_name(digest)] = body
                row |= {"digest": digest, "offset": 0, "length": len(body)}
            else:
                at = attachments.add(piece.data)
                row |= {"digest": None, "offset": at, "length": len(piece.data)}
            rows.append(row)
        lie(rows)
        found = table(pa.Table.from_pylist(rows, schema=REFERENCES_COLUMNS))
        data = encode_ipc(found)
        segment = wire.Segment(kind=REFERENCES, row_count=found.num_rows)
        self.message.references.Clear()
        self.message.references.segment.CopyFrom(segment)
        if spill:
            body, digest = frame_segment(self.log, segment, data)
            objects[segment_name(digest)] = body
            self.message.references.digest, self.message.references.length = digest, len(body)
        else:
            self.message.references.offset = attachments.add(data)
            self.message.references.length = len(data)
        return encode_checkpoint(self.log, self.message, attachments.joined())[0], objects

    @staticmethod
    def references(body: bytes, key: str) -> Piece:
        """The piece that names all others."""
        decoded = decode_checkpoint(body, key)
        folder = key.partition("transactions/")[0] + "segments/"
        return piece_of_ref(
            decoded.message.references, decoded.attachments, key, folder=folder, inline_only=False
        )
