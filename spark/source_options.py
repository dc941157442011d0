"""Options of `format("lakelog")`, for reading, following and writing: texts, whatever they mean.

Values are never shown where they may be secrets.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import DataType, StructType

    from ..catalog.catalog import Catalog

_SECRETS: Final = ("storageOptions", "locationOptions")


@dataclass(frozen=True)
class SourceAccess:
    """Where the catalog is, and what opens it. Never shows the latter."""

    url: str
    storage_options: str
    location_options: str

    def __repr__(self) -> str:
        return f"SourceAccess({self.url!r})"

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceAccess:
        """As options of reading say it."""
        url = need(options, "path", "the catalog's URL goes to load(url)")
        return cls(url, *(options.get(name) or "{}" for name in _SECRETS))

    def options(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """What opens the store, and other places."""
        texts = (self.storage_options, self.location_options)
        storage, places = (
            json_object(name, text) or None for name, text in zip(_SECRETS, texts, strict=True)
        )
        return storage, places

    def open(self) -> Catalog:
        """The catalog."""
        from ..catalog.catalog import open_catalog

        return open_catalog(self.url, *self.options())


def refuse_unknown(
    options: Mapping[str, str], known: Sequence[str], what: str, also: Sequence[str] = ()
) -> None:
    """Refuse options that nobody looks at: a misspelt one would silently count for nothing.

    What Spark adds itself has a dot in its name.

    Args:
        also: Further names that are known, and not told.
    Raises:
        UsageError: There is one.
    """
    names = {name.lower() for name in (*known, *also)}
    for name in options:
        if name.lower() not in names and "." not in name:
            raise UsageError(
                f"{what} has no option {name!r}",
                key=name,
                hint=f"It has: {', '.join(known)}; what opens the store goes into storageOptions",
            )


def need(options: Mapping[str, str], name: str, hint: str) -> str:
    """The value of an option that has to be there.

    Raises:
        UsageError: It isn't.
    """
    value = options.get(name)
    if not value:
        raise UsageError(
            f"format('lakelog') needs the option {name!r}", key=name, hint=f"Give it: {hint}"
        )
    return str(value)


def names(text: str, option: str) -> list[str]:
    """A JSON list of names.

    Raises:
        UsageError: It is something else.
    """
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise UsageError(
            f"{option} is no JSON list of names: {text[:60]!r}",
            key=option,
            hint='Give it as ["hour", "temp"]',
        )
    return found


def json_object(name: str, text: str) -> dict[str, Any]:
    """What `open_catalog` takes, as JSON.

    Raises:
        UsageError: It is no JSON object.
    """
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise UsageError(
            f"{name} is no JSON object",  # without its text, which holds secrets
            key=name,
            hint="Give it as json.dumps(...) of what open_catalog takes",
        )
    return options


def number(text: str, option: str) -> int:
    """An option that is a whole number.

    Raises:
        UsageError: It is something else.
    """
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(
            f"The option {option} is {text[:60]!r}, no whole number",
            key=option,
            hint="Give digits alone",
        ) from error


def flag(options: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """An option that is true or false.

    Raises:
        UsageError: It is something else.
    """
    text = str(options.get(name, default))
    if text.lower() not in ("true", "false"):
        raise UsageError(f"The option {name} is {text[:60]!r}", key=name, hint="Give true or false")
    return text.lower() == "true"


def json_text(given: Mapping[str, Any]) -> str:
    """Options of a store, as those of Spark say them.

    Raises:
        UsageError: Something in them is no JSON.
    """
    try:
        return json.dumps(dict(given))
    except (TypeError, ValueError):
        raise UsageError(
            "The storage options hold something that isn't JSON, so Spark's tasks can't have them",
            key="storage_options",
            hint="Give plain texts, numbers, lists and dicts",
        ) from None  # the cause might show a value


# --- Streams and changes --------------------------------------------------------------------------


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
    return flag(options, "readChangeFeed")


def stream_options(options: Mapping[str, str]) -> Followed:
    """Those of `spark.readStream`.

    Raises:
        UsageError: One is missing, unknown, or can't be.
    """
    refuse_unknown(options, STREAM_OPTIONS, "readStream.format('lakelog')")
    found = _followed(options, net=False)
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
    return _followed(options, net=True)


def _followed(options: Mapping[str, str], *, net: bool) -> Followed:
    columns, most = options.get("columns"), options.get("maxBytesPerTrigger")
    return Followed(
        access=SourceAccess.of(options),
        database=need(options, "database", ".option('database', ...)"),
        table=need(options, "table", ".option('table', ...)"),
        since=(options.get("since") or "").strip(),
        until=(options.get("until") or "").strip(),
        feed=is_feed(options),
        net=flag(options, "net", default=net),
        skip=flag(options, "skipChangeCommits"),
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


# --- Schemas of the user's ------------------------------------------------------------------------
#
# Spark believes a NOT NULL, and answers `IS NULL` by it without reading a row. Neither the source
# nor a rule of the optimizer sees that, for the query has no table any more by then. So a schema
# with one is refused: here, and on classic sessions by the analyzer (`swap_java`), when a frame is
# made.

NOT_NULL: Final = (
    "in the schema that was given, and a table of lakelog's promises that of no column, and of "
    "nothing in one"
)
NOT_NULL_HINT: Final = "Leave NOT NULL out of the schema"


def refuse_not_null(schema: StructType) -> None:
    """Refuse a schema of the user's by which something is never null.

    Raises:
        UsageError: Names the column.
    """
    for field in schema.fields:
        if not field.nullable or _has_not_null(field.dataType):
            word = "has" if field.nullable else "is"
            raise UsageError(
                f"{field.name} {word} NOT NULL {NOT_NULL}", key=field.name, hint=NOT_NULL_HINT
            )


def _has_not_null(kind: DataType) -> bool:
    from pyspark.sql import types

    parts: list[tuple[bool, Any]] = []
    if isinstance(kind, types.StructType):
        parts = [(field.nullable, field.dataType) for field in kind.fields]
    elif isinstance(kind, types.ArrayType):
        parts = [(kind.containsNull, kind.elementType)]
    elif isinstance(kind, types.MapType):
        parts = [(True, kind.keyType), (kind.valueContainsNull, kind.valueType)]
    return any(not nullable or _has_not_null(part) for nullable, part in parts)
