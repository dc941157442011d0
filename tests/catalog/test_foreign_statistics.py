"""Files whose statistics another program wrote, and got wrong: no read loses a row by those that
are known to be wrong, and no change loses one by any."""

from __future__ import annotations

import struct
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footer_edit import MAX_VALUE, MIN_VALUE, NULL_COUNT, OLD_MAX, OLD_MIN, edited
from lakelog import open_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from lakelog import Catalog

MR_1_8 = "parquet-mr version 1.8.1 (build 4aba4da)"
MR_1_12 = "parquet-mr version 1.12.3 (build 1)"


def added(tmp_path: Path, path: Path, **options: Any) -> Catalog:
    catalog = open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.add("t", path, **options)
    return catalog


def numbers(catalog: Catalog, where: str | None = None) -> list[int]:
    return sorted(catalog.snapshot("db").to_arrow("t", where=where)["n"].to_pylist())


def changed(catalog: Catalog, change: Any) -> list[int]:
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        change(tx)
    return numbers(catalog)


def table(values: Any, **others: Any) -> pa.Table:
    return pa.table({"x": values, "n": list(range(len(values))), **others})


def int64(number: int) -> bytes:
    return struct.pack("<q", number)


# --- What is known to be wrong skips nothing ------------------------------------------------------


@pytest.mark.parametrize("fields", [(OLD_MIN, OLD_MAX), (MIN_VALUE, MAX_VALUE)])
@pytest.mark.parametrize(
    ("precision", "size", "created_by"),
    [(25, 11, MR_1_8), (38, 16, None), (13, 6, "parquet-cpp version 1.5.1")],
)
def test_decimals_in_bytes(
    tmp_path: Path, precision: int, size: int, fields: tuple[int, int], created_by: str | None
) -> None:
    """Compared as unsigned bytes from the wrong end, -1.00 is the greatest."""
    path = tmp_path / "x.parquet"
    cents = [100, 200, 2400, -100]
    kind = pa.decimal128(precision, 2)
    values = pa.array([Decimal(each).scaleb(-2) for each in cents], kind)
    pq.write_table(table(values), path)
    least, greatest = (number.to_bytes(size, "big", signed=True) for number in (200, 2400))
    low, high = fields
    edited(path, {low: least, high: greatest}, created_by=created_by, typed=low == MIN_VALUE)
    catalog = added(tmp_path, path)
    assert numbers(catalog, "x = 1") == [0]
    assert numbers(catalog, "x < 2") == [0, 3]
    assert numbers(catalog, "x > 20") == [2]
    duck = catalog.snapshot("db").to_duckdb()
    assert duck.execute("SELECT n FROM t WHERE x = -1").fetchall() == [(3,)]
    lazy = catalog.snapshot("db").to_polars("t").filter(pl.col("x") == Decimal("1.00"))
    assert lazy.collect()["n"].to_list() == [0]


@pytest.mark.parametrize(
    ("nulls", "created_by"),
    [
        (0, "parquet-cpp-arrow version 4.0.1"), (1, None), (3, "Polars"), (4, None), (5, "Polars"),
        (-1, "parquet-go version 18.4.0"),
    ],
)  # fmt: skip
def test_null_counts(tmp_path: Path, nulls: int, created_by: str | None) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(table([5, None, 7, None]), path)
    edited(path, {NULL_COUNT: nulls}, created_by=created_by)
    catalog = added(tmp_path, path)
    assert numbers(catalog, "x IS NULL") == [1, 3]
    assert numbers(catalog, "x IS NOT NULL") == [0, 2]
    assert numbers(catalog, "x = 7") == [2]
    assert numbers(catalog, "NOT (x = 7)") == [0]
    duck = catalog.snapshot("db").to_duckdb()
    assert duck.execute("SELECT count(*) FROM t WHERE x IS NULL").fetchall() == [(2,)]


def test_null_counts_as_polars_writes_them(tmp_path: Path) -> None:
    """Polars multiplies it by the number of pages."""
    path = tmp_path / "x.parquet"
    frame = pl.DataFrame({"x": [None, "x"], "n": [0, 1]})
    frame.write_parquet(path, data_page_size=1)
    catalog = added(tmp_path, path)
    assert numbers(catalog, "x IS NOT NULL") == [1]
    assert numbers(catalog, "x = 'x'") == [1]


