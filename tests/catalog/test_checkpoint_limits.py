"""What fits into transactions fits into a checkpoint, whose message stays small whatever grows."""

from __future__ import annotations

import warnings
from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.format.objects import encode_transaction
from lakelog.catalog.format.segments import APPLICATIONS, FILES, HISTORY, SCHEMAS, STATISTICS
from lakelog.catalog.log import checkpoint, checkpoint_files, merge
from lakelog.catalog.log.admission import check_writer_features
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.log.replay import apply
from lakelog.catalog.read.statistics import StatisticsWarning, table_statistics
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptObject, UnsupportedFeature
from lakelog.testing.logs import LogBuilder, add_action, live_paths, remove_action, schema_action

SMALL = 4_000  # bytes: no message of a checkpoint here is larger, whatever its log holds


def stored(log):
    """The state that a reader has of the checkpoint of a log, and the checkpoint."""
    encoded = encode_state(log.state)
    log.segments.update(encoded.segments)
    assert encoded.decoded.message.ByteSize() < SMALL
    return log.reload(encoded), encoded


def kinds(encoded, kind):
    return [piece for piece in encoded.pieces if piece.kind == kind]


def same(state, log):
    """Whether a state says what replay says."""
    whole = log.replayed()
    assert state.history.table().equals(whole.history.table())
    assert state.schemas.entries == whole.schemas.entries
    assert state.applications.versions() == whole.applications.versions()
    assert live_paths(state) == live_paths(whole)
    return True


# --- Much of something ----------------------------------------------------------------------------


def test_long_summaries_and_many_members_fit():
    """A history row may be long: that is no bomb."""
    log = LogBuilder()
    for _ in range(3):
        log.commit(change=lambda message: message.commit.members[0].summary.update(x="y" * 900_000))
    many = [wire.Member(transaction_id=bytes(16), operation="append")] * 1000
    log.commit(change=lambda message: message.commit.members.extend(many))
    state, _ = stored(log)
    assert same(state, log)
    assert len(state.history.table()["transaction_ids"][3]) == 1001


