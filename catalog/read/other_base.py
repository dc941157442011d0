"""Another base for a state whose own turned out to be damaged, or was pruned meanwhile.

Source: docs/format.md, sections 4.3 (lists lie in time) and 4.7 (parts and bases).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...errors import (
    CorruptError,
    ForkError,
    MissingTransaction,
    RevisionNotFound,
    SnapshotPruned,
    UnsupportedFeature,
)
from ..log.listing import REPAIR, Listing, ReadPlan, plan_read
from .log_folder import ATTEMPTS, PAUSE_S, Vanished

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..ambient import Ambient
    from ..format.names import LogObject
    from ..format.objects import DecodedCheckpoint, DecodedTransaction
    from ..log.state import State


class Log(Protocol):
    """What is asked of the reader of a log (`LogReader`)."""

    @property
    def ambient(self) -> Ambient: ...

    def names(self, incarnation: int = 0) -> Listing: ...

    def names_of_both(self, incarnation: int = 0) -> Listing: ...

    def from_base(
        self, base: LogObject | None, tail: Sequence[LogObject], listing: Listing, *, final: bool
    ) -> State: ...

    def is_about(self, error: CorruptError, base: LogObject) -> bool: ...

    def warn(self, error: CorruptError) -> None: ...


def other_base(
    log: Log, state: State, error: CorruptError, *, warned: set[str]
) -> tuple[DecodedCheckpoint | None, list[DecodedTransaction]]:
    """Another base and tail for a state, of the same revision.

    What can't be had may only have been pruned since the state was read, so the log is listed
    again: a base that is not listed any more was not damaged, and any other one will do.

    Args:
        error: What failed at the highest base.
        warned: What was warned of already: each part of a state comes here by itself.
    Raises:
        SnapshotPruned: The state's revision can't be read any more: its base was pruned.
        CorruptError: There is no other base: the given error.
    Requests: 1 LIST, 1 GET a base that is tried and a transaction after it.
    """
    for attempt in range(ATTEMPTS):
        log.ambient.sleep_s(PAUSE_S * attempt)
        incarnation = 0 if state.log is None else state.log.incarnation
        listing = log.names_of_both(incarnation) if attempt else log.names(incarnation)
        pruned = _is_gone(state, listing)
        final = attempt == ATTEMPTS - 1
        try:
            plan = _plan(listing, state, pruned=pruned)
            found = _first_that_serves(log, plan, listing, state, pruned=pruned, final=final)
        except Vanished:
            continue
        except SnapshotPruned:
            if attempt:  # believed once it was looked for twice: a scan of a folder can miss it
                raise
            continue
        except (ForkError, MissingTransaction, RevisionNotFound):
            found = None
        if found is None:
            if attempt:
                break
            continue  # a base may be had from the mirror's names
        if not pruned and error.message not in warned:
            warned.add(error.message)
            log.warn(error)
        return found.base, found.tail
    error.hint = f"Revisions {listing.readable()} are there. {REPAIR}"
    raise error


def _is_gone(state: State, listing: Listing) -> bool:
    """Whether the base of a state is not listed any more."""
    assert state.base is not None
    named = listing.checkpoints.get(state.base.message.revision, ())
    return state.base.key not in {listing.key(item) for item in named}


def _plan(listing: Listing, state: State, *, pruned: bool) -> ReadPlan:
    if pruned and listing.head < 0:
        where = f"{listing.writer}/{listing.database}"
        raise SnapshotPruned(
            f"Revision {state.revision} of {where} was pruned, with its whole incarnation",
            key=where,
            hint="The log was rebuilt since: open it again",
        )
    return plan_read(listing, state.revision)


def _first_that_serves(
    log: Log, plan: ReadPlan, listing: Listing, state: State, *, pruned: bool, final: bool
) -> State | None:
    """The state of the same revision from the first base that gives it.

    Args:
        pruned: Whether the state's own base is gone; else only lower ones are tried.
        final: Whether what is listed and not there counts as damaged.
    Raises:
        Vanished: Something listed is not there.
    """
    assert state.base is not None
    below = state.base.message.revision
    for base in plan.bases:
        if not pruned and base is not None and base.revision >= below:
            continue
        try:
            other = log.from_base(base, plan.tail_after(base), listing, final=final)
        except UnsupportedFeature:
            raise
        except CorruptError as failed:
            if base is not None and log.is_about(failed, base):
                continue
            return None  # every lower base needs the same transaction
        except Vanished:
            if not final:
                raise
            continue
        if other.digest == state.digest:
            return other
    return None
