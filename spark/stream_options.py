"""Options of streams and of changes that are read by `format("lakelog")`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..errors import UsageError
from .source_options import SourceAccess, flag, names, need, number, refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_FILES: Final = 1_000
_COMMON: Final = (
    "database", "table", "since", "readChangeFeed", "net", "columns", "storageOptions",
    "locationOptions", "path",
)  # fmt: skip
STREAM_OPTIONS: Final = (
    *_COMMON, "maxFilesPerTrigger", "maxBytesPerTrigger", "skipChangeCommits",
)  # fmt: skip
CHANGES_OPTIONS: Final = (*_COMMON, "until")
_SIZE: Final = re.compile(r"([0-9]{1,15})\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE)


@dataclass(frozen=True)
class Followed:
    """What of which table is followed, or what changed of it is read.

    Attributes:
        since: As the option says it; empty: from the beginning.
        until: Likewise; empty: the newest.
        feed: Whether changes are given, or rows that are appended.
        net: Whether rows that came and went again between are left out, of changes.
        skip: Whether commits that take rows out are left out, of appended rows.
        columns: Only these; None: all.
        max_files, max_bytes: Of one batch; None: any.
    """

    access: SourceAccess
    database: str
    table: str
    since: str
    until: str
    feed: bool
    net: bool
    skip: bool
    columns: tuple[str, ...] | None
    max_files: int
    max_bytes: int | None


def is_followed(options: Mapping[str, str]) -> bool:
    """Whether it is a stream or its changes that are read, not rows at a cut; of a stream without
    any such option this can't be told, and it has the same columns."""
    own = {*STREAM_OPTIONS, *CHANGES_OPTIONS} - {
        "database", "table", "columns", "storageOptions", "locationOptions", "path"
    }  # fmt: skip
    return any(name in options for name in own)


def is_feed(options: Mapping[str, str]) -> bool:
    """Whether changes are asked for."""
    return flag(options.get("readChangeFeed", "false"), "readChangeFeed")


def stream_options(options: Mapping[str, str]) -> Followed:
    """Those of `spark.readStream`.

    Raises:
        UsageError: One is missing, unknown, or can't be.
    """
    refuse_unknown(options, STREAM_OPTIONS, "readStream.format('lakelog')")
    found = _followed(options, net="false")
    if found.feed and found.skip:
        raise UsageError(
            "skipChangeCommits is for streams of appended rows, and readChangeFeed gives changes",
            key="skipChangeCommits",
            hint="Give one of them",
        )
    if "net" in options and not found.feed:
        raise UsageError(
            "The option net is for changes, and this stream gives the rows that are appended",
            key="net",
            hint="Leave it out, or give readChangeFeed=true",
        )
    return found


def changes_options(options: Mapping[str, str]) -> Followed:
    """Those of `spark.read` with `readChangeFeed`.

    Raises:
        UsageError: One is missing, unknown, or can't be.
    """
    refuse_unknown(options, CHANGES_OPTIONS, "format('lakelog') with readChangeFeed")
    need(options, "since", "a token, a time, or revisions: where the changes begin")
    return _followed(options, net="true")


def _followed(options: Mapping[str, str], *, net: str) -> Followed:
    columns, most = options.get("columns"), options.get("maxBytesPerTrigger")
    return Followed(
        access=SourceAccess.of(options),
        database=need(options, "database", ".option('database', ...)"),
        table=need(options, "table", ".option('table', ...)"),
        since=(options.get("since") or "").strip(),
        until=(options.get("until") or "").strip(),
        feed=is_feed(options),
        net=flag(options.get("net", net), "net"),
        skip=flag(options.get("skipChangeCommits", "false"), "skipChangeCommits"),
        columns=None if columns is None else tuple(names(columns, "columns")),
        max_files=_positive(
            number(options.get("maxFilesPerTrigger", str(MAX_FILES)), "maxFilesPerTrigger"),
            "maxFilesPerTrigger",
        ),
        max_bytes=None if most is None else _positive(_size(most), "maxBytesPerTrigger"),
    )


def _positive(value: int, option: str) -> int:
    if value < 1:
        raise UsageError(
            f"The option {option} is {value}: no batch would ever come", key=option,
            hint="Give at least 1",
        )  # fmt: skip
    return value


def _size(text: Any) -> int:
    """Bytes, as Spark's options say them: 500m, 10g."""
    found = _SIZE.fullmatch(str(text).strip())
    if found is None:
        raise UsageError(
            f"The option maxBytesPerTrigger is {str(text)[:60]!r}, no size",
            key="maxBytesPerTrigger",
            hint="Give bytes, or something like 500m or 10g",
        )
    return int(found[1]) << 10 * " kmgtp".index(found[2].lower() or " ")
