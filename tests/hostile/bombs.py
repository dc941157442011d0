"""One bomb, in a process of its own: a small object that wants to take much memory or time.

    echo "zstd of 1 GiB" | python tests/hostile/bombs.py

prints how opening and using it ended, and what that took.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lakelog.catalog.format.deletes import decode_bitmap
from lakelog.catalog.format.frame import LogIdentity
from lakelog.catalog.format.objects import (
    decode_checkpoint,
    decode_transaction,
)
from lakelog.catalog.format.schema import decode_schema, fingerprint
from lakelog.catalog.format.segments import (
    COLUMNS,
    FILES,
    HISTORY,
    REFERENCES,
    SCHEMAS,
    STATISTICS,
    decode_segment,
    encode_ipc,
)
from lakelog.catalog.log.known_schemas import check_schemas
from lakelog.catalog.log.replay import apply
from lakelog.catalog.wire import lakelog_checkpoint_pb2 as checkpoint_wire
from lakelog.catalog.wire import lakelog_segment_pb2 as segment_wire
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import LakelogError
from lakelog.testing.logs import LogBuilder, add_action, schema_action
from pyroaring import BitMap

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "998-999999999999-0.aaaaaaaa."
LOG = LogIdentity(bytes(16), 1)
CAP = 8 << 20
MILLION = 1_000_000


def framed(kind: int, stored: bytes, decoded: int, codec: int = 1, attached: bytes = b"") -> bytes:
    """A frame with a right digest."""
    sizes = (len(stored), decoded, len(attached))
    head = struct.pack("<4s4BIIQ16sII", b"LKLG", 1, kind, codec, 0, *sizes, bytes(16), 1, 0)
    return head + hashlib.sha256(head + stored + attached).digest() + stored + attached


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(data, asbytes=True)
    return packed


def read(stored: bytes, decoded: int) -> Callable[[], Any]:
    """Opens a transaction whose message is compressed so."""
    body = framed(1, stored, decoded)
    return lambda: decode_transaction(body, NAME + "transaction")


def packed(message: bytes, kind: str = "transaction") -> Callable[[], Any]:
    """Opens an object with a message that zstd makes small."""
    body = framed(1 if kind == "transaction" else 2, zstd(message), len(message))
    decode = decode_transaction if kind == "transaction" else decode_checkpoint
    return lambda: decode(body, NAME + kind)


def field(number: int, body: bytes) -> bytes:
    """A field of bytes."""
    out, size = bytearray(varint(number << 3 | 2)), len(body)
    return bytes(out) + varint(size) + body


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def filled(unit: bytes, room: int = CAP - 64) -> bytes:
    return unit * (room // len(unit))


def nested(depth: int, number: int) -> bytes:
    """A message within a message, so deep."""
    body = b""
    for _ in range(depth):
        body = field(number, body)
    return body


# --- Compressed messages --------------------------------------------------------------------------


def window(exponent: int) -> bytes:
    """A zstd frame of nothing that wants a window of 2^(10 + exponent) bytes."""
    head = b"\x28\xb5\x2f\xfd" + bytes([0x80, exponent << 3]) + (0).to_bytes(4, "little")
    return head + b"\x01\x00\x00"


ZSTD = {
    "zstd of 1 GiB": lambda: read(zstd(bytes(1 << 30)), 1 << 30),
    "zstd of 1 GiB that says 1 MiB": lambda: read(zstd(bytes(1 << 30)), 1 << 20),
    "zstd of 8 MiB that says 0": lambda: read(zstd(bytes(CAP)), 0),
    "zstd with a window of 1 TiB": lambda: read(window(30), 0),
    "zstd with a window of 16 MiB": lambda: read(window(14), 0),
    "zstd of many frames": lambda: read(filled(zstd(b""), CAP), 0),
    "zstd of many frames, one large": lambda: read(zstd(bytes(1 << 30)) * 100, 100 << 30 & 0xFFFF),
    "zstd behind skippable frames": lambda: read(
        filled(b"\x50\x2a\x4d\x18" + bytes(4), CAP // 2) + zstd(b"x"), 1
    ),
}

# --- Messages -------------------------------------------------------------------------------------

MESSAGES = {
    "actions": lambda: packed(filled(b"\x3a\x00")),
    "adds of nothing": lambda: packed(filled(b"\x3a\x02\x0a\x00")),
    "row groups": lambda: packed(field(7, field(1, filled(b"\x5a\x00")))),
    "columns": lambda: packed(field(7, field(1, field(11, filled(b"\x12\x00"))))),
    "members": lambda: packed(field(15, filled(b"\x0a\x00"))),
    "members of two bytes": lambda: packed(field(15, filled(b"\x0a\x02\x30\x01"))),
    "a summary": lambda: packed(field(15, field(1, filled(b"\x2a\x00")))),
    "segments of a batch": lambda: packed(field(7, field(5, filled(b"\x0a\x00")))),
    "names of columns": lambda: packed(field(7, field(5, field(1, field(1, filled(b"\x3a\x00")))))),
    "features": lambda: packed(field(7, field(4, filled(b"\x12\x01a")))),
    "features of a checkpoint": lambda: packed(filled(b"\x4a\x01a"), "checkpoint"),
    "tables to forget": lambda: packed(field(7, field(9, filled(b"\x12\x01t")))),
    "unknown numbers": lambda: packed(filled(b"\xf8\x07\x01")),
    "unknown groups, deep": lambda: packed(filled(b"\xfb\x07")),
    "unknown groups, many": lambda: packed(filled(b"\xfb\x07\xfc\x07")),
    "a message 100,000 deep": lambda: packed(nested(100_000, 7)),
    "an action 100,000 deep": lambda: packed(field(7, nested(100_000, 5))),
    "references to references": lambda: packed(field(13, nested(100_000, 1)), "checkpoint"),
    "varints": lambda: packed(filled(b"\x08" + b"\x80" * 9 + b"\x01")),
}

# --- Arrow ----------------------------------------------------------------------------------------


def arrow(kind: int, table: pa.Table, rows: int, most_mib: int = 2) -> Callable[[], Any]:
    """Decodes a segment of so many bytes."""
    data = encode_ipc(table)
    assert len(data) < most_mib << 20
    return lambda: decode_segment(data, kind, rows, "k")


def declared(lie: int) -> Callable[[], Any]:
    """A segment whose buffers say that they are so long."""
    honest = 8 * 1_003
    table = repeated(STATISTICS, 1_003)
    data = encode_ipc(table).replace(struct.pack("<q", honest), struct.pack("<q", lie))
    return lambda: decode_segment(data, STATISTICS, 1_003, "k")


def repeated(kind: int, rows: int, **values: Any) -> pa.Table:
    """The same row many times; a value that is a function gives that of a row."""
    plain = {"table": "t", "first_table": "", "kind": 6, "part": -1, "run": -1, "row_count": 1}
    columns = {}
    for one in COLUMNS[kind]:
        value = values.get(one.name, plain.get(one.name, default(one)))
        items = map(value, range(rows)) if callable(value) else [value] * rows
        columns[one.name] = pa.array(items, one.type)
    return pa.table(columns, schema=COLUMNS[kind])


def default(one: pa.Field) -> Any:
    kinds = pa.types
    if one.nullable:
        return None
    if kinds.is_fixed_size_binary(one.type):
        return bytes(one.type.byte_width)
    if kinds.is_string(one.type) or kinds.is_binary(one.type):
        return "" if kinds.is_string(one.type) else b""
    return [] if kinds.is_list(one.type) else False if kinds.is_boolean(one.type) else 1


def deep_type(depth: int) -> bytes:
    """A schema message of a list of lists of lists."""
    kind = pa.int8()
    for _ in range(depth):
        kind = pa.list_(kind)
    message: bytes = pa.schema([("a", kind)]).serialize().to_pybytes()
    return message


def wide_schema() -> bytes:
    message: bytes = (
        pa.schema([(f"{n}", pa.int8()) for n in range(40_000)]).serialize().to_pybytes()
    )
    return message


def million_schemas() -> Callable[[], Any]:
    """Schemas in order, under fingerprints that are not theirs."""
    rows = repeated(SCHEMAS, MILLION, fingerprint=lambda n: n.to_bytes(16, "big"))
    data = encode_ipc(rows)
    return lambda: check_schemas(decode_segment(data, SCHEMAS, MILLION, "k"), "k", 1)


def references(rows: int) -> Callable[[], Any]:
    """A checkpoint that names the same piece again and again."""
    data = encode_ipc(repeated(REFERENCES, rows, length=0, offset=0))
    message = checkpoint_wire.Checkpoint(
        uuid=b"\xaa" * 16, successor_uuid=bytes(16), digest=bytes(32), transaction_id=bytes(16),
        epoch=1, committed_at_us=1, writer="w", database="db",
        first_epoch=1, begun_at_us=1,
    )  # fmt: skip
    segment = segment_wire.Segment(kind=REFERENCES, row_count=rows)
    message.references.segment.CopyFrom(segment)
    message.references.length = len(data)
    raw = message.SerializeToString()
    body = framed(2, raw, len(raw), 0, data)
    return lambda: decode_checkpoint(body, NAME + "checkpoint")


ARROW = {
    "a column of 256 MiB in a row": lambda: arrow(
        FILES, repeated(FILES, 1, path="data/" + "x" * (256 << 20)), 1
    ),
    "a history of 256 MiB in a row": lambda: arrow(
        HISTORY,
        repeated(HISTORY, 1, summary_keys=["x" * (256 << 20)], summary_values=["y"]),
        1,
    ),
    "buffers that say 1 EiB": lambda: declared(1 << 60),
    "buffers that say 2 GiB": lambda: declared((1 << 31) - 8),
    "buffers that say -2": lambda: declared(-2),
    "a million rows where one is said": lambda: arrow(STATISTICS, repeated(STATISTICS, MILLION), 1),
    "a row where two billion are said": lambda: arrow(
        STATISTICS, repeated(STATISTICS, 1), (1 << 31) - 1
    ),
    "a million files of one path": lambda: arrow(
        FILES, repeated(FILES, MILLION, path="data/x"), MILLION, 16
    ),
    "a million files in order": lambda: arrow(
        FILES, repeated(FILES, MILLION, path=lambda n: f"data/{n:07d}"), MILLION, 16
    ),
    "300,000 tables": lambda: arrow(
        FILES, repeated(FILES, 300_000, table=lambda n: f"{n:07d}", path="data/x"), 300_000, 16
    ),
    "a million schemas": million_schemas,
    "two million references": lambda: references(2 * MILLION),
    "a type 60 deep": lambda: partial(decode_schema, deep_type(60)),
    "a type 2,000 deep": lambda: partial(decode_schema, deep_type(2_000)),
    "a schema of 40,000 columns": lambda: partial(decode_schema, wide_schema()),
    "a schema cut short": lambda: partial(decode_schema, wide_schema()[:99_000]),
}

# --- States ---------------------------------------------------------------------------------------


def replayed(*transactions: list[wire.Action]) -> Callable[[], Any]:
    """Replays a log of these transactions and tells its files."""
    log = LogBuilder()
    objects = []
    for actions in transactions:
        name, body = log.encode(
            change=lambda m, actions=actions: m.actions.extend(actions), now_us=0
        )
        decoded = log.decode(name, body)
        objects.append(decoded)
        apply(log.state, decoded)
    state = log.replayed(-1)

    def run() -> None:
        for decoded in objects:
            apply(state, decoded)
        state.table_of("t")[0].table("t")
        assert state.schemas.tables() is not None
        assert state.applications.versions() is not None

    return run


def some_files(count: int) -> list[wire.Action]:
    return [schema_action(), *(add_action(f"data/{n}") for n in range(count))]


def some_schemas(count: int) -> list[wire.Action]:
    found = []
    for number in range(count):
        raw = number.to_bytes(4, "big")
        item = wire.Schema(table=f"t{number}", arrow_schema=raw, fingerprint=fingerprint(raw))
        found.append(wire.Action(schema=item))
    return found


def forgets(count: int, **values: Any) -> list[wire.Action]:
    """So many actions that forget; a value that is a function gives that of an action."""
    return [
        wire.Action(forget=wire.Forget(**{k: v(n) for k, v in values.items()}))
        for n in range(count)
    ]


def one_forget(count: int) -> list[wire.Action]:
    schemas = [wire.SchemaName(table="t", fingerprint=n.to_bytes(16, "big")) for n in range(count)]
    return [wire.Action(forget=wire.Forget(schemas=schemas, tables=["t"] * count))]


STATES = {
    "schemas to forget, one by one": lambda: replayed(some_files(8_000), one_forget(50_000)),
    "tables to forget, one action each": lambda: replayed(
        some_schemas(30_000), forgets(30_000, tables=lambda n: [f"t{n}"])
    ),
    "schemas to forget, one action each": lambda: replayed(
        some_files(8_000),
        forgets(30_000, schemas=lambda n: [wire.SchemaName(table="t", fingerprint=bytes(16))]),
    ),
    "forgetting the same table": lambda: replayed(
        some_files(8_000), forgets(20_000, tables=lambda n: ["t"])
    ),
    "forgetting applications": lambda: replayed(
        some_files(1), forgets(30_000, applications_before_us=lambda n: n + 1)
    ),
    "adding and removing": lambda: replayed(
        some_files(1),
        [add_action("data/x"), wire.Action(remove=wire.Remove(path="data/x", table="t"))] * 40_000,
    ),
}


def bitmap(count: int, below: int) -> Callable[[], Any]:
    """A bitmap of 2^28 rows in 60 KiB, of which the log says that they are so many."""
    rows = BitMap(range(1 << 28))
    rows.run_optimize()
    data = rows.serialize()
    return lambda: decode_bitmap(data, hashlib.sha256(data).digest(), count, "k", below=below)


BITMAPS = {
    "a bitmap of 2^28 rows of a file of nine": lambda: bitmap(1 << 28, 9),
    "a bitmap of 2^28 rows instead of one": lambda: bitmap(1, 1 << 32),
}

BOMBS: dict[str, Callable[[], Callable[[], Any]]] = ZSTD | MESSAGES | ARROW | STATES | BITMAPS


def status(name: str) -> int:
    """A line of this process's status, in KiB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


def measure(name: str) -> dict[str, Any]:
    """How one bomb ended, and what it cost this process."""
    call = BOMBS[name]()
    pa.default_memory_pool().release_unused()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak counts from here
    before, begun = status("VmRSS"), time.process_time()
    try:
        call()
        ended = "accepted"
    except (LakelogError, ValueError) as error:  # `decode_schema` promises a ValueError
        ended = type(error).__name__
    used_s = time.process_time() - begun
    mib = (status("VmHWM") - before) / 1024
    return {"ended": ended, "mib": round(mib), "seconds": round(used_s, 2)}


def main() -> None:
    """A line of JSON for each name that is read, measured in a process of its own: a fork of this
    one, which has imported all there is and done nothing."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            print(json.dumps(measure(line.rstrip("\n"))), flush=True)
            os._exit(0)
        _, code = os.waitpid(child, 0)
        if code:
            print(json.dumps({"ended": f"died of {code}"}), flush=True)


if __name__ == "__main__":
    main()
