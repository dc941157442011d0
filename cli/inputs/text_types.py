"""The type that all texts of a column have: found over all files before any is written. Each type
that is still possible is held against each batch; the first text that breaks it is kept.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from .places import Place, Seen
from .texts import INTEGER, MOMENT, NAIVE, NUMBER, ZONED, first_misfit, matches, texts_as, trimmed

if TYPE_CHECKING:
    from collections.abc import Callable

    from .sources import Source

    Line = Callable[[int], int]

# In order of preference.
_TYPES: Final = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "naive us": pa.timestamp("us"),
    "naive ns": pa.timestamp("ns"),
    "zoned us": pa.timestamp("us", "UTC"),
    "zoned ns": pa.timestamp("ns", "UTC"),
    "time ms": pa.time32("ms"),
    "time us": pa.time64("us"),
    "time ns": pa.time64("ns"),
}
# What all texts look like that have no type in common, to tell a conflict from plain text.
_LOOKS: Final = {"number": NUMBER, "naive": NAIVE, "zoned": ZONED, "moment": MOMENT}
_TIMES: Final = ("date", "naive us", "naive ns", "zoned us", "zoned ns", "naive", "zoned", "moment")
_IMPLIED_BY: Final = {
    "double": {"small int64"},
    "number": {"int64", "small int64", "double"},
    "naive us": {"date"},
    "naive ns": {"date"},
    "naive": {"naive us"},
    "zoned": {"zoned us"},
    "moment": {"naive", "zoned"},
}
_EXACT: Final = 1 << 53
_INT64: Final = 1 << 63


class TextTypes:
    """What the texts of one column can be.

    Args:
        times_only: They are strings of JSON: true and 7 would stand without quotes.
    """

    def __init__(self, *, times_only: bool = False) -> None:
        names = [*_TYPES, *_LOOKS]
        self._alive = [name for name in names if not times_only or name in _TIMES]
        self.broken: dict[str, Seen] = {}
        self.first: Seen | None = None  # text that is there at all

    def feed(self, texts: pa.Array, source: Source, line: Line) -> None:
        """Hold more texts against the types.

        Args:
            line: Of a text, by its place among them.
        """
        if texts.null_count == len(texts):
            return
        if self.first is None:
            self.first = _seen(texts, pc.index(pc.is_valid(texts), True).as_py(), source, line)
        if not self._alive:
            return
        bare = trimmed(texts)
        passed: set[str] = set()
        for name in list(self._alive):
            if _IMPLIED_BY.get(name, set()) & passed:
                passed.add(name)
                continue
            place = first_misfit(len(texts), partial(_fits, name, bare))
            if place >= 0:
                self._alive.remove(name)
                self.broken[name] = _seen(texts, place, source, line)
            else:
                passed.add("small int64" if name == "int64" and _are_small(bare) else name)

    def found(self) -> pa.DataType | tuple[tuple[pa.DataType, Seen], tuple[pa.DataType, Seen]]:
        """The one type of all texts; or two that have none in common, and who says so."""
        if self.first is None:
            return pa.null()
        for name in self._alive:
            if name in _TYPES:
                return _TYPES[name]
        naive, zoned = self.broken.get("zoned"), self.broken.get("naive")
        if "moment" in self._alive and naive is not None and zoned is not None:
            return (_TYPES["naive us"], naive), (_TYPES["zoned us"], zoned)
        real, large = self.broken.get("int64"), self.broken.get("double")
        if "number" in self._alive and real is not None and large is not None:  # noqa: SIM102
            if _is_int64(large.value) and not _is_integer(real.value):
                return (_TYPES["double"], real), (_TYPES["int64"], large)
        return pa.string()


def _fits(name: str, texts: pa.Array, start: int, length: int) -> bool:
    texts = texts.slice(start, length)
    if name in _LOOKS:
        return matches(texts, _LOOKS[name])
    try:
        texts_as(texts, _TYPES[name])
    except ValueError:
        return False
    return True


def _are_small(texts: pa.Array) -> bool:
    """Whether all of these integers are doubles, too."""
    span = pc.min_max(texts.cast(pa.int64()))
    return bool(max(-(span["min"].as_py() or 0), span["max"].as_py() or 0) <= _EXACT)


def _seen(texts: pa.Array, place: int, source: Source, line: Line) -> Seen:
    return Seen(texts[place].as_py(), Place(source, lambda: line(place)))


def _is_integer(text: str) -> bool:
    return matches(pa.array([text.strip()]), INTEGER)


def _is_int64(text: str) -> bool:
    return _is_integer(text) and -_INT64 <= int(text) < _INT64
