"""Deletes of files that DuckDB reads by its own reader: the rows of the stream, in its order, and
those that plain Python leaves."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest
from draw_predicates import Drawn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lakelog import open_catalog
from lakelog.catalog.data import parquet
from lakelog.catalog.engines import bare
from lakelog.errors import InvalidPredicate
from oracle import evaluate
from sample import examples

ROW = "row number"
COUNT = 40
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # a seed can't be made simpler
SETTINGS = (
    "",
    "SET default_collation = 'nocase'",
    "SET binary_as_string = true",
    "SET threads = 1",
)


def drawn_for_duckdb(rng: random.Random) -> Drawn:
    """A table of types that DuckDB's own reader is let read."""
    while True:
        drawn = Drawn(rng, COUNT, rng.choice([1, 2, 3]))
        if all(bare._named(kind) for kind in drawn.table.schema.types):
            return drawn


def by_duckdb(snapshot, asked: str, setting: str, *, own: bool) -> list[tuple]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bare, "LEAST_ROWS", 0 if own else 1 << 60)
        with duckdb.connect() as connection:
            if setting and own:
                connection.execute(setting)
            snapshot.to_duckdb(connection, ["t"])
            plan = connection.execute("explain from t").fetchall()[0][1]
            assert ("ARROW_SCAN" in plan) != own or "Empty Result" in plan, plan
            return connection.execute(asked).fetchall()


def check(rng: random.Random, folder) -> int:
    """A table of two writers with deletes of both kinds; returns how many rows they hid."""
    drawn, catalog = drawn_for_duckdb(rng), open_catalog(str(folder))
    known = drawn.rows()
    left: dict[str, dict[int, dict]] = {"u": {}, "v": {}}
    writers = {name: catalog.writer(name, "db") for name in left}
    first = 0
    for _ in range(rng.choice([3, 6, 9])):
        name = rng.choice("uv")
        if not left[name] or rng.random() < 0.5:
            at = [rng.randrange(COUNT) for _ in range(rng.choice([1, 7, 30]))]
            ids = range(first, first + len(at))
            first += len(at)
            table = drawn.table.take(at).append_column(ROW, pa.array(ids, pa.int64()))
            with writers[name].transaction() as tx:
                tx.write("t", table)
            left[name] |= {one: known[place] for one, place in zip(ids, at, strict=True)}
            continue
        tree, text, _ = drawn.predicate()
        of_all = rng.random() < 0.25
        try:
            if of_all:
                catalog.delete("db", "t", text)
            else:
                with writers[name].transaction() as tx:
                    tx.delete("t", text, mode=rng.choice(["predicate", "rows"]))
        except InvalidPredicate:
            continue  # no file of it has the column
        for rows in left.values() if of_all else [left[name]]:
            for one in [one for one, row in rows.items() if evaluate(tree, row) is True]:
                del rows[one]
    snapshot = catalog.snapshot("db")
    wanted = [one for rows in left.values() for one in sorted(rows)]
    assert snapshot.to_arrow("t")[ROW].to_pylist() == wanted
    if not snapshot.files("t").num_rows:
        return first
    setting = rng.choice(SETTINGS)
    columns = f'"{ROW}", columns(* exclude "{ROW}")::varchar'  # NaN isn't equal to itself
    asked = [f"select {columns} from t", f'select count(*), min("{ROW}"), max("{ROW}") from t']
    low = rng.randrange(first)
    asked.append(f'select {columns} from t where "{ROW}" between {low} and {low + 5}')
    asked.append(f"select {columns} from t limit 5 offset {rng.randrange(4)}")
    # Late materialization: rows are chosen first, and then fetched by their numbers.
    asked.append(f'select * from (select {columns} from t) order by "{ROW}" desc limit 3')
    asked.append(f'select {columns} from t where "{ROW}" > {low} order by "{ROW}" limit 2')
    for query in asked:
        found = by_duckdb(snapshot, query, setting, own=True)
        assert found == by_duckdb(snapshot, query, setting, own=False), (setting, query)
    rows = by_duckdb(snapshot, f'select "{ROW}" from t', setting, own=True)
    assert [one for (one,) in rows] == wanted
    return first - len(wanted)


@pytest.mark.slow("some histories, each read in several ways, by connections of their own")
@settings(
    max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES
)
@given(st.integers(0, 2**32))
def test_its_own_reader_gives_the_rows_that_are_left(tmp_path_factory, seed: int) -> None:
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "ROW_GROUP_ROWS", rng.choice([3, 8, 1 << 20]))
        patch.setattr(bare, "CHUNK_ROWS", rng.choice([8, 16, 1 << 18]))
        check(rng, tmp_path_factory.mktemp("lake"))


def test_the_histories_hide_rows(tmp_path) -> None:
    """Else the comparison would hold of nothing."""
    hidden = [check(random.Random(seed), tmp_path / str(seed)) for seed in range(3)]
    assert sum(hidden) > 5


@pytest.mark.parametrize(("count", "own"), [(5, True), (200, True), (5_000, False)])
def test_a_tombstone_of_many_values_makes_no_join(tmp_path, monkeypatch, count, own) -> None:
    """One that runs in parallel would lose the order of the rows; of very many values the stream
    decides."""
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 8)
    monkeypatch.setattr(bare, "LEAST_ROWS", 0)
    catalog = open_catalog(str(tmp_path))
    writer = catalog.writer("w", "db")
    values = ", ".join(str(7 * each) for each in range(count))
    for first in (0, 10_000):  # the tombstone holds of one file, not of the other
        with writer.transaction() as tx:
            tx.write("t", pa.table({"a": pa.array(range(first, first + 300), pa.int64())}))
        if not first:
            with writer.transaction() as tx:
                tx.delete("t", f"a IN ({values})", mode="predicate")
    snapshot = catalog.snapshot("db")
    wanted = snapshot.to_arrow("t").column("a").to_pylist()
    assert len(wanted) == 600 - len(range(0, min(300, 7 * count), 7))
    with duckdb.connect() as connection:
        snapshot.to_duckdb(connection, ["t"])
        plan = connection.execute("explain from t").fetchall()[0][1]
        assert "Join" not in plan
        assert ("ARROW_SCAN" in plan) != own, plan
        for _ in range(5):
            assert [a for (a,) in connection.execute("from t").fetchall()] == wanted
