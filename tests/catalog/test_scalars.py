"""An Arrow or NumPy scalar is as good as its value; a null passes for nothing."""

from __future__ import annotations

import datetime as dt

import lakelog
import numpy as np
import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.scalars import value_of
from lakelog.errors import NaiveTime, UsageError
from table_cases import table

AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)
TEXT = {"arrow": pa.scalar, "numpy": np.str_, "large": lambda t: pa.scalar(t, pa.large_string())}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Oslo"])
def test_times(unit, zone):
    at = AT if unit in ("us", "ns") else AT.replace(microsecond=678000 if unit == "ms" else 0)
    found = value_of(pa.scalar(at, pa.timestamp(unit)).cast(pa.timestamp(unit, zone)))
    assert found == (at.replace(tzinfo=dt.UTC) if zone else at)
    assert value_of(np.datetime64(at, unit)) == at


def test_nanoseconds_are_rounded_down():
    kind = pa.timestamp("ns", "UTC")
    assert value_of(pa.scalar(1_999, kind)).microsecond == 1
    assert value_of(pa.scalar(-1, kind)).year == 1969


@pytest.mark.parametrize(
    "null", [pa.scalar(None), pa.scalar(None, pa.timestamp("us", "UTC")), np.datetime64("NaT")]
)
def test_a_null_is_not_the_newest(catalog, null):
    with pytest.raises(UsageError, match="null"):
        catalog.snapshot("db", null)


def test_a_time_out_of_range():
    with pytest.raises(UsageError, match="between the years"):
        value_of(pa.scalar(2**62, pa.timestamp("us", "UTC")))


@pytest.mark.parametrize("text", TEXT.values(), ids=TEXT)
@pytest.mark.parametrize("number", [pa.scalar, np.int32, np.uint64])
def test_wherever_a_number_or_a_text_is_wanted(store, fake, text, number):
    catalog = Catalog(store, ambient=fake.ambient)
    with catalog.writer(text("w"), text("db"), checkpoint_every=number(0)) as writer:
        with writer.transaction(text("job"), number(7), summary={"why": text("so")}) as tx:
            (path,) = tx.write(text("t"), table(1), text("p"), clock=(number(1), number(2)))
        moment = tx.commit_info.committed_at_us
        fake.move(1)
        with writer.transaction() as second:
            second.remove(text(path))
        with writer.transaction(text("job"), number(6)) as again:
            again.write("t", table(2))
        assert again.commit_info.skipped
    assert catalog.snapshot(text("db"), {text("w"): number(0)}).files("t").num_rows == 1
    at = pa.scalar(moment, pa.timestamp("us", "UTC"))
    assert catalog.snapshot("db", at).cut.revisions == {"w": 0}
    token = catalog.snapshot("db").token
    assert catalog.snapshot("db", text(token)).cut.revisions == {"w": 1}
    assert catalog.history("db", text("w")).num_rows == 2


@pytest.mark.parametrize("text", TEXT.values(), ids=TEXT)
def test_wherever_rows_are_read(store, fake, text):
    catalog = Catalog(store, ambient=fake.ambient)
    for name in ("v", "w"):
        with catalog.writer(name, "db") as writer, writer.transaction() as tx:
            tx.write("t", pa.table({"a": [1, 2], "b": ["k", name]}), "p")
    snapshot = catalog.snapshot(text("db"))
    assert snapshot.token == catalog.snapshot("db").token
    t, w, where = text("t"), text("w"), text("b = 'w'")
    named = {"partition": text("p"), "writer": w}
    assert snapshot.to_arrow(t, [text("a")], where=where, **named).to_pydict() == {"a": [2]}
    assert snapshot.files(t, where=where, **named).num_rows == 1
    assert snapshot.explain(t, where)["kept"].to_pylist() == [False, True]
    assert snapshot.schema(t, [text("b")], writer=w).names == ["b"]
    assert snapshot.column_names(t) == ["a", "b"]
    assert snapshot.statistics(t, partition=text("p")).num_rows == 4
    assert snapshot.key(t) == ()
    assert snapshot.dataset(t, **named).count_rows() == 2
    assert snapshot.to_polars(t, **named).collect().height == 2
    connection = snapshot.to_duckdb(tables=[t])
    assert connection.sql("select count(*) from t").fetchall() == [(4,)]
    assert snapshot.scan(t, pa.array(["a"])).read_all().num_rows == 4
    with pytest.raises(UsageError, match="null"):
        snapshot.to_arrow("t", partition=pa.scalar(None, pa.string()))


@pytest.mark.parametrize("naive", [pa.scalar(AT), np.datetime64(AT)], ids=["arrow", "numpy"])
def test_times_without_a_zone_are_refused_as_ever(catalog, naive):
    with pytest.raises(NaiveTime):
        catalog.snapshot("db", naive)


def test_dir_shows_the_public_names():
    parts = {"errors", "rebuild", "replication", "spark", "testing"}
    assert set(dir(lakelog)) == {*lakelog.__all__, *parts}
    assert all(getattr(lakelog, name) is not None for name in dir(lakelog))
