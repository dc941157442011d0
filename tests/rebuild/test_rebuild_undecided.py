"""Nothing that was committed becomes an orphan: after damage and loss it comes back by a rebuild,
or its file stays and the plan names it as undecided."""

from __future__ import annotations

import datetime as dt

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.gc import execute_gc, execute_prune, plan_gc, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from rebuild_cases import (
    BASE,
    commit,
    item_of,
    kinds,
    lose_objects,
    lose_the_log,
    parquet,
    reasons,
    replacing,
    rows,
)

WEEK_S = 8 * 86_400.0


@pytest.fixture
def store(fake):
    now = lambda: dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC)  # noqa: E731
    return MemoryStore("undecided", now=now)


@pytest.fixture
def writer(catalog):
    return catalog.writer("EWR", "weather", checkpoint_every=0)


def damage(store, revision, kind="transaction"):
    for info in list(store.list(BASE)):
        item = item_of(info.key)
        if item is not None and (item.revision, item.kind) == (revision, kind):
            store.put(info.key, store.get(info.key)[:-1])


def lose(store, *revisions):
    """Objects of a log, transactions and checkpoints."""
    keys = [info.key for info in store.list(BASE)]
    store.delete([key for key in keys if item_of(key) and item_of(key).revision in revisions])


def rebuild(store, fake, **options):
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, **options)
    execute_rebuild(store, plan, ambient=fake.ambient)
    return plan


def live_rows(catalog) -> list[int]:
    return sorted(catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist())


def keep_house(store, fake, catalog):
    """Commits, checkpoints, then prune and gc, twice a week later."""
    for value in (1000, 1001):
        fake.move(WEEK_S)
        with catalog.writer("EWR", "weather", checkpoint_every=0) as owner:
            commit(owner, value)
            owner.checkpoint()
        fake.move(WEEK_S)
        with catalog.writer("EWR", "weather", checkpoint_every=0) as owner:
            commit(owner, value)
        plan = plan_prune(store, "EWR", "weather", keep_revisions=1, ambient=fake.ambient)
        execute_prune(store, plan, ambient=fake.ambient)
        plan = plan_gc(store, "EWR", "weather", ambient=fake.ambient)
        execute_gc(store, plan, ambient=fake.ambient)


# --- Removed and added again ----------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint", [-1, 0, 2])
@pytest.mark.parametrize("damaged", [1, 3])
@pytest.mark.parametrize("untold", [False, True], ids=["told", "by the log alone"])
def test_a_file_that_was_removed_and_added_again_stays(
    catalog, writer, store, fake, damaged, checkpoint, untold
):
    first, _ = commit(writer, 1)
    if checkpoint == 0:
        writer.checkpoint()
    second, _ = replacing(writer, first, 2)
    with writer.transaction() as tx:  # undo
        tx.remove(second)
        tx.add("hourly", first, "p")
    if checkpoint == 2:
        writer.checkpoint()
    commit(writer, 3)
    assert live_rows(catalog) == [1, 3]
    fake.move(WEEK_S)
    damage(store, damaged)
    if untold:  # no object of actions tells that it came back
        lose_objects(store)
    rebuild(store, fake)
    assert live_rows(catalog) == [1, 3]
    keep_house(store, fake, catalog)
    assert live_rows(catalog)[:2] == [1, 3], "an acknowledged row is lost"


def test_what_was_replaced_after_all_that_the_log_tells_stays_replaced(
    catalog, writer, store, fake
):
    first, _ = commit(writer, 1)
    second, _ = replacing(writer, first, 2)
    with writer.transaction() as tx:
        tx.remove(second)
        tx.add("hourly", first, "p")
    replacing(writer, first, 4)
    commit(writer, 5)
    damage(store, 3)
    plan = rebuild(store, fake)
    assert live_rows(catalog) == [4, 5]
    assert first in plan.undecided, "it may have been added again"


