"""What databases, tables, log, files, schema and scan print."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from unittest import mock

import lakelog
import pyarrow as pa
import pytest
from cli_cases import TOKEN, body
from lakelog.catalog.log import checkpoint, checkpoint_files
from lakelog.store import open_store
from lakelog.testing.logs import LogBuilder, add_action, remove_action, schema_action
from own_files import add_own


def test_databases(cli, weather):
    assert body(cli("databases", weather)) == ["DATABASE", "weather"]
    assert cli("databases", weather, "-o", "json").json == [{"database": "weather"}]
    assert cli("databases", weather, "-o", "csv").out == "database\nweather\n"


def test_tables(cli, weather):
    assert body(cli("tables", weather, "weather")) == [
        "TABLE     FILES  ROWS SIZE  COLUMNS",
        "hourly        5    12 SIZE        4",
        "stations      1     1 SIZE        2",
        "",
        "as of  EWR=3,JFK=2",
        TOKEN,
    ]
    rows = cli("tables", weather, "weather", "--output", "json").json["tables"]
    assert [list(row) for row in rows] == [["table", "files", "rows", "size_bytes", "columns"]] * 2
    assert rows[1] | {"size_bytes": 0} == {
        "table": "stations", "files": 1, "rows": 1, "size_bytes": 0, "columns": 2,
    }  # fmt: skip


def test_a_table_that_cannot_be_used_hinders_no_other(cli, tmp_path):
    log = LogBuilder()
    log.commit(schema_action("bad"), schema_action("good"), add_action("data/a", "good"))
    log.commit(remove_action("data/never", "bad"))
    log.put_into(open_store(str(tmp_path)))
    result = cli("tables", tmp_path, "db", "-o", "json")
    assert result.code == 5
    bad, good = result.json["tables"]
    assert bad == {"table": "bad", "files": None, "rows": None, "size_bytes": None, "columns": None}
    assert (good["table"], good["files"], good["columns"]) == ("good", 1, 2)
    assert "data/never" in result.err
    assert cli("files", tmp_path, "db", "good").code == 0
    assert cli("files", tmp_path, "db", "bad").code == 5


def test_a_part_of_the_names_that_cannot_be_listed_is_told_and_ends_with_5(cli, tmp_path):
    log = LogBuilder()
    log.commit(schema_action("bad"), schema_action("good"))
    with (
        mock.patch.object(checkpoint, "ROWS_PER_SEGMENT", 1),
        mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0),
    ):
        held = log.checkpoint()
    store = open_store(str(tmp_path))
    log.put_into(store)
    gone = next(p.where for p in held.pieces if p.segment.first_table == "bad")
    store.delete([gone, *(o.key for o in store.list("w/db/") if o.key.endswith(".transaction"))])
    result = cli("tables", tmp_path, "db", "-o", "json")
    assert result.code == 5
    assert [row["table"] for row in result.json["tables"]] == ["good"]
    assert "from 'bad' to 'bad'" in result.err


@pytest.mark.parametrize(
    ("as_of", "rows"),
    [
        ("EWR=0", 3),
        ("EWR=2,JFK=0", 11),
        ("2013-06-30T02:00:00.000000Z", 6),
        ("2013-06-30T01:59:59.999999Z", 3),
        ("2013-06-30T04:00+02:00", 6),
    ],
)
def test_tables_at_an_earlier_point(cli, weather, as_of, rows):
    (hourly,) = cli("tables", weather, "weather", "--as-of", as_of, "-o", "json").json["tables"]
    assert hourly["rows"] == rows


def test_a_token_reads_the_same_again(cli, own_weather):
    before = cli("tables", own_weather, "weather")
    token = before.out.split()[-1]
    with (
        lakelog.open_catalog(own_weather).writer("EWR", "weather") as writer,
        writer.transaction() as tx,
    ):
        tx.write("hourly", pa.table({"origin": ["EWR"]}))
    assert cli("tables", own_weather, "weather").out != before.out
    assert cli("tables", own_weather, "weather", "--as-of", token).out == before.out


def test_tables_of_one_writer(cli, weather):
    (hourly,) = cli("tables", weather, "weather", "--writer", "EWR", "-o", "json").json["tables"]
    assert (hourly["files"], hourly["rows"]) == (3, 8)
    at = cli(
        "tables", weather, "weather", "--writer", "EWR", "--as-of", "EWR=0,JFK=1", "-o", "json"
    )
    assert at.json["tables"][0]["rows"] == 3
    at = "2013-06-30T06:00Z"
    of = cli("tables", weather, "weather", "--writer", "JFK", "--as-of", at, "-o", "json").json[
        "tables"
    ]
    assert of[0]["rows"] == 4


LOG = """\
REVISION COMMITTED AT WRITER OPERATION FILES ROWS TABLES TRANSACTION SUMMARY
2 2013-06-30T07:00:00.000000Z JFK append +1 +1 stations cb96c4db
1 2013-06-30T06:00:00.000000Z JFK append +1 +2 hourly ccdaebf9
0 2013-06-30T05:00:00.000000Z JFK append +1 +2 hourly cf04bd93
3 2013-06-30T04:00:00.000000Z EWR overwrite +1 -1 +2 -3 hourly 264aad6c
2 2013-06-30T03:00:00.000000Z EWR append +1 +3 hourly d8509909
1 2013-06-30T02:00:00.000000Z EWR append +1 +3 hourly 7504d90e source: file
0 2013-06-30T01:00:00.000000Z EWR append +1 +3 hourly 2b902f89
"""


def test_log_is_newest_first(cli, weather):
    lines = cli("log", weather, "weather").out.splitlines()
    assert [line.split() for line in lines] == [line.split() for line in LOG.splitlines()]


def test_log_with_a_limit_says_so(cli, weather):
    result = cli("log", weather, "weather", "--writer", "EWR", "--limit", "2", "--reverse")
    head, *lines = result.out.splitlines()
    assert head.split() == LOG.splitlines()[0].replace("SUMMARY", "").split()
    assert lines == [
        "       2  2013-06-30T03:00:00.000000Z  EWR     append        +1     +3  hourly  d8509909",
        "       3  2013-06-30T04:00:00.000000Z  EWR     overwrite  +1 -1  +2 -3  hourly  264aad6c",
        "",
        "2 of 4 commits",
    ]
    assert cli("log", weather, "weather", "-n", "0").out == "0 of 7 commits\n"


def test_log_as_json_and_csv(cli, weather):
    newest, *_ = cli("log", weather, "weather", "-o", "json").json["commits"]
    assert list(newest) == [
        "revision", "committed_at", "writer", "operation", "files_added", "files_removed",
        "rows_added", "rows_removed", "bytes_added", "tables", "table_count", "epoch", "guest",
        "transaction_ids", "uuid", "summary", "rows_rewritten", "replaced_where",
    ]  # fmt: skip
    assert newest["transaction_ids"] == ["cb96c4dbadbe172296d5234a42b24c6b"]
    rows = list(csv.DictReader(io.StringIO(cli("log", weather, "weather", "-o", "csv").out)))
    assert [row["revision"] for row in rows] == ["2", "1", "0", "3", "2", "1", "0"]
    assert rows[5]["summary"] == '{"source": "file"}'
    assert rows[0]["guest"] == "false"


def test_a_time_from_the_log_is_the_state_after_that_commit(cli, weather):
    for row in cli("log", weather, "weather", "--writer", "EWR", "-o", "json").json["commits"]:
        at = row["committed_at"]
        files = cli("files", weather, "weather", "hourly", "--as-of", at, "-o", "json").json[
            "files"
        ]
        assert max(file["revision"] for file in files) == row["revision"]


FILES = """\
WRITER  PARTITION  ROWS SIZE  REVISION  PATH
EWR     day 1         3 SIZE         0  data/day 1/hourly/1-2b902f89-0.parquet
EWR     day 2         3 SIZE         1  data/day 2/hourly/1-7504d90e-0.parquet
EWR     day 3         2 SIZE         3  data/day 3/hourly/1-264aad6c-0.parquet

