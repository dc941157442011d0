"""A table as a stream: how far each batch goes, and which rows it has, through restarts.

Spark's side is played by `stream_cases.Query`, so that a query can be left at any point; with Spark
itself: `test_spark_streams.py`.
"""

from __future__ import annotations

import datetime as dt
import json
import random

import lakelog
import pyarrow as pa
import pytest
from lakelog.errors import UsageError
from newer_spark import STREAMS, needs
from stream_cases import late, ns, put, stream

pytestmark = needs(STREAMS)


@pytest.fixture
def catalog(tmp_path):
    return lakelog.open_catalog(str(tmp_path))


def test_existing_rows_come_first_and_then_those_of_each_commit(catalog):
    put(catalog, 1, 2)
    put(catalog, 3, writer="v")
    query = stream(catalog)
    put(catalog, 4)  # before it begins
    assert ns(query.batch()) == [1, 2, 3, 4]
    assert query.batch() is None
    put(catalog, 5, writer="v")
    put(catalog, 6, writer="new")
    assert ns(query.batch()) == [5, 6]
    assert query.batch() is None


@pytest.mark.parametrize("seed", range(2))
def test_each_row_comes_once_wherever_the_query_is_left(catalog, seed):
    """Of a batch that was planned and read, and not noted as done, the same rows come again."""
    chance = random.Random(seed)
    numbers = iter(range(10_000))
    limits = {"maxFilesPerTrigger": chance.choice([1, 2, 5])}
    if chance.random() < 0.5:
        limits["maxBytesPerTrigger"] = chance.choice([1, 2_000, "3k"])

    def write():
        for _ in range(chance.randrange(4)):
            put(
                catalog, *(next(numbers) for _ in range(chance.randrange(1, 4))),
                writer=chance.choice("abc"), table=chance.choice("ttu"),
            )  # fmt: skip

    put(catalog, next(numbers))
    for _ in range(3):
        write()
    query = stream(catalog, **limits)
    seen: list[int] = []
    for _ in range(16):
        write()
        if not query.plan():
            continue
        rows = ns(query.read())
        for _ in range(chance.randrange(3)):
            query.restart()
            write()
            assert ns(query.read()) == rows
        query.commit()
        seen += rows
        if chance.random() < 0.2:
            query.restart()
    seen += ns(query.rows())
    wanted = catalog.snapshot("db").to_arrow("t")["n"].to_pylist()
    assert sorted(seen) == sorted(wanted)
    assert len(query.ends) > 2


def test_a_batch_ends_before_the_commit_that_makes_it_too_large(catalog):
    for number in range(5):
        put(catalog, number)
    query = stream(catalog, maxFilesPerTrigger=2)
    assert [ns(rows) for rows in query.batches()] == [[0, 1], [2, 3], [4]]
    for number in range(5, 8):
        put(catalog, number, writer=f"w{number}")
    assert [ns(rows) for rows in query.batches()] == [[5, 6], [7]]
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for number in (8, 9, 10):
            tx.write("t", pa.table({"n": [number]}))
    put(catalog, 11)
    assert [ns(rows) for rows in query.batches()] == [[8, 9, 10], [11]]  # a commit is never split


def test_bytes_are_a_limit_too(catalog):
    for number in range(4):
        put(catalog, number)
    size = max(catalog.snapshot("db").files("t")["size_bytes"].to_pylist())
    query = stream(catalog, maxBytesPerTrigger=2 * size)
    assert [ns(rows) for rows in query.batches()] == [[0, 1], [2, 3]]
    for number in range(4, 7):
        put(catalog, number)
    assert [ns(rows) for rows in query.batches()] == [[4, 5], [6]]
    put(catalog, 7)
    put(catalog, 8)
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    assert ns(query.batch(ReadAllAvailable())) == [7, 8]


def test_one_that_takes_what_is_there_now_ends(catalog):
    for number in range(3):
        put(catalog, number)
    query = stream(catalog, maxFilesPerTrigger=1)
    query.reader.prepareForTriggerAvailableNow()
    put(catalog, 3)
    assert [ns(rows) for rows in query.batches()] == [[0], [1], [2]]
    query.restart()
    query.reader.prepareForTriggerAvailableNow()
    put(catalog, 4)
    assert [ns(rows) for rows in query.batches()] == [[3]]


def test_since_a_token_a_time_or_revisions(catalog):
    put(catalog, 1)
    token = catalog.snapshot("db").token
    put(catalog, 2, writer="v")
    at = catalog.history("db")["committed_at"].to_pylist()[-1]
    put(catalog, 3)
    assert ns(stream(catalog, since=token).rows()) == [2, 3]
    assert ns(stream(catalog, since=at.isoformat()).rows()) == [3]
    assert ns(stream(catalog, since="w=1,v=0").rows()) == []
    assert ns(stream(catalog, since="w=0").rows()) == [2, 3]
    assert ns(stream(catalog, since="2001-01-01T00:00Z").rows()) == [1, 2, 3]
    with pytest.raises(UsageError, match="no point in time"):
        stream(catalog, since="yesterday").batch()


