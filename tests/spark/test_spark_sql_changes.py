"""DELETE, UPDATE and MERGE of Spark's SQL on a lake: rows as plain Spark would leave them, in one
commit, or nothing."""

from __future__ import annotations

import datetime as dt
import json

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.spark import sql_catalog, sql_changes

pytestmark = pytest.mark.spark

ZONE = "America/New_York"
STARTS = dt.datetime(2026, 3, 8, 6, 30, tzinfo=dt.UTC)  # half an hour before the clocks change
COLUMNS = ["id", "place", "site", "temp", "seen", "note"]


def rows_from(place: str, first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "place": [place] * count,
            "site": pa.array([None if n % 7 == 3 else n % 5 for n in numbers], pa.int32()),
            "temp": [[1.5, float("nan"), -0.0, None, 0.0][n % 5] for n in numbers],
            "seen": pa.array(
                [STARTS + dt.timedelta(minutes=20 * n) for n in numbers], pa.timestamp("us", "UTC")
            ),
            "note": [None if n % 4 == 0 else f"Note {n}" for n in numbers],
        }
    )


@pytest.fixture
def lake(spark, tmp_path, settings):
    """Two writers' files of one table, and a third writer for SQL; attached as `lake`."""
    settings("spark.sql.session.timeZone", ZONE)
    catalog = lakelog.open_catalog(str(tmp_path / "lake"))
    for number, writer in enumerate(("oslo", "rome")):
        with catalog.writer(writer, "db") as opened:
            for part in range(2):
                with opened.transaction() as tx:
                    tx.write("t", rows_from(writer, 20 * number + 10 * part, 10))
    lakelog.spark.attach(spark, "lake", catalog.url, writer="sql")
    yield catalog
    lakelog.spark.detach(spark, "lake")


@pytest.fixture
def keyed(lake):
    lake.evolve("db", "t", key=["id"])
    return lake


def sorted_rows(rows) -> list[str]:
    return sorted(map(repr, rows))


def read_by_all(spark, catalog) -> list[str]:
    """The rows of the table, which are the same for `scan`, DuckDB and Spark."""
    snapshot = catalog.snapshot("db")
    scanned = snapshot.to_arrow("t", COLUMNS)
    found = sorted_rows(tuple(row.values()) for row in _utc(scanned).to_pylist())
    duck = snapshot.to_duckdb().sql(f"SELECT {', '.join(COLUMNS)} FROM t").to_arrow_table()
    assert sorted_rows(tuple(row.values()) for row in _utc(duck).to_pylist()) == found
    by_spark = spark.table("lake.db.t").select(*COLUMNS).toArrow()
    assert sorted_rows(tuple(row.values()) for row in _utc(by_spark).to_pylist()) == found
    return found


def _utc(rows: pa.Table) -> pa.Table:
    kinds = rows_from("", 0, 9).schema
    return rows.cast(pa.schema([kinds.field(name) for name in rows.column_names]))


def copy_of(spark, catalog, tmp_path, name: str = "plain") -> str:
    """The same rows as a plain view of Spark's."""
    path = str(tmp_path / name)
    lakelog.spark.read(spark, catalog.url, "db", "t").write.mode("overwrite").parquet(path)
    spark.read.parquet(path).createOrReplaceTempView(name)
    return name


def rows_of(frame) -> list[str]:
    found = frame.select(*COLUMNS).toArrow()
    return sorted_rows(tuple(row.values()) for row in _utc(found).to_pylist())


def commits(catalog) -> dict[str, int]:
    return dict(catalog.snapshot("db").cut.revisions)


def operations(catalog, writer: str = "sql") -> list[str]:
    return catalog.history("db", writer)["operation"].to_pylist()


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
@pytest.mark.parametrize("condition", CONDITIONS)
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
    assert changed <= {"sql"}, "rows of others are deleted by one commit to this writer's log"
    assert after.get("sql", 0) == 0


def test_delete_says_what_it_took(spark, lake):
    spark.sql("DELETE FROM lake.db.t WHERE site = 1")
    assert operations(lake) == ["delete"]
    (done,) = lake.history("db", "sql").to_pylist()
    assert json.loads(json.loads(done["summary"])["lakelog.deletes_of"]) == ["oslo", "rome"]
    spark.sql("DELETE FROM lake.db.t WHERE site > 100")
    assert operations(lake) == ["delete"], "where no file may hold such rows nothing is committed"


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
            tx.add("told", str(path), f"month={month}", partition_by={"month": pa.int32()})
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


def test_nothing_is_committed_where_rows_cant_be_told_apart(spark, lake):
    with lake.writer("rome", "db") as writer, writer.transaction() as tx:
        tx.write("nested", pa.table({"a": [[1], [1, 2], [1]]}))
    before = commits(lake)
    with pytest.raises(Exception, match=r"(?s)SparkUnsupported: 1 rows.*Nothing was committed"):
        spark.sql("DELETE FROM lake.db.nested WHERE size(a) = 2")
    assert commits(lake) == before


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


