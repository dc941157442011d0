"""Random histories of everything that changes data, with a replica that follows them, and is pruned
and collected on its own.

    python tests/replication/followed.py --first 1 --count 500

runs many and prints those that fail.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import threading
import traceback
import warnings
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "changing"))

from changing_cases import World
from lakelog.errors import SnapshotPruned, StorageError
from lakelog.replication import Report, replicate
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import PassingStore
from whole_changes import History
from whole_model import DATABASE, TABLES, WRITERS, text

NAMES = itertools.count()


class Broken(StorageError):
    """The connection is gone for good: as if the process had ended here."""


class BreakingStore(PassingStore):
    """Fails for good after so many puts; what was put stays."""

    def __init__(self, store, puts):
        super().__init__(store)
        self.left, self._lock = puts, threading.Lock()

    def put(self, key, body, *, if_absent=False):
        with self._lock:
            self.left -= 1
            if self.left < 0:
                raise Broken("the connection is gone", key=key)
        super().put(key, body, if_absent=if_absent)

    def server_time(self):
        return self.inner.server_time()


class Followed(History):
    """A history whose every cut is remembered, and a replica of it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        clock = self.world.clock
        self.copy = World(clock, MemoryStore(f"replica-{next(NAMES)}", now=clock.time))
        self.replicated: list[tuple[str, dict]] = []
        self.history = self.rng.random() < 0.7
        # A replica of one table's rows of some ids; its cuts, with what was there to be read.
        self.part = World(clock, MemoryStore(f"part-{next(NAMES)}", now=clock.time))
        self.chosen = {"tables": [self.rng.choice(TABLES)]}
        if self.rng.random() < 0.7:
            self.chosen["where"] = f"id >= {self.rng.randrange(8)}"
        self.part_cuts: list[tuple[str, Counter]] = []

    def refused(self, error: Exception, *, by_key: bool) -> None:
        """A handle that has not looked since may believe in a key that is gone by now."""
        if "has a key" in str(error):
            self.counts["refused by a key that was"] += not by_key
            return
        super().refused(error, by_key=by_key)

    def look(self) -> None:
        super().look()
        if self.rng.random() < 0.35:
            self.follow()
        if self.rng.random() < 0.3:
            self.follow_part()
        if self.rng.random() < 0.08:
            self.tidy()

    def follow(self) -> None:
        """Bring the replica up to date, perhaps with an end in the middle before."""
        if self.rng.random() < 0.4:
            catalog = self.copy.catalog
            catalog.store = BreakingStore(self.copy.store, self.rng.randrange(30))
            self.say("replicate, and break off")
            try:
                self.counts["broken off"] += bool(
                    replicate(self.catalog, catalog, history=self.history).errors
                )
            except StorageError:
                self.counts["broken off"] += 1
        self.say("replicate")
        report = replicate(self.catalog, self.copy.catalog, history=self.history)
        for log in report.logs:
            if log.error is None:
                continue
            if not isinstance(log.error, SnapshotPruned):
                raise log.error
            self.counts["fell behind"] += 1
            self.say("  fell behind", log.error)
            prefix = f"{log.plan.writer}/{DATABASE}/"
            self.copy.store.delete([info.key for info in self.copy.store.list(prefix)])
            self.replicated.clear()
        if report.errors:
            report = replicate(self.catalog, self.copy.catalog, history=self.history)
        assert not report.errors, report.errors
        self.arrived(report)

    def arrived(self, report: Report) -> None:
        self.counts["replicated"] += 1
        token, tables = self.points[-1]
        assert report.tokens == {DATABASE: token}
        self.replicated.append((token, tables))
        self.check_at(self.copy.catalog.snapshot(DATABASE), tables)
        again = replicate(self.catalog, self.copy.catalog)
        assert not any(log.copied.commits for log in again.logs)

    def follow_part(self) -> None:
        """Replicate a part of the database, and compare it with a scan."""
        (table,), where = self.chosen["tables"], self.chosen.get("where")
        source = self.catalog.snapshot(DATABASE)
        if table not in source.tables():
            return
        self.say("replicate a part")
        catalog = self.part.catalog
        if self.rng.random() < 0.3:
            catalog.store = BreakingStore(self.part.store, self.rng.randrange(12))
            with contextlib.suppress(StorageError):
                replicate(self.catalog, catalog, **self.chosen)
        report = replicate(self.catalog, self.part.catalog, **self.chosen)
        assert not report.errors, report.errors
        wanted = Counter(map(text, source.to_arrow(table, where=where).to_pylist()))
        self.counts["part"] += 1
        if not report.tokens:
            assert not wanted
            return
        assert report.source_tokens == {DATABASE: source.token}
        self.part_cuts.append((report.tokens[DATABASE], wanted))
        self.check_part(*self.part_cuts[-1])

    def check_part(self, token: str, wanted: Counter) -> None:
        (table,) = self.chosen["tables"]
        snapshot = self.part.catalog.snapshot(DATABASE, token)
        found = snapshot.to_arrow(table).to_pylist() if table in snapshot.tables() else []
        got = Counter(map(text, found))
        assert got == wanted, ("part", "too many", got - wanted, "lost", wanted - got)

    def tidy(self) -> None:
        """Prune and collect in the replica."""
        writer = self.rng.choice(WRITERS)
        if not list(self.copy.store.list(f"{writer}/{DATABASE}/transactions/")):
            return
        self.say("tidy the replica", writer)
        if self.rng.random() < 0.5:
            self.close()  # a handle that stands still for days may not believe its commits
            self.copy.prune(writer)
        self.world.clock.now_s += 8 * 86_400
        self.close()
        self.copy.gc(writer)
        self.counts["tidied"] += 1

    def check_replica(self) -> None:
        self.follow()
        self.follow_part()
        for token, wanted in self.part_cuts:
            self.check_part(token, wanted)
        for token, tables in self.replicated:
            try:
                snapshot = self.copy.catalog.snapshot(DATABASE, token)
            except SnapshotPruned:
                self.counts["pruned in the replica"] += 1
                continue
            self.check_at(snapshot, tables)
            self.counts["cuts read"] += 1
        self.check_at(self.copy.catalog.snapshot(DATABASE), self.tables, engines=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--tell", action="store_true")
    args = parser.parse_args()
    counts, bad = Counter(), []
    for seed in range(args.first, args.first + args.count):
        history = Followed(seed)
        try:
            history.run(args.steps)
            history.check_replica()
        except Exception as error:
            bad.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:600]}")
            if args.tell:
                print("\n".join(history.told))
                traceback.print_exc()
        counts += history.counts
    print(dict(counts))
    print(f"{args.count} histories, {len(bad)} failed: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
