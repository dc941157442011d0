"""DELETE of Spark's SQL on a lake: rows as plain Spark would leave them, by a commit in each log
that holds some; and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from own_files import add_own

sys.path.append(str(Path(__file__).parent))

from changed_lake import (
    ZONE,
    commits,
    copy_of,
    operations,
    read_by_all,
    rows_from,
    rows_of,
    sorted_rows,
    two_writers,
)
from lakelog.spark import sql_catalog, sql_changes
from sample import sampled


@pytest.fixture
def lake(spark, tmp_path, settings):
    settings("spark.sql.session.timeZone", ZONE)
    with two_writers(spark, tmp_path) as catalog:
        yield catalog


# --- DELETE ---------------------------------------------------------------------------------------

CONDITIONS = [
    "id = 5",
    "id IN (1, 2, 33, 99) OR place = 'rome' AND id < 25",
    "site <> 2",
    "NOT (site = 1)",
    "site NOT IN (1, 2, CAST(NULL AS INT))",
    "site NOT IN (1, 2)",
    "site <=> NULL",
    "NOT (site <=> 3)",
    "temp > 1",  # NaN is
    "temp = 0.0",  # and so is -0.0
    "temp IN (0.0, 1.5)",
    "temp = double('NaN')",
    "isnan(temp)",
    "seen < '2026-03-08 03:00:00'",  # as the session's zone has it
    "seen >= TIMESTAMP '2026-03-08 01:50:00' AND note IS NULL",
    "note LIKE 'Note 1%'",
    "note LIKE '%9'",
    "note LIKE 'note%'",
    "upper(note) = 'NOTE 5'",
    "id % 3 = 0",
    "site = temp",
    "CAST(id AS STRING) = '7'",
    "id > 6.5 AND id < CAST(8.5 AS DOUBLE)",
    "id IN (SELECT id + 1 FROM lake.db.t WHERE place = 'oslo' AND site = 4)",
    "id > (SELECT avg(id) FROM lake.db.t)",
    "EXISTS (SELECT * FROM lake.db.t AS o WHERE o.id = t.id + 20 AND o.site = t.site)",
    "true",
    "false",
]


@pytest.mark.slow("each condition is deleted by and read again by three engines")
@pytest.mark.parametrize("condition", sampled("sql delete", CONDITIONS, 8))
def test_delete_takes_the_rows_that_select_finds(spark, lake, tmp_path, condition):
    plain = copy_of(spark, lake, tmp_path)
    asked = condition.replace("lake.db.t", plain)
    matched = spark.sql(f"SELECT id FROM {plain} AS t WHERE {asked}")
    wanted = rows_of(spark.table(plain).join(matched, "id", "left_anti"))
    before = commits(lake)
    spark.sql(f"DELETE FROM lake.db.t AS t WHERE {condition}")
    assert read_by_all(spark, lake) == wanted
    after = commits(lake)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed <= {"oslo", "rome"}, "each log deletes its own rows"
    assert all(after[name] == before[name] + 1 for name in changed)


def test_delete_says_what_it_took(spark, lake):
    spark.sql("DELETE FROM lake.db.t WHERE site = 1")
    for _ in range(2):
        assert [operations(lake, name) for name in ("oslo", "rome")] == [
            ["append", "append", "delete"]
        ] * 2
        spark.sql("DELETE FROM lake.db.t WHERE site > 100")  # no file may hold such rows


def test_a_table_of_this_writer_alone_is_deleted_from_as_by_hand(spark, lake):
    spark.sql("CREATE TABLE lake.db.own AS SELECT id, id % 2 AS odd FROM range(10)")
    spark.sql("INSERT INTO lake.db.own SELECT id + 100, 5 FROM range(3)")
    spark.sql("DELETE FROM lake.db.own WHERE odd = 5")
    snapshot = lake.snapshot("db")
    rows = sum(snapshot.files("own")["row_count"].to_pylist())
    assert rows == 10, "the files of which every row goes are taken out"
    spark.sql("DELETE FROM lake.db.own WHERE odd = 1")
    assert spark.table("lake.db.own").count() == 5
    assert snapshot.refresh().dataset("own").count_rows() == 5
    spark.sql("DELETE FROM lake.db.own")
    assert spark.table("lake.db.own").count() == 0


def test_what_was_committed_since_goes_too(spark, lake, monkeypatch):
    """The condition is of a table as it is when the delete is committed."""

    def late(real):
        def change(*args):
            with lake.writer("rome", "db") as writer, writer.transaction() as tx:
                tx.write("t", rows_from("rome", 500, 5))
            return real(*args)

        return change

    monkeypatch.setattr(sql_catalog, "change", late(sql_changes.change))
    spark.sql("DELETE FROM lake.db.t WHERE id >= 500 OR id < 5")
    assert lake.snapshot("db").dataset("t").count_rows() == 35


def test_rows_that_only_several_columns_tell_apart(spark, lake):
    pairs = [(a, b) for a in (1, 2, None) for b in ("x", "y", None)] * 2
    a, b = ([pair[place] for pair in pairs] for place in (0, 1))
    with lake.writer("rome", "db") as writer, writer.transaction() as tx:
        tx.write("pairs", pa.table({"a": pa.array(a, pa.int32()), "b": b}))
    goes = "concat(a, b) IN ('1y', '2x') OR coalesce(a, 0) = 0 AND coalesce(b, 'n') = 'n'"
    spark.sql(f"DELETE FROM lake.db.pairs WHERE {goes}")
    left = lake.snapshot("db").to_arrow("pairs").to_pylist()
    kept = [pair for pair in pairs if pair not in ((1, "y"), (2, "x"), (None, None))]
    assert sorted_rows(tuple(row.values()) for row in left) == sorted_rows(kept)


def test_columns_that_only_partitions_tell(spark, lake, tmp_path):
    """One file of these has the column, and its partition's name says something else."""
    with lake.writer("rome", "db") as writer, writer.transaction() as tx:
        for month in (1, 2):
            path = tmp_path / f"m{month}.parquet"
            pq.write_table(pa.table({"id": [month * 10, month * 10 + 1]}), path)
            add_own(tx, "told", str(path), f"month={month}", partition_by={"month": pa.int32()})
        tx.write("told", pa.table({"id": [30, 31], "month": pa.array([2, 3], pa.int32())}))
    spark.sql("UPDATE lake.db.told SET month = month + 4 WHERE month = 1 AND id % 2 = 0")
    spark.sql("DELETE FROM lake.db.told WHERE month = 2")
    found = lake.snapshot("db").to_arrow("told", ["id", "month"]).to_pylist()
    left = {(row["id"], row["month"]) for row in found}
    assert left == {(10, 5), (11, 1), (31, 3)}
    rows = spark.table("lake.db.told").select("id", "month").collect()
    assert {tuple(row) for row in rows} == left


