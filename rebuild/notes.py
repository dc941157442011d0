"""What a rebuild can't know, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.format.names import parse_data_file
from .gaps import LEFT_OUT
from .undecided import undecided_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .assemble import Assembled
    from .evidence import Evidence, FoundTransaction
    from .known_log import KnownLog
    from .old_log import OldLog
    from .order import Ordered
    from .values import LeftOut

_NAMED = 5
_RIVALS = 20  # that are named one by one


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
    doubts: Sequence[str],
    damaged: Mapping[str, str],
) -> tuple[str, ...]:
    """All notes of a plan, the general ones last.

    Args:
        lost: Paths that are live in the old log and can't be taken over.
        known: What could be read of the old log.
        doubts: Deletes of rows that may have held of files, or can't be read, in words.
        damaged: Objects of row deletes and of actions that can't be read, each with the reason.
    """
    is_whole = known is not None and known.is_whole
    found = list(evidence.contradictions)
    if ordered.circular:
        found.append(
            f"Footers of {len(ordered.circular)} transactions contradict each other about their "
            "order; they stand where epoch, revision and clock put them"
        )
    found += _left_out_before(evidence)
    found += _cant_be_taken_over(lost)
    found += _damaged(damaged)
    found += _first(list(doubts), "more notes on deletes")
    if not is_whole:
        found += _lost_revisions(transactions, evidence)
        found += _gone(transactions, assembled)
        found += _unnamed(transactions)
        found += _lost_objects(transactions)
    found += _risky(assembled)
    found += _rivalries(transactions, evidence)
    kept_nowhere = {"disproved", "excluded", "quarantined"}
    if any(item.kind in kept_nowhere for item in left_out):
        found.append("Files left out stay where they are, and gc takes none of them by itself")
    found += _undecided(undecided_files(assembled.transactions, left_out, is_whole=is_whole))
    if not is_whole:
        found.append(_applications(transactions, assembled))
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
            "Not taken over from the old log: summaries, and what transactions did in between of "
            "which nothing below data/ tells any more (what is live, deleted and defined at the "
            "end, and application versions, are those of the old log)"
        )
    lost = (
        "Nothing below data/ tells, so these are lost: summaries, sort orders, that applications "
        "were forgotten, exact commit times (the clock of the last file stands for them), and what "
        "objects of actions or of row deletes said that are gone or damaged"
    )
    if known is None:
        return lost
    revision = known.state.revision
    upto = f"up to revision {revision}, and " if revision >= 0 else ""
    return (
        f"Of the old log, what can be read {upto}in single transactions counts. Of the rest: "
        f"{lost[0].lower()}{lost[1:]}"
    )


def _left_out_before(evidence: Evidence) -> list[str]:
    """What is proven of a life that an earlier rebuild has gone on without."""
    found = sorted(one.hex() for one, why in evidence.undecided.items() if why == LEFT_OUT)
    if not found:
        return []
    return [
        f"Proven, and left out: transactions {_some(found, _RIVALS)}. The log in use holds others "
        "wherever they can have stood: an earlier rebuild left them out, on request, or because "
        "the log that it read did not hold them"
    ]


def _cant_be_taken_over(lost: Sequence[str]) -> list[str]:
    if not lost:
        return []
    return [
        f"Live in the old log, and damaged or gone: {_some(lost)}. They will not be live any more"
    ]


def _damaged(damaged: Mapping[str, str]) -> list[str]:
    return _first(
        [f"Can't be read, so what it says is lost: {why}" for _, why in sorted(damaged.items())],
        "more objects that can't be read",
    )


def _lost_objects(transactions: dict[bytes, FoundTransaction]) -> list[str]:
    short = [item for item in transactions.values() if item.lost_objects]
    if not short:
        return []
    named = _some([item.transaction_id.hex() for item in short])
    return [
        f"{sum(item.lost_objects for item in short)} objects of actions are lost, of transactions "
        f"{named}: what they said is not done again"
    ]


def _unnamed(transactions: dict[bytes, FoundTransaction]) -> list[str]:
    short = [item for item in transactions.values() if item.unnamed]
    if not short:
        return []
    named = _some([item.transaction_id.hex() for item in short])
    return [
        f"{sum(item.unnamed for item in short)} replaced files are named only by files that are "
        f"lost, of transactions {named}: should they still be there, they are live again"
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
    named = _some([item.transaction_id for item in risky])
    return [
        f"Unproven and replacing other files: {named}. If one was never committed, what it "
        "replaces is still the truth: exclude it then"
    ]


def _rivalries(transactions: dict[bytes, FoundTransaction], evidence: Evidence) -> list[str]:
    """Of which transactions at most one was committed, and nothing tells which."""
    found = []
    for transaction_id, (other, why) in sorted(evidence.rivals.items()):
        paths = _some([file.path for file in transactions[transaction_id].written])
        if transaction_id in evidence.undecided:
            what = f"{transaction_id.hex()} is left out; exclude the other one to have it instead"
        else:
            what = "Both are taken in, so that no row is lost: exclude one if you know better"
        found.append(
            f"Undecided between {transaction_id.hex()} ({paths}) and {other.hex()}: {why}, and "
            f"nothing tells which was committed. {what}"
        )
    return _first(found, "more such rivals, see what is undecided")


def _undecided(files: dict[str, str]) -> list[str]:
    """What may have been live, by name."""
    if not files:
        return []
    named = _some(sorted(files), _RIVALS)
    return [
        f"Undecided, and not live: {len(files)} files that may have been committed ({named}). They "
        "stay where they are, gc takes none of them by itself, and the list of what is undecided "
        "says why. To have one back, leave out by exclude what stands in its place, or copy it to "
        "another name and add that"
    ]


def _applications(transactions: dict[bytes, FoundTransaction], assembled: Assembled) -> str:
    """Which application versions may be missing."""
    known: dict[str, int] = {}
    for item in assembled.transactions:
        for app, version in ((item.app_id, item.app_version), *item.applications):
            if app:
                known[app] = max(version, known.get(app, -1))
    told: dict[str, int] = {}
    for found in transactions.values():
        if found.app_id:
            told[found.app_id] = max(found.base_app_version, told.get(found.app_id, -1))
    lost = [
        f"version {version} of {app!r} was committed"
        for app, version in sorted(told.items())
        if version > known.get(app, -1)
    ]
    text = (
        "Application versions of lost commits, and of such as left no file, are not known: such a "
        "batch may run twice"
    )
    if lost:
        text += f" ({_some(lost)}, and nothing else is left of it)"
    named = _some([f"{app!r} {version}" for app, version in sorted(known.items())], _RIVALS)
    return f"{text}. Known are: {named}" if known else f"{text}. None is known"


def _some(names: Sequence[str], most: int = _NAMED) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _first(found: list[str], what: str) -> list[str]:
    rest = [f"{len(found) - _RIVALS} {what}"] if len(found) > _RIVALS else []
    return found[:_RIVALS] + rest


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
