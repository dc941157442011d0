"""What a log of a million transactions costs to open: pages of names, and objects, are counted."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import FakeAmbient
from lakelog.testing.long_log import DATABASE, EVERY, LENGTH, LongLog, time_of

HEAD = LENGTH - 1
BASE = HEAD // EVERY * EVERY
OLD = 500_000


def with_head():
    """The log, with real objects at the head."""
    log = LongLog(MemoryStore("long"))
    log.make_real(HEAD - 400, HEAD)
    return log


@pytest.fixture(scope="module")
def long():
    """For those who only read: real objects at the head and in the middle."""
    log = with_head()
    log.make_real(OLD - 40, OLD + 40)
    return log


@pytest.fixture
def counting(long):
    return CountingStore(long)


def spent(counting):
    return {kind: count for kind, count in counting.reset().items() if count}


def reader(counting):
    return LogReader(counting, "w", DATABASE)


def test_the_head(counting):
    """The newest checkpoint is on the first page."""
    assert reader(counting).load().revision == HEAD
    assert spent(counting) == {"list": 1, "get": 1 + HEAD - BASE}


@pytest.mark.parametrize("below", [0, 1, 15, 90, 99, 100, 101, 150, 200, 300])
def test_a_recent_revision(counting, below):
    assert reader(counting).load(HEAD - below).revision == HEAD - below
    found = spent(counting)
    assert found["list"] <= 2
    assert found["get"] <= 1 + EVERY


@pytest.mark.parametrize("revision", [OLD - 20, OLD, OLD + 1, OLD + 15, OLD + 40])
def test_an_old_revision(counting, revision):
    assert reader(counting).load(revision).revision == revision
    own = revision % EVERY == 0  # the beginning of the checkpoint's own transaction
    assert spent(counting) == {"list": 2, "get": 1 + own + revision % EVERY}


def test_a_token(counting, long):
    """It names the incarnation, so what is above it isn't looked at."""
    for revision in (HEAD, HEAD - 250, OLD + 3):
        token = Catalog(long).snapshot(DATABASE, {"w": revision}).token
        counting.reset()
        assert Catalog(counting).snapshot(DATABASE, token).cut.revisions == {"w": revision}
        assert spent(counting) == {"list": 1, "get": 1 + revision % EVERY}


def test_a_revision_by_number(counting):
    Catalog(counting).snapshot(DATABASE, {"w": OLD + 3})
    assert spent(counting) == {"list": 2, "get": 1 + 3}


@pytest.mark.parametrize("revision", [HEAD, HEAD - 1, HEAD - 30, HEAD - 380])
def test_a_time(counting, revision):
    """The listing of the writers, then a page for the head; a time before the head reads the log
    there once more: the head's page again, and one for a revision that is not on it."""
    at = dt.datetime.fromtimestamp(time_of(revision) / 1e6 + 0.5, dt.UTC)
    assert Catalog(counting).snapshot(DATABASE, at).cut.revisions == {"w": revision}
    found = spent(counting)
    assert found["list"] - 1 <= 3
    assert found["get"] <= 1 + EVERY + 1 + 1 + EVERY


def test_a_refresh(counting):
    snapshot = Catalog(counting).snapshot(DATABASE)
    counting.reset()
    assert snapshot.refresh() is snapshot
    assert spent(counting) == {"list": 1 + 1}, "and one that finds new writers"
    older = Catalog(counting).snapshot(DATABASE, {"w": HEAD - 7})
    counting.reset()
    assert older.refresh().cut.revisions == {"w": HEAD}
    assert spent(counting) == {"list": 1, "get": 7}


def test_a_refresh_of_what_is_far_behind(counting):
    """A page holds the names of the revisions in between; each is read once."""
    older = Catalog(counting).snapshot(DATABASE, {"w": HEAD - 300})
    counting.reset()
    assert older.refresh().cut.revisions == {"w": HEAD}
    assert spent(counting) == {"list": 2, "get": 300}


@pytest.mark.parametrize("shared", [False, True])
def test_opening_for_append_reads_the_head_alone(shared):
    """1 LIST page of each place, the checkpoint, and each transaction after it. No segment. The
    first opening probes the store, and puts the copies that this log lacks."""
    counting = CountingStore(with_head())
    catalog = Catalog(counting, ambient=FakeAmbient().ambient)
    catalog.writer("w", DATABASE, shared=shared, checkpoint_every=0).close()
    counting.reset()
    writer = catalog.writer("w", DATABASE, shared=shared, checkpoint_every=0)
    assert spent(counting) == {"get": 1 + HEAD - BASE, "list": 2}
    with writer.transaction() as tx:
        tx.write("t", pa.table({"a": pa.array([1], pa.int64())}))
    assert tx.commit_info.revision == LENGTH
    assert spent(counting) == {"head": 1, "put": 1 + 1}
