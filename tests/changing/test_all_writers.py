"""Rows of all writers deleted and updated: a commit in each log that holds such rows, each whole;
what becomes of it where another commit comes first, or one fails."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import duckdb
import lakelog
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import (
    CommitOutcomeUnknown,
    InvalidPredicate,
    InvalidSchema,
    OperationConflict,
    SchemaConflict,
    StorageError,
    TableNotFound,
    UsageError,
    WriterNotFound,
)
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import PassingStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

D = "db"


class Guarded(PassingStore):
    """Refuses to put what `refuses` says; calls `before` before each put of a transaction."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.refuses: Callable[[str], bool] = lambda key: False
        self.before: Callable[[str], None] = lambda key: None

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        if self.refuses(key):
            raise StorageError("the network is gone", key=key)
        if key.endswith(".transaction"):
            self.before(key)
        super().put(key, body, if_absent=if_absent)


@pytest.fixture
def store() -> Guarded:
    return Guarded()


@pytest.fixture
def lake(store: Guarded) -> Catalog:
    """Three logs: `a` and `b` have rows of table t, `c` of another one."""
    catalog = Catalog(store)
    first = {"a": ("t", {"n": [1, 2, 3]}), "b": ("t", {"n": [2, 3, 4], "s": ["x", None, "z"]})}
    for name, (table, data) in {**first, "c": ("u", {"n": [2]})}.items():
        with catalog.writer(name, D) as writer, writer.transaction() as tx:
            tx.write(table, pa.table(data))
    return catalog


def write(catalog: Catalog, writer: str, table: str = "t", **columns: list[Any]) -> None:
    change(catalog, writer, lambda tx: tx.write(table, pa.table(columns)))


def change(catalog: Catalog, writer: str, act: Callable[[Any], Any]) -> None:
    with catalog.writer(writer, D, shared=True) as opened, opened.transaction() as tx:
        act(tx)


def rows(catalog: Catalog, *names: str) -> list[tuple[Any, ...]]:
    found = catalog.snapshot(D).to_arrow("t", list(names) or None).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def heads(catalog: Catalog) -> dict[str, int]:
    return catalog.snapshot(D).cut.revisions


def by_writer(catalog: Catalog) -> dict[str, list[int]]:
    snapshot = catalog.snapshot(D)
    return {
        name: sorted(snapshot.scan("t", ["n"], writer=name).read_all()["n"].to_pylist())
        for name in ("a", "b")
    }


# --- Deletes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "predicate", "rows"])
def test_each_log_with_such_rows_gets_a_commit(lake, mode) -> None:
    before = lake.snapshot(D)
    done = lake.delete(D, "t", "n = 2", mode=mode)
    assert [(one.writer, one.revision) for one in done] == [("a", 1), ("b", 1)]
    assert [one.rows for one in done] == ([1, 1] if mode == "rows" else [None, None])
    assert heads(lake) == {"a": 1, "b": 1, "c": 0}
    assert by_writer(lake) == {"a": [1, 3], "b": [3, 4]}
    assert lake.snapshot(D, before.token).to_arrow("t").num_rows == 6
    write(lake, "b", n=[2])
    assert by_writer(lake)["b"] == [2, 3, 4], "what comes later stays"
    assert [one["operation"] for one in lake.history(D, "a").to_pylist()] == ["append", "delete"]


def test_no_log_is_committed_to_that_holds_no_such_row(lake) -> None:
    assert [one.writer for one in lake.delete(D, "t", "n = 4")] == ["b"]
    assert lake.delete(D, "t", "n > 100") == []
    assert heads(lake) == {"a": 0, "b": 1, "c": 0}


def test_a_plan_commits_nothing(lake) -> None:
    plan = lake.delete(D, "t", "n = 2", execute=False, count=True)
    assert [(one.writer, one.rows, one.revision) for one in plan] == [
        ("a", 1, None),
        ("b", 1, None),
    ]
    plan = lake.update(D, "t", {"n": 9}, "n = 2", execute=False)
    assert [(one.writer, one.files_touched) for one in plan] == [("a", 1), ("b", 1)]
    assert heads(lake) == {"a": 0, "b": 0, "c": 0}


