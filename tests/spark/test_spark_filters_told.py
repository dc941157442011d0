"""What Spark's filters become as predicates of lakelog's: never less than the query wants, however
little of it is understood. Without Spark: the texts are what `FilterText` writes."""

from __future__ import annotations

import json
import math
import operator
import random
import struct
import sys
from pathlib import Path

import pyarrow as pa
import pytest

sys.path.append(str(Path(__file__).parents[1] / "running"))

from lakelog.catalog.where.arrow import mask
from lakelog.catalog.where.text import in_words
from lakelog.spark.filters import read_filters
from seeds import base_seed

CASES = 3_000
COLUMNS = {
    "i": ("int", pa.field("i", pa.int32())),
    "f": ("double", pa.field("f", pa.float64())),
    "s": ("string", pa.field("s", pa.string())),
    "o": ("boolean", pa.field("o", pa.bool_())),
    "d": ("date", pa.field("d", pa.date32())),
}
VALUES = {
    "i": [-1, 0, 1, 2],
    "f": [-math.inf, -0.0, 0.0, 1.5, math.inf, math.nan],
    "s": ["", "a", "ab", "é"],
    "o": [False, True],
    "d": [-200_000, 0, 19_000],
}
TESTS = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip


def told(name: str, value: object) -> object:
    """A value as it is written down."""
    if name == "f":
        return struct.unpack("<q", struct.pack("<d", value))[0]
    return value.encode().hex() if name == "s" else value


def key(value: object) -> object:
    """By which Spark orders values."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value


def leaf(draw: random.Random, row: dict) -> tuple[object, bool | None]:
    """What Spark asks, as it is written down, and what a row makes of it."""
    if draw.random() < 0.25:
        return None, draw.choice([True, False, None])  # not understood
    name = draw.choice(list(COLUMNS))
    kind, value = COLUMNS[name][0], row[name]
    start = [name.encode().hex(), kind]
    word = draw.choice([*TESTS, *TESTS, "<=>", "in", "null", "filled", "begins", "true"])
    if word in ("null", "filled"):
        return [word, *start], (value is None) == (word == "null")
    if word == "true":
        return ["true", b"o".hex(), "boolean"], row["o"]
    if word == "begins":
        given = draw.choice(VALUES["s"])
        answer = None if row["s"] is None else row["s"].startswith(given)
        return ["begins", b"s".hex(), "string", told("s", given)], answer
    if word == "in":
        several = draw.choices(VALUES[name], k=draw.randint(0, 3))
        found = None if value is None else any(key(value) == key(each) for each in several)
        return ["in", *start, *(told(name, each) for each in several)], found
    given = draw.choice(VALUES[name])
    if word == "<=>":
        return [word, *start, told(name, given)], value is not None and key(value) == key(given)
    answer = None if value is None else TESTS[word](key(value), key(given))
    return [word, *start, told(name, given)], answer


def tree(draw: random.Random, row: dict, depth: int = 3) -> tuple[object, bool | None]:
    shape = draw.random()
    if not depth or shape < 0.3:
        return leaf(draw, row)
    if shape < 0.5:
        text, answer = tree(draw, row, depth - 1)
        return ["not", text], None if answer is None else not answer
    parts = [tree(draw, row, depth - 1) for _ in range(draw.randint(1, 3))]
    answers = [answer for _, answer in parts]
    decides = shape >= 0.75  # or
    found = decides if decides in answers else None if None in answers else not decides
    return ["or" if decides else "and", *(text for text, _ in parts)], found


def test_a_row_that_spark_wants_meets_what_is_understood():
    understood = 0
    for case in range(CASES):
        draw = random.Random(base_seed() * CASES + case)
        row = {name: draw.choice([None, *values]) for name, values in VALUES.items()}
        text, wanted = tree(draw, row)
        found = read_filters(json.dumps(["and", text]), COLUMNS)
        if found is None:
            continue
        understood += 1
        arrays = [pa.array([row[name]], field.type) for name, (_, field) in COLUMNS.items()]
        batch = pa.RecordBatch.from_arrays(arrays, list(COLUMNS))
        if wanted is True:
            assert mask(found.predicate, batch).to_pylist() == [True], (text, row)
    assert understood > CASES / 3


def one(*told: object) -> object:
    return read_filters(json.dumps(["and", *told]), COLUMNS)


NUMBER, TEXT = [b"i".hex(), "int"], [b"s".hex(), "string"]


@pytest.mark.parametrize(
    "text",
    [
        [">", "78", "int", 5],
        [">", NUMBER[0], "bigint", 5],
        [">", NUMBER[0], "interval day", 5],
        ["in", *NUMBER],
        ["or", [">", *NUMBER, 5], None],
        ["not", ["and", [">", *NUMBER, 5], None]],
        None,
    ],
)
def test_what_isnt_understood_skips_nothing(text):
    assert one(text) is None


def test_what_is_understood_is_the_predicate():
    found = one([">", *NUMBER, 5], None, ["begins", *TEXT, "61"], ["not", ["in", *NUMBER, 7, 8]])
    assert in_words(found.predicate) == "(i > 5 AND s LIKE 'a%' AND NOT (i IN (7, 8)))"
    assert found.target == pa.schema([COLUMNS["i"][1], COLUMNS["s"][1]])
