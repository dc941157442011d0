"""Whether another owner has taken over the log: judged by what stands in it, with no lease and no
clock. Pure.

Source: docs/format.md, section 10; docs/protocol.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from ..format.frame import LogIdentity
    from .state import State


def fencing_reason(
    state: State, before: int, *, epoch: int, own: AbstractSet[bytes], committed: bool
) -> str | None:
    """Why an owner may not commit any more, or None while it may.

    A guest's commit carries the epoch of its owner and fences nobody. What prune took before this
    owner could read it is judged by the head alone: if that has this owner's epoch and this owner
    has not committed yet, another one may have.

    Args:
        state: The log as it is now.
        before: The revision up to which this owner has looked already.
        epoch: This owner's.
        own: Ids of the transactions that this owner has sent.
        committed: Whether one of them is known to stand: the epoch is then this owner's alone.
    """
    rows = state.history.after(before)
    for row in rows:
        theirs = row["epoch"] > epoch or (row["epoch"] == epoch and not row["guest"])
        if theirs and own.isdisjoint(row["transaction_ids"]):
            own_epoch = (
                f"this one's too: both were opened at the same revision, and {row['revision']} "
                "came first"
                if row["epoch"] == epoch
                else f"this one has {epoch}"
            )
            return (
                f"revision {row['revision']} was committed under epoch {row['epoch']}, {own_epoch}"
            )
    first = rows[0]["revision"] if rows else state.revision + 1
    if first > before + 1 and not committed and state.epoch >= epoch:
        return (
            f"revisions {before + 1} to {first - 1} were pruned before this one read them, and the "
            f"log has reached epoch {state.epoch} without it"
        )
    return None


def replaced_reason(state: State, opened: LogIdentity) -> str | None:
    """Why the log is not the one that was opened for committing, or None."""
    found = state.log
    if state.sealed_for:
        return (
            f"the log was sealed for a rebuild, which begins incarnation {state.sealed_for}. If "
            "none runs, finish it with `lakelog rebuild`"
        )
    if found is None or found == opened:
        return None
    if found.log_id == opened.log_id:
        return f"the log was rebuilt and goes on as incarnation {found.incarnation}"
    return "another log stands there now, begun or restored by another process"
