"""Batches that touch many tables: which tables break is the same, whether each is looked up or all
at once, and many small tables cost no more than their rows."""

from __future__ import annotations

import random
from types import SimpleNamespace
from unittest import mock

import pytest
from lakelog.catalog.log import build
from lakelog.catalog.log import files as files_module
from lakelog.catalog.log.files import Files
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.testing.logs import LogBuilder, add_action, remove_action, schema_action

TABLES = [f"t{number}" for number in range(8)]
PATHS = [f"data/{number}.parquet" for number in range(12)]


@pytest.fixture(autouse=True)
def batches():
    with mock.patch.object(build, "BATCH_FROM_FILES", 0):
        yield


def transactions(seed):
    """Commits that may break any rule of files: live twice, in two tables, of unknown schemas."""
    dice = random.Random(seed)
    log = LogBuilder()
    log.commit(*(schema_action(table) for table in TABLES if dice.random() < 0.9))
    for _ in range(6):
        named = {(dice.choice(TABLES), dice.choice(PATHS)) for _ in range(dice.randrange(1, 6))}
        if dice.random() < 0.3:
            actions = [remove_action(path, table) for table, path in sorted(named)]
        else:
            actions = [add_action(path, table) for table, path in sorted(named)]
        log.commit(*actions)
    return log.transactions


def replayed(found, many, few=1_000):
    files = Files(known={})
    with (
        mock.patch.object(files_module, "MANY_TABLES", many),
        mock.patch.object(files_module, "FEW_PARTS", few),
        mock.patch.object(files_module, "_ROWS_FOR_A_TABLE", 1_000),
    ):
        for transaction in found:
            files.apply(transaction)
    rows = {
        table: files.table(table)["path"].to_pylist()
        for table in TABLES
        if table not in files.broken
    }
    return {table: str(error) for table, error in files.broken.items()}, rows


def test_all_tables_at_once_break_as_each_does_alone():
    broke = 0
    for seed in range(150):
        found = transactions(seed)
        assert replayed(found, 0) == replayed(found, 1_000)
        broke += bool(replayed(found, 0)[0])
    assert 20 < broke < 150


def test_a_batch_of_many_tables_looks_none_of_them_up(monkeypatch):
    """What is looked up table by table made a checkpoint of 100,000 small tables take a minute."""
    log = LogBuilder()
    names = [f"t{number:04d}" for number in range(300)]
    log.commit(*map(schema_action, names))
    for round_ in range(3):
        log.commit(*(add_action(f"data/{name}-{round_}.parquet", name) for name in names))
    asked = []
    monkeypatch.setattr(Files, "_any_live", lambda *found: asked.append(found))
    files = Files(known={})
    for transaction in log.transactions:
        files.apply(transaction)
    assert not files.broken
    assert files.count == 900
    assert asked == []


# --- Many batches in one transaction --------------------------------------------------------------


def joined(found, seed):
    """One transaction with the batches of several, in some order, between adds and removals."""
    dice = random.Random(seed)
    message = wire.Transaction(revision=1)
    batches = {}
    for one in dice.sample(found, min(12, len(found))):
        for place, action in enumerate(one.message.actions):
            kind = action.WhichOneof("kind")
            if kind == "add_batch":
                batches[len(message.actions)] = one.batches[place]
            message.actions.append(action)
        if dice.random() < 0.3:
            table, path = dice.choice(TABLES), dice.choice(PATHS)
            message.actions.append(dice.choice((add_action, remove_action))(path, table))
    return SimpleNamespace(message=message, batches=batches, key="k")


def batch_of(seed):
    """A transaction of revision 1 that adds some files in a batch."""
    dice = random.Random(seed)
    log = LogBuilder()
    log.commit(*map(schema_action, TABLES))
    names = {(dice.choice(TABLES), f"data/{dice.randrange(400)}.parquet") for _ in range(3)}
    return log.commit(*(add_action(path, table) for table, path in sorted(names)))


def test_many_batches_break_tables_as_each_does_alone():
    """Whatever they add twice, or is there, was there, or comes and goes in the transaction."""
    schemas = LogBuilder()
    schemas.commit(*map(schema_action, TABLES))
    found = [batch_of(number) for number in range(24)]
    broke = 0
    for seed in range(10):
        log = [schemas.transactions[0], joined(found[:4], -seed), joined(found, seed)]
        one_by_one = replayed(log, 1_000)
        assert replayed(log, 1_000, few=0) == one_by_one
        broke += 0 < len(one_by_one[0]) < len(TABLES)
    assert broke > 3


def test_many_batches_are_looked_up_at_once(monkeypatch):
    """4,000 of them against each other took 9 s."""
    log = LogBuilder()
    log.commit(schema_action("t"))
    found = []
    for number in range(12):
        alone = LogBuilder()
        alone.commit(schema_action("t"))
        found.append(alone.commit(add_action(f"data/{number}.parquet")))
    message = wire.Transaction(revision=1)
    batches = {}
    for one in found:
        (place,) = one.batches
        batches[len(message.actions)] = one.batches[place]
        message.actions.append(one.message.actions[place])
    asked = []
    monkeypatch.setattr(Files, "_any_live", lambda *found: asked.append(found))
    files = Files(known={})
    files.apply(log.transactions[0])
    files.apply(SimpleNamespace(message=message, batches=batches, key="k"))
    assert (files.count, files.broken, asked) == (12, {}, [])
