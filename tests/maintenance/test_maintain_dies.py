"""A job of maintenance that dies at any of its writes: no row is lost, and the next job goes on."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import MaintenanceRunning
from lakelog.store.memory import MemoryStore
from lakelog.testing.crashing import Crash, CrashingStore
from lakelog.testing.doubles import FakeAmbient
from seeds import base_seed

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
DAY_S = 86_400
POLICY = """
keep_revisions = 1
checkpoint_after = 1
min_input_files = 2
check_parts = 1
publish = "prod"
publish_keep_days = 0
"""


def a_lake():
    """Ten days old: files to rewrite, history to prune, files that nobody needs."""
    fake = FakeAmbient(seed=1)
    store = MemoryStore("dies", now=lambda: EPOCH + dt.timedelta(microseconds=fake.wall_us))
    catalog = Catalog(store, ambient=fake.ambient)
    for name in ("bergen", "oslo"):
        with catalog.writer(name, "db", checkpoint_every=0) as writer:
            for number in range(4):
                with writer.transaction() as tx:
                    tx.write("t", pa.table({"n": [number], "w": [name]}))
            with writer.transaction() as tx:
                tx.delete("t", "n = 1")
            writer.transaction().write("t", pa.table({"n": [-1], "w": [name]}))
    fake.move(10 * DAY_S)
    catalog.maintain(policy="checkpoint_after = 1\ncompact = false\ngc = false", execute=True)
    fake.move(10 * DAY_S)
    return fake, store


def rows_of(catalog, at=None):
    return sorted(map(str, catalog.snapshot("db", at).to_arrow("t").to_pylist()))


def writes():
    fake, store = a_lake()
    counted = CrashingStore(store)
    Catalog(counted, ambient=fake.ambient).maintain(policy=POLICY, execute=True)
    return counted.requests


def some_writes():
    """A sixth of them, other ones with each seed."""
    chance, number = random.Random(base_seed()), writes()
    assert number > 40, "it rewrites, writes checkpoints, prunes, deletes and publishes"
    return sorted(chance.sample(range(number), number // 6))


@pytest.mark.slow("several jobs for each of many deaths")
@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_a_death_at_any_write_loses_no_row_and_the_next_job_goes_on(after):
    for at in some_writes():
        fake, store = a_lake()
        healthy = Catalog(store, ambient=fake.ambient)
        before = rows_of(healthy)
        dying = Catalog(CrashingStore(store, at, after=after), ambient=fake.ambient)
        with pytest.raises(Crash):
            dying.maintain(policy=POLICY, execute=True)
        assert rows_of(healthy) == before, at
        assert healthy.check("db", level="data").is_sound, at
        try:
            report = healthy.maintain(policy=POLICY, execute=True)
        except MaintenanceRunning:  # the dead one has the lease
            fake.move(601)
            report = healthy.maintain(policy=POLICY, execute=True)
        assert not report.failed, (at, report.describe())
        assert rows_of(healthy) == before, at
        fake.move(10 * DAY_S)
        for _ in range(2):
            report = healthy.maintain(policy=POLICY, execute=True)
            assert not report.failed, (at, report.describe())
            fake.move(10 * DAY_S)
        assert rows_of(healthy) == rows_of(healthy, "@prod") == before, at
        left = [info.key for info in store.list("") if info.key.endswith(".parquet")]
        assert len(left) == healthy.snapshot("db").files("t").num_rows, (at, left)
