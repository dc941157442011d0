"""What a user may hand to a transaction: checked at once, so that no commit fails of it later.

Pure. A commit may be shared by many threads; what one of them got wrong must not reach the others.
"""

from __future__ import annotations

import datetime as dt
import json
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ...errors import UsageError
from ..format.names import escape_name, is_text
from ..format.objects import MAX_APP_ID_BYTES, OPERATIONS
from ..log.build import Intent
from ..log.operations import PREFIX
from ..read.points_in_time import iso, time_us
from ..scalars import value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..log.build import Moment

MAX_SUMMARY_CHARS: Final = 1 << 20  # every checkpoint repeats it in its history
_LARGEST: Final = (1 << 63) - 1


def check_application(app_id: Any, app_version: Any) -> tuple[str, int]:
    """Returns an application's id and version as the log keeps them; empty and 0 for none. Raises
    `UsageError` for one without the other, or what the log can't hold."""
    app_id = value_of(app_id)
    if app_id is None and app_version is None:
        return "", 0
    if app_id is None or app_version is None:
        raise UsageError("app_id and app_version go together", hint="Give both, or neither")
    if not is_text(app_id) or not app_id:
        raise UsageError(f"app_id {app_id!r} is empty or no text", hint="Give a name that stays")
    if len(app_id.encode()) > MAX_APP_ID_BYTES:
        raise UsageError(
            f"app_id of {len(app_id.encode())} bytes is too long",
            key=app_id[:60],
            hint=f"At most {MAX_APP_ID_BYTES} bytes fit",
        )
    version = _number(app_version)
    if version is None or not 0 <= version < 1 << 62:
        raise UsageError(
            f"app_version {app_version!r} is not a whole number from 0 to 2^62 - 1",
            key=app_id,
            hint="Give a number that grows, such as the batch id",
        )
    return app_id, version


def check_summary(summary: Mapping[str, str] | None) -> dict[str, str]:
    """Returns a copy of a summary. Raises `UsageError` if it is no mapping of texts to texts, has a
    key of lakelog's own, or is longer than 1 MiB as JSON."""
    try:
        found = {value_of(key): value_of(value) for key, value in dict(summary or {}).items()}
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"The summary is of type {type(summary).__name__}, which holds no texts by name",
            hint="Give a dict of texts: {'reason': '...'}",
        ) from error
    for key, value in found.items():
        if not is_text(key) or not is_text(value):
            raise UsageError(
                f"The summary holds {key!r}: {value!r}, which is not text for text",
                hint="Turn both into str",
            )
        if key.startswith(PREFIX):
            raise UsageError(
                f"The summary holds {key!r}, and keys that begin with {PREFIX!r} are lakelog's own",
                key=key,
                hint="Choose another key",
            )
    if len(json.dumps(found)) > MAX_SUMMARY_CHARS:
        raise UsageError(
            "The summary is longer than 1 MiB", hint="Keep what is long in a file of its own"
        )
    return found


_LATEST: Final = (1 << 63) - (1 << 32)  # upserts take the next ones


def check_clock(clock: tuple[int, int]) -> tuple[int, int]:
    """Returns the logical clock of a first and a last row. Raises `UsageError` for anything but two
    whole numbers of 64 bits."""
    numbers = [_number(value) for value in clock] if isinstance(clock, Iterable) else []
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        raise UsageError(
            f"The clock {clock!r} is not a pair of 64-bit numbers",
            hint="Give the logical clock of the first and of the last row",
        )
    if max(numbers[0], numbers[1]) > _LATEST:
        raise UsageError(
            f"The clock {clock!r} leaves no room for later ones",
            hint=f"A row of a newer clock replaces one of the same key: give {_LATEST:,} at most",
        )
    return numbers[0], numbers[1]


def check_forgotten_before(at: Any) -> int:
    """Returns the time before which applications are forgotten, in µs; 0 for none. Raises
    `UsageError` for other values, and `NaiveTime` for a time without a zone."""
    at = value_of(at)
    if at is None:
        return 0
    if not isinstance(at, dt.datetime):
        raise UsageError(
            f"applications_before can't be {at!r:.60}, a value of type {type(at).__name__}",
            hint="Give an aware datetime, e.g. tzinfo=datetime.timezone.utc",
        )
    return time_us(at)


def check_past(applications_before_us: int, now_us: int) -> None:
    """Raises `UsageError` if a time is still to come: a slip in the year would make every
    application start again."""
    if applications_before_us > now_us:
        raise UsageError(
            f"applications_before is {iso(applications_before_us)}, which is still to come",
            hint="Give a time in the past",
        )


def check_forgotten(tables: Any, applications_before_us: int) -> list[str]:
    """Returns the tables to forget, sorted. Raises `UsageError` for anything but a list of names,
    or if there is nothing to forget, and `InvalidName`."""
    if isinstance(tables, str):
        raise UsageError(f"Tables are a list of names, not {tables!r}", hint=f"Give [{tables!r}]")
    if not isinstance(tables, Iterable):
        raise UsageError(
            f"Tables are a list of names, not {tables!r:.60}", hint="Give a list, [] for none"
        )
    found = [value_of(name) for name in tables]
    for name in found:
        escape_name(name, "table")
    names = sorted(set(found))
    if not names and applications_before_us <= 0:
        raise UsageError(
            "There is nothing to forget", hint="Give tables, applications_before, or both"
        )
    return names


def check_every(commits: int, name: str) -> int:
    """Returns the number of commits between checkpoints or compactions, 0 for none. Raises
    `UsageError` if it is none."""
    number = _number(commits)
    if number is None or number < 0:
        raise UsageError(
            f"{name} {commits!r} is not a whole number from 0",
            hint="Give the number of commits between two of them, 0 for none",
        )
    return number


def _number(value: Any) -> int | None:
    try:
        number = operator.index(value := value_of(value))
    except TypeError:
        return None
    return number if abs(number) <= _LARGEST and not isinstance(value, bool) else None


def make_intent(  # noqa: PLR0917 - as they come
    transaction_id: bytes,
    epoch: int,
    begun: Moment,
    app_id: str | None,
    app_version: int | None,
    operation: str | None,
    summary: Mapping[str, str] | None,
) -> Intent:
    """Returns an intent without actions. Raises `UsageError` for an unknown operation, an
    application id without a version or the other way round, or what the log can't hold."""
    application, version = check_application(app_id, app_version)
    operation = value_of(operation)
    if operation is not None and operation not in OPERATIONS:
        raise UsageError(
            f"Unknown operation {operation!r}",
            key=operation,
            hint=f"One of {', '.join(sorted(OPERATIONS))}",
        )
    return Intent(
        transaction_id,
        epoch,
        [],
        operation or "",
        application,
        version,
        check_summary(summary),
        begun,
    )
