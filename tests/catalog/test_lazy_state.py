"""A state's parts are read when they are asked for, and only what may hold them; what is damaged is
had from an older checkpoint, if one gives it."""

from __future__ import annotations

import warnings
from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.format import segments
from lakelog.catalog.format.names import data_path, log_folder, segments_folder
from lakelog.catalog.format.objects import (
    decode_checkpoint,
    encode_checkpoint,
)
from lakelog.catalog.format.pieces import Attachments, decode_references
from lakelog.catalog.format.segments import (
    APPLICATIONS,
    FILES,
    HISTORY,
    REFERENCES,
    SCHEMAS,
    STATISTICS,
    decode_segment,
)
from lakelog.catalog.log import state as state_module
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.log.replay import validate
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.errors import CorruptError, CorruptObject, UnsupportedFeature
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import PassingStore
from lakelog.testing.logs import (
    START_US,
    LogBuilder,
    add_action,
    live_paths,
    remove_action,
)  # fmt: skip
from lazy_cases import TABLES, commit

FOLDER, SEGMENTS = log_folder("w", "db"), segments_folder("w", "db")


class Watched(PassingStore):
    """Notes the keys that are read."""

    def __init__(self, store):
        super().__init__(store)
        self.read = []

    def get(self, key, *, start=None, end=None):
        self.read.append(key)
        return super().get(key, start=start, end=end)

    def get_many(self, keys):
        self.read += keys
        return super().get_many(keys)

    @property
    def segments(self):
        return [key for key in self.read if key.startswith(SEGMENTS)]


@pytest.fixture
def store(spilled_log):
    found = Watched(MemoryStore("lazy"))
    spilled_log.put_into(found)
    return found


@pytest.fixture
def reader(store):
    return LogReader(store, "w", "db")


def pieces(log, kind, place=-1):
    """Pieces of one of the checkpoints."""
    decoded = log.reload(checkpoint_of(log, place)).pieces
    return [piece for piece in decoded if piece.kind == kind]


def checkpoint_of(log, place):
    """The checkpoint as it was encoded."""
    name, body = log.checkpoints[place]
    return mock.Mock(decoded=decode_checkpoint(body, FOLDER + name))


def damage(store, name, *, flip=200):
    """Flip a bit of a segment."""
    body = bytearray(store.inner.get(SEGMENTS + name))
    body[min(flip, len(body) - 1)] ^= 4
    store.inner.put(SEGMENTS + name, bytes(body))


def new_pieces(log, kind, place=-1):
    """Those that no earlier checkpoint has."""
    before = {
        piece.name for n in range(len(log.checkpoints) + place) for piece in pieces(log, kind, n)
    }
    return [piece for piece in pieces(log, kind, place) if piece.name not in before]


# --- What is read ---------------------------------------------------------------------------------


def test_a_head_that_is_appended_to_reads_no_segment(spilled_log, reader, store):
    state = reader.load()
    transaction_id = spilled_log.new_id()
    action = add_action(data_path("", "d", 1, transaction_id, 0), "d")
    assert (state.revision, state.next_uuid) == (
        spilled_log.state.revision,
        spilled_log.state.next_uuid,
    )
    with mock.patch.object(type(state), "schemas", {("d", action.add.schema_fingerprint)}):
        validate(state, [action], {transaction_id})
    assert store.segments == []
    assert [key.rsplit(".", 1)[1] for key in store.read] == ["checkpoint", "transaction"]


def test_one_table_reads_only_the_pieces_that_may_hold_it(spilled_log, reader, store):
    for table in TABLES:
        store.read.clear()
        state = reader.load()
        found = state.table_of(table)[0].table(table)["path"].to_pylist()
        assert sorted(found) == live_paths(spilled_log.replayed())[table]
        wanted = {
            SEGMENTS + piece.name
            for kind in (FILES, SCHEMAS)
            for piece in pieces(spilled_log, kind)
            if piece.may_hold(table)
        }
        assert set(store.segments) <= wanted
        assert len(store.segments) == len(set(store.segments))
    assert len(pieces(spilled_log, FILES)) > 1


