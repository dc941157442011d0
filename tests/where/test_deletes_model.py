"""Deletes against plain Python: random tables, writes, deletes of both kinds, removes and
checkpoints by two writers. Every engine gives the rows of the model, at every point in time."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from draw_predicates import Drawn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lakelog import open_catalog
from lakelog.errors import InvalidPredicate
from oracle import evaluate
from own_files import add_own
from sample import examples

NOT_EVERYWHERE = {"d60", "f16"}  # DuckDB and Polars have no such types
ROW = "row number"
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # a seed can't be made simpler


class Model:
    """A database and what must be in it.

    Attributes:
        rows: Per writer and path the rows of each live file that must be read, by number.
        points: What must be read at each point in time, by its token.
    """

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.rng = rng
        self.folder = folder
        self.catalog = open_catalog(str(folder))
        self.drawn = Drawn(rng, 24, rng.choice([2, 3, 4]))
        while NOT_EVERYWHERE.intersection(self.drawn.kinds.values()):
            self.drawn = Drawn(rng, 24, 3)
        self.writers = {name: self.catalog.writer(name, "db", checkpoint_every=0) for name in "uv"}
        self.rows: dict[str, dict[str, dict[int, dict]]] = {"u": {}, "v": {}}
        self.points: dict[str, dict[int, dict]] = {}
        self.next = 0

    def step(self) -> None:
        name = self.rng.choice("uv")
        writer, files = self.writers[name], self.rows[name]
        choice = self.rng.random()
        if not files or choice < 0.3:
            with writer.transaction() as tx:
                files |= self.write(name, tx)
        elif choice < 0.4:
            self.delete_of_all(name)
        elif choice < 0.85:
            with writer.transaction() as tx:
                gone, said = self.delete(name, tx)
                if self.rng.random() < 0.3:
                    files |= self.write(name, tx)  # what comes with it stays
            for path, ids in gone.items():
                for one in ids:
                    del files[path][one]
            count = sum(map(len, gone.values()))
            assert said is None or said.rows is None or said.rows >= count
        elif choice < 0.92:
            path = self.rng.choice(sorted(files))
            if path in self.live(name):
                with writer.transaction() as tx:
                    tx.remove(path)
            del files[path]
        else:
            writer.checkpoint()
        self.look()

    def live(self, name: str) -> set[str]:
        found = self.catalog.snapshot("db").files("t", writer=name)
        return set(found.column("path").to_pylist())

    def write(self, name: str, tx) -> dict[str, dict[int, dict]]:
        """Rows of the drawn table, as they are, or with small row groups, or without a column."""
        rng = self.rng
        at = [rng.randrange(24) for _ in range(rng.choice([1, 2, 5, 9]))]
        ids = list(range(self.next, self.next + len(at)))
        self.next += len(at)
        table = self.drawn.table.take(at).append_column(ROW, pa.array(ids, pa.int64()))
        known = [self.drawn.rows()[place] for place in at]
        if self.rows[name] and rng.random() < 0.2:
            lost = rng.choice(list(self.drawn.kinds))
            table = table.drop_columns([lost])
            known = [row | {lost: (self.drawn.kinds[lost], None)} for row in known]
        if rng.random() < 0.4:
            path = f"data/x{ids[0]}.parquet"
            place = self.folder / name / "db" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, place, row_group_size=2)
            add_own(tx, "t", path)
        else:
            (path,) = tx.write("t", table)
        return {path: dict(zip(ids, known))}

    def delete_of_all(self, _: str) -> None:
        """Of both writers' files, as they are now."""
        tree, text, _ = self.drawn.predicate()
        try:
            self.catalog.delete("db", "t", text, mode=self.rng.choice(["auto", "predicate"]))
        except InvalidPredicate:
            return  # no file has such a column
        for rows in (rows for files in self.rows.values() for rows in files.values()):
            for one in [one for one, row in rows.items() if evaluate(tree, row) is True]:
                del rows[one]

    def delete(self, name: str, tx):
        """Rows that go, by path; and what the delete says of itself."""
        tree, text, _ = self.drawn.predicate()
        try:
            said = tx.delete("t", text, mode=self.rng.choice(["auto", "predicate", "rows"]))
        except InvalidPredicate:
            return {}, None  # no file of this writer has such a column
        return {
            path: [one for one, row in rows.items() if evaluate(tree, row) is True]
            for path, rows in self.rows[name].items()
        }, said

    def look(self) -> None:
        wanted = {
            one: row for files in self.rows.values() for rows in files.values()
            for one, row in rows.items()
        }  # fmt: skip
        snapshot = self.catalog.snapshot("db")
        self.points[snapshot.token] = wanted
        assert ids_of(snapshot.to_arrow("t")) == sorted(wanted)

    def check(self) -> None:
        tokens = list(self.points)
        for token in {tokens[-1], *self.rng.sample(tokens, min(3, len(tokens)))}:
            self.check_at(token, self.points[token])

    def check_at(self, token: str, wanted: dict[int, dict]) -> None:
        snapshot = self.catalog.snapshot("db", token)
        ids = sorted(wanted)
        assert ids_of(snapshot.to_arrow("t")) == ids
        assert ids_of(snapshot.to_arrow("t", [ROW])) == ids
        dataset = snapshot.dataset("t")
        assert ids_of(dataset.to_table(columns=[ROW])) == ids
        assert dataset.count_rows() == len(ids)
        assert sorted(snapshot.to_pandas("t", [ROW])[ROW]) == ids
        lazy = snapshot.to_polars("t")
        assert sorted(lazy.collect()[ROW].to_list()) == ids
        assert lazy.select(pl.len()).collect().item() == len(ids)
        with duckdb.connect() as connection:
            snapshot.to_duckdb(connection, ["t"])
            found = connection.sql(f'select "{ROW}" from t').fetchall()
            assert sorted(one for (one,) in found) == ids
            (low,) = connection.sql(
                f'select count(*), min("{ROW}"), max("{ROW}") from t'
            ).fetchall()
            assert low == (len(ids), *((ids[0], ids[-1]) if ids else (None, None)))
        tree, text, _ = self.drawn.predicate()
        kept = sorted(one for one, row in wanted.items() if evaluate(tree, row) is True)
        try:
            assert ids_of(snapshot.to_arrow("t", where=text)) == kept, text
            assert ids_of(snapshot.to_arrow("t", [ROW], where=text)) == kept, text
        except InvalidPredicate:
            assert set(snapshot.column_names("t")) < {*self.drawn.kinds, ROW}


def ids_of(table: pa.Table) -> list[int]:
    return sorted(table.column(ROW).to_pylist())


@pytest.mark.slow("some histories, each read by every engine at some points")
@settings(
    max_examples=examples(3), deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES
)
@given(st.integers(0, 2**32))
def test_every_engine_gives_the_rows_that_are_left(tmp_path_factory, seed: int) -> None:
    rng = random.Random(seed)
    model = Model(rng, tmp_path_factory.mktemp("lake"))
    for _ in range(10):
        model.step()
    model.check()
