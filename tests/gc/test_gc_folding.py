"""Stores that take names of several spellings for one: nothing that is live is deleted there, no
file is added twice, and no exact store pays for it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.path_column import fold, folded_among
from lakelog.catalog.read.health import name_rules
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.store import probe_names
from lakelog.testing.doubles import FoldingStore

W, D = "EWR", "weather"
DAY_S = 86_400.0
# What some file system takes for one with the other.
TWINS = [
    ("Hourly", "hourly"),
    ("caf\u00e9", "cafe\u0301"),
    ("CAF\u00c9", "cafe\u0301"),
    ("end", "end. ."),
    ("\u0390", "\u03aa\u0301"),  # folding case undoes the normal form
    ("\u212b", "\u00e5"),  # the Angstrom sign
]


@pytest.fixture
def folding(lake):
    lake.store = FoldingStore(lake.store)
    return lake


def read(lake, table):
    return lake.catalog.snapshot(D).to_arrow(table).column("value").to_pylist()


def collect(lake):
    """By the names that the store lists."""
    plan = plan_gc(lake.catalog, W, D)
    return execute_gc(lake.catalog, plan).deleted_objects


def test_tables_in_one_folder_keep_their_files(folding):
    lake = folding
    tables = ["Days", "days", "caf\u00e9", "cafe\u0301", "end", "end."]
    with lake.writer() as writer:
        for value, table in enumerate(tables):
            with writer.transaction() as tx:
                tx.write(table, pa.table({"value": [value]}))
        lake.orphan(writer)
    lake.pass_time(8 * DAY_S)
    assert collect(lake) == 1, "the orphan, and nothing else"
    assert [read(lake, table) for table in tables] == [[value] for value in range(len(tables))]


def test_a_stray_that_is_named_in_another_spelling_stays(folding):
    """A log of another implementation may name one."""
    lake = folding
    with lake.writer() as writer:
        path = lake.commit(writer, 7)
    body = lake.store.get(f"{W}/{D}/{path}")
    lake.store.delete([f"{W}/{D}/{path}"])
    lake.store.put(f"{W}/{D}/{path.upper().replace('DATA/', 'data/')}", body)
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D, strays=["data/*"])
    assert not plan.actions
    assert 7 in read(lake, "hourly")


def test_the_probe_tells_what_a_store_folds(lake):
    assert probe_names(lake.store, "w/") == []
    folding = FoldingStore(lake.store)
    found = ["case", "Unicode normal form", "dots at the end", "spaces at the end"]
    assert probe_names(folding, "w/") == found
    assert folding.folds == found
    assert name_rules(folding, "w").startswith("not told apart by case, Unicode normal form, dots")
    assert not list(lake.store.list("")), "what was written is gone again"


@pytest.mark.parametrize(("one", "other"), TWINS)
def test_what_some_store_takes_for_one_is_folded_to_one(one, other):
    paths = [f"data/_/{one}/x.parquet", f"data/_/{other}/x.parquet"]
    assert fold(paths[0]) == fold(paths[1])
    for path in paths:
        assert folded_among([pa.array([path])], [fold(paths[0])]) == {fold(paths[0])}
        assert folded_among([pa.array([path])], ["x.parquet"], last_segments=True)
    assert not folded_among([pa.array(paths)], [fold("data/_/another/x.parquet")])


def test_catalogs_of_an_exact_store_are_not_asked(lake):
    """Who adds no foreign file never asks what the store does with names."""
    with Catalog(lake.store, ambient=lake.clock.ambient()).writer(W, D) as writer:
        lake.commit(writer, 0)
    assert lake.store.folds is None
