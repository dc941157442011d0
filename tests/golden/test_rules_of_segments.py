"""What segments must hold to be used: sound bytes, and rows that can be."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lakelog.catalog.format import segments
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.format.segments import (
    FILES_COLUMNS,
    ROW_GROUPS_COLUMNS,
    SCHEMAS_COLUMNS,
    STATISTICS_COLUMNS,
    decode_segment,
    encode_ipc,
)
from lakelog.catalog.format.statistics_rows import statistics_by_column, unpack_statistics
from lakelog.catalog.log.known_schemas import KnownSchemas, check_schemas
from lakelog.errors import CorruptObject
from lakelog.testing.logs import SCHEMA


def _flip_metadata_version(data: bytes) -> bytes:
    """The same Arrow IPC file with its record batches marked as of metadata version 4."""
    reader = pa.ipc.open_file(data)
    assert reader.num_record_batches == 1
    footer = len(data) - 10 - struct.unpack_from("<i", data, len(data) - 10)[0]
    start = data.rindex(b"\xff\xff\xff\xff", 0, data.rindex(b"\xff\xff\xff\xff", 0, footer))
    view = memoryview(data)[start + 8 :]
    table = struct.unpack_from("<I", view)[0]
    vtable = table - struct.unpack_from("<i", view, table)[0]
    position = start + 8 + table + struct.unpack_from("<H", view, vtable + 4)[0]
    assert data[position : position + 2] == b"\x04\x00"
    return data[:position] + b"\x03\x00" + data[position + 2 :]


def row_groups(*rows: tuple[int | None, int, int]) -> pa.Table:
    """Rows of a ROW_GROUPS segment."""
    columns = list(zip(*rows, strict=True))
    names = ROW_GROUPS_COLUMNS.names
    return pa.table(dict(zip(names, columns, strict=True)), schema=ROW_GROUPS_COLUMNS)


def test_a_segment_of_an_older_arrow_metadata_version_is_refused() -> None:
    rows = row_groups((0, 0, 1))
    data = encode_ipc(rows)
    assert decode_segment(data, segments.ROW_GROUPS, 1, "k").equals(rows)
    with pytest.raises(CorruptObject, match="not Arrow IPC"):
        decode_segment(_flip_metadata_version(data), segments.ROW_GROUPS, 1, "k")


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(row_groups((0, 0, -1)), id="negative"),
        pytest.param(row_groups((0, 0, 1 << 62)), id="beyond 62 bits"),
        pytest.param(row_groups((0, 0, 1), (0, 0, 1)), id="twice"),
        pytest.param(row_groups((1, 0, 1), (0, 0, 1)), id="descending"),
        pytest.param(row_groups((0, 1, 1), (0, 0, 1)), id="row groups descending"),
    ],
)
def test_row_groups_count_and_ascend(rows: pa.Table) -> None:
    with pytest.raises(CorruptObject):
        decode_segment(encode_ipc(rows), segments.ROW_GROUPS, rows.num_rows, "k")


def a_file(**changes: object) -> pa.Table:
    """One row of a FILES segment."""
    row: dict[str, object] = {
        "table": "t", "path": "data/a", "partition": "", "size_bytes": 1, "row_count": 1,
        "revision": 0, "schema_fingerprint": bytes(16), "first_clock": 0, "last_clock": 0,
        "footer_bytes": 8, "footer_digest": bytes(8), "row_groups": 1,
    }  # fmt: skip
    return pa.Table.from_pylist([row | changes], schema=FILES_COLUMNS)


@pytest.mark.parametrize(
    "changes",
    [
        {"table": ""}, {"table": "%" * 86}, {"partition": "%" * 86}, {"partition": "x" * 256},
        {"path": "data/../x"}, {"path": "x"}, {"size_bytes": -1}, {"row_count": 1 << 62},
        {"revision": -1}, {"footer_bytes": -1}, {"row_groups": -1},
    ],
    ids=lambda changes: str(changes)[:30],
)  # fmt: skip
def test_a_file_that_cannot_be_is_refused(changes: dict[str, object]) -> None:
    decode_segment(encode_ipc(a_file(partition="%" * 85)), segments.FILES, 1, "k")
    with pytest.raises(CorruptObject):
        decode_segment(encode_ipc(a_file(**changes)), segments.FILES, 1, "k")


def a_schema(**changes: object) -> pa.Table:
    """One row of a SCHEMAS segment, by its fingerprint."""
    encoded = encode_schema(SCHEMA)
    row: dict[str, object] = {
        "table": "t", "fingerprint": encoded.fingerprint, "arrow_schema": encoded.message,
        "key": None, "sort_order": [], "revision": 3,
    }  # fmt: skip
    return pa.Table.from_pylist([row | changes], schema=SCHEMAS_COLUMNS)


def take_in(rows: pa.Table, newest: int = 3) -> KnownSchemas:
    known = KnownSchemas()
    decoded = decode_segment(encode_ipc(rows), segments.SCHEMAS, rows.num_rows, "k")
    check_schemas(decoded, "k", newest)
    known.load(decoded, "k", frozenset({"another table"}))
    return known


def test_a_sound_schema_is_taken_in() -> None:
    assert take_in(a_schema()).entries == {}
    known = KnownSchemas()
    known.load(a_schema(), "k")
    assert known.tables() == {"t"}


@pytest.mark.parametrize(
    "changes",
    [
        {"fingerprint": bytes(16)}, {"arrow_schema": b""}, {"revision": 4}, {"revision": -1},
        {"key": ["a", None]}, {"table": ""},
    ],
    ids=str,
)  # fmt: skip
def test_all_rows_of_schemas_are_checked_whatever_table_is_asked_for(
    changes: dict[str, object],
) -> None:
    with pytest.raises(CorruptObject):
        take_in(a_schema(**changes))


def test_schemas_ascend_by_table_and_fingerprint() -> None:
    two = [a_schema(table=table) for table in ("u", "t")]
    for rows in (pa.concat_tables(two), pa.concat_tables([two[0], two[0]])):
        with pytest.raises(CorruptObject):
            take_in(rows)
    take_in(pa.concat_tables(two[::-1]))


def test_a_segment_with_text_that_is_not_utf8_is_refused() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"data/\xff"]).buffers())
    rows = a_file()
    rows = rows.set_column(1, FILES_COLUMNS.field("path"), broken)
    with pytest.raises(CorruptObject, match="not sound Arrow IPC"):
        decode_segment(encode_ipc(rows), segments.FILES, 1, "k")


def test_a_segment_with_a_dictionary_is_refused_also_in_a_column_that_nobody_knows() -> None:
    words = pa.array(["x"]).dictionary_encode()
    rows = a_file()
    for broken in (rows.append_column("more", words), rows.set_column(2, "partition", words)):
        with pytest.raises(CorruptObject):
            decode_segment(encode_ipc(broken), segments.FILES, 1, "k")
    more = rows.append_column("more", pa.array(["x"]))
    assert decode_segment(encode_ipc(more), segments.FILES, 1, "k").equals(rows)


def statistics(*entries: tuple[int, int]) -> bytes:
    """A STATISTICS segment of these columns and distances."""
    rows = [
        {"column": column, "row_delta": delta, "null_count": 0, "exact": 0}
        for column, delta in entries
    ]
    return encode_ipc(pa.Table.from_pylist(rows, schema=STATISTICS_COLUMNS))


def test_rows_of_statistics_are_told_by_their_distance() -> None:
    data = statistics((0, 2), (0, 1), (0, 5), (1, 0), (1, 7))
    rows = unpack_statistics(data, segments.STATISTICS, 5, ["a", "ü"], "k")
    assert rows.column("column").to_pylist() == ["a", "a", "a", "ü", "ü"]
    assert rows.column("row").to_pylist() == [2, 3, 8, 0, 7]
    found = statistics_by_column(data, segments.STATISTICS, 5, ["a", "ü"], "k")
    assert {name: places.tolist() for name, (places, _) in found.items()} == {
        "a": [2, 3, 8],
        "ü": [0, 7],
    }
    for name, (_, facts) in found.items():
        of_column = rows.filter(pc.equal(rows.column("column"), name))
        assert facts.equals(of_column.drop_columns(["column", "row"]))


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        (((0, 1), (0, 0)), ["a"]),
        (((0, -1),), ["a"]),
        (((0, 1), (0, -1)), ["a"]),
        (((1, 0), (0, 0)), ["a", "b"]),
        (((0, 0), (2, 0)), ["a", "b", "c"]),
        (((0, 0),), ["a", "b"]),
        (((0, 0), (1, 0)), ["a"]),
        (((1, 0),), ["a", "b"]),
        (((0, (1 << 31) - 1), (0, 1)), ["a"]),
    ],
    ids=str,
)
def test_statistics_that_do_not_ascend_are_refused(
    entries: tuple[tuple[int, int], ...], names: list[str]
) -> None:
    with pytest.raises(CorruptObject):
        unpack_statistics(statistics(*entries), segments.STATISTICS, len(entries), names, "k")
    with pytest.raises(CorruptObject):
        statistics_by_column(statistics(*entries), segments.STATISTICS, len(entries), names, "k")
