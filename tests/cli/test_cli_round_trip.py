"""What `lakelog scan` prints, `lakelog write` takes back, value by value."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import io
import subprocess
import sys

import lakelog
import numpy as np
import pyarrow as pa
import pytest

DECIMAL = decimal.Decimal
UTC = dt.UTC
COLUMNS = {
    "bool": pa.array([True, None, False]),
    "int8": pa.array([1, None, -128], pa.int8()),
    "int64": pa.array([2**63 - 1, None, -(2**63)]),
    "uint64": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "float16": pa.array(np.array([1.5, 0, np.nan], np.float16)),
    "float32": pa.array([0.1, None, float("inf")], pa.float32()),
    "float64": pa.array([0.1, -0.0, float("nan")]),
    "infinities": pa.array([1e300, float("inf"), float("-inf")]),
    "NaN alone": pa.array([float("nan")] * 3),
    "text": pa.array(["", None, 'NaN "q" \n ü']),
    "digits": pa.array(["007", None, "2024-01-01"]),
    "binary": pa.array([b"\x00\xff", None, b""]),
    "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "date": pa.array([dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]),
    "naive": pa.array([dt.datetime(2024, 1, 1, 1, 2, 3, 4), None, dt.datetime(1600, 1, 1)]),
    "zoned": pa.array(
        [dt.datetime(2024, 1, 1, 1, 2, 3, 4, tzinfo=UTC), None, None],
        pa.timestamp("us", "Europe/Oslo"),
    ),
    "nanoseconds": pa.array([123456789012345678, None, 1], pa.timestamp("ns", "UTC")),
    "milliseconds": pa.array([1, None, 2], pa.timestamp("ms")),
    "time": pa.array([1, None, 86_399_999], pa.time32("ms")),
    "fine time": pa.array([1, None, 2], pa.time64("ns")),
    "duration": pa.array([1500, None, -7], pa.duration("ms")),
    "decimal": pa.array([DECIMAL("1.50"), None, DECIMAL("-99999999.99")], pa.decimal128(10, 2)),
    "decimal256": pa.array([DECIMAL("1" * 42 + ".5"), None, DECIMAL(0)], pa.decimal256(50, 1)),
    "list": pa.array([[1.5, None, float("nan")], None, []], pa.list_(pa.float64())),
    "struct": pa.array(
        [{"a": 1, "b": [{"t": dt.datetime(2024, 1, 1, tzinfo=UTC)}]}, None, {"a": None, "b": None}],
        pa.struct(
            [
                ("a", pa.int16()),
                ("b", pa.list_(pa.struct([("t", pa.timestamp("us", "UTC"))]))),
            ]
        ),
    ),
    "map": pa.array([[("k", DECIMAL("1.0"))], None, []], pa.map_(pa.string(), pa.decimal128(5, 1))),
    "pairs": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)),
    "null": pa.nulls(3),
}


@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "arrow"])
def test_scan_into_write_gives_the_same_table(tmp_path, form):
    rows = pa.table(COLUMNS)
    for url in ("one", "two"):
        catalog = lakelog.open_catalog(str(tmp_path / url))
        with catalog.writer("w", "db") as writer, writer.transaction() as tx:
            tx.write("t", rows if url == "one" else rows.slice(0, 0))
    command = f"{sys.executable} -m lakelog"
    given = "jsonl" if form == "json" else form
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} scan one db t -o {form} | "
         f"{command} write two db t - --format {given} --writer w"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    before, after = (
        lakelog.open_catalog(str(tmp_path / url)).snapshot("db").to_arrow("t")
        for url in ("one", "two")
    )
    assert after.schema == before.schema
    for name in COLUMNS:
        assert str(after[name].to_pylist()) == str(before[name].to_pylist()), name


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_arrow_stream_that_breaks_off_is_refused(cli, tmp_path, suffix):
    """Also between two batches, where Arrow takes it for whole: `scan` may have failed there."""
    sink = io.BytesIO()
    rows = pa.table({"a": pa.array([-1, 0] * 4, pa.int32())})  # whose bytes look like the mark
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
        second = sink.tell()
        stream.write_table(rows)
    whole, mark = sink.getvalue(), 8
    pack = gzip.compress if suffix else bytes

    def write(stored):
        (tmp_path / f"rows.arrows{suffix}").write_bytes(pack(stored))
        file = tmp_path / f"rows.arrows{suffix}"
        return cli("write", tmp_path / "two", "db", "t", file, "--writer", "W")

    for end in (len(whole) - 1, len(whole) - mark, second, second + 1):
        found = write(whole[:end])
        assert found.code == 2
        assert f"rows.arrows{suffix} can't be read as Arrow IPC" in found.err
    assert "breaks off" in write(whole[:second]).err
    assert not (tmp_path / "two" / "W" / "db" / "data").exists()
    assert write(whole).code == 0
    found = lakelog.open_catalog(str(tmp_path / "two")).snapshot("db").to_arrow("t")
    assert found.num_rows == 16


def test_jsonl_is_an_object_a_line(cli, weather):
    text = cli("scan", weather, "weather", "stations", "-o", "jsonl").out
    assert text == '{"id": "JFK", "name": "John F. Kennedy"}\n'
    assert cli("scan", weather, "weather", "stations", "-o", "jsonl", "-n", "0").out == ""


def test_the_json_of_a_scan_is_its_rows_and_never_one_row(cli, tmp_path, weather, monkeypatch):
    """It begins with the token of the cut: taken for an object, it would be a row of its own."""
    monkeypatch.chdir(tmp_path)
    scan = ("scan", weather, "weather", "hourly", "-o", "json")
    for name, limit in (("none", 0), ("some", 3)):
        (tmp_path / f"{name}.json").write_text(cli(*scan, "-n", limit).out)
    assert cli("write", "two", "db", "t", "some.json", "none.json", "--writer", "W").code == 0
    found = lakelog.open_catalog("two").snapshot("db").to_arrow("t")
    assert found.column("hour").to_pylist() == [0, 1, 2]
    whole = (tmp_path / "some.json").read_text()
    for cut in (whole[:-3], whole + "{}", whole.replace("\n]}", "\n]")):
        (tmp_path / "bad.json").write_text(cut)
        assert cli("write", "two", "db", "t", "bad.json", "--writer", "W").code == 2
    assert lakelog.open_catalog("two").snapshot("db").to_arrow("t").num_rows == 3
