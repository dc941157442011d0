"""Executors that are other processes: one of them dies, or a task is run twice at once, in the
middle of a write, of the scan for a rebuild, and of a replication.

All in one Spark of local-cluster, which takes half a minute to start and to lose an executor.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import lakelog
import pytest
from engine_cases import lose_the_log, messy_lake, plan_by
from lakelog.catalog.parallel import Embedded
from lakelog.replication import replicate

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow("starts a Spark whose executors are processes, and kills two of them"),
    pytest.mark.timeout(600),
]
LIMIT_S = 580.0  # only a test that fails waits so long, or a machine that does much else
SCRIPT = """
    import json, os, signal, sys, time
    from functools import partial
    from pathlib import Path
    import lakelog, lakelog.spark
    import pyarrow as pa
    from lakelog.replication import replicate
    from pyspark import TaskContext
    folder, rows = Path(sys.argv[1]), int(sys.argv[2])
    sys.path.append(sys.argv[3])

    def jvm():
        pid = os.getpid()
        while b"java" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\\0")[0]:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return pid

    def once(flag):
        try:
            flag.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def dying(prepare, flag, *stores):
        work = prepare(*stores)
        def die(item):
            done = work(item)
            if once(flag):
                os.kill(jvm(), signal.SIGKILL)
                time.sleep(60)
            return done
        return die

    class Deadly(lakelog.spark.SparkEngine):
        def each(self, prepare, stores, items, number, **options):
            doomed = partial(dying, prepare, flag)
            return super().each(doomed, stores, items, number, **options)

    # The first attempt goes on when another one, made because it is slow, has put the same rows.
    def slow(batches):
        yield from batches
        if TaskContext.get().partitionId() != 2:
            return
        if not once(folder / "slow"):
            once(folder / "quicker")
            return
        data = folder / "written" / "w" / "db" / "data" / "_" / "t"
        while not (folder / "quicker").exists() or len(list(data.glob("*.parquet"))) < 3:
            time.sleep(0.05)

    settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= {"spark.executor.memory": "600m"}
    settings["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    settings |= {
        "spark.speculation": "true", "spark.speculation.interval": "100ms",
        "spark.speculation.minTaskRuntime": "1s", "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
    }
    spark = lakelog.spark.session("cluster", "local-cluster[2,1,1024]", **settings)
    frame = spark.range(0, rows, 1, 3).mapInArrow(slow, "id long")
    url = str(folder / "written")
    done = lakelog.spark.write(frame, url, "db", "t", writer="w")
    print(json.dumps({"rows": done.rows, "files": len(done.files)}))

    import engine_cases
    flag = folder / "dead in a rebuild"
    catalog = lakelog.open_catalog(str(folder / "lake"))
    plan = engine_cases.plan_by(catalog, Deadly(spark))
    print(plan.to_json())
    flag = folder / "dead in a replication"
    report = replicate(str(folder / "sound" / "lake"), str(folder / "copy"), engine=Deadly(spark))
    print(json.dumps([report.tokens, [str(error) for error in report.errors]]))
"""


def test_executors_die_and_tasks_run_twice(tmp_path):
    catalog = messy_lake(tmp_path, 30)
    lose_the_log(catalog)
    here = plan_by(catalog, Embedded())
    (tmp_path / "sound").mkdir()
    sound = messy_lake(tmp_path / "sound", 30, damaged=False)
    rows = 300
    text = textwrap.dedent(SCRIPT)
    root = Path(lakelog.__file__).parent.parent
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", text, str(tmp_path), str(rows), str(Path(__file__).parent)],
        env=os.environ | {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = out.splitlines()
    assert len(lines) == 3, err[-3000:]

    written = lakelog.open_catalog(str(tmp_path / "written"))
    assert json.loads(lines[0]) == {"rows": rows, "files": 3}
    ids = written.snapshot("db").to_arrow("t")["id"].to_pylist()
    assert sorted(ids) == list(range(rows))
    assert (tmp_path / "quicker").exists()

    assert (tmp_path / "dead in a rebuild").exists()
    assert lines[1] == here.to_json()

    assert (tmp_path / "dead in a replication").exists()
    tokens, errors = json.loads(lines[2])
    assert not errors
    assert tokens == replicate(sound, str(tmp_path / "here")).tokens
    copies = [names_and_bytes(tmp_path / name) for name in ("copy", "here")]
    assert copies[0] == copies[1]


def names_and_bytes(folder: Path) -> dict[str, bytes]:
    """Of transactions and data."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.suffix in (".parquet", ".transaction", ".deletes")
    }
