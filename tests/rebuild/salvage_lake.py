"""Random histories of one log, with what its readers saw after each revision, and with attempts
that were never committed: for tests that owe rows."""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.data.footers.read import read_footer
from lakelog.catalog.format.deletes import decode_deletes
from lakelog.catalog.format.names import parse_log_object
from lakelog.errors import ConflictError, NotFoundError, UsageError
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient

if TYPE_CHECKING:
    from random import Random

    from lakelog.rebuild import RebuildPlan

TABLES = ("t", "u %")
BASE = "w/db/"
LOG, MIRROR = f"{BASE}transactions/", f"{BASE}mirror/transactions/"
REFUSED = (ConflictError, NotFoundError, UsageError)
STEPS = (
    "write", "write", "write", "delete", "delete", "upsert", "overwrite", "overwrite", "rewrite",
    "rewrite", "evolve", "remove", "restore", "rolled_back", "rolled_back", "refused",
    "crashed", "reopen", "batch",
)  # fmt: skip
Row = tuple[str, int, int]  # table, key, and a number that no other row has


@dataclass
class Lake:
    """A log, what was committed to it, and what was not.

    Attributes:
        rows: By revision, all rows that readers saw.
        epochs: By revision.
        attempts: By transaction id (hex), the rows of what was not committed, its epoch, and how it
            ended.
        done: What was done, in words; of interest where a test fails.
    """

    random: Random
    store: MemoryStore = field(default_factory=lambda: MemoryStore("salvage"))
    fake: FakeAmbient = field(default_factory=FakeAmbient)
    rows: dict[int, set[Row]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    attempts: dict[str, tuple[set[Row], int, str]] = field(default_factory=dict)
    restores: set[int] = field(default_factory=set)
    done: list[str] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        self.catalog = Catalog(self.store, ambient=self.fake.ambient)
        self.keyed = self.random.random() < 0.3
        self.every = self.random.choice((0, 3, 16))
        self.writer = self.open()
        self.write(TABLES[0])
        self.look()

    def open(self, *, shared: bool = False) -> Any:
        return self.catalog.writer("w", "db", shared=shared, checkpoint_every=self.every)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.fake.move(1)
            what, table = self.random.choice(STEPS), self.random.choice(TABLES)
            try:
                getattr(self, what)(table)
                self.done.append(f"{what} {table}")
            except REFUSED as error:
                self.done.append(f"{what} {table}: {type(error).__name__}")
            self.look()
        self.writer.close()
        gc.collect()

    def look(self) -> None:
        """Notes what readers see now."""
        state = self.state()
        if state.revision not in self.rows:
            for revision in range(max(self.rows, default=-1) + 1, state.revision + 1):
                self.rows[revision] = visible(self.catalog, {"w": revision})
                self.epochs[revision] = state.epoch

    def state(self) -> Any:
        return _state(self.store)

    # --- Steps ------------------------------------------------------------------------------------

    def data(self, rows: int = 3, keys: list[int] | None = None) -> pa.Table:
        start = self.number
        self.number += rows
        keys = keys or list(range(start, start + rows))
        return pa.table({"k": keys, "v": list(range(start, start + rows))})

    def where(self) -> str:
        number = self.random.randrange(max(1, self.number))
        some = f"v < {number} AND v > {number - 6}"
        return self.random.choice((f"v = {number}", some, "k % 3 = 1"))

    def files(self, table: str) -> list[str]:
        found = self.catalog.snapshot("db").files(table)
        return sorted(path.removeprefix(BASE) for path in found["path"].to_pylist())

    def write(self, table: str) -> None:
        with self.writer.transaction() as tx:
            for part in self.random.choice((("",), ("", "p"))):
                tx.write(table, self.data(), part)

    def batch(self, table: str) -> None:
        version = self.random.randrange(1, 20)
        with self.writer.transaction(app_id="app", app_version=version) as tx:
            tx.write(table, self.data())

    def delete(self, table: str, mode: str = "") -> None:
        with self.writer.transaction() as tx:
            tx.delete(table, self.where(), mode=mode or self.random.choice(("predicate", "rows")))

    def upsert(self, table: str) -> None:
        if not self.keyed:
            return
        with self.writer.transaction() as tx:
            tx.evolve(table, key=["k"])
        self.look()
        with self.writer.transaction() as tx:
            tx.upsert(table, self.data(keys=[self.random.randrange(self.number) for _ in range(3)]))

    def overwrite(self, table: str) -> None:
        with self.writer.transaction() as tx:
            tx.overwrite(table, self.data(), self.where(), validate=False)

    def rewrite(self, table: str) -> None:
        paths = self.files(table)
        with self.writer.transaction() as tx:
            tx.rewrite(table, paths[:2], sort_by="k")

    def evolve(self, table: str) -> None:
        with self.writer.transaction() as tx:
            tx.evolve(table, add={f"c{self.number}": pa.int64()})

    def remove(self, table: str) -> None:
        paths = self.files(table)
        with self.writer.transaction() as tx:
            for path in paths[:1]:
                tx.remove(path)

    def restore(self, table: str) -> None:
        head = max(self.rows)
        to = {"w": self.random.randint(max(0, head - 4), head)}
        self.catalog.restore("db", self.random.choice((None, table)), to=to, execute=True)
        now = _state(self.store).revision
        self.restores.update(range(head + 1, now + 1))

    def reopen(self, table: str) -> None:
        self.writer.close()
        self.writer = self.open(shared=self.random.random() < 0.3)

    # --- What is not committed --------------------------------------------------------------------

    def change(self, tx: Any, table: str) -> set[Row]:
        """Does something in a transaction; returns the rows that it wrote."""
        data = self.data()
        what = self.random.choice(("write", "delete", "overwrite", "rewrite"))
        if what == "write":
            tx.write(table, data)
        elif what == "delete":
            tx.delete(table, self.where(), mode=self.random.choice(("predicate", "rows")))
        elif what == "overwrite":
            tx.overwrite(table, data, self.where(), validate=False)
        else:
            tx.rewrite(table, self.files(table)[:2], sort_by="k")
        return {(table, k, v) for k, v in zip(*data.to_pydict().values(), strict=True)}

    def attempt(self, tx: Any, rows: set[Row], how: str) -> None:
        self.attempts[tx.transaction_id] = (rows, tx._intent.epoch, how)

    def rolled_back(self, table: str) -> None:
        tx = self.writer.transaction()
        rows: set[Row] = set()
        try:
            rows = self.change(tx, table)
        finally:
            self.attempt(tx, rows, "rolled back")
            tx.discard()

    def refused(self, table: str) -> None:
        """A transaction that another one has overtaken: both take out the same file."""
        paths = self.files(table)
        if not paths:
            return
        path = self.random.choice(paths)
        with self.writer.transaction() as tx:
            tx.remove(path)
            data = self.data()
            tx.write(table, data)
            with self.open(shared=True) as guest, guest.transaction() as other:
                other.remove(path)
            self.look()
            rows = {(table, k, v) for k, v in zip(*data.to_pydict().values(), strict=True)}
            self.attempt(tx, rows, "refused")

    def crashed(self, table: str) -> None:
        """The process dies before it commits: what it put stays."""
        tx = self.writer.transaction()
        rows: set[Row] = set()
        try:
            rows = self.change(tx, table)
        finally:
            self.attempt(tx, rows, "crashed")
            tx._uploads.wait()
            tx._sent = True  # nobody is there any more to be warned
            self.writer.close()
            self.writer = self.open(shared=self.random.random() < 0.2)

    def go_on(self) -> set[Row]:
        """Opens the log again and appends to it; returns the rows."""
        before = set(counted(self.catalog))
        self.writer = self.open(shared=self.random.random() < 0.3)
        for _ in range(self.random.randint(1, 4)):
            self.write(self.random.choice(TABLES))
        self.writer.close()
        return set(counted(self.catalog)) - before

    def highest_base(self) -> int:
        """Returns the highest revision on which any footer says that its transaction was begun."""
        found = [-1]
        for info in self.store.list(f"{BASE}data/"):
            if info.key.endswith(".parquet"):
                meta = read_footer(self.store, info.key, info.size_bytes).meta
            else:
                meta, _ = decode_deletes(self.store.get(info.key), info.key)
            found.append(meta.base_revision)
        return max(found)

    # --- Losses -----------------------------------------------------------------------------------

    def lose(self, revisions: set[int]) -> None:
        """Both copies of what stands on some revisions, checkpoints included."""
        for folder in (LOG, MIRROR):
            for info in list(self.store.list(folder)):
                item = parse_log_object(info.key[len(folder) :])
                if item is not None and item.revision in revisions:
                    self.store.delete([info.key])

    def lose_all(self) -> None:
        """Everything but `data/`."""
        for info in list(self.store.list(BASE)):
            if not info.key.startswith(f"{BASE}data/"):
                self.store.delete([info.key])


def _state(store: MemoryStore) -> Any:
    from lakelog.catalog.read.log_reader import LogReader

    return LogReader(store, "w", "db").load()


def visible(catalog: Catalog, as_of: Any = None) -> set[Row]:
    """All rows of all tables; each is there once."""
    found = counted(catalog, as_of)
    assert set(found.values()) <= {1}, "a row is there twice"
    return set(found)


def counted(catalog: Catalog, as_of: Any = None) -> Counter[Row]:
    snapshot = catalog.snapshot("db", as_of)
    found: Counter[Row] = Counter()
    for table in snapshot.tables():
        rows = snapshot.to_arrow(table, ["k", "v"])
        found.update((table, *row) for row in zip(*rows.to_pydict().values(), strict=True))
    return found


def rebuild(lake: Lake, **options: Any) -> RebuildPlan:
    """Plans and executes a rebuild; returns the plan."""
    plan = plan_rebuild(lake.store, "w", "db", ambient=lake.fake.ambient, **options)
    execute_rebuild(lake.store, plan, ambient=lake.fake.ambient)
    return plan


def owed(lake: Lake, lost: set[int]) -> set[Row]:
    """The rows that a rebuild must give back: all that are live, but those that only a lost restore
    has brought back, which writes nothing."""
    head = max(lake.rows)
    back: set[Row] = set()
    for revision in sorted(lake.restores & lost):
        before = lake.rows.get(revision - 1, set())
        earlier = set().union(*(lake.rows[r] for r in range(revision - 1)))
        back |= (lake.rows[revision] - before) & earlier
    return lake.rows[head] - back


def check(lake: Lake, lost: set[int]) -> RebuildPlan:
    """Rebuilds, and holds every row against what was committed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = rebuild(lake)
        got = counted(Catalog(lake.store, ambient=lake.fake.ambient))
    unproven = {item.transaction_id for item in plan.unproven}
    replaced_keys = {
        (table, k) for one in unproven for table, k, _ in lake.attempts.get(one, (set(), 0, ""))[0]
    }
    missing = {row for row in owed(lake, lost) - got.keys() if row[:2] not in replaced_keys}
    assert not missing, (sorted(missing)[:5], lake.done, sorted(lost))
    committed = set().union(*lake.rows.values())
    for one, (rows, epoch, how) in lake.attempts.items():
        came = (rows & got.keys()) - committed
        if not came:
            continue
        assert one in unproven, (how, lake.done)
        assert how == "crashed", (how, lake.done)
        head = max(lake.rows)
        free = [r for r in lost if _fits(lake, r, epoch)] or epoch >= lake.epochs[head]
        assert free, (one, epoch, lake.epochs, sorted(lost), lake.done)
    guesses = {row for one in unproven for row in lake.attempts.get(one, (set(), 0, ""))[0]}
    strange = got.keys() - committed - guesses
    rows_of = {row[0]: 0 for row in strange}
    if not unproven:
        assert not strange, (sorted(strange)[:5], rows_of, lake.done)
    return plan


def _fits(lake: Lake, revision: int, epoch: int) -> bool:
    """Whether a transaction of an epoch can have been a lost revision."""
    below = [e for r, e in lake.epochs.items() if r < revision]
    above = [e for r, e in lake.epochs.items() if r > revision]
    return max(below, default=0) <= epoch <= min(above, default=1 << 60)
