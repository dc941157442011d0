"""checkpoint(n) says what replay(1..n) says, in bytes that depend on nothing else."""

from __future__ import annotations

import struct
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format import segments
from lakelog.catalog.format.frame import FrameKind, decode_frame
from lakelog.catalog.format.objects import decode_checkpoint, encode_checkpoint, open_segment
from lakelog.catalog.log import build, checkpoint
from lakelog.catalog.log.checkpoint import decode_state, encode_state, referenced
from lakelog.catalog.log.state import empty_state
from lakelog.catalog.wire import lakelog_checkpoint_pb2 as checkpoint_wire
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptError, CorruptObject, UnsupportedFeature
from lakelog.testing.logs import LogBuilder, add_action, remove_action, replay, schema_action

SCHEMAS = [
    pa.schema([pa.field("a", pa.int64()), pa.field("s", pa.string())]),
    pa.schema([pa.field("a", pa.int32()), pa.field("t", pa.timestamp("ns", "UTC"))]),
]
TABLES = ["t", "ü", "t:x"]


def statistics(number, position):
    low, high = struct.pack("<q", number - 3), struct.pack("<q", number + 3)
    return wire.ColumnStatistics(
        column=position,
        null_count=number if number % 3 else None,
        min=low if number % 4 else None,
        max=high,
        min_exact=True,
        bloom_offset=number if number % 5 == 0 else None,
    )


def some_add(table, number, path):
    groups = [
        wire.RowGroup(row_count=10 + group, columns=[statistics(number + group, 0)])
        for group in range(number % 4)
    ]
    if number % 7 == 0 and groups:
        text = wire.ColumnStatistics(column=1, min=b"aa", max="üü".encode(), null_count=1)
        groups[0].columns.append(text)
    return add_action(
        path,
        TABLES[table],
        schema=SCHEMAS[number % 2],
        partition=f"p{number % 3}",
        row_count=sum(group.row_count for group in groups) or 7,
        row_groups=groups,
    )


# A history: for each transaction, which files change hands. A live one is removed, another added.
STEPS = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 11), st.integers(0, 40)), max_size=7),
    min_size=1,
    max_size=8,
)


def history(steps):
    """A log with these steps; some of its transactions hold batches."""
    log = LogBuilder()
    live = {}
    for number, step in enumerate(steps):
        actions = []
        for table, file, variant in step:
            path = f"data/{file}"
            if path in live:
                actions.append(remove_action(path))
                del live[path]
            else:
                actions.append(schema_action(TABLES[table], SCHEMAS[variant % 2]))
                actions.append(some_add(table, variant, path))
                live[path] = TABLES[table]
        log.commit(*actions, app=(f"app{number % 3}", number) if number % 2 else ("", 0))
    assert {path: table for table, paths in log.live().items() for path in paths} == live
    return log


def small_batches():
    return mock.patch.object(build, "BATCH_FROM_FILES", 2)


def small_segments(rows=2):
    return mock.patch.object(segments, "rows_per_segment", return_value=rows)


def spill_everything():
    return mock.patch.object(checkpoint, "SPILL_FROM_BYTES", 0)


def reopened(encoded, writer="w", database="db"):
    """The state that a reader finds in an encoded checkpoint."""
    decoded = decode_checkpoint(encoded.body, encoded.name)
    objects = dict(encoded.spilled)
    fetched = {name: open_segment(objects[name], mark, name) for name, mark in referenced(decoded)}
    return decode_state(decoded, fetched, writer, database)


def replayed(log, count, state=None):
    return replay(state or empty_state("w", "db"), log.transactions[:count])


def rows(table, core):
    """Rows in a form that compares, whatever the order of rows and columns."""
    extra = sorted(name for name in table.schema.names if name not in core)
    found = [
        tuple((name, str(row[name])) for name in [*core, *extra] if row[name] is not None)
        for row in table.to_pylist()
    ]
    return sorted(found)


def meaning(state):
    """All that a state says, in a form that compares."""
    return (
        state.writer, state.database, state.revision, state.uuid, state.successor_uuid,
        state.digest, state.epoch, state.committed_at_us, state.transaction_ids,
        state.reader_features, state.writer_features, state.app_versions, state.schemas,
        {
            name: (
                files.count,
                rows(files.table(state.arrow_schemas(name)), segments.FILES.names),
                rows(files.row_groups_table(state.arrow_schemas(name)), segments.ROW_GROUPS.names),
                files.fingerprints(),
            )
            for name, files in state.tables.items()
        },
        state.history.table().to_pylist(),
    )  # fmt: skip


