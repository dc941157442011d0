"""Predicates out of pyarrow's expressions mean what pyarrow makes of them, or there are none."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from draw import draw_values, to_arrow
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.where.emit import expression, mask
from lakelog.catalog.where.from_arrow import from_arrow
from lakelog.catalog.where.tree import And, Compare, In, IsNull, Not, columns_of
from sample import examples
from seeds import base_seed

NAN, INF = float("nan"), float("inf")
TABLE = pa.table(
    {
        "i": pa.array([1, 2, None, -7], pa.int32()),
        "l": pa.array([1, 2**53 + 1, None, -7], pa.int64()),
        "f": pa.array([NAN, 2.5, None, INF]),
        "g": pa.array([0.1, NAN, None, -0.0], pa.float32()),
        "s": ["a", 'b"\\\n', None, "é"],
        "b": [True, False, None, True],
        "day": pa.array([0, 18262, None, 5], pa.date32()),
        "ts": pa.array([0, 1577836800500000, None, 5], pa.timestamp("us")),
        "tz": pa.array([0, 1577836800500000, None, 5], pa.timestamp("us", "UTC")),
        "d": pa.array([Decimal("1.50"), None, Decimal("2.00"), None], pa.decimal128(10, 2)),
        "x": [b"", b"\0a", None, b"z"],
        'odd "name]\n(': [1, 2, None, 3],
    }
)
FIELD = pc.field


def by_pyarrow(made: pc.Expression) -> list[bool | None]:
    return ds.dataset(TABLE).to_table(columns={"m": made})["m"].to_pylist()


def by_tree(made: pc.Expression) -> list[bool | None] | None:
    tree = from_arrow(made, TABLE.schema)
    if tree is None:
        return None
    answer = mask(tree, TABLE.to_batches()[0]).to_pylist()
    assert by_pyarrow(expression(tree)) == answer
    return answer


@pytest.mark.parametrize(
    "made",
    [
        FIELD("i") == 1,
        pc.greater(pc.scalar(2), FIELD("i")),
        FIELD("f") > 2,
        FIELD("f") >= INF,
        FIELD("f") != 2.5,
        ~(FIELD("f") > 2.0),
        ~(FIELD("f") <= 2.0) | (FIELD("i") == 2),
        FIELD("g") == 0.1,
        FIELD("g") == pa.scalar(0.1, pa.float32()),
        FIELD("g") > pa.scalar(-1e300),
        FIELD("i") == 1.5,
        FIELD("f").is_nan(),
        FIELD("f").is_null(nan_is_null=True),
        FIELD("i").is_null(),
        FIELD("i").is_valid(),
        FIELD("i").isin([1, None]),
        ~FIELD("i").isin([1, None]),
        ~FIELD("i").isin([1, 5]),
        FIELD("g").isin(pa.array([0.5], pa.float32())),
        FIELD("s").isin(['b"\\\n', "é"]),
        pc.if_else(FIELD("i").is_valid(), FIELD("i").isin([1]), pa.scalar(None, pa.bool_())),
        pc.starts_with(FIELD("s"), "b"),
        FIELD("b"),
        ~FIELD("b") & (FIELD("i") > 0),
        pc.scalar(True) & (FIELD("i") > 0),
        FIELD("i") == pa.scalar(None, pa.int32()),
        FIELD("i").cast(pa.int64()) < 2,
        FIELD("day") <= dt.date(2020, 1, 1),
        FIELD("day") < dt.datetime(2020, 1, 1, 12),
        FIELD("ts") == dt.datetime(2020, 1, 1, 0, 0, 0, 500000),
        FIELD("tz") >= pa.scalar(5, pa.timestamp("us", "UTC")),
        FIELD("d") == Decimal("1.5"),
        FIELD("x") >= b"\0a",
        FIELD('odd "name]\n(') > 1,
    ],
    ids=lambda made: str(made).replace("\n", "")[:50],
)
def test_what_is_understood_means_what_pyarrow_makes_of_it(made):
    assert by_tree(made) == by_pyarrow(made)


@pytest.mark.parametrize(
    "made",
    [
        FIELD("i") == FIELD("l"),
        FIELD("i") + 1 == 5,
        FIELD("nope") == 1,
        FIELD(0) == 1,
        FIELD("f", "x") == 1,
        FIELD("l") == 1.5,  # pyarrow rounds the column
        FIELD("f") == NAN,
        FIELD("f").isin([NAN]),
        FIELD("f").isin([0.0]),  # pyarrow tells -0.0 apart
        FIELD("f") == 2**53 + 1,
        FIELD("i").cast(pa.int8()) == 1,
        FIELD("i").cast(pa.float32()) == 1,
        FIELD("l").cast(pa.float64()) == 1,
        pc.match_substring(FIELD("s"), "a"),
        pc.starts_with(FIELD("s"), "A", ignore_case=True),
        pc.if_else(FIELD("b"), FIELD("i") == 1, FIELD("i") == 2),
        pc.if_else(FIELD("l").is_valid(), FIELD("i").isin([1]), pa.scalar(None, pa.bool_())),
        pc.and_(FIELD("b"), FIELD("i") == 1),
        FIELD("i"),
        pc.scalar(5),
    ],
    ids=lambda made: str(made).replace("\n", "")[:50],
)
def test_what_is_not_understood_is_none(made):
    assert from_arrow(made, TABLE.schema) is None


def test_a_name_that_stands_twice_is_none():
    schema = pa.schema([("a", pa.int32()), ("a", pa.int32())])
    assert from_arrow(FIELD("a") == 1, schema) is None


def test_what_is_too_deep_is_none_and_long_sets_work():
    made = FIELD("i") == 0
    for number in range(1, 1_000):
        made = made | (FIELD("i") > number)
    assert from_arrow(made, TABLE.schema) is None
    tree = from_arrow(FIELD("i").isin(list(range(10_000))), TABLE.schema)
    assert isinstance(tree, And)
    column = tree.items[1].column
    assert tree == And((Not(IsNull(column)), In(column, tuple(range(10_000)))))


class Listening(ds.Dataset):
    """A dataset that notes the filters that it is given."""

    def __init__(self, inner: ds.Dataset) -> None:
        self.inner, self.heard = inner, []

    @property
    def schema(self) -> pa.Schema:
        return self.inner.schema

    def scanner(self, *arguments, **options):
        self.heard.append(options.get("filter"))
        return self.inner.scanner(*arguments, **options)

    def to_table(self, *arguments, **options):
        self.heard.append(options.get("filter"))
        return self.inner.to_table(*arguments, **options)


@pytest.mark.parametrize(
    "text",
    [
        "i = 1", "i < 5 AND l > 1", "i = 1 OR s = 'a'", "i IN (1, 2)", "i NOT IN (1, 3)",
        "s IN ('a', 'é')", "s IS NULL", "s IS NOT NULL", "f < 3", "f <= 2.5", "b = false",
        "g = 0.1", "d >= 1.5", "day >= DATE '2020-01-01'", "tz < '2020-01-01 00:00:00Z'",
        "ts >= TIMESTAMP '2020-01-01 00:00:00.5'", "x = '\\x00a'::BLOB", "\"odd \"\"name]\n(\" > 1",
        "l BETWEEN 1 AND 5", "s > 'b\"'",
    ],
)  # fmt: skip
def test_what_duckdb_hands_to_a_dataset_is_understood(text):
    heard = Listening(ds.dataset(TABLE))
    with duckdb.connect() as connection:
        connection.register("t", heard)
        found = connection.sql(f"SELECT i FROM t WHERE {text}").fetchall()
    (made,) = heard.heard
    assert by_tree(made) == by_pyarrow(made)
    assert sum(by_tree(made).count(value) for value in (True,)) == len(found)


@pytest.mark.parametrize(
    "made",
    [
        pl.col("i") == 1,
        (pl.col("i") > 1) & (pl.col("l") < 5),
        (pl.col("i") == 1) | (pl.col("s") == 'b"\\\n'),
        ~(pl.col("i") == 1),
        pl.col("i").is_in([1, 2]),
        pl.col("s").is_null(),
        pl.col("s").is_not_null(),
        pl.col("day") >= dt.date(2020, 1, 1),
        pl.col("ts") >= dt.datetime(2020, 1, 1),
        pl.col("b"),
        pl.col("i").is_between(1, 5),
        pl.col("f") <= 2.5,
    ],
    ids=str,
)
def test_what_polars_hands_to_a_dataset_is_understood(made):
    heard = Listening(ds.dataset(TABLE))
    found = pl.scan_pyarrow_dataset(heard).filter(made).select("i").collect()
    (given_filter,) = heard.heard
    answer = by_tree(given_filter)
    assert answer == by_pyarrow(given_filter)
    assert answer.count(True) == found.height


def check(rng: random.Random) -> bool:
    """Two columns and literals of types near theirs: whatever is understood is right."""
    numbers = ["i8", "i16", "i32", "i64", "u8", "u32", "u64", "f32", "f64", "d9", "d38"]
    times = ["date", "ts_s", "ts_ms", "ts_us", "ts_ns", "tz_ms", "tz_us"]
    kinds = rng.choice([numbers, times])
    column, other = rng.choice(kinds), rng.choice(kinds)
    array = to_arrow(column, draw_values(rng, column, 8))
    literal = to_arrow(other, draw_values(rng, other, 1))[0]
    names = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
    made = getattr(pc, rng.choice(names))(FIELD("a"), pc.scalar(literal))
    made = ~made if rng.random() < 0.3 else made
    table = pa.table({"a": array})
    tree = from_arrow(made, table.schema)
    if tree is None:
        return False
    assert set(columns_of(tree)) <= {"a"}
    try:
        expected = ds.dataset(table).to_table(columns={"m": made})["m"].to_pylist()
    except (pa.ArrowException, ValueError):
        return False  # a timestamp that the finer unit doesn't hold
    assert mask(tree, table.to_batches()[0]).to_pylist() == expected, f"{made} {literal!r} {array}"
    return True


@given(st.integers(0, 2**64))
def test_comparisons_of_any_types_are_right_or_refused(seed):
    for number in range(20):
        check(random.Random(f"{seed} {number}"))


@pytest.mark.long
def test_comparisons_of_any_types_are_right_or_refused_many_times():
    for number in range(examples(1_000) * 20):
        check(random.Random(f"{base_seed()} expressions {number}"))


def test_most_comparisons_are_understood():
    assert sum(check(random.Random(seed)) for seed in range(300)) > 60


def test_nan_in_an_expression_is_ieee():
    tree = from_arrow(FIELD("f") > 2.0, TABLE.schema)
    assert tree == And(
        (
            Compare(tree.items[0].column, ">", 2.0),
            Compare(tree.items[0].column, "<=", INF),
        )
    )
    assert mask(tree, TABLE.to_batches()[0]).to_pylist() == [False, True, None, True]
