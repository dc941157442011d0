"""`check --level data` names each footer that the values of its file contradict."""

from __future__ import annotations

import shlex
import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footer_edit import MAX_VALUE, MIN_VALUE, NULL_COUNT, OLD_MAX, OLD_MIN, edited
from lakelog.cli.main import main
from lakelog.rebuild.check import check
from lakelog.rebuild.repair import plan_repair

if TYPE_CHECKING:
    from pathlib import Path


def added(tmp_path: Path, path: Path, **options: Any) -> lakelog.Catalog:
    catalog = lakelog.open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.add("t", str(path), **options)
        tx.write("t", pa.table({"n": [7]}))
    return catalog


def int64(number: int) -> bytes:
    return struct.pack("<q", number)


NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIES: list[tuple[str, str, Any, dict[int, Any], list[str]]] = [
    ("error", "a writer", [1, None, 4], {MIN_VALUE: int64(2), MAX_VALUE: int64(9)},
     ["'x' of row group 0: its least value is 1, the footer says 2"]),
    ("error", "a writer", [1, None, 4], {MIN_VALUE: int64(0), MAX_VALUE: int64(3), NULL_COUNT: 0},
     ["its greatest value is 4, the footer says 3", "its number of nulls is 1, the footer says 0"]),
    ("error", "a writer", ["ä", "z"], {MIN_VALUE: b"a", MAX_VALUE: b"z"},
     ["its greatest value is ä, the footer says z"]),
    ("error", "a writer", pa.array([NOW], pa.timestamp("ms", "Europe/Oslo")),
     {MIN_VALUE: int64(0), MAX_VALUE: int64(1)},
     ["its greatest value is 2026-01-01 00:00:00+00:00, the footer says 1970-01-01 00:00:00.001"]),
    ("note", "a writer", [1, None, 4], {NULL_COUNT: 3}, ["its number of nulls is 1"]),
    ("note", "Polars", pa.array([1, 1 << 63], pa.uint64()),
     {MIN_VALUE: int64(1), MAX_VALUE: int64(1)}, ["its greatest value is 9223372036854775808"]),
    ("note", "parquet-mr version 1.8.1", pa.array([Decimal(1), Decimal(2)], pa.decimal128(25, 2)),
     {OLD_MIN: (200).to_bytes(11, "big"), OLD_MAX: (200).to_bytes(11, "big")},
     ["its least value is 1.00, the footer says 2.00"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("severity", "created_by", "values", "wrong", "says"), LIES, ids=[str(x[3]) for x in LIES]
)
def test_a_wrong_footer(
    tmp_path: Path, severity: str, created_by: str, values: Any, wrong: Any, says: list[str]
) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": values, "n": list(range(len(values)))}), path)
    edited(path, wrong, created_by=created_by, typed=OLD_MIN not in wrong)
    catalog = added(tmp_path, path)
    assert not check(catalog, level="footers").findings
    (finding,) = check(catalog, level="data").findings
    assert (finding.severity, finding.object, finding.table) == (severity, path.as_uri(), "t")
    for text in says:
        assert text in finding.problem
    assert ("--no-statistics" in finding.command) == (severity == "error")
    assert not plan_repair(catalog, report=check(catalog, level="data")).steps


def test_what_the_command_says_cures_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x 1.parquet"
    pq.write_table(pa.table({"x": [1, 4], "n": [0, 1]}), path)
    edited(path, {MIN_VALUE: int64(10), MAX_VALUE: int64(20)}, created_by="a writer")
    catalog = added(tmp_path, path)
    url = str(tmp_path / "lake")
    assert main(["check", url, "--level", "data"]) == 1
    assert "--no-statistics" in capsys.readouterr().out
    (finding,) = check(catalog, level="data").findings
    for text in finding.command.split("`")[1::2]:
        words = [url if word == "URL" else word for word in shlex.split(text)]
        assert main(words[1:]) == 0, words
    assert main(["check", url, "--level", "data"]) == 0
    assert catalog.snapshot("db").to_arrow("t", where="x = 1")["n"].to_pylist() == [0]


RIGHT: dict[str, Any] = {
    "i": pa.array([-1, None, 3], pa.int8()), "u": pa.array([1, 255, None], pa.uint8()),
    "f": pa.array([float("nan"), 1.5, -0.0]), "s": ["a" * 200, "ü" * 100, ""],
    "b": [b"\xff" * 70, b"", None], "d": pa.array([0, 1, None], pa.date32()),
    "t": pa.array([NOW] * 3, pa.timestamp("ns", "UTC")), "y": pa.array([0, 1, 2], pa.time64("us")),
    "o": [True, None, True],
    "m": pa.array([Decimal("-1.5"), None, Decimal(2)], pa.decimal128(20, 2)),
    "c": pa.array(["x", "y", None]).dictionary_encode(), "l": [[1], None, []],
    "z": pa.array([{"q": 1}, None, {"q": None}]),
    "e": pa.nulls(3), "h": pa.array([1, 2, 3], pa.float16()),
}  # fmt: skip


@pytest.mark.parametrize("writer", ["pyarrow", "polars", "duckdb"])
def test_a_right_footer(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({name: pa.array(v) if isinstance(v, list) else v for name, v in RIGHT.items()})
    if writer == "pyarrow":
        pq.write_table(table, path, row_group_size=2)
    elif writer == "polars":
        import polars as pl

        pl.from_arrow(table.drop_columns(["e", "h"])).write_parquet(path)
    else:
        import duckdb

        rows = table.drop_columns(["e", "h"])
        assert rows.num_rows
        duckdb.sql(f"COPY rows TO '{path}' (FORMAT parquet)")
    assert not check(added(tmp_path, path), level="data").findings
