"""From files to transactions, and what their footers prove about one another. Pure.

A footer is written before its own commit, so no file can prove that its transaction was committed.
Others can:

- A footer names the last transaction at the head that it was begun on: that one was committed.
- A footer names the paths that it replaces: those were live, so theirs were committed too.

And a transaction that no footer proves can be ruled out, where a proven one leaves it no place:

- A proven one replaces the same file (a file is removed once).
- A proven one carries the same version of the same application (the second would be skipped), and
  the application was not forgotten between them.
- Its version was taken when it was begun, as it says itself (`replays.py`).
- A proven one of a higher epoch stands directly on the same base: from there on the epoch of the
  ruled-out one is too low.

Where two unproven ones exclude each other the later one is kept: it was begun on a head that did
not have the earlier one. Revision numbers are compared within one incarnation only: a log that was
rebuilt has counted anew, and under a higher epoch.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .values import LeftOut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .scanned import OwnFile
    from .values import FileName

TransactionId = bytes


@dataclass(slots=True)
class FoundTransaction:
    """The files of one transaction id.

    Attributes:
        transaction_id: The id.
        files: By number.
        log_id, incarnation, epoch, base_revision, base_transaction_id, app_id, app_version,
            base_app_version, operation: As all footers say; the operation of the last one.
        clock: The last clock of the last file.
        replaces: Tables and paths of other transactions' files that it takes out.
        unnamed: How many removals are named only by files of it that are lost.
    """

    transaction_id: TransactionId
    files: list[OwnFile]
    log_id: bytes
    incarnation: int
    epoch: int
    base_revision: int
    base_transaction_id: TransactionId
    app_id: str
    app_version: int
    base_app_version: int
    operation: str
    clock: int
    replaces: frozenset[FileName]
    unnamed: int

    @property
    def age(self) -> tuple[int, int, int, TransactionId]:
        """Sorts transactions by when they were begun."""
        return self.epoch, self.base_revision, self.clock, self.transaction_id


@dataclass(slots=True)
class Evidence:
    """What footers prove, and what is left of the old log.

    Attributes:
        proofs: By transaction id, why it was committed.
        revisions: By transaction id, its number in the old log, where anything tells.
        times_us: By transaction id, when it was committed, where the old log tells.
        disproofs: By transaction id, why it can't have been committed.
        conflicts: By transaction id, which other unproven one excludes it.
        contradictions: What doesn't fit together, in words.
        forgotten: Transactions whose application version the old log has forgotten: it rules no
            other out.
    """

    proofs: dict[TransactionId, str] = field(default_factory=dict)
    revisions: dict[TransactionId, int] = field(default_factory=dict)
    times_us: dict[TransactionId, int] = field(default_factory=dict)
    disproofs: dict[TransactionId, str] = field(default_factory=dict)
    conflicts: dict[TransactionId, str] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    forgotten: set[TransactionId] = field(default_factory=set)

    def is_out(self, transaction_id: TransactionId) -> bool:
        """Whether a transaction is ruled out, for certain or in favour of a likelier one."""
        return transaction_id in self.disproofs or transaction_id in self.conflicts


def group(files: Iterable[OwnFile]) -> tuple[dict[TransactionId, FoundTransaction], list[LeftOut]]:
    """Files by transaction; those that disagree with the first of theirs are quarantined."""
    by_id: dict[TransactionId, list[OwnFile]] = defaultdict(list)
    for file in files:
        by_id[file.transaction_id].append(file)
    found: dict[TransactionId, FoundTransaction] = {}
    left_out: list[LeftOut] = []
    for transaction_id, members in by_id.items():
        members.sort(key=lambda file: (file.number, file.path))
        claims = _claims(members[0])
        kept = []
        for file in members:
            if _claims(file) == claims:
                kept.append(file)
            else:
                reason = f"its footer contradicts that of {members[0].path}, of one transaction"
                left_out.append(
                    LeftOut(file.path, file.size_bytes, "quarantined", reason, transaction_id.hex())
                )
        found[transaction_id] = _transaction(transaction_id, kept)
    return found, left_out


def _claims(file: OwnFile) -> tuple[object, ...]:
    return (
        file.log_id, file.incarnation, file.epoch, file.base_revision, file.base_transaction_id,
        file.app_id, file.app_version, file.base_app_version,
    )  # fmt: skip


def _transaction(transaction_id: TransactionId, files: list[OwnFile]) -> FoundTransaction:
    own = {(file.table, file.path) for file in files}
    last = files[-1]
    named = sum(len(file.replaces) for file in files)
    return FoundTransaction(
        transaction_id=transaction_id,
        files=files,
        log_id=last.log_id,
        incarnation=last.incarnation,
        epoch=last.epoch,
        base_revision=last.base_revision,
        base_transaction_id=last.base_transaction_id,
        app_id=last.app_id,
        app_version=last.app_version,
        base_app_version=last.base_app_version,
        operation=last.operation,
        clock=max(file.last_clock for file in files),
        replaces=frozenset(name for file in files for name in file.replaces) - own,
        unnamed=max(0, max(file.replaced for file in files) - named),
    )


def prove(transactions: Mapping[TransactionId, FoundTransaction]) -> Evidence:
    """What the footers of all transactions prove. Nothing is ruled out yet."""
    evidence = Evidence()
    _prove_by_bases(transactions, evidence)
    _prove_by_replaced(transactions, evidence)
    return evidence


def rule_out(transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence) -> None:
    """Fill in which transactions can't have been committed, given the proven ones, and which of
    the others exclude each other.

    Args:
        transactions: Without those that are left out on request.
        evidence: Of all transactions, as `prove` gave it.
    """
    _rule_out_by_epoch(transactions, evidence)
    _rule_out_by_replaced(transactions, evidence)
    _rule_out_by_application(transactions, evidence)


def _prove_by_bases(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> None:
    near: dict[TransactionId, set[int]] = defaultdict(set)  # of the same incarnation: one count
    far: dict[TransactionId, set[int]] = defaultdict(set)
    for claimant in transactions.values():
        known = transactions.get(claimant.base_transaction_id)
        if known is None:
            continue
        same = (known.log_id, known.incarnation) == (claimant.log_id, claimant.incarnation)
        said = near if same else far
        said[known.transaction_id].add(claimant.base_revision)
        evidence.proofs.setdefault(
            known.transaction_id, f"the footer of {claimant.files[0].path} was written on top of it"
        )
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


def _prove_by_replaced(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> None:
    owners = {
        (file.table, file.path): item.transaction_id
        for item in transactions.values()
        for file in item.files
    }
    for item in transactions.values():
        for name in item.replaces:
            owner = owners.get(name)
            if owner is not None:
                evidence.proofs.setdefault(
                    owner, f"the footer of {item.files[0].path} replaces its files"
                )


def _rule_out_by_epoch(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> None:
    next_of: dict[tuple[TransactionId, int], FoundTransaction] = {}
    confirmed = {
        (claimant.base_transaction_id, claimant.epoch, claimant.base_revision)
        for claimant in transactions.values()
    }
    for item in transactions.values():
        if (item.transaction_id, item.epoch, item.base_revision + 1) in confirmed:
            base = (item.base_transaction_id, item.base_revision)
            known = next_of.get(base)
            if known is None or item.epoch > known.epoch:
                next_of[base] = item
    for item in transactions.values():
        winner = next_of.get((item.base_transaction_id, item.base_revision))
        if (
            winner is not None
            and winner.epoch > item.epoch
            and item.transaction_id not in evidence.proofs
        ):
            evidence.disproofs[item.transaction_id] = (
                f"transaction {winner.transaction_id.hex()} of a later owner was committed "
                f"directly on the same base, so one of epoch {item.epoch} can't have been"
            )


def _rule_out_by_replaced(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> None:
    by_name: dict[FileName, list[FoundTransaction]] = defaultdict(list)
    for item in transactions.values():
        for name in item.replaces:
            by_name[name].append(item)
    for name in sorted(by_name):
        _keep_one(by_name[name], f"both replace {name[1]}", evidence)


def _rule_out_by_application(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> None:
    by_version: dict[tuple[str, int], list[FoundTransaction]] = defaultdict(list)
    for item in transactions.values():
        if item.app_id and item.transaction_id not in evidence.forgotten:
            by_version[item.app_id, item.app_version].append(item)
    for (app, version), items in sorted(by_version.items()):
        for rivals in _begun_anew(items, evidence):
            _keep_one(rivals, f"both are version {version} of application {app!r}", evidence)


def _begun_anew(
    items: list[FoundTransaction], evidence: Evidence
) -> Iterable[list[FoundTransaction]]:
    """Transactions of one version, apart where the application was forgotten between them: one that
    was begun on a head that held another one, and did not know the version, excludes only those
    begun after that one, too."""
    proven = [item for item in items if item.transaction_id in evidence.proofs]
    groups: dict[tuple[bytes, int, int], list[FoundTransaction]] = defaultdict(list)
    for item in items:
        below = [
            (other.log_id, other.incarnation, evidence.revisions.get(other.transaction_id, -1))
            for other in proven
            if item.base_app_version < item.app_version and _stood_below(other, item, evidence)
        ]
        groups[max(below, default=(b"", 0, -1))].append(item)
    return groups.values()


def _stood_below(other: FoundTransaction, item: FoundTransaction, evidence: Evidence) -> bool:
    """Whether a proven transaction stood in the log before another one was begun."""
    if other.log_id != item.log_id or other.incarnation != item.incarnation:
        return other.log_id == item.log_id and other.incarnation < item.incarnation
    revision = evidence.revisions.get(other.transaction_id)
    return revision is not None and revision <= item.base_revision


def _keep_one(items: list[FoundTransaction], why: str, evidence: Evidence) -> None:
    """Of transactions that exclude each other: the proven ones, else the one begun last."""
    rivals = [item for item in items if not evidence.is_out(item.transaction_id)]
    if len(rivals) < 2:
        return
    proven = [item for item in rivals if item.transaction_id in evidence.proofs]
    if len(proven) > 1:
        named = ", ".join(sorted(item.transaction_id.hex() for item in proven))
        evidence.contradictions.append(f"Of transactions {named} {why}, and all are proven")
    winner = max(proven or rivals, key=lambda item: item.age)
    verdicts = evidence.disproofs if proven else evidence.conflicts
    which = "which was committed" if proven else "which was begun later, without this one"
    for item in rivals:
        if item is not winner and item.transaction_id not in evidence.proofs:
            verdicts[item.transaction_id] = (
                f"{why}, this one and {winner.transaction_id.hex()}, {which}"
            )
