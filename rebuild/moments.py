"""When a file came to be live, and when rows were deleted: which of the two was first decides
whether a tombstone holds of a file. Pure.

Where the old log, or footers, tell both revisions, that is certain. Of a delete that a rebuilt log
has lost, and a file of the lives before, only the life that both were of tells: where it told
nothing, the rebuild before has guessed an order, and kept the rows. Else a revision that stood
before the one, and was not below the other, may tell, or the epoch. Where nothing does, the delete
is not taken to hold: a row that comes back can be deleted again.

Source: docs/format.md, sections 5.6 and 8.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..catalog.format.segments import MAX_NUMBER

if TYPE_CHECKING:
    from .assemble import Assembled
    from .evidence import Evidence, FoundTransaction, TransactionId
    from .known_log import KnownLog
    from .values import FileName


class Origin(NamedTuple):
    """Where a transaction stood in the life of a log that it was begun in.

    Attributes:
        log_id, incarnation: Of that life.
        number: In it, as its footers count; None if nothing tells.
        head: A number that stood before it.
    """

    log_id: bytes
    incarnation: int
    number: int | None
    head: int


class Moment(NamedTuple):
    """A place in the history of a log, as far as it is known.

    Attributes:
        incarnation: Whose revisions are counted.
        epoch: Of the committer; 0 where only the revision counts.
        revision: Its own; None if nothing tells.
        after: A revision that stood before it; -1 for none.
        last: A revision that it was not above.
        origin: Of one that a rebuild did again and that is lost since; None for others.
    """

    incarnation: int
    epoch: int
    revision: int | None
    after: int
    last: int = MAX_NUMBER
    origin: Origin | None = None


def is_before(file: Moment, delete: Moment) -> bool | None:
    """Whether a file was there before a delete; None if nothing tells."""
    if file.incarnation != delete.incarnation:
        return file.incarnation < delete.incarnation
    if file.revision is not None and delete.revision is not None:
        return file.revision < delete.revision
    if _latest(file) <= delete.after:
        return True
    if _latest(delete) <= file.after:
        return False
    if file.epoch and delete.epoch and file.epoch != delete.epoch:
        return file.epoch < delete.epoch
    return None


def _latest(moment: Moment) -> int:
    return moment.last if moment.revision is None else moment.revision


def _is_before_in_life(file: Origin, delete: Origin) -> bool | None:
    """The same of two of which only the lives tell that they were of."""
    if file.incarnation != delete.incarnation:
        return file.incarnation < delete.incarnation
    if file.log_id != delete.log_id:
        return None  # before there was a log: each opening counts for itself
    if file.number is not None and delete.number is not None and file.number != delete.number:
        return file.number < delete.number
    if file.number is not None and file.number <= delete.head:
        return True
    if delete.number is not None and delete.number <= file.head:
        return False
    return None


@dataclass(slots=True)
class Moments:
    """Tells the moments of a rebuild.

    Attributes:
        ordered: The transactions that `result` was made of, by revision of the new log.
        known: What the old log says; None for nothing.
    """

    result: Assembled
    ordered: list[FoundTransaction]
    evidence: Evidence
    known: KnownLog | None
    _revisions: dict[str, dict[str, int]] = field(default_factory=dict)
    _at_most: dict[TransactionId, int] | None = None

    def in_log(self, revision: int) -> Moment:
        """That of a revision of the old log."""
        assert self.known is not None
        log = self.known.state.log
        return Moment(0 if log is None else log.incarnation, 0, revision, revision - 1)

    def of_transaction(self, item: FoundTransaction) -> Moment:
        """That of a transaction."""
        place = self.known and self.known.committed.get(item.transaction_id)
        if place:
            return self.in_log(place[0])
        gap = self.evidence.gaps.get(item.transaction_id)
        if gap is not None:
            # At one revision there may be several of which nothing proves any.
            is_sure = gap.first == gap.last and item.transaction_id in self.evidence.proofs
            revision = gap.first if is_sure else None
            found = self.in_log(gap.first)._replace(revision=revision, epoch=item.epoch)
            return found._replace(last=gap.last, origin=self._origin(item))
        revision = self.evidence.revisions.get(item.transaction_id)
        return Moment(item.incarnation, item.epoch, revision, item.head_revision)

    def is_before(self, start: int, begun: Moment, delete: Moment) -> bool | None:
        """Whether a file was there before a delete; None if nothing tells.

        Args:
            start: The revision of the new log that made it live.
            begun: When it came to be live.
        """
        item = self.ordered[start] if start < len(self.ordered) else None
        if item is None or delete.origin is None or not self._is_of_before(item):
            return is_before(begun, delete)
        own = self._origin(item)
        told = _is_before_in_life(own, delete.origin)
        if told is not None or own.log_id != delete.origin.log_id:
            return told
        if self._most(item.transaction_id) <= delete.origin.head:
            return True
        is_split = self.evidence.is_split(item)  # then epochs fall
        return None if is_split or item.epoch == delete.epoch else item.epoch < delete.epoch

    def _origin(self, item: FoundTransaction) -> Origin:
        number = self.evidence.number(item)
        return Origin(item.log_id, item.incarnation, number, item.head_revision)

    def _is_of_before(self, item: FoundTransaction) -> bool:
        """Whether a transaction is of a life of the log before the one in use."""
        log = None if self.known is None else self.known.state.log
        return log is not None and bool(item.written) and item.incarnation < log.incarnation

    def _most(self, transaction_id: TransactionId) -> int:
        """A number of its life that a transaction was not above: what is numbered higher took out
        its files, or did something with their rows."""
        if self._at_most is None:
            self._at_most = {}
            owners = {(file.table, file.path): item for item in self.ordered for file in item.files}
            for item in self.ordered:
                number = self.evidence.number(item)
                if number is None:
                    continue
                for owner in filter(None, map(owners.get, item.replaces | item.touches)):
                    if (owner.log_id, owner.incarnation) == (item.log_id, item.incarnation):
                        most = self._at_most.get(owner.transaction_id, MAX_NUMBER)
                        self._at_most[owner.transaction_id] = min(most, number - 1)
        return self._at_most.get(transaction_id, MAX_NUMBER)

    def of_place(self, revision: int) -> Moment | None:
        """That of a revision of the new log; None if no transaction of the old one stands there."""
        known = revision < len(self.ordered)
        return self.of_transaction(self.ordered[revision]) if known else None

    def of_live(self, name: FileName) -> Moment | None:
        """That of a live file; None if nothing tells at all."""
        start = self.result.lives[name][-1][0]
        is_own = start < len(self.ordered)
        if self.known is not None and name in self.known.live:
            item = self.ordered[start] if is_own else None
            if item is None or item.transaction_id in self.known.committed or self.known.is_whole:
                return self.in_log(self.revisions(name[0]).get(name[1], 0))
        return self.of_place(start)

    def revisions(self, table: str) -> dict[str, int]:
        """By path the revision that added each file of a table, as the old log has it."""
        assert self.known is not None
        if table not in self._revisions:
            found: dict[str, int] = {}
            if self.known.state.revision >= 0:
                rows = self.known.state.files.table(table)
                names = ("path", "revision")
                found = dict(zip(*(rows.column(one).to_pylist() for one in names), strict=True))
            for (own, path), revision in self.known.since.items():
                if own == table:
                    found[path] = revision
            self._revisions[table] = found
        return self._revisions[table]
