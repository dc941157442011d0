"""From the names in `transactions/`, newest first, to what must be read for one revision. Pure.

A listing is taken in only as far down as is needed: the newest checkpoint is among the first names,
however long the log is.

Source: docs/format.md, section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...errors import ForkError, MissingTransaction, RevisionNotFound, SnapshotPruned
from ..format.names import REPLICA_MARK, LogObject, log_folder, name_prefix, parse_log_object

if TYPE_CHECKING:
    from collections.abc import Iterable


REPAIR: Final = (
    "Restore the object from a copy, or rebuild the log: from the data files and what can be read "
    "of the log, so what can no longer be read of removals can come back; its plan shows that first"
)


@dataclass(slots=True)
class Listing:
    """The names of one log, of the incarnation that counts, from some revision downwards.

    Attributes:
        writer, database: Whose log.
        incarnation: The highest of any name; 0 while none was seen.
        transactions: Names by revision; more than one name on a revision is a fork.
        checkpoints: Names by revision.
        others: Names of other incarnations, as far as they were met.
        unknown: Names that aren't ours.
        lowest: The lowest revision down to which no name is missing; 0 once all were seen.
        head: The highest revision of any transaction or checkpoint; -1 if there is none.
    """

    writer: str
    database: str
    incarnation: int = 0
    transactions: dict[int, list[LogObject]] = field(default_factory=dict)
    checkpoints: dict[int, list[LogObject]] = field(default_factory=dict)
    others: list[LogObject] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    lowest: int = 1 << 62
    head: int = -1
    _run: tuple[int, int] = (-1, 0)  # a target, and its run's start as far as it was followed

    # --- Taking names in --------------------------------------------------------------------------

    def take(self, name: str) -> None:
        """Take in the next name; they come in the order of a listing."""
        item = parse_log_object(name)
        if item is None:
            self.unknown.append(name)
            return
        self.incarnation = self.incarnation or item.incarnation  # the first name is the newest
        if item.incarnation == self.incarnation:
            self._add(item)
        else:
            self.others.append(item)
            self.lowest = 0

    def _add(self, item: LogObject) -> None:
        names = self.transactions if item.kind == "transaction" else self.checkpoints
        names.setdefault(item.revision, []).append(item)
        self.head = max(self.head, item.revision)
        self.lowest = min(self.lowest, item.revision + 1)  # another name may stand on it

    def end(self) -> None:
        """There are no more names."""
        self.lowest = 0

    def lower(self) -> list[int]:
        """Returns the incarnations below this one of which names were met, the highest first."""
        found = {item.incarnation for item in self.others if item.incarnation < self.incarnation}
        return sorted(found, reverse=True)

    def is_complete_for(self, target: int | None) -> bool:
        """Whether a base for a revision (None: the head), and all above it, were taken in."""
        if self.lowest == 0:
            return True
        if not self.incarnation:
            return False
        goal = self.head if target is None else target
        if self._run[0] != goal:
            self._run = goal, goal + 1
        start = self._run[1]
        while start - 1 in self.transactions:
            start -= 1
        self._run = goal, start  # asked after each name, and the run grows by one: not from the top
        return any(self.lowest <= base <= goal and base >= start - 1 for base in self.checkpoints)

    # --- What it shows ----------------------------------------------------------------------------

    @property
    def folder(self) -> str:
        """Key prefix of the names."""
        return log_folder(self.writer, self.database)

    def key(self, item: LogObject) -> str:
        """The key of a name."""
        return self.folder + item.name

    @property
    def is_replica(self) -> bool:
        """Whether the log is marked as written by replication alone."""
        return REPLICA_MARK in self.unknown

    def names_at(self, revision: int) -> list[LogObject]:
        """Transactions and checkpoints of a revision, sorted."""
        found = [*self.transactions.get(revision, ()), *self.checkpoints.get(revision, ())]
        return sorted(found)

    def forks(self, first: int = 0) -> list[int]:
        """Revisions from `first` upwards whose transactions and checkpoints don't all have one
        uuid, ascending."""
        many = {r for r, names in self.transactions.items() if r >= first and len(names) > 1}
        for revision in self.checkpoints:
            if revision >= first and len({i.uuid8 for i in self.names_at(revision)}) > 1:
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
        spans = self._spans(frozenset(self.forks()))
        return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans) or "none"

    def _spans(self, without: frozenset[int] = frozenset()) -> list[tuple[int, int]]:
        """Runs of revisions whose state is known, ascending: first and last of each. None goes
        through the revisions `without`."""
        spans: list[tuple[int, int]] = []
        known = -1  # the newest revision whose state is known; that before the first one is
        for revision in sorted(self.transactions.keys() | self.checkpoints.keys()):
            if revision in without:
                continue
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
        fork: A revision on which two commits stand, on the way up from all lower bases; -1: none.
    """

    target: int
    bases: tuple[LogObject | None, ...]
    tail: tuple[LogObject, ...]
    fork: int = -1

    def tail_after(self, base: LogObject | None) -> tuple[LogObject, ...]:
        """The transactions to apply to a base."""
        first = -1 if base is None else base.revision
        return tuple(item for item in self.tail if item.revision > first)


