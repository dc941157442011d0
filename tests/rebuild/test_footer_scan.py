"""`read_footer` and `Transaction.add`: what a file may be, and how a bad one is refused."""

from __future__ import annotations

import io

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.data.footers.parse import MAX_FOOTER_BYTES, TAIL_BYTES, footer_length
from lakelog.catalog.data.footers.read import fetch_tail, read_footer
from lakelog.catalog.format.schema import column_id, encode_schema
from lakelog.errors import InvalidParquet, InvalidPath, ObjectNotFound
from lakelog.testing.counting import CountingStore
from own_files import add_own


def parquet(table: pa.Table, **options) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


SMALL = pa.table({"hour": pa.array([3, 1, 2], pa.int32()), "temp": [1.5, None, -2.0]})
KEY = "EWR/weather/data/_/hourly/there.parquet"


def scan_footer(store, key):
    """The schema and the facts of one file."""
    parsed = read_footer(store, key, store.head(key).size_bytes)
    return parsed.schema, parsed.facts


def test_facts_of_a_foreign_file(store):
    body = parquet(SMALL, row_group_size=2)
    store.put(KEY, body)
    schema, add = scan_footer(store, KEY)
    assert schema.equals(SMALL.schema)
    assert (add.size_bytes, add.row_count) == (len(body), 3)
    assert add.schema_fingerprint == encode_schema(SMALL.schema).fingerprint
    assert add.footer_bytes == int.from_bytes(body[-8:-4], "little") + 8
    assert [group.row_count for group in add.row_groups] == [2, 1]
    assert add.row_groups[0].columns[0].min == (1).to_bytes(8, "little")
    assert not add.row_groups[0].columns[1].HasField("null_count")  # another program counted them
    assert not add.path
    assert not add.table


def test_a_file_of_lakelogs_own_gives_the_very_facts_of_its_commit(catalog, store):
    columns = {
        "at": pa.array([1, 2], pa.timestamp("s", "UTC")),  # Parquet has no seconds
        "day": pa.array([86_400_000, 0], pa.date64()),
        "tags": pa.array([["a"], []], pa.large_list(pa.large_string())),
        "code": pa.array(["x", "y"]).dictionary_encode(),
        "again": pa.array([1, 2], pa.int8()),
    }
    table = pa.table(columns)
    with catalog.writer("EWR", "weather") as writer, writer.transaction() as tx:
        (path,) = tx.write("hourly", table, partition="p")
    schema, add = scan_footer(store, f"EWR/weather/{path}")
    (state,) = catalog.snapshot("weather")._states
    assert state.schemas.entries.keys() == {("hourly", add.schema_fingerprint)}
    (entry,) = state.schemas.entries.values()
    assert schema.equals(entry.schema, check_metadata=True)
    assert [column_id(each) for each in schema] == [1, 2, 3, 4, 5]
    committed, _ = state.files.added["hourly"][path]
    parsed = read_footer(store, f"EWR/weather/{path}", add.size_bytes)
    assert (parsed.meta.table, parsed.meta.partition) == ("hourly", "p")
    parsed.facts.MergeFrom(
        type(add)(path=path, table="hourly", partition="p", first_clock=committed.first_clock,
                  last_clock=committed.last_clock)
    )  # fmt: skip
    assert parsed.facts == committed


def test_added_file_is_read_like_any_other(catalog, store):
    store.put("EWR/weather/data/p/hourly/g.parquet", parquet(pa.table({"b": [7, 8]})))
    with catalog.writer("EWR", "weather") as writer, writer.transaction() as tx:
        add_own(tx, "hourly", "data/p/hourly/g.parquet", "p")
    snapshot = catalog.snapshot("weather")
    assert snapshot.to_arrow("hourly")["b"].to_pylist() == [7, 8]
    assert snapshot.files("hourly")["partition"].to_pylist() == ["p"]


def test_stale_lakelog_metadata_gives_way_to_the_real_columns(catalog, store):
    with catalog.writer("EWR", "weather") as writer, writer.transaction() as tx:
        (path,) = tx.write("hourly", SMALL)
    key = f"EWR/weather/{path}"
    inherited = pq.read_metadata(pa.BufferReader(store.get(key))).metadata
    other = pa.table({"wind": ["strong"]}).replace_schema_metadata(inherited)
    store.put("EWR/weather/data/_/hourly/other.parquet", parquet(other))
    schema, add = scan_footer(store, "EWR/weather/data/_/hourly/other.parquet")
    assert schema.names == ["wind"]
    assert add.row_count == 1
    parsed = read_footer(store, "EWR/weather/data/_/hourly/other.parquet", add.size_bytes)
    assert parsed.meta is None
    assert "other columns" in parsed.problem


