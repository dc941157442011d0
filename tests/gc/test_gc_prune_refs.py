"""Tags and published cuts hold prune back, and none is made of what a prune is deleting."""

from __future__ import annotations

import datetime as dt
from functools import partial

import pytest
from lakelog.catalog.refs import refs as refs_module
from lakelog.catalog.refs.refs import pins_of
from lakelog.errors import CorruptObject, PlanOutdated, SnapshotPruned, TagNotFound
from lakelog.gc import prune as prune_module
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.testing.counting import CountingStore
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
    for _ in range(13):  # old entries are deleted now and then
        lake.catalog.publish("prod", lake.catalog.snapshot(D, {W: 11}))
    assert [one.number for one in lake.catalog.published("prod")] == [*range(16, 2, -1)]


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


def test_a_prune_that_is_refused_leaves_the_mark_of_another(lake, monkeypatch):
    """One prune has marked and is about to delete; a second one, of a higher beginning, meets a tag
    and takes its own mark back. What the first deletes can't be named meanwhile."""
    build(lake, 12, [3, 6, 9])
    lake.pass_time(30 * DAY_S)
    old = lake.catalog.snapshot(D, {W: 2})
    tag(lake, "seven", 7)
    lower = plan_prune(lake.catalog, W, D, keep_revisions=1)  # up to 6, for the tag
    lake.catalog.untag("seven")
    higher = plan_prune(lake.catalog, W, D, keep_revisions=1)
    tag(lake, "seven", 7)
    delete = lake.store.delete
    seen = []

    def second_first(keys, *, ordered=True):
        if not seen and any("/transactions/" in key for key in keys):
            seen.append(True)
            with pytest.raises(PlanOutdated, match="@seven"):
                execute_prune(lake.catalog, higher)
            with pytest.raises(SnapshotPruned, match="being pruned"):
                lake.catalog.tag("old", old)
        return delete(keys, ordered=ordered)

    monkeypatch.setattr(lake.store, "delete", second_first)
    execute_prune(lake.catalog, lower)
    assert seen
    assert [one.name for one in lake.catalog.tags()] == ["seven"]


def test_marks_of_a_prune_that_died_count_for_a_day(lake, monkeypatch):
    build(lake, 12, [3, 6, 9])
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    with monkeypatch.context() as patched:
        patched.setattr(prune_module, "complete_mirror", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            execute_prune(lake.catalog, plan)
    with pytest.raises(SnapshotPruned, match="try again tomorrow"):
        tag(lake, "old", 2)
    lake.pass_time(1.1 * DAY_S)
    tag(lake, "old", 2)
    plan, _ = prune(lake, keep_revisions=1)
    assert any("@old needs revision 2" in note for note in plan.notes)
    lake.catalog.untag("old")
    lake.pass_time(DAY_S)
    prune(lake, keep_revisions=1)
    (mark,) = lake.store.list("_pruned/")  # its own: that of the one that died is deleted
    assert mark.modified_at == lake.clock.time()


def test_a_move_of_a_caller_that_died_is_taken_back_by_prune(lake, monkeypatch):
    """The entry is put while a prune deletes what it names, and its caller dies before it looks."""
    build(lake, 12, [3, 6, 9])
    lake.pass_time(30 * DAY_S)
    lake.catalog.publish("prod", lake.catalog.snapshot(D, {W: 11}))
    old = lake.catalog.snapshot(D, {W: 2})
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    delete = lake.store.delete

    def published_first(keys, *, ordered=True):
        if any("/transactions/" in key for key in keys) and len(lake.catalog.published("prod")) < 2:
            with monkeypatch.context() as patched:
                patched.setattr(refs_module.Refs, "_refuse_pruned", lambda *_: None)
                lake.catalog.publish("prod", old)
        return delete(keys, ordered=ordered)

    monkeypatch.setattr(lake.store, "delete", published_first)
    execute_prune(lake.catalog, plan)
    assert lake.catalog.snapshot(D, "@prod").cut.revisions == {W: 11}
    assert [one.number for one in lake.catalog.published("prod")] == [3, 2, 1]


def test_a_log_that_was_renamed_is_kept_for_its_tags(lake):
    build(lake, 12, [3, 6, 9])
    lake.pass_time(30 * DAY_S)
    tag(lake, "q3", 5)
    for info in list(lake.store.list(f"{W}/")):
        lake.store.put(f"LGA/{info.key.partition('/')[2]}", lake.store.get(info.key))
        lake.store.delete([info.key])
    with lake.catalog.writer("LGA", D) as writer:
        writer.adopt_name()
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, "LGA", D, keep_revisions=1)
    assert any("@q3 needs revision 5" in note for note in plan.notes)


def test_a_tag_that_is_damaged_stops_prune_until_it_is_removed(lake):
    build(lake, 12, [3, 6, 9])
    lake.pass_time(30 * DAY_S)
    tag(lake, "q3", 5)
    tag(lake, "fine", 11)
    (key,) = [i.key for i in lake.store.list("_refs/q3/") if i.key.endswith(".ref")]
    lake.store.put(key, lake.store.get(key)[:-3])
    with pytest.raises(CorruptObject, match="lakelog tag delete"):
        plan_prune(lake.catalog, W, D, keep_revisions=1)
    with pytest.warns(refs_module.RefWarning, match="q3"):
        assert [one.name for one in lake.catalog.tags()] == ["fine"]
    with pytest.raises(TagNotFound, match="nosuch"):
        lake.catalog.snapshot(D, "@nosuch")
    lake.catalog.untag("q3")
    plan_prune(lake.catalog, W, D, keep_revisions=1)


def test_entries_are_read_once_for_all_logs(lake):
    build(lake, 4, [3])
    for _ in range(5):
        lake.catalog.publish("prod")
    counted = CountingStore(lake.store)
    refs = refs_module.Refs(counted, lake.catalog.ambient, lake.margins)
    now = lake.clock.time()
    pins_of(refs, W, D, b"", now)
    assert counted.reset()["get"] == 5
    assert len(pins_of(refs, W, D, b"", now)) == 5
    assert counted.reset()["get"] == 0


def test_a_tag_of_what_is_gone_holds_nothing_back(lake, monkeypatch):
    build(lake, 12, [3, 6, 9])
    lake.pass_time(30 * DAY_S)
    tag(lake, "old", 2)
    with monkeypatch.context() as patched:
        patched.setattr(prune_module, "pins_of", lambda *_: [])
        prune(lake, keep_revisions=6)
    assert begins(lake) == 6
    lake.pass_time(2 * DAY_S)
    prune(lake, keep_revisions=1)
    assert begins(lake) == 9
    assert [one.name for one in lake.catalog.tags()] == ["old"]
    with pytest.raises(SnapshotPruned):
        lake.catalog.snapshot(D, {W: 2})
