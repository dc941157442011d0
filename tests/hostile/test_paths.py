"""Paths that lead elsewhere are refused wherever a path stands, before anything is asked of the
store; objects that would grow are refused before they cost anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from corpus import build_corpus
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.objects import (
    decode_checkpoint,
    decode_transaction,
    encode_checkpoint,
    encode_transaction,
)
from lakelog.catalog.format.segment_bytes import decode_segment, encode_ipc
from lakelog.catalog.wire.lakelog_checkpoint_pb2 import SegmentRef
from lakelog.errors import CorruptObject, LakelogError, UsageError
from lakelog.gc import Plan, plan_gc
from lakelog.store import open_store
from lakelog.store.memory import MemoryStore

CORPUS = build_corpus()
SCHEMES = ["file:///etc/passwd", "s3://bucket/key", "http://host/x", "memory://x", "C:/x", "//h/x"]
BAD = [
    "", "x", "/etc/passwd", "..", ".", "data", "data/", "data/..", "data/../../w2/db/data/x",
    "Data/x", "data/a/../b", "data/./b", "data//b", "data/b/", "/data/b", "./data/b", "data/\x00",
    "data/a\nb",
    "data/a\\..\\b", "data\\b", "data/" + "x" * 256, "data/" + "x/" * 500 + "y", "data/a/..",
    "\\data\\b",
    "transactions/00000000000000000000.aaaaaaaa.transaction", "data/\x7f", " data/b", *SCHEMES,
]  # fmt: skip
# A percent sign is a character like any other: nobody decodes a path of a log.
LITERAL = ["data/%2e%2e/b.parquet", "data/%2E%2E%2fb.parquet", "data/..%2f..%2fb.parquet"]


def refused(call):
    with pytest.raises(CorruptObject) as caught:
        call()
    assert caught.value.key


@pytest.mark.parametrize("path", BAD)
@pytest.mark.parametrize("kind", ["add", "remove"])
def test_no_action_names_such_a_path(path, kind):
    message = decode_transaction(CORPUS.adds.body, CORPUS.adds.key).message
    action = next(a for a in message.actions if a.WhichOneof("kind") == kind)
    getattr(action, kind).path = path
    body, _ = encode_transaction(message)
    refused(lambda: decode_transaction(body, CORPUS.adds.key))


@pytest.mark.parametrize("path", BAD)
def test_no_column_of_files_holds_such_a_path(path):
    """The rows of an AddBatch and of a checkpoint's FILES are read by the same code."""
    _, data = CORPUS.segments[0].parts()
    table = decode_segment(data, SegmentRef.FILES, CORPUS.state.tables["t"].count, "k")
    for place in (0, table.num_rows - 1):
        paths = table.column("path").to_pylist()
        paths[place] = path
        spoiled = encode_ipc(table.set_column(0, table.schema.field("path"), pa.array(paths)))
        refused(lambda data=spoiled: decode_segment(data, SegmentRef.FILES, table.num_rows, "k"))


@pytest.mark.parametrize(
    "name",
    [*(path for path in BAD if path), "../" + "0" * 20 + ".aaaaaaaa.0.segment",
     "0" * 20 + ".aaaaaaaa.transaction", "0" * 20 + ".aaaaaaaa.00.segment",
     "0" * 20 + ".aaaaaaaa.0.segment/../x", "9" * 20 + ".aaaaaaaa.0.segment"],
)  # fmt: skip
def test_no_checkpoint_refers_to_such_a_segment(name):
    message = decode_checkpoint(CORPUS.spilled.body, CORPUS.spilled.key).message
    message.segments[0].name = name
    body, _ = encode_checkpoint(message, b"")
    refused(lambda: decode_checkpoint(body, CORPUS.spilled.key))


@pytest.mark.parametrize("path", LITERAL)
def test_percent_signs_are_never_decoded(path):
    """Such a file may be named; what is asked of the store is that very name, below the writer."""
    store = MemoryStore("m")
    catalog = Catalog(store)
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            (made,) = tx.write("t", pa.table({"a": [1]}))
        store.put("w/db/" + path, store.get("w/db/" + made))
        with writer.transaction() as tx:
            tx.add("t", path)
    assert catalog.snapshot("db").to_arrow("t").num_rows == 2


def made_lake(store):
    catalog = Catalog(store)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"a": [1]}))
    return catalog


@pytest.mark.parametrize("path", [*BAD, *LITERAL, "w/db/data/../../w2/x.parquet"])
def test_no_plan_deletes_such_a_key(path):
    store = MemoryStore("m")
    text = json.loads(plan_gc(made_lake(store), "w", "db").to_json())
    for key in (path, "w/db/" + path, "w/../" + path):
        if key.removeprefix("w/db/") in LITERAL and key.startswith("w/db/"):
            continue  # a name like any other below data/
        action = {"key": key, "size_bytes": 1, "reason": "x", "table": "", "rule": ""}
        known = {"key", "size_bytes", "reason"}
        text["actions"] = [{name: action[name] for name in known}]
        with pytest.raises(UsageError):
            Plan.from_json(json.dumps(text))


