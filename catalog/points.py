"""Points in time as people write them: on a command line, in Spark's options and SQL. Pure."""

from __future__ import annotations

import datetime as dt
from typing import Final

from ..errors import NaiveTime, UsageError

_FORMS: Final = (
    "Give a time with its zone (2013-06-30T00:00Z), a token (ll1-...), or revisions (EWR=3,JFK=2)"
)


def point_in_time(text: str) -> dt.datetime | str | dict[str, int]:
    """The point in time that a text names.

    Returns:
        An aware time, a token (checked when it is used), or revisions by writer.

    Raises:
        NaiveTime: A time without a zone, or a date alone.
        UsageError: Nothing of these.
    """
    text = text.strip()
    if text.startswith("ll1-"):
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
