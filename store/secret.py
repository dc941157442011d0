"""Storage options that don't show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SECRET_NAME = re.compile(
    r"key|secret|token|passw|credential|connection|sas|signature|auth", re.IGNORECASE
)
_SHORTEST = 4  # a shorter value would blot out half of every message


class SecretOptions:
    """Holds storage options; neither `repr`, `str`, `vars` nor pickle shows them.

    Args:
        options: As the caller gave them.
    """

    __slots__ = ("_SecretOptions__reveal", "_hidden")

    def __init__(self, options: Mapping[str, Any]) -> None:
        copy = dict(options)
        self.__reveal = lambda: copy
        self._hidden = lambda: sorted(set(_secrets(copy, False)), key=len, reverse=True)

    def reveal(self) -> dict[str, Any]:
        """The options, for the client library alone."""
        return dict(self.__reveal())

    def redact(self, text: str) -> str:
        """`text` with every secret among the options replaced by `***`."""
        for secret in self._hidden():
            text = text.replace(secret, "***")
        return text

    def __repr__(self) -> str:
        return "SecretOptions(***)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("storage options can't be pickled: they may hold credentials")


def _secrets(value: Any, secret: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets(inner, secret or bool(_SECRET_NAME.search(str(name))))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _secrets(inner, secret)
    elif secret and isinstance(value, str) and len(value) >= _SHORTEST:
        yield value
