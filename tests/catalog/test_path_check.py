"""The path grammar in its array form says what the one-by-one form says."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lakelog.catalog.format.names import MAX_PATH_BYTES, check_path
from lakelog.catalog.format.path_column import ascending_files, check_paths
from lakelog.errors import CorruptObject, InvalidPath

PIECES = st.sampled_from(
    [
        "data/",
        "a",
        "/",
        ".",
        "..",
        "\\",
        "%",
        "\x00",
        "\x1f",
        "\x7f",
        "\x80",
        "ü",
        "🦆",
        " ",
        "b" * 90,
    ]
)
PATHS = st.one_of(
    st.lists(PIECES, max_size=9).map("".join).map("data/".__add__),
    st.lists(PIECES, max_size=5).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map("data/".__add__),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)

NAMES = st.sampled_from(["a", "b", "aa", "ü", "..a", ".b", "%", "🦆", "\x80"])


def good(path):
    try:
        check_path(path)
    except InvalidPath:
        return False
    return True


def ascending(paths):
    encoded = [path.encode() for path in paths]
    return all(a < b for a, b in itertools.pairwise(encoded))


def refused(column):
    try:
        check_paths(column, "key")
    except CorruptObject:
        return True
    tables = pa.chunked_array([["t"] * len(column)], pa.string())
    return len(column) > 0 and not ascending_files(tables, column)


def test_every_character_is_judged_alike():
    codes = [*range(0x300), 0x2028, 0xD7FF, 0xE000, 0xFEFF, 0xFFFF, 0x10FFFF]
    for char in map(chr, codes):
        for path in (f"data/{char}", f"data/a{char}b", f"data/a{char}", f"data/{char}/x"):
            assert refused(pa.chunked_array([[path]])) == (not good(path)), ascii(path)


@given(PATHS)
def test_one_path_agrees_with_the_exact_check(path):
    assert refused(pa.chunked_array([[path]], pa.string())) == (not good(path))


@given(st.lists(PATHS, max_size=8), st.booleans())
@example(["data/a", "data/b"], True)
def test_many_paths_agree_with_the_exact_check(paths, sort):
    if sort:
        paths = sorted(set(paths), key=str.encode)
    expected = all(map(good, paths)) and ascending(paths)
    assert refused(pa.chunked_array([paths], pa.string())) == (not expected)


@given(
    st.lists(st.lists(NAMES, min_size=1, max_size=3).map("/".join), max_size=6),
    st.integers(0, 6),
    st.booleans(),
)
def test_the_border_between_chunks_is_checked_too(names, border, sort):
    paths = [f"data/{name}" for name in names]
    if sort:
        paths = sorted(set(paths), key=str.encode)
    column = pa.chunked_array([paths[:border], paths[border:]], pa.string())
    assert refused(column) == (not ascending(paths))


@given(st.lists(PATHS, min_size=4, max_size=8), st.integers(0, 2), st.integers(0, 2))
def test_a_slice_is_judged_by_its_own_paths_alone(paths, skip, drop):
    whole = pa.array(paths, pa.string())
    part = whole.slice(skip, len(paths) - skip - drop)
    left = part.to_pylist()
    expected = all(map(good, left)) and ascending(left)
    assert refused(pa.chunked_array([part])) == (not expected)


def test_one_bad_path_among_many_good_ones_is_found():
    paths = [f"data/p{i:06d}/x.parquet" for i in range(20_000)]
    assert not refused(pa.chunked_array([paths]))
    for bad in ["data/p019999/../x", "data/p019999//x", "data/p019999/x/", "data/p019999/\x01"]:
        assert refused(pa.chunked_array([[*paths[:-1], bad]]))


def test_equal_neighbours_do_not_ascend():
    assert refused(pa.chunked_array([["data/a", "data/a"]]))


@pytest.mark.parametrize("size", [255, 256, 400, MAX_PATH_BYTES, MAX_PATH_BYTES + 1])
def test_long_paths_agree(size):
    body = "data/" + "/".join(["x" * 100] * 8)
    path = (body + "/" + "y" * 255)[:size]
    assert refused(pa.chunked_array([[path]])) == (not good(path))


def test_no_paths_are_fine():
    assert not refused(pa.chunked_array([], pa.string()))
    assert not refused(pa.chunked_array([[]], pa.string()))
