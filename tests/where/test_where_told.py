"""What engines are told: names and literals that no engine takes for something else, and errors
where an engine lacks a type."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from lakelog.catalog.where.emit import expression, mask, to_polars, to_sql
from lakelog.catalog.where.literals import civil_from_days, days_from_civil
from lakelog.catalog.where.parse import parse_where
from lakelog.catalog.where.tree import Column, Compare, In, any_of, nearest, neighbours, one_of
from lakelog.errors import InvalidPredicate

NAMES = ['"', "`", "a.b", "*", "^a.*$", "select", "é\n", "'; DROP TABLE t; --", "{}", "$1", ""]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_safe(name):
    table = pa.table({name: [1, 2, None], "other": [2, 2, 2]})
    tree = Compare(Column(name, pa.int64()), ">", 1)
    assert table.filter(expression(tree)).num_rows == 1
    assert mask(tree, table.to_batches()[0]).to_pylist() == [False, True, None]
    if name:  # these have no column without a name
        assert pl.from_arrow(table).filter(to_polars(tree)).height == 1
        found = duckdb.sql(f"SELECT count(*) FROM table WHERE {to_sql(tree, 'duckdb')}".replace(
            "FROM table", "FROM \"table\""))  # fmt: skip
        assert found.fetchall() == [(1,)]
    assert to_sql(tree, "spark").startswith("(`" + name.replace("`", "``") + "` >")


def test_a_name_that_duckdb_can_not_say_is_refused():
    with pytest.raises(InvalidPredicate, match="NUL"):
        to_sql(Compare(Column("a\0", pa.int8()), "=", 1), "duckdb")


@pytest.mark.parametrize(
    ("kind", "value", "refuse"),
    [
        (pa.decimal256(50, 2), Decimal("1.00"), ["duckdb", "spark", "polars"]),
        (pa.float16(), 1.5, {"spark"}),
        (pa.time64("us"), 5, {"spark"}),
        (pa.timestamp("ns"), 5, {"spark"}),
        (pa.timestamp("us"), 2**62, ["duckdb", "spark"]),
        (pa.timestamp("s"), 2**62, ["duckdb", "spark", "polars"]),
        (pa.date32(), 2**31 - 1, {"duckdb"}),
        (pa.date32(), 10**7, set()),
        (pa.timestamp("us", "UTC"), 2**62, {"duckdb"}),
        (pa.int64(), -(2**63) + 1, set()),
    ],
    ids=str,
)
def test_an_engine_without_the_type_or_the_value_says_so(kind, value, refuse):
    tree = Compare(Column("a", kind), ">", value)
    for engine in ("duckdb", "spark", "polars"):
        tell = to_polars if engine == "polars" else lambda tree, engine=engine: to_sql(tree, engine)
        if engine in refuse:
            with pytest.raises(InvalidPredicate):
                tell(tree)
        else:
            tell(tree)


def test_an_unknown_dialect_is_refused():
    with pytest.raises(InvalidPredicate, match="oracle"):
        to_sql(Compare(Column("a", pa.int8()), "=", 1), "oracle")


def test_types_laid_out_in_other_ways_are_compared_too():
    values = ["a", "b", None]
    for kind in (pa.string_view(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        table = pa.table({"a": pa.array(values).cast(kind)})
        for text in ("a = 'b'", "a IN ('b', 'c')", "a LIKE 'b%'", "a > 'a'"):
            tree = parse_where(text, table.schema, "t")
            assert mask(tree, table.to_batches()[0]).to_pylist() == [False, True, None], (
                kind,
                text,
            )
            made = ds.dataset(table).to_table(columns={"m": expression(tree)})
            assert made["m"].to_pylist() == [False, True, None]
            assert pl.from_arrow(table).filter(to_polars(tree)).height == 1


def test_a_batch_of_a_narrower_file_is_cast():
    tree = parse_where(
        "a > 1.5 AND d >= 1.5", pa.schema([("a", pa.int64()), ("d", pa.decimal128(9, 2))]), "t"
    )
    batch = pa.record_batch({"a": pa.array([1, 2], pa.int8()), "d": pa.array([2, 2], pa.int16())})
    assert mask(tree, batch).to_pylist() == [False, True]


def test_a_constant_has_a_value_for_each_row():
    batch = pa.record_batch({"a": [1, 2]})
    for text, value in (("TRUE", True), ("FALSE", False), ("NULL", None)):
        assert mask(parse_where(text, batch.schema, "t"), batch).to_pylist() == [value] * 2
    assert mask(parse_where("TRUE", batch.schema, "t"), batch.slice(0, 0)).to_pylist() == []


LONG = """
import pyarrow as pa, pyarrow.dataset as ds
from lakelog.catalog.where.emit import expression
from lakelog.catalog.where.tree import And, Column, Compare, Or
i, f = Column("i", pa.int64()), Column("f", pa.float64())
made = Or(tuple(And((Compare(i, ">", n), Compare(f, "<", float(n)))) for n in range(10_000)))
table = pa.table({"i": [1, 20_000, None], "f": [5.0, 9_998.5, None]})
print(ds.dataset(table).to_table(filter=expression(made)).num_rows)
"""


@pytest.mark.slow("pyarrow simplifies ten thousand terms")
def test_ten_thousand_terms_do_not_end_the_process():
    """Joined in one chain, of whatever shape, they did: by a segmentation fault."""
    done = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr[-500:]


def test_terms_over_the_length_of_a_chain_are_joined_right():
    table = pa.table({"i": [*range(300), None]})
    column = Column("i", pa.int64())
    for step in (63, 64, 65, 130):
        text = " OR ".join(f"(i > {n} AND i < {n + 2})" for n in range(step))
        tree = parse_where(text, table.schema, "t")
        wanted = [1 <= n <= step for n in range(300)] + [None]
        assert mask(tree, table.to_batches()[0]).to_pylist() == wanted
        both = parse_where(f"NOT ({text})", table.schema, "t")
        found = ds.dataset(table).to_table(filter=expression(both)).num_rows
        assert found == 300 - step
    assert expression(In(column, (1, 2))).equals(expression(In(column, (1, 2))))


def test_floats_are_rounded_to_the_nearest_even():
    half = Fraction(1, 2)
    assert nearest(pa.float16(), Fraction(2049)) == 2048.0
    assert nearest(pa.float16(), Fraction(2051)) == 2052.0
    assert nearest(pa.float16(), Fraction(65519)) == 65504.0
    assert nearest(pa.float16(), Fraction(65520)) == float("inf")
    assert nearest(pa.float32(), Fraction(2**24 + 1)) == 2.0**24
    assert nearest(pa.float32(), Fraction(1, 10)) == 0.10000000149011612
    assert nearest(pa.float64(), Fraction(5, 10**324)) == 5e-324
    assert nearest(pa.float64(), Fraction(2, 10**324)) == 0.0
    assert nearest(pa.float64(), -(Fraction(10) ** 309)) == -float("inf")
    assert neighbours(pa.float64(), 2**53 + half) == (2.0**53, 2.0**53 + 2)
    assert neighbours(pa.float32(), -(Fraction(10) ** 39))[0] == -float("inf")


def test_days_and_dates_are_each_others_contrary():
    for days in [*range(-800_000, 3_000_000, 997), -719_162, 2_932_896, 0, -1]:
        assert days_from_civil(*civil_from_days(days)) == days
    assert days_from_civil(1970, 1, 1) == 0
    assert days_from_civil(2000, 2, 29) == 11_016
    assert civil_from_days(-719_162) == (1, 1, 1)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x > 5", [True, False, False, True, False, None]),
        ("x >= 5", [True, False, False, True, False, None]),
        ("x > 'inf'", [True, False, False, False, False, None]),
        ("x >= 'inf'", [True, False, False, True, False, None]),
        ("x <= 'inf'", [False, True, True, True, True, None]),
        ("x < 1e999", [False, True, True, False, True, None]),
        ("x <> 5", [True, True, True, True, True, None]),
        ("x = 0", [False, True, True, False, False, None]),
        ("x >= 0", [True, True, True, True, False, None]),
        ("x IN (0, 1)", [False, True, True, False, False, None]),
        ("x NOT IN (0, 1)", [True, False, False, True, True, None]),
        ("NOT x <= 5", [True, False, False, True, False, None]),
        ("x BETWEEN 5 AND 'inf'", [False, False, False, True, False, None]),
        ("x IS NULL", [False, False, False, False, False, True]),
    ],
)
def test_nan_is_the_greatest_and_the_zeros_are_equal(kind, text, wanted):
    tree = parse_where(text, pa.schema([("x", kind)]), "t")
    assert_engines_find(tree, kind, wanted)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize("zeros", [[-0.0], [0.0], [0.0, -0.0], [-0.0, 0.0]])
def test_a_set_with_either_zero_has_both(kind, zeros):
    """As Spark's filters and pyarrow's expressions say it: in SQL texts no zero has a sign."""
    wanted = [False, True, True, True, False, None]
    column, values = Column("x", kind), [*zeros, float("inf")]
    assert_engines_find(one_of(column, values), kind, wanted)
    each = [Compare(column, "=", value) for value in values]
    assert_engines_find(any_of(each), kind, wanted)


def assert_engines_find(tree, kind, wanted):
    """Which of these values meet a predicate."""
    values = [float("nan"), 0.0, -0.0, float("inf"), -1.5]
    array = pa.array([*map(kind.to_pandas_dtype(), values), None], kind)
    table = pa.table({"x": array})
    assert mask(tree, table.to_batches()[0]).to_pylist() == wanted
    found = ds.dataset(table).to_table(columns={"m": expression(tree)})["m"].to_pylist()
    assert found == wanted
    assert pl.from_arrow(table).select(m=to_polars(tree))["m"].to_list() == wanted
    in_duckdb = pa.table({"x": array.cast(pa.float32()) if kind == pa.float16() else array})
    made = duckdb.from_arrow(in_duckdb).project(to_sql(tree, "duckdb")).fetchall()
    assert [row[0] for row in made] == wanted
