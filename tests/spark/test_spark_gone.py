"""Files that gc takes under a running query: the query fails, and says which cut it reads and what
to do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import lakelog
import lakelog.spark
import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import Margins
from lakelog.errors import ObjectNotFound
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from newer_spark import STREAMS, needs
from stream_cases import stream

FILES = 6
NONE = Margins(0.0, 0.0)
SAYS = r"ObjectNotFound.*\.parquet.*gone.*table 't' of 'db' at w=5.*lakelog prune --keep-days"


@pytest.fixture
def lake(tmp_path: Path) -> Catalog:
    """A file in each of six commits."""
    catalog = lakelog.open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as writer:
        for number in range(FILES):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": [number] * 10}))
    return catalog


def take_all(catalog: Catalog) -> None:
    """Replace all rows, and forget and delete what was."""
    with catalog.writer("w", "db", checkpoint_every=1) as writer:
        with writer.transaction() as tx:
            tx.overwrite("t", pa.table({"a": [-1]}))
        writer.checkpoint()
    plan = plan_prune(catalog, "w", "db", keep_revisions=1, margins=NONE)
    execute_prune(catalog, plan, margins=NONE)
    report = execute_gc(catalog, plan_gc(catalog, "w", "db", margins=NONE), margins=NONE)
    assert report.deleted_objects >= FILES


@pytest.mark.slow("a query by the data source starts Spark's Python processes")
@pytest.mark.parametrize("road", ["native", "format", "source", "SQL", "changes"])
def test_a_query_whose_files_go(spark, settings, lake, road):
    settings("spark.sql.files.minPartitionNum", FILES)
    if road == "native":
        frame = lakelog.spark.read(spark, lake.url, "db", "t")
    elif road == "SQL":
        lakelog.spark.attach(spark, "going", lake.url)
        frame = spark.table("going.db.t")
    elif road == "changes":
        frame = lakelog.spark.changes(spark, lake.url, "db", "t", {"w": 2})
    else:
        lakelog.spark.register(spark)
        source = spark.read.format("lakelog").option("database", "db").option("table", "t")
        frame = source.option("native", road == "format").load(lake.url)
    rows = frame.toLocalIterator()
    if road in ("native", "format", "SQL"):  # all of it is one task elsewhere
        assert next(rows).a >= 0
    take_all(lake)
    with pytest.raises(Exception, match="ObjectNotFound") as caught:
        list(rows)
    says = SAYS.replace("at w=5", "from w=2 to w=5") if road == "changes" else SAYS
    assert re.search(says, str(caught.value), re.S), str(caught.value)[-3000:]
    again = lakelog.spark.read(spark, lake.url, "db", "t")
    assert [row.a for row in again.collect()] == [-1]
    if road == "SQL":
        assert [row.a for row in spark.table("going.db.t").collect()] == [-1]
        lakelog.spark.detach(spark, "going")


@needs(STREAMS)
@pytest.mark.parametrize("begun", [False, True])
def test_a_stream_whose_files_go(lake, begun):
    """Those that are there when it begins, and those of commits behind that."""
    query = stream(lake, **({"since": "w=1"} if begun else {}))
    assert query.plan()
    places = [json.loads(text) for text in (query._start(0), query.ends[0])]
    (task,) = query.reader.partitions(*places)
    take_all(lake)
    with pytest.raises(ObjectNotFound, match=r"gone.*stream of table 't' of 'db'") as caught:
        list(query.reader.read(task))
    since = "w=1" if begun else "its beginning"
    assert f"from {since} to w=5. Give the query a new checkpointLocation" in str(caught.value)


@pytest.mark.slow("eight writes by Spark")
def test_two_sessions_at_once(spark, tmp_path):
    """Each sees what both have committed, when it asks; a frame keeps its cut."""
    from concurrent.futures import ThreadPoolExecutor

    url = str(tmp_path / "lake")
    sessions = {name: spark.newSession() for name in ("anna", "bert")}

    def work(name: str) -> list[int]:
        session = sessions[name]
        counts = []
        for number in range(3):
            frame = session.range(number * 10, number * 10 + 10, 1, 2)
            lakelog.spark.write(frame, url, "db", "t", writer=name, app_id=name, app_version=number)
            mine = lakelog.spark.read(session, url, "db", "t", writer=name)
            counts.append(mine.count())
        lakelog.spark.read(session, url, "db", "t").createOrReplaceTempView("t")
        return counts

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(work, sessions)) == [[10, 20, 30]] * 2
    kept = lakelog.spark.read(sessions["anna"], url, "db", "t")
    assert kept.count() == 60
    done = lakelog.spark.write(
        sessions["bert"].range(5), url, "db", "t", writer="bert", mode="overwrite"
    )
    assert done.rows_removed == 30
    assert kept.count() == 60
    assert lakelog.spark.read(sessions["anna"], url, "db", "t").count() == 35
    again = lakelog.spark.write(
        sessions["anna"].range(1), url, "db", "t", writer="bert", app_id="bert", app_version=2
    )
    assert again.skipped
