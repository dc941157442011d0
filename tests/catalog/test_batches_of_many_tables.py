"""Batches that touch many tables: which tables break is the same, whether each is looked up or all
at once, and many small tables cost no more than their rows."""

from __future__ import annotations

import random
from unittest import mock

import pytest
from lakelog.catalog.log import build
from lakelog.catalog.log import files as files_module
from lakelog.catalog.log.files import Files
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


def replayed(found, many):
    files = Files(known={})
    with (
        mock.patch.object(files_module, "MANY_TABLES", many),
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
