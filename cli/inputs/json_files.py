"""Reads JSON files as batches of objects, one on each line, one array of them, or the output of
`lakelog scan --output json`; and converts their values to a type, exactly or not at all.

Python's own parser reads them. Arrow's reads no arrays, names no lines, takes 1.0 and
9007199254740993 for doubles, loses the zone of a time, and stops at "NaN". Numbers stay digits
until their type is known, so none is rounded, and the rules for csv (`texts`) hold for them, too.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import IO, TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import UsageError
from .texts import texts_as

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sources import Source

BLANK: Final = " \t\r\n"
ODD_FLOATS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_BATCH_ROWS: Final = 8_192
_BATCH_CHARS: Final = 8 << 20
_CHUNK: Final = 1 << 20
_LONGEST: Final = 1 << 28  # characters of one object
# The output of `lakelog scan` before its rows: without this it would all be read as one object.
_SCANNED: Final = re.compile(r'\s*\{"as_of": \{[^{}]*\}, "token": "ll1-[\w-]+", "rows": (?=\[)')
Rows = tuple[list[int], list[dict[str, Any]]]


def read_json(source: Source) -> Iterator[Rows]:
    """Yields the objects of a file, with the line of each. Raises `UsageError` for anything
    else."""
    lines: list[int] = []
    rows: list[dict[str, Any]] = []
    size = 0
    try:
        with source.open_text() as text:
            for line, row, length in _objects(text, source):
                if not isinstance(row, dict):
                    raise _unreadable(source, line, "this is no object")
                lines.append(line)
                rows.append(row)
                size += length
                if len(rows) >= _BATCH_ROWS or size >= _BATCH_CHARS:
                    yield lines, rows
                    lines, rows, size = [], [], 0
    except UnicodeDecodeError as error:
        raise source.undecodable() from error
    except OSError as error:
        raise _unreadable(source, 1, str(error)) from error
    if rows:
        yield lines, rows


def _objects(text: IO[str], source: Source) -> Iterator[tuple[int, Any, int]]:
    start, blank_lines = "", 0
    for part in text:
        start = part
        if part.strip(BLANK):
            break
        blank_lines += 1
    scanned = _SCANNED.match(start)
    if scanned or start.lstrip(BLANK).startswith("["):
        start = start[scanned.end() :] if scanned else start
        reader = _ArrayText(text, start, blank_lines + 1, source)
        yield from _array(reader, "]}" if scanned else "]", source)
        return
    for number, line in enumerate(itertools.chain([start], text), blank_lines + 1):
        if line.strip(BLANK):
            try:
                yield number, load(line), len(line)
            except (ValueError, RecursionError) as error:
                raise _unreadable(source, number, str(error)) from error


def _array(reader: _ArrayText, end: str, source: Source) -> Iterator[tuple[int, Any, int]]:
    """The elements of an array; only one at a time is held in memory, and a part of the text."""
    reader.take("[")
    if reader.sign() != "]":
        yield reader.value()
        while reader.sign() != "]":
            reader.take(",")
            yield reader.value()
    for sign in end:
        reader.take(sign)
    if reader.sign():
        raise _unreadable(source, reader.line, "the array is followed by something else")


class _ArrayText:
    """The text of an array, of which a part is in memory."""

    def __init__(self, text: IO[str], start: str, line: int, source: Source) -> None:
        self._text, self._held, self._source = text, start, source
        self._at = 0
        self.line = line

    def sign(self) -> str:
        """The next character that isn't blank; empty at the end."""
        while True:
            while self._at < len(self._held):
                sign = self._held[self._at]
                if sign not in BLANK:
                    return sign
                self.line += sign == "\n"
                self._at += 1
            self._held, self._at = self._text.read(_CHUNK), 0
            if not self._held:
                return ""

    def take(self, wanted: str) -> None:
        """Skip a character."""
        sign = self.sign()
        if sign != wanted:
            problem = f"there is {sign!r}" if sign else "the file ends"
            raise _unreadable(self._source, self.line, f"{problem} where {wanted!r} should be")
        self._at += 1

    def value(self) -> tuple[int, Any, int]:
        """The next element, with its line and its length."""
        self.sign()
        while True:
            try:
                element, end = _DECODER.raw_decode(self._held, self._at)
            except (ValueError, RecursionError) as error:  # or its end isn't read yet
                left = len(self._held) - self._at
                more = self._text.read(max(_CHUNK, left)) if left <= _LONGEST else ""
                if not more:
                    raise _unreadable(self._source, self.line, str(error)) from error
                self._held, self._at = self._held[self._at :] + more, 0
                continue
            line, length = self.line, end - self._at
            try:
                _check_text(element, self._held[self._at : end])
            except ValueError as error:
                raise _unreadable(self._source, line, str(error)) from error
            self.line += self._held.count("\n", self._at, end)
            self._at = end
            return line, element, length


