"""docs/format.md agrees with the code where both name a number, and every reference to it holds."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from independent_segments import COLUMNS
from lakelog.catalog.data.unify import widen
from lakelog.catalog.format import cut, frame, ipc_sizes, names, segment_bytes, segments
from lakelog.catalog.format.footer import FooterMetadata, encode_footer
from lakelog.catalog.format.statistics import MAX_BOUND_BYTES, bound_type
from lakelog.catalog.wire.lakelog_checkpoint_pb2 import SegmentRef

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
FLAT = re.sub(r"\s+", " ", TEXT)
SECTIONS = {found.rstrip(".") for found in re.findall(r"^##+ ([0-9.]+)", TEXT, re.MULTILINE)}
REFERENCE = re.compile(r"format\.md,?\s+(?:#\s+)?sections? ([0-9](?:[0-9., and to]*[0-9])?)")


def sources() -> list[Path]:
    """Every file that may refer to the text."""
    found = [ROOT / "README.md", ROOT / "errors.py", *ROOT.glob("docs/*.md")]
    for folder in ("catalog", "cli", "gc", "proto", "rebuild", "spark", "store", "testing"):
        found += [p for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".proto")]
    return [path for path in found if path.exists()]


def test_every_reference_names_a_section() -> None:
    seen = 0
    for path in sources():
        for numbers in REFERENCE.findall(path.read_text(encoding="utf-8")):
            for number in re.findall(r"[0-9]+(?:\.[0-9]+)?", numbers):
                seen += 1
                assert number in SECTIONS, (path, number)
    assert seen > 40


def test_links_within_the_text_hold() -> None:
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^##+ (.+)$", TEXT, re.MULTILINE)
    }
    links = re.findall(r"\]\(#([^)]+)\)", TEXT)
    assert len(links) == 11
    assert set(links) <= anchors
    for number in re.findall(r"\(?section ([0-9]+(?:\.[0-9])?)", TEXT):
        # References to other texts name them: "RFC 4648, section 5".
        assert number in SECTIONS, number


@pytest.mark.parametrize(
    ("said", "is_so"),
    [
        ("message of a frame, stored and decoded | 8 MiB", frame.MAX_MESSAGE_BYTES == 8 << 20),
        ("attachments of a frame | 1 GiB", frame.MAX_ATTACHMENT_BYTES == 1 << 30),
        ("a header of 56 bytes", frame.HEADER_BYTES == 56),
        ("| path | 892 bytes; a segment of it 255 |", names.MAX_PATH_BYTES == 892),
        ("percent-encoded | 255 bytes", names.MAX_SEGMENT_BYTES == 255),
        ("revision, epoch | 2^62 - 1", names.MAX_REVISION == (1 << 62) - 1),
        ("sizes and counts in actions and segments | 2^62 - 1", segments.MAX_NUMBER == 1 << 62),
        ("longer than 2^20 characters", cut.MAX_TOKEN_CHARS == 1 << 20),
        ("`ll1-`", cut.PREFIX == "ll1-"),
        ("at most 131,072 rows", segments.rows_per_segment(128) == 131_072),
        ("fewer if it has more than 128 columns", segments.rows_per_segment(129) < 131_072),
        ("SHOULD have at most 64 bytes", MAX_BOUND_BYTES == 64),
        ("the sum is more than 2 GiB", ipc_sizes.MAX_DECODED_BYTES == 2 << 30),
        ("1 MiB + row_count * (R + 128 * B)", ipc_sizes.SLACK_BYTES == 1 << 20),
        ("128 * B", ipc_sizes.BUFFER_BYTES == 128),
        ("R is 16 KiB for FILES and ROW_GROUPS", ipc_sizes.ROW_BYTES == 16 << 10),
    ],
)
def test_a_number_in_the_text_is_that_of_the_code(said: str, is_so: bool) -> None:
    assert said in FLAT
    assert is_so


def table_rows(first_header: str, section: str) -> list[list[str]]:
    """The cells of the first table with this header in a section."""
    body = TEXT[re.search(rf"^###? {re.escape(section)}[. ]", TEXT, re.MULTILINE).start() :]  # type: ignore[union-attr]
    lines = body[body.index(f"| {first_header} |") :].split("\n")
    rows = []
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


TYPES = {
    "fixed_size_binary[16]": pa.binary(16),
    "fixed_size_binary[32]": pa.binary(32),
    "list of string": pa.list_(pa.string()),
    "list of fixed_size_binary[16]": pa.list_(pa.binary(16)),
    "timestamp[us, tz=UTC]": pa.timestamp("us", "UTC"),
}


@pytest.mark.parametrize(
    ("kind", "section", "marker"),
    [
        (SegmentRef.FILES, "6.1", ""),
        (SegmentRef.ROW_GROUPS, "6.2", "**ROW_GROUPS**"),
        (SegmentRef.SCHEMAS, "6.2", "**SCHEMAS**"),
        (SegmentRef.HISTORY, "6.3", ""),
    ],
)
def test_the_columns_of_segments_are_those_of_the_code(
    kind: int, section: str, marker: str
) -> None:
    start = TEXT.index(marker, TEXT.index(f"### {section} "))
    lines = TEXT[TEXT.index("| column | Arrow type | nulls |", start) :].split("\n")[2:]
    said = []
    for line in lines:
        if not line.startswith("|"):
            break
        name, type_name, nulls = [cell.strip() for cell in line.strip("|").split("|")][:3]
        plain = TYPES.get(type_name)
        said.append((name, plain or pa.type_for_alias(type_name), nulls == "yes"))
    required = segment_bytes.REQUIRED[kind]  # type: ignore[index]
    assert said == [(item.name, item.type, item.nullable) for item in required]
    assert said == [(name, *facts) for name, facts in COLUMNS[kind].items()]


def test_the_bound_types_are_those_of_the_code() -> None:
    said = {}
    for cells in table_rows("type of the column", "5.2"):
        for name in cells[0].split(","):
            said[name.strip()] = cells[1].strip("`")
    for name in ("int8", "uint32", "float", "string_view", "large_binary", "date32", "bool"):
        assert str(bound_type(pa.type_for_alias(name))) == said[name]
    assert str(bound_type(pa.timestamp("ns", "Asia/Tokyo"))) == "timestamp[ns, tz=UTC]"
    assert str(bound_type(pa.decimal128(5, 2))) == "decimal128(38, 2)"
    assert str(bound_type(pa.time32("ms"))) == "time32[ms]"
    for none in (pa.float16(), pa.date64(), pa.duration("s"), pa.decimal256(5, 2), pa.binary(4)):
        assert bound_type(none) is None


def test_the_keys_of_a_footer_are_those_of_the_code() -> None:
    said = re.findall(r"`(lakelog\.[a-z_]+)`", TEXT[TEXT.index("## 8.") : TEXT.index("## 9.")])
    meta = FooterMetadata("w", "d", "t", "", bytes(16), 0, -1, b"", 1, 0, 0, pa.schema([]))
    assert set(said) == set(encode_footer(meta))


def test_the_widening_table_holds() -> None:
    said = {(one, other): common for one, other, common in table_rows("one", "5.3")}
    assert said["int32, uint32", "float"] == "double"
    assert widen(pa.int32(), pa.float32()) == widen(pa.uint32(), pa.float32()) == pa.float64()
    assert said["date32", "date64"] == "date64"
    assert widen(pa.date32(), pa.date64()) == pa.date64()
    assert widen(pa.string(), pa.int64()) is None
