"""The same values from Arrow, from Spark's own reader and from the data source, for every type that
lakelog writes.

All types lie side by side in one table, so that each road is one query.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
import warnings
from typing import TYPE_CHECKING, Any

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.errors import InvalidSchema
from lakelog.spark.arrow_types import as_spark
from newer_spark import TIMES_OF_DAY, needs

if TYPE_CHECKING:
    from pathlib import Path

D = decimal.Decimal
ROWS = 8
TICKS = [-1, -999, -1000, -1001, 1001, 1_700_000_000_000_000_999]
OLD = dt.datetime(1960, 1, 2, 3, 4, 5)
DAY = dt.date(1900, 1, 1)
NS = pa.timestamp("ns")
ZONES = (None, "UTC", "Europe/Oslo", "+02:00")


def column(values: Any, kind: pa.DataType | None = None) -> pa.Array:
    """The values and nulls, as many rows as the others have."""
    return pa.array([*values, *[None] * (ROWS - len(values))], kind)


# One file of one column for each Arrow type that the writer takes.
TYPES: dict[str, pa.Array] = {
    "bool": column([True, False]),
    **{
        str(kind): column(
            [1, 0, 2 ** (kind.bit_width - pa.types.is_signed_integer(kind)) - 1], kind
        )
        for kind in (
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
            *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        )
    },
    **{
        str(kind): column([1.5, -2.0, float("inf")], kind)
        for kind in (pa.float16(), pa.float32(), pa.float64())
    },
    "decimal32": column([D("1.25"), D("-999.99")], pa.decimal32(5, 2)),
    "decimal64": column([D("1.25")], pa.decimal64(15, 2)),
    "decimal128": column([D("1.25")], pa.decimal128(38, 10)),
    "decimal256": column([D("1.25")], pa.decimal256(30, 2)),
    "date32": column([DAY]),
    "date64": column([DAY], pa.date64()),
    **{
        f"timestamp {unit} {zone}": column([OLD], pa.timestamp(unit, zone))
        for unit in ("s", "ms", "us", "ns")
        for zone in ZONES
    },
    "ticks": column(TICKS, NS),
    "ticks of instants": column(TICKS, pa.timestamp("ns", "UTC")),
    **{f"duration {unit}": column([1, -5], pa.duration(unit)) for unit in ("s", "ms", "us")},
    "duration ns": column(TICKS, pa.duration("ns")),
    "string": column(["a", "é", ""]),
    "large_string": column(["a"], pa.large_string()),
    "string_view": column(["a"], pa.string_view()),
    "dictionary": column(["a", "b", "a"]).dictionary_encode(),
    "json": pa.ExtensionArray.from_storage(pa.json_(), column(['{"a": 1}'])),
    "binary": column([b"a", b"\xff"]),
    "large_binary": column([b"a"], pa.large_binary()),
    "binary_view": column([b"a"], pa.binary_view()),
    "fixed binary": column([b"ab"], pa.binary(2)),
    "uuid": column([b"a" * 16], pa.uuid()),
    "null": pa.nulls(ROWS),
    "list": column([[1, None], []]),
    "large_list": column([[1], []], pa.large_list(pa.uint8())),
    "fixed list": column([[1, 2]], pa.list_(pa.int16(), 2)),
    "list<ns>": column([[TICKS[0], None], []], pa.list_(NS)),
    "fixed list<ns>": column([[TICKS[0]]], pa.list_(NS, 1)),
    "list<half>": column([[1.5, None]], pa.list_(pa.float16())),
    "list<date64>": column([[DAY]], pa.list_(pa.date64())),
    "list<null>": column([[None]], pa.list_(pa.null())),
    "list<uint64>": column([[2**64 - 1]], pa.list_(pa.uint64())),
    "struct": column([{"x": 1, "y": [{"z": "a"}]}]),
    "struct<ns>": column(
        [{"x": TICKS[3], "d": DAY}], pa.struct({"x": pa.timestamp("ns", "UTC"), "d": pa.date64()})
    ),
    "map": column([[("a", 1)], []], pa.map_(pa.string(), pa.uint16())),
    "map<ns>": column([[(1, TICKS[3])]], pa.map_(pa.int32(), NS)),
}
# The same column in an older and in a newer file; the cut's schema unites them.
PAIRS: dict[str, tuple[pa.Array, pa.Array]] = {
    "instants": (
        column([OLD], pa.timestamp("us", "UTC")),
        column([OLD], pa.timestamp("ms", "UTC")),
    ),
    "nanoseconds": (column(TICKS, NS), column([5], pa.timestamp("us"))),
    "halves": (column([1.5], pa.float16()), column([2.5], pa.float32())),
    "uint32 and double": (column([2**32 - 1], pa.uint32()), column([1.5])),
    "int8 and int64": (column([1, -128], pa.int8()), column([2**40])),
    "int32 and decimal": (column([7], pa.int32()), column([D("1.25")], pa.decimal128(20, 2))),
    "dictionary": (column(["a", "b"]).dictionary_encode(), column(["z"])),
    "decimals": (column([D("1.25")], pa.decimal128(5, 2)), column([D("1.2555")])),
    "lists": (column([[1], []], pa.list_(pa.int32())), column([[2**40]])),
    "empty lists": (column([[], []]), column([[2**40, None]])),
    "structs": (column([{"x": 1}]), column([{"y": "a", "x": 2}])),
    "durations": (column([1, -1], pa.duration("s")), column([1], pa.duration("us"))),
    "nulls": (pa.nulls(ROWS), column([1])),
    "dates": (column([dt.date(2024, 1, 1)]), column([DAY], pa.date64())),
    "date and time": (column([DAY]), column([OLD], pa.timestamp("us"))),
    "a.b": (column([1]), column([2])),
    "é` x": (column([3.5], pa.float16()), column([4.5])),
}
TIMES = {
    "time s": column([1], pa.time32("s")),
    "time ms": column([1001], pa.time32("ms")),
    "time us": column([1_000_001], pa.time64("us")),
    "time ns": column([1_000_001_999], pa.time64("ns")),
}
TABLES = {
    "types": [TYPES],
    "pairs": [{name: each[at] for name, each in PAIRS.items()} for at in (0, 1)],
    "times": [TIMES],
    "wide": [{"id": column([1]), "big": column([D("1.25")], pa.decimal256(60, 2))}],
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lake with space")
    catalog = lakelog.open_catalog(str(folder))
    with catalog.writer("w", "db") as writer:
        for name, tables in TABLES.items():
            for columns in tables:
                with writer.transaction() as transaction:
                    rows = pa.table({"row": pa.array(range(ROWS)), **columns})
                    transaction.write(name, rows, partition="day=1 %[é]")
    return folder


def plain(value: Any) -> Any:
    """Values alike in both worlds: naive UTC times in microseconds, and bytes."""
    if isinstance(value, (dt.datetime, dt.timedelta)):
        if hasattr(value, "floor"):  # a pandas value, for its nanoseconds
            value = value.floor("us")
            value = value.to_pytimedelta() if hasattr(value, "seconds") else value.to_pydatetime()
        if isinstance(value, dt.datetime) and value.tzinfo:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        return value
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return getattr(value, "bytes", value)


def columns_of(table: pa.Table) -> dict[str, list[Any]]:
    """The values of each column, in an order that all engines can make."""
    found = {name: [plain(each) for each in table[name].to_pylist()] for name in table.column_names}
    for name, values in found.items():
        pairs = zip(found["row"], values, strict=True)
        found[name] = [value for _, value in sorted(pairs, key=repr)]
    return found


def by_arrow(lake: Path, table: str) -> dict[str, list[Any]]:
    return columns_of(lakelog.open_catalog(str(lake)).snapshot("db").to_arrow(table))


def source(spark: Any, table: str) -> Any:
    lakelog.spark.register(spark)
    reader = spark.read.format("lakelog").option("database", "db").option("table", table)
    return reader.option("native", "false")


@pytest.mark.parametrize("table", ["types", "pairs"])
@pytest.mark.parametrize("road", ["native", "data source"])
def test_engines_give_what_arrow_gives(spark, lake, table, road):
    if road == "native":
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # the data source must not step in
            frame = lakelog.spark.read(spark, str(lake), "db", table)
    else:
        frame = source(spark, table).load(str(lake))
    got, want = columns_of(frame.toArrow()), by_arrow(lake, table)
    assert list(got) == list(want)
    assert {name: got[name] for name in want if got[name] != want[name]} == {
        name: want[name] for name in want if got[name] != want[name]
    }


def test_arrow_gives_what_was_written(lake):
    got = by_arrow(lake, "types")
    for name, values in TYPES.items():
        written = [plain(each) for each in values.to_pylist()]
        assert got[name] == written, name


def test_the_log_knows_the_types_of_the_footers(lake):
    """Spark's reader is told a file's types by the log; Parquet stores some types as others."""
    snapshot = lakelog.open_catalog(str(lake)).snapshot("db")
    for table in TABLES:
        for part in snapshot.file_parts(table):
            footer = pq.read_schema(lake / part.key)
            for field in part.schema:
                assert field.type.equals(footer.field(field.name).type), (table, field.name)


def test_types_the_writer_refuses():
    with pytest.raises(InvalidSchema, match="scale between 0 and its precision"):
        write_one(pa.array([D("1200")], pa.decimal128(5, -2)))
    with pytest.raises(InvalidSchema, match="date32"):  # its time would be lost
        write_one(pa.array([1], pa.int64()).view(pa.date64()))


def write_one(values: pa.Array) -> None:
    catalog = lakelog.open_catalog("memory://refused")
    with catalog.writer("w", "db") as writer, writer.transaction() as transaction:
        transaction.write("t", pa.table({"c": values}))


@needs(TIMES_OF_DAY)
def test_times_of_day_go_by_the_data_source_where_spark_has_them_off(spark, lake, settings):
    want = by_arrow(lake, "times")
    want["time ns"][0] = dt.time(0, 0, 1, 1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        frame = lakelog.spark.read(spark, str(lake), "db", "times", where="row >= 0")
    words = re.compile(r"'time s' is time32\[ms\].*no times of day.*slower")
    assert any(words.search(str(one.message)) for one in told)
    assert columns_of(frame.toArrow()) == want
    settings("spark.sql.timeType.enabled", True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        frame = lakelog.spark.read(spark, str(lake), "db", "times")
    assert columns_of(frame.toArrow()) == want


def test_a_type_that_neither_road_can_read_is_named(spark, lake):
    with pytest.raises(InvalidSchema, match=r"column 'big' of type decimal256\(60, 2\)"):
        lakelog.spark.read(spark, str(lake), "db", "wide")
    with pytest.raises(Exception, match=r"InvalidSchema: .*'big' of type decimal256\(60, 2\)"):
        source(spark, "wide").load(str(lake))
    frame = source(spark, "wide").schema("id bigint").load(str(lake))
    assert sorted(each.id for each in frame.where("id is not null").collect()) == [1]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (column([[TICKS[1]], [TICKS[3], None], []], pa.list_(NS)), pa.list_(pa.timestamp("us"))),
        (
            column([[(1, TICKS[1])], [], [(2, TICKS[3])]], pa.map_(pa.int8(), NS)),
            pa.map_(pa.int8(), pa.timestamp("us")),
        ),
        (
            column([{"t": TICKS[1]}, None, {"t": TICKS[3]}], pa.struct({"t": NS})),
            pa.struct({"t": pa.timestamp("us")}),
        ),
    ],
)
def test_nested_nanoseconds_in_a_slice(values, wanted):
    """Batches are slices of larger ones: their offsets must count."""
    sliced = pa.record_batch({"c": values}).slice(1, 3)
    got = as_spark(sliced, pa.schema({"c": wanted})).column(0)
    got.validate(full=True)
    assert [plain(each) for each in got.to_pylist()] == [
        plain(each) for each in sliced.column(0).to_pylist()
    ]


def test_times_out_of_range_are_named():
    batch = pa.record_batch({"c": pa.array([2**62], pa.timestamp("ms"))})
    with pytest.raises(InvalidSchema, match=r"'c' of type timestamp\[ms\]"):
        as_spark(batch, pa.schema({"c": pa.timestamp("us")}))
