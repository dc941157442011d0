"""Datasets, frames and views of one cut: what they promise beside the rows."""

from __future__ import annotations

import datetime as dt
import pickle
import subprocess
import sys
from decimal import Decimal

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from lakelog.catalog.engines.duck import ViewsWarning
from lakelog.errors import (
    InvalidPredicate,
    MissingDependency,
    SchemaConflict,
    TableNotFound,
    UsageError,
)


def write(catalog, *tables, writer="w", **named):
    with catalog.writer(writer, "db") as own:
        for data in tables:
            named["t"] = data
            with own.transaction() as tx:
                for name, rows in named.items():
                    tx.write(name, pa.table(rows) if isinstance(rows, dict) else rows)
    return catalog.snapshot("db")


def test_every_public_method_of_a_pyarrow_dataset_is_ours(catalog):
    """pyarrow's own would read the file that stands in for ours."""
    dataset = write(catalog, {"a": [1, 2]}).dataset("t")
    theirs = {name for name in dir(ds.Dataset) if not name.startswith("_")}
    assert theirs - set(vars(type(dataset))) == {"partition_expression"}
    assert str(dataset.partition_expression) == "true"
    assert isinstance(dataset, ds.Dataset)
    assert repr(dataset) == "<lakelog table 't'>"


def test_what_goes_around_a_dataset_is_an_error_and_not_other_rows(catalog, tmp_path):
    dataset = write(catalog, {"a": [1, 2]}).dataset("t")
    plain = ds.InMemoryDataset(pa.table({"a": [1], "b": [5]}))
    around = [
        lambda: ds.Scanner.from_dataset(dataset).to_table(),
        lambda: ds.UnionDataset(dataset.schema, [dataset]).to_table(),
        lambda: ds.dataset([dataset]).count_rows(),
        lambda: plain.join(dataset, "a").to_table(),
        lambda: list(dataset.get_fragments()),
        lambda: dataset.files,
        lambda: dataset.replace_schema(dataset.schema),
    ]
    for work in around:
        with pytest.raises(UsageError, match="without its log"):
            work()
    with pytest.raises(TypeError, match="token"):
        pickle.dumps(dataset)
    ds.write_dataset(dataset, tmp_path / "out", format="parquet")
    assert ds.dataset(tmp_path / "out").to_table().to_pydict() == {"a": [1, 2]}


def test_a_dataset_projects_and_computes(catalog):
    dataset = write(catalog, {"a": [1, 2, 3], "b": ["x", "y", "z"]}).dataset("t")
    twice = {"twice": pc.field("a") * 2}
    wanted = {"twice": [4, 6]}
    assert dataset.to_table(twice, pc.field("b") > "x").to_pydict() == wanted
    assert dataset.scanner(twice, pc.field("b") > "x").to_table().to_pydict() == wanted
    assert (
        pa.Table.from_batches(dataset.to_batches(twice, pc.field("b") > "x")).to_pydict() == wanted
    )
    assert dataset.head(1, twice).to_pydict() == {"twice": [2]}
    assert dataset.take([2, 0], ["b"]).to_pydict() == {"b": ["z", "x"]}
    assert dataset.sort_by([("a", "descending")]).to_table()["a"].to_pylist() == [3, 2, 1]
    assert dataset.join(dataset, "a", right_suffix="_2").to_table().num_rows == 3
    assert [len(b) for b in dataset.to_batches(batch_size=2)] == [2, 1]
    with pytest.raises(UsageError, match="no column 'nope'"):
        dataset.to_table(["nope"])
    for wrong in (pc.field("nope") > 1, pc.field("b") > 1):
        with pytest.raises(InvalidPredicate):
            dataset.to_table(filter=wrong)


def test_drifted_files_are_mended_in_every_engine(catalog):
    snapshot = write(catalog, {"v": pa.array([1], pa.int32())}, {"v": [1.5], "new": ["x"]})
    wanted = [(1.0, None), (1.5, "x")]
    assert [tuple(r.values()) for r in snapshot.dataset("t").to_table().to_pylist()] == wanted
    assert snapshot.to_duckdb().sql("from t").fetchall() == wanted
    assert snapshot.to_polars("t").collect().rows() == wanted
    assert snapshot.to_pandas("t")["v"].tolist() == [1.0, 1.5]


def test_views_stay_at_their_cut(catalog):
    before = write(catalog, {"a": [1]})
    connection = before.to_duckdb()
    after = write(catalog, {"a": [2]})
    assert connection.sql("from t").fetchall() == [(1,)]
    assert after.to_duckdb(connection, schema="later") is connection
    assert connection.sql("select a from later.t except select a from t").fetchall() == [(2,)]
    after.to_duckdb(connection)
    assert sorted(connection.sql("from t").fetchall()) == [(1,), (2,)]


def test_views_leave_nothing_in_a_database_on_disk(catalog, tmp_path):
    snapshot = write(catalog, {"a": [1]})
    with duckdb.connect(str(tmp_path / "own.db")) as connection:
        snapshot.to_duckdb(connection)
        snapshot.to_duckdb(connection, schema="june")
        connection.execute("create table kept as select t.a from t join june.t u using (a)")
    with duckdb.connect(str(tmp_path / "own.db")) as connection:
        assert connection.sql("show tables").fetchall() == [("kept",)]
        assert connection.sql("from kept").fetchall() == [(1,)]


