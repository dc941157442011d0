"""What a stream can't go on over: it says so, and what to do, and skips nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
from lakelog.catalog.margins import Margins
from lakelog.errors import ColumnsChanged, NotAppended, SnapshotPruned, StreamLost, UsageError
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild
from newer_spark import STREAMS, needs
from pyspark.sql.types import DoubleType, LongType, StructField, StructType
from stream_cases import late, ns, put, stream

pytestmark = needs(STREAMS)


@pytest.fixture
def catalog(tmp_path):
    return lakelog.open_catalog(str(tmp_path / "lake"))


def commit(catalog, act, writer="w"):
    with catalog.writer(writer, "db") as opened, opened.transaction() as tx:
        return act(tx)


CHANGES = {
    "delete by predicate": lambda tx, _: tx.delete("t", "n = 2", mode="predicate"),
    "delete by number": lambda tx, _: tx.delete("t", "n = 2", mode="rows"),
    "delete of whole files": lambda tx, _: tx.delete("t", "n > 0"),
    "overwrite": lambda tx, _: tx.overwrite("t", pa.table({"n": [2]}), where="n = 2"),
    "remove": lambda tx, path: tx.remove(path),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_commit_that_takes_rows_out_stops_the_stream_before_it(catalog, change):
    path = put(catalog, 1, 2)
    query = stream(catalog)
    assert ns(query.batch()) == [1, 2]
    put(catalog, 3)
    commit(catalog, lambda tx: CHANGES[change](tx, path))
    put(catalog, 4)
    assert ns(query.batch()) == [3]
    for _ in range(2):
        with pytest.raises(NotAppended, match=r"Revision 2 of w/db .*readChangeFeed=true"):
            query.batch()
        query.restart()
    query.options["skipChangeCommits"] = "true"
    query.restart()
    assert ns(query.rows()) == [4]


def test_rows_that_were_deleted_later_are_told_as_they_were_appended(catalog):
    put(catalog, 0)
    query = stream(catalog, since="w=0", skipChangeCommits="true")
    put(catalog, 1, 2)
    commit(catalog, lambda tx: tx.delete("t", "n = 2", mode="rows"))
    put(catalog, 3)
    assert ns(query.rows()) == [1, 2, 3]


def test_a_rewrite_gives_no_rows_and_stops_nothing(catalog):
    paths = [put(catalog, 1), put(catalog, 2)]
    query = stream(catalog)
    assert ns(query.batch()) == [1, 2]
    commit(catalog, lambda tx: tx.rewrite("t", paths))
    put(catalog, 3)
    assert ns(query.rows()) == [3]


def test_files_that_come_back_are_not_appended(catalog):
    path = put(catalog, 1, 2)
    put(catalog, 3)
    there = catalog.snapshot("db").token
    query = stream(catalog, skipChangeCommits="true")
    assert ns(query.batch()) == [1, 2, 3]
    commit(catalog, lambda tx: tx.remove(path))
    catalog.restore("db", "t", to=there, execute=True)
    put(catalog, 4)
    assert ns(query.rows()) == [4]


def test_what_was_committed_together_with_a_delete_is_not_skipped(catalog):
    put(catalog, 1, 2)
    query = stream(catalog, skipChangeCommits="true")
    assert ns(query.batch()) == [1, 2]
    put(catalog, 3)
    with catalog.writer("w", "db") as writer:
        one, other = writer.transaction(), writer.transaction()
        one.write("t", pa.table({"n": pa.array([4], pa.int64())}))
        other.delete("t", "n = 2", mode="rows")
        found = writer._session._committer.commit([one._intent, other._intent])
        assert {info.revision for info in found} == {2}
    assert ns(query.batch()) == [3]
    with pytest.raises(NotAppended, match="several transactions share it"):
        query.batch()


def test_a_quiet_table_goes_on_by_a_batch_without_rows_an_hour(catalog):
    put(catalog, 1)
    query = stream(catalog)
    assert ns(query.batch()) == [1]
    put(catalog, 1, table="other")
    assert query.batch() is None
    clock = query.reader._followed._catalog
    late(clock, -3_700)
    assert query.batch() == []
    assert query.batch() is None
    put(catalog, 2)
    assert ns(query.rows()) == [2]


def test_a_table_with_a_key_is_read_by_its_changes(catalog):
    put(catalog, 1)
    since = catalog.snapshot("db").token
    commit(catalog, lambda tx: tx.evolve("t", key=["n"]))
    put(catalog, 2)
    for options in ({}, {"since": since}):
        with pytest.raises(NotAppended, match=r"has a key.*readChangeFeed"):
            stream(catalog, **options).batch()
    assert ns(stream(catalog, readChangeFeed="true").rows()) == [1, 2]


def test_pruned_history(catalog):
    put(catalog, 1)
    query = stream(catalog)
    query.batch()
    for number in range(40):
        put(catalog, number)
    assert query.plan()
    at_once = Margins(prune_floor_s=0.0)
    plan = plan_prune(catalog, "w", "db", keep_revisions=2, margins=at_once)
    assert execute_prune(catalog, plan, margins=at_once).deleted_objects
    query.restart()
    with pytest.raises(SnapshotPruned, match="new checkpointLocation"):
        query.read()
    query.ends.pop()
    with pytest.raises(SnapshotPruned, match="commits that were pruned"):
        query.batch()
    anew = stream(catalog)
    assert len(anew.batch()) == 41


def test_a_log_that_was_rebuilt(catalog):
    put(catalog, 1)
    query = stream(catalog)
    query.batch()
    put(catalog, 2)
    execute_rebuild(catalog.store, plan_rebuild(catalog.store, "w", "db"))
    for _ in range(2):
        with pytest.raises(StreamLost, match=r"w/db up to revision 0.*rebuilt or replaced"):
            query.batch()
        query.restart()


def test_a_log_that_was_replaced_or_is_gone_or_shorter(catalog, tmp_path):
    put(catalog, 1)
    put(catalog, 9, writer="v")
    copy = tmp_path / "copy"
    shutil.copytree(catalog.url, copy)
    put(catalog, 2)
    query = stream(catalog)
    query.batch()
    shutil.rmtree(Path(catalog.url, "w"))
    shutil.copytree(copy / "w", Path(catalog.url, "w"))
    query.restart()
    with pytest.raises(StreamLost, match="ends at revision 0 now"):
        query.batch()
    shutil.rmtree(Path(catalog.url, "w"))
    query.restart()
    with pytest.raises(StreamLost, match="isn't there any more"):
        query.batch()
    for number in range(3):
        put(catalog, number)
    query.restart()
    with pytest.raises(StreamLost, match="rebuilt or replaced"):
        query.batch()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"table": "other"}, "rows that are appended to table 't'"),
        ({"readChangeFeed": "true"}, "is of a stream of rows that are appended"),
        ({"database": "db2"}, "database 'db', not of 'db2'"),
    ],
)
def test_the_checkpoint_of_another_stream(catalog, options, words):
    put(catalog, 1)
    put(catalog, 1, table="other")
    with catalog.writer("w", "db2") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"n": [1]}))
    query = stream(catalog)
    query.batch()
    query.options |= options
    query.restart()
    with pytest.raises(StreamLost, match=words) as error:
        query.batch()
    assert "new checkpointLocation" in str(error.value)


def test_offsets_that_nobody_knows(catalog):
    put(catalog, 1)
    query = stream(catalog)
    query.batch()
    for before, after in (('"lakelog": 1', '"lakelog": 2'), ("ll1-", "ll1-x")):
        query.ends = [query.ends[0].replace(before, after)]
        with pytest.raises(StreamLost):
            query.batch()
        query.ends = [query.ends[0].replace(after, before)]


# --- Columns --------------------------------------------------------------------------------------


def wide(catalog, n, value, writer="w"):
    data = pa.table({"n": [n], "wind": [value]})
    return commit(catalog, lambda tx: tx.write("t", data), writer)


def test_a_new_column_stops_the_stream_until_it_is_loaded_again(catalog):
    put(catalog, 1)
    query = stream(catalog)
    query.batch()
    put(catalog, 2)
    assert query.plan()
    wide(catalog, 3, 4.5)
    assert query.read() == [{"n": 2}]  # a batch that was noted is read with the columns of then
    query.commit()
    with pytest.raises(ColumnsChanged, match=r"wind double came.*same checkpointLocation"):
        query.batch()
    query.restart()
    assert query.rows() == [{"n": 3, "wind": 4.5}]


def test_a_batch_that_was_noted_is_read_again_with_the_columns_of_today(catalog):
    wide(catalog, 1, 1.5)
    query = stream(catalog)
    query.batch()
    wide(catalog, 2, 2.5)
    wide(catalog, 20, 2.5, writer="v")
    assert query.plan()
    commit(catalog, lambda tx: tx.evolve("t", rename={"wind": "gust"}))
    catalog.evolve("db", "t", rename={"wind": "gust"}, writers=["v"])
    query.restart()
    wanted = [{"n": 2, "gust": 2.5}, {"n": 20, "gust": 2.5}]
    assert sorted(query.read(), key=lambda row: row["n"]) == wanted
    query.commit()
    wide_again = pa.table({"n": [3], "gust": [3.5]})
    commit(catalog, lambda tx: tx.write("t", wide_again))
    assert query.rows() == [{"n": 3, "gust": 3.5}]
    catalog.evolve("db", "t", drop=["gust"])
    put(catalog, 4)
    with pytest.raises(ColumnsChanged, match="gust"):
        query.batch()


def test_existing_rows_that_are_read_again_after_a_rename(catalog):
    wide(catalog, 1, 1.5)
    query = stream(catalog)
    assert query.plan()
    commit(catalog, lambda tx: tx.evolve("t", rename={"wind": "gust"}))
    query.restart()
    assert query.read() == [{"n": 1, "gust": 1.5}]


def test_a_wider_type(catalog):
    data = pa.table({"n": pa.array([1], pa.int32())})
    commit(catalog, lambda tx: tx.write("t", data))
    query = stream(catalog)
    query.batch()
    put(catalog, 1 << 40)
    with pytest.raises(ColumnsChanged, match="n was int and is bigint"):
        query.batch()
    query.restart()
    assert ns(query.rows()) == [1 << 40]


def test_columns_that_are_named_stay(catalog):
    put(catalog, 1)
    some = stream(catalog, columns='["n"]')
    told = stream(catalog, schema=StructType([StructField("n", LongType())]))
    for query in (some, told):
        query.batch()
    wide(catalog, 2, 4.5)
    for query in (some, told):
        assert query.rows() == [{"n": 2}]
        query.restart()
        assert query.batch() is None
    wrong = stream(catalog, schema=StructType([StructField("m", DoubleType())]))
    with pytest.raises(UsageError, match="no column 'm'"):
        wrong.batch()
