"""Restore, remove, drop and changes over random histories, against a model of plain rows: two
owners and a guest, rewrites, checkpoints, prune and gc between, a rebuild at the end.

`LAKELOG_EXAMPLES=2000 pytest tests/changing` runs it longer, on other seeds with LAKELOG_SEED.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from changing_cases import World, files_of, rows_of
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lakelog.errors import SnapshotPruned, TableNotFound
from lakelog.rebuild import execute_rebuild, plan_rebuild
from sample import examples

WRITERS = ("oslo", "bergen")
TABLES = ("hourly", "daily %")

# By writer, table and path: the rows of each live file.
Live = dict[tuple[str, str, str], tuple[int, ...]]


@dataclass
class History:
    """What was done to a world, and what is true after each step of it.

    Attributes:
        now: The rows of each live file.
        cuts: Tokens in order, with the rows of each.
    """

    random: random.Random
    world: World = field(default_factory=World)
    now: Live = field(default_factory=dict)
    cuts: list[tuple[str, Live]] = field(default_factory=list)
    next_row: int = 0

    def choose(self, *options: Any) -> Any:
        return self.random.choice(options)

    def fresh(self) -> tuple[int, ...]:
        count = self.random.randint(1, 3)
        self.next_row += count
        return (*range(self.next_row - count, self.next_row), 7)  # and one that others have too

    def some(self, writer: str, table: str) -> list[tuple[str, str, str]]:
        names = sorted(name for name in self.now if name[:2] == (writer, table))
        return [name for name in names if self.random.random() < 0.5]

    # --- Steps ------------------------------------------------------------------------------------

    def commit(self) -> None:
        """An append, a delete, an overwrite or a rewrite, by an owner or a guest."""
        writer, table = self.choose(*WRITERS), self.choose(*TABLES)
        what = self.choose("append", "append", "delete", "overwrite", "rewrite")
        gone = [] if what == "append" else self.some(writer, table)
        rows: tuple[int, ...] = ()
        if what == "rewrite":
            rows = tuple(row for name in gone for row in self.now[name])
        elif what != "delete":
            rows = self.fresh()
        with (
            self.world.writer(writer, shared=self.choose(False, True)) as opened,
            opened.transaction(operation=what) as tx,
        ):
            for name in gone:
                tx.remove(name[2])
                del self.now[name]
            if rows:
                paths = tx.write(table, pa.table({"n": pa.array(rows, pa.int64())}))
                assert len(paths) == 1
                self.now[writer, table, paths[0]] = rows

    def drop(self) -> None:
        table = self.choose(*TABLES)
        try:
            plan = self.world.catalog.drop("weather", table, execute=True)
        except TableNotFound:
            assert not [name for name in self.now if name[1] == table]
            return
        assert plan.is_done
        assert table not in self.world.catalog.snapshot("weather").tables()
        self.now = {name: rows for name, rows in self.now.items() if name[1] != table}

    def remove(self) -> None:
        writer, table = self.choose(*WRITERS), self.choose(*TABLES)
        gone = self.some(writer, table)
        if gone:
            paths = [name[2] for name in gone]
            self.world.catalog.remove("weather", table, writer=writer, paths=paths, execute=True)
        for name in gone:
            del self.now[name]

    def restore(self) -> None:
        if not self.cuts:
            return
        token, then = self.choose(*self.cuts)
        table = self.choose(None, *TABLES)
        writers = self.choose(None, ["oslo"], [*WRITERS])
        there = {name[0] for name in self.heads()}
        if writers is not None and not there.issuperset(writers):
            return
        try:
            if writers is None and not self.names_all(token):
                writers = sorted(there)
            plan = self.world.catalog.restore(
                "weather", table, to=token, writers=writers, execute=True
            )
        except SnapshotPruned:
            return
        except TableNotFound:
            assert not [n for n in {**self.now, **then} if n[1] == table and n[0] in (writers or n)]
            return

        def is_touched(name: tuple[str, str, str]) -> bool:
            return table in (None, name[1]) and (writers is None or name[0] in writers)

        self.now = {n: rows for n, rows in self.now.items() if not is_touched(n)}
        self.now |= {n: rows for n, rows in then.items() if is_touched(n)}
        assert not self.world.catalog.restore(
            "weather", table, to=token, writers=writers
        ).files_added
        del plan

    def heads(self) -> list[tuple[str, int]]:
        return list(self.world.catalog.snapshot("weather").cut.revisions.items())

    def names_all(self, token: str) -> bool:
        named = self.world.catalog.snapshot("weather", token).cut.revisions
        return named.keys() >= {name for name, _ in self.heads()}

    def maintain(self) -> None:
        writer, what = self.choose(*WRITERS), self.choose("checkpoint", "prune", "gc")
        if writer not in {name for name, _ in self.heads()}:
            return
        if what == "checkpoint":
            with self.world.writer(writer) as opened:
                opened.checkpoint()
            return
        self.world.clock.now_s += 8 * 86_400
        (self.world.prune if what == "prune" else self.world.gc)(writer)

    # --- Checks -----------------------------------------------------------------------------------

    def note(self) -> None:
        """What is there now is what the model says; it is a cut to go back to."""
        snapshot = self.world.catalog.snapshot("weather")
        assert rows_of(snapshot) == self.now
        self.cuts.append((snapshot.token, dict(self.now)))

    def retained(self) -> list[tuple[str, Live]]:
        """The cuts that can still be read, each held against the model: their files, and that these
        are there."""
        found = []
        there = {info.key for info in self.world.store.list("")}
        for token, then in self.cuts:
            try:
                snapshot = self.world.catalog.snapshot("weather", token)
            except SnapshotPruned:
                continue
            assert files_of(snapshot) == then.keys()
            assert there.issuperset("/".join((n[0], "weather", n[2])) for n in then)
            found.append((token, then))
        return found

    def check_changes(self) -> None:
        """Rows then, and what was inserted, without what was deleted, are the rows later."""
        cuts = self.retained()
        early, late = sorted(self.random.randrange(len(cuts)) for _ in range(2))
        (since, before), (until, after) = cuts[early], cuts[late]
        for table in TABLES:
            try:
                for net in (True, False):
                    found = self.world.catalog.changes("weather", table, since, until, net=net)
                    counts = Counter(_rows(before, table))
                    for row in found.read_all().to_pylist():
                        counts[row["n"]] += 1 if row["_change"] == "insert" else -1
                    assert +counts == Counter(_rows(after, table)), (table, net)
                    assert not -counts
            except TableNotFound:
                assert not [n for n in {**before, **after} if n[1] == table]
            except SnapshotPruned:  # of a writer that the earlier cut doesn't name
                names = [self.world.catalog.snapshot("weather", t).cut for t in (since, until)]
                assert names[0].writers.keys() != names[1].writers.keys()
        one, other = (self.world.catalog.snapshot("weather", token) for token in (since, until))
        files = one.diff(other).files.to_pylist()
        told = {(f["writer"], f["table"], f["path"]): f["change"] for f in files}
        assert told == {
            **dict.fromkeys(before.keys() - after.keys(), "removed"),
            **dict.fromkeys(after.keys() - before.keys(), "added"),
        }


def _rows(live: Live, table: str) -> list[int]:
    return [row for name, rows in live.items() if name[1] == table for row in rows]


@pytest.mark.slow("each example is a history of a dozen commits, all of whose cuts are read")
@settings(
    max_examples=examples(5),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink one takes minutes
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.integers(0, 2**32 - 1))
def test_histories(seed):
    drawn = random.Random(seed)
    history = History(drawn)
    history.commit()
    while not history.now:
        history.commit()
    history.note()
    steps = ("commit", "commit", "commit", "drop", "remove", "restore", "restore", "maintain")
    for name in drawn.choices(steps, k=drawn.randint(4, 12)):
        history.world.clock.now_s += 60
        getattr(history, name)()
        history.note()
    history.check_changes()
    history.restore()
    history.note()
    for writer, _ in history.heads():
        history.world.clock.now_s += 8 * 86_400
        history.world.gc(writer)
    history.retained()
    assert history.world.by_duckdb(TABLES) == sorted(
        (name[1], row) for name, rows in history.now.items() for row in rows
    )
    for writer, _ in history.heads():
        if any(True for _ in history.world.store.list(f"{writer}/weather/data/")):
            plan = plan_rebuild(history.world.catalog, writer, "weather")
            execute_rebuild(history.world.catalog, plan)
    assert rows_of(history.world.catalog.snapshot("weather")) == history.now
    assert history.retained()
