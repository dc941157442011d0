"""Decides which bounds count in a Parquet footer that another program wrote. Pure.

Every library has written wrong statistics at some time, and readers that skip by them lose rows.
Those of a footer that names no writer don't count (cuDF before 24.02, with most of its mistakes),
and three kinds never do; a list names the other known mistakes:

- null counts: too low or too high by pyarrow to 5 (apache/arrow#10729, #51097), parquet-rs to 4
  (apache/arrow-rs#306), arrow2 (jorgecarleitao/arrow2#1414), Polars (pola-rs/polars#29321, of
  2026), cuDF (NVIDIA/cudf#9303);
- bounds of decimals in bytes: compared without their sign by parquet-mr before 1.10, parquet-cpp
  (apache/parquet-java#1615), ClickHouse (ClickHouse/ClickHouse#83754), Polars
  (pola-rs/polars#29347), parquet-go (parquet-go/parquet-go#592) and parquet-rs
  (apache/arrow-rs#10860, #11073);
- a maximum of text as a value: some writers cut it, so it is a prefix.

Source: docs/format.md, section 5.2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

_VERSION: Final = re.compile(r"version v?(\d+)(?:\.(\d+))?")
_NONE: Final = (1 << 30, 0)
_IN_BYTES: Final = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_time(kind))


# Writers, by the beginning of `created_by`; the first version that is right; and the bound types
# that are wrong before it. One that names no version is of the oldest.
_WRONG: Final[tuple[tuple[str, tuple[int, int], Callable[[pa.DataType], bool]], ...]] = (
    # Of a dictionary in several chunks only the first counted: apache/arrow#15042.
    ("parquet-cpp", (11, 0), _is_text),
    # A time in the unit of another type: aloneguid/parquet-dotnet#769, open in 6.0.3.
    ("Parquet.Net", _NONE, _is_time),
    # Compared as signed: pola-rs/polars#15323. Its `created_by` has no version.
    ("Polars", _NONE, pa.types.is_unsigned_integer),
    # Of a column in several chunks some left out: pola-rs/polars#7842.
    ("Arrow2", _NONE, lambda kind: True),
    # 32-bit decimals written as floats: hyparam/hyparquet-writer#38.
    ("hyparquet", _NONE, pa.types.is_decimal),
    # 64-bit decimals in the order of bytes of larger ones, so that all are 0: NVIDIA/cudf#15281.
    ("cudf", (24, 4), pa.types.is_decimal),
    # Pages whose least text is empty left out: parquet-go/parquet-go#130, of April 2024.
    ("github.com/parquet-go/parquet-go", (0, 24), _is_text),
    ("github.com/segmentio/parquet-go", _NONE, _is_text),
    # Compared with signed defaults: apache/arrow-go#210, of December 2024.
    ("parquet-go", (18, 1), pa.types.is_unsigned_integer),
)


def bounds_count(created_by: str, physical_type: str, kind: pa.DataType) -> bool:
    """Checks whether a foreign footer's bounds of a column may skip rows.

    Args:
        created_by: As the footer names its writer; may be empty.
        physical_type: Parquet's type of the column.
        kind: The bound type of the column.
    """
    if not created_by or (pa.types.is_decimal(kind) and physical_type in _IN_BYTES):
        return False
    found = _VERSION.search(created_by)
    version = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    return not any(
        created_by.startswith(writer) and version < right and is_wrong(kind)
        for writer, right, is_wrong in _WRONG
    )
