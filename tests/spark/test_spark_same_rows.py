"""Random small tables, random conditions, and damaged files: Spark's own reader by both roads, the
data source, `scan`, and DuckDB over `scan` give the same rows, or an error.

DuckDB's own Parquet reader gives them of sound files. It verifies no checksum, so of damaged files
nothing is asked of it: `test_duckdb.py`. Lakes are others with each commit; a failure shows the
seed.
"""

from __future__ import annotations

import datetime as dt
import random
import re
import shutil
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import duckdb
import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from duck import by_name, of_arrow
from lakelog.spark import native
from own_files import add_own
from seeds import base_seed

LAKES = 2
LONG_LAKES = 50
DAMAGES = 2
CONDITIONS = 5
FLOATS = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 0.5, 1.0, 2.0)
DAYS = tuple(dt.date(1969, 12, 30) + dt.timedelta(each) for each in range(5))
TIMES = tuple(dt.datetime(1969, 12, 31, 23, each, tzinfo=dt.UTC) for each in (0, 30, 59))
# By column: types that files may have of it, and values.
COLUMNS: dict[str, tuple[tuple[pa.DataType, ...], tuple[Any, ...]]] = {
    "v": ((pa.float64(),), FLOATS),
    "f": ((pa.float32(), pa.float64()), FLOATS),
    "h": ((pa.float16(), pa.float32()), FLOATS),
    "n": ((pa.int16(), pa.int32(), pa.int64()), (-2, -1, 0, 1, 2, 100)),
    "m": ((pa.int32(), pa.float64()), (-1, 0, 1)),
    "s": ((pa.string(),), ("", "a", "ab", "b", "é")),
    "b": ((pa.bool_(),), (True, False)),
    "d": ((pa.date32(),), DAYS),
    "x": ((pa.struct({"y": pa.float64()}),), tuple({"y": each} for each in FLOATS)),
    "e": ((pa.decimal128(6, 2), pa.decimal128(12, 4)), tuple(map(Decimal, ("-1.5", "0", "2.25")))),
    "t": ((pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")), TIMES),
    "l": ((pa.list_(pa.float64()),), ([], [None], [float("nan"), -0.0])),
    "k": ((pa.map_(pa.string(), pa.int32()),), ([], [("a", 1), ("b", None)])),
}


class Lake:
    """Some files of one table, own and foreign ones."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.url = str(folder)
        self.rows: list[dict[str, Any]] = []
        landing = folder / "w/db/data/in"
        landing.mkdir(parents=True)
        catalog = lakelog.open_catalog(self.url)
        # All columns are there, whatever the other files lack.
        tables = [self._table(COLUMNS)]
        tables += [self._table(self._some(COLUMNS)) for _ in range(self.draw.randint(1, 2))]
        with catalog.writer("w", "db") as writer:
            for number, table in enumerate(tables):
                with writer.transaction() as tx:
                    if self.draw.random() < 0.5:
                        tx.write("t", table)
                    else:
                        self._foreign(landing / f"{number}.parquet", table)
                        add_own(tx, "t", f"data/in/{number}.parquet")
        self.snapshot = catalog.snapshot("db")
        self.files = [folder / part.key for part in self.snapshot.file_parts("t")]

    def _some(self, names: Any) -> list[str]:
        return [name for name in names if self.draw.random() < 0.6]

    def _table(self, names: Any) -> pa.Table:
        count = self.draw.randint(1, 20)
        start = len(self.rows)
        columns = {"id": pa.array(range(start, start + count), pa.int64())}
        for name in names:
            kinds, values = COLUMNS[name]
            few = self.draw.sample(values, self.draw.randint(1, len(values)))
            drawn = [self.draw.choice([*few, None]) for _ in range(count)]
            columns[name] = pa.array(drawn, self.draw.choice(kinds))
        table = pa.table(columns)
        empty = dict.fromkeys(COLUMNS)
        self.rows += [empty | row for row in table.to_pylist()]
        return table

    def _foreign(self, path: Path, table: pa.Table) -> None:
        # Of lists in pages of one value Arrow 26 can't read back what it wrote itself.
        is_plain = not {"l", "k"} & {*table.column_names}
        pq.write_table(
            table,
            path,
            row_group_size=self.draw.randint(1, 20),
            data_page_size=self.draw.choice([1 if is_plain else 1 << 20, 1 << 20]),
            use_dictionary=self.draw.random() < 0.5,
            write_page_index=self.draw.random() < 0.5,
            write_page_checksum=True,
        )

    def condition(self, depth: int = 2) -> str:
        """One in Spark's SQL."""
        kind = self.draw.random()
        if depth and kind < 0.2:
            return f"not ({self.condition(depth - 1)})"
        if depth and kind < 0.5:
            join = self.draw.choice(["and", "or"])
            return f"({self.condition(depth - 1)}) {join} ({self.condition(depth - 1)})"
        name = self.draw.choice(list(COLUMNS))
        column = "x.y" if name == "x" else name
        if kind < 0.6 or name in {"l", "k"}:
            return f"{column} is {self.draw.choice(['', 'not '])}null"
        values = [_literal(each) for each in COLUMNS[name][1]]
        if kind < 0.7:
            return f"{column} in ({', '.join(self.draw.sample(values, 2))})"
        operator = self.draw.choice(["<", "<=", "=", "<=>", ">=", ">", "<>"])
        return f"{column} {operator} {self.draw.choice(values)}"

    def by_read(self, spark: Any) -> Any:
        return lakelog.spark.read(spark, self.url, "db", "t")

    def by_source(self, spark: Any) -> Any:
        lakelog.spark.register(spark)
        reader = spark.read.format("lakelog").option("database", "db").option("table", "t")
        return reader.option("native", "false").load(self.url)

    def by_format(self, spark: Any) -> Any:
        return spark.read.format("lakelog").options(database="db", table="t").load(self.url)

    def by_duckdb(self) -> pa.Table:
        return of_arrow(self.snapshot.scan("t"))

    def duckdb_ids(self, conditions: list[str]) -> dict[str, list[int]]:
        """What DuckDB finds for conditions in Spark's SQL. It reads all rows first: its reader of
        Parquet gives too many for `IS NULL` where pages are tiny (2.0.0)."""
        rows = by_name(self.snapshot.files("t")["url"].to_pylist())
        connection = duckdb.connect()
        connection.register("rows_read", rows)
        connection.execute("CREATE TABLE all_rows AS FROM rows_read")
        found = {}
        for text in conditions:
            own = re.sub(r"double\('([^']*)'\)", r"'\1'::double", text)
            own = own.replace("<=>", "is not distinct from").replace("timestamp '", "timestamptz '")
            met = connection.execute(f"SELECT id FROM all_rows WHERE {own} ORDER BY id").fetchall()
            found[text] = [each for (each,) in met]
        return found

    def damage(self) -> tuple[Path, str]:
        """Do something to one of the files: which, and what was done."""
        file = self.draw.choice(self.files)
        body = bytearray(file.read_bytes())
        other = self.draw.choice(self.files).read_bytes()
        what = self.draw.choice(["bit", "bit", "bit", "cut", "more", "other"])
        if what == "bit":
            bit = self.draw.randrange(8 * len(body))
            body[bit // 8] ^= 1 << bit % 8
            what = f"bit {bit}"
        elif what == "cut":
            del body[self.draw.randrange(len(body)) :]
        elif what == "more":
            body += other
        else:
            body[:] = other
        file.write_bytes(body)
        return file, what


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        value = value["y"]
    if isinstance(value, float):
        return f"double('{value}')"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dt.datetime):
        return f"timestamp '{value.isoformat(' ')}'"
    return f"date '{value}'" if isinstance(value, dt.date) else repr(value)


def ids(frame: Any, conditions: list[str]) -> dict[str, list[int]]:
    """The rows that meet each condition, in one query."""
    from pyspark.sql import functions as F

    found = [frame.where(text).select(F.lit(text).alias("by"), "id") for text in conditions]
    result: dict[str, list[int]] = {text: [] for text in conditions}
    for row in reduce(lambda a, b: a.union(b), found).collect():
        result[row.by].append(row.id)
    return {text: sorted(each) for text, each in result.items()}


def judged(frame: Any, conditions: list[str]) -> dict[str, list[int]]:
    """The same, with nothing that could be pushed into a reader."""
    rows = frame.selectExpr("id", *conditions).collect()
    return {
        text: sorted(row[0] for row in rows if row[1 + at]) for at, text in enumerate(conditions)
    }


def alike(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order and a form in which NaN equals itself; integers may have become floats, and
    decimals and times have more digits, or UTC another name."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(each) for each in value]
        if isinstance(value, Decimal):
            return f"{value:.9f}"
        if isinstance(value, dt.datetime):
            return value.astimezone(dt.UTC).isoformat()
        return float(value) if isinstance(value, (int, float)) else value

    texts = ({name: plain(value) for name, value in sorted(row.items())} for row in rows)
    return sorted(map(repr, texts))


@pytest.mark.slow("four roads by Spark, each compiled for a table of its own; DuckDB takes 0.1 s")
@pytest.mark.parametrize("number", range(LAKES))
def test_all_roads_give_the_same_rows_or_an_error(spark, tmp_path, monkeypatch, settings, number):
    run(spark, tmp_path, monkeypatch, settings, base_seed() * LAKES + number)


@pytest.mark.long
@pytest.mark.parametrize("number", range(LONG_LAKES))
def test_all_roads_at_length(spark, tmp_path, monkeypatch, settings, number):
    run(spark, tmp_path, monkeypatch, settings, -base_seed() * LONG_LAKES - number)


def run(spark: Any, tmp_path: Path, monkeypatch: Any, settings: Any, seed: int) -> None:
    lake = Lake(tmp_path / "lake", seed)
    for what in ("Missing", "Corrupt"):
        settings(f"spark.sql.files.ignore{what}Files", True)
    want = alike(lake.rows)
    conditions = list({lake.condition(): None for _ in range(CONDITIONS)})
    met = judged(lake.by_source(spark), conditions)
    roads = {
        "scan": lambda: lake.snapshot.to_arrow("t"),
        "source": lambda: lake.by_source(spark).toArrow(),
        "format": lambda: lake.by_format(spark).toArrow(),
        "file index": lambda: lake.by_read(spark).toArrow(),
        "paths": lambda: lake.by_read(spark).toArrow(),
        "duckdb": lake.by_duckdb,
    }
    for name, road in roads.items():
        monkeypatch.setenv(native.FILE_INDEX_SWITCH, "off" if name == "paths" else "")
        assert alike(road().to_pylist()) == want, (seed, name)
        if name in {"format", "file index", "paths"}:
            frame = lake.by_format(spark) if name == "format" else lake.by_read(spark)
            found = ids(frame, conditions)
            wrong = {text: found[text] for text in conditions if found[text] != met[text]}
            assert not wrong, (seed, name, {text: met[text] for text in wrong})
    assert alike(by_name(lake.snapshot.files("t")["url"].to_pylist()).to_pylist()) == want, seed
    assert lake.duckdb_ids(conditions) == met, seed
    for _ in range(DAMAGES):
        shutil.copytree(lake.url, tmp_path / "copy")
        file, what = lake.damage()
        for name, road in roads.items():
            monkeypatch.setenv(native.FILE_INDEX_SWITCH, "off" if name == "paths" else "")
            try:
                found_rows = alike(road().to_pylist())
            except Exception:
                continue
            assert found_rows == want, (seed, name, file.name, what)
        shutil.copy(tmp_path / "copy" / file.relative_to(lake.url), file)
        shutil.rmtree(tmp_path / "copy")
