"""Deletes in the files of all writers: of which files they hold, who sees them, what ends them, and
what happens to logs that are rebuilt, set back or rewritten."""

from __future__ import annotations

import shutil
from unittest import mock

import pyarrow as pa
import pytest
from cut_cases import checkpoint, delete, do, left, rows, write
from lakelog import open_catalog
from lakelog.catalog.read.agreeing import ConflictWarning
from lakelog.catalog.read.health import examine_log
from lakelog.errors import (
    ClockError,
    InvalidPredicate,
    InvalidToken,
    OperationConflict,
    TableNotFound,
    UsageError,
)
from lakelog.rebuild import execute_rebuild, plan_rebuild

# --- Of which files, and who sees it --------------------------------------------------------------


def test_it_holds_of_all_files_of_the_cut_and_of_none_that_come_later(lake) -> None:
    cut = lake.snapshot("db")
    write(lake, "b", [2, 9])
    write(lake, "a", [2])
    write(lake, "c", [2])
    done = delete(lake, "n = 2", cut)
    assert (done.files_removed, done.files_touched, done.tombstones, done.rows) == (0, 2, 1, None)
    wanted = left("a2", "b2", more="b2 b9 a2 c2")
    assert rows(lake) == wanted
    checkpoint(lake, "a", "b", "c")
    assert rows(lake) == wanted
    write(lake, "b", [2])
    assert rows(lake) == sorted([*wanted, "b2"])


def test_a_cut_that_leaves_files_out_is_refused(lake) -> None:
    do(lake, "b", lambda tx: tx.write("t", pa.table({"n": ["text"]}), on_conflict="allow"))
    skipping, before = lake.snapshot("db", on_conflict="skip"), lake.snapshot("db").token
    with (
        pytest.warns(ConflictWarning),
        pytest.raises(UsageError, match="leaves out files of table 't'"),
    ):
        delete(lake, "n = 2", skipping)
    assert lake.snapshot("db").token == before


@pytest.mark.parametrize("form", ["snapshot", "token"])
def test_of_some_writers_alone(lake, form) -> None:
    cut = lake.snapshot("db", {"b": 0})
    delete(lake, "n >= 3", cut if form == "snapshot" else cut.token)
    assert rows(lake) == left("b3", "b4"), "the writer's own files aren't in the cut"
    assert rows(lake, writer="b") == ["b1", "b2"]
    assert rows(lake, where="n = 3") == ["a3"]


def test_a_cut_without_the_delete_has_the_rows(lake) -> None:
    before = lake.snapshot("db").token
    delete(lake, "n = 2")
    assert rows(lake) == left("a2", "b2")
    assert rows(lake, before) == left()
    assert rows(lake, {"b": 0}) == ["b1", "b2", "b3", "b4"], "without the writer who deleted"
    assert rows(lake, {"a": 0, "b": 0}) == left()
    assert rows(lake, {"a": 1, "b": 0}) == left("a2", "b2")


def test_a_writer_that_has_nothing_can_delete(lake) -> None:
    delete(lake, "n = 2", by="new")
    assert rows(lake) == left("a2", "b2")
    assert lake.snapshot("db").tables() == ["t"]
    assert lake.snapshot("db").files("t", writer="a").num_rows == 1
    with pytest.raises(TableNotFound):
        do(lake, "new", lambda tx: tx.delete("t", "n = 2"))


def test_a_file_stays_though_every_row_goes(lake) -> None:
    assert delete(lake, "n < 9").files_removed == 0
    assert rows(lake) == []
    assert lake.snapshot("db").files("t").num_rows == 2
    assert lake.snapshot("db").dataset("t").count_rows() == 0


def test_a_file_that_is_added_again_has_its_rows(tmp_path, lake) -> None:
    place = tmp_path / "lake" / "b" / "db" / "data" / "x.parquet"
    shutil.copy(next((tmp_path / "lake" / "b" / "db" / "data").rglob("*.parquet")), place)
    do(lake, "b", lambda tx: tx.add("t", "data/x.parquet"))
    delete(lake, "n = 2")
    assert rows(lake).count("b2") == 0

    def again(tx) -> None:
        tx.remove("data/x.parquet")
        tx.add("t", "data/x.parquet")

    do(lake, "b", again)
    assert rows(lake).count("b2") == 1


