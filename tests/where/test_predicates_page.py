"""docs/predicates.md, the language as the format binds it, is the language that lakelog reads."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from lakelog.catalog.where.emit import mask
from lakelog.catalog.where.parse import parse_where
from lakelog.errors import InvalidPredicate

PAGE = (Path(__file__).parents[2] / "docs" / "predicates.md").read_text(encoding="utf-8")
ROWS = pa.table(
    {
        "n": pa.array([1, 5, None], pa.int32()),
        "x": pa.array([0.1, float("nan"), -0.0], pa.float32()),
        "s": ["os%lo", "Oslo", None],
        "b": [True, False, None],
        "t": pa.array([0, 86_400_000_000, None], pa.timestamp("us")),
    }
)
TRUE_OF = {
    "n == 5": [1], "5 != n": [0], "n::BIGINT > 4.5": [1], "CAST(n AS BIGINT) = 5 -- five": [1],
    "n /* of them */ IN (1, NULL)": [0], "n NOT IN (1, NULL)": [], "NOT n BETWEEN - 5 AND 1": [1],
    "(n) = (5)": [1], "n = '5'": [1], "b": [0], "NOT b": [1], "b = 'TRUE'": [0], "NULL": [],
    "x = 0.1": [0], "x > 'Infinity'": [1], "x = 0": [2], "x < '-inf'": [], "x > 1e3": [1],
    "s LIKE 'os%%'": [0], "s LIKE 'os_lo'": None, "s LIKE 'os$%%' ESCAPE '$'": [0],
    "s NOT LIKE 'Oslo'": [0], "s LIKE '%o'": None, r"s LIKE 'o\%'": None, "S > 'P'": [0],
    "s IS NULL AND n IS NULL": [2], "t = '1970-01-02'": [1], "t = DATE '1970-01-02'": [1],
    "t < '1970-01-01T00:00:00.0000001'": [0], "t = '1970-01-01 00:00Z'": None, "n = nan": None,
    "n = s": None, "n + 1 = 5": None, "lower(s) = 'oslo'": None, "CAST(n AS SMALLINT) = 5": None,
    "null OR n = 5": [1], "NOT (NULL OR n = 5)": [], "n = 5 OR TRUE": [0, 1, 2],
}  # fmt: skip


@pytest.mark.parametrize("text", TRUE_OF)
def test_what_a_predicate_means(text: str) -> None:
    expected = TRUE_OF[text]
    if expected is None:
        with pytest.raises(InvalidPredicate):
            parse_where(text, ROWS.schema, "t")
        return
    (batch,) = ROWS.to_batches()
    found = mask(parse_where(text, ROWS.schema, "t"), batch).to_pylist()
    assert [row for row, is_true in enumerate(found) if is_true] == expected


def test_the_types_of_the_page_are_those_of_the_code() -> None:
    said = PAGE[PAGE.index("A type is one of") : PAGE.index("A cast of a column must")]
    names = set(re.findall(r"\b[A-Z_]{3,}\b", said)) - {"DECIMAL"}
    assert len(names) == 22
    for name in (*names, "DECIMAL(76, 2)"):
        assert parse_where(f"n = CAST(NULL AS {name})", ROWS.schema, "t") is not None
