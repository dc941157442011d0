"""Reads by bloom filters: what is skipped, what is asked of the store, what damage costs; and how
they are written."""

from __future__ import annotations

import contextlib
import io
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read import blooms
from lakelog.catalog.read.scan_request import by_blooms
from lakelog.errors import CorruptObject, ObjectNotFound, UsageError
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from own_files import add_own


@contextlib.contextmanager
def any_size():
    """Filters of tiny files are asked too."""
    with (
        mock.patch.object(blooms, "LEAST_BYTES", 0),
        mock.patch.object(blooms, "_column_bytes", return_value=1 << 40),
    ):
        yield


@pytest.fixture
def everywhere():
    with any_size():
        yield


SPREAD = [list(range(number, 3000, 3)) for number in range(3)]  # bounds tell them apart by nothing


def lake(store=None, **options):
    """A table of three files of one row group, and one, added, of three."""
    store = store or MemoryStore("blooms")
    with Catalog(store).writer("w", "db") as writer, writer.transaction() as tx:
        for number, ids in enumerate(SPREAD):
            rows = pa.table({"id": ids, "text": [f"key-{i}" for i in ids], "file": [number] * 1000})
            tx.write("t", rows, bloom=["id", "text"], **options)
        rows = pa.table({"id": [i + 3000 * (i % 2) for i in range(1500, 4500)]})
        body = io.BytesIO()
        options = {"id": {"ndv": 1000, "fpp": 0.001}}
        pq.write_table(rows, body, row_group_size=1000, bloom_filter_options=options)
        store.put("w/db/data/in/added.parquet", body.getvalue())
        add_own(tx, "t", "data/in/added.parquet")
    return store


def left(snapshot, where):
    """Per file that is left its row groups."""
    found = []
    asked_ = snapshot._asked("t", where, None, None)
    for part in by_blooms(snapshot._store, snapshot._parts(asked_), asked_):
        found.append((part.key.rsplit("/", 1)[1][-9:], part.row_groups))
    return found


@pytest.mark.usefixtures("everywhere")
def test_files_and_row_groups_that_cannot_hold_a_value_are_not_read():
    snapshot = Catalog(lake()).snapshot("db")
    assert len(snapshot.file_parts("t", where="id = 1000")) == 3
    assert [name for name, _ in left(snapshot, "id = 1000")] == ["1.parquet"]
    assert [name for name, _ in left(snapshot, "text = 'key-1001'")][:1] == ["2.parquet"]
    added = [groups for name, groups in left(snapshot, "id = 2600") if name == "d.parquet"]
    assert added == [(1,)]
    assert left(snapshot, "id = 6001") == [("d.parquet", (1,))]
    assert left(snapshot, "id = 1000 AND text = 'key-1001'") in ([], [("d.parquet", None)])
    for where in ("id = 1000", "id IN (1000, 1002)", "text = 'key-1001'", "id = 6001"):
        everything = snapshot.to_arrow("t")
        with any_size():
            found = snapshot.to_arrow("t", where=where)
        wanted = {"id = 1000": [1000], "id IN (1000, 1002)": [1002, 1000], "id = 6001": [6001]}
        assert found["id"].to_pylist() == wanted.get(where, [1001]), where
        assert everything.num_rows == 6000


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(
    "where", ["id = 1000 OR file = 0", "NOT id = 1000", "id <> 1000", "id >= 1000 AND id <= 1000"]
)
def test_only_what_every_row_must_meet_is_asked(where):
    counting = CountingStore(lake())
    snapshot = Catalog(counting).snapshot("db")
    parts = snapshot.file_parts("t", where=where)
    assert not any(part.blooms for part in parts)
    assert [part.key for part in parts] == [
        part.key for part in blooms.sifted(counting, parts, snapshot.row_filter("t", where))
    ]


@pytest.mark.usefixtures("everywhere")
def test_filters_are_asked_for_once_a_read_and_files_that_are_ruled_out_are_not_opened():
    counting = CountingStore(lake())
    snapshot = Catalog(counting).snapshot("db")
    snapshot.file_parts("t", where="id = 1000")
    counting.reset()
    assert snapshot.explain("t", "id = 1000")["bloom_filters"].to_pylist().count(1) == 3
    assert not any(counting.reset().values()), "explain reads no file"
    assert snapshot.to_arrow("t", ["id"], where="id = 1000").num_rows == 1
    first = counting.reset()
    assert first.pop("get") <= 3 + 4
    assert not any(first.values())
    assert snapshot.to_arrow("t", ["id"], where="id = -1").num_rows == 0
    assert not any(counting.reset().values()), "bounds rule all out: no filter is asked"


