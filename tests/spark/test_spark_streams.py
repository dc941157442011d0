"""Streams from and into tables, by Spark itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import lakelog
import lakelog.spark
import pyarrow as pa
import pytest
from newer_spark import SINKS, STREAMS, needs
from pyspark.errors import StreamingQueryException
from sample import sampled
from stream_cases import put

LIMIT_S = 240.0  # only a test that fails waits so long, or a machine that does much else


@pytest.fixture
def catalog(tmp_path):
    return lakelog.open_catalog(str(tmp_path / "lake"))


def reads(spark, catalog, table="t", **options):
    reader = spark.readStream.format("lakelog").option("database", "db").option("table", table)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load(catalog.url)


def writes(frame, catalog, progress, table="out", **options):
    """Run a query until it has done what there is; it."""
    writer = frame.writeStream.format("lakelog").option("database", "db").option("table", table)
    writer = writer.option("writer", "sink").option("checkpointLocation", str(progress))
    mode = options.pop("mode", "append")
    for name, value in options.items():
        writer = writer.option(name, value)
    query = writer.outputMode(mode).trigger(availableNow=True).start(catalog.url)
    query.awaitTermination()
    return query


def ns(catalog, table="out"):
    return sorted(catalog.snapshot("db").to_arrow(table)["n"].to_pylist())


def commits(catalog, writer="sink"):
    return catalog.history("db", writer).num_rows


def forget(notes, number):
    """Take back what Spark noted of a batch."""
    for name in (str(number), f".{number}.crc"):
        (notes / name).unlink(missing_ok=True)


@needs(STREAMS)
@pytest.mark.slow("some queries, each with processes of Python for its source and its sink")
def test_from_a_table_into_another_one_through_restarts(spark, catalog, tmp_path):
    for number in range(3):
        put(catalog, number, writer="ab"[number % 2])
    progress = tmp_path / "progress"
    query = writes(reads(spark, catalog, maxFilesPerTrigger=2), catalog, progress)
    assert ns(catalog) == [*range(3)]
    assert commits(catalog) == len(query.recentProgress) == 2
    with catalog.writer("sink", "db") as writer:
        assert writer._session.ask(lambda s: s.applications.versions()) == {query.id: 1}
    for number in range(3, 6):
        put(catalog, number, writer="abc"[number - 3])
    again = writes(reads(spark, catalog, maxFilesPerTrigger=9), catalog, progress)
    assert again.id == query.id
    assert ns(catalog) == [*range(6)]
    assert commits(catalog) == 3
    # The checkpoint is set back: what comes now isn't what came then.
    for number in (1, 2):
        forget(progress / "commits", number)
        forget(progress / "offsets", number)
    put(catalog, 6)
    with pytest.raises(StreamingQueryException, match=r"StreamLost.*has its batch 2 already"):
        writes(reads(spark, catalog), catalog, progress)
    assert ns(catalog) == [*range(6)]


@needs(STREAMS)
@pytest.mark.slow("two queries that aggregate, which takes a state store")
def test_whole_results_take_the_place_of_those_before(spark, catalog, tmp_path):
    put(catalog, 1, 2, 3)
    progress = tmp_path / "progress"

    def run():
        counts = reads(spark, catalog).groupBy("n").count()
        writes(counts, catalog, progress, mode="complete", partitionBy='["n"]')

    run()
    put(catalog, 3, 4)
    run()
    rows = catalog.snapshot("db").to_arrow("out").to_pylist()
    assert sorted((row["n"], row["count"]) for row in rows) == [(1, 1), (2, 1), (3, 2), (4, 1)]
    assert commits(catalog) == 2


@needs(STREAMS)
@pytest.mark.slow("a query that fails")
def test_a_stream_says_in_spark_what_it_can_not_go_on_over(spark, catalog, tmp_path):
    put(catalog, 1, 2)
    progress = tmp_path / "progress"
    writes(reads(spark, catalog), catalog, progress)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.delete("t", "n = 1")
    with pytest.raises(StreamingQueryException, match=r"NotAppended.*Revision 1 of w/db"):
        writes(reads(spark, catalog), catalog, progress)
    assert ns(catalog) == [1, 2]


@needs(STREAMS)
@pytest.mark.slow("a query of changes and three frames of them")
def test_changes_as_a_frame_and_as_a_stream(spark, catalog, tmp_path):
    put(catalog, 1, 2, 3)
    since = catalog.snapshot("db").token
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.delete("t", "n = 2", mode="predicate")
    put(catalog, 4, writer="v")
    with catalog.writer("v", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"n": [5], "wind": [0.5]}))
    with catalog.writer("v", "db") as writer, writer.transaction() as tx:
        tx.delete("t", "n = 4", mode="rows")
    lakelog.spark.attach(spark, "feed", catalog.url, writer="sql")
    spark.sql("UPDATE feed.db.t SET n = 50 WHERE n + 0 = 5")  # of v
    spark.sql("DELETE FROM feed.db.t WHERE n = 3")  # of w
    lakelog.spark.detach(spark, "feed")
    ends = {"w": 3, "v": 3}

    def counted(rows):
        return Counter(tuple(row) for row in rows)

    def wanted(**options):
        rows = catalog.changes("db", "t", **options).read_all()
        return counted(row.values() for row in rows.to_pylist())

    def utc(rows):
        return [[v.replace(tzinfo=UTC) if hasattr(v, "tzinfo") else v for v in r] for r in rows]

    UTC = catalog.history("db")["committed_at"].to_pylist()[0].tzinfo
    for options in ({}, {"net": False}, {"until": {"w": 1, "v": 0}}, {"columns": ["n"]}):
        frame = lakelog.spark.changes(spark, catalog.url, "db", "t", since, **options)
        assert counted(utc(frame.collect())) == wanted(since=since, **options)
        assert frame.columns[:4] == ["_change", "_writer", "_revision", "_committed_at"]
    kept = lakelog.spark.changes(spark, catalog.url, "db", "t", since)
    count = kept.count()
    put(catalog, 6)
    assert kept.count() == count
    source = spark.read.format("lakelog").option("database", "db").option("table", "t")
    source = source.option("readChangeFeed", "true").option("since", since)
    assert source.load(catalog.url).where("_change = 'delete'").count() == 2
    assert lakelog.spark.changes(spark, catalog.url, "db", "t", ends).count() == 0

    rows = reads(spark, catalog, readChangeFeed="true", since=since, maxFilesPerTrigger=1)
    writes(rows, catalog, tmp_path / "progress")
    found = catalog.snapshot("db").to_arrow("out").to_pylist()
    assert counted(row.values() for row in found) == wanted(since=since, until=ends, net=False)
    gone = {(row["_writer"], row["n"]) for row in found if row["_change"] == "delete"}
    assert gone == {("w", 2), ("w", 3), ("v", 4), ("v", 5)}


DYING = """
    import os, signal, sys
    from pathlib import Path
    import lakelog, lakelog.spark
    from lakelog.spark.source import LakelogDataSource

    url, progress, when, batch = sys.argv[1:]

    def jvm():
        pid = os.getpid()
        while b"java" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\\0")[0]:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return pid

    class Source(LakelogDataSource):
        def streamWriter(self, schema, overwrite):
            from lakelog.spark.stream_sink import LakelogStreamWriter

            class Writer(LakelogStreamWriter):
                def commit(self, messages, batchId):
                    if when == "after" or batchId < int(batch):
                        super().commit(messages, batchId)
                    if batchId == int(batch):
                        os.kill(jvm(), signal.SIGKILL)

            return Writer(self.options, schema, overwrite)

    spark = lakelog.spark.session("killed", "local[2]")
    spark.dataSource.register(Source)
    rows = spark.readStream.format("lakelog").option("database", "db").option("table", "t")
    out = rows.option("maxFilesPerTrigger", 2).load(url).writeStream.format("lakelog")
    out = out.option("database", "db").option("table", "out").option("writer", "sink")
    out = out.option("checkpointLocation", progress).trigger(availableNow=True)
    out.start(url).awaitTermination()
