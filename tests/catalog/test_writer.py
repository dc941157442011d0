"""A writer and its transactions: all of a transaction becomes visible, or nothing."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from lakelog.catalog.format.objects import OPERATIONS
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import (
    DatabaseNotFound,
    InvalidName,
    NotACatalog,
    UsageError,
)
from lakelog.testing.logs import live_paths
from table_cases import table
from writer_cases import values, write


def _write_and_fail(tx):
    tx.write("t", table(2))
    raise RuntimeError("mine")


# --- On every backend -----------------------------------------------------------------------------


def test_commit_and_reload_equals_the_state(any_catalog):
    catalog = any_catalog()
    with catalog.writer("w", "db", checkpoint_every=3) as writer:
        for number in range(5):
            info = write(writer, number).commit_info
            assert info.revision == number
        with writer.transaction() as tx:
            (first,) = (p for p in live_paths(writer._session._committer.state)["t"][:1])
            tx.remove(first)
            tx.write("u", table(7), partition="x/y")
        state = writer._session._committer.state
    again = any_catalog()
    fresh = LogReader(again.store, "w", "db").load()
    assert (fresh.revision, fresh.digest, fresh.uuid) == (5, state.digest, state.uuid)
    assert live_paths(fresh) == live_paths(state)
    assert fresh.history.table().equals(state.history.table())
    assert values(again, "u") == [7]
    assert len(values(again)) == 4


def test_rows_come_back_as_they_were_written(any_catalog):
    data = pa.table(
        {
            "i": pa.array([1, None, 3], pa.int32()),
            "s": ["ü", None, ""],
            "t": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * 3, pa.timestamp("us", "UTC")),
            "l": [[1], None, []],
        }
    )
    with any_catalog().writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", data)
    assert any_catalog().snapshot("db").to_arrow("t").equals(data)


def test_a_dropped_transaction_leaves_no_trace(any_catalog):
    catalog = any_catalog()
    with catalog.writer("w", "db") as writer:
        write(writer, 1)
        before = [item.key for item in catalog.store.list("w/db/transactions/")]
        dropped = writer.transaction()
        dropped.write("t", table(2))
        dropped.discard()
        with pytest.raises(UsageError, match="over"):
            dropped.commit()
        assert [item.key for item in catalog.store.list("w/db/transactions/")] == before
        assert writer.revision == 0
    assert values(any_catalog()) == [1]


def test_an_exception_inside_leaves_no_trace(any_catalog):
    catalog = any_catalog()
    with catalog.writer("w", "db") as writer:
        write(writer, 1)
        tx = writer.transaction()
        with pytest.raises(RuntimeError, match="mine"), tx:
            _write_and_fail(tx)
        assert tx.commit_info is None
        assert writer.revision == 0
        write(writer, 3)
    assert values(any_catalog()) == [1, 3]


# --- Beginnings -----------------------------------------------------------------------------------


def test_create_empty(catalog, store):
    """Opening for write creates no catalog, which begins with its first commit: only what was
    found out about the store is kept."""
    with catalog.writer("w", "db") as writer:
        assert writer.revision == -1
        assert writer.checkpoint() is None
    assert all(info.key.startswith("w/_probe/") for info in store.list(""))
    with pytest.raises(NotACatalog):
        catalog.snapshot("db")


def test_load_of_nothing_is_the_state_before_the_first_commit(store):
    state = LogReader(store, "w", "db").load()
    assert (state.revision, state.files.tables(), state.epoch) == (-1, [], 0)


def test_another_database_of_the_same_writer_is_another_log(catalog):
    with catalog.writer("w", "db") as writer:
        write(writer, 1)
    with catalog.writer("w", "other") as writer:
        assert writer.revision == -1
        write(writer, 2)
    assert values(catalog) == [1]
    assert values(catalog, database="other") == [2]
    with pytest.raises(DatabaseNotFound, match="third"):
        catalog.snapshot("third")


@pytest.mark.parametrize("bad", ["", "_refs", "a/b", "..", "x" * 65, "ü"])
def test_ids_that_cannot_be(catalog, bad):
    with pytest.raises(InvalidName):
        catalog.writer(bad, "db")
    with pytest.raises(InvalidName):
        catalog.writer("w", bad)
    with pytest.raises(InvalidName):
        catalog.snapshot(bad)


# --- What a commit says ---------------------------------------------------------------------------


def test_commit_info_says_where_it_stands(catalog, fake, store):
    with catalog.writer("w", "db") as writer:
        tx = write(writer, 1)
        info = tx.commit_info
        assert info.revision == 0
        assert info.transaction_id == tx.transaction_id
        assert info.committed_at_us == fake.wall_us
        assert not info.skipped
        assert tx.commit() is info, "a second call says the same again"
        (key,) = (item.key for item in store.list("w/db/transactions/"))
        assert key.endswith(f"/998-{10**12 - 1}-0.{info.uuid[:8]}.transaction")
        assert write(writer, 2).commit_info.committed_at_us == fake.wall_us + 1


def test_a_transaction_without_changes_writes_nothing(catalog, store):
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            pass
        assert tx.commit_info is None
    assert all(info.key.startswith("w/_probe/") for info in store.list(""))


def test_operations_and_summary_stand_in_the_history(catalog):
    live = []
    with catalog.writer("w", "db") as writer:
        for operation in sorted(OPERATIONS):
            with writer.transaction(operation=operation, summary={"note": operation}) as tx:
                if operation in ("delete", "rewrite"):
                    tx.remove(live.pop())
                if operation != "delete":
                    live += tx.write("t", table(1))
        rows = catalog.history("db").to_pylist()
    assert [row["operation"] for row in rows] == sorted(OPERATIONS)
    assert rows[0]["summary"] == '{"note": "append"}'


@pytest.mark.parametrize(
    "options",
    [
        {"app_id": "x"},
        {"app_version": 1},
        {"operation": "frobnicate"},
        {"app_id": "x", "app_version": -1},
        {"app_id": "x", "app_version": 1 << 64},
        {"app_id": "", "app_version": 1},
        {"app_id": "\ud800", "app_version": 1},
        {"app_id": 7, "app_version": 1},
        {"app_id": "x", "app_version": "1"},
        {"summary": {"a": 1}},
        {"summary": {1: "a"}},
        {"summary": {"a": "\ud800"}},
        {"summary": {"a": "x" * (1 << 20)}},
        {"summary": {"a": "\x01" * (1 << 18)}},
    ],
    ids=lambda options: str(options)[:40],
)
def test_a_transaction_that_could_not_be_committed_is_refused_at_once(catalog, options):
    with catalog.writer("w", "db") as writer, pytest.raises(UsageError) as caught:
        writer.transaction(**options)
    assert caught.value.hint


@pytest.mark.parametrize("clock", [(1 << 63, 0), (0, -(1 << 64)), ("a", "b"), (1,)])
def test_a_clock_that_cannot_be_is_refused_before_anything_is_written(catalog, store, clock):
    with catalog.writer("w", "db") as writer:
        before = list(store.list(""))
        with pytest.raises(UsageError):
            writer.transaction().write("t", table(1), clock=clock)
        assert list(store.list("")) == before


def test_a_closed_writer_does_nothing_more(catalog):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", table(1))
    for call in (writer.transaction, writer.checkpoint, writer.adopt_name):
        with pytest.raises(UsageError, match="closed"):
            call()


@pytest.mark.parametrize("call", ["write", "add", "remove", "commit"])
def test_a_transaction_that_is_over_takes_nothing_more(catalog, call):
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        tx.commit()
        arguments = {"write": ("t", table(1)), "add": ("t", "data/x"), "remove": ("data/x",)}
        if call == "commit":
            tx = writer.transaction()
            tx.discard()
        with pytest.raises(UsageError):
            getattr(tx, call)(*arguments.get(call, ()))


# --- Applications ---------------------------------------------------------------------------------


def test_an_application_version_is_committed_once(catalog):
    with catalog.writer("w", "db") as writer:
        infos = []
        for version in (0, 0, 1, 0, 1, 5, 4):
            with writer.transaction(app_id="stream", app_version=version) as tx:
                tx.write("t", table(version))
            infos.append(tx.commit_info)
    assert [info.skipped for info in infos] == [False, True, False, True, True, False, True]
    assert values(catalog) == [0, 1, 5]
    assert catalog.history("db").num_rows == 3


def test_idempotence_survives_reload_and_checkpoint(catalog):
    with catalog.writer("w", "db") as writer:
        with writer.transaction(app_id="stream", app_version=3) as tx:
            tx.write("t", table(3))
        writer.checkpoint()
    with catalog.writer("w", "db") as writer:
        with writer.transaction(app_id="stream", app_version=3) as tx:
            tx.write("t", table(3))
        assert tx.commit_info.skipped
        with writer.transaction(app_id="other", app_version=3) as tx:
            tx.write("t", table(4))
        assert not tx.commit_info.skipped
    assert values(catalog) == [3, 4]


def test_an_application_may_commit_without_data(catalog):
    """An empty micro-batch still has to be remembered."""
    with catalog.writer("w", "db") as writer:
        for expected in (False, True):
            with writer.transaction(app_id="stream", app_version=1) as tx:
                pass
            assert tx.commit_info.skipped == expected


def test_what_is_given_in_the_place_of_something_else(catalog):
    with pytest.raises(UsageError, match="made of a store") as refused:
        type(catalog)("some/lake")
    assert "open_catalog" in (refused.value.hint or "")
    with catalog.writer("w", "db") as writer:
        assert repr(writer) == "Writer('w', 'db', revision -1)"
        tx = writer.transaction()
        with pytest.raises(UsageError, match="schema= is the pyarrow schema"):
            tx.plan_overwrite("t", "i = 1")
