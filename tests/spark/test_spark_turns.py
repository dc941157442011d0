"""Settings belong to a session, whichever thread has set them: work that needs others waits."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
from lakelog.spark.row_batches import (
    BATCH_ROWS,
    ROWS_SETTING,
    Turns,
    collected,
    must_be_weighed,
    turns,
)


def test_work_of_another_kind_waits_and_lets_none_that_comes_later_go_first():
    order: list[str] = []
    made, first_is_in, first_may_go = Turns(), threading.Event(), threading.Event()
    held: list[str] = []

    @contextmanager
    def holding():
        held.append("entered")
        yield
        held.append("left")

    def first() -> None:
        with made.of("a", holding):
            first_is_in.set()
            assert first_may_go.wait(60)
            order.append("a")

    def other(kind: str) -> None:
        with made.of(kind, holding):
            order.append(kind)

    with ThreadPoolExecutor(4) as pool:
        todo = [pool.submit(first)]
        assert first_is_in.wait(60)
        pool.submit(other, "a").result(60)  # of the same kind: at once
        todo.append(pool.submit(other, "b"))
        deadline_s = time.monotonic() + 60
        while not made._door.locked():
            assert time.monotonic() < deadline_s, "nobody waits"
            time.sleep(0.01)
        todo.append(pool.submit(other, "a"))
        first_may_go.set()
        for each in todo:
            each.result(60)
    assert order == ["a", "a", "b", "a"]
    assert held == ["entered", "left"] * 3, "by the first and the last of a kind alone"


def test_rows_are_weighed_whatever_another_thread_has_spark_do(spark):
    """A write of large rows beside one whose batches nobody weighs, in one session."""
    begun, before = threading.Event(), spark.conf.getAll

    def slow(batches):
        for _ in batches:
            time.sleep(3)
        return iter([])

    def count(batches):
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"message": [str(batch.num_rows).encode()]})

    small = spark.range(0, 1, 1, 1)
    large = spark.range(0, BATCH_ROWS, 1, 1).selectExpr("array(repeat('x', 6000)) AS many")

    def write_small() -> None:
        begun.set()
        collected(small, slow, weighed=False)

    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(write_small)
        assert begun.wait(60)
        while not turns(spark)._inside:
            assert not beside.done()
            time.sleep(0.01)
        assert not must_be_weighed(small)  # what the other thread has set, nobody has chosen
        collected(small, count, weighed=False)  # of the same kind: it takes nothing away
        assert turns(spark)._inside == 1
        assert spark.conf.get(ROWS_SETTING) == str(BATCH_ROWS)
        sizes = [int(row["message"]) for row in collected(large, count, weighed=True)]
        beside.result(60)
    assert sum(sizes) == BATCH_ROWS
    assert max(sizes) < BATCH_ROWS
    assert spark.conf.getAll == before