def read_listing(writer: str, database: str, names: Iterable[str]) -> Listing:
    """A listing of all names (of objects in `transactions/`, without the folder), in order."""
    listing = Listing(writer, database)
    for name in names:
        listing.take(name)
    listing.end()
    return listing


def plan_read(listing: Listing, target: int | None = None) -> ReadPlan:
    """Decide from which checkpoint and which transactions a revision is read.

    Args:
        target: The revision; None for the head. The listing must not be empty then.
    Raises:
        ForkError: Objects with two uuids stand on a revision that must be read.
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
    start = listing.run_start(goal)
    # Below `lowest` a revision may have more names than were listed, and so a fork unseen.
    least = max(start - 1, listing.lowest)
    usable = sorted((c for c in listing.checkpoints if least <= c <= goal), reverse=True)
    bases: list[LogObject | None] = [
        item for c in usable for item in sorted(listing.checkpoints[c])
    ]
    if start == 0 and listing.lowest == 0:
        bases.append(None)
    if not bases:
        raise _unreadable(listing, goal, start - 1)
    forks = [revision for revision in listing.forks() if revision <= goal]
    if forks and forks[-1] >= _revision(bases[0]):
        raise fork_error(listing, next(r for r in forks if r >= _revision(bases[0])))
    fork = forks[-1] if forks else -1
    sound = [base for base in bases if _revision(base) > fork or not forks]
    oldest = _revision(sound[-1])
    fork = fork if len(sound) < len(bases) else -1
    tail = tuple(listing.transactions[r][0] for r in range(oldest + 1, goal + 1))
    return ReadPlan(goal, tuple(sound), tail, fork)


def _revision(base: LogObject | None) -> int:
    return -1 if base is None else base.revision


def fork_error(listing: Listing, revision: int) -> ForkError:
    """The error that names the rival objects of a revision."""
    rivals = {item.uuid8: item for item in reversed(listing.names_at(revision))}
    keys = tuple(listing.key(item) for item in sorted(rivals.values()))
    return ForkError(
        f"Two commits stand on revision {revision} of {listing.writer}/{listing.database}: "
        f"{' and '.join(keys)}",
        keys=keys,
        hint="Two processes used one writer id on a store without put-if-absent: stop one. Or a "
        "`lakelog rebuild` was interrupted: run it again. Revisions before "
        f"{revision} can still be read; `lakelog check` names both objects",
    )


def _unreadable(listing: Listing, goal: int, missing: int) -> SnapshotPruned | MissingTransaction:
    where = f"{listing.writer}/{listing.database}"
    if 0 not in listing.transactions and goal < min(listing.checkpoints, default=-1):
        oldest = listing.first_readable()
        return SnapshotPruned(
            f"Revision {goal} of {where} was pruned",
            key=where,
            hint=f"The oldest revision that is left is {oldest}",
        )
    readable = listing.readable()
    return MissingTransaction(
        f"Transaction {missing} of {where} is missing, so revision {goal} can't be read",
        key=listing.folder + name_prefix(listing.incarnation, missing),
        readable=readable,
        hint=f"Readable revisions: {readable}. {REPAIR}",
    )
