"""Random histories of everything that changes data, together: rows, columns and keys, guests that
race, going back, maintenance and rebuilds.

    python tests/changing/whole_changes.py --first 1 --count 500

runs many and prints those that fail; --tell says what each did.
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from lakelog.errors import (
    ConflictError,
    SchemaConflict,
    SnapshotPruned,
    TableNotFound,
    UsageError,
)
from lakelog.rebuild import execute_rebuild, plan_rebuild
from whole_model import (
    DATABASE,
    DAY_S,
    INT,
    LONG,
    SPARE,
    TABLES,
    TEXT,
    WRITERS,
    Column,
    Table,
    text,
)
from whole_steps import Steps


class History(Steps):
    """A random history of one seed."""

    def race(self) -> None:
        """A transaction that looks at the log, and commits after others did."""
        name, table, writer = self.pick()
        opened = self.catalog.writer(writer, DATABASE, shared=True)
        tx = opened.transaction()
        try:
            self.forced = (name, writer)
            self._race(tx, name, table, writer)
        finally:
            self.forced = None
            if tx.commit_info is None:
                tx.discard()
            opened.close()

    def _race(self, tx: Any, name: str, table: Table, writer: str) -> None:
        what = self.rng.choice(["append", "delete", "delete", "overwrite", "rewrite", "remove",
                                "upsert"])  # fmt: skip
        where, met = self.predicate(table)
        data = self.data(table, 2, whole_key=True)
        paths = [path for path in sorted(table.of(writer)) if self.rng.random() < 0.5]
        keys = [n for n, c in table.columns.items() if c.number in table.key]
        mode = self.rng.choice(["auto", "predicate", "rows"])
        self.say("race", what, name, writer, where, mode, data.to_pylist(), paths)
        here = {one for file in table.of(writer).values() for one in file.ids}

        def goes(one):
            return False

        new = Counter(data["id"].to_pylist()) if what in ("append", "overwrite", "upsert") else {}
        try:
            if what == "append":
                tx.append(name, data, **self.clock(table))
            elif what == "delete":
                done = tx.delete(name, where, mode=mode)
                goes = met if done.tombstones else lambda one: one in here and met(one)
            elif what == "overwrite":
                tx.overwrite(name, data, where, validate=False)
                goes = met
            elif what == "rewrite":
                if not paths:
                    return
                tx.rewrite(name, paths)
            elif what == "remove":
                for path in paths:
                    tx.remove(path)
            else:
                by = keys or ["k" if "k" in table.columns else "id"]
                if any(None in data[n].to_pylist() for n in by):
                    return
                tx.upsert(name, data, **({} if keys else {"key": by}))
                last = {tuple(row[n] for n in by): row["id"] for row in data.to_pylist()}
                new = Counter(last.values())
                columns = [table.columns[n] for n in by]
                if not keys:

                    def goes(one: int) -> bool:
                        key = tuple(self.value(one, c) for c in columns)
                        return one in here and key in last

        except UsageError as error:
            self.refused(error, by_key=bool(table.key))
            return
        for _ in range(self.rng.choice([1, 1, 2])):
            step = self.rng.choice(["write", "write", "delete", "overwrite", "rewrite", "remove",
                                    "upsert", "evolve", "checkpoint", "delete_of_all",
                                    "delete_of_all"])  # fmt: skip
            self.say(" meanwhile", step)
            getattr(self, step)()
            self.look()
        self.last.clear()
        try:
            info = tx.commit()
        except ConflictError as error:
            self.counts[f"race lost {what} {type(error).__name__}"] += 1
            self.say("  lost", error)
            return
        self.counts[f"race won {what}"] += 1
        if info is None:
            return
        table = self.tables[name]
        if what == "remove":
            for path in paths:
                del table.files[writer, path]
        files = {
            (w, p): replace(f, gone=f.gone | {i for i in f.ids if goes(i)}) if w == writer else f
            for (w, p), f in table.files.items()
        }
        table = self.tables[name] = replace(table, files=files)
        self.settle(name, writer, self.shown(table, writer) + Counter(new))

    def evolve(self) -> None:
        name, table, _ = self.pick()
        if not table.evolves:
            return
        change = self.change(name, table)
        if change is None:
            return
        asked, columns, key = change
        self.say("evolve", name, asked)
        dropped = {c.number for c in table.columns.values()} - {c.number for c in columns.values()}
        try:
            if self.rng.random() < 0.6 or self.counts["restore done"]:
                self.catalog.evolve(DATABASE, name, **asked)
            else:
                self.close()  # a handle may not have seen the last change
                for writer in WRITERS:
                    self.do(writer, lambda tx: tx.evolve(name, **asked))
        except UsageError as error:
            self.refused(error, by_key=bool(dropped & set(table.key)))
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
            assert name not in self.tables
            assert name not in then
            return
        self.counts["restore done"] += 1
        for each in TABLES if name is None else [name]:
            if each in then:
                self.tables[each] = replace(then[each], files=dict(then[each].files))
            elif each in self.tables:
                self.tables[each] = replace(self.tables[each], files={})
        wanted = {n: (self.shown(t), self.wanted(t)) for n, t in self.tables.items()}
        self.learn()
        assert {n: (self.shown(t), self.wanted(t)) for n, t in self.tables.items()} == wanted

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

    def check_changes(self, net: bool) -> None:
        """The rows of an earlier point, without those that are told deleted and with those that are
        told inserted, are the rows of a later one. Those of a table that was dropped since are told
        by the columns that it had last."""
        name = self.rng.choice(TABLES)
        first, last = sorted(self.rng.choices(range(len(self.points)), k=2))
        (since, before), (until, after) = self.points[first], self.points[last]
        if name not in before or name not in after:
            return
        tables = [then[name] for _, then in self.points[first : last + 1] if name in then]
        of = {table.number: table.columns for table in tables}
        columns = of[before[name].number]
        self.say("changes", name, since, until, net)
        try:
            told = self.catalog.changes(DATABASE, name, since, until, net=net).read_all()
        except SnapshotPruned:
            self.counts["changes pruned"] += 1
            return
        except SchemaConflict:
            assert any(self.conflict(one, other) for one in of.values() for other in of.values())
            self.counts["changes of other types"] += 1
            return
        self.counts[f"changes {net=}"] += 1
        ids = self.wanted(before[name])
        rows = Counter(self.read(replace(before[name], columns=columns), ids))
        for row in told.to_pylist():
            shown = text({n: v for n, v in row.items() if n in columns | after[name].columns})
            rows[shown] += 1 if row["_change"] == "insert" else -1
        wanted = Counter(self.read(after[name], self.wanted(after[name])))
        left = {row: n - wanted[row] for row, n in (rows | wanted).items()}
        left |= {row: n - wanted[row] for row, n in rows.items()}
        assert not any(left.values()), (name, {row: n for row, n in left.items() if n})

    def conflict(self, one: dict[str, Column], other: dict[str, Column]) -> bool:
        """Whether columns of one name have types without a common one."""
        return any((one[n].kind == TEXT) != (other[n].kind == TEXT) for n in one if n in other)

    def run(self, steps: int) -> None:
        for name in TABLES:
            self.begin(name)
        self.look()
        names = (
            ["write"] * 4 + ["delete"] * 3 + ["evolve"] * 4 + ["overwrite", "rewrite"] * 2
            + ["upsert", "upsert", "remove", "restore", "restore", "restore", "drop", "checkpoint"]
            + ["prune", "gc", "rebuild"] + ["race"] * 4 + ["delete_of_all"] * 4
        )  # fmt: skip
        for step in range(steps):
            self.world.clock.now_s += 60
            name = self.rng.choice(names)
            self.counts[name] += 1
            self.say(step, name)
            if name in ("race", "remove", "evolve", "restore", "drop", "rebuild", "delete_of_all"):
                self.last.clear()  # by the catalog perhaps
            getattr(self, name)()
            self.look()
            if self.rng.random() < 0.2:
                self.check_points(2)
            if self.points and self.rng.random() < 0.5:
                self.check_changes(net=self.rng.random() < 0.7)
        self.check_points(6)
        self.check_points(1, engines=True)
        self.check_at(self.catalog.snapshot(DATABASE), self.tables, engines=True)
        self.close()


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
        if args.tell or seed % 10 == 9:
            print(f"... {seed}", dict(counts))
        sys.stdout.flush()
    print(dict(counts))
    print(f"{args.count} histories, {len(bad)} failed: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
