"""What a rebuild can't know, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.format.names import parse_data_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .assemble import Assembled
    from .evidence import Evidence, FoundTransaction
    from .known_log import KnownLog
    from .old_log import OldLog
    from .order import Ordered
    from .values import LeftOut

_NAMED = 5


def notes(
    transactions: dict[bytes, FoundTransaction],
    evidence: Evidence,
    ordered: Ordered,
    assembled: Assembled,
    *,
    left_out: Sequence[LeftOut],
    lost: Sequence[str],
    old: OldLog,
    known: KnownLog | None,
) -> tuple[str, ...]:
    """All notes of a plan, the general ones last.

    Args:
        lost: Paths that are live in the old log and can't be taken over.
        known: What could be read of the old log.
    """
    is_whole = known is not None and known.is_whole
    found = list(evidence.contradictions)
    if ordered.circular:
        found.append(
            f"Footers of {len(ordered.circular)} transactions contradict each other about their "
            "order; they stand where epoch, revision and clock put them"
        )
    found += _cant_be_taken_over(lost)
    if not is_whole:
        found += _lost_revisions(transactions, evidence)
        found += _gone(transactions, assembled)
        found += _unnamed(transactions)
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
    found += _committers(old)
    found.append(_not_taken_over(known))
    return tuple(found)


def back_note(incarnation: int) -> str:
    """What it means to go back to an earlier incarnation."""
    return (
        f"The live files will be those that incarnation {incarnation} ended with. What was "
        "committed since is left out"
    )


def _not_taken_over(known: KnownLog | None) -> str:
    if known is not None and known.is_whole:
        return (
            "Not taken over from the old log: summaries, and what transactions that left no file "
            "did in between (the live files, schemas and application versions at the end are "
            "those of the old log)"
        )
    lost = (
        "Not in any footer, and so lost: removals and soft deletes that no new file replaces "
        "(such files are live again), undone removals, summaries, keys and sort orders, and "
        "exact commit times (the clock of the last file stands for it)"
    )
    if known is None:
        return lost
    revision = known.state.revision
    upto = f"up to revision {revision}, and " if revision >= 0 else ""
    return (
        f"Of the old log, what can be read {upto}in single transactions counts. Of the rest: "
        f"{lost[0].lower()}{lost[1:]}"
    )


def _cant_be_taken_over(lost: Sequence[str]) -> list[str]:
    if not lost:
        return []
    more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
    return [
        f"Live in the old log, and damaged or gone: {', '.join(lost[:_NAMED])}{more}. They will "
        "not be live any more"
    ]


def _unnamed(transactions: dict[bytes, FoundTransaction]) -> list[str]:
    short = [item for item in transactions.values() if item.unnamed]
    if not short:
        return []
    named = ", ".join(item.transaction_id.hex() for item in short[:_NAMED])
    more = f" and {len(short) - _NAMED} more" if len(short) > _NAMED else ""
    return [
        f"{sum(item.unnamed for item in short)} replaced files are named only by files that are "
        f"lost, of transactions {named}{more}: should they still be there, they are live again"
    ]


def _lost_revisions(transactions: dict[bytes, FoundTransaction], evidence: Evidence) -> list[str]:
    """Revisions that footers of the newest incarnation count and that no transaction is."""
    newest = max((item.incarnation for item in transactions.values()), default=0)
    now = {key: item for key, item in transactions.items() if item.incarnation == newest}
    highest = max((item.base_revision for item in now.values()), default=-1)
    known = {revision for key, revision in evidence.revisions.items() if key in transactions}
    lost = highest + 1 - len([revision for revision in known if revision <= highest])
    if lost <= 0:
        return []
    return [
        f"Footers speak of revisions up to {highest}; of {lost} of them no footer says which it "
        "was: their files are gone, or they only removed files, or they are among the unproven"
    ]


def _gone(transactions: dict[bytes, FoundTransaction], assembled: Assembled) -> list[str]:
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


def _committers(old: OldLog) -> list[str]:
    if old.successor_uuid or old.seal is not None:
        return [
            "A process that still writes to the old log is refused from the first request on: it "
            "is sealed"
        ]
    why = "the old log's end can't be read" if old.names else "nothing is left of the old log"
    return [
        f"Stop every process that writes as this writer before executing: {why}, so not every name "
        "that it may still commit under is known (those that footers tell of are taken). Such a "
        "commit would be acknowledged and not be in the new log (its files are not lost: they are "
        "left where they are)"
    ]
