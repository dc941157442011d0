"""One value of all rows as a text that Spark casts to just this value."""

from __future__ import annotations

import math
from typing import Final

import pyarrow as pa
import pyarrow.types as kinds

from ..catalog.data.partitioned import texts_of
from ..errors import InvalidSchema

_YEARS: Final = range(1, 10_000)  # that Spark and Arrow spell alike


def text_of(value: pa.Scalar, name: str) -> str:
    """A value that isn't null.

    Args:
        name: Of its column, for errors.
    Raises:
        InvalidSchema: No text tells it.
    """
    kind = value.type
    if kinds.is_floating(kind) and math.isfinite(value.as_py()):
        return repr(value.as_py())
    plain = (
        kinds.is_boolean(kind)
        or kinds.is_integer(kind)
        or kinds.is_string(kind)
        or kinds.is_decimal(kind)
    )
    timed = kinds.is_date32(kind) or (kinds.is_timestamp(kind) and kind.unit != "ns")
    if plain or (timed and _year(value) in _YEARS):
        (text,) = texts_of(pa.chunked_array([pa.repeat(value, 1)]))
        assert text is not None
        return text
    raise InvalidSchema(
        f"Column {name!r} has a default of type {kind}, which Spark's own reader can't fill in",
        key=name,
    )


def _year(value: pa.Scalar) -> int:
    """The year of a time in UTC; 0 if Python can't tell."""
    try:
        return int(value.as_py().year)
    except (ValueError, OverflowError):
        return 0
