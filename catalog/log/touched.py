"""The files of a table through the commits of a log: what hides rows of each, before and after
every commit that touches it. Pure.

Source: docs/format.md, sections 5.1, 5.6 and 5.7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from .deletes import Deletes, tombstone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ..format.objects import DecodedTransaction
    from ..wire import lakelog_transaction_pb2 as wire
    from .deletes import RowDeletes, Tombstone

NUL: Final = b"\0"  # no path holds it: it parts a path from what else makes a file read as it does


class View(NamedTuple):
    """What hides rows of a live file."""

    tombstones: tuple[Tombstone, ...] = ()
    rows: tuple[RowDeletes, ...] = ()


@dataclass(frozen=True, slots=True)
class Marks:
    """What is known of deletes beside the transactions.

    Attributes:
        views: By path what hides rows of files of the first state, where something may.
        met: The files of the first state of which a tombstone may hide rows.
        spared: Files that came since, perhaps with others, of which it hides none.
    """

    views: Mapping[str, View]
    met: Callable[[Tombstone], Collection[str]]
    spared: Callable[[Tombstone], Collection[str]]


class Event(NamedTuple):
    """What a commit did to a file.

    Attributes:
        name: Its path; of one that came since also its partition and schema, see `name_of`.
        before, after: What hid rows of it; None: it wasn't live.
        rewrite: Whether it came or went by what calls itself a rewrite.
    """

    name: bytes
    before: View | None
    after: View | None
    rewrite: bool


def name_of(path: str, partition: str, fingerprint: bytes) -> bytes:
    """What tells a file from others of its table: in another partition, or with another schema, it
    may read otherwise."""
    return NUL.join((path.encode(), partition.encode(), fingerprint))


class Touched:
    """Follows the commits after a first state.

    Args:
        table: Whose files.
        marks: What else is known.
        rows: By path the row deletes at the first state.
        names: Of files of the first state, by path, their names of `name_of`.
    """

    def __init__(
        self,
        table: str,
        marks: Marks,
        rows: Mapping[str, Sequence[RowDeletes]],
        names: Callable[[Sequence[str]], Mapping[str, bytes]],
    ) -> None:
        self._table = table
        self._marks = marks
        self._names_of = names
        self._deletes = Deletes(recent={(table, path): list(some) for path, some in rows.items()})
        self._now: dict[str, View | None] = {}  # of files that were touched
        self._added: dict[str, int] = {}  # of files that came: the revision that added them last
        self._new: dict[str, None] = {}  # of these, those that were not there at first
        self._names: dict[str, bytes] = {}  # of files that came
        self._begin()

    def _begin(self) -> None:
        self._old: dict[str, View | None] = {}
        self._came: dict[str, tuple[bytes, bool]] = {}  # name, and whether by a rewrite
        self._went: dict[str, bool] = {}
        self._marked: dict[str, None] = {}
        self._tombstones: list[Tombstone] = []

    # --- Within a commit --------------------------------------------------------------------------

    def come(self, path: str, name: bytes, revision: int, *, rewrite: bool) -> None:
        """A file is added by a revision."""
        if path not in self._now:
            self._new[path] = None
            self._now[path] = None
        self._old.setdefault(path, self._now[path])
        self._now[path] = View()
        self._added[path] = revision
        self._came[path] = (name, rewrite)

    def go(self, path: str, *, rewrite: bool) -> None:
        """A file is removed."""
        self._old.setdefault(path, self._view(path))
        self._now[path] = None
        self._went[path] = rewrite

    def mark(self, action: wire.Action, revision: int, number: int) -> None:
        """Rows are deleted, if an action of the table does that.

        Args:
            revision, number: Of the commit, and its place there.
        """
        kind = action.WhichOneof("kind")
        if kind == "row_deletes":
            self._marked[action.row_deletes.path] = None
        elif kind == "tombstone":
            self._tombstones.append(tombstone_of(action.tombstone, revision, number, ""))

    def end(self, transaction: DecodedTransaction) -> Iterator[Event]:
        """The commit is over: its events."""
        self._deletes.apply(transaction)
        for path in self._marked:
            rows = self._deletes.recent.get((self._table, path), ())
            self._hide(path, rows=tuple(rows))
        for tombstone in self._tombstones:
            for path in self._met(tombstone):
                if path not in self._came:
                    self._hide(path, more=(tombstone,))
        yield from self._events()
        self._names |= {path: name for path, (name, _) in self._came.items()}
        self._begin()

    def _view(self, path: str) -> View | None:
        """What hides rows of a file by now; None: it isn't live."""
        return self._now[path] if path in self._now else self._marks.views.get(path, View())

    def _hide(
        self,
        path: str,
        *,
        rows: tuple[RowDeletes, ...] | None = None,
        more: tuple[Tombstone, ...] = (),
    ) -> None:
        view = self._view(path)
        if view is not None:
            self._old.setdefault(path, view)
            held = view.rows if rows is None else rows
            self._now[path] = View((*view.tombstones, *more), held)

    def _met(self, tombstone: Tombstone) -> Iterator[str]:
        """Files of which a tombstone may hide rows, if they are live and older."""
        for path in self._marks.met(tombstone):
            if self._added.get(path, -1) < tombstone.revision:
                yield path
        if self._new:
            spared, only = self._marks.spared(tombstone), set(tombstone.paths)
            for path in self._new:
                known = path not in spared and (not only or path in only)
                if known and self._added[path] < tombstone.revision:
                    yield path

    def _events(self) -> Iterator[Event]:
        both = [path for path in self._came if self._old[path] is not None]
        unknown = [path for path in both if path not in self._names]
        names = {**self._names_of(unknown), **self._names} if both else self._names
        for path, old in self._old.items():
            before = old
            name, after = names.get(path, path.encode()), self._now[path]
            came = self._came.get(path)
            went = self._went.get(path)
            if before is not None and came is not None and came[0] != name:
                yield Event(name, before, None, bool(went))
                before = None
            rewrite = any(one for one in (came and came[1], went) if one is not None)
            if came is not None and after is not None:
                name = came[0]
            if before != after:
                yield Event(name, before, after, rewrite and None in (before, after))
