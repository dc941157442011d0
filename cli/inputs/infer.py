"""Infers the types of columns from all csv and JSON files together, before any is written, or
checks that all values have a given type.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ...catalog.format.schema import MAX_LEVELS
from ...errors import UsageError
from .csv_files import CsvOptions, line_of, read_csv
from .json_files import ODD_FLOATS, Number, as_type, read_json
from .sources import SEPARATED
from .texts import INTEGER, MOMENT, NAIVE, NUMBER, ZONED, matches, texts_as, trimmed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .sources import Source

    Line = Callable[[int], int]  # the line of a value, by its index
    Values = Any  # texts of a csv as an Arrow array, or values of JSON as a list
    Conflict = tuple[tuple[pa.DataType, "Seen"], tuple[pa.DataType, "Seen"]]

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
# Patterns that all texts match although they have no type in common: a conflict, not plain text.
_LOOKS: Final = {"number": NUMBER, "naive": NAIVE, "zoned": ZONED, "moment": MOMENT}
_NUMBERS: Final = ("int64", "double")
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
# The type of a JSON value of which nothing more is known, for messages.
_JSON_TYPES: Final[dict[type, pa.DataType]] = {
    bool: pa.bool_(),
    str: pa.string(),
    list: pa.list_(pa.null()),
    dict: pa.struct([]),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """The first value that decides something.

    Attributes:
        value: The value.
        source: Its file.
        line: Finds its line, counted from 1; it may read the file for that.
    """

    value: Any
    source: Source
    line: Callable[[], int]

    def __str__(self) -> str:
        text, place = self.value, f"{self.source.name}, line {self.line()}"
        if isinstance(text, (list, dict)):
            text = json.dumps(_numeric(text), ensure_ascii=False)
        text = text.decode() if isinstance(text, Number) else str(text)
        return f"{place} ({text[:60]!r})" if text else place


def _numeric(value: Any) -> Any:
    """A value of JSON with its numbers as numbers."""
    if isinstance(value, dict):
        return {name: _numeric(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_numeric(inner) for inner in value]
    if isinstance(value, Number):
        return int(value) if len(value) <= 20 and _is_integer(value.decode()) else float(value)
    return value


def _seen(values: Values, index: int, source: Source, line: Line) -> Seen:
    value = values[index]
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    return Seen(plain, source, partial(line, index))


class TextTypes:
    """The types that all texts of a column have. Each type that is still possible is checked with
    each batch; the first text that rules it out is kept.

    Args:
        names: The types to consider, and the patterns.
    """

    def __init__(self, names: Iterable[str] = (*_TYPES, *_LOOKS)) -> None:
        self._possible = list(names)
        self._are_numbers = "number" not in self._possible and "int64" in self._possible
        self.ruled_out: dict[str, Seen] = {}
        self.last: Seen | None = None  # the first text without which another type were possible
        self._texts = 0
        self.first: Seen | None = None  # the first text that isn't null

    def feed(self, texts: pa.Array, source: Source, line: Line) -> None:
        """Check more texts."""
        if texts.null_count == len(texts):
            return
        if self.first is None:
            self.first = _seen(texts, pc.index(pc.is_valid(texts), True).as_py(), source, line)
        bare = trimmed(texts) if self._possible else texts
        passed: set[str] = set()
        latest = pc.index(pc.is_valid(texts), True).as_py() if self._texts == 0 else -1
        self._texts += len(texts)
        for name in list(self._possible):
            if _IMPLIED_BY.get(name, set()) & passed:
                passed.add(name)
                continue
            index = _first_misfit(len(texts), partial(_fits, name, bare))
            if index >= 0:
                self._possible.remove(name)
                self.ruled_out[name] = _seen(texts, index, source, line)
                if name in _TYPES and index > latest:
                    latest, self.last = index, self.ruled_out[name]
            else:
                passed.add("small int64" if name == "int64" and _are_small(bare) else name)

    def inferred(self) -> pa.DataType | Conflict:
        """The one type of all texts; or two that have none in common, each with a text."""
        if self.first is None:
            return pa.null()
        for name in self._possible:
            if name in _TYPES:
                return _TYPES[name]
        naive, zoned = self.ruled_out.get("zoned"), self.ruled_out.get("naive")
        if "moment" in self._possible and naive is not None and zoned is not None:
            return (_TYPES["naive us"], naive), (_TYPES["zoned us"], zoned)
        real, large = self.ruled_out.get("int64"), self.ruled_out.get("double")
        are_numbers = self._are_numbers or "number" in self._possible
        if are_numbers and real is not None and large is not None:
            whole = large.value.strip()  # Python converts no integer of thousands of digits
            is_int64 = len(whole) <= 20 and _is_integer(whole) and -_INT64 <= int(whole) < _INT64
            if is_int64 and not _is_integer(real.value):
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


def _first_misfit(length: int, fits: Callable[[int, int], bool]) -> int:
    """The index of the first value that doesn't fit, or -1; `fits` checks (start, length)."""
    if not length or fits(0, length):
        return -1
    start = 0
    while length > 1:
        half = length // 2
        if fits(start, half):
            start, length = start + half, length - half
        else:
            length = half
    return start


