"""Of files whose keys may meet, the rows that a newer row of the same key supersedes.

Only the columns of the key are read, and memory stays bounded: files that hold each key once and
don't meet each other give no rows but those that the others may share a key with; and of very many
rows one range of the key after the other is looked at.

Source: docs/changing.md, "Keys"; docs/format.md, section 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import UsageError
from ..format import compute as pc
from ..format.columns import array, column, numbers
from ..format.deletes import MAX_ROWS
from ..parallel import parallel
from .hidden import Bitmaps
from .scan import Projection, read_projected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...store import Store
    from .file_part import FilePart

MOST_ROWS: Final = 20_000_000  # whose keys are in memory at a time
_AT_ONCE: Final = 4
_SAMPLE: Final = 1 << 16
_PIECE: Final = 1 << 20
_FEW: Final = 4  # times as many rows have files that are searched for the keys of others


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file whose keys are looked at.

    Attributes:
        part: What reading it needs; what hides rows of it doesn't count.
        low, high: Of the first column of its keys, comparable among files.
        once: Whether it holds each key once.
        wanted: Whether it is asked which of its rows are superseded.
    """

    part: FilePart
    low: int
    high: int
    once: bool
    wanted: bool


class _Range(NamedTuple):
    """Values of the first column of the key, from the first up to, without, the second; None: no
    such end."""

    start: pa.Scalar | None = None
    end: pa.Scalar | None = None


class _Rows(NamedTuple):
    """Keys of rows of one file, none with a null, and the numbers of these rows, ascending."""

    keys: pa.Table
    places: np.ndarray


def superseded_rows(store: Store, files: Sequence[KeyFile], target: pa.Schema) -> list[np.ndarray]:
    """Per file the numbers of its rows that a newer row of the same key supersedes, ascending; for
    those that aren't wanted nothing.

    Args:
        files: The older first: of two rows of one key the one of the later file is newer, in one
            file the later row.
        target: The columns of the key, as the cut has them.
    Raises:
        ObjectNotFound, CorruptObject, SchemaConflict: As for reading.
        UsageError: A file has more rows than can be numbered.
    Requests: 1 or more GET a file, for each range of very many rows.
    """
    for file in files:
        if file.part.row_count > MAX_ROWS:
            raise UsageError(
                f"{file.part.key} has {file.part.row_count} rows, more than keys are resolved in",
                key=file.part.key,
                hint="Write its rows anew in several files, or take the key off the table",
            )
    searched = _searched(files)
    found: list[list[np.ndarray]] = [[] for _ in files]
    read = partial(_read, store, target)
    for within in _ranges(store, files, searched, target):
        for lost, more in zip(found, _in_range(files, searched, read, within), strict=True):
            lost.append(more)
    return [np.sort(np.concatenate(lost)) for lost in found]


def _searched(files: Sequence[KeyFile]) -> np.ndarray:
    """The files that are only searched for keys of the others: they hold each key once, and no two
    of them share one."""
    chosen = np.zeros(len(files), np.bool_)
    lows: list[int] = []
    highs: list[int] = []
    for at in sorted(range(len(files)), key=lambda at: -files[at].part.row_count):
        file = files[at]
        if file.once and not ((np.array(lows) <= file.high) & (np.array(highs) >= file.low)).any():
            lows.append(file.low)
            highs.append(file.high)
            chosen[at] = True
    counts = np.array([file.part.row_count for file in files], np.int64)
    if chosen.all() or counts[chosen].sum() < _FEW * counts[~chosen].sum():
        chosen[:] = False
    return chosen


def _in_range(
    files: Sequence[KeyFile], searched: np.ndarray, read: Any, within: _Range
) -> list[np.ndarray]:
    """As `superseded_rows`, of the rows whose keys begin with some values."""
    rows: list[_Rows | None] = [None] * len(files)
    plain, others = np.flatnonzero(~searched), np.flatnonzero(searched)
    for at, found in zip(plain, _read_all(files, plain, read, within, None), strict=True):
        rows[at] = found
    if len(others):
        keys = pa.concat_tables([found.keys for found in rows if found is not None])
        among = [pc.unique(values.combine_chunks()) for values in keys.columns]
        for at, found in zip(others, _read_all(files, others, read, within, among), strict=True):
            rows[at] = found
    whole = [found for found in rows if found is not None]
    lost = _superseded([found.keys for found in whole])
    ends = np.cumsum([len(found.places) for found in whole])
    parts = np.split(lost, ends[:-1])
    return [
        found.places[gone] if file.wanted else found.places[:0]
        for file, found, gone in zip(files, whole, parts, strict=True)
    ]


def _read_all(
    files: Sequence[KeyFile], chosen: np.ndarray, read: Any, within: _Range, among: Any
) -> list[_Rows]:
    parts = [files[at].part for at in chosen]
    return parallel(lambda part: read(part, within, among), parts, at_once=_AT_ONCE)


