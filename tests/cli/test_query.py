"""`lakelog query`: SQL over a database at one cut, or several."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from lakelog import open_catalog

BY_ORIGIN = (
    "SELECT origin, count(*) AS n, max(temp) AS warmest FROM hourly GROUP BY ALL ORDER BY ALL"
)


@pytest.fixture
def query(cli, weather):
    """`query(sql, ...)` on the catalog of `conftest.fill`."""
    return lambda sql, *options: cli("query", weather, "weather", sql, *options)


def records(result):
    assert (result.code, result.err) == (0, "")
    return [json.loads(line) for line in result.out.splitlines()]


def test_text_json_jsonl_and_csv(query, weather):
    text = query(BY_ORIGIN)
    assert (text.code, text.err) == (0, "")
    assert text.out == "origin  n  warmest\nEWR     8     62.5\nJFK     4     60.5\n"
    rows = [{"origin": "EWR", "n": 8, "warmest": 62.5}, {"origin": "JFK", "n": 4, "warmest": 60.5}]
    assert records(query(BY_ORIGIN, "-o", "jsonl")) == rows
    found = query(BY_ORIGIN, "-o", "json").json
    assert found["rows"] == rows
    assert found["token"] == open_catalog(weather).snapshot("weather").token
    assert query(BY_ORIGIN, "-o", "csv").out == "origin,n,warmest\nEWR,8,62.5\nJFK,4,60.5\n"


def test_joins_and_windows_over_all_tables(query):
    sql = """
        SELECT name, time_hour, row_number() OVER (PARTITION BY id ORDER BY time_hour DESC) AS place
        FROM hourly JOIN stations ON origin = id QUALIFY place = 1"""
    wanted = {"name": "John F. Kennedy", "time_hour": "2013-06-30T02:00:00.000000Z", "place": 1}
    assert records(query(sql, "-o", "jsonl")) == [wanted]


def test_one_point_in_time_and_several(query, weather):
    count = "SELECT count(*) AS n FROM hourly"
    assert records(query(count, "-o", "jsonl", "--as-of", "EWR=1")) == [{"n": 6}]
    token = open_catalog(weather).snapshot("weather", {"EWR": 0}).token
    sql = (
        "SELECT (SELECT count(*) FROM hourly) AS now, (SELECT count(*) FROM first.hourly) AS a,"
        " (SELECT count(*) FROM later.hourly) AS b"
    )
    also = ["--also", f"first={token}", "--also", "later=2013-06-30T02:30Z"]
    found = query(sql, "-o", "json", *also).json
    assert found["rows"] == [{"now": 12, "a": 3, "b": 6}]
    assert found["also"]["first"]["token"] == token
    also = ["--also", "first=now", "--also", "later=JFK=0"]
    swapped = query(sql, "-o", "json", "--as-of", "EWR=0", *also)
    assert swapped.json["rows"] == [{"now": 3, "a": 12, "b": 2}]


@pytest.mark.parametrize("name", ["select", "a b", "main", "temp", "", "1a", "system"])
def test_a_name_that_sql_would_stumble_over(query, name):
    found = query("SELECT 1", "--also", f"{name}=now")
    assert found.code == 2
    assert "name of a cut" in found.err
    twice = query("SELECT 1", "--also", "x=now", "--also", "X=now")
    assert twice.code == 2


def test_parquet_and_its_types(weather):
    argv = [
        sys.executable,
        "-m",
        "lakelog",
        "query",
        weather,
        "weather",
        "FROM hourly",
        "-o",
        "parquet",
    ]
    done = subprocess.run(argv, capture_output=True, check=True)
    assert done.stderr == b""
    table = pq.read_table(io.BytesIO(done.stdout))
    assert table.num_rows == 12
    assert str(table.schema.field("time_hour").type) == "timestamp[us, tz=UTC]"


def test_columns_of_one_name_are_all_there(query):
    sql = "SELECT * FROM hourly a JOIN hourly b USING (origin, time_hour) LIMIT 1"
    (row,) = records(query(sql, "-o", "jsonl"))
    assert list(row) == ["origin", "time_hour", "temp", "hour", "temp_1", "hour_1"]
    (row,) = records(query("SELECT 1 AS a, 2 AS a_1, 3 AS a", "-o", "jsonl"))
    assert sorted(row.values()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("selct 1", 'syntax error at or near "selct" (line 1, column 1)'),
        ("SELECT hour, at FROM hourly", "stands in double quotes"),
        ("SELECT hour,\n  nope FROM hourly", '"nope" not found'),
        ("SELECT hour,\n  nope FROM hourly", "(line 2, column 3)"),
        ("FROM nowhere", "nowhere"),
        ("SELECT 1; SELECT 2", "2 statements"),
        (" -- nothing", "no SQL"),
        ("SELECT origin::INT FROM hourly", "Could not convert"),
    ],
)
def test_sql_that_is_wrong_is_the_callers_error(query, sql, words):
    found = query(sql)
    assert found.code == 2
    assert found.out == ""
    assert words in found.err
    assert len(found.err.splitlines()) == 2


OUTSIDE = [
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM '{file}'",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM query('FROM ''{file}''')",
    "SELECT * FROM read_csv('http://127.0.0.1:1/a.csv')",
    "COPY (SELECT 1) TO '{folder}/new.csv'",
    "COPY (SELECT 1) TO '{folder}/new' (FORMAT parquet, PARTITION_BY (\"1\"))",
    "EXPORT DATABASE '{folder}/new'",
    "ATTACH '{folder}/new.db' AS other",
    "INSTALL httpfs",
    "LOAD '{folder}/new.so'",
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "SET allowed_directories = ['/']",
    "SET python_enable_replacements = true",
    "SET temp_directory = '{folder}/new'",
    "FROM duckdb_secrets()",
    "FROM args",  # a variable of Python
    "FROM OUTSIDE",
]


@pytest.mark.parametrize("sql", OUTSIDE)
def test_sql_sees_the_tables_and_nothing_else(query, tmp_path, sql):
    file = tmp_path / "some.csv"
    file.write_text("canary,b\n1,2\n")
    found = query(sql.format(file=file, folder=tmp_path))
    assert found.code == 2
    assert "canary" not in found.out
    assert list(tmp_path.iterdir()) == [file]


CHANGES = {
    "CREATE TABLE x AS FROM hourly": "`lakelog write`",
    "CREATE OR REPLACE VIEW hourly AS SELECT 1": "`lakelog write`",
    "CREATE MACRO f(x) AS x": "",
    "DROP VIEW hourly": "`lakelog drop`",
    "ALTER VIEW hourly RENAME TO h": "`lakelog schema`",
    "INSERT INTO hourly VALUES (2)": "`lakelog write`",
    "UPDATE hourly SET temp = 1": "--overwrite",
    "DELETE FROM hourly": "`lakelog delete`",
    "TRUNCATE hourly": "`lakelog delete`",
    "MERGE INTO hourly USING hourly AS h ON true WHEN MATCHED THEN DELETE": "upsert",
    "COPY hourly TO 'x.csv'": "--output",
    "COPY hourly FROM 'x.csv'": "`lakelog write`",
    "ATTACH ':memory:' AS z": "--also",
    "BEGIN": "--as-of",
    "COMMIT": "--as-of",
    "VACUUM": "`gc`",
    "ANALYZE": "`gc`",
    "CHECKPOINT": "`lakelog checkpoint --execute`",
    "FORCE CHECKPOINT": "`lakelog checkpoint --execute`",
    "PREPARE p AS SELECT 1": "SELECT",
    "INSTALL httpfs": "",
}


@pytest.mark.parametrize("sql", CHANGES)
def test_sql_that_would_change_something_is_refused(query, sql):
    found = query(f" -- a note\n{sql}")
    assert found.code == 2
    assert found.out == ""
    assert "SQL only reads here" in found.err
    assert CHANGES[sql] in found.err


READS = [
    "SHOW TABLES",
    "DESCRIBE hourly",
    "SUMMARIZE hourly",
    "EXPLAIN FROM hourly",
    "TABLE hourly",
    "VALUES (1)",
    "PRAGMA table_info('hourly')",
    "CALL pragma_version()",
    "PIVOT hourly ON origin USING count(*)",
    "WITH h AS (FROM hourly) SELECT count(*) FROM h",
]


@pytest.mark.parametrize("sql", READS)
def test_statements_that_read(query, sql):
    assert query(sql).code == 0


def test_errors_of_the_store_keep_their_exit_codes(cli, own_weather):
    for path in Path(own_weather).glob("JFK/weather/data/*/stations/*"):
        path.unlink()
    found = cli("query", own_weather, "weather", "SELECT * FROM stations")
    assert found.code == 3
    assert "stations" in found.err
    assert "Traceback" not in found.err
    assert cli("query", own_weather, "weather", "SELECT count(*) FROM hourly").code == 0
    assert cli("query", own_weather, "nope", "SELECT 1").code == 3
    for path in Path(own_weather).glob("EWR/weather/data/*/hourly/*"):
        path.write_bytes(path.read_bytes()[:-3])
    assert cli("query", own_weather, "weather", "SELECT count(temp) FROM hourly").code == 5


def test_only_files_that_matter_are_read(cli, own_weather):
    """Files of EWR are gone: a query that has no use for them doesn't notice."""
    for path in Path(own_weather).glob("EWR/weather/data/*/hourly/*"):
        path.unlink()
    sql = "SELECT count(*) AS n FROM hourly WHERE origin = 'JFK' AND hour >= 1"
    assert records(cli("query", own_weather, "weather", sql, "-o", "jsonl")) == [{"n": 3}]