def _are_small(texts: pa.Array) -> bool:
    """Tell whether all of these integers are doubles, too."""
    span = pc.min_max(texts.cast(pa.int64()))
    return bool(max(-(span["min"].as_py() or 0), span["max"].as_py() or 0) <= _EXACT)


def _is_integer(text: str) -> bool:
    return matches(pa.array([text.strip()]), INTEGER)


class JsonTypes:
    """The types that all values of JSON in a column have, and those inside them.

    Args:
        level: Of these values in Parquet.
    """

    def __init__(self, level: int = 1) -> None:
        self._level = level
        self._first: dict[type, Seen] = {}
        self._numbers = TextTypes(_NUMBERS)
        self._texts = TextTypes(_TIMES)  # true and 7 would have no quotes
        self._odd_only = True  # all texts are NaN or infinities
        self._items: JsonTypes | None = None
        self._fields: dict[str, JsonTypes] = {}

    def feed(self, values: list[Any], source: Source, line: Line) -> None:
        """Check more values. Raises `UsageError` if they are nested too deep to be written."""
        if self._level > MAX_LEVELS:
            raise UsageError(
                f"{source.name}, line {line(0)}: a value is nested over {MAX_LEVELS} levels deep, "
                "which can't be read from Parquet",
                key=source.name,
                hint="An object takes one level, an array two. Nothing was committed",
            )
        kinds = dict.fromkeys(map(type, values))  # in order
        kinds.pop(type(None), None)
        for kind in kinds:
            if kind not in self._first:
                index = next(i for i, value in enumerate(values) if type(value) is kind)
                self._first[kind] = _seen(values, index, source, line)
        if str in kinds:
            texts = [value if type(value) is str else None for value in values]
            self._odd_only &= {text for text in texts if text is not None} <= ODD_FLOATS
            self._texts.feed(pa.array(texts, pa.string()), source, line)
        if Number in kinds or (str in kinds and self._odd_only):
            numbers = [v if type(v) is Number or type(v) is str else None for v in values]
            self._numbers.feed(pa.array(numbers, pa.string()), source, line)
        if list in kinds:
            self._items = self._items or JsonTypes(self._level + 2)
            at = [i for i, value in enumerate(values) if type(value) is list for _ in value]
            lists = (value for value in values if type(value) is list)
            items = list(itertools.chain.from_iterable(lists))
            self._items.feed(items, source, lambda index: line(at[index]))
        if dict in kinds:
            rows = [i for i, value in enumerate(values) if type(value) is dict]
            for name in dict.fromkeys(name for i in rows for name in values[i]):
                inner = self._fields.setdefault(name, JsonTypes(self._level + 1))
                inner_values = [values[i].get(name) for i in rows]
                inner.feed(inner_values, source, lambda index: line(rows[index]))

    def inferred(self) -> pa.DataType | Conflict | Seen:
        """The one type of all values; or two that have none in common, each with a value; or a
        value that has none."""
        kinds = set(self._first)
        if Number in kinds and (kinds == {Number} or (kinds == {Number, str} and self._odd_only)):
            kind = self._numbers.inferred()
            return self._numbers.ruled_out["double"] if kind == pa.string() else kind
        if len(kinds) > 1:
            (one, first), (other, second) = list(self._first.items())[:2]
            return (_json_type(one, first), first), (_json_type(other, second), second)
        if str in kinds:
            return self._texts.inferred()
        if self._items is not None:
            inner = self._items.inferred()
            return pa.list_(inner) if isinstance(inner, pa.DataType) else inner
        if dict in kinds:
            fields = []
            for name, types in self._fields.items():
                kind = types.inferred()
                if not isinstance(kind, pa.DataType):
                    return kind
                fields.append((name, kind))
            return pa.struct(fields)
        return pa.bool_() if kinds else pa.null()


