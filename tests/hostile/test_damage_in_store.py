"""One object of a log damaged or gone, in a store: what can still be read is read, the rest is an
error that names the object and says what stays readable. Damage to a part of a checkpoint is found
when the part is used; content that was signed anew is in `test_signed_in_store.py`.

With each change a sample of the segments is spoiled, another with each commit; `make soak` spoils
every one."""

from __future__ import annotations

import copy
import datetime as dt
import warnings
from unittest import mock

import pyarrow as pa
import pytest
from asking import LOG, TABLES, TRUTH, ask, copies, damaged_answers, small_log
from corpus import SEGMENTS
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format import segments
from lakelog.catalog.format.names import mirror_key
from lakelog.catalog.log import checkpoint_files
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.catalog.read.statistics import StatisticsWarning
from lakelog.errors import BrokenChain, CorruptError, CorruptObject, MissingTransaction
from lakelog.store import open_store
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient
from lakelog.testing.keys import log_keys, revision_in
from sample import EVERY, some

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

    def __init__(self, store, *, seed=0):
        self.store = store
        self.fake = fake = FakeAmbient(seed)
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

    def copied_to(self, store):
        """The same objects in another store."""
        for info in self.store.list(""):
            store.put(info.key, self.store.get(info.key))
        other = copy.copy(self)
        other.store, other.catalog = store, Catalog(store, ambient=self.fake.ambient)
        other.truth = [
            [row | {"url": store.object_url(f"w/db/{row['path']}")} for row in rows]
            for rows in self.truth
        ]
        return other

    def key(self, revision, kind="transaction"):
        (found,) = [key for key in log_keys(self.store, kind) if revision_in(key) == revision]
        return found

    def damage(self, key, how):
        """An object is damaged, a transaction in both copies."""
        for one in self.copies(key):
            self.store.put(one, DAMAGE[how](self.store.get(one)))

    def replace(self, key, body):
        """An object has other bytes, in both copies."""
        for one in self.copies(key):
            self.store.put(one, body)

    def lose(self, key):
        """An object is gone, in both copies."""
        self.store.delete(list(self.copies(key)))

    def copies(self, key):
        return (key, mirror_key(key)) if key.endswith(".transaction") else (key,)

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


@pytest.fixture(scope="module")
def grown():
    return Lake(MemoryStore("grown"))


@pytest.fixture(params=["memory", "local"])
def lake(request, grown, tmp_path):
    store = MemoryStore("m") if request.param == "memory" else open_store(tmp_path / "root")
    return grown.copied_to(store)


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


# --- Segments -------------------------------------------------------------------------------------


def segments_of_each_kind():
    """Keys of the segment objects of the last checkpoint, with their kind and place."""
    found = {}
    for piece in LOG.state.pieces:
        assert not piece.inline, "all are objects"
        name = f"{segments.NAMES[piece.kind]} {len(found)}"
        found[name] = (piece, SEGMENTS + piece.name)
    return found


PIECES = segments_of_each_kind()
ABOUT = {
    segments.FILES: {"files", "details", "schema", "parts", "statistics", "group statistics"},
    segments.APPLICATIONS: {"applications"},
    segments.HISTORY: {"history"},
    segments.ROW_GROUPS: set(),
    segments.STATISTICS: set(),
    segments.ROW_GROUP_STATISTICS: set(),
}


def costs(piece):
    """What damage to a piece costs where no lower base gives it (docs/format.md, section 4.7)."""
    if piece.kind == segments.SCHEMAS:
        every = set(TRUTH) - {"head", "history", "applications"}
        return every
    if piece.kind != segments.FILES:
        return ABOUT[piece.kind]
    tables = [table for table in TABLES if piece.may_hold(table)]
    return {f"{what} {table}" for what in ABOUT[piece.kind] for table in tables} | {
        "all files",
        "gc",
    }


@pytest.mark.parametrize("count", [4, EVERY])
@pytest.mark.parametrize("what", ["missing", "another's bytes", *DAMAGE])
def test_a_spoiled_segment_costs_its_part_and_no_more(what, count):
    """Only the last checkpoint is left: nothing else gives the part."""
    for name, (piece, key) in some(f"alone {what}", PIECES.items(), count):
        store = small_log(pruned=True)
        spoil(store, key, what)
        refused = damaged_answers(ask(store), {key})
        # A collection of garbage reads all that it must keep, and whatever it can't read ends it.
        assert refused - {"gc"} == costs(piece) - {"gc"}, name
        assert "gc" in refused or not costs(piece) & {"gc"}, name


