"""A checkpoint says what replay says; it keeps the pieces of the one before, and its bytes follow
from the state and its base alone."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format import segments
from lakelog.catalog.format.frame import FrameKind, encode_frame
from lakelog.catalog.format.objects import decode_checkpoint, encode_checkpoint
from lakelog.catalog.format.segments import (
    APPLICATIONS,
    FILES,
    HISTORY,
    REFERENCES,
    SCHEMAS,
    STATISTICS,
)
from lakelog.catalog.log import checkpoint, checkpoint_files
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.catalog.wire import lakelog_checkpoint_pb2 as checkpoint_wire
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptError, CorruptObject, UnsupportedFeature
from lakelog.store.memory import MemoryStore
from lakelog.testing.logs import (
    LogBuilder,
    add_action,
    definition_action,
    live_paths,
    remove_action,
    schema_action,
)

# A history: for each commit, which files change hands, and whether a checkpoint follows.
STEPS = st.lists(
    st.tuples(st.sets(st.integers(0, 11), max_size=6), st.booleans()), min_size=1, max_size=8
)


def spilling(spill=True):
    return mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0 if spill else 1 << 20)


def history(steps, *, checkpoints=True):
    log, live = LogBuilder(), set()
    log.commit(schema_action("t"), schema_action("ü"))
    for number, (files, follows) in enumerate(steps):
        actions = []
        for file in sorted(files):
            path, table = f"data/{file}", "tü"[file % 2]
            change = remove_action if path in live else add_action
            actions.append(change(path, table))
            live ^= {path}
        if number % 3 == 1:
            kinds = [pa.int64(), pa.float64()][number % 2]
            actions.append(definition_action("tü"[number % 2], pa.schema([("a", kinds)])))
        log.commit(*actions, app=(f"app{number % 3}", number) if number % 2 else ("", 0))
        if follows and checkpoints:
            log.checkpoint()
    return log


def meaning(state):
    """All that a state says, in a form that compares."""
    files = state.files
    tables = state.schemas.tables()
    return (
        state.revision, state.uuid, state.next_uuid, state.digest, state.epoch,
        state.committed_at_us, state.transaction_id, state.reader_features, state.writer_features,
        state.named, live_paths(state), files.count,
        [files.table(table).sort_by("path").to_pylist() for table in sorted(tables)],
        sorted(state.schemas.entries), sorted(state.definitions.entries.items(), key=repr),
        state.applications.versions(),
        state.history.table().to_pylist(),
    )  # fmt: skip


def stored(log, encoded):
    """The state that a reader has of an encoded checkpoint."""
    log.segments.update(encoded.segments)
    return log.reload(encoded)


@given(STEPS, st.booleans())
def test_a_checkpoint_says_what_replay_says_on_whatever_base(steps, spill):
    with spilling(spill):
        log = history(steps)
        expected = meaning(log.replayed())
        encoded = encode_state(log.state)
        assert meaning(stored(log, encoded)) == expected
        assert meaning(log.state) == expected, "encoding changed the state"
        assert encode_state(log.state).body == encoded.body
    assert encoded.decoded.message.counts.files == log.replayed().files.count


@given(STEPS, st.booleans())
def test_the_bytes_depend_on_the_state_and_its_base_alone(steps, spill):
    """Not on whether it was replayed, copied, or which of its parts were read."""
    with spilling(spill):
        log = history(steps, checkpoints=False)
        whole = encode_state(log.state)
        for state in (log.replayed(), log.copy()):
            again = encode_state(state)
            assert (again.body, again.segments) == (whole.body, whole.segments)
        lazy, read = stored(log, whole), stored(log, whole)
        meaning(read)
        assert encode_state(lazy).body == encode_state(read).body


def test_pieces_of_the_base_are_kept_and_removals_are_a_bitmap():
    with spilling():
        log = LogBuilder()
        log.commit(schema_action(), *(add_action(f"data/{n:02d}") for n in range(11)))
        first = log.checkpoint()
        log.commit(remove_action("data/03"))
        second = log.checkpoint()
    (old,) = (piece for piece in first.pieces if piece.kind == FILES)
    (kept,) = (piece for piece in second.pieces if piece.kind == FILES)
    assert (kept.name, kept.dead) == (old.name, bytes([8, 0]))
    assert old.name not in dict(second.segments)
    assert second.decoded.message.counts.files == 10
    assert "data/03" not in live_paths(log.reload(second))["t"]


def test_history_of_what_was_pruned_is_left_out():
    log = LogBuilder()
    for _ in range(3):
        log.commit()
    found = log.reload(encode_state(log.state, retained_from=1)).history.table()
    assert found["revision"].to_pylist() == [1, 2]
    beyond = log.reload(encode_state(log.state, retained_from=9)).history.table()
    assert beyond["revision"].to_pylist() == [2], "its own is always there"


def test_a_sealed_state_and_unknown_fields_are_refused():
    log = history([({1, 2}, True), ({3}, False)])
    state = log.copy()
    message = state.tail[-1].message
    message.MergeFromString(b"\xfa\x7f\x01x")  # field 2047
    with pytest.raises(UnsupportedFeature, match="writes no checkpoint"):
        encode_state(state)
    sealed = history([({1}, False)]).state
    sealed.sealed_for = 2
    with pytest.raises(AssertionError, match="sealed"):
        encode_state(sealed)


def encoded_as_by_a_later_version(log, of_kind):
    """A checkpoint of which one kind of segments has a further column."""
    write, references = checkpoint_files.PieceSink.write, checkpoint.reference_rows

    def more(rows):
        return rows.append_column("later", pa.array([7] * len(rows)))

    def writing(self, kind, rows, columns=(), **options):
        write(self, kind, more(rows) if kind == of_kind else rows, columns, **options)

    def referring(pieces):
        rows = references(pieces)
        return more(rows) if of_kind == REFERENCES else rows

    with (
        mock.patch.object(checkpoint_files.PieceSink, "write", writing),
        mock.patch.object(checkpoint, "reference_rows", referring),
    ):
        return log.checkpoint()


def add_with_statistics(path):
    statistics = wire.ColumnStatistics(column=0, null_count=1)
    groups = [wire.RowGroup(row_count=5, columns=[statistics]) for _ in range(2)]
    return add_action(path, row_groups=groups)


@pytest.mark.parametrize("spill", [False, True])
@pytest.mark.parametrize("kind", sorted(segments.NAMES.keys() - {9, 11}))  # it has no deletes
def test_a_further_column_that_would_be_lost_prevents_a_checkpoint(kind, spill):
    with spilling(spill):
        log = LogBuilder()
        log.commit(
            schema_action("t"), definition_action("t"), add_with_statistics("data/0"), app=("a", 1)
        )
        log.state = log.reload(encoded_as_by_a_later_version(log, kind))
        log.commit(
            schema_action("u"), definition_action("u"), add_with_statistics("data/1"), app=("b", 1)
        )
        assert meaning(log.copy()), "it can be read"
        with pytest.raises(UnsupportedFeature, match="writes no checkpoint"):
            encode_state(log.copy())


@pytest.mark.parametrize("kind", [FILES, STATISTICS, SCHEMAS, APPLICATIONS, HISTORY])
def test_an_unknown_field_in_a_segment_that_is_read_prevents_a_checkpoint(kind):
    def more(log, message, ipc):
        raw = message.SerializeToString()
        if message.kind == kind:
            raw += b"\xfa\x7f\x01x"  # field 2047
        return encode_frame(FrameKind.SEGMENT, log, raw, ipc)

    with spilling():
        log, store = LogBuilder(), MemoryStore()
        log.commit(schema_action("t"), add_with_statistics("data/0"), app=("a", 1))
        with mock.patch.object(checkpoint_files, "frame_segment", more):
            log.checkpoint()
        log.commit(schema_action("u"), add_with_statistics("data/1"), app=("b", 1))
        log.put_into(store)
        state = LogReader(store, "w", "db").load()
        with pytest.raises(UnsupportedFeature, match="writes no checkpoint"):
            encode_state(state.copy())
        assert meaning(state) == meaning(log.replayed()), "it can be read"


def with_column(rows, name, values):
    place = rows.schema.get_field_index(name)
    return rows.set_column(
        place, rows.schema.field(place), pa.array(values, rows.schema.types[place])
    )


UNSOUND = {
    "times": (HISTORY, lambda rows: with_column(rows, "committed_at", [5] * len(rows))),
    "revisions": (HISTORY, lambda rows: with_column(rows, "revision", range(1, len(rows) + 1))),
    "ids": (APPLICATIONS, lambda rows: rows.take([*range(len(rows))][::-1])),
    "no time": (APPLICATIONS, lambda rows: with_column(rows, "committed_at_us", [0] * len(rows))),
    "to come": (SCHEMAS, lambda rows: with_column(rows, "revision", [9] * len(rows))),
}


@pytest.mark.parametrize("lie", UNSOUND)
def test_what_is_written_anew_is_had_from_a_base_that_is_sound(lie):
    """A piece that can be decoded and breaks a rule is not carried over."""
    of_kind, change = UNSOUND[lie]
    write = checkpoint_files.PieceSink.write

    def lying(self, kind, rows, columns=(), **options):
        write(self, kind, change(rows) if kind == of_kind else rows, columns, **options)

    log = LogBuilder()
    log.commit(schema_action("t"), app=("b", 1))
    log.commit(schema_action("u"), app=("a", 2))
    with mock.patch.object(checkpoint_files.PieceSink, "write", lying):
        bad = log.checkpoint()
    log.state = log.reload(bad)
    log.commit(schema_action("v"), app=("c", 3))
    log.commit(schema_action("w"), app=("d", 4))
    with pytest.raises(CorruptObject) as caught:
        encode_state(log.copy())
    assert caught.value.key == bad.decoded.key
    store = MemoryStore()
    log.put_into(store)
    state = LogReader(store, "w", "db").load()
    assert state.base.key == bad.decoded.key
    with pytest.warns(CheckpointWarning):
        written = encode_state(state)
    assert meaning(log.reload(written)) == meaning(log.replayed())


def test_every_truncation_and_many_flipped_bits_are_detected():
    encoded = encode_state(history([({1, 2, 3}, False)]).state)
    key = encoded.decoded.key
    for length in range(0, len(encoded.body), 7):
        with pytest.raises(CorruptObject):
            decode_checkpoint(encoded.body[:length], key)
    for position in range(0, len(encoded.body), 5):
        broken = bytearray(encoded.body)
        broken[position] ^= 1 << position % 8
        with pytest.raises(CorruptError):
            decode_checkpoint(bytes(broken), key)


LIES = {
    "revision": lambda message: setattr(message, "revision", 9),
    "uuid": lambda message: setattr(message, "uuid", bytes(16)),
    "short uuid": lambda message: setattr(message, "uuid", message.uuid[:8]),
    "no successor": lambda message: message.ClearField("successor_uuid"),
    "no digest": lambda message: message.ClearField("digest"),
    "short digest": lambda message: setattr(message, "digest", b"x"),
    "no epoch": lambda message: message.ClearField("epoch"),
    "absurd epoch": lambda message: setattr(message, "epoch", 1 << 63),
    "no time": lambda message: message.ClearField("committed_at_us"),
    "no transaction": lambda message: message.ClearField("transaction_id"),
    "features twice": lambda message: message.required_writer_features.extend("aa"),
    "no writer": lambda message: message.ClearField("writer"),
    "place": lambda message: setattr(message.references, "offset", 1 << 40),
    "kind": lambda message: setattr(message.references.segment, "kind", FILES),
    "no rows": lambda message: setattr(message.references.segment, "row_count", 0),
    "count": lambda message: setattr(message.counts, "files", 7),
    "other rows": lambda message: setattr(message.references.segment, "row_count", 99),
}


def altered(change):
    log = history([({1, 2, 3}, False)])
    decoded = encode_state(log.state).decoded
    message = checkpoint_wire.Checkpoint.FromString(decoded.message.SerializeToString())
    change(message)
    body, _ = encode_checkpoint(decoded.log, message, bytes(decoded.attachments))
    return log, decoded.key, body


@pytest.mark.parametrize("lie", LIES)
def test_a_checkpoint_that_contradicts_itself_is_refused(lie):
    log, key, body = altered(LIES[lie])
    with pytest.raises(CorruptObject) as caught:
        meaning(log.reload(mock.Mock(decoded=decode_checkpoint(body, key))))
    assert key in caught.value.key


@pytest.mark.parametrize("kind", [0, 12, 99])
def test_references_of_a_kind_of_the_future_are_too_new(kind):
    _, key, body = altered(lambda message: setattr(message.references.segment, "kind", kind))
    with pytest.raises(UnsupportedFeature, match=f"kind {kind}"):
        decode_checkpoint(body, key)


def test_what_grows_slowly_is_kept_as_well():
    with spilling():
        log = LogBuilder()
        for number in range(20):
            log.commit(schema_action(f"t{number}"), app=(f"app {number}", 1))
        first = log.checkpoint()
        log.commit(schema_action("late"), app=("late", 1))
        second = log.checkpoint()
    for kind in (SCHEMAS, APPLICATIONS, HISTORY):
        (old,) = (piece.name for piece in first.pieces if piece.kind == kind)
        assert old in {piece.name for piece in second.pieces if piece.kind == kind}
    assert log.reload(second).applications.versions() == log.replayed().applications.versions()
