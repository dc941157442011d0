"""A log at a point in time.

Source: docs/format.md, section 4.4.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import operator
import warnings
from typing import TYPE_CHECKING, Any, Final

from ...errors import (
    CorruptError,
    ForkError,
    LakelogError,
    NaiveTime,
    RevisionNotFound,
    SameLogTwice,
    SnapshotPruned,
    UsageError,
)
from ..format.cut import TOKEN_DIGEST_BYTES, Cut, Position
from ..format.names import LogObject, parse_log_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..log.listing import Listing
    from ..log.state import State
    from .log_reader import LogReader


# --- Points in time as people write them ----------------------------------------------------------

_FORMS: Final = (
    "Give a time with its zone (2013-06-30T00:00Z), a token (ll1-...), a tag (@name), or revisions "
    "(EWR=3,JFK=2)"
)


def point_in_time(text: str) -> dt.datetime | str | dict[str, int]:
    """The point in time that a text names.

    Returns:
        An aware time, a token or the @name of a tag (both are checked when they are used), or
        revisions by writer.

    Raises:
        NaiveTime: A time without a zone, or a date alone.
        UsageError: Nothing of these.
    """
    text = text.strip()
    if text.startswith(("ll1-", "@")):
        return text
    if "=" in text:
        return _revisions(text)
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text[:60]!r} is no point in time", hint=_FORMS) from None
    if at.tzinfo is None:
        day_only = "T" not in text.upper() and " " not in text
        raise NaiveTime(
            f"{text} has no time zone",
            hint=f"Times are never guessed. For UTC write {text}{'T00:00Z' if day_only else 'Z'}",
        )
    return at


def _revisions(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in text.split(","):
        writer, _, number = part.strip().partition("=")
        number = number.strip()
        writer = writer.strip()
        if not writer or not number.isascii() or not number.isdigit() or len(number) > 18:
            raise UsageError(f"{part.strip()[:60]!r} is not WRITER=REVISION", hint=_FORMS)
        if writer in found:
            raise UsageError(f"Writer {writer!r} stands twice in {text!r}", hint=_FORMS)
        found[writer] = int(number)
    return found


EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def iso(at_us: int) -> str:
    try:
        return (EPOCH + dt.timedelta(microseconds=at_us)).isoformat()
    except OverflowError:  # the first hours of year 1 in a zone ahead of UTC
        return dt.datetime.min.replace(tzinfo=dt.UTC).isoformat()


def cut_of(database: str, states: Iterable[State]) -> Cut:
    """Returns the cut of some states."""
    positions = {
        s.writer: Position(s.revision, s.digest[:TOKEN_DIGEST_BYTES], s.log) for s in states
    }
    return Cut(database, positions)


def state_at(log: LogReader, position: Position, listing: Listing | None = None) -> State:
    """Returns the state of a log that a cut names. Raises `RevisionNotFound` or `SnapshotPruned` if
    it isn't there or is another one, and as `LogReader.load`.

    Args:
        listing: Of the names that lead to it; made here if not given.
    """
    incarnation = position.log.incarnation if position.log else 0
    state = log.load(position.revision, listing, incarnation)
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
    """Returns an aware time in µs since 1970. Raises `NaiveTime` if it has no zone."""
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


_NOW_US: Final = 10_000_000  # a time so shortly before the store's now is meant as now
_SECOND_US: Final = 1_000_000  # stores tell their time to a second


class ClockWarning(UserWarning):
    """Commits are stamped in the future, and a time that means now leaves them out."""


def load_at(log: LogReader, at_us: int, listing: Listing, incarnation: int = 0) -> State | None:
    """The state at a time: that of the newest revision committed at or before it.

    Args:
        at_us: µs since 1970, UTC, by this writer's own commit times.
        listing: A listing made just before.
        incarnation: Of which it is; 0: the one that counts.
    Returns:
        The state; None if the log begins later.
    Raises:
        SnapshotPruned: What is left of the log begins later.
        LakelogError: As `load`; damage after the time asked for doesn't matter.
    Warns:
        ClockWarning: The time is the store's now, or later, and the head is later still.
    Requests: as `load`, twice if the time lies before the head.
    """
    if listing.head < 0:
        log.load(None, listing)  # refused as the head is, if names are there that lead nowhere
        return None
    state, broken = newest_sound(log, listing, incarnation)
    if state is not None and state.revision >= 0 and state.committed_at_us <= at_us:
        if broken is not None and at_us > state.committed_at_us:
            raise broken  # its own commit time is unknown: it may have been before
        return state
    if state is None:
        if broken is not None:
            raise broken
        return None
    _tell_of_future(log, state, at_us)
    revision = _revision_at(state, at_us)
    if revision is None and state.history.holds(0):
        return None
    if revision is not None:
        with contextlib.suppress(SnapshotPruned):
            return log.load(revision, incarnation=incarnation)
    elif lower := log.names_of_both(incarnation).lower():  # before the rebuild that opened this one
        return load_at(log, at_us, log.names_of_both(lower[0]), lower[0])
    oldest = log.names(listing.incarnation).first_readable()
    raise SnapshotPruned(
        f"At that time {log.writer}/{log.database} stood before revision {oldest}, "
        "which is the oldest left",
        key=f"{log.writer}/{log.database}",
        hint="Ask for a later time",
    )


def _revision_at(state: State, at_us: int) -> int | None:
    """The newest revision committed at or before a time. The history is asked for times below the
    base's own alone."""
    for transaction in reversed(state.tail):
        if transaction.message.commit.committed_at_us <= at_us:
            return transaction.message.revision
    if state.base is not None and state.base.message.committed_at_us <= at_us:
        return state.base.message.revision
    return state.history.revision_at(at_us)


