"""The language of predicates: what it takes, what it refuses, and how it says so."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from lakelog.catalog.where.parse import parse_where
from lakelog.catalog.where.tree import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    StartsWith,
    columns_of,
)
from lakelog.errors import InvalidPredicate, UsageError

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("u", pa.uint8()),
        ("d", pa.decimal128(5, 2)),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("bin", pa.binary()),
        ("fixed", pa.binary(3)),
        ("date", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("ms", "Europe/Oslo")),
        ("t", pa.time64("us")),
        ("n", pa.null()),
        ("st", pa.struct([("x", pa.int32())])),
        ("gap", pa.duration("s")),
        ("a.b", pa.int8()),
        ("X", pa.int8()),
        ("x", pa.int8()),
        ("Ab", pa.int8()),
    ]
)


def column(name: str) -> Column:
    return Column(name, SCHEMA.field(name).type)


INT, S, F = column("i"), column("s"), column("f")
NEVER, ALWAYS = Compare(INT, "<", -(2**31)), Compare(INT, ">=", -(2**31))


def parsed(text: str):
    return parse_where(text, SCHEMA, "orders")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("i = 5", Compare(INT, "=", 5)),
        ("i == 5", Compare(INT, "=", 5)),
        ("i != -5", Compare(INT, "<>", -5)),
        ("5 < i", Compare(INT, ">", 5)),
        ("((i)) >= ((+5))", Compare(INT, ">=", 5)),
        ("i = - -5 -- five", Compare(INT, "=", 5)),
        ("i IS NULL", IsNull(INT)),
        ("i IS NOT NULL", Not(IsNull(INT))),
        ("st IS NULL", IsNull(column("st"))),
        ("gap IS NOT NULL", Not(IsNull(column("gap")))),
        ("NOT i < 5", Compare(INT, ">=", 5)),
        ("NOT NOT i < 5", Compare(INT, "<", 5)),
        ("NOT i = 5 AND b", And((Compare(INT, "<>", 5), Compare(column("b"), "=", True)))),
        ("NOT (i = 5 OR s = 'x')", And((Compare(INT, "<>", 5), Compare(S, "<>", "x")))),
        ("i = 1 OR i = 2 AND f = 3", Or((Compare(INT, "=", 1),
            And((Compare(INT, "=", 2), Compare(F, "=", 3.0)))))),
        ("i IN (3, 1, 3.0, 2.5)", In(INT, (1, 3))),
        ("i IN (1)", Compare(INT, "=", 1)),
        ("i IN (2.5)", NEVER),
        ("i IN (1, NULL)", Or((Compare(INT, "=", 1), Constant(None)))),
        ("i NOT IN (1, 2, NULL)", And((Not(In(INT, (1, 2))), Constant(None)))),
        ("i = 1 OR 2 = i OR i IN (3, 4)", In(INT, (1, 2, 3, 4))),
        ("i BETWEEN 1 AND 2.5", And((Compare(INT, ">=", 1), Compare(INT, "<=", 2)))),
        ("i NOT BETWEEN 1 AND NULL", Or((Compare(INT, "<", 1), Constant(None)))),
        ("s LIKE 'ab%'", StartsWith(S, "ab")),
        ("s LIKE 'ab%%'", StartsWith(S, "ab")),
        ("s NOT LIKE 'ab%'", Not(StartsWith(S, "ab"))),
        ("s LIKE 'ab'", Compare(S, "=", "ab")),
        ("s LIKE '%'", Compare(S, ">=", "")),
        ("s LIKE '50$%%' ESCAPE '$'", StartsWith(S, "50%")),
        ("s LIKE 'C:\\x%' ESCAPE '$'", StartsWith(S, "C:\\x")),
        ("s LIKE NULL", Constant(None)),
        ("s = 'it''s\\'", Compare(S, "=", "it's\\")),
        ("TRUE", Constant(True)),
        ("NULL AND FALSE", Constant(False)),
        ("NULL OR i = NULL", Constant(None)),
        ("i = 5 OR TRUE", Constant(True)),
        ("b", Compare(column("b"), "=", True)),
        ("NOT b", Compare(column("b"), "<>", True)),
        ("b = 'TRUE'", Compare(column("b"), "=", True)),
        ("n = 5", Constant(None)),
        ("bin = X'00fF'", Compare(column("bin"), "=", b"\0\xff")),
        ("i = '5'", Compare(INT, "=", 5)),
        ("f = 'inf'", Compare(F, "=", float("inf"))),
        ("f = 1e3", Compare(F, "=", 1000.0)),
        ('"a.b" = 1', Compare(column("a.b"), "=", 1)),
        ("X = 1", Compare(column("X"), "=", 1)),
        ("x = 1", Compare(column("x"), "=", 1)),
        ("ab = 1", Compare(column("Ab"), "=", 1)),
        ("AB = 1", Compare(column("Ab"), "=", 1)),
        ("CAST(i AS BIGINT) = 5", Compare(INT, "=", 5)),
        ("i::DOUBLE < 0.5", Compare(INT, "<", 1)),
        ("CAST(date AS TIMESTAMP) >= '2020-01-01 12:00'", Compare(column("date"), ">=", 18263)),
        ("i = CAST('5' AS TINYINT)", Compare(INT, "=", 5)),
        ("f = CAST(0.1 AS FLOAT)", Compare(F, "=", 0.10000000149011612)),
        ("CAST(NULL AS INT) = i", Constant(None)),
    ],
)  # fmt: skip
def test_a_text_becomes_this_tree(text, tree):
    assert parsed(text) == tree


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("  -- nothing", "is empty"),
        ("i =", "something is missing"),
        ("i = 5 5", "at character 7"),
        ("i = 5; b", "there is a ;"),
        ("i = 'x", "doesn't end"),
        ("i = 0xff", "hexadecimal number at character 5"),
        ("nope = 1", "no column 'nope' .*at character 1"),
        ('"I" = 1', "no column 'I'; there is 'i'"),
        ("i = f", "a column is compared with a column"),
        ("f = NaN", "x > .inf. is true of it"),
        ('s = "nobody"', "a text stands in single quotes"),
        ("1 = 1", "two literals"),
        ("5", "a literal where a condition must be"),
        ("s", "column 's' alone is no condition"),
        ("lower(s) = 'x'", r"a function \(Lower\)"),
        ("my_own(s) = 'x'", "a function"),
        ("i + 1 = 5", r"an operation \(Add\)"),
        ("-i = 5", "where a column must be"),
        ("i = (SELECT 1)", "Subquery"),
        ("i IN (SELECT 1)", "query"),
        ("i IN f", "field"),
        ("i IN (f)", "where a literal must be"),
        ("i IN ()", "needs a list"),
        ("st.x = 1", "a nested field"),
        ("st = 1", "nested, interval or duration"),
        ("gap > '1'", "IS NULL or IS NOT NULL only"),
        ("st['x'] = 1", "Bracket"),
        ("i = ?", "a parameter"),
        ("i = $1", "a parameter"),
        ("i IS TRUE", "IS is for NULL only"),
        ("i IS NOT DISTINCT FROM 5", "NullSafeEQ"),
        ("(i = 5) IS NULL", "where a column must be"),
        ("i BETWEEN SYMMETRIC 1 AND 2", "symmetric"),
        ("(i, u) = (1, 2)", "a row"),
        ("s ILIKE 'x'", "ILike"),
        ("s LIKE ANY ('a')", "Any"),
        ("s LIKE 'a_'", "wildcard _ .*at character"),
        ("s LIKE '%a'", "wildcard % before its end"),
        ("s LIKE 'a\\%'", "backslash"),
        ("s LIKE 'a$x' ESCAPE '$'", "escape character"),
        ("i LIKE '5%'", "LIKE is for text"),
        ("s = 5", "a text column.*character 5"),
        ("i = 'five'", "no integer"),
        ("i = '5.0'", "no integer"),
        ("i = 'inf'", "no integer"),
        ("i = TRUE", "an integer column"),
        ("b = 1", "a boolean column"),
        ("bin = 'x'", "X'00ff'"),
        ("bin = X'f'", "two digits"),
        ("s = X'ff'", "a text column"),
        ("s = e'x'", "ByteString"),
        ("s = 'a' 'b'", "Concat"),
        ("s COLLATE nocase = 'x'", "Collate"),
        ("f = 'NaN'", "NaN"),
        ("f = CAST('nan' AS DOUBLE)", "NaN"),
        ("f = 1e99999", "exponent"),
        ("f = 1e", "no number"),
        ("d = 'inf'", "infinities"),
        ("date = '2020-02-30'", "no such day"),
        ("date = '2020-1-1'", "no date like"),
        ("date > '2020-01-01 12:00:00'", "no date like"),
        ("date = 18262", "a date column"),
        ("ts = '2020-01-01 24:00:00'", "no such time of day"),
        ("ts > '2020-01-01 00:00:00Z'", "it has an offset"),
        ("ts > TIMESTAMPTZ '2020-01-01 00:00:00+01'", "it has an offset"),
        ("ts > TIMESTAMPTZ '2020-01-01 00:00:00'", "no offset"),
        ("tz > '2020-01-01 00:00:00'", "no offset.*Z for UTC"),
        ("tz > DATE '2020-01-01'", "no offset"),
        ("t > '25:00'", "no such time of day"),
        ("i = INTERVAL 1 DAY", "Interval"),
        ("date > CURRENT_DATE", "CurrentDate"),
        ("CAST(i AS SMALLINT) = 5", "can lose values"),
        ("CAST(i AS VARCHAR) = '5'", "can lose values"),
        ("CAST(i AS FANCY) = 5", "type that is not known"),
        ("TRY_CAST(i AS BIGINT) = 5", "TryCast"),
        ("i = CAST(300 AS TINYINT)", "would lose something"),
        ("d = CAST(1.55 AS DECIMAL(3, 1))", "would lose something"),
        ("ts = CAST('2020-01-01 00:00:00.5' AS TIMESTAMP_S)", "would lose something"),
        ("ts = CAST(TIMESTAMPTZ '2020-01-01 00:00:00Z' AS TIMESTAMP)", "offset"),
        ("s = '\ud800'", "half a character"),
        ("CASE WHEN b THEN b END", "Case"),
        ("EXISTS (SELECT 1)", "Exists"),
        ("b = NOT b", "where a literal must be"),
        ("{x} = 1", "Struct"),
        ("i := 5", "Unexpected token"),
        ("U&'x' = s", "BitwiseAnd"),
    ],
)
def test_what_is_refused_says_what_and_where_and_what_instead(text, words):
    with pytest.raises(InvalidPredicate, match=words) as caught:
        parsed(text)
    assert isinstance(caught.value, UsageError)
    assert "'orders'" in str(caught.value)
    assert caught.value.hint


def test_two_columns_that_differ_in_case_are_told():
    schema = pa.schema([("Yy", pa.int8()), ("YY", pa.int8())])
    with pytest.raises(InvalidPredicate, match=r'several columns .*: "Yy", "YY"'):
        parse_where("yY = 1", schema, "t")
    assert columns_of(parse_where("YY = 1", schema, "t")) == ["YY"]


def test_a_name_that_stands_twice_is_refused():
    with pytest.raises(InvalidPredicate, match="several columns are called 'a'"):
        parse_where("a = 1", pa.schema([("a", pa.int8()), ("a", pa.int8())]), "t")


def test_the_columns_of_a_predicate_are_told():
    assert columns_of(parsed("u = 1 OR NOT (i = 1 AND s LIKE 'a%') OR u IS NULL")) == [
        "u",
        "i",
        "s",
    ]


@pytest.mark.slow("ten thousand terms, parsed three times")
def test_ten_thousand_terms_work_and_are_quick():
    """Of one column they are a set, of several they stay. A quadratic way would take minutes."""
    before = time.process_time()
    assert parsed(" OR ".join(f"i = {n}" for n in range(10_000))) == In(INT, tuple(range(10_000)))
    assert parsed(f"i IN ({', '.join(map(str, range(10_000)))})") == In(INT, tuple(range(10_000)))
    many = parsed(" OR ".join(f"(i > {n} AND f < {n})" for n in range(2_000)))
    assert isinstance(many, Or)
    assert len(many.items) == 2_000
    assert time.process_time() - before < 40


@pytest.mark.parametrize("depth", [33, 1_000, 10_000])
@pytest.mark.parametrize(
    ("begin", "end"),
    [("(", ")"), ("NOT ", ""), ("NOT (", ")"), ("i = 1 OR (", ")"), ("CAST(", " AS INT)")],
)
def test_what_is_too_deep_is_refused(begin, end, depth):
    with pytest.raises(InvalidPredicate):
        parsed(begin * depth + "b" + end * depth)


DEEP = [
    "i = " + "- " * 5_000 + "5",
    "i" + "::INT" * 5_000 + " = 5",
    "~" * 5_000 + "i = 5",
    "i" + " < 5" * 5_000,
    "i" + ".x" * 5_000 + " = 5",
    "[" * 5_000,
    "i = " + "{" * 5_000,
    "CASE " * 5_000,
    "(" * 5_000,
    ")" * 5_000,
    "i = " + "@" * 5_000 + "5",
    "f(" * 5_000,
    "i IN (" * 5_000,
    "EXISTS(SELECT " * 2_000,
]


@pytest.mark.parametrize("text", DEEP, ids=lambda text: text[:20])
def test_what_is_deep_in_other_ways_never_ends_by_recursion(text):
    with pytest.raises(InvalidPredicate):
        parsed(text)


def test_thirty_parentheses_work():
    assert parsed("(" * 30 + "i = 5" + ")" * 30) == Compare(INT, "=", 5)
    assert parsed(" AND ".join(["((i = 5))"] * 1_000)) == Compare(INT, "=", 5)
