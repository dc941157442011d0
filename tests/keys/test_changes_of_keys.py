"""Changes of a table of which the key comes, goes, or is called otherwise, in several logs: random
histories, and cuts of them that have each log as it was at another time."""

from __future__ import annotations

import random
import sys
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

sys.path.append(str(Path(__file__).parents[1] / "running"))

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from lakelog.catalog.catalog import Catalog
from lakelog.errors import SchemaConflict, UsageError
from lakelog.store.memory import MemoryStore
from sample import examples

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # a seed can't be made simpler
WRITERS = "uvw"
Cut = dict[str, int]


class History:
    """A table of some writers: the names of two columns, and its key, change.

    Attributes:
        heads: How far each log went after each step.
        told: What was done.
        compared: How many pairs of cuts were.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.catalog = Catalog(MemoryStore("changes-of-keys"))
        self.writers = WRITERS[: self.rng.choice([2, 2, 3])]
        self.names = ["k", "s"]
        self.key: list[int] = []
        self.next = self.compared = 0
        self.heads: list[Cut] = []
        self.told: list[str] = []
        for name in self.writers * 3:
            self.write(name)

    # --- What is done -----------------------------------------------------------------------------

    def do(self, name: str, change) -> None:
        with self.catalog.writer(name, "db") as writer, writer.transaction() as tx:
            change(tx)

    def step(self) -> None:
        what = self.rng.choice([
            *[self.write] * 2, *[self.rewrite] * 5, self.remove, self.delete, *[self.evolve] * 3,
        ])  # fmt: skip
        name = self.rng.choice(self.writers)
        self.told.append(f"{what.__name__} {name}")
        with suppress(UsageError):  # of a table with a key, or to which a log has yet to come
            what(name)
        positions = self.catalog.snapshot("db").cut.revisions
        self.heads.append(dict(positions))

    def write(self, name: str) -> None:
        """Rows of few keys, by clocks in no order."""
        count = self.rng.choice([1, 1, 2])
        rows = {"id": range(self.next, self.next + count)}
        rows |= {each: [self.rng.randrange(2) for _ in range(count)] for each in self.names}
        clock = (self.rng.randrange(8),) * 2
        with suppress(SchemaConflict):  # the log still has the old names
            self.do(name, lambda tx: tx.write("t", pa.table(rows), clock=clock))
            self.next += count

    def paths(self, name: str) -> list[str]:
        return self.catalog.snapshot("db").files("t", writer=name)["path"].to_pylist()

    def rewrite(self, name: str) -> None:
        """Files of which perhaps one has rows of the keys of another that stays."""
        paths = self.paths(name)
        some = self.rng.sample(paths, self.rng.randint(min(2, len(paths)), len(paths)))
        if some:
            self.do(name, lambda tx: tx.rewrite("t", some))

    def remove(self, name: str) -> None:
        paths = self.paths(name)
        if paths:
            self.do(name, lambda tx: tx.remove(self.rng.choice(paths)))

    def delete(self, name: str) -> None:
        mode = self.rng.choice(["auto", "predicate", "rows"])
        number = self.rng.randrange(3)
        self.do(name, lambda tx: tx.delete("t", f"id % 3 = {number}", mode=mode))

    def evolve(self, _: str) -> None:
        """In one log after the other, and perhaps something is written between."""
        key, names = self.key, self.names
        if self.rng.random() < 0.4:
            new = self.rng.choice([names[::-1], [f"c{len(self.told)}", names[1]]])
            change = {"rename": {a: b for a, b in zip(names, new, strict=True) if a != b}}
            names = new
        else:
            key = [] if key else self.rng.choice([[0], [0], [1], [0, 1]])
            change = {"key": [names[at] for at in key]}
        self.told[-1] += f" {change}"
        order = self.rng.sample(self.writers, len(self.writers))
        if self.rng.random() < 0.5:
            self.catalog.evolve("db", "t", **change)
            order = ""
        for name in order:
            self.do(name, lambda tx: tx.evolve("t", **change))
            if self.rng.random() < 0.3:
                self.names = names
                self.write(name)
            self.heads.append(dict(self.catalog.snapshot("db").cut.revisions))
        self.key, self.names = key, names

    # --- What must be told ------------------------------------------------------------------------

    def ids(self, cut: Cut) -> Counter[int]:
        found = self.catalog.snapshot("db", cut).to_arrow("t", ["id"])
        return Counter(found["id"].to_pylist())

    def check(self) -> None:
        """The rows of a cut, without those that are told deleted and with those that are told
        inserted, are the rows of a later one."""
        half = len(self.heads) // 2
        since, until = self.rng.choice(self.heads[:half]), self.rng.choice(self.heads[half:])
        if self.rng.random() < 0.3:  # logs that stand still between
            still = {name: since[name] for name in self.writers if self.rng.random() < 0.5}
            until = until | still
        if self.rng.random() < 0.3:
            others = self.rng.choice(self.heads)
            since = {name: min(at, others[name]) for name, at in since.items()}
        try:
            before, after = self.ids(since), self.ids(until)
        except SchemaConflict:  # logs that call the key otherwise
            return
        for net in (True, False):
            found = Counter(before)
            told = self.catalog.changes("db", "t", since, until, ["id"], net=net)
            for row in told.read_all().to_pylist():
                found[row["id"]] += 1 if row["_change"] == "insert" else -1
                assert net or found[row["id"]] in (0, 1), "deleted before it was inserted"
            led = Counter({one: count for one, count in found.items() if count})
            assert led == after, (since, until, net, self.told)
        self.compared += 1


def run(seed: int) -> History:
    history = History(seed)
    for _ in range(9):
        history.step()
    for _ in range(4):
        history.check()
    return history


@settings(max_examples=examples(5), deadline=None, phases=PHASES)
@given(st.integers(0, 2**32))
def test_changes_lead_from_any_cut_to_a_later_one(seed: int) -> None:
    run(seed)


if __name__ == "__main__":  # python tests/keys/test_changes_of_keys.py FIRST COUNT
    first, count = map(int, sys.argv[1:])
    failed = compared = 0
    for number in range(first, first + count):
        try:
            compared += run(number).compared
        except Exception:  # the others are run all the same
            failed += 1
            print("seed", number)
            traceback.print_exc()
    print(f"{count} histories, {compared} pairs of cuts, {failed} failed")
