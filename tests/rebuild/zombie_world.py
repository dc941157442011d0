"""A log, and a process that had it open before it was rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.rebuild import RebuildPlan, execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient, PlainStore
from rebuild_cases import LOG, MIRROR, item_of

if TYPE_CHECKING:
    from lakelog.catalog.commit.writer import Writer
    from lakelog.store import Store


@dataclass
class World:
    """A log with an owner that has it open.

    Attributes:
        early: Opened before the first commit, and never used since.
        zombie: The owner that committed all there is.
    """

    store: Store
    fake: FakeAmbient
    early: Writer
    zombie: Writer
    paths: list[str]

    def plan(self, store=None, **options) -> RebuildPlan:
        return plan_rebuild(
            store or self.store, "EWR", "weather", ambient=self.fake.ambient, **options
        )

    def load(self):
        return LogReader(self.store, "EWR", "weather", self.fake.ambient).load()

    def live(self) -> set[str]:
        state = self.load()
        for table in state.files.tables():
            state.files.check(table)
        return {path for paths in state.files.paths() for path in paths.to_pylist()}

    def rebuild(self, **options):
        return execute_rebuild(self.store, self.plan(**options), ambient=self.fake.ambient)

    def lose(self, revisions: set[int]) -> None:
        """Both copies of what stands on some revisions."""
        for folder in (LOG, MIRROR):
            for info in list(self.store.list(folder)):
                item = item_of(LOG + info.key.removeprefix(folder))
                if item is not None and item.revision in revisions:
                    self.store.delete([info.key])

    def new_owner(self) -> Writer:
        return Catalog(self.store, ambient=self.fake.ambient).writer("EWR", "weather")


def make_world(
    commits: int = 4, removals: int = 0, checkpoint_every: int = 3, *, plain: bool = False
) -> World:
    store, fake = PlainStore(MemoryStore()) if plain else MemoryStore(), FakeAmbient()
    catalog = Catalog(store, ambient=fake.ambient)
    early, zombie = (
        catalog.writer("EWR", "weather", checkpoint_every=checkpoint_every) for _ in range(2)
    )
    world = World(store, fake, early, zombie, [])
    for _ in range(commits):
        world.paths.append(write(zombie, fake))
    for _ in range(removals):
        with zombie.transaction() as tx:
            tx.remove(world.paths.pop())
    return world


def write(writer: Writer, fake: FakeAmbient) -> str:
    fake.move(1)
    with writer.transaction() as tx:
        (path,) = tx.write("hourly", pa.table({"n": [1]}))
    return path


def new_names(world: World, before: set[str]) -> set[int]:
    """Incarnations in which there are more names than before."""
    now = {info.key for info in world.store.list(LOG)} - before
    return {item.incarnation for item in map(item_of, now) if item is not None}
