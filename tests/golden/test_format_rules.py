"""Rules of docs/format.md that once were broken, or could be read in two ways."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import pyarrow as pa
import pytest
from lakelog.catalog.format import wire_kinds
from lakelog.catalog.format.names import MAX_REVISION, LogObject, parse_log_object
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.format.segment_bytes import decode_segment, encode_ipc
from lakelog.catalog.format.segments import (
    FILES_COLUMNS,
    ROW_GROUPS_COLUMNS,
    SCHEMAS_COLUMNS,
    STATISTICS_COLUMNS,
)
from lakelog.catalog.format.statistics import decode_bounds
from lakelog.catalog.format.statistics_form import unpack_statistics
from lakelog.catalog.log.known_schemas import KnownSchemas, check_schemas
from lakelog.catalog.log.listing import plan_read, read_listing
from lakelog.catalog.log.replay import apply
from lakelog.catalog.log.state import State
from lakelog.catalog.read.statistics import table_statistics
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptObject, ForkError
from lakelog.testing.logs import SCHEMA, LogBuilder, add_action, remove_action, schema_action

MANY = 300  # more than fit into single Add actions


def group(column: int = 0, rows: int = 1, **facts: object) -> wire.RowGroup:
    """A row group with statistics of one column."""
    found = wire.RowGroup(row_count=rows)
    found.columns.add(column=column, **facts)
    return found


def each_form(log: LogBuilder) -> Iterator[State]:
    """The state as it was committed, replayed, and from a checkpoint."""
    yield log.replayed()
    yield log.state.copy()
    yield log.reload(log.checkpoint())


def null_counts(state: State, path: str, *, row_groups: bool = False) -> list[int | None]:
    """What is known of a file."""
    rows = table_statistics(state, "t", row_groups=row_groups).to_pylist()
    return [row["null_count"] for row in rows if row["path"] == path]


def test_a_batch_may_bring_a_removed_path_back_whatever_the_log_was_read_from() -> None:
    log = LogBuilder()
    old = [group(null_count=0), group(null_count=1)]
    log.commit(schema_action(), add_action("data/back", row_groups=old))
    from_checkpoint = log.reload(log.checkpoint())
    removal = log.commit(remove_action("data/back"))
    new = [group(null_count=7), group(null_count=8), group(null_count=9)]
    batch = log.commit(
        add_action("data/back", row_count=3, row_groups=new),
        *(add_action(f"data/{number}") for number in range(MANY)),
    )
    for transaction in (removal, batch):
        apply(from_checkpoint, transaction)
    for state in (from_checkpoint, *each_form(log)):
        rows = state.files_of("t").table("t").to_pylist()
        assert [r["row_count"] for r in rows if r["path"] == "data/back"] == [3]
        assert null_counts(state, "data/back") == [24]
        assert null_counts(state, "data/back", row_groups=True) == [7, 8, 9]
        assert len(rows) == MANY + 1


def test_a_removed_files_schema_is_not_in_use_whatever_the_log_was_read_from() -> None:
    log = LogBuilder()
    other = pa.schema([("z", pa.string())])
    log.commit(schema_action(), schema_action(schema=other))
    log.commit(add_action("data/a"), add_action("data/z", schema=other))
    from_checkpoint = log.reload(log.checkpoint())
    apply(from_checkpoint, log.commit(remove_action("data/z")))
    for state in (log.state, from_checkpoint):
        assert state.files.fingerprints("t") == {encode_schema(SCHEMA).fingerprint}


def test_a_checkpoint_keeps_where_bloom_filters_lie() -> None:
    log = LogBuilder()
    one = [group(null_count=0, bloom_offset=4, bloom_bytes=64)]
    two = [group(bloom_offset=4, bloom_bytes=64), group(bloom_offset=999, null_count=0)]
    log.commit(schema_action(), add_action("data/1", row_groups=one))
    log.commit(add_action("data/2", row_groups=two))
    for state in each_form(log):
        files = table_statistics(state, "t").to_pylist()
        assert [(r["path"], r["bloom_offset"], r["bloom_bytes"]) for r in files] == [
            ("data/1", 4, 64)
        ]
        groups = table_statistics(state, "t", row_groups=True).to_pylist()
        assert [(r["bloom_offset"], r["bloom_bytes"]) for r in groups] == [(4, 64), (None, None)]


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
    state = log.reload(log.checkpoint())
    rows = table_statistics(state, "t")
    assert rows.num_rows == 60 * 1500
    assert rows.column("min").null_count == 0


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
    for state in each_form(log):
        assert null_counts(state, "data/1") == []


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
        message.actions[1].schema.fingerprint = bytes(16)

    with pytest.raises(CorruptObject, match="fingerprint"):
        log.decode(*log.encode(schema_action(), change=change))


def test_a_schema_named_again_changes_its_key_and_nothing_else() -> None:
    log = LogBuilder()
    log.commit(schema_action())
    log.checkpoint()
    again = schema_action()
    again.schema.key.append("a")
    again.schema.sort_order.extend(["s", "a"])
    log.commit(again)
    for state in each_form(log):
        (entry,) = state.schemas.entries.values()
        assert (entry.key, entry.sort_order, entry.revision) == (("a",), ("s", "a"), 0)


@pytest.mark.parametrize(
    "found",
    [[("b", 1), ("a", 1)], [("a", 1), ("a", 1)], [("a", 0)], [("a", 10**9)], [("", 1)]],
    ids=["descending", "twice", "zero", "too high", "no name"],
)
def test_generations_ascend_and_are_plain_numbers(found: list[tuple[str, int]]) -> None:
    log = LogBuilder()

    def change(message: wire.Transaction) -> None:
        for column, number in found:
            message.actions[1].schema.generations.add(column=column, generation=number)

    with pytest.raises(CorruptObject, match="generations"):
        log.decode(*log.encode(schema_action(), change=change))


def test_a_reader_takes_operations_that_it_does_not_know() -> None:
    log = LogBuilder()

    def change(message: wire.Transaction) -> None:
        message.commit.members[0].operation = "vacuum"

    name, body = log.encode(schema_action(), change=change)
    apply(log.state, log.decode(name, body))
    assert log.state.history.table().column("operation").to_pylist() == ["vacuum"]


def name(revision: int, uuid8: str, kind: str) -> str:
    """A name of incarnation 1."""
    return LogObject(1, revision, uuid8, kind).name  # type: ignore[arg-type]


def test_a_checkpoint_of_another_uuid_than_its_transaction_is_a_fork() -> None:
    listing = read_listing("w", "d", [
        name(2, "cccccccc", "transaction"),
        name(1, "aaaaaaaa", "transaction"),
        name(1, "bbbbbbbb", "checkpoint"),
        name(0, "00000000", "transaction"),
    ])  # fmt: skip
    assert plan_read(listing, 0).tail
    for target in (1, 2, None):
        with pytest.raises(ForkError) as caught:
            plan_read(listing, target)
        assert [key.split(".")[1] for key in caught.value.keys] == ["aaaaaaaa", "bbbbbbbb"]


def test_a_name_beyond_the_highest_revision_is_not_ours() -> None:
    assert parse_log_object(f"998-{0:012d}-{MAX_REVISION}.00000000.transaction") is not None
    assert parse_log_object(f"998-{0:012d}-{MAX_REVISION + 1}.00000000.transaction") is None


def test_what_can_be_read_is_told_in_time_that_follows_the_number_of_names() -> None:
    """A trillion steps would never end."""
    names = [name(MAX_REVISION, "00000000", "checkpoint")]
    names += [name(MAX_REVISION - 9, "00000000", "transaction")]
    names += [name(revision, "00000000", "transaction") for revision in reversed(range(20_000))]
    listing = read_listing("w", "d", names)
    assert listing.readable() == f"0-19999, {MAX_REVISION}"


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


def row_groups(*rows: tuple[int | None, int, int]) -> pa.Table:
    """Rows of a ROW_GROUPS segment."""
    columns = list(zip(*rows, strict=True))
    names = ROW_GROUPS_COLUMNS.names
    return pa.table(dict(zip(names, columns, strict=True)), schema=ROW_GROUPS_COLUMNS)


def test_a_segment_of_an_older_arrow_metadata_version_is_refused() -> None:
    rows = row_groups((0, 0, 1))
    data = encode_ipc(rows)
    assert decode_segment(data, wire_kinds.ROW_GROUPS, 1, "k").equals(rows)
    with pytest.raises(CorruptObject, match="not Arrow IPC"):
        decode_segment(_flip_metadata_version(data), wire_kinds.ROW_GROUPS, 1, "k")


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(row_groups((0, 0, -1)), id="negative"),
        pytest.param(row_groups((0, 0, 1 << 62)), id="beyond 62 bits"),
        pytest.param(row_groups((0, 0, 1), (0, 0, 1)), id="twice"),
        pytest.param(row_groups((1, 0, 1), (0, 0, 1)), id="descending"),
        pytest.param(row_groups((0, 1, 1), (0, 0, 1)), id="row groups descending"),
    ],
)
def test_row_groups_count_and_ascend(rows: pa.Table) -> None:
    with pytest.raises(CorruptObject):
        decode_segment(encode_ipc(rows), wire_kinds.ROW_GROUPS, rows.num_rows, "k")


def a_file(**changes: object) -> pa.Table:
    """One row of a FILES segment."""
    row: dict[str, object] = {
        "table": "t", "path": "data/a", "partition": "", "size_bytes": 1, "row_count": 1,
        "revision": 0, "schema_fingerprint": bytes(16), "first_clock": 0, "last_clock": 0,
        "footer_bytes": 8, "footer_digest": bytes(8), "row_groups": 1,
    }  # fmt: skip
    return pa.Table.from_pylist([row | changes], schema=FILES_COLUMNS)


@pytest.mark.parametrize(
    "changes",
    [
        {"table": ""}, {"table": "%" * 86}, {"partition": "%" * 86}, {"partition": "x" * 256},
        {"path": "data/../x"}, {"path": "x"}, {"size_bytes": -1}, {"row_count": 1 << 62},
        {"revision": -1}, {"footer_bytes": -1}, {"row_groups": -1},
    ],
    ids=lambda changes: str(changes)[:30],
)  # fmt: skip
def test_a_file_that_cannot_be_is_refused(changes: dict[str, object]) -> None:
    decode_segment(encode_ipc(a_file(partition="%" * 85)), wire_kinds.FILES, 1, "k")
    with pytest.raises(CorruptObject):
        decode_segment(encode_ipc(a_file(**changes)), wire_kinds.FILES, 1, "k")


def a_schema(**changes: object) -> pa.Table:
    """One row of a SCHEMAS segment, by its fingerprint."""
    encoded = encode_schema(SCHEMA)
    row: dict[str, object] = {
        "table": "t", "fingerprint": encoded.fingerprint, "arrow_schema": encoded.message,
        "generation_columns": None, "generations": None, "key": None, "sort_order": [],
        "revision": 3,
    }  # fmt: skip
    return pa.Table.from_pylist([row | changes], schema=SCHEMAS_COLUMNS)


def take_in(rows: pa.Table, newest: int = 3) -> KnownSchemas:
    known = KnownSchemas()
    decoded = decode_segment(encode_ipc(rows), wire_kinds.SCHEMAS, rows.num_rows, "k")
    check_schemas(decoded, "k", newest)
    known.load(decoded, "k", frozenset({"another table"}))
    return known


def test_a_sound_schema_is_taken_in() -> None:
    assert take_in(a_schema()).entries == {}
    known = KnownSchemas()
    known.load(a_schema(), "k")
    assert known.tables() == {"t"}


@pytest.mark.parametrize(
    "changes",
    [
        {"fingerprint": bytes(16)}, {"arrow_schema": b""}, {"revision": 4}, {"revision": -1},
        {"generation_columns": ["a"]}, {"generations": [1]}, {"key": ["a", None]},
        {"generation_columns": ["a"], "generations": [0]}, {"table": ""},
    ],
    ids=str,
)  # fmt: skip
def test_all_rows_of_schemas_are_checked_whatever_table_is_asked_for(
    changes: dict[str, object],
) -> None:
    with pytest.raises(CorruptObject):
        take_in(a_schema(**changes))


def test_schemas_ascend_by_table_and_fingerprint() -> None:
    two = [a_schema(table=table) for table in ("u", "t")]
    for rows in (pa.concat_tables(two), pa.concat_tables([two[0], two[0]])):
        with pytest.raises(CorruptObject):
            take_in(rows)
    take_in(pa.concat_tables(two[::-1]))


def test_a_segment_with_text_that_is_not_utf8_is_refused() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"data/\xff"]).buffers())
    rows = a_file()
    rows = rows.set_column(1, FILES_COLUMNS.field("path"), broken)
    with pytest.raises(CorruptObject, match="not sound Arrow IPC"):
        decode_segment(encode_ipc(rows), wire_kinds.FILES, 1, "k")


def test_a_segment_with_a_dictionary_is_refused_also_in_a_column_that_nobody_knows() -> None:
    words = pa.array(["x"]).dictionary_encode()
    rows = a_file()
    for broken in (rows.append_column("more", words), rows.set_column(2, "partition", words)):
        with pytest.raises(CorruptObject):
            decode_segment(encode_ipc(broken), wire_kinds.FILES, 1, "k")
    more = rows.append_column("more", pa.array(["x"]))
    assert decode_segment(encode_ipc(more), wire_kinds.FILES, 1, "k").equals(rows)


def statistics(*entries: tuple[int, int]) -> bytes:
    """A STATISTICS segment of these columns and distances."""
    rows = [
        {"column": column, "row_delta": delta, "null_count": 0, "exact": 0}
        for column, delta in entries
    ]
    return encode_ipc(pa.Table.from_pylist(rows, schema=STATISTICS_COLUMNS))


def test_rows_of_statistics_are_told_by_their_distance() -> None:
    data = statistics((0, 2), (0, 1), (0, 5), (1, 0), (1, 7))
    rows = unpack_statistics(data, wire_kinds.STATISTICS, 5, ["a", "ü"], "k")
    assert rows.column("column").to_pylist() == ["a", "a", "a", "ü", "ü"]
    assert rows.column("row").to_pylist() == [2, 3, 8, 0, 7]


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        (((0, 1), (0, 0)), ["a"]),
        (((0, -1),), ["a"]),
        (((0, 1), (0, -1)), ["a"]),
        (((1, 0), (0, 0)), ["a", "b"]),
        (((0, 0), (2, 0)), ["a", "b", "c"]),
        (((0, 0),), ["a", "b"]),
        (((0, 0), (1, 0)), ["a"]),
        (((1, 0),), ["a", "b"]),
        (((0, (1 << 31) - 1), (0, 1)), ["a"]),
    ],
    ids=str,
)
def test_statistics_that_do_not_ascend_are_refused(
    entries: tuple[tuple[int, int], ...], names: list[str]
) -> None:
    with pytest.raises(CorruptObject):
        unpack_statistics(statistics(*entries), wire_kinds.STATISTICS, len(entries), names, "k")
