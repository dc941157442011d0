"""Tombstones in the rebuilt log. Revisions are other ones there, so where one would hold of other
files than it did, it names those that it held of. Pure, but for the pieces of the state.

Source: docs/format.md, sections 5.6, 8.1 and 10.6.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..catalog.log.deletes import message_of, tombstone_of
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .evidence import of_kind
from .moments import is_before

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..catalog.log.deletes import LogAt, Tombstone
    from .evidence import FoundTransaction
    from .moments import Moment, Moments
    from .placed import Placed

_PATHS_IN_ONE: Final = 5_000
_NAMED: Final = 3
_Found = tuple["Tombstone", "Moment", int | None]
_Content = tuple[str, str, bytes, tuple["LogAt", ...]]


class TombstonesPlaced:
    """Places all tombstones that hold of anything."""

    def __init__(self, moments: Moments, placed: Placed) -> None:
        self._moments = moments
        self._placed = placed
        self._forgotten: dict[str, int] = {}
        for item in moments.result.transactions:
            self._forgotten.update(dict.fromkeys(item.tables, item.revision))
        self._live: dict[str, dict[str, Moment | None]] = {}
        for name in moments.result.live:
            self._live.setdefault(name[0], {})[name[1]] = moments.of_live(name)

    def place(self) -> None:
        """Do it."""
        for found in self._all():
            self._place(*found)

    def _all(self) -> Iterator[_Found]:
        """Each with its moment, and the revision of the new log that is its own."""
        known = self._moments.known
        said: dict[_Content, list[tuple[int, Tombstone]]] = {}
        others: list[_Found] = []
        for revision, item in enumerate(self._moments.ordered):
            is_known = known is not None and (
                known.is_whole or item.transaction_id in known.committed
            )
            for number, found in enumerate(of_kind(item.actions, "tombstone")):
                tombstone = tombstone_of(found, revision, number, "")
                if is_known:
                    said.setdefault(_content(tombstone), []).append((revision, tombstone))
                elif found.logs or revision >= self._forgotten.get(found.table, -1):
                    others.append((tombstone, self._moments.of_transaction(item), revision))
        for tombstone in self._of_log():
            moment = self._moments.in_log(tombstone.revision)
            places = said.get(_content(tombstone), [])
            own = next((one for one in places if self._moments.of_place(one[0]) == moment), None)
            if own is not None:
                places.remove(own)
            yield tombstone, moment, None if own is None else own[0]
        for places in said.values():  # a checkpoint holds no more what no file is older than
            for revision, tombstone in places:
                item = self._moments.ordered[revision]
                moment = self._moments.of_transaction(item)
                is_known = known is not None and item.transaction_id in known.committed
                if is_known and not self._is_denied(tombstone, moment, revision):
                    yield tombstone, moment, revision
        yield from others

    def _is_denied(self, tombstone: Tombstone, moment: Moment, revision: int) -> bool:
        """Whether a log that doesn't hold a tombstone would, had its transaction done that: a
        rebuild left it out, or a copy of a process wrote the object under the id of one that did no
        such thing. What is told from the beginning on has all but those of forgotten tables."""
        known = self._moments.known
        if tombstone.logs or known is None:
            return True
        if known.state.base is None and revision >= self._forgotten.get(tombstone.table, -1):
            return True
        return any(
            (tombstone.table, path) in known.live and is_before(begun, moment)
            for path, begun in self._live.get(tombstone.table, {}).items()
            if begun is not None and path in (tombstone.paths or (path,))
        )

    def _of_log(self) -> Iterable[Tombstone]:
        known = self._moments.known
        if known is None:
            return
        for table in sorted(known.deletes.tombstones):
            yield from known.deletes.of_table(table)

    def _place(self, tombstone: Tombstone, moment: Moment, own: int | None) -> None:
        if tombstone.logs:  # they are named so that they are known again after a rebuild
            self._doubt_cut(tombstone)
            if own is None:
                self._placed.rest.append(_action(tombstone))
            else:
                self._put(own, tombstone)
            return
        files = self._live.get(tombstone.table, {})
        if tombstone.paths:
            files = {path: files[path] for path in tombstone.paths if path in files}
        order = {path: self._is_before(tombstone, path, moment) for path in files}
        held = {path for path, first in order.items() if first}
        doubted = sorted(path for path, at in files.items() if at and order[path] is None)
        if own is not None:
            lives = self._moments.result.lives
            there = {path for path in files if lives[tombstone.table, path][-1][0] < own}
            if there <= held:
                self._put(own, tombstone)
                held -= there
            elif 0 < len(there & held) <= _PATHS_IN_ONE:
                self._put(own, replace(tombstone, paths=_sorted(there & held)))
                held -= there
        if doubted:
            self._placed.doubts.append(
                f"Whether {_some(doubted)} came before the delete of rows with "
                f"{tombstone.predicate[:200]!r} in table {tombstone.table!r}, nothing tells: their "
                "rows are not deleted by it"
            )
        paths = _sorted(held)
        for start in range(0, len(paths), _PATHS_IN_ONE):
            some = replace(tombstone, paths=paths[start : start + _PATHS_IN_ONE])
            self._placed.rest.append(_action(some))

    def _doubt_cut(self, tombstone: Tombstone) -> None:
        """Name the files of which nothing tells whether a delete of several logs' files holds: they
        may have come before or after the transaction of this log that it names."""
        for named in self._named(tombstone):
            moment = self._moments.of_transaction(named)
            own = {file.path for file in named.files}
            doubted = sorted(
                path
                for path, begun in self._live.get(tombstone.table, {}).items()
                if begun and path not in own and self._is_before(tombstone, path, moment) is None
            )
            if doubted:
                self._placed.doubts.append(
                    f"Whether {_some(doubted)} came before transaction "
                    f"{named.transaction_id.hex()}, up to which the delete of rows with "
                    f"{tombstone.predicate[:200]!r} in table {tombstone.table!r} holds, nothing "
                    "tells: their places in the rebuilt log decide"
                )

    def _named(self, tombstone: Tombstone) -> Iterator[FoundTransaction]:
        """Transactions of this log that a delete of several logs' files names."""
        logs = {at.transaction_id: at.log_id for at in tombstone.logs}
        for item in self._moments.ordered:
            if logs.get(item.transaction_id) == item.log_id:
                yield item

    def _is_before(self, tombstone: Tombstone, path: str, moment: Moment) -> bool | None:
        name = (tombstone.table, path)
        begun = self._live[tombstone.table][path]
        start = self._moments.result.lives[name][-1][0]
        return None if begun is None else self._moments.is_before(start, begun, moment)

    def _put(self, revision: int, tombstone: Tombstone) -> None:
        self._placed.at[revision].append(_action(tombstone))


def _content(tombstone: Tombstone) -> _Content:
    return tombstone.table, tombstone.predicate, tombstone.columns, tombstone.logs


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more


def _sorted(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(paths, key=str.encode))


def _action(tombstone: Tombstone) -> bytes:
    return wire.Action(tombstone=message_of(tombstone)).SerializeToString(deterministic=True)
