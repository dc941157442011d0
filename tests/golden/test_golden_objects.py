"""Every released object still says what it said: fixtures/v1 against the code of today."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fixture_catalog import told_of
from lakelog.catalog.catalog import open_catalog
from lakelog.catalog.format.actions_object import decode_actions, encode_actions
from lakelog.catalog.format.cut import parse_token
from lakelog.catalog.format.deletes import decode_bitmap
from lakelog.catalog.format.deletes_object import bitmaps_of
from lakelog.catalog.format.footer import FLOATS, decode_footer, encode_footer
from lakelog.catalog.format.frame import FrameKind, LogIdentity, decode_frame, encode_frame
from lakelog.catalog.format.names import (
    LogObject,
    first_slot_uuid,
    rebuilt_slot_uuid,
    successor_uuid,
)
from lakelog.catalog.format.objects import (
    DecodedTransaction,
    decode_checkpoint,
    decode_transaction,
)
from lakelog.catalog.format.pieces import Piece, open_segment
from lakelog.catalog.format.segment_bytes import encode_ipc
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.log.checkpoint_state import state_of_checkpoint
from lakelog.catalog.log.features import check_writer_features
from lakelog.catalog.log.replay import apply
from lakelog.catalog.log.state import State, empty_state
from lakelog.catalog.read.statistics import table_statistics
from lakelog.catalog.read.tombstones import columns_of
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import BrokenChain, UnsupportedFeature
from make_fixtures import make
from readable import message_of, plain, readable_object

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "fixtures" / "v1"
OBJECTS = GOLDEN / "objects"
# A new field gets a new line in descriptor.txt.
UNSEALED = ("sha256.json", "README.md", ".gitattributes", "descriptor.txt")
CHAIN = (
    "append",
    "remove",
    "schemas",
    "members",
    "add-batch",
    "upgrade",
    "forget",
    "optional-action",
    "seal",
)
ASIDE = (
    "identity", "refused-action", "refused-feature", "second-incarnation", "location", "definition",
    "deletes", "deletes-of-cut",
)  # fmt: skip
FRAMES = sorted(
    path
    for pattern in ("*.transaction", "*.checkpoint", "*.segment", "*.deletes", "*.actions")
    for path in OBJECTS.glob(f"*/{pattern}")
)
by_case = pytest.mark.parametrize("path", FRAMES, ids=lambda p: f"{p.parent.name}{p.suffix}")


def one(case: str, suffix: str = "transaction") -> Path:
    """The only object of a case."""
    (path,) = (OBJECTS / case).glob(f"*.{suffix}")
    return path


def decoded(case: str) -> DecodedTransaction:
    """The transaction of a case."""
    path = one(case)
    return decode_transaction(path.read_bytes(), path.name)


def replayed(last: str) -> State:
    """The state after the chain up to a case."""
    state = empty_state("EWR", "weather")
    for case in CHAIN[: CHAIN.index(last) + 1]:
        apply(state, decoded(case))
    return state


def loaded(case: str) -> State:
    """The state that a checkpoint holds."""
    path = one(case, "checkpoint")
    state = state_of_checkpoint(decode_checkpoint(path.read_bytes(), path.name), "EWR", "weather")

    def fetch(pieces: Sequence[Piece]) -> list[memoryview]:
        bodies = [(path.parent / piece.name).read_bytes() for piece in pieces]
        assert state.log is not None
        return [open_segment(b, p, state.log) for b, p in zip(bodies, pieces, strict=True)]

    state.fetch = fetch
    return state


def said_by(state: State) -> list[Any]:
    """All that a state says, in a form that compares."""
    tables = sorted(state.schemas.tables())
    files = [
        sorted(state.table_of(t)[0].table(t, whole=True).to_pylist(), key=lambda row: row["path"])
        for t in tables
    ]
    told = [
        table_statistics(state, table, row_groups=groups).to_pylist()
        for table in tables
        for groups in (False, True)
    ]
    entries = sorted(
        state.schemas.entries.values(), key=lambda entry: (entry.revision, entry.fingerprint)
    )
    return [
        state.log, state.revision, state.uuid, state.next_uuid, state.digest, state.epoch,
        state.committed_at_us, state.transaction_id, state.named, state.writer_features, tables,
        files, told, entries, state.applications.versions(), state.history.table().to_pylist(),
    ]  # fmt: skip


def test_every_kind_of_object_is_there() -> None:
    assert {path.parent.name for path in FRAMES} == {
        *CHAIN, *ASIDE, "checkpoint-inline", "checkpoint-spilled", "checkpoint-location",
        "checkpoint-definition",
        "checkpoint-deletes",
        "checkpoint-deletes-of-cut",
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


def test_the_chain_replays_and_its_checkpoints_hold_the_same_state() -> None:
    assert said_by(loaded("checkpoint-inline")) == said_by(replayed("members"))
    assert said_by(loaded("checkpoint-spilled")) == said_by(replayed("forget"))


def test_replay_goes_on_from_a_checkpoint() -> None:
    for start in ("checkpoint-inline", "checkpoint-spilled"):
        state = loaded(start)
        for case in CHAIN[state.revision + 1 :]:
            apply(state, decoded(case))
        assert said_by(state) == said_by(replayed("seal"))
        live = state.table_of("hourly")[0].table("hourly").column("path").to_pylist()
        assert sorted(live) == [f"data/2013-01/hourly/part-00{n}.parquet" for n in (3, 5, 6)]


def test_a_log_that_requires_a_writer_feature_is_read_and_not_written() -> None:
    with pytest.raises(UnsupportedFeature, match="example-for-writers"):
        check_writer_features(replayed("forget"))


def test_an_unknown_action_is_refused_unless_it_is_optional() -> None:
    assert replayed("optional-action").revision == 7
    with pytest.raises(UnsupportedFeature, match="action of a kind"):
        decoded("refused-action")
    with pytest.raises(UnsupportedFeature, match="doesn't know"):
        encode_state(replayed("optional-action"))


def test_an_unknown_reader_feature_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="example-for-readers"):
        decoded("refused-feature")


def test_a_copy_takes_the_name_of_its_folder() -> None:
    state = replayed("forget")
    apply(state, decoded("identity"))
    assert state.named == ("EWR-2", "weather")
    assert state.is_foreign, "where the others are"
    assert not replace(state, writer="EWR-2").is_foreign


def test_a_sealed_log_goes_on_in_its_next_incarnation() -> None:
    sealed = replayed("seal")
    assert sealed.sealed_for == 2
    first, second = decoded("seal"), decoded("second-incarnation")
    with pytest.raises(BrokenChain):
        apply(sealed, decoded("second-incarnation"))
    assert second.log == LogIdentity(first.log.log_id, 2)
    rebuild_id = first.message.actions[0].seal.rebuild_id
    assert second.message.commit.slot_seed == rebuild_id
    assert second.message.uuid == rebuilt_slot_uuid(rebuild_id, 0)
    assert second.message.commit.successor_uuid == rebuilt_slot_uuid(rebuild_id, 1)
    state = empty_state("EWR", "weather")
    apply(state, second)
    assert said_by(loaded("second-incarnation")) == said_by(state)


def test_a_log_names_the_places_of_files() -> None:
    state = loaded("second-incarnation")
    apply(state, decoded("location"))
    assert state.locations == {"file://", "s3://other"}
    kept = loaded("checkpoint-location")
    assert (kept.locations, said_by(kept)) == (state.locations, said_by(state))
    apply(state, decoded("definition"))
    found = state.definitions.of("hourly")
    assert found is not None
    assert found.sources["degrees"] == (("degrees", 0), ("temp", 0))
    assert found.key == ("name",)
    assert {name: value.as_py() for name, value in found.defaults.items()} == {"note": "none"}
    kept = loaded("checkpoint-definition")
    assert kept.definitions.entries == state.definitions.entries
    assert said_by(kept) == said_by(state)
    assert {piece.kind for piece in kept.pieces} > {10}
    (path,) = (p for p in kept.files.table("hourly")["path"].to_pylist() if p.startswith("at/"))
    assert kept.places.url(path) == "s3://other/raw/hourly/year=2013/part-007.parquet"


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


def test_deletes_come_from_the_log_and_from_its_checkpoint() -> None:
    state = loaded("second-incarnation")
    for case in ("location", "definition", "deletes"):
        apply(state, decoded(case))
    kept = loaded("checkpoint-deletes")
    for each in (state, kept):
        (tombstone,) = each.deletes.of_table("hourly")
        assert (tombstone.predicate, tombstone.revision) == ("temp > 30 OR name LIKE 'a%'", 3)
        columns = columns_of(tombstone)
        assert columns is not None
        assert columns.sources == {"temp": (("temp", 0), ("degrees", 0)), "name": (("name", 0),)}
        assert columns.defaults == {"name": pa.scalar("none")}
        ((path, (rows,)),) = each.deletes.rows_of("hourly").items()
        assert path == "data/2013-01/hourly/part-003.parquet"
        body = one("deletes", "deletes").read_bytes()
        data = bitmaps_of(body, "x")[rows.offset : rows.offset + rows.length]
        assert decode_bitmap(data, rows.digest, rows.cardinality, "x").tolist() == [0, 4, 9]
    assert state.deletes.of_table("hourly") == kept.deletes.of_table("hourly")
    assert state.deletes.rows_of("hourly") == kept.deletes.rows_of("hourly")
    assert {piece.kind for piece in kept.pieces} >= {9, 11}


def test_an_object_of_actions_still_says_what_it_said() -> None:
    path = one("deletes", "actions")
    meta, message = decode_actions(path.read_bytes(), path.name)
    assert (meta.writer, meta.database, meta.table, meta.epoch) == ("EWR", "weather", "hourly", 3)
    assert (meta.app_id, meta.app_version, meta.base_app_version) == ("loader", 7, 6)
    kinds = [action.WhichOneof("kind") for action in message.actions]
    assert kinds == ["tombstone", "definition", "remove", "forget"]
    head = (message.head_revision, message.head_transaction_id)
    again = encode_actions(meta, message.actions, 1, head, message.definition_before)
    assert again == path.read_bytes()


def test_a_tombstone_names_logs() -> None:
    state = loaded("checkpoint-deletes")
    apply(state, decoded("deletes-of-cut"))
    kept = loaded("checkpoint-deletes-of-cut")
    for each in (state, kept):
        other, own = each.deletes.of_table("hourly")[1].logs
        assert (other.writer, other.incarnation, other.revision) == ("JFK", 1, 12)
        assert (other.log_id, other.transaction_id) == (bytes(range(16)), bytes(range(16, 32)))
        last = decoded("deletes").message.commit.members[-1].transaction_id
        assert (own.writer, own.revision, own.transaction_id) == ("EWR", 3, last)
    assert state.deletes.of_table("hourly") == kept.deletes.of_table("hourly")
