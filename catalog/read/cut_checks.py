"""What a point in time may be, and whether what was read for it is what it names.

Source: docs/format.md, section 7.
"""

from __future__ import annotations

import datetime as dt
import operator
from typing import TYPE_CHECKING, Any, Final

from ...errors import NaiveTime, RevisionNotFound, SameLogTwice, UsageError
from ..format.cut import TOKEN_DIGEST_BYTES, Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..log.state import State
    from .log_reader import LogReader


EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def iso(at_us: int) -> str:
    try:
        return (EPOCH + dt.timedelta(microseconds=at_us)).isoformat()
    except OverflowError:  # the first hours of year 1 in a zone ahead of UTC
        return dt.datetime.min.replace(tzinfo=dt.UTC).isoformat()


def state_at(log: LogReader, position: Position) -> State:
    """Returns the state of a log that a cut names.

    Raises:
        RevisionNotFound, SnapshotPruned: It isn't there, or is another one.
        ForkError, CorruptError, UnsupportedFeature: It can't be read.
    """
    incarnation = position.log.incarnation if position.log else 0
    state = log.load(position.revision, incarnation=incarnation)
    _check_position(state, position)
    return state


def _check_position(state: State, position: Position) -> None:
    """Refuse a revision that is not the one that a token names."""
    another = position.log is not None and state.log != position.log
    if another or (position.digest and state.digest[:TOKEN_DIGEST_BYTES] != position.digest):
        where = f"{state.writer}/{state.database}"
        raise RevisionNotFound(
            f"Revision {position.revision} of {where} is another transaction than the token names",
            key=where,
            hint="The log was replaced since the token was made",
        )


def refuse_twins(states: Iterable[State]) -> None:
    """Refuse a cut that would count one log's rows twice."""
    seen: dict[bytes, State] = {}
    for state in states:
        if state.log is None:
            continue
        twin = seen.setdefault(state.log.log_id, state)
        if twin is not state:
            raise SameLogTwice(
                f"{twin.writer}/{twin.database} and {state.writer}/{state.database} are one log: "
                "its rows would count twice",
                key=f"{state.writer}/{state.database}",
                hint="One is a copy of the other. If it was not written to since, remove it; else "
                "keep it in a catalog of its own. Or name the writers that you want: as_of="
                f"{{'{twin.writer}': {twin.revision}}} (--as-of {twin.writer}={twin.revision})",
            )


def time_us(at: dt.datetime) -> int:
    """An aware time in µs since 1970.

    Raises:
        NaiveTime: It has no zone.
    """
    if at.utcoffset() is None:
        raise NaiveTime(
            f"{at.isoformat()} has no time zone",
            key=at.isoformat(),
            hint="Give an aware datetime, e.g. tzinfo=datetime.timezone.utc, or a trailing Z",
        )
    return (at - EPOCH) // dt.timedelta(microseconds=1)


def position_of(revision: Any) -> Position:
    try:
        return Position(operator.index(revision))
    except TypeError as error:
        raise UsageError(
            f"A revision can't be {revision!r}", hint="Give a whole number for each writer"
        ) from error
