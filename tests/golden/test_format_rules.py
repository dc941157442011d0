"""Rules of docs/format.md that once were broken, or could be read in two ways."""

from __future__ import annotations

import os
import struct
import time

import pyarrow as pa
import pytest
from lakelog.catalog.format.names import parse_log_object
from lakelog.catalog.format.objects import DecodedCheckpoint, decode_checkpoint, open_segment
from lakelog.catalog.format.schema import GENERATION, decode_schema, encode_schema
from lakelog.catalog.format.segment_bytes import decode_segment, encode_ipc
from lakelog.catalog.format.segments import FILES, ROW_GROUPS, rows_per_segment
from lakelog.catalog.format.statistics import decode_bounds
from lakelog.catalog.log.checkpoint import decode_state, encode_state, referenced
from lakelog.catalog.log.listing import plan_read, read_listing
from lakelog.catalog.log.state import State, apply
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.catalog.wire.lakelog_checkpoint_pb2 import SegmentRef
from lakelog.errors import CorruptObject, ForkError
from lakelog.testing.logs import SCHEMA, LogBuilder, add_action, remove_action, schema_action

MANY = 300  # more than fit into single Add actions


def reload(state: State) -> State:
    """The state after a checkpoint was written and read."""
    encoded = encode_state(state)
    decoded: DecodedCheckpoint = decode_checkpoint(encoded.body, encoded.name)
    bodies = dict(encoded.spilled)
    fetched = {name: open_segment(bodies[name], mark, name) for name, mark in referenced(decoded)}
    return decode_state(decoded, fetched, state.writer, state.database)


def group(column: int = 0, rows: int = 1, **facts: object) -> wire.RowGroup:
    """A row group with statistics of one column."""
    found = wire.RowGroup(row_count=rows)
    found.columns.add(column=column, **facts)
    return found


def test_a_batch_may_bring_a_removed_path_back_whatever_the_log_was_read_from() -> None:
    log = LogBuilder()
    old = [group(null_count=0), group(null_count=1)]
    log.commit(schema_action(), add_action("data/back", row_groups=old))
    from_checkpoint = reload(log.state)
    removal = log.commit(remove_action("data/back"))
    new = [group(null_count=7), group(null_count=8), group(null_count=9)]
    batch = log.commit(
        add_action("data/back", row_count=3, row_groups=new),
        *(add_action(f"data/{number}") for number in range(MANY)),
    )
    for transaction in (removal, batch):
        apply(from_checkpoint, transaction)
    for state in (log.state, from_checkpoint, reload(from_checkpoint)):
        files = state.tables["t"]
        schemas = state.arrow_schemas("t")
        row = files.table(schemas).filter(pa.compute.field("path") == "data/back").to_pylist()
        assert [(r["row_count"], r["nulls::a"]) for r in row] == [(3, 24)]
        groups = files.row_groups_table(schemas)
        assert groups.column("nulls::a").to_pylist() == [7, 8, 9]
        assert files.count == MANY + 1
    assert encode_state(log.state).body == encode_state(from_checkpoint).body


def test_a_removed_files_schema_is_not_in_use_whatever_the_log_was_read_from() -> None:
    log = LogBuilder()
    other = pa.schema([("z", pa.string())])
    log.commit(schema_action(), schema_action(schema=other))
    log.commit(add_action("data/a"), add_action("data/z", schema=other))
    from_checkpoint = reload(log.state)
    apply(from_checkpoint, log.commit(remove_action("data/z")))
    for state in (log.state, from_checkpoint):
        assert state.tables["t"].fingerprints() == {encode_schema(SCHEMA)[0]}


def test_a_checkpoint_keeps_where_bloom_filters_lie() -> None:
    log = LogBuilder()
    one = [group(null_count=0, bloom_offset=4, bloom_bytes=64)]
    two = [group(bloom_offset=4, bloom_bytes=64), group(bloom_offset=999)]
    log.commit(schema_action(), add_action("data/1", row_groups=one))
    log.commit(add_action("data/2", row_groups=two))
    for state in (log.state, reload(log.state)):
        files = state.tables["t"].table(state.arrow_schemas("t"))
        assert files.column("bloom_offset::a").to_pylist() == [4, None]
        assert files.column("bloom_bytes::a").to_pylist() == [64, None]
        groups = state.tables["t"].row_groups_table(state.arrow_schemas("t"))
        assert groups.column("bloom_offset::a").to_pylist() == [4, 999]
        assert groups.column("bloom_bytes::a").to_pylist() == [64, None]


