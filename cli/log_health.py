"""The state of health of one log, for `lakelog doctor`: from its names, from reading its newest
revision, and from each of its transactions by itself.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..errors import CorruptError, CorruptObject, LakelogError
from . import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..catalog.format.names import LogObject
    from ..catalog.log.listing import Listing
    from ..catalog.log.state import State
    from ..catalog.read.log_reader import LogReader
    from ..store import Store

_OLD_CHECKPOINT_REVISIONS: Final = 1_000
_CLOCK_AHEAD_US: Final = 300_000_000
_NAMED: Final = 3
_AT_ONCE: Final = 256
Findings = list[dict[str, Any]]


def examine(
    store: Store,
    writer: str,
    database: str,
    problems: Findings,
    notes: Findings,
    *,
    step: Callable[[int], None] = lambda number: None,
) -> dict[str, Any]:
    """One row of the report.

    Args:
        problems: What is wrong is added here.
        notes: What is worth knowing is added here.
        step: Told of so many transactions more that were read.
    Requests: 1 LIST; those of reading the newest revision; 1 GET for each transaction.
    """
    from ..catalog.read.log_reader import LogReader

    log = LogReader(store, writer, database)
    listing = log.names()
    before = len(problems)
    state = _read(log, listing, problems)
    _judge_names(listing, problems, notes)
    sound = _without_damage(log, listing, problems, step)
    checkpoint = max(listing.checkpoints, default=None)
    if state is not None:
        _judge_state(state, listing, checkpoint, notes)
    oldest = sound.oldest_readable()
    return {
        "database": database,
        "writer": writer,
        "head": listing.head,
        "committed_at": output.utc_from_us(state.committed_at_us) if state else None,
        "epoch": state.epoch if state else None,
        "oldest_readable": oldest if oldest <= listing.head else None,
        "readable": sound.readable(),
        "transactions": sum(map(len, listing.transactions.values())),
        "checkpoints": sum(map(len, listing.checkpoints.values())),
        "checkpoint_revision": checkpoint,
        "checkpoint_age_revisions": None if checkpoint is None else listing.head - checkpoint,
        "checkpoint_committed_at": _committed_at(state, checkpoint),
        "forks": listing.forks(),
        "unknown_names": listing.unknown,
        "sound": len(problems) == before,
    }


def _read(log: LogReader, listing: Listing, problems: Findings) -> State | None:
    """The newest state. What was warned of on the way is a problem: a checkpoint that can't be
    used.
    """
    state = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            state = log.load(listing=listing)
        except LakelogError as error:
            problems.append(_finding(listing, error.message, error.key, error.hint))
    for item in caught:
        if item.category.__module__.startswith(__name__.split(".")[0] + "."):
            hint = "`lakelog checkpoint` writes a new one"
            problems.append(_finding(listing, str(item.message), None, hint))
    return state


def _without_damage(
    log: LogReader, listing: Listing, problems: Findings, step: Callable[[int], None]
) -> Listing:
    """The listing without the transactions that are damaged; each of these is a problem.

    One below a checkpoint is no hindrance to reading the newest revision, but to reading its own.
    """
    from ..catalog.format.objects import decode_transaction
    from ..catalog.log.listing import REPAIR

    damaged: set[LogObject] = set()
    told = {problem["key"] for problem in problems}

    def tell(error: LakelogError) -> None:
        if error.key not in told:  # reading the newest revision may have met it already
            hint = REPAIR if isinstance(error, CorruptObject) else error.hint
            problems.append(_finding(listing, error.message, error.key, hint))

    items = sorted(item for names in listing.transactions.values() for item in names)
    for start in range(0, len(items), _AT_ONCE):
        piece = items[start : start + _AT_ONCE]
        try:
            bodies = log.store.get_many([listing.key(item) for item in piece])
        except LakelogError as error:
            tell(error)
            continue
        for item, body in zip(piece, bodies, strict=True):
            try:
                if body is not None:  # else pruned since it was listed
                    decode_transaction(body, listing.key(item))
            except CorruptError as error:
                damaged.add(item)
                tell(error)
        step(len(piece))
    kept = {
        revision: [item for item in names if item not in damaged]
        for revision, names in listing.transactions.items()
    }
    return replace(listing, transactions={r: names for r, names in kept.items() if names})


def _judge_names(listing: Listing, problems: Findings, notes: Findings) -> None:
    for revision in listing.forks()[1:]:  # the first is what reading the log raised
        names = " and ".join(listing.key(item) for item in sorted(listing.transactions[revision]))
        problems.append(
            _finding(listing, f"Two transactions stand on revision {revision}", names, None)
        )
    spans = listing.readable()
    if ", " in spans:
        text = f"Not every revision can be read, only {spans}"
        hint = "Restore the missing transactions from a copy"
        problems.append(_finding(listing, text, listing.folder, hint))
    if listing.unknown:
        named = ", ".join(listing.unknown[:_NAMED])
        more = f" and {len(listing.unknown) - _NAMED} more" if len(listing.unknown) > _NAMED else ""
        text = f"Names that are not lakelog's, ignored and never deleted: {named}{more}"
        notes.append(_finding(listing, text, listing.folder, None))


def _judge_state(state: State, listing: Listing, checkpoint: int | None, notes: Findings) -> None:
    from ..catalog.ambient import SYSTEM
    from ..catalog.log.state import WRITER_FEATURES

    behind = listing.head - (-1 if checkpoint is None else checkpoint)
    if behind > _OLD_CHECKPOINT_REVISIONS:
        text = f"{behind:,} transactions are read after the newest checkpoint"
        notes.append(
            _finding(listing, text, None, "`lakelog checkpoint` makes opening quick again")
        )
    ahead_us = state.committed_at_us - SYSTEM.now_us()
    if ahead_us > _CLOCK_AHEAD_US:
        ahead = f"{ahead_us // 1_000_000:,} s"
        text = f"The newest commit is {ahead} in the future, by this machine's clock"
        hint = "Points in time are by the writer's clock; tokens and revisions don't depend on any"
        notes.append(_finding(listing, text, None, hint))
    unknown = state.writer_features - WRITER_FEATURES
    if unknown:
        text = f"This lakelog can read the log but not write it: {', '.join(sorted(unknown))}"
        notes.append(_finding(listing, text, None, "Upgrade lakelog before writing"))


def _committed_at(state: State | None, revision: int | None) -> str | None:
    import pyarrow.compute as pc

    if state is None or revision is None:
        return None
    table = state.history.table()
    found = table.filter(pc.equal(table.column("revision"), revision)).column("committed_at")
    return output.utc(found[0].as_py()) if len(found) else None


def _finding(listing: Listing, text: str, key: str | None, hint: str | None) -> dict[str, Any]:
    return {
        "database": listing.database,
        "writer": listing.writer,
        "text": text,
        "key": key,
        "hint": hint,
    }
