"""Every released object still says what it said: fixtures/v1 against the code of today."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fixture_catalog import told_of
from golden_objects import CHAIN, GOLDEN, OBJECTS, ROOT, decoded, loaded, one
from lakelog.catalog.catalog import open_catalog
from lakelog.catalog.format.cut import parse_token
from lakelog.catalog.format.footer import FLOATS, decode_footer, encode_footer
from lakelog.catalog.format.frame import FrameKind, decode_frame, encode_frame
from lakelog.catalog.format.names import (
    LogObject,
    first_slot_uuid,
    successor_uuid,
)
from lakelog.catalog.format.segments import encode_ipc
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from make_fixtures import make
from readable import message_of, plain, readable_object

# A new field gets a new line in descriptor.txt.
UNSEALED = ("sha256.json", "README.md", ".gitattributes", "descriptor.txt")
ASIDE = (
    "identity", "refused-action", "refused-feature", "second-incarnation", "location", "definition",
    "deletes",
)  # fmt: skip
FRAMES = sorted(
    path
    for pattern in ("*.transaction", "*.checkpoint", "*.segment", "*.deletes")
    for path in OBJECTS.glob(f"*/{pattern}")
)
by_case = pytest.mark.parametrize("path", FRAMES, ids=lambda p: f"{p.parent.name}{p.suffix}")


def test_every_kind_of_object_is_there() -> None:
    assert {path.parent.name for path in FRAMES} == {
        *CHAIN, *ASIDE, "checkpoint-inline", "checkpoint-spilled", "checkpoint-location",
        "checkpoint-definition",
        "checkpoint-deletes",
    }  # fmt: skip
    kinds = {
        action.WhichOneof("kind")
        for case in (*CHAIN, *ASIDE)
        for action in message_of(one(case).read_bytes(), one(case).name).actions
    }
    assert kinds == {
        "add", "remove", "schema", "upgrade", "add_batch", "identity", "seal", "forget",
        "location", "definition", "tombstone", "row_deletes", None,
    }  # fmt: skip


def test_every_kind_of_segment_is_there() -> None:
    pieces = loaded("checkpoint-spilled").pieces
    assert {piece.kind for piece in pieces} == {1, 2, 3, 4, 5, 6, 7}
    assert [piece.dead_rows for piece in pieces if piece.kind == 1] == [1, 0]
    assert {piece.run for piece in pieces if piece.kind == 1} == {0, 1}
    segments = {
        path.name for path in one("checkpoint-spilled", "checkpoint").parent.glob("*.segment")
    }
    assert segments == {piece.name for piece in pieces if piece.digest}
    assert all(piece.inline is not None for piece in loaded("checkpoint-inline").pieces)


def test_nothing_has_changed_the_files() -> None:
    sums = json.loads((GOLDEN / "sha256.json").read_text())["files"]
    found = {
        path.relative_to(GOLDEN).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in GOLDEN.rglob("*")
        if path.is_file() and path.name not in UNSEALED
    }
    assert found == sums


@by_case
def test_an_object_still_says_what_it_said(path: Path) -> None:
    told = json.loads(path.with_name(path.name + ".json").read_text())
    assert json.loads(json.dumps(readable_object(path.read_bytes(), path.name))) == told


@by_case
def test_encoding_an_object_again_gives_the_same_message(path: Path) -> None:
    kind = FrameKind[path.suffix[1:].upper()]
    frame = decode_frame(path.read_bytes(), kind, path.name)
    message = message_of(path.read_bytes(), path.name)
    assert message.SerializeToString(deterministic=True) == frame.message
    again, _ = encode_frame(kind, frame.log, frame.message, bytes(frame.attachments))
    opened = decode_frame(again, kind, path.name)
    assert (opened.message, opened.attachments) == (frame.message, frame.attachments)
    assert opened.log == frame.log


@pytest.mark.parametrize("path", [p for p in FRAMES if p.suffix == ".segment"], ids=str)
def test_encoding_a_segment_again_gives_the_same_rows(path: Path) -> None:
    frame = decode_frame(path.read_bytes(), FrameKind.SEGMENT, path.name)
    table = pa.ipc.open_file(frame.attachments).read_all()
    assert pa.ipc.open_file(encode_ipc(table)).read_all().equals(table, check_metadata=True)


def test_slot_uuids_follow_from_their_seeds() -> None:
    for case in CHAIN:
        found = decoded(case).message
        seed, revision = found.commit.slot_seed, found.revision
        assert found.commit.successor_uuid == successor_uuid(seed, revision)


def test_the_token_still_names_its_cut() -> None:
    token = (OBJECTS / "token" / "token.txt").read_text().strip()
    told = json.loads((OBJECTS / "token" / "token.json").read_text())
    cut = parse_token(token)
    assert cut.token == token
    assert cut.database == told["database"]
    assert told["writers"] == {
        name: {
            "revision": at.revision,
            "digest": at.digest.hex(),
            "log_id": at.log.log_id.hex() if at.log else "",
            "incarnation": at.log.incarnation if at.log else 0,
        }
        for name, at in cut.writers.items()
    }


def test_the_footer_of_a_data_file_still_says_what_it_said() -> None:
    path = OBJECTS / "data-file" / "data.parquet"
    told = json.loads(path.with_name("data.parquet.json").read_text())
    metadata = pq.read_metadata(path).metadata
    own = {k.decode(): v.decode() for k, v in metadata.items() if k.startswith(b"lakelog.")}
    assert own == told | FLOATS
    footer = decode_footer(metadata)
    assert footer is not None
    assert encode_footer(footer) == told
    assert (footer.partition, footer.first_clock, footer.base_revision) == ("2013/01", -5, 6)
    (group,) = wire.Add.FromString(footer.floats).row_groups
    known = [(c.column, c.null_count, c.no_nan, struct.unpack("<d", c.max)) for c in group.columns]
    assert (group.row_count, known) == (2, [(1, 1, True, (1.5,)), (2, 0, False, (2.5,))])


def test_the_golden_catalog_is_read_as_ever() -> None:
    catalog = open_catalog(str(GOLDEN / "catalog"))
    told = json.loads((GOLDEN / "catalog.json").read_text())
    assert json.loads(json.dumps(told_of(catalog))) == told
    for cut in told:
        assert catalog.snapshot("weather", cut["token"]).cut.revisions == cut["cut"]
        for name, table in cut["tables"].items():
            assert table["rows"] or name == "planes"
    assert catalog.snapshot("weather").cut.revisions == {"EWR": 6, "JFK": 2}


def test_the_generator_gives_the_same_bytes_every_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make(tmp_path / name)
    sums = [json.loads((tmp_path / n / "sha256.json").read_text()) for n in ("one", "two")]
    assert sums[0] == sums[1]
    golden = json.loads((GOLDEN / "sha256.json").read_text())
    assert sums[0]["files"].keys() == golden["files"].keys()


def test_the_example_in_the_format_text_is_the_golden_object() -> None:
    text = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    path = one("remove")
    assert str(path.relative_to(ROOT)) in text
    lines = re.findall(r"^ *(\d+)  ([0-9a-f]{2,36}) +\S", text, re.MULTILINE)
    body = b"".join(bytes.fromhex(raw) for _, raw in lines)
    assert body == path.read_bytes()
    at = 0
    for offset, raw in lines:
        assert int(offset) == at
        at += len(raw) // 2


def test_the_first_slot_uuid_in_the_format_text_is_right() -> None:
    text = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    uuid = first_slot_uuid("EWR", "weather").hex()
    assert f"slot uuid                        = {uuid}\n" in text
    assert LogObject(1, 0, uuid[:8], "transaction").name in text
    spaced = re.search(r'weather"\) = ((?:[0-9a-f]{8} ){4})', text)
    assert spaced is not None
    assert spaced[1].replace(" ", "") == uuid


def test_plain_values_survive_json() -> None:
    values = {"a": [b"\x00\xff", 1, 1.5, None, "é"], "b": {"c": True}}
    assert json.loads(json.dumps(plain(values))) == plain(values)
