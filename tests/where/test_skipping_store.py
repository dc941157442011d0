"""Skipping against the store: what it asks for is counted, and segments of statistics that are
damaged or gone cost skipping, never rows."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.data import parquet
from lakelog.catalog.format.segments import ROW_GROUP_STATISTICS, ROW_GROUPS, STATISTICS
from lakelog.catalog.log import checkpoint_files
from lakelog.catalog.read.statistics import StatisticsWarning
from lakelog.errors import CorruptObject
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import PassingStore

FILES, ROWS, GROUP = 4, 6, 2
WHERE = "id >= 14 AND id < 16"  # of file 1 the second of three row groups
IDS = [14, 15]


@pytest.fixture
def store() -> MemoryStore:
    """A table of some files of three row groups each; a checkpoint of which every piece is an
    object of its own is all there is of the log."""
    found = MemoryStore("skipping")
    with (
        mock.patch.object(parquet, "ROW_GROUP_ROWS", GROUP),
        mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0),
        Catalog(found).writer("w", "db", checkpoint_every=0) as writer,
    ):
        for number in range(FILES):
            with writer.transaction() as tx:
                ids = [10 * number + 2 + row for row in range(ROWS)]
                tx.write("t", pa.table({"id": ids, "half": [value / 2 for value in ids]}))
        writer.checkpoint()
    return found


def pieces_of(store, kind, column=None):
    """Keys of the segments of a kind (that speak of a column)."""
    (state,) = Catalog(store).snapshot("db")._states
    pieces = state.of_kind(kind)
    return [p.where for p in pieces if column is None or column in p.segment.columns]


def opened(store):
    counting = CountingStore(store)
    return counting, Catalog(counting).snapshot("db")


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_each_table_of_a_piece_is_judged_by_its_own_statistics(name):
    found = MemoryStore("tables")
    with (
        mock.patch.object(parquet, "ROW_GROUP_ROWS", GROUP),
        Catalog(found).writer("w", "db", checkpoint_every=0) as writer,
    ):
        for table, count in (("a", 2), ("b", 3), ("c", 4)):
            for number in range(count):
                with writer.transaction() as tx:
                    tx.write(table, pa.table({"id": [10 * number + row for row in range(ROWS)]}))
        writer.checkpoint()
    snapshot = Catalog(found).snapshot("db")
    (part,) = snapshot.file_parts(name, where="id = 13")
    assert part.row_groups == (1,)
    assert snapshot.files(name, where="id = 13").num_rows == 1
    assert snapshot.to_arrow(name, where="id = 13")["id"].to_pylist() == [13]


# --- Requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["files", "explain"])
def test_statistics_are_asked_for_once(store, ask):
    counting, snapshot = opened(store)
    snapshot.files("t")
    counting.reset()
    getattr(snapshot, ask)("t", where=WHERE)
    pieces = len(pieces_of(store, STATISTICS, "id"))
    assert pieces > 0
    assert counting.reset() == {"put": 0, "get": pieces, "list": 0, "head": 0, "delete": 0}
    for other in (WHERE, "id < 3", "id <> 4"):
        snapshot.files("t", where=other)
        snapshot.explain("t", other)
    assert not any(counting.reset().values())
    getattr(snapshot, ask)("t", where="half < 3")
    fresh = set(pieces_of(store, STATISTICS, "half"))
    assert counting.reset()["get"] == len(fresh)


def test_a_scan_asks_for_row_groups_once_and_reads_the_files_that_are_left(store):
    counting, snapshot = opened(store)
    snapshot.files("t", where=WHERE)
    counting.reset()
    (part,) = snapshot.file_parts("t", where=WHERE)
    assert part.row_groups == (1,)
    beside = pieces_of(store, ROW_GROUPS) + pieces_of(store, ROW_GROUP_STATISTICS, "id")
    asked = counting.reset()
    # FILES beside these, whole: for how many row groups there are, once, and for the footers of
    # what is read, which are not kept.
    assert asked["get"] == len(set(beside)) + 2
    snapshot.file_parts("t", where=WHERE)
    assert counting.reset()["get"] == 1
    assert snapshot.to_arrow("t", ["id"], where=WHERE)["id"].to_pylist() == IDS
    asked = counting.reset()
    assert 0 < asked.pop("get") <= 1 + 4  # of one file
    assert not any(asked.values())


def test_a_table_of_one_condition_that_nothing_meets_reads_no_file(store):
    counting, snapshot = opened(store)
    snapshot.files("t", where="id < 0")
    counting.reset()
    assert snapshot.to_arrow("t", where="id < 0").num_rows == 0
    first = counting.reset()["get"]
    assert snapshot.to_arrow("t", where="id < 0").num_rows == 0
    assert counting.reset()["get"] == 1  # FILES, whole
    beside = pieces_of(store, ROW_GROUPS) + pieces_of(store, ROW_GROUP_STATISTICS, "id")
    assert first == len(set(beside)) + 2


def test_threads_load_a_column_once(store):
    """All of them at a time, of one snapshot whose first question it is."""
    alone, snapshot = opened(store)
    alone.reset()
    snapshot.file_parts("t", where=WHERE)
    threads = 8
    again = threads - 1  # FILES, whole, is read by each
    expected = alone.reset()["get"] + again
    for _ in range(20):
        counting, snapshot = opened(store)
        counting.reset()
        barrier = Barrier(threads)

        def ask(_, snapshot=snapshot, barrier=barrier):
            barrier.wait()
            return [(p.key, p.row_groups) for p in snapshot.file_parts("t", where=WHERE)]

        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(ask, range(threads)))
        assert all(parts == found[0] for parts in found)
        assert [groups for _, groups in found[0]] == [(1,)]
        assert counting.reset()["get"] == expected


def test_what_one_thread_lets_go_of_another_still_has(store):
    """Where little is kept, threads that ask for several columns load them anew, in turn."""
    from lakelog.catalog.read import table_facts

    _, snapshot = opened(store)
    conditions = {"id >= 14 AND id < 16": IDS, "half >= 7 AND half < 8": IDS, "id < 3": [2]}

    def ask(number):
        where = list(conditions)[number % len(conditions)]
        return snapshot.to_arrow("t", ["id"], where=where)["id"].to_pylist() == conditions[where]

    with (
        mock.patch.object(table_facts, "KEPT_FACTS", 1),
        ThreadPoolExecutor(6) as pool,
    ):
        assert all(pool.map(ask, range(120)))
    assert snapshot.files("t", where=WHERE).num_rows == 1, "skipping goes on"


# --- Damage ---------------------------------------------------------------------------------------

DAMAGE = {
    "gone": None,
    "empty": lambda body: b"",
    "cut": lambda body: body[:-9],
    "flipped": lambda body: body[:40] + bytes([body[40] ^ 1]) + body[41:],
    "text": lambda body: b"<html>" * 20,
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("kind", [STATISTICS, ROW_GROUP_STATISTICS, ROW_GROUPS])
def test_damaged_statistics_cost_skipping_and_no_rows(store, kind, how):
    keys = set(pieces_of(store, kind))
    assert keys
    for key in keys:
        if how == "gone":
            store.delete([key])
        else:
            store.put(key, DAMAGE[how](store.get(key)))
    snapshot = Catalog(store).snapshot("db")
    with pytest.warns(StatisticsWarning, match="nothing is skipped by it") as warned:
        parts = snapshot.file_parts("t", where=WHERE)
    assert any(key in str(item.message) for key in keys for item in warned)
    assert len(parts) == (FILES if kind == STATISTICS else 1)
    # Where the rows of files are unknown those of their row groups still are not.
    assert parts[0].row_groups != (1,) or kind == STATISTICS
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # each is told once
        assert snapshot.to_arrow("t", ["id"], where=WHERE)["id"].to_pylist() == IDS
        assert snapshot.files("t", where=WHERE).num_rows == len(parts)
        explained = snapshot.explain("t", WHERE)
        assert explained["kept"].to_pylist().count(True) == len(parts)


def test_a_store_that_is_away_is_no_damage(store):
    from lakelog.errors import StorageError

    class Away(PassingStore):
        broken = False

        def get(self, key, *, start=None, end=None):
            if self.broken:
                raise StorageError("away", key=key)
            return super().get(key, start=start, end=end)

        def get_many(self, keys):
            if self.broken:
                raise StorageError("away", key=keys[0])
            return super().get_many(keys)

    away = Away(store)
    snapshot = Catalog(away).snapshot("db")
    snapshot.files("t")
    away.broken = True
    with pytest.raises(StorageError):
        snapshot.files("t", where=WHERE)
    away.broken = False
    assert snapshot.files("t", where=WHERE).num_rows == 1, "and it is asked again"


# --- A log that disagrees with its files ----------------------------------------------------------


def test_row_groups_that_a_file_does_not_have_are_damage():
    """The log says three row groups of a file that has two, with the footer that it has."""
    store = MemoryStore("disagrees")
    real = parquet.file_facts

    def one_more(*args, **options):
        facts = real(*args, **options)
        facts.row_groups.append(facts.row_groups[-1])
        for at, group in enumerate(facts.row_groups):
            low = (at * 100).to_bytes(8, "little")
            group.columns[0].min = group.columns[0].max = low
        return facts

    with (
        mock.patch.object(parquet, "ROW_GROUP_ROWS", 2),
        mock.patch.object(parquet, "file_facts", one_more),
        Catalog(store).writer("w", "db") as writer,
        writer.transaction() as tx,
    ):
        (path,) = tx.write("t", pa.table({"id": [1, 2, 3, 4]}))
    snapshot = Catalog(store).snapshot("db")
    assert [part.row_groups for part in snapshot.file_parts("t", where="id = 200")] == [(2,)]
    with pytest.raises(CorruptObject, match="has 2 row groups") as caught:
        snapshot.to_arrow("t", where="id = 200")
    assert caught.value.key == f"w/db/{path}"
    assert "lakelog check" in caught.value.hint
