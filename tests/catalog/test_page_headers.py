"""Headers of pages: taken in one step they say what they say field by field."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lakelog.catalog.data import pages as module
from lakelog.catalog.data.pages import page_header, page_header_by_fields


def varint(number):
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def zigzag(number):
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


@st.composite
def structs(draw, depth):
    """Fields of a struct, by step and type, with its end."""
    kinds = [1, 2, 3, 4, 5, 6, 7, 8, *([12] if depth else [])]
    found = b""
    for _ in range(draw(st.integers(0, 4))):
        kind, step = draw(st.sampled_from(kinds)), draw(st.sampled_from([1, 1, 1, 2, 15, 0]))
        found += bytes([step << 4 | kind]) + (b"" if step else zigzag(draw(st.integers(1, 40))))
        if kind in (4, 5, 6):
            found += zigzag(draw(st.integers(-(1 << 31), 1 << 31)))
        elif kind == 3:
            found += draw(st.binary(min_size=1, max_size=1))
        elif kind == 7:
            found += draw(st.binary(min_size=8, max_size=8))
        elif kind == 8:
            text = draw(st.binary(max_size=60))
            found += varint(len(text)) + text
        elif kind == 12:
            found += draw(structs(depth - 1))
    return found + b"\0"


@st.composite
def headers(draw):
    numbers = st.integers(-(1 << 31), (1 << 31) - 1)
    told = [draw(st.integers(0, 3)), draw(numbers), draw(st.integers(0, 1 << 30)), draw(numbers)]
    count = draw(st.sampled_from([4, 4, 4, 3, 2]))
    kinds = [draw(st.sampled_from([5, 5, 5, 5, 6, 4])) for _ in told]
    start = b"".join(bytes([16 | k]) + zigzag(n) for k, n in zip(kinds[:count], told, strict=False))
    return start + draw(structs(3))


def outcome(function, *args):
    try:
        return function(*args)
    except (IndexError, ValueError) as error:
        return type(error)


@given(headers(), st.binary(max_size=9), st.data())
def test_in_one_step_as_field_by_field(header, around, data):
    body = memoryview(bytearray(around + header + around))
    at = len(around)
    said = outcome(page_header, body, at)
    assert said == outcome(page_header_by_fields, body, at)
    if isinstance(said, tuple):
        assert said[0] == at + len(header)
        assert said[1] >= 0
    cut = data.draw(st.integers(0, len(header) - 1))
    assert outcome(page_header, body[: at + cut], at) is IndexError


@given(st.binary(max_size=40))
@example(bytes.fromhex("150015001501150100"))  # a page of -1 bytes
@example(bytes.fromhex("1500150015021602" + "00"))  # a checksum as a number of 64 bits
def test_any_bytes_are_read_alike(body):
    assert outcome(page_header, body, 0) == outcome(page_header_by_fields, body, 0)


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.bool_()])
def test_headers_of_arrows_own_take_one_step(kind, monkeypatch):
    """Else reading them takes ten times as long, which no other test would see."""
    of_kind = {pa.string(): str, pa.bool_(): lambda n: n % 3 == 0}.get(kind, lambda n: n)
    column = pa.array([None, *map(of_kind, range(3000))], kind)
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": column}), sink, write_page_checksum=True, data_page_size=1000)
    chunk = pq.read_metadata(sink).row_group(0).column(0)
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    end = at + chunk.total_compressed_size
    monkeypatch.setattr(module, "page_header_by_fields", None)
    pages = 0
    while at < end:
        at, size, crc = page_header(sink.getvalue(), at)
        assert crc >= 0
        at += size
        pages += 1
    assert at == end
    assert pages > (1 if kind != pa.bool_() else 0)
