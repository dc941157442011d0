"""Which files of a table may hold rows of the same key: what the logs know of its columns, as
ranges that meet or don't. No file is read.

Source: docs/changing.md, "Keys"; docs/format.md, section 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ..format import compute as pc
from ..format.columns import array, column, numbers
from ..format.schema import once_columns
from ..format.statistics import bound_type
from ..format.statistics_rows import is_text_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..data.shown import Shown
    from ..where.outcomes import Bounds, Facts
    from .table_facts import TableFacts

_LEAST: Final = np.iinfo(np.int64).min
_GREATEST: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """The live files of a table that hold keys, in all logs of a cut, each by its place.

    Attributes:
        logs: Per file its log, by number.
        paths: Per file its path there, as an array of strings.
        rows: Per file how many it has.
        low, high: Per file the least and the greatest value that the first column of the key may
            have, as ranks.
        once: Per file whether it holds each key once, for certain.
    """

    logs: np.ndarray
    paths: pa.Array
    rows: np.ndarray
    low: np.ndarray
    high: np.ndarray
    once: np.ndarray

    def meeting(self, some: np.ndarray) -> np.ndarray:
        """Per file how many of some files have a range that meets its own; itself counts.

        Args:
            some: Places, or a mask.
        """
        starts, ends = np.sort(self.low[some]), np.sort(self.high[some])
        before = np.searchsorted(ends, self.low, "left")
        behind = len(starts) - np.searchsorted(starts, self.high, "right")
        found: np.ndarray = len(starts) - before - behind
        return found

    def touched(self) -> np.ndarray:
        """Which files may hold a key that another row has."""
        everyone = np.ones(len(self.rows), np.bool_)
        found: np.ndarray = (self.meeting(everyone) > 1) | ~self.once
        return found

    def groups(self, wanted: np.ndarray) -> list[np.ndarray]:
        """What must be looked into to resolve the keys of some files: groups of files, by place, of
        which no two share a key.

        Args:
            wanted: Which, as a mask.
        """
        if not wanted.any():
            return []
        places = np.flatnonzero(self.meeting(wanted) > 0)
        places = places[np.argsort(self.low[places], kind="stable")]
        reached = np.maximum.accumulate(self.high[places])
        starts = np.flatnonzero(self.low[places][1:] > reached[:-1]) + 1
        return np.split(places, starts)


@dataclass(frozen=True, slots=True)
class _Some:
    """Files of one log and one schema: bounds as the log has them."""

    logs: np.ndarray
    paths: pa.Array
    rows: np.ndarray
    once: np.ndarray
    kind: pa.DataType | None
    low: Bounds | None
    high: Bounds | None


def key_ranges(logs: Sequence[TableFacts], target: pa.Schema) -> KeyRanges:
    """What some logs know of the files of one table.

    Args:
        target: The columns of the key, as the cut has them.
    Requests: Those of `TableFacts.of_files` of these columns.
    """
    found: list[_Some] = []
    for number, facts in enumerate(logs):
        for source in facts.of_files(target.names):
            for members, facts_of in source.units.by_schema(target):
                shown = source.units.schemas[source.units.schema_numbers[members[0]]]
                known = [facts_of(name) for name in target.names]
                held = _with_keys(known, target, shown) & source.live[members]
                if held.any():
                    paths = source.files.column("path").take(array(members[held]))
                    found.append(_some(number, paths, known, held, _holds_once(shown, target)))
    rows = _joined([some.rows for some in found])
    known_low, low, known_high, high = _ranks(found, target.field(0).type)
    return KeyRanges(
        logs=_joined([some.logs for some in found]),
        paths=pa.concat_arrays([some.paths for some in found])
        if found
        else column((), pa.string()),
        rows=rows,
        low=np.where(known_low, low, _LEAST),
        high=np.where(known_high, high, _GREATEST),
        once=_joined([some.once for some in found]).astype(np.bool_),
    )


def _with_keys(known: Sequence[Facts], target: pa.Schema, shown: Shown) -> np.ndarray:
    """Which files may hold a row without null in any column of the key."""
    there = shown.found(target)
    held = np.ones(len(known[0].rows), np.bool_)
    for name, facts in zip(target.names, known, strict=True):
        if name not in there.defaults and name not in there.stored:
            held[:] = False
        held &= (facts.nulls < facts.rows) | (facts.nulls < 0)
    return held & (known[0].rows > 0)


def _holds_once(shown: Shown, target: pa.Schema) -> bool:
    """Whether files of a schema are marked to hold each value of some columns of the key once."""
    marked = set(once_columns(shown.own))
    return bool(marked) and marked.issubset(shown.found(target).stored.values())


def _some(
    number: int, paths: pa.ChunkedArray, known: Sequence[Facts], held: np.ndarray, once: bool
) -> _Some:
    first, count = known[0], int(held.sum())
    return _Some(
        np.full(count, number, np.int64),
        paths.combine_chunks(),
        first.rows[held],
        np.full(count, once),
        first.kind,
        _taken(first.low, held),
        _taken(first.high, held),
    )


def _taken(bounds: Bounds | None, held: np.ndarray) -> Bounds | None:
    from ..where.outcomes import Bounds as Found

    if bounds is None:
        return None
    is_array = isinstance(bounds.values, np.ndarray)
    values = bounds.values[held] if is_array else pc.filter(bounds.values, array(held))
    return Found(values, bounds.known[held])


def _ranks(
    found: Sequence[_Some], kind: pa.DataType
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Which lower bounds are known, and these; likewise the upper ones. Bounds are compared where
    they are of one type, that of the cut: others are unknown."""
    wanted = bound_type(kind)
    same = [wanted is not None and _bounds_of(some) == wanted for some in found]
    lows = [some.low if fits else None for some, fits in zip(found, same, strict=True)]
    highs = [some.high if fits else None for some, fits in zip(found, same, strict=True)]
    counts = [len(some.rows) for some in found]
    low, high = _known(lows, counts), _known(highs, counts)
    if wanted is None or not is_text_kind(wanted):
        return low, _numbers(lows, counts), high, _numbers(highs, counts)
    texts = [
        _texts(bounds, count) for bounds, count in zip([*lows, *highs], counts * 2, strict=True)
    ]
    ranks = _dense(texts)
    return low, ranks[: len(low)], high, ranks[len(low) :]


def _bounds_of(some: _Some) -> pa.DataType | None:
    return None if some.kind is None else bound_type(some.kind)


def _dense(texts: Sequence[pa.Array]) -> np.ndarray:
    if not texts:
        return np.zeros(0, np.int64)
    ranked: Callable[..., pa.Array] = pc.rank
    return numbers(ranked(pa.concat_arrays(texts), tiebreaker="dense")).astype(np.int64)


def _known(parts: Sequence[Bounds | None], counts: Sequence[int]) -> np.ndarray:
    nothing = [np.zeros(count, np.bool_) for count in counts]
    found = [n if b is None else b.known for b, n in zip(parts, nothing, strict=True)]
    return _joined(found).astype(np.bool_)


def _numbers(parts: Sequence[Bounds | None], counts: Sequence[int]) -> np.ndarray:
    nothing = [np.zeros(count, np.int64) for count in counts]
    return _joined([n if b is None else b.values for b, n in zip(parts, nothing, strict=True)])


def _texts(bounds: Bounds | None, count: int) -> pa.Array:
    if bounds is None:
        return pa.nulls(count, pa.binary())
    values = bounds.values
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
