"""A writer that is open while others change its table: what doesn't conflict commits, and no
refusal repeats. What was committed before a transaction began is seen by it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lakelog import Catalog, open_catalog
from lakelog.catalog.ambient import SYSTEM
from lakelog.errors import (
    ColumnsChanged,
    ConflictError,
    FencedError,
    InputRemoved,
    OperationConflict,
    SchemaConflict,
)
from lakelog.testing.counting import CountingStore

if TYPE_CHECKING:
    from pathlib import Path

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
    tx = writer.transaction()
    catalog.evolve("db", "t", **change)
    tx.write("t", pa.table({"k": [3], "c": [3.0]}))
    with pytest.raises(ColumnsChanged):
        tx.commit()
    with pytest.raises(SchemaConflict), writer.transaction() as tx:
        tx.write("t", pa.table({"k": [3], "c": [3.0]}))
    assert len(catalog.snapshot("db").to_arrow("t")) == 2


def test_a_column_that_was_dropped_and_came_again_is_another_one(catalog: Catalog) -> None:
    writer = opened(catalog)
    new = pa.table({"k": [3], "c": [3.0]})
    tx = writer.transaction()
    catalog.evolve("db", "t", drop=["c"], add={"c": pa.float64()})
    tx.write("t", new)
    with pytest.raises(ColumnsChanged):
        tx.commit()
    with writer.transaction() as tx:
        tx.write("t", new)
    assert [row["c"] for row in rows(catalog)] == [None, None, 3.0]


def test_two_writers_of_one_new_column(catalog: Catalog) -> None:
    """Both give it the next id; the second goes by what the first has made of it."""
    writer = opened(catalog)
    new = pa.table({"k": [3], "m": [1]})
    tx = writer.transaction()
    catalog.evolve("db", "t", add={"n": pa.string()})
    tx.write("t", new)
    with pytest.raises(ColumnsChanged):
        tx.commit()
    with writer.transaction() as tx:
        tx.write("t", new)
    assert rows(catalog)[-1] == {"k": 3, "c": None, "n": None, "m": 1}


# --- What was committed before a transaction began ------------------------------------------------

CALLS = ["overwrite", "rewrite", "upsert", "row_delta", "write", "delete"]


def call(tx: Any, name: str, paths: list[str]) -> None:
    """Runs one operation with data for the columns that `changed` leaves."""
    new = pa.table({"k": [3], "c": [date(2026, 1, 1)]})
    same = pa.table({"k": [1, 2, 9], "c": pa.array([None, None, None], pa.date32())})
    calls: dict[str, Any] = {
        "overwrite": lambda: tx.overwrite("t", new, "k >= 100", validate=False),
        "rewrite": lambda: tx.rewrite("t", paths, same),
        "row_delta": lambda: tx.row_delta("t", new, "k = 1"),
        "delete": lambda: tx.delete("t", "c = DATE '2026-01-01'"),
        "upsert": lambda: tx.upsert("t", new, key=["k"]),
        "write": lambda: tx.write("t", new),
    }
    calls[name]()


def changed(catalog: Catalog) -> list[str]:
    """A guest writes a row, a column goes and one of its name comes, of another type. Returns the
    paths of the table's files."""
    with catalog.writer("w", "db", shared=True) as guest, guest.transaction() as tx:
        tx.write("t", pa.table({"k": [9], "c": [9.0]}))
    catalog.evolve("db", "t", drop=["c"], add={"c": pa.date32()})
    return catalog.snapshot("db").files("t").column("path").to_pylist()


@pytest.mark.parametrize("name", CALLS)
def test_an_open_writer_sees_what_others_committed_before(catalog: Catalog, name: str) -> None:
    writer = opened(catalog)
    paths = changed(catalog)
    with writer.transaction() as tx:
        call(tx, name, paths)
    wanted = {"rewrite": [1, 2, 9], "delete": [1, 2, 9], "row_delta": [2, 3, 9]}
    assert [row["k"] for row in rows(catalog)] == wanted.get(name, [1, 2, 3, 9])


@pytest.mark.parametrize("name", CALLS)
def test_no_refusal_of_old_columns_repeats(catalog: Catalog, name: str) -> None:
    writer = opened(catalog)
    tx = writer.transaction()
    paths = changed(catalog)
    try:
        call(tx, name, paths)
        tx.commit()
    except (ConflictError, SchemaConflict):
        tx.discard()
        with writer.transaction() as again:
            call(again, name, paths)
    wanted = {"rewrite": [1, 2, 9], "delete": [1, 2, 9], "row_delta": [2, 3, 9]}
    assert [row["k"] for row in rows(catalog)] == wanted.get(name, [1, 2, 3, 9])


