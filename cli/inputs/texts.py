"""Converts texts to a type, exactly or not at all: no digit is dropped, no zone is guessed.

Arrow parses them. What it would accept and shouldn't (0x10 for a number, 1e400 for infinity, an
integer beyond 2^53 for a double, 007 for 7) is refused here.
"""

from __future__ import annotations

import base64
import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ...errors import UsageError

INTEGER: Final = r"^(0|-?[1-9][0-9]*)$"
_ANY_INTEGER: Final = r"^[+-]?[0-9]+$"
NUMBER: Final = r"^-?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]+)?$"
_ANY_NUMBER: Final = r"^[+-]?[0-9.]+([eE][+-]?[0-9]+)?$"
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
    """Tell whether all texts that aren't null match."""
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False


def trimmed(texts: pa.Array) -> pa.Array:
    """The texts without white space around them, which is no part of a number or a time."""
    return pc.ascii_trim_whitespace(texts)


def texts_as(texts: pa.Array, kind: pa.DataType, *, forced: bool = False) -> pa.Array:
    """Convert texts to a type that isn't nested.

    Args:
        forced: The user has chosen the type: 007 is a number then.
    Raises:
        ValueError: A text is no such value, or not exactly.
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
        values = [
            None if t is None else base64.b64decode(t, validate=True) for t in texts.to_pylist()
        ]
        return pa.array(values, pa.binary()).cast(kind)
    texts = trimmed(texts)
    if types.is_boolean(kind):
        return _booleans(texts)
    if types.is_floating(kind):
        return _floats(texts, kind, forced)
    if types.is_duration(kind):
        return _durations(texts, kind)
    _refuse(not matches(texts, _pattern(kind, forced)))
    if types.is_integer(kind) and forced:
        texts = pc.replace_substring_regex(texts, r"^\+?(-?)0*([0-9])", r"\1\2")
    if types.is_time(kind):
        texts = pc.binary_join_element_wise(pa.scalar("1970-01-01"), texts, pa.scalar("T"))
        return texts.cast(pa.timestamp(kind.unit)).cast(kind)
    return texts.cast(pa.date32()).cast(kind) if types.is_date(kind) else texts.cast(kind)


def _pattern(kind: pa.DataType, forced: bool) -> str:
    """The texts of a type that Arrow casts exactly."""
    types = pa.types
    if types.is_integer(kind):
        return _ANY_INTEGER if forced else INTEGER
    if types.is_decimal(kind):
        return _ANY_NUMBER if forced else NUMBER
    if types.is_timestamp(kind):
        return ZONED if kind.tz else NAIVE
    if types.is_date(kind) or types.is_time(kind):
        return f"^{_DATE if types.is_date(kind) else _CLOCK}$"
    raise ValueError(f"no text can be {kind}")


def overflows(wide: pa.Array, narrow: pa.Array) -> bool:
    """Tell whether a cast of floats to a narrower type made an infinity of a number."""
    before, after = (pc.is_inf(each.cast(pa.float64())) for each in (wide, narrow))
    return pc.any(pc.not_equal(before, after)).as_py() is True


def _refuse(wrong: bool) -> None:
    if wrong:
        raise ValueError("not a value of this type")


def _booleans(texts: pa.Array) -> pa.Array:
    true = pc.is_in(texts, pa.array(_TRUE))
    known = pc.or_(true, pc.is_in(texts, pa.array(_FALSE)))
    _refuse(pc.sum(known).as_py() != len(texts) - texts.null_count if len(texts) else False)
    return pc.if_else(pc.is_valid(texts), true, pa.scalar(None, pa.bool_()))


def _floats(texts: pa.Array, kind: pa.DataType, forced: bool) -> pa.Array:
    if forced:
        texts = pc.replace_substring_regex(texts, r"^\+?(-?)0+([0-9])", r"\1\2")
    words = pc.is_in(texts, pa.array(_WORDS))
    some_words = pc.any(words).as_py() is True
    numbers = pc.if_else(words, pa.scalar(None, pa.string()), texts) if some_words else texts
    _refuse(not matches(numbers, NUMBER) or not matches(numbers, _SOME_DIGIT))
    values = texts.cast(kind)
    size = pc.abs(values if not pa.types.is_float16(kind) else values.cast(pa.float32()))
    limit = _EXACT_INTEGERS[str(kind)]
    if (pc.max(size).as_py() or 0) >= limit or some_words:
        endless = pc.and_(pc.is_inf(size), pc.invert(words))
        _refuse(pc.any(endless).as_py() is True)
        whole = numbers.filter(pc.greater_equal(size, limit))
        whole = whole.filter(pc.match_substring_regex(whole, INTEGER))
        _refuse(any(abs(int(text)) > limit for text in whole.to_pylist() if text is not None))
    return values


def _durations(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    digits = _PER_SECOND[kind.unit]

    def number(text: str | None) -> int | None:
        if text is None:
            return None
        match = _DURATION.fullmatch(text)
        part = (match[3] or "").ljust(digits, "0") if match else ""
        _refuse(match is None or len(part) > digits)
        assert match is not None
        return int(f"{match[1]}{match[2]}{part}")

    return pa.array([number(text) for text in texts.to_pylist()], pa.int64()).cast(kind)


# --- The types that `--type` names ----------------------------------------------------------------

_PLAIN: Final = {
    "bool": pa.bool_(), "boolean": pa.bool_(),
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "int": pa.int64(), "integer": pa.int64(), "bigint": pa.int64(),
    "float": pa.float32(), "float32": pa.float32(), "double": pa.float64(),
    "float64": pa.float64(),
    "string": pa.string(), "text": pa.string(), "binary": pa.binary(),
    "date": pa.date32(), "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
}  # fmt: skip
_DECIMAL: Final = re.compile(r"decimal(?:128|256)?[(\[]\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?[)\]]")
_TIMESTAMP: Final = re.compile(r"timestamp[(\[]\s*(ms|us|ns)\s*(?:,\s*(?:tz=)?utc\s*)?[)\]]")
_KNOWN: Final = (
    "bool, int8 to int64, uint8 to uint64, float, double, decimal(P,S), string, binary (base64), "
    "date, time, timestamp, timestamptz, timestamp[ns], timestamp[ns,UTC]"
)


def parse_types(given: list[str], option: str = "--type") -> dict[str, pa.DataType]:
    """Parse the types of an option, by column."""
    types: dict[str, pa.DataType] = {}
    for item in given:
        name, equals, text = item.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{item[:60]!r} is not COLUMN=TYPE", hint=f"TYPE is one of {_KNOWN}")
        if name in types:
            raise UsageError(f"{option} names column {name!r} twice", key=name, hint="Give it once")
        types[name] = type_named(text)
    return types


def type_named(text: str) -> pa.DataType:
    """The type with a name."""
    text = text.strip().lower()
    decimal, timestamp = _DECIMAL.fullmatch(text), _TIMESTAMP.fullmatch(text)
    if decimal is not None:
        digits, scale = int(decimal[1]), int(decimal[2] or 0)
        if 1 <= digits <= 76 and scale <= digits:
            return (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, scale)
    elif timestamp is not None:
        return pa.timestamp(timestamp[1], "UTC" if "utc" in text else None)
    elif text in _PLAIN:
        return _PLAIN[text]
    raise UsageError(f"There is no type {text[:60]!r}", hint=f"One of {_KNOWN}")
