"""What a commit says of itself for the history: tables it touches, rows it removes."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.log import build, checkpoint_files
from lakelog.catalog.log.operations import NAMED, gist_of, read_gist, rows_removed, say_rewritten
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptError, UsageError
from lakelog.testing.keys import drop_mirror, log_keys

NAMES = ("rows_added", "rows_removed", "tables", "table_count")


def told(catalog):
    """Of each commit what the history says."""
    rows = catalog.history("db").to_pylist()
    return [tuple(row[name] for name in NAMES) for row in rows]


def rows(count):
    return pa.table({"a": list(range(count))})


def test_rows_removed_and_tables_stand_in_the_history(catalog):
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            (one,) = tx.write("t", rows(5))
            (two,) = tx.write("u", rows(7))
        with writer.transaction(summary={"why": "wrong"}) as tx:
            tx.remove(one)
            tx.remove(two)
            tx.write("v", rows(2))
        with writer.transaction() as tx:
            (gone,) = tx.write("t", rows(3))
            tx.remove(gone)
        writer.transaction(operation="maintenance").commit()
    assert told(catalog) == [
        (12, 0, ["t", "u"], 2),
        (2, 12, ["t", "u", "v"], 3),
        (3, 3, ["t"], 1),
    ]
    assert [row["summary"] for row in catalog.history("db").to_pylist()] == [
        None,
        '{"why": "wrong"}',
        None,
    ]


@pytest.mark.parametrize("spill", [0, 1 << 20])
def test_rows_of_files_in_a_checkpoint_are_counted(catalog, store, spill):
    """They are looked up by path, wherever the log has them; and checkpoints keep the answer."""
    with (
        mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", spill),
        catalog.writer("w", "db", checkpoint_every=0) as writer,
    ):
        with writer.transaction() as tx:
            paths = [tx.write("t", rows(n + 1))[0] for n in range(6)]
        with writer.transaction() as tx:
            tx.remove(paths[5])
        writer.checkpoint()
        with catalog.writer("w", "db", checkpoint_every=0) as fresh:
            with fresh.transaction() as tx:
                tx.remove(paths[0])
                tx.remove(paths[3])
            fresh.checkpoint()
    store.delete(log_keys(store, "transaction")[:-1])
    assert [row[1] for row in told(catalog)][-2:] == [6, 5]


def test_rows_that_cannot_be_counted_refuse_no_commit(catalog, store):
    """The piece of files that a removed one is in is damaged, and no older checkpoint serves."""
    with (
        mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0),
        catalog.writer("w", "db", checkpoint_every=0) as writer,
    ):
        with writer.transaction() as tx:
            (path,) = tx.write("t", rows(5))
        writer.checkpoint()
    drop_mirror(store)
    store.delete(log_keys(store, "transaction"))
    state = LogReader(store, "w", "db").load()
    for key in [info.key for info in store.list("w/db/segments/")]:
        store.put(key, b"\0" * len(store.get(key)))
    remove = wire.Action(remove=wire.Remove(table="t", path=path))
    with pytest.raises(CorruptError):
        rows_removed(state, [remove])
    assert gist_of(state, [remove]) == {
        "lakelog.tables": '["t"]',
        "lakelog.table_count": "1",
    }


def test_many_tables_are_counted_and_few_named(catalog, store):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for number in range(400):
            tx.write(f"table {number}", rows(1))
    ((_, removed, tables, count),) = told(catalog)
    assert (removed, count) == (0, 400)
    assert tables == [f"table {number}" for number in range(NAMED)]
    (key,) = log_keys(store, "transaction")
    assert build.BATCH_FROM_FILES < 400, "they stand in columns, which say no names"
    assert len(store.get(key)) < 200_000


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ({}, (None, None, None, None)),
        ({"a": "b"}, (None, None, None, '{"a": "b"}')),
        ({"lakelog.tables": '["t"]'}, (["t"], None, None, None)),
        ({"lakelog.tables": "[1]", "x": "y"}, (None, None, None, '{"x": "y"}')),
        ({"lakelog.tables": "5"}, (None, None, None, None)),
        ({"lakelog.rows_removed": "-1"}, (None, None, None, None)),
        ({"lakelog.rows_removed": "٣"}, (None, None, None, None)),
        ({"lakelog.rows_removed": str(1 << 62)}, (None, None, None, None)),
        ({"lakelog.table_count": "9" * 5000}, (None, None, None, None)),
        ({"lakelog.later": "x", "lakelog.table_count": "3"}, (None, 3, None, None)),
    ],
)
def test_any_text_is_taken(summary, expected):
    assert tuple(read_gist(summary)[:4]) == expected


@pytest.mark.parametrize(
    ("summary", "rewritten", "where"),
    [
        ({"lakelog.rows_rewritten": "7", "lakelog.where": "a = 1"}, 7, "a = 1"),
        ({"lakelog.rows_rewritten": "x", "lakelog.where": ""}, None, ""),
    ],
)
def test_what_an_overwrite_says_is_any_text_too(summary, rewritten, where):
    found = read_gist(summary)
    assert (found.rows_rewritten, found.where, found.words) == (rewritten, where, None)


def test_long_predicates_are_cut_and_several_stand_together():
    said: dict[str, str] = {}
    say_rewritten(said, 2, "a = 1")
    say_rewritten(said, 3, "b" * 2_000)
    found = read_gist(said)
    assert found.rows_rewritten == 5
    assert found.where == ("a = 1; " + "b" * 2_000)[:999] + "…"


def test_a_commit_that_does_not_say_is_unknown_and_not_zero(catalog):
    """As another writer of the format may leave it out."""
    from lakelog.catalog.commit import committer

    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("t", rows(5))
        with (
            mock.patch.object(committer, "gist_of", return_value={}),
            writer.transaction() as tx,
        ):
            tx.remove(path)
    assert told(catalog)[1] == (0, None, None, None)


def test_where_there_is_no_room_a_commit_stands_and_says_nothing(catalog):
    with (
        mock.patch.object(build, "MAX_MESSAGE_BYTES", 8_000),
        catalog.writer("w", "db") as writer,
        writer.transaction() as tx,
    ):
        tx.write("t", rows(5))
    assert told(catalog) == [(5, 0, None, None)]


def test_keys_of_lakelog_are_refused(catalog):
    with (
        catalog.writer("w", "db") as writer,
        pytest.raises(UsageError, match="lakelog's own") as caught,
    ):
        writer.transaction(summary={"lakelog.tables": "[]"})
    assert caught.value.key == "lakelog.tables"
