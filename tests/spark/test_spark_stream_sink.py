"""A stream into a table: each batch is committed once, whatever the stream forgets."""

from __future__ import annotations

import shutil

import lakelog
import lakelog.spark
import pytest


@pytest.mark.slow("three streams of some batches in Spark")
def test_batches_are_committed_once(spark, tmp_path):
    source, url, progress = (str(tmp_path / name) for name in ("in", "lake", "progress"))
    spark.range(0, 60, 1, 6).write.parquet(source)
    seen = []

    def put(rows, batch):
        done = lakelog.spark.write(
            rows, url, "db", "t", writer="stream", app_id="in to t", app_version=batch
        )
        seen.append((batch, done.skipped))

    def stream():
        rows = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 2).parquet(source)
        query = rows.writeStream.foreachBatch(put).option("checkpointLocation", progress)
        query.trigger(availableNow=True).start().awaitTermination()

    def ids():
        return sorted(lakelog.open_catalog(url).snapshot("db").to_arrow("t")["id"].to_pylist())

    stream()
    assert seen == [(0, False), (1, False), (2, False)]
    assert ids() == list(range(60))
    # The last batch was committed, and the stream was killed before it could note that.
    for note in (tmp_path / "progress" / "commits").glob("*2*"):
        note.unlink()
    stream()
    assert seen[3:] == [(2, True)]
    assert ids() == list(range(60))
    # All progress is lost: the batches are the same ones, and each was committed.
    shutil.rmtree(progress)
    stream()
    assert [skipped for _, skipped in seen[4:]] == [True, True, True]
    assert ids() == list(range(60))
