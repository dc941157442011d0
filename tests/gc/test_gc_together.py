"""Several collections of one log at once: each reports what it deleted, where a store can tell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
from lakelog.catalog.margins import Margins
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.store import open_store

FILES = 400
NOW = Margins(prune_floor_s=0.0, gc_grace_s=0.0)
CHILD = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from lakelog.catalog.margins import Margins
from lakelog.gc.collect import execute_gc
from lakelog.gc.plan import Plan
from lakelog.store import open_store
plan = Plan.from_json(Path(sys.argv[2]).read_text())
now = Margins(prune_floor_s=0.0, gc_grace_s=0.0)
print(json.dumps(asdict(execute_gc(open_store(sys.argv[1]), plan, margins=now))))
"""


@pytest.fixture
def leftovers(tmp_path) -> str:
    """A log, and data files that it doesn't name."""
    url = str(tmp_path / "lake")
    with lakelog.open_catalog(url).writer("W", "db") as writer, writer.transaction() as tx:
        (path,) = tx.write("t", pa.table({"a": [1]}))
    folder = Path(url, "W", "db", path).parent
    for number in range(FILES):
        (folder / f"1-{number:032x}-0.parquet").write_bytes(b"x" * 10)
    return url


def test_two_processes_never_report_the_same_deletion(leftovers, tmp_path):
    saved = tmp_path / "plan.json"
    saved.write_text(plan_gc(open_store(leftovers), "W", "db", margins=NOW).to_json())
    child = [sys.executable, "-c", CHILD, leftovers, saved]
    children = [subprocess.Popen(child, stdout=subprocess.PIPE) for _ in range(3)]
    reports = [json.loads(child.communicate(timeout=100)[0]) for child in children]
    assert [child.returncode for child in children] == [0, 0, 0]
    assert sum(report["deleted_objects"] for report in reports) == FILES
    assert sum(report["deleted_bytes"] for report in reports) == 10 * FILES
    for report in reports:
        assert report["exact"]
        assert report["deleted_objects"] + report["gone_objects"] == FILES


def test_what_another_one_deletes_in_between_is_not_reported(leftovers):
    """The other collection comes when this one has looked and not yet deleted."""
    store = open_store(leftovers)
    plan = plan_gc(store, "W", "db", margins=NOW)
    others = []

    def meanwhile(done, total, what):
        if what == "data files listed" and not others:
            others.append(None)
            others.append(execute_gc(open_store(leftovers), plan, margins=NOW))

    mine = execute_gc(store, plan, margins=NOW, progress=meanwhile)
    assert (others[1].deleted_objects, others[1].gone_objects) == (FILES, 0)
    assert (mine.deleted_objects, mine.deleted_bytes, mine.gone_objects) == (0, 0, FILES)


@pytest.mark.s3
def test_where_the_store_does_not_say_the_report_says_so(moto, tmp_path):
    url = f"s3://{moto.make_bucket()}/lake"
    catalog = lakelog.open_catalog(url, moto.storage_options)
    with catalog.writer("W", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"a": [1]}))
    catalog.store.put(f"W/db/data/_/t/1-{7:032x}-0.parquet", b"x")
    plan = plan_gc(catalog, "W", "db", margins=NOW)
    report = execute_gc(catalog, plan, margins=NOW)
    assert (report.deleted_objects, report.exact) == (1, False)
