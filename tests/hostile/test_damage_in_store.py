"""One object of a log damaged or gone, in a store: what can still be read is read, the rest is an
error that names the object and says what stays readable."""

from __future__ import annotations

import datetime as dt
import warnings
from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.log import piece_sink
from lakelog.catalog.read.log_reader import CheckpointWarning
from lakelog.errors import BrokenChain, CorruptError, CorruptObject, MissingTransaction
from lakelog.store import open_store
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient

FOLDER = "w/db/transactions/"
HEAD = 8
DAMAGE = {
    "a flipped bit": lambda body: body[:70] + bytes([body[70] ^ 4]) + body[71:],
    "cut short": lambda body: body[: len(body) // 2],
    "empty": lambda body: b"",
    "a longer one": lambda body: body + b"\0",
}


def files(snapshot):
    """The live files, in an order of their own."""
    return sorted(snapshot.files("t").to_pylist(), key=lambda row: row["path"])


class Lake:
    """Nine revisions, checkpoints at 2 and 5, and what each revision held before any damage."""

    def __init__(self, store):
        self.store = store
        fake = FakeAmbient()
        self.catalog = Catalog(store, ambient=fake.ambient)
        self.truth, self.tokens, self.times = [], [], []
        with self.catalog.writer("w", "db", checkpoint_every=0) as writer:
            paths = []
            for number in range(HEAD + 1):
                fake.move(60)
                with writer.transaction() as tx:
                    if number % 3 == 2:
                        tx.remove(paths.pop(0))
                    paths += tx.write("t", pa.table({"a": [number]}))
                if number in (2, 5):
                    writer.checkpoint()
                snapshot = self.catalog.snapshot("db")
                self.truth.append(files(snapshot))
                self.tokens.append(snapshot.token)
                self.times.append(dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC))

    def key(self, revision, kind="transaction"):
        start = f"{FOLDER}{revision:020d}."
        (found,) = [
            item.key
            for item in self.store.list(FOLDER)
            if item.key.startswith(start) and item.key.endswith(kind)
        ]
        return found

    def damage(self, key, how):
        self.store.put(key, DAMAGE[how](self.store.get(key)))

    def check(self, revision, *, ways=("revision", "token", "time")):
        """A revision reads as it always did, however it is named."""
        named = {
            "revision": {"w": revision},
            "token": self.tokens[revision],
            "time": self.times[revision],
        }
        for way in ways:
            found = self.catalog.snapshot("db", named[way])
            assert files(found) == self.truth[revision], (revision, way)


@pytest.fixture(params=["memory", "local"])
def lake(request, tmp_path):
    store = MemoryStore("m") if request.param == "memory" else open_store(tmp_path / "root")
    return Lake(store)


@pytest.mark.parametrize("how", DAMAGE)
def test_a_broken_newest_checkpoint_falls_back_and_warns(lake, how):
    lake.damage(lake.key(5, "checkpoint"), how)
    for revision in (5, 6, HEAD):
        with pytest.warns(CheckpointWarning, match=lake.key(5, "checkpoint")):
            lake.check(revision)
    with pytest.warns(CheckpointWarning):
        assert files(lake.catalog.snapshot("db")) == lake.truth[HEAD]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lake.check(4, ways=("revision", "token"))


def test_both_checkpoints_broken_falls_back_to_the_log(lake):
    for revision in (2, 5):
        lake.damage(lake.key(revision, "checkpoint"), "a flipped bit")
    with pytest.warns(CheckpointWarning) as caught:
        lake.check(HEAD, ways=("revision",))
    named = "\n".join(str(warning.message) for warning in caught)
    assert lake.key(2, "checkpoint") in named
    assert lake.key(5, "checkpoint") in named


