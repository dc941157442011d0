"""The frame: no flipped bit, no cut and no forged size gets past it."""

from __future__ import annotations

import hashlib
import struct
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.frame import (
    MAX_ATTACHMENT_BYTES,
    MAX_MESSAGE_BYTES,
    FrameKind,
    LogIdentity,
    decode_frame,
    encode_frame,
)
from lakelog.errors import CorruptObject, UnsupportedFeature

KEY = "w/db/transactions/x"
LOG = LogIdentity(bytes(range(16)), 3)
SMALL = encode_frame(FrameKind.TRANSACTION, LOG, b"a small message", b"attached")[0]
PACKED = encode_frame(FrameKind.TRANSACTION, LOG, b"compresses well " * 80, b"attached")[0]
FRAMES = [pytest.param(SMALL, id="stored"), pytest.param(PACKED, id="zstd")]


def forge(
    stored=b"",
    decoded=None,
    attached=b"",
    *,
    magic=b"LKLG",
    version=1,
    kind=1,
    codec=0,
    zero=0,
    lengths=None,
    log=LOG,
    rest=0,
):
    """A frame with any header and a right digest: what an attacker could write."""
    sizes = lengths or (len(stored), len(stored) if decoded is None else decoded, len(attached))
    head = struct.pack(
        "<4sBBBBIIQ16sII",
        *(magic, version, kind, codec, zero, *sizes, log.log_id, log.incarnation, rest),
    )
    return head + hashlib.sha256(head + stored + attached).digest() + stored + attached


def decode(data, kind=FrameKind.TRANSACTION):
    return decode_frame(data, kind, KEY)


@given(st.binary(max_size=3000), st.binary(max_size=300), st.sampled_from(FrameKind))
def test_frames_round_trip(message, attachments, kind):
    data, digest = encode_frame(kind, LOG, message, attachments)
    frame = decode_frame(data, kind, KEY)
    assert frame.message == message
    assert bytes(frame.attachments) == attachments
    assert frame.digest == digest
    assert frame.log == LOG
    assert encode_frame(kind, LOG, message, attachments) == (data, digest)


def test_the_forged_frame_of_these_tests_is_otherwise_right():
    assert forge(b"a small message", attached=b"attached") == SMALL
    assert decode(forge(b"x")).message == b"x"


@pytest.mark.parametrize("frame", FRAMES)
def test_every_flipped_bit_is_detected(frame):
    for position in range(len(frame)):
        for bit in range(8):
            broken = bytearray(frame)
            broken[position] ^= 1 << bit
            with pytest.raises((CorruptObject, UnsupportedFeature)) as caught:
                decode(bytes(broken))
            assert isinstance(caught.value, CorruptObject), (position, bit)
            assert caught.value.key == KEY


@pytest.mark.parametrize("frame", FRAMES)
def test_every_truncation_is_detected(frame):
    for length in range(len(frame)):
        with pytest.raises(CorruptObject):
            decode(frame[:length])


@pytest.mark.parametrize("frame", FRAMES)
def test_bytes_too_many_are_detected(frame):
    for extra in (b"\x00", b"LKLG", frame):
        with pytest.raises(CorruptObject):
            decode(frame + extra)


@pytest.mark.parametrize("frame", FRAMES)
def test_every_lost_and_every_doubled_byte_is_detected(frame):
    for position in range(len(frame)):
        with pytest.raises(CorruptObject):
            decode(frame[:position] + frame[position + 1 :])
        with pytest.raises(CorruptObject):
            decode(frame[: position + 1] + frame[position:])


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_by_type(data):
    with pytest.raises(CorruptObject):
        decode(data)


def test_each_kind_is_refused_under_the_name_of_another():
    for kind in FrameKind:
        data, _ = encode_frame(kind, LOG, b"message")
        for other in set(FrameKind) - {kind}:
            with pytest.raises(CorruptObject, match="kind"):
                decode(data, other)


