"""Looking one path up in a sorted column."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.path_column import PathIndex

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(st.sets(TEXT, max_size=40), st.lists(TEXT, max_size=5), st.data())
def test_every_path_is_found_where_it_stands_and_no_other(known, others, data):
    """In chunks of any sizes, empty ones and slices of larger arrays among them."""
    rows = sorted(known, key=lambda path: path.encode())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    edges = [0, *cuts, len(rows)]
    whole = pa.array(["before", *rows, "after"], pa.string())
    chunks = [whole.slice(1 + low, high - low) for low, high in itertools.pairwise(edges)]
    index = PathIndex(pa.chunked_array(chunks, pa.string()))
    for path in {*known, *others, "before", "after"}:
        assert index.find(path) == (rows.index(path) if path in known else -1)


@pytest.mark.parametrize("chunks", [[], [[]], [[], []]])
def test_in_nothing_there_is_nothing(chunks):
    column = pa.chunked_array([pa.array(chunk, pa.string()) for chunk in chunks], pa.string())
    assert PathIndex(column).find("data/_/t/x.parquet") == -1
