"""docs/format.md agrees with the code where both name a number, and every reference to it holds."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from lakelog.catalog import margins
from lakelog.catalog.format import (
    cut,
    definitions,
    deletes,
    frame,
    ipc_sizes,
    names,
    objects,
    schema,
    segments,
    statistics,
)
from lakelog.catalog.format.footer import FLOATS, FooterMetadata, encode_footer
from lakelog.catalog.format.schema import widen
from lakelog.catalog.format.statistics import MAX_BOUND_BYTES, bound_type
from lakelog.catalog.log import checkpoint_files, merge
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire

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


def test_references_within_the_text_hold() -> None:
    for number in re.findall(r"\(?section ([0-9]+(?:\.[0-9])?)", TEXT):
        # References to other texts name them: "RFC 4648, section 5".
        assert number in SECTIONS, number


@pytest.mark.parametrize(
    ("said", "is_so"),
    [
        ("`stored` and `decoded` are at most 8 MiB", frame.MAX_MESSAGE_BYTES == 8 << 20),
        ("`attached` at most 1 GiB", frame.MAX_ATTACHMENT_BYTES == 1 << 30),
        ("compresses messages of 1,024 bytes and more", frame._COMPRESS_FROM == 1024),
        ("a header of 80 bytes", frame.HEADER_BYTES == 80),
        ("be valid UTF-8 of at most 892 bytes", names.MAX_PATH_BYTES == 892),
        ("at most 255 bytes long **when it is percent-encoded", names.MAX_SEGMENT_BYTES == 255),
        ("revisions from 0 to 999,999,999,999", names.MAX_REVISION == 999_999_999_999),
        ("Incarnations are from 1 to 999", names.MAX_INCARNATION == 999),
        ("`epoch` is from 1 to 2^62 - 1", names.MAX_EPOCH == (1 << 62) - 1),
        ("`commit.committed_at_us` is from 1 to 2^55 - 1", segments.MAX_TIME_US == 1 << 55),
        (
            "an `app_id` of at most 1,024 bytes, and an `app_version` of at most 2^62 - 1",
            objects.MAX_APP_ID_BYTES == 1024,
        ),
        (
            "no more than 256 reader features and no more than 256 writer features",
            objects.MAX_FEATURES == 256,
        ),
        ("no more than 256 locations are named", names.MAX_LOCATIONS == 256),
        ("is at most 1,024 bytes long and", names.MAX_LOCATION_BYTES == 1024),
        ("segments of a checkpoint | 2^20 |", objects.MAX_REFERENCES == 1_048_576),
        ("256 names of 1 to 64 characters", objects.MAX_FEATURE_CHARS == 64),
        ("| id of a column | 2^31 - 1 |", schema.MAX_COLUMN_ID == 2_147_483_647),
        ("sizes and counts in actions and segments | 2^62 - 1", segments.MAX_NUMBER == 1 << 62),
        ("| bound in a segment | 128 bytes |", statistics.MAX_KEPT_BYTES == 128),
        ("longer than 2^20 characters", cut.MAX_TOKEN_CHARS == 1 << 20),
        ("`ll1-`", cut.PREFIX == "ll1-"),
        ("at most 131,072 rows", segments.ROWS_PER_SEGMENT == 131_072),
        ("pieces over 32 KiB as objects", checkpoint_files.SPILL_FROM_BYTES == 32 << 10),
        ("dead rows stay below a fifth", merge.DEAD_PART == 5),
        ("SHOULD have at most 64 bytes", MAX_BOUND_BYTES == 64),
        ("the sum is more than 2 GiB", ipc_sizes.MAX_DECODED_BYTES == 2 << 30),
        ("1 MiB + row_count * (R + 128 * B)", ipc_sizes.SLACK_BYTES == 1 << 20),
        ("128 * B", ipc_sizes.BUFFER_BYTES == 128),
        (
            "R is 16 KiB, but 8 MiB for SCHEMAS, DEFINITIONS and TOMBSTONES",
            ipc_sizes.ROW_BYTES == 16 << 10,
        ),
        ("8 MiB for SCHEMAS", segments._ROW_BYTES[segments.SCHEMAS] == 8 << 20),
        ("SCHEMAS, DEFINITIONS and", segments._ROW_BYTES[segments.DEFINITIONS] == 8 << 20),
        ("each `default` has at most 65,536 bytes", definitions.MAX_DEFAULT_BYTES == 65_536),
        ("DEFINITIONS and TOMBSTONES", segments._ROW_BYTES[segments.TOMBSTONES] == 8 << 20),
        ("of a tombstone | 65,536 bytes", deletes.MAX_PREDICATE_BYTES == 65_536),
        ("deleted by number | 2^32", deletes.MAX_ROWS == 1 << 32),
        ("64 MiB for HISTORY", segments._ROW_BYTES[segments.HISTORY] == 64 << 20),
        ("64 KiB for REFERENCES", segments._ROW_BYTES[segments.REFERENCES] == 64 << 10),
        ("not compress a segment of up to 4 KiB", segments.PLAIN_BYTES == 4096),
        ("prune floor is 24 hours", margins.DEFAULT_MARGINS.prune_floor_s == 24 * 3600),
        ("grace period 7 days", margins.DEFAULT_MARGINS.gc_grace_s == 7 * 24 * 3600),
    ],
)
def test_a_number_in_the_text_is_that_of_the_code(said: str, is_so: bool) -> None:
    assert said in FLAT
    assert is_so


def test_the_example_of_a_location_is_what_the_code_makes() -> None:
    path = names.path_at("s3://other", "raw/x.parquet")
    assert f"= {path} " in FLAT


def test_the_features_of_the_text_are_those_of_the_code() -> None:
    said = FLAT[FLAT.index("Version 1 knows five") :].split("**Protobuf.**")[0]
    named = set(re.findall(r"`(\w+)`", said))
    assert named == objects.READER_FEATURES == objects.WRITER_FEATURES


def test_the_kinds_of_segments_and_actions_are_those_of_the_code() -> None:
    said = FLAT[FLAT.index("Kinds of segments: ") :].split(". ")[0]
    kinds = {int(number): name for number, name in re.findall(r"(\d+) ([A-Z_]+)", said)}
    assert kinds == segments.NAMES
    fields = wire.Action.DESCRIPTOR.oneofs_by_name["kind"].fields
    for field in fields:
        name = "".join(part.title() for part in field.name.split("_"))
        assert f"**{name}**" in TEXT, name


def test_the_operations_are_those_of_the_code() -> None:
    said = FLAT[FLAT.index("`Member.operation` is one of") :].split(". ")[0]
    assert set(re.findall(r"`([a-z_]+)`", said)) == objects.OPERATIONS


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
    "fixed_size_binary[8]": pa.binary(8),
    "fixed_size_binary[16]": pa.binary(16),
    "fixed_size_binary[32]": pa.binary(32),
    "list of string": pa.list_(pa.string()),
    "list of int32": pa.list_(pa.int32()),
    "list of fixed_size_binary[16]": pa.list_(pa.binary(16)),
    "timestamp[us, tz=UTC]": pa.timestamp("us", "UTC"),
}


@pytest.mark.parametrize(
    ("kind", "section", "marker"),
    [
        (segments.FILES, "6.1", ""),
        (segments.ROW_GROUPS, "6.2", "**ROW_GROUPS**"),
        (segments.SCHEMAS, "6.2", "**SCHEMAS**"),
        (segments.APPLICATIONS, "6.2", "**APPLICATIONS**"),
        (segments.DEFINITIONS, "6.2", "**DEFINITIONS**"),
        (segments.HISTORY, "6.3", ""),
        (segments.STATISTICS, "6.5", ""),
        (segments.ROW_GROUP_STATISTICS, "6.5", ""),
        (segments.REFERENCES, "6.6", ""),
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
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name, type_name, nulls = cells[:3]
        if cells[3].startswith("ROW_GROUP_STATISTICS only") and kind == segments.STATISTICS:
            continue
        plain = TYPES.get(type_name)
        said.append((name, plain or pa.type_for_alias(type_name), nulls == "yes"))
    required = segments.COLUMNS[kind]
    assert said == [(item.name, item.type, item.nullable) for item in required]


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
    meta = FooterMetadata(
        "w", "d", "t", "", bytes(16), 0, -1, b"", 1, 0, 0, pa.schema([]), bytes(16), 1, bytes(16),
        task=0,
    )  # fmt: skip
    assert set(said) == {*encode_footer(meta), *FLOATS}


def test_the_widening_table_holds() -> None:
    said = {(types, more): common for types, more, common in table_rows("types", "5.3")}
    assert said["half-float, float, double", "integers, the widest of 32 bits"] == "double"
    assert widen(pa.int32(), pa.float32()) == widen(pa.uint32(), pa.float32()) == pa.float64()
    assert said["date32", "date64"] == "date64"
    assert widen(pa.date32(), pa.date64()) == pa.date64()
    assert widen(pa.string(), pa.int64()) is None
