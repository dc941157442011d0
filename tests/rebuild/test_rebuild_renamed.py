"""Rebuilding a log that was renamed: its files name the old writer, and the log id tells."""

from __future__ import annotations

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.rebuild import execute_rebuild, plan_rebuild
from rebuild_cases import kinds, reasons, replacing, rows


def copy(store, source: str, target: str) -> None:
    for info in list(store.list(source)):
        store.put(target + info.key.removeprefix(source), store.get(info.key))


def rename(store, source: str, target: str) -> None:
    copy(store, source, target)
    store.delete([info.key for info in list(store.list(source))])


def lose_the_log(store, folder: str) -> None:
    for part in ("transactions/", "segments/"):
        store.delete([info.key for info in list(store.list(folder + part))])


def commit(writer, *values: int) -> str:
    with writer.transaction() as tx:
        (path,) = tx.write("hourly", rows(*values), "p")
    return path


def adopt(catalog, writer: str, database: str = "weather") -> None:
    with catalog.writer(writer, database) as opened:
        opened.adopt_name()


def live(store, fake, writer="JFK", database="weather") -> list[int]:
    head = LogReader(store, writer, database).load().revision
    snapshot = Catalog(store, ambient=fake.ambient).snapshot(database, {writer: head})
    return sorted(snapshot.to_arrow("hourly")["n"].to_pylist())


@pytest.fixture
def renamed(catalog, store):
    """EWR wrote 1 and 2, replaced 1 by 10, and was renamed to JFK, which wrote 3 and 4."""
    with catalog.writer("EWR", "weather") as writer:
        first = commit(writer, 1)
        commit(writer, 2)
        replacing(writer, first, 10)
    rename(store, "EWR/weather/", "JFK/weather/")
    adopt(catalog, "JFK")
    with catalog.writer("JFK", "weather") as writer:
        commit(writer, 3)
        commit(writer, 4)
    return first


def test_a_lost_log_that_was_renamed_comes_back_whole(store, fake, renamed):
    assert live(store, fake) == [2, 3, 4, 10]
    lose_the_log(store, "JFK/weather/")
    plan = plan_rebuild(store, "JFK", "weather", ambient=fake.ambient)
    assert kinds(plan) == {}
    assert any("Footers of 3 files name another writer" in note for note in plan.notes)
    assert renamed not in plan.live
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live(store, fake) == [2, 3, 4, 10]


def test_a_readable_log_that_was_renamed_keeps_its_history(store, fake, renamed):
    plan = plan_rebuild(store, "JFK", "weather", ambient=fake.ambient)
    assert kinds(plan) == {}
    assert [item.original_revision for item in plan.transactions] == [0, 1, 2, 3, 4, 5]
    assert {item.proof for item in plan.transactions} == {"proven"}
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live(store, fake) == [2, 3, 4, 10]


def test_what_is_left_of_a_log_tells_its_id_without_a_file_of_the_new_name(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
        commit(writer, 2)
    rename(store, "EWR/weather/", "JFK/weather/")
    adopt(catalog, "JFK")
    first = max(info.key for info in store.list("JFK/weather/transactions/"))
    body = store.get(first)
    store.put(first, body[:-4] + bytes(byte ^ 0x55 for byte in body[-4:]))
    plan = plan_rebuild(store, "JFK", "weather", ambient=fake.ambient)
    assert kinds(plan) == {}
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live(store, fake) == [1, 2]


def test_a_database_that_was_renamed_and_a_name_that_came_back(catalog, store, fake):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
    rename(store, "EWR/weather/", "EWR/climate/")
    adopt(catalog, "EWR", "climate")
    with catalog.writer("EWR", "climate") as writer:
        commit(writer, 2)
    rename(store, "EWR/climate/", "EWR/weather/")
    adopt(catalog, "EWR")
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 3)
    lose_the_log(store, "EWR/weather/")
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    assert kinds(plan) == {}
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live(store, fake, "EWR") == [1, 2, 3]


@pytest.mark.parametrize("lost", [True, False])
def test_copies_of_another_logs_files_stay_foreign(catalog, store, fake, lost):
    with catalog.writer("EWR", "weather") as writer:
        theirs = {commit(writer, 1), commit(writer, 2)}
    with catalog.writer("JFK", "weather") as writer:
        commit(writer, 3)
        commit(writer, 4)
    copy(store, "EWR/weather/data/", "JFK/weather/data/")
    if lost:
        lose_the_log(store, "JFK/weather/")
    plan = plan_rebuild(store, "JFK", "weather", ambient=fake.ambient)
    assert kinds(plan) == dict.fromkeys(theirs, "quarantined")
    assert all("copied here" in reason for reason in reasons(plan).values())
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live(store, fake) == [3, 4]


@pytest.mark.parametrize("first", [0, 7])
@pytest.mark.parametrize("lost", [True, False])
def test_what_the_log_that_was_copied_wrote_since_is_not_the_copys(
    catalog, store, fake, lost, first
):
    with catalog.writer("EWR", "weather") as writer:
        gone = commit(writer, 1)
        commit(writer, 2)
    copy(store, "EWR/weather/", "JFK/weather/")
    adopt(catalog, "JFK")
    with catalog.writer("EWR", "weather") as writer:
        with writer.transaction() as tx:
            tx.remove(gone)
        theirs = [commit(writer, value) for value in range(100, 108)]
    with catalog.writer("JFK", "weather") as writer:
        removed = commit(writer, 3)
        with writer.transaction() as tx:  # no file tells of this head: only what stands on it
            tx.remove(removed)
        for value in (4, 5, 6):
            commit(writer, value)
    for path in theirs[first:]:
        copy(store, f"EWR/weather/{path}", f"JFK/weather/{path}")
    if lost:
        lose_the_log(store, "JFK/weather/")
    plan = plan_rebuild(store, "JFK", "weather", ambient=fake.ambient)
    assert kinds(plan) == dict.fromkeys(theirs[first:], "quarantined")
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert live(store, fake) == [1, 2, 4, 5, 6]
