"""Random tables as other engines meet them, conditions in each engine's own words, and a store that
tells which data files were read."""

from __future__ import annotations

import datetime as dt
import math
import operator
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import lakelog
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from lakelog.testing.counting import CountingStore
from own_files import add_own

UTC = dt.UTC
NAN, INF = math.nan, math.inf
DAY, TIME = dt.date(2024, 2, 27), dt.datetime(2024, 2, 27, 22, 59, 59)
# By the name of a column the types that its files may have.
KINDS = {
    "i": [pa.int8(), pa.int32(), pa.int64()],
    "u": [pa.uint64()],
    "f [°C]": [pa.float32(), pa.float64()],
    "s ü": [pa.string()],
    "50 %": [pa.binary()],
    "d": [pa.date32()],
    "t": [pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")],
    "z": [pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")],
    "oslo": [pa.timestamp("us", "Europe/Oslo")],
    "m": [pa.decimal128(10, 2), pa.decimal128(20, 4)],
    "select": [pa.bool_()],
}
PARTITIONS = ["a[1]", "day 1", "100%", "%25", "Zürich", "*?", ""]
TEXTS = ["", "a", "Zürich", "zß", "\U0001f40d", "￿", "'", "%", "_", "\\", "x" * 80]


def value(name: str, place: int, random_: random.Random) -> Any:
    """One of those that a file holds; files with other numbers hold others."""
    step = random_.randint(0, 2)
    stamp = TIME + dt.timedelta(days=place, milliseconds=step)
    number = random_.choice([float(place), place + 0.5, -0.0, NAN, INF, -INF, float(place)])
    return {
        "i": place + step,
        "u": random_.choice([place, (1 << 63) + place]),
        "f [°C]": number,
        "s ü": random_.choice([f"key{place:02}", *TEXTS[place % len(TEXTS) :][:2]]),
        "50 %": random_.choice([bytes([place]), b"\xff" * 9, b""]),
        "d": DAY + dt.timedelta(days=place + step),
        "t": stamp,
        "z": stamp.replace(tzinfo=UTC),
        "oslo": stamp.replace(tzinfo=UTC),
        "m": Decimal(place * 100 + step).scaleb(-2),
        "select": bool(place % 2),
    }[name]


def rows(random_: random.Random, place: int, count: int, first: int) -> pa.Table:
    """The rows of one file; `row` numbers all of a lake."""
    columns: dict[str, pa.Array] = {"row": pa.array(range(first, first + count), pa.int64())}
    for name, kinds in KINDS.items():
        if random_.random() < 0.15:
            continue
        nulls = random_.choice([0, 0, 0.3, 1])
        drawn = [value(name, place, random_) for _ in range(count)]
        drawn = [None if random_.random() < nulls else each for each in drawn]
        columns[name] = pa.array(drawn, random_.choice(kinds))
    return pa.table(columns)


def fill(root: Any, random_: random.Random, files: int = 7) -> lakelog.Catalog:
    """A lake of two writers with one table `t`: files written, and files taken in as they are."""
    catalog = lakelog.open_catalog(str(root))
    first = 0
    for writer_id in ("w", "x"):
        with catalog.writer(writer_id, "db") as writer:
            for place in random_.sample(range(1, 40), files // 2 + 1):
                count = random_.randint(1, 12)
                data, first = rows(random_, place, count, first), first + count
                with writer.transaction() as tx:
                    if random_.random() < 0.5:
                        tx.write("t", data, partition=random_.choice(PARTITIONS))
                        continue
                    path = f"data/in [{place}]/x %20 {place}.parquet"
                    file = _place(root, writer_id, path)
                    pq.write_table(data, file, row_group_size=random_.choice([2, 100]))
                    add_own(tx, "t", path)
            if random_.random() < 0.5:
                writer.checkpoint()
    return catalog


def _place(root: Any, writer_id: str, path: str) -> Any:
    from lakelog.catalog.format.names import base_folder

    file = root / (base_folder(writer_id, "db") + path)
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


@dataclass(frozen=True)
class Condition:
    """One condition as each engine says it.

    Attributes:
        sql, values: For DuckDB, with parameters.
        polars, arrow: Expressions.
    """

    sql: str
    values: list[Any]
    polars: pl.Expr
    arrow: pc.Expression


OPERATORS = {
    "<": operator.lt, "<=": operator.le, "=": operator.eq, "<>": operator.ne, ">=": operator.ge,
    ">": operator.gt,
}  # fmt: skip


def condition(random_: random.Random, whole: pa.Table, depth: int = 2) -> Condition:
    """A random one over the columns of a table, mostly about values that it holds."""
    form = random_.random()
    if depth and form < 0.5:
        left, right = (condition(random_, whole, depth - 1) for _ in range(2))
        values = [*left.values, *right.values]
        if form < 0.3:
            words = f"({left.sql} and {right.sql})"
            return Condition(words, values, left.polars & right.polars, left.arrow & right.arrow)
        words = f"({left.sql} or {right.sql})"
        return Condition(words, values, left.polars | right.polars, left.arrow | right.arrow)
    if depth and form < 0.6:
        item = condition(random_, whole, depth - 1)
        return Condition(f"(not {item.sql})", item.values, ~item.polars, ~item.arrow)
    return _leaf(random_, whole)


def _leaf(random_: random.Random, whole: pa.Table) -> Condition:
    name = random_.choice([name for name in whole.column_names if name != "row"])
    quoted, column, field = f'"{name}"', pl.col(name), pc.field(name)
    form = random_.random()
    if form < 0.1:
        return Condition(f"({quoted} is null)", [], column.is_null(), field.is_null())
    if form < 0.2:
        return Condition(f"({quoted} is not null)", [], column.is_not_null(), field.is_valid())
    chosen = [value(name, random_.randint(1, 40), random_) for _ in range(random_.randint(1, 3))]
    held = [each for each in whole.column(name).to_pylist() if each is not None]
    if held and random_.random() < 0.7:
        chosen[0] = random_.choice(held)
    kind = whole.schema.field(name).type
    if form < 0.35:
        marks = ", ".join("?" * len(chosen))
        series = pl.from_arrow(pa.array(chosen, kind))
        is_in = pc.is_in(field, value_set=pa.array(chosen, kind))
        return Condition(f"({quoted} in ({marks}))", chosen, column.is_in(series.implode()), is_in)
    if name == "oslo":  # Polars compares with times of this very zone alone
        chosen[0] = chosen[0].astimezone(ZoneInfo("Europe/Oslo"))
    sign = random_.choice(list(OPERATORS))
    compare, literal = OPERATORS[sign], chosen[0]
    return Condition(
        f"({quoted} {sign} ?)",
        [literal],
        compare(column, literal),
        compare(field, pa.scalar(literal, kind)),
    )


class Reads(CountingStore):
    """A store that tells of which data files something was read.

    Attributes:
        opened: Their keys.
        bytes_read: How much of them.
    """

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.opened: set[str] = set()
        self.bytes_read = 0

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        """Count its bytes."""
        found = super().get(key, start=start, end=end)
        self.bytes_read += len(found)
        return found

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        """Note the key."""
        self.opened.add(key)
        return super().open_input(key, size_bytes=size_bytes)


def watched(catalog: lakelog.Catalog) -> tuple[lakelog.Catalog, Reads]:
    """The same catalog by a store that tells what is read."""
    reads = Reads(catalog.store)
    return lakelog.Catalog(reads), reads
