"""Tokens: a cut comes back from its token as it was, and no altered token is taken for another."""

from __future__ import annotations

import base64
import string
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.cut import PREFIX, Cut, Position, is_token, parse_token
from lakelog.catalog.format.frame import LogIdentity
from lakelog.catalog.format.names import MAX_REVISION
from lakelog.catalog.wire import lakelog_cut_pb2 as wire
from lakelog.errors import InvalidToken

IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,12}", fullmatch=True)
LOGS = st.one_of(
    st.none(), st.builds(LogIdentity, st.binary(min_size=16, max_size=16), st.integers(1, 999))
)
DIGESTS = st.one_of(st.just(b""), st.binary(min_size=8, max_size=8))
POSITIONS = st.builds(Position, st.integers(0, MAX_REVISION), DIGESTS, LOGS)
CUTS = st.builds(Cut, IDS, st.dictionaries(IDS, POSITIONS, min_size=1, max_size=5))
SAMPLES = [
    Cut(
        "weather",
        {
            "EWR": Position(7, b"\x01" * 8, LogIdentity(bytes(range(16)), 1)),
            "JFK": Position(0, b"\xff" * 8, LogIdentity(bytes(16), 999)),
        },
    ),
    Cut("weathers", {"EWR": Position(7, b"\x01" * 8)}),
    Cut("d", {"w": Position(1)}),
    Cut("da", {"w": Position(1)}),
]
CHARACTERS = string.ascii_letters + string.digits + "-_+/=. %\nü"


@given(CUTS)
def test_tokens_round_trip(cut):
    found = parse_token(cut.token)
    assert found == cut
    assert found.token == cut.token
    assert list(found.writers) == sorted(cut.writers)
    assert is_token(cut.token)


@given(CUTS)
def test_a_token_is_one_word_for_urls_and_shells(cut):
    assert set(cut.token) <= set(string.ascii_letters + string.digits + "-_")


def test_the_order_in_which_writers_are_given_doesnt_matter():
    pairs = [("a", Position(1)), ("b", Position(2))]
    assert Cut("d", dict(pairs)).token == Cut("d", dict(pairs[::-1])).token


@given(CUTS, CUTS)
def test_different_cuts_have_different_tokens(left, right):
    assert (left.token == right.token) == (left == right)


@pytest.mark.parametrize("cut", SAMPLES, ids=lambda cut: cut.database)
def test_every_changed_character_is_refused(cut):
    token = cut.token
    for position in range(len(token)):
        for char in CHARACTERS:
            if char != token[position]:
                with pytest.raises(InvalidToken):
                    parse_token(token[:position] + char + token[position + 1 :])


@pytest.mark.parametrize("cut", SAMPLES, ids=lambda cut: cut.database)
def test_every_cut_lost_doubled_or_swapped_character_is_refused(cut):
    token = cut.token
    for position in range(len(token)):
        broken = {
            token[:position],
            token[:position] + token[position + 1 :],
            token[:position] + token[position] + token[position:],
            token[:position] + token[position : position + 2][::-1] + token[position + 2 :],
        }
        for text in broken - {token}:
            with pytest.raises(InvalidToken):
                parse_token(text)
    for extra in ("=", "A", "\n", " ", token):
        with pytest.raises(InvalidToken):
            parse_token(token + extra)


@pytest.mark.parametrize("around", [("", "\n"), ("", "\r\n"), (" ", ""), ("\t", " ")], ids=repr)
def test_white_space_around_a_token_is_told_as_such(around):
    token = Cut("d", {"w": Position(3, b"\x01" * 8)}).token
    text = around[0] + token + around[1]
    assert is_token(text)
    with pytest.raises(InvalidToken, match="white space") as caught:
        parse_token(text)
    assert "strip()" in caught.value.hint
    with pytest.raises(InvalidToken, match="cut short"):
        parse_token(token[:9] + "\n" + token[9:])


@given(st.one_of(st.text(max_size=40), st.text(max_size=40).map("ll1-".__add__)))
def test_any_text_is_refused_by_type(text):
    with pytest.raises(InvalidToken) as caught:
        parse_token(text)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "cut",
    [
        Cut("_refs", {"w": Position(1)}),
        Cut("", {"w": Position(1)}),
        Cut("d", {"../w": Position(1)}),
        Cut("d", {"": Position(1)}),
        Cut("d", {"-w": Position(1)}),
        Cut("d", {}),
    ],
)
def test_a_forged_token_with_names_that_cannot_be_is_refused(cut):
    with pytest.raises(InvalidToken):
        parse_token(cut.token)


def test_a_token_of_absurd_length_is_refused_before_it_is_decoded():
    with pytest.raises(InvalidToken) as caught:
        parse_token("ll1-" + "A" * (2 << 20))
    assert len(str(caught.value)) < 300


def test_revisions_by_writer():
    assert SAMPLES[0].revisions == {"EWR": 7, "JFK": 0}


def forged(**fields):
    """A token of one writer, `w`, with these fields of its entry."""
    item = wire.WriterRevision(**({"writer": "w", "revision": 1} | fields))
    body = wire.Cut(database="d", writers=[item]).SerializeToString()
    body += zlib.crc32(body).to_bytes(4, "little")
    return PREFIX + base64.urlsafe_b64encode(body).decode().rstrip("=")


@pytest.mark.parametrize(
    "fields",
    [
        {"digest": b"x" * 7},
        {"digest": b"x" * 32},
        {"log_id": b"x" * 15, "incarnation": 1},
        {"log_id": b"x" * 16},
        {"incarnation": 1},
        {"log_id": b"x" * 16, "incarnation": 1_000},
        {"revision": MAX_REVISION + 1},
    ],
    ids=str,
)
def test_a_forged_token_with_what_no_log_can_have_is_refused(fields):
    with pytest.raises(InvalidToken):
        parse_token(forged(**fields))
    assert parse_token(forged()) == Cut("d", {"w": Position(1)})
    sound = forged(log_id=b"x" * 16, incarnation=999)
    assert parse_token(sound).writers["w"].log == LogIdentity(b"x" * 16, 999)


def test_writers_must_ascend():
    item = wire.WriterRevision(writer="w", revision=1)
    body = wire.Cut(database="d", writers=[item, item]).SerializeToString()
    body += zlib.crc32(body).to_bytes(4, "little")
    with pytest.raises(InvalidToken):
        parse_token(PREFIX + base64.urlsafe_b64encode(body).decode().rstrip("="))