3 files, 8 rows, SIZE

as of  EWR=3
token  ll1-"""


def test_files(cli, weather):
    shown = "\n".join(body(cli("files", weather, "weather", "hourly", "--writer", "EWR")))
    assert re.sub(r"(1-[0-9a-f]{8})[0-9a-f]{24}", r"\1", shown) == FILES


def test_files_of_one_partition(cli, weather):
    def of(partition, *more):
        return cli("files", weather, "weather", "hourly", "--partition", partition, *more)

    files = cli("files", weather, "weather", "hourly", "-o", "json").json["files"]
    bounds = cli("files", weather, "weather", "hourly", "--statistics", "-o", "json").json[
        "statistics"
    ]
    paths = {file["path"]: file["partition"] for file in files}
    assert len(set(paths.values())) > 1
    for partition in set(paths.values()):
        expected = [file for file in files if file["partition"] == partition]
        assert of(partition, "-o", "json").json["files"] == expected
        expected = [row for row in bounds if paths[row["path"]] == partition]
        assert of(partition, "--statistics", "-o", "json").json["statistics"] == expected
    assert "(no files)" in of("another").out


def test_files_as_json(cli, weather):
    files = cli("files", weather, "weather", "hourly", "-o", "json").json["files"]
    assert [(file["writer"], file["row_count"]) for file in files] == [
        ("EWR", 3), ("EWR", 3), ("EWR", 2), ("JFK", 2), ("JFK", 2),
    ]  # fmt: skip
    assert list(files[0]) == [
        "writer", "path", "partition", "row_count", "size_bytes", "revision", "url",
    ]  # fmt: skip
    for file in files:
        assert Path(file["url"]).stat().st_size == file["size_bytes"]
    assert (
        cli("files", weather, "weather", "hourly", "-n", "2", "-o", "json").json["files"]
        == files[:2]
    )


def test_files_with_a_limit_still_tells_the_whole(cli, weather):
    assert "2 of 5 files, 12 rows," in cli("files", weather, "weather", "hourly", "-n", "2").out


STATISTICS = """\
WRITER  PATHCOLUMN     NULLS  MIN                       MAX                       NO NAN
EWR     PATH hour           0  0                         2                         -
EWR     PATH origin         0  EWR                       EWR                       -
EWR     PATH temp           1  60.5                      62.5                      yes
EWR     PATH time_hour      0  2013-06-30T00:00:00.000Z  2013-06-30T02:00:00.000Z  -

