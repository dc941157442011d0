"""Texts as values of a type, exactly or not at all: no digit is dropped, no zone is guessed.

The parsing is Arrow's; what it would take and shouldn't (0x10 for a number, 1e400 for infinity,
an integer beyond 2^53 for a double, 007 for 7) is refused here.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

INTEGER: Final = r"^(0|-?[1-9][0-9]*)$"
_ANY_INTEGER: Final = r"^[+-]?[0-9]+$"
NUMBER: Final = r"^-?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]+)?$"
_SOME_DIGIT: Final = r"[0-9]"
# As printed by lakelog, Arrow, Python, R and Spark.
_WORDS: Final = ("NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "Inf", "-Inf")
_TRUE: Final = ("true", "True", "TRUE")
_FALSE: Final = ("false", "False", "FALSE")
_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?"
_ZONE: Final = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
NAIVE: Final = rf"^{_DATE}([ T]{_CLOCK})?$"
ZONED: Final = rf"^{_DATE}[ T]{_CLOCK}{_ZONE}$"
MOMENT: Final = rf"^{_DATE}([ T]{_CLOCK}{_ZONE}?)?$"
_DURATION: Final = re.compile(r"(-?)PT([0-9]+)(?:\.([0-9]+))?S", re.ASCII)
_EXACT_INTEGERS: Final = {"halffloat": 1 << 11, "float": 1 << 24, "double": 1 << 53}
_PER_SECOND: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def matches(texts: pa.Array, pattern: str) -> bool:
    """Whether all texts that aren't null match."""
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False


def trimmed(texts: pa.Array) -> pa.Array:
    """Without white space around them: it is no part of a number or a time."""
    return pc.ascii_trim_whitespace(texts)


def texts_as(texts: pa.Array, kind: pa.DataType, *, forced: bool = False) -> pa.Array:
    """Texts as values of a type that isn't nested.

    Args:
        forced: The user has named the type: 007 is a number then.
    Raises:
        ValueError: A text is no such value, or only nearly.
    """
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, texts_as(texts, kind.storage_type))
    if types.is_string(kind) or types.is_large_string(kind):
        return texts.cast(kind)
    if types.is_null(kind):
        _refuse(texts.null_count < len(texts))
        return pa.nulls(len(texts))
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        found = [None if t is None else _base64(t) for t in texts.to_pylist()]
        return pa.array(found, pa.binary()).cast(kind)
    texts = trimmed(texts)
    for asked, parse in _PARSERS:
        if asked(kind):
            found = parse(texts, kind, forced)
            return found if found.type.equals(kind) else found.cast(kind)
    raise ValueError(f"no text can be {kind}")


def overflows(wide: pa.Array, narrow: pa.Array) -> bool:
    """Whether a cast of floats to a narrower type made an infinity of a number."""
    before, after = (pc.is_inf(each.cast(pa.float64())) for each in (wide, narrow))
    return pc.any(pc.not_equal(before, after)).as_py() is True


def _refuse(wrong: bool) -> None:
    if wrong:
        raise ValueError("not a value of this type")


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _booleans(texts: pa.Array, _: pa.DataType, __: bool) -> pa.Array:
    true = pc.is_in(texts, pa.array(_TRUE))
    known = pc.or_(true, pc.is_in(texts, pa.array(_FALSE)))
    _refuse(pc.sum(known).as_py() != len(texts) - texts.null_count if len(texts) else False)
    return pc.if_else(pc.is_valid(texts), true, pa.scalar(None, pa.bool_()))


def _integers(texts: pa.Array, kind: pa.DataType, forced: bool) -> pa.Array:
    _refuse(not matches(texts, _ANY_INTEGER if forced else INTEGER))
    if forced:
        texts = pc.replace_substring_regex(texts, r"^\+?(-?)0*([0-9])", r"\1\2")
    return texts.cast(kind)


def _floats(texts: pa.Array, kind: pa.DataType, forced: bool) -> pa.Array:
    if forced:
        texts = pc.replace_substring_regex(texts, r"^\+?(-?)0+([0-9])", r"\1\2")
    words = pc.is_in(texts, pa.array(_WORDS))
    some_words = pc.any(words).as_py() is True
    numbers = pc.if_else(words, pa.scalar(None, pa.string()), texts) if some_words else texts
    _refuse(not matches(numbers, NUMBER) or not matches(numbers, _SOME_DIGIT))
    found = texts.cast(kind)
    size = pc.abs(found if not pa.types.is_float16(kind) else found.cast(pa.float32()))
    limit = _EXACT_INTEGERS[str(kind)]
    if (pc.max(size).as_py() or 0) >= limit or some_words:
        endless = pc.and_(pc.is_inf(size), pc.invert(words))
        _refuse(pc.any(endless).as_py() is True)
        whole = numbers.filter(pc.greater_equal(size, limit))
        whole = whole.filter(pc.match_substring_regex(whole, INTEGER))
        _refuse(any(abs(int(text)) > limit for text in whole.to_pylist() if text is not None))
    return found


def _decimals(texts: pa.Array, kind: pa.DataType, forced: bool) -> pa.Array:
    _refuse(not matches(texts, NUMBER) and not (forced and matches(texts, r"^[+-]?[0-9.]+$")))
    return texts.cast(kind)


def _dates(texts: pa.Array, _: pa.DataType, __: bool) -> pa.Array:
    _refuse(not matches(texts, rf"^{_DATE}$"))
    return texts.cast(pa.date32())


def _timestamps(texts: pa.Array, kind: pa.DataType, _: bool) -> pa.Array:
    _refuse(not matches(texts, ZONED if kind.tz else NAIVE))
    return texts.cast(kind)


def _times(texts: pa.Array, kind: pa.DataType, _: bool) -> pa.Array:
    _refuse(not matches(texts, rf"^{_CLOCK}$"))
    stamps = pc.binary_join_element_wise(pa.scalar("1970-01-01"), texts, pa.scalar("T"))
    return stamps.cast(pa.timestamp(kind.unit)).cast(kind)


def _durations(texts: pa.Array, kind: pa.DataType, _: bool) -> pa.Array:
    digits = _PER_SECOND[kind.unit]

    def number(text: str | None) -> int | None:
        if text is None:
            return None
        found = _DURATION.fullmatch(text)
        part = (found[3] or "").ljust(digits, "0") if found else ""
        _refuse(found is None or len(part) > digits)
        assert found is not None
        return int(f"{found[1]}{found[2]}{part}")

    return pa.array([number(text) for text in texts.to_pylist()], pa.int64()).cast(kind)


_PARSERS: Final[tuple[tuple[Any, Any], ...]] = (
    (pa.types.is_boolean, _booleans),
    (pa.types.is_integer, _integers),
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_date, _dates),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_time, _times),
    (pa.types.is_duration, _durations),
)


def first_misfit(length: int, fits: Callable[[int, int], bool]) -> int:
    """The first of some values that doesn't fit, or -1.

    Args:
        fits: Whether all values of a slice (from, length) do.
    """
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
