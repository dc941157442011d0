"""Options of `format("lakelog")`, for reading and for writing: texts, whatever they stand for.

Values are never shown where they may be secrets.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
