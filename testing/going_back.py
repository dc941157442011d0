"""Restores, drops, removals and compactions in a history whose processes change data
(`changing.py`): as anybody does them who holds no writer, on top of whatever others have committed.

Their transactions are known by the ids that are drawn for them, so that each is held against what
was asked for wherever it lands, late ones too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..catalog.catalog import Catalog
from ..errors import (
    CommitOutcomeUnknown,
    ConflictError,
    CorruptError,
    NotFoundError,
    StorageError,
    UnknownSchema,
)
from .shown_rows import Asked
from .truth import DATABASE, TABLE, WRITER, hold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..catalog.commit.change_plan import ChangePlan, WriterChange
    from ..catalog.margins import Margins
    from ..store.base import Store
    from .shown_rows import RowTruth, Shown
    from .simulation import World
    from .truth import Truth

# What may come between; an argument that is refused (`UsageError`) is a finding.
_LET_BE = (CommitOutcomeUnknown, ConflictError, CorruptError, NotFoundError, StorageError)


@dataclass(slots=True)
class GoingBack:
    """What takes a table back, or compacts it.

    Attributes:
        rows: What it shows.
    """

    world: World
    truth: Truth
    rows: RowTruth
    margins: Margins

    def act(self, store: Store) -> None:
        """Do one of these."""
        one_of(
            self.world, store, (self.restore, self.restore, self.drop, self.remove, self.compact)
        )

    def restore(self, store: Store) -> None:
        """Go back to a revision, which may be pruned."""
        to = self.world.random.randint(0, max(self.truth.slots))
        then = self.rows.at(to)
        if then is None:
            return
        asked = back_to(then)
        catalog, drawn = self._catalog(store, asked)
        (change,) = self._told(catalog.restore(DATABASE, to={WRITER: to}, execute=True), drawn)
        at = change.head if change.commit is None else change.commit.revision
        now = self.rows.at(at)
        same = now is None or (now.columns, now.rows()) == (then.columns, then.rows())
        same |= now is not None and _is_not_there(then) and _is_not_there(now)
        same |= now is not None and then.forgotten and not now.files
        hold(same, f"R1 revision {at} is told to show what {to} does, and doesn't")
        if change.commit is not None:
            self.truth.restored(at, to)

    def drop(self, store: Store) -> None:
        """Take the table out, and forget it."""
        catalog, drawn = self._catalog(store, Asked(empties=True))
        self._told(catalog.drop(DATABASE, TABLE, execute=True), drawn)

    def remove(self, store: Store) -> None:
        """Take a file out."""
        now = self.rows.at(max(self.truth.slots))
        if now is None or not now.files:
            return
        path = self.world.random.choice(sorted(now.files))
        catalog, drawn = self._catalog(store, Asked(drops={path}))
        plan = catalog.remove(DATABASE, TABLE, writer=WRITER, paths=[path], execute=True)
        self._told(plan, drawn)

    def compact(self, store: Store) -> None:
        """Rewrite small files into one."""

        def note(name: bytes) -> None:
            now = self.rows.at(max(self.truth.slots))
            self.rows.asked[name] = Asked(names={} if now is None else now.columns)

        catalog, drawn = catalog_of(self.world, store, self.margins, note)
        done = catalog.compact(DATABASE, TABLE, min_input_files=2, execute=True)
        for revision in (group.revision for group in done.groups):
            if revision is not None:
                self._stands(revision, drawn, "compact")

    def _stands(self, revision: int, drawn: set[bytes], what: str) -> None:
        slot = self.truth.slots.get(revision)
        own = slot is not None and not drawn.isdisjoint(slot.ids)
        hold(own, f"I3 {what} is told to stand at {revision}")

    def _catalog(self, store: Store, asked: Asked) -> tuple[Catalog, set[bytes]]:
        """A catalog of whose transactions it is known what they are for, and their ids."""

        def note(name: bytes) -> None:
            self.rows.asked[name] = asked

        return catalog_of(self.world, store, self.margins, note)

    def _told(self, done: ChangePlan, drawn: set[bytes]) -> tuple[WriterChange, ...]:
        """Hold what is told to be committed against the truth."""
        for change in done.changes:
            if change.commit is not None:
                self._stands(change.commit.revision, drawn, done.kind)
        return done.changes


def _is_not_there(at: Shown) -> bool:
    """Whether a reader sees no table, whatever columns it had."""
    return not at.files and not at.definition


def back_to(then: Shown) -> Asked:
    """What a restore asks for. A table that the log didn't know then stays in the list, empty, with
    the columns that it has."""
    if then.forgotten:
        return Asked(back=then, empties=True)
    return Asked(columns=then.columns, key=then.key, back=then)


def one_of(world: World, store: Store, acts: Sequence[Callable[[Store], None]]) -> None:
    """Do one of them, or note what came between."""
    what = world.random.choice(acts)
    try:
        what(store)
    except UnknownSchema:  # no definition of its own is lacking
        raise
    except _LET_BE as error:
        world.note(f"doesn't {what.__name__}: {error!r}")


def catalog_of(
    world: World, store: Store, margins: Margins, note: Callable[[bytes], None]
) -> tuple[Catalog, set[bytes]]:
    """A catalog that tells of each id which it draws; and all of them."""
    ambient, drawn = world.ambient(), set[bytes]()

    def new_id() -> bytes:
        name = ambient.new_id()
        drawn.add(name)
        note(name)
        return name

    return Catalog(store, ambient=replace(ambient, new_id=new_id), margins=margins), drawn
