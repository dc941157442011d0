"""The pieces of a checkpoint as they are written: small ones inline, others as objects. Pure.

Source: docs/format.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ..format.names import segment_name
from ..format.pieces import Attachments, Piece, describe, frame_segment
from ..format.segments import encode_ipc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ..format.frame import LogIdentity


SPILL_FROM_BYTES: Final = 32 << 10


MAX_INLINE_BYTES: Final = 256 << 10


@dataclass(slots=True)
class PieceSink:
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
        """Write rows as a new piece.

        Args:
            columns: The names of the columns that statistics are of.
            part, run: See `Piece`.
        """
        segment = describe(kind, rows, columns)
        # Only an object of its own is salted. Few rows will be inline and are encoded without; of
        # many, whatever comes out small is encoded twice.
        salt = b"" if rows.nbytes <= SPILL_FROM_BYTES else self.salt
        data = encode_ipc(rows, salt)
        if self._spills(len(data)):
            data = data if salt == self.salt else encode_ipc(rows, self.salt)
            body, digest = frame_segment(self.log, segment, data)
            self.segments.append((segment_name(digest), body))
            self.pieces.append(Piece(segment, digest, len(body), "", None, part, run))
        else:
            data = encode_ipc(rows) if salt else data
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