def _unreadable(source: Source, line: int, problem: str) -> UsageError:
    return UsageError(
        f"{source.name}, line {line}, can't be read as json: {problem}",
        key=source.name,
        hint="It should hold an object on each line, or one array of objects; --format chooses "
        "another format. Nothing was committed",
    )


# --- Values ---------------------------------------------------------------------------------------


Number: Final = bytes  # the digits of a number: JSON has no other bytes, and str stays text


def load(text: str) -> Any:
    """Parse one JSON value; a ValueError if it is not valid, or an object has a key twice."""
    value = _DECODER.decode(text)
    _check_text(value, text)
    return value


def _check_text(found: Any, text: str) -> None:
    """Refuse half of a surrogate pair, which JSON can express and no text can hold."""
    if "\\u" in text:
        try:
            json.dumps(found, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise ValueError("it holds half of a surrogate pair, which is no text") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"a key is there twice: {max(names, key=names.count)!r}")
    return value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=str.encode,
    parse_int=str.encode,
    parse_constant=str.encode,
)


def as_type(values: pa.Array | list[Any], kind: pa.DataType, *, forced: bool = False) -> pa.Array:
    """Convert texts of a csv, or values of JSON, to a type. Nested values in a csv are JSON.

    Args:
        forced: The user has chosen the type.
    Raises:
        ValueError: One is no such value, or not exactly.
    """
    if isinstance(values, list):
        return _values_as(values, kind, forced=forced)
    if pa.types.is_nested(kind):
        return _values_as([None if t is None else load(t) for t in values.to_pylist()], kind)
    return texts_as(values, kind, forced=forced)


def _values_as(values: list[Any], kind: pa.DataType, *, forced: bool = False) -> pa.Array:
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _values_as(values, kind.storage_type))
    try:
        if types.is_nested(kind):
            return _nested(values, kind)
        if types.is_boolean(kind):
            _only(values, bool)
            return pa.array(values, kind)
        if types.is_integer(kind):
            _only(values, Number)
        elif types.is_floating(kind) or types.is_decimal(kind):
            _only(values, Number, str)
            for text in values:
                if type(text) is str and not _is_number(text, kind):
                    raise ValueError("not a number")
            forced = forced or types.is_decimal(kind)
        elif forced and types.is_string(kind):
            values = [str(v).lower() if isinstance(v, bool) else v for v in values]
            _only(values, Number, str)
        else:
            _only(values, str)
        return texts_as(pa.array(values, pa.string()), kind, forced=forced)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise ValueError(str(error)) from error


def _is_number(text: str, kind: pa.DataType) -> bool:
    """Tell whether a JSON text can be a number: `lakelog scan` prints decimals, NaN and infinities
    as texts."""
    return text == text.strip() if pa.types.is_decimal(kind) else text in ODD_FLOATS


def _only(values: list[Any], *kinds: type) -> None:
    others = set(map(type, values)) - {*kinds, type(None)}
    if others:
        raise ValueError(f"a {others.pop().__name__} among them")


def _nested(values: list[Any], kind: pa.DataType) -> pa.Array:
    missing = pa.array([value is None for value in values], pa.bool_())
    if pa.types.is_struct(kind):
        _only(values, dict)
        names = set(kind.names)
        if any(value is not None and not names.issuperset(value) for value in values):
            raise ValueError("an object with a key that the type doesn't have")
        fields = [kind.field(index) for index in range(kind.num_fields)]
        children = [
            _values_as([None if v is None else v.get(field.name) for v in values], field.type)
            for field in fields
        ]
        return pa.StructArray.from_arrays(children, fields=fields, mask=missing)
    _only(values, list)
    items = list(itertools.chain.from_iterable(value or () for value in values))
    lengths = (None if value is None else len(value) for value in values)
    ends = itertools.accumulate((length or 0 for length in lengths), initial=0)
    offsets = pa.array(list(ends), pa.int32())
    if pa.types.is_map(kind):
        if any(not isinstance(pair, list) or len(pair) != 2 for pair in items):
            raise ValueError("a map is a list of pairs")
        keys = _values_as([pair[0] for pair in items], kind.key_type)
        items_of_type = _values_as([pair[1] for pair in items], kind.item_type)
        return pa.MapArray.from_arrays(_holes(offsets, missing), keys, items_of_type, kind)
    inner = _values_as(items, kind.value_type)
    as_list = pa.ListArray.from_arrays(
        offsets, inner, type=pa.list_(kind.value_field), mask=missing if len(values) else None
    )
    return as_list if as_list.type.equals(kind) else as_list.cast(kind)


def _holes(offsets: pa.Array, missing: pa.Array) -> pa.Array:
    """Offsets with a null for each missing list, as `MapArray` needs them."""
    gaps = [*missing.to_pylist(), False]
    holes = [None if gap else end for end, gap in zip(offsets.to_pylist(), gaps, strict=True)]
    return pa.array(holes, pa.int32())
