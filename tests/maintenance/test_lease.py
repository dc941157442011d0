"""The lease of maintenance: one job works, a dead one's is taken over, and two break nothing."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import threading
import time

import lakelog
import pytest
from lakelog.catalog.ambient import Ambient
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import Margins
from lakelog.errors import CapabilityMissing, MaintenanceRunning, StorageError
from lakelog.maintenance.lease import FOLDER, Lease
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import PlainStore

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
HELD = """
import sys, lakelog
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import Margins
from lakelog.maintenance.lease import Lease
store = lakelog.open_catalog(sys.argv[1]).store
with Lease(Catalog(store, margins=Margins(lease_s=float(sys.argv[2])))):
    print("held", flush=True)
    sys.stdin.read()
"""


class Clock:
    def __init__(self):
        self.s = 1_800_000_000.0

    def now(self):
        return EPOCH + dt.timedelta(seconds=self.s)


def lake(clock=None, store=None):
    clock = clock or Clock()
    numbers = iter(range(1_000))
    ambient = Ambient(
        now_us=lambda: int(clock.s * 1e6),
        new_id=lambda: next(numbers).to_bytes(16, "big"),
        monotonic_s=lambda: clock.s,
        sleep_s=lambda s: None,
    )
    return Catalog(store or MemoryStore("lease", now=clock.now), ambient=ambient), clock


def entries(catalog):
    return [json.loads(catalog.store.get(info.key)) for info in catalog.store.list(FOLDER)]


def test_only_one_holds_it_and_it_is_released_at_the_end():
    catalog, _ = lake()
    with Lease(catalog), pytest.raises(MaintenanceRunning, match="whose lease ends in 600 s"):
        Lease(catalog).__enter__()
    with Lease(catalog):
        pass
    assert [entry["released"] for entry in entries(catalog)] == [True, False, True, False]


def test_one_that_died_is_taken_over_once_it_ends_by_the_stores_clock():
    catalog, clock = lake()
    first = Lease(catalog)
    first.__enter__()
    clock.s += 599
    with pytest.raises(MaintenanceRunning):
        Lease(catalog).__enter__()
    clock.s += 2
    with Lease(catalog), pytest.raises(lakelog.errors.RefMoved):
        first.renew()


def test_a_clock_of_this_machine_that_runs_ahead_takes_nothing_over():
    catalog, clock = lake()
    Lease(catalog).__enter__()
    ahead = Clock()
    ahead.s = clock.s + 86_400
    other, _ = lake(ahead, catalog.store)
    with pytest.raises(MaintenanceRunning):
        Lease(other).__enter__()


def test_a_renewed_one_goes_on():
    catalog, clock = lake()
    lease = Lease(catalog)
    lease.__enter__()
    for _ in range(5):
        clock.s += 500
        lease.renew()
    with pytest.raises(MaintenanceRunning):
        Lease(catalog).__enter__()


def test_an_error_releases_it():
    catalog, _ = lake()
    with pytest.raises(RuntimeError), Lease(catalog):
        raise RuntimeError
    with Lease(catalog):
        pass


def test_of_many_that_come_at_once_one_gets_it():
    catalog, _ = lake()
    held, refused = [], []

    def take():
        try:
            held.append(Lease(catalog).__enter__())
        except MaintenanceRunning as error:
            refused.append(error)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 7)


def test_what_cannot_be_read_is_held_for_the_usual_time():
    catalog, clock = lake()
    with Lease(catalog):
        pass
    newest = next(iter(catalog.store.list(FOLDER))).key
    catalog.store.put(newest, b"\x00 no lease")
    with pytest.raises(MaintenanceRunning):
        Lease(catalog).__enter__()
    clock.s += 601
    with Lease(catalog):
        pass


def test_old_entries_are_deleted_and_the_newest_never():
    catalog, clock = lake()
    for _ in range(5):
        with Lease(catalog):
            pass
        clock.s += 40_000
    assert len(entries(catalog)) == 6, "those of the last day"
    assert entries(catalog)[0]["released"]


def test_a_store_without_put_if_absent_has_none():
    catalog, _ = lake(store=PlainStore(MemoryStore("plain")))
    with pytest.raises(CapabilityMissing):
        Lease(catalog).__enter__()


def test_what_it_asks_of_the_store():
    store = CountingStore(MemoryStore("counted"))
    catalog, _ = lake(store=store)
    with Lease(catalog):
        pass
    store.reset()
    with Lease(catalog):
        pass
    assert {kind: number for kind, number in store.counts.items() if number} == {
        "list": 2, "get": 1, "put": 2,
    }  # fmt: skip


# --- Renewed by a thread, between processes -------------------------------------------------------


def holder(url, lease_s):
    process = subprocess.Popen(
        [sys.executable, "-c", HELD, url, str(lease_s)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "held\n"
    return process


def test_a_process_renews_it_and_a_killed_one_is_taken_over(tmp_path):
    process = holder(str(tmp_path), 1.0)
    catalog = lakelog.open_catalog(tmp_path)
    try:
        time.sleep(1.5)
        with pytest.raises(MaintenanceRunning):
            Lease(catalog).__enter__()
    finally:
        process.kill()
        process.wait()
    deadline = time.monotonic() + 30
    while True:
        try:
            with Lease(catalog):
                break
        except MaintenanceRunning:
            assert time.monotonic() < deadline
            time.sleep(0.2)


class Forgetful(MemoryStore):
    """A store whose answers to puts of leases are lost now and then."""

    deaf = False

    def put(self, key, body, *, if_absent=False):
        super().put(key, body, if_absent=if_absent)
        if self.deaf and key.startswith(FOLDER):
            raise StorageError("no answer", key=key)

    def get(self, key, *, start=None, end=None):
        if self.deaf and key.startswith(FOLDER):
            raise StorageError("no answer", key=key)
        return super().get(key, start=start, end=end)


def test_a_renewal_whose_answer_is_lost_costs_nothing():
    store = Forgetful("forgetful")
    with Lease(Catalog(store, margins=Margins(lease_s=0.3))) as lease:
        store.deaf = True
        time.sleep(0.35)
        store.deaf = False
        time.sleep(0.5)
        assert not lease.is_lost
    assert entries(Catalog(store))[0]["released"]


def test_a_process_that_stood_still_knows_that_it_was_taken_over():
    store = MemoryStore("taken")
    with Lease(Catalog(store, margins=Margins(lease_s=0.6))) as lease:
        other = Lease(Catalog(store))
        entry, _ = other._series.read_newest()
        other._series.append(b"{}", entry)
        time.sleep(0.5)
        assert lease.is_lost
    assert entries(Catalog(store))[0] == {}
