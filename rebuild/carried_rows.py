"""Row deletes in the rebuilt log: they hold of one life of a file, from when it was added until it
is removed. Pure, but for the pieces of the state.

Source: docs/format.md, sections 5.7, 8.1 and 10.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..catalog.format.names import parse_data_file
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .evidence import of_kind
from .moments import is_before

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .moments import Moment, Moments
    from .placed import Placed
    from .values import FileName

_Name = tuple[str, str, int]  # of row deletes: the file, their object, and where in it


class _Found(NamedTuple):
    """Row deletes that an object tells of.

    Attributes:
        item: As its action.
        at: The revision of the new log that is its own.
        moment: When.
        is_of_own_add: Whether it is said of a file that its own transaction adds: by going back.
    """

    item: wire.RowDeletes
    at: int
    moment: Moment
    is_of_own_add: bool


class RowsPlaced:
    """Places all row deletes that hold of anything."""

    def __init__(self, moments: Moments, placed: Placed) -> None:
        self._moments = moments
        self._placed = placed
        self._doubted: dict[str, None] = {}
        known = moments.known
        self._held = {_name(item): item for item in self._of_log()}
        self._is_whole = known is not None and known.is_whole

    def place(self) -> None:
        """Do it."""
        by_file: dict[FileName, list[_Found]] = {}
        for at, transaction in enumerate(self._moments.ordered):
            for item in of_kind(transaction.actions, "row_deletes"):
                moment = self._moments.of_transaction(transaction)
                name = item.table, item.path
                lives = self._moments.result.lives.get(name, ())
                begins = any(start == at for start, _ in lives)
                found = _Found(item, at, moment, begins and not item.covers_below)
                by_file.setdefault(name, []).append(found)
        done: set[_Name] = set()
        for name, some in by_file.items():
            done |= self._place(name, some)
        for held, item in self._held.items():
            if held not in done:
                self._placed.rest.append(_action(item))
        for path in self._doubted:
            self._placed.doubts.append(
                f"Whether {path} was added again after rows of it were deleted by number, nothing "
                "tells: they are not deleted"
            )

    def _place(self, name: FileName, found: list[_Found]) -> set[_Name]:
        """Those of one file, each in the life of the file that it is of."""
        done: set[_Name] = set()
        lives = self._moments.result.lives.get(name, ())
        for start, end in lives:
            placed: list[_Found] = []
            for one in found:
                is_within = start == one.at if one.is_of_own_add else start < one.at
                if not is_within or (end is not None and one.at >= end):
                    continue
                if end is None and self._is_denied(name, one, found):
                    continue
                if self._is_of(name, start, one, is_last=end is None):
                    item = wire.RowDeletes()
                    item.CopyFrom(one.item)
                    is_whole = not one.is_of_own_add and _covers_all(one, placed)
                    item.covers_below = one.at if is_whole else 0
                    self._placed.at[one.at].append(_action(item))
                    placed.append(one)
                    if end is None:
                        done.add(_name(item))
        return done

    def _is_of(self, name: FileName, start: int, one: _Found, *, is_last: bool) -> bool:
        """Whether row deletes are of the life of a file that begins at a revision."""
        begun = self._moments.of_place(start)
        if begun is None:
            return False
        if is_last and self._moments.of_live(name) != begun:
            return False  # the log knows of a later life, that objects don't tell of
        if one.is_of_own_add:
            return True
        own = parse_data_file(name[1])
        if own is not None and own.transaction_id == self._id_of(start):
            return True
        first = self._moments.is_before(start, begun, one.moment)
        if first is None and is_last:
            self._doubted[name[1]] = None
        return bool(first)

    def _is_denied(self, name: FileName, one: _Found, found: list[_Found]) -> bool:
        """Whether a log would know of these deletes, and doesn't: it holds their transaction, and
        is told from its beginning on, or it is read to its end and has the file. A rebuild left
        them out, or a copy of a process wrote them under the id of a transaction that did no such
        thing. Not those of which a later bitmap has all rows: they were true before it.

        Args:
            found: All that are said of the file.
        """
        known = self._moments.known
        if known is None:
            return False
        is_told = known.state.base is None and self._id_of(one.at) in known.committed
        if not is_told and not (self._is_whole and name in known.live):
            return False
        entries = known.deletes.rows_of(name[0]).get(name[1], ())
        said = {(name[1], entry.object, entry.offset) for entry in entries}
        held = [other for other in found if _name(other.item) in said]
        return one not in held and not any(
            other.item.covers_below and other.at > one.at for other in held
        )

    def _id_of(self, revision: int) -> bytes:
        return self._moments.ordered[revision].transaction_id

    def _of_log(self) -> Iterator[wire.RowDeletes]:
        """Those of live files that the old log holds."""
        known, live = self._moments.known, self._moments.result.live
        if known is None:
            return
        for table in sorted(known.deletes.tables()):
            for path, entries in sorted(known.deletes.rows_of(table).items()):
                begun = self._moments.of_live((table, path)) if (table, path) in live else None
                for entry in entries:
                    # Where a removal and an add are lost the log doesn't know of the later life.
                    moment = self._moments.in_log(entry.revision)
                    if begun is None or (begun != moment and is_before(begun, moment) is False):
                        continue
                    yield wire.RowDeletes(
                        table=table,
                        path=path,
                        object=entry.object,
                        offset=entry.offset,
                        length=entry.length,
                        cardinality=entry.cardinality,
                        digest=entry.digest,
                    )


def _covers_all(one: _Found, before: list[_Found]) -> bool:
    """Whether a bitmap has the rows of all that were placed before it, as it says itself."""
    return all(
        other.moment.incarnation == one.moment.incarnation
        and other.moment.revision is not None
        and other.moment.revision < one.item.covers_below
        for other in before
    )


def _name(item: wire.RowDeletes) -> _Name:
    return item.path, item.object, item.offset


def _action(item: wire.RowDeletes) -> bytes:
    return wire.Action(row_deletes=item).SerializeToString(deterministic=True)