@pytest.mark.parametrize("char", ["y", "\x01", "ü", '"'])
def test_a_summary_as_long_as_a_message_may_be_fits(char):
    """And six times as long in JSON."""
    log = LogBuilder()
    text = char * (7_900_000 // len(char.encode()))
    log.commit(change=lambda message: message.commit.members[0].summary.update(x=text))
    assert same(stored(log)[0], log)


def test_more_applications_than_a_message_could_name():
    log = LogBuilder()
    for start in range(0, 3 * 45_000, 45_000):
        members = [
            wire.Member(transaction_id=bytes(16), operation="append", app_id=str(n), app_version=n)
            for n in range(start, start + 45_000)
        ]
        log.commit(change=lambda message, more=members: message.commit.members.extend(more))
    state, encoded = stored(log)
    versions = state.applications.versions()
    assert len(versions) == 135_000
    assert versions == {str(n): n for n in range(135_000)}
    assert [piece.rows for piece in kinds(encoded, APPLICATIONS)] == [131_072, 135_000 - 131_072]


def test_thousands_of_tables_share_a_few_pieces():
    log = LogBuilder()
    names = [f"t{number:04d}" for number in range(3_000)]
    log.commit(*map(schema_action, names))
    log.commit(*(add_action(f"data/{name}", name) for name in names))
    state, encoded = stored(log)
    assert same(state, log)
    assert len(encoded.pieces) == 3
    assert len(encoded.segments) <= 2


def test_wide_schemas_fit():
    log = LogBuilder()
    for number in range(5):
        fields = [pa.field(f"column {i} of {number}", pa.float64()) for i in range(3_000)]
        log.commit(schema_action("t", pa.schema(fields)))
    state, encoded = stored(log)
    assert same(state, log)
    assert [piece.inline for piece in kinds(encoded, SCHEMAS)] == [None]


def test_names_of_columns_that_a_segment_is_of_may_be_many_and_long():
    wide = pa.schema([(f"column {i} {'é' * 400}", pa.int64()) for i in range(1_000)])
    group = wire.RowGroup(row_count=1)
    for place in range(len(wide)):
        group.columns.add(column=place, null_count=place)
    log = LogBuilder()
    log.commit(schema_action(schema=wide), add_action("data/a", schema=wide, row_groups=[group]))
    state, _ = stored(log)
    rows = table_statistics(state, "t").to_pylist()
    assert {row["column"]: row["null_count"] for row in rows} == {
        name: place for place, name in enumerate(wide.names)
    }


def test_bounds_of_absurd_length_are_unknown():
    """They are no reason for a checkpoint that nobody can read."""
    long = wire.ColumnStatistics(column=1, min=b"a" * 200_000, max=b"b" * 129, null_count=1)
    fine = wire.ColumnStatistics(column=1, min=b"a" * 60, max=b"b" * 128, null_count=2)
    log = LogBuilder()
    adds = [
        add_action(f"data/{number}", row_groups=[wire.RowGroup(row_count=5, columns=[stats])])
        for number, stats in enumerate([long, fine])
    ]
    log.commit(schema_action(), *adds)
    for state in (log.replayed(), stored(log)[0]):
        rows = table_statistics(state, "t").to_pylist()
        assert [(row["min"], row["max"], row["null_count"]) for row in rows] == [
            (None, None, 1),
            (b"a" * 60, b"b" * 128, 2),
        ]


LONG = "ü" * 128


@pytest.mark.parametrize(
    "actions",
    [
        [schema_action(LONG), add_action("data/a", LONG)],
        [schema_action(), add_action("data/a", partition=LONG)],
        [schema_action(LONG)],
        [schema_action("%" * 86)],
        [schema_action(), remove_action("data/a", LONG)],
        [schema_action(""), add_action("data/a", "")],
    ],
    ids=["table", "partition", "schema", "percent-encoded", "remove", "no table"],
)
def test_names_of_absurd_length_are_refused(actions):
    log = LogBuilder()
    with pytest.raises(CorruptObject):
        log.decode(*log.encode(*actions))


# --- Where pieces lie -----------------------------------------------------------------------------


def sample(count=8):
    group = wire.RowGroup(row_count=9, columns=[wire.ColumnStatistics(column=0, null_count=3)])
    log = LogBuilder()
    for table in ("t", "u", "ü"):
        log.commit(schema_action(table), app=(f"app {table}", 1))
        adds = [
            add_action(f"data/{table}{n:02d}", table, row_count=n, row_groups=[group])
            for n in range(count)
        ]
        log.commit(*adds)
    log.commit(remove_action("data/u03", "u"))
    return log


@pytest.mark.parametrize("room", [2_000, 0])
def test_a_checkpoint_that_outgrows_its_inline_room_spills(room):
    log = sample()
    assert stored(log)[1].segments == ()
    with mock.patch.object(checkpoint_files, "MAX_INLINE_BYTES", room):
        state, encoded = stored(log)
    assert encoded.segments
    assert len(encoded.decoded.attachments) < room + 40_000
    assert same(state, log)


def test_pieces_are_cut_and_say_their_ranges():
    log = sample()
    with (
        mock.patch.object(checkpoint, "ROWS_PER_SEGMENT", 3),
        mock.patch.object(merge, "ROWS_PER_SEGMENT", 3),
        mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0),
    ):
        state, encoded = stored(log)
        assert same(state, log)
    files = kinds(encoded, FILES)
    assert [piece.rows for piece in files] == [3] * 7 + [2]
    ends = [
        (table, path)
        for piece in files
        for table, path in (
            (piece.segment.first_table, piece.segment.first_path),
            (piece.segment.last_table, piece.segment.last_path),
        )
    ]
    assert ends == sorted(ends, key=lambda end: (end[0].encode(), end[1].encode()))
    assert [(piece.part, piece.run) for piece in files] == [(n, 0) for n in range(8)]
    assert [piece.rows for piece in kinds(encoded, STATISTICS)] == [3] * 7 + [2]
    assert [piece.rows for piece in kinds(encoded, SCHEMAS)] == [3]
    assert [piece.segment.last_revision for piece in kinds(encoded, HISTORY)] == [2, 5, 6]
    log.fetched.clear()
    only = log.reload(encoded)
    assert only.table_of("u")[0].table("u").num_rows == 7
    wanted = {piece.name for piece in files if piece.may_hold("u")}
    assert 3 <= len(wanted) <= 4
    assert wanted == set(log.fetched) & {piece.name for piece in files}


