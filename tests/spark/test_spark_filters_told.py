"""What Spark's filters become as predicates of lakelog's: never less than the query wants, however
little of it is understood. Without Spark: the texts are what `FilterText` writes."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pyarrow as pa
import pytest

sys.path.append(str(Path(__file__).parents[1] / "running"))
sys.path.append(str(Path(__file__).parent))

from lakelog.catalog.read.explain import in_words
from lakelog.catalog.where.emit import mask
from lakelog.spark.filters import read_filters
from seeds import base_seed
from told_filters import COLUMNS, VALUES, tree

CASES = 3_000


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
