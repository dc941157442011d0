"""Tags and published cuts hold prune back, and none is made of what a prune is deleting."""

from __future__ import annotations

import datetime as dt
from functools import partial

import pytest
from lakelog.catalog.refs import refs as refs_module
from lakelog.errors import PlanOutdated, SnapshotPruned
from lakelog.gc.prune import execute_prune, plan_prune
from prune_cases import D, W, build, of_the_log, prune

DAY_S = 86_400.0


def tag(lake, name, revision, **more):
    return lake.catalog.tag(name, lake.catalog.snapshot(D, {W: revision}), **more)


def begins(lake):
    """The oldest revision that can be read."""
    for revision in range(30):
        try:
            lake.catalog.snapshot(D, {W: revision})
            return revision
        except SnapshotPruned:
            continue
    raise AssertionError


def test_a_tag_keeps_its_revision_and_the_plan_says_so(lake):
    build(lake, 12, [3, 6, 9])
    lake.pass_time(30 * DAY_S)
    tag(lake, "q3", 5)
    rows = lake.catalog.snapshot(D, "@q3").to_arrow("hourly")
    plan, report = prune(lake, keep_revisions=1)
    assert any("@q3 needs revision 5" in note for note in plan.notes)
    assert report.deleted_objects == len(plan.actions) > 0
    assert begins(lake) == 3
    assert lake.catalog.snapshot(D, "@q3").to_arrow("hourly") == rows
    lake.catalog.untag("q3")
    lake.pass_time(30 * DAY_S)
    plan, _ = prune(lake, keep_revisions=1)
    assert not any("@q3" in note for note in plan.notes)
    assert begins(lake) == 9


def test_a_tag_above_what_retention_keeps_changes_nothing(lake):
    build(lake, 12, [3, 6, 9])
    lake.pass_time(30 * DAY_S)
    before = of_the_log(plan_prune(lake.catalog, W, D, keep_revisions=1))
    tag(lake, "newest", 11)
    assert of_the_log(plan_prune(lake.catalog, W, D, keep_revisions=1)) == before


def test_an_expired_tag_keeps_nothing(lake):
    build(lake, 12, [3, 6, 9])
    lake.pass_time(30 * DAY_S)
    tag(lake, "week", 5, expires=dt.timedelta(days=7))
    prune(lake, keep_revisions=1)
    assert begins(lake) == 3
    lake.pass_time(8 * DAY_S)
    prune(lake, keep_revisions=1)
    assert begins(lake) == 9


def test_what_a_published_cut_was_before_stays_for_its_days(lake):
    build(lake, 12, [3, 6, 9])
    lake.pass_time(30 * DAY_S)
    for revision in (4, 7, 10):
        lake.catalog.publish("prod", lake.catalog.snapshot(D, {W: revision}), keep_days=7)
    plan, _ = prune(lake, keep_revisions=1)
    assert any("@prod (entry 1, replaced since) needs revision 4" in n for n in plan.notes)
    assert begins(lake) == 3
    lake.pass_time(8 * DAY_S)
    prune(lake, keep_revisions=1)
    assert begins(lake) == 9
    assert lake.catalog.snapshot(D, "@prod").cut.revisions == {W: 10}
    lake.catalog.publish("prod", lake.catalog.snapshot(D, {W: 11}))
    assert [one.number for one in lake.catalog.published("prod")] == [4, 3]


def test_a_tag_made_after_the_plan_stops_its_execution(lake):
    build(lake, 12, [3, 6, 9])
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    tag(lake, "late", 5)
    with pytest.raises(PlanOutdated, match="@late needs revision 5"):
        execute_prune(lake.catalog, plan)
    assert lake.catalog.snapshot(D, "@late").cut.revisions == {W: 5}
    tag(lake, "later", 4)  # the mark of the prune that stopped is gone


def test_a_tag_of_what_a_prune_is_deleting_is_refused(lake, monkeypatch):
    """The tag looks at the marks before the prune puts its own, and puts its entry after the prune
    has read the names."""
    build(lake, 12, [3, 6, 9])
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    snapshot = lake.catalog.snapshot(D, {W: 5})
    lake.catalog.publish("prod", lake.catalog.snapshot(D, {W: 11}))
    append = refs_module.Series.append
    runs = []

    def pruned_first(series, body, after):
        if not runs:
            runs.append(execute_prune(lake.catalog, plan))
        return append(series, body, after)

    monkeypatch.setattr(refs_module.Series, "append", pruned_first)
    for make in (
        partial(lake.catalog.tag, "late"),
        partial(lake.catalog.publish, "prod"),
    ):
        with pytest.raises(SnapshotPruned, match="being pruned"):
            make(snapshot)
    assert [one.name for one in lake.catalog.tags()] == ["prod"]
    assert lake.catalog.snapshot(D, "@prod").cut.revisions == {W: 11}


def test_an_earlier_incarnation_stays_while_a_tag_is_of_it(lake):
    from lakelog.testing.rebuilt import rebuild

    build(lake, 6, [3])
    tag(lake, "before", 5)
    rows = lake.catalog.snapshot(D, "@before").to_arrow("hourly")
    lake.pass_time(DAY_S)
    rebuild(lake.store, W, D)
    with lake.writer() as writer:
        lake.commit(writer, 99, [])
        writer.checkpoint()
    lake.pass_time(30 * DAY_S)
    prune(lake, keep_revisions=1)
    assert lake.catalog.snapshot(D, "@before").to_arrow("hourly") == rows
    lake.catalog.untag("before")
    lake.pass_time(30 * DAY_S)
    prune(lake, keep_revisions=1)
    assert not [i.key for i in lake.store.list(f"{W}/{D}/transactions/998-")]
