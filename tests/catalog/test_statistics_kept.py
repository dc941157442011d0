"""Statistics of every type are the same however a log was read: as single adds, as a batch, from a
checkpoint, inline or not, and merged into later ones. And they are true."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.data import parquet
from lakelog.catalog.format.statistics import bound_type, decode_bounds, parse_bound_type
from lakelog.catalog.log import build, checkpoint_files
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.read.statistics import table_statistics
from lakelog.testing.keys import log_keys

D = decimal.Decimal
NAN = float("nan")
LONG = "Zürich" * 20
FAR = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
VALUES = {
    pa.bool_(): [False, True],
    pa.int8(): [-128, 127],
    pa.int16(): [-1, 0],
    pa.int32(): [-(2**31), 2**31 - 1],
    pa.int64(): [-(2**63), 2**63 - 1],
    pa.uint8(): [0, 255],
    pa.uint16(): [7, 7],
    pa.uint32(): [0, 2**32 - 1],
    pa.uint64(): [0, 2**63, 2**64 - 1],
    pa.float32(): [-1.5, math.inf],
    pa.float64(): [-math.inf, 1e300],
    pa.string(): ["", "a", "hamburg-altona", LONG],
    pa.large_string(): ["hamburg-altona", "hamburg-altonb"],
    pa.binary(): [b"", b"a\0", b"\xff" * 70],
    pa.decimal128(7, 2): [D("-99999.99"), D("12345.67")],
    pa.decimal128(38, 10): [D(-(10**27)), D(10**27)],
    pa.date32(): [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    pa.time32("s"): [dt.time(0, 0), dt.time(23, 59, 59)],
    pa.time64("us"): [dt.time(0, 0), dt.time(23, 59, 59, 999999)],
    pa.timestamp("ms"): [dt.datetime(1500, 1, 1), FAR.replace(microsecond=0)],
    pa.timestamp("us"): [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), FAR],
    pa.timestamp("us", "UTC"): [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * 2,
    pa.timestamp("us", "Europe/Berlin"): [
        dt.datetime(2024, 3, 31, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 10, 27, 1, tzinfo=dt.UTC),
    ],
    pa.timestamp("ns", "UTC"): [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * 2,
    pa.dictionary(pa.int32(), pa.string()): ["x", "y"],
    pa.list_(pa.int64()): [[1, None], []],
    pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]): [{"x": 1, "y": ["a"]}, {}],
    pa.duration("s"): [dt.timedelta(0), dt.timedelta(1)],
    pa.null(): [None, None],
}
SCHEMA = pa.schema([(f"{number:02d} {kind}", kind) for number, kind in enumerate(VALUES)])
FLOATS = {
    "nan alone": [NAN, NAN],
    "nan beside": [1.0, NAN, 2.0],
    "negative zero": [-0.0, 0.5],
    "zeros": [0.0, -0.0],
    "nan and zeros": [0.0, NAN],
}


def write(catalog, count=3):
    """Files of all types, one of nulls alone; those of `floats` have what orders badly."""
    with catalog.writer("w", "db", checkpoint_every=0) as writer, writer.transaction() as tx:
        for number in range(count):
            columns = []
            for kind, values in VALUES.items():
                chosen = [values[(number + n) % len(values)] for n in range(4)] + [None]
                columns.append(pa.array([None] * 5 if number == 1 else chosen, kind))
            tx.write("t", pa.Table.from_arrays(columns, schema=SCHEMA))
        for name, values in FLOATS.items():
            for kind in (pa.float64(), pa.float32()):
                tx.write("floats", pa.table({f"{name} {kind}": pa.array(values, kind)}))


def told(store, table, *, row_groups=False):
    state = LogReader(store, "w", "db").load()
    return table_statistics(state, table, row_groups=row_groups).to_pylist()


def everything(store):
    return [told(store, t, row_groups=g) for t in ("t", "floats") for g in (False, True)]


@pytest.mark.parametrize("rows", [1 << 20, 2], ids=["one row group", "three row groups"])
@pytest.mark.parametrize("batch", [0, 1 << 20], ids=["batch", "adds"])
def test_what_is_known_is_the_same_however_it_was_read(catalog, store, rows, batch):
    with (
        mock.patch.object(parquet, "ROW_GROUP_ROWS", rows),
        mock.patch.object(build, "BATCH_FROM_FILES", batch),
        mock.patch.object(build, "BATCH_FROM_BYTES", 1 << 30 if batch else 0),
    ):
        write(catalog)
    expected = everything(store)
    assert all(bool(part) == (rows == 2 or place % 2 == 0) for place, part in enumerate(expected))
    transactions = log_keys(store, "transaction")
    for spill in (1 << 20, 0):
        with mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", spill):
            catalog.writer("w", "db").checkpoint()
        bodies = {key: store.get(key) for key in transactions}
        store.delete(transactions)  # so that the checkpoint alone says it
        assert everything(store) == expected
        for key, body in bodies.items():
            store.put(key, body)
        store.delete(log_keys(store, "checkpoint"))
    removed = ""
    for number in range(3):  # small runs are merged with those of before
        catalog.writer("w", "db").checkpoint()
        with catalog.writer("w", "db", checkpoint_every=0) as writer, writer.transaction() as tx:
            if removed:
                tx.remove(removed)
            (removed,) = tx.write("more", pa.table({"a": range(number + 1)}))
    catalog.writer("w", "db").checkpoint()
    store.delete(log_keys(store, "transaction"))
    assert everything(store) == expected


@pytest.mark.parametrize("rows", [1 << 20, 2], ids=["one row group", "three row groups"])
def test_it_is_true(catalog, store, rows):
    with mock.patch.object(parquet, "ROW_GROUP_ROWS", rows):
        write(catalog)
    catalog.writer("w", "db").checkpoint()
    store.delete(log_keys(store, "transaction"))
    found = told(store, "t")
    by_place = {(row["path"], row["column"]): row for row in found}
    paths = sorted({row["path"] for row in found}, key=lambda path: path.rsplit("-", 1)[1])
    seen = set()
    for number, path in enumerate(paths):
        for kind, name in zip(VALUES, SCHEMA.names, strict=True):
            row = by_place.get((path, name))
            values = VALUES[kind]
            chosen = [values[(number + n) % len(values)] for n in range(4)] + [None]
            if row is None:
                continue
            seen.add(kind)
            nulls = 5 if number == 1 else sum(value is None for value in chosen)
            assert row["null_count"] in (None, nulls)
            if number == 1 or bound_type(kind) is None:
                assert (row["min"], row["max"]) == (None, None)
            else:
                # Files have no seconds: such a column is one of milliseconds there.
                assert_bounds(row, parse_bound_type(row["bound_type"]), pa.array(chosen, kind))
    assert seen >= {kind for kind in VALUES if bound_type(kind) is not None}
    assert all(row["null_count"] is not None for row in found if "list" not in row["column"])


def assert_bounds(row, bound, column):
    """They hold, and are exact unless they were cut."""
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    values = [value for value in plain.cast(bound).to_pylist() if value is not None]
    known = decode_bounds([row["min"], row["max"]], bound).to_pylist()
    low, high = known
    if high is None:
        assert max(values) == b"\xff" * 70, "there is no higher prefix"
        assert not row["max_exact"]
        high = max(values)
    else:
        assert row["max_exact"] == (high == max(values))
    assert low <= min(values)
    assert max(values) <= high
    assert row["min_exact"] == (low == min(values))


def test_nan_and_zeros(catalog, store):
    write(catalog)
    catalog.writer("w", "db").checkpoint()
    store.delete(log_keys(store, "transaction"))
    rows = {row["column"]: row for row in told(store, "floats")}
    for kind in ("double", "float"):
        for name in FLOATS:
            row = rows[f"{name} {kind}"]
            bounds = tuple(
                None if row[w] is None else struct.unpack("<d", row[w])[0] for w in ("min", "max")
            )
            assert row["no_nan"] == ("nan" not in name)
            if name == "nan alone":
                assert bounds == (None, None)
            elif name == "nan beside":
                assert bounds == (1.0, 2.0), "bounds say nothing of NaN"
            elif name == "nan and zeros":
                assert bounds == (0.0, 0.0)
            elif name == "zeros":
                assert [math.copysign(1, value) for value in bounds] == [-1, 1]
            else:
                assert math.copysign(1, bounds[0]) == -1
                assert bounds[1] == 0.5
