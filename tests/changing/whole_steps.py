"""Random changes of rows, each with what it does to the model."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
from lakelog.errors import (
    InvalidPredicate,
    UsageError,
)
from whole_model import BASE, DATABASE, TABLES, WRITERS, Model, Table


class Steps(Model):
    """Steps that write, replace and delete rows."""

    def begin(self, name: str) -> None:
        """Every writer writes the table, so that all logs know it."""
        number = next(self.numbers)
        columns = {n: replace(c, number=next(self.numbers)) for n, c in BASE.items()}
        table = Table(columns, evolves=self.rng.random() < 0.8, number=number)
        for writer in WRITERS:
            data = self.data(table, self.rng.choice([1, 3]))
            self.do(writer, lambda tx, data=data: tx.write(name, self.full(table, data)))
            if table.evolves:
                self.do(writer, lambda tx: tx.evolve(name, order=["id"]))
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
        name, writer = self.forced or (self.rng.choice(TABLES), self.rng.choice("uuuvw"))
        if name not in self.tables:
            self.begin(name)
        return name, self.tables[name], writer

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
        data = self.data(table, 4) if self.rng.random() < 0.5 else None
        self.say("delete", name, writer, where, mode, data and data.to_pylist())

        def act(tx: Any) -> Any:
            done = tx.delete(name, where, mode=mode)
            if data is not None:
                tx.write(name, data, **self.clock(table))
            return done

        try:
            _, done = self.do(writer, act)
        except InvalidPredicate as error:
            self.refused(error, by_key=False)
            return
        files = {
            (w, p): replace(f, gone=f.gone | {i for i in f.ids if met(i)}) if w == writer else f
            for (w, p), f in table.files.items()
        }
        before = self.not_deleted(table, writer)
        table = self.tables[name] = replace(table, files=files)
        shown = self.shown(table, writer)
        if done.rows is not None and not table.key:
            assert done.rows == before - self.not_deleted(table, writer), done
        if table.key:
            assert not done.files_removed
        self.settle(name, writer, shown + Counter(data["id"].to_pylist() if data else []))

    def delete_of_all(self) -> None:
        """Rows of the files of all writers."""
        name, table, _ = self.pick()
        where, met = self.predicate(table)
        mode = self.rng.choice(["auto", "predicate", "rows"])
        self.say("delete of all", name, where, mode)
        try:
            self.catalog.delete(DATABASE, name, where, mode=mode)
        except InvalidPredicate as error:
            self.refused(error, by_key=False)
            return
        self.counts["deleted of all"] += 1
        table = self.tables[name]
        files = {
            key: replace(file, gone=file.gone | {i for i in file.ids if met(i)})
            for key, file in table.files.items()
        }
        self.tables[name] = replace(table, files=files)
        shown = self.shown(self.tables[name])
        self.learn()
        assert self.shown(self.tables[name]) == shown

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
            self.refused(error, by_key=bool(table.key))
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
            self.refused(error, by_key=bool(table.key))
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

        before = self.not_deleted(table, writer)
        files = {
            (w, p): replace(f, gone=f.gone | {i for i in f.ids if met(i)}) if w == writer else f
            for (w, p), f in table.files.items()
        }
        table = self.tables[name] = replace(table, files=files)
        shown = self.shown(table, writer)
        assert done.replaced == before - self.not_deleted(table, writer), done
        self.settle(name, writer, shown + new)
