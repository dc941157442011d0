"""Transactions of an application that a writer refused: their version was taken already. Pure.

Of an application only higher versions are committed, and the footers of a transaction say which one
was known when it was begun.

Source: docs/writing.md; docs/maintenance.md on what can have been committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .evidence import Evidence, FoundTransaction, TransactionId


def rule_out_replays(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> None:
    """Disprove transactions whose version was taken when they were begun."""
    for item in transactions.values():
        if not item.app_id or item.transaction_id in evidence.proofs:
            continue
        if item.app_version <= item.base_app_version:
            evidence.disproofs[item.transaction_id] = (
                f"it is version {item.app_version} of application {item.app_id!r}, and version "
                f"{item.base_app_version} was committed before it was begun"
            )
