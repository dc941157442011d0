"""Flipped bits, cut ends, bytes appended, objects in the place of others, for each kind of object:
all of it is seen, has the right type and names the object. Also what is signed anew: a digest says
that the bytes are whole, not that they are right."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from corpus import build_corpus
from lakelog.catalog.format import segments
from lakelog.catalog.format.cut import Cut, Position, parse_token
from lakelog.catalog.format.frame import HEADER_BYTES, FrameKind, LogIdentity, encode_frame
from lakelog.catalog.format.objects import decode_checkpoint, decode_transaction
from lakelog.catalog.format.pieces import open_segment
from lakelog.errors import CorruptObject, InvalidToken, LakelogError

CORPUS = build_corpus()
SEGMENTS = CORPUS.one_of_each_kind()
assert set(SEGMENTS) == set(segments.NAMES)
OBJECTS = {
    "transaction with adds": CORPUS.adds,
    "transaction with a batch": CORPUS.batch,
    "checkpoint inline": CORPUS.inline,
    "checkpoint by reference": CORPUS.spilled,
    **{f"segment {segments.NAMES[kind]}": seed for kind, (_, seed) in SEGMENTS.items()},
}
PIECES = {piece.where: piece for piece in CORPUS.pieces}


def opener(seed):
    """How a reader opens this object."""
    if seed.kind == FrameKind.TRANSACTION:
        return lambda data: decode_transaction(data, seed.key)
    if seed.kind == FrameKind.CHECKPOINT:
        return lambda data: decode_checkpoint(data, seed.key)
    return lambda data: open_segment(data, PIECES[seed.key], seed.log)


def refused(read, data, key):
    try:
        read(data)
    except LakelogError as error:
        return type(error) is CorruptObject and error.key == key and key in str(error)
    return False


def places(seed):
    """Every bit of header and message; of the attachments one bit of each byte."""
    message = HEADER_BYTES + int.from_bytes(seed.body[8:12], "little")
    for at in range(len(seed.body)):
        yield from ((at, bit) for bit in (range(8) if at < message else [at * 5 % 8]))


@pytest.mark.parametrize("name", OBJECTS)
def test_every_flipped_bit_is_seen(name):
    seed = OBJECTS[name]
    read, data = opener(seed), bytearray(seed.body)
    read(bytes(data))
    for at, bit in places(seed):
        data[at] ^= 1 << bit
        assert refused(read, bytes(data), seed.key), f"bit {bit} of byte {at}"
        data[at] ^= 1 << bit
    read(bytes(data))


@pytest.mark.parametrize("name", OBJECTS)
def test_every_truncation_and_every_appendix_is_seen(name):
    seed = OBJECTS[name]
    read = opener(seed)
    for length in range(len(seed.body)):
        assert refused(read, seed.body[:length], seed.key), f"cut at {length}"
    for more in (b"\0", b"x", bytes(80), seed.body, bytes(1 << 20)):
        assert refused(read, seed.body + more, seed.key)
        assert refused(read, more + seed.body, seed.key)


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_in_the_place_of_another_is_seen(name):
    seed = OBJECTS[name]
    for other, held in OBJECTS.items():
        if other != name and (held.kind, held.key) != (seed.kind, seed.key):
            assert refused(opener(seed), held.body, seed.key), other


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize(
    "log",
    [LogIdentity(b"another log's id", 1), LogIdentity(CORPUS.adds.log.log_id, 2)],
)
def test_an_object_of_another_log_with_the_same_content_is_seen(name, log):
    """A transaction's id is a matter of the chain: its incarnation is in its name."""
    seed = OBJECTS[name]
    body, _ = encode_frame(seed.kind, log, *seed.parts())
    if seed.kind == FrameKind.SEGMENT or log.incarnation != seed.log.incarnation:
        assert refused(opener(seed), body, seed.key)
    else:
        assert opener(seed)(body).log == log


def read_signed(seed, message, attachments):
    """Open another content in the place of an object. Its digest is right, and who refers to a
    segment means these very bytes."""
    body = seed.signed(message, attachments)
    if seed.kind == FrameKind.SEGMENT:
        piece = replace(PIECES[seed.key], digest=body[48:HEADER_BYTES], length=len(body))
        return open_segment(body, piece, seed.log)
    return opener(seed)(body)


def is_sound(seed, message, attachments):
    """Whether such a content is taken; else it is refused by type, naming the object."""
    try:
        read_signed(seed, message, attachments)
    except LakelogError as error:
        if (error.exit_code, error.key) != (5, seed.key):
            raise AssertionError(f"{error!r} of {error.key}") from error
        return False
    return True


@pytest.mark.parametrize("name", OBJECTS)
def test_each_byte_of_a_message_changed_and_signed_anew_is_refused_by_type_or_sound(name):
    seed = OBJECTS[name]
    message, attachments = seed.parts()
    assert is_sound(seed, message, attachments)
    taken = 0
    for at in range(len(message)):
        for change in {message[at] ^ 1 << at % 8, 0, 0x7F, 0x80, 0xFF} - {message[at]}:
            changed = message[:at] + bytes([change]) + message[at + 1 :]
            taken += is_sound(seed, changed, attachments)
    assert bool(taken) == (seed.kind != FrameKind.SEGMENT), "a segment says what its reference says"


