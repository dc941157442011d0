"""Random logs with checkpoints and reloads against a plain dictionary. With each change a few run,
others with each commit; `make soak` runs 200."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from lakelog.catalog.format.names import data_path
from lakelog.catalog.format.statistics import encode_bound
from lakelog.catalog.log.replay import validate
from lakelog.testing.logs import LogBuilder, add_action, remove_action, schema_action
from seeds import base_seed

TABLES = ["t0", "t1", "ü", "t3"]
INT = pa.int64()


def some_add(random_, table, number):
    """A file with statistics, of one or two row groups."""
    path = data_path(f"p{random_.randrange(3)}", table, 1, random_.randbytes(16), number)
    action = add_action(path, table, row_count=random_.randrange(10_000))
    for _ in range(random_.choice([1, 2])):
        group = action.add.row_groups.add(row_count=5)
        low, high = random_.randrange(-100, 0), random_.randrange(100)
        group.columns.add(
            column=0,
            null_count=random_.randrange(5),
            min=encode_bound(low, INT),
            max=encode_bound(high, INT),
            min_exact=True,
        )
        group.columns.add(
            column=1, min=b"a" * random_.randrange(12), max=b"z" * random_.randrange(1, 12)
        )
    return action


class Model:
    """Random transactions, and what is live after them.

    Attributes:
        live: Rows and revision by table and path.
        versions: By application.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.log = LogBuilder(seed=seed)
        self.live = {}
        self.versions = {}

    def commit(self):
        random_, revision = self.random, self.log.state.revision + 1
        table = random_.choice(TABLES)
        actions = [schema_action(table)] if random_.random() < 0.2 or revision < 9 else []
        if table not in self.log.state.schemas.tables() and not actions:
            actions = [schema_action(table)]
        adds = [some_add(random_, table, n) for n in range(random_.choice([1, 1, 2, 5, 300]))]
        removed = random_.sample(
            list(self.live), min(len(self.live), random_.choice([0, 0, 1, 40]))
        )
        actions += adds + [remove_action(path, name) for name, path in removed]
        app = random_.choice(["", "one", "two"])
        validate(self.log.state, actions)
        self.log.commit(*actions, app=(app, revision) if app else ("", 0))
        for action in adds:
            self.live[table, action.add.path] = (action.add.row_count, revision)
        for file in removed:
            del self.live[file]
        if app:
            self.versions[app] = revision

    def checkpoint(self):
        """A checkpoint; then the state goes on, or is read anew from it."""
        encoded = self.log.checkpoint()
        if self.random.random() < 0.6:
            self.log.state = self.log.reload(encoded)

    def compare(self):
        found = {}
        for table in TABLES:
            for row in self.log.state.table_of(table)[0].table(table).to_pylist():
                found[table, row["path"]] = (row["row_count"], row["revision"])
        assert found == self.live


@pytest.mark.parametrize("number", range(3))
def test_a_random_log_says_what_a_dictionary_says(number):
    check(base_seed() + number)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_many_random_logs_say_what_a_dictionary_says():
    for number in range(200):
        check(base_seed() + number)


def check(seed):
    model = Model(seed)
    for _ in range(40):
        model.commit()
        if model.random.random() < 0.4:
            model.checkpoint()
        if model.random.random() < 0.2:
            _ = model.log.state.files  # as a committer that removes something
        if model.random.random() < 0.3:
            model.compare()
    model.compare()
    log, plain = model.log, model.log.replayed()
    assert log.state.files.count == plain.files.count == len(model.live)
    assert log.state.history.table().to_pylist() == plain.history.table().to_pylist()
    assert log.state.applications.versions() == plain.applications.versions() == model.versions
    for table in TABLES:
        live = any(name == table for name, _ in model.live)
        assert (table in log.state.table_of(table)[0].tables()) == live


def test_the_same_random_log_gives_the_same_bytes():
    objects = []
    for _ in range(2):
        model = Model(base_seed())
        for _ in range(20):
            model.commit()
            if model.random.random() < 0.4:
                model.checkpoint()
        objects.append((model.log.objects, model.log.segments, model.log.checkpoint().body))
    assert objects[0] == objects[1]
