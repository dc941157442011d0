"""The REFERENCES segment of a checkpoint: all its other segments as rows. Pure.

Source: docs/format.md, section 6.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptObject
from ..wire import lakelog_segment_pb2 as wire
from . import compute as pc
from .columns import rows_to_table
from .names import segment_name
from .pieces import OF_A_PART, Piece, check_kind, has_sound_columns, has_sound_range, slice_of
from .segment_bytes import decode_segment
from .segments import REFERENCES_COLUMNS
from .wire_kinds import FILES, REFERENCES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from .frame import LogIdentity

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
    """Whether a checkpoint refers to as many live files as it counts.

    Raises:
        CorruptObject: It doesn't.
    """
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
