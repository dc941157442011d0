"""From files to transactions, and what their footers prove about one another. What is said here of
footers holds for objects of row deletes and of actions as well. Pure.

A footer is written before its own commit, so no file can prove that its transaction was committed.
Others can:

- A footer names the last transaction at the head that it was begun on: that one was committed.
- So was what a delete of several logs' files names, up to which it holds of this log.
- A footer names the paths that it replaces: those were live, so theirs were committed too. So were
  those of files whose rows are deleted by number, and that are added again.

Revision numbers are compared within one incarnation only: a log that was rebuilt has counted anew,
and under a higher epoch.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .scanned import OwnFile, OwnObject
from .values import LeftOut

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from ..catalog.wire import lakelog_transaction_pb2 as wire
    from .scanned import Writing
    from .values import FileName

TransactionId = bytes
_Life = tuple[bytes, int]  # a log id and an incarnation


@dataclass(slots=True)
class FoundTransaction:
    """All that was written for one transaction id.

    Attributes:
        transaction_id: The id.
        files: Its data files, by number.
        said: Its objects of row deletes and of actions, by number.
        log_id, incarnation, epoch, base_revision, base_transaction_id, app_id, app_version,
            base_app_version, operation: As all footers say; the operation of the last one.
        head_revision: The newest revision that is known to have stood before its own.
        clock: The last clock of all.
        replaces: Tables and paths of other transactions' files that it takes out.
        unnamed: How many removals are named only by files of it that are lost.
        actions: What its objects say, in order.
        lost_objects: How many of its objects of actions are lost.
        touches: Tables and paths of other transactions' files that it deletes rows of by number, or
            makes live again.
    """

    transaction_id: TransactionId
    files: list[OwnFile]
    said: list[OwnObject]
    log_id: bytes
    incarnation: int
    epoch: int
    base_revision: int
    base_transaction_id: TransactionId
    app_id: str
    app_version: int
    base_app_version: int
    operation: str
    head_revision: int
    clock: int
    replaces: frozenset[FileName]
    unnamed: int
    actions: tuple[wire.Action, ...]
    lost_objects: int
    touches: frozenset[FileName]

    @property
    def written(self) -> list[Writing]:
        """All that tells of it."""
        return [*self.files, *self.said]

    @property
    def stored_us(self) -> int:
        """When the store got the last of what was written; 0 if nothing tells."""
        return max((one.modified_at_us or 0 for one in self.written), default=0)

    @property
    def age(self) -> tuple[int, int, int, TransactionId]:
        """Sorts transactions by when they were begun."""
        return self.epoch, self.base_revision, self.clock, self.transaction_id


class Gap(NamedTuple):
    """Revisions that a log has lost, the first and the last."""

    first: int
    last: int


@dataclass(slots=True)
class Evidence:
    """What footers prove, and what is left of the old log.

    Attributes:
        proofs: By transaction id, why it was committed.
        counted: By transaction id, its number in the life of the log that it was begun in, as
            footers of that life count.
        revisions: By transaction id, its number in the old log, where anything tells.
        members: By transaction id, its place among those of its revision, where the old log tells.
        at_most: By transaction id, a revision that it was not above: a later one, whose number is
            known, took out its files, or deleted rows of them.
        times_us: By transaction id, when it was committed, where the old log tells.
        before_us: By transaction id, a time before which it was committed.
        gaps: By id of a transaction of an earlier life the first and the last of the lost revisions
            of the log in use that it can have been.
        disproofs: By transaction id, why it can't have been committed.
        undecided: By transaction id, why it is left out though it may have been committed.
        rivals: By the id of a transaction that is left out for another one, or stands beside it
            though at most one of them was committed: the other's, and why not both.
        contradictions: What doesn't fit together, in words.
        forgotten: Transactions whose application version the old log has forgotten: it rules no
            other out.
        incarnation: The highest that anything tells of.
        splits: By log id and incarnation, the lowest revision that two transactions are said to be:
            the log lost its end there, and went on otherwise. Above it there are two histories.
    """

    proofs: dict[TransactionId, str] = field(default_factory=dict)
    counted: dict[TransactionId, int] = field(default_factory=dict)
    revisions: dict[TransactionId, int] = field(default_factory=dict)
    members: dict[TransactionId, int] = field(default_factory=dict)
    at_most: dict[TransactionId, int] = field(default_factory=dict)
    times_us: dict[TransactionId, int] = field(default_factory=dict)
    before_us: dict[TransactionId, int] = field(default_factory=dict)
    gaps: dict[TransactionId, Gap] = field(default_factory=dict)
    disproofs: dict[TransactionId, str] = field(default_factory=dict)
    undecided: dict[TransactionId, str] = field(default_factory=dict)
    rivals: dict[TransactionId, tuple[TransactionId, str]] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    forgotten: set[TransactionId] = field(default_factory=set)
    splits: dict[tuple[bytes, int], int] = field(default_factory=dict)
    incarnation: int = 0

    def is_out(self, transaction_id: TransactionId) -> bool:
        """Whether a transaction is left out, for certain or not."""
        return transaction_id in self.disproofs or transaction_id in self.undecided

    def disprove(self, item: FoundTransaction, why: str) -> None:
        """Leave out a transaction that can't have been committed. A rebuild that knew less may have
        kept it all the same, and then it is as good as committed: so it is undecided if there was
        one since."""
        if item.incarnation < self.incarnation:
            self.undecided[item.transaction_id] = f"{why}; but a rebuild since may have kept it"
        else:
            self.disproofs[item.transaction_id] = why

    def number(self, item: FoundTransaction) -> int | None:
        """That of a transaction in its own life; None if nothing tells, or if that had two
        histories then: their numbers don't compare."""
        number = self.counted.get(item.transaction_id)
        split = self.splits.get((item.log_id, item.incarnation))
        return None if number is None or (split is not None and number >= split) else number

    def split_at(self, log_id: bytes, incarnation: int, revision: int) -> None:
        """Note that two transactions are said to be one revision."""
        known = self.splits.setdefault((log_id, incarnation), revision)
        self.splits[log_id, incarnation] = min(known, revision)

    def is_split(self, item: FoundTransaction) -> bool:
        """Whether a transaction may belong to another history than its rivals. Where a footer shows
        that there were two, it shows one revision: they may have parted long before."""
        return (item.log_id, item.incarnation) in self.splits