def test_views_replace_none_of_the_users_own_databases(catalog, tmp_path):
    snapshot = write(catalog, {"a": [1]})
    with duckdb.connect(str(tmp_path / "mine.db")) as connection:
        connection.execute("create view t as select 42 as a")
        for name in ("mine", "MINE", "main", ""):
            with pytest.raises(UsageError, match="can't be used"):
                snapshot.to_duckdb(connection, schema=name)
        assert connection.sql("from t").fetchall() == [(42,)]
    connection = duckdb.connect()
    with pytest.raises(UsageError, match="can't be used"):
        snapshot.to_duckdb(connection, schema="memory")
    for _ in range(2):  # views of its own it may replace
        snapshot.to_duckdb(connection, schema="june")
    assert connection.sql("from june.t").fetchall() == [(1,)]


def test_a_table_that_can_have_no_view_doesnt_stand_in_the_way_of_others(catalog):
    named = {"T": {"a": [0]}, 'q"q': {"a": [8]}, "conflict": {"x": [1]}, "x (lakelog)": {"a": [1]}}
    write(catalog, {"a": [1]}, **named)
    snapshot = write(catalog, {"a": [2]}, writer="v", conflict={"x": ["text"]})
    with pytest.warns(ViewsWarning) as told:
        connection = snapshot.to_duckdb()
    words = [str(each.message) for each in told]
    assert len(words) == 4
    assert any("conflict" in each and "int64" in each for each in words)
    assert [name for (name,) in connection.sql("show tables").fetchall()] == ['q"q']
    assert connection.sql('from "q""q"').fetchall() == [(8,)]
    with pytest.raises(SchemaConflict):
        snapshot.to_duckdb(tables=["conflict"])
    with pytest.raises(TableNotFound):
        snapshot.to_duckdb(tables=["nope"])
    assert sorted(snapshot.to_duckdb(tables=["t"]).sql("from t").fetchall()) == [(1,), (2,)]
    with pytest.raises(UsageError, match="case"):
        snapshot.to_duckdb(tables=["t", "T"])


@pytest.mark.parametrize("own", [True, False])
def test_no_variable_of_the_caller_answers_for_a_table_without_a_view(catalog, own):
    write(catalog, {"a": [1]}, conflict={"x": [1]})
    snapshot = write(catalog, {"a": [2]}, writer="v", conflict={"x": ["text"]})
    conflict = pa.table({"x": [777]})
    assert conflict.num_rows == 1
    connection = None if own else duckdb.connect()
    for _ in range(2):
        with pytest.warns(ViewsWarning, match="conflict"):
            found = snapshot.to_duckdb(connection)
        with pytest.raises(duckdb.Error, match="conflict"):
            found.sql("SELECT count(*) FROM conflict").fetchall()
    assert sorted(found.sql("FROM t").fetchall()) == [(1,), (2,)]
    if not own:  # a cut without the conflict has a view
        catalog.snapshot("db", {"w": 0}).to_duckdb(found)
        assert found.sql("FROM conflict").fetchall() == [(1,)]


@pytest.mark.parametrize("schema", [None, "june"])
def test_columns_that_differ_in_case_only_are_told_of(catalog, schema):
    rows = {"temp": [1, 2], "Temp": [-1, -2], "TEMP": [7, 8], "other": [5, 6]}
    snapshot = write(catalog, rows, plain={"a": [1], "B": [2]})
    with pytest.warns(ViewsWarning) as told:
        connection = snapshot.to_duckdb(schema=schema)
    (words,) = [str(each.message) for each in told]
    assert words.endswith("""In view 't' the column 'Temp' is "Temp_1", 'TEMP' is "TEMP_2\"""")
    view = "t" if schema is None else "june.t"
    found = connection.sql(f'select "Temp_1", "TEMP_2" from {view} where "Temp_1" = -2')
    assert found.fetchall() == [(-2, 8)]


def test_such_columns_beside_a_schema_of_the_same_name(catalog):
    connection = duckdb.connect()
    connection.execute("create schema june")
    snapshot = write(catalog, {"temp": [1], "Temp": [2]})
    with pytest.warns(ViewsWarning, match="Temp_1"):
        snapshot.to_duckdb(connection, schema="june")
    assert connection.sql('select "Temp_1" from june.main.t').fetchall() == [(2,)]


def test_half_floats_are_floats_to_duckdb(catalog):
    half = pa.array([1.5, None, float("nan"), 9.0], pa.float16())
    snapshot = write(catalog, {"h": half, "i": [1, 2, 3, 4]})
    connection = snapshot.to_duckdb()
    for words, wanted in (("h < 5", [1]), ("h > 5", [3, 4]), ("h = 9", [4]), ("i >= 3", [3, 4])):
        found = connection.sql(f"select i from t where {words}").fetchall()
        assert [i for (i,) in found] == wanted, words