def test_nothing_is_written_where_no_row_can_meet_it(lake) -> None:
    done = delete(lake, "n = 7")
    assert (done.files_touched, done.tombstones, done.rows) == (0, 0, 0)
    assert lake.history("db", "a").num_rows == 1


def test_what_can_not_be_asked_for_changes_nothing(lake) -> None:
    do(lake, "a", lambda tx: tx.write("u", pa.table({"n": [1]})))
    other = open_catalog("memory://delete-of-cut-other")
    for name in "ab":
        write(other, name, [1])
    with other.writer("a", "db2") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"n": [1]}))
    snapshot = lake.snapshot("db")
    with lake.writer("a", "db") as writer, writer.transaction() as tx:
        for error, args, how in (
            (TableNotFound, ("v", "n = 1"), {"cut": snapshot}),
            (InvalidPredicate, ("t", "k = 1"), {"cut": snapshot}),
            (UsageError, ("t", None), {"cut": snapshot}),
            (UsageError, ("t", "n = 1"), {"cut": snapshot, "mode": "rows"}),
            (UsageError, ("t", "n = 1"), {"cut": other.snapshot("db")}),
            (UsageError, ("t", "n = 1"), {"cut": other.snapshot("db2").token}),
            (UsageError, ("t", "n = 1"), {"cut": 7}),
            (InvalidToken, ("t", "n = 1"), {"cut": "ll1-"}),
            (InvalidToken, ("t", "n = 1"), {"cut": ""}),
        ):
            with pytest.raises(error):
                tx.delete(*args, **how)
    assert tx.commit_info is None
    assert rows(lake) == left()


# --- What columns mean ----------------------------------------------------------------------------


def test_each_log_calls_a_column_as_it_does(lake) -> None:
    """In b it is renamed, and the old name means nothing there; a third one lacks the column."""
    do(lake, "b", lambda tx: tx.evolve("t", rename={"n": "m"}))
    do(lake, "c", lambda tx: tx.write("t", pa.table({"w": ["c"]})))
    done = delete(lake, "n = 2 OR m = 3")
    assert done.tombstones == 2
    found = lake.snapshot("db").to_arrow("t", ["w", "n", "m"]).to_pylist()
    assert sorted(f"{r['w']}{r['n'] or ''}{r['m'] or ''}" for r in found) == [
        *("a1", "a3", "a4", "b1", "b2", "b4", "c"),
    ]
    delete(lake, "m IS NULL AND n = 4", by="b")
    delete(lake, "n IS NULL AND m = 4", by="b")
    found = lake.snapshot("db").to_arrow("t", ["w", "n", "m"]).to_pylist()
    assert sorted(f"{r['w']}{r['n'] or ''}{r['m'] or ''}" for r in found) == [
        *("a1", "a3", "b1", "b2", "c"),
    ]


def test_a_default_counts_where_it_is_declared(lake) -> None:
    do(lake, "b", lambda tx: tx.evolve("t", add={"x": pa.int32()}, default={"x": 5}))
    do(lake, "c", lambda tx: tx.write("t", pa.table({"w": ["c"], "n": [1], "x": [1 << 40]})))
    delete(lake, "x = 5 AND n = 1")
    assert rows(lake) == left("b1", more="c1")


def test_what_a_log_makes_of_its_columns_later_changes_nothing(lake) -> None:
    delete(lake, "n = 2")
    lake.evolve("db", "t", rename={"n": "m"})
    lake.evolve("db", "t", add={"n": pa.int64()}, default={"n": 2})
    found = lake.snapshot("db").to_arrow("t", ["w", "m"]).to_pylist()
    assert sorted(f"{row['w']}{row['m']}" for row in found) == left("a2", "b2")


# --- What ends it, and what doesn't ---------------------------------------------------------------


def test_it_is_kept_without_a_file_of_its_own(lake) -> None:
    delete(lake, "n = 2")
    paths = lake.snapshot("db").files("t", writer="a")["path"].to_pylist()
    do(lake, "a", lambda tx: [tx.remove(path) for path in paths])
    checkpoint(lake, "a")
    assert rows(lake) == ["b1", "b3", "b4"]
    lake.drop("db", "t", writers=["a"], execute=True)
    checkpoint(lake, "a")
    assert lake.snapshot("db").tables() == ["t"]
    assert rows(lake) == ["b1", "b3", "b4"]
    execute_rebuild(lake, plan_rebuild(lake, "a", "db"))
    assert rows(lake) == ["b1", "b3", "b4"]
    assert examine_log(lake.store, "a", "db").sound


