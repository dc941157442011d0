"""A catalog for drills: fifty revisions by three writers, by every kind of change, between attempts
that were never committed, pruned and cleared of garbage in the middle; and what its readers saw."""

from __future__ import annotations

import datetime as dt
import random
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from unittest import mock

from lakelog.catalog.catalog import Catalog
from lakelog.catalog.log import checkpoint_files
from lakelog.errors import LakelogError, SnapshotPruned
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient
from salvage_lake import STEPS, TABLES, Lake, visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakelog.store import Store
    from salvage_lake import Row

WRITERS = {"v": 3, "w": 5, "x": 0}  # commits from checkpoint to checkpoint
REVISIONS, PRUNED_AT, KEPT = 50, 20, 3
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
WEEK_S = 8 * 86_400.0


@dataclass
class Drilled:
    """The catalog.

    Attributes:
        lakes: By writer.
        points: By token of each retained point in time, its revisions and rows.
        bodies: By key, all objects of the store.
    """

    random: random.Random
    fake: FakeAmbient = field(default_factory=FakeAmbient)
    lakes: dict[str, Lake] = field(default_factory=dict)
    points: dict[str, tuple[dict[str, int], set[Row]]] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = MemoryStore("drill", now=self._now)
        self.catalog = Catalog(self.store, ambient=self.fake.ambient)
        with mock.patch.object(
            checkpoint_files, "SPILL_FROM_BYTES", 0
        ):  # each segment is an object
            self._build()
        self.points = {t: point for t, point in self.points.items() if self._is_retained(t)}
        self.bodies = {info.key: self.store.get(info.key) for info in self.store.list("")}

    def _build(self) -> None:
        for number, (name, every) in enumerate(WRITERS.items()):
            lake = Lake(
                self.random, self.store, self.fake, name, 1_000 * number, number == 1, every
            )
            self.lakes[name] = lake
            lake.write(TABLES[1])
        self._run(PRUNED_AT)
        self._maintain()
        self._run(REVISIONS)
        for lake in self.lakes.values():
            lake.end()

    def _now(self) -> dt.datetime:
        return _EPOCH + dt.timedelta(microseconds=self.fake.wall_us)

    def _run(self, revisions: int) -> None:
        deck: list[str] = []
        while sum(max(lake.rows) + 1 for lake in self.lakes.values()) < revisions:
            deck = deck or self.random.sample(STEPS, len(STEPS))
            lake = self.lakes[self.random.choice([*WRITERS])]
            lake.step(deck.pop())
            snapshot = self.catalog.snapshot("db")
            if snapshot.token not in self.points:
                rows = visible(self.catalog, snapshot.token)
                self.points[snapshot.token] = (dict(snapshot.cut.revisions), rows)

    def _maintain(self) -> None:
        for name in WRITERS:
            self.fake.move(WEEK_S)
            plan = plan_prune(self.catalog, name, "db", keep_revisions=KEPT)
            execute_prune(self.catalog, plan)
            execute_gc(self.catalog, plan_gc(self.catalog, name, "db"))

    def _is_retained(self, token: str) -> bool:
        try:
            self.catalog.snapshot("db", token)
        except SnapshotPruned:
            return False
        return True

    # --- Copies to destroy ------------------------------------------------------------------------

    def again(self) -> MemoryStore:
        """A store that holds the same."""
        store = MemoryStore("drill")
        for key, body in self.bodies.items():
            store.put(key, body)
        return store

    def log_keys(self, folder: str = "") -> list[str]:
        """The objects of the logs, both copies; or those in `transactions/`, or another folder, of
        every writer."""
        return [
            key
            for key in self.bodies
            if "/data/" not in key
            and "/_probe/" not in key
            and not key.startswith("_")
            and key.split("/", 2)[2].startswith(folder)
        ]

    def tokens(self, touched: Iterable[str]) -> list[str]:
        """Points in time, one for each revision of the logs that were touched, and the newest."""
        names = set(touched)
        found = {
            tuple(sorted((w, r) for w, r in revisions.items() if w in names)): token
            for token, (revisions, _) in self.points.items()
        }
        return [*found.values()]

    def wrong(
        self, store: Store, tokens: Iterable[str], lost: str = "", first: int = 0
    ) -> list[str]:
        """The points in time that don't read as they did, by a reader that knows nothing yet.

        Args:
            lost, first: From this revision of this log on they may be refused.
        """
        catalog = Catalog(store, ambient=self.fake.ambient)
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for token in tokens:
                revisions, rows = self.points[token]
                try:
                    same = visible(catalog, token) == rows
                except LakelogError as error:
                    same = bool(lost) and revisions[lost] >= first
                    revisions = {**revisions, "refused": error.message}
                if not same:
                    found.append(str(revisions))
        return found