def group(
    files: Iterable[Writing], told: Collection[FileName] = ()
) -> tuple[dict[TransactionId, FoundTransaction], list[LeftOut]]:
    """Files by transaction. Those that disagree with one that the old log tells, or else with the
    first of theirs, are undecided: both copies of a doubled process may have written some.

    Args:
        told: Tables and paths that the old log names.
    """
    by_id: dict[TransactionId, list[Writing]] = defaultdict(list)
    for file in files:
        by_id[file.transaction_id].append(file)
    found: dict[TransactionId, FoundTransaction] = {}
    left_out: list[LeftOut] = []
    for transaction_id, members in by_id.items():
        members.sort(key=lambda file: (file.number, file.path))
        first = next((one for one in members if (one.table, one.path) in told), members[0])
        claims = _claims(first)
        kept = []
        for file in members:
            if _claims(file) == claims:
                kept.append(file)
            else:
                reason = f"its footer contradicts that of {first.path}, of one transaction"
                left_out.append(
                    LeftOut(file.path, file.size_bytes, "undecided", reason, transaction_id.hex())
                )
        found[transaction_id] = _transaction(transaction_id, kept)
    return found, left_out


def _claims(file: Writing) -> tuple[object, ...]:
    return (
        file.log_id, file.incarnation, file.epoch, file.base_revision, file.base_transaction_id,
        file.app_id, file.app_version, file.base_app_version,
    )  # fmt: skip


def _transaction(transaction_id: TransactionId, written: list[Writing]) -> FoundTransaction:
    files = [item for item in written if isinstance(item, OwnFile)]
    said = [item for item in written if isinstance(item, OwnObject)]
    own = {(file.table, file.path) for file in files}
    last = written[-1]
    named = sum(len(file.replaces) for file in files)
    actions = tuple(action for item in said for action in item.actions)
    removed = {(found.table, found.path) for found in of_kind(actions, "remove")}
    replaces = removed.union(*(file.replaces for file in files))
    touches = {(found.table, found.path) for found in of_kind(actions, "row_deletes", "add")}
    return FoundTransaction(
        transaction_id=transaction_id,
        files=files,
        said=said,
        log_id=last.log_id,
        incarnation=last.incarnation,
        epoch=last.epoch,
        base_revision=last.base_revision,
        base_transaction_id=last.base_transaction_id,
        app_id=last.app_id,
        app_version=last.app_version,
        base_app_version=last.base_app_version,
        operation=last.operation,
        head_revision=max(last.base_revision, *(item.head[0] for item in said), -1),
        clock=max(item.last_clock for item in written),
        replaces=frozenset(replaces - own),
        unnamed=max(0, max((file.replaced for file in files), default=0) - named),
        actions=actions,
        lost_objects=_lost_objects(said),
        touches=frozenset(touches - own),
    )


def _lost_objects(said: list[OwnObject]) -> int:
    """How many objects of actions are not there that others say there were."""
    found = [item.objects for item in said if item.objects]
    return max(0, max(found, default=0) - len(found))


