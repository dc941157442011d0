"""Files that lie elsewhere, and whoever deletes or makes a log anew: they stay, and stay live."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog import open_catalog
from lakelog.catalog.catalog import Catalog
from lakelog.errors import CorruptObject, InvalidPath, NotFoundError, ObjectNotFound
from lakelog.gc import execute_gc, execute_prune, plan_gc, plan_prune
from lakelog.gc.plan import Deletion, check_plan
from lakelog.rebuild import RebuildPlan, execute_rebuild, plan_rebuild

W, D = "w", "db"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    for number in range(4):
        pq.write_table(pa.table({"a": [number, number + 10]}), folder / f"x{number}.parquet")
    return folder


@pytest.fixture(params=["with own files", "without"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, out: Path) -> Catalog:
    """x0 to x2 are live, x3 was; perhaps with files of its own, one of them an orphan."""
    catalog = open_catalog(str(tmp_path / "lake"))
    with catalog.writer(W, D) as writer:
        with writer.transaction() as tx:
            for number in range(4):
                tx.add("t", out / f"x{number}.parquet", f"p={number}")
        if request.param == "with own files":
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": [100]}))
            writer.transaction().write("t", pa.table({"a": [-1]}))
    with catalog.writer(W, D) as writer:
        with writer.transaction() as tx:
            tx.remove(str(out / "x3.parquet"))
        writer.checkpoint()
    return catalog


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def facts(catalog: Catalog) -> list[dict[str, object]]:
    rows = catalog.snapshot(D).files("t").drop_columns(["revision"]).to_pylist()
    return sorted(rows, key=lambda row: row["path"])


def values(catalog: Catalog) -> list[int]:
    return sorted(catalog.snapshot(D).scan("t").read_all()["a"].to_pylist())


def test_gc_and_prune_leave_them_alone(lake: Catalog, out: Path) -> None:
    want, there = facts(lake), content(out)
    margins = replace(lake.margins, prune_floor_s=0.0, gc_grace_s=0.0)
    execute_prune(lake, plan_prune(lake, W, D, keep_revisions=1, margins=margins), margins=margins)
    plan = plan_gc(lake, W, D, margins=margins)
    assert all(action.key.startswith("w/db/data/") for action in plan.actions)
    assert len(plan.actions) == (1 if len(want) == 4 else 0)
    execute_gc(lake, plan, margins=margins)
    assert content(out) == there
    assert facts(lake) == want


@pytest.mark.parametrize("key", ["w/db/at/84c4e22388328df4/x.parquet", "file:///x.parquet"])
def test_no_plan_may_name_them(lake: Catalog, key: str) -> None:
    plan = plan_gc(lake, W, D)
    with pytest.raises(InvalidPath):
        check_plan(replace(plan, actions=(Deletion(key, 1, "because"),)))


def test_gc_goes_on_where_one_is_gone(lake: Catalog, out: Path) -> None:
    """It says nothing of whether the log is the one of the data files beside it."""
    (out / "x0.parquet").unlink()
    plan_gc(lake, W, D)


@pytest.mark.parametrize("saved", [False, True])
def test_a_rebuild_keeps_them(lake: Catalog, out: Path, saved: bool) -> None:
    want, there = facts(lake), content(out)
    told = lake.snapshot(D).statistics("t")
    plan = plan_rebuild(lake, W, D)
    assert plan.locations == ("file://",)
    plan = RebuildPlan.from_json(plan.to_json()) if saved else plan
    execute_rebuild(lake, plan)
    assert facts(lake) == want
    assert lake.snapshot(D).statistics("t").equals(told)
    (state,) = lake.snapshot(D)._states
    assert (state.log.incarnation, state.locations) == (2, {"file://"})
    assert state.reader_features == state.writer_features == {"locations"}
    assert content(out) == there
    execute_rebuild(lake, plan_rebuild(lake, W, D, back_to=1))
    assert facts(lake) == want


def test_a_rebuild_keeps_what_it_cant_read(lake: Catalog, out: Path) -> None:
    """As the old log has it, and says so: nothing is quarantined, and reading tells as before."""
    want = facts(lake)
    (out / "x0.parquet").unlink()
    pq.write_table(pa.table({"a": [7]}), out / "x1.parquet")
    plan = plan_rebuild(lake, W, D)
    (note,) = (note for note in plan.notes if "elsewhere" in note and "x0" in note)
    assert "x1.parquet" in note
    assert "x2.parquet" not in note
    execute_rebuild(lake, plan)
    assert facts(lake) == want
    with pytest.raises((ObjectNotFound, CorruptObject)):
        values(lake)


def test_the_end_of_a_broken_log_keeps_them(lake: Catalog, out: Path) -> None:
    """Revision 0 can't be read, and the checkpoint is gone; what stands above it counts."""
    with lake.writer(W, D) as writer, writer.transaction() as tx:
        tx.add("t", out / "x3.parquet", "again")
    folder = Path(lake.url) / "w/db/transactions"
    for path in folder.glob("*.checkpoint"):
        path.unlink()
    before = content(out)
    plan = plan_rebuild(lake, W, D)
    assert {path for path in plan.live if path.startswith("at/")} == {
        row["path"] for row in facts(lake) if row["path"].startswith("at/")
    }
    execute_rebuild(lake, plan)
    assert [r["partition"] for r in facts(lake) if "x3" in r["path"]] == ["again"]
    assert content(out) == before


def test_footers_alone_dont_know_them(lake: Catalog) -> None:
    owned = len(facts(lake)) == 4
    shutil.rmtree(Path(lake.url) / "w/db/transactions")
    for told in Path(lake.url).rglob("*.actions"):
        told.unlink()
    if not owned:
        with pytest.raises(NotFoundError):
            plan_rebuild(lake, W, D)
        return
    plan = plan_rebuild(lake, W, D)
    assert not any(path.startswith("at/") for path in plan.live)
    assert any("objects of actions" in note for note in plan.notes)


def test_objects_of_actions_know_them(lake: Catalog) -> None:
    want = facts(lake)
    shutil.rmtree(Path(lake.url) / "w/db/transactions")
    paths = {row["path"] for row in want}
    never = [
        item.transaction_id
        for item in plan_rebuild(lake, W, D).unproven
        if not paths.issuperset(file.path for file in item.files)
    ]
    execute_rebuild(lake, plan_rebuild(lake, W, D, exclude=never))
    assert facts(lake) == want


def test_a_saved_plan_names_no_place_that_cant_be(lake: Catalog) -> None:
    plan = plan_rebuild(lake, W, D)
    for changed in ((), ("s3://b/",), ("s3://other",)):
        with pytest.raises(InvalidPath):
            RebuildPlan.from_json(replace(plan, locations=changed).to_json())