def test_a_column_that_a_log_lacks_is_null_in_its_rows(lake) -> None:
    done = lake.delete(D, "t", "s IS NULL AND n > 1", mode="predicate")
    assert [(one.writer, one.rows, one.tombstones) for one in done] == [("a", 2, 0), ("b", None, 1)]
    assert by_writer(lake) == {"a": [1], "b": [2, 4]}


def test_a_predicate_means_the_same_in_every_log(lake) -> None:
    """It is about the types that the table has in the cut."""
    change(lake, "d", lambda tx: tx.write("t", pa.table({"n": [1 << 40, 2]})))
    change(lake, "e", lambda tx: tx.write("t", pa.table({"n": pa.array([2, 5], pa.int8())})))
    lake.delete(D, "t", "n = 2 OR n = 1099511627776")
    assert rows(lake, "n") == [(1,), (3,), (3,), (4,), (5,)]


def test_writers_that_are_named(lake) -> None:
    assert [one.writer for one in lake.delete(D, "t", "n = 2", writers=["b"])] == ["b"]
    assert by_writer(lake) == {"a": [1, 2, 3], "b": [3, 4]}
    with pytest.raises(WriterNotFound):
        lake.delete(D, "t", "n = 2", writers=["nobody"])


def test_a_key_is_of_all_logs(lake) -> None:
    """A deleted row brings no older one back, of whichever log."""
    lake.evolve(D, "t", key=["n"])
    done = lake.delete(D, "t", "n > 0")
    assert [one.files_removed for one in done] == [0, 0]
    assert rows(lake, "n") == []


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (("nowhere", "n = 2"), TableNotFound),
        (("t", "m = 2"), InvalidPredicate),
        (("t", "n = 'x'"), InvalidPredicate),
        (("t", "n = 2", "fast"), UsageError),
    ],
)
def test_what_can_not_be_deleted(lake, asked, error) -> None:
    table, where, *mode = asked
    with pytest.raises(error):
        lake.delete(D, table, where, **({"mode": mode[0]} if mode else {}))
    assert heads(lake) == {"a": 0, "b": 0, "c": 0}


def test_columns_in_conflict(lake) -> None:
    write(lake, "c", n=["text"])
    with pytest.raises(SchemaConflict):
        lake.delete(D, "t", "n = 2")
    assert heads(lake) == {"a": 0, "b": 0, "c": 1}


# --- Updates --------------------------------------------------------------------------------------


def test_a_new_version_stands_where_the_old_one_stood(lake) -> None:
    before = lake.snapshot(D)
    done = lake.update(D, "t", {"n": pc.add(pc.field("n"), 10), "s": "new"}, "n = 2")
    assert [(one.writer, one.rows, one.revision) for one in done] == [("a", 1, 1), ("b", 1, 1)]
    assert by_writer(lake) == {"a": [1, 3, 12], "b": [3, 4, 12]}
    assert rows(lake, "n", "s")[1:3] == [(12, "new"), (12, "new")]
    for writer in "ab":
        (new,) = (
            lake.snapshot(D).files("t", writer=writer).filter(pc.field("revision") == 1).to_pylist()
        )
        assert new["path"].split("/")[-1].startswith(f"{before._states[0].epoch}-"), "of its epoch"
        (last,) = [s for s in lake.snapshot(D)._states if s.writer == writer]
        assert last.tail[-1].message.guest
    assert lake.snapshot(D, before.token).to_arrow("t").num_rows == 6


