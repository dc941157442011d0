"""Storage options that don't show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_SECRET_NAME = re.compile(
    r"key|secret|token|passw|credential|connection|sas|signature|auth", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"://[^/@:]*:([^/@]+)@")
_SHORTEST = 4  # blotting out a shorter value would leave nothing of a message


class SecretOptions:
    """Holds storage options; neither `repr`, `str`, `vars` nor pickle shows them.

    Args:
        options: As the caller gave them; copied.
    """

    __slots__ = ("_hidden",)

    def __init__(self, options: Mapping[str, Any]) -> None:
        copy = dict(options)
        # In a closure: an attribute would show in `vars` and in debuggers' dumps.
        self._hidden: Callable[[], dict[str, Any]] = lambda: copy

    def reveal(self) -> dict[str, Any]:
        """The options, for the client library alone; a new dict each time."""
        return dict(self._hidden())

    def redact(self, text: str) -> str:
        """`text` with every secret among the options replaced by `***`."""
        secrets = set(_secrets(self._hidden(), inside=False))
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def __repr__(self) -> str:
        return "SecretOptions(***)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("storage options can't be pickled: they may hold credentials")


def _secrets(value: Any, *, inside: bool) -> Iterator[str]:
    """Every text under a name that sounds like a secret, at any depth; passwords in URLs."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets(inner, inside=inside or bool(_SECRET_NAME.search(str(name))))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _secrets(inner, inside=inside)
    elif isinstance(value, str):
        found = [value] if inside else _URL_PASSWORD.findall(value)
        yield from (secret for secret in found if len(secret) >= _SHORTEST)
