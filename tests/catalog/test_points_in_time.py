"""Points in time: by token, revision and clock, over several writers."""

from __future__ import annotations

import datetime as dt
import warnings
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.cut import Cut, Position
from lakelog.catalog.log.state import State
from lakelog.catalog.read.log_reader import CheckpointWarning
from lakelog.catalog.read.points_in_time import ClockWarning
from lakelog.errors import (
    CorruptError,
    CorruptObject,
    ForkError,
    InvalidName,
    InvalidToken,
    NaiveTime,
    RevisionNotFound,
    SnapshotPruned,
    TimeBeforeFirstCommit,
    UsageError,
    WriterNotFound,
)
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import START_US, FakeAmbient
from lakelog.testing.keys import log_keys
from reader_cases import values, write


def moment(us):
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=us)


# --- By token -------------------------------------------------------------------------------------


def test_a_token_names_its_cut_for_ever(catalog_of_two, store):
    tokens = {}
    for step in range(3):
        snapshot = catalog_of_two.snapshot("db", {"A": step, "B": step})
        tokens[snapshot.token] = values(snapshot)
    write(catalog_of_two.writer("A", "db"), 100)
    for token, expected in tokens.items():
        again = Catalog(store).snapshot("db", token)
        assert values(again) == expected
        assert again.token == token


def test_the_newest_snapshots_token_reads_the_same(catalog_of_two, store):
    snapshot = catalog_of_two.snapshot("db")
    write(catalog_of_two.writer("B", "db"), 100)
    assert values(Catalog(store).snapshot("db", snapshot.token)) == values(snapshot)
    assert values(Catalog(store).snapshot("db", snapshot.cut)) == values(snapshot)


def test_a_token_of_another_database(catalog_of_two):
    token = catalog_of_two.snapshot("db").token
    with pytest.raises(InvalidToken, match="'db'"):
        catalog_of_two.snapshot("other", token)


@pytest.mark.parametrize("text", ["", "x", "2024-01-01", "ll1-", "ll1-AAAA", "LL1-x", "latest"])
def test_text_that_is_no_token(catalog_of_two, text):
    with pytest.raises(InvalidToken) as caught:
        catalog_of_two.snapshot("db", text)
    assert caught.value.exit_code == 2


def test_a_token_of_a_log_that_was_written_anew(catalog_of_two, store):
    """The same numbers, but other transactions stand there now."""
    token = catalog_of_two.snapshot("db").token
    store.delete([item.key for item in store.list("A/db/")])
    writer = catalog_of_two.writer("A", "db")
    for value in range(3):
        write(writer, value)
    with pytest.raises(RevisionNotFound, match="another transaction"):
        catalog_of_two.snapshot("db", token)
    assert catalog_of_two.snapshot("db", {"A": 2, "B": 2})


def test_a_token_beyond_the_log(catalog_of_two):
    cut = Cut("db", {"A": Position(99)})
    with pytest.raises(RevisionNotFound, match="99"):
        catalog_of_two.snapshot("db", cut.token)


def test_a_token_of_a_writer_that_is_not_there(catalog_of_two):
    with pytest.raises(WriterNotFound, match="'C'"):
        catalog_of_two.snapshot("db", Cut("db", {"C": Position(0)}).token)


def test_a_token_of_a_pruned_revision(catalog_of_two, store):
    token = catalog_of_two.snapshot("db", {"A": 0, "B": 2}).token
    catalog_of_two.writer("A", "db").checkpoint()
    store.delete(log_keys(store, writer="A")[:2])
    store.delete([item.key for item in store.list("A/db/mirror/")])
    with pytest.raises(SnapshotPruned):
        catalog_of_two.snapshot("db", token)


# --- By revision ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        ({"A": 0}, [0]),
        ({"A": 2}, [0, 2, 4]),
        ({"A": 1, "B": 0}, [0, 1, 2]),
        ({"B": 2}, [1, 3, 5]),
    ],
)
def test_a_mapping_is_the_whole_cut(catalog_of_two, cut, expected):
    assert values(catalog_of_two.snapshot("db", cut)) == expected


@pytest.mark.parametrize(
    ("cut", "error"),
    [
        ({"A": 3}, RevisionNotFound),
        ({"A": -1}, RevisionNotFound),
        ({"A": 1 << 70}, RevisionNotFound),
        ({"C": 0}, WriterNotFound),
        ({}, InvalidToken),
        ({"_refs": 0}, InvalidName),
        ({"../x": 0}, InvalidName),
        ({7: 0}, InvalidName),
        ({"A": "1"}, UsageError),
        ({"A": 1.5}, UsageError),
        ({"A": None}, UsageError),
    ],
    ids=str,
)
def test_a_mapping_that_names_no_cut(catalog_of_two, cut, error):
    with pytest.raises(error) as caught:
        catalog_of_two.snapshot("db", cut)
    assert caught.value.hint


