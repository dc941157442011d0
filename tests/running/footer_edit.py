"""Edits the footer of a Parquet file: makes files as other programs wrote them, mistakes included.

A footer is one Thrift struct in the compact protocol. Here a struct is `{field id: (type, value)}`
and a list is `(type of its items, items)`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_TRUE, _FALSE, _BYTE, _DOUBLE, BINARY, _LIST, _STRUCT = 1, 2, 3, 7, 8, 9, 12
INTEGERS: Final = (4, 5, 6)
I64: Final = 6
_CREATED_BY, _ROW_GROUPS, _COLUMN_ORDERS = 6, 4, 7
_COLUMNS, _META, _STATISTICS = 1, 3, 12
OLD_MAX, OLD_MIN, NULL_COUNT, MAX_VALUE, MIN_VALUE = 1, 2, 3, 5, 6


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def unsigned(self) -> int:
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def signed(self) -> int:
        found = self.unsigned()
        return (found >> 1) ^ -(found & 1)

    def value(self, kind: int, *, in_list: bool = False) -> Any:
        if kind in (_TRUE, _FALSE):
            return self.byte() == _TRUE if in_list else kind == _TRUE
        if kind == _BYTE:
            return self.byte()
        if kind in INTEGERS:
            return self.signed()
        if kind == _DOUBLE:
            return self.take(8)
        if kind == BINARY:
            return self.take(self.unsigned())
        if kind == _LIST:
            head = self.byte()
            size = head >> 4 if head >> 4 < 15 else self.unsigned()
            return head & 15, [self.value(head & 15, in_list=True) for _ in range(size)]
        assert kind == _STRUCT, kind
        return self.struct()

    def struct(self) -> dict[int, tuple[int, Any]]:
        found, number = {}, 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.signed()
            found[number] = (head & 15, self.value(head & 15))
        return found


def _unsigned(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _encoded(kind: int, value: Any, *, in_list: bool = False) -> bytes:
    if kind in (_TRUE, _FALSE):
        return bytes([_TRUE if value else _FALSE]) if in_list else b""
    if kind == _BYTE:
        return bytes([value])
    if kind in INTEGERS:
        return _unsigned((value << 1) ^ (value >> 63))
    if kind == _DOUBLE:
        return bytes(value)
    if kind == BINARY:
        return _unsigned(len(value)) + value
    if kind == _LIST:
        inner, items = value
        head = bytes([min(len(items), 15) << 4 | inner])
        head += _unsigned(len(items)) if len(items) > 14 else b""
        return head + b"".join(_encoded(inner, item, in_list=True) for item in items)
    found = b""
    for number in sorted(value):
        own, inner = value[number]
        own = (_TRUE if inner else _FALSE) if own in (_TRUE, _FALSE) else own
        found += bytes([own]) + _unsigned(number << 1) + _encoded(own, inner)
    return found + b"\0"


def edited(
    path: Path,
    statistics: dict[int, Any],
    *,
    column: int = 0,
    created_by: str | None = None,
    typed: bool = True,
) -> None:
    """Gives one column of a file other statistics, in all of its row groups.

    Args:
        statistics: By field (bounds as bytes, `NULL_COUNT` as a number); others of the bounds go.
        created_by: The program that wrote the file; None: the footer names none.
        typed: Whether the footer keeps the order of its columns.
    """

    def change(footer: dict[int, tuple[int, Any]]) -> None:
        for group in footer[_ROW_GROUPS][1][1]:
            own = group[_COLUMNS][1][1][column][_META][1][_STATISTICS][1]
            if any(field != NULL_COUNT for field in statistics):
                for field in (OLD_MAX, OLD_MIN, MAX_VALUE, MIN_VALUE, 7, 8):
                    own.pop(field, None)
            for field, value in statistics.items():
                own[field] = (I64 if field == NULL_COUNT else BINARY, value)
        footer.pop(_CREATED_BY, None)
        if created_by is not None:
            footer[_CREATED_BY] = (BINARY, created_by.encode())
        if not typed:
            footer.pop(_COLUMN_ORDERS, None)

    _rewrite(path, change)


def _rewrite(path: Path, change: Callable[[dict[int, tuple[int, Any]]], None]) -> None:
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    footer = _Reader(data[-8 - size : -8]).struct()
    change(footer)
    body = _encoded(_STRUCT, footer)
    path.write_bytes(data[: -8 - size] + body + len(body).to_bytes(4, "little") + b"PAR1")
