"""The changes of a table as a stream: those of `catalog.changes`, each once."""

from __future__ import annotations

import random
from collections import Counter

import lakelog
import pyarrow as pa
import pytest
from lakelog.errors import UsageError
from stream_cases import put, stream


@pytest.fixture
def catalog(tmp_path):
    return lakelog.open_catalog(str(tmp_path))


def commit(catalog, act, writer="w"):
    with catalog.writer(writer, "db") as opened, opened.transaction() as tx:
        return act(tx)


def counted(rows) -> Counter:
    return Counter(tuple(row.values()) for row in rows)


def sums(rows) -> Counter:
    """Of each row how often it came, less how often it went."""
    found: Counter = Counter()
    for row in rows:
        found[row["k"], row["n"]] += 1 if row["_change"] == "insert" else -1
    return Counter({row: count for row, count in found.items() if count})


def now(catalog) -> Counter:
    rows = catalog.snapshot("db").to_arrow("t").to_pylist()
    return Counter((row["k"], row["n"]) for row in rows)


def test_inserts_deletes_and_existing_rows(catalog):
    put(catalog, 1, 2)
    query = stream(catalog, readChangeFeed="true")
    first = query.batch()
    assert [(row["_change"], row["_writer"], row["_revision"], row["n"]) for row in first] == [
        ("insert", "w", None, 1),
        ("insert", "w", None, 2),
    ]
    commit(catalog, lambda tx: tx.delete("t", "n = 1"))
    put(catalog, 3)
    rows = query.batch()
    assert [(row["_change"], row["_revision"], row["n"]) for row in rows] == [
        ("delete", 1, 1),
        ("insert", 2, 3),
    ]
    times = catalog.history("db")["committed_at"].to_pylist()[1:]
    assert [row["_committed_at"] for row in rows] == times
    commit(catalog, lambda tx: tx.overwrite("t", pa.table({"n": [9]})))
    went = [(row["_change"], row["n"]) for row in query.batch()]
    assert went == [("delete", 2), ("delete", 3), ("insert", 9)]


class History:
    """Random commits of some writers to a table."""

    def __init__(self, catalog, seed: int, *, keyed: bool):
        self.catalog, self.chance, self.keyed = catalog, random.Random(seed), keyed
        self.numbers = iter(range(100_000))
        self.write("a")
        if keyed:
            commit(catalog, lambda tx: tx.evolve("t", key=["k"]), "a")

    def rows(self) -> pa.Table:
        many = self.chance.randrange(1, 5)
        keys = self.chance.sample(range(12 if self.keyed else 10_000), many)
        numbers = [next(self.numbers) for _ in keys]
        return pa.table({"k": keys, "n": numbers, "m": [number % 3 for number in numbers]})

    def write(self, writer):
        commit(self.catalog, lambda tx: tx.write("t", self.rows()), writer)

    def step(self):
        """One commit, of whatever kind."""
        writer = self.chance.choice("ab")
        files = self.catalog.snapshot("db").files("t")
        own = [
            row["path"] for row in files.select(["writer", "path"]).to_pylist()
            if row["writer"] == writer
        ]  # fmt: skip
        rest, mode = self.chance.randrange(3), self.chance.choice(["rows", "predicate"])
        act = self.chance.random()
        if act < 0.45 or not own:
            self.write(writer)
        elif act < 0.7:
            where = f"m = {rest}" if mode == "rows" else f"k > {rest + 6}"
            commit(self.catalog, lambda tx: tx.delete("t", where, mode=mode), writer)
        elif act < 0.8 and not self.keyed:
            commit(self.catalog, lambda tx: tx.rewrite("t", own[:3]), writer)
        elif act < 0.9 or self.keyed:
            commit(self.catalog, lambda tx: tx.remove(self.chance.choice(own)), writer)
        else:
            where = f"m = {rest}"
            data = pa.table({"k": [3], "n": [next(self.numbers) * 3 + rest], "m": [rest]})
            commit(self.catalog, lambda tx: tx.overwrite("t", data, where=where), writer)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("keyed", [False, True], ids=["no key", "key"])
def test_batches_together_are_the_changes_of_the_whole(catalog, seed, keyed):
    """Commit by commit the rows are those of `catalog.changes`; net ones lead from cut to cut."""
    history = History(catalog, seed, keyed=keyed)
    since = catalog.snapshot("db").token
    before = now(catalog)
    every = stream(catalog, readChangeFeed="true", since=since, maxFilesPerTrigger=2)
    net = stream(catalog, readChangeFeed="true", since=since, net="true", maxFilesPerTrigger=3)
    whole = stream(catalog, readChangeFeed="true")
    found, netted, from_start = [], [], []
    for _ in range(12):
        for _ in range(history.chance.randrange(3)):
            history.step()
        for query, rows in ((every, found), (net, netted), (whole, from_start)):
            if history.chance.random() < 0.6:
                continue
            if query.plan():
                read = query.read()
                query.restart()
                assert counted(query.read()) == counted(read)
                query.commit()
                rows += read
    found += every.rows()
    netted += net.rows()
    from_start += whole.rows()
    if not keyed:  # of a table with a key it depends on which cuts are compared
        wanted = catalog.changes("db", "t", since, net=False).read_all().to_pylist()
        assert counted(found) == counted(wanted)
    assert sums(found) == sums(netted)
    total = Counter(before)
    total.update(sums(found))
    assert +total == now(catalog)
    assert sums(from_start) == now(catalog)


def test_several_steps_of_one_file_in_one_net_batch(catalog):
    """Which of its rows went, and came back, by which commit: tasks are told of all its steps."""
    put(catalog, 1, 2, 3, 4)
    before = catalog.snapshot("db").token
    query = stream(catalog, readChangeFeed="true", since=before, net="true")
    for number in (1, 2, 3):
        commit(catalog, lambda tx, n=number: tx.delete("t", f"n = {n}", mode="rows"))
    catalog.restore("db", to={"w": 2}, execute=True)
    rows = query.batch()
    found = sorted((row["_revision"], row["_change"], row["n"]) for row in rows)
    assert found == [(1, "delete", 1), (2, "delete", 2)]
    wanted = catalog.changes("db", "t", before).read_all().to_pylist()
    assert counted(rows) == counted(wanted)


def test_a_key_that_comes_later(catalog):
    commit(catalog, lambda tx: tx.write("t", pa.table({"k": [1, 1, 2], "n": [1, 2, 3]})))
    query = stream(catalog, readChangeFeed="true")
    assert len(query.batch()) == 3
    commit(catalog, lambda tx: tx.write("t", pa.table({"k": [7], "n": [7]})), "v")
    commit(catalog, lambda tx: tx.evolve("t", key=["k"]))
    commit(catalog, lambda tx: tx.write("t", pa.table({"k": [2], "n": [4]})), "v")
    rows = query.rows()
    total = Counter({(1, 1): 1, (1, 2): 1, (2, 3): 1})
    total.update(sums(rows))
    assert +total == now(catalog)


def test_a_table_with_columns_that_changes_have(catalog):
    data = pa.table({"_change": ["insert"], "n": [1]})
    commit(catalog, lambda tx: tx.write("t", data))
    assert stream(catalog).rows() == data.to_pylist()
    with pytest.raises(UsageError, match="'_change', which changes have too"):
        stream(catalog, readChangeFeed="true")
    some = stream(catalog, readChangeFeed="true", columns='["n"]').rows()
    assert [(row["_change"], row["n"]) for row in some] == [("insert", 1)]
