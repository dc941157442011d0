"""Every pair of types, in a file and in the table: right values or an error, never wrong values."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from functools import reduce
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.errors import InvalidSchema
from lakelog.spark.arrow_types import (
    is_direct,
    keeps_values,
    read_type,
    spark_schema,
    spark_type,
    storage,
)
from lakelog.spark.file_groups import FileGroup
from lakelog.spark.native import read_files
from lakelog.testing.known_files import KnownFile, known_files
from newer_spark import TIMES_OF_DAY, needs

D = decimal.Decimal
DAY = dt.date(2024, 2, 29)
TIMES = [dt.datetime(2024, 2, 29, 12, 30, 1, 123000), dt.datetime(1969, 12, 31, 23, 59, 59, 1000)]


def ints(kind: pa.DataType) -> pa.Array:
    bits, signed = kind.bit_width, pa.types.is_signed_integer(kind)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return pa.array([1, low, high, None], kind)


def decimals(kind: pa.DataType) -> pa.Array:
    digits = "9" * kind.precision
    most = f"{digits[: -kind.scale]}.{digits[-kind.scale :]}"
    return pa.array(["1.25", most, f"-{most}", None]).cast(pa.decimal128(38, kind.scale)).cast(kind)


def times(kind: pa.DataType) -> pa.Array:
    keep = 1_000_000 if kind.unit == "s" else 1
    values = [each.replace(microsecond=each.microsecond // keep * keep) for each in TIMES]
    return pa.array([*values, None], kind)


COLUMNS: dict[str, pa.Array] = {
    "bool": pa.array([True, False, None]),
    **{
        str(kind): ints(kind)
        for kind in (
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
            *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        )
    },
    "half": pa.array([1.5, -2.0, 65504.0, 6e-08, 0.0, math.inf, -math.inf, None], pa.float16()),
    "float": pa.array([1.5, -3.4e38, math.inf, None], pa.float32()),
    "double": pa.array([0.1, -1.7e308, math.inf, None], pa.float64()),
    "decimal32(5, 2)": decimals(pa.decimal32(5, 2)),
    "decimal64(15, 2)": decimals(pa.decimal64(15, 2)),
    "decimal(5, 2)": decimals(pa.decimal128(5, 2)),
    "decimal(10, 4)": decimals(pa.decimal128(10, 4)),
    "decimal(22, 2)": decimals(pa.decimal128(22, 2)),
    "decimal(38, 10)": decimals(pa.decimal128(38, 10)),
    "decimal256(30, 2)": decimals(pa.decimal256(30, 2)),
    "string": pa.array(["a", "é", "", None]),
    "large_string": pa.array(["a", "é", None], pa.large_string()),
    "string_view": pa.array(["a", "é", None], pa.string_view()),
    "dictionary": pa.array(["a", "é", "a", None]).dictionary_encode(),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None])),
    "binary": pa.array([b"a", b"\xff", None]),
    "large_binary": pa.array([b"a", b"\xff", None], pa.large_binary()),
    "fixed binary": pa.array([b"ab", b"\xff\x00", None], pa.binary(2)),
    "uuid": pa.array([b"a" * 16, None], pa.uuid()),
    "date32": pa.array([DAY, dt.date(1900, 1, 1), None]),
    "date64": pa.array([DAY, dt.date(1900, 1, 1), None], pa.date64()),
    **{
        f"timestamp {unit} {zone}": times(pa.timestamp(unit, zone))
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin")
    },
    **{
        f"duration {unit}": pa.array([1, -1, 10**9, None], pa.duration(unit))
        for unit in ("s", "ms", "us")
    },
    "duration ns": pa.array([1000, -5000, None], pa.duration("ns")),
    "null": pa.nulls(3),
    "list<int32>": pa.array([[1, None], [], None], pa.list_(pa.int32())),
    "large_list<int64>": pa.array([[1, None], [], None], pa.large_list(pa.int64())),
    "fixed list": pa.array([[1, 2], None], pa.list_(pa.int16(), 2)),
    "list<half>": pa.array([[1.5, None], [], None], pa.list_(pa.float16())),
    "list<ns>": pa.array([[TIMES[0], None], [], None], pa.list_(pa.timestamp("ns"))),
    "list<null>": pa.array([[None, None], [], None], pa.list_(pa.null())),
    "list<double>": pa.array([[0.5], None], pa.list_(pa.float64())),
    "struct<x int32>": pa.array([{"x": 1}, {"x": None}, None], pa.struct({"x": pa.int32()})),
    "struct<y, x>": pa.array(
        [{"y": "a", "x": 2**40}, {"y": None, "x": None}, None],
        pa.struct({"y": pa.string(), "x": pa.int64()}),
    ),
    "struct<X>": pa.array([{"X": 1}, None], pa.struct({"X": pa.int32()})),
    "struct<t ns>": pa.array([{"t": TIMES[1]}, None], pa.struct({"t": pa.timestamp("ns", "UTC")})),
    "map<string, int32>": pa.array(
        [[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.int32())
    ),
    "map<string, double>": pa.array([[("a", 0.5)], None], pa.map_(pa.string(), pa.float64())),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, tuple[pa.Schema, str, int]]:
    """One file for each column type, with the schema that its footer tells."""
    folder = tmp_path_factory.mktemp("types")
    written = {}
    for at, (name, column) in enumerate(COLUMNS.items()):
        path = folder / f"{at}.parquet"
        pq.write_table(pa.table({"c": column}), path)
        written[name] = (pq.read_schema(path), str(path), path.stat().st_size)
    return written


def as_spark(value: Any, kind: pa.DataType) -> Any:
    """What Spark's `collect` gives for a value of the target type."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: as_spark(value.get(each.name), each.type) for each in kind}
    if isinstance(kind, pa.MapType):
        return {key: as_spark(item, kind.item_type) for key, item in value}
    if isinstance(value, list):
        return [as_spark(each, kind.value_type) for each in value]
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_decimal(kind) or kind == pa.uint64():
        return D(str(value))
    if pa.types.is_timestamp(kind) and type(value) is dt.date:
        return dt.datetime.combine(value, dt.time())
    if isinstance(value, dt.datetime):
        return dt.datetime.fromtimestamp(value.timestamp()) if value.tzinfo else to_micros(value)
    if isinstance(value, str) and storage(kind) == pa.binary():
        return value.encode()
    return getattr(value, "bytes", value)