@pytest.mark.parametrize("how", ["rewrite", "overwrite"])
def test_rows_that_are_written_anew_are_those_that_are_left(lake, how) -> None:
    delete(lake, "n = 2")
    if how == "rewrite":
        paths = lake.snapshot("db").files("t", writer="b")["path"].to_pylist()
        done = do(lake, "b", lambda tx: tx.rewrite("t", paths))
        assert (done.rows_rewritten, done.rows_removed) == (3, 0)
        assert rows(lake) == left("a2", "b2")
    else:
        data = pa.table({"w": ["b"], "n": [4]})
        done = do(lake, "b", lambda tx: tx.overwrite("t", data, "n = 4"))
        assert (done.rows_rewritten, done.rows_removed) == (2, 1)
        assert rows(lake) == left("a2", "b2")
    assert rows(lake, {"b": 1}) == ["b1", "b3", "b4"], "also without the writer who deleted"
    delete(lake, "n = 3")
    assert rows(lake) == left("a2", "b2", "a3", "b3")


@pytest.mark.parametrize("how", ["rewrite", "overwrite"])
def test_a_delete_while_rows_are_written_anew_is_a_conflict(lake, how) -> None:
    paths = lake.snapshot("db").files("t", writer="b")["path"].to_pylist()
    with lake.writer("b", "db") as writer:
        tx = writer.transaction()
        if how == "rewrite":
            tx.rewrite("t", paths)
        else:
            tx.overwrite("t", pa.table({"w": ["b"], "n": [4]}), "n = 4")
        delete(lake, "n = 2")
        with pytest.raises(OperationConflict, match="a/db has deleted rows") as found:
            tx.commit()
        assert (found.value.revision, found.value.table) == (1, "t")
        tx.discard()
        assert rows(lake) == left("a2", "b2")
        with writer.transaction() as tx:
            tx.rewrite("t", paths)
    assert rows(lake) == left("a2", "b2")


@pytest.mark.parametrize(
    "how", ["rewrite", "overwrite", "by hand", "restore", "gone, then restored", "gone, then added"]
)
@pytest.mark.parametrize("name", ["a", "b"])
def test_files_that_were_replaced_since_the_cut_are_told(lake, how, name) -> None:
    """The delete would not hold of their rows: they would be read on."""
    path = write(lake, name, [2, 5])
    cut = lake.snapshot("db")
    if how == "rewrite":
        do(lake, name, lambda tx: tx.rewrite("t", [path]))
    elif how == "overwrite":
        do(lake, name, lambda tx: tx.overwrite("t", pa.table({"w": [name], "n": [5]}), "n = 5"))
    elif how == "by hand":
        data = pa.table({"w": [name] * 2, "n": [2, 5]})
        do(lake, name, lambda tx: [tx.remove(path), tx.write("t", data)])
    elif how == "gone, then restored":
        do(lake, name, lambda tx: tx.remove(path))
        lake.restore("db", to=cut.token, execute=True)
    elif how == "gone, then added":
        with lake.writer(name, "db") as writer:
            with writer.transaction() as tx:
                (path,) = tx.write("t", pa.table({"w": [name] * 2, "n": [2, 5]}))
            cut = lake.snapshot("db")
            with writer.transaction() as tx:
                tx.remove(path)
            with writer.transaction() as tx:
                tx.add("t", path)
    else:
        do(lake, name, lambda tx: tx.delete("t", "n = 5", mode="rows"))
        lake.restore("db", to=cut.token, execute=True)
    before = rows(lake)
    with pytest.raises(OperationConflict, match=f"{name}/db had at revision") as found:
        delete(lake, "n = 2", cut)
    assert "new cut" in str(found.value.hint)
    assert rows(lake) == before
    delete(lake, "n = 2")
    assert rows(lake) == [row for row in before if row[1] != "2"]


