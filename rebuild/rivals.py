"""Which transactions can't have been committed, or not both of two. Pure.

Two transactions are rivals if both replace one file (a file is removed once), both carry one
version of one application (the second would be skipped), or both define the columns of a table in
the place of one definition (the second would be refused); unless one of them was begun on a head
that held the other: then the file was added again, or the application forgotten, in between.

- A rival of a proven one can't have been committed, if what both did can't have been done again: a
  file whose name carries an epoch is added in that epoch only, so one of an earlier epoch than both
  rivals was removed once. Otherwise it is undecided. Neither can one of a lower epoch than a proven
  one that stands directly on the same base, nor one of the same if both are of owners that took it.
  All that holds within the incarnation in use: an earlier one was rebuilt, and that may have kept
  what later evidence speaks against.
- Of attempts at one version that nothing proves the fullest stands, by rows, then by files, then
  the one begun last: a committed one is whole, and a dead one may have been cut short. The others
  are undecided, and left out: the rows of one batch must not count twice.
- Replacements of one file that nothing disproves all stand, for each may have rows that no other
  has: so no acknowledged row is lost. The plan names them.
- Where the log lost its end and went on otherwise (`Evidence.splits`) there are two histories, and
  none proves anything against what was begun in the other. The same holds where a proven rival was
  itself begun above another proven one: what it did again may have been done between the two; or
  if one was begun above a proven one that added the file again, which somebody had taken out.

Source: docs/format.md, section 8; docs/maintenance.md.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from ..catalog.format.locations import is_in_place
from ..catalog.format.names import parse_data_file
from .evidence import of_kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .evidence import Evidence, FoundTransaction, TransactionId

    _Rival = tuple["_Matter", FoundTransaction]

_REPLACE: Final = "replace"
_VERSION: Final = "version"
_DEFINE: Final = "define"
_Matter = tuple[str, str, Any]  # what only one can have done: with a table's file, an application


def rule_out(transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence) -> None:
    """Fill in which transactions can't have been committed, given the proven ones, and which of the
    others give way to which.

    Args:
        transactions: Without those that are left out on request.
        evidence: Of all transactions, as `prove` gave it.
    """
    _rule_out_by_epoch(transactions, evidence)
    _bound(transactions, evidence)
    standing: dict[_Matter, list[FoundTransaction]] = defaultdict(list)
    adders = _adders(transactions, evidence)
    for item in sorted(transactions.values(), key=lambda item: _strength(item, evidence)):
        if evidence.is_out(item.transaction_id):
            continue
        matters = _matters(item, evidence)
        rivals = [
            (matter, other)
            for matter in matters
            for other in standing[matter]
            if not _stood_below(other, item, evidence)
        ]
        if item.transaction_id in evidence.proofs:
            _note_contradictions(item, rivals, evidence)
        else:
            _weigh(item, rivals, standing, adders, evidence)
        if not evidence.is_out(item.transaction_id):
            for matter in matters:
                standing[matter].append(item)


def _strength(item: FoundTransaction, evidence: Evidence) -> tuple[object, ...]:
    """Sorts those that others give way to first."""
    rows = sum(file.row_count for file in item.files)
    epoch, base, clock, transaction_id = item.age
    proven = item.transaction_id in evidence.proofs
    return not proven, -rows, -len(item.files), -epoch, -base, -clock, transaction_id


def _matters(item: FoundTransaction, evidence: Evidence) -> list[_Matter]:
    found: list[_Matter] = [(_REPLACE, table, path) for table, path in sorted(item.replaces)]
    if item.app_id and item.transaction_id not in evidence.forgotten:
        found.append((_VERSION, item.app_id, item.app_version))
    found += [
        (_DEFINE, one.table, one.definition_before)
        for one in item.said
        if any(of_kind(one.actions, "definition"))
    ]
    return found


def _in_words(matter: _Matter) -> str:
    kind, whose, what = matter
    if kind == _REPLACE:
        return f"both replace {what}"
    if kind == _DEFINE:
        return f"both define the columns of table {whose!r} in the place of the same ones"
    return f"both are version {what} of application {whose!r}"


def _weigh(
    item: FoundTransaction,
    rivals: list[_Rival],
    standing: Mapping[_Matter, list[FoundTransaction]],
    adders: Mapping[_Matter, list[FoundTransaction]],
    evidence: Evidence,
) -> None:
    """What becomes of an unproven transaction with rivals that stand."""
    for matter, other in rivals:
        if other.transaction_id not in evidence.proofs:
            continue
        why = f"{_in_words(matter)}, this one and {other.transaction_id.hex()}, which was committed"
        split = evidence.is_split(item)
        again = any(
            _stood_below(third, other, evidence) for third in standing[matter]
        ) or _was_added_between(item, other, adders.get(matter, ()), evidence)
        sure = not again and not split and _was_above(other, item, evidence)
        if sure and _is_once(matter, item, other):
            evidence.disprove(item, why)
            return
        if matter[0] != _VERSION and not split and not again:
            what = "file may have been added" if matter[0] == _REPLACE else "columns may have been"
            evidence.undecided[item.transaction_id] = f"{why}; but the {what} again between the two"
            return
    for matter, other in sorted(rivals, key=lambda rival: rival[0][0] != _VERSION)[:1]:
        why = _in_words(matter)
        evidence.rivals[item.transaction_id] = other.transaction_id, why
        if matter[0] == _VERSION:
            which = "committed" if other.transaction_id in evidence.proofs else "as full or fuller"
            evidence.undecided[item.transaction_id] = (
                f"{why}, this one and {other.transaction_id.hex()}, which is {which}; nothing "
                "tells whether this one was committed"
            )


def _adders(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> dict[_Matter, list[FoundTransaction]]:
    """By the replacing of a file the proven transactions that add it again and don't take it out
    themselves: another one had."""
    found: dict[_Matter, list[FoundTransaction]] = defaultdict(list)
    for item in transactions.values():
        if item.transaction_id in evidence.proofs:
            for add in of_kind(item.actions, "add"):
                if (add.table, add.path) not in item.replaces:
                    found[_REPLACE, add.table, add.path].append(item)
    return found


def _was_added_between(
    item: FoundTransaction,
    other: FoundTransaction,
    adders: Iterable[FoundTransaction],
    evidence: Evidence,
) -> bool:
    """Whether a file that both replace was added again after one was begun and before the other
    one, whichever: the first took it out before that, or a third one did."""
    return any(
        _stood_below(adder, one, evidence) and not _stood_below(adder, two, evidence)
        for adder in adders
        for one, two in ((other, item), (item, other))
    )


def _is_once(matter: _Matter, item: FoundTransaction, other: FoundTransaction) -> bool:
    """Whether only one of two rivals can have been committed."""
    kind, _, path = matter
    if kind != _REPLACE:
        return kind == _VERSION
    name = None if is_in_place(path) else parse_data_file(path)
    return name is not None and name.epoch < min(item.epoch, other.epoch)


def _note_contradictions(
    item: FoundTransaction,
    rivals: list[_Rival],
    evidence: Evidence,
) -> None:
    for matter, other in rivals:
        if not _stood_below(item, other, evidence):
            named = f"{item.transaction_id.hex()} and {other.transaction_id.hex()}"
            evidence.contradictions.append(
                f"Of transactions {named} {_in_words(matter)}, and both are proven"
            )


def _stood_below(other: FoundTransaction, item: FoundTransaction, evidence: Evidence) -> bool:
    """Whether a proven transaction stood in the log before another one was begun."""
    if other.transaction_id not in evidence.proofs or other.log_id != item.log_id:
        return False
    if other.incarnation != item.incarnation:
        return other.incarnation < item.incarnation
    known = evidence.at_most.get(other.transaction_id)
    revision = evidence.revisions.get(other.transaction_id, known)
    if revision is None or revision > item.base_revision:
        return False
    lowest = evidence.splits.get((item.log_id, item.incarnation))
    return lowest is None or revision < lowest  # from there on numbers are those of two histories


def _was_above(other: FoundTransaction, item: FoundTransaction, evidence: Evidence) -> bool:
    """Whether a proven transaction stood above the base of another one, for certain."""
    if other.incarnation != item.incarnation:
        return other.incarnation > item.incarnation
    revision = evidence.revisions.get(other.transaction_id, other.head_revision + 1)
    return revision > item.base_revision


def _bound(transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence) -> None:
    """Fill in `Evidence.at_most`: within one incarnation, by what is proven."""
    owners = {
        (file.table, file.path): item for item in transactions.values() for file in item.files
    }
    for item in transactions.values():
        revision = evidence.revisions.get(item.transaction_id)
        if revision is None or item.transaction_id not in evidence.proofs:
            continue
        for name in item.replaces | item.touches:
            owner = owners.get(name)
            if owner is None or owner.transaction_id == item.transaction_id:
                continue
            if (owner.log_id, owner.incarnation) == (item.log_id, item.incarnation):
                known = evidence.at_most.get(owner.transaction_id, revision)
                evidence.at_most[owner.transaction_id] = min(known, revision - 1)


def _rule_out_by_epoch(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> None:
    next_of: dict[tuple[TransactionId, int], FoundTransaction] = {}
    confirmed = {
        (one.base_transaction_id, one.log_id, one.incarnation, one.base_revision)
        for one in transactions.values()
    }
    for item in transactions.values():
        place = (item.transaction_id, item.log_id, item.incarnation, item.base_revision + 1)
        if place in confirmed:
            base = (item.base_transaction_id, item.base_revision)
            known = next_of.get(base)
            if known is None or item.epoch > known.epoch:
                next_of[base] = item
    for item in transactions.values():
        winner = next_of.get((item.base_transaction_id, item.base_revision))
        if winner is None or item.transaction_id in evidence.proofs:
            continue
        if winner.epoch < item.epoch or (
            winner.epoch == item.epoch
            and not _are_two_owners(item, winner, transactions.get(item.base_transaction_id))
        ):
            continue
        if evidence.is_out(item.transaction_id):
            continue  # as by a log that may have lost it, and gone on in its place
        which = "a later" if winner.epoch > item.epoch else "another"
        why = (
            f"transaction {winner.transaction_id.hex()} of {which} owner was committed directly on "
            f"the same base, so this one of epoch {item.epoch} can't have been"
        )
        if evidence.is_split(item):
            evidence.undecided[item.transaction_id] = f"{why}, but for what the log has lost"
        else:
            evidence.disprove(item, why)


def _are_two_owners(
    item: FoundTransaction, winner: FoundTransaction, base: FoundTransaction | None
) -> bool:
    """Whether two of one epoch are of two owners that both took it, above that of their base: the
    first that committed has fenced the other one. A guest has the epoch of its base."""
    if base is None or base.epoch >= item.epoch:
        return False
    if (base.log_id, base.incarnation) != (item.log_id, item.incarnation):
        return False  # a rebuild has begun a later epoch, which its guests have, too
    return {one.slot_seed for one in item.written}.isdisjoint(
        one.slot_seed for one in winner.written
    )