@pytest.mark.parametrize("count", [4, EVERY])
@pytest.mark.parametrize("what", ["missing", "a flipped bit"])
def test_a_spoiled_segment_costs_nothing_where_an_older_base_serves(what, count):
    """Statistics are not worth an older base: they are unknown then."""
    for name, (piece, key) in some(f"with others {what}", PIECES.items(), count):
        store = small_log(pruned=False)
        spoil(store, key, what)
        found = ask(store)
        assert damaged_answers(found, {key}) <= {"gc"}
        of_statistics = piece.kind in (2, 3, 4)
        told = found.warned.get(StatisticsWarning if of_statistics else CheckpointWarning, [])
        assert any(key in text for text in told), name
        assert of_statistics or StatisticsWarning not in found.warned, name


def spoil(store, key, what):
    """Spoil a segment, and its copy if it has one."""
    other = next(other for _, other in PIECES.values() if other != key)
    for one in copies(store, key):
        if what == "missing":
            store.delete([one])
        elif what == "another's bytes":
            store.put(one, store.get(other))
        else:
            store.put(one, DAMAGE[what](store.get(one)))


@pytest.mark.parametrize("how", DAMAGE)
def test_spoiled_statistics_never_cost_rows(lake, how):
    """Real rows of real files, beside statistics of which nothing is left."""
    honest = lake.catalog.snapshot("db").to_arrow("t")
    with (
        mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0),
        lake.catalog.writer("w", "db", checkpoint_every=0) as writer,
    ):
        writer.checkpoint()
    state = LogReader(lake.store, "w", "db").load()
    spoiled = [piece for piece in state.pieces if piece.kind in (2, 3, 4)]
    assert spoiled
    for piece in spoiled:
        lake.damage(SEGMENTS + piece.name, how)
    snapshot = lake.catalog.snapshot("db")
    assert snapshot.to_arrow("t").equals(honest)
    with pytest.warns(StatisticsWarning, match="unknown"):
        assert snapshot.statistics("t").num_rows == 0
    with lake.catalog.writer("w", "db", checkpoint_every=0) as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"a": [99]}))
        writer.checkpoint()
    now = lake.catalog.snapshot("db")
    assert sorted(now.to_arrow("t")["a"].to_pylist()) == sorted([*honest["a"].to_pylist(), 99])


# --- Transactions ---------------------------------------------------------------------------------


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
    """Under its own name it would be a fork; here it lies under the name of ours."""
    other = Lake(MemoryStore("other"), seed=1)
    key = lake.key(7)
    lake.replace(key, other.store.get(other.key(7)))
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


def test_a_transaction_in_the_place_of_its_neighbour_is_refused(lake):
    lake.replace(lake.key(7), lake.store.get(lake.key(6)))
    with pytest.raises(CorruptObject) as caught:
        lake.catalog.snapshot("db")
    assert caught.value.key == lake.key(7)
    lake.check(6)


def test_a_missing_transaction_says_what_stays_readable(lake):
    key = lake.key(7)
    lake.lose(key)
    for as_of in (None, {"w": HEAD}, lake.tokens[HEAD]):
        with pytest.raises(MissingTransaction) as caught:
            lake.catalog.snapshot("db", as_of)
        assert caught.value.key == key.split(".")[0]
        assert caught.value.readable == "0-6"
        assert "0-6" in str(caught.value)
    for revision in range(7):
        lake.check(revision)


def test_a_missing_transaction_and_the_checkpoint_before_it_broken(lake):
    lake.lose(lake.key(7))
    lake.damage(lake.key(5, "checkpoint"), "cut short")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        with pytest.raises(CorruptError):
            lake.catalog.snapshot("db")
        for revision in range(7):
            lake.check(revision)


def test_a_hole_under_a_checkpoint_hides_itself_alone(lake):
    lake.lose(lake.key(4))
    for revision in (0, 1, 2, 3, 5, 6, 7, HEAD):
        lake.check(revision)
    for as_of in ({"w": 4}, lake.tokens[4], lake.times[4]):
        with pytest.raises(MissingTransaction) as caught:
            lake.catalog.snapshot("db", as_of)
        assert caught.value.readable == "0-3, 5-8"


def test_a_missing_head_cannot_be_seen_but_a_token_of_it_is_refused(lake):
    lake.lose(lake.key(HEAD))
    assert files(lake.catalog.snapshot("db")) == lake.truth[HEAD - 1]
    with pytest.raises(Exception, match="no revision 8"):
        lake.catalog.snapshot("db", lake.tokens[HEAD])
