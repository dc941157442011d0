"""The live files in a checkpoint: runs of the one before, as far as they stay, and one run of what
has come since. Pure.

Source: docs/format.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject
from ..format.names import segment_name
from ..format.pieces import Attachments, Piece, describe, frame_segment
from ..format.run import Run, files_rows
from ..format.segments import FILES, ROW_GROUPS, decode_segment, encode_ipc, total
from ..format.statistics_rows import statistics_by_column, statistics_rows, unpack_statistics
from ..wire import lakelog_checkpoint_pb2 as wire
from .files import Files
from .lookup import files_with
from .merge import DESCRIBING, Rows, RunSize, first_to_merge, merged, pieces_of
from .part import Part
from .replay import is_own_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..format.frame import LogIdentity
    from ..format.objects import DecodedTransaction
    from .state import State


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


# --- Files ----------------------------------------------------------------------------------------

MAX_COUNT: Final = (1 << 64) - 1


def write_files(state: State, sink: PieceSink, counts: wire.Counts) -> list[Part] | None:
    """Writes runs of the base that stay, and one run of what has come since; returns the parts of
    the new checkpoint, if the state's files were loaded."""
    recent = _recent_files(state)
    files = state.files if recent is None else None  # something of the base was removed
    old = [piece for piece in state.pieces if piece.kind == FILES]
    if files is not None:
        refuse_broken(files)
        based = [part for part in files.parts if part.in_run is not None]
        fresh = Files(None, [part for part in files.parts if part.in_run is None], files.added)
        old = [replace(p, dead=_bitmap(part.dead)) for p, part in zip(old, based, strict=True)]
    else:
        assert recent is not None
        fresh, loaded = recent, state.loaded_files
        based = [] if loaded is None else [part for part in loaded.parts if part.in_run is not None]
    _count(state, fresh, old, based, counts)
    runs = [[piece for piece in old if piece.run == run] for run in range(_runs(old))]
    start = first_to_merge([_size(run) for run in runs], fresh.count)
    kept = [piece for run in runs[:start] for piece in run]
    going = [piece for run in runs[start:] for piece in run]
    parts = based[len(kept) :] if based else state.parts_of(going)
    sources = [rows_of(state, part) for part in parts] + _fresh_rows(state, fresh)
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
    if state.loaded_files is None:
        return None
    fresh_parts = [Part(Run.of_table(rows.files, sink.log.log_id.hex())) for rows in segments]
    return [*based[: len(kept)], *fresh_parts]


def _recent_files(state: State) -> Files | None:
    """What the tail added and has left live; None if it says more than that of files."""
    if state.loaded_files is not None:
        files = state.loaded_files
        refuse_broken(files)
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
    if any(_forgets_names(transaction) for transaction in state.tail):
        return None  # whether a table that was forgotten has files is seen with those of the base
    files = Files(known=state.base_schemas().fingerprints())
    for transaction in state.tail:
        files.apply(transaction)
    if files.broken or files.broken_ranges:
        return None  # what doesn't fit by itself may fit the files of the base
    foreign = _foreign(files, state.tail)
    if foreign:
        found = files_with(state, foreign)
        if found.broken or found.broken_ranges:
            return None  # or the reverse
    return files


def _forgets_names(transaction: DecodedTransaction) -> bool:
    """Whether a transaction forgets tables or schemas."""
    found = (a.forget for a in transaction.message.actions if a.WhichOneof("kind") == "forget")
    return any(forget.tables or forget.schemas for forget in found)


def _foreign(files: Files, tail: Sequence[DecodedTransaction]) -> list[str]:
    """Paths of files that were added since the base, and whose names don't say that they can't be
    in it already."""
    own = {one for transaction in tail for one in transaction.transaction_ids}
    actions = (action for transaction in tail for action in transaction.message.actions)
    paths = [action.add.path for action in actions if action.WhichOneof("kind") == "add"]
    paths += (path for part in files.parts for path in part.run.core.column("path").to_pylist())
    return [path for path in paths if not is_own_file(path, own)]


def refuse_broken(files: Files) -> None:
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
    adds = [add for added in fresh.added.values() for add, _ in added.values()]
    if based and any(part.dead is not None for part in based):
        tables += [part.rows(None) for part in based]
        before = wire.Counts()
    files = len(adds) + sum(table.num_rows for table in tables)
    rows = sum(add.row_count for add in adds) + sum(total(t, "row_count") for t in tables)
    size = sum(add.size_bytes for add in adds) + sum(total(t, "size_bytes") for t in tables)
    counts.files = before.files + files
    counts.rows = min(before.rows + rows, MAX_COUNT)
    counts.bytes = min(before.bytes + size, MAX_COUNT)


def _runs(pieces: Sequence[Piece]) -> int:
    return pieces[-1].run + 1 if pieces else 0


def _size(run: Sequence[Piece]) -> RunSize:
    return RunSize(sum(piece.rows for piece in run), sum(piece.dead_rows for piece in run))


def rows_of(state: State, part: Part) -> Rows:
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
    """Returns row groups or statistics of a piece, in the form in memory. Raises `CorruptObject`.

    Args:
        exact: Refuse columns of a later version.
    """
    if piece.kind == ROW_GROUPS:
        return decode_segment(data, ROW_GROUPS, piece.rows, piece.where, exact=exact)
    names = list(piece.segment.columns)
    return unpack_statistics(data, piece.kind, piece.rows, names, piece.where, exact=exact)


def decode_statistics(data: memoryview, piece: Piece) -> dict[str, tuple[np.ndarray, pa.Table]]:
    """Returns statistics of a piece column by column; raises as `statistics_by_column`."""
    names = list(piece.segment.columns)
    return statistics_by_column(data, piece.kind, piece.rows, names, piece.where)


def _fresh_rows(state: State, fresh: Files) -> list[Rows]:
    sources = [rows_of(state, part) for part in fresh.parts]
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


def _keep_describing(state: State, sink: PieceSink, kept: Sequence[Piece]) -> None:
    new_number = {piece.part: number for number, piece in enumerate(kept)}
    for piece in state.pieces:
        if piece.kind in DESCRIBING and piece.part in new_number:
            sink.keep(piece, part=new_number[piece.part])


def with_pieces(parts: Sequence[Part], pieces: Sequence[Piece]) -> list[Part]:
    """Parts as they are once the pieces stand: each with the pieces that describe it."""
    described: dict[int, list[Piece]] = {}
    runs = [piece.run for piece in pieces if piece.kind == FILES]
    for piece in pieces:
        if piece.kind in DESCRIBING:
            described.setdefault(piece.part, []).append(piece)
    return [
        Part(part.run, tuple(described.get(number, ())), part.dead, runs[number], part.dead)
        for number, part in enumerate(parts)
    ]


def _bitmap(dead: np.ndarray | None) -> bytes | None:
    if dead is None or not dead.any():
        return None
    return np.packbits(dead, bitorder="little").tobytes()
