"""Deletes that come while files are rewritten, carried over to the new files.

A rewrite knows the place of each row in the new files. So rows that others have deleted
meanwhile, by number or by a predicate, are deleted by number in the commit that adds the new
files. Only the columns of a predicate are read again, and only row numbers are written.

Source: docs/maintenance.md, "Read faster"; docs/format.md, section 5.7.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..data.hidden import Bitmaps
from ..data.scan import hidden_rows
from ..format import deletes as form
from ..format.names import base_folder
from ..log.build import require_actions
from ..read.hidden import hidden_files
from ..wire import lakelog_transaction_pb2 as wire
from .deleting import deletes_objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..data.file_part import FilePart
    from ..data.hidden import Hidden
    from ..log.state import State
    from .base_transaction import BaseTransaction


class NewFile(NamedTuple):
    """A file that rows were put into, in their order: its path and how many."""

    path: str
    rows: int


class Moved(NamedTuple):
    """Where rows of some files have gone.

    Attributes:
        table: Whose.
        parts: The files, in the order in which they were read, with what hid rows of them.
        order: Which row that was read stands where in the new files; None: as they were read.
        files: The new ones, in the order in which they were written.
    """

    table: str
    parts: Sequence[FilePart]
    order: Sequence[np.ndarray] | None
    files: Sequence[NewFile]


@dataclass(slots=True)
class Carrying:
    """Carries deletes over into one transaction.

    Attributes:
        moved: All rows that it has rewritten.
    """

    moved: list[Moved] = field(default_factory=list)
    _revision: int = -1  # up to which deletes are carried over
    _keys: set[str] = field(default_factory=set)  # of the objects that the transaction names

    def over(self, tx: BaseTransaction) -> bool:
        """Brings what others have deleted by now into a transaction that was not committed, in
        the place of what was carried over before.

        Returns:
            False if nothing was committed since it was called last.
        Raises:
            ObjectNotFound, CorruptObject: A file can't be read that a predicate is about.
            StorageError: The numbers can't be put.
            UsageError: There is no room for them.
        Requests: 1 LIST, and 1 GET for each new transaction; 1 or more GET for each file
            with rows that a predicate deleted; 1 PUT for 4,096 files.
        """
        session, intent = tx._session, tx._intent
        tables = {one.table for one in self.moved}

        def asked(state: State) -> tuple[int, dict[str, dict[str, Hidden]]]:
            return state.revision, {table: hidden_files(state, table) for table in tables}

        revision, hidden = session.ask_anew(asked)
        if revision == self._revision:
            return False
        self._revision = revision
        folder = base_folder(session.writer_id, session.database)
        bitmaps = Bitmaps(session.wide)
        found = [
            (wire.RowDeletes(table=one.table, path=path, cardinality=len(rows)), rows)
            for one in self.moved
            for path, rows in _lost(tx, one, hidden[one.table], folder, bitmaps)
        ]
        outdated, self._keys = self._keys, set()
        intent.last = []
        for table in sorted(tables):
            some = [(i, form.encode_bitmap(rows)) for i, rows in found if i.table == table]
            if some:
                objects = deletes_objects(session, intent, tx._base, tx._files, some)
                tx._message_size.check(objects.actions)
                tx._files += len(objects.bodies)
                for key, body in objects.bodies:
                    tx._uploads.add(key, body)
                    self._keys.add(key)
                intent.last += [*require_actions([form.ROW_DELETES]), *objects.actions]
        tx._uploads.wait()
        if outdated:
            session.store.delete(outdated, ordered=False)
            tx._uploads.keys -= outdated
        intent.claims = [
            replace(claim, deletes_until=revision) if claim.table in tables else claim
            for claim in intent.claims
        ]
        return True


def _lost(
    tx: BaseTransaction, one: Moved, now: dict[str, Hidden], folder: str, bitmaps: Bitmaps
) -> Iterator[tuple[str, np.ndarray]]:
    """By new file the numbers of its rows that were deleted since they were read."""
    lost: list[np.ndarray] = []
    start = 0
    for part in one.parts:
        path = part.key.removeprefix(folder)
        rows, gone = _since(tx, part, now.get(path), bitmaps)
        lost.append(gone + start)
        start += rows
    places = np.concatenate(lost) if lost else np.zeros(0, np.int64)
    if one.order is not None and len(places):
        order = np.concatenate(one.order)
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.arange(len(order))
        places = inverse[places]
    places.sort()
    end = 0
    for file in one.files:
        begin, end = end, end + file.rows
        low, high = np.searchsorted(places, [begin, end])
        if high > low:
            yield file.path, (places[low:high] - begin).astype(np.uint32)


def _since(
    tx: BaseTransaction, part: FilePart, now: Hidden | None, bitmaps: Bitmaps
) -> tuple[int, np.ndarray]:
    """How many rows were read of a file, and which of them are deleted by now."""
    if now == part.hidden:
        hidden = 0 if now is None else len(hidden_rows(tx._session.wide, part, bitmaps))
        return part.row_count - hidden, np.zeros(0, np.int64)
    before = hidden_rows(tx._session.wide, part, bitmaps)
    after = hidden_rows(tx._session.wide, replace(part, hidden=now), bitmaps)
    kept = np.ones(part.row_count, np.bool_)
    kept[before] = False
    gone = np.zeros(part.row_count, np.bool_)
    gone[after] = True
    return int(kept.sum()), np.flatnonzero(gone[kept])