# --- checkpoint(n) = replay(1..n) -----------------------------------------------------------------


@given(STEPS, st.booleans(), st.booleans(), st.booleans())
def test_a_checkpoint_says_what_replay_says(steps, batches, small, spill):
    with small_batches() if batches else mock.MagicMock():
        log = history(steps)
    expected = meaning(log.state)
    sizes = small_segments() if small else mock.MagicMock()
    with sizes, spill_everything() if spill else mock.MagicMock():
        encoded = encode_state(log.state)
    assert bool(encoded.spilled) == spill
    assert meaning(reopened(encoded)) == expected
    assert meaning(log.state) == expected, "encoding changed the state"


@given(STEPS, st.booleans(), st.data())
def test_the_bytes_depend_on_the_log_alone(steps, batches, data):
    """Not on whether one read it from the start, or from a checkpoint of whatever age."""
    with small_batches() if batches else mock.MagicMock():
        log = history(steps)
    expected = encode_state(log.state)
    assert encode_state(replayed(log, len(steps))) == expected
    assert encode_state(reopened(expected)) == expected
    middle = data.draw(st.integers(1, len(steps)))
    with small_segments() if data.draw(st.booleans()) else mock.MagicMock():
        early = reopened(encode_state(replayed(log, middle)))
    later = replay(early, log.transactions[middle:])
    assert meaning(later) == meaning(log.state)
    assert encode_state(later) == expected


@given(STEPS)
def test_batches_and_single_adds_make_one_checkpoint(steps):
    """But for the digests of the objects, which differ."""
    single = history(steps)
    with small_batches():
        batched = history(steps)
    for name in single.state.tables:
        left, right = (
            rows(log.state.tables[name].table(log.state.arrow_schemas(name)), segments.FILES.names)
            for log in (single, batched)
        )
        assert left == right


def test_the_order_of_commits_doesnt_show_in_the_files():
    logs = []
    for order in ([1, 2, 3], [3, 2, 1]):
        log = LogBuilder()
        adds = [some_add(0, number, f"data/{number}") for number in order]
        log.commit(schema_action("t", SCHEMAS[0]), schema_action("t", SCHEMAS[1]), *adds)
        logs.append(decode_checkpoint(encode_state(log.state).body, encode_state(log.state).name))
    left, right = (
        bytes(log.attachments[ref.offset : ref.offset + ref.length])
        for log in logs
        for ref in [log.message.segments[0]]
    )
    assert left == right


# --- What stands in it ----------------------------------------------------------------------------


def sample():
    log = LogBuilder()
    log.commit(schema_action("t", SCHEMAS[0]), schema_action("t", SCHEMAS[1]))
    log.commit(*(some_add(0, number, f"data/{number}") for number in range(9)), app=("x", 1))
    log.commit(remove_action("data/3"))
    return log


def test_counts_and_chain_stand_in_the_header():
    log = sample()
    message = decode_checkpoint(encode_state(log.state).body, encode_state(log.state).name).message
    table = log.state.tables["t"].table()
    assert message.counts.files == 8
    assert message.counts.rows == sum(table.column("row_count").to_pylist())
    assert message.counts.bytes == sum(table.column("size_bytes").to_pylist())
    assert message.digest == log.transactions[-1].digest
    assert message.successor_uuid == log.state.next_uuid


def test_segments_of_a_table_do_not_overlap_and_say_their_bounds():
    with small_segments(3):
        encoded = encode_state(sample().state)
    refs = decode_checkpoint(encoded.body, encoded.name).message.segments
    files = [ref for ref in refs if ref.kind == checkpoint_wire.SegmentRef.FILES]
    assert [ref.row_count for ref in files] == [3, 3, 2]
    bounds = [bound for ref in files for bound in (ref.first_path, ref.last_path)]
    assert bounds == sorted(bounds)


def test_a_pruned_history_is_left_out():
    encoded = encode_state(sample().state, retained_from=1)
    assert reopened(encoded).history.table().column("revision").to_pylist() == [1, 2]


def test_segment_numbers_can_begin_later():
    with spill_everything():
        encoded = encode_state(sample().state, first_segment=7)
    numbers = [int(name.split(".")[2]) for name, _ in encoded.spilled]
    assert numbers == list(range(7, 7 + len(numbers)))


