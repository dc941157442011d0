"""Every translation of a predicate means the same: pyarrow's mask, its expression in a dataset,
Polars, DuckDB by our SQL, DuckDB by the very text where it means the same, and plain Python."""

from __future__ import annotations

import random

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from draw_predicates import Drawn
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.where.emit import expression, mask, to_polars, to_sql
from lakelog.catalog.where.parse import parse_where
from lakelog.catalog.where.tree import columns_of
from oracle import evaluate
from sample import examples
from seeds import base_seed

ROWS, COLUMNS, PREDICATES = 12, 4, 20
NOT_IN_DUCKDB = {"d60"}
NOT_IN_POLARS = {"d60"}


def without(drawn: Drawn, kinds: set[str]) -> pa.Table:
    """The table as an engine takes it."""
    names = [name for name, kind in drawn.kinds.items() if kind not in kinds]
    fields = [
        pa.field(name, pa.float32() if drawn.kinds[name] == "f16" else drawn.table[name].type)
        for name in names
    ]
    return drawn.table.select(names).cast(pa.schema(fields))


def column(frame: pl.DataFrame, made: pl.Expr) -> list[bool | None]:
    found = frame.select(pl.repeat(0, pl.len()).alias("n"), m=made)["m"].to_list()
    assert len(found) == ROWS
    return found


def check(rng: random.Random) -> int:
    """Draw a table and predicates, and hold every answer against the oracle's."""
    drawn = Drawn(rng, ROWS, COLUMNS)
    rows, data = drawn.rows(), ds.dataset(drawn.table)
    in_duckdb = without(drawn, NOT_IN_DUCKDB)
    frame = pl.from_arrow(without(drawn, NOT_IN_POLARS))
    batch = drawn.table.combine_chunks().to_batches()[0]
    questions, wanted, tried = [], [], []
    for _ in range(PREDICATES):
        tree, text, same = drawn.predicate()
        expected = [evaluate(tree, row) for row in rows]
        predicate = parse_where(text, drawn.table.schema, "t")
        assert mask(predicate, batch).to_pylist() == expected, text
        kept = [at for at, value in enumerate(expected) if value]
        known = data.to_table(columns={"m": expression(predicate)})["m"].to_pylist()
        assert known == expected, text
        assert data.filter(expression(predicate)).count_rows() == len(kept), text
        kinds = {drawn.kinds[name] for name in columns_of(predicate)}
        if not kinds & NOT_IN_POLARS:
            assert column(frame, to_polars(predicate)) == expected, text
        if not kinds & NOT_IN_DUCKDB:
            questions.append(to_sql(predicate, "duckdb"))
            wanted.append(expected)
            tried.append(text)
            if same and not {"f16", *NOT_IN_DUCKDB} & set(drawn.kinds.values()):
                questions.append(text)
                wanted.append(expected)
                tried.append(f"as it is: {text}")
    if in_duckdb.column_names:
        answers = ask_duckdb(in_duckdb, questions)
        for answer, expected, text in zip(answers, wanted, tried, strict=True):
            assert answer == expected, text
    return len(questions)


def ask_duckdb(table: pa.Table, questions: list[str]) -> list[list[bool | None]]:
    with duckdb.connect() as connection:
        connection.register("t", table)
        connection.execute("SET TimeZone = 'America/New_York'")
        selected = ", ".join(f"({question}) AS q{at}" for at, question in enumerate(questions))
        found = connection.sql(f"SELECT {selected} FROM t").fetchall()
    return [list(answer) for answer in zip(*found, strict=True)]


@given(st.integers(0, 2**64))
def test_every_engine_agrees_with_the_oracle(seed):
    check(random.Random(seed))


@pytest.mark.long
def test_every_engine_agrees_with_the_oracle_many_times():
    for number in range(examples(1_000)):
        seed = f"{base_seed()} predicates {number}"
        try:
            check(random.Random(seed))
        except Exception as error:
            raise AssertionError(f"random.Random({seed!r})") from error


def test_the_texts_are_asked_of_duckdb_too():
    """Else the comparison with DuckDB would hold of nothing."""
    asked = sum(check(random.Random(seed)) for seed in range(5))
    assert asked > 5 * PREDICATES
