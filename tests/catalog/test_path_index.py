"""Looking one path up in a sorted column."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.path_column import PathIndex, ascending_files, table_ranges

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(st.sets(TEXT, max_size=40), st.lists(TEXT, max_size=5), st.data())
def test_every_path_is_found_where_it_stands_and_no_other(known, others, data):
    """In a column that is a slice of a larger one, between any two rows."""
    rows = sorted(known, key=lambda path: path.encode())
    whole = pa.array(["before", *rows, "after"], pa.string())
    index = PathIndex(whole.slice(1, len(rows)))
    start = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(start, len(rows)))
    for path in {*known, *others, "before", "after"}:
        place = rows.index(path) if path in known else -1
        assert index.find(path, 0, len(rows)) == place
        assert index.find(path, start, end) == (place if start <= place < end else -1)


def test_in_nothing_there_is_nothing():
    assert PathIndex(pa.array([], pa.string())).find("data/_/t/x.parquet", 0, 0) == -1


RUNS = st.lists(st.tuples(TEXT, st.integers(1, 3)), max_size=6, unique_by=lambda run: run[0])


@given(RUNS, st.integers(0, 10))
def test_where_each_table_is(runs, border):
    runs = sorted(runs, key=lambda run: run[0].encode())
    names = [name for name, count in runs for _ in range(count)]
    column = pa.chunked_array([names[:border], names[border:]], pa.string())
    found = table_ranges(column)
    assert [name for name in found for _ in range(*found[name])] == names
    assert list(found) == [name for name, _ in runs]


FILES = st.lists(st.tuples(st.sampled_from("aübA"), st.sampled_from("xyüz")), max_size=8)


@given(FILES, st.booleans(), st.integers(0, 8))
def test_files_ascend_by_table_then_path(files, sort, border):
    if sort:
        files = sorted(set(files), key=lambda file: (file[0].encode(), file[1].encode()))
    if not files:
        return
    columns = [
        pa.chunked_array([list(part[:border]), list(part[border:])], pa.string())
        for part in zip(*files, strict=True)
    ]
    keys = [(table.encode(), path.encode()) for table, path in files]
    assert ascending_files(*columns) == all(a < b for a, b in itertools.pairwise(keys))
