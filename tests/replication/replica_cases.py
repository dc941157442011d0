"""A catalog and its replica in memory, with one clock."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from changing_cases import Clock, World
from lakelog.replication import Report, replicate
from lakelog.store.memory import MemoryStore

D = "weather"
NAMES = itertools.count()


class Pair:
    """Two catalogs."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.source = self.world()
        self.copy = self.world()

    def world(self) -> World:
        return World(self.clock, MemoryStore(f"pair-{next(NAMES)}", now=self.clock.time))

    def replicate(self, **options: Any) -> Report:
        report = replicate(self.source.catalog, self.copy.catalog, **options)
        for error in report.errors:
            raise error
        return report

    def objects(self, end: str = "", world: World | None = None) -> list[str]:
        """Objects of the replica (or of another world)."""
        store = (world or self.copy).store
        return sorted(info.key for info in store.list("") if info.key.endswith(end))

    def same(self, *tokens: str) -> None:
        """Each of these reads the same at both ends: rows, files, history and schemas."""
        for token in tokens:
            ends = [world.catalog.snapshot(D, token) for world in (self.source, self.copy)]
            assert ends[0].tables() == ends[1].tables()
            for table in ends[0].tables():
                found = [_facts(end, table) for end in ends]
                assert found[0] == found[1]


def written(pair, count, writer="oslo"):
    """So many commits; the token after each."""
    tokens = []
    for number in range(count):
        pair.source.write(number, number + 1, writer=writer)
        tokens.append(pair.source.token)
    return tokens


def _facts(snapshot: Any, table: str) -> tuple[Any, ...]:
    """Schema, files and rows; their order follows the checkpoints, which are each end's own."""
    files = snapshot.files(table, details=True).drop_columns(["url"]).sort_by("path")
    rows = Counter(map(repr, snapshot.to_arrow(table).to_pylist()))
    return snapshot.schema(table), files.to_pylist(), rows