def test_a_message_cannot_pass_for_an_attachment():
    """The digest takes in the lengths: the border between the two can't be moved unseen."""
    moved = bytearray(SMALL)
    moved[8:24] = struct.pack("<IIQ", len(b"a small mess"), 12, len(b"ageattached"))
    with pytest.raises(CorruptObject, match="digest"):
        decode(bytes(moved))


@pytest.mark.parametrize("version", [0, 2, 255])
def test_a_version_of_the_future_is_refused_by_name(version):
    with pytest.raises(UnsupportedFeature, match=f"version {version}"):
        decode(forge(b"x", version=version))


def test_a_codec_of_the_future_is_refused_by_name():
    with pytest.raises(UnsupportedFeature, match="codec 2"):
        decode(forge(b"x", codec=2))


@pytest.mark.parametrize(
    "data",
    [
        forge(b"x", magic=b"LKLH"),
        forge(b"x", kind=9),
        forge(b"x", zero=1),
        forge(b"x", rest=1),
        forge(b"x", log=LogIdentity(bytes(16), 0)),
        forge(b"x", log=LogIdentity(bytes(16), 1000)),
        forge(b"x", log=LogIdentity(bytes(16), 2**32 - 1)),
        forge(b"x", decoded=2),
        forge(b"x", decoded=0),
        forge(b"not zstd", decoded=8, codec=1),
        forge(b"", decoded=8, codec=1),
    ],
    ids=[
        "magic",
        "kind",
        "reserved",
        "reserved at 44",
        "incarnation 0",
        "incarnation 1000",
        "absurd incarnation",
        "longer",
        "shorter",
        "not zstd",
        "empty zstd",
    ],
)
def test_a_wrong_header_with_a_right_digest_is_refused(data):
    with pytest.raises(CorruptObject):
        decode(data)


@pytest.mark.parametrize("decoded", [0, 1, 79, 81, 4096])
def test_zstd_must_decode_to_the_declared_length(decoded):
    packed = pa.Codec("zstd").compress(b"x" * 80, asbytes=True)
    assert decode(forge(packed, decoded=80, codec=1)).message == b"x" * 80
    with pytest.raises(CorruptObject):
        decode(forge(packed, decoded=decoded, codec=1))


def test_a_bomb_is_refused_before_it_takes_memory():
    bomb = pa.Codec("zstd").compress(bytes(256 << 20), asbytes=True)
    assert len(bomb) < 100_000
    lies = [256 << 20, MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES + 1, 2**32 - 1, 100]
    frames = [forge(bomb, decoded=lie, codec=1) for lie in lies]
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    try:
        for frame in frames:
            with pytest.raises(CorruptObject):
                decode(frame)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
        assert pa.total_allocated_bytes() <= before  # what tests before left may go meanwhile
    finally:
        tracemalloc.stop()


def test_sizes_over_the_caps_are_refused():
    big = bytes(MAX_MESSAGE_BYTES + 1)
    with pytest.raises(CorruptObject, match="cap"):
        decode(forge(big))
    with pytest.raises(ValueError, match="cap"):
        encode_frame(FrameKind.TRANSACTION, LOG, big)
    with pytest.raises(CorruptObject):
        decode(forge(b"x", lengths=(1, 1, MAX_ATTACHMENT_BYTES + 1)))
    with pytest.raises(CorruptObject):
        decode(forge(b"x", lengths=(1, 1, 2**64 - 1)))


def test_the_largest_message_passes():
    message = bytes(MAX_MESSAGE_BYTES)
    data, _ = encode_frame(FrameKind.CHECKPOINT, LOG, message)
    assert decode_frame(data, FrameKind.CHECKPOINT, KEY).message == message


# --- The message as zstd --------------------------------------------------------------------------

TEXT = b"compresses well " * 80
BLOCK = struct.pack("<I", (5 << 3 | 1))[:3] + b"hello"  # the last block, raw, of 5 bytes
SKIPPABLE = struct.pack("<II", 0x184D2A50, 3) + b"abc"
MAGIC = b"\x28\xb5\x2f\xfd"


