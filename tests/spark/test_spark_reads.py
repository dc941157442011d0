"""`lakelog.spark.read` hands the resolved list with the sizes to Spark's own reader, and
`format("lakelog")` serves local paths and S3: both give the same rows as `scan`, at any point in
time, with files whose schemas differ.
"""

from __future__ import annotations

import datetime as dt
import json
import pickle
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lakelog
import lakelog.spark
import pyarrow as pa
import pytest
from lakelog.cli.commands.demo import commit_year
from lakelog.errors import DatabaseNotFound, SparkUnsupported, UsageError
from lakelog.spark.access import Access, S3Settings
from lakelog.spark.arrow_types import spark_schema
from lakelog.spark.read import native
from lakelog.spark.selection import selection
from lakelog.spark.source import LakelogReader
from lakelog.spark.source_options import SourceAccess, json_text

if TYPE_CHECKING:
    from lakelog.testing.servers import S3Server

POINTS = {
    "now": None,
    "time": dt.datetime(2013, 7, 1, 1, tzinfo=dt.UTC),
    "before the correction": dt.datetime(2013, 7, 15, tzinfo=dt.UTC),
    "token": "token",
    "revisions": {"EWR": 2, "JFK": 3},
}
# One column more, in another order, and int32 beside int64.
MIXED = [
    pa.table({"id": pa.array([1, 2], pa.int32()), "temp": [4.0, None]}),
    pa.table({"temp": [5.0], "wind": ["N"], "id": pa.array([2**40], pa.int64())}),
    pa.table({"id": pa.array([3], pa.int16())}),
]


@dataclass(frozen=True)
class Lake:
    """A catalog with the demo's year and a database of files that differ in schema."""

    url: str
    options: dict[str, Any] | None = None

    def open(self) -> lakelog.Catalog:
        return lakelog.open_catalog(self.url, self.options)

    def by_read(self, spark: Any, database: str, table: str, as_of: Any = None) -> pa.Table:
        frame = lakelog.spark.read(
            spark, self.url, database, table, as_of, storage_options=self.options
        )
        return frame.toArrow()

    def by_format(self, spark: Any, database: str, table: str, as_of: str | None) -> pa.Table:
        lakelog.spark.register(spark)
        reader = spark.read.format("lakelog").option("database", database).option("table", table)
        reader = reader.option("native", "false")
        if self.options:
            reader = reader.option("storageOptions", json.dumps(self.options))
        if as_of:
            reader = reader.option("asOf", as_of)
        return reader.load(self.url).toArrow()


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Lake:
    folder = tmp_path_factory.mktemp("lake")
    for _ in commit_year(str(folder)):
        pass
    with lakelog.open_catalog(str(folder)).writer("w", "mixed") as writer:
        for table in MIXED:
            with writer.transaction() as transaction:
                transaction.write("t", table)
    return Lake(str(folder))


@pytest.fixture(scope="module")
def on_s3(local, moto) -> Lake:
    """The same objects, copied: nothing in them says where they lie."""
    import s3fs

    bucket = moto.make_bucket()
    options = moto.storage_options
    s3fs.S3FileSystem(**options).put(f"{local.url}/", f"{bucket}/lake/", recursive=True)
    return Lake(f"s3://{bucket}/lake", options)


@pytest.fixture(params=["local", pytest.param("on_s3", marks=pytest.mark.s3)])
def lake(request) -> Lake:
    return request.getfixturevalue(request.param)


def ordered(table: pa.Table, *by: str) -> pa.Table:
    return table.combine_chunks().sort_by([(name, "ascending") for name in by])


def test_the_rows_of_scan_at_points_in_time(spark, lake):
    catalog = lake.open()
    counts = set()
    for name, point in POINTS.items():
        as_of = catalog.snapshot("weather", POINTS["time"]).token if name == "token" else point
        snapshot = catalog.snapshot("weather", as_of)
        want = ordered(snapshot.scan("hourly").read_all(), "origin", "time_hour")
        counts.add(want.num_rows)
        got = lake.by_read(spark, "weather", "hourly", as_of)
        assert ordered(got, "origin", "time_hour").equals(want), name
        text = as_of.isoformat() if isinstance(as_of, dt.datetime) else as_of
        text = snapshot.token if isinstance(as_of, dict) else text
        if lake.options is None and name in ("time", "token", "revisions"):
            # On S3 `read` goes by it anyway.
            got = lake.by_format(spark, "weather", "hourly", text)
            assert ordered(got, "origin", "time_hour").equals(want), name
    assert 26_115 in counts
    assert len(counts) >= 3


def test_the_correction_is_seen_from_its_day_on(spark, local):
    found = [
        lakelog.spark.read(spark, local.url, "weather", "hourly", at, where="temp = 13.1").count()
        for at in (POINTS["before the correction"], None)
    ]
    assert found == [1, 0]


