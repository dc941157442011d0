"""Refusals, protobuf and names for the independent reader. See `independent_reader`."""

from __future__ import annotations

import re
from typing import Any, ClassVar

BIG = 1 << 62
MAX_REVISION = 999_999_999_999


class Refusal(Exception):
    """A reader must not give what was asked for. `kind` is the class of the refusal."""

    kind: ClassVar[str] = "refused"


class Damaged(Refusal):
    """An object breaks a rule, or does not fit the others."""

    kind = "damaged"


class TooNew(Refusal):
    """An object needs a later reader (section 9)."""

    kind = "too-new"


class Missing(Refusal):
    """A transaction is not there, though it should be."""

    kind = "missing"


class Pruned(Refusal):
    """The revision was deleted from the beginning of the log."""

    kind = "pruned"


class Forked(Refusal):
    """Two objects claim one revision."""

    kind = "forked"


class NotThere(Refusal):
    """No such revision or table, or before the first commit."""

    kind = "not-found"


class Empty(Refusal):
    """There is no log."""

    kind = "empty"


def need(condition: object, problem: str) -> None:
    """Damaged unless the condition holds."""
    if not condition:
        raise Damaged(problem)


def utf8(raw: bytes) -> str:
    """Strict UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Damaged("text that is not UTF-8") from None


# --- Section 3.2: protobuf ------------------------------------------------------------------------

UINT, UINT32, ENUM, SINT = "uint", "uint32", "enum", "sint"
BOOL, BYTES, TEXT = "bool", "bytes", "text"
VARINTS = (UINT, UINT32, ENUM, SINT, BOOL)


class Field:
    """One field of a message: its name, its type (a word above, or a message), and how often."""

    def __init__(self, name: str, kind: str | Shape, often: str = "one") -> None:
        self.name, self.kind, self.often = name, kind, often

    def wire(self) -> int:
        return 0 if self.kind in VARINTS else 2


class Shape:
    """The fields of a message by number; `choice` are the numbers of its oneof."""

    def __init__(self, fields: dict[int, Field], choice: tuple[int, ...] = ()) -> None:
        self.fields, self.choice = fields, choice


class Message:
    """A decoded message: values by field name, and which fields were there."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.there: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


def varint(data: bytes, at: int, longest: int) -> tuple[int, int]:
    """A varint of at most so many bytes, and where it ends."""
    value = 0
    for count in range(longest):
        need(at + count < len(data), "a varint ends beyond its message")
        byte = data[at + count]
        value |= (byte & 127) << (7 * count)
        if byte < 128:
            return value, at + count + 1
    raise Damaged("a varint is too long")


def field_at(data: bytes, at: int) -> tuple[int, int, Any, int]:
    """Number, wire type and raw value of a field, and where it ends; of a group no value."""
    tag, at = varint(data, at, 5)
    number, wire = tag >> 3, tag & 7
    need(0 < number < 1 << 29, "field number")
    if wire == 0:
        value, at = varint(data, at, 10)
        return number, wire, value & (1 << 64) - 1, at
    if wire == 3:
        ended = 0
        while ended != 4:
            inner, ended, _, at = field_at(data, at)
        need(inner == number, "the end of another group")
    if wire in (3, 4):
        return number, wire, None, at
    size = {1: 8, 5: 4}.get(wire)
    if wire == 2:
        size, at = varint(data, at, 5)
    need(size is not None, "wire type")
    need(at + size <= len(data), "a value ends beyond its message")
    return number, wire, data[at : at + size], at + size


def scan(data: bytes) -> list[tuple[int, int, Any]]:
    """Number, wire type and raw value of each field, in order."""
    found, at = [], 0
    while at < len(data):
        number, wire, value, at = field_at(data, at)
        need(wire != 4, "the end of no group")
        found.append((number, wire, value))
    return found


def number_of(kind: str, raw: int) -> int | bool:
    """A varint as a value of its type."""
    if kind == SINT:
        return (raw >> 1) ^ -(raw & 1)
    if kind == BOOL:
        return raw != 0
    return raw & 0xFFFFFFFF if kind in (UINT32, ENUM) else raw


def decode(shape: Shape, data: bytes) -> Message:
    """Decode a message and, at any depth, all within it."""
    message = Message()
    raws: dict[int, list[Any]] = {}
    for number, wire, value in scan(data):
        field = shape.fields.get(number)
        if field is None or field.wire() != wire:
            continue
        if number in shape.choice:
            for other in shape.choice:
                if other != number:
                    raws.pop(other, None)
        if isinstance(field.kind, Shape):
            raws.setdefault(number, []).append((value, decode(field.kind, value)))
        elif field.kind == TEXT:
            raws.setdefault(number, []).append(utf8(value))
        else:
            plain = value if wire == 2 else number_of(field.kind, value)
            raws.setdefault(number, []).append(plain)
    for number, field in shape.fields.items():
        if number in raws:
            message.there.add(field.name)
        message.values[field.name] = combine(field, raws.get(number, []))
    return message


def combine(field: Field, found: list[Any]) -> Any:
    """The value of a field that stood so often."""
    if isinstance(field.kind, Shape):
        parts = [item for _, item in found]
        if field.often == "map":
            return {item.key: item.value for item in parts}
        if field.often == "many":
            return parts
        if len(parts) == 1:
            return parts[0]
        # Parts of one sub-message merge, which is what joining their bytes does.
        return decode(field.kind, b"".join(raw for raw, _ in found))
    if field.often == "many":
        return found
    return found[-1] if found else {TEXT: "", BYTES: b"", BOOL: False}.get(field.kind, 0)


# --- Section 2: names and paths -------------------------------------------------------------------

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
ENCODED = frozenset("/\\%*?[]{}\x7f") | frozenset(map(chr, range(32)))


def check_id(name: str) -> str:
    need(ID.fullmatch(name), f"id {name!r}")
    return name


def encoded_length(name: str) -> int:
    """How many bytes a name has when it is percent-encoded."""
    if name in (".", ".."):
        return 3 * len(name)
    return len(name.encode()) + 2 * sum(char in ENCODED for char in name)


def check_table(name: str) -> str:
    need(name and encoded_length(name) <= 255, f"table {name!r}")
    return name


def check_partition(name: str) -> str:
    need(encoded_length(name) <= 255, f"partition {name!r}")
    return name


def check_path(path: str) -> str:
    parts = path.encode().split(b"/")
    need(re.match(r"data/|at/[0-9a-f]{16}/", path), f"path {path!r}")
    need(len(path.encode()) <= 892, f"path {path!r}")
    need(all(0 < len(part) <= 255 and part not in (b".", b"..") for part in parts), path)
    need(not any(char == "\\" or char < " " or char == "\x7f" for char in path), repr(path))
    return path
