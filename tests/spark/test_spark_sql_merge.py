"""UPDATE and MERGE of Spark's SQL on a lake: rows as plain Spark would leave them, by a commit in
each log that holds some; and what others commit meanwhile."""

from __future__ import annotations

import sys
import threading
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

sys.path.append(str(Path(__file__).parent))

from changed_lake import (
    COLUMNS,
    ZONE,
    commits,
    copy_of,
    operations,
    read_by_all,
    rows_from,
    rows_of,
    two_writers,
)
from lakelog.spark import sql_changes
from sample import sampled


@pytest.fixture
def lake(spark, tmp_path, settings):
    settings("spark.sql.session.timeZone", ZONE)
    with two_writers(spark, tmp_path) as catalog:
        yield catalog


@pytest.fixture
def keyed(lake):
    lake.evolve("db", "t", key=["id"])
    return lake


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
@pytest.mark.parametrize("case", sampled("sql update", product(UPDATES, [False, True]), 4))
def test_update_changes_the_rows_that_select_finds(spark, lake, tmp_path, case):
    (sets, condition), has_key = case
    if has_key:
        lake.evolve("db", "t", key=["id"])
    wanted = updated(spark, copy_of(spark, lake, tmp_path), sets, condition)
    before = commits(lake)
    spark.sql(f"UPDATE lake.db.t SET {sets} WHERE {condition}")
    assert read_by_all(spark, lake) == wanted
    after = commits(lake)
    changed = [name for name in after if after[name] != before.get(name)]
    assert bool(changed) != ("never" in sets)
    assert {*changed} <= {"oslo", "rome"}, "a row stays in its log"
    for name in changed:
        assert operations(lake, name)[-1] in ("row_delta", "overwrite")


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
@pytest.mark.parametrize("case", sampled("sql merge", product(MERGES, [False, True]), 4))
def test_merge_leaves_the_rows_that_its_clauses_say(spark, lake, tmp_path, case):
    clauses, has_key = case
    if has_key:
        lake.evolve("db", "t", key=["id"])
    plain = copy_of(spark, lake, tmp_path)
    text = SOURCE.replace("lake.db.t", plain)
    path = str(tmp_path / "s")
    spark.sql(text).write.parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("s")
    wanted = rows_of(spark.sql(MERGES[clauses].format(t=plain)))
    before = commits(lake)
    spark.sql(f"MERGE INTO lake.db.t AS t USING s ON t.id = s.id {clauses}")
    assert read_by_all(spark, lake) == wanted
    after = commits(lake)
    assert all(after[name] - before.get(name, -1) in (0, 1) for name in after)
    assert ("sql" in after) == ("INSERT" in clauses)


def test_merge_from_the_same_table_at_one_cut(spark, lake):
    spark.sql(f"""MERGE INTO lake.db.t AS t USING ({SOURCE}) AS s ON t.id = s.id
                  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""")
    assert lake.snapshot("db").dataset("t").count_rows() == 44


@pytest.mark.slow("three statements, each planned with dynamic pruning")
@pytest.mark.parametrize("always", sampled("merge into partitions", ["true", "false"], 1))
def test_merge_into_partitions_that_the_source_chooses(spark, lake, settings, always):
    """Spark skips partitions by the source's values: of rows that come or go by none of them too
    few are read, nor too many changed."""
    settings("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly", always)
    days = pa.table({"day": [n % 6 for n in range(60)], "id": range(60), "v": [0] * 60})
    with lake.writer("oslo", "db") as writer, writer.transaction() as tx:
        tx.write("p", days, partition_by=["day"])
    spark.createDataFrame([(d, 30 + d) for d in range(6)] + [(2, 200)], "day long, id long").where(
        "day >= 0"
    ).createOrReplaceTempView("picked")
    source = "(SELECT * FROM picked WHERE id IN (32, 200)) AS s"
    on = f"MERGE INTO lake.db.p AS t USING {source} ON t.day = s.day AND t.id = s.id"
    spark.sql(f"{on} WHEN MATCHED THEN UPDATE SET v = 1")
    rows = {(n % 6, n, int(n == 32)) for n in range(60)}
    assert told(lake) == rows
    spark.sql(f"{on} WHEN NOT MATCHED THEN INSERT (day, id, v) VALUES (s.day, s.id, 2)")
    rows |= {(2, 200, 2)}
    assert told(lake) == rows
    spark.sql(f"{on} WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.v = 0 "
              "THEN UPDATE SET v = 3")  # fmt: skip
    assert told(lake) == {(n % 6, n, 3) for n in range(60) if n != 32}


