"""Rebuilds on a store that shows folders in another spelling than the log and the footers know."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient, FoldingStore
from rebuild_cases import LOG

ROWS = pa.table({"n": [1]})
FOLDED = "EWR/weather/data/in/Files/A.parquet"


@pytest.fixture
def fake():
    return FakeAmbient()


@pytest.fixture
def store():
    return FoldingStore(MemoryStore())


def rebuild(store, fake):
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    execute_rebuild(store, plan, ambient=fake.ambient)
    return plan


def live(store) -> set[str]:
    state = LogReader(store, "EWR", "weather").load()
    return {path for paths in state.files.paths() for path in paths.to_pylist()}


@pytest.mark.parametrize("is_lost", [False, True])
def test_tables_that_share_a_folder_keep_their_files(store, fake, is_lost):
    """The folder is shown as `Hourly`, in which the files of `hourly` lie as well."""
    paths = set()
    with Catalog(store, ambient=fake.ambient).writer("EWR", "weather") as writer:
        for table in ("Hourly", "hourly", "Hourly"):
            with writer.transaction() as tx:
                paths.update(tx.write(table, ROWS))
    shown = {info.key.removeprefix("EWR/weather/") for info in store.list("EWR/weather/data/")}
    assert shown != paths, "the store folds no names"
    if is_lost:
        store.delete([info.key for info in store.list(LOG)])
    plan = rebuild(store, fake)
    assert not plan.left_out
    assert live(store) == paths
    snapshot = Catalog(store).snapshot("weather")
    assert {name: snapshot.to_arrow(name).num_rows for name in snapshot.tables()} == {
        "Hourly": 2,
        "hourly": 1,
    }


def test_an_adopted_file_keeps_the_name_that_the_log_knows(store, fake):
    with Catalog(store, ambient=fake.ambient).writer("EWR", "weather") as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("hourly", ROWS)
        store.put(FOLDED, store.get(f"EWR/weather/{path}"))
        with writer.transaction() as tx:
            tx.add("hourly", "data/in/files/a.parquet")
            tx.remove(path)
    rebuild(store, fake)
    assert live(store) == {"data/in/files/a.parquet"}


def test_elsewhere_another_spelling_is_another_file(fake):
    """A copy in a folder of other letters is no file of the log."""
    store = MemoryStore()
    writer = Catalog(store, ambient=fake.ambient).writer("EWR", "weather")
    with writer.transaction() as tx:
        (path,) = tx.write("hourly", ROWS)
    store.put(f"EWR/weather/{path}".replace("hourly", "Hourly"), store.get(f"EWR/weather/{path}"))
    store.delete([f"EWR/weather/{path}"])
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert not plan.live
    assert [item.kind for item in plan.left_out] == ["quarantined"]
