"""Restores, drops, removals and compactions in a history of an upheaval whose processes change data
(`upheavals.py`): of the table beside, by somebody who holds no writer, and goes by what the store
says now.

To which revision a restore goes is held against where it lands: in that incarnation of the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .annals import DATABASE, WRITER, Annals
from .going_back import catalog_of, one_of
from .row_annals import CHANGED
from .shown_rows import Asked
from .truth import hold

if TYPE_CHECKING:
    from ..catalog.commit.change_plan import ChangePlan
    from ..catalog.margins import Margins
    from ..store.base import Store
    from .row_annals import RowAnnals
    from .simulation import World


@dataclass(slots=True)
class Undoing:
    """What takes the table beside back, or compacts it.

    Attributes:
        rows: What it shows.
    """

    world: World
    annals: Annals
    rows: RowAnnals
    margins: Margins

    def act(self, store: Store) -> None:
        """Do one of these."""
        one_of(
            self.world, store, (self.restore, self.restore, self.drop, self.remove, self.compact)
        )

    def restore(self, store: Store) -> None:
        """Go back to a revision, which may be pruned."""
        to = self.world.random.randint(0, max(0, self.annals.head()))
        if not self.rows.knows(self.annals.current, to):
            return

        def note(name: bytes) -> None:
            self.rows.back[name] = to

        catalog, drawn = catalog_of(self.world, store, self.margins, note)
        self._told(catalog.restore(DATABASE, CHANGED, to={WRITER: to}, execute=True), drawn)

    def drop(self, store: Store) -> None:
        """Take the table out, and forget it."""
        asked = Asked(empties=True)
        catalog, drawn = catalog_of(
            self.world, store, self.margins, lambda name: self.rows.asks(name, asked)
        )
        self._told(catalog.drop(DATABASE, CHANGED, execute=True), drawn)

    def remove(self, store: Store) -> None:
        """Take a file out."""
        files = self.annals.live_at(self.annals.head_digest())
        own = [path for path in files if f"/{CHANGED}/" in path]
        if not own:
            return
        path = self.world.random.choice(own)
        asked = Asked(drops={path})
        catalog, drawn = catalog_of(
            self.world, store, self.margins, lambda name: self.rows.asks(name, asked)
        )
        plan = catalog.remove(DATABASE, CHANGED, writer=WRITER, paths=[path], execute=True)
        self._told(plan, drawn)

    def compact(self, store: Store) -> None:
        """Rewrite small files into one."""

        def note(name: bytes) -> None:
            now = self.rows.shown.get(self.annals.head_digest())
            self.rows.asks(name, Asked(names={} if now is None else now.columns))

        catalog, drawn = catalog_of(self.world, store, self.margins, note)
        done = catalog.compact(DATABASE, CHANGED, min_input_files=2, execute=True)
        for revision in (group.revision for group in done.groups):
            if revision is not None:
                self._stands(revision, drawn, "compact")

    def _stands(self, revision: int, drawn: set[bytes], what: str) -> None:
        own = self.annals.ids_at(revision) & drawn
        hold(bool(own), f"U5 {what} is told to stand at {revision}")
        self.annals.acknowledged.update(own)

    def _told(self, done: ChangePlan, drawn: set[bytes]) -> None:
        """Hold what is told to be committed against the truth."""
        for change in done.changes:
            if change.commit is not None:
                self._stands(change.commit.revision, drawn, done.kind)
