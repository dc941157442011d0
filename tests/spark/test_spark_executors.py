"""Executors that are other processes: one of them dies in the middle of the scan for a rebuild, and
of a replication.

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
    pytest.mark.slow("starts a Spark whose executors are processes, and kills two of them"),
    pytest.mark.timeout(600),
]
LIMIT_S = 580.0  # only a test that fails waits so long, or a machine that does much else
SCRIPT = """
    import json, os, signal, sys, time
    from functools import partial
    from pathlib import Path
    import lakelog, lakelog.spark
    from lakelog.replication import replicate
    folder = Path(sys.argv[1])
    sys.path += sys.argv[2:]

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

    settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= {"spark.executor.memory": "600m"}
    settings["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    spark = lakelog.spark.session("cluster", "local-cluster[2,1,1024]", **settings)
    import engine_cases
    flag = folder / "dead in a rebuild"
    catalog = lakelog.open_catalog(str(folder / "lake"))
    plan = engine_cases.plan_by(catalog, Deadly(spark))
    print(json.dumps(plan.to_json()))
    flag = folder / "dead in a replication"
    report = replicate(str(folder / "sound" / "lake"), str(folder / "copy"), engine=Deadly(spark))
    print(json.dumps([report.tokens, [str(error) for error in report.errors]]))
"""


def test_executors_die_and_plan_and_replica_are_the_same(tmp_path):
    catalog = messy_lake(tmp_path, 30)
    lose_the_log(catalog)
    expected = plan_by(catalog, Embedded())
    (tmp_path / "sound").mkdir()
    sound = messy_lake(tmp_path / "sound", 30, damaged=False)
    text, here = textwrap.dedent(SCRIPT), Path(__file__).parent
    root = Path(lakelog.__file__).parent.parent
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", text, str(tmp_path), str(here), str(here.parent / "running")],
        env=os.environ | {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = out.splitlines()
    assert len(lines) == 2, err[-3000:]

    assert (tmp_path / "dead in a rebuild").exists()
    assert json.loads(lines[0]) == expected.to_json()

    assert (tmp_path / "dead in a replication").exists()
    tokens, errors = json.loads(lines[1])
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