def test_memory_is_bounded_and_what_does_not_fit_goes_to_a_folder_that_is_removed(
    query, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sql = "SELECT hash(i) AS h FROM range(4_000_000) t(i) ORDER BY h LIMIT 3_000_000"
    found = query(f"SELECT count(*) AS n FROM ({sql})", "--memory", "60MB", "-o", "jsonl")
    assert records(found) == [{"n": 3_000_000}]
    assert list(tmp_path.iterdir()) == []
    refused = query(
        "SELECT string_agg(i::TEXT, '') FROM range(90_000_000) t(i)", "--memory", "20MB"
    )
    assert refused.code == 2
    assert "memory" in refused.err.lower()
    assert query("SELECT 1", "--memory", "lots").code == 2
    assert list(tmp_path.iterdir()) == []


def test_sql_from_stdin_and_a_limit(query, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT hour FROM hourly ORDER BY ALL"))
    assert query("-", "--limit", "2").out == "hour\n   0\n   0\n"


def test_a_conflict_of_types_is_told_and_other_tables_are_read(query, own_weather, cli):
    import pyarrow as pa

    with open_catalog(own_weather).writer("LGA", "weather") as writer, writer.transaction() as tx:
        tx.write("hourly", pa.table({"temp": ["warm"]}))
    found = cli("query", own_weather, "weather", "SELECT name FROM stations")
    assert found.code == 0
    assert "There is no view 'hourly'" in found.err
    assert cli("query", own_weather, "weather", "FROM hourly").code == 2


def test_sql_that_is_no_text_is_refused(query):
    result = query("SELECT '\udcff'")
    assert result.code == 2
    assert "lone surrogate at character 9" in result.err