def test_filters_that_cost_more_than_they_spare_are_not_asked():
    """Here files are so small that a filter is no less to read."""
    counting = CountingStore(lake())
    snapshot = Catalog(counting).snapshot("db")
    assert sum(snapshot.explain("t", "id = 1000")["bloom_filters"].to_pylist()) == 0
    parts = snapshot.file_parts("t", where="id = 1000")
    assert any(part.blooms for part in parts)
    counting.reset()
    list(blooms.sifted(counting, parts, snapshot.row_filter("t", "id = 1000")))
    assert not any(counting.reset().values())


def test_filters_of_large_files_are_asked():
    store = MemoryStore("large")
    ids = np.random.default_rng(1).permutation(1 << 40 >> 20)[: 1 << 17].astype(np.int64) * 1009
    with Catalog(store).writer("w", "db") as writer, writer.transaction() as tx:
        for half in (ids[::2], ids[1::2]):
            tx.write("t", pa.table({"id": half}), bloom=["id"])
    snapshot = Catalog(store).snapshot("db")
    where = f"id = {ids[4]}"
    assert snapshot.explain("t", where)["bloom_filters"].to_pylist() == [1, 1]
    read = snapshot.explain("t", where, read_filters=True).sort_by("kept")
    assert read["kept"].to_pylist() == [False, True]
    assert read["reason"].to_pylist() == [f"not id = {ids[4]}: bloom filter", ""]
    assert snapshot.to_arrow("t", where=where)["id"].to_pylist() == [ids[4]]


DAMAGE = {
    "zeros": lambda data: bytes(len(data)),
    "text": lambda data: b"x" * len(data),
    "another header": lambda data: b"\x15\x82" + data[2:],
    "another hash": lambda data: data.replace(b"\x1c\x1c\0\0", b"\x1c\x2c\0\0", 2),
    "no bits": lambda data: data[:15] + bytes(len(data) - 15),
}


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_filter_rules_nothing_out(how):
    store = lake()
    parts = Catalog(store).snapshot("db").file_parts("t", where="id = 1000")
    for part in parts:
        body = store.get(part.key)
        for place in part.blooms:
            damaged = DAMAGE[how](body[place.start : place.end])
            body = body[: place.start] + damaged + body[place.end :]
        store.put(part.key, body)
    snapshot = Catalog(store).snapshot("db")
    assert len(left(snapshot, "id = 1000")) == 3
    assert snapshot.to_arrow("t", where="id = 1000")["id"].to_pylist() == [1000]


@pytest.mark.usefixtures("everywhere")
def test_a_file_that_is_gone_or_cut_is_named_and_not_skipped():
    store = lake()
    snapshot = Catalog(store).snapshot("db")
    part = snapshot.file_parts("t", where="id = 1000")[0]
    body = store.get(part.key)
    store.put(part.key, body[: part.blooms[0].start + 9])
    with pytest.raises(CorruptObject) as caught:
        snapshot.to_arrow("t", where="id = 1000")
    assert caught.value.key == part.key
    store.delete([part.key])
    with pytest.raises(ObjectNotFound):
        snapshot.to_arrow("t", where="id = 1000")


@pytest.mark.usefixtures("everywhere")
def test_a_column_that_was_dropped_and_made_anew_is_not_asked_by_its_old_filter():
    store = MemoryStore("anew")
    with Catalog(store).writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"id": [1, 9], "x": [5, 5]}), bloom=["id", "x"])
        tx.evolve("t", drop=["id"], add={"id": pa.int64()})
        tx.write("t", pa.table({"id": [2, 9], "x": [5, 6]}), bloom=["id", "x"])
    snapshot = Catalog(store).snapshot("db")
    assert snapshot.to_arrow("t", where="x = 5").num_rows == 3
    assert snapshot.to_arrow("t", where="id = 2").num_rows == 1
    assert snapshot.to_arrow("t", where="id = 1").num_rows == 0


# --- Writes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["none", "flag", "list"])
def test_columns_that_can_have_none_are_refused_before_anything_is_written(column):
    store = MemoryStore("refused")
    rows = pa.table({"id": [1], "flag": [True], "list": [[1]]})
    with Catalog(store).writer("w", "db") as writer, writer.transaction() as tx:
        with pytest.raises(UsageError, match=column):
            tx.write("t", rows, bloom=["id", column])
        for wrong in ("id", None, 5):
            with pytest.raises(UsageError, match="list of names"):
                tx.write("t", rows, bloom=wrong)
        with pytest.raises(UsageError, match="no name"):
            tx.write("t", rows, bloom=[5])
        tx.discard()
    assert not [info.key for info in store.list("") if info.key.endswith(".parquet")]


def test_the_log_tells_where_filters_lie():
    known = Catalog(lake()).snapshot("db").statistics("t").to_pylist()
    places = {row["column"]: row["bloom_offset"] for row in known if row["row_group"] is None}
    assert set(places) == {"id", "text", "file"}
    assert [row["column"] for row in known if row["bloom_offset"] is None].count("file") == 3
