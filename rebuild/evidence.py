"""From files to transactions, and what their footers prove about one another. Pure.

A footer is written before its own commit, so no file can prove that its transaction was committed.
Others can:

- A footer names the last transaction at the head that it was begun on: that one was committed.
- A footer names the paths that it replaces: those were live, so theirs were committed too.

And a transaction that no footer proves can be ruled out, where a proven one leaves it no place:

- A proven one replaces the same file (a file is removed once).
- A proven one carries the same version of the same application (the second would be skipped).
- A proven one of a higher epoch stands directly on the same base: from there on the epoch of the
  ruled-out one is too low.

Where two unproven ones exclude each other the later one is kept: it was begun on a head that did
not have the earlier one. Revision numbers are compared within one epoch only: a log that was
rebuilt before has counted anew, and under a higher epoch.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .plan import LeftOut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .scan import OwnFile

Mark = bytes


@dataclass(slots=True)
class Transaction:
    """The files of one transaction id.

    Attributes:
        mark: The id.
        files: By number.
        epoch, base_revision, base_mark, app_id, app_version, operation: As all footers say; the
            operation of the last one.
        clock: The last clock of the last file.
        replaces: Paths of other transactions that it takes out.
    """

    mark: Mark
    files: list[OwnFile]
    epoch: int
    base_revision: int
    base_mark: Mark
    app_id: str
    app_version: int
    operation: str
    clock: int
    replaces: frozenset[str]

    @property
    def age(self) -> tuple[int, int, int, Mark]:
        """Sorts transactions by when they were begun."""
        return self.epoch, self.base_revision, self.clock, self.mark


@dataclass(slots=True)
class Evidence:
    """What footers prove.

    Attributes:
        proofs: By transaction id, why it was committed.
        revisions: By transaction id, its number in the lost log, where a footer tells.
        disproofs: By transaction id, why it can't have been committed.
        conflicts: By transaction id, which other unproven one excludes it.
        contradictions: What doesn't fit together, in words.
    """

    proofs: dict[Mark, str] = field(default_factory=dict)
    revisions: dict[Mark, int] = field(default_factory=dict)
    disproofs: dict[Mark, str] = field(default_factory=dict)
    conflicts: dict[Mark, str] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)

    def is_out(self, mark: Mark) -> bool:
        """Whether a transaction is ruled out, for certain or in favour of a likelier one."""
        return mark in self.disproofs or mark in self.conflicts


def group(files: Iterable[OwnFile]) -> tuple[dict[Mark, Transaction], list[LeftOut]]:
    """Files by transaction; those that disagree with the first of theirs are quarantined."""
    by_mark: dict[Mark, list[OwnFile]] = defaultdict(list)
    for file in files:
        by_mark[file.transaction_id].append(file)
    found: dict[Mark, Transaction] = {}
    left_out: list[LeftOut] = []
    for mark, members in by_mark.items():
        members.sort(key=lambda file: (file.number, file.path))
        claims = _claims(members[0])
        kept = []
        for file in members:
            if _claims(file) == claims:
                kept.append(file)
            else:
                reason = f"its footer contradicts that of {members[0].path}, of one transaction"
                left_out.append(
                    LeftOut(file.path, file.size_bytes, "quarantined", reason, mark.hex())
                )
        found[mark] = _transaction(mark, kept)
    return found, left_out


def _claims(file: OwnFile) -> tuple[object, ...]:
    return (
        file.epoch, file.base_revision, file.base_transaction_id, file.app_id, file.app_version
    )  # fmt: skip


def _transaction(mark: Mark, files: list[OwnFile]) -> Transaction:
    own = {file.path for file in files}
    last = files[-1]
    return Transaction(
        mark=mark,
        files=files,
        epoch=last.epoch,
        base_revision=last.base_revision,
        base_mark=last.base_transaction_id,
        app_id=last.app_id,
        app_version=last.app_version,
        operation=last.operation,
        clock=max(file.last_clock for file in files),
        replaces=frozenset(path for file in files for path in file.replaces) - own,
    )


def prove(transactions: Mapping[Mark, Transaction]) -> Evidence:
    """What the footers of all transactions prove. Nothing is ruled out yet."""
    evidence = Evidence()
    _prove_by_bases(transactions, evidence)
    _prove_by_replaced(transactions, evidence)
    return evidence


def rule_out(transactions: Mapping[Mark, Transaction], evidence: Evidence) -> None:
    """Fill in which transactions can't have been committed, given the proven ones, and which of
    the others exclude each other.

    Args:
        transactions: Without those that are left out on request.
        evidence: Of all transactions, as `prove` gave it.
    """
    _rule_out_by_epoch(transactions, evidence)
    _rule_out_by_replaced(transactions, evidence)
    _rule_out_by_application(transactions, evidence)


def _prove_by_bases(transactions: Mapping[Mark, Transaction], evidence: Evidence) -> None:
    near: dict[Mark, set[int]] = defaultdict(set)  # said under the same epoch: one count
    far: dict[Mark, set[int]] = defaultdict(set)
    for claimant in transactions.values():
        known = transactions.get(claimant.base_mark)
        if known is None:
            continue
        said = near if known.epoch == claimant.epoch else far
        said[known.mark].add(claimant.base_revision)
        evidence.proofs.setdefault(
            known.mark, f"the footer of {claimant.files[0].path} was written on top of it"
        )
    for mark in evidence.proofs:
        numbers = near.get(mark) or {
            number for number in far[mark] if number > transactions[mark].base_revision
        }
        if len(near.get(mark, ())) > 1:
            listed = ", ".join(map(str, sorted(numbers)))
            evidence.contradictions.append(
                f"Footers call transaction {mark.hex()} revision {listed}"
            )
        if numbers:
            evidence.revisions[mark] = min(numbers)


def _prove_by_replaced(transactions: Mapping[Mark, Transaction], evidence: Evidence) -> None:
    owners = {file.path: item.mark for item in transactions.values() for file in item.files}
    for item in transactions.values():
        for path in item.replaces:
            owner = owners.get(path)
            if owner is not None:
                evidence.proofs.setdefault(
                    owner, f"the footer of {item.files[0].path} replaces its files"
                )


def _rule_out_by_epoch(transactions: Mapping[Mark, Transaction], evidence: Evidence) -> None:
    next_of: dict[tuple[Mark, int], Transaction] = {}
    confirmed = {
        (claimant.base_mark, claimant.epoch, claimant.base_revision)
        for claimant in transactions.values()
    }
    for item in transactions.values():
        if (item.mark, item.epoch, item.base_revision + 1) in confirmed:
            base = (item.base_mark, item.base_revision)
            known = next_of.get(base)
            if known is None or item.epoch > known.epoch:
                next_of[base] = item
    for item in transactions.values():
        winner = next_of.get((item.base_mark, item.base_revision))
        if winner is not None and winner.epoch > item.epoch and item.mark not in evidence.proofs:
            evidence.disproofs[item.mark] = (
                f"transaction {winner.mark.hex()} of a later owner was committed directly on the "
                f"same base, so one of epoch {item.epoch} can't have been"
            )


def _rule_out_by_replaced(transactions: Mapping[Mark, Transaction], evidence: Evidence) -> None:
    by_path: dict[str, list[Transaction]] = defaultdict(list)
    for item in transactions.values():
        for path in item.replaces:
            by_path[path].append(item)
    for path in sorted(by_path):
        _keep_one(by_path[path], f"both replace {path}", evidence)


def _rule_out_by_application(transactions: Mapping[Mark, Transaction], evidence: Evidence) -> None:
    by_version: dict[tuple[str, int], list[Transaction]] = defaultdict(list)
    for item in transactions.values():
        if item.app_id:
            by_version[item.app_id, item.app_version].append(item)
    for (app, version), items in sorted(by_version.items()):
        _keep_one(items, f"both are version {version} of application {app!r}", evidence)


def _keep_one(items: list[Transaction], why: str, evidence: Evidence) -> None:
    """Of transactions that exclude each other: the proven ones, else the one begun last."""
    rivals = [item for item in items if not evidence.is_out(item.mark)]
    if len(rivals) < 2:
        return
    proven = [item for item in rivals if item.mark in evidence.proofs]
    if len(proven) > 1:
        named = ", ".join(sorted(item.mark.hex() for item in proven))
        evidence.contradictions.append(f"Of transactions {named} {why}, and all are proven")
    winner = max(proven or rivals, key=lambda item: item.age)
    verdicts = evidence.disproofs if proven else evidence.conflicts
    which = "which was committed" if proven else "which was begun later, without this one"
    for item in rivals:
        if item is not winner and item.mark not in evidence.proofs:
            verdicts[item.mark] = f"{why}, this one and {winner.mark.hex()}, {which}"
