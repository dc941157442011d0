"""What a rebuild can't know, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.format.names import parse_data_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .assemble import Assembled
    from .evidence import Evidence, Transaction
    from .old_log import OldLog
    from .order import Ordered
    from .values import LeftOut

_NAMED = 5


def notes(
    transactions: dict[bytes, Transaction],
    evidence: Evidence,
    ordered: Ordered,
    assembled: Assembled,
    *,
    left_out: Sequence[LeftOut],
    old: OldLog,
    padding: int,
    take_over: bool,
) -> tuple[str, ...]:
    """All notes of a plan, the general ones last."""
    found = list(evidence.contradictions)
    if ordered.circular:
        found.append(
            f"Footers of {len(ordered.circular)} transactions contradict each other about their "
            "order; they stand where epoch, revision and clock put them"
        )
    found += _lost_revisions(transactions, evidence)
    found += _gone(transactions, assembled)
    found += _risky(assembled)
    if evidence.conflicts:
        found.append(
            f"{len(evidence.conflicts)} unproven transactions are left out for others that "
            "were begun later: exclude the later one, should it be the one never committed"
        )
    kept_nowhere = {"disproved", "conflicting", "excluded", "quarantined"}
    if any(item.kind in kept_nowhere for item in left_out):
        found.append(
            "Files left out stay where they are, but no revision names them: gc may delete those "
            "with names of lakelog's at once. Copy elsewhere first what you want to keep"
        )
    found += _committers(old, padding, take_over)
    found.append(
        "Not in any footer, and so lost: removals and soft deletes that no new file replaces (such "
        "files are live again), undone removals, summaries, keys and sort orders, and exact commit "
        "times (the clock of the last file stands for it)"
    )
    return tuple(found)


def _lost_revisions(transactions: dict[bytes, Transaction], evidence: Evidence) -> list[str]:
    """Revisions that footers count and that none of the transactions is."""
    by_epoch: dict[int, set[int]] = {}
    for transaction_id, revision in evidence.revisions.items():
        by_epoch.setdefault(transactions[transaction_id].epoch, set()).add(revision)
    highest = max((item.base_revision for item in transactions.values()), default=-1)
    known = set().union(*by_epoch.values()) if by_epoch else set()
    lost = highest + 1 - len([revision for revision in known if revision <= highest])
    if lost <= 0:
        return []
    return [
        f"Footers speak of revisions up to {highest}; of {lost} of them no footer says which it "
        "was: their files are gone, or they only removed files, or they are among the unproven"
    ]


def _gone(transactions: dict[bytes, Transaction], assembled: Assembled) -> list[str]:
    if not assembled.missing:
        return []
    names = [parse_data_file(path) for path in assembled.missing]
    gone = {name.transaction_id for name in names if name is not None} - set(transactions)
    text = f"{len(assembled.missing)} replaced files are not in the store any more (gc took them)"
    if gone:
        text += (
            f"; of {len(gone)} transactions no file is left at all: should they have replaced "
            "files that are still there, those are live again"
        )
    return [text]


def _risky(assembled: Assembled) -> list[str]:
    risky = [item for item in assembled.transactions if item.proof == "unproven" and item.removes]
    if not risky:
        return []
    named = ", ".join(item.transaction_id for item in risky[:_NAMED])
    more = f" and {len(risky) - _NAMED} more" if len(risky) > _NAMED else ""
    return [
        f"Unproven and replacing other files: {named}{more}. If one was never committed, what it "
        "replaces is still the truth: exclude it then"
    ]


def _committers(old: OldLog, padding: int, take_over: bool) -> list[str]:
    if take_over:
        text = "A process that still writes to the old log is refused from the first request on"
        if padding:
            text += f" ({padding} empty revisions at the end see to it)"
        return [text]
    if old.objects:
        why = "the old log's end can't be read" if not old.names_next else "the old log is longer"
    else:
        why = "nothing is left of the old log"
    return [
        f"Stop every process that writes as this writer before executing: {why}, so the name of "
        "its next commit is not known. Such a commit would be acknowledged, and break the new log "
        "or hide later commits (its files are not lost: another rebuild takes them in)"
    ]
