"""Arrow and NumPy scalars as the Python values that they hold: one that was taken out of a column
is as good as its value wherever a number, a text or a time is wanted.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from ..errors import UsageError

_EPOCH: Final = dt.datetime(1970, 1, 1)
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def value_of(given: Any) -> Any:
    """What a scalar holds; anything else as it is. A time finer than microseconds is rounded down.

    Raises:
        UsageError: A null, which must not pass for an argument that was left out.
    """
    module = type(given).__module__.partition(".")[0]
    if module == "numpy" and type(given).__name__ != "ndarray" and hasattr(given, "item"):
        return _of_numpy(given)
    if module == "pyarrow" and hasattr(given, "as_py"):
        return _of_arrow(given)
    return given


def _of_numpy(given: Any) -> Any:
    if given.dtype.kind != "M":
        return given.item()
    found = given.astype("datetime64[us]").item()
    return _not_null(found, given)


def _of_arrow(given: Any) -> Any:
    _not_null(given if given.is_valid else None, given)
    unit, value = getattr(given.type, "unit", None), getattr(given, "value", None)
    if not hasattr(given.type, "tz") or unit not in _PER_SECOND or not isinstance(value, int):
        return given.as_py()
    try:  # not by `as_py`, which needs pandas for nanoseconds
        at = _EPOCH + dt.timedelta(microseconds=value * 1_000_000 // _PER_SECOND[unit])
    except OverflowError:
        raise UsageError(
            f"{given!r:.80} is no time between the years 1 and 9999", hint="Give one"
        ) from None
    return at.replace(tzinfo=dt.UTC) if given.type.tz else at


def _not_null(found: Any, given: Any) -> Any:
    if found is None:
        raise UsageError(
            f"A null was given: {type(given).__name__}",
            hint="Give a value, or None where that means something",
        )
    return found