# --- By time --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after_s", "expected"),
    [
        (0, [0]),
        (0.999999, [0]),
        (1, [0, 1]),
        (4.5, [0, 1, 2, 3, 4]),
        (5, [0, 1, 2, 3, 4, 5]),
        (1e6, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_a_time_takes_each_writers_newest_commit_by_then(catalog_of_two, after_s, expected):
    at = moment(START_US) + dt.timedelta(seconds=after_s)
    assert values(catalog_of_two.snapshot("db", at)) == expected
    assert values(catalog_of_two.snapshot("db", at.astimezone(ZoneInfo("Asia/Tokyo")))) == expected


def test_a_time_takes_each_writers_own_clock(store):
    """B's clock is ten seconds behind: by its own time it committed before A did."""
    for name, offset_s in (("A", 0), ("B", -10)):
        fake = FakeAmbient(now_us=START_US + offset_s * 1_000_000)
        writer = Catalog(store, ambient=fake.ambient).writer(name, "db")
        write(writer, offset_s)
    catalog = Catalog(store)
    assert values(catalog.snapshot("db", moment(START_US - 5_000_000))) == [-10]
    assert values(catalog.snapshot("db", moment(START_US))) == [-10, 0]
    token = catalog.snapshot("db").token
    assert values(catalog.snapshot("db", token)) == [-10, 0]


def future(ahead_s):
    """A store, and a log of it whose second commit a clock that was ahead has stamped."""
    store = MemoryStore("future", now=lambda: moment(START_US))
    fake = FakeAmbient(now_us=START_US - 60_000_000)
    writer = Catalog(store, ambient=fake.ambient).writer("A", "db")
    write(writer, 1)
    fake.move(60 + ahead_s)
    write(writer, 2)
    return store


@pytest.mark.parametrize("after_s", [-1, 0, 60])
def test_commits_of_the_future_are_told_where_now_is_asked_for(after_s):
    store = future(200)  # no more than a clock may be ahead
    head = log_keys(store, "transaction", writer="A")[-1]
    with pytest.warns(ClockWarning) as told:
        snapshot = Catalog(store).snapshot("db", moment(START_US + after_s * 1_000_000))
    assert values(snapshot) == [1]
    assert len(told) == 1
    text = str(told[0].message)
    assert head in text
    assert "A=1" in text
    fake = FakeAmbient(now_us=START_US + 100_000_000)
    write(Catalog(store, ambient=fake.ambient).writer("B", "new"), 1)
    with pytest.warns(ClockWarning, match="B=0"), pytest.raises(TimeBeforeFirstCommit):
        Catalog(store).snapshot("new", moment(START_US))


def test_commits_after_a_time_in_the_past_are_not_told():
    store = future(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(Catalog(store).snapshot("db", moment(START_US - 30_000_000))) == [1]
        assert values(Catalog(store).snapshot("db", moment(START_US + 300_000_000))) == [1, 2]
        assert values(Catalog(store).snapshot("db")) == [1, 2]
        assert values(Catalog(future(1)).snapshot("db", moment(START_US))) == [1]  # to a second


@pytest.mark.parametrize("commits", [0, 3])
def test_to_the_microsecond(catalog, fake, commits):
    writer = catalog.writer("A", "db", checkpoint_every=0)
    times = []
    for value in range(4):
        fake.wall_us = START_US + 999_999 * value + 7
        times.append(write(writer, value).committed_at_us)
        if value < commits:
            writer.checkpoint()
    for value, time_us in enumerate(times):
        assert values(catalog.snapshot("db", moment(time_us))) == list(range(value + 1))
        if value:
            assert values(catalog.snapshot("db", moment(time_us - 1))) == list(range(value))


@pytest.mark.parametrize(
    "at",
    [
        moment(START_US - 1),
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(1969, 1, 1, tzinfo=ZoneInfo("America/New_York")),
    ],
    ids=str,
)
def test_a_time_before_the_first_commit(catalog_of_two, at):
    with pytest.raises(TimeBeforeFirstCommit) as caught:
        catalog_of_two.snapshot("db", at)
    assert caught.value.exit_code == 3
    assert caught.value.hint


def test_a_time_before_year_1_in_utc(catalog_of_two):
    first = dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14)))
    with pytest.raises(TimeBeforeFirstCommit, match="0001-01-01"):
        catalog_of_two.snapshot("db", first)


def test_the_end_of_time_is_the_newest(catalog_of_two):
    at = dt.datetime.max.replace(tzinfo=dt.UTC)
    assert len(values(catalog_of_two.snapshot("db", at))) == 6


