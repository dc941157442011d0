"""Two writers and guests, each of whom changes the columns of a table in one log as it likes, held
against plain rows that know their values by a number of the column, whatever its name."""

from __future__ import annotations

import copy
import random
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from evolution_cases import INT, LONG, TEXT, Lake, Rows
from hypothesis import given, settings
from hypothesis import strategies as st
from lakelog.errors import SchemaConflict
from sample import examples

WRITERS = "vw"
NUMBERS, TEXTS = "abe", "cd"  # names of columns by the family of their types


@dataclass
class Column:
    """A column of one log: nobody else ever has its number."""

    number: int
    kind: pa.DataType
    default: Any = None


@dataclass
class Log:
    """What one log says.

    Attributes:
        columns: By name.
        rows: Values by the column's number.
        had: Names that its files ever had.
    """

    columns: dict[str, Column] = field(default_factory=dict)
    rows: list[dict[int, Any]] = field(default_factory=list)
    had: set[str] = field(default_factory=set)

    def read(self) -> Rows:
        return [
            {name: row.get(c.number, c.default) for name, c in self.columns.items()}
            for row in self.rows
        ]


class Model:
    """The logs of both writers, and what was read at each point in time."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lake = Lake()
        self.logs = {name: Log() for name in WRITERS}
        self.points: dict[str, dict[str, Log]] = {}
        self.told: list[str] = []
        self.last = 0
        for name in WRITERS:
            self.write(name)
        self.keep()

    def do(self, name: str, change: Any) -> None:
        """A transaction of the owner or of a guest."""
        guest = self.rng.random() < 0.5
        with self.lake.catalog.writer(name, "db", shared=guest, checkpoint_every=0) as writer:
            with writer.transaction() as tx:
                change(tx)
            if self.rng.random() < 0.2:
                writer.checkpoint()

    def new(self, kind: pa.DataType, default: Any = None) -> Column:
        self.last += 1
        return Column(self.last, kind, default)

    def value(self, kind: pa.DataType) -> Any:
        number = self.rng.randrange(9)
        return f"text {number}" if kind == TEXT else number

    def step(self) -> None:
        chosen = self.rng.choice(
            [self.write] * 4 + [self.evolve] * 5 + [self.delete, self.rewrite, self.restore]
        )
        name = self.rng.choice(WRITERS)
        self.told.append(f"{chosen.__name__} {name}")
        chosen(name)
        self.keep()

    # --- Steps ------------------------------------------------------------------------------------

    def write(self, name: str) -> None:
        log, rng = self.logs[name], self.rng
        free = [each for each in NUMBERS + TEXTS if each not in log.columns]
        names = [each for each in log.columns if rng.random() < 0.7]
        names += rng.sample(free, min(len(free), rng.choice([0, 0, 1] if log.columns else [2, 3])))
        rng.shuffle(names)
        if not names:
            return
        kinds = {
            each: log.columns[each].kind
            if each in log.columns
            else INT
            if each in NUMBERS
            else TEXT
            for each in names
        }
        rows = [{each: rng.choice([None, self.value(kinds[each])]) for each in names} for _ in "ab"]
        self.told[-1:] = [f"write {name} {rows}"]
        data = pa.Table.from_pylist(rows, pa.schema(list(kinds.items())))
        try:
            self.do(name, lambda tx: tx.write("t", data))
        except SchemaConflict:
            assert set(names) - log.columns.keys() & log.had, self.told
            return
        for each in names:
            if each not in log.columns:
                log.columns[each] = self.new(kinds[each])
        log.had |= set(names)
        log.rows += [{log.columns[each].number: row[each] for each in names} for row in rows]

    def evolve(self, name: str) -> None:
        log, rng = self.logs[name], self.rng
        there = list(log.columns)
        free = [each for each in NUMBERS + TEXTS if each not in log.columns]
        what = rng.choice(["add", "drop", "again", "rename", "swap", "widen", "order"])
        change: dict[str, Any] = {}
        after = dict(log.columns)
        one = rng.choice(there)
        family = NUMBERS if one in NUMBERS else TEXTS
        others = [each for each in there if each in family and each != one]
        if what == "add" and free:
            change = self._added(after, rng.choice(free))
        elif what == "drop" and len(there) > 1:
            change = {"drop": [one]}
            del after[one]
        elif what == "again":
            del after[one]
            change = {"drop": [one], **self._added(after, one)}
        elif what == "rename" and any(each in family for each in free):
            new = rng.choice([each for each in free if each in family])
            change = {"rename": {one: new}}
        elif what == "swap" and others:
            other = rng.choice(others)
            change = {"rename": {one: other, other: one}}
        elif what == "widen" and log.columns[one].kind == INT:
            change = {"widen": {one: LONG}}
            after[one] = Column(after[one].number, LONG, after[one].default)
        elif what == "order":
            change = {"order": rng.sample(there, rng.randint(1, len(there)))}
        if not change:
            return
        called = change.get("rename", {})
        after = {called.get(each, each): column for each, column in after.items()}
        self.told[-1] = f"evolve {name} {change}"
        if rng.random() < 0.3:
            self.lake.catalog.evolve("db", "t", writers=[name], **change)
        else:
            self.do(name, lambda tx: tx.evolve("t", **change))
        log.columns = after

    def _added(self, after: dict[str, Column], name: str) -> dict[str, Any]:
        kind = INT if name in NUMBERS else TEXT
        value = self.rng.choice([None, self.value(kind)])
        after[name] = self.new(kind, value)
        return {"add": {name: kind}, "default": {} if value is None else {name: value}}

    def delete(self, name: str) -> None:
        """By predicate or by numbers: of columns as they are called now."""
        log = self.logs[name]
        one = self.rng.choice(list(log.columns))
        value = self.value(log.columns[one].kind)
        said = f"'{value}'" if one in TEXTS else str(value)
        mode = self.rng.choice(["predicate", "predicate", "rows"])
        self.told[-1] += f" {one} = {said} {mode}"
        self.do(name, lambda tx: tx.delete("t", f"{one} = {said}", mode=mode))
        left = zip(log.rows, log.read(), strict=True)
        log.rows = [row for row, read in left if read[one] != value]

    def rewrite(self, name: str) -> None:
        paths = self.lake.now.files("t", writer=name)["path"].to_pylist()
        if paths and self.logs[name].rows:
            self.do(name, lambda tx: tx.rewrite("t", paths))

    def restore(self, _: str) -> None:
        token = self.rng.choice(list(self.points))
        self.lake.catalog.restore("db", "t", to=token, execute=True)
        now = self.logs
        self.logs = copy.deepcopy(self.points[token])
        for name, log in self.logs.items():
            log.had |= now[name].had

    # --- What must be read ------------------------------------------------------------------------

    def keep(self) -> None:
        """Every row, right after the step."""
        snapshot = self.lake.now
        self.points[snapshot.token] = copy.deepcopy(self.logs)
        if all(log.rows for log in self.logs.values()):  # a log without files shows no columns
            self.same(snapshot.to_arrow("t").to_pylist(), self.logs)

    def same(self, found: Rows, logs: dict[str, Log]) -> None:
        names = dict.fromkeys(each for log in logs.values() for each in log.columns)
        rows = [row for log in logs.values() for row in log.read()]
        wanted = [{each: row.get(each) for each in names} for row in rows]
        assert sorted(map(text, found)) == sorted(map(text, wanted)), self.told

    def check(self) -> None:
        """Every point in time, and some by other engines."""
        for token, logs in self.points.items():
            if not all(log.rows for log in logs.values()):
                continue
            snapshot = self.lake.catalog.snapshot("db", token)
            self.same(snapshot.to_arrow("t").to_pylist(), logs)
            if self.rng.random() < 0.2:
                self.same(snapshot.to_duckdb().sql("FROM t").to_arrow_table().to_pylist(), logs)
                self.same(snapshot.to_polars("t").collect().to_dicts(), logs)
        name = self.rng.choice(list(self.logs["v"].columns))
        value = self.value(self.logs["v"].columns[name].kind)
        said = f"'{value}'" if name in TEXTS else str(value)
        found = self.lake.now.to_arrow("t", where=f"{name} = {said}", writer="v").num_rows
        assert found == sum(row[name] == value for row in self.logs["v"].read()), self.told


def text(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))


def run(seed: int) -> Model:
    model = Model(seed)
    for _ in range(14):
        model.step()
    model.check()
    return model


@pytest.mark.slow("each example is a lake of its own, read at every revision")
@settings(max_examples=examples(6), deadline=None)
@given(st.integers(0, 2**32))
def test_logs_that_evolve_each_for_itself_give_the_rows_of_the_model(seed: int) -> None:
    run(seed)


if __name__ == "__main__":  # python tests/evolution/test_logs_model.py FIRST COUNT
    first, count = map(int, sys.argv[1:])
    failed = 0
    for number in range(first, first + count):
        try:
            run(number)
        except Exception:  # the others are run all the same
            failed += 1
            print("seed", number)
            traceback.print_exc()
    print(f"{count} histories, {failed} failed")