def test_a_message_counts_files_rows_and_bytes():
    log = sample()
    counts = stored(log)[1].decoded.message.counts
    tables = [log.state.files.table(name) for name in ("t", "u", "ü")]
    for name, column in (("rows", "row_count"), ("bytes", "size_bytes")):
        assert getattr(counts, name) == sum(sum(t[column].to_pylist()) for t in tables)
    assert counts.files == sum(t.num_rows for t in tables) == 23
    log.checkpoint()
    log.commit(remove_action("data/t07"), add_action("data/more", row_count=70))
    later = stored(log)[1].decoded.message.counts
    assert (later.files, later.rows) == (counts.files, counts.rows - 7 + 70)
    assert later.bytes == counts.bytes - 107 + 170


def test_sums_beyond_64_bits_are_the_highest_number():
    log = LogBuilder()
    huge = [add_action(f"data/{n}", row_count=(1 << 62) - 200) for n in range(5)]
    log.commit(schema_action(), *huge)
    state, encoded = stored(log)
    assert encoded.decoded.message.counts.rows == (1 << 64) - 1
    assert kinds(encoded, FILES)[0].segment.total_rows == (1 << 62) - 1
    assert live_paths(state)["t"] == [f"data/{n}" for n in range(5)]


# --- Small states and features --------------------------------------------------------------------


def test_a_state_without_any_table():
    log = LogBuilder()
    log.commit()
    state, encoded = stored(log)
    assert same(state, log)
    assert [piece.kind for piece in encoded.pieces] == [HISTORY]


def test_a_table_without_files_and_one_with_a_schema_alone():
    log = LogBuilder()
    log.commit(schema_action("t"), schema_action("only columns"), add_action("data/a"))
    log.commit(remove_action("data/a"))
    state, encoded = stored(log)
    assert live_paths(state) == {"t": [], "only columns": []}
    assert kinds(encoded, FILES) == []


def test_required_writer_features_survive_and_forbid_commits():
    log = LogBuilder()
    log.commit(wire.Action(upgrade=wire.Upgrade(required_writer_features=["b", "a", "b"])))
    state, encoded = stored(log)
    assert list(encoded.decoded.message.required_writer_features) == ["a", "b"]
    assert state.writer_features == {"a", "b"}
    with pytest.raises(UnsupportedFeature, match="a, b"):
        check_writer_features(state)


# --- Segment objects that are others --------------------------------------------------------------


def parts_of(state):
    """Each part of a state, read."""
    state.older = None
    found = {}
    for name, read in (
        ("files", lambda: state.files.count),
        ("schemas", lambda: len(state.schemas.entries)),
        ("applications", lambda: len(state.applications.versions())),
        ("history", lambda: state.history.table().num_rows),
    ):
        try:
            found[name] = read()
        except CorruptObject as error:
            found[name] = error.key
    return found


COSTS = {
    FILES: {"files"},
    SCHEMAS: {"schemas", "files"},
    APPLICATIONS: {"applications"},
    HISTORY: {"history"},
}


@pytest.mark.parametrize("kind", COSTS)
def test_a_flipped_or_swapped_segment_object_costs_its_part_and_is_named(kind):
    with mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0):
        log = sample()
        state, encoded = stored(log)
    sound = parts_of(state)
    assert sound == {"files": 23, "schemas": 3, "applications": 3, "history": 7}
    (piece,) = kinds(encoded, kind)
    other = next(name for name in log.segments if name != piece.name)
    body = log.segments[piece.name]
    flipped = body[:-9] + bytes([body[-9] ^ 4]) + body[-8:]
    for wrong in (flipped, body[:-1], body + b"\0", b"", log.segments[other]):
        log.segments[piece.name] = wrong
        found = parts_of(log.reload(encoded))
        key = f"w/db/segments/{piece.name}"
        assert {name for name in found if found[name] == key} == COSTS[kind]
        assert all(found[name] == sound[name] for name in found if name not in COSTS[kind])


