"""By which columns rows are partitioned that SQL inserts."""

from __future__ import annotations

import lakelog
import pyarrow as pa
import pytest
from lakelog.spark.sql_catalog import insert_partitions

DAYS = pa.table({"day": ["mon", "tue"], "shop": [1, 2], "sold": [1.0, 2.0]})


@pytest.fixture
def catalog(tmp_path):
    return lakelog.open_catalog(str(tmp_path))


def write(catalog, writer="till", **options):
    with catalog.writer(writer, "db") as opened, opened.transaction() as tx:
        return tx.write("sales", DAYS, **options)


def columns(catalog, schema=DAYS.schema):
    return insert_partitions(catalog, "db", "sales", "sql", schema)


def test_those_of_the_newest_named_partition(catalog):
    assert columns(catalog) == []
    write(catalog)
    assert columns(catalog) == []
    first = write(catalog, partition_by=["day"])
    write(catalog)  # without a name, as UPDATE and MERGE write
    assert columns(catalog) == ["day"]
    write(catalog, "kiosk", partition_by=["shop", "day"])
    assert columns(catalog) == ["shop", "day"]
    write(catalog, partition_by=["day", "shop"])
    assert columns(catalog) == ["day", "shop"]
    with catalog.writer("till", "db") as opened, opened.transaction() as tx:
        tx.rewrite("sales", first)
    assert columns(catalog) == ["day", "shop"]  # what is only written anew is none the newer


def test_its_own_come_before_those_of_others(catalog):
    write(catalog, "sql")
    write(catalog, partition_by=["day"])
    assert columns(catalog) == ["day"]
    write(catalog, "sql", partition_by=["shop"])
    write(catalog, partition_by=["day"])
    assert columns(catalog) == ["shop"]
    catalog.remove("db", "sales", writer="sql", partition="shop=1", execute=True)
    assert columns(catalog) == ["shop"]
    catalog.remove("db", "sales", writer="sql", partition="shop=2", execute=True)
    assert columns(catalog) == ["day"]


@pytest.mark.parametrize(
    "name", ["2026-11-20", "day=mon/rest", "other=1", "day=mon/other=1", "sold=1.0", "day=1/day=2"]
)
def test_names_that_tell_of_no_columns_or_of_such_as_make_no_names(catalog, name):
    write(catalog, partition_by=["day"])
    write(catalog, partition=name)
    assert columns(catalog) == []


def test_columns_that_do_not_come(catalog):
    write(catalog, partition_by=["day"])
    assert columns(catalog, DAYS.schema.remove(0)) == []
    assert columns(catalog, pa.schema([("day", pa.list_(pa.string()))])) == []


def test_another_table_and_another_database(catalog):
    write(catalog, partition_by=["day"])
    for database, table in (("db", "others"), ("db2", "sales")):
        assert insert_partitions(catalog, database, table, "sql", DAYS.schema) == []