def test_an_undo_of_a_lost_log_leaves_what_it_brought_back_and_names_it(
    catalog, writer, store, fake
):
    first, _ = commit(writer, 1)
    second, _ = replacing(writer, first, 2)
    commit(writer, 0)
    with writer.transaction() as tx:
        tx.remove(second)
        tx.add("hourly", first, "p")
    commit(writer, 3)
    lose_the_log(store)
    assert first in plan_rebuild(store, "EWR", "weather", ambient=fake.ambient).live
    lose_objects(store)
    plan = rebuild(store, fake)
    assert set(plan.undecided) == {first}
    assert any(first in note for note in plan.notes)


# --- A lost end -----------------------------------------------------------------------------------


@pytest.mark.parametrize("owner_since", [False, True])
def test_what_stood_in_a_lost_end_comes_back(catalog, writer, store, fake, owner_since):
    for value in range(5):
        commit(writer, value)
    lose(store, 3, 4)
    expected = [0, 1, 2, 3, 4]
    if owner_since:
        with catalog.writer("EWR", "weather", checkpoint_every=0) as owner:
            commit(owner, 100)
        expected.append(100)
    fake.move(WEEK_S)
    plan = rebuild(store, fake)
    assert not plan.is_whole
    assert not plan.left_out
    assert live_rows(catalog) == expected


def test_two_histories_disprove_nothing_of_each_other(catalog, writer, store, fake):
    """Both replaced one file, and carried one version, each acknowledged."""
    first, _ = commit(writer, 1)
    for value in (2, 3):
        commit(writer, value)
    old, _ = replacing(writer, first, 10)
    job, _ = commit(writer, 20, app_id="job", app_version=7)
    lose(store, 2, 3, 4)
    with catalog.writer("EWR", "weather", checkpoint_every=0) as owner:
        new, _ = replacing(owner, first, 11)
        again, _ = commit(owner, 20, app_id="job", app_version=7)
        commit(owner, 12)
    plan = rebuild(store, fake)
    assert not plan.is_whole
    assert "disproved" not in kinds(plan).values()
    assert {old, new, again} <= set(plan.live)
    assert "version 7" in plan.undecided[job]


@pytest.mark.parametrize("owner_since", [False, True])
def test_a_last_commit_that_is_lost_is_named(catalog, writer, store, fake, owner_since):
    """Nothing else tells it from one that was never made."""
    for value in range(4):
        path, _ = commit(writer, value)
    lose(store, 3)
    if owner_since:  # in its place, and somebody's base
        with catalog.writer("EWR", "weather", checkpoint_every=0) as owner:
            for value in (10, 11):
                commit(owner, value)
    plan = rebuild(store, fake)
    assert plan.is_whole
    assert list(plan.undecided) == [path]
    assert "lost its end unseen" in reasons(plan)[path]
    assert any(path in note for note in plan.notes)


# --- Rivals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dead_is", ["earlier", "later"])
@pytest.mark.parametrize("log", ["lost", "damaged"])
def test_of_two_attempts_at_one_batch_the_fuller_stands(catalog, writer, store, fake, dead_is, log):
    commit(writer, 0)
    both = [writer.transaction(app_id="job", app_version=7) for _ in range(2)]
    dead, good = both if dead_is == "earlier" else reversed(both)
    for tx in both:
        fake.move(5)
        if tx is dead:
            (cut_short,) = tx.write("hourly", rows(10))
        else:
            for value in range(10, 15):
                tx.write("hourly", rows(value))
    good.commit()
    if log == "lost":
        lose_the_log(store)
    else:
        damage(store, 1)
    plan = rebuild(store, fake)
    assert live_rows(catalog) == [0, *range(10, 15)]
    assert kinds(plan) == {cut_short: "undecided"}
    (note,) = [note for note in plan.notes if "Undecided between" in note]
    for named in (dead.transaction_id, good.transaction_id, cut_short, "version 7"):
        assert named in note
    other = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert kinds(other) == {cut_short: "undecided"}, "the new log doesn't know better"