class Vague(dt.tzinfo):
    """A time zone that says nothing."""

    def utcoffset(self, when):
        return None


@pytest.mark.parametrize(
    "at", [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=Vague())], ids=["none", "vague"]
)
def test_naive_times_are_refused(catalog_of_two, at):
    with pytest.raises(NaiveTime) as caught:
        catalog_of_two.snapshot("db", at)
    assert caught.value.exit_code == 2
    assert "aware" in caught.value.hint


@pytest.mark.parametrize(
    "at", [dt.date(2024, 1, 1), 7, 1.5, b"ll1-", [], object()], ids=lambda at: type(at).__name__
)
def test_what_is_no_point_in_time(catalog_of_two, at):
    with pytest.raises(UsageError, match=f"type {type(at).__name__}") as caught:
        catalog_of_two.snapshot("db", at)
    assert "revision by writer: {'writer': 7}" in caught.value.hint


def test_a_time_that_was_pruned(catalog_of_two, store):
    catalog_of_two.writer("A", "db").checkpoint()
    names = [item.key for item in store.list("A/db/transactions/")]
    store.delete([key for key in names if key.endswith("transaction")])
    store.delete([item.key for item in store.list("A/db/mirror/")])
    with pytest.raises(SnapshotPruned) as caught:
        catalog_of_two.snapshot("db", moment(START_US + 2_500_000))
    assert caught.value.exit_code == 3
    assert len(values(catalog_of_two.snapshot("db", moment(START_US + 4_000_000)))) == 5


def test_a_time_before_the_first_commit_of_a_pruned_log(catalog, store, fake):
    """Its history still tells: nothing had been committed."""
    writer = catalog.writer("A", "db")
    for value in range(3):
        write(writer, value)
        fake.move(1)
    writer.checkpoint()
    names = [item.key for item in store.list("A/db/transactions/")]
    store.delete([key for key in names if key.endswith("transaction")])
    with pytest.raises(TimeBeforeFirstCommit):
        catalog.snapshot("db", moment(START_US - 1))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.sampled_from([0, 3]))
def test_time_travel_against_a_list_of_commits(steps, every):
    store, fake = MemoryStore(), FakeAmbient()
    catalog = Catalog(store, ambient=fake.ambient)
    writer = catalog.writer("w", "db", checkpoint_every=every)
    commits = []
    for value, step in enumerate(steps):
        fake.wall_us += step
        commits.append((write(writer, value).committed_at_us, value))
    for at_us in range(START_US - 1, START_US + sum(steps) + len(steps) + 1):
        expected = [value for time_us, value in commits if time_us <= at_us]
        if expected:
            assert values(catalog.snapshot("db", moment(at_us))) == expected
        else:
            with pytest.raises(TimeBeforeFirstCommit):
                catalog.snapshot("db", moment(at_us))


# --- Damage ---------------------------------------------------------------------------------------


def test_a_log_without_a_revision_that_counts_is_refused_at_a_time_as_at_its_head(
    catalog_of_two, store
):
    """It is damaged, and no log that begins later: its rows may not go without a word."""
    for key in [item.key for item in store.list("B/db/transactions/")]:
        store.put(key.replace("/998-", "/997-"), store.get(key))
        store.delete([key])
    store.delete([item.key for item in store.list("B/db/mirror/")])
    for as_of in (None, moment(START_US * 2)):
        with pytest.raises(CorruptError, match="B/db"):
            Catalog(store).snapshot("db", as_of)


def test_where_no_revision_can_be_read_a_time_is_refused_for_what_fails_at_the_head(
    catalog_of_two, store
):
    newest, *older = sorted(item.key for item in store.list("B/db/transactions/"))
    with catalog_of_two.writer("B", "db") as writer:
        assert writer.checkpoint().revision == 2
    store.delete([item.key for item in store.list("B/db/mirror/")])
    store.put(newest[: -len("01234567.transaction")] + "01234567.transaction", store.get(newest))
    store.delete([older[-1]])
    for as_of in (None, moment(START_US * 2)):
        with pytest.raises(ForkError):
            Catalog(store).snapshot("db", as_of)


def test_the_history_is_needed_for_times_below_the_base_alone(catalog, fake):
    writer = catalog.writer("w", "db", checkpoint_every=3)
    times = []
    for value in range(5):
        times.append(moment(write(writer, value).committed_at_us))
        fake.move(1)
    writer.close()
    broken = CorruptObject("REFERENCES", key="r")
    with mock.patch.object(State, "load_history", side_effect=broken):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            later = [catalog.snapshot("db", at).cut.writers["w"].revision for at in times[2:]]
        assert later == [2, 3, 4]
        with pytest.warns(CheckpointWarning), pytest.raises(CorruptObject):
            catalog.snapshot("db", times[0])