# --- Batches and single adds ----------------------------------------------------------------------


def facts(state):
    """Files with all their columns, statistics of files and of row groups."""
    return (
        state.files.table("t", whole=True).sort_by("path").to_pylist(),
        table_statistics(state, "t").to_pylist(),
        table_statistics(state, "t", row_groups=True).to_pylist(),
    )


def test_batches_and_single_adds_make_one_state():
    """In the tail, in a checkpoint, and merged into a later one."""
    single, batched = LogBuilder(), LogBuilder()
    for log, most in ((single, 1 << 30), (batched, 0)):
        with (
            mock.patch("lakelog.catalog.log.build.BATCH_FROM_FILES", most),
            mock.patch("lakelog.catalog.log.build.BATCH_FROM_BYTES", 1 << 30),
        ):
            log.commit(schema_action())
            for start in range(0, 12, 4):
                log.commit(*(some_add(n) for n in range(start, start + 4)))
    assert len(single.transactions[-1].message.actions) == 4
    assert len(batched.transactions[-1].message.actions) == 1
    expected = facts(single.state)
    assert len(expected[0]) == 12
    assert expected[1]
    assert expected[2]
    for log in (single, batched):
        assert facts(log.replayed()) == expected
        assert facts(log.reload(log.checkpoint())) == expected
        log.commit(remove_action("data/00"), remove_action("data/05"))
        log.checkpoint()
        log.commit(*(remove_action(f"data/{n:02d}") for n in (1, 2, 3)))
        merged = facts(log.reload(log.checkpoint()))
        left = {"data/04", *(f"data/{n:02d}" for n in range(6, 12))}
        assert merged == tuple([row for row in rows if row["path"] in left] for rows in expected)


def some_add(number):
    groups = []
    for group in range(number % 4):
        low, high = ((number + n + group).to_bytes(8, "little", signed=True) for n in (-3, 3))
        item = wire.ColumnStatistics(
            column=0, min=low, max=high, min_exact=True, null_count=number, bloom_offset=number
        )
        if number % 3:
            item.bloom_bytes = 64
        text = wire.ColumnStatistics(column=1, min=b"aa", max="ü".encode() * number, null_count=1)
        groups.append(wire.RowGroup(row_count=10 + group, columns=[item, text]))
    return add_action(f"data/{number:02d}", row_count=number, row_groups=groups)


@pytest.mark.parametrize("place", [1, 2, 3], ids=["row groups", "statistics", "of row groups"])
def test_damaged_statistics_of_a_batch_are_dropped_and_prevent_no_checkpoint(place):
    """They cost skipping; a log that could not be checkpointed would grow for ever."""
    log = LogBuilder()
    log.commit(schema_action())
    with mock.patch("lakelog.catalog.log.build.BATCH_FROM_FILES", 0):
        name, body = log.encode(*(some_add(n) for n in range(6)))
    sound = log.decode(name, body)
    (pieces,) = sound.batches.values()
    attached = bytearray(body[len(body) - int.from_bytes(body[16:24], "little") :])
    piece = pieces[place]
    attached[piece.offset : piece.offset + piece.length] = bytes(piece.length)
    broken, _ = encode_transaction(log.log, sound.message, bytes(attached))
    transaction = log.decode(name, broken)
    log.transactions.append(transaction)
    apply(log.state, transaction)
    with pytest.warns(StatisticsWarning):
        lost = [not part for part in facts(log.state)]
    assert lost == [False, place == 2, place in (1, 3)]
    state, _ = stored(log)
    assert live_paths(state)["t"] == [f"data/{n:02d}" for n in range(6)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [not part for part in facts(state)] == lost
