"""A transaction that the log lost, and whose name another one took: the checkpoint that it had is
the proof, and its files are no orphans."""

from __future__ import annotations

import datetime as dt
from functools import partial

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import parse_log_object
from lakelog.errors import LostTail
from lakelog.gc import execute_gc, plan_gc, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient

LOG = "EWR/weather/transactions/"
MONTH_S = 30 * 86_400.0


def commit(writer, value):
    with writer.transaction() as tx:
        (path,) = tx.write("hourly", pa.table({"n": [value]}))
    return path


@pytest.fixture
def fake():
    return FakeAmbient(1)


@pytest.fixture
def store(fake):
    now = lambda: dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC)  # noqa: E731
    return MemoryStore("histories", now=now)


@pytest.fixture
def lost(store, fake):
    """The file of revision 1, which is lost and committed anew by who had been the owner before; of
    the first one the checkpoint is left."""
    catalog = Catalog(store, ambient=fake.ambient)
    before = catalog.writer("EWR", "weather", checkpoint_every=0)
    commit(before, 0)
    owner = catalog.writer("EWR", "weather", checkpoint_every=0)
    path = commit(owner, 1)
    owner.checkpoint()
    for info in list(store.list(LOG)):
        item = parse_log_object(info.key.removeprefix(LOG))
        if (item.revision, item.kind) == (1, "transaction"):
            store.delete([info.key])
    commit(before, 2)
    commit(before, 3)
    fake.move(MONTH_S)
    return path


@pytest.mark.parametrize("plan", [plan_gc, partial(plan_prune, keep_revisions=1)])
def test_nothing_is_planned_and_rebuild_is_named(lost, store, fake, plan):
    with pytest.raises(LostTail, match="went on in its place") as caught:
        plan(store, "EWR", "weather", ambient=fake.ambient)
    assert "lakelog rebuild URL weather --writer EWR" in caught.value.hint
    assert f"EWR/weather/{lost}" in {info.key for info in store.list("EWR/weather/data/")}


@pytest.mark.filterwarnings("ignore::lakelog.catalog.read.log_reader.CheckpointWarning")
def test_a_rebuild_names_the_file_and_gc_leaves_it(lost, store, fake):
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert lost in plan.live or lost in plan.undecided
    execute_rebuild(store, plan, ambient=fake.ambient)
    fake.move(MONTH_S)
    execute_gc(store, plan_gc(store, "EWR", "weather", ambient=fake.ambient), ambient=fake.ambient)
    assert f"EWR/weather/{lost}" in {info.key for info in store.list("EWR/weather/data/")}
