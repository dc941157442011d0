"""From the names in `transactions/` to what must be read for one revision. Pure.

Source: docs/format.md, section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...errors import ForkError, MissingTransaction, RevisionNotFound, SnapshotPruned
from ..format.names import LogObject, log_folder, parse_log_object

if TYPE_CHECKING:
    from collections.abc import Iterable


REPAIR: Final = (
    "Restore the object from a copy, or rebuild the log: that is from the data files alone, so "
    "what was removed without a replacement can come back; its plan shows that first"
)


@dataclass(slots=True)
class Listing:
    """The names of one log.

    Attributes:
        writer, database: Whose log.
        transactions: Names by revision; more than one name on a revision is a fork.
        checkpoints: Names by revision.
        segments: Names, ascending.
        unknown: Names that aren't ours.
    """

    writer: str
    database: str
    transactions: dict[int, list[LogObject]] = field(default_factory=dict)
    checkpoints: dict[int, list[LogObject]] = field(default_factory=dict)
    segments: list[LogObject] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def head(self) -> int:
        """The highest revision of any transaction or checkpoint; -1 if there is none."""
        return max(max(self.transactions, default=-1), max(self.checkpoints, default=-1))

    @property
    def folder(self) -> str:
        """Key prefix of the names."""
        return log_folder(self.writer, self.database)

    def key(self, item: LogObject) -> str:
        """The key of a name."""
        return self.folder + item.name

    def names_at(self, revision: int) -> list[LogObject]:
        """Transactions and checkpoints of a revision, sorted."""
        found = [*self.transactions.get(revision, ()), *self.checkpoints.get(revision, ())]
        return sorted(found)

    def forks(self) -> list[int]:
        """Revisions whose transactions and checkpoints don't all have one uuid, ascending."""
        many = {r for r, names in self.transactions.items() if len(names) > 1}
        for revision in self.checkpoints:
            if len({item.uuid8 for item in self.names_at(revision)}) > 1:
                many.add(revision)
        return sorted(many)

    def run_start(self, target: int) -> int:
        """The lowest revision from which all transactions up to `target` are there; target + 1 if
        its own isn't."""
        start = target + 1
        while start - 1 in self.transactions:
            start -= 1
        return start

    def oldest_readable(self) -> int:
        """The lowest revision from which every revision up to the head can be read (forks aside);
        head + 1 if the head can't."""
        spans = self._spans()
        return spans[-1][0] if spans and spans[-1][1] == self.head else self.head + 1

    def first_readable(self) -> int:
        """The lowest revision that can be read (forks aside), whatever is lost above it; head + 1
        if none can."""
        spans = self._spans()
        return spans[0][0] if spans else self.head + 1

    def readable(self) -> str:
        """In words, which revisions can be read: `0-4, 7-9`."""
        end = min(self.forks(), default=self.head + 1)
        spans = [(first, min(last, end - 1)) for first, last in self._spans() if first < end]
        return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans) or "none"

    def _spans(self) -> list[tuple[int, int]]:
        """Runs of revisions whose state is known, ascending: first and last of each."""
        spans: list[tuple[int, int]] = []
        known = -1  # the newest revision whose state is known; that before the first one is
        for revision in sorted(self.transactions.keys() | self.checkpoints.keys()):
            if revision in self.checkpoints or known == revision - 1:
                if spans and spans[-1][1] == revision - 1:
                    spans[-1] = (spans[-1][0], revision)
                else:
                    spans.append((revision, revision))
                known = revision
        return spans


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What to read for one revision.

    Attributes:
        target: The revision.
        bases: Checkpoints that can serve, newest first; None stands for the empty state before
            revision 0.
        tail: Transactions from the one after the oldest base up to the target, ascending.
    """

    target: int
    bases: tuple[LogObject | None, ...]
    tail: tuple[LogObject, ...]

    def tail_after(self, base: LogObject | None) -> tuple[LogObject, ...]:
        """The transactions to apply to a base."""
        first = -1 if base is None else base.revision
        return tuple(item for item in self.tail if item.revision > first)


def read_listing(writer: str, database: str, names: Iterable[str]) -> Listing:
    """Sort names (of objects in `transactions/`, without the folder) into a listing."""
    listing = Listing(writer, database)
    for name in names:
        item = parse_log_object(name)
        if item is None:
            listing.unknown.append(name)
        elif item.kind == "transaction":
            listing.transactions.setdefault(item.revision, []).append(item)
        elif item.kind == "checkpoint":
            listing.checkpoints.setdefault(item.revision, []).append(item)
        else:
            listing.segments.append(item)
    return listing


def plan_read(listing: Listing, target: int | None = None) -> ReadPlan:
    """Decide from which checkpoint and which transactions a revision is read.

    Args:
        target: The revision; None for the head. The listing must not be empty then.
    Raises:
        ForkError: Objects with two uuids stand on a revision up to the target.
        RevisionNotFound: The log ends before the target.
        SnapshotPruned: The target lies before what prune has left.
        MissingTransaction: A transaction in the middle is not there (list once more before
            believing it).
    """
    goal = listing.head if target is None else target
    where = f"{listing.writer}/{listing.database}"
    if goal > listing.head or goal < 0:
        raise RevisionNotFound(
            f"{where} has no revision {goal}",
            key=where,
            hint=f"Its newest revision is {listing.head}",
        )
    for revision in listing.forks():
        if revision <= goal:
            raise fork_error(listing, revision)
    start = listing.run_start(goal)
    usable = [c for c in listing.checkpoints if start - 1 <= c <= goal]
    bases: list[LogObject | None] = [
        item for c in sorted(usable, reverse=True) for item in sorted(listing.checkpoints[c])
    ]
    if start == 0:
        bases.append(None)
    if not bases:
        raise _unreadable(listing, goal, start - 1)
    oldest = -1 if bases[-1] is None else bases[-1].revision
    tail = tuple(listing.transactions[r][0] for r in range(oldest + 1, goal + 1))
    return ReadPlan(goal, tuple(bases), tail)


def fork_error(listing: Listing, revision: int) -> ForkError:
    """The error that names the rival objects of a revision."""
    rivals = {item.uuid8: item for item in reversed(listing.names_at(revision))}
    keys = tuple(listing.key(item) for item in sorted(rivals.values()))
    return ForkError(
        f"Two commits stand on revision {revision} of {listing.writer}/{listing.database}: "
        f"{' and '.join(keys)}",
        keys=keys,
        hint="Two processes used one writer id on a store without put-if-absent. Stop one; "
        f"revisions before {revision} can still be read; `lakelog doctor` tells more",
    )


def _unreadable(listing: Listing, goal: int, missing: int) -> SnapshotPruned | MissingTransaction:
    where = f"{listing.writer}/{listing.database}"
    below = [
        *(r for r in listing.transactions if r < missing),
        *(c for c in listing.checkpoints if c < missing),
    ]
    oldest = listing.oldest_readable()
    if not below and goal < oldest <= listing.head:
        return SnapshotPruned(
            f"Revision {goal} of {where} was pruned",
            key=where,
            hint=f"The oldest revision that can be read is {oldest}",
        )
    readable = listing.readable()
    return MissingTransaction(
        f"Transaction {missing} of {where} is missing, so revision {goal} can't be read",
        key=f"{listing.folder}{missing:020d}",
        readable=readable,
        hint=f"Readable revisions: {readable}. {REPAIR}",
    )