def _superseded(keys: Sequence[pa.Table]) -> np.ndarray:
    """Of rows in order, the older first, which are not the last of their key."""
    rows = pa.concat_tables(keys)
    places = array(np.arange(rows.num_rows, dtype=np.int64))
    names = rows.schema.names
    newest = rows.append_column(_PLACE, places).group_by(names).aggregate([(_PLACE, "max")])
    lost = np.ones(rows.num_rows, np.bool_)
    lost[numbers(newest.column(f"{_PLACE}_max"))] = False
    return lost


_PLACE: Final = "place"  # beside columns that are called by their number


def _read(
    store: Store,
    target: pa.Schema,
    part: FilePart,
    within: _Range,
    among: Sequence[pa.Array] | None,
) -> _Rows:
    """Keys of one file.

    Args:
        among: Per column of the key values of which one must be there.
    """
    least = 0 if among is None else max(map(len, among))
    found = [_Rows(_named(pa.Table.from_batches([], target)), np.zeros(0, np.uint32))]
    for rows, places in in_pieces(_batches(store, part, target), target, max(least, _PIECE)):
        kept = _kept(rows, within)
        if among is not None:
            for values, some in zip(rows.columns, among, strict=True):
                kept &= numbers(pc.is_in(values, some)).astype(np.bool_)
        whole = bool(kept.all())
        keys = rows if whole else rows.filter(array(kept))
        numbered = places if whole else places[kept]
        found.append(_Rows(_named(keys), numbered.astype(np.uint32)))
    keys = pa.concat_tables([each.keys for each in found])
    return _Rows(keys, np.concatenate([each.places for each in found]))


def in_pieces(
    batches: Iterable[tuple[pa.RecordBatch, np.ndarray]], target: pa.Schema, least_rows: int
) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Batches and the numbers of their rows, put together to about so many rows at a time: what
    they are held against is prepared anew for each."""
    held: list[pa.RecordBatch] = []
    places: list[np.ndarray] = []
    for batch, numbered in batches:
        held.append(batch)
        places.append(numbered)
        if sum(map(len, places)) >= least_rows:
            yield pa.Table.from_batches(held, target), np.concatenate(places)
            held, places = [], []
    if held:
        yield pa.Table.from_batches(held, target), np.concatenate(places)


def _named(keys: pa.Table) -> pa.Table:
    """Columns called by their number, so that there is another name beside them."""
    return keys.rename_columns([str(number) for number in range(keys.num_columns)])


def _batches(store: Store, part: FilePart, target: pa.Schema) -> Any:
    """All rows of a file, whatever hides some of them, with the columns of a target."""
    bare = replace(part, hidden=None, row_groups=None, blooms=())
    return read_projected(store, bare, Projection(target), Bitmaps(store))


def _kept(rows: pa.Table, within: _Range) -> np.ndarray:
    """Which rows have a key, within a range."""
    tests = [pc.is_valid(values) for values in rows.columns if values.null_count]
    first = rows.column(0)
    if within.start is not None:
        tests.append(pc.greater_equal(first, within.start))
    if within.end is not None:
        tests.append(pc.less(first, within.end))
    kept = np.ones(rows.num_rows, np.bool_)
    for test in tests:
        kept &= numbers(pc.coalesce(test, _FALSE)).astype(np.bool_)
    return kept


_FALSE: Final = column([False], pa.bool_())[0]


def _ranges(
    store: Store,
    files: Sequence[KeyFile],
    searched: np.ndarray,
    target: pa.Schema,
) -> list[_Range]:
    """Ranges of the first column of the key in which about so many rows lie: of one value all."""
    plain = [file.part for file, other in zip(files, searched, strict=True) if not other]
    rows = sum(part.row_count for part in plain)
    count = -(-rows // MOST_ROWS)
    if count < 2:
        return [_Range()]
    first = pa.schema([target.field(0)])
    step = max(1, rows // _SAMPLE)

    def sampled(part: FilePart) -> list[pa.Array]:
        return [batch.column(0)[::step] for batch, _ in _batches(store, part, first)]

    found = [some for each in parallel(sampled, plain, at_once=_AT_ONCE) for some in each]
    values = pa.chunked_array(found, first.field(0).type).drop_null().combine_chunks()
    if not len(values):
        return [_Range()]  # no row has a key
    values = values.take(pc.sort_indices(values))
    at = np.unique(np.linspace(0, len(values) - 1, count + 1).astype(np.int64)[1:-1])
    cuts = pc.unique(values.take(array(at)))
    ends: list[Any] = [None, *cuts, None]
    return [_Range(start, end) for start, end in pairwise(ends)]
