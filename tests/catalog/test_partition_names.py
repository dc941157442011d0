"""Names of partitions that say values: they come back, and no two values share one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.names import NULL, data_path, parse_partition, partition_name
from lakelog.errors import InvalidName

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
TRICKY = st.text(st.sampled_from("/=%_5F2{}[]*?:.#^ü\x00\x1f\x7f\\' "), max_size=6)
VALUES = st.one_of(st.none(), TEXT, TRICKY, st.sampled_from([NULL, "%5F" + NULL[1:], "", "."]))
PAIRS = st.lists(st.tuples(TRICKY.filter(bool), VALUES), min_size=1, max_size=3)


@given(PAIRS)
def test_columns_and_values_come_back(pairs):
    name = partition_name(pairs)
    assert name.count("/") == len(pairs) - 1
    if len(dict(pairs)) == len(pairs):
        assert parse_partition(name) == dict(pairs)
    path = data_path(name, "t", 1, bytes(16), 0)
    assert path.count("/") == len(pairs) + 2, "a level a folder"


@given(*[st.tuples(VALUES, VALUES)] * 2)
def test_no_two_values_have_one_name(left, right):
    names = [partition_name(zip("ab", values, strict=True)) for values in (left, right)]
    assert (names[0] == names[1]) == (left == right)


def test_what_hive_writes():
    assert partition_name([("year", "2026"), ("month", "11")]) == "year=2026/month=11"
    assert partition_name([("at", "06:00")]) == "at=06%3A00"
    assert partition_name([("a=b", None)]) == f"a%3Db={NULL}"
    assert partition_name([("a", NULL)]) == "a=%5F_HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("", {}),
        ("2026/11", {}),
        ("year=2026/11", {"year": "2026"}),
        ("=1/a=", {"a": ""}),
        ("a=1/a=2/b=3", {"b": "3"}),
        ("a=%zz/b=%", {}),
        ("a=%ff", {}),
        ("a=b=c", {"a": "b=c"}),
        ("a=%c3%BC", {"a": "ü"}),
    ],
)
def test_names_of_others(name, found):
    assert parse_partition(name) == found


@pytest.mark.parametrize("value", ["x" * 254, "/" * 51, "ü" * 127])
def test_a_name_that_no_log_can_hold(value):
    with pytest.raises(InvalidName, match="too long"):
        partition_name([("a", value)])
