"""Random histories of logs, with what their readers saw after each revision, and with attempts that
were never committed: for tests that owe rows."""

from __future__ import annotations

import copy
import gc
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.data.footers.read import read_footer
from lakelog.catalog.format.deletes import decode_deletes
from lakelog.catalog.format.names import LogObject, parse_log_object
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import ConflictError, NotFoundError, UsageError
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient

if TYPE_CHECKING:
    from random import Random

    from lakelog.rebuild import RebuildPlan

TABLES = ("t", "u %")
REFUSED = (ConflictError, NotFoundError, UsageError)
STEPS = (
    "write", "write", "write", "delete", "delete", "upsert", "overwrite", "overwrite", "rewrite",
    "rewrite", "evolve", "remove", "restore", "rolled_back", "rolled_back", "refused",
    "overtaken", "crashed", "reopen", "batch",
)  # fmt: skip
Row = tuple[str, int, int]  # table, key, and a number that no other row has


@dataclass
class Lake:
    """A log, what was committed to it, and what was not.

    Attributes:
        rows: By revision, all rows that readers saw.
        epochs: By revision.
        ids: By revision, of the transactions that it committed (hex).
        attempts: By transaction id (hex), the rows of what was not committed, its epoch, and how it
            ended.
        done: What was done, in words; of interest where a test fails.
    """

    random: Random
    store: MemoryStore = field(default_factory=lambda: MemoryStore("salvage"))
    fake: FakeAmbient = field(default_factory=FakeAmbient)
    name: str = "w"  # the writer's
    first: int = 0  # its rows are numbered from here on
    keyed: bool | None = None  # whether there are upserts; None: it is drawn
    every: int | None = None  # commits from checkpoint to checkpoint; None: it is drawn
    rows: dict[int, set[Row]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    ids: dict[int, set[str]] = field(default_factory=dict)
    attempts: dict[str, tuple[set[Row], int, str]] = field(default_factory=dict)
    restores: set[int] = field(default_factory=set)
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.base, self.number = f"{self.name}/db/", self.first
        self.catalog = Catalog(self.store, ambient=self.fake.ambient)
        drawn = self.random.random() < 0.3, self.random.choice((0, 3, 16))
        self.keyed = drawn[0] if self.keyed is None else self.keyed
        self.every = drawn[1] if self.every is None else self.every
        self.writer = self.open()
        self.write(TABLES[0])
        self.look()

    def open(self, *, shared: bool = False) -> Any:
        return self.catalog.writer(self.name, "db", shared=shared, checkpoint_every=self.every)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step(self.random.choice(STEPS))
        self.end()

    def step(self, what: str) -> None:
        self.fake.move(1)
        table = self.random.choice(TABLES)
        try:
            getattr(self, what)(table)
            self.done.append(f"{what} {table}")
        except REFUSED as error:
            self.done.append(f"{what} {table}: {type(error).__name__}")
        self.look()

    def end(self) -> None:
        self.writer.close()
        gc.collect()

    def look(self) -> None:
        """Notes what readers see now."""
        state = self.state()
        if state.revision not in self.rows:
            for revision in range(max(self.rows, default=-1) + 1, state.revision + 1):
                self.rows[revision] = visible(self.catalog, {self.name: revision})
                self.epochs[revision] = state.epoch
            for row in state.history.after(max(self.ids, default=-1)):
                self.ids[row["revision"]] = {one.hex() for one in row["transaction_ids"]}

    def again(self) -> Lake:
        """The same in a store of its own, to be destroyed."""
        lake = copy.copy(self)
        lake.store = MemoryStore(self.store.url.removeprefix("memory://"))
        for info in self.store.list(""):
            lake.store.put(info.key, self.store.get(info.key))
        lake.catalog = Catalog(lake.store, ambient=self.fake.ambient)
        return lake

    def state(self) -> Any:
        return LogReader(self.store, self.name, "db").load()

    # --- Steps ------------------------------------------------------------------------------------

    def data(self, rows: int = 3, keys: list[int] | None = None) -> pa.Table:
        start = self.number
        self.number += rows
        keys = keys or list(range(start, start + rows))
        return pa.table({"k": keys, "v": list(range(start, start + rows))})

    def where(self) -> str:
        number = self.random.randrange(self.first, max(self.first + 1, self.number))
        some = f"v < {number} AND v > {number - 6}"
        return self.random.choice((f"v = {number}", some, f"k >= {number} AND k < {number + 12}"))

    def files(self, table: str) -> list[str]:
        found = self.catalog.snapshot("db", {self.name: self.state().revision}).files(table)
        return sorted(path.removeprefix(self.base) for path in found["path"].to_pylist())

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
        table = TABLES[1]  # no overwrite or rewrite is taken any more where there are upserts
        with self.writer.transaction() as tx:
            tx.evolve(table, key=["k"])
        self.look()
        with self.writer.transaction() as tx:
            keys = [self.random.randrange(self.first, self.number) for _ in range(3)]
            tx.upsert(table, self.data(keys=keys))

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
        to = {self.name: self.random.randint(max(0, head - 4), head)}
        some = self.random.choice((None, table))
        self.catalog.restore("db", some, to=to, writers=[self.name], execute=True)
        now = self.state().revision
        self.restores.update(range(head + 1, now + 1))

    def reopen(self, table: str) -> None:
        self.writer.close()
        self.writer = self.open(shared=self.random.random() < 0.3)

    # --- What is not committed --------------------------------------------------------------------

    def change(self, tx: Any, table: str) -> set[Row]:
        """Does something in a transaction; returns the rows that it wrote."""
        data = self.data()
        what = self.random.choice(("write", "delete", "overwrite", "rewrite", "evolve", "remove"))
        if what == "write":
            tx.write(table, data)
        elif what == "evolve":
            tx.evolve(table, add={f"c{self.number}": pa.int64()})
            tx.write(table, data)
        elif what == "remove":
            for path in self.files(table)[:1]:
                tx.remove(path)
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

    def overtaken(self, table: str) -> None:
        """A transaction that was begun before another one: of some kinds it must be refused."""
        tx = self.writer.transaction()
        rows: set[Row] = set()
        try:
            rows = self.change(tx, table)
            with self.open(shared=True) as guest, guest.transaction() as other:
                self.change(other, table)
            self.look()
            tx.commit()
        except REFUSED:
            self.attempt(tx, rows, "refused")
            tx.discard()
            raise

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

    def bases(self) -> set[int]:
        """Returns the revisions on which footers say that their transactions were begun."""
        found = set()
        for info in self.store.list(f"{self.base}data/"):
            if info.key.endswith(".parquet"):
                meta = read_footer(self.store, info.key, info.size_bytes).meta
            else:
                meta, _ = decode_deletes(self.store.get(info.key), info.key)
            found.add(meta.base_revision)
        return found

    # --- Losses -----------------------------------------------------------------------------------

    def lose(self, revisions: set[int]) -> None:
        """Both copies of what stands on some revisions, checkpoints included."""
        self.store.delete([key for key, item in self.names() if item.revision in revisions])

    def names(self) -> list[tuple[str, LogObject]]:
        """Keys and names of all transactions and checkpoints, in both places."""
        found = []
        for folder in (f"{self.base}transactions/", f"{self.base}mirror/transactions/"):
            for info in self.store.list(folder):
                item = parse_log_object(info.key[len(folder) :])
                if item is not None:
                    found.append((info.key, item))
        return found

    def unknown(self) -> set[int]:
        """The revisions of which no object is left that tells: be they lost or pruned."""
        items = [item for _, item in self.names()]
        told = {item.revision for item in items if item.kind == "transaction"}
        base = max((item.revision for item in items if item.kind == "checkpoint"), default=-1)
        return {revision for revision in self.rows if revision > base} - told

    def lose_all(self) -> None:
        """Everything but `data/`."""
        for info in list(self.store.list(self.base)):
            if not info.key.startswith(f"{self.base}data/"):
                self.store.delete([info.key])


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
    plan = plan_rebuild(lake.store, lake.name, "db", ambient=lake.fake.ambient, **options)
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
    """Rebuilds, and holds every row against what was committed. Then the same without the attempts
    that it could not tell from commits: as a user does who knows them."""
    twin, lost = lake.again(), lost | lake.unknown()
    plan = _checked(lake, lost)
    never = {item.transaction_id for item in plan.unproven} & lake.attempts.keys()
    if never:
        again = _checked(twin, lost, exclude=never)
        assert never.isdisjoint(item.transaction_id for item in again.unproven)
    return plan


def _checked(lake: Lake, lost: set[int], **options: Any) -> RebuildPlan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = rebuild(lake, **options)
        got = counted(lake.catalog, {lake.name: lake.state().revision})
    assert plan.unproven or plan.lost or set(got.values()) <= {1}, (
        lake.done,
        "a row is there twice",
    )
    unproven = {item.transaction_id: item for item in plan.unproven}
    guessed = {one: lake.attempts[one] for one in unproven.keys() & lake.attempts.keys()}
    replaced_keys = {(table, k) for rows, _, _ in guessed.values() for table, k, _ in rows}
    # The newest row of its key may be one that a lost revision removed, too, and that comes back.
    replaced_keys |= {row[:2] for row in got.keys() - lake.rows[max(lake.rows)] if lake.keyed}
    missing = {row for row in owed(lake, lost) - got.keys() if row[:2] not in replaced_keys}
    assert not missing, (sorted(missing)[:5], lake.done, sorted(lost))
    committed = set().union(*lake.rows.values())
    for one, (rows, epoch, how) in lake.attempts.items():
        came = (rows & got.keys()) - committed
        if not came:
            continue
        assert one in unproven, (how, lake.done)
        assert how == "crashed", (how, lake.done)
        assert len(came) <= unproven[one].rows
        head = max(lake.rows)
        free = [r for r in lost if _fits(lake, r, epoch)] or epoch >= lake.epochs[head]
        assert free, (one, epoch, lake.epochs, sorted(lost), lake.done)
    strange = got.keys() - committed - set().union(*(rows for rows, _, _ in guessed.values()))
    assert not strange, (sorted(strange)[:5], lake.done, sorted(lost))
    known = set(guessed).union(*(lake.ids[revision] for revision in lost))
    strange = unproven.keys() - known
    assert not strange, ([unproven[one] for one in strange], lake.done, sorted(lost))
    return plan


def _fits(lake: Lake, revision: int, epoch: int) -> bool:
    """Whether a transaction of an epoch can have been a lost revision."""
    below = [e for r, e in lake.epochs.items() if r < revision]
    above = [e for r, e in lake.epochs.items() if r > revision]
    return max(below, default=0) <= epoch <= min(above, default=1 << 60)
