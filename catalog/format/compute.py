"""Arrow's compute functions, without `pyarrow.compute`: that wraps some three hundred of them in
Python when it is imported, which takes as long as a whole append. Use this as `pc`. Pure.

Methods of arrays and tables like `filter`, `take`, `cast`, `is_null` and `sort_by` load
`pyarrow.compute` all the same; so does what is not named here.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

# What takes arrays alone, or is wanted with its default options; by the name that Arrow has for it.
_PLAIN: Final = {
    "all": "all",
    "and_": "and",
    "any": "any",
    "binary_join_element_wise": "binary_join_element_wise",
    "binary_length": "binary_length",
    "coalesce": "coalesce",
    "count_distinct": "count_distinct",
    "equal": "equal",
    "filter": "filter",
    "greater": "greater",
    "greater_equal": "greater_equal",
    "is_nan": "is_nan",
    "is_valid": "is_valid",
    "less": "less",
    "less_equal": "less_equal",
    "list_flatten": "list_flatten",
    "max": "max",
    "min_max": "min_max",
    "not_equal": "not_equal",
    "or_": "or",
    "run_end_encode": "run_end_encode",
    "take": "take",
    "unique": "unique",
}


def __getattr__(name: str) -> Any:
    if name in _PLAIN:
        found = partial(_call, _PLAIN[name])
    else:
        import pyarrow.compute

        found = getattr(pyarrow.compute, name)
    globals()[name] = found
    return found


def _call(function: str, *values: Any) -> Any:
    return _arrow().call_function(function, list(values))


def is_in(values: Any, value_set: Any) -> Any:
    """Per value whether it is in a set."""
    options = _arrow().SetLookupOptions(value_set=value_set)
    return _arrow().call_function("is_in", [values], options)


def starts_with(values: Any, pattern: str) -> Any:
    """Per text whether it starts with another."""
    options = _arrow().MatchSubstringOptions(pattern)
    return _arrow().call_function("starts_with", [values], options)


def _arrow() -> Any:
    try:
        from pyarrow import _compute  # what `pyarrow.compute` itself calls
    except ImportError:
        from pyarrow import compute as _compute
    return _compute