def test_a_table_that_is_not_there_reads_only_what_may_hold_it(reader, store):
    state = reader.load()
    assert state.table_of("zzz")[0].table("zzz").num_rows == 0
    assert store.segments == []


def test_applications_and_history_read_their_own_pieces(spilled_log, reader, store):
    state = reader.load()
    assert state.applications.versions() == {"x": 1, "app a": 0, "app b": 1, "app c": 2}
    assert set(store.segments) == {
        SEGMENTS + piece.name for piece in pieces(spilled_log, APPLICATIONS)
    }
    store.read.clear()
    assert state.history.table()["revision"].to_pylist() == [0, 1, 2, 3, 4]
    assert set(store.segments) == {SEGMENTS + piece.name for piece in pieces(spilled_log, HISTORY)}


def test_what_a_checkpoint_refers_to_is_decoded_once(reader):
    state = reader.load()
    with mock.patch.object(state_module, "decode_references", wraps=decode_references) as decoding:
        assert state.applications.versions()
        assert state.history.table()
        assert state.schemas.entries
        assert state.files.count
    assert decoding.call_count == 1


def test_a_copy_and_the_state_go_their_own_ways(spilled_log, reader):
    state = reader.load()
    copy = state.copy()
    assert copy.files.count == 40 + 10 + 2
    assert state.loaded_files is None


# --- What damage costs ----------------------------------------------------------------------------


def everything(state):
    """All that a state says."""
    files = {t: sorted(state.table_of(t)[0].table(t)["path"].to_pylist()) for t in TABLES}
    return (
        files, sorted(state.schemas.entries), state.applications.versions(),
        state.history.table().to_pylist(), state.history.revision_at(START_US + 2_000_000),
        state.history.after(1),
    )  # fmt: skip


@pytest.mark.parametrize("kind", [FILES, SCHEMAS, APPLICATIONS, HISTORY])
@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_a_part_is_had_from_an_older_checkpoint_with_the_same_result(
    spilled_log, reader, store, kind, how
):
    expected = everything(spilled_log.replayed())
    for piece in new_pieces(spilled_log, kind):
        if how == "gone":
            store.inner.delete([SEGMENTS + piece.name])
        else:
            damage(store, piece.name)
    state = reader.load()
    base = state.base
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        assert everything(state) == expected
        if kind != FILES or how == "gone":
            return
        assert state.base is base, "other parts are still looked for in the highest one"
        assert state.files.count == 52


@pytest.mark.parametrize("kind", [FILES, SCHEMAS, APPLICATIONS, HISTORY])
def test_also_after_more_was_taken_in(spilled_log, reader, store, kind):
    state = reader.load()
    commit(spilled_log, "a", 2, app=("late", 5))
    spilled_log.put_into(store.inner)
    for piece in new_pieces(spilled_log, kind):
        damage(store, piece.name)
    for found in (reader.advance(state), reader.advance(state.copy())):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CheckpointWarning)
            assert everything(found) == everything(spilled_log.replayed())


def test_each_table_is_had_from_the_highest_checkpoint_that_gives_it(spilled_log, reader, store):
    """`c` is damaged in the last one, `a` in the one before: no single one gives both."""
    (a_piece,) = (p for p in pieces(spilled_log, FILES, 0))
    (c_piece,) = (p for p in new_pieces(spilled_log, FILES) if p.may_hold("c"))
    assert a_piece.name in {p.name for p in pieces(spilled_log, FILES)}
    log_after = spilled_log.replayed()
    expected = {t: live_paths(log_after)[t] for t in ("b", "c")}
    damage(store, c_piece.name)
    state = reader.load()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        for table in ("c", "b", "c", "b"):
            found = state.table_of(table)[0].table(table)["path"].to_pylist()
            assert sorted(found) == expected[table]