@pytest.mark.slow("8 MiB of statistics, read by a reader in plain Python")
def test_wide_tables_fit_into_transactions_and_checkpoints() -> None:
    wide = pa.schema([(f"column_{number}", pa.string()) for number in range(1500)])
    log = LogBuilder()
    log.commit(schema_action(schema=wide))
    for repeat in range(12):  # schemas of 1,500 columns take more than 64 KiB each
        log.commit(schema_action(schema=wide.append(pa.field(f"more_{repeat}", pa.int8()))))
    adds = []
    for number in range(60):
        full = wire.RowGroup(row_count=1)
        for column in range(len(wide)):
            bound = os.urandom(32).hex().encode()
            full.columns.add(column=column, null_count=0, min=bound, max=bound)
        adds.append(add_action(f"data/{number:03d}", schema=wide, row_groups=[full]))
    assert sum(action.ByteSize() for action in adds) > 8 << 20
    log.commit(*adds)
    files = reload(log.state).tables["t"].table(log.state.arrow_schemas("t"))
    assert files.num_rows == 60
    assert files.column("min:string:column_1499").null_count == 0


def test_a_segment_decodes_in_bounded_memory() -> None:
    assert rows_per_segment(10) == 131_072
    assert rows_per_segment(4 * 1000) * 4 * 1000 <= 1 << 24
    assert rows_per_segment(1 << 30) == 1024


def test_one_bound_is_true_or_false_or_unknown() -> None:
    found = decode_bounds([b"\x00", b"\x01", b"\x02", b"", b"\x01\x01", None], pa.bool_())
    assert found.to_pylist() == [False, True, None, None, None, None]


def _int64(*numbers: int) -> list[bytes | None]:
    return [struct.pack("<q", number) for number in numbers]


def _decimal(*numbers: int) -> list[bytes | None]:
    return [number.to_bytes(16, "little", signed=True) for number in numbers]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.time32("s"), _int64(0, 86_399), _int64(-1, 86_400)),
        (pa.time64("ns"), _int64(0, 86_399_999_999_999), _int64(-1, 86_400_000_000_000)),
        (pa.date32(), _int64(-(1 << 31), (1 << 31) - 1), _int64(1 << 31, -(1 << 31) - 1)),
        (pa.decimal128(38, 2), _decimal(1 - 10**38, 10**38 - 1), _decimal(10**38, -(10**38))),
    ],
)
def test_a_bound_that_arrow_would_refuse_is_unknown(
    kind: pa.DataType, good: list[bytes | None], bad: list[bytes | None]
) -> None:
    found = decode_bounds([*good, *bad], kind)
    found.validate(full=True)  # as every segment is
    assert found.is_valid().to_pylist() == [True, True, False, False]


def test_an_absurd_count_is_unknown() -> None:
    log = LogBuilder()
    log.commit(schema_action(), add_action("data/1", row_groups=[group(null_count=(1 << 64) - 1)]))
    names = log.state.tables["t"].table(log.state.arrow_schemas("t")).schema.names
    assert names == FILES.names


@pytest.mark.parametrize("field", ["size_bytes", "row_count", "footer_bytes"])
def test_an_absurd_size_is_refused(field: str) -> None:
    log = LogBuilder()
    log.commit(schema_action())

    def change(message: wire.Transaction) -> None:
        setattr(message.actions[0].add, field, 1 << 62)

    with pytest.raises(CorruptObject, match="absurd"):
        log.decode(*log.encode(add_action("data/1"), change=change))


def test_a_schema_must_be_the_one_that_its_fingerprint_names() -> None:
    log = LogBuilder()

    def change(message: wire.Transaction) -> None:
        message.actions[0].schema.fingerprint = bytes(16)

    with pytest.raises(CorruptObject, match="fingerprint"):
        log.decode(*log.encode(schema_action(), change=change))


def test_a_schema_named_again_changes_its_key_and_nothing_else() -> None:
    log = LogBuilder()
    log.commit(schema_action())
    again = schema_action()
    again.schema.key.append("a")
    again.schema.sort_order.extend(["s", "a"])
    log.commit(again)
    for state in (log.state, reload(log.state)):
        (entry,) = state.schemas.values()
        assert (entry.key, entry.sort_order, entry.revision) == (("a",), ("s", "a"), 0)