# --- UPDATE ---------------------------------------------------------------------------------------

UPDATES = [
    ("note = 'seen', temp = temp + 1", "site = 2"),
    ("site = site + 1", "true"),
    ("site = NULL", "temp IS NULL OR isnan(temp)"),
    ("note = concat(place, ': ', note), seen = seen + INTERVAL 1 HOUR", "upper(place) = 'OSLO'"),
    ("temp = (SELECT max(id) FROM lake.db.t)", "id IN (SELECT max(id) FROM lake.db.t)"),
    ("note = 'never'", "id < 0"),
]


@pytest.mark.slow("each statement is read again by three engines")
@pytest.mark.parametrize(("sets", "condition"), UPDATES)
@pytest.mark.parametrize("has_key", [False, True])
def test_update_changes_the_rows_that_select_finds(spark, lake, tmp_path, sets, condition, has_key):
    if has_key:
        lake.evolve("db", "t", key=["id"])
    wanted = updated(spark, copy_of(spark, lake, tmp_path), sets, condition)
    before = commits(lake)
    spark.sql(f"UPDATE lake.db.t SET {sets} WHERE {condition}")
    assert read_by_all(spark, lake) == wanted
    if "never" in sets:
        assert commits(lake) == before
    else:
        assert operations(lake)[-1] in ("row_delta", "append")
        assert sum(commits(lake).values()) == sum(before.values()) + ("sql" in before)


def updated(spark, plain: str, sets: str, condition: str) -> list[str]:
    """What an UPDATE leaves of a plain view."""
    asked, given = (text.replace("lake.db.t", plain) for text in (condition, sets))
    changed = dict(each.split(" = ", 1) for each in _split(given))
    kinds = dict(spark.table(plain).dtypes)
    columns = [f"CAST({changed.get(n, n)} AS {kinds[n]}) AS {n}" for n in COLUMNS]
    matched = spark.sql(f"SELECT id FROM {plain} WHERE {asked}")
    stay = spark.table(plain).join(matched, "id", "left_anti")
    new = spark.sql(f"SELECT {', '.join(columns)} FROM {plain} WHERE {asked}")
    return rows_of(stay.select(*COLUMNS).unionAll(new))


def _split(text: str) -> list[str]:
    """By the commas that stand in no parentheses."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def test_a_key_that_is_updated_leaves_no_old_row(spark, keyed):
    spark.sql("UPDATE lake.db.t SET id = id + 1000 WHERE site = 2")
    found = keyed.snapshot("db").to_arrow("t", ["id", "site"])
    assert found.num_rows == 40
    assert all((row["id"] >= 1000) == (row["site"] == 2) for row in found.to_pylist())


def test_an_update_of_a_key_is_newer_than_every_clock(spark, keyed):
    """Another machine's clock is far ahead of this one's."""
    ahead = 10**18
    with keyed.writer("oslo", "db") as writer, writer.transaction() as tx:
        tx.write("t", rows_from("ahead", 3, 1), clock=(ahead, ahead))
    spark.sql("UPDATE lake.db.t SET note = 'mine' WHERE id IN (3, 4)")
    found = keyed.snapshot("db").to_arrow("t", ["id"], where="note = 'mine'")
    assert sorted(found["id"].to_pylist()) == [3, 4]


# --- MERGE ----------------------------------------------------------------------------------------

SOURCE = """
    SELECT id, place, 9 AS site, temp, seen, concat('new ', id) AS note
    FROM lake.db.t WHERE id % 6 = 1
    UNION ALL SELECT id + 100, 'far', NULL, 0.25D, seen, note FROM lake.db.t WHERE id % 10 = 0
