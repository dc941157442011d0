"""`Writer.forget`: emptied tables leave the list, and applications of long ago begin anew."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import Margins
from lakelog.errors import (
    ColumnsChanged,
    ConflictError,
    FencedError,
    InvalidName,
    NaiveTime,
    SchemaConflict,
    TableNotFound,
    UsageError,
)
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store import open_store


def put(writer, table, value, **options):
    with writer.transaction(**options) as tx:
        return tx.write(table, pa.table({"a": [value]}))[0]


def take_out(writer, *paths):
    with writer.transaction() as tx:
        for path in paths:
            tx.remove(path)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_an_emptied_table_is_forgotten_and_may_come_again(catalog, checkpoint):
    with catalog.writer("w", "db") as writer:
        path = put(writer, "gone", 1)
        put(writer, "kept", 2)
        take_out(writer, path)
        if checkpoint:
            writer.checkpoint()
        before = catalog.snapshot("db")
        assert before.tables() == ["gone", "kept"]
        info = writer.forget(tables=["gone"])
        if checkpoint:
            writer.checkpoint()
        now = catalog.snapshot("db")
        assert now.tables() == ["kept"]
        with pytest.raises(TableNotFound):
            now.schema("gone")
        assert now.to_arrow("kept").to_pylist() == [{"a": 2}]
        again = catalog.snapshot("db", before.token)
        assert again.tables() == ["gone", "kept"], "the past is as it was"
        put(writer, "gone", 3)
    assert catalog.snapshot("db").to_arrow("gone").to_pylist() == [{"a": 3}]
    rows = catalog.history("db").to_pylist()
    assert [row["operation"] for row in rows if row["revision"] == info.revision] == ["maintenance"]


def test_a_table_with_files_is_not_forgotten_and_nothing_else_is(catalog):
    with catalog.writer("w", "db") as writer:
        put(writer, "full", 1)
        take_out(writer, put(writer, "empty", 1))
        for tables, error in (
            (["full"], UsageError),
            (["empty", "full"], UsageError),
            (["empty", "never"], TableNotFound),
            ([""], InvalidName),
            ([1], InvalidName),
            ([["empty"]], InvalidName),
            (["empty", None], InvalidName),
            (None, UsageError),
            (7, UsageError),
            ("empty", UsageError),
            ((), UsageError),
        ):
            revision = writer.revision
            with pytest.raises(error) as caught:
                writer.forget(tables=tables)
            assert caught.value.hint
            assert writer.revision == revision
        assert catalog.snapshot("db").tables() == ["empty", "full"]


def test_a_file_written_before_its_table_was_forgotten_is_refused(catalog):
    """It was written for columns that the log knows no more, and names no schema."""
    with catalog.writer("w", "db") as writer:
        take_out(writer, put(writer, "t", 1))
        tx = writer.transaction()
        tx.write("t", pa.table({"a": [2]}))
        writer.forget(tables=["t"])
        with pytest.raises(ColumnsChanged, match="'t' of w/db were changed") as caught:
            tx.commit()
        assert isinstance(caught.value, ConflictError)  # of nobody's making who called
        assert caught.value.hint
        put(writer, "t", 3)
    assert catalog.snapshot("db").to_arrow("t").to_pylist() == [{"a": 3}]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_applications_are_forgotten_by_their_last_commit(catalog, fake, checkpoint):
    def now():
        return dt.datetime.fromtimestamp(fake.ambient.now_us() / 1e6, dt.UTC)

    with catalog.writer("w", "db") as writer:
        put(writer, "t", 1, app_id="old", app_version=7)
        fake.move(100)
        between = now()
        fake.move(100)
        put(writer, "t", 2, app_id="new", app_version=7)
        writer.forget(applications_before=between)
        if checkpoint:
            writer.checkpoint()
    with catalog.writer("w", "db") as writer:
        for app, skipped in (("old", False), ("new", True)):
            with writer.transaction(app_id=app, app_version=1) as tx:
                pass
            assert tx.commit_info.skipped == skipped, app


def test_what_cannot_forget(catalog):
    writer = catalog.writer("w", "db")
    take_out(writer, put(writer, "t", 1))
    with pytest.raises(NaiveTime):
        writer.forget(applications_before=dt.datetime(2025, 1, 1))
    for no_time in ("x", 1_700_000_000, dt.date(2025, 1, 1), False):
        with pytest.raises(UsageError, match="applications_before can't be") as caught:
            writer.forget(applications_before=no_time)
        assert caught.value.hint
    with pytest.raises(UsageError, match=r"is 2999-01-01\S* which is still to come"):
        writer.forget(applications_before=dt.datetime(2999, 1, 1, tzinfo=dt.UTC))
    put(catalog.writer("w", "db"), "u", 1)
    with pytest.raises(FencedError):
        writer.forget(tables=["t"])
    writer.close()
    with pytest.raises(UsageError, match="closed"):
        writer.forget(tables=["t"])


def test_maintenance_and_rebuild_of_a_log_that_has_forgotten(tmp_path):
    catalog = Catalog(open_store(tmp_path))
    with catalog.writer("w", "db", checkpoint_every=0) as writer:
        gone = put(writer, "gone", 1, app_id="old", app_version=1)
        put(writer, "kept", 2)
        take_out(writer, gone)
        writer.forget(tables=["gone"], applications_before=dt.datetime.now(dt.UTC))
        put(writer, "kept", 3, app_id="new", app_version=5)
        writer.checkpoint()
    at_once = Catalog(catalog.store, margins=Margins(prune_floor_s=0.0, gc_grace_s=0.0))
    pruned = execute_prune(at_once, plan_prune(at_once, "w", "db", keep_revisions=1))
    assert pruned.deleted_objects == 2 * 4, "in both copies"
    assert execute_gc(at_once, plan_gc(at_once, "w", "db")).deleted_objects == 1
    execute_rebuild(catalog, plan_rebuild(catalog, "w", "db"))
    now = catalog.snapshot("db")
    assert now.tables() == ["kept"]
    assert now.to_arrow("kept").to_pylist() == [{"a": 2}, {"a": 3}]
    with catalog.writer("w", "db") as writer:
        for app, version, skipped in (("new", 5, True), ("old", 1, False)):
            with writer.transaction(app_id=app, app_version=version) as tx:
                pass
            assert tx.commit_info.skipped == skipped, app


def test_an_open_writer_goes_by_no_types_of_a_table_that_others_dropped(catalog):
    with catalog.writer("w", "db") as writer:
        put(writer, "t", 1)
        catalog.drop("db", "t", execute=True)
        with writer.transaction() as tx:
            tx.write("t", pa.table({"a": ["a text now"]}))
            with pytest.raises(SchemaConflict):  # what is there, is
                tx.write("t", pa.table({"a": [1]}))
    assert catalog.snapshot("db").to_arrow("t").to_pylist() == [{"a": "a text now"}]


def test_an_open_writer_adds_files_by_no_types_of_a_table_that_others_dropped(tmp_path):
    """One file that is refused at first is read once, and all of the others with it."""
    catalog = Catalog(open_store(str(tmp_path / "lake")))
    pq.write_table(pa.table({"a": ["a text now"]}), tmp_path / "text.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "number.parquet")
    with catalog.writer("w", "db") as writer:
        put(writer, "t", 1)
        catalog.drop("db", "t", execute=True)
        with writer.transaction() as tx:
            tx.add("t", tmp_path / "text.parquet")
            with pytest.raises(SchemaConflict, match=r"number\.parquet"):  # what is there, is
                tx.add("t", tmp_path / "number.parquet")
    assert catalog.snapshot("db").to_arrow("t").to_pylist() == [{"a": "a text now"}]


def test_an_open_writer_adds_files_by_the_columns_that_others_have_made(tmp_path):
    catalog = Catalog(open_store(str(tmp_path / "lake")))
    pq.write_table(pa.table({"a": [1 << 40], "old": [5]}), tmp_path / "wide.parquet")
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"a": pa.array([1], pa.int32()), "old": pa.array([4])}))
            tx.evolve("t", drop=["old"])
        catalog.evolve("db", "t", widen={"a": pa.int64()}, add={"old": pa.int64()})
        with writer.transaction() as tx:
            tx.add("t", tmp_path / "wide.parquet")
    rows = catalog.snapshot("db").to_arrow("t").to_pylist()
    assert rows == [{"a": 1, "old": None}, {"a": 1 << 40, "old": 5}]
