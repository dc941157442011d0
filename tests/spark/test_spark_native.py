"""One DataFrame over files of different schemas, by the file index and by paths alike."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.errors import InvalidPath, InvalidSchema, SparkUnsupported
from lakelog.spark import file_index, native
from lakelog.spark.file_groups import FileGroup
from lakelog.spark.native import _ColumnPlan, _without_clashes, read_files
from lakelog.testing.known_files import known_files
from pyspark.sql.types import LongType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TARGET = pa.schema({"id": pa.int64(), "name": pa.string(), "value": pa.float64()})


@pytest.fixture(params=["file index", "paths"])
def way(request, monkeypatch) -> str:
    """Both roads must give the same rows."""
    if request.param == "paths":
        monkeypatch.setenv(native.FILE_INDEX_SWITCH, "off")
    return request.param


def group(*files: Any, **more: Any) -> FileGroup:
    return FileGroup(pq.read_schema(files[0][0]), known_files(files), **more)


def tuples(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(each) for each in frame.collect()), key=repr)


def plan_text(frame: DataFrame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


@pytest.fixture
def files(write) -> dict[str, Any]:
    """Files as writers make them over the years."""
    return {
        "full": write(
            "full.parquet",
            pa.table({"id": [1, 2], "name": ["a", "b"], "value": [0.5, 1.5]}),
        ),
        "narrow": write(
            "narrow.parquet",
            pa.table({"value": pa.array([2.5], pa.float32()), "id": pa.array([3], pa.int32())}),
        ),
        "integers": write(
            "integers.parquet",
            pa.table({"id": [4], "name": ["d"], "value": pa.array([7], pa.int64())}),
        ),
        "more": write("more.parquet", pa.table({"extra": [1], "name": ["e"], "id": [5]})),
    }


ALL_ROWS = [
    (1, "a", 0.5),
    (2, "b", 1.5),
    (3, None, 2.5),
    (4, "d", 7.0),
    (5, "e", None),
]


def test_schemas_are_united(spark, files, way):
    frame = read_files(spark, [group(each) for each in files.values()], TARGET)
    assert frame.columns == ["id", "name", "value"]
    assert [each.dataType.simpleString() for each in frame.schema] == ["bigint", "string", "double"]
    assert tuples(frame) == ALL_ROWS
    assert frame.count() == 5
    assert frame.where("value > 2").count() == 2
    assert frame.where("name is null").count() == 1
    assert frame.selectExpr("sum(id)").collect()[0][0] == 15


def test_what_the_reader_resolves_goes_into_one_relation(spark, files):
    frame = read_files(spark, [group(files[name]) for name in ("full", "narrow", "more")], TARGET)
    assert plan_text(frame).count("FileScan parquet") == 1
    assert "Union" not in plan_text(frame)
    everything = read_files(spark, [group(each) for each in files.values()], TARGET)
    assert plan_text(everything).count("FileScan parquet") == 2


def test_filters_and_columns_reach_every_branch(spark, files):
    frame = read_files(spark, [group(each) for each in files.values()], TARGET)
    text = plan_text(frame.where("id = 4").select("id"))
    assert text.count("PushedFilters: [IsNotNull(id), EqualTo(id,4)]") == 2
    assert text.count("ReadSchema: struct<id:bigint>") == 2


def test_no_files_give_an_empty_frame_of_the_target(spark, way):
    target = pa.schema({**{each.name: each.type for each in TARGET}, "nothing": pa.null()})
    for groups in ([], [FileGroup(TARGET, known_files([]))]):
        frame = read_files(spark, groups, target)
        assert frame.columns == ["id", "name", "value", "nothing"]
        assert frame.schema["id"].dataType.simpleString() == "bigint"
        assert frame.collect() == []


def test_columns_of_the_target_alone_are_read(spark, files, way):
    frame = read_files(
        spark, [group(each) for each in files.values()], pa.schema({"name": pa.string()})
    )
    assert tuples(frame) == sorted(((each[1],) for each in ALL_ROWS), key=repr)


def test_files_without_any_of_the_columns_still_have_their_rows(spark, files, way):
    target = pa.schema({"new": pa.string(), "void": pa.null()})
    frame = read_files(spark, [group(each) for each in files.values()], target)
    assert tuples(frame) == [(None, None)] * 5


def test_a_hidden_column_is_not_read_under_its_old_meaning(spark, write, way):
    dropped = write("1.parquet", pa.table({"id": [1], "b": ["of old"]}))
    added_again = write("2.parquet", pa.table({"id": [2], "b": ["new"]}))
    target = pa.schema({"id": pa.int64(), "b": pa.string()})
    groups = [group(dropped, hidden=frozenset({"b"})), group(added_again)]
    frame = read_files(spark, groups, target)
    assert tuples(frame) == [(1, None), (2, "new")]
    assert frame.where("b = 'of old'").count() == 0
    assert frame.where("b is null").count() == 1


def test_names_that_differ_in_case_only(spark, write, way, settings):
    both = write("both.parquet", pa.table({"id": [1], "ID": [2]}))
    upper = write("upper.parquet", pa.table({"ID": [3]}))
    lower = write("lower.parquet", pa.table({"id": [4]}))
    target = pa.schema({"id": pa.int64()})
    with pytest.raises(InvalidSchema, match="caseSensitive=true"):
        read_files(spark, [group(both)], pa.schema({"id": pa.int64(), "ID": pa.int64()}))
    with pytest.raises(InvalidSchema, match="caseSensitive=true"):
        read_files(spark, [group(both)], target)
    # Spark alone would take `ID` for `id`. To lakelog they are two columns.
    assert tuples(read_files(spark, [group(upper), group(lower)], target)) == [(4,), (None,)]
    settings("spark.sql.caseSensitive", True)
    frame = read_files(
        spark,
        [group(both), group(upper), group(lower)],
        pa.schema({"id": pa.int64(), "ID": pa.int64()}),
    )
    assert tuples(frame) == [(1, 2), (4, None), (None, 3)]


def test_nested_names_that_differ_in_case_only(spark, write, way):
    upper = write("upper.parquet", pa.table({"s": [{"X": 1, "y": 1}]}))
    lower = write("lower.parquet", pa.table({"s": [{"x": 2, "y": 2}]}))
    target = pa.schema({"s": pa.struct({"x": pa.int64(), "y": pa.int64()})})
    frame = read_files(spark, [group(upper), group(lower)], target)
    assert tuples(frame.select("s.x", "s.y")) == [(2, 2), (None, 1)]
    with pytest.raises(InvalidSchema, match=r"'s\.x' and 's\.X'"):
        read_files(spark, [], pa.schema({"s": pa.struct({"x": pa.int64(), "X": pa.int64()})}))


@pytest.mark.parametrize(
    "name", ["a b", "a.b", "a,b;c{d}(e)", "tick`tick", "ünïcödé", "=", "日本", "1"]
)
def test_column_names_as_they_come(spark, write, way, name):
    plain = write("1.parquet", pa.table({name: [1]}))
    cast = write("2.parquet", pa.table({name: pa.array([2.5], pa.float16())}))
    frame = read_files(spark, [group(plain)], pa.schema({name: pa.int64()}))
    assert tuples(frame) == [(1,)]
    frame = read_files(spark, [group(cast)], pa.schema({name: pa.float64()}))
    assert frame.columns == [name]
    assert tuples(frame) == [(2.5,)]


@pytest.mark.parametrize(
    "name",
    [
        "a b%20c.parquet",
        "x[0-9]{a,b}*?.parquet",
        "back\\slash\\[.parquet",
        "ünï/日本.parquet",
        "day=2024-01-01/hour=1/t.parquet",
    ],
)
def test_raw_paths_both_ways(spark, write, way, name):
    files = [write(name, pa.table({"id": [1, 2]})), write(f"day=7/{name}", pa.table({"id": [3]}))]
    frame = read_files(spark, [group(*files)], pa.schema({"id": pa.int64()}))
    assert frame.columns == ["id"]
    assert tuples(frame) == [(1,), (2,), (3,)]


def test_a_column_named_as_a_folder_keeps_the_values_of_the_file(spark, write, way):
    file = write("day=2024-01-01/t/x.parquet", pa.table({"day": ["of the file"]}))
    other = write("day=2024-01-02/t/x.parquet", pa.table({"day": ["of the other"]}))
    frame = read_files(spark, [group(file, other)], pa.schema({"day": pa.string()}))
    assert tuples(frame) == [("of the file",), ("of the other",)]


def test_paths_that_spark_would_leave_out_are_refused(spark, write, no_file_index):
    for name in ("_x.parquet", ".x.parquet"):
        file = write(name, pa.table({"id": [1]}))
        with pytest.raises(InvalidPath, match="leaves out files"):
            read_files(spark, [group(file)], pa.schema({"id": pa.int64()}))


def test_one_warning_when_the_file_index_is_out_of_reach(spark, files, monkeypatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise SparkUnsupported("no index today")

    monkeypatch.setattr(file_index, "relation", refuse)
    monkeypatch.setattr(native, "_warned", set())
    listing = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    before = spark.conf.get(listing)
    groups = [group(each) for each in files.values()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = read_files(spark, groups, TARGET).union(read_files(spark, groups, TARGET).limit(0))
    assert [str(each.message)[:14] for each in caught] == ["no index today"]
    assert tuples(frame) == ALL_ROWS
    assert spark.conf.get(listing) == before


def test_no_warning_on_the_good_road(spark, files):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_files(spark, [group(files["full"])], TARGET).count() == 2


def test_twenty_groups_in_one_query(spark, write):
    """Each file needs another column cast."""
    groups = [
        group(write(f"{at}.parquet", pa.table({f"c{at}": pa.array([at], pa.int64())})))
        for at in range(20)
    ]
    target = pa.schema({f"c{at}": pa.float64() for at in range(20)})
    frame = read_files(spark, groups, target)
    assert frame.count() == 20
    assert plan_text(frame).count("FileScan parquet") == 20


def test_frames_join_cache_and_write_like_any_other(spark, files, tmp_path):
    frame = read_files(spark, [group(each) for each in files.values()], TARGET)
    assert frame.join(frame.selectExpr("id", "id * 2 twice"), "id").count() == 5
    frame.cache()
    try:
        assert tuples(frame) == ALL_ROWS == tuples(frame)
    finally:
        frame.unpersist()
    frame.write.parquet(str(tmp_path / "out"))
    assert tuples(spark.read.parquet(str(tmp_path / "out"))) == ALL_ROWS


def test_names_of_told_columns_are_all_different():
    """One gives way to a column that is read, and not to the name of another that is told."""
    plan = [
        _ColumnPlan("x", LongType(), by_index=True),
        _ColumnPlan("x_", LongType(), by_index=True),
        _ColumnPlan("y", LongType(), stored="x"),
    ]
    found = list(_without_clashes(plan))
    assert [each.stored or each.name for each in found] == ["x__", "x_", "x"]
