"""Maintenance from Python: of every writer of a database, with nothing but public names."""

from __future__ import annotations

import subprocess
import sys

import lakelog
import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import Margins
from lakelog.errors import PlanOutdated, UsageError, WriterNotFound
from lakelog.maintenance.database_plan import load_plan

NOW = Margins(prune_floor_s=0.0, gc_grace_s=0.0)
MAINTAIN = """
import sys, lakelog
catalog = lakelog.open_catalog(sys.argv[1])
print(catalog.checkpoint("db", execute=True).describe())
catalog.prune("db", keep_revisions=1, execute=True)
catalog.gc("db", execute=True)
"""


@pytest.fixture
def lake(tmp_path):
    store = lakelog.open_catalog(tmp_path).store
    fill(Catalog(store), "A", "B")
    return Catalog(store, margins=NOW)


def fill(catalog, *writers):
    """Two commits a writer, of which the second replaces the file of the first; then a crash."""
    for name in writers:
        with catalog.writer(name, "db") as writer:
            with writer.transaction() as tx:
                (path,) = tx.write("t", pa.table({"a": [1]}))
            with writer.transaction() as tx:
                tx.remove(path)
                tx.write("t", pa.table({"a": [2]}))
            writer.checkpoint()
            writer.transaction().write("t", pa.table({"a": [3]}))


def keys(catalog):
    return {info.key for info in catalog.store.list("")}


def test_prune_and_gc_of_every_writer(lake):
    pruned = lake.prune("db", keep_revisions=1, execute=True)
    assert [report.deleted_objects for report in pruned.reports] == [2, 2]
    found = lake.gc("db", execute=True)
    assert [report.deleted_objects for report in found.reports] == [2, 2]
    for name in lake.writers("db"):
        left = [info.key for info in lake.store.list(f"{name}/db/data/")]
        (row,) = [row for row in lake.snapshot("db").files("t").to_pylist()
                  if row["writer"] == name]  # fmt: skip
        assert left == [f"{name}/db/{row['path']}"]
    assert lake.snapshot("db").to_arrow("t").to_pylist() == [{"a": 2}] * 2


def test_nothing_is_done_unless_it_is_asked_for(lake):
    before = keys(lake)
    plans = lake.prune("db", keep_revisions=1), lake.gc("db")
    assert keys(lake) == before
    assert [plan.objects for plan in plans] == [4, 2]
    assert not any(plan.reports or plan.is_empty for plan in plans)


def test_a_plan_says_what_it_does_and_does_it(lake):
    plan = lake.prune("db", keep_revisions=1, writers=["B"])
    text = plan.describe()
    assert text.startswith("prune of B/db: delete 2 objects, ")
    assert all(action.key in text for action in plan.logs[0].actions)
    before = keys(lake)
    done = plan.execute()
    assert before - keys(lake) == {action.key for action in plan.logs[0].actions}
    assert done.reports[0].deleted_objects == 2
    assert plan.execute().reports[0].gone_objects == 2


def test_a_plan_can_be_saved_and_executed_elsewhere(lake):
    text = lake.gc("db").to_json()
    loaded = load_plan(Catalog(lake.store, margins=NOW), text)
    assert loaded.objects == 2
    assert [report.deleted_objects for report in loaded.execute().reports] == [1, 1]
    with pytest.raises(UsageError, match="can't be saved"):
        lake.checkpoint("db").to_json()


def test_checkpoints_of_logs_that_lack_one(lake):
    lake = Catalog(lake.store)
    with lake.writer("A", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"a": [4]}))
    plan = lake.checkpoint("db")
    assert (plan.objects, plan.describe()) == (
        1,
        "checkpoint of A/db: write 1 checkpoint, 0 bytes\n  2: after that of revision 1\n"
        "checkpoint of B/db: nothing to write",
    )
    assert lake.checkpoint("db", min_commits=2).is_empty
    done = lake.checkpoint("db", execute=True)
    assert [(info.revision, info.written) for info in done.reports] == [(2, True), (1, False)]
    assert lake.checkpoint("db").is_empty


def test_what_fails_for_one_log_keeps_no_other_from_its_turn(lake):
    plan = lake.prune("db", keep_revisions=1)
    with Catalog(lake.store).writer("A", "db") as writer:
        for number in range(2):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": [number]}))
        writer.checkpoint()
    lake.prune("db", keep_revisions=1, writers=["A"], execute=True)
    with pytest.raises(PlanOutdated, match="A/db") as error:
        plan.execute()
    assert error.value.__notes__ == ["Failed for: A. Done for: B"]
    assert lake.prune("db", keep_revisions=1, writers=["B"]).is_empty, "it had its turn"


def test_arguments_that_cannot_be(lake):
    for call in (
        lambda: lake.prune("db"),
        lambda: lake.prune("db", keep_days=-1),
        lambda: lake.gc("db", strays=["other/*"]),
        lambda: lake.gc("db", writers="A"),
        lambda: lake.gc("db", execute="yes"),
        lambda: lake.checkpoint("db", min_commits=0),
    ):
        with pytest.raises(UsageError):
            call()
    for step in (lake.gc, lake.checkpoint, lambda *a, **k: lake.prune(*a, keep_days=1, **k)):
        with pytest.raises(WriterNotFound):
            step("db", writers=["C"])


def test_a_process_that_imports_lakelog_alone_can_maintain(tmp_path):
    fill(lakelog.open_catalog(tmp_path), "A", "B")
    done = subprocess.run(
        [sys.executable, "-c", MAINTAIN, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("nothing to write") == 2
    assert lakelog.open_catalog(tmp_path).snapshot("db").to_arrow("t").num_rows == 2
