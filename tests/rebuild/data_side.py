"""Random histories of all operations on one log, and what its readers see: for tests of what a
rebuild brings back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.errors import ConflictError, LakelogError, NotFoundError, UsageError
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient
from rebuild_cases import parquet

TABLES = ("t", "u %")
BASE = "w/db/"
Rows = dict[str, list[str]]
# What a step may be refused for: it is not done then, and the history goes on.
REFUSED = (ConflictError, NotFoundError, UsageError)


def seen(catalog: Catalog, as_of: Any = None) -> Rows:
    """All rows of all tables, in words."""
    snapshot = catalog.snapshot("db", as_of)
    found = {}
    for table in snapshot.tables():
        rows = snapshot.to_arrow(table)
        found[table] = sorted(repr(sorted(row.items())) for row in rows.to_pylist())
    return found


def copied(store: MemoryStore) -> MemoryStore:
    """A store with the same objects, of the same times."""
    other = MemoryStore(store.url.removeprefix("memory://"))
    other._objects = dict(store._objects)
    return other


@dataclass
class Lake:
    """A log that many have open, and what was committed.

    Attributes:
        draw: Of Hypothesis.
        done: What was done, in words; of interest where a test fails.
        number: Goes up with each row that is made.
    """

    draw: Any
    store: MemoryStore = field(default_factory=lambda: MemoryStore("data-side"))
    fake: FakeAmbient = field(default_factory=FakeAmbient)
    done: list[str] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        self.catalog = Catalog(self.store, ambient=self.fake.ambient)
        self.writers = [self.open(shared=False)]
        self.write("t", self.writers[0])

    def open(self, *, shared: bool):
        return self.catalog.writer("w", "db", shared=shared, checkpoint_every=4)

    def any_of(self, *items: Any) -> Any:
        from hypothesis import strategies as st

        return self.draw(st.sampled_from(items))

    # --- Steps ------------------------------------------------------------------------------------

    def step(self) -> None:
        """One thing that happens, or is refused."""
        self.fake.move(0.01)
        what = self.any_of(
            "write", "write", "write", "remove", "delete", "delete", "delete", "evolve", "evolve",
            "key", "upsert", "overwrite", "rewrite", "drop", "restore", "restore", "empty", "mixed",
            "adopt", "again", "overlap", "crash", "reopen", "checkpoint", "schema",
        )  # fmt: skip
        table = self.any_of(*TABLES)
        writer = self.any_of(*self.writers[-2:])
        try:
            getattr(self, what)(table, writer)
            self.done.append(f"{what} {table}")
        except REFUSED as error:
            self.done.append(f"{what} {table}: {type(error).__name__}")

    def data(self, table: str, *, rows: int = 3) -> pa.Table:
        """New rows for the columns that the table has."""
        values = {}
        try:
            schema = self.catalog.snapshot("db").schema(table)
        except LakelogError:
            schema = pa.schema([("n", pa.int64()), ("a", pa.int64())])
        for name in schema.names:
            start = self.number if name == "n" else self.number % 7
            values[name] = pa.array(range(start, start + rows), pa.int64())
        self.number += rows
        return pa.table(values)

    def files(self, table: str) -> list[str]:
        """Live files of a table."""
        try:
            found = self.catalog.snapshot("db").files(table)
        except LakelogError:
            return []
        return sorted(path.removeprefix(BASE) for path in found["path"].to_pylist())

    def where(self) -> str:
        number = self.any_of(*range(max(1, self.number)))
        return self.any_of(f"n = {number}", f"n < {number} AND n > {number - 5}", "n % 3 = 1")

    def write(self, table: str, writer: Any) -> None:
        with writer.transaction() as tx:
            for part in self.any_of(("",), ("", "p")):
                tx.write(table, self.data(table), part)

    def remove(self, table: str, writer: Any) -> None:
        paths = self.files(table)
        with writer.transaction() as tx:
            for path in paths[: self.any_of(1, 2)]:
                tx.remove(path)

    def delete(self, table: str, writer: Any) -> None:
        mode = self.any_of("auto", "predicate", "rows")
        with writer.transaction() as tx:
            tx.delete(table, self.where(), mode=mode)

    def evolve(self, table: str, writer: Any) -> None:
        what = self.any_of("add", "drop", "rename")
        with writer.transaction() as tx:
            if what == "add":
                name = self.any_of("a", "b", "c")
                tx.evolve(table, add={name: pa.int64()}, default={name: self.number})
            elif what == "drop":
                tx.evolve(table, drop=[self.any_of("a", "b", "c")])
            else:
                tx.evolve(table, rename={self.any_of("a", "b", "c"): self.any_of("a", "b", "d")})

    def key(self, table: str, writer: Any) -> None:
        with writer.transaction() as tx:
            tx.evolve(table, key=self.any_of(["n"], []))

    def upsert(self, table: str, writer: Any) -> None:
        with writer.transaction() as tx:
            data = self.data(table)
            low = self.any_of(*range(self.number))
            data = data.set_column(0, "n", pa.array(range(low, low + 3), pa.int64()))
            tx.upsert(table, data)

    def overwrite(self, table: str, writer: Any) -> None:
        with writer.transaction() as tx:
            tx.overwrite(table, self.data(table), self.where(), validate=False)

    def rewrite(self, table: str, writer: Any) -> None:
        paths = self.files(table)
        with writer.transaction() as tx:
            tx.rewrite(table, paths[:2], sort_by="n")

    def drop(self, table: str, writer: Any) -> None:
        self.catalog.drop("db", table, execute=True)

    def restore(self, table: str, writer: Any) -> None:
        head = self.catalog.snapshot("db").cut.writers["w"].revision
        to = {"w": self.any_of(*range(head + 1))}
        self.catalog.restore("db", self.any_of(None, table), to=to, execute=True)

    def empty(self, table: str, writer: Any) -> None:
        with writer.transaction(app_id="app", app_version=self.number):
            pass

    def schema(self, table: str, writer: Any) -> None:
        with writer.transaction() as tx:
            tx.write(table, self.data(table).slice(0, 0))

    def mixed(self, table: str, writer: Any) -> None:
        """Much in one transaction; what is removed last, no file says."""
        paths = self.files(table)
        with writer.transaction() as tx:
            if paths:
                tx.remove(paths[0])
            (first, *_) = tx.write(table, self.data(table))
            tx.write(table, self.data(table))
            if self.any_of(True, False):
                tx.remove(first)
            if len(paths) > 1:
                tx.remove(paths[1])
            if len(paths) > 2 and self.any_of(True, False):
                tx.delete(self.any_of(*TABLES), self.where(), mode=self.any_of("rows", "predicate"))

    def adopt(self, table: str, writer: Any) -> None:
        path = f"data/p/{table.replace('%', '%25')}/foreign-{self.number}.parquet"
        self.store.put(BASE + path, parquet(self.data(table)))
        with writer.transaction() as tx:
            tx.add(table, path)

    def again(self, table: str, writer: Any) -> None:
        """A file that was taken out comes back, or goes and comes back in one."""
        paths = self.files(table)
        if paths:
            with writer.transaction() as tx:
                tx.remove(paths[0])
                if both := self.any_of(True, False):
                    tx.add(table, paths[0])
            if not both:
                with writer.transaction() as tx:
                    tx.add(table, paths[0])

    def overlap(self, table: str, writer: Any) -> None:
        """Two transactions at a time, of two who have the log open; the second may be refused."""
        other = self.open(shared=True)
        pair = [one.transaction() for one in (writer, other)]
        try:
            for tx in pair:
                if self.any_of(True, False):
                    tx.write(table, self.data(table))
                else:
                    tx.delete(table, self.where(), mode=self.any_of("rows", "predicate"))
            for tx in pair if self.any_of(True, False) else reversed(pair):
                tx.commit()
        finally:
            for tx in pair:
                tx.discard()

    def crash(self, table: str, writer: Any) -> None:
        """Something is told that is never committed: the process dies right before."""
        from lakelog.catalog.commit.telling import tell

        tx = writer.transaction()
        paths = self.files(table)
        what = self.any_of("remove", "delete", "evolve")
        if what == "remove" and paths:
            tx.remove(paths[0])
        elif what == "delete":
            tx.delete(table, self.where(), mode="predicate")
        else:
            tx.evolve(table, add={"never": pa.int64()})
        tell(writer._session, tx._intent)
        tx.discard()
        self.writers.append(self.open(shared=False))

    def reopen(self, table: str, writer: Any) -> None:
        self.writers.append(self.open(shared=self.any_of(True, False)))

    def checkpoint(self, table: str, writer: Any) -> None:
        writer.checkpoint()


def committed(catalog: Catalog) -> dict[str, int]:
    """Transaction ids (hex) by the revision that they stand in; the last of each is enough."""
    table = catalog.history("db", "w")
    pairs = zip(table["revision"].to_pylist(), table["transaction_ids"].to_pylist(), strict=True)
    return {one: revision for revision, ids in pairs for one in ids}


def rebuilt(store: MemoryStore, fake: FakeAmbient, known: set[str]) -> Any:
    """Rebuild, leaving out what was never committed as far as it is unproven; the plan."""
    guesses: set[str] = set()
    while True:
        plan = plan_rebuild(store, "w", "db", exclude=guesses, ambient=fake.ambient)
        more = {item.transaction_id for item in plan.unproven} - known
        if not more:
            break
        guesses |= more
    execute_rebuild(store, plan, ambient=fake.ambient)
    return plan
