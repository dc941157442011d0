"""Plain Python rows, and what operations make of them: what the real ones are held against."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Row = dict[str, Any]
NAMES = ("k", "x", "s")


def _not(found: bool | None) -> bool | None:
    return None if found is None else not found


def _compared(name: str, test: Any) -> Any:
    return lambda row: None if row[name] is None else test(row[name])


def _above(value: float) -> Any:
    """NaN is the greatest of all."""
    return _compared("x", lambda x: math.isnan(x) or x > value)


def _both(one: Any, two: Any) -> Any:
    def found(row: Row) -> bool | None:
        sides = (one(row), two(row))
        return False if False in sides else None if None in sides else True

    return found


def _one(one: Any, two: Any) -> Any:
    return lambda row: _not(_both(lambda r: _not(one(r)), lambda r: _not(two(r)))(row))


_k2 = _compared("k", lambda k: k == 2)
_k_from_2 = _compared("k", lambda k: k >= 2)
_x0 = _compared("x", lambda x: x == 0.0)
_a = _compared("s", lambda s: s.startswith("a"))
# What an overwrite is given, and what it means of a row: true, false or null.
WHERE: dict[str, tuple[Any, Any]] = {
    "k = 2": ("k = 2", _k2),
    "k >= 2": ("k >= 2", _k_from_2),
    "k IS NULL": ("k IS NULL", lambda row: row["k"] is None),
    "NOT k = 2": ("NOT k = 2", lambda row: _not(_k2(row))),
    "k IN (0, 3)": ("k IN (0, 3)", _compared("k", lambda k: k in (0, 3))),
    "k <= 3": ("k <= 3", _compared("k", lambda k: k <= 3)),
    "x = 0": ("x = 0.0", _x0),
    "x > 1": ("x > 1.0", _above(1.0)),
    "not x > 1": ("NOT x > 1.0", lambda row: _not(_above(1.0)(row))),
    "s like": ("s LIKE 'a%'", _a),
    "s is not null": ("s IS NOT NULL", lambda row: row["s"] is not None),
    "and": ("k >= 2 AND x = 0.0", _both(_k_from_2, _x0)),
    "or": ("k = 2 OR s LIKE 'a%'", _one(_k2, _a)),
    "true": ("TRUE", lambda row: True),
    "null": ("NULL", lambda row: None),
    # Arrow compares NaN as IEEE does.
    "arrow k": (pc.field("k") >= 2, _k_from_2),
    "arrow x": (pc.field("x") > 1.0, _compared("x", lambda x: x > 1.0)),
    "arrow not x": (~(pc.field("x") > 1.0), _compared("x", lambda x: not x > 1.0)),
    "arrow unknown": (pc.add(pc.field("k"), 1) >= 3, _k_from_2),
    "arrow place": (pc.field(0) >= 2, None),
}


def meets(name: str, row: Row) -> bool:
    return WHERE[name][1](row) is True


def table(rows: list[Row], k: pa.DataType, *, with_s: bool) -> pa.Table:
    """Rows as data; without `s` if no row has any."""
    columns = {
        "k": pa.array([row["k"] for row in rows], k),
        "x": pa.array([row["x"] for row in rows], pa.float64()),
    }
    if with_s or any(row["s"] is not None for row in rows):
        columns["s"] = pa.array([row["s"] for row in rows], pa.string())
    return pa.table(columns)


def plain(row: Row) -> str:
    """Equal for equal rows: NaN is one value, -0.0 is another one than 0.0."""
    return repr([row.get(name) for name in NAMES])


def found(rows: pa.Table) -> list[str]:
    return sorted(map(plain, rows.to_pylist()))
