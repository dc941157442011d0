"""A program that ends while an engine's threads still read ahead ends well."""

from __future__ import annotations

import signal
import subprocess
import sys

import lakelog
import pyarrow as pa
import pytest

# Every file takes a moment, so that Arrow's thread is in a call of the stream when Python ends.
SLOWLY = """
import sys, time
import lakelog
from lakelog.catalog.data import scan
def slowly(*args, read=scan._read, **options):
    time.sleep(0.02)
    yield from read(*args, **options)
scan._read = slowly
from lakelog.catalog.engines import duck
duck._stands_on_files = lambda *_: False  # what DuckDB reads itself needs no stream of ours
snapshot = lakelog.open_catalog(sys.argv[1]).snapshot("db")
"""
ASKED = {
    "duckdb": 'print(snapshot.to_duckdb().sql("SELECT 1 FROM t LIMIT 1").fetchall())',
    "held": 'r = snapshot.to_duckdb().execute("SELECT 1 FROM t")\nprint(r.fetchmany(1))',
    "pyarrow": 'r = snapshot.dataset("t").scanner().to_reader()\nprint(len(r.read_next_batch()))',
    "scan": 'r = snapshot.scan("t")\nprint(len(r.read_next_batch()))',
    "command": """
from lakelog.cli.main import main
sys.argv = ["lakelog", "query", sys.argv[1], "db", "SELECT 1 FROM t LIMIT 1"]
sys.exit(main())""",
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> str:
    url = str(tmp_path_factory.mktemp("exit") / "lake")
    with lakelog.open_catalog(url).writer("w", "db") as writer:
        for number in range(60):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": [number]}))
    return url


@pytest.mark.parametrize("how", ASKED)
def test_a_program_that_asked_for_the_first_row_ends_well(lake, how):
    done = subprocess.run(
        [sys.executable, "-c", SLOWLY + ASKED[how], lake],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "1" in done.stdout


# The reason for `until_exit`, without lakelog: a thread of Arrow's reads ahead while Python ends.
BARE = """
import time
import pyarrow as pa
import pyarrow.dataset as ds
schema = pa.schema([("a", pa.int64())])
def slowly():
    for number in range(10_000):
        time.sleep(0.02)
        yield pa.record_batch({"a": [number]}, schema=schema)
reader = pa.RecordBatchReader.from_batches(schema, slowly())
rows = ds.Scanner.from_batches(reader).to_reader()
print(len(rows.read_next_batch()))
"""


def test_arrow_still_aborts_a_program_that_ends_while_it_reads_ahead():
    """If this fails, Arrow ends its threads: delete `catalog/data/scan.py`."""
    done = subprocess.run(
        [sys.executable, "-c", BARE], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (-signal.SIGABRT, "1\n")


# Exit handlers that stand before lakelog's run after it.
HANDLER = """
import atexit, sys
def late():
    try:
        print("read", snapshot.to_arrow("t").num_rows)
    except Exception as error:
        print(type(error).__name__)
    try:
        with catalog.writer("w", "db") as writer, writer.transaction() as tx:
            tx.overwrite("t", pyarrow.table({"a": [3]}), where="a = 3")
            print("overwritten")
    except Exception as error:
        print(type(error).__name__)
atexit.register(late)
import lakelog, pyarrow
catalog = lakelog.open_catalog(sys.argv[1])
with catalog.writer("w", "db") as writer, writer.transaction() as tx:
    tx.write("t", pyarrow.table({"a": list(range(10))}))
snapshot = catalog.snapshot("db")
"""


def test_what_is_read_while_python_ends_is_an_error_and_nothing_is_lost(tmp_path):
    url = str(tmp_path / "lake")
    done = subprocess.run(
        [sys.executable, "-c", HANDLER, url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["StorageError", "StorageError"])
    rows = lakelog.open_catalog(url).snapshot("db").to_arrow("t")
    assert rows.column("a").to_pylist() == list(range(10))


# A child that was forked while another thread read on, and ends by itself.
FORKED = """
import os, sys, threading, time
import lakelog
batches = lakelog.open_catalog(sys.argv[1]).snapshot("db").scan("t")
from lakelog.catalog.data import scan
inside, go_on = threading.Event(), threading.Event()
def slowly():
    inside.set()
    go_on.wait(30)
    yield from batches
stream = scan.UntilExit(slowly())
thread = threading.Thread(target=next, args=(stream,))
thread.start()
inside.wait(30)
child = os.fork()
if child == 0:
    began = time.monotonic()
    import atexit
    atexit._run_exitfuncs()
    os._exit(0 if time.monotonic() - began < 3 else 3)
told = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
go_on.set()
thread.join()
sys.exit(told)
"""


def test_a_forked_child_waits_for_no_stream_of_its_parent(lake):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, lake],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