def test_an_update_keeps_partitions_and_columns(lake) -> None:
    data = pa.table({"n": [7, 8], "day": ["mon", "tue"], "s": ["p", "q"]})
    change(lake, "a", lambda tx: tx.write("t", data, partition_by=["day"]))
    lake.update(D, "t", {"s": None}, pc.field("n") >= 7)
    found = {row["partition"]: row["row_count"] for row in lake.snapshot(D).files("t").to_pylist()}
    assert {"day=mon", "day=tue"} <= found.keys()
    assert rows(lake, "n", "day", "s")[-2:] == [(7, "mon", None), (8, "tue", None)]
    lake.update(D, "t", {"day": "wed"}, "n >= 7")
    found = {row["partition"] for row in lake.snapshot(D).files("t").to_pylist()}
    assert "day=wed" in found
    assert rows(lake, "n", "day")[-2:] == [(7, "wed"), (8, "wed")]
    assert "day" not in lake.snapshot(D).schema("t", writer="b").names, "nobody set it there"


def test_of_a_table_with_a_key_the_newest_rows_are_updated(lake) -> None:
    lake.evolve(D, "t", key=["n"])
    done = lake.update(D, "t", {"s": "new"}, "n <= 3")
    assert sum(one.rows for one in done) == 3, "each key once"
    assert rows(lake, "n", "s") == [(1, "new"), (2, "new"), (3, "new"), (4, "z")]
    lake.update(D, "t", {"n": 40}, "n = 4")
    assert rows(lake, "n") == [(1,), (2,), (3,), (40,)]


@pytest.mark.parametrize(
    ("values", "where", "error"),
    [
        ({"m": 1}, None, UsageError),
        ({}, None, UsageError),
        ({"n": "x"}, None, InvalidSchema),
        ({"n": 1 << 80}, None, InvalidSchema),
        ({"n": pc.field("s")}, "s = 'x'", InvalidSchema),
        ({"n": pc.field("nothing")}, None, UsageError),
        ({"n": 1}, "m = 2", InvalidPredicate),
    ],
)
def test_what_can_not_be_set(lake, values, where, error) -> None:
    before = rows(lake)
    with pytest.raises(error):
        lake.update(D, "t", values, where)
    assert rows(lake) == before
    assert heads(lake) == {"a": 0, "b": 0, "c": 0}


def test_of_one_writer_within_a_transaction(lake) -> None:
    change(lake, "a", lambda tx: tx.update("t", {"n": 9}, "n >= 2"))
    assert by_writer(lake) == {"a": [1, 9, 9], "b": [2, 3, 4]}

    def twice(tx):
        tx.write("t", pa.table({"n": [5]}))
        tx.update("t", {"n": 6}, "n = 5")

    with pytest.raises(UsageError, match="added files to table 't'"):
        change(lake, "a", twice)
    assert heads(lake)["a"] == 1


# --- Others at the same time ----------------------------------------------------------------------


def once(store: Guarded, writer: str, act: Callable[[], Any], *, times: int = 1) -> list[int]:
    """Do something right before commits to a log."""
    left = [times]

    def before(key: str) -> None:
        if left[0] and key.startswith(f"{writer}/"):
            left[0] -= 1
            kept, store.before = store.before, lambda _: None
            act()
            store.before = kept

    store.before = before
    return left


def test_where_another_one_deleted_rows_first_the_update_looks_again(lake, store) -> None:
    once(store, "b", lambda: change(lake, "b", lambda tx: tx.delete("t", "n = 2", mode="rows")))
    done = lake.update(D, "t", {"n": pc.add(pc.field("n"), 10)}, "n <= 3")
    assert [(one.writer, one.rows) for one in done] == [("a", 3), ("b", 1)]
    assert by_writer(lake) == {"a": [11, 12, 13], "b": [4, 13]}, "a deleted row doesn't come back"


def test_appends_are_no_conflict(lake, store) -> None:
    left = once(store, "a", lambda: write(lake, "a", n=[2]))
    lake.update(D, "t", {"n": 20}, "n = 2")
    assert left == [0]
    assert by_writer(lake) == {"a": [1, 2, 3, 20], "b": [3, 4, 20]}, "it was not looked at again"


