"""What Spark's conditions become where rows are deleted by them: a predicate that is true of
exactly the same rows, or none. Without Spark: the texts are what `FilterText` writes."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pyarrow as pa
import pytest

sys.path.append(str(Path(__file__).parents[1] / "running"))
sys.path.append(str(Path(__file__).parent))

from lakelog.catalog.where.emit import mask
from lakelog.catalog.where.parse import parse_where
from lakelog.spark.filters import exact_text
from seeds import base_seed
from told_filters import COLUMNS, VALUES, tree

CASES = 2_000
SCHEMA = pa.schema([field for _, field in COLUMNS.values()])
ODD = {"s": ["a%b", "_", "it's", "\\", "$a_", "\n\0", "é"], "d": [-25_203, -25_202, 2_932_897]}


def test_a_predicate_is_true_of_the_rows_that_spark_means():
    known = 0
    for case in range(CASES):
        draw = random.Random(base_seed() * CASES + case)
        values = {name: [*some, *ODD.get(name, [])] for name, some in VALUES.items()}
        row = {name: draw.choice([None, *some]) for name, some in values.items()}
        told, wanted = tree(draw, row)
        text = exact_text(json.dumps(["and", told]), SCHEMA, "t")
        if text is None:
            continue
        known += 1
        arrays = [pa.array([row[field.name]], field.type) for field in SCHEMA]
        batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        (found,) = mask(parse_where(text, SCHEMA, "t"), batch).to_pylist()
        assert found == wanted, (text, row)
    assert known > CASES / 10


def name_of(column: str) -> str:
    return column.encode().hex()


def text_of(*told: object, schema: pa.Schema = SCHEMA) -> str | None:
    return exact_text(json.dumps(["and", *told]), schema, "t")


@pytest.mark.parametrize("given", ["a%b", "_", "it's", "\\", "$a_", "100%", "é\n"])
def test_what_a_text_begins_with(given):
    rows = [given, f"{given}x", f"x{given}", "a_b", "axb", "100", None]
    wanted = [None if row is None else row.startswith(given) for row in rows]
    schema = pa.schema([("s", pa.string())])
    text = text_of(["begins", name_of("s"), "string", given.encode().hex()], schema=schema)
    batch = pa.RecordBatch.from_arrays([pa.array(rows)], schema=schema)
    assert text is not None
    assert mask(parse_where(text, schema, "t"), batch).to_pylist() == wanted, text


@pytest.mark.parametrize(
    ("kind", "type_name"),
    [
        (pa.timestamp("ns"), "timestamp_ntz"),  # of which Spark sees microseconds
        (pa.float16(), "float"),  # a constant would be rounded to another one
        (pa.int32(), "bigint"),
        (pa.time64("us"), "time(6)"),
        (pa.list_(pa.int32()), "array<int>"),
    ],
)
def test_types_that_mean_something_else_are_not_told(kind, type_name):
    schema = pa.schema([("c", kind)])
    for word in ("=", "<", "in"):
        assert text_of([word, name_of("c"), type_name, 5], schema=schema) is None


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (["constant", True], "TRUE"),
        (["not", ["constant", None]], "NOT (NULL)"),
        (["=", name_of("d"), "date", -30_000], None),  # of an older calendar, perhaps
        (["=", name_of("d"), "date", 3_000_000], None),
        (["=", name_of("d"), "date", 0], "\"d\" = DATE '1970-01-01'"),
        (["=", name_of("f"), "double", 0x7FF8000000000000], None),  # NaN
        (["=", name_of("s"), "string", "ff"], None),  # no text
        (["or", None, ["true", name_of("o"), "boolean"]], None),
        (["in", name_of("i"), "int"], None),
        (["or", ["in", name_of("i"), "int", 1], ["constant", None]], '("i" IN (1)) OR (NULL)'),
    ],
)  # fmt: skip
def test_what_is_told(told, text):
    assert text_of(told) == text


def test_chains_may_be_long_and_are_not_too_deep():
    told: object = ["=", name_of("i"), "int", 0]
    for number in range(1, 200):
        told = ["or", told, ["=", name_of("i"), "int", number]]
    assert text_of(told).count(" OR ") == 199
    for number in range(40):
        told = ["not", ["and", told, [">", name_of("f"), "double", number]]]
    assert text_of(told) is None
