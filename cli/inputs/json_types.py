"""The type that all values of JSON in a column have, found over all files before any is written."""

from __future__ import annotations

import decimal
import itertools
import math
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from .json_values import ODD_FLOATS
from .places import Place, Seen
from .text_types import TextTypes

if TYPE_CHECKING:
    from .sources import Source

    Conflict = tuple[tuple[pa.DataType, Seen], tuple[pa.DataType, Seen]]

_KINDS: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    float: "real",
    decimal.Decimal: "real",
    str: "text",
    list: "list",
    dict: "struct",
}
_SAID: Final = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "real": pa.float64(),
    "text": pa.string(),
    "list": pa.list_(pa.null()),
    "struct": pa.struct([]),
}
_EXACT: Final = 1 << 53
_INT64: Final = 1 << 63


class JsonTypes:
    """What the values of one column can be, and those inside them."""

    def __init__(self) -> None:
        self._first: dict[str, Seen] = {}
        self._inexact: Seen | None = None  # an integer that no double holds
        self._huge: Seen | None = None  # a number that neither int64 nor double holds
        self._texts = TextTypes(times_only=True)
        self._real_words = True  # all texts are NaN and the like
        self._items: JsonTypes | None = None
        self._fields: dict[str, JsonTypes] = {}

    def feed(self, values: list[Any], source: Source, lines: list[int]) -> None:
        """Take in more values, with the line of each."""
        kinds = dict.fromkeys(map(type, values))  # in order
        kinds.pop(type(None), None)
        for kind in kinds:
            name = _KINDS[kind]
            if name not in self._first:
                place = next(i for i, value in enumerate(values) if type(value) is kind)
                self._first[name] = _seen(values[place], source, lines[place])
        if decimal.Decimal in kinds:
            self._feed_reals(values, source, lines)
        if int in kinds:
            self._feed_integers(values, source, lines)
        if str in kinds:
            texts = [value if type(value) is str else None for value in values]
            self._real_words &= {t for t in texts if t is not None} <= ODD_FLOATS
            self._texts.feed(pa.array(texts, pa.string()), source, lines.__getitem__)
        if list in kinds:
            self._feed_items(values, source, lines)
        if dict in kinds:
            self._feed_fields(values, source, lines)

    def _feed_items(self, values: list[Any], source: Source, lines: list[int]) -> None:
        lists = [(value, line) for value, line in zip(values, lines) if type(value) is list]
        items = list(itertools.chain.from_iterable(value for value, _ in lists))
        self._items = self._items or JsonTypes()
        self._items.feed(items, source, [line for value, line in lists for _ in value])

    def _feed_fields(self, values: list[Any], source: Source, lines: list[int]) -> None:
        objects = [(value, line) for value, line in zip(values, lines) if type(value) is dict]
        places = [line for _, line in objects]
        for name in dict.fromkeys(name for value, _ in objects for name in value):
            inner = self._fields.setdefault(name, JsonTypes())
            inner.feed([value.get(name) for value, _ in objects], source, places)

    def _feed_reals(self, values: list[Any], source: Source, lines: list[int]) -> None:
        for value, line in zip(values, lines):
            if self._huge is None and type(value) is decimal.Decimal and math.isinf(float(value)):
                self._huge = _seen(value, source, line)

    def _feed_integers(self, values: list[Any], source: Source, lines: list[int]) -> None:
        whole = [value for value in values if type(value) is int]
        widest = max(whole, key=abs)
        if abs(widest) > _EXACT and self._inexact is None:
            place = next(i for i, v in enumerate(values) if type(v) is int and abs(v) > _EXACT)
            self._inexact = _seen(values[place], source, lines[place])
        if self._huge is None and (max(whole) >= _INT64 or min(whole) < -_INT64):
            huge = next(v for v in whole if not -_INT64 <= v < _INT64)
            self._huge = _seen(huge, source, lines[values.index(huge)])

    def found(self) -> pa.DataType | Conflict | Seen:
        """The one type of all values; or two that have none in common, and who says so; or a value
        that has none."""
        seen = dict(self._first)
        if "text" in seen and self._real_words and {"int", "real"} & set(seen):
            seen.setdefault("real", seen.pop("text"))  # NaN among numbers
        if self._huge is not None:
            return self._huge
        if set(seen) == {"int", "real"}:
            if self._inexact is not None:
                return (pa.float64(), seen["real"]), (pa.int64(), self._inexact)
            return pa.float64()
        if len(seen) > 1:
            (one, first), (other, second) = list(seen.items())[:2]
            return (_SAID[one], first), (_SAID[other], second)
        if "text" in seen:
            return self._texts.found()
        if self._items is not None:
            inner = self._items.found()
            return pa.list_(inner) if isinstance(inner, pa.DataType) else inner
        if "struct" in seen:
            return self._struct()
        return _SAID[next(iter(seen))] if seen else pa.null()

    def _struct(self) -> pa.DataType | Conflict | Seen:
        fields = []
        for name, inner in self._fields.items():
            kind = inner.found()
            if not isinstance(kind, pa.DataType):
                return kind
            fields.append((name, kind))
        return pa.struct(fields)


def _seen(value: Any, source: Source, line: int) -> Seen:
    return Seen(value, Place(source, lambda: line))