def test_a_checkpoint_that_outgrows_its_inline_room_spills():
    with mock.patch.object(checkpoint, "MAX_INLINE_BYTES", 2000):
        encoded = encode_state(sample().state)
    assert encoded.spilled
    assert meaning(reopened(encoded)) == meaning(sample().state)


def test_a_state_without_any_table():
    log = LogBuilder()
    log.commit()
    assert meaning(reopened(encode_state(log.state))) == meaning(log.state)


def test_a_table_without_files_and_one_with_a_schema_alone():
    log = LogBuilder()
    log.commit(schema_action("t"), schema_action("only columns"), add_action("data/a"))
    log.commit(remove_action("data/a"))
    assert meaning(reopened(encode_state(log.state))) == meaning(log.state)


def test_required_writer_features_survive():
    log = LogBuilder()
    item = wire.Upgrade(required_writer_features=["b", "a"])
    log.commit(wire.Action(upgrade=item))
    assert reopened(encode_state(log.state)).writer_features == {"a", "b"}


def test_long_summaries_and_many_members_fit():
    """A history row may be long: that is no bomb."""
    log = LogBuilder()
    for number in range(3):
        log.commit(change=lambda message: message.commit.members[0].summary.update(x="y" * 900_000))
        assert log.state.revision == number
    many = [wire.Member(transaction_id=bytes(16), operation="append")] * 1000
    log.commit(change=lambda message: message.commit.members.extend(many))
    assert meaning(reopened(encode_state(log.state))) == meaning(log.state)