def test_merge_by_a_null_safe_partition_column(spark, lake):
    rows = pa.table({"s": ["a", "b", None, "a"], "v": [1.0, 2.0, 3.0, None], "id": [1, 2, 3, 4]})
    with lake.writer("oslo", "db") as writer, writer.transaction() as tx:
        tx.write("p", rows, partition_by=["s"])
    spark.sql("""MERGE INTO lake.db.p AS t
                 USING (VALUES (1, 1.0D, 'a'), (3, 3.0D, null), (9, 9.0D, null) AS s (id, v, s))
                 ON t.s <=> s.s AND t.v <=> s.v WHEN MATCHED THEN DELETE
                 WHEN NOT MATCHED THEN INSERT (id, v, s) VALUES (s.id, s.v, s.s)""")
    found = lake.snapshot("db").to_arrow("p", ["id", "s", "v"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        (2, "b", 2.0), (4, "a", None), (9, None, 9.0),
    ]  # fmt: skip


def told(lake) -> set[tuple[int, ...]]:
    found = lake.snapshot("db").to_arrow("p", ["day", "id", "v"]).to_pylist()
    assert len(found) == len({row["id"] for row in found})
    return {tuple(row.values()) for row in found}


def test_a_row_that_is_matched_twice_is_an_error(spark, lake):
    before = commits(lake)
    with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        spark.sql("""MERGE INTO lake.db.t AS t USING (SELECT 1 AS id UNION ALL SELECT 1) AS s
                     ON t.id = s.id WHEN MATCHED THEN UPDATE SET note = 'twice'""")
    assert commits(lake) == before


# --- Others ---------------------------------------------------------------------------------------

STATEMENTS = {
    "DELETE FROM lake.db.t WHERE upper(place) = 'ROME'": {"remove"},
    "UPDATE lake.db.t SET note = 'x' WHERE site = 2": {"delete", "remove"},
    "MERGE INTO lake.db.t AS t USING (SELECT 2 AS id) AS s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET note = 'x' WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)": {
        "remove", "add",
    },
}  # fmt: skip


@pytest.mark.parametrize("text", list(STATEMENTS))
@pytest.mark.parametrize("other", ["delete", "remove", "add"])
def test_what_others_change_meanwhile_is_a_conflict(spark, lake, monkeypatch, text, other):
    real = sql_changes._run

    def then_commit(*args):
        found = real(*args)
        with lake.writer("rome", "db", shared=True) as writer, writer.transaction() as tx:
            if other == "delete":
                tx.delete("t", "id = 22")
            elif other == "remove":
                tx.remove(lake.snapshot("db").files("t", writer="rome")["path"][0].as_py())
            else:
                tx.write("t", rows_from("rome", 700, 3))
        return found

    monkeypatch.setattr(sql_changes, "_run", then_commit)
    before = commits(lake)
    if other not in STATEMENTS[text]:
        spark.sql(text)
        left = lake.snapshot("db").to_arrow("t", ["id", "place", "note"]).to_pylist()
        assert all(row["place"] != "rome" or row["id"] >= 700 for row in left) or text[0] != "D"
        assert any(row["note"] == "x" for row in left) or text[0] == "D"
        return
    with pytest.raises(Exception, match=r"(?s)(OperationConflict|InputRemoved): .*Nothing was"):
        spark.sql(text)
    assert commits(lake) == before | {"rome": before["rome"] + 1}
    assert lake.snapshot("db").to_arrow("t", where="note = 'x'").num_rows == 0


def test_a_log_that_fails_is_told_with_those_that_are_done(spark, lake, monkeypatch):
    """Both looked sound before the first was committed to."""
    spark.sql("INSERT INTO lake.db.t VALUES (900, 'sql', null, null, null, null)")
    real = sql_changes._Log.check

    def then_commit(self):
        real(self)
        if self.tx._session.writer_id == "sql":
            with lake.writer("sql", "db", shared=True) as guest, guest.transaction() as late:
                late.delete("t", "id = 900")

    monkeypatch.setattr(sql_changes._Log, "check", then_commit)
    done = r"Committed in the logs of: 'rome' \(revision 2\); not in those of: sql"
    with pytest.raises(Exception, match=rf"(?s)InputRemoved: .*{done}"):
        spark.sql("UPDATE lake.db.t SET note = 'x' WHERE id >= 39")
    found = lake.snapshot("db").to_arrow("t", ["id", "note"], where="id >= 39")
    assert found.to_pylist() == [{"id": 39, "note": "x"}]


@pytest.mark.slow("statements run while another process reads")
def test_each_row_is_there_exactly_once_for_whoever_reads(spark, lake):
    wanted = sorted(lake.snapshot("db").to_arrow("t")["id"].to_pylist())
    ended, problems, reads = threading.Event(), [], []

    def read():
        while not ended.is_set() or not reads:
            found = sorted(lake.snapshot("db").to_arrow("t", ["id"])["id"].to_pylist())
            reads.append(len(found))
            if found != wanted:
                problems.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(3):
            spark.sql(f"UPDATE lake.db.t SET note = 'seen {number}' WHERE site = {number}")
            spark.sql("""MERGE INTO lake.db.t AS t USING lake.db.t AS s ON t.id = s.id
                         AND s.id % 3 = 0 WHEN MATCHED THEN UPDATE SET temp = 0.5""")
            rows = spark.sql("SELECT id FROM lake.db.t ORDER BY id").collect()
            assert [row.id for row in rows] == wanted
    finally:
        ended.set()
        reader.join()
    assert not problems
    assert len(reads) > 1