def pack(text):
    return pa.Codec("zstd").compress(text, asbytes=True)


def packed(stored, decoded):
    return decode(forge(stored, decoded, codec=1)).message


def test_one_frame_of_known_size_is_taken():
    assert packed(pack(TEXT), len(TEXT)) == TEXT
    assert packed(MAGIC + b"\x20\x05" + BLOCK, 5) == b"hello"  # a single segment of 5 bytes
    assert packed(MAGIC + b"\x80\x00" + struct.pack("<I", 5) + BLOCK, 5) == b"hello"  # 1 KiB window
    assert packed(MAGIC + b"\x80\x68" + struct.pack("<I", 5) + BLOCK, 5) == b"hello"  # 8 MiB


@pytest.mark.parametrize(
    ("stored", "decoded"),
    [
        pytest.param(pack(TEXT[:640]) + pack(TEXT[640:]), TEXT, id="two frames"),
        pytest.param(pack(TEXT) + pack(b""), TEXT, id="an empty frame behind"),
        pytest.param(SKIPPABLE + pack(TEXT), TEXT, id="a skippable frame before"),
        pytest.param(pack(TEXT) + SKIPPABLE, TEXT, id="a skippable frame behind"),
        pytest.param(MAGIC + b"\x00\x00" + BLOCK, b"hello", id="no content size"),
        pytest.param(
            MAGIC + b"\x80\x69" + struct.pack("<I", 5) + BLOCK, b"hello", id="window of 9 MiB"
        ),
    ],
)
def test_what_a_stock_decoder_takes_is_taken(stored, decoded):
    """Writers write one frame that declares its size; readers take what decodes to the size."""
    assert packed(stored, len(decoded)) == decoded


@pytest.mark.parametrize(
    ("stored", "decoded"),
    [
        pytest.param(pack(TEXT) + b"\0", len(TEXT), id="a byte behind"),
        pytest.param(MAGIC + b"\x20\x06" + BLOCK, 5, id="another content size"),
        pytest.param(MAGIC + b"\x80\xf8" + struct.pack("<I", 5) + BLOCK, 5, id="window of 2 TiB"),
        pytest.param(MAGIC + b"\x21\x07\x05" + BLOCK, 5, id="a dictionary"),
        pytest.param(MAGIC + b"\x28\x05" + BLOCK, 5, id="the reserved bit"),
        pytest.param(MAGIC + b"\x24\x05" + BLOCK + bytes(4), 5, id="a wrong checksum"),
        pytest.param(MAGIC + b"\x24\x05" + BLOCK, 5, id="a checksum that is missing"),
        pytest.param(MAGIC + b"\x20\x05" + BLOCK[:-1], 5, id="a block cut short"),
        pytest.param(MAGIC + b"\x20\x05\x28\0\0hello", 5, id="no last block"),
        pytest.param(MAGIC + b"\x20\x05\x07\0\0", 5, id="the reserved kind of block"),
        pytest.param(MAGIC, 5, id="nothing but the magic"),
    ],
)
def test_what_is_no_zstd_of_the_size_is_refused(stored, decoded):
    with pytest.raises(CorruptObject):
        packed(stored, decoded)


def test_a_dictionary_of_id_zero_is_none():
    assert packed(MAGIC + b"\x20\x05" + BLOCK, 5) == b"hello"


def test_damage_comes_before_too_new_only_in_the_order_of_the_text():
    """The header's own rules (3) before the codec (4); the version (2) before both."""
    with pytest.raises(UnsupportedFeature, match="version"):
        decode(forge(b"x", version=2, codec=9, zero=1))
    with pytest.raises(CorruptObject):
        decode(forge(b"x", codec=9, zero=1))
    with pytest.raises(CorruptObject):
        decode(forge(b"x", codec=9, rest=1))