@pytest.mark.parametrize("char", ["y", "\x01", "ü", '"'])
def test_whatever_fits_into_a_transaction_fits_into_a_checkpoint(char):
    """A summary as long as a message may be, and six times as long in JSON."""
    log = LogBuilder()
    text = char * (7_900_000 // len(char.encode()))
    log.commit(change=lambda message: message.commit.members[0].summary.update(x=text))
    assert meaning(reopened(encode_state(log.state))) == meaning(log.state)


def test_bounds_of_absurd_length_are_unknown():
    """They are no reason for a checkpoint that nobody can read."""
    long = wire.ColumnStatistics(column=1, min=b"a" * 200_000, max=b"b" * 200_000, null_count=1)
    fine = wire.ColumnStatistics(column=1, min=b"a" * 60, max=b"b" * 128, null_count=2)
    log = LogBuilder()
    adds = [
        add_action(f"data/{number}", row_groups=[wire.RowGroup(row_count=5, columns=[stats] * 2)])
        for number, stats in enumerate([long, fine])
    ]
    log.commit(schema_action("t", SCHEMAS[0]), *adds)
    assert meaning(reopened(encode_state(log.state))) == meaning(log.state)
    table = log.state.tables["t"].table(log.state.arrow_schemas("t"))
    assert table.column("max:string:s").to_pylist() == [None, "b" * 128]
    assert table.column("nulls::s").to_pylist() == [1, 2]


LONG = "ü" * 128


@pytest.mark.parametrize(
    "actions",
    [
        [schema_action(LONG), add_action("data/a", LONG)],
        [schema_action(), add_action("data/a", partition=LONG)],
        [schema_action(LONG)],
        [schema_action(""), add_action("data/a", "")],
    ],
    ids=["table", "partition", "schema", "no table"],
)
def test_names_of_absurd_length_are_refused(actions):
    log = LogBuilder()
    with pytest.raises(CorruptObject):
        log.decode(*log.encode(*actions))


def test_wide_schemas_fit():
    log = LogBuilder()
    for number in range(5):
        fields = [pa.field(f"column {i} of {number}", pa.float64()) for i in range(3_000)]
        log.commit(schema_action("t", pa.schema(fields)))
    assert meaning(reopened(encode_state(log.state))) == meaning(log.state)


# --- Damage ---------------------------------------------------------------------------------------


def test_every_truncation_and_many_flipped_bits_are_detected():
    encoded = encode_state(sample().state)
    for length in range(0, len(encoded.body), 7):
        with pytest.raises(CorruptObject):
            decode_checkpoint(encoded.body[:length], encoded.name)
    for position in range(0, len(encoded.body), 5):
        broken = bytearray(encoded.body)
        broken[position] ^= 1 << position % 8
        with pytest.raises(CorruptError):
            decode_checkpoint(bytes(broken), encoded.name)


def test_every_flipped_bit_of_a_segment_is_detected():
    with spill_everything():
        encoded = encode_state(sample().state)
    name, body = min(encoded.spilled, key=lambda item: len(item[1]))
    mark = decode_frame(body, FrameKind.SEGMENT, name).digest
    open_segment(body, mark, name)
    for position in range(len(body)):
        broken = bytearray(body)
        broken[position] ^= 1 << position % 8
        with pytest.raises(CorruptError) as caught:
            open_segment(bytes(broken), mark, name)
        assert caught.value.key == name


def test_a_sound_segment_that_is_another_one_is_refused():
    with spill_everything():
        encoded = encode_state(sample().state)
    (name, body), (other, _) = encoded.spilled[:2]
    mark = decode_frame(dict(encoded.spilled)[other], FrameKind.SEGMENT, other).digest
    with pytest.raises(CorruptObject, match="not the segment"):
        open_segment(body, mark, name)


def altered(change):
    """A checkpoint whose message was changed before it was framed."""
    encoded = encode_state(sample().state)
    decoded = decode_checkpoint(encoded.body, encoded.name)
    change(decoded.message)
    body, _ = encode_checkpoint(decoded.message, bytes(decoded.attachments))
    return encoded.name, body


def first(kind):
    def pick(message):
        return next(ref for ref in message.segments if ref.kind == kind)

    return pick


FILES = first(checkpoint_wire.SegmentRef.FILES)
HISTORY = first(checkpoint_wire.SegmentRef.HISTORY)
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
    "count": lambda message: setattr(message.counts, "files", 7),
    "rows of a segment": lambda message: setattr(FILES(message), "row_count", 7),
    "no rows of a segment": lambda message: setattr(FILES(message), "row_count", 0),
    "first path": lambda message: setattr(FILES(message), "first_path", "data/zzz"),
    "last path": lambda message: setattr(FILES(message), "last_path", "data/zzz"),
    "place": lambda message: setattr(FILES(message), "offset", 1 << 40),
    "length": lambda message: setattr(FILES(message), "length", 5),
    "lost segment": lambda message: message.segments.remove(FILES(message)),
    "doubled segment": lambda message: message.segments.append(FILES(message)),
    "other table": lambda message: setattr(FILES(message), "table", "u"),
    "segment as history": lambda message: setattr(FILES(message), "kind", 4),
    "history as files": lambda message: setattr(HISTORY(message), "kind", 1),
    "name of no segment": lambda message: setattr(FILES(message), "name", "../../x"),
    "segment without digest": lambda message: setattr(
        FILES(message), "name", "00000000000000000002.00000000.0.segment"
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_checkpoint_that_contradicts_itself_is_refused(lie):
    name, body = altered(LIES[lie])
    with pytest.raises(CorruptObject) as caught:
        decode_state(decode_checkpoint(body, name), {}, "w", "db")
    assert name in caught.value.key


def test_a_checkpoint_of_no_schemas_is_refused():
    def change(message):
        message.segments.remove(first(checkpoint_wire.SegmentRef.SCHEMAS)(message))

    name, body = altered(change)
    with pytest.raises(CorruptObject, match="schema"):
        decode_state(decode_checkpoint(body, name), {}, "w", "db")


@pytest.mark.parametrize("kind", [0, 5, 99])
def test_a_segment_of_the_future_is_refused_by_type(kind):
    name, body = altered(lambda message: setattr(FILES(message), "kind", kind))
    with pytest.raises(UnsupportedFeature, match=f"kind {kind}"):
        decode_checkpoint(body, name)


def test_a_checkpoint_under_a_transactions_name_is_refused():
    encoded = encode_state(sample().state)
    wrong = encoded.name.replace("checkpoint", "transaction")
    with pytest.raises(CorruptObject):
        decode_checkpoint(encoded.body, wrong)
    other = sample().objects[2]
    with pytest.raises(CorruptObject, match="kind"):
        decode_checkpoint(other[1], encoded.name)


def test_a_message_that_is_none_is_refused():
    body, _ = checkpoint.encode_checkpoint(checkpoint_wire.Checkpoint(), b"")
    frame = decode_frame(body, FrameKind.CHECKPOINT, "x")
    assert frame.message == b""
    with pytest.raises(CorruptObject):
        decode_checkpoint(body, encode_state(sample().state).name)
