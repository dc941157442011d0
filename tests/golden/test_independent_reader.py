"""The independent reader, written from docs/format.md alone, reads logs that were written by hand
from the same text, and tells what is wrong with damaged ones."""

from __future__ import annotations

import ast
import hashlib
import json
import random
import sys
from pathlib import Path
from typing import Any

import hand_objects
import independent_messages as messages
import pyarrow as pa
import pytest
from hand_random import random_log
from hand_segments import HandFile
from independent_frame import open_frame
from independent_ipc import decode_schema
from independent_log import Log, read_name
from independent_segments import dead_rows
from independent_state import State
from independent_statistics import bound_of, bound_value, from_key, key_of
from independent_transaction import known_actions
from independent_verdict import describe, verdict
from independent_wire import Damaged, Refusal, TooNew, check_path, check_table, decode
from logs_by_hand import make_logs, verdict_text, write_log
from seeds import base_seed

HERE = Path(__file__).parent
VALID = 8  # others with each commit; `make soak` reads many
DAMAGED = 56


def test_neither_imports_anything_of_lakelog() -> None:
    sources = sorted([*HERE.glob("independent_*.py"), *HERE.glob("hand_*.py")])
    assert len(sources) > 15
    for source in [*sources, HERE / "logs_by_hand.py"]:
        for node in ast.walk(ast.parse(source.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.split(".")[0]
                own = top.startswith(("independent_", "hand_")) or top in ("pyarrow", "__future__")
                assert own or top in sys.stdlib_module_names, (source.name, name)


# --- Valid logs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(VALID))
def test_it_reads_what_was_written(number: int) -> None:
    check_reads(base_seed() + number)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_many_logs() -> None:
    for seed in range(base_seed(), base_seed() + 500):
        check_reads(seed)
        check_bases(seed)


def check_reads(seed: int) -> None:
    written = random_log(seed)
    log = Log(written.transactions, written.segments)
    state = log.read(log.head)
    tables = state.tables()
    assert {(t, fingerprint) for t in tables for fingerprint in state.schemas(t)} == set(
        written.schemas
    )
    found = {(t, path): file.facts for t in tables for path, file in state.files(t).items()}
    assert found == {
        key: {**file.facts, "row_groups": len(file.groups)} for key, file in written.files.items()
    }
    apps = {k: (v["app_version"], v["committed_at_us"]) for k, v in written.applications.items()}
    assert state.applications() == apps
    history = state.history()
    assert history == written.history[-len(history) :]
    for table in tables:
        for path, (columns, groups) in state.statistics(table).items():
            file = written.files[table, path]
            assert columns == {k: v for k, v in file.whole().items() if v}
            assert [known for _, known in groups] == expected_groups(file)


def expected_groups(file: HandFile) -> list[Any]:
    told = [{file.name(at): k for at, k in group.items() if k} for _, group in file.groups]
    return told if len(told) > 1 else []


def alike(one: Any, other: Any) -> bool:
    """Whether two tell the same of all that both tell."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(alike(one[key], other[key]) for key in one.keys() & other.keys())
    return bool(one == other)


@pytest.mark.parametrize("number", range(VALID))
def test_all_bases_tell_the_same(number: int) -> None:
    check_bases(base_seed() + 1_000 + number)


def check_bases(seed: int) -> None:
    written = random_log(seed)
    log = Log(written.transactions, written.segments)
    reached = 0
    for goal in range(log.head + 1):
        told = []
        try:
            for head, view, _ in log._replays(goal):
                state = State(head, lambda view=view: iter([view]))
                found = describe(state)
                if view.history()[0]["revision"]:
                    del found["history"]  # old rows were left out
                told.append(found)
        except Refusal:
            pass  # pruned, or a lower base that cannot be tried
        reached += bool(told)
        for other in told[1:]:
            assert alike(told[0], other)
    assert reached


def test_points_in_time() -> None:
    for seed in range(8):
        written = random_log(seed)
        log = Log(written.transactions, written.segments)
        for row in log.read(log.head).history():
            assert log.revision_at(row["committed_at"]) == row["revision"]
        assert log.revision_at(1 << 60) == log.head
        with pytest.raises(Refusal) as refused:
            log.revision_at(0)
        begins = log.read(log.head).history()[0]["revision"]
        assert refused.value.kind == ("pruned" if begins else "not-found")


# --- Damaged logs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [DAMAGED, pytest.param(2_000, marks=pytest.mark.long)])
def test_it_says_something_of_every_damaged_log(count: int) -> None:
    seen: dict[str, int] = {}
    kinds = {"ok", "damaged", "too-new", "a part"}
    for number, (name, log, done) in enumerate(make_logs(5, 0, 10 * count)):
        if number >= count and seen.keys() >= kinds:
            break
        found = json.loads(verdict_text(log))
        seen[found["verdict"]] = seen.get(found["verdict"], 0) + 1
        parts = [v for table in found.get("tables", {}).values() for v in table.values()]
        if "damaged" in [found.get("history"), found.get("applications"), *parts]:
            seen["a part"] = seen.get("a part", 0) + 1
        assert done != "nothing", name
    assert seen.keys() >= kinds


def test_the_command_writes_the_same_twice(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        for name, log, done in make_logs(5, 2, 3):
            write_log(tmp_path / folder / name, log, done)
    files = [p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file()]
    assert len(files) > 20
    for path in files:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes()
    folder = tmp_path / "one" / "valid-0000"
    objects = [
        {item.name: item.read_bytes() for item in (folder / kind).iterdir()}
        for kind in ("transactions", "segments")
    ]
    data = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.deletes")}
    assert json.loads((folder / "verdict.json").read_text()) == verdict(*objects, data)


# --- Frames ---------------------------------------------------------------------------------------


def frame_class(data: bytes) -> str:
    try:
        open_frame(data, 1, 1)
    except Refusal as error:
        return error.kind
    return "ok"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "ok"),
        ({"codec": 1}, "ok"),
        ({"version": 2}, "too-new"),
        ({"version": 2, "kind": 9, "zero": 1, "codec": 7}, "too-new"),
        ({"version": 2, "stored": 3}, "damaged"),
        ({"codec": 2}, "too-new"),
        ({"codec": 2, "zero": 1}, "damaged"),
        ({"codec": 2, "zeros": 1}, "damaged"),
        ({"codec": 2, "kind": 2}, "damaged"),
        ({"codec": 2, "incarnation": 2}, "damaged"),
        ({"codec": 2, "decoded": (1 << 23) + 1}, "damaged"),
        ({"decoded": 5}, "damaged"),
        ({"codec": 1, "decoded": 5}, "damaged"),
        ({"magic": b"LKLX"}, "damaged"),
    ],
)
def test_headers(changes: dict[str, Any], expected: str) -> None:
    header = hand_objects.Header(**{"kind": 1, "log_id": bytes(16), **changes})
    assert frame_class(hand_objects.frame(header, b"abcd" * 9, b"tail")) == expected


def zstd_frame(body: bytes, decoded: int) -> str:
    data = hand_objects.frame(hand_objects.Header(1, bytes(16)), body)
    head = bytearray(data[:48])
    head[6], head[12:16] = 1, decoded.to_bytes(4, "little")
    return frame_class(bytes(head) + hashlib.sha256(bytes(head) + body).digest() + body)


def test_zstandard_within_a_frame() -> None:
    body = pa.Codec("zstd").compress(b"abc" * 500, asbytes=True)
    raw = b"\x28\xb5\x2f\xfd" + bytes([0x20, 3]) + b"\x19\0\0abc"  # single segment, one raw block
    assert zstd_frame(body, 1500) == zstd_frame(raw, 3) == "ok"
    assert zstd_frame(body, 1499) == "damaged"
    assert zstd_frame(body + b"\0", 1500) == "damaged"
    assert zstd_frame(body + body, 3000) == "ok"
    dictionary = b"\x28\xb5\x2f\xfd" + bytes([0x21, 7, 3]) + b"\x19\0\0abc"
    assert zstd_frame(dictionary, 3) == "damaged"
    empty = pa.Codec("zstd").compress(b"", asbytes=True)
    assert zstd_frame(empty, 0) == "ok"


# --- Messages -------------------------------------------------------------------------------------


def actions_of(*actions: list[list[Any]]) -> list[str]:
    data = hand_objects.encode([[7, 2, action] for action in actions])
    found, _ = known_actions(decode(messages.TRANSACTION, data).actions)
    return [kind for kind, _ in found]


def test_kinds_of_actions() -> None:
    remove, optional = [2, 2, b""], [15, 0, 1]
    assert actions_of([remove], [remove, [15, 2, b"x"]]) == ["remove", "remove"]
    assert actions_of([optional], [[99, 0, 1], optional], [remove]) == ["remove"]
    assert actions_of([[99, 0, 1], remove], [remove, [2, 0, 1]]) == ["remove", "remove"]
    assert actions_of([[1, 2, b""], remove]) == ["remove"]  # of a oneof the last counts
    for action in (
        [],
        [[13, 2, b""]],
        [[2, 0, 1]],
        [[99, 0, 1]],
    ):
        with pytest.raises(TooNew):
            actions_of(action)
    for action in ([[4, 2, [[1, 2, b""]]]], [[5, 2, [[1, 2, b""]]]]):
        with pytest.raises(TooNew):
            actions_of(action)


@pytest.mark.parametrize(
    "data",
    [
        b"\x08", b"\x12\x05abcd", b"\x00\x00", b"\x0b", b"\x0c", b"\x0b\x14", b"\x0e", b"\x0f",
        b"\x7a\x02\x0a\xff", b"\x7a\x06\x0a\x04\x12\x02\xc3\x28",
    ],
)  # fmt: skip
def test_what_is_no_message(data: bytes) -> None:
    with pytest.raises(Damaged):
        decode(messages.TRANSACTION, data)


def test_what_is_a_message_all_the_same() -> None:
    assert decode(messages.TRANSACTION, b"\x08" + b"\x81" * 9 + b"\x7f").revision > 1 << 62
    assert decode(messages.TRANSACTION, b"\x88\x80\x80\x80\0\x07").revision == 7
    merged = decode(messages.TRANSACTION, b"\x7a\x02\x10\x02\x7a\x03\x1a\x01x").commit
    assert (merged.committed_at_us, merged.successor_uuid) == (1, b"x")
    assert decode(messages.TRANSACTION, b"\x30\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01").guest
    assert decode(messages.TRANSACTION, b"\x7d1234").there == set()


# --- Names and values of the text -----------------------------------------------------------------


def test_names() -> None:
    name = "998-999999999987-12.bdb70c0a.transaction"
    assert read_name(name) == (1, 12, "bdb70c0a", "transaction")
    for other in (
        name.replace("987", "986"), name.replace("998-", "999-"), name.replace("-12", "-012"),
        name + "\n", name.upper(), "x" + name, name.replace("transaction", "segment"),
    ):  # fmt: skip
        assert read_name(other) is None
    check_table("%" * 85)
    for table in ("", "%" * 86, "é" * 128):
        with pytest.raises(Damaged):
            check_table(table)
    check_path("data/%2E/" + "x" * 255)
    for path in ("data/", "data/../x", "data//x", "x/data/y", "data/a\\b", "data/\x7f"):
        with pytest.raises(Damaged):
            check_path(path)


KEYS = [
    ("int64", (-5).to_bytes(8, "little", signed=True), -5, False),
    ("uint64", (7).to_bytes(8, "little"), -9223372036854775801, False),
    ("uint64", (1 << 63).to_bytes(8, "little"), 0, False),
    ("double", bytes.fromhex("000000000000f83f"), 4609434218613702656, False),
    ("double", bytes(7) + b"\x80", -1, False),
    ("double", bytes(8), 0, False),
    ("bool", b"\1", 1, False),
    ("string", b"", -9223372036854775808, False),
    ("string", b"abc", -2206092015806971904, False),
    ("string", "Zürich".encode(), -2683093753402267648, False),
    ("string", b"hamburg-altona", -1701958914524682451, True),
    ("binary", b"a\0", -2233785415175766016, True),
    ("decimal128(38, 2)", (10**22).to_bytes(16, "little"), 9223372036854775807, True),
    ("decimal128(38, 2)", (-(10**22)).to_bytes(16, "little", signed=True), -(1 << 63), True),
]


@pytest.mark.parametrize(("kind", "raw", "key", "whole"), KEYS)
def test_the_keys_of_the_text(kind: str, raw: bytes, key: int, whole: bool) -> None:
    assert bound_value(raw, kind) is not None
    assert key_of(raw, kind) == key
    assert (from_key(key, kind) != raw) == whole
    assert bound_of(key, raw, kind) == raw
    assert bound_of(key - 1 if key > -(1 << 63) else key + 1, raw, kind) is None
    assert bound_of(None, raw, kind) is None
    if not whole:
        assert bound_of(key, None, kind) == raw


def test_what_is_no_value() -> None:
    nan = 0x7FF8000000000000
    assert bound_of(nan, None, "double") is None
    assert bound_of(2, None, "bool") is None
    assert bound_of(86_400, None, "time32[s]") is None
    assert bound_of(1 << 31, None, "date32[day]") is None
    assert bound_of(key_of(b"\xff", "binary"), None, "string") is None


def test_the_dead_rows_of_the_text() -> None:
    assert dead_rows(b"\x09\x02", 11) == {0, 3, 9}
    for bitmap in (b"\x09", b"\x09\x02\0", b"\x09\x08"):
        with pytest.raises(Damaged):
            dead_rows(bitmap, 11)


def test_schemas() -> None:
    data = pa.schema([("a", pa.int8()), ("b", pa.string())]).serialize().to_pybytes()
    assert decode_schema(data).names == ["a", "b"]
    stream = data + b"\xff\xff\xff\xff\0\0\0\0"
    double = pa.schema([("a", pa.int8()), ("a", pa.int8())]).serialize().to_pybytes()
    for wrong in (b"", data[4:], data + b"\0" * 8, stream, double, b"\xff" * 40, data[:-8]):
        with pytest.raises(Damaged):
            decode_schema(wrong)


def test_a_random_bit_never_goes_unseen() -> None:
    written = random_log(2)
    rng = random.Random(2)
    name = sorted(written.transactions)[0]
    data = written.transactions[name]
    for _ in range(50):
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        assert frame_class(bytes(flipped)) == "damaged"
