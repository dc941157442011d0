"""Values of options: points in time, storage options, numbers."""

from __future__ import annotations

import argparse
import datetime as dt

import pytest
from lakelog.catalog.read.points_in_time import point_in_time
from lakelog.cli import options
from lakelog.errors import NaiveTime, UsageError


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2013-06-30T00:00Z", dt.datetime(2013, 6, 30, tzinfo=dt.UTC)),
        ("2013-06-30 02:00+02:00", dt.datetime(2013, 6, 30, tzinfo=dt.UTC)),
        ("2013-06-30T00:00:00.000001Z", dt.datetime(2013, 6, 30, 0, 0, 0, 1, dt.UTC)),
        ("ll1-whatever", "ll1-whatever"),
        ("EWR=3,JFK=2", {"EWR": 3, "JFK": 2}),
        (" EWR = 3 , JFK=0 ", {"EWR": 3, "JFK": 0}),
    ],
)
def test_points_in_time(text, wanted):
    assert point_in_time(text) == wanted


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("2013-06-30", "2013-06-30T00:00Z"),
        ("20130630", "20130630T00:00Z"),
        ("2013-06-30T12:00", "2013-06-30T12:00Z"),
        ("2013-06-30 12:00", "2013-06-30 12:00Z"),
    ],
)
def test_a_time_without_a_zone_is_refused_and_the_hint_is_one_that_works(text, hint):
    with pytest.raises(NaiveTime) as error:
        point_in_time(text)
    assert hint in error.value.hint
    assert point_in_time(hint).tzinfo is not None


@pytest.mark.parametrize(
    "text", ["", "now", "3", "EWR=", "=3", "EWR=-1", "EWR=3,EWR=4", "EWR=x", "EWR=3,", "EWR=²"]
)
def test_what_is_no_point_in_time(text):
    with pytest.raises(UsageError) as error:
        point_in_time(text)
    assert "ll1-" in error.value.hint


def test_storage_options_come_from_both_places():
    env = {"LAKELOG_STORAGE_OPTIONS": '{"key": "a", "client_kwargs": {"region_name": "x"}}'}
    given = ["key=007", "client_kwargs.use_ssl=false", 'config_kwargs={"a": 1}', "token=a=b"]
    assert options.storage_options(given, env) == {
        "key": "007",
        "client_kwargs": {"region_name": "x", "use_ssl": False},
        "config_kwargs": {"a": 1},
        "token": "a=b",
    }


@pytest.mark.parametrize("env", ["[]", "secret-thing", "{", '"text"'])
def test_a_bad_environment_is_named_without_its_value(env):
    with pytest.raises(UsageError) as error:
        options.storage_options([], {"LAKELOG_STORAGE_OPTIONS": env})
    assert "LAKELOG_STORAGE_OPTIONS" in error.value.message
    assert "secret-thing" not in str(error.value)


def test_an_option_without_a_value_is_not_echoed():
    with pytest.raises(UsageError) as error:
        options.storage_options(["secret-thing"], {})
    assert "secret-thing" not in str(error.value)


@pytest.mark.parametrize("text", ["-1", "1.5", "x", "", "²", "9" * 30])
def test_whole_numbers(text):
    with pytest.raises(argparse.ArgumentTypeError):
        options.whole_number(text)
    assert options.whole_number("0") == 0


@pytest.mark.parametrize("text", ["0", "-1", "x", "nan", "inf"])
def test_positive_numbers(text):
    with pytest.raises(argparse.ArgumentTypeError):
        options.positive(text)
    assert options.positive("0.5") == 0.5
