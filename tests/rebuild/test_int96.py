"""Timestamps in INT96, which readers disagree on: such a file is refused, not misread."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.commit import adopt
from lakelog.catalog.data.footers import read
from lakelog.errors import InvalidParquet
from lakelog.rebuild import execute_rebuild, plan_rebuild
from own_files import add_own
from rebuild_cases import BASE, commit

PATH = "data/_/hourly/in.parquet"


def int96(*, nested: bool = False) -> bytes:
    times = pa.array([dt.datetime(2020, 1, 1), dt.datetime(1500, 1, 1)], pa.timestamp("us"))
    column = pa.StructArray.from_arrays([times], ["at"]) if nested else times
    sink = io.BytesIO()
    pq.write_table(pa.table({"ts": column}), sink, use_deprecated_int96_timestamps=True)
    return sink.getvalue()


@pytest.mark.parametrize("nested", [False, True])
def test_it_is_refused_by_add(catalog, store, nested):
    store.put(BASE + PATH, int96(nested=nested))
    with catalog.writer("EWR", "weather") as writer, writer.transaction() as tx:
        with pytest.raises(InvalidParquet, match=r"column 'ts.*INT96") as refused:
            add_own(tx, "hourly", PATH)
        assert "spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS" in refused.value.hint
        assert refused.value.key == BASE + PATH


def test_a_rebuild_of_a_log_that_has_it_keeps_it(catalog, store, fake, monkeypatch):
    """Whoever added it before it was refused still has the file."""
    store.put(BASE + PATH, int96())
    monkeypatch.setattr(adopt, "read_new_footer", read.read_footer)
    with catalog.writer("EWR", "weather") as writer:
        own, _ = commit(writer, 1, table="other")
        with writer.transaction() as tx:
            add_own(tx, "hourly", PATH)
    monkeypatch.undo()
    execute_rebuild(store, plan_rebuild(store, "EWR", "weather", ambient=fake.ambient))
    assert own
    assert catalog.snapshot("weather").files("hourly")["path"].to_pylist() == [PATH]
