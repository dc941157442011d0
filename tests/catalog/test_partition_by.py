"""`tx.write(..., partition_by=[...])`: the rows that were given, each in the partition of its
values, in every engine; and predicates on these columns skip the other files."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from unittest import mock

import lakelog
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lakelog.catalog.data import parquet, partitioned
from lakelog.catalog.format.names import NULL, parse_partition
from lakelog.errors import InvalidName, InvalidSchema, SchemaConflict, UsageError
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore

DAYS = pa.table(
    {
        "year": pa.array([2026, 2025, 2026, None, 2026], pa.int16()),
        "month": pa.array([11, 11, 12, 1, 11], pa.int8()),
        "n": [0, 1, 2, 3, 4],
    }
)
WORDS = st.sampled_from(
    ["", "a", "A", "a/b", "ü", "u\u0308", "%", "=", "*?", "..", "_", NULL, "\n"]
)
TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))
# Types, and values of which few are drawn, so that some rows share a partition.
KINDS = {
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    pa.int64(): st.sampled_from([-(2**63), -1, 0, 2**63 - 1]),
    pa.string(): st.one_of(WORDS, st.text(st.characters(exclude_categories=["Cs"]), max_size=4)),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("ms"): TIMES.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
    pa.timestamp("us", "Europe/Oslo"): TIMES.map(lambda at: at.replace(tzinfo=dt.UTC)),
    pa.decimal128(10, 2): st.integers(-(10**10) + 1, 10**10 - 1).map(
        lambda n: Decimal(n).scaleb(-2)
    ),
}


@st.composite
def tables(draw):
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3))
    count = draw(st.integers(0, 12))
    columns = {"n": pa.array(range(count), pa.int64())}
    for number, kind in enumerate(kinds):
        pool = draw(st.lists(st.none() | KINDS[kind], min_size=1, max_size=3))
        drawn = draw(st.lists(st.sampled_from(pool), min_size=count, max_size=count))
        columns[f"c{number} =/"] = pa.array(drawn, kind)
    return pa.table(columns)


def written(table, by, **options):
    store = MemoryStore("parts")
    catalog = lakelog.Catalog(store)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", table, partition_by=by, **options)
    return store, catalog.snapshot("db")


def by_number(table):
    return table.sort_by("n").to_pylist()


def partition_of(row, by):
    return tuple(row[name] for name in by)


@settings(max_examples=40, deadline=None)
@given(tables())
def test_rows_out_are_rows_in_and_lie_where_their_values_say(table):
    by = table.column_names[1:]
    store, snapshot = written(table, by)
    assert by_number(snapshot.to_arrow("t")) == by_number(table)
    assert snapshot.schema("t").equals(table.schema)
    places = Counter(partition_of(row, by) for row in table.to_pylist())
    files = snapshot.files("t").to_pylist()
    assert sorted(places.values()) == sorted(file["row_count"] for file in files)
    assert len({file["partition"] for file in files}) == len(places)
    for file in files:
        rows = snapshot.to_arrow("t", partition=file["partition"])
        (values,) = {partition_of(row, by) for row in rows.to_pylist()}
        texts = parse_partition(file["partition"])
        assert list(texts) == by
        assert [text is None for text in texts.values()] == [value is None for value in values]
        assert rows["n"].to_pylist() == sorted(rows["n"].to_pylist()), "in their order"
        assert file["path"].count("/") == len(by) + 2
        assert store.head(f"w/db/{file['path']}").size_bytes == file["size_bytes"]


@settings(max_examples=10, deadline=None)
@given(tables())
def test_other_engines_read_the_same_rows(table):
    _, snapshot = written(table, table.column_names[1:])
    frame = snapshot.to_polars("t").collect()
    assert frame.sort("n").equals(pl.from_arrow(table).sort("n"))
    connection = snapshot.to_duckdb()
    found = connection.sql("SELECT * FROM t ORDER BY n").to_arrow_table()
    assert found.num_rows == table.num_rows
    assert found.select(["n"]).to_pylist() == table.select(["n"]).to_pylist()
    for name in table.column_names[1:]:
        if pa.types.is_timestamp(table.schema.field(name).type):
            continue  # DuckDB gives them in its own unit and zone
        assert found[name].to_pylist() == table[name].to_pylist()


@settings(max_examples=10, deadline=None)
@given(tables())
def test_a_rebuild_from_footers_is_exact(table):
    store, before = written(table, table.column_names[1:])
    names = ["path", "partition", "size_bytes", "row_count"]
    if not before.files("t").num_rows:
        return
    logs = ("w/db/transactions/", "w/db/segments/")
    store.delete([info.key for prefix in logs for info in store.list(prefix)])
    execute_rebuild(store, plan_rebuild(store, "w", "db"))
    after = lakelog.Catalog(store).snapshot("db")
    for told in (lambda cut: cut.files("t").select(names), lambda cut: cut.statistics("t")):
        assert told(after).sort_by("path").to_pylist() == told(before).sort_by("path").to_pylist()


@settings(max_examples=30, deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_a_value_skips_all_files_of_others(table, random_):
    """Whole files: what is left has the value, and all of it."""
    if not table.num_rows:
        return
    name = table.column_names[1]
    value = random_.choice(table[name].to_pylist())
    _, snapshot = written(table, table.column_names[1:])
    same = [row for row in table.to_pylist() if row[name] == value]
    quoted = '"' + name + '"'
    where = f"{quoted} IS NULL" if value is None else f"{quoted} = {literal(value)}"
    told = snapshot.explain("t", where).to_pylist()
    by = table.column_names[1:]
    assert sum(row["kept"] for row in told) == len({partition_of(row, by) for row in same})
    assert all(row["reason"] for row in told if not row["kept"])
    assert by_number(snapshot.to_arrow("t", where=where)) == same


def literal(value):
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        zone = "Z" if value.tzinfo else ""
        return (
            f"TIMESTAMP '{value.astimezone(dt.UTC).replace(tzinfo=None) if zone else value}{zone}'"
        )
    return f"DATE '{value}'" if isinstance(value, dt.date) else str(value)


def test_folders_of_year_and_month():
    _, snapshot = written(DAYS, ["year", "month"])
    files = snapshot.files("t").sort_by("path").to_pylist()
    assert [file["path"].split("/t/")[0] for file in files] == [
        "data/year=2025/month=11",
        "data/year=2026/month=11",
        "data/year=2026/month=12",
        f"data/year={NULL}/month=1",
    ]
    told = snapshot.explain("t", "year = 2026 AND month < 12").sort_by("path").to_pylist()
    assert [row["kept"] for row in told] == [False, True, False, False]
    assert told[0]["reason"] == "not year = 2026: year is 2025"
    assert told[3]["reason"] == "not year = 2026: year is null"
    kept = snapshot.explain("t", "NOT (year = 2026)").filter(pa.compute.field("kept"))
    assert kept.num_rows == 1, "null is neither"


def test_a_stream_holds_so_much_and_no_more_in_memory():
    """Partitions that come again have another file; rows keep their order."""
    schema = pa.schema([("p", pa.int64()), ("n", pa.int64())])
    numbers = [range(at, at + 100) for at in range(0, 4000, 100)]
    batches = (pa.record_batch({"p": [n % 4 for n in some], "n": some}) for some in numbers)
    with (
        mock.patch.object(partitioned, "HELD_BYTES", 4 << 10),
        mock.patch.object(parquet, "ROW_GROUP_ROWS", 100),
    ):
        _, snapshot = written(pa.RecordBatchReader.from_batches(schema, batches), ["p"])
    files = snapshot.files("t")
    assert files.num_rows > 12
    assert set(files["partition"].to_pylist()) == {"p=0", "p=1", "p=2", "p=3"}
    rows = snapshot.to_arrow("t", partition="p=3")["n"].to_pylist()
    assert rows == list(range(3, 4000, 4))


def test_what_is_held_stays_within_the_limit():
    held = []

    def batches():
        for number in range(50):
            held.append(pa.total_allocated_bytes())
            n = pa.array(range(number * 20_000, (number + 1) * 20_000), pa.int64())
            yield pa.record_batch({"p": pa.compute.bit_wise_and(n, 63), "n": n})

    with mock.patch.object(parquet, "ROW_GROUP_ROWS", 20_000):
        pieces = partitioned.partitions(batches(), ["p"], held_bytes=2 << 20)
        rows = sum(batch.num_rows for _, found in pieces for batch in found)
    assert rows == 1_000_000
    assert max(held) - held[0] < 6 << 20, "16 MB came in all"


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("year", "is a list"),
        ({"year": 1}, "is a list"),
        (7, "is a list"),
        ([7], "is a list"),
        (["nope"], "no column 'nope'"),
        (["year", "year"], "twice"),
    ],
)
def test_what_is_no_list_of_columns_is_refused(by, words):
    with pytest.raises(UsageError, match=words) as caught:
        written(DAYS, by)
    assert caught.value.hint


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.5]),
        pa.array([b"a"]),
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([None], pa.null()),
        pa.array([1], pa.decimal256(50, 0)),
        pa.array([1], pa.time32("ms")),
        pa.array([1], pa.duration("s")),
    ],
    ids=lambda values: str(values.type),
)
def test_columns_of_other_types_are_refused_by_name(values):
    with pytest.raises(InvalidSchema, match="Column 'x'") as caught:
        written(pa.table({"x": values}), ["x"])
    assert caught.value.key == "x"


def test_a_partition_beside_its_columns_is_refused():
    with pytest.raises(UsageError, match="together"):
        written(DAYS, ["year"], partition="2026")


def test_no_columns_at_all_are_no_partition():
    _, snapshot = written(DAYS, [])
    assert snapshot.files("t")["partition"].to_pylist() == [""]


def test_too_many_partitions_and_too_long_a_value_leave_nothing_behind():
    many = pa.table({"n": range(10_001)})
    long = pa.table({"n": [1], "s": ["ü" * 200]})
    store = MemoryStore("parts")
    catalog = lakelog.Catalog(store)
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            with pytest.raises(UsageError, match="more than 10,000 partitions by n"):
                tx.write("t", many, partition_by=["n"])
            with pytest.raises(InvalidName, match="too long"):
                tx.write("t", long, partition_by=["s"])
            tx.write("t", many.slice(0, 1), partition_by=["n"])
        assert tx.commit_info.revision == 0
    assert catalog.snapshot("db").files("t").num_rows == 1


def test_no_rows_are_a_schema():
    _, snapshot = written(DAYS.slice(0, 0), ["year"])
    assert snapshot.schema("t") == DAYS.schema
    assert not snapshot.files("t").num_rows


def test_a_conflict_of_types_is_refused():
    store, _ = written(DAYS, ["year"])
    catalog = lakelog.Catalog(store)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        with pytest.raises(SchemaConflict):
            tx.write("t", pa.table({"year": ["x"]}), partition_by=["year"])
        tx.discard()


def test_removals_are_named_once_in_the_footers_of_many_files(catalog, store):
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            old = tx.write("t", DAYS, partition_by=["year"])
        with writer.transaction() as tx:
            for path in old:
                tx.remove(path)
            new = tx.write("t", DAYS, partition_by=["month"])
    from lakelog.catalog.data.footers.read import read_footer

    metas = [
        read_footer(store, f"w/db/{path}", store.head(f"w/db/{path}").size_bytes).meta
        for path in new
    ]
    named = [path for meta in metas for _, path in meta.replaces]
    assert sorted(named) == sorted(old)
    assert [meta.number for meta in metas] == list(range(len(new)))
    assert {meta.partition for meta in metas} == {"month=11", "month=12", "month=1"}


def test_a_write_that_is_split_as_the_table_is_names_the_way_out(catalog):
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"s": ["a"]}), partition_by=["s"])
        long = pa.table({"s": ["x" * 300]})
        with pytest.raises(InvalidName) as caught, writer.transaction() as tx:
            tx.write("t", long)
        assert "partition_by=[] writes them" in caught.value.hint
        with writer.transaction() as tx:
            tx.write("t", long, partition_by=[])
    assert len(catalog.snapshot("db").to_arrow("t")) == 2