def test_files_that_only_went_since_the_cut_are_no_conflict(lake) -> None:
    """Nor are those that came, or that were replaced and could hold no such row."""
    path, other = write(lake, "b", [2, 5]), write(lake, "b", [7])
    do(lake, "b", lambda tx: tx.write("u", pa.table({"n": [1, 2]})))
    cut = lake.snapshot("db")
    do(lake, "b", lambda tx: tx.remove(path))
    do(lake, "b", lambda tx: tx.rewrite("t", [other]))
    write(lake, "b", [2])
    with pytest.raises(OperationConflict):  # one went, and rows of the table were written anew
        delete(lake, "n = 2", cut)
    cut = lake.snapshot("db")
    path = lake.snapshot("db").files("u")["path"].to_pylist()[0]
    do(lake, "b", lambda tx: tx.rewrite("u", [path]))
    path = write(lake, "b", [8])
    do(lake, "b", lambda tx: tx.rewrite("t", [path]))
    delete(lake, "n = 2", cut)
    assert rows(lake) == left("a2", "b2", more="b7 b8")


def test_a_commit_that_was_not_sent_is_looked_at_again(lake) -> None:
    """It failed right before its put; rows of the files are deleted before it is tried again."""
    paths = lake.snapshot("db").files("t", writer="b")["path"].to_pylist()
    with lake.writer("b", "db") as writer:
        tx = writer.transaction()
        tx.rewrite("t", paths)
        committer = writer._session._committer
        fails = mock.patch.object(committer, "_compose", side_effect=ClockError("far ahead"))
        with fails, pytest.raises(ClockError):
            tx.commit()
        delete(lake, "n = 2")
        with pytest.raises(OperationConflict, match="a/db has deleted rows"):
            tx.commit()
        tx.discard()
    assert rows(lake) == left("a2", "b2")


def test_what_does_not_meet_is_no_conflict(lake) -> None:
    """Of another table, or of a cut that doesn't name the log."""
    do(lake, "b", lambda tx: tx.write("u", pa.table({"n": [1, 2]})))
    paths = lake.snapshot("db").files("t", writer="b")["path"].to_pylist()
    with lake.writer("b", "db") as writer:
        tx = writer.transaction()
        tx.rewrite("t", paths)
        cut = lake.snapshot("db")
        do(lake, "a", lambda other: other.delete("u", "n = 2", cut=cut))
        delete(lake, "n = 2", lake.snapshot("db", {"a": 0}))
        tx.commit()
    assert rows(lake) == left("a2")
    assert lake.snapshot("db").to_arrow("u").num_rows == 1


def test_a_key_is_resolved_before(lake) -> None:
    lake.evolve("db", "t", key=["n"])
    newest = write(lake, "b", [2, 3])
    assert rows(lake, where="n = 2") == ["b2"]
    delete(lake, "n = 2", by="a")
    assert [row[1] for row in rows(lake)] == ["1", "3", "4"], "older rows of 2 don't come back"
    write(lake, "a", [2])
    assert rows(lake, where="n = 2") == ["a2"]
    assert newest in lake.snapshot("db").files("t")["path"].to_pylist()


# --- What tells of it -----------------------------------------------------------------------------


def test_diff_history_and_explain_name_it(lake) -> None:
    before = lake.snapshot("db")
    write(lake, "b", [5])
    delete(lake, "n = 2", before)
    after = lake.snapshot("db")
    found = before.diff(after)
    assert found.in_place.to_pylist() == [
        {"table": "t", "writer": name, "what": "deletes"} for name in "ab"
    ]
    assert found.rows.select(["writer", "exact"]).to_pylist() == [{"writer": "b", "exact": False}]
    assert after.diff(lake.snapshot("db")).is_empty
    (last,) = lake.history("db", "a").slice(1).to_pylist()
    assert last["operation"] == "delete"
    assert last["summary"] == '{"lakelog.deletes_of": "[\\"a\\", \\"b\\"]"}'
    assert last["replaced_where"] == "n = 2"
    told = after.explain("t", "n > 0")
    assert told.select(["writer", "deletes"]).to_pylist() == [
        {"writer": "a", "deletes": "1 tombstone"},
        {"writer": "b", "deletes": "1 tombstone"},
        {"writer": "b", "deletes": ""},
    ]


def test_rows_are_counted_as_they_are_read(lake) -> None:
    delete(lake, "n = 2")
    snapshot = lake.snapshot("db")
    assert snapshot.dataset("t").count_rows() == 6
    assert snapshot.dataset("t", writer="b").count_rows() == 3
    assert snapshot.to_duckdb().sql("select count(*), max(n) from t").fetchall() == [(6, 4)]
