"""What a rebuild takes in: files that are not what they seem, and what is kept of the others."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from rebuild_cases import (
    BASE,
    commit,
    described,
    kinds,
    lose_objects,
    lose_the_log,
    parquet,
    reasons,
    replacing,
    rows,
)

# --- Files that are not what they seem ------------------------------------------------------------


def test_copies_and_strangers_are_quarantined_with_the_reason(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        path, _ = commit(writer, 1)
        commit(writer, 2)
    with catalog.writer("JFK", "weather") as writer:
        theirs, _ = commit(writer, 3)
    with catalog.writer("EWR", "other") as writer:
        elsewhere, _ = commit(writer, 4)
    name = path.rsplit("/", 1)[1]
    body = store.get(BASE + path)
    copies = {
        "data/p/hourly/backup.parquet": (body, "copy under another name"),
        f"data/p/hourly/9-{name.split('-', 1)[1]}": (body, "copy under another name"),
        f"data/p/daily/{name}": (body, "table 'hourly'"),
        f"data/q/hourly/{name}": (body, "partition 'p'"),
        theirs: (store.get(f"JFK/weather/{theirs}"), "writer JFK"),
        elsewhere: (store.get(f"EWR/other/{elsewhere}"), "database other"),
        f"data/_/hourly/1-{'ab' * 16}-0.parquet": (parquet(rows(1)), "no lakelog metadata"),
    }
    for copy, (content, _) in copies.items():
        store.put(BASE + copy, content)
    plan = plan_of()
    # One of a name that lakelog gives to none may have been added to the log that is lost.
    undecided = {"data/p/hourly/backup.parquet": "undecided"}
    assert kinds(plan) == dict.fromkeys(copies, "quarantined") | undecided
    for copy, (_, words) in copies.items():
        assert words in reasons(plan)[copy]
    assert path in plan.live
    assert len(plan.live) == 2


def damage(body: bytes, how: str) -> bytes:
    footer = int.from_bytes(body[-8:-4], "little")
    return {
        "cut": body[: len(body) // 2],
        "empty": b"",
        "flipped": body[: -footer - 4]
        + bytes(b ^ 0x55 for b in body[-footer - 4 : -8])
        + body[-8:],
        "metadata": body.replace(b"lakelog.base_revision", b"lakelog.base_rexision"),
        "version": body.replace(b"lakelog.version\x18\x011", b"lakelog.version\x18\x012"),
    }[how]


@pytest.mark.parametrize("how", ["cut", "empty", "flipped", "metadata", "version"])
def test_a_damaged_file_is_quarantined_and_stays_where_it_is(catalog, store, plan_of, how):
    with catalog.writer("EWR", "weather") as writer:
        bad, _ = commit(writer, 1)
        good, _ = commit(writer, 2)
    broken = damage(store.get(BASE + bad), how)
    assert broken != store.get(BASE + bad)
    store.put(BASE + bad, broken)
    plan = plan_of()
    assert kinds(plan) == {bad: "quarantined"}
    assert reasons(plan)[bad]
    assert set(plan.live) == {good}
    execute_rebuild(store, plan)
    assert store.get(BASE + bad) == broken
    assert catalog.snapshot("weather").to_arrow("hourly")["n"].to_pylist() == [2]


def test_a_file_that_kills_its_reader_is_quarantined(catalog, store, plan_of, monkeypatch):
    from lakelog.catalog.data.footers import pool as footer_pool
    from lakelog.catalog.data.footers.parse import NotParquet

    with catalog.writer("EWR", "weather") as writer:
        bad, _ = commit(writer, 1)
        commit(writer, 2)
    parse = footer_pool.FooterPool.parse

    def deadly(self, tail, size_bytes):
        if size_bytes == len(store.get(BASE + bad)):
            raise NotParquet("the Parquet library dies of its footer (SIGABRT)")
        return parse(self, tail, size_bytes)

    store.put(BASE + bad, store.get(BASE + bad)[:4] + b"x" + store.get(BASE + bad)[4:])
    monkeypatch.setattr(footer_pool.FooterPool, "parse", deadly)
    assert "SIGABRT" in reasons(plan_of())[bad]


def test_other_objects_below_data_are_ignored(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
    junk = ["data/_SUCCESS", "data/p/hourly/.part.crc", "data/p/hourly/readme.txt"]
    for path in junk:
        store.put(BASE + path, b"junk")
    plan = plan_of()
    assert kinds(plan) == dict.fromkeys(junk, "ignored")
    assert "ignored" in [row["kind"] for row in described(plan)["left_out"]]


def test_a_foreign_file_that_was_replaced_is_not_taken_in(catalog, store, plan_of):
    store.put(f"{BASE}data/_/hourly/part-0.parquet", parquet(rows(5, 6)))
    with catalog.writer("EWR", "weather") as writer:
        with writer.transaction() as tx:
            tx.add("hourly", "data/_/hourly/part-0.parquet")
        new, _ = replacing(writer, "data/_/hourly/part-0.parquet", 5, 6)
    plan = plan_of(include_foreign=True)
    assert set(plan.live) == {new}
    assert "replaced this one" in reasons(plan)["data/_/hourly/part-0.parquet"]


# --- What is kept, and what can't be --------------------------------------------------------------


def test_a_removal_of_which_nothing_is_left_is_lost_and_said(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        gone, _ = commit(writer, 1)
        with writer.transaction() as tx:
            tx.remove(gone)
        commit(writer, 2)
    assert gone not in plan_of().live
    lose_objects(store)
    plan = plan_of()
    assert gone in plan.live
    assert any("revisions up to 1" in note for note in plan.notes)
    assert any("objects of actions" in note for note in plan.notes)


def test_files_that_gc_took_are_counted_and_warned_of(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        first, _ = commit(writer, 1)
        second, _ = replacing(writer, first, 2)
        third, _ = replacing(writer, second, 3)
        commit(writer, 4)
    store.delete([BASE + second])
    plan = plan_of()
    assert third in plan.live
    assert first in plan.live  # nobody left says that it was replaced
    assert any("1 replaced files" in note and "of 1 transactions" in note for note in plan.notes)


def test_commit_times_are_the_clocks_where_those_are_times(fake):
    store = MemoryStore(now=lambda: dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC))
    catalog = Catalog(store, ambient=fake.ambient)
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
        at_us = fake.wall_us
        fake.move(10)
        for clock in [(1, 2), (-5, -4), (1 << 62, 1 << 62), (at_us + 10**15, at_us + 10**15)]:
            with writer.transaction() as tx:
                tx.write("hourly", rows(2), clock=clock)
        fake.move(10)
        commit(writer, 3)
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    times = [item.committed_at_us for item in plan.transactions]
    stored_us = at_us + 10_000_000
    assert times == [at_us, *range(stored_us, stored_us + 4), at_us + 20_000_000]
    execute_rebuild(store, plan)
    history = catalog.history("weather")["committed_at"].to_pylist()
    assert history[0] == dt.datetime.fromtimestamp(at_us / 1e6, dt.UTC)
    clocks = catalog.snapshot("weather").files("hourly", details=True)["last_clock"].to_pylist()
    assert {2, -4, 1 << 62} <= set(clocks)


def test_ids_and_several_schemas_survive(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        for table in (rows(1), pa.table({"n": [2], "b": [1.5]})):
            with writer.transaction() as tx:
                tx.write("hourly", table)
        with writer.transaction() as tx:
            tx.evolve("hourly", drop=["b"], add={"b": pa.string()})
            tx.write("hourly", pa.table({"b": ["x"]}))
    before = catalog.snapshot("weather")
    schema, data = before.schema("hourly"), before.to_arrow("hourly")
    execute_rebuild(catalog, plan_of())
    after = catalog.snapshot("weather")
    assert after.schema("hourly").equals(schema, check_metadata=True)
    assert after.to_arrow("hourly").equals(data)


def adds_of(store) -> dict[str, bytes]:
    """What the transactions of the log in use say of each file."""
    log = LogReader(store, "EWR", "weather")
    names = [item for items in log.names().transactions.values() for item in items]
    actions = [action for item in names for action in log.transaction(item).message.actions]
    return {
        action.add.path: action.add.SerializeToString(deterministic=True)
        for action in actions
        if action.WhichOneof("kind") == "add"
    }


def test_facts_and_statistics_are_those_of_the_commit(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 3, 9)
        commit(writer, 4)
    before = adds_of(store)
    assert len(before) == 2
    execute_rebuild(store, plan_of())
    assert adds_of(store) == before


def test_a_transaction_of_many_files_becomes_a_batch(catalog, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        with writer.transaction() as tx:
            paths = [tx.write("hourly", rows(n), f"p{n % 7}")[0] for n in range(300)]
        tx = writer.transaction()
        for path in paths[:5]:
            tx.remove(path)
        for number in range(280):
            tx.write("daily" if number % 2 else "hourly", rows(number))
        tx.commit()
    info = execute_rebuild(catalog, plan_of())
    assert (info.files, info.revision) == (575, 1)
    assert catalog.snapshot("weather", {"EWR": 0}).files("hourly").num_rows == 300
    assert catalog.snapshot("weather").files("hourly").num_rows == 435
