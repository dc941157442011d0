"""Types of columns that a key can have: those whose values are the same or not, and nothing else.
Pure.

Source: docs/changing.md, "Keys".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import InvalidSchema
from ..format.schema import plain

if TYPE_CHECKING:
    from collections.abc import Iterable


def is_key_type(kind: pa.DataType) -> bool:
    """Whether a key can have a column of a type. Null is one: such a column has no values."""
    types, kind = pa.types, plain(kind)
    return bool(
        types.is_null(kind)
        or types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
        or types.is_decimal128(kind)
        or types.is_decimal256(kind)
    )


def check_key(fields: Iterable[pa.Field], table: str) -> None:
    """Refuse columns that no key can have.

    Raises:
        InvalidSchema: One is of such a type.
    """
    for field in fields:
        if not is_key_type(field.type):
            raise InvalidSchema(
                f"Column {field.name!r} of table {table!r} is {field.type}, and can't be of a key",
                key=field.name,
                hint="Integers, texts, binary, booleans, dates, times, timestamps and decimals can",
            )
