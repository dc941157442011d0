"""A process that was forked from one with an open writer: nothing of the writer works in it, and
nothing that it tries harms its parent."""

from __future__ import annotations

import subprocess
import sys
import textwrap

# In a process of its own, as forking this one would be of many threads.
SCRIPT = """
    import datetime as dt, os, signal, sys
    import pyarrow as pa
    import lakelog
    from lakelog.errors import UsageError

    rows = pa.table({"n": [1]})
    catalog = lakelog.open_catalog(sys.argv[1])
    writer = catalog.writer("w", "db")
    with writer.transaction() as tx:
        (path,) = tx.write("t", rows)
    begun = writer.transaction()
    begun.write("t", rows)
    sent = writer.transaction()
    sent.write("t", rows)
    empty = writer.transaction()
    before = sorted(info.key for info in catalog.store.list(""))
    calls = {
        "begin": lambda: writer.transaction(),
        "begin with application": lambda: writer.transaction("app", 1),
        "write": lambda: begun.write("t", rows),
        "add": lambda: begun.add("t", path),
        "remove": lambda: begun.remove(path),
        "commit": lambda: sent.commit(),
        "commit of nothing": lambda: empty.commit(),
        "checkpoint": lambda: writer.checkpoint(),
        "adopt": lambda: writer.adopt_name(),
        "forget tables": lambda: writer.forget(tables=["t"]),
        "forget applications": lambda: writer.forget(
            applications_before=dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
        ),
    }
    session = writer._session
    # As if other threads were in the middle of a commit: their locks stay locked in the child.
    with session._guard, session._queue._turn, session._queue._guard, begun._uploads._room:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            for name, call in calls.items():
                try:
                    call()
                except UsageError as error:
                    if "forked" in error.message:
                        continue
                    print(name, error, flush=True)
                else:
                    print(name, "was not refused", flush=True)
                os._exit(1)
            begun.discard()
            with writer:
                pass
            os._exit(0 if sorted(i.key for i in catalog.store.list("")) == before else 2)
    assert os.wait()[1] == 0
    begun.write("t", rows)
    begun.commit()
    sent.commit()
    assert writer.checkpoint().revision == 2
    print(catalog.snapshot("db").files("t").num_rows)
"""


def test_nothing_of_a_writer_works_in_a_forked_process(tmp_path):
    argv = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(SCRIPT), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "4"), done.stdout + done.stderr


FRESH = """
    import os, sys
    import pyarrow as pa
    import lakelog

    rows = pa.table({"n": [1]})
    with lakelog.open_catalog(sys.argv[1]).writer("w", "db", shared=True) as writer:
        with writer.transaction() as tx:
            tx.write("t", rows)
        if os.fork() == 0:
            with lakelog.open_catalog(sys.argv[1]).writer("w", "db", shared=True) as own:
                with own.transaction() as tx:
                    tx.write("t", rows)
            os._exit(0)
        assert os.wait()[1] == 0
        with writer.transaction() as tx:
            tx.write("t", rows)
    print(lakelog.open_catalog(sys.argv[1]).snapshot("db").files("t").num_rows)
"""


def test_a_forked_process_opens_a_writer_of_its_own(tmp_path):
    """As the hint says."""
    argv = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FRESH), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "3"), done.stdout + done.stderr
