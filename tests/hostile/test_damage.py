"""Every bit flipped, every byte cut off, bytes appended, for each kind of object: all of it is
seen, has the right type and names the object."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from corpus import build_corpus
from lakelog.catalog.format.cut import Cut, Position, parse_token
from lakelog.catalog.format.frame import FrameKind, decode_frame
from lakelog.catalog.format.objects import decode_checkpoint, decode_transaction, open_segment
from lakelog.errors import CorruptObject, InvalidToken, LakelogError

CORPUS = build_corpus()
OBJECTS = {
    "transaction with adds": CORPUS.adds,
    "transaction with a batch": CORPUS.batch,
    "checkpoint inline": CORPUS.inline,
    "checkpoint spilled": CORPUS.spilled,
    "segment of files": CORPUS.segments[0],
    "segment of row groups": CORPUS.segments[1],
    "segment of schemas": CORPUS.segments[2],
    "segment of history": CORPUS.segments[3],
}


def opener(seed):
    """How a reader opens this kind of object."""
    if seed.kind == FrameKind.TRANSACTION:
        return lambda data: decode_transaction(data, seed.key)
    if seed.kind == FrameKind.CHECKPOINT:
        return lambda data: decode_checkpoint(data, seed.key)
    digest = decode_frame(seed.body, seed.kind, seed.key).digest
    return lambda data: open_segment(data, digest, seed.key)


def refused(read, data, key):
    try:
        read(data)
    except LakelogError as error:
        return type(error) is CorruptObject and error.key == key and key in str(error)
    return False


@pytest.mark.parametrize("name", OBJECTS)
def test_every_flipped_bit_is_seen(name):
    seed = OBJECTS[name]
    read, data = opener(seed), bytearray(seed.body)
    read(bytes(data))
    for at in range(len(data)):
        for bit in range(8):
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
    for more in (b"\0", b"x", bytes(56), seed.body, bytes(1 << 20)):
        assert refused(read, seed.body + more, seed.key)
        assert refused(read, more + seed.body, seed.key)


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_in_the_place_of_another_is_seen(name):
    seed = OBJECTS[name]
    for other, held in OBJECTS.items():
        if other != name and (held.kind, held.key) != (seed.kind, seed.key):
            assert refused(opener(seed), held.body, seed.key), other


TOKEN = Cut("weather", {"EWR": Position(17, b"12345678"), "JFK": Position(3, b"abcdefgh")}).token


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
