"""What a rebuilt log knows of columns of floats: as much as the lost one, of files of its own."""

from __future__ import annotations

import math
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.data import parquet
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient
from rebuild_cases import BASE, lose_the_log

NAN = math.nan
VALUES = st.one_of(st.none(), st.floats(width=32), st.sampled_from([NAN, -0.0, math.inf]))


def statistics(catalog):
    snapshot = catalog.snapshot("weather")
    return [
        snapshot.statistics("hourly", row_groups=groups).to_pylist() for groups in (False, True)
    ]


def rebuild(store, ambient, *, lose=True):
    if lose:
        lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather", ambient=ambient)
    execute_rebuild(store, plan, ambient=ambient)


@given(
    files=st.lists(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=7), max_size=3),
    rows=st.integers(1, 4),
    is_lost=st.booleans(),
)
def test_it_knows_what_the_log_knew(files, rows, is_lost):
    store, ambient = MemoryStore("test"), FakeAmbient().ambient
    catalog = Catalog(store, ambient=ambient)
    with (
        catalog.writer("EWR", "weather") as writer,
        mock.patch.object(parquet, "ROW_GROUP_ROWS", rows),
        writer.transaction() as tx,
    ):
        tx.write("hourly", pa.table({"d": [1.0, 2.0], "f": [1.0, NAN]}))
        for values in files:
            doubles, floats = zip(*values, strict=True)
            kinds = {"d": pa.array(doubles, "f8"), "f": pa.array(floats, "f4")}
            tx.write("hourly", pa.table(kinds | {"i": range(len(values))}))
    known = statistics(catalog)
    assert any(row["no_nan"] for row in known[0])
    rebuild(store, ambient, lose=is_lost)
    assert statistics(Catalog(store, ambient=ambient)) == known


def changed(body, **options):
    """The file written anew with NaN, its keys kept."""
    metadata = pq.read_metadata(pa.BufferReader(body)).metadata
    keys = {key: value for key, value in metadata.items() if key.startswith(b"lakelog.")}
    table = pa.table({"d": [NAN, 2.0]}).replace_schema_metadata(keys)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


@pytest.fixture
def ours(catalog):
    with catalog.writer("EWR", "weather") as writer, writer.transaction() as tx:
        return tx.write("hourly", pa.table({"d": [1.0, 2.0]}))[0]


def test_a_copy_that_the_log_took_in_proves_nothing(catalog, store, fake, ours):
    """Under another name; where the log is there, it says that the file counts."""
    copy = "data/_/hourly/copy.parquet"
    store.put(BASE + copy, changed(store.get(BASE + ours), write_statistics=False))
    with catalog.writer("EWR", "weather") as writer, writer.transaction() as tx:
        tx.add("hourly", copy)
    rebuild(store, fake.ambient, lose=False)
    (known, _) = statistics(catalog)
    assert {row["path"]: row["no_nan"] for row in known} == {ours: True}, "and nothing of the copy"
    assert catalog.snapshot("weather").files("hourly").num_rows == 2


def test_a_file_that_was_written_over_is_not_believed(catalog, store, fake, ours):
    """Nobody may; who does it with another library, or as usual, leaves a trace."""
    body = changed(store.get(BASE + ours))
    store.delete([BASE + ours])
    store.put(BASE + ours, body)
    rebuild(store, fake.ambient)
    (known, _) = statistics(catalog)
    assert [row["no_nan"] for row in known] == [False]
    assert catalog.snapshot("weather").files("hourly").num_rows == 1


def test_of_a_log_that_was_renamed_too(catalog, store, fake, ours):
    known = statistics(catalog)
    for info in list(store.list(BASE)):
        store.put(info.key.replace("EWR/", "JFK/", 1), store.get(info.key))
    store.delete([info.key for info in store.list(BASE)])
    with catalog.writer("JFK", "weather") as writer:
        writer.adopt_name()
        with writer.transaction() as tx:
            tx.write("daily", pa.table({"n": [1]}))
    lose_the_log(store, "JFK/weather/")
    plan = plan_rebuild(store, "JFK", "weather", ambient=fake.ambient)
    assert any("name another writer" in note for note in plan.notes)
    execute_rebuild(store, plan, ambient=fake.ambient)
    found = [[row | {"writer": "EWR"} for row in rows] for rows in statistics(Catalog(store))]
    assert found == known
    assert found[0][0]["no_nan"]
