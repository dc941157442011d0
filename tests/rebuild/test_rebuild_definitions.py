"""What the columns of tables are comes back with a log that can be read, and is lost with one that
can't."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from lakelog.errors import InvalidPath
from lakelog.rebuild import RebuildPlan, execute_rebuild, plan_rebuild
from rebuild_cases import lose_the_log


@pytest.fixture
def evolved(catalog):
    """A table with a dropped and re-added column, a renamed one, and one with a default."""
    with catalog.writer("EWR", "weather", checkpoint_every=0) as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"a": ["x"], "b": pa.array([5], pa.int32())}))
        with writer.transaction() as tx:
            tx.evolve("t", drop=["b"], add={"b": pa.int32()}, default={"b": 50})
        with writer.transaction() as tx:
            tx.evolve("t", rename={"a": "c"})
            tx.write("t", pa.table({"c": ["y"], "b": pa.array([5], pa.int32())}))
    return catalog


def rows(catalog):
    return sorted(catalog.snapshot("weather").to_arrow("t").to_pylist(), key=repr)


def rebuild(store, fake, **asked):
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient, **asked)
    plan = RebuildPlan.from_json(plan.to_json())
    execute_rebuild(store, plan, ambient=fake.ambient)
    return plan


@pytest.mark.parametrize("checkpoint", [True, False])
def test_definitions_are_kept_exactly(evolved, store, fake, checkpoint):
    if checkpoint:
        with evolved.writer("EWR", "weather") as writer:
            writer.checkpoint()
    before = rows(evolved)
    entry = evolved.snapshot("weather")._states[0].definitions.entries["t"]
    assert before == [{"c": "x", "b": 50}, {"c": "y", "b": 5}]
    for _ in range(2):  # and by a rebuild of the rebuilt one
        rebuild(store, fake)
        assert rows(evolved) == before
        again = evolved.snapshot("weather")._states[0].definitions.entries["t"]
        assert again.message == entry.message
    with evolved.writer("EWR", "weather") as writer, writer.transaction() as tx:
        tx.evolve("t", drop=["b"])
    assert rows(evolved) == [{"c": "x"}, {"c": "y"}]


def test_a_definition_that_was_forgotten_stays_forgotten(evolved, store, fake):
    with evolved.writer("EWR", "weather") as writer:
        with writer.transaction() as tx:
            for path in evolved.snapshot("weather").files("t").column("path").to_pylist():
                tx.remove(path)
            tx.write("u", pa.table({"n": [1]}))
        writer.forget(tables=["t"])
    rebuild(store, fake)
    assert "t" not in evolved.snapshot("weather")._states[0].schemas.tables()


def test_of_a_lost_log_definitions_come_back(evolved, store, fake):
    before = rows(evolved)
    lose_the_log(store)
    rebuild(store, fake)
    assert rows(evolved) == before


def test_a_plan_whose_definition_was_changed_is_refused(evolved, store, fake):
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    place = next(n for n, item in enumerate(plan.transactions) if item.definitions)
    items = list(plan.transactions)
    items[place] = dataclasses.replace(items[place], definitions=(b"\x0a\x01t\x2a\x01k",))
    text = dataclasses.replace(plan, transactions=tuple(items)).to_json()
    with pytest.raises(InvalidPath, match="has a key of columns"):
        RebuildPlan.from_json(text)
