"""What must be read of a database of two tables and three writers, in plain Python. The steps are
in `whole_steps.py` and `whole_changes.py`."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from changing_cases import World
from lakelog.errors import ConflictError, SnapshotPruned

DATABASE = "weather"
WRITERS = ("u", "v", "w")
TABLES = ("plain", "keyed")
SPARE = ("b", "c", "d", "e")
INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
DAY_S = 86_400


@dataclass(frozen=True)
class Column:
    """A column: its number stays whatever its name is."""

    number: int
    kind: pa.DataType
    default: Any = None


@dataclass(frozen=True)
class File:
    """A live file: ids of its rows in order, and of those that are deleted."""

    path: str
    ids: tuple[int, ...]
    gone: frozenset[int] = frozenset()
    clock: int = 0
    revision: int = 0
    number: int = 0

    @property
    def shown(self) -> list[int]:
        return [one for one in self.ids if one not in self.gone]


@dataclass(frozen=True)
class Table:
    """A table at a point in time; `files` by writer and path. One that is begun again after a drop
    is another one, with another number and columns of its own."""

    columns: dict[str, Column]
    files: dict[tuple[str, str], File] = field(default_factory=dict)
    key: tuple[int, ...] = ()  # numbers of columns
    evolves: bool = True
    number: int = 0

    def of(self, writer: str) -> dict[str, File]:
        return {path: file for (name, path), file in self.files.items() if name == writer}


BASE = {"id": Column(0, LONG), "k": Column(1, INT), "a": Column(2, TEXT)}


class Model:
    """A database and what must be in it.

    Attributes:
        tables: What is true now; a table that isn't known is not there.
        rows: By id the values of each row, by the column's number.
        points: Tokens, with what must be read there.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World()
        self.tables: dict[str, Table] = {}
        self.rows: dict[int, dict[int, Any]] = {}
        self.points: list[tuple[str, dict[str, Table]]] = []
        self.numbers = itertools.count(10)
        self.ids = itertools.count(1)
        self.clocks = itertools.count(1000)
        self.handles: dict[str, Any] = {}
        self.told: list[str] = []
        self.counts: Counter[str] = Counter()
        self.forced: tuple[str, str] | None = None  # the table and the writer of each step
        self.last: dict[str, str] = {}  # by writer the handle that committed last

    # --- Means ------------------------------------------------------------------------------------

    @property
    def catalog(self) -> Any:
        return self.world.catalog

    def say(self, *words: Any) -> None:
        self.told.append(" ".join(map(str, words)))

    def handle(self, writer: str) -> Any:
        """The owner or a guest; perhaps one that has not looked for long."""
        name = self.rng.choice([f"{writer} owner", f"{writer} guest 1", f"{writer} guest 2"])
        if name in self.handles and self.rng.random() < 0.1:
            self.handles.pop(name).close()
        if name not in self.handles:
            self.handles[name] = self.world.catalog.writer(
                writer, DATABASE, shared="guest" in name,
                checkpoint_every=self.rng.choice([0, 3]),
            )  # fmt: skip
        return self.handles[name], name

    def close(self, writer: str = "") -> None:
        for name in [name for name in self.handles if name.startswith(writer)]:
            self.handles.pop(name).close()

    def do(self, writer: str, act: Any) -> tuple[Any, Any]:
        """Commit a transaction; a conflict with what this handle had not seen is tried again."""
        handle, name = self.handle(writer)
        self.say("  by", name)
        for attempt in range(3):
            try:
                with handle.transaction() as tx:
                    done = act(tx)
                if tx.commit_info is None:
                    tx.is_stale = self.last.get(writer) != name
                else:
                    self.last[writer] = name
                return tx, done
            except ConflictError as error:
                self.counts[f"conflict {type(error).__name__}"] += 1
                self.say("  conflict", error)
                if attempt == 2:
                    raise
                if attempt == 1:  # an overwrite doesn't look anew before it refuses data
                    self.handles.pop(name).close()
                    handle = self.catalog.writer(writer, DATABASE, shared=True)
                    self.handles[name] = handle
        raise AssertionError

    # --- Values -----------------------------------------------------------------------------------

    def value(self, row: int, column: Column) -> Any:
        """Of a row that a rebuild brought back from before a drop nothing but defaults."""
        return self.rows[row].get(column.number, column.default)

    def draw(self, column: Column) -> Any:
        if self.rng.random() < 0.12:
            return None
        number = self.rng.randrange(6)
        return f"t{number}" if column.kind == TEXT else number

    def data(self, table: Table, count: int, *, whole_key: bool = False, **fixed: Any) -> pa.Table:
        """New rows, of some of the columns."""
        names = [n for n in table.columns if n in fixed or n == "id" or self.rng.random() < 0.85]
        keys = [n for n, c in table.columns.items() if c.number in table.key]
        names = [n for n in table.columns if n in names or (whole_key and (n in keys or n == "k"))]
        if self.rng.random() < 0.3:
            self.rng.shuffle(names)
        ids = [next(self.ids) for _ in range(count)]
        columns: dict[str, list[Any]] = {}
        for name in names:
            column = table.columns[name]
            values = ids if name == "id" else [fixed.get(name, self.draw(column)) for _ in ids]
            if whole_key and (column.number in table.key or (not table.key and name == "k")):
                values = [
                    self.rng.randrange(6)
                    if v is None and column.kind != TEXT
                    else "t0"
                    if v is None
                    else v
                    for v in values
                ]
            columns[name] = values
        for at, one in enumerate(ids):
            self.rows[one] = {table.columns[n].number: columns[n][at] for n in names}
        return pa.table(columns, pa.schema([(n, table.columns[n].kind) for n in names]))

    def refused(self, error: Exception, *, by_key: bool) -> None:
        """A refusal is right for the table's key, or names a column that no file of this log has
        any more."""
        self.counts["refused"] += 1
        assert (by_key and "key" in str(error)) or "no column" in str(error), error

    def predicate(self, table: Table) -> tuple[str, Any]:
        """SQL, and of a row's id whether it is true."""
        rng = self.rng
        name = rng.choice([*table.columns, "k", "k"])
        if name not in table.columns:
            name = "id"
        column = table.columns[name]
        if name == "id":
            end = rng.randrange(1, max(2, len(self.rows) + 2))
            low = rng.randrange(max(1, end - 8), end + 1)

            def within(row: int) -> bool:
                found = self.value(row, column)
                return found is not None and low <= found < end + 4

            return f"id >= {low} AND id < {end + 4}", within
        seldom = "all" if rng.random() < 0.2 else "="
        what = rng.choice(["=", ">=", "<", "null", "not null", seldom])
        if what == "all":
            return "TRUE", lambda row: True
        if what == "null":
            return f"{name} IS NULL", lambda row: self.value(row, column) is None
        if what == "not null":
            return f"{name} IS NOT NULL", lambda row: self.value(row, column) is not None
        number = rng.randrange(6)
        value = f"t{number}" if column.kind == TEXT else number
        text = f"'{value}'" if column.kind == TEXT else str(value)
        tests = {"=": lambda x: x == value, ">=": lambda x: x >= value, "<": lambda x: x < value}

        def met(row: int) -> bool:
            found = self.value(row, column)
            return found is not None and tests[what](found)

        return f"{name} {what} {text}", met

    # --- What must be read ------------------------------------------------------------------------

    def wanted(self, table: Table) -> list[int]:
        if not table.key:
            return sorted(one for file in table.files.values() for one in file.shown)
        columns = [next(c for c in table.columns.values() if c.number == n) for n in table.key]
        newest: dict[tuple, Any] = {}
        found: list[int] = []
        for (writer, path), file in table.files.items():
            age = (file.clock, writer, file.revision, file.number, path)
            for at, one in enumerate(file.ids):
                key = tuple(self.value(one, column) for column in columns)
                if None in key:
                    if one not in file.gone:
                        found.append(one)
                elif key not in newest or (age, at) > newest[key][0]:
                    newest[key] = ((age, at), one, one in file.gone)
        return sorted([*found, *(one for _, one, gone in newest.values() if not gone)])

    def read(self, table: Table, ids: list[int]) -> list[str]:
        return sorted(
            text({name: self.value(one, column) for name, column in table.columns.items()})
            for one in ids
        )

    def learn(self) -> None:
        """What files there are now: new ones are read as they are, and hold what must be shown."""
        snapshot = self.catalog.snapshot(DATABASE)
        for name, table in self.tables.items():
            live = {}
            for row in snapshot.files(name, details=True).to_pylist():
                writer, path = row["writer"], row["path"]
                known = table.files.get((writer, path))
                if known is None:
                    body = self.world.store.get(f"{writer}/{DATABASE}/{path}")
                    ids = pq.read_table(pa.BufferReader(body), columns=["id"])["id"].to_pylist()
                    clock, revision = row["last_clock"], row["revision"]
                    known = File(
                        path, tuple(ids), clock=clock, revision=revision, number=number_of(path)
                    )
                live[writer, path] = known  # also one that comes back, with the order that it had
            self.tables[name] = replace(table, files=live)

    def shown(self, table: Table, writer: str = "") -> Counter[int]:
        return Counter(
            one for (name, _), file in table.files.items() if writer in ("", name)
            for one in file.shown
        )  # fmt: skip

    def not_deleted(self, table: Table, writer: str) -> int:
        """How many rows of a writer's files are not deleted."""
        return sum(len(set(file.ids) - file.gone) for file in table.of(writer).values())

    def settle(self, name: str, writer: str, shown: Counter[int]) -> None:
        """Learn the files, of which one writer's show exactly these rows."""
        self.learn()
        now = self.shown(self.tables[name], writer)
        assert now == shown, (name, writer, "too many", now - shown, "lost", shown - now)

    # --- Checks -----------------------------------------------------------------------------------

    def look(self) -> None:
        snapshot = self.catalog.snapshot(DATABASE)
        self.check_at(snapshot, self.tables)
        self.points.append(
            (snapshot.token, {n: replace(t, files=dict(t.files)) for n, t in self.tables.items()})
        )

    def check_at(self, snapshot: Any, tables: dict[str, Table], *, engines: bool = False) -> None:
        assert set(snapshot.tables()) == set(tables), (snapshot.tables(), set(tables))
        for name, table in tables.items():
            ids = self.wanted(table)
            wanted = self.read(table, ids)
            found = snapshot.to_arrow(name)
            self.same(found.to_pylist(), wanted, f"{name} scan")
            assert set(found.column_names) <= set(table.columns)
            if not engines and self.rng.random() < 0.6:
                continue
            where, met = self.predicate(table)
            while not self.has(found, where):
                where, met = self.predicate(table)
            kept = self.read(table, [one for one in ids if met(one)])
            self.same(snapshot.to_arrow(name, where=where).to_pylist(), kept, f"{name} {where}")
            writer = self.rng.choice(WRITERS)
            if not table.key:
                own = sorted(self.shown(table, writer).elements())
                self.same(snapshot.to_arrow(name, writer=writer).to_pylist(),
                          self.read(table, own), f"{name} {writer}")  # fmt: skip
            if engines:
                self.engines(snapshot, name, wanted, where, kept)

    def has(self, found: pa.Table, where: str) -> bool:
        return where == "TRUE" or where.split(maxsplit=1)[0] in found.column_names

    def engines(self, snapshot: Any, name: str, wanted: list[str], where: str, kept: list[str]):
        connection = snapshot.to_duckdb()
        found = connection.sql(f'FROM "{name}"').to_arrow_table().to_pylist()
        self.same(found, wanted, f"{name} DuckDB")
        found = connection.sql(f'FROM "{name}" WHERE {where}').to_arrow_table().to_pylist()
        self.same(found, kept, f"{name} DuckDB {where}")
        counted = connection.sql(f'SELECT count(*) FROM "{name}"').fetchall()
        assert counted == [(len(wanted),)]
        self.same(snapshot.to_polars(name).collect().to_dicts(), wanted, f"{name} Polars")
        self.same(snapshot.dataset(name).to_table().to_pylist(), wanted, f"{name} dataset")
        assert snapshot.dataset(name).count_rows() == len(wanted)
        assert len(snapshot.to_pandas(name)) == len(wanted)

    def same(self, found: list[dict], wanted: list[str], what: str) -> None:
        got = Counter(map(text, found))
        need = Counter(wanted)
        assert got == need, (what, "shown too much", got - need, "missing", need - got)

    def check_points(self, most: int, *, engines: bool = False) -> None:
        for token, tables in self.rng.sample(self.points, min(most, len(self.points))):
            try:
                snapshot = self.catalog.snapshot(DATABASE, token)
            except SnapshotPruned:
                continue
            self.check_at(snapshot, tables, engines=engines)


def number_of(path: str) -> int:
    """Of a file that lakelog wrote, in its transaction."""
    end = path.removesuffix(".parquet").rsplit("-", 1)
    return int(end[1]) if len(end) == 2 and end[1].isdigit() else 1 << 40


def text(row: dict[str, Any]) -> str:
    """A column that only rows lacked which are gone may not be there: null and nothing are one."""
    return repr(sorted((name, value) for name, value in row.items() if value is not None))
