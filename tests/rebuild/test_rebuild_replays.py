"""Rebuilding a lost log to which an application replayed what it had committed long ago."""

from __future__ import annotations

import datetime as dt

import pytest
from lakelog.rebuild import execute_rebuild, plan_rebuild
from rebuild_cases import kinds, reasons, rows

BASE = "EWR/weather/"


def lose_the_log(store) -> None:
    for part in ("transactions/", "segments/"):
        store.delete([info.key for info in list(store.list(BASE + part))])


def commit(writer, value: int, version: int | None = None, *, remove: str = ""):
    """One transaction of one file, of the application `job` if it has a version."""
    options = {} if version is None else {"app_id": "job", "app_version": version}
    with writer.transaction(**options) as tx:
        if remove:
            tx.remove(remove)
        (path,) = tx.write("hourly", rows(value), "p")
    return path, tx.commit_info


def live(catalog) -> list[int]:
    return sorted(catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist())


@pytest.mark.parametrize("replaces", [True, False])
@pytest.mark.parametrize("version", [5, 9, 10])
@pytest.mark.parametrize("between", [0, 1])
def test_a_refused_replay_does_not_come_back(catalog, store, fake, version, between, *, replaces):
    with catalog.writer("EWR", "weather") as writer:
        first, _ = commit(writer, 1, 10)
        for value in range(2, 3 + between):
            commit(writer, value)
        replayed, info = commit(writer, 100, version, remove=first if replaces else "")
        assert info.skipped
        for value in range(4, 7):
            commit(writer, value)
    before = live(catalog)
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert kinds(plan) == {replayed: "disproved"}
    assert f"version {version} of application 'job'" in reasons(plan)[replayed]
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live(catalog) == before


def test_a_lower_version_that_was_begun_before_may_have_been_first(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
        early = writer.transaction(app_id="job", app_version=5)
        (path,) = early.write("hourly", rows(5), "p")
        late = writer.transaction(app_id="job", app_version=10)
        late.write("hourly", rows(10), "p")
        early.commit()
        late.commit()
        commit(writer, 2)
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert not plan.left_out
    assert path in plan.live


@pytest.mark.parametrize("proven", [0, 2])
def test_an_application_that_began_anew_is_not_ruled_out_by_what_it_did_before(
    catalog, store, fake, proven
):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1, 10)
        commit(writer, 2)
        fake.move(10)
        now = dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC)
        writer.forget(applications_before=now)
        fake.move(10)
        for version in range(proven):
            _, info = commit(writer, 10 + version, version)
            assert not info.skipped
        commit(writer, 3)
        _, info = commit(writer, 20, proven)  # nothing proves this one
        assert not info.skipped
    before = live(catalog)
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert not plan.left_out
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live(catalog) == before == [1, 2, 3, *range(10, 10 + proven), 20]


@pytest.mark.parametrize("proven", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_a_version_that_was_forgotten_is_committed_again(catalog, store, fake, times, *, proven):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1, 10)
        commit(writer, 2)
        for value in range(times):
            fake.move(10)
            now = dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC)
            writer.forget(applications_before=now)
            fake.move(10)
            early = writer.transaction(app_id="job", app_version=10)
            (refused,) = early.write("hourly", rows(100), "p")
            _, info = commit(writer, 3 + value, 10)
            assert not info.skipped
            assert early.commit().skipped
            if proven or value + 1 < times:
                commit(writer, 20 + value)
    before = live(catalog)
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    execute_rebuild(store, plan, ambient=fake.ambient)
    if proven:
        assert "both are version 10" in reasons(plan)[refused]
        assert live(catalog) == before
    else:  # of the last two nothing tells which one was committed: one of them comes back
        assert len(live(catalog)) == len(before)
        assert set(live(catalog)) - set(before) <= {100}
        assert set(before) - set(live(catalog)) <= {2 + times}