def test_a_table_is_unusable_only_if_no_checkpoint_gives_it(spilled_log, reader, store):
    for name, _ in spilled_log.objects[:3]:
        store.inner.delete([FOLDER + name])
    for place in range(3):
        for piece in pieces(spilled_log, FILES, place):
            if piece.may_hold("a"):
                damage(store, piece.name)
    damaged = {p.name for p in pieces(spilled_log, FILES) if p.may_hold("a")}
    state = reader.load()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        with pytest.raises(CorruptObject) as caught:
            state.table_of("a")[0]
        assert caught.value.key.rsplit("/", 1)[1] in damaged, "the highest one that failed"
        for table in ("b", "c"):
            if not any(p.may_hold(table) for p in pieces(spilled_log, FILES) if p.name in damaged):
                assert state.table_of(table)[0].table(table).num_rows == len(
                    live_paths(spilled_log.replayed())[table]
                )


def test_damaged_statistics_cost_no_files_and_no_checkpoint(spilled_log, reader, store):
    for place in range(3):
        for piece in pieces(spilled_log, STATISTICS, place):
            damage(store, piece.name)
    state = reader.load()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert state.files.count == 52
        gone = live_paths(spilled_log.replayed())["a"]
        spilled_log.state = state
        state.fetch = state.fetch
        spilled_log.commit(*(remove_action(path, "a") for path in gone))
        encoded = encode_state(spilled_log.state)
    assert encoded.decoded.message.counts.files == 12


def test_a_damaged_references_segment_costs_the_content_of_that_base(spilled_log, reader, store):
    """The head is in the message, and can be used."""
    name, body = spilled_log.checkpoints[-1]
    decoded = decode_checkpoint(body, FOLDER + name)
    decoded.message.counts.files += 1
    lie, _ = encode_checkpoint(decoded.log, decoded.message, bytes(decoded.attachments))
    store.inner.put(FOLDER + name, lie)
    state = reader.load()
    assert state.revision == 4
    with pytest.warns(CheckpointWarning, match="counts"):
        assert everything(state) == everything(spilled_log.replayed())


def test_too_new_references_are_never_fallen_back_from(spilled_log, reader, store):
    name, body = spilled_log.checkpoints[-1]
    decoded = decode_checkpoint(body, FOLDER + name)
    rows = decode_segment(decoded.references.inline, REFERENCES, decoded.references.rows, "k")
    kinds = [*rows["kind"].to_pylist()[:-1], 99]
    rows = rows.set_column(0, rows.schema.field("kind"), pa.array(kinds, pa.uint8()))
    attachments = Attachments()
    attachments.add(bytes(decoded.attachments[: decoded.references.offset]))
    with mock.patch.dict(segments.NAMES, {99: "later"}):
        decoded.message.references.CopyFrom(attachments.add_rows(REFERENCES, rows))
    newer, _ = encode_checkpoint(decoded.log, decoded.message, attachments.joined())
    store.inner.put(FOLDER + name, newer)
    state = reader.load()
    with pytest.raises(UnsupportedFeature, match="kind 99"):
        state.table_of("a")[0]


# --- Bases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["uuid", "digest"])
def test_a_checkpoint_that_contradicts_the_chain_is_fallen_back_from(
    spilled_log, reader, store, field
):
    name, body = spilled_log.checkpoints[-1]
    decoded = decode_checkpoint(body, FOLDER + name)
    lie = bytearray(getattr(decoded.message, field))
    lie[-1] ^= 1
    setattr(decoded.message, field, bytes(lie))
    wrong, _ = encode_checkpoint(decoded.log, decoded.message, bytes(decoded.attachments))
    store.inner.put(FOLDER + name, wrong)
    with pytest.warns(CheckpointWarning):
        state = reader.load()
    assert state.base.message.revision == 2
    assert everything(state) == everything(spilled_log.replayed())


def test_a_log_that_breaks_at_one_transaction_from_every_base_is_broken_there(
    spilled_log, reader, store
):
    name, _ = spilled_log.objects[-1]
    other = LogBuilder(seed=5)
    other.log, other.state = spilled_log.log, spilled_log.replayed(3)
    wrong_name, wrong = other.encode(change=lambda m: setattr(m, "previous_digest", bytes(32)))
    assert wrong_name == name
    store.inner.put(FOLDER + name, wrong)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        with pytest.raises(CorruptError) as caught:
            reader.load()
    assert caught.value.key == FOLDER + name
