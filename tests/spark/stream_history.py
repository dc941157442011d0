"""Random commits of some writers to a table, and what its changes come to."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lakelog.catalog.format.cut import parse_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import lakelog

Row = dict[str, Any]


def commit(catalog: lakelog.Catalog, act: Callable[[Any], Any], writer: str = "w") -> Any:
    """Do something in one transaction."""
    with catalog.writer(writer, "db") as opened, opened.transaction() as tx:
        return act(tx)


def counted(rows: Iterable[Row]) -> Counter:
    """How often each row is there."""
    return Counter(tuple(row.values()) for row in rows)


def sums(rows: Iterable[Row]) -> Counter:
    """Of each row how often it came, less how often it went."""
    found: Counter = Counter()
    for row in rows:
        found[row["k"], row["n"]] += 1 if row["_change"] == "insert" else -1
    return Counter({row: count for row, count in found.items() if count})


def now(catalog: lakelog.Catalog) -> Counter:
    """The rows that are there."""
    rows = catalog.snapshot("db").to_arrow("t").to_pylist()
    return Counter((row["k"], row["n"]) for row in rows)


class History:
    """Writers a and b write a table, and so may c, who deletes most.

    Args:
        keyed: Whether the table has a key.
        deletes: Whether rows of all logs are deleted and updated, and the table goes back.
    """

    def __init__(self, catalog: lakelog.Catalog, seed: int, *, keyed: bool, deletes: bool = False):
        self.catalog, self.chance = catalog, random.Random(seed)
        self.keyed, self.deletes = keyed, deletes
        self.numbers = iter(range(100_000))
        self.done: Counter = Counter()
        self.write("a")
        if keyed:
            commit(catalog, lambda tx: tx.evolve("t", key=["k"]), "a")
        self.points = [catalog.snapshot("db").token]

    def rows(self) -> pa.Table:
        many = self.chance.randrange(1, 5)
        keys = self.chance.sample(range(12 if self.keyed else 10_000), many)
        numbers = [next(self.numbers) for _ in keys]
        return pa.table({"k": keys, "n": numbers, "m": [number % 3 for number in numbers]})

    def write(self, writer: str) -> None:
        commit(self.catalog, lambda tx: tx.write("t", self.rows()), writer)

    def step(self) -> None:
        """One commit, of whatever kind; of a restore one of each writer."""
        if self.deletes and self.chance.random() < 0.45:
            self.step_over_logs()
        else:
            self.step_of_one()
        self.points.append(self.catalog.snapshot("db").token)

    def step_over_logs(self) -> None:
        """A delete in the files of all writers, or going back."""
        if self.chance.random() < 0.15:
            names = parse_token(self.points[-1]).writers.keys()
            points = [each for each in self.points if parse_token(each).writers.keys() == names]
            to = self.chance.choice(points)
            self.catalog.restore("db", "t", to=to, execute=True)
            self.done["restore"] += 1
            return
        numbers = self.catalog.snapshot("db").to_arrow("t")["n"].to_pylist() or [0]
        some = ", ".join(map(str, self.chance.choices(numbers, k=2)))
        where = self.chance.choice([f"m = {self.chance.randrange(3)}", f"n IN ({some})"])
        if self.chance.random() < 0.4 and not self.keyed:
            self.done["update"] += len(self.catalog.update("db", "t", {"m": 7}, where))
        else:
            self.done["delete"] += len(self.catalog.delete("db", "t", where))

    def step_of_one(self) -> None:
        """What one writer does to its own files."""
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
            self.done["rewrite"] += 1
        elif act < 0.9 or self.keyed:
            commit(self.catalog, lambda tx: tx.remove(self.chance.choice(own)), writer)
        else:
            where = f"m = {rest}"
            data = pa.table({"k": [3], "n": [next(self.numbers) * 3 + rest], "m": [rest]})
            commit(self.catalog, lambda tx: tx.overwrite("t", data, where=where), writer)