def test_a_dead_replacement_does_not_beat_the_committed_one(catalog, writer, store, fake):
    first, _ = commit(writer, 0)
    both = [writer.transaction() for _ in range(2)]
    for value, tx in enumerate(both, 1):
        fake.move(5)
        tx.remove(first)
        tx.write("hourly", rows(value))
    both[0].commit()
    lose_the_log(store)
    plan = rebuild(store, fake)
    assert 1 in live_rows(catalog)
    assert first in plan.undecided
    assert any(tx.transaction_id in note for note in plan.notes for tx in both)


def test_a_file_added_again_can_be_replaced_twice(catalog, writer, store, fake):
    """The first replacement is proven, and rules nothing out that was begun above it."""
    first, _ = commit(writer, 1)
    second, _ = replacing(writer, first, 2)
    commit(writer, 0)
    with writer.transaction() as tx:
        tx.remove(second)
        tx.add("hourly", first, "p")
    third, _ = replacing(writer, first, 3)
    lose_the_log(store)
    plan = rebuild(store, fake)
    assert not plan.left_out
    assert third in plan.live


# --- What no footer tells -------------------------------------------------------------------------


def test_files_of_foreign_names_of_a_lost_log_are_named(catalog, writer, store, fake):
    commit(writer, 0)
    paths = ["data/in/a.parquet", "data/_/hourly/b.parquet"]
    for path in paths:
        store.put(BASE + path, parquet(rows(5)))
        with writer.transaction() as tx:
            tx.add("hourly", path)
    copied = "data/in/copy.parquet"
    store.put(BASE + copied, store.get(BASE + commit(writer, 1)[0]))
    with writer.transaction() as tx:
        tx.add("hourly", copied)
    lose_the_log(store)
    told = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert {*paths, copied} <= told.live.keys()
    assert not told.undecided
    lose_objects(store)
    plan = rebuild(store, fake)
    assert set(plan.undecided) == {*paths, copied}
    assert all(any(path in note for note in plan.notes) for path in plan.undecided)


def test_versions_of_applications_that_may_run_twice_are_named(catalog, writer, store, fake):
    path, _ = commit(writer, 1, app_id="job", app_version=7)
    with writer.transaction(app_id="job", app_version=8) as tx:
        tx.remove(path)
    late = writer.transaction(app_id="job", app_version=9)
    late.write("hourly", rows(9))
    lose_the_log(store)
    lose_objects(store)
    plan = plan_rebuild(
        store, "EWR", "weather", ambient=fake.ambient, exclude=[late.transaction_id]
    )
    (note,) = [note for note in plan.notes if "may run twice" in note]
    assert "version 8 of 'job' was committed" in note
    assert "Known are: 'job' 7" in note


def test_a_whole_log_leaves_nothing_undecided(catalog, writer, store, fake):
    first, _ = commit(writer, 1)
    second, _ = replacing(writer, first, 2)
    with writer.transaction() as tx:
        tx.remove(second)
        tx.add("hourly", first, "p")
    plan = rebuild(store, fake)
    assert plan.is_whole
    assert not plan.undecided
    assert live_rows(Catalog(store, ambient=fake.ambient)) == [1]


def test_who_took_out_a_file_that_was_added_again_stands_beside_who_took_it_out_later(
    catalog, store
):
    """Nothing proves the first of them: what was begun on it is gone."""
    with catalog.writer("EWR", "weather") as writer:
        first, _ = commit(writer, 1)
        second, _ = commit(writer, 2)
        with writer.transaction() as tx:
            tx.remove(first)
            tx.remove(second)
        gone, _ = commit(writer, 3, table="gone")
        with writer.transaction() as tx:
            tx.add("hourly", first)
        commit(writer, 4)
        with writer.transaction() as tx:
            tx.remove(first)
        commit(writer, 5)
    log = [info.key for info in store.list("EWR/weather/") if "/data/" not in info.key]
    store.delete([*log, BASE + gone])
    execute_rebuild(catalog, plan_rebuild(catalog, "EWR", "weather"))
    assert sorted(catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist()) == [4, 5]
