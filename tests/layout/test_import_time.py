"""`import lakelog` is quick, and loads none of the heavy packages."""

from __future__ import annotations

import json
import subprocess
import sys

BUDGET_S = 0.3
HEAVY = {
    "pyarrow", "numpy", "pandas", "polars", "google.protobuf", "fsspec", "s3fs", "botocore",
    "pyspark", "py4j", "hypothesis", "sqlglot",
}  # fmt: skip
SCRIPT = """
import json, sys, time
before = time.perf_counter()
import {name}
spent = time.perf_counter() - before
print(json.dumps([spent, sorted(sys.modules)]))
"""


def imported(name: str) -> tuple[float, set[str]]:
    """Seconds that an import takes in a fresh process, and the modules loaded by then."""
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(name=name)], capture_output=True, text=True, check=True
    ).stdout
    spent, names = json.loads(out)
    return spent, set(names)


def test_import_is_quick_and_loads_nothing_heavy():
    """The fewest of five: what else runs on the machine doesn't count."""
    runs = [imported("lakelog") for _ in range(5)]
    assert not runs[0][1] & HEAVY
    assert min(spent for spent, _ in runs) < BUDGET_S


def test_the_error_tree_loads_nothing_heavy():
    _, names = imported("lakelog.errors")
    assert not names & HEAVY


def test_public_names_are_there_when_asked_for():
    import lakelog

    for name in lakelog.__all__:
        assert getattr(lakelog, name) is not None
    assert "no_such_name" not in dir(lakelog)


APPEND = """
import json, sys
import lakelog
from lakelog.catalog.commit.adopt import NewFile
with lakelog.open_catalog(sys.argv[1]).writer("w", "db") as writer:
    for name in sys.argv[2:]:
        with writer.transaction() as tx:
            tx.add_all("t", [NewFile(name)], skip_live=False, own=True)
print(json.dumps(sorted(sys.modules)))
"""
# What a process that adds files can do without; each takes a tenth of a second or so.
NOT_FOR_AN_APPEND = {
    "pandas", "pyarrow.compute", "pyarrow.parquet", "pyarrow.fs", "pyarrow.dataset", "fsspec",
    "asyncio", "concurrent.futures", "email", "secrets", "lakelog.catalog.log.checkpoint",
    "lakelog.catalog.snapshot", "sqlglot",
}  # fmt: skip


def test_a_job_that_appends_loads_only_what_it_needs(tmp_path):
    """Onto nothing, and onto a checkpoint, which it must look into: the path is a foreign one."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from lakelog import open_catalog

    (tmp_path / "w/db/data").mkdir(parents=True)
    for name in ("a", "b", "c", "d"):
        pq.write_table(pa.table({"id": [1], "name": ["x"]}), tmp_path / f"w/db/data/{name}.parquet")

    def job(*names: str) -> None:
        argv = [sys.executable, "-c", APPEND, str(tmp_path), *(f"data/{n}.parquet" for n in names)]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        loaded = set(json.loads(done.stdout))
        assert "pyarrow" in loaded
        assert sorted(loaded & NOT_FOR_AN_APPEND) == []

    job("a", "c")
    open_catalog(tmp_path).writer("w", "db").checkpoint()
    job("b")
    assert open_catalog(tmp_path).snapshot("db").files("t").num_rows == 3


READ = """
import json, sys
import lakelog
snapshot = lakelog.open_catalog(sys.argv[1]).snapshot("db")
snapshot.to_arrow("t")
snapshot.to_arrow("t", where="id > 2 and name <> 'x'")
snapshot.explain("t", "id = 3")
print(json.dumps("pandas" in sys.modules))
"""


def test_reading_around_deleted_rows_loads_no_pandas(tmp_path):
    """0.2 s of a first call, wherever pyarrow has to ask what it was given."""
    import lakelog
    import pyarrow as pa

    with lakelog.open_catalog(tmp_path).writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"id": range(9), "name": list("abcabcabx")}))
        for where, mode in (("name = 'b'", "predicate"), ("id = 3", "rows")):
            with writer.transaction() as tx:
                tx.delete("t", where, mode=mode)
    argv = [sys.executable, "-c", READ, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False


def test_the_process_that_reads_footers_loads_only_what_it_needs():
    """Without numpy, which pyarrow can do without, and without Arrow's file systems."""
    import lakelog
    from lakelog.catalog.data.footers.pool import _START

    script = "import atexit, json, os, sys\nout = os.fdopen(os.dup(2), 'w')\n"
    script += "names = lambda: [name for name, module in sys.modules.items() if module]\n"
    script += "atexit.register(lambda: print(json.dumps(names()), file=out))\n"
    module = "lakelog.catalog.data.footers.pool"
    found = json.dumps(["lakelog", lakelog.__path__[0], module, sys.path])
    argv = [sys.executable, "-c", script + _START, found]
    done = subprocess.run(argv, input="", capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stderr))
    assert module in loaded
    assert not loaded & (NOT_FOR_AN_APPEND | {"numpy", "subprocess"})