def test_columns_whose_names_differ_in_case(catalog):
    connection = write(catalog, {"a": [1], "A": [2]}).to_duckdb()
    assert connection.sql("from t").fetchall() == [(1, 2)]
    assert connection.sql("select A_1 from t where A_1 = 2").fetchall() == [(2,)]


def test_a_filter_of_polars_that_cannot_be_passed_on_is_named(catalog, monkeypatch):
    """Polars filters, so the rows are right; that every file is read is no secret."""
    import polars as pl
    from lakelog.catalog.engines import polars as module

    frame = write(catalog, {"a": [1, 2, 3]}).to_polars("t").filter(pl.col("a") > 1)
    monkeypatch.setattr(module, "_has_zones", lambda *_: 1 / 0)
    with pytest.warns(RuntimeWarning, match=r"ZeroDivisionError.*nothing is skipped"):
        assert frame.collect().rows() == [(2,), (3,)]


def test_pandas_gets_every_value_as_it_is(catalog):
    big = 2**53 + 1
    data = {"n": [big, None], "u": pa.array([None, 2**64 - 1], pa.uint64()), "b": [None, True]}
    frame = write(catalog, {**data, "i": [1, 2], "s": ["x", None]}).to_pandas("t")
    assert list(frame.columns) == ["n", "u", "b", "i", "s"]
    assert frame["n"][0] == big
    assert frame["u"][1] == 2**64 - 1
    assert frame["n"].isna().tolist() == [False, True]
    assert [str(kind) for kind in frame.dtypes[:4]] == ["Int64", "UInt64", "boolean", "int64"]
    snapshot = catalog.snapshot("db")
    assert snapshot.to_pandas("t", ["b", "n"], where="n is null")["b"].tolist() == [True]
    assert snapshot.to_pandas("t", ["n"]).shape == (2, 1)
    assert isinstance(frame, pd.DataFrame)


SCRIPT = """
import sys
sys.modules[{name!r}] = None
import lakelog
from lakelog.errors import MissingDependency
snapshot = lakelog.open_catalog({url!r}).snapshot("db")
try:
    snapshot.{call}
except MissingDependency as error:
    print(error)
print(snapshot.to_arrow("t").num_rows)
"""


NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize("zone", ["Z", "UTC", "+05:30", "-0300", "Europe/Oslo"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_zones_that_are_no_names_give_the_same_instants(catalog, zone, unit):
    kind = pa.timestamp(unit, zone)
    data = {
        "at": pa.array([NOON, None], kind),
        "list": pa.array([[NOON], None], pa.list_(kind)),
        "struct": pa.array([{"a": NOON}, None], pa.struct([("a", kind)])),
        "map": pa.array([[("a", NOON)], None], pa.map_(pa.string(), kind)),
    }
    snapshot = write(catalog, data)
    assert snapshot.to_pandas("t")["at"][0] == NOON
    frame = snapshot.to_polars("t")
    first = frame.collect().rows()[0]
    assert first[:3] == (NOON, [NOON], {"a": NOON})
    assert first[3] in ({"a": NOON}, [{"key": "a", "value": NOON}])
    literal = pl.lit(NOON).cast(frame.collect_schema()["at"])
    assert frame.filter(pl.col("at") == literal).collect().height == 1
    assert frame.filter(pl.col("at") > literal).collect().height == 0


BEYOND = {
    "year": (pa.array([4_890_000], pa.date32()), "to_pandas"),
    "before": (pa.array([-719_529], pa.date32()), "to_pandas"),
    "fine": (pa.array([1], pa.time64("ns")), "to_pandas"),
    "inside": (pa.array([{"a": 1 << 60}], pa.struct([("a", pa.timestamp("us"))])), "to_pandas"),
    "long": (pa.array([Decimal(1)], pa.decimal256(76, 2)), "to_polars"),
    "longs": (pa.array([[Decimal(1)]], pa.list_(pa.decimal256(40, 2))), "to_polars"),
}


@pytest.mark.parametrize("name", BEYOND)
def test_an_engine_that_lacks_a_value_names_the_column(catalog, name):
    column, engine = BEYOND[name]
    snapshot = write(catalog, {"id": [1], name: column, "text": ["x"]})
    with pytest.raises(UsageError, match=f"can't hold column '{name}'") as refused:
        getattr(snapshot, engine)("t")
    assert refused.value.key == name
    assert "to_arrow" in (refused.value.hint or "")
    if engine == "to_pandas":
        assert snapshot.to_pandas("t", ["id", "text"]).to_dict("list") == {"id": [1], "text": ["x"]}


@pytest.mark.parametrize(
    ("name", "call"),
    [("duckdb", "to_duckdb()"), ("polars", "to_polars('t')"), ("pandas", "to_pandas('t')")],
)
def test_what_is_not_installed_is_named(catalog, tmp_path, name, call):
    write(catalog, {"a": [1]})
    script = SCRIPT.format(name=name, url=str(tmp_path), call=call)
    run = [sys.executable, "-c", script]
    out = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert f"pip install 'lakelog[{name}]'" in out
    assert out.endswith("1\n")
    assert issubclass(MissingDependency, UsageError)