WHOLE = parquet(SMALL)
END = WHOLE[-8:]
FOOTER = int.from_bytes(WHOLE[-8:-4], "little") + 8
BAD = {
    "empty": (b"", "0 bytes long"),
    "tiny": (b"PAR1PAR1", "8 bytes long"),
    "text": (b"a,b\n1,2\n" * 100, "something else, or cut short"),
    "cut at the end": (WHOLE[:-5], "something else, or cut short"),
    "cut in the middle": (WHOLE[: len(WHOLE) // 2], "something else, or cut short"),
    "cut at the start": (WHOLE[150:], "outside of the file"),
    "only the footer": (WHOLE[-FOOTER - 4 :], "outside of the file"),
    "encrypted": (WHOLE[:-4] + b"PARE", "encrypted"),
    "length too large": (WHOLE[:-8] + (1 << 30).to_bytes(4, "little") + b"PAR1", "would be"),
    "length zero": (WHOLE[:-8] + bytes(4) + b"PAR1", ""),
    "footer flipped": (
        WHOLE[:-FOOTER] + bytes(byte ^ 0x40 for byte in WHOLE[-FOOTER:-8]) + END,
        "",
    ),
    "no columns": (parquet(pa.table({}).select([])), "without columns"),
    "a name twice": (
        parquet(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])),
        "stands twice",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_no_parquet_file_is_refused_by_name_and_the_transaction_goes_on(catalog, store, name):
    body, words = BAD[name]
    store.put(KEY, body)
    with catalog.writer("EWR", "weather") as writer:
        with writer.transaction() as tx:
            with pytest.raises(InvalidParquet) as caught:
                add_own(tx, "hourly", "data/_/hourly/there.parquet")
            tx.write("hourly", SMALL)
        assert caught.value.key == KEY
        assert caught.value.hint
        assert words in str(caught.value)
    assert catalog.snapshot("weather").files("hourly").num_rows == 1


@pytest.mark.parametrize(
    "path",
    ["../JFK/data/x.parquet", "data/../x.parquet", "/d/../x.parquet", "data//x", "s3://b/../x"],
)
def test_a_path_that_is_none_is_refused_before_any_request(catalog, store, path):
    counting = CountingStore(store)
    with lakelog.Catalog(counting).writer("EWR", "weather") as writer:
        tx = writer.transaction()
        counting.reset()
        with pytest.raises(InvalidPath):
            add_own(tx, "hourly", path)
        assert not any(counting.counts.values())


def test_a_file_that_is_not_there(catalog):
    with catalog.writer("EWR", "weather") as writer, pytest.raises(ObjectNotFound):
        add_own(writer.transaction(), "hourly", "data/_/hourly/no.parquet")


def test_requests_one_for_a_short_footer_two_for_a_long_one(any_store):
    counting = CountingStore(any_store())
    wide = pa.table({f"column number {number} of many": [number] for number in range(700)})
    for table, gets in ((SMALL, 1), (wide, 2)):
        body = parquet(table, compression="none")
        counting.put(KEY, body)
        counting.reset()
        schema, add = scan_footer(counting, KEY)
        assert (schema, add.row_count) == (table.schema, table.num_rows)
        assert (counting.counts["head"], counting.counts["get"]) == (1, gets)
        counting.reset()
        assert len(fetch_tail(counting, KEY, len(body))) == add.footer_bytes
        assert (counting.counts["head"], counting.counts["get"]) == (0, gets)
    assert add.footer_bytes > TAIL_BYTES


def test_an_absurd_footer_is_never_fetched():
    end = (MAX_FOOTER_BYTES + 1).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(ValueError, match="over the limit"):
        footer_length(end, 1 << 40)


def test_a_file_that_became_shorter_since_it_was_listed(store):
    store.put(KEY, WHOLE)
    with pytest.raises(InvalidParquet, match="shorter"):
        read_footer(store, KEY, len(WHOLE) + 1)