def test_of_a_table_with_a_key_appends_are(lake, store) -> None:
    """A newer version of the row may have come."""
    lake.evolve(D, "t", key=["n"])
    once(store, "a", lambda: write(lake, "a", n=[1], s=["newest"]))
    lake.update(
        D, "t", {"s": pc.binary_join_element_wise(pc.field("s"), "!", "")}, "n = 1 OR n = 4"
    )
    assert rows(lake, "n", "s") == [(1, "newest!"), (2, "x"), (3, None), (4, "z!")]


def test_after_five_tries_it_is_refused_and_tells_what_is_done(lake, store) -> None:
    def rewrite() -> None:
        change(lake, "b", lambda tx: tx.write("t", pa.table({"n": [50, 51]})))
        change(lake, "b", lambda tx: tx.delete("t", "n = 50", mode="rows"))

    once(store, "b", rewrite, times=99)
    with pytest.raises(OperationConflict) as raised:
        lake.update(D, "t", {"n": 20}, "n = 2")
    told = str(raised.value)
    assert "The log of 'b'" in told
    assert "Committed in the logs of: 'a' (revision 1); not in those of: b" in told
    assert "writers=['b']" in told
    assert by_writer(lake)["a"] == [1, 3, 20]
    assert 20 not in by_writer(lake)["b"]
    store.before = lambda _: None
    assert [one.writer for one in lake.update(D, "t", {"n": 20}, "n = 2", writers=["b"])] == ["b"]
    assert by_writer(lake)["b"][:3] == [3, 4, 20]


def test_columns_that_change_meanwhile(lake, store) -> None:
    """By then the rows of that log have no such column."""
    once(store, "a", lambda: change(lake, "a", lambda tx: tx.evolve("t", rename={"n": "m"})))
    done = lake.delete(D, "t", "n = 3", mode="predicate")
    assert [one.writer for one in done] == ["b"]
    assert [m for (m,) in rows(lake, "m")] == [1, 2, 3, None, None]


@pytest.mark.parametrize("act", ["delete", "update"])
def test_a_log_that_fails_is_told_with_those_that_are_done(lake, store, act) -> None:
    def run() -> list[Any]:
        if act == "delete":
            return lake.delete(D, "t", "n = 2")
        return lake.update(D, "t", {"n": 20}, "n = 2")

    end = ".transaction" if act == "delete" else ".parquet"
    store.refuses = lambda key: key.startswith("b/") and key.endswith(end)
    with pytest.raises((StorageError, CommitOutcomeUnknown)) as raised:
        run()
    told = "Committed in the logs of: 'a' (revision 1); not in those of: "
    assert told + ("none; unknown of: b" if act == "delete" else "b") in str(raised.value)
    gone = [1, 3] if act == "delete" else [1, 3, 20]
    assert by_writer(lake) == {"a": gone, "b": [2, 3, 4]}
    store.refuses = lambda key: False
    again = [one.writer for one in run()]  # a predicate is kept, whatever is deleted already
    assert again == (["a", "b"] if act == "delete" else ["b"])
    assert by_writer(lake) == {"a": gone, "b": [3, 4] if act == "delete" else [3, 4, 20]}


# --- Whoever reads meanwhile ----------------------------------------------------------------------

UPDATES = """
    import sys, lakelog, pyarrow.compute as pc
    url, first = sys.argv[1], int(sys.argv[2])
    catalog = lakelog.open_catalog(url)
    for number in range(6):
        catalog.update("db", "t", {"v": pc.add(pc.field("v"), 1000)}, f"g = {number % 3}")
        catalog.delete("db", "t", f"id = {first + number}")
    print("done")
"""


