"""The three forms of output, and Arrow values in them."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import sys
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.cli import output, text
from lakelog.cli.values import plain

COLUMNS = (
    output.Column("name"),
    output.Column("rows", style="count"),
    output.Column("size_bytes", "SIZE", style="size"),
    output.Column("hidden", shown=False),
    output.Column("sound", style="yes"),
)
RECORDS = [
    {"name": "a", "rows": 1234567, "size_bytes": 2048, "hidden": [1], "sound": True},
    {"name": "東京", "rows": 5, "size_bytes": 10, "hidden": None, "sound": False},
    {"name": "x\x1b[31m\n", "rows": None, "size_bytes": 3 << 30, "hidden": {}, "sound": None},
]


def test_text_is_aligned_and_can_not_steer_a_terminal(capsys):
    output.rows("text", COLUMNS, RECORDS)
    assert capsys.readouterr().out.splitlines() == [
        "NAME              ROWS     SIZE  SOUND",
        "a            1,234,567  2.0 KiB  yes",
        "東京                 5     10 B  no",
        r"x\x1b[31m\n          -  3.0 GiB  -",
    ]


def test_json_is_one_array_with_every_key(capsys):
    output.rows("json", COLUMNS, RECORDS)
    assert json.loads(capsys.readouterr().out) == RECORDS


def test_csv_tells_null_from_an_empty_text(capsys):
    output.rows(
        "csv",
        (output.Column("a"), output.Column("b"), output.Column("c")),
        [{"a": None, "b": "", "c": 'say "hi", twice\n'}, {"a": True, "b": 1.5, "c": [1, None]}],
    )
    out = capsys.readouterr().out
    assert out == 'a,b,c\n,"","say ""hi"", twice\n"\ntrue,1.5,"[1, null]"\n'


@given(st.lists(st.lists(st.text(), min_size=2, max_size=2), max_size=5))
def test_csv_reads_back_as_what_it_was(rows):
    kept, sys.stdout = sys.stdout, io.StringIO()
    try:
        for row in rows:
            output.csv_line(row)
        printed = sys.stdout.getvalue()
    finally:
        sys.stdout = kept
    assert list(csv.reader(io.StringIO(printed, newline=""))) == rows


@pytest.mark.parametrize(("form", "shown"), [("text", "(none)"), ("json", "[]"), ("csv", "a")])
def test_no_rows(capsys, form, shown):
    output.rows(form, (output.Column("a"),), [])
    assert capsys.readouterr().out == shown + "\n"


def test_a_stream_keeps_the_widths_of_its_first_rows(capsys):
    stream = output.Stream("text", ["id", "value"], [False, True])
    stream.add([["a", "bb"], [1, 100]])
    stream.add([["c", "long one"], [5, None]])
    stream.close()
    assert capsys.readouterr().out.splitlines() == [
        "id  value",
        "a       1",
        "bb    100",
        "c       5",
        "long one   null",
    ]


@pytest.mark.parametrize(("form", "shown"), [("text", "(no rows)"), ("json", "[]"), ("csv", "a")])
def test_a_stream_without_rows(capsys, form, shown):
    stream = output.Stream(form, ["a"], [False])
    stream.add([[]])
    stream.close()
    assert capsys.readouterr().out == shown + "\n"


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1048575, "1.0 MiB"),
        (1 << 60, "1024.0 PiB"),
    ],
)
def test_sizes_for_people(size, shown):
    assert text.size(size) == shown


def test_a_note_is_wrapped_below_its_label(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    output.note("note", "one two three four five six seven eight nine")
    assert capsys.readouterr().out.splitlines() == [
        "",
        "note  one two three four five six seven",
        "      eight nine",
    ]


def test_a_time_comes_back_exactly():
    at = dt.datetime(2013, 6, 30, 2, 0, 0, 123456, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert output.utc(at) == "2013-06-30T00:00:00.123456Z"
    assert dt.datetime.fromisoformat(output.utc(at)) == at
    assert output.utc_from_us(1_372_550_400_000_001) == "2013-06-30T00:00:00.000001Z"


VALUES = [
    (pa.array([0, None], pa.timestamp("s", "Europe/Berlin")), ["1970-01-01T00:00:00Z", None]),
    (pa.array([1], pa.timestamp("ns", "UTC")), ["1970-01-01T00:00:00.000000001Z"]),
    (pa.array([1], pa.timestamp("ms")), ["1970-01-01T00:00:00.001"]),
    (pa.array([19000], pa.date32()), ["2022-01-08"]),
    (pa.array([1], pa.time64("us")), ["00:00:00.000001"]),
    (pa.array([-1500, 61000], pa.duration("ms")), ["-PT1.500S", "PT61.000S"]),
    (pa.array([Decimal("1.10")], pa.decimal128(5, 2)), ["1.10"]),
    (pa.array([b"\xff\x00"], pa.binary()), ["/wA="]),
    (pa.array([0.1, float("nan"), float("-inf"), None]), [0.1, "NaN", "-Infinity", None]),
    (pa.array([0.1], pa.float32()), [0.1]),
    (pa.array(["a", None]).dictionary_encode(), ["a", None]),
    (pa.array([None, None], pa.null()), [None, None]),
    (pa.array([[1], None, []], pa.list_(pa.int8())), [[1], None, []]),
    (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None]),
    (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())), [[["k", 1]], None]),
    (
        pa.array([{"at": 0}, None], pa.struct([("at", pa.timestamp("s"))])),
        [{"at": "1970-01-01T00:00:00"}, None],
    ),
    (pa.array([9007199254740993]), [9007199254740993]),
]


@pytest.mark.parametrize(("column", "wanted"), VALUES, ids=[str(c.type) for c, _ in VALUES])
def test_every_type_has_a_plain_form(column, wanted):
    assert plain(column) == wanted
    padded = pa.concat_arrays([column, column])
    assert plain(padded.slice(len(column))) == wanted, "a slice is read from its own start"
    assert plain(pa.chunked_array([column, column.slice(0, 0)])) == wanted
    json.loads(output.to_json(wanted))


def test_times_that_arrow_can_not_print():
    far = pa.array([2**62, -(2**62), 0, None], pa.timestamp("us", "UTC"))
    assert plain(far) == [
        "148108-07-06T14:00:27.387904Z",
        "-144169-06-28T09:59:32.612096Z",
        "1970-01-01T00:00:00.000000Z",
        None,
    ]
    assert plain(pa.array([2**63 - 1], pa.timestamp("s"))) == ["292277026596-12-04T15:30:07"]
    assert plain(pa.array([2**31 - 1, -(2**31)], pa.date32())) == [
        "5881580-07-11",
        "-5877641-06-23",
    ]
    days = 146_097 * 100  # the calendar repeats itself after 400 years
    near = pa.array(range(-800_000, 800_000, 997), pa.date32())
    moved = pa.array([day + days for day in range(-800_000, 800_000, 997)], pa.date32())
    for one, other in zip(plain(near), plain(moved)):
        assert one[-6:] == other[-6:]
        assert int(other[:-6]) == int(one[:-6]) + 40_000