def test_columns_that_were_renamed_dropped_and_came_again(spark, lake):
    lake.evolve("db", "t", rename={"note": "words"}, drop=["temp"])
    lake.evolve("db", "t", add={"temp": pa.float64()}, default={"temp": 7.5})
    spark.sql("UPDATE lake.db.t SET words = 'x', temp = temp + 1 WHERE upper(words) = 'NOTE 5'")
    spark.sql("UPDATE lake.db.t SET temp = 0 WHERE words = 'Note 6'")
    spark.sql("DELETE FROM lake.db.t WHERE words = 'Note 7' OR temp < 7")
    snapshot = lake.snapshot("db")
    assert snapshot.dataset("t").count_rows() == 38
    assert sorted(set(snapshot.to_arrow("t")["temp"].to_pylist())) == [7.5, 8.5]
    assert spark.sql("SELECT id FROM lake.db.t WHERE temp > 8 AND words = 'x'").collect() == [(5,)]
    assert spark.sql("SELECT * FROM lake.db.t WHERE id IN (6, 7)").collect() == []


# --- What is refused ------------------------------------------------------------------------------


def test_rows_that_differ_in_nested_values_alone(spark, lake):
    with lake.writer("rome", "db") as writer, writer.transaction() as tx:
        tx.write("nested", pa.table({"a": [[1], [1, 2], [1]]}))
    spark.sql("DELETE FROM lake.db.nested WHERE size(a) = 2")
    spark.sql("UPDATE lake.db.nested SET a = array_append(a, 7)")
    assert lake.snapshot("db").to_arrow("nested")["a"].to_pylist() == [[1, 7], [1, 7]]


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM lake.db.t WHERE id = 1",
        "UPDATE lake.db.t SET note = 'x' WHERE id = 1",
        "MERGE INTO lake.db.t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_without_a_writer_nothing_is_changed(spark, lake, text):
    lakelog.spark.attach(spark, "lake", lake.url)
    before = commits(lake)
    with pytest.raises(Exception, match="attach the lake with writer="):
        spark.sql(text)
    assert commits(lake) == before


def test_nanoseconds_are_not_cut(spark, lake):
    when = pa.array([1_000_000_001, 2_000_000_002], pa.timestamp("ns"))
    with lake.writer("rome", "db") as writer, writer.transaction() as tx:
        tx.write("fine", pa.table({"id": [1, 2], "at": when}))
    before = commits(lake)
    with pytest.raises(Exception, match=r"InvalidSchema: Column 'at' .* no nanoseconds"):
        spark.sql("UPDATE lake.db.fine SET id = 5 WHERE id = 1")
    assert commits(lake) == before
    spark.sql("DELETE FROM lake.db.fine WHERE at = TIMESTAMP_NTZ '1970-01-01 00:00:01'")
    assert lake.snapshot("db").to_arrow("fine")["id"].to_pylist() == [2]