def _json_type(kind: type, first: Seen) -> pa.DataType:
    if kind is Number:
        return pa.int64() if _is_integer(first.value.decode()) else pa.float64()
    return _JSON_TYPES[kind]


@dataclass(slots=True)
class Column:
    """The values of one column.

    Attributes:
        wanted: The type that they should have; None: infer it.
        forced: The user has chosen that type.
        misfit: The first value that doesn't have that type.
        texts, values: The types of the values in csv and in JSON.
    """

    wanted: pa.DataType | None = None
    forced: bool = False
    misfit: Seen | None = None
    texts: TextTypes = field(default_factory=TextTypes)
    values: JsonTypes = field(default_factory=JsonTypes)

    def feed(self, values: Values, source: Source, line: Line) -> None:
        """Check more texts of a csv, or values of JSON."""
        if self.wanted is None:
            types = self.values if isinstance(values, list) else self.texts
            types.feed(values, source, line)
        elif self.misfit is None:
            index = _first_misfit(len(values), partial(self._fits, values))
            if index >= 0:
                self.misfit = _seen(values, index, source, line)

    def _fits(self, values: Values, start: int, length: int) -> bool:
        try:
            as_type(values[start : start + length], self.wanted, forced=self.forced)
        except ValueError:
            return False
        return True


def survey(
    sources: Sequence[Source],
    options: CsvOptions,
    wanted: Mapping[str, tuple[pa.DataType, bool]],
    only: set[str] | None = None,
    step: Callable[[], None] = lambda: None,
) -> dict[str, Column]:
    """Read all files once, and infer or check the types of their columns, in the order of their
    first occurrence.

    Args:
        wanted: Types that columns should have, and whether the user has chosen them.
        only: Only these columns; None: all.
        step: Called after each file.
    """
    columns: dict[str, Column] = {}
    for source in sources:
        is_csv = source.form in SEPARATED
        batches = (
            _csv_batches(source, options)
            if is_csv
            else (
                (name, [row.get(name) for row in rows], lines.__getitem__)
                for lines, rows in read_json(source)
                for name in dict.fromkeys(name for row in rows for name in row)
            )
        )
        for name, values, line in batches:
            if only is None or name in only:
                column = columns.setdefault(name, Column(*wanted.get(name, ())))
                if len(values):
                    column.feed(values, source, line)
        step()
    return columns


def _csv_batches(source: Source, options: CsvOptions) -> Iterable[tuple[str, pa.Array, Line]]:
    for first, batch in read_csv(source, options):

        def line(index: int, first: int = first) -> int:
            return line_of(source, options, first + index)

        for name, texts in zip(batch.schema.names, batch.columns):
            yield name, texts, line
