"""Decides which bounds count in a Parquet footer that another program wrote. Pure.

Every library has written wrong statistics at some time, and readers that skip by them lose rows.
Three kinds never count; a list names the other known mistakes:

- null counts: too low or too high by pyarrow to 5 (apache/arrow#10729, #51097), parquet-rs to 4
  (apache/arrow-rs#306), arrow2 (jorgecarleitao/arrow2#1414), Polars (pola-rs/polars#29321, of
  2026), cuDF (NVIDIA/cudf#9303);
- bounds of decimals in bytes: compared without their sign by parquet-mr before 1.10, parquet-cpp
  (apache/parquet-java#1615), ClickHouse (ClickHouse/ClickHouse#83754) and Polars
  (pola-rs/polars#29347);
- a maximum of text as a value: some writers cut it, so it is a prefix.

Source: docs/format.md, section 5.2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

_VERSION: Final = re.compile(r"version (\d+)")
_IN_BYTES: Final = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


# Writers, by the beginning of `created_by`; the first major version that is right, 0 for none that
# is known; and the bound types that are wrong before it.
_WRONG: Final[tuple[tuple[str, int, Callable[[pa.DataType], bool]], ...]] = (
    # Of a dictionary in several chunks only the first counted: apache/arrow#15042.
    ("parquet-cpp", 11, _is_text),
    # A time in the unit of another type: aloneguid/parquet-dotnet#769, open in 6.0.3.
    ("Parquet.Net", 0, lambda kind: bool(pa.types.is_timestamp(kind) or pa.types.is_time(kind))),
    # Compared as signed: pola-rs/polars#15323. Its `created_by` has no version.
    ("Polars", 0, lambda kind: bool(pa.types.is_unsigned_integer(kind))),
    # Of a column in several chunks some left out: pola-rs/polars#7842.
    ("Arrow2", 0, lambda kind: True),
    # 32-bit decimals written as floats: hyparam/hyparquet-writer#38.
    ("hyparquet", 0, lambda kind: bool(pa.types.is_decimal(kind))),
)


def bounds_count(created_by: str, physical_type: str, kind: pa.DataType) -> bool:
    """Checks whether a foreign footer's bounds of a column may skip rows.

    Args:
        created_by: As the footer names its writer; may be empty.
        physical_type: Parquet's type of the column.
        kind: The bound type of the column.
    """
    if pa.types.is_decimal(kind) and physical_type in _IN_BYTES:
        return False
    found = _VERSION.search(created_by)
    major = int(found[1]) if found else 0
    return not any(
        created_by.startswith(writer) and (major < right or not right) and is_wrong(kind)
        for writer, right, is_wrong in _WRONG
    )