@pytest.mark.slow("two processes update rows while others read them")
def test_each_row_is_there_exactly_once_for_whoever_reads(tmp_path: Path) -> None:
    url = str(tmp_path)
    catalog = lakelog.open_catalog(url)
    for place, name in enumerate("abc"):
        with catalog.writer(name, D) as writer:
            for part in range(3):
                ids = [100 * place + 10 * part + one for one in range(10)]
                with writer.transaction() as tx:
                    tx.write("t", pa.table({"id": ids, "v": ids, "g": [one % 3 for one in ids]}))
    wanted = set(catalog.snapshot(D).to_arrow("t")["id"].to_pylist())
    command = [sys.executable, "-c", textwrap.dedent(UPDATES), url]
    processes = [
        subprocess.Popen([*command, first], stdout=subprocess.PIPE, text=True)
        for first in ("0", "100")
    ]
    gone = {*range(6), *range(100, 106)}
    reads = 0
    last: dict[int, int] = {}
    while any(one.poll() is None for one in processes) or not reads:
        found = catalog.snapshot(D).to_arrow("t")
        ids = found["id"].to_pylist()
        assert len(ids) == len(set(ids)), "a row is there twice"
        assert wanted - gone <= set(ids) <= wanted, "a row is missing"
        values = dict(zip(ids, found["v"].to_pylist(), strict=True))
        assert all(value % 1000 == one for one, value in values.items())
        assert all(value >= last.get(one, 0) for one, value in values.items())
        last, reads = values, reads + 1
    assert [one.communicate()[0] for one in processes] == ["done\n", "done\n"]
    final = catalog.snapshot(D).to_arrow("t").to_pylist()
    assert {row["id"]: row["v"] // 1000 for row in final} == {one: 4 for one in wanted - gone}
    assert reads > 3


# --- All together ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_in_all_engines(tmp_path: Path, seed: int) -> None:
    """Against rows in plain Python; keyed tables too."""
    rng, keyed = random.Random(seed), seed % 2 == 1
    catalog = lakelog.open_catalog(str(tmp_path))
    known: dict[int, dict[str, Any]] = {}
    next_id = 0
    for _ in range(14):
        number, value = rng.randrange(5), rng.randrange(100)
        act = rng.choice(["write", "write", "delete", "update", "set"]) if known else "write"
        if act == "write":
            ids = list(range(next_id, next_id + rng.randrange(1, 6)))
            next_id += len(ids)
            if keyed and known:
                ids.append(rng.choice(list(known)))
            data = [{"id": one, "n": rng.choice([*range(5), None]), "v": value} for one in ids]
            change(catalog, rng.choice("abc"), lambda tx, d=data: _put(tx, d, keyed=keyed))
            known |= {row["id"]: row for row in data}
            if keyed and next_id == len(ids):
                catalog.evolve(D, "t", key=["id"])
        elif act == "delete":
            catalog.delete(D, "t", f"n = {number}", mode=rng.choice(["auto", "rows", "predicate"]))
            known = {one: row for one, row in known.items() if row["n"] != number}
        else:
            values = {"v": value} if act == "set" else {"v": pc.multiply(pc.field("v"), 2)}
            catalog.update(D, "t", values, f"n >= {number}")
            for row in known.values():
                if row["n"] is not None and row["n"] >= number:
                    row["v"] = value if act == "set" else row["v"] * 2
        snapshot = catalog.snapshot(D)
        wanted = sorted((row["id"], row["n"], row["v"]) for row in known.values())
        assert _as_rows(snapshot.to_arrow("t")) == wanted
        assert _as_rows(snapshot.to_polars("t").collect().to_arrow()) == wanted
        with duckdb.connect() as connection:
            snapshot.to_duckdb(connection, ["t"])
            assert sorted(connection.sql("select id, n, v from t").fetchall()) == wanted


def _put(tx: Any, data: list[dict[str, Any]], *, keyed: bool) -> None:
    rows = pa.Table.from_pylist(data, pa.schema([(n, pa.int64()) for n in ("id", "n", "v")]))
    tx.write("t", rows)


def _as_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["n"], row["v"]) for row in table.to_pylist())
