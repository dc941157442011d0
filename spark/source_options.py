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
    """Raises `UsageError` for unknown options: a misspelt one would silently have no effect.
    Options that Spark adds have a dot in their names.

    Args:
        also: Further names that are known, and not in the message.
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
    """Returns the value of an option. Raises `UsageError` if it isn't given."""
    value = options.get(name)
    if not value:
        raise UsageError(
            f"format('lakelog') needs the option {name!r}", key=name, hint=f"Give it: {hint}"
        )
    return str(value)


def names(options: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    """Returns an option that is a JSON list of names, or None. Raises `UsageError` for anything
    else."""
    text = options.get(name)
    if text is None:
        return None
    found = _json(text)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        what = f"{name} is no JSON list of names: {text[:60]!r}"
        raise UsageError(what, key=name, hint='Give it as ["hour", "temp"]')
    return tuple(found)


def json_object(name: str, text: str) -> dict[str, Any]:
    """Returns an argument of `open_catalog`. Raises `UsageError` if it is no JSON object."""
    found = _json(text)
    if not isinstance(found, dict):  # the message is without the text, which holds secrets
        hint = "Give it as json.dumps(...) of what open_catalog takes"
        raise UsageError(f"{name} is no JSON object", key=name, hint=hint)
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def number(options: Mapping[str, str], name: str, default: int, *, least: int | None = None) -> int:
    """An option that is a whole number.

    Raises:
        UsageError: It is something else, or less than the least.
    """
    text = str(options.get(name, default))
    try:
        found = int(text)
    except ValueError as error:
        raise _unfit(name, text, ", no whole number", "Give digits alone") from error
    if least is not None and found < least:
        raise _unfit(name, text, ": no batch would ever come", f"Give at least {least}")
    return found


def flag(options: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Returns an option that is true or false. Raises `UsageError` for anything else."""
    text = str(options.get(name, default))
    if text.lower() not in ("true", "false"):
        raise _unfit(name, text, "", "Give true or false")
    return text.lower() == "true"


def _unfit(name: str, text: str, what: str, hint: str) -> UsageError:
    return UsageError(f"The option {name} is {text[:60]!r}{what}", key=name, hint=hint)


def json_text(given: Mapping[str, Any]) -> str:
    """Returns options of a store as the text of an option. Raises `UsageError` if they are no
    JSON."""
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
    """A table that is followed, or whose changes are read.

    Attributes:
        since: As in the option; empty: from the beginning.
        until: Likewise; empty: the newest.
        feed: Whether changes are given, or rows that are appended.
        net: Of changes, whether rows that were added and removed again in between are left out.
        skip: Of appended rows, whether commits that remove rows are left out.
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
    """Whether a stream or its changes are read, not rows at a cut. A stream without any such
    option looks like rows at a cut, and has the same columns."""
    own = {*STREAM_OPTIONS, *CHANGES_OPTIONS} - {
        "database", "table", "columns", "storageOptions", "locationOptions", "path"
    }  # fmt: skip
    return any(name in options for name in own)


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
    return Followed(
        access=SourceAccess.of(options),
        database=need(options, "database", ".option('database', ...)"),
        table=need(options, "table", ".option('table', ...)"),
        since=(options.get("since") or "").strip(),
        until=(options.get("until") or "").strip(),
        feed=flag(options, "readChangeFeed"),
        net=flag(options, "net", default=net),
        skip=flag(options, "skipChangeCommits"),
        columns=names(options, "columns"),
        max_files=number(options, "maxFilesPerTrigger", MAX_FILES, least=1),
        max_bytes=_size(options),
    )


def _size(options: Mapping[str, str]) -> int | None:
    """Bytes of a batch, as Spark writes sizes: 500m, 10g; None: any."""
    name = "maxBytesPerTrigger"
    text = options.get(name)
    if text is None:
        return None
    found = _SIZE.fullmatch(str(text).strip())
    if found is None:
        raise _unfit(name, str(text), ", no size", "Give bytes, or something like 500m or 10g")
    size = int(found[1]) << 10 * " kmgtp".index(found[2].lower() or " ")
    return number({name: str(size)}, name, 1, least=1)


# --- Schemas of the user's ------------------------------------------------------------------------
#
# Spark believes a NOT NULL, and answers `IS NULL` by it without reading a row. Neither the source
# nor a rule of the optimizer sees that, for the query has no table any more by then. So a schema
# with one is refused: here, and on classic sessions by the analyzer (`swap`), when a frame is made.

NOT_NULL: Final = (
    "in the schema that was given, and a table of lakelog's promises that of no column, and of "
    "nothing in one"
)
NOT_NULL_HINT: Final = "Leave NOT NULL out of the schema"


def refuse_not_null(schema: StructType) -> None:
    """Raises `UsageError` if a schema of the user's has a column that is never null."""
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
