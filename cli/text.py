"""Text for people: aligned columns, readable numbers, nothing that could upset a terminal."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GAP: Final = "  "
MAX_CELL: Final = 100
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")


def count(value: int) -> str:
    """A number with thousands separators: `26,115`."""
    return f"{value:,}"


def size(value: int) -> str:
    """A size in bytes for people: `512 B`, `31.2 KiB`."""
    if value < 1024:
        return f"{value} B"
    number, power = value / 1024, 0
    while number >= 1023.95 and power < len(_UNITS) - 1:
        number, power = number / 1024, power + 1
    return f"{number:.1f} {_UNITS[power]}"


def many(number: int, noun: str) -> str:
    """A number with its noun: `1 file`, `1,200 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def printable(value: str) -> str:
    """The text with control characters made visible: no name can move the cursor."""
    if value.isprintable():
        return value
    return "".join(_visible(char) for char in value)


def _visible(char: str) -> str:
    if char.isprintable() or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return char
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def width(value: str) -> int:
    """How many columns of a terminal a printable text takes."""
    if value.isascii():
        return len(value)
    shown = [char for char in value if not unicodedata.combining(char)]
    return len(shown) + sum(unicodedata.east_asian_width(char) in "WF" for char in shown)


def cell(value: str) -> str:
    """A text fit for one cell: printable, and cut where it is very long."""
    if len(value) > MAX_CELL:
        value = value[: MAX_CELL - 1] + "…"
    return printable(value)


def widths(rows: Sequence[Sequence[str]], least: Sequence[int] = ()) -> list[int]:
    """The width of each column."""
    wide = list(least) or [0] * max((len(row) for row in rows), default=0)
    for row in rows:
        for index, value in enumerate(row):
            wide[index] = max(wide[index], width(value))
    return wide


def lines(
    rows: Sequence[Sequence[str]], column_widths: Sequence[int], right: Sequence[bool]
) -> Iterator[str]:
    """Rows as aligned lines without trailing blanks.

    Args:
        right: For each column, whether it is aligned to the right, as numbers are.
    """
    for row in rows:
        padded = [
            " " * (wide - width(value)) + value if flush else value + " " * (wide - width(value))
            for value, wide, flush in zip(row, column_widths, right, strict=True)
        ]
        yield GAP.join(padded).rstrip()