def test_a_restore_is_seen_by_a_writer_that_is_open(catalog: Catalog) -> None:
    writer = opened(catalog)
    before = catalog.snapshot("db").token
    with writer.transaction() as tx:
        tx.delete("t", "k = 1")
    catalog.restore("db", "t", to=before, execute=True)
    with writer.transaction() as tx:
        tx.overwrite("t", pa.table({"k": [1], "c": [7.0]}), "k = 1")
    assert rows(catalog) == [{"k": 1, "c": 7.0}, {"k": 2, "c": 2.0}]


def test_an_owner_that_was_taken_over_learns_it_before_it_writes(catalog: Catalog) -> None:
    writer = opened(catalog)
    with catalog.writer("w", "db") as other, other.transaction() as tx:
        tx.write("t", pa.table(FIRST))
    with pytest.raises(FencedError):
        writer.transaction()


@pytest.mark.parametrize("absorbed", [False, True])
def test_what_is_read_in_a_transaction_and_written_back_loses_no_update(
    catalog: Catalog, absorbed: bool
) -> None:
    """Not even if the same writer has read the other's commit meanwhile, for another thread."""
    writer = opened(catalog)
    tx = writer.transaction()
    total = sum(catalog.snapshot("db").to_arrow("t").column("c").to_pylist())
    with catalog.writer("w", "db", shared=True) as guest, guest.transaction() as other:
        other.write("t", pa.table({"k": [9], "c": [9.0]}))
    if absorbed:
        with writer.transaction() as own:
            own.write("u", pa.table({"k": [1]}))
    tx.overwrite("t", pa.table({"k": [0], "c": [total]}))
    with pytest.raises(OperationConflict):
        tx.commit()
    assert [row["k"] for row in rows(catalog)] == [1, 2, 9]


NARROW = [
    (
        "the row is overwritten",
        lambda tx: tx.overwrite("t", pa.table({"k": [1], "c": [9.0]}), "k = 1"),
    ),
    ("all rows are", lambda tx: tx.overwrite("t", pa.table({"k": [7], "c": [7.0]}))),
    ("it is deleted", lambda tx: tx.delete("t", "k = 1", mode="rows")),
    ("it is updated", lambda tx: tx.update("t", {"c": 9.0}, "k = 1")),
]


@pytest.mark.parametrize("came_meanwhile", [False, True])
@pytest.mark.parametrize("by_itself", [False, True])
@pytest.mark.parametrize(("what", "change"), NARROW)
def test_a_row_that_was_read_and_is_gone_is_a_conflict(
    catalog: Catalog, what: str, change: Any, by_itself: bool, came_meanwhile: bool
) -> None:
    """Of an overwrite whose predicate looks at the very value, and which meets nothing any more."""
    writer = opened(catalog)
    guest = writer if by_itself else catalog.writer("w", "db", shared=True)
    if not came_meanwhile:
        with guest.transaction() as other:
            other.overwrite("t", pa.table({"k": [1], "c": [8.0]}), "k = 1")
    tx = writer.transaction()
    if came_meanwhile:
        with guest.transaction() as other:
            other.overwrite("t", pa.table({"k": [1], "c": [8.0]}), "k = 1")
    with guest.transaction() as other:
        change(other)
    before = rows(catalog)
    with pytest.raises((OperationConflict, InputRemoved)), tx:
        tx.overwrite("t", pa.table({"k": [1], "c": [8.5]}), "k = 1 AND c = 8", validate=False)
    assert rows(catalog) == before


def test_a_compaction_between_refuses_no_overwrite(catalog: Catalog) -> None:
    writer = opened(catalog)
    tx = writer.transaction()
    catalog.compact("db", min_input_files=1, target_file_size_bytes=1, execute=True)
    with writer.transaction() as other:
        other.write("t", pa.table({"k": [5], "c": [5.0]}), "elsewhere")
    tx.overwrite("t", pa.table({"k": [1], "c": [8.0]}), "k = 1")
    tx.commit()
    assert [row["k"] for row in rows(catalog)] == [1, 2, 5]


def test_threads_that_begin_together_share_their_looks(catalog: Catalog) -> None:
    counting, asked = CountingStore(catalog.store), []

    def monotonic_s() -> float:
        asked.append(None)
        return SYSTEM.monotonic_s()

    ambient = replace(SYSTEM, monotonic_s=monotonic_s)
    writer = Catalog(counting, ambient=ambient).writer("w", "db")
    with writer.transaction() as tx:
        tx.write("t", pa.table(FIRST))
    counting.reset()

    def begin(_: int) -> None:
        writer.transaction().discard()

    with writer._session._guard, ThreadPoolExecutor(16) as pool:
        asked.clear()
        begun = [pool.submit(begin, number) for number in range(16)]
        while len(asked) < 16:  # each has noted when it began, and waits
            time.sleep(0.01)
        writer._session._guard.release()
        for each in begun:
            each.result()
        writer._session._guard.acquire()
    assert counting.reset()["head"] == 1