def to_micros(value: Any) -> dt.datetime:
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value


def plain(value: Any) -> Any:
    """Turn Spark's rows and byte arrays into dicts and bytes."""
    if hasattr(value, "asDict"):
        return {name: plain(each) for name, each in value.asDict().items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return bytes(value) if isinstance(value, bytearray) else value


def python_values(column: pa.Array) -> list[Any]:
    if pa.types.is_duration(column.type) and column.type.unit == "ns":
        return column.cast(pa.duration("us")).to_pylist()
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type).to_pylist()
    return column.to_pylist()


TARGETS = sorted({str(each.type): each.type for each in COLUMNS.values()}.items())


@pytest.mark.long
@pytest.mark.parametrize("vectorized", [True, False])
@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_against_every_target(spark, files, settings, name, vectorized):
    """One query for all targets that are allowed; each that isn't must say so."""
    settings("spark.sql.parquet.enableVectorizedReader", vectorized)
    schema, path, size = files[name]
    if name in ("list<half>", "list<ns>") and not vectorized:
        groups = [FileGroup(schema, known_files([KnownFile(path, size)]))]
        with pytest.raises(Exception, match="PARQUET_TYPE_ILLEGAL"):  # loud, and that is enough
            read_files(spark, groups, schema).collect()
        return
    values, right = python_values(COLUMNS[name]), 0
    wrong = []
    for text, target in TARGETS:
        if not vectorized and not is_direct(schema.field("c").type, target):
            continue  # casts don't depend on the reader
        try:
            frame = read_files(
                spark,
                [FileGroup(schema, known_files([KnownFile(path, size)]))],
                pa.schema({"c": target}),
            )
        except InvalidSchema as error:
            assert "'c" in str(error)  # noqa: PT017
            continue
        got = [plain(each[0]) for each in frame.collect()]
        want = [as_spark(each, target) for each in values]
        right += got == want
        if got != want and not is_lossy(schema.field("c").type, target):
            wrong.append((text, got, want))
    assert not wrong
    assert right > 0 or not vectorized, "a type must at least be readable as itself"


def is_lossy(physical: pa.DataType, target: pa.DataType) -> bool:
    """Integers and decimals become floats with rounding, in Arrow as in Spark."""
    return pa.types.is_floating(target) and not pa.types.is_floating(physical)


