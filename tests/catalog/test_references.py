"""REFERENCES and segment objects: every rule of docs/format.md, sections 6.6 and 6.7."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.format import segments
from lakelog.catalog.format.frame import FrameKind, LogIdentity, encode_frame
from lakelog.catalog.format.pieces import (
    Piece,
    decode_references,
    frame_segment,
    open_segment,
    reference_rows,
)
from lakelog.catalog.format.segments import REFERENCES_COLUMNS, encode_ipc
from lakelog.catalog.wire import lakelog_segment_pb2 as wire
from lakelog.errors import CorruptObject, UnsupportedFeature

FILES, ROW_GROUPS, STATISTICS, GROUP_STATISTICS, SCHEMAS, APPLICATIONS, HISTORY, REFERENCES = range(
    1, 9
)
KEY = "w/db/transactions/x.checkpoint"
ATTACHMENTS = memoryview(bytes(1000))


def row(kind, **changes):
    """A sound row of a kind."""
    plain = {
        "kind": kind, "part": -1, "run": -1, "digest": None, "offset": 0, "length": 10,
        "row_count": 11, "total_rows": 0, "total_bytes": 0, "first_table": "", "first_path": "",
        "last_table": "", "last_path": "", "min_partition": "", "max_partition": "", "columns": [],
        "first_revision": 0, "last_revision": 0, "dead": None,
    }  # fmt: skip
    if kind == FILES:
        plain |= {"part": 0, "run": 0, "total_rows": 5, "total_bytes": 6, "first_table": "a"}
        plain |= {"first_path": "data/a", "last_table": "c", "last_path": "data/c"}
        plain |= {"min_partition": "p", "max_partition": "ü"}
    elif kind in (ROW_GROUPS, STATISTICS, GROUP_STATISTICS):
        plain |= {"part": 0, "columns": [] if kind == ROW_GROUPS else ["a", "b"]}
    elif kind == SCHEMAS:
        plain |= {"first_table": "a", "last_table": "c"}
    elif kind == HISTORY:
        plain |= {"first_revision": 3, "last_revision": 13}
    return plain | changes


def sound():
    """Two runs, the first of two parts, and one piece of each other kind."""
    return [
        row(FILES),
        row(FILES, part=1, first_table="c", first_path="data/d", last_table="d"),
        row(FILES, part=2, run=1, dead=b"\x09\x02"),
        *(row(kind) for kind in range(ROW_GROUPS, REFERENCES)),
    ]


def decode(rows):
    table = pa.Table.from_pylist(rows, schema=REFERENCES_COLUMNS)
    return decode_references(encode_ipc(table), len(rows), ATTACHMENTS, KEY, "w/db/segments/")


def test_sound_references_are_taken_and_written_again():
    pieces = decode(sound())
    assert [piece.kind for piece in pieces] == [1, 1, 1, 2, 3, 4, 5, 6, 7]
    assert [piece.dead_rows for piece in pieces[:3]] == [0, 0, 3]
    assert reference_rows(pieces).to_pylist() == sound()
    assert list(decode([row(HISTORY)])[0].inline) == [0] * 10
    (far,) = decode([row(SCHEMAS, digest=b"\x07" * 32, offset=10**9, length=10**9)])
    assert (far.name, far.inline) == ("07" * 32 + ".segment", None)
    assert far.where == "w/db/segments/" + far.name


def test_the_others_follow_in_any_order():
    rows = sound()
    assert len(decode(rows[:3] + rows[3:][::-1])) == 9


def test_the_example_of_dead_rows():
    (piece,) = decode([row(FILES, row_count=11, dead=bytes.fromhex("0902"))])
    assert piece.dead_rows == 3


def changed(place, **changes):
    rows = sound()
    rows[place] |= changes
    return rows


BAD = {
    "files behind others": [row(SCHEMAS), row(FILES)],
    "parts not from 0": changed(0, part=1),
    "parts with a gap": changed(1, part=3),
    "a part twice": changed(1, part=0),
    "part of row groups that isn't there": changed(3, part=3),
    "statistics of no part": changed(4, part=-1),
    "a part below": changed(5, part=-2),
    "schemas with a part": changed(6, part=0),
    "runs not from 0": [row(FILES, run=1)],
    "runs with a gap": changed(2, run=2),
    "runs descending": [row(FILES), row(FILES, part=1, run=1), row(FILES, part=2, run=0)],
    "a run of another kind": changed(8, run=0),
    "files without a run": [row(FILES, run=-1)],
    "overlap in a run": changed(1, first_table="c", first_path="data/c"),
    "inverted files": changed(0, first_table="d"),
    "inverted paths": changed(2, first_table="c", first_path="data/x"),
    "inverted partitions": changed(2, max_partition="o"),
    "inverted schemas": changed(6, first_table="d"),
    "inverted history": changed(8, first_revision=14),
    "no rows": changed(6, row_count=0),
    "too many rows": changed(6, row_count=1 << 31),
    "a negative length": changed(6, length=-1),
    "a negative offset": changed(6, offset=-1),
    "beyond the attachments": changed(6, offset=991),
    "huge offset": changed(6, offset=(1 << 62) - 1),
    "negative sums": changed(0, total_rows=-1),
    "absurd sums": changed(0, total_bytes=1 << 62),
    "negative revisions": changed(8, first_revision=-1),
    "dead rows of schemas": changed(6, dead=b"\0\0"),
    "a bitmap too short": changed(2, dead=b"\x09"),
    "a bitmap too long": changed(2, dead=b"\x09\x02\0"),
    "bits beyond the rows": changed(2, dead=b"\x09\x0a"),
    "no bitmap": changed(2, dead=b""),
    "statistics of no column": changed(4, columns=[]),
    "columns out of order": changed(4, columns=["b", "a"]),
    "a column twice": changed(5, columns=["a", "a"]),
    "a column without a name": changed(5, columns=["", "a"]),
    "columns of files": changed(0, columns=["a"]),
    "references of references": [*sound(), row(REFERENCES)],
}


@pytest.mark.parametrize("name", BAD)
def test_references_that_break_a_rule_are_damaged(name):
    with pytest.raises(CorruptObject) as caught:
        decode(BAD[name])
    assert not isinstance(caught.value, UnsupportedFeature)
    assert caught.value.key == KEY


@pytest.mark.parametrize("kind", [0, 99, 255])
@pytest.mark.parametrize("else_", [{}, {"row_count": 0}, {"offset": -1}, {"part": 7}], ids=str)
def test_an_unknown_kind_is_too_new_whatever_else_is_wrong(kind, else_):
    with pytest.raises(UnsupportedFeature, match=f"kind {kind}"):
        decode([*sound(), row(HISTORY, **else_) | {"kind": kind}])


def test_another_number_of_rows_than_the_reference_says():
    table = pa.Table.from_pylist(sound(), schema=REFERENCES_COLUMNS)
    for count in (8, 10):
        with pytest.raises(CorruptObject):
            decode_references(encode_ipc(table), count, ATTACHMENTS, KEY, "")


# --- Segment objects ------------------------------------------------------------------------------

LOG = LogIdentity(b"\x01" * 16, 3)


def an_object(log=LOG, **more):
    (piece,) = decode([row(SCHEMAS)])
    segment = wire.Segment()
    segment.CopyFrom(piece.segment)
    body, digest = frame_segment(log, segment, b"any bytes")
    for name, value in more.items():
        setattr(segment, name, value)
    return body, Piece(segment, digest, len(body), "w/db/segments/x")


def test_a_segment_object_is_what_its_reference_says():
    body, piece = an_object()
    assert bytes(open_segment(body, piece, LOG)) == b"any bytes"
    older, piece = an_object(LogIdentity(LOG.log_id, 2))
    assert bytes(open_segment(older, piece, LOG)) == b"any bytes", "of a lower incarnation"


@pytest.mark.parametrize(
    "more",
    [
        {"kind": FILES}, {"row_count": 12}, {"first_table": "b"}, {"last_table": "b"},
        {"first_path": "x"}, {"last_path": "x"}, {"first_revision": 1}, {"last_revision": 1},
        {"total_rows": 1}, {"total_bytes": 1}, {"min_partition": "x"}, {"max_partition": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_a_segment_that_says_something_else_is_refused(more):
    body, piece = an_object(**more)
    with pytest.raises(CorruptObject, match="something else"):
        open_segment(body, piece, LOG)


@pytest.mark.parametrize("log", [LogIdentity(b"\x02" * 16, 3), LogIdentity(b"\x01" * 16, 4)])
def test_a_segment_of_another_log_is_refused(log):
    body, piece = an_object(log)
    with pytest.raises(CorruptObject, match="belongs to another log"):
        open_segment(body, piece, LOG)


def test_another_sound_segment_is_refused():
    body, piece = an_object()
    other, _ = frame_segment(LOG, piece.segment, b"any byteZ")
    with pytest.raises(CorruptObject, match="not the segment"):
        open_segment(other, piece, LOG)
    for length in (len(body) - 1, len(body) + 1):
        with pytest.raises(CorruptObject):
            open_segment(body, Piece(piece.segment, piece.digest, length, "k"), LOG)


def test_a_segment_without_a_message_is_refused_by_type():
    _, piece = an_object()
    for message in (b"\xff", b"\x0b\x0c", b"\x1a\x01\xff"):
        body, digest = encode_frame(FrameKind.SEGMENT, LOG, message, b"any bytes")
        with pytest.raises(CorruptObject):
            open_segment(body, Piece(piece.segment, digest, len(body), "k"), LOG)


def test_an_unknown_field_of_a_segment_is_ignored():
    _, piece = an_object()
    message = piece.segment.SerializeToString() + b"\xa2\x06\x03abc"
    body, digest = encode_frame(FrameKind.SEGMENT, LOG, message, b"any bytes")
    assert bytes(open_segment(body, Piece(piece.segment, digest, len(body), "k"), LOG))


def test_every_flipped_bit_of_a_segment_is_detected():
    body, piece = an_object()
    for position in range(len(body)):
        broken = bytearray(body)
        broken[position] ^= 1 << position % 8
        with pytest.raises(CorruptObject) as caught:
            open_segment(bytes(broken), piece, LOG)
        assert caught.value.key == "w/db/segments/x"


def test_names_of_kinds_are_those_of_the_messages():
    assert {int(k): n for k, n in segments.NAMES.items()} == {
        value.number: value.name for value in wire.SegmentKind.DESCRIPTOR.values if value.number
    }
