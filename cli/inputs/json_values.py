"""Values of JSON as an Arrow column of a given type: the way back from `cli.values`, exactly or not
at all.

Numbers with a point come as `Decimal`, so that none is rounded before its type is known.
"""

from __future__ import annotations

import decimal
import itertools
import json
import math
import re
from typing import Any, Final

import pyarrow as pa

from .texts import overflows, texts_as

BLANK: Final = " \t\r\n"
ODD_FLOATS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")
_EXACT: Final = {"halffloat": 1 << 11, "float": 1 << 24, "double": 1 << 53}


def load(text: str) -> Any:
    """One JSON value.

    Raises:
        ValueError: The text is not valid JSON, or an object names a key twice.
    """
    try:  # what `decode` does, without its search for white space
        found, end = _scan(text := text.strip(BLANK), 0)
    except StopIteration as error:
        raise json.JSONDecodeError("Expecting value", text, error.value) from None
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    check_text(found, text)
    return found


def check_text(found: Any, text: str) -> None:
    """Refuse half of a surrogate pair, which JSON can spell and no text can hold.

    Raises:
        ValueError: There is one.
    """
    if "\\u" in text:
        try:
            json.dumps(found, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise ValueError("it holds half of a surrogate pair, which is no text") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"a key stands twice: {max(names, key=names.count)!r}")
    return found


def _real(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(f"a number with such an exponent: {text[:60]}") from None


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_float=_real)


_scan: Final[Any] = vars(_DECODER)["scan_once"]


def decoder() -> json.JSONDecoder:
    """What `load` decodes with."""
    return _DECODER


def texts_of_any(texts: pa.Array, kind: pa.DataType, *, forced: bool = False) -> pa.Array:
    """Texts of a csv as values of a type; nested ones are JSON.

    Raises:
        ValueError: A text is no such value.
    """
    if not pa.types.is_nested(kind):
        return texts_as(texts, kind, forced=forced)
    return values_as([None if t is None else load(t) for t in texts.to_pylist()], kind)


def values_as(values: list[Any], kind: pa.DataType, *, forced: bool = False) -> pa.Array:
    """Values of JSON as a column of a type.

    Raises:
        ValueError: One is no such value, or only nearly.
    """
    types = pa.types
    try:
        if isinstance(kind, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(kind, values_as(values, kind.storage_type))
        if types.is_nested(kind):
            return _nested(values, kind)
        if types.is_boolean(kind):
            _only(values, bool)
            return pa.array(values, kind)
        if types.is_integer(kind):
            _only(values, int)
            return pa.array(values, kind)
        if types.is_floating(kind):
            return _floats([_float(v, _EXACT[str(kind)]) for v in values], kind)
        if types.is_decimal(kind):
            return pa.array([_decimal(value) for value in values], kind)
        if forced and types.is_string(kind):
            values = [_text(value) for value in values]
        _only(values, str)
        return texts_as(pa.array(values, pa.string()), kind, forced=forced)
    except (pa.ArrowException, OverflowError, TypeError, decimal.DecimalException) as error:
        raise ValueError(str(error)) from error


def _only(values: list[Any], *kinds: type) -> None:
    others = set(map(type, values)) - {*kinds, type(None)}
    if others:
        raise ValueError(f"a {others.pop().__name__} among them")


def _float(value: Any, limit: int) -> float | None:
    if value is None:
        return None
    if isinstance(value, str) and value in ODD_FLOATS:
        return float(value)
    if type(value) is int and abs(value) > limit:
        raise ValueError("an integer that a float can't hold")
    if type(value) not in (int, float, decimal.Decimal):
        raise ValueError("not a number")
    found = float(value)
    if math.isinf(found) and isinstance(value, decimal.Decimal):
        raise ValueError("too large")
    return found


def _floats(values: list[float | None], kind: pa.DataType) -> pa.Array:
    """Rounded to the type; Arrow would make an infinity of what is beyond its range."""
    wide = pa.array(values, pa.float64())
    found = wide.cast(kind)
    if not found.type.equals(wide.type) and overflows(wide, found):
        raise ValueError("too large")
    return found


def _text(value: Any) -> Any:
    """A number or a truth value as its text, where the user wants texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float, decimal.Decimal)) else value


def _decimal(value: Any) -> decimal.Decimal | None:
    if value is None or isinstance(value, decimal.Decimal):
        return value
    if type(value) is int or (type(value) is str and _DECIMAL.fullmatch(value)):
        return decimal.Decimal(value)
    raise ValueError("not a decimal")


def _nested(values: list[Any], kind: pa.DataType) -> pa.Array:
    missing = pa.array([value is None for value in values], pa.bool_())
    if pa.types.is_struct(kind):
        _only(values, dict)
        names = set(kind.names)
        if any(value is not None and not names.issuperset(value) for value in values):
            raise ValueError("an object with a key that the type doesn't have")
        fields = [kind.field(index) for index in range(kind.num_fields)]
        children = [
            values_as([None if v is None else v.get(field.name) for v in values], field.type)
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
        keys = values_as([pair[0] for pair in items], kind.key_type)
        found = values_as([pair[1] for pair in items], kind.item_type)
        return pa.MapArray.from_arrays(_holes(offsets, missing), keys, found, kind)
    inner = values_as(items, kind.value_type)
    as_list = pa.ListArray.from_arrays(
        offsets, inner, type=pa.list_(kind.value_field), mask=missing if len(values) else None
    )
    return as_list if as_list.type.equals(kind) else as_list.cast(kind)


def _holes(offsets: pa.Array, missing: pa.Array) -> pa.Array:
    """Offsets with a null where a list is missing, as `MapArray` wants them."""
    gaps = [*missing.to_pylist(), False]
    found = [None if gap else end for end, gap in zip(offsets.to_pylist(), gaps, strict=True)]
    return pa.array(found, pa.int32())