def test_what_is_read_at_once_is_also_a_cast_that_keeps_values():
    """The native list and the list of casts must not contradict each other on scalars."""
    scalars = [
        each.type
        for each in COLUMNS.values()
        if not pa.types.is_nested(each.type) and not isinstance(each.type, pa.BaseExtensionType)
    ]
    direct = 0
    for physical in scalars:
        for target in scalars:
            if is_direct(physical, target):
                direct += 1
                assert keeps_values(storage(physical), storage(target)), (physical, target)
    assert direct > 60


def test_unsigned_is_never_read_as_double_at_once():
    """The reader would return -1.0 for the greatest uint32, without an error."""
    assert not is_direct(pa.uint32(), pa.float64())
    assert not is_direct(pa.timestamp("us"), pa.int64())
    assert not is_direct(pa.date32(), pa.int32())
    assert not is_direct(pa.timestamp("us"), pa.timestamp("us", "UTC"))


def test_float_to_narrower_or_text_to_number_is_refused(spark, files):
    for name, target in [
        *(("double", pa.float32()), ("double", pa.int64()), ("int64", pa.int32())),
        *(("string", pa.int64()), ("int64", pa.string()), ("uint64", pa.int64())),
        *(("timestamp us None", pa.timestamp("us", "UTC")), ("bool", pa.int32())),
        *(("decimal(22, 2)", pa.decimal128(20, 2)), ("int64", pa.decimal128(10, 0))),
    ]:
        schema, path, size = files[name]
        with pytest.raises(InvalidSchema, match="no safe cast leads to"):
            read_files(
                spark,
                [FileGroup(schema, known_files([KnownFile(path, size)]))],
                pa.schema({"c": target}),
            )