@pytest.mark.parametrize("mark", [b"", b"01", b"-1", b"x", b" 1", b"1_0", b"9999999999"])
def test_a_generation_is_a_plain_number(mark: bytes) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), metadata={GENERATION: mark})])
    with pytest.raises(ValueError, match="generation"):
        decode_schema(schema.serialize().to_pybytes())


def test_a_reader_takes_operations_that_it_does_not_know() -> None:
    log = LogBuilder()

    def change(message: wire.Transaction) -> None:
        message.commit.members[0].operation = "vacuum"

    name, body = log.encode(schema_action(), change=change)
    apply(log.state, log.decode(name, body))
    assert log.state.history.table().column("operation").to_pylist() == ["vacuum"]


def test_a_checkpoint_of_another_uuid_than_its_transaction_is_a_fork() -> None:
    listing = read_listing("w", "d", [
        f"{0:020d}.00000000.transaction",
        f"{1:020d}.aaaaaaaa.transaction",
        f"{1:020d}.bbbbbbbb.checkpoint",
        f"{2:020d}.cccccccc.transaction",
    ])  # fmt: skip
    assert plan_read(listing, 0).tail
    for target in (1, 2, None):
        with pytest.raises(ForkError) as caught:
            plan_read(listing, target)
        assert [key.split(".")[1] for key in caught.value.keys] == ["aaaaaaaa", "bbbbbbbb"]


def test_a_name_beyond_the_highest_revision_is_not_ours() -> None:
    assert parse_log_object(f"{(1 << 62) - 1:020d}.00000000.transaction") is not None
    assert parse_log_object(f"{1 << 62:020d}.00000000.transaction") is None
    assert parse_log_object(f"{10**20 - 1}.00000000.transaction") is None


def test_what_can_be_read_is_told_in_time_that_follows_the_number_of_names() -> None:
    far = (1 << 62) - 1
    names = [f"{revision:020d}.00000000.transaction" for revision in range(20_000)]
    names += [f"{far:020d}.00000000.checkpoint", f"{far - 9:020d}.00000000.transaction"]
    listing = read_listing("w", "d", names)
    started = time.perf_counter()
    assert listing.readable() == f"0-19999, {far}"
    assert time.perf_counter() - started < 5


def _flip_metadata_version(data: bytes) -> bytes:
    """The same Arrow IPC file with its record batches marked as of metadata version 4."""
    reader = pa.ipc.open_file(data)
    assert reader.num_record_batches == 1
    footer = len(data) - 10 - struct.unpack_from("<i", data, len(data) - 10)[0]
    start = data.rindex(b"\xff\xff\xff\xff", 0, data.rindex(b"\xff\xff\xff\xff", 0, footer))
    view = memoryview(data)[start + 8 :]
    table = struct.unpack_from("<I", view)[0]
    vtable = table - struct.unpack_from("<i", view, table)[0]
    position = start + 8 + table + struct.unpack_from("<H", view, vtable + 4)[0]
    assert data[position : position + 2] == b"\x04\x00"
    return data[:position] + b"\x03\x00" + data[position + 2 :]


def test_a_segment_of_an_older_arrow_metadata_version_is_refused() -> None:
    rows = pa.table({"path": ["data/a"], "row_group": [0], "row_count": [1]}, schema=ROW_GROUPS)
    data = encode_ipc(rows)
    assert decode_segment(data, SegmentRef.ROW_GROUPS, 1, "k").equals(rows)
    with pytest.raises(CorruptObject, match="not Arrow IPC"):
        decode_segment(_flip_metadata_version(data), SegmentRef.ROW_GROUPS, 1, "k")


def test_a_segment_with_text_that_is_not_utf8_is_refused() -> None:
    rows = pa.table({"path": ["data/a"], "row_group": [0], "row_count": [1]}, schema=ROW_GROUPS)
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"data/\xff"]).buffers())
    rows = rows.set_column(0, ROW_GROUPS.field("path"), broken)
    with pytest.raises(CorruptObject, match="not Arrow IPC"):
        decode_segment(encode_ipc(rows), SegmentRef.ROW_GROUPS, 1, "k")


def test_a_segment_with_a_negative_size_is_refused() -> None:
    rows = pa.table({"path": ["data/a"], "row_group": [0], "row_count": [-1]}, schema=ROW_GROUPS)
    with pytest.raises(CorruptObject, match="negative row_count"):
        decode_segment(encode_ipc(rows), SegmentRef.ROW_GROUPS, 1, "k")