4 of 12 rows

as of  EWR=3
token  ll1-"""


def test_files_with_statistics(cli, weather):
    args = ("files", weather, "weather", "hourly", "--writer", "EWR", "--statistics")
    shown = "\n".join(body(cli(*args, "-n", "4")))
    assert re.sub(r"data/\S+ \S+ |PATH +", "PATH", shown) == STATISTICS
    rows = cli(*args, "-o", "json").json["statistics"]
    assert len(rows) == 12
    known = lakelog.open_catalog(weather).snapshot("weather", {"EWR": 3}).statistics("hourly")
    assert [row["path"] for row in rows] == known.column("path").to_pylist()
    rows[3].pop("bloom_offset")
    assert rows[3] == {
        "writer": "EWR",
        "path": "data/day 1/hourly/1-2b902f8911e81818f8c99d5d5d983195-0.parquet",
        "row_group": None,
        "column": "time_hour",
        "bound_type": "timestamp[ms, tz=UTC]",
        "null_count": 0,
        "min": "2013-06-30T00:00:00.000Z",
        "max": "2013-06-30T02:00:00.000Z",
        "min_exact": True,
        "max_exact": True,
        "no_nan": False,
        "bloom_bytes": rows[3]["bloom_bytes"],
    }
    text = list(csv.DictReader(io.StringIO(cli(*args, "-o", "csv").out)))
    assert [row["max"] for row in text[:3]] == ["2", "EWR", "62.5"]
    groups = cli("files", weather, "weather", "hourly", "--row-groups")
    assert "(no statistics)" in groups.out, "each file has one row group"


def test_statistics_of_row_groups_and_of_every_type(cli, tmp_path):
    import datetime as dt
    import decimal

    import pyarrow.parquet as pq

    values = {
        "flag": pa.array([True, False]),
        "small": pa.array([1, -2], pa.int8()),
        "large": pa.array([1, 2**64 - 1], pa.uint64()),
        "real": pa.array([0.5, -1.5], pa.float32()),
        "text": pa.array(["a" * 100, "b" * 100]),
        "raw": pa.array([b"\1", b"\2"]),
        "price": pa.array([decimal.Decimal("1.50"), decimal.Decimal("-2.25")]),
        "day": pa.array([dt.date(2013, 1, 1), dt.date(2013, 1, 2)]),
        "clock": pa.array([1, 2], pa.time32("ms")),
        "plain": pa.array([0, 1_000_001], pa.timestamp("us")),
    }
    url = str(tmp_path / "lake")
    with lakelog.open_catalog(url).writer("W", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"x": [1]}))
        path = tmp_path / "lake/W/db/data/own/two.parquet"
        path.parent.mkdir(parents=True)
        table = pa.table(values)
        pq.write_table(table, path, row_group_size=1, store_decimal_as_integer=True)
        with writer.transaction() as tx:
            add_own(tx, "all", "data/own/two.parquet")
    rows = cli("files", url, "db", "all", "--statistics", "-o", "json").json["statistics"]
    found = {row["column"]: (row["min"], row["max"]) for row in rows}
    text = found.pop("text")
    assert found == {
        "flag": (False, True),
        "small": (-2, 1),
        "large": (1, 2**64 - 1),
        "real": (-1.5, 0.5),
        "raw": ("AQ==", "Aw=="),  # another program's maximum may be cut
        "price": ("-2.25", "1.50"),
        "day": ("2013-01-01", "2013-01-02"),
        "clock": ("00:00:00.001", "00:00:00.002"),
        "plain": ("1970-01-01T00:00:00.000000", "1970-01-01T00:00:01.000001"),
    }
    assert text[0] == "a" * 64
    assert text[1] > "b" * 60
    shown = cli("files", url, "db", "all", "--statistics").out
    assert f"{'a' * 64}~" in shown, "a bound that no row need have"
    groups = cli("files", url, "db", "all", "--row-groups", "-o", "json").json["statistics"]
    small = [(row["row_group"], row["min"]) for row in groups if row["column"] == "small"]
    assert small == [(0, 1), (1, -2)]


def test_a_table_that_lost_all_its_files(cli, own_weather):
    catalog = lakelog.open_catalog(own_weather)
    (path,) = catalog.snapshot("weather").files("stations").column("path").to_pylist()
    with catalog.writer("JFK", "weather") as writer, writer.transaction() as tx:
        tx.remove(path)
    assert "(no files)" in cli("files", own_weather, "weather", "stations").out
    assert cli("files", own_weather, "weather", "stations", "-o", "json").json["files"] == []
    assert cli("scan", own_weather, "weather", "stations").out == "(no rows)\n"
    assert cli("schema", own_weather, "weather", "stations").code == 0
    assert cli("scan", own_weather, "weather", "stations", "-o", "csv").out == "id,name\n"


def test_names_of_any_script_and_control_characters(cli, tmp_path):
    name = "tempé 温度\x1b[2J"
    with lakelog.open_catalog(str(tmp_path)).writer("W", "db") as w, w.transaction() as tx:
        tx.write(name, pa.table({"ä": ["\x1b]0;title\x07"]}), partition="日/月")
    for args in (["tables"], ["files", name], ["schema", name], ["scan", name], ["show"], ["log"]):
        command, *table = args
        result = cli(command, tmp_path, "db", *table)
        assert result.code == 0
        assert "\x1b" not in result.out
        assert "\x07" not in result.out
    assert cli("tables", tmp_path, "db", "-o", "json").json["tables"][0]["table"] == name
    assert cli("files", tmp_path, "db", name, "-o", "json").json["files"][0]["partition"] == "日/月"


def test_a_token_may_bring_white_space(cli, weather):
    token = cli("tables", weather, "weather").out.split()[-1]
    assert cli("tables", weather, "weather", "--as-of", f" {token}\n").code == 0


def test_help_says_that_an_emptied_table_stays_in_the_list(cli):
    assert "without live files" in cli("tables", "--help").out