def test_a_link_out_of_the_root_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.parquet").write_bytes(b"secret")
    root = tmp_path / "root"
    store = open_store(root)
    made_lake(store)
    os.symlink(outside, root / "w" / "db" / "data" / "out")
    os.symlink(outside / "secret.parquet", root / "w" / "db" / "data" / "s.parquet")
    for key in ("w/db/data/out/secret.parquet", "w/db/data/s.parquet"):
        with pytest.raises(LakelogError):
            store.get(key)
    with pytest.raises(LakelogError):
        store.put("w/db/data/out/secret.parquet", b"overwritten")
    with pytest.raises(LakelogError):
        store.delete(["w/db/data/out/secret.parquet"])
    store.put("w/db/data/s.parquet", b"overwritten")  # takes the place of the link itself
    assert [item.key for item in store.list("w/db/data/") if "secret" in item.key] == []
    assert (outside / "secret.parquet").read_bytes() == b"secret"


# --- Bombs ----------------------------------------------------------------------------------------

BOMBS = """
import hashlib, json, resource, struct, sys, time
import pyarrow as pa
from lakelog.catalog import frame, ipc
from lakelog.catalog.format.objects import decode_transaction, decode_checkpoint
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.catalog.wire.lakelog_checkpoint_pb2 import SegmentRef
from lakelog.errors import LakelogError

NAME = "00000000000000000000.aaaaaaaa."
CAP = frame.MAX_MESSAGE_BYTES

def framed(kind, stored, decoded, codec):
    head = struct.pack("<4sBBBBIIQ", b"LKLG", 1, kind, codec, 0, len(stored), decoded, 0)
    return head + hashlib.sha256(head + stored).digest() + stored

def zstd(data):
    return pa.Codec("zstd").compress(data, asbytes=True)

def messages(kind):
    inner = {"actions": b"\\x3a\\x00", "empty adds": b"\\x3a\\x02\\x0a\\x00",
             "row groups": None, "columns": None, "segments": b"\\x5a\\x00"}[kind]
    if inner is None:
        pair = b"\\x12\\x00" if kind == "columns" else b"\\x5a\\x00"
        groups = pair * (CAP // 2 - 40)
        def sub(number, body):
            out, size = bytearray([number << 3 | 2]), len(body)
            while size > 127:
                out.append(size & 127 | 128)
                size >>= 7
            return bytes(out) + bytes([size]) + body
        return sub(7, sub(1, sub(11, groups) if kind == "columns" else groups))[:CAP]
    return inner * (CAP // len(inner))

def bomb(name):
    if name == "zstd 1 GiB":
        stored = zstd(bytes(1 << 30))
        assert len(stored) < 100_000
        return lambda: decode_transaction(framed(1, stored, 1 << 30, 1), NAME + "transaction")
    if name == "zstd 1 GiB that says 1 MiB":
        stored = zstd(bytes(1 << 30))
        return lambda: decode_transaction(framed(1, stored, 1 << 20, 1), NAME + "transaction")
    if name == "ipc buffer":
        data = ipc.encode_ipc(pa.table({"path": pa.array(["data/" + "x" * (256 << 20)])}))
        assert len(data) < 100_000
        return lambda: ipc.decode_segment(data, SegmentRef.FILES, 1, "k")
    message = messages(name)
    kind, suffix, decode = (
        (2, "checkpoint", decode_checkpoint) if name == "segments"
        else (1, "transaction", decode_transaction)
    )
    stored = zstd(message)
    return lambda: decode(framed(kind, stored, len(message), 1), NAME + suffix)

call = bomb(sys.argv[1])

def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))

with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak counts from here
before, begun = status("VmRSS"), time.process_time()
try:
    call()
    ended = "accepted"
except LakelogError as error:
    ended = type(error).__name__
peak = status("VmHWM")
print(json.dumps({"ended": ended, "mib": (peak - before) / 1024,
                  "seconds": time.process_time() - begun}))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux to measure")
@pytest.mark.parametrize(
    ("name", "most_mib", "most_s"),
    [
        ("zstd 1 GiB", 8, 0.5),
        ("zstd 1 GiB that says 1 MiB", 8, 0.5),
        ("ipc buffer", 8, 0.5),
        ("actions", 256, 10),
        ("empty adds", 256, 10),
        ("row groups", 256, 10),
        ("segments", 256, 10),
        ("columns", 256, 10),
    ],
)
def test_a_bomb_is_refused_before_it_costs_anything(tmp_path, name, most_mib, most_s):
    script = tmp_path / "bomb.py"
    script.write_text(BOMBS)
    done = subprocess.run(
        [sys.executable, str(script), name], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["ended"] in ("CorruptObject", "UnsupportedFeature")
    assert found["mib"] < most_mib
    assert found["seconds"] < most_s
