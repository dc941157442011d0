"""Bloom filters: each of these loses rows, or takes a filter for what it isn't."""

from __future__ import annotations

from typing import Any
from unittest import mock

from planting import plant

BLOOMS = "tests/where/test_blooms.py"
READS = "tests/where/test_bloom_reads.py"


@plant(BLOOMS)
def times_are_in_the_unit_of_their_type() -> Any:
    """Seconds are hashed as seconds, which Parquet doesn't have."""
    from lakelog.catalog.where import outcomes
    from lakelog.catalog.where.tree import PER_SECOND

    def of_time(seconds: Any, own: Any) -> Any:
        return outcomes._of_integer(seconds * PER_SECOND[own.unit], own.bit_width // 8)

    return mock.patch.object(outcomes, "_of_time", of_time)


@plant(BLOOMS)
def zero_has_one_form() -> Any:
    """-0.0 equals 0.0, and is hashed otherwise."""
    import struct

    from lakelog.catalog.where import outcomes

    def of_float(form: str, value: Any) -> Any:
        return [struct.pack(form, value)] if isinstance(value, float) else None

    return mock.patch.object(outcomes, "_of_float", of_float)


@plant(BLOOMS)
def decimals_are_sixteen_bytes() -> Any:
    """A decimal is hashed as if all writers took as many bytes."""
    from lakelog.catalog.where import outcomes

    def of_decimal(exact: Any, own: Any) -> Any:
        return [int(exact).to_bytes(16, "big", signed=True)]

    return mock.patch.object(outcomes, "_of_decimal", of_decimal)


@plant(READS)
def one_of_several_is_all_of_them() -> Any:
    """A filter is to hold every value of an IN."""
    import numpy as np
    from lakelog.catalog.read import blooms

    real = blooms.may_hold

    def may_hold(blocks: Any, hashes: Any) -> bool:
        return all(real(blocks, np.array([one])) for one in hashes)

    return mock.patch.object(blooms, "may_hold", may_hold)


@plant(BLOOMS)
def any_header_will_do() -> Any:
    """A filter by another hash is read as one by xxHash."""
    import re

    from lakelog.catalog.read import blooms

    anything = re.compile(rb"\x15([\x80-\xff]{0,4}[\x00-\x7f]).{12}\x00", re.S)
    return mock.patch.object(blooms, "_HEADER", anything)


@plant(READS)
def filters_are_the_first_row_groups() -> Any:
    """What a filter says is believed of the row group before."""
    from dataclasses import replace

    from lakelog.catalog.read import blooms

    real = blooms._worth_asking

    def worth(part: Any, wanted: Any) -> Any:
        found = real(part, wanted)
        return [replace(place, row_group=max(0, place.row_group - 1)) for place in found]

    return mock.patch.object(blooms, "_worth_asking", worth)
