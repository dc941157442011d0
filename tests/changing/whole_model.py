"""Everything that changes data, together: a database of two tables and three writers with guests,
random steps of every operation and of maintenance, and what must be read after each, in plain
Python.

    python tests/changing/whole_model.py --first 1 --count 500

runs many histories and prints those that fail.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from changing_cases import World
from lakelog.errors import (
    ConflictError,
    InvalidPredicate,
    SnapshotPruned,
    TableNotFound,
    UnknownSchema,
    UsageError,
)
from lakelog.rebuild import execute_rebuild, plan_rebuild

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
    """A live file: ids of its rows in order, and of those that were deleted."""

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
    """A table at a point in time. `files` by writer and path."""

    columns: dict[str, Column]
    files: dict[tuple[str, str], File] = field(default_factory=dict)
    key: tuple[int, ...] = ()  # numbers of columns

    def of(self, writer: str) -> dict[str, File]:
        return {path: file for (name, path), file in self.files.items() if name == writer}


BASE = {"id": Column(0, LONG), "k": Column(1, INT), "a": Column(2, TEXT)}


class History:
    """A random history and its model.

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
            except (ConflictError, UnknownSchema) as error:
                self.counts[f"conflict {type(error).__name__}"] += 1
                self.say("  conflict", error)
                if attempt == 2:
                    raise
        raise AssertionError

    # --- Values -----------------------------------------------------------------------------------

    def value(self, row: int, column: Column) -> Any:
        return row if column.number == 0 else self.rows[row].get(column.number, column.default)

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
            if whole_key and column.number in (table.key or (1,)):
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
            self.rows[one] = {table.columns[n].number: columns[n][at] for n in names if n != "id"}
        return pa.table(columns, pa.schema([(n, table.columns[n].kind) for n in names]))

    def lacks(self, error: Exception) -> bool:
        """Whether a step names a column that no file of this log has any more."""
        self.counts["no such column"] += 1
        return "no column" in str(error)

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
            return f"id >= {low} AND id < {end + 4}", lambda row: low <= row < end + 4
        what = rng.choice(
            ["=", ">=", "<", "null", "not null", "all" if rng.random() < 0.2 else "="]
        )
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
            age = (file.clock, file.revision, writer, file.number, path)
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

    def learn(self, fresh: bool = False) -> None:
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
                    known = File(path, tuple(ids), number=number_of(path))
                live[writer, path] = replace(
                    known, clock=row["last_clock"], revision=row["revision"]
                )
            self.tables[name] = replace(table, files=live)

    def shown(self, table: Table, writer: str = "") -> Counter[int]:
        return Counter(
            one for (name, _), file in table.files.items() if writer in ("", name)
            for one in file.shown
        )  # fmt: skip

    def settle(self, name: str, writer: str, shown: Counter[int]) -> None:
        """Learn the files, of which one writer's show exactly these rows."""
        self.learn()
        now = self.shown(self.tables[name], writer)
        assert now == shown, (name, writer, "too many", now - shown, "lost", shown - now)

    # --- Steps ------------------------------------------------------------------------------------

    def begin(self, name: str) -> None:
        """Every writer writes the table, so that all logs know it."""
        table = Table(dict(BASE))
        for writer in WRITERS:
            data = self.data(table, self.rng.choice([1, 3]))
            self.do(writer, lambda tx, data=data: tx.write(name, self.full(table, data)))
        self.tables[name] = table
        self.learn()

    def full(self, table: Table, data: pa.Table) -> pa.Table:
        """With all columns, so that they are the table's."""
        for name, column in table.columns.items():
            if name not in data.column_names:
                data = data.append_column(
                    pa.field(name, column.kind), pa.nulls(data.num_rows, column.kind)
                )
        return data

    def pick(self) -> tuple[str, Table, str]:
        name = self.rng.choice(TABLES)
        if name not in self.tables:
            self.begin(name)
        return name, self.tables[name], self.rng.choice(WRITERS)

    def clock(self, table: Table) -> dict[str, Any]:
        if not table.key or self.rng.random() < 0.3:
            return {}
        last = self.rng.choice([1, 5, 7, next(self.clocks)])
        return {"clock": (last - 1, last)}

    def write(self) -> None:
        name, table, writer = self.pick()
        data = self.data(table, self.rng.choice([1, 2, 5]))
        options = self.clock(table)
        if self.rng.random() < 0.3 and "k" in data.column_names:
            options["partition_by"] = ["k"]
        how = self.rng.choice(["write", "append"])
        self.say(how, name, writer, data.to_pylist(), options)
        self.do(writer, lambda tx: getattr(tx, how)(name, data, **options))
        shown = self.shown(table, writer) + Counter(data["id"].to_pylist())
        self.settle(name, writer, shown)

    def delete(self) -> None:
        name, table, writer = self.pick()
        where, met = self.predicate(table)
        mode = self.rng.choice(["auto", "predicate", "rows"])
        data = self.data(table, 2) if self.rng.random() < 0.2 else None
        self.say("delete", name, writer, where, mode, data and data.to_pylist())

        def act(tx: Any) -> Any:
            done = tx.delete(name, where, mode=mode)
            if data is not None:
                tx.write(name, data, **self.clock(table))
            return done

        try:
            _, done = self.do(writer, act)
        except InvalidPredicate as error:
            assert self.lacks(error)
            return
        files = {
            (w, p): replace(f, gone=f.gone | {i for i in f.ids if met(i)}) if w == writer else f
            for (w, p), f in table.files.items()
        }
        before = self.shown(table, writer)
        table = self.tables[name] = replace(table, files=files)
        shown = self.shown(table, writer)
        if done.rows is not None and not table.key:
            assert done.rows == (before - shown).total(), (done, before - shown)
        if table.key:
            assert not done.files_removed
        self.settle(name, writer, shown + Counter(data["id"].to_pylist() if data else []))

    def remove(self) -> None:
        name, table, writer = self.pick()
        paths = [path for path in sorted(table.of(writer)) if self.rng.random() < 0.4]
        if not paths:
            return
        self.say("remove", name, writer, paths)
        if self.rng.random() < 0.3:
            self.catalog.remove(DATABASE, name, writer=writer, paths=paths, execute=True)
        else:
            self.do(writer, lambda tx: [tx.remove(path) for path in paths])
        for path in paths:
            del table.files[writer, path]
        self.settle(name, writer, self.shown(table, writer))

    def overwrite(self) -> None:
        name, table, writer = self.pick()
        where, met = self.predicate(table)
        if self.rng.random() < 0.15:
            where, met = None, lambda row: True
        data = self.data(table, self.rng.choice([0, 1, 3]))
        self.say("overwrite", name, writer, where, data.to_pylist())
        try:
            tx, done = self.do(writer, lambda tx: tx.overwrite(name, data, where, validate=False))
        except UsageError as error:
            assert (table.key and "key" in error.message) or self.lacks(error), error
            return
        assert not table.key
        if tx.commit_info is None and tx.is_stale:  # there was nothing, as far as it knew
            assert not done.removed
            return
        before = self.shown(table, writer)
        stay = Counter({one: n for one, n in before.items() if not met(one)})
        assert done.rows_removed == (before - stay).total(), (done, before - stay)
        self.settle(name, writer, stay + Counter(data["id"].to_pylist()))

    def rewrite(self) -> None:
        name, table, writer = self.pick()
        paths = [path for path in sorted(table.of(writer)) if self.rng.random() < 0.6]
        if not paths:
            return
        sort = self.rng.choice([None, "id"])
        self.say("rewrite", name, writer, paths, sort)
        try:
            self.do(writer, lambda tx: tx.rewrite(name, paths, sort_by=sort))
        except UsageError as error:
            assert table.key and "key" in error.message, error
            return
        assert not table.key
        self.settle(name, writer, self.shown(table, writer))

    def upsert(self) -> None:
        name, table, writer = self.pick()
        data = self.data(table, self.rng.choice([1, 3]), whole_key=True)
        keys = [n for n, c in table.columns.items() if c.number in table.key]
        options: dict[str, Any] = {}
        if not table.key:
            keys = ["k"] if "k" in table.columns else ["id"]
            if any(v is None for v in data[keys[0]].to_pylist()):
                return
            options["key"] = keys
        self.say("upsert", name, writer, data.to_pylist(), options)
        _, done = self.do(writer, lambda tx: tx.upsert(name, data, **options))
        last = {tuple(row[n] for n in keys): row["id"] for row in data.to_pylist()}
        new = Counter(last.values())
        if table.key:
            assert done.replaced is None
            self.settle(name, writer, self.shown(table, writer) + new)
            return
        columns = [table.columns[n] for n in keys]

        def met(one: int) -> bool:
            return tuple(self.value(one, c) for c in columns) in last

        before = self.shown(table, writer)
        files = {
            (w, p): replace(f, gone=f.gone | {i for i in f.ids if met(i)}) if w == writer else f
            for (w, p), f in table.files.items()
        }
        table = self.tables[name] = replace(table, files=files)
        shown = self.shown(table, writer)
        assert done.replaced == (before - shown).total(), (done, before - shown)
        self.settle(name, writer, shown + new)

    def evolve(self) -> None:
        name, table, _ = self.pick()
        change = self.change(name, table)
        if change is None:
            return
        asked, columns, key = change
        self.say("evolve", name, asked)
        dropped = {c.number for c in table.columns.values()} - {c.number for c in columns.values()}
        try:
            if self.rng.random() < 0.6:
                self.catalog.evolve(DATABASE, name, **asked)
            else:
                self.close()  # a handle may not have seen the last change
                for writer in WRITERS:
                    self.do(writer, lambda tx: tx.evolve(name, **asked))
        except UsageError as error:
            assert dropped & set(table.key) or self.lacks(error), error
            return
        assert not dropped & set(table.key)
        self.tables[name] = replace(table, columns=columns, key=key)
        self.learn()

    def change(self, name: str, table: Table) -> Any:
        rng, columns = self.rng, dict(table.columns)
        free = [n for n in SPARE if n not in columns]
        there = [n for n in columns if n != "id"]
        what = rng.choice(["add", "add", "drop", "rename", "widen", "again"])
        if name == "keyed" and rng.random() < 0.4:
            if table.key:
                return ({"key": []}, columns, ()) if rng.random() < 0.3 else None
            names = [n for n in there if rng.random() < 0.5] or ["id"]
            return {"key": names}, columns, tuple(columns[n].number for n in names)
        if what == "add" and free:
            new, kind = rng.choice(free), rng.choice([INT, TEXT])
            column = Column(next(self.numbers), kind)
            asked: dict[str, Any] = {"add": {new: kind}}
            if rng.random() < 0.5:
                value = self.draw(column)
                if value is not None:
                    asked["default"], column = {new: value}, replace(column, default=value)
            return asked, columns | {new: column}, table.key
        if what == "drop" and len(there) > 1:
            old = rng.choice(there)
            del columns[old]
            return {"drop": [old]}, columns, table.key
        if what == "again" and there:
            old, kind = rng.choice(there), rng.choice([INT, TEXT])
            columns[old] = Column(next(self.numbers), kind)
            return {"drop": [old], "add": {old: kind}}, columns, table.key
        if what == "rename" and there:
            old, new = rng.choice(there), rng.choice([*free, *there])
            if old == new:
                return None
            swap = {old: new, new: old} if new in columns else {old: new}
            columns = {swap.get(n, n): c for n, c in columns.items()}
            return {"rename": swap}, columns, table.key
        if what == "widen":
            old = rng.choice(there)
            if columns[old].kind == INT:
                columns[old] = replace(columns[old], kind=LONG)
                return {"widen": {old: LONG}}, columns, table.key
        return None

    def restore(self) -> None:
        if not self.points:
            return
        token, then = self.rng.choice(self.points)
        name = self.rng.choice([None, *TABLES])
        self.say("restore", name, token)
        try:
            self.catalog.restore(DATABASE, name, to=token, execute=True)
        except SnapshotPruned:
            self.counts["restore pruned"] += 1
            return
        except TableNotFound:
            assert name not in self.tables and name not in then
            return
        except UsageError as error:
            self.counts["restore refused"] += 1
            self.say("  refused", error)
            return
        self.counts["restore done"] += 1
        for each in TABLES if name is None else [name]:
            if each in then:
                self.tables[each] = replace(then[each], files=dict(then[each].files))
            elif each in self.tables:
                self.tables[each] = replace(self.tables[each], files={})
        wanted = {n: self.shown(t) for n, t in self.tables.items()}
        self.learn()
        assert {n: self.shown(t) for n, t in self.tables.items()} == wanted

    def drop(self) -> None:
        if self.rng.random() < 0.5:
            return
        name = self.rng.choice(TABLES)
        self.say("drop", name)
        try:
            self.catalog.drop(DATABASE, name, execute=True)
        except TableNotFound:
            assert name not in self.tables
            return
        assert name in self.tables
        del self.tables[name]

    def checkpoint(self) -> None:
        writer = self.rng.choice(WRITERS)
        handle, name = self.handle(writer)
        self.say("checkpoint", name)
        handle.checkpoint()

    def prune(self) -> None:
        writer = self.rng.choice(WRITERS)
        self.say("prune", writer)
        self.close(writer)
        self.world.clock.now_s += 8 * DAY_S
        self.world.prune(writer)

    def gc(self) -> None:
        writer = self.rng.choice(WRITERS)
        self.say("gc", writer)
        self.world.clock.now_s += 8 * DAY_S
        report = self.world.gc(writer)
        self.counts["gc deleted"] += getattr(report, "deleted", 0) or 0

    def rebuild(self) -> None:
        writer = self.rng.choice(WRITERS)
        self.say("rebuild", writer)
        self.close(writer)
        plan = plan_rebuild(self.catalog, writer, DATABASE)
        execute_rebuild(self.catalog, plan)
        self.points.clear()
        self.learn()

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

    def run(self, steps: int) -> None:
        for name in TABLES:
            self.begin(name)
        self.look()
        names = (
            ["write"] * 4 + ["delete"] * 3 + ["evolve"] * 4 + ["overwrite", "rewrite"] * 2
            + ["upsert", "upsert", "remove", "restore", "restore", "drop", "checkpoint"]
            + ["prune", "gc", "rebuild"]
        )  # fmt: skip
        for step in range(steps):
            self.world.clock.now_s += 60
            name = self.rng.choice(names)
            self.counts[name] += 1
            self.say(step, name)
            if name in ("remove", "evolve", "restore", "drop", "rebuild"):
                self.last.clear()  # by the catalog perhaps
            getattr(self, name)()
            self.look()
            if self.rng.random() < 0.2:
                self.check_points(2)
        self.check_points(100)
        self.check_points(2, engines=True)
        self.check_at(self.catalog.snapshot(DATABASE), self.tables, engines=True)
        self.close()


def number_of(path: str) -> int:
    """Of a file that lakelog wrote, in its transaction."""
    end = path.removesuffix(".parquet").rsplit("-", 1)
    return int(end[1]) if len(end) == 2 and end[1].isdigit() else 1 << 40


def text(row: dict[str, Any]) -> str:
    """A column that only rows lacked which are gone may not be there: null and nothing are one."""
    return repr(sorted((name, value) for name, value in row.items() if value is not None))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--tell", action="store_true")
    args = parser.parse_args()
    counts, bad = Counter(), []
    for seed in range(args.first, args.first + args.count):
        history = History(seed)
        try:
            history.run(args.steps)
        except Exception as error:
            bad.append(seed)
            print(
                f"seed {seed}: step {len(history.told)}: {type(error).__name__}: {str(error)[:600]}"
            )
            print("   ", [line for line in history.told if not line.startswith("  ")][-1][:300])
            print("   ", traceback.extract_tb(error.__traceback__)[-1])
            if args.tell:
                print("\n".join(history.told))
                traceback.print_exc()
        counts += history.counts
        sys.stdout.flush()
    print(dict(counts))
    print(f"{args.count} histories, {len(bad)} failed: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
