"""A table with a key, and what must be read of it: plain Python, row by row."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from lakelog import open_catalog
from own_files import add_own

if TYPE_CHECKING:
    import random
    from pathlib import Path

DAY = dt.date(2026, 1, 1)
KINDS = {
    "int": (pa.int64(), lambda n: n - 3),
    "small": (pa.int16(), lambda n: n),
    "text": (pa.string(), lambda n: "k" * (n % 3) + str(n)),
    "long": (pa.string(), lambda n: "same begin " * 8 + str(n)),  # bounds are cut
    "date": (pa.date32(), lambda n: DAY + dt.timedelta(n)),
    "time": (pa.timestamp("us"), lambda n: dt.datetime(2026, 1, 1) + dt.timedelta(minutes=n)),
    "flag": (pa.bool_(), lambda n: n % 2 == 0),
    "raw": (pa.binary(), lambda n: bytes([n, 0])),
    "money": (pa.decimal128(9, 2), lambda n: Decimal(n) / 4),
}


@dataclass
class File:
    """A live file: what decides which of its rows are newer, and its rows."""

    writer: str
    path: str
    partition: str
    clock: int
    revision: int
    number: int
    rows: list[dict]
    gone: set[int] = field(default_factory=set)

    @property
    def age(self) -> tuple:
        return self.clock, self.writer, self.revision, self.number, self.path


class Model:
    """A table of three writers, and what must be read.

    Attributes:
        files: Live files by writer and path.
        points: By token what must be read there, by row id.
    """

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.rng, self.folder = rng, folder
        self.catalog = open_catalog(str(folder))
        self.kinds = [KINDS[rng.choice(sorted(KINDS))] for _ in range(rng.choice([1, 1, 2]))]
        self.key = [f"k{number}" for number in range(len(self.kinds))]
        self.values = rng.choice([4, 8, 30])
        self.writers = {name: self.catalog.writer(name, "db", checkpoint_every=0) for name in "uvw"}
        self.files: dict[tuple[str, str], File] = {}
        self.points: dict[str, dict[int, dict]] = {}
        self.next = 0
        self.keyed: set[str] = set()
        for name in "uvw":
            with self.writers[name].transaction() as tx:
                tx.write("t", self.schema().empty_table())
            if name == "u" or rng.random() < 0.6:
                with self.writers[name].transaction() as tx:
                    tx.evolve("t", key=self.key)
                self.keyed.add(name)

    def schema(self) -> pa.Schema:
        fields = [(name, kind) for name, (kind, _) in zip(self.key, self.kinds)]
        return pa.schema([("w", pa.int64()), ("id", pa.int64()), *fields])

    def table(self, count: int, *, nulls: bool = True) -> pa.Table:
        """Rows of few keys; a stretch of them, so that ranges of files often don't meet."""
        rng = self.rng
        low = rng.randrange(self.values)
        high = rng.choice([low + 1, low + 2, self.values])
        rows = []
        for _ in range(count):
            row = {"w": rng.randrange(4), "id": self.next}
            for name, (_, make) in zip(self.key, self.kinds):
                value = make(rng.randrange(low, max(high, low + 1)))
                row[name] = None if nulls and rng.random() < 0.1 else value
            rows.append(row)
            self.next += 1
        return pa.Table.from_pylist(rows, self.schema())

    # --- What is done -----------------------------------------------------------------------------

    def step(self) -> None:
        name = self.rng.choice("uvw")
        own = [file for file in self.files.values() if file.writer == name]
        choice = self.rng.random()
        if not own or choice < 0.45:
            self.write(name)
        elif choice < 0.55:
            self.delete(name)
        elif choice < 0.6:
            self.delete_of_all(name)
        elif choice < 0.8:
            self.upsert(name)
        elif choice < 0.9:
            file = self.rng.choice(own)
            with self.writers[name].transaction() as tx:
                tx.remove(file.path)
            del self.files[name, file.path]
        else:
            self.writers[name].checkpoint()
        self.look()

    def write(self, name: str) -> None:
        table, clock = self.table(self.rng.choice([1, 3, 8])), self.rng.choice([5, 7, 7, 9, 40])
        with self.writers[name].transaction() as tx:
            if self.rng.random() < 0.3:
                path = f"data/x{self.next}.parquet"
                place = self.folder / name / "db" / path
                place.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(table, place, row_group_size=2)
                add_own(tx, "t", path, clock=(clock, clock))
                paths = [path]
            else:
                by = self.rng.choice([None, None, ["w"]])
                paths = tx.write("t", table, partition_by=by, clock=(clock - 1, clock))
        self.learn(name, tx, paths, clock)

    def learn(self, name: str, tx, paths: list[str], clock: int) -> None:
        for number, path in enumerate(paths):
            rows = pq.read_table(self.folder / name / "db" / path, partitioning=None).to_pylist()
            partition = path.split("/")[1] if "=" in path else ""
            named = number if path.count("-") else 1 << 40
            revision = tx.commit_info.revision
            self.files[name, path] = File(name, path, partition, clock, revision, named, rows)

    def delete_of_all(self, name: str) -> None:
        """Of all writers' files as they are now."""
        text, means = self.predicate()
        self.catalog.delete("db", "t", text)
        for file in self.files.values():
            file.gone.update(at for at, row in enumerate(file.rows) if means(row))

    def predicate(self):
        """SQL, and the same of a row."""
        rng = self.rng
        value = self.kinds[0][1](rng.randrange(self.values))
        return rng.choice([
            ("w = 1", lambda row: row["w"] == 1),
            ("w >= 0", lambda row: True),
            (f"id < {self.next - 6}", lambda row, end=self.next - 6: row["id"] < end),
            ("k0 IS NULL", lambda row: row["k0"] is None),
            (f"k0 = {literal(value)}", lambda row: row["k0"] == value),
        ])  # fmt: skip

    def delete(self, name: str) -> None:
        rng = self.rng
        text, means = self.predicate()
        with self.writers[name].transaction() as tx:
            said = tx.delete("t", text, mode=rng.choice(["auto", "predicate", "rows"]))
        assert said.files_removed == 0
        for file in list(self.files.values()):
            if file.writer == name:
                file.gone |= {at for at, row in enumerate(file.rows) if means(row)}

    def upsert(self, name: str) -> None:
        rng = self.rng
        table = self.table(rng.choice([1, 4]), nulls=False)
        other = rng.random() < 0.2
        by = ["w"] if other else self.key
        own = [file.clock for file in self.files.values() if file.writer == name]
        with self.writers[name].transaction() as tx:
            if name in self.keyed and not other:
                clock = rng.choice([None, None, (8, 8)])
                said = tx.upsert("t", table, clock=clock)
                assert said.replaced is None
            else:
                clock = (6, 6)
                takes_over = name not in self.keyed and not other and rng.random() < 0.3
                said = tx.upsert("t", table, key=None if takes_over else by, clock=clock)
                if takes_over:
                    assert said.replaced is None
                    self.keyed.add(name)
        last = {tuple(row[n] for n in by): row["id"] for row in table.to_pylist()}
        assert said.rows == len(last)
        if said.replaced is not None:
            count = 0
            for file in self.files.values():
                if file.writer == name:
                    met = {
                        at for at, row in enumerate(file.rows)
                        if tuple(row[n] for n in by) in last
                    }  # fmt: skip
                    count += len(met - file.gone)
                    file.gone |= met
            assert said.replaced == count
        path, *_ = said.paths  # one a partition
        if clock is None:
            found = self.catalog.snapshot("db").files("t", writer=name, details=True)
            clock = (
                0,
                found.filter(pa.compute.field("path") == path).column("last_clock")[0].as_py(),
            )
            assert all(clock[1] > each for each in own)
        self.learn(name, tx, list(said.paths), clock[1])
        rows = [row["id"] for path in said.paths for row in self.files[name, path].rows]
        assert sorted(rows) == sorted(last.values())

    # --- What must be read ------------------------------------------------------------------------

    def wanted(self) -> dict[int, dict]:
        """Of all rows of a key the newest, unless it was deleted."""
        newest: dict[tuple, tuple] = {}
        found: dict[int, dict] = {}
        for file in self.files.values():
            gone = file.gone
            for at, row in enumerate(file.rows):
                key = tuple(row[name] for name in self.key)
                told = row | {"writer": file.writer, "partition": file.partition}
                if None in key:
                    if at not in gone:
                        found[row["id"]] = told
                elif key not in newest or (file.age, at) > newest[key][0]:
                    newest[key] = ((file.age, at), told, at in gone)
        found |= {row["id"]: row for _, row, gone in newest.values() if not gone}
        return found

    def look(self) -> None:
        snapshot = self.catalog.snapshot("db")
        wanted = self.points[snapshot.token] = self.wanted()
        by = self.rng.choice(["", "where", "writer", "partition", "key"])
        if by == "where":
            found = snapshot.to_arrow("t", ["id"], where="w = 1")
            assert ids(found) == sorted(n for n, row in wanted.items() if row["w"] == 1)
        elif by == "writer":
            name = self.rng.choice("uvw")
            found = snapshot.to_arrow("t", ["id"], writer=name)
            assert ids(found) == sorted(n for n, row in wanted.items() if row["writer"] == name)
        elif by == "partition":
            name = self.rng.choice(["w=1", ""])
            found = snapshot.to_arrow("t", ["id"], partition=name)
            assert ids(found) == sorted(n for n, row in wanted.items() if row["partition"] == name)
        elif by == "key":
            value = self.kinds[0][1](self.rng.randrange(self.values))
            found = snapshot.to_arrow("t", ["id"], where=f"k0 = {literal(value)}")
            assert ids(found) == sorted(n for n, row in wanted.items() if row["k0"] == value)
        assert ids(snapshot.to_arrow("t")) == sorted(wanted)

    def check(self) -> None:
        """Every engine, at some points in time and the last."""
        tokens = list(self.points)
        for token in {tokens[-1], *self.rng.sample(tokens, min(2, len(tokens)))}:
            self.check_at(token)

    def check_at(self, token: str) -> None:
        snapshot, wanted = self.catalog.snapshot("db", token), self.points[token]
        all_ids = sorted(wanted)
        some = sorted(n for n, row in wanted.items() if row["w"] > 2)
        found = snapshot.to_arrow("t")
        assert ids(found) == all_ids
        rows = {row["id"]: row for row in found.to_pylist()}
        assert all(rows[n][name] == wanted[n][name] for n in wanted for name in ("w", *self.key))
        dataset = snapshot.dataset("t")
        assert ids(dataset.to_table(columns=["id"])) == all_ids
        assert dataset.count_rows() == len(all_ids)
        assert dataset.count_rows(filter=pa.compute.field("w") > 2) == len(some)
        assert sorted(snapshot.to_pandas("t", ["id"])["id"]) == all_ids
        lazy = snapshot.to_polars("t")
        assert sorted(lazy.collect()["id"].to_list()) == all_ids
        assert lazy.select(pl.len()).collect().item() == len(all_ids)
        assert sorted(lazy.filter(pl.col("w") > 2).collect()["id"].to_list()) == some
        with duckdb.connect() as connection:
            snapshot.to_duckdb(connection, ["t"])
            rows = connection.sql("select id from t").fetchall()
            assert sorted(row[0] for row in rows) == all_ids
            assert connection.sql("select count(*) from t").fetchall() == [(len(all_ids),)]
            rows = connection.sql("select id from t where w > 2").fetchall()
            assert sorted(row[0] for row in rows) == some


def ids(found: pa.Table) -> list[int]:
    return sorted(found.column("id").to_pylist())


def literal(value) -> str:
    """A value in SQL."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)
