"""A piece of live files: the rows of one FILES segment and which of them are dead. Pure.

Source: docs/format.md, section 6.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import CorruptError, CorruptObject
from ..format import compute as pc
from ..format.columns import array, column, distinct, numbers
from ..format.pieces import OF_A_PART, partitions_of
from ..format.run import Run, files_rows
from ..format.segments import FILES, MAX_NUMBER, total

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from ..format.objects import DecodedTransaction
    from ..format.pieces import Piece

MANY_TABLES: Final = 64
MANY_PATHS: Final = 256


@dataclass(slots=True)
class Part:
    """A piece of live files.

    Attributes:
        run: Its rows.
        described_by: The pieces of row groups and statistics of its rows.
        dead: Per row whether it is no longer live; None while all are. Copied before it is changed.
        in_run: The run of a checkpoint that it came from; None: from a transaction.
        dead_in_base: `dead`, as that checkpoint says it.
    """

    run: Run
    described_by: tuple[Piece, ...] = ()
    dead: np.ndarray | None = None
    in_run: int | None = None
    dead_in_base: np.ndarray | None = None

    def as_in_base(self) -> Part:
        """As it stands in the checkpoint that it came from."""
        return replace(self, dead=self.dead_in_base)

    def live(self, table: str | None = None) -> pa.Array | None:
        """A mask over the rows (of one table), or None if all are live."""
        if self.dead is None:
            return None
        start, end = (0, self.run.rows) if table is None else self.run.ranges.get(table, (0, 0))
        dead = self.dead[start:end]
        if not dead.any():
            return None
        return array(~dead)

    def rows(self, table: str | None, source: pa.Table | None = None) -> pa.Table:
        """The live rows of a table (or all), of the core columns or of `source`."""
        rows = self.run.core if source is None else source
        if table is not None:
            start, end = self.run.ranges.get(table, (0, 0))
            rows = rows.slice(start, end - start)
        mask = self.live(table)
        return rows if mask is None else pc.filter(rows, mask)

    def find(self, table: str, path: str) -> int:
        """Row of a live file, or -1."""
        row = self.run.find(table, path)
        return -1 if row >= 0 and self.dead is not None and self.dead[row] else row

    def kill(self, rows: np.ndarray) -> None:
        """These rows, by number or as a mask, are no longer live."""
        self.dead = np.zeros(self.run.rows, np.bool_) if self.dead is None else self.dead.copy()
        self.dead[rows] = True

    def among(self, table: str, paths: pa.Array) -> np.ndarray:
        """Rows of the live files of a table that are named."""
        start, end = self.run.ranges.get(table, (0, 0))
        there = self.run.core.column("path").slice(start, end - start)
        found = numbers(pc.is_in(there, paths)).astype(np.bool_)
        if self.dead is not None:
            found &= ~self.dead[start:end]
        return start + np.flatnonzero(found)

    def take_out(self, table: str, paths: pa.Array) -> pa.ChunkedArray:
        """The live files that are named are live no longer; their paths."""
        rows = self.among(table, paths)
        if len(rows):
            self.kill(rows)
        return self.run.core.column("path").take(array(rows))


def batch_parts(pieces: Iterable[Piece]) -> Iterator[tuple[Part | CorruptError, Piece]]:
    """The parts of an `AddBatch`, each with its FILES piece; an error for one that is damaged."""
    pieces = list(pieces)
    starts = [place for place, piece in enumerate(pieces) if piece.kind == FILES]
    for start, end in zip(starts, [*starts[1:], len(pieces)], strict=True):
        piece = pieces[start]
        try:
            run = Run.of_segment(piece.inline or b"", piece.rows, piece.where)
            check_range(run, piece)
            yield Part(run, tuple(pieces[start + 1 : end])), piece
        except CorruptError as error:
            yield error, piece


def added_files(transaction: DecodedTransaction) -> Iterator[pa.Table]:
    """Yields the files that a transaction adds, with the columns of FILES.

    Raises:
        CorruptError: A batch of them is damaged.
    """
    actions = transaction.message.actions
    adds = [action.add for action in actions if action.WhichOneof("kind") == "add"]
    if adds:
        yield files_rows(adds, [transaction.message.revision] * len(adds))
    for pieces in transaction.batches.values():
        for part, _ in batch_parts(pieces):
            if not isinstance(part, Part):
                raise part
            yield part.run.full()


def read_parts(
    wanted: Sequence[Piece],
    bodies: list[Any],
    beside: Iterable[Piece],
    newest: int,
    *,
    fetch: Callable[[Sequence[Piece]], list[memoryview]],
    at_once: Any = map,
) -> list[Part]:
    """FILES pieces of a checkpoint, decoded.

    Args:
        bodies: Their Arrow IPC bytes, each of which is let go once it is decoded.
        beside: All pieces of that checkpoint, some of which describe their rows.
        newest: Its revision.
        fetch: Reads pieces again, for columns that are not held.
        at_once: Applies a function to many places.
    Raises:
        CorruptObject: One is damaged, or isn't what its reference says.
    """
    described: dict[int, list[Piece]] = {}
    for piece in beside:
        if piece.kind in OF_A_PART:
            described.setdefault(piece.part, []).append(piece)

    def part(place: int) -> Part:
        piece, data = wanted[place], bodies[place]
        bodies[place] = None
        again = None if piece.inline is not None else lambda: fetch([piece])[0]
        run = sound_run(data, piece, newest, again)
        dead = dead_rows(piece)
        return Part(run, tuple(described.get(piece.part, ())), dead, piece.run, dead)

    return list(at_once(part, range(len(wanted))))


def sound_run(
    data: memoryview, piece: Piece, newest: int, again: Callable[[], memoryview] | None
) -> Run:
    """Returns the rows of a piece of the checkpoint of the revision `newest`, decoded; `again`
    reads the bytes once more, None: they are kept. Raises `CorruptObject`."""
    run = Run.of_segment(data, piece.rows, piece.where, again)
    check_range(run, piece)
    check_revisions(run, newest)
    return run


def check_range(run: Run, piece: Piece) -> None:
    """Raises `CorruptObject` if the rows of a piece are out of the range in its reference."""
    tables, paths = list(run.ranges), run.core.column("path")
    found = (tables[0], paths[0].as_py(), tables[-1], paths[run.rows - 1].as_py())
    said = piece.segment
    ranges = (said.first_table, said.first_path, said.last_table, said.last_path)
    partitions = (said.min_partition, said.max_partition)
    sums = [min(total(run.core, name), MAX_NUMBER - 1) for name in ("row_count", "size_bytes")]
    totals = [said.total_rows, said.total_bytes]
    if found != ranges or partitions_of(run.core) != partitions or sums != totals:
        raise CorruptObject(
            f"{piece.where} holds other files than its reference says", key=piece.where
        )


def check_revisions(run: Run, newest: int) -> None:
    """Raises `CorruptObject` if a file of a checkpoint was added after it."""
    if numbers(run.core.column("revision")).max() > newest:
        raise CorruptObject(f"{run.key} holds files of revisions to come", key=run.key)


def dead_rows(piece: Piece) -> np.ndarray | None:
    """Per row of a FILES piece whether its reference marks it as dead; None: none is."""
    if piece.dead is None:
        return None
    bits = np.frombuffer(piece.dead, np.uint8)
    return np.unpackbits(bits, count=piece.rows, bitorder="little").astype(np.bool_)


def not_taken_out(parts: Iterable[Part], table: str, paths: Sequence[str]) -> list[str]:
    """Take files out of pieces; those that are live in none. Many are looked up by one array
    operation a piece."""
    if len(paths) <= MANY_PATHS:
        return [path for path in paths if not _takes_out(parts, table, path)]
    named = column(paths, pa.string())
    found = [part.take_out(table, named) for part in parts if table in part.run.ranges]
    if sum(map(len, found)) == len(paths):
        return []
    left = {path for some in found for path in some.to_pylist()}
    missing = []
    for path in paths:
        if path in left:
            left.remove(path)
        else:
            missing.append(path)
    return missing


def _takes_out(parts: Iterable[Part], table: str, path: str) -> bool:
    for part in parts:
        row = part.find(table, path)
        if row >= 0:
            part.kill(np.array([row]))
            return True
    return False


def tables_with(run: Run, path: str) -> list[str]:
    """Tables of a run that hold a path, live or not."""
    if len(run.ranges) <= MANY_TABLES:
        return [table for table in run.ranges if run.find(table, path) >= 0]
    wanted = column([path], pa.string())
    hits = pc.indices_nonzero(pc.is_in(run.core.column("path"), wanted)).to_pylist()
    return [t for t, (start, end) in run.ranges.items() if any(start <= h < end for h in hits)]


def in_partition(rows: pa.Table, partition: str) -> pa.ChunkedArray:
    """Per file whether it is of a partition."""
    return pc.equal(rows.column("partition"), column([partition], pa.string())[0])


def check_base(parts: Iterable[Part], table: str, known: Collection[bytes] | None) -> None:
    """Raises `CorruptObject` if in the base of some pieces a path occurs twice, or a schema is not
    among the table's fingerprints there (`known`; None: not checked)."""
    based = [p.as_in_base() for p in parts if p.in_run is not None and table in p.run.ranges]
    for part in based if known is not None else ():
        for fingerprint in distinct(part.rows(table).column("schema_fingerprint")):
            if known is not None and fingerprint not in known:
                raise CorruptObject(
                    f"{part.run.key} holds a file of table {table!r} with the schema "
                    f"{fingerprint.hex()}, which the log doesn't know there",
                    key=part.run.key,
                )
    if len({part.in_run for part in based}) < 2:
        return  # pieces of one run are apart: their references say so, and were checked
    based.sort(key=lambda part: -part.run.rows)
    for place, larger in enumerate(based):
        for smaller in based[place + 1 :]:
            if larger.in_run != smaller.in_run and share_a_path(larger, smaller, table):
                raise CorruptObject(
                    f"{larger.run.key} holds a file of {table!r} that another piece holds too",
                    key=larger.run.key,
                )


def share_a_path(larger: Part, smaller: Part, table: str) -> bool:
    """Whether a path of a table is live in both parts."""
    one, other = (part.rows(table).column("path") for part in (larger, smaller))
    if not len(one) or not len(other):
        return False
    firsts, lasts = ([c[at].as_py().encode() for c in (one, other)] for at in (0, -1))
    if lasts[0] < firsts[1] or lasts[1] < firsts[0]:
        return False
    return bool(pc.any(pc.is_in(one, other.combine_chunks())).as_py())