def test_a_checkpoint_that_is_gone_costs_nothing(lake):
    lake.store.delete([lake.key(5, "checkpoint"), lake.key(2, "checkpoint")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for revision in range(HEAD + 1):
            lake.check(revision)


@pytest.mark.parametrize("what", ["missing", *DAMAGE])
def test_a_spoiled_segment_of_a_checkpoint_falls_back_and_warns(lake, what):
    with (
        mock.patch.object(piece_sink, "SPILL_FROM_BYTES", 0),
        lake.catalog.writer("w", "db", checkpoint_every=0) as writer,
    ):
        writer.checkpoint()
    segments = [item.key for item in lake.store.list(FOLDER) if item.key.endswith("segment")]
    assert segments
    for key in segments:
        body = lake.store.get(key)
        if what == "missing":
            lake.store.delete([key])
        else:
            lake.damage(key, what)
        with pytest.warns(CheckpointWarning, match=key.rsplit("/", 1)[-1]):
            lake.check(HEAD, ways=("revision",))
        lake.store.put(key, body)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lake.check(HEAD, ways=("revision",))


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("victim", [7, HEAD])
def test_a_broken_transaction_is_an_error_and_all_before_it_reads(lake, victim, how):
    key = lake.key(victim)
    lake.damage(key, how)
    for as_of in (None, {"w": HEAD}, {"w": victim}, lake.tokens[victim], lake.times[victim]):
        with pytest.raises(CorruptObject) as caught:
            lake.catalog.snapshot("db", as_of)
        assert caught.value.key == key
        assert f"up to {victim - 1} can still be read" in str(caught.value)
    for revision in range(victim):
        lake.check(revision)


def test_a_sound_transaction_of_another_log_breaks_the_chain(lake):
    other = Lake(MemoryStore("other"))
    key = lake.key(7)
    stranger = other.store.get(other.key(7))
    changed = lake.store.get(key) != stranger
    lake.store.put(key, stranger)
    if not changed:  # the same clock and identities made the same bytes
        return
    with pytest.raises((BrokenChain, CorruptObject)) as caught:
        lake.catalog.snapshot("db")
    assert caught.value.key in (key, lake.key(8))
    lake.check(6)


@pytest.mark.parametrize("how", DAMAGE)
def test_a_broken_transaction_below_a_checkpoint_harms_nobody_above(lake, how):
    lake.damage(lake.key(4), how)
    for revision in (0, 1, 2, 3, 5, 6, 7, HEAD):
        lake.check(revision)
    with pytest.raises(CorruptObject) as caught:
        lake.catalog.snapshot("db", {"w": 4})
    assert caught.value.key == lake.key(4)


def test_a_missing_transaction_says_what_stays_readable(lake):
    key = lake.key(7)
    lake.store.delete([key])
    for as_of in (None, {"w": HEAD}, lake.tokens[HEAD]):
        with pytest.raises(MissingTransaction) as caught:
            lake.catalog.snapshot("db", as_of)
        assert caught.value.key == key[: len(FOLDER) + 20]
        assert caught.value.readable == "0-6"
        assert "0-6" in str(caught.value)
    for revision in range(7):
        lake.check(revision)


def test_a_missing_transaction_and_the_checkpoint_before_it_broken(lake):
    lake.store.delete([lake.key(7)])
    lake.damage(lake.key(5, "checkpoint"), "cut short")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        with pytest.raises(CorruptError):
            lake.catalog.snapshot("db")
        for revision in range(7):
            lake.check(revision)


def test_a_hole_under_a_checkpoint_hides_itself_alone(lake):
    lake.store.delete([lake.key(4)])
    for revision in (0, 1, 2, 3, 5, 6, 7, HEAD):
        lake.check(revision)
    for as_of in ({"w": 4}, lake.tokens[4], lake.times[4]):
        with pytest.raises(MissingTransaction) as caught:
            lake.catalog.snapshot("db", as_of)
        assert caught.value.readable == "0-3, 5-8"


def test_a_missing_head_cannot_be_seen_but_a_token_of_it_is_refused(lake):
    lake.store.delete([lake.key(HEAD)])
    assert files(lake.catalog.snapshot("db")) == lake.truth[HEAD - 1]
    with pytest.raises(Exception, match="no revision 8"):
        lake.catalog.snapshot("db", lake.tokens[HEAD])