def test_files_whose_schemas_differ(spark, lake):
    want = ordered(lake.open().snapshot("mixed").scan("t").read_all(), "id")
    assert want.to_pylist() == [
        {"id": 1, "temp": 4.0, "wind": None},
        {"id": 2, "temp": None, "wind": None},
        {"id": 3, "temp": None, "wind": None},
        {"id": 2**40, "temp": 5.0, "wind": "N"},
    ]
    assert ordered(lake.by_read(spark, "mixed", "t"), "id").equals(want)
    assert ordered(lake.by_format(spark, "mixed", "t", None), "id").equals(want)


def test_planning_makes_no_request_for_a_file(spark, local, tmp_path):
    """With all data files gone, only the run fails: planning has asked for none of them."""
    folder = tmp_path / "lake"
    shutil.copytree(local.url, folder)
    for data in folder.glob("*/*/data"):
        shutil.rmtree(data)
    frame = lakelog.spark.read(spark, str(folder), "weather", "hourly", where="temp > 50")
    plan = frame.select("temp")._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<temp:double>" in plan
    assert "GreaterThan(temp,50.0)" in plan
    assert len(frame.inputFiles()) == 35, "one month was nowhere so warm at one airport"
    with pytest.raises(
        Exception,
        match=r"ObjectNotFound: .* is gone\. The query reads table 'hourly' of 'weather' at EWR=11",
    ):
        frame.count()


def test_a_frame_keeps_its_cut(spark, tmp_path):
    url = str(tmp_path / "lake")
    with lakelog.open_catalog(url).writer("w", "db") as writer:
        with writer.transaction() as transaction:
            transaction.write("t", pa.table({"a": [1]}))
        options = {"database": "db", "table": "t"}
        frames = [
            lakelog.spark.read(spark, url, "db", "t"),
            *(
                spark.read.format("lakelog").options(**options, native=native).load(url)
                for native in ("true", "false")
            ),
        ]
        with writer.transaction() as transaction:
            transaction.write("t", pa.table({"a": [2]}))
    assert [frame.count() for frame in frames] == [1, 1, 1]
    assert lakelog.spark.read(spark, url, "db", "t").count() == 2


def test_the_reader_that_travels_to_tasks_has_no_files_in_it(tmp_path):
    url = str(tmp_path / "lake")
    catalog = lakelog.open_catalog(url)
    sizes = []
    with catalog.writer("w", "db") as writer:
        for count in (1, 200):
            with writer.transaction() as transaction:
                for at in range(count):
                    transaction.write("t", pa.table({"a": [at]}))
            snapshot = catalog.snapshot("db")
            schema = spark_schema(snapshot.schema("t"))
            reader = LakelogReader(selection(snapshot, "t"), schema, SourceAccess(url, "{}", "{}"))
            pickled = pickle.dumps(reader)
            sizes.append(len(pickled))
    assert abs(sizes[1] - sizes[0]) < 32
    copy = pickle.loads(pickled)
    rows = [batch.num_rows for share in copy.partitions() for batch in copy.read(share)]
    assert sum(rows) == 201
    shares = reader.partitions()
    assert [len(share.files) for share in shares] == [201]
    assert [len(share.schemas) for share in shares] == [1]


# --- What goes wrong reaches the user in lakelog's words ------------------------------------------


@pytest.mark.slow("of each error a Python process dies, and Spark starts another for the next one")
def test_errors_when_loading(spark, local):
    lakelog.spark.register(spark)
    good = {"database": "weather", "table": "hourly"}
    for options, text in [
        ({"database": "wether", "table": "hourly"}, "DatabaseNotFound: .*has no database 'wether'"),
        ({"database": "weather", "table": "hurly"}, "no table 'hurly'"),
        ({"database": "weather"}, "UsageError: .*needs the option 'table'"),
        (good | {"asOf": "yesterday"}, "UsageError: 'yesterday' is no point in time"),
        (good | {"asOf": "2013-07-01"}, "NaiveTime: .*has no time zone"),
        (good | {"as_of": "yesterday"}, "UsageError: 'yesterday' is no point in time"),
        (good | {"asOf": ""}, "UsageError: '' is no point in time"),
        (good | {"asOf": "ll1-x", "as_of": "ll1-y"}, "UsageError: .*different points in time"),
        (good | {"as-of": "x"}, "UsageError: .*no option 'as-of'.*asOf"),
        (good | {"storage_options": "{}"}, "UsageError: .*no option 'storage_options'"),
        (good | {"asOf": "1999-01-01T00:00:00Z"}, "TimeBeforeFirstCommit"),
        (good | {"native": "no"}, "UsageError: The option native is 'no'"),
    ]:
        with pytest.raises(Exception, match=text):
            spark.read.format("lakelog").options(**options).load(local.url)
    with pytest.raises(Exception, match=r"UsageError: .*the catalog's URL goes to load"):
        spark.read.format("lakelog").options(**good).load()
    with pytest.raises(Exception, match=r"UsageError: .*has no column 'nope'.*It has: origin"):
        spark.read.format("lakelog").options(**good).schema("nope int").load(local.url).count()
    with pytest.raises(
        DatabaseNotFound,
        match=r"has no database 'wether'\. Did you mean 'weather'\? It has: mixed, weather",
    ):
        lakelog.spark.read(spark, local.url, "wether", "hourly")


