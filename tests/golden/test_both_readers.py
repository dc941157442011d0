"""Rule by rule: what docs/format.md says to refuse or to accept, lakelog and the independent reader
refuse or accept alike. Each case alters one sound object in one way."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import independent_reader as theirs
import pyarrow as pa
import pytest
from independent_wire import Refused, TooNew
from lakelog.catalog.format.frame import FrameKind, decode_frame
from lakelog.catalog.format.objects import decode_checkpoint
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.format.segment_bytes import encode_ipc
from lakelog.catalog.format.segments import FILES
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import LakelogError, UnsupportedFeature
from lakelog.store import open_store
from lakelog.testing.logs import SCHEMA, LogBuilder, add_action, remove_action, schema_action

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakelog.catalog.wire import lakelog_checkpoint_pb2 as checkpoint_wire

OTHER = pa.schema([pa.field("z", pa.float64())])
BIG = 1 << 62
REFUSED, TOO_NEW = "refused", "too new"
MARK = encode_schema(SCHEMA)[0]


def frame(
    message: bytes,
    attachments: bytes = b"",
    *,
    kind: int = 1,
    codec: int = 0,
    version: int = 1,
    zero: int = 0,
    decoded: int | None = None,
    magic: bytes = b"LKLG",
) -> bytes:
    """A frame, sound or not, with a right digest."""
    length = len(message) if decoded is None else decoded
    head = struct.pack(
        "<4sBBBBIIQ", magic, version, kind, codec, zero, len(message), length, len(attachments)
    )
    digest = hashlib.sha256(head + message + attachments).digest()
    return head + digest + message + attachments


@dataclass
class Trial:
    """A log of four revisions, whose last one a case may alter.

    Revision 0 makes two schemas of table `t` known and one of `u`; 1 adds `data/a` and `data/b`; 2
    removes `data/b` under epoch 2; 3 adds `data/c`.
    """

    folder: Path

    def write(
        self,
        change: Callable[[wire.Transaction], None] = lambda message: None,
        *,
        attachments: bytes = b"",
        reframe: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """The log, with the message of revision 3 altered."""
        log = LogBuilder("w", "db")
        log.commit(schema_action(), schema_action(schema=OTHER), schema_action("u", SCHEMA))
        log.commit(add_action("data/a"), add_action("data/b"), app=("app", 5))
        log.commit(remove_action("data/b"), epoch=2)
        name, body = log.encode(add_action("data/c"), epoch=2)
        message = wire.Transaction()
        message.ParseFromString(decode_frame(body, FrameKind.TRANSACTION, name).message)
        change(message)
        raw = message.SerializeToString(deterministic=True)
        body = frame(raw, attachments) if reframe is None else reframe(raw)
        self.put(*log.objects, (name, body))

    def put(self, *objects: tuple[str, bytes]) -> None:
        """Objects of the log."""
        target = self.folder / "w" / "db" / "transactions"
        target.mkdir(parents=True, exist_ok=True)
        for name, body in objects:
            (target / name).write_bytes(body)

    def read(self) -> tuple[Any, Any]:
        """What both readers say of the head: live paths and facts, or how they refuse."""
        return self._ours(), self._theirs()

    def _ours(self) -> Any:
        try:
            state = LogReader(open_store(str(self.folder)), "w", "db").load()
        except UnsupportedFeature:
            return TOO_NEW
        except LakelogError:
            return REFUSED
        found = {}
        for name, files in state.tables.items():
            for row in files.table(state.arrow_schemas(name)).to_pylist():
                path = row.pop("path")
                found[path] = {"table": name, **{k: v for k, v in row.items() if v is not None}}
        return state.revision, found, state.app_versions

    def _theirs(self) -> Any:
        try:
            state = theirs.read_log(self.folder, "w", "db")
        except TooNew:
            return TOO_NEW
        except Refused:
            return REFUSED
        found = {
            path: {"table": file.table, **file.facts, **file.statistics}
            for path, file in state.files.items()
        }
        return state.revision, found, state.app_versions


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    """A log to alter."""
    return Trial(tmp_path)


def head(name: str, value: Any) -> Callable[[wire.Transaction], None]:
    """Set a field of the transaction."""
    return lambda message: setattr(message, name, value)


def commit(name: str, value: Any) -> Callable[[wire.Transaction], None]:
    """Set a field of the commit."""
    return lambda message: setattr(message.commit, name, value)


def member(name: str, value: Any) -> Callable[[wire.Transaction], None]:
    """Set a field of the only member."""
    return lambda message: setattr(message.commit.members[0], name, value)


def add(name: str, value: Any) -> Callable[[wire.Transaction], None]:
    """Set a field of the only Add."""
    return lambda message: setattr(message.actions[0].add, name, value)


def clear(name: str) -> Callable[[wire.Transaction], None]:
    """Leave out a field of the transaction."""
    return lambda message: message.ClearField(name)


def actions(*items: wire.Action) -> Callable[[wire.Transaction], None]:
    """Have these actions instead."""

    def change(message: wire.Transaction) -> None:
        del message.actions[:]
        message.actions.extend(items)

    return change


def raw_action(data: bytes) -> Callable[[wire.Transaction], None]:
    """Have one action of these bytes instead."""

    def change(message: wire.Transaction) -> None:
        del message.actions[:]
        message.actions.add().MergeFromString(data)

    return change


def same_time(message: wire.Transaction) -> None:
    message.commit.committed_at_us -= 1_000_000


def a_second_member(message: wire.Transaction) -> None:
    more = message.commit.members.add()
    more.CopyFrom(message.commit.members[0])
    more.app_id, more.app_version = "app", 3
    more.summary["why"] = "lower"


def schema(**fields: Any) -> wire.Action:
    """A Schema action of `t` with some fields altered."""
    action = schema_action()
    for name, value in fields.items():
        setattr(action.schema, name, value)
    return action


def schema_of(message: bytes) -> wire.Action:
    """A Schema action with this message and its right fingerprint."""
    return schema(arrow_schema=message, fingerprint=hashlib.sha256(message).digest()[:16])


def generation(mark: bytes) -> wire.Action:
    """A schema whose column has this generation."""
    column = pa.field("a", pa.int64(), metadata={b"lakelog.generation": mark})
    return schema_of(pa.schema([column]).serialize().to_pybytes())


def group(**facts: Any) -> wire.RowGroup:
    """A row group with statistics of one column."""
    found = wire.RowGroup(row_count=facts.pop("rows", 10))
    found.columns.add(**{"column": 0, **facts})
    return found


def groups(*items: wire.RowGroup) -> Callable[[wire.Transaction], None]:
    """Give the added file these row groups."""
    return lambda message: message.actions[0].add.row_groups.extend(items)


TRANSACTIONS: dict[str, tuple[Callable[[wire.Transaction], None], str | None]] = {
    "nothing": (lambda message: None, None),
    "revision": (head("revision", 7), REFUSED),
    "uuid short": (head("uuid", b"x" * 15), REFUSED),
    "uuid long": (lambda message: setattr(message, "uuid", message.uuid + b"x"), REFUSED),
    "uuid other": (head("uuid", b"x" * 16), REFUSED),
    "previous uuid other": (head("previous_uuid", b"x" * 16), REFUSED),
    "previous uuid none": (clear("previous_uuid"), REFUSED),
    "previous digest other": (head("previous_digest", b"x" * 32), REFUSED),
    "previous digest none": (clear("previous_digest"), REFUSED),
    "epoch 0": (head("epoch", 0), REFUSED),
    "epoch lower": (head("epoch", 1), REFUSED),
    "epoch higher": (head("epoch", BIG - 1), None),
    "epoch too high": (head("epoch", BIG), REFUSED),
    "guest": (head("guest", True), None),
    "no commit": (clear("commit"), REFUSED),
    "same time": (same_time, REFUSED),
    "no time": (commit("committed_at_us", 0), REFUSED),
    "time before 1970": (commit("committed_at_us", -5), REFUSED),
    "time at the bound": (commit("committed_at_us", (1 << 55) - 1), None),
    "time beyond": (commit("committed_at_us", 1 << 55), REFUSED),
    "successor short": (commit("successor_uuid", b"x"), REFUSED),
    "no members": (lambda message: message.commit.ClearField("members"), REFUSED),
    "transaction id short": (member("transaction_id", b"x"), REFUSED),
    "operation empty": (member("operation", ""), REFUSED),
    "operation unknown": (member("operation", "é" * 64), None),
    "operation long": (member("operation", "x" * 65), REFUSED),
    "action count wrong": (member("action_count", 99), None),
    "members with a lower version": (a_second_member, None),
    "no actions": (actions(), None),
    "add again": (actions(add_action("data/a")), REFUSED),
    "add twice": (actions(add_action("data/c"), add_action("data/c")), REFUSED),
    "add again in another table": (actions(add_action("data/a", "u")), REFUSED),
    "add what was removed": (actions(add_action("data/b")), None),
    "add and remove": (actions(add_action("data/c"), remove_action("data/c")), None),
    "remove and add": (actions(remove_action("data/a"), add_action("data/a")), None),
    "remove twice": (actions(remove_action("data/a"), remove_action("data/a")), REFUSED),
    "remove what was removed": (actions(remove_action("data/b")), REFUSED),
    "remove a bad path": (actions(remove_action("data/../a")), REFUSED),
    "no table": (add("table", ""), REFUSED),
    "schema short": (add("schema_fingerprint", MARK[:8]), REFUSED),
    "schema unknown": (add("schema_fingerprint", b"x" * 16), REFUSED),
    "schema of another table": (
        actions(add_action("data/c", "u", schema=OTHER)),
        REFUSED,
    ),
    "schema later": (
        actions(add_action("data/c", "v"), schema_action("v")),
        REFUSED,
    ),
    "schema just before": (actions(schema_action("v"), add_action("data/c", "v")), None),
    "size": (add("size_bytes", BIG), REFUSED),
    "size at the bound": (add("size_bytes", BIG - 1), None),
    "rows": (add("row_count", BIG), REFUSED),
    "footer": (add("footer_bytes", BIG), REFUSED),
    "clocks": (add("first_clock", -(1 << 63)), None),
    "partition": (add("partition", "../%\\"), None),
    "replaces": (lambda message: message.actions[0].add.replaces.append("../x"), None),
    "schema empty table": (actions(schema(table="")), REFUSED),
    "schema other fingerprint": (actions(schema(fingerprint=b"x" * 16)), REFUSED),
    "schema no message": (actions(schema_of(b"")), REFUSED),
    "schema junk": (actions(schema_of(b"junk of some length, no schema")), REFUSED),
    "generation 7": (actions(generation(b"7")), None),
    "generation 07": (actions(generation(b"07")), REFUSED),
    "generation -1": (actions(generation(b"-1")), REFUSED),
    "generation empty": (actions(generation(b"")), REFUSED),
    "generation long": (actions(generation(b"1" * 10)), REFUSED),
    "generation no number": (actions(generation(b"\xff")), REFUSED),
    "upgrade writers": (
        actions(wire.Action(upgrade=wire.Upgrade(required_writer_features=["x"]))),
        None,
    ),
    "upgrade readers": (
        actions(wire.Action(upgrade=wire.Upgrade(required_reader_features=["x"]))),
        TOO_NEW,
    ),
    "upgrade of nothing": (actions(wire.Action(upgrade=wire.Upgrade())), None),
    "tombstone": (actions(wire.Action(tombstone=wire.Tombstone(table="t"))), TOO_NEW),
    "tombstone optional": (
        actions(wire.Action(tombstone=wire.Tombstone(table="t"), optional=True)),
        TOO_NEW,
    ),
    "no kind": (actions(wire.Action()), TOO_NEW),
    "no kind, optional": (actions(wire.Action(optional=True)), None),
    "kind 9": (raw_action(b"\x4a\x01x"), TOO_NEW),
    "kind 9, optional": (raw_action(b"\x4a\x01x\x78\x01"), None),
    "known and optional": (
        actions(wire.Action(remove=wire.Remove(path="data/a"), optional=True)),
        None,
    ),
    "unknown field 100": (lambda message: message.MergeFromString(b"\xa2\x06\x01x"), None),
    "row group rows": (groups(group(rows=BIG)), REFUSED),
    "statistics": (groups(group(null_count=2, min=bytes(8), max=b"\1" * 8)), None),
    "statistics of no column": (groups(group(column=99, null_count=2)), None),
    "null count absurd": (groups(group(null_count=BIG)), None),
    "null count absurd, merged": (groups(group(null_count=BIG - 1), group(null_count=1)), None),
    "bound too short": (groups(group(min=b"\1", max=bytes(8), max_exact=True)), None),
    "bound too long": (groups(group(min=bytes(9))), None),
    "bounds merged": (groups(group(min=b"\1" * 8), group(min=bytes(8))), None),
    "bounds merged, one short": (groups(group(min=b"\1" * 8), group(min=b"")), None),
    "bounds merged, one all null": (
        groups(group(min=b"\1" * 8, null_count=0), group(null_count=10)),
        None,
    ),
    "bounds merged, all null": (groups(group(null_count=10), group(null_count=10)), None),
    "bounds merged, one unlisted": (
        groups(group(min=b"\1" * 8), wire.RowGroup(row_count=10)),
        None,
    ),
    "text that is no text": (groups(group(column=1, min=b"\xff", max=b"z")), None),
}
PATHS = {
    "data/x": None,
    "data/é/%2F/ x": None,
    "data/" + "s" * 255: None,
    "data/..x/x..": None,
    "data": REFUSED,
    "data/": REFUSED,
    "Data/x": REFUSED,
    "/data/x": REFUSED,
    "data//x": REFUSED,
    "data/x/": REFUSED,
    "data/./x": REFUSED,
    "data/..": REFUSED,
    "data/x\\y": REFUSED,
    "data/x\ny": REFUSED,
    "data/x\x7fy": REFUSED,
    "data/\x85": None,
    "data/" + "s" * 256: REFUSED,
    "data/" + "é" * 128: REFUSED,
    "data" + "/s" * 444: None,
    "data" + "/s" * 444 + "s": REFUSED,
    "s3://bucket/data/x": REFUSED,
    "": REFUSED,
}


@pytest.mark.parametrize("case", TRANSACTIONS)
def test_a_transaction(trial: Trial, case: str) -> None:
    change, expected = TRANSACTIONS[case]
    trial.write(change)
    check(trial, expected)


def check(trial: Trial, expected: str | None) -> None:
    """Both say the same, and what is expected: None stands for something."""
    ours, found = trial.read()
    assert ours == found
    assert expected == (ours if isinstance(ours, str) else None)


@pytest.mark.parametrize(("path", "expected"), PATHS.items(), ids=[p[:20] for p in PATHS])
def test_a_path(trial: Trial, path: str, expected: str | None) -> None:
    trial.write(add("path", path))
    check(trial, expected)


def test_text_that_is_not_utf8(trial: Trial) -> None:
    trial.write(reframe=lambda raw: frame(raw.replace(b"data/c", b"data/\xff")))
    check(trial, REFUSED)


# --- Frames ---------------------------------------------------------------------------------------

ZSTD = pa.Codec("zstd")
FRAMES: dict[str, tuple[Callable[[bytes], bytes], str | None]] = {
    "plain": (frame, None),
    "zstd": (lambda raw: frame(ZSTD.compress(raw, asbytes=True), codec=1, decoded=len(raw)), None),
    "zstd longer": (
        lambda raw: frame(ZSTD.compress(raw, asbytes=True), codec=1, decoded=len(raw) + 1),
        REFUSED,
    ),
    "zstd shorter": (
        lambda raw: frame(ZSTD.compress(raw, asbytes=True), codec=1, decoded=len(raw) - 1),
        REFUSED,
    ),
    "zstd of nothing of it": (lambda raw: frame(raw, codec=1), REFUSED),
    "two lengths": (lambda raw: frame(raw, decoded=len(raw) + 1), REFUSED),
    "codec 2": (lambda raw: frame(raw, codec=2), TOO_NEW),
    "version 2": (lambda raw: frame(raw, version=2), TOO_NEW),
    "version 0": (lambda raw: frame(raw, version=0), TOO_NEW),
    "version 2 of a kind unknown": (lambda raw: frame(raw, version=2, kind=77, zero=1), TOO_NEW),
    "version 2, damaged": (lambda raw: frame(raw, version=2)[:-1] + b"!", REFUSED),
    "kind of a checkpoint": (lambda raw: frame(raw, kind=2), REFUSED),
    "byte 7": (lambda raw: frame(raw, zero=1), REFUSED),
    "magic": (lambda raw: frame(raw, magic=b"lklg"), REFUSED),
    "attachments that nobody names": (lambda raw: frame(raw, b"x" * 100), None),
    "longer than it says": (lambda raw: frame(raw) + b"\0", REFUSED),
    "shorter than it says": (lambda raw: frame(raw)[:-1], REFUSED),
    "shorter than a header": (lambda raw: frame(raw)[:55], REFUSED),
    "empty": (lambda raw: b"", REFUSED),
    "field cut": (lambda raw: frame(raw + b"\xa2\x06\x05ab"), REFUSED),
    "field number 0": (lambda raw: frame(raw + b"\x00\x00"), REFUSED),
    "wire type 7": (lambda raw: frame(raw + b"\xa7\x06\x00"), REFUSED),
    "varint cut": (lambda raw: frame(raw + b"\xa0\x06\xff"), REFUSED),
    "varint too long": (lambda raw: frame(raw + b"\xa0\x06" + b"\xff" * 10 + b"\x01"), REFUSED),
    "unknown fields of every type": (
        lambda raw: frame(raw + b"\xa0\x06\x07\xa9\x06" + bytes(8) + b"\xad\x06" + bytes(4)),
        None,
    ),
    "message cut": (lambda raw: frame(raw[:-1]), REFUSED),
    "message too long": (lambda raw: frame(raw + b"\xa2\x06" + padding(1 << 23)), REFUSED),
    "message as long as may be": (
        lambda raw: frame(raw + b"\xa2\x06" + padding((1 << 23) - len(raw) - 6)),
        None,
    ),
}


def padding(length: int) -> bytes:
    """A length of 4 bytes as a varint, and so many bytes."""
    parts = [length >> shift & 127 | 128 for shift in (0, 7, 14)] + [length >> 21]
    return bytes(parts) + bytes(length)


@pytest.mark.parametrize("case", FRAMES)
def test_a_frame(trial: Trial, case: str) -> None:
    reframe, expected = FRAMES[case]
    trial.write(reframe=reframe)
    check(trial, expected)


# --- Batches --------------------------------------------------------------------------------------


def files(*paths: str, **columns: list[Any]) -> pa.Table:
    """Rows of a FILES segment of revision 3."""
    count = len(paths)
    values: dict[str, list[Any]] = {
        "path": list(paths),
        "partition": [""] * count,
        "schema_fingerprint": [MARK] * count,
        "revision": [3] * count,
        **columns,
    }
    arrays = [pa.array(values.get(f.name, [1] * count), f.type) for f in FILES]
    return pa.Table.from_arrays(arrays, names=FILES.names)


def with_column(table: pa.Table, name: str, values: list[Any], kind: pa.DataType) -> pa.Table:
    """One more column."""
    return table.append_column(name, pa.array(values, kind))


def recast(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    """A column in another type."""
    return table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))


TWO = files("data/c", "data/d")
BATCHES: dict[str, tuple[pa.Table, str | None]] = {
    "two files": (TWO, None),
    "what was removed": (files("data/b"), None),
    "no rows": (files(), REFUSED),
    "live": (files("data/a", "data/c"), REFUSED),
    "not ascending": (files("data/d", "data/c"), REFUSED),
    "twice": (files("data/c", "data/c"), REFUSED),
    "UTF-8 order": (files("data/z", "data/\uffee", "data/\U00010000"), None),
    "bad path": (files("data/c", "data/d/../e"), REFUSED),
    "other revision": (files("data/c", revision=[2]), REFUSED),
    "one of another revision": (files("data/c", "data/d", revision=[3, 2]), REFUSED),
    "schema unknown": (files("data/c", schema_fingerprint=[b"x" * 16]), REFUSED),
    "negative size": (files("data/c", size_bytes=[-1]), REFUSED),
    "negative clock": (files("data/c", first_clock=[-1]), None),
    "size at the bound": (files("data/c", size_bytes=[BIG - 1]), None),
    "null partition": (files("data/c", partition=[None]), REFUSED),
    "null path": (files("data/c").set_column(0, "path", pa.array([None], pa.string())), REFUSED),
    "columns in another order": (TWO.select(list(reversed(TWO.schema.names))), None),
    "column missing": (TWO.drop_columns("partition"), REFUSED),
    "column twice": (with_column(TWO, "partition", ["", ""], pa.string()), REFUSED),
    "column of another type": (recast(TWO, "size_bytes", pa.int32()), REFUSED),
    "path as large string": (recast(TWO, "path", pa.large_string()), REFUSED),
    "column more": (with_column(TWO, "more", [1, 2], pa.int8()), None),
    "column more, twice": (
        with_column(with_column(TWO, "more", [1, 2], pa.int8()), "more", ["", ""], pa.string()),
        None,
    ),
    "statistics": (with_column(TWO, "min:int64:a:b", [1, None], pa.int64()), None),
    "statistics of another type": (with_column(TWO, "min:int64:a", [1, 2], pa.int32()), REFUSED),
    "statistics of a type that has none": (
        with_column(TWO, "min:int32:a", [1, 2], pa.int32()),
        REFUSED,
    ),
    "null count of another type": (with_column(TWO, "nulls::a", [1, 2], pa.int32()), REFUSED),
    "statistics of a name with one colon": (
        with_column(TWO, "exact:a", [1, 2], pa.uint8()),
        REFUSED,
    ),
    "null count of a name with one colon": (
        with_column(TWO, "nulls:a", [1, 2], pa.int64()),
        REFUSED,
    ),
    "null count with a type": (with_column(TWO, "nulls:int64:a", [1, 2], pa.int64()), REFUSED),
    "a column named nulls": (with_column(TWO, "nulls", [1, 2], pa.int64()), None),
    "statistics twice": (
        with_column(
            with_column(TWO, "nulls::a", [1, 2], pa.int64()), "nulls::a", [1, 2], pa.int64()
        ),
        REFUSED,
    ),
}


def batch(table: pa.Table, *before: wire.Action, **alter: Any) -> dict[str, Any]:
    """What `Trial.write` needs for a transaction of one batch behind some actions."""
    data = alter.pop("data", encode_ipc(table))
    facts = {"offset": 8, "length": len(data), "row_count": table.num_rows, **alter}
    item = wire.AddBatch(files=wire.Attachment(**facts), table="t")
    change = actions(*before, wire.Action(add_batch=item))
    return {"change": change, "attachments": bytes(8) + data}


@pytest.mark.parametrize("case", BATCHES)
def test_a_batch(trial: Trial, case: str) -> None:
    table, expected = BATCHES[case]
    trial.write(**batch(table))
    check(trial, expected)


PLACES: dict[str, tuple[dict[str, Any], str | None]] = {
    "row count": (batch(TWO, row_count=3), REFUSED),
    "beyond the attachments": (batch(TWO, offset=9), REFUSED),
    "far beyond": (batch(TWO, offset=(1 << 64) - 1), REFUSED),
    "no Arrow": (batch(TWO, data=b"junk" * 100), REFUSED),
    "Arrow cut": (batch(TWO, data=encode_ipc(TWO)[:-20]), REFUSED),
    "added just before": (batch(TWO, add_action("data/c")), REFUSED),
    "removed just before": (batch(files("data/a"), remove_action("data/a")), REFUSED),
    "added and removed just before": (
        batch(TWO, add_action("data/c"), remove_action("data/c")),
        REFUSED,
    ),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_batch_in_its_transaction(trial: Trial, case: str) -> None:
    arguments, expected = PLACES[case]
    trial.write(**arguments)
    check(trial, expected)


def test_actions_after_a_batch(trial: Trial) -> None:
    arguments = batch(TWO)
    first = arguments["change"]

    def change(message: wire.Transaction) -> None:
        first(message)
        message.actions.extend([remove_action("data/c"), add_action("data/c", row_count=3)])

    trial.write(change, attachments=arguments["attachments"])
    check(trial, None)
    assert trial.read()[0][1]["data/c"]["row_count"] == 3


# --- Checkpoints ----------------------------------------------------------------------------------


def set_field(name: str, value: Any) -> Callable[[checkpoint_wire.Checkpoint], None]:
    """Set a field of the checkpoint."""
    return lambda message: setattr(message, name, value)


def ref(which: int, **fields: Any) -> Callable[[checkpoint_wire.Checkpoint], None]:
    """Alter the first reference to a segment of a kind."""

    def change(message: checkpoint_wire.Checkpoint) -> None:
        found = next(item for item in message.segments if item.kind == which)
        for name, value in fields.items():
            setattr(found, name, value)

    return change


def without(kind: int) -> Callable[[checkpoint_wire.Checkpoint], None]:
    """Leave out the segments of a kind."""

    def change(message: checkpoint_wire.Checkpoint) -> None:
        kept = [item for item in message.segments if item.kind != kind]
        del message.segments[:]
        message.segments.extend(kept)

    return change


def twice(kind: int) -> Callable[[checkpoint_wire.Checkpoint], None]:
    """Name the segments of a kind twice."""

    def change(message: checkpoint_wire.Checkpoint) -> None:
        message.segments.extend([item for item in message.segments if item.kind == kind])

    return change


def no_files(message: checkpoint_wire.Checkpoint) -> None:
    without(1)(message)
    without(2)(message)
    message.counts.files = 0


CHECKPOINTS: dict[str, tuple[Callable[[checkpoint_wire.Checkpoint], None], str | None]] = {
    "nothing": (lambda message: None, None),
    "revision": (set_field("revision", 2), REFUSED),
    "uuid": (set_field("uuid", b"x" * 16), REFUSED),
    "uuid short": (lambda message: setattr(message, "uuid", message.uuid[:15]), REFUSED),
    "successor": (set_field("successor_uuid", b""), REFUSED),
    "digest short": (set_field("digest", b""), REFUSED),
    "digest other": (set_field("digest", b"x" * 32), REFUSED),
    "epoch": (set_field("epoch", 0), REFUSED),
    "time": (set_field("committed_at_us", 0), REFUSED),
    "count of files": (lambda message: setattr(message.counts, "files", 1), REFUSED),
    "count of rows": (lambda message: setattr(message.counts, "rows", 1), None),
    "reader feature": (lambda message: message.required_reader_features.append("x"), TOO_NEW),
    "writer feature": (lambda message: message.required_writer_features.append("x"), None),
    "kind unknown": (ref(1, kind=9), TOO_NEW),
    "kind tombstones": (ref(1, kind=5), TOO_NEW),
    "kind none": (ref(1, kind=0), TOO_NEW),
    "row count": (ref(1, row_count=9), REFUSED),
    "first path": (ref(1, first_path="data/0"), REFUSED),
    "last path": (ref(1, last_path="data/z"), REFUSED),
    "beyond the attachments": (ref(1, offset=1 << 40), REFUSED),
    "segment that is not there": (
        ref(1, name=f"{3:020d}.00000000.0.segment", digest=b"x" * 32),
        REFUSED,
    ),
    "segment with a name of something else": (ref(1, name="../x.segment"), REFUSED),
    "files twice": (twice(1), REFUSED),
    "no files": (no_files, None),
    "no schemas": (without(3), REFUSED),
    "schemas twice": (twice(3), None),
    "no history": (without(4), REFUSED),
    "history twice": (twice(4), REFUSED),
}


@pytest.mark.parametrize("case", CHECKPOINTS)
@pytest.mark.filterwarnings("ignore::lakelog.catalog.read.log_reader.CheckpointWarning")
def test_a_checkpoint(trial: Trial, case: str) -> None:
    change, expected = CHECKPOINTS[case]
    log = LogBuilder("w", "db")
    log.commit(schema_action(), add_action("data/a"), add_action("data/b", row_groups=[group()]))
    log.commit(add_action("data/c", row_groups=[group(null_count=1), group(null_count=2)]))
    encoded = encode_state(log.state)
    decoded = decode_checkpoint(encoded.body, encoded.name)
    change(decoded.message)
    raw = decoded.message.SerializeToString(deterministic=True)
    trial.put((encoded.name, frame(raw, bytes(decoded.attachments), kind=2)))
    check(trial, expected)


HISTORY, SPLIT = 4, 1


def keep(*rows: int) -> Callable[[pa.Table], list[pa.Table]]:
    """Only these rows, in this order."""
    return parts(list(rows))


def times(*at_us: int) -> Callable[[pa.Table], list[pa.Table]]:
    """These commit times."""

    def change(table: pa.Table) -> list[pa.Table]:
        at = table.schema.get_field_index("committed_at")
        return [table.set_column(at, table.schema.field(at), pa.array(at_us, table[at].type))]

    return change


def parts(*groups: list[int]) -> Callable[[pa.Table], list[pa.Table]]:
    """Several segments, of these rows each."""
    return lambda table: [table.take(pa.array(rows, pa.int64())) for rows in groups]


SEGMENTS: dict[str, tuple[int, Callable[[pa.Table], list[pa.Table]], str | None]] = {
    "history whole": (HISTORY, keep(0, 1, 2), None),
    "history in two segments": (HISTORY, parts([0], [1, 2]), None),
    "history in two segments, swapped": (HISTORY, parts([1, 2], [0]), REFUSED),
    "history pruned": (HISTORY, keep(2), None),
    "history with a gap": (HISTORY, keep(0, 2), REFUSED),
    "history without the end": (HISTORY, keep(0, 1), REFUSED),
    "history descending": (HISTORY, keep(2, 1, 0), REFUSED),
    "history of nothing": (HISTORY, keep(), REFUSED),
    "history, times equal": (HISTORY, times(5, 5, 6), REFUSED),
    "history, times descend": (HISTORY, times(7, 5, 8), REFUSED),
    "history, time 0": (HISTORY, times(0, 5, 8), REFUSED),
    "history, time beyond": (HISTORY, times(1, 5, 1 << 55), REFUSED),
    "files in three segments": (SPLIT, parts([0], [1], [2]), None),
    "files swapped": (SPLIT, parts([1, 2], [0]), REFUSED),
    "files overlap": (SPLIT, parts([0, 2], [1]), REFUSED),
    "files twice in a row": (SPLIT, parts([0, 1], [1, 2]), REFUSED),
    "a segment without rows": (SPLIT, parts([], [0, 1, 2]), None),
}


def three_revisions() -> LogBuilder:
    """A log whose state has three files of one table."""
    log = LogBuilder("w", "db")
    log.commit(schema_action(), add_action("data/a"))
    log.commit(add_action("data/b"))
    log.commit(add_action("data/c"))
    return log


@pytest.mark.parametrize("case", SEGMENTS)
@pytest.mark.filterwarnings("ignore::lakelog.catalog.read.log_reader.CheckpointWarning")
def test_a_checkpoint_of_other_segments(trial: Trial, case: str) -> None:
    kind, change, expected = SEGMENTS[case]
    encoded = encode_state(three_revisions().state)
    decoded = decode_checkpoint(encoded.body, encoded.name)
    message, attachments = decoded.message, bytearray(decoded.attachments)
    old = next(item for item in message.segments if item.kind == kind)
    whole = pa.ipc.open_file(attachments[old.offset :][: old.length]).read_all()
    without(kind)(message)
    for table in change(whole):
        attachments += bytes(-len(attachments) % 64)
        data = encode_ipc(table)
        paths = table["path"].to_pylist() if kind == SPLIT else []
        message.segments.add(
            kind=kind,
            table=old.table,
            row_count=table.num_rows,
            offset=len(attachments),
            length=len(data),
            first_path=min(paths, default="") and paths[0],
            last_path=min(paths, default="") and paths[-1],
        )
        attachments += data
    message.counts.files = sum(r.row_count for r in message.segments if r.kind == SPLIT)
    raw = message.SerializeToString(deterministic=True)
    trial.put((encoded.name, frame(raw, bytes(attachments), kind=2)))
    check(trial, expected)


SPILLED: dict[str, tuple[dict[str, Any], str | None]] = {
    "as it is": ({}, None),
    "of a later number": ({"number": 123_456_789}, None),
    "of another revision": ({"revision": 1}, None),
    "another digest": ({"digest": bytes(32)}, REFUSED),
    "a short digest": ({"digest": b"x"}, REFUSED),
    "a length of anything": ({"length": 1}, None),
    "of another kind": ({"kind": 2}, REFUSED),
    "under no segment's name": ({"name": "x.segment"}, REFUSED),
    "under a transaction's name": ({"name": f"{7:020d}.00000000.transaction"}, REFUSED),
    "not there": ({"gone": True}, REFUSED),
}


@pytest.mark.parametrize("case", SPILLED)
@pytest.mark.filterwarnings("ignore::lakelog.catalog.read.log_reader.CheckpointWarning")
def test_a_checkpoint_with_a_segment_by_reference(trial: Trial, case: str) -> None:
    facts, expected = SPILLED[case]
    encoded = encode_state(three_revisions().state)
    decoded = decode_checkpoint(encoded.body, encoded.name)
    item = next(item for item in decoded.message.segments if item.kind == SPLIT)
    data = bytes(decoded.attachments[item.offset :][: item.length])
    body = frame(b"", data, kind=facts.get("kind", 3))
    number, revision = facts.get("number", 0), facts.get("revision", 2)
    item.name = facts.get("name", f"{revision:020d}.0123abcd.{number}.segment")
    item.digest = facts.get("digest", body[24:56])
    item.length = facts.get("length", len(body))
    raw = decoded.message.SerializeToString(deterministic=True)
    trial.put((encoded.name, frame(raw, bytes(decoded.attachments), kind=2)))
    if "gone" not in facts:
        trial.put((item.name, body))
    check(trial, expected)
