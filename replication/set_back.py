"""Whether the source of a replica of chosen tables was set back: the newest commit of the replica
says which transaction of the source's log it stood for.

Source: docs/replication.md, "Some logs, or some tables, columns or rows".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..catalog.format.cut import TOKEN_DIGEST_BYTES, Cut, Position, parse_token
from ..catalog.log.history import summary_of
from ..errors import InvalidToken, PlanOutdated
from .checks import diverged
from .position import digest_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..catalog.log.history import Row
    from ..catalog.log.state import State
    from ..catalog.read.log_reader import LogReader

SOURCE: Final = "source"  # of a summary: the token of the source's cut
_FIRST_LOOK: Final = 16  # commits
_WIDER: Final = 8  # times


def refuse_set_back(source: LogReader, now: Position, replica: State) -> None:
    """Hold where the source's log is against where it was when it was last replicated.

    Args:
        source: The log.
        now: Where it is.
        replica: The destination's log.
    Raises:
        ReplicaDiverged: It is behind that, or has another transaction there.
        PlanOutdated: It has gone on since `now`, and that was replicated already.
    Requests: those of the replica's history, down to that commit; 1 LIST and 1 GET of the source
        where it has gone on.
    """
    then = None if now.log is None else _stood_for(replica, now.log.log_id)
    if then is None or then == now:
        return
    assert then.log is not None
    assert now.log is not None
    if then.log.incarnation < now.log.incarnation:
        return  # rebuilt since
    names = source.names_at(then.log.incarnation, then.revision)
    digest = digest_at(source, names, then.revision)
    is_same = digest is not None and digest[:TOKEN_DIGEST_BYTES] == then.digest
    is_behind = then.log != now.log or now.revision < then.revision
    where = f"{source.writer}/{source.database}"
    if is_same and is_behind:
        raise outdated(where)
    if is_behind or not (is_same or digest is None):  # None: pruned at the source
        raise diverged(
            f"The source of {where} was set back: revision {then.revision}, which was replicated, "
            "is not there any more, or another commit", where,
        )  # fmt: skip


def outdated(where: str) -> PlanOutdated:
    """The error of a difference that was made for another state of the destination's log."""
    return PlanOutdated(
        f"Another replication of {where} was quicker, or somebody else committed there",
        key=where,
        hint="Nothing was lost. Replicate again: it goes on from there",
    )


def _stood_for(replica: State, log_id: bytes) -> Position | None:
    """Where a log of the source was when it was last replicated; None: that isn't known."""
    for row in _newest_first(replica):
        cut = _cut_of(summary_of(row).get(SOURCE, ""))
        for position in cut.writers.values() if cut else ():
            if position.log is not None and position.log.log_id == log_id:
                return position
    return None


def _cut_of(token: str) -> Cut | None:
    """The cut that a commit stood for, if it was a replication's."""
    try:
        return parse_token(token)
    except InvalidToken:
        return None


def _newest_first(replica: State) -> Iterator[Row]:
    """The commits of a log. Its history is read as far back as they are asked for."""
    low, known, back = replica.revision, 0, _FIRST_LOOK
    while low >= replica.history.first() and low >= 0:
        low = replica.revision - back
        rows = replica.history.after(low)
        yield from reversed(rows[: len(rows) - known])
        known, back = len(rows), back * _WIDER