WRONG: list[tuple[str, Any, bytes, bytes, str, list[int]]] = [
    ("parquet-cpp-arrow version 10.0.1", ["r", "s", "a", "z"], b"a", b"s", "x = 'z'", [3]),
    ("parquet-cpp version 1.5.1-SNAPSHOT", ["r", "s", "a", "z"], b"a", b"s", "x = 'z'", [3]),
    (
        "Parquet.Net v6.0.3 (build 0)",
        pa.array([datetime(2026, 1, 1), datetime(2026, 1, 2)], pa.timestamp("us")),
        int64(1_767_225_600_000), int64(1_767_312_000_000),
        "x >= TIMESTAMP '2026-01-01 00:00:00'", [0, 1],
    ),
    (
        "Polars", pa.array([1, 1 << 63], pa.uint64()),
        int64(-(1 << 63)), int64(1), "x = 9223372036854775808", [1],
    ),
    (
        "Arrow2 - Native Rust implementation of Arrow",
        [1, 150_000], int64(1), int64(116_508), "x = 150000", [1],
    ),
    (
        "hyparquet", pa.array([Decimal("123.45")], pa.decimal128(6, 2)),
        struct.pack("<f", 123.45), struct.pack("<f", 123.45), "x < 124", [0],
    ),
    (
        "cudf version 24.02.00", pa.array([Decimal("1.50"), Decimal(-7)], pa.decimal128(12, 2)),
        int64(0), int64(0), "x < 1", [1],
    ),
    ("github.com/parquet-go/parquet-go version 0.20.0(build )", ["", "a", "b"], b"b", b"b",
     "x < 'b'", [0, 1]),
    ("github.com/segmentio/parquet-go version (devel)", ["", "b"], b"b", b"b", "x = ''", [0]),
    ("parquet-go version 18.0.0", pa.array([1, 70_000], pa.uint64()), int64(1), int64(1),
     "x > 1", [1]),
    ("", [1, 4], int64(1), int64(2), "x = 4", [1]),
    # Of writers that aren't known to be wrong.
    ("some writer", ["", "b", "c"], b"", b"", "x = 'b'", [1]),
    ("some writer", ["abc", "abz"], b"abc", b"ab", "x = 'abz'", [1]),
    ("some writer", ["a" * 70 + "z"], b"a" * 64, b"a" * 64, f"x = '{'a' * 70}z'", [0]),
    ("some writer", [b"ab\xff\x01"], b"ab", b"ab\xff", "x > 'ab'", [0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("created_by", "values", "low", "high", "where", "found"),
    WRONG, ids=[f"{each[0]}-{each[4][:20]}" for each in WRONG],
)  # fmt: skip
def test_bounds(
    tmp_path: Path,
    created_by: str,
    values: Any,
    low: bytes,
    high: bytes,
    where: str,
    found: list[int],
) -> None:
    path = tmp_path / "x.parquet"
    if isinstance(values, list) and isinstance(values[0], bytes):
        where = "n >= 0"
    pq.write_table(table(values), path, store_decimal_as_integer=True)
    edited(path, {MIN_VALUE: low, MAX_VALUE: high}, created_by=created_by)
    assert numbers(added(tmp_path, path), where) == found


@pytest.mark.parametrize(
    "created_by",
    [
        "parquet-cpp-arrow version 26.0.0", MR_1_12, "Polars", "cudf version 26.06.00",
        "github.com/parquet-go/parquet-go version 0.32.0(build )",
    ],
)  # fmt: skip
def test_bounds_that_are_right_skip(tmp_path: Path, created_by: str) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(table([5, 7], s=["b", "d"]), path)
    edited(path, {}, created_by=created_by)
    snapshot = added(tmp_path, path).snapshot("db")
    assert snapshot.files("t", where="x > 7").num_rows == 0
    assert snapshot.files("t", where="x > 6").num_rows == 1
    assert snapshot.files("t", where="s > 'e'").num_rows == 0


# --- Nothing is deleted, replaced or taken for the holder of a key by them ------------------------


@pytest.fixture
def lying(tmp_path: Path) -> Catalog:
    """Four rows, x from 1 to 4; the footer, of a writer that nobody knows, says 10 to 20."""
    path = tmp_path / "x.parquet"
    pq.write_table(table([1, 2, 3, 4]), path)
    wrong = {MIN_VALUE: int64(10), MAX_VALUE: int64(20), NULL_COUNT: 0}
    edited(path, wrong, created_by="some writer")
    return added(tmp_path, path)


@pytest.mark.parametrize("mode", ["auto", "predicate", "rows"])
@pytest.mark.parametrize("where", ["x >= 10", "x > 3", "x IS NOT NULL AND x > 2", "NOT (x < 9)"])
def test_a_delete_takes_the_rows_that_meet_it(lying: Catalog, where: str, mode: Any) -> None:
    met = {"x >= 10": set(), "x > 3": {3}, "x IS NOT NULL AND x > 2": {2, 3}, "NOT (x < 9)": set()}
    left = sorted({0, 1, 2, 3} - met[where])
    assert changed(lying, lambda tx: tx.delete("t", where, mode=mode)) == left


def test_an_overwrite_leaves_the_other_rows(lying: Catalog) -> None:
    new = pa.table({"x": [11], "n": [9]})
    assert changed(lying, lambda tx: tx.overwrite("t", new, "x > 9")) == [0, 1, 2, 3, 9]


def test_an_upsert_finds_the_row(lying: Catalog) -> None:
    new = pa.table({"x": [2], "n": [9]})
    assert changed(lying, lambda tx: tx.upsert("t", new, key=["x"])) == [0, 2, 3, 9]


@pytest.mark.parametrize("checkpointed", [False, True])
def test_the_key_of_the_table_finds_the_row(lying: Catalog, checkpointed: bool) -> None:
    lying.evolve("db", "t", key=["x"])
    new = pa.table({"x": [2], "n": [9]})
    assert changed(lying, lambda tx: tx.upsert("t", new)) == [0, 2, 3, 9]
    if checkpointed:
        with lying.writer("w", "db") as writer:
            writer.checkpoint()
    assert numbers(lying) == [0, 2, 3, 9]
    assert numbers(lying, "n >= 0") == [0, 2, 3, 9]


def test_all_nulls_that_are_none_are_keys(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(table([1, 2]), path)
    edited(path, {NULL_COUNT: 2}, created_by="some writer")
    catalog = added(tmp_path, path)
    catalog.evolve("db", "t", key=["x"])
    new = pa.table({"x": [2], "n": [9]})
    assert changed(catalog, lambda tx: tx.upsert("t", new)) == [0, 9]


def test_delete_and_update_of_all_writers(lying: Catalog) -> None:
    lying.delete("db", "t", "x >= 10")
    assert numbers(lying) == [0, 1, 2, 3]
    lying.update("db", "t", {"n": "9"}, "x > 2")
    assert numbers(lying) == [0, 1, 9, 9]


def test_partitions_are_known(tmp_path: Path) -> None:
    """What the name of a partition tells lakelog itself took from there."""
    path = tmp_path / "x.parquet"
    pq.write_table(table([1, 2]), path)
    partition = {"partition": "day=5", "partition_by": {"day": pa.int64()}}
    catalog = added(tmp_path, path, **partition)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        done = tx.delete("t", "day = 5")
    assert (done.files_removed, done.tombstones) == (1, 0)


def test_without_statistics(lying: Catalog, tmp_path: Path) -> None:
    assert numbers(lying, "x = 2") == []  # of a writer that nobody knows
    path = tmp_path / "x.parquet"
    with lying.writer("w", "db") as writer, writer.transaction() as tx:
        tx.remove(str(path))
    with lying.writer("w", "db") as writer, writer.transaction() as tx:
        tx.add("t", path, statistics=False)
    assert numbers(lying, "x = 2") == [1]


def test_an_empty_file_without_pages_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "empty.parquet"
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), path)
    catalog = open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.add("t", path)
    assert catalog.check("db", level="data").is_sound