"""
MERGES = {
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *": (
        "SELECT t.* FROM {t} t LEFT ANTI JOIN s USING (id) UNION ALL SELECT * FROM s"
    ),
    "WHEN MATCHED AND t.place = 'oslo' THEN DELETE WHEN MATCHED THEN UPDATE SET site = s.site": (
        "SELECT t.* FROM {t} t LEFT ANTI JOIN s USING (id) UNION ALL "
        "SELECT t.id, t.place, s.site, t.temp, t.seen, t.note FROM {t} t JOIN s USING (id) "
        "WHERE t.place <> 'oslo'"
    ),
    "WHEN MATCHED THEN DELETE": "SELECT t.* FROM {t} t LEFT ANTI JOIN s USING (id)",
    "WHEN NOT MATCHED THEN INSERT (id, note) VALUES (s.id, 'short')": (
        "SELECT * FROM {t} UNION ALL SELECT s.id, NULL, NULL, NULL, NULL, 'short' FROM s "
        "LEFT ANTI JOIN {t} USING (id)"
    ),
    "WHEN NOT MATCHED BY SOURCE AND t.site = 1 THEN DELETE "
    "WHEN NOT MATCHED BY SOURCE AND t.site IS NULL THEN UPDATE SET note = 'alone'": (
        "SELECT t.* FROM {t} t LEFT SEMI JOIN s USING (id) UNION ALL "
        "SELECT id, place, site, temp, seen, CASE WHEN site IS NULL THEN 'alone' ELSE note END "
        "FROM (SELECT t.* FROM {t} t LEFT ANTI JOIN s USING (id)) WHERE site IS NULL OR site <> 1"
    ),
}


@pytest.mark.slow("each statement is read again by three engines")
@pytest.mark.parametrize("clauses", list(MERGES))
@pytest.mark.parametrize("has_key", [False, True])
def test_merge_leaves_the_rows_that_its_clauses_say(spark, lake, tmp_path, clauses, has_key):
    if has_key:
        lake.evolve("db", "t", key=["id"])
    plain = copy_of(spark, lake, tmp_path)
    text = SOURCE.replace("lake.db.t", plain)
    path = str(tmp_path / "s")
    spark.sql(text).write.parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("s")
    wanted = rows_of(spark.sql(MERGES[clauses].format(t=plain)))
    before = sum(commits(lake).values()) + len(commits(lake))
    spark.sql(f"MERGE INTO lake.db.t AS t USING s ON t.id = s.id {clauses}")
    assert read_by_all(spark, lake) == wanted
    assert sum(commits(lake).values()) + len(commits(lake)) == before + 1


def test_merge_from_the_same_table_at_one_cut(spark, lake):
    spark.sql(f"""MERGE INTO lake.db.t AS t USING ({SOURCE}) AS s ON t.id = s.id
                  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""")
    assert lake.snapshot("db").dataset("t").count_rows() == 44


def test_a_row_that_is_matched_twice_is_an_error(spark, lake):
    before = commits(lake)
    with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        spark.sql("""MERGE INTO lake.db.t AS t USING (SELECT 1 AS id UNION ALL SELECT 1) AS s
                     ON t.id = s.id WHEN MATCHED THEN UPDATE SET note = 'twice'""")
    assert commits(lake) == before


# --- Others ---------------------------------------------------------------------------------------

STATEMENTS = {
    "DELETE FROM lake.db.t WHERE upper(place) = 'ROME'": {"delete", "remove"},
    "UPDATE lake.db.t SET note = 'x' WHERE site = 2": {"delete", "remove"},
    "MERGE INTO lake.db.t AS t USING (SELECT 2 AS id) AS s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET note = 'x' WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)": {
        "delete", "remove", "add",
    },
}  # fmt: skip


@pytest.mark.parametrize("text", list(STATEMENTS))
@pytest.mark.parametrize("other", ["delete", "remove", "add"])
def test_what_others_change_meanwhile_is_a_conflict(spark, lake, monkeypatch, text, other):
    real = sql_changes._run

    def then_commit(*args):
        found = real(*args)
        with lake.writer("rome", "db") as writer, writer.transaction() as tx:
            if other == "delete":
                tx.delete("t", "id = 22")
            elif other == "remove":
                tx.remove(lake.snapshot("db").files("t", writer="rome")["path"][0].as_py())
            else:
                tx.write("t", rows_from("rome", 700, 3))
        return found

    monkeypatch.setattr(sql_changes, "_run", then_commit)
    if other not in STATEMENTS[text]:
        spark.sql(text)
        assert lake.snapshot("db").dataset("t").count_rows() in (23, 43)
        assert len(operations(lake)) == 1
        return
    with pytest.raises(Exception, match=r"(?s)OperationConflict: .*Run the statement again"):
        spark.sql(text)
    assert "sql" not in commits(lake)
    assert lake.snapshot("db").to_arrow("t", where="note = 'x'").num_rows == 0


def test_a_guest_of_this_log_is_seen_as_well(spark, lake, monkeypatch):
    spark.sql("INSERT INTO lake.db.t (id, place) VALUES (900, 'sql')")
    real = sql_changes._Change._look_again

    def then_commit(self, *args, **given):
        real(self, *args, **given)
        with lake.writer("sql", "db", shared=True) as guest, guest.transaction() as late:
            late.delete("t", "id = 900")

    monkeypatch.setattr(sql_changes._Change, "_look_again", then_commit)
    with pytest.raises(Exception, match="OperationConflict"):
        spark.sql("UPDATE lake.db.t SET note = 'x' WHERE id >= 39")
    found = lake.snapshot("db").to_arrow("t", ["id", "note"], where="id >= 39")
    assert found.to_pylist() == [{"id": 39, "note": "Note 39"}]
