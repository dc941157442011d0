"""Tags and published cuts: they name a cut for all readers, and one of many callers moves one."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import re
import shutil
import threading

import lakelog
import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog, LostWriterWarning
from lakelog.catalog.format.ref import FOLDER, decode_ref
from lakelog.errors import (
    CapabilityMissing,
    ConflictError,
    CorruptObject,
    DatabaseNotFound,
    InvalidName,
    RefMoved,
    TagNotFound,
    UnsupportedFeature,
    UsageError,
)
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore


@pytest.fixture
def catalog(tmp_path):
    """Two writers of one database, one of another, each with three commits."""
    catalog = lakelog.open_catalog(str(tmp_path / "lake"))
    for writer, database in (("oslo", "weather"), ("bergen", "weather"), ("oslo", "sales")):
        for number in range(3):
            append(catalog, writer, database, number)
    return catalog


def append(catalog, writer, database, number):
    with catalog.writer(writer, database) as one, one.transaction() as tx:
        tx.write("t", pa.table({"writer": [writer], "number": [number]}))


def rows(catalog, database, as_of=None):
    table = catalog.snapshot(database, as_of).to_arrow("t")
    return sorted(zip(*(table.column(c).to_pylist() for c in ("writer", "number")), strict=True))


def test_a_tag_reads_as_it_was_made(catalog):
    before = {name: rows(catalog, name) for name in ("weather", "sales")}
    tag = catalog.tag("q3", message="closed books")
    assert (tag.number, tag.kind, sorted(tag.cuts)) == (1, "tag", ["sales", "weather"])
    append(catalog, "oslo", "weather", 9)
    append(catalog, "trondheim", "weather", 9)
    assert rows(catalog, "weather", "@q3") == before["weather"]
    assert rows(catalog, "sales", "@q3") == before["sales"]
    assert len(rows(catalog, "weather")) == len(before["weather"]) + 2
    assert [(one.name, one.message) for one in catalog.tags()] == [("q3", "closed books")]
    assert catalog.snapshot("weather", "@q3").token == tag.cuts["weather"].token


def test_a_tag_of_each_form_of_a_cut(catalog):
    snapshot = catalog.snapshot("weather", {"oslo": 1, "bergen": 0})
    forms = {
        "snapshot": snapshot,
        "token": snapshot.token,
        "cut": snapshot.cut,
        "by_database": {"weather": snapshot, "sales": {"oslo": 2}},
        "time": None,
    }
    for name, cut in forms.items():
        catalog.tag(name, cut, databases="weather" if name == "time" else None)
    for name in ("snapshot", "token", "cut", "by_database"):
        assert rows(catalog, "weather", f"@{name}") == rows(catalog, "weather", snapshot.token)
    assert catalog.find_tag("by_database").cuts["sales"].revisions == {"oslo": 2}
    catalog.tag("revisions", {"oslo": 1}, databases=["weather"])
    assert catalog.find_tag("revisions").cuts["weather"].revisions == {"oslo": 1}
    catalog.tag("again", "@by_database", databases=["sales"])
    assert sorted(catalog.find_tag("again").cuts) == ["sales"]


def test_a_tag_stays_until_it_is_removed_and_its_name_is_free_then(catalog):
    catalog.tag("a")
    with pytest.raises(ConflictError, match="already"):
        catalog.tag("a")
    catalog.untag("a")
    with pytest.raises(TagNotFound):
        catalog.snapshot("weather", "@a")
    with pytest.raises(TagNotFound):
        catalog.untag("a")
    assert catalog.tags() == []
    assert catalog.tag("a", databases="sales").number == 3


def test_a_tag_expires(catalog):
    catalog.tag("day", expires=dt.timedelta(days=1))
    catalog.tag("long", expires=dt.datetime(2999, 1, 1, tzinfo=dt.UTC))
    now_us = catalog.ambient.now_us() + 2 * 86_400_000_000
    later = type(catalog.ambient)(now_us=lambda: now_us)
    catalog.store.server_time = lambda: None
    tomorrow = Catalog(catalog.store, ambient=later)
    assert [one.name for one in tomorrow.tags()] == ["long"]
    with pytest.raises(TagNotFound):
        tomorrow.snapshot("weather", "@day")
    assert tomorrow.tag("day").number == 2
    with pytest.raises(UsageError, match="past"):
        catalog.tag("x", expires=dt.timedelta(days=-1))


def test_what_is_not_there_is_named(catalog):
    catalog.tag("q3", databases="weather")
    with pytest.raises(TagNotFound, match=r"'q4'.*q3"):
        catalog.snapshot("weather", "@q4")
    with pytest.raises(DatabaseNotFound, match="weather"):
        catalog.snapshot("sales", "@q3")
    with pytest.raises(InvalidName):
        catalog.tag("no name")
    with pytest.raises(DatabaseNotFound):
        catalog.tag("x", databases="nothing")
    assert [one.name for one in catalog.tags()] == ["q3"]


def test_a_published_cut_moves_and_its_moves_are_listed(catalog):
    first = catalog.publish("prod", message="first")
    append(catalog, "oslo", "weather", 9)
    assert len(rows(catalog, "weather", "@prod")) == 6
    second = catalog.publish("prod", expect=first.number, message="second")
    assert len(rows(catalog, "weather", "@prod")) == 7
    assert [(one.number, one.message) for one in catalog.published("prod")] == [
        (2, "second"),
        (1, "first"),
    ]
    assert rows(catalog, "weather", first.cuts["weather"].token) == rows(
        catalog, "weather", catalog.published("prod")[1].cuts["weather"].token
    )
    with pytest.raises(RefMoved, match="stands at entry 2, not 1"):
        catalog.publish("prod", expect=first.number)
    with pytest.raises(RefMoved):
        catalog.publish("prod", expect=0)
    assert catalog.publish("new", expect=0).number == 1
    catalog.tag("pinned")
    with pytest.raises(ConflictError, match="doesn't move"):
        catalog.publish("pinned")
    assert second.number == 2


def test_opening_a_name_takes_three_requests_for_any_number_of_writers():
    counted = CountingStore(MemoryStore("many"))
    catalog = Catalog(counted)
    for number in range(20):
        for _ in range(1 + number % 3 * 20):  # with a checkpoint or without
            append(catalog, f"w{number}", "db", number)
    catalog.publish("prod")
    listed = rows(catalog, "db")
    counted.reset()
    snapshot = catalog.snapshot("db", "@prod")
    assert counted.reset() == {"put": 0, "get": 2, "list": 1, "head": 0, "delete": 0}
    numbers = snapshot.to_arrow("t").column("number").to_pylist()
    assert sorted(numbers) == sorted(number for _, number in listed)


def test_an_opening_that_is_gone_or_damaged_costs_requests_only(catalog):
    tag = catalog.tag("a")
    before = rows(catalog, "weather")
    key = f"{FOLDER}a/{tag.id.hex()}.weather.opening"
    body = catalog.store.get(key)
    catalog.store.put(key, body[:-1] + bytes([body[-1] ^ 1]))
    assert rows(catalog, "weather", "@a") == before
    catalog.store.delete([key])
    assert rows(catalog, "weather", "@a") == before


def test_a_damaged_entry_is_an_error_that_names_it(catalog):
    catalog.tag("a")
    (key,) = [i.key for i in catalog.store.list(f"{FOLDER}a/") if i.key.endswith(".ref")]
    body = catalog.store.get(key)
    for place in range(0, len(body), 7):
        damaged = body[:place] + bytes([body[place] ^ 4]) + body[place + 1 :]
        with pytest.raises((CorruptObject, UnsupportedFeature), match=re.escape(key)):
            decode_ref(damaged, key)
    catalog.store.put(key, body[:-1])
    with pytest.raises(CorruptObject, match=re.escape(key)):
        catalog.snapshot("weather", "@a")
    with pytest.raises(CorruptObject):
        decode_ref(body, key.replace("/a/", "/b/"))


def test_a_store_without_put_if_absent_has_no_names():
    class Plain(MemoryStore):
        def put(self, key, body, *, if_absent=False):
            super().put(key, body, if_absent=False)

    catalog = Catalog(Plain("plain"))
    append(catalog, "w", "db", 1)
    with pytest.raises(CapabilityMissing, match="put-if-absent"):
        catalog.tag("a")
    left = [info.key for info in catalog.store.list(FOLDER) if "/_probe/" not in info.key]
    assert left == []


def test_threads_that_publish_with_what_they_expect_lose_no_move(catalog):
    catalog.publish("prod", databases="sales")
    moved = []

    def work(name):
        done = 0
        while done < 5:
            at = catalog.find_tag("prod").number
            try:
                moved.append(
                    catalog.publish("prod", databases="sales", expect=at, message=name).number
                )
                done += 1
            except RefMoved:
                continue

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(moved) == list(range(2, 22))


def _publish_checked(url, number, count):
    """Write, check the cut, publish it: the sum of the published rows never goes back."""
    catalog = lakelog.open_catalog(url)
    for _ in range(count):
        append(catalog, f"p{number}", "audited", number)
        while True:
            now = catalog.find_tag("prod")
            snapshot = catalog.snapshot("audited")
            assert snapshot.to_arrow("t").num_rows > 0  # the audit
            published = catalog.snapshot("audited", now.cuts["audited"].token)
            if published.to_arrow("t").num_rows >= snapshot.to_arrow("t").num_rows:
                break  # somebody has published these rows as well
            try:
                catalog.publish("prod", snapshot, expect=now.number, keep_days=1)
                break
            except RefMoved:
                continue


@pytest.mark.slow("eight processes, each of which imports lakelog")
def test_write_audit_publish_under_contention_of_processes(tmp_path):
    url = str(tmp_path / "lake")
    catalog = lakelog.open_catalog(url)
    append(catalog, "first", "audited", 0)
    catalog.publish("prod")
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_publish_checked, args=(url, number, 2)) for number in range(8)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    sizes = [
        catalog.snapshot("audited", one.cuts["audited"].token).to_arrow("t").num_rows
        for one in catalog.published("prod")
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == catalog.snapshot("audited").to_arrow("t").num_rows == 17


def test_a_cut_that_lost_a_writer_is_published_with_a_warning(catalog, tmp_path):
    catalog.publish("prod")
    shutil.rmtree(tmp_path / "lake" / "bergen")
    with pytest.warns(LostWriterWarning, match="bergen/weather"):
        catalog.publish("prod")


@pytest.mark.parametrize(
    "settings",
    [
        {"expires": -1},
        {"expires": "90d"},
        {"expires": dt.timedelta(days=999_999_999)},
        {"cut": {"oslo": 1}},
    ],
)
def test_arguments_of_a_tag_that_can_not_be(catalog, settings):
    with pytest.raises(UsageError):
        catalog.tag("a", **settings)


@pytest.mark.parametrize("expect", [-1, "1", True])
def test_numbers_that_can_not_be_expected(catalog, expect):
    with pytest.raises(UsageError, match="expect="):
        catalog.publish("a", expect=expect)