def test_errors_of_tasks(spark, local, tmp_path):
    lakelog.spark.register(spark)
    folder = tmp_path / "lake"
    shutil.copytree(local.url, folder)
    gone, broken = sorted((folder / "w" / "mixed" / "data").rglob("*.parquet"))[:2]
    reader = spark.read.format("lakelog").option("database", "mixed").option("table", "t")
    reader = reader.option("native", "false")
    body = broken.read_bytes()
    broken.write_bytes(bytes(len(body)))
    with pytest.raises(Exception, match=f"CorruptObject: .*{broken.name}"):
        reader.load(str(folder)).collect()
    broken.write_bytes(body)
    gone.unlink()
    with pytest.raises(Exception, match=f"ObjectNotFound: .*{gone.name}.*The data file is gone"):
        reader.load(str(folder)).collect()


# --- Secrets --------------------------------------------------------------------------------------


@pytest.fixture
def canary(moto: S3Server) -> str:
    assert len(moto.secret_key) > 10
    return moto.secret_key


@pytest.mark.s3
def test_storage_options_are_in_no_plan(spark, on_s3, canary, settings):
    name = "spark.sql.redaction.options.regex"
    settings(name, "(?i)mine")
    lakelog.spark.register(spark)
    assert spark.conf.get(name).startswith("(?i)mine|")
    spark.conf.unset(name)  # Spark's own value hides URLs
    lakelog.spark.register(spark)
    assert spark.conf.get("spark.sql.redaction.options.regex").startswith("(?i)url|")
    frame = lakelog.spark.read(
        spark, on_s3.url, "mixed", "t", where="id > 1", storage_options=on_s3.options
    )
    assert "lakelog" in _explained(frame)
    assert canary not in _explained(frame) + repr(frame)
    view = f"""CREATE TEMPORARY VIEW secretive USING lakelog OPTIONS (path '{on_s3.url}',
        database 'mixed', `table` 't', storageOptions '{json.dumps(on_s3.options)}')"""
    explained = spark.sql(f"EXPLAIN EXTENDED {view}").collect()[0][0]
    assert "secretive" in explained
    assert canary not in explained
    spark.sql(view)
    assert canary not in _explained(spark.table("secretive"))
    assert spark.table("secretive").count() == 4


def test_settings_of_a_store_are_in_no_plan(spark, local, canary, monkeypatch):
    catalog = local.open()
    settings = S3Settings([("s3://b", {"key": canary, "secret": canary})])
    monkeypatch.setattr(Access, "settings", lambda self, elsewhere: settings)
    asked = selection(catalog.snapshot("mixed"), "t")
    frame = native(spark, Access(catalog), asked, asked.file_list())
    assert "FileScan parquet" in _explained(frame)
    assert canary not in _explained(frame) + repr(frame)
    assert frame.count() == catalog.snapshot("mixed").scan("t").read_all().num_rows
    again = native(spark, Access(catalog), asked, asked.file_list())
    assert frame.sameSemantics(again)
    settings = S3Settings([("s3://b", {"key": "other", "secret": canary})])
    other = native(spark, Access(catalog), asked, asked.file_list())
    assert not frame.sameSemantics(other), "what is cached of one store is no other's"
    monkeypatch.setenv("LAKELOG_SPARK_FILE_INDEX", "off")
    with pytest.raises(SparkUnsupported, match="credentials"):
        native(spark, Access(catalog), asked, asked.file_list())


def _explained(frame: Any) -> str:
    """All that `explain(True)`, the UI and the event log show."""
    execution = frame._jdf.queryExecution()
    parts = [execution.toString(), execution.logical().toJSON(), execution.analyzed().toJSON()]
    return "\n".join([*parts, execution.executedPlan().treeString()])


@pytest.mark.s3
def test_storage_options_are_in_no_error(spark, on_s3, canary):
    lakelog.spark.register(spark)
    reader = spark.read.format("lakelog").option("database", "nope").option("table", "t")
    for text in (json.dumps(on_s3.options), f'{{"key": "{canary}', f'["{canary}"]'):
        with pytest.raises(Exception, match=r"DatabaseNotFound|is no JSON object") as caught:
            reader.option("storageOptions", text).load(on_s3.url)
        assert canary not in str(caught.value) + repr(caught.value)
    access = SourceAccess(on_s3.url, json.dumps(on_s3.options), "{}")
    asked = selection(on_s3.open().snapshot("mixed"), "t")
    assert canary not in repr(access)
    assert canary not in repr(LakelogReader(asked, _ids(), access))
    odd = {**on_s3.options, "session": object(), "more": {canary: {canary}}}
    with pytest.raises(UsageError, match="isn't JSON") as failed:
        json_text(odd)
    assert canary not in str(failed.value)


def _ids() -> Any:
    return spark_schema(pa.schema({"id": pa.int64()}))
