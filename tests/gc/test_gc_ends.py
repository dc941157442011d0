"""A listing that misses names of a log: files of what it doesn't show are no orphans for that."""

from __future__ import annotations

import warnings
from unittest import mock

import pytest
from collect_cases import BASE, D, W, planned, take_over
from lakelog.catalog.log import piece_sink
from lakelog.errors import MissingTransaction
from lakelog.gc import execute_gc, execute_prune, plan_gc, plan_prune
from lakelog.testing.doubles import PassingStore
from prune_cases import build

DAY_S = 86_400.0


class Hiding(PassingStore):
    """Leaves one name out of so many listings of the log, as a scan of a folder may."""

    def __init__(self, store, key, times):
        super().__init__(store)
        self.key, self.times = key, times

    def list(self, prefix, **options):
        hidden = prefix == f"{BASE}transactions/" and self.times > 0
        self.times -= hidden
        return (i for i in self.inner.list(prefix, **options) if not (hidden and i.key == self.key))


def whole(lake):
    """Revisions 0 to 6, whose files are mostly removed again, and all of them old."""
    build(lake, 7, checkpoints=(1, 3, 5))
    take_over(lake)
    lake.pass_time(40 * DAY_S)


def pruned(lake):
    whole(lake)
    execute_prune(lake.catalog, plan_prune(lake.catalog, W, D, keep_revisions=6))
    assert lake.log_names() == "t1 c1 t2 t3 c3 t4 t5 c5 t6 t7", "the cases below are of these"


def interrupted(lake):
    """A prune that took but its first object: revisions 1 and up are there, 1 by its checkpoint."""
    whole(lake)
    lake.store.delete([lake.log_key("t0")])


def further(lake):
    """A prune to revision 5 that ended after revision 3: 4 can't be read any more."""
    whole(lake)
    lake.store.delete([lake.log_key(name) for name in ("t0", "t1", "c1", "t2", "t3", "c3")])


@pytest.mark.parametrize(
    ("make", "short"),
    [
        (whole, "t0"),
        *((pruned, name) for name in ("t1", "c1")),
        *((interrupted, name) for name in ("t1", "c1")),
        *((further, name) for name in ("t4", "c5")),
    ],
)
def test_what_was_missed_is_asked_for(lake, make, short):
    make(lake)
    hiding = Hiding(lake.store, lake.log_key(short), times=1_000)
    before = lake.data()
    with pytest.raises(MissingTransaction, match=r"is there, but|is missing"):
        plan_gc(hiding, W, D, ambient=lake.clock.ambient())
    assert lake.data() == before


@pytest.mark.parametrize(
    ("make", "short"), [(whole, "t0"), (pruned, "c1"), (interrupted, "c1"), (further, "c5")]
)
def test_a_second_listing_that_shows_it_is_believed(lake, make, short):
    make(lake)
    ambient = lake.clock.ambient()
    truth = planned(plan_gc(lake.catalog, W, D))
    hiding = Hiding(lake.store, lake.log_key(short), times=1)
    plan = plan_gc(hiding, W, D, ambient=ambient)
    assert hiding.times <= 0
    assert planned(plan) == truth
    hiding.times = 1
    execute_gc(hiding, plan, ambient=ambient)
    assert lake.retained_paths() <= lake.data()


def test_the_newest_transaction_that_was_missed_is_read_by_its_name(lake):
    """However often the listings miss it: the log would just look shorter, and its file old."""
    build(lake, 3)
    lake.pass_time(40 * DAY_S)
    hiding = Hiding(lake.store, lake.log_key("t2"), times=1_000)
    ambient = lake.clock.ambient()
    plan = plan_gc(hiding, W, D, ambient=ambient)
    assert plan.actions == ()
    assert plan.facts.head == 2
    orphan = lake.put_foreign("orphan.parquet")
    lake.pass_time(40 * DAY_S)
    plan = plan_gc(hiding, W, D, ambient=ambient)
    assert planned(plan) == {orphan}
    assert execute_gc(hiding, plan, ambient=ambient).deleted_objects == 1
    assert lake.retained_paths() <= lake.data()


@pytest.mark.parametrize("times", [1, 2, 1_000])
def test_prune_asks_for_checkpoints_before_segments_go(lake, times):
    """Those that only a checkpoint needs which the listings miss stay, and are not planned."""
    with mock.patch.object(piece_sink, "SPILL_FROM_BYTES", 0):
        whole(lake)
    ambient = lake.clock.ambient()
    truth = plan_prune(lake.catalog, W, D, keep_revisions=6)
    hiding = Hiding(lake.store, lake.log_key("c5"), times)
    if times == 1_000:
        with pytest.raises(MissingTransaction, match="is there, but"):
            plan_prune(hiding, W, D, keep_revisions=6, ambient=ambient)
        return
    plan = plan_prune(hiding, W, D, keep_revisions=6, ambient=ambient)
    assert planned(plan) == planned(truth)
    hiding.times = times
    execute_prune(hiding, plan, ambient=ambient)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no checkpoint is without its segments
        files = lake.catalog.snapshot(D).files("hourly")
    assert files.num_rows > 0


@pytest.mark.parametrize("short", ["1:t0", "1:t1"])
def test_a_lower_incarnation_is_asked_for_what_was_missed_too(lake, short):
    build(lake, 3)
    lake.rebuild()
    lake.pass_time(40 * DAY_S)
    hiding = Hiding(lake.store, lake.log_key(short), times=1_000)
    with pytest.raises(MissingTransaction, match="is there, but"):
        plan_gc(hiding, W, D, ambient=lake.clock.ambient())