"""


@needs(STREAMS)
@pytest.mark.slow("each starts a Spark of its own, to be killed")
@pytest.mark.parametrize("when", sampled("killed streams", ["before", "after"], 1))
def test_a_query_that_is_killed_around_its_commit_has_each_row_once(spark, catalog, tmp_path, when):
    """Between the tasks' writes and the commit, or between that and what Spark notes."""
    for number in range(3):
        put(catalog, number, writer="ab"[number % 2])
    progress, url = tmp_path / "progress", catalog.url
    env = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", textwrap.dedent(DYING), url, str(progress), when, "1"]
    said = tmp_path / "said"
    with said.open("w") as out:
        process = subprocess.Popen(
            command, env=env, start_new_session=True, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        assert process.wait(LIMIT_S) != 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    begun = sorted(path.name for path in (progress / "offsets").glob("?"))
    assert begun == ["0", "1"], said.read_text()
    assert [path.name for path in (progress / "commits").glob("?")] == ["0"]
    assert commits(catalog) == (1 if when == "before" else 2)
    put(catalog, 3)
    writes(reads(spark, catalog, maxFilesPerTrigger=2), catalog, progress)
    assert ns(catalog) == [*range(4)]
    assert commits(catalog) == 3
    # What was written for a batch that the log has not is nobody's, and nothing was written twice.
    left = len(list(Path(url, "sink").rglob("*.parquet")))
    assert left - catalog.snapshot("db").files("out").num_rows == (1 if when == "before" else 0)


@needs(SINKS)
@pytest.mark.slow("a query with processes of Python for its sink")
def test_from_files_into_a_table(spark, catalog, tmp_path):
    """Older Sparks that have no stream from a table have this."""
    folder = str(tmp_path / "in")
    spark.range(0, 60, 1, 6).selectExpr("id AS n").write.parquet(folder)
    rows = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 3).parquet(folder)
    for _ in range(2):  # the second time there is nothing new
        writes(rows, catalog, tmp_path / "progress")
        assert ns(catalog) == [*range(60)]
        assert commits(catalog) == 2
