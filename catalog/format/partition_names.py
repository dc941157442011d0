"""Names of partitions that say values of columns, as `year=2026/month=11`, as Hive has them. Pure.

Source: docs/format.md, section 5.4.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from .names import escape_name

if TYPE_CHECKING:
    from collections.abc import Iterable

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
# What Hive and Spark escape, and the other half of each pair of brackets.
_ESCAPED: Final = frozenset("\"#%'*/:=?\\{}[]^") | set(map(chr, (*range(0x20), 0x7F)))
_ESCAPE: Final = re.compile("[" + "".join(map(re.escape, sorted(_ESCAPED))) + "]")
_HEX: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_FOLDER: Final = re.compile(r"[^=]+=.*", re.DOTALL)


def partition_name(values: Iterable[tuple[str, str | None]]) -> str:
    """The name of the partition of some values.

    Args:
        values: Columns, and the text of the value of each; None is null.
    Raises:
        InvalidName: It is longer than 255 bytes, percent-encoded, or no Unicode.
    """
    name = "/".join(f"{_escaped(column)}={_value(text)}" for column, text in values)
    escape_name(name, "partition")
    return name


def parse_partition(name: str) -> dict[str, str | None]:
    """The columns that a partition's name tells of, and the text of the value of each; None is
    null. Parts without `=` or with an invalid escape tell of no column, nor does a column that
    stands twice.
    """
    found: dict[str, str | None] = {}
    twice = set()
    for part in name.split("/"):
        key, equals, text = part.partition("=")
        column, value = _unescaped(key), _unescaped(text)
        if not equals or not column or value is None:
            continue
        if column in found:
            twice.add(column)
        found[column] = None if text == NULL else value
    return {column: value for column, value in found.items() if column not in twice}


def hive_partition(path: str) -> str:
    """The partition that the folders right above a file name.

    Args:
        path: A key, path or URL with `/` between its segments.
    Returns:
        Those folders as they stand, `name=value` each, joined by `/`; empty if there are none.
    """
    above = reversed(path.split("/")[:-1])
    named = [*takewhile(_FOLDER.fullmatch, above)]
    return "/".join(reversed(named))


def _value(text: str | None) -> str:
    if text is None:
        return NULL
    return "%5F" + text[1:] if text == NULL else _escaped(text)


def _escaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _unescaped(text: str) -> str | None:
    if "%" not in text:
        return text
    if _HEX.search(text):
        return None
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        return None