def test_nanoseconds_are_cut_towards_the_past(spark, write):
    ticks = [1, -1, 999, -999, -1000, -1001, 1_700_000_000_000_000_999, None]
    table = pa.table(
        {
            "n": pa.array(ticks, pa.timestamp("ns")),
            "z": pa.array(ticks, pa.timestamp("ns", "UTC")),
        }
    )
    file = write("ns.parquet", table)
    target = pa.schema({"n": pa.timestamp("us"), "z": pa.timestamp("us", "UTC")})
    frame = read_files(spark, [FileGroup(table.schema, known_files([file]))], target)
    found = frame.selectExpr("unix_micros(z) z", "unix_micros(cast(n as timestamp)) n").collect()
    want = [None if each is None else each // 1000 for each in ticks]
    assert [each.z for each in found] == want
    assert [each.n for each in found] == want


def test_timestamps_without_zone_do_not_move_with_the_session(spark, files, settings):
    settings("spark.sql.session.timeZone", "America/New_York")
    schema, path, size = files["timestamp ns None"]
    frame = read_files(
        spark,
        [FileGroup(schema, known_files([KnownFile(path, size)]))],
        pa.schema({"c": pa.timestamp("us")}),
    )
    assert [each.c for each in frame.collect()] == [*TIMES, None]


@needs(TIMES_OF_DAY)
def test_times_of_day_need_spark_to_allow_them(spark, write, settings):
    table = pa.table(
        {
            "s": pa.array([1, None, 86_399, 0], pa.time32("s")),
            "ms": pa.array([1001, None, 86_399_999, 45_296_700], pa.time32("ms")),
            "us": pa.array([1_000_001, None, 86_399_999_999, 3_599_999_999], pa.time64("us")),
            "ns": pa.array(
                [1_000_001_999, None, 86_399_999_999_999, 3_600_000_000_000], pa.time64("ns")
            ),
        }
    )
    file = write("t.parquet", table)
    groups = [FileGroup(table.schema, known_files([file]))]
    with pytest.raises(InvalidSchema, match=r"timeType\.enabled=true"):
        read_files(spark, groups, table.schema)
    settings("spark.sql.timeType.enabled", True)
    frame = read_files(spark, groups, table.schema)
    found = frame.selectExpr(
        "cast(s as string)", "cast(ms as string)", "cast(us as string)", "cast(ns as string)"
    ).collect()
    assert tuple(found[0]) == ("00:00:01", "00:00:01.001", "00:00:01.000001", "00:00:01.000001")
    assert tuple(found[1]) == (None,) * 4
    assert tuple(found[2]) == ("23:59:59", "23:59:59.999", "23:59:59.999999", "23:59:59.999999")
    assert tuple(found[3]) == ("00:00:00", "12:34:56.7", "00:59:59.999999", "01:00:00")


def test_types_spark_cannot_hold_are_named(spark):
    for kind in (pa.decimal256(50, 2), pa.month_day_nano_interval()):
        with pytest.raises(InvalidSchema, match="'big'") as caught:
            spark_schema(pa.schema({"big": kind}))
        assert str(kind) in str(caught.value)


def test_int96_fails_and_does_not_mislead(spark, write):
    """The Arrow schema of such a file says nanoseconds; the ticks aren't there."""
    table = pa.table({"c": pa.array(TIMES, pa.timestamp("ns"))})
    file = write("int96.parquet", table, use_deprecated_int96_timestamps=True)
    frame = read_files(
        spark, [FileGroup(table.schema, known_files([file]))], pa.schema({"c": pa.timestamp("us")})
    )
    with pytest.raises(Exception, match=r"DATA_TYPE_MISMATCH"):
        frame.collect()


NS = pa.timestamp("ns")


@pytest.mark.parametrize(
    ("column", "target"),
    [
        (pa.array([[None, None], [], None], pa.list_(NS)), pa.list_(NS)),
        (pa.array([[None], [], None], pa.list_(pa.float16())), pa.list_(pa.float32())),
        (pa.array([[None], [], None], pa.list_(pa.int64())), pa.list_(pa.float64())),
        (pa.array([[None], [], None], pa.list_(pa.null())), pa.list_(pa.string())),
        (pa.array([[[None]], [], None, [None], [[]]], pa.list_(pa.list_(NS))), None),
        (pa.array([[{"x": None}], [None], None], pa.list_(pa.struct({"x": NS}))), None),
        (pa.array([{"x": None}, None], pa.struct({"x": NS})), None),
        (pa.array([[("a", [None])], [], None], pa.map_(pa.string(), pa.list_(NS))), None),
        (pa.array([None, None], pa.float16()), None),
    ],
)
def test_nothing_but_nulls_survives_a_cast(spark, write, column, target):
    """Spark's `transform` alone fails on lists whose elements are all null in a row group."""
    file = write("n.parquet", pa.table({"c": column}))
    groups = [FileGroup(pq.read_schema(file[0]), known_files([file]))]
    frame = read_files(spark, groups, pa.schema({"c": target or column.type}))
    want = [as_spark(each, column.type) for each in column.to_pylist()]
    assert [plain(each.c) for each in frame.collect()] == want


def test_filters_on_widened_columns_skip_no_row(spark, write):
    """Row groups are skipped by statistics in the file's type, with a value of the table's."""
    from pyspark.sql import DataFrame

    table = pa.table(
        {
            "i": pa.array([1, -(2**31), 2**31 - 1, None], pa.int32()),
            "f": pa.array([0.1, 1.5, -1.0, None], pa.float32()),
            "u": pa.array([1, 2**32 - 1, 5, None], pa.uint32()),
            "d": pa.array([DAY, dt.date(1960, 1, 1), None, None]),
            "m": pa.array([D("1.25"), D("-999.99"), None, None], pa.decimal128(5, 2)),
        }
    )
    target = pa.schema(
        {
            "i": pa.int64(),
            "f": pa.float64(),
            "u": pa.int64(),
            "d": pa.timestamp("us"),
            "m": pa.decimal128(20, 6),
        }
    )
    file = write("w.parquet", table, row_group_size=1)
    frame = read_files(spark, [FileGroup(table.schema, known_files([file]))], target)
    kept = spark.createDataFrame(frame.collect(), frame.schema)
    filters = [
        *("i > 3000000000", "i < 3000000000", "i = 4294967297", "i in (1, 4294967297)"),
        *("i != 4294967297", "i >= -3000000000", "i <=> null", "f > 0.1", "f = 1.5"),
        *("f < 0.10000001", "u = 4294967295", "u > 3000000000", "u < 0", "u = -1"),
        *("d = timestamp_ntz'2024-02-29'", "d < timestamp_ntz'1970-01-01'"),
        *("d > timestamp_ntz'2024-02-28 23:59:59'", "m = 1.25", "m < 0", "m > 1.2499999"),
    ]
    counted = [frame.where(text).selectExpr("count(*) n") for text in filters]
    got = [each.n for each in reduce(DataFrame.union, counted).collect()]
    [want] = kept.selectExpr(*(f"count_if({text})" for text in filters)).collect()
    assert dict(zip(filters, got, strict=True)) == dict(zip(filters, want, strict=True))


def test_pieces_of_the_type_tables_agree():
    for name, column in COLUMNS.items():
        if name != "null":
            assert spark_type(column.type, "c").simpleString()
            assert read_type(column.type, "c").simpleString()
    widths = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    assert all(is_direct(low, high) and not is_direct(high, low) for low, high in pairwise(widths))