@pytest.mark.parametrize("name", OBJECTS)
def test_a_message_or_attachments_cut_short_and_signed_anew(name):
    seed = OBJECTS[name]
    message, attachments = seed.parts()
    for length in range(len(message)):
        assert not is_sound(seed, message[:length], attachments), f"the first {length} are enough"
    pieces_inside = seed in (CORPUS.batch, CORPUS.inline)
    for length in range(0, len(attachments), 97):  # of a segment: found where the piece is used
        taken = is_sound(seed, message, attachments[:length])
        assert not (taken and pieces_inside), f"a piece ends behind {length}"


LOG = LogIdentity(b"0123456789abcdef", 2)
TOKEN = Cut(
    "weather", {"EWR": Position(17, b"12345678", LOG), "JFK": Position(3, b"abcdefgh")}
).token


def test_every_flipped_bit_of_a_token_is_seen():
    for at, char in enumerate(TOKEN):
        for bit in range(8):
            broken = TOKEN[:at] + chr(ord(char) ^ 1 << bit) + TOKEN[at + 1 :]
            with pytest.raises(InvalidToken):
                parse_token(broken)


def test_every_truncation_and_appendix_of_a_token_is_seen():
    assert parse_token(TOKEN).database == "weather"
    for length in range(len(TOKEN)):
        with pytest.raises(InvalidToken):
            parse_token(TOKEN[:length])
    for more in ("A", "=", "==", "\n", " ", "AAAA", TOKEN, "\x00", "é"):
        for broken in (TOKEN + more, more + TOKEN):
            with pytest.raises(InvalidToken):
                parse_token(broken)


# --- Data files -----------------------------------------------------------------------------------
# Arrow can end a process on a malformed footer, so each run is a child. Pages have checksums; the
# footer has none: Parquet knows no such thing.

CHILD = """
import sys, warnings
import pyarrow as pa
from lakelog import LakelogError
from lakelog.catalog.catalog import Catalog
from lakelog.errors import CorruptObject
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient

store = MemoryStore("t")
catalog = Catalog(store, ambient=FakeAmbient().ambient)
with catalog.writer("w", "db") as writer, writer.transaction() as tx:
    rows = pa.table({"a": range(300), "s": [f"row {n % 7}" for n in range(300)]})
    (path,) = tx.write("t", rows)
key = "w/db/" + path
body = store.get(key)
footer = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
snapshot = catalog.snapshot("db")
honest = snapshot.to_arrow("t")

def read(data):
    store.put(key, data)
    try:
        return "same" if snapshot.to_arrow("t").equals(honest) else "OTHER"
    except CorruptObject as error:
        return "refused" if error.key == key and key in str(error) else f"WITHOUT KEY {error}"
    except LakelogError as error:
        return f"TYPE {error!r}"
    except Exception as error:
        return f"UNTYPED {error!r}"

def flipped(at, bit):
    out = bytearray(body)
    out[at] ^= 1 << bit
    return bytes(out)

found = {}
for case in CASES:
    found.setdefault(read(case), []).append(case)
print({name: len(cases) for name, cases in found.items()})
"""
CASES = {
    "pages": "(flipped(at, at % 8) for at in range(4, footer))",
    "footer": "(flipped(at, at * 5 % 8) for at in range(footer, len(body) - 8))",
    "trailer": "(flipped(at, bit) for at in range(len(body) - 8, len(body)) for bit in range(8))",
    "cut": "(body[:length] for length in range(0, len(body), 3))",
    "more": "(body + more for more in (b'x', bytes(8), body, body[footer:]))",
}


def damaged(tmp_path: Path, what: str) -> dict[str, int]:
    """How reading ended, with counts."""
    script = tmp_path / "child.py"
    script.write_text(CHILD.replace("CASES", CASES[what], 1))
    done = subprocess.run(
        [sys.executable, str(script)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"
    return eval(done.stdout)


@pytest.mark.parametrize("what", ["cut", "more", "trailer"])
def test_a_data_file_of_another_size_or_end_is_refused(tmp_path, what):
    assert set(damaged(tmp_path, what)) == {"refused"}


def test_a_flipped_bit_in_a_page_is_refused_or_does_no_harm(tmp_path):
    """What is not under a checksum is a page's own header, and says nothing twice."""
    found = damaged(tmp_path, "pages")
    assert set(found) <= {"refused", "same"}
    assert found["refused"] > 0.6 * sum(found.values())


def test_a_flipped_bit_in_a_footer_is_no_untyped_error_and_no_death(tmp_path):
    """Not promised: that it is seen. Parquet has no checksum of the footer."""
    found = damaged(tmp_path, "footer")
    assert set(found) <= {"refused", "same", "OTHER"}
    assert found["refused"] > found.get("OTHER", 0)
