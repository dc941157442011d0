"""A writer that is open while others change its table: what doesn't conflict commits, and no
refusal repeats."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lakelog import open_catalog
from lakelog.errors import ColumnsChanged, ConflictError, SchemaConflict

if TYPE_CHECKING:
    from pathlib import Path

    from lakelog import Catalog

FIRST = {"k": [1, 2], "c": [1.0, 2.0]}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return open_catalog(str(tmp_path / "lake"))


def opened(catalog: Catalog) -> Any:
    writer = catalog.writer("w", "db")
    with writer.transaction() as tx:
        tx.write("t", pa.table(FIRST))
    return writer


def rows(catalog: Catalog) -> list[dict[str, Any]]:
    found = catalog.snapshot("db").to_arrow("t").to_pylist()
    return sorted(found, key=lambda row: row["k"])


HARMLESS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"add": {"n": pa.int64()}}, {"c": 3.0, "n": None}),
    ({"add": {"n": pa.int64()}, "default": {"n": 7}}, {"c": 3.0, "n": 7}),
    ({"key": ["k"]}, {"c": 3.0}),
    ({"rename": {"k": "id"}}, {}),
    ({"drop": ["c"]}, {}),
]


@pytest.mark.parametrize(("change", "row"), HARMLESS[:3])
@pytest.mark.parametrize("begun", [False, True])
def test_an_append_goes_with_a_change_that_leaves_its_columns(
    catalog: Catalog, change: dict[str, Any], row: dict[str, Any], begun: bool
) -> None:
    writer = opened(catalog)
    new = pa.table({"k": [3], "c": [3.0]})
    tx = writer.transaction()
    if begun:
        tx.write("t", new)
    catalog.evolve("db", "t", **change)
    if not begun:
        tx.write("t", new)
    tx.commit()
    assert rows(catalog)[-1] == {"k": 3, **row}
    assert len(rows(catalog)) == 3


@pytest.mark.parametrize("change", [each for each, _ in HARMLESS[3:]])
def test_data_for_columns_that_went_is_refused_and_not_lost(
    catalog: Catalog, change: dict[str, Any]
) -> None:
    writer = opened(catalog)
    catalog.evolve("db", "t", **change)
    with pytest.raises(ColumnsChanged), writer.transaction() as tx:
        tx.write("t", pa.table({"k": [3], "c": [3.0]}))
    with pytest.raises(SchemaConflict), writer.transaction() as tx:
        tx.write("t", pa.table({"k": [3], "c": [3.0]}))
    assert len(catalog.snapshot("db").to_arrow("t")) == 2


def test_a_column_that_was_dropped_and_came_again_is_another_one(catalog: Catalog) -> None:
    writer = opened(catalog)
    catalog.evolve("db", "t", drop=["c"], add={"c": pa.float64()})
    new = pa.table({"k": [3], "c": [3.0]})
    with pytest.raises(ColumnsChanged), writer.transaction() as tx:
        tx.write("t", new)
    with writer.transaction() as tx:
        tx.write("t", new)
    assert [row["c"] for row in rows(catalog)] == [None, None, 3.0]


def test_two_writers_of_one_new_column(catalog: Catalog) -> None:
    """Both give it the next id; the second goes by what the first has made of it."""
    writer = opened(catalog)
    catalog.evolve("db", "t", add={"n": pa.string()})
    new = pa.table({"k": [3], "m": [1]})
    with pytest.raises(ColumnsChanged), writer.transaction() as tx:
        tx.write("t", new)
    with writer.transaction() as tx:
        tx.write("t", new)
    assert rows(catalog)[-1] == {"k": 3, "c": None, "n": None, "m": 1}


CALLS = ["overwrite", "rewrite", "upsert", "row_delta", "write", "delete"]


@pytest.mark.parametrize("call", CALLS)
def test_no_refusal_of_old_columns_repeats(catalog: Catalog, call: str) -> None:
    writer = opened(catalog)
    (path,) = catalog.snapshot("db").files("t").column("path").to_pylist()
    catalog.evolve("db", "t", drop=["c"], add={"c": pa.date32()})
    new = pa.table({"k": [3], "c": [date(2026, 1, 1)]})
    same = pa.table({"k": [1, 2], "c": pa.array([None, None], pa.date32())})
    calls: dict[str, Any] = {
        "overwrite": lambda tx: tx.overwrite("t", new, "k >= 100", validate=False),
        "rewrite": lambda tx: tx.rewrite("t", [path], same),
        "row_delta": lambda tx: tx.row_delta("t", new, "k = 1"),
        "delete": lambda tx: tx.delete("t", "c = DATE '2026-01-01'"),
        "upsert": lambda tx: tx.upsert("t", new, key=["k"]),
        "write": lambda tx: tx.write("t", new),
    }
    for attempt in range(2):
        try:
            with writer.transaction() as tx:
                calls[call](tx)
            break
        except ConflictError:
            assert not attempt
    kept = [row["k"] for row in rows(catalog)]
    wanted = {"rewrite": [1, 2], "delete": [1, 2], "row_delta": [2, 3]}
    assert kept == wanted.get(call, [1, 2, 3])
