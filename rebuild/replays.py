"""Transactions of an application that a writer refused: their version was taken already. Pure.

Of an application only higher versions are committed. So one that was begun on a head below which a
proven one of the same application stands, with a version that is no higher, never was. The newest
such counts: an application that was forgotten begins anew, and then its older versions say nothing.

Source: docs/writing.md; docs/maintenance.md on what can have been committed.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .evidence import Evidence, FoundTransaction, TransactionId

_Count = tuple[bytes, int]  # log id and incarnation: within them revisions are of one count


def rule_out_replays(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> None:
    """Disprove transactions whose version was taken when they were begun."""
    committed = _committed(transactions)
    for item in transactions.values():
        if not item.app_id or item.transaction_id in evidence.proofs:
            continue
        stood = [
            (revision, known)
            for revision, known in committed[_count(item), item.app_id]
            if revision <= item.base_revision and known.transaction_id in evidence.proofs
        ]
        if not stood:
            continue
        _, newest = max(stood, key=lambda found: (found[0], found[1].app_version))
        if item.app_version <= newest.app_version:
            evidence.disproofs[item.transaction_id] = (
                f"it is version {item.app_version} of application {item.app_id!r}, and version "
                f"{newest.app_version} was committed before it was begun, by transaction "
                f"{newest.transaction_id.hex()}"
            )


def _committed(
    transactions: Mapping[TransactionId, FoundTransaction],
) -> dict[tuple[_Count, str], list[tuple[int, FoundTransaction]]]:
    """Transactions of applications that footers name as a head, with its revision."""
    found: dict[tuple[_Count, str], list[tuple[int, FoundTransaction]]] = defaultdict(list)
    for claimant in transactions.values():
        known = transactions.get(claimant.base_transaction_id)
        if known is not None and known.app_id:
            found[_count(claimant), known.app_id].append((claimant.base_revision, known))
    return found


def _count(item: FoundTransaction) -> _Count:
    return item.log_id, item.incarnation
