"""Rules of docs/format.md that once were broken, or could be read in two ways."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import pyarrow as pa
import pytest
from lakelog.catalog.format.names import MAX_REVISION, LogObject, parse_log_object
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.format.statistics import decode_bounds
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
        rows = state.table_of("t")[0].table("t").to_pylist()
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