def test_a_commit_that_is_stamped_earlier_comes_once_too(catalog):
    """A time is looked up once: where the stream begins doesn't move, whoever commits what."""
    put(catalog, 1)
    put(catalog, 2, writer="v")
    at = catalog.history("db")["committed_at"].to_pylist()[-1]
    query = stream(catalog, since=(at + dt.timedelta(seconds=1e-6)).isoformat())
    assert query.batch() == []
    slow = lakelog.open_catalog(catalog.url)
    late(slow, 3_600)
    query.restart()
    put(slow, 3, writer="v")
    put(slow, 4, writer="slow")
    assert slow.history("db", "slow")["committed_at"].to_pylist()[0] < at
    assert ns(query.batch()) == [3, 4]
    put(slow, 5, writer="slow")
    query.restart()
    assert ns(query.rows()) == [5]


def test_where_it_begins_is_kept_with_the_first_batch(catalog):
    put(catalog, 1)
    put(catalog, 2)
    at = catalog.history("db")["committed_at"].to_pylist()[0]
    query = stream(catalog, since=at.isoformat())
    assert query.plan()
    slow = lakelog.open_catalog(catalog.url)
    late(slow, 3_600)
    put(slow, 3, writer="slow")
    for since in (at.isoformat(), "", "2001-01-01T00:00Z"):
        query.options["since"] = since
        query.restart()  # before the first batch was done
        assert ns(query.read()) == [2]
    query.commit()
    assert ns(query.rows()) == [3]


def test_a_first_batch_of_existing_rows_stays_one(catalog):
    put(catalog, 1)
    query = stream(catalog)
    assert query.plan()
    put(catalog, 2)
    query.options["since"] = catalog.snapshot("db").token
    query.restart()
    assert ns(query.read()) == [1]
    query.commit()
    assert ns(query.rows()) == [2]


def test_deletes_of_before_are_not_among_existing_rows(catalog):
    put(catalog, 1, 2, 3)
    put(catalog, 4, 5, writer="v")
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.delete("t", "n = 2", mode="rows")
    with catalog.writer("v", "db") as writer, writer.transaction() as tx:
        tx.delete("t", "n = 5", mode="predicate")
    query = stream(catalog)
    assert query.plan()
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.delete("t", "n = 1", mode="rows")
    query.restart()
    assert ns(query.read()) == [1, 3, 4]  # as of the cut that was noted


def test_commits_of_other_tables_make_no_batches(catalog):
    put(catalog, 1)
    query = stream(catalog)
    assert ns(query.batch()) == [1]
    for _ in range(3):
        put(catalog, 7, table="other")
        assert query.batch() is None
    put(catalog, 2)
    put(catalog, 7, table="other")
    assert ns(query.batch()) == [2]
    assert query.batch() is None


def test_after_many_such_commits_the_stream_moves_on_in_its_checkpoint(catalog, monkeypatch):
    put(catalog, 1)
    query = stream(catalog)
    monkeypatch.setattr("lakelog.spark.stream_source.COMMITS_AT_ONCE", 2)
    monkeypatch.setattr("lakelog.spark.stream_table.COMMITS_AT_ONCE", 2)
    assert ns(query.batch()) == [1]
    for number in range(2, 9):
        put(catalog, 7, table="other")
        put(catalog, number)
    found = [ns(rows) for rows in query.batches()]
    assert [n for rows in found for n in rows] == [2, 3, 4, 5, 6, 7, 8]
    assert len(found) == 7  # each looks at two commits
    for _ in range(5):
        put(catalog, 7, table="other")
    assert [*query.batches()] == [[], []]  # a restart needn't look at them again
    assert len(query.ends) == 10


def test_a_table_that_has_no_rows_yet(catalog):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"n": pa.array([], pa.int64())}))
    query = stream(catalog)
    assert query.batch() == []
    put(catalog, 1)
    assert ns(query.rows()) == [1]


def test_what_spark_keeps_is_small_and_plain(catalog):
    put(catalog, 1)
    query = stream(catalog)
    query.batch()
    kept = json.loads(query.ends[0])
    assert kept["cut"] == catalog.snapshot("db").token
    assert kept | {"cut": ""} == {"lakelog": 1, "table": "t", "feed": False, "cut": ""}


@needs(None)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maxFilesPerTrigger": "0"}, "no batch would ever come"),
        ({"maxFilesPerTrigger": "many"}, "no whole number"),
        ({"maxBytesPerTrigger": "1 hour"}, "no size"),
        ({"skipChangeCommits": "yes"}, "true or false"),
        ({"readChangeFeed": "true", "skipChangeCommits": "true"}, "Give one of them"),
        ({"net": "true"}, "is for changes"),
        ({"where": "n > 1"}, "has no option 'where'"),
        ({"asOf": "w=0"}, "has no option 'asof'"),
        ({"until": "w=0"}, "needs the option 'since'"),
    ],
)
def test_options_that_can_not_be(catalog, options, words):
    put(catalog, 1)
    with pytest.raises(UsageError, match=words):
        stream(catalog, **options)


@pytest.mark.s3
def test_a_stream_of_a_bucket(moto):
    options = json.dumps(moto.storage_options)
    bucket = moto.make_bucket()
    catalog = lakelog.open_catalog(f"s3://{bucket}/lake", moto.storage_options)
    put(catalog, 1, 2)
    query = stream(catalog, storageOptions=options, maxFilesPerTrigger=1)
    put(catalog, 3)
    assert [ns(rows) for rows in query.batches()] == [[1, 2], [3]]
    put(catalog, 4, writer="v")
    query.restart()
    assert ns(query.rows()) == [4]
    assert str(moto.storage_options["secret"]) not in repr(query.reader._asked)