def _tell_of_future(log: LogReader, head: State, at_us: int) -> None:
    """Warn if who asks for what is there now is not given it, for it is stamped in the future."""
    server = log.store.server_time()
    now_us = log.ambient.now_us() if server is None else int(server.timestamp() * 1e6)
    if at_us < now_us - _NOW_US or head.committed_at_us <= now_us + _SECOND_US or head.log is None:
        return
    item = LogObject(head.log.incarnation, head.revision, head.uuid[:4].hex(), "transaction")
    warnings.warn(
        f"Commits of {log.writer}/{log.database} up to revision {head.revision} are left out: a "
        f"clock was ahead, and {log.folder}{item.name} is stamped {iso(head.committed_at_us)}, "
        "which is in the future of the store's clock. For all that is committed now give no time; "
        f"exact are a token and a revision ({log.writer}={head.revision}): no clock counts there",
        ClockWarning,
        stacklevel=4,
    )


def newest_sound(
    log: LogReader,
    listing: Listing,
    incarnation: int,
    use: Callable[[State], State] = lambda state: state,
) -> tuple[State | None, LakelogError | None]:
    """The newest state that can be read, and the error that stands above it, if any. Goes down
    by listed revisions.

    Args:
        use: Called with a state; raises `CorruptError` if it can't be used after all.
    """
    broken: LakelogError | None = None
    target = listing.head
    while target >= 0:
        try:
            state = log.load(target, listing if broken is None else None, incarnation)
            return use(state), broken
        except (RevisionNotFound, SnapshotPruned):
            if broken is None:
                raise
            break  # nothing below can be read either: it is the head's error that counts
        except (ForkError, CorruptError) as error:
            if broken is None and listing.lowest > 0:
                listing = log.names(listing.incarnation)
            broken = broken or error
            below = min(target, _revision_of(error, listing))
            listed = listing.transactions.keys() | listing.checkpoints.keys()
            target = max((r for r in listed if r < below), default=-1)
    return None, broken


def _revision_of(error: LakelogError, listing: Listing) -> int:
    """The revision that an error is about; the head if it doesn't say."""
    name = (error.key or "").split(" and ")[0].rsplit("/", 1)[-1]
    item = parse_log_object(name)
    return listing.head if item is None else item.revision
