"""JSON files as batches of objects: one on each line, or one array of them, which may stand in
what `lakelog scan --output json` prints.

Python's own parser reads them. Arrow's would take 1.0 and 9007199254740993 for doubles, lose the
zone of a time, and stop at "NaN".
"""

from __future__ import annotations

import itertools
import re
from typing import IO, TYPE_CHECKING, Any, Final

from ...errors import UsageError
from .json_values import BLANK, check_text, decoder, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sources import Source

_BATCH_ROWS: Final = 8_192
_BATCH_CHARS: Final = 8 << 20
_CHUNK: Final = 1 << 20
_LONGEST: Final = 1 << 28  # characters of one object
# What `lakelog scan` prints before its rows: without this the whole would pass for one object.
_SCANNED: Final = re.compile(r'\s*\{"as_of": \{[^{}]*\}, "token": "ll1-[\w-]+", "rows": (?=\[)')
Rows = tuple[list[int], list[dict[str, Any]]]


def read_json(source: Source) -> Iterator[Rows]:
    """The objects of a file, with the line of each.

    Raises:
        UsageError: It holds anything else.
    """
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
    """The elements of an array, of which only one is held at a time, and what was read ahead."""
    reader.take("[")
    if reader.sign() != "]":
        yield reader.value()
        while reader.sign() != "]":
            reader.take(",")
            yield reader.value()
    for sign in end:
        reader.take(sign)
    if reader.sign():
        raise _unreadable(source, reader.line, "something stands behind the array")


class _ArrayText:
    """The text of an array, held in part."""

    def __init__(self, text: IO[str], start: str, line: int, source: Source) -> None:
        self._text, self._held, self._source = text, start, source
        self._at = 0
        self.line = line

    def sign(self) -> str:
        """The next character that isn't blank; none at the end."""
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
        """Go over a character."""
        found = self.sign()
        if found != wanted:
            problem = f"{found!r} stands" if found else "the file ends"
            raise _unreadable(self._source, self.line, f"{problem} where {wanted!r} should be")
        self._at += 1

    def value(self) -> tuple[int, Any, int]:
        """The next element, with its line and its length."""
        self.sign()
        while True:
            try:
                found, end = decoder().raw_decode(self._held, self._at)
            except (ValueError, RecursionError) as error:  # or it isn't read to its end yet
                left = len(self._held) - self._at
                more = self._text.read(max(_CHUNK, left)) if left <= _LONGEST else ""
                if not more:
                    raise _unreadable(self._source, self.line, str(error)) from error
                self._held, self._at = self._held[self._at :] + more, 0
                continue
            line, length = self.line, end - self._at
            try:
                check_text(found, self._held[self._at : end])
            except ValueError as error:
                raise _unreadable(self._source, line, str(error)) from error
            self.line += self._held.count("\n", self._at, end)
            self._at = end
            return line, found, length


def _unreadable(source: Source, line: int, problem: str) -> UsageError:
    return UsageError(
        f"{source.name}, line {line}, can't be read as json: {problem}",
        key=source.name,
        hint="It should hold an object on each line, or one array of objects; --format says if it "
        "is of another format. Nothing was committed",
    )