def of_kind(actions: Iterable[wire.Action], *kinds: str) -> Iterator[Any]:
    """What actions of some kinds say."""
    for action in actions:
        kind = action.WhichOneof("kind")
        if kind in kinds:
            yield getattr(action, str(kind))


def prove(transactions: Mapping[TransactionId, FoundTransaction]) -> Evidence:
    """What the footers of all transactions prove. Nothing is ruled out yet (`rivals`)."""
    evidence = Evidence()
    _find_splits(transactions, evidence)
    counted = _prove_by_bases(transactions, evidence)
    evidence.counted = {one: min(numbers) for one, numbers in counted.items()}
    _find_falls(transactions, counted, evidence)
    _prove_by_replaced(transactions, evidence)
    return evidence


def _find_splits(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> None:
    """Where footers of one incarnation call two transactions one revision."""
    said: dict[tuple[bytes, int, int], TransactionId] = {}
    for item in transactions.values():
        bases = {(item.base_revision, item.base_transaction_id)}
        for revision, base in bases.union(one.head for one in item.said if one.objects):
            where = (item.log_id, item.incarnation, revision)
            if said.setdefault(where, base) != base:
                evidence.split_at(*where)


def _find_falls(
    transactions: Mapping[TransactionId, FoundTransaction],
    revisions: Mapping[TransactionId, Collection[int]],
    evidence: Evidence,
) -> None:
    """Where a revision has a higher epoch than a later one of its incarnation. Along a log epochs
    never fall: so one of the two was lost when the other was committed."""
    known: dict[tuple[bytes, int], list[tuple[int, int]]] = defaultdict(list)
    for transaction_id, numbers in revisions.items():
        item = transactions[transaction_id]
        known[item.log_id, item.incarnation] += ((number, item.epoch) for number in numbers)
    for where, places in known.items():
        least = max(epoch for _, epoch in places)  # of the later ones
        for revision, epoch in sorted(places, reverse=True):
            if epoch > least:
                evidence.split_at(*where, revision)
            least = min(least, epoch)


def _prove_by_bases(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> dict[TransactionId, set[int]]:
    """Returns what footers of their own incarnation call the revisions of transactions."""
    near: dict[TransactionId, set[int]] = defaultdict(set)  # of the same incarnation: one count
    far: dict[TransactionId, set[int]] = defaultdict(set)
    for claimant in transactions.values():
        path = claimant.written[0].path
        for named in _named(claimant):
            known = transactions.get(named.transaction_id)
            if known is None or known.log_id != (named.must_be_of or known.log_id):
                continue
            said = near if (known.log_id, known.incarnation) == named.life else far
            said[known.transaction_id].add(named.revision)
            why = f"the footer of {path} {named.does} it"
            evidence.proofs.setdefault(known.transaction_id, why)
    for transaction_id in evidence.proofs:
        numbers = near.get(transaction_id) or {
            number
            for number in far[transaction_id]
            if number > transactions[transaction_id].base_revision
        }
        if len(near.get(transaction_id, ())) > 1:
            listed = ", ".join(map(str, sorted(numbers)))
            evidence.contradictions.append(
                f"Footers call transaction {transaction_id.hex()} revision {listed}"
            )
        if numbers:
            evidence.revisions[transaction_id] = min(numbers)
    return near


class _Named(NamedTuple):
    """A transaction that another one says was committed.

    Attributes:
        life, revision: Where it stood, as that one counts.
        transaction_id: Its own.
        does: What that one did with it, in words.
        must_be_of: The log that it must be of; None for a base, which may have been written before
            there was one.
    """

    life: _Life
    revision: int
    transaction_id: TransactionId
    does: str
    must_be_of: bytes | None = None


def _named(item: FoundTransaction) -> Iterator[_Named]:
    """What a transaction was begun on, what stood when it was written, and up to what its deletes
    of several logs' files hold."""
    own = (item.log_id, item.incarnation)
    bases = {(item.base_revision, item.base_transaction_id)}
    for revision, base in bases.union(one.head for one in item.said):
        yield _Named(own, revision, base, "was written on top of")
    for tombstone in of_kind(item.actions, "tombstone"):
        for at in tombstone.logs:
            life, does = (at.log_id, at.incarnation), "tells of a delete up to"
            yield _Named(life, at.revision, at.transaction_id, does, at.log_id)


def _prove_by_replaced(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> None:
    owners = {
        (file.table, file.path): item.transaction_id
        for item in transactions.values()
        for file in item.files
    }
    for item in transactions.values():
        path = item.written[0].path
        for names, does in ((item.replaces, "replaces"), (item.touches, "deletes rows of")):
            for owner in filter(None, map(owners.get, names)):
                evidence.proofs.setdefault(owner, f"the footer of {path} {does} its files")
