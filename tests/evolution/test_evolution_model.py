"""Random writes and changes of columns by two writers, held against a plain list of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from evolution_cases import INT, LONG, TEXT, Lake, Rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample import examples

NAMES = ["a", "b", "c", "d"]
WRITERS = ["v", "w"]
KINDS = {"int32": INT, "int64": LONG, "string": TEXT}


@dataclass
class Column:
    """A column of the model: each has a number of its own, whatever its name."""

    number: int
    kind: pa.DataType
    default: Any = None


@dataclass
class Model:
    """What both writers' logs say: all changes are made in both at once, so that their columns are
    the same; rows know values by the column's number."""

    columns: dict[str, Column] = field(default_factory=dict)
    rows: list[dict[int, Any]] = field(default_factory=list)
    numbers: int = 0

    def add(self, name: str, kind: pa.DataType, default: Any = None) -> None:
        self.numbers += 1
        self.columns[name] = Column(self.numbers, kind, default)

    def read(self) -> Rows:
        return [
            {name: row.get(c.number, c.default) for name, c in self.columns.items()}
            for row in self.rows
        ]


def value_of(kind: pa.DataType, number: int) -> Any:
    return f"text {number}" if kind == TEXT else number


@pytest.mark.slow("each example is a lake of its own, read by three engines at every revision")
@settings(
    max_examples=examples(5), deadline=None, suppress_health_check=[HealthCheck.data_too_large]
)
@given(st.data())
def test_every_engine_gives_the_rows_of_the_model_at_every_revision(data: st.DataObject) -> None:
    lake, model = Lake(), Model()
    model.add("a", INT)
    model.add("b", TEXT)
    for writer in WRITERS:
        write(lake, model, writer, ["a", "b"], 0)
    known: list[tuple[str, Rows]] = [(lake.now.token, model.read())]
    for step in range(1, data.draw(st.integers(2, 7))):
        what = data.draw(st.sampled_from(["write", "write", "add", "drop", "rename", "widen"]))
        if what == "write":
            names = data.draw(
                st.lists(st.sampled_from(list(model.columns)), min_size=1, unique=True)
            )
            write(lake, model, data.draw(st.sampled_from(WRITERS)), names, step)
        else:
            change(lake, model, what, data)
        known.append((lake.now.token, model.read()))
        if data.draw(st.booleans()):
            with lake.catalog.writer(data.draw(st.sampled_from(WRITERS)), "db") as opened:
                opened.checkpoint()
    for token, rows in known:
        snapshot = lake.catalog.snapshot("db", token)
        found = {
            "scan": snapshot.to_arrow("t").to_pylist(),
            "duckdb": snapshot.to_duckdb().sql("FROM t").to_arrow_table().to_pylist(),
            "polars": snapshot.to_polars("t").collect().to_dicts(),
        }
        for engine, read in found.items():
            assert sorted(map(text, read)) == sorted(map(text, rows)), engine
    check_conditions(lake, model)


def text(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))


def write(lake: Lake, model: Model, writer: str, names: list[str], step: int) -> None:
    """Two rows with some of the columns."""
    numbers = [10 * step, 10 * step + 1]
    columns = {n: [value_of(model.columns[n].kind, number) for number in numbers] for n in names}
    kinds = pa.schema([(n, model.columns[n].kind) for n in names])
    lake.do(lambda tx: tx.write("t", pa.table(columns, kinds)), writer=writer)
    for at in range(2):
        model.rows.append({model.columns[n].number: columns[n][at] for n in names})


def change(lake: Lake, model: Model, what: str, data: st.DataObject) -> None:
    """One change of the columns, in both logs."""
    there = sorted(model.columns)
    free = [name for name in NAMES if name not in there]
    if what == "add" and free:
        name, kind = data.draw(st.sampled_from(free)), data.draw(st.sampled_from([INT, TEXT]))
        default = value_of(kind, 7) if data.draw(st.booleans()) else None
        lake.catalog.evolve(
            "db", "t", add={name: kind}, default={} if default is None else {name: default}
        )
        model.add(name, kind, default)
    elif what == "drop" and len(there) > 1:
        name = data.draw(st.sampled_from(there))
        lake.catalog.evolve("db", "t", drop=[name])
        del model.columns[name]
    elif what == "rename":
        old = data.draw(st.sampled_from(there))
        new = data.draw(st.sampled_from([*free, *(n for n in there if n != old)] or [old]))
        if new == old:
            return
        swap = {old: new, new: old} if new in there else {old: new}
        lake.catalog.evolve("db", "t", rename=swap)
        model.columns = {swap.get(name, name): column for name, column in model.columns.items()}
    elif what == "widen":
        name = data.draw(st.sampled_from(there))
        if model.columns[name].kind == INT:
            lake.catalog.evolve("db", "t", widen={name: LONG})
            model.columns[name].kind = LONG


def check_conditions(lake: Lake, model: Model) -> None:
    """What is skipped holds no row that is asked for."""
    rows = model.read()
    for name, column in model.columns.items():
        for value in {row[name] for row in rows} | {value_of(column.kind, 7)}:
            if value is None:
                where, wanted = f"{name} IS NULL", [r for r in rows if r[name] is None]
            else:
                said = f"'{value}'" if column.kind == TEXT else str(value)
                where, wanted = f"{name} = {said}", [r for r in rows if r[name] == value]
            found = lake.rows(where=where)
            assert sorted(map(text, found)) == sorted(map(text, wanted)), where
