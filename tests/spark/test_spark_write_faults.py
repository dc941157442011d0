"""Writes whose executors or driver are killed: one commit or none, and no row twice or lost.

Each needs a Spark of its own, in a process that can be killed: tens of seconds on a busy machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import lakelog
import lakelog.spark
import pyarrow.compute as pc
import pytest
from lakelog.catalog.data.parquet import ROW_GROUP_ROWS
from lakelog.rebuild import execute_rebuild, plan_rebuild
from sample import sampled

pytestmark = pytest.mark.slow(
    "each starts a Spark of its own, to be killed; one with executors in processes"
)
LIMIT_S = 280.0  # only a test that fails waits so long, or a machine that does much else
BEGIN = """
    import os, signal, sys, time
    from pathlib import Path
    import lakelog, lakelog.spark
    from pyspark import TaskContext
    url, flag = sys.argv[1], Path(sys.argv[2])
"""
# An executor's JVM dies when a task of it has put a file, and has another one to put.
EXECUTOR = """
    def jvm():
        pid = os.getpid()
        while b"java" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\\0")[0]:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return pid

    def dying(batches):
        yield from batches
        if TaskContext.get().partitionId() != 2:
            return
        try:
            flag.touch(exist_ok=False)
        except FileExistsError:
            return
        folder = Path(url, "w", "db", "data", "_", "t")
        own = TaskContext.get().taskAttemptId() * 10_000
        while not any(one.name.endswith(f"-{own}.parquet") for one in folder.glob("*")):
            time.sleep(0.05)
        os.kill(jvm(), signal.SIGKILL)
        time.sleep(60)

    settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= {"spark.executor.memory": "600m"}
    settings["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    spark = lakelog.spark.session("killed", "local-cluster[2,1,1024]", **settings)
    frame = spark.range(0, int(sys.argv[3]), 1, 3).mapInArrow(dying, "id long")
    # A row group of a million rows makes a file, once there is another one behind it.
    done = lakelog.spark.write(
        frame, url, "db", "t", writer="w", app_id="job", app_version=1, target_file_size_bytes=1
    )
    print("done", done.rows)
"""
DRIVER = """
    def slow(batches):
        yield from batches
        if TaskContext.get().partitionId() == 1:
            time.sleep({asleep})

    spark = lakelog.spark.session("killed", "local[2]")
    frame = spark.range(0, 100, 1, 2).mapInArrow(slow, "id long")
    if sys.argv[3] == "write":
        lakelog.spark.write(frame, url, "db", "t", writer="w", app_id="job", app_version=1)
    else:
        writer = frame.write.format("lakelog").option("database", "db").option("table", "t")
        writer = writer.option("writer", "w").option("appId", "job").option("appVersion", "1")
        writer.mode("append").save(url)
    time.sleep(600)
"""


def start(script: str, *args: object) -> subprocess.Popen[str]:
    """A process group of its own."""
    text = textwrap.dedent(BEGIN) + textwrap.dedent(script)
    root = Path(lakelog.__file__).parent.parent
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.Popen(
        [sys.executable, "-c", text, *map(str, args)], env=env, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def ids(url: str) -> list[int]:
    found = lakelog.open_catalog(url).snapshot("db").to_arrow("t")["id"].to_pylist()
    return sorted(found)


def data(url: str) -> set[str]:
    return {str(path.relative_to(url)) for path in Path(url).rglob("*.parquet")}


def test_an_executor_that_is_killed_costs_nothing_but_files(tmp_path):
    url, rows = (
        str(tmp_path / "lake"),
        3 * (2 * ROW_GROUP_ROWS + 300_000),
    )  # more than lie in buffers on the way
    process = start(EXECUTOR, url, tmp_path / "flag", rows)
    try:
        out, _ = process.communicate(timeout=LIMIT_S)
    finally:
        kill(process)
    assert out.strip() == f"done {rows}"
    assert (tmp_path / "flag").exists()
    assert counted(url) == (rows, rows)
    catalog = lakelog.open_catalog(url)
    assert catalog.history("db").num_rows == 1
    live = {f"w/db/{path}" for path in catalog.snapshot("db").files("t")["path"].to_pylist()}
    assert len(live) == 9
    assert live < data(url)  # what the dead one had put
    lost = tmp_path / "lost"
    Path(url).rename(lost)
    for name in ("transactions", "segments", "mirror"):
        shutil.rmtree(lost / "w" / "db" / name, ignore_errors=True)
    again = lakelog.open_catalog(str(lost))
    execute_rebuild(again.store, plan_rebuild(again.store, "w", "db"))
    assert counted(str(lost)) == (rows, rows)


def counted(url: str) -> tuple[int, int]:
    """Rows, and how many of them are different."""
    found = lakelog.open_catalog(url).snapshot("db").to_arrow("t")["id"]
    return len(found), pc.count_distinct(found).as_py()


@pytest.mark.parametrize("way", sampled("killed drivers", ["write", "format"], 1))
def test_a_driver_that_is_killed_before_its_commit_has_committed_nothing(spark, tmp_path, way):
    url = str(tmp_path / "lake")
    process = start(DRIVER.replace("{asleep}", "600"), url, tmp_path / "flag", way)
    try:
        until(lambda: data(url), process)
    finally:
        kill(process)
    left = data(url)
    assert not list(Path(url).rglob("*.transaction"))
    again(spark, url, is_done=False)
    assert ids(url) == [*range(100)]
    assert left < data(url)


def test_a_driver_that_is_killed_after_its_commit_has_committed_all(spark, tmp_path):
    url = str(tmp_path / "lake")
    process = start(DRIVER.replace("{asleep}", "0"), url, tmp_path / "flag", "write")
    try:
        until(lambda: list(Path(url).rglob("*.transaction")), process)
    finally:
        kill(process)
    again(spark, url, is_done=True)
    assert ids(url) == [*range(100)]
    assert lakelog.open_catalog(url).history("db").num_rows == 1


def until(asked, process) -> None:
    end = time.monotonic() + LIMIT_S
    while not asked():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def again(spark, url: str, *, is_done: bool) -> None:
    """The same job, as often as one likes."""
    for turn in range(2):
        done = lakelog.spark.write(
            spark.range(0, 100, 1, 2), url, "db", "t", writer="w", app_id="job", app_version=1
        )
        assert done.skipped == (is_done or turn > 0)
