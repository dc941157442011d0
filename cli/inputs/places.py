"""Where in the given files a value stands, for messages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .sources import Source


@dataclass(frozen=True, slots=True)
class Place:
    """A row of a file.

    Attributes:
        source: The file.
        line: Finds its line, counted from 1; it may read the file for that.
    """

    source: Source
    line: Callable[[], int]

    def __str__(self) -> str:
        return f"{self.source.name}, line {self.line()}"


@dataclass(frozen=True, slots=True)
class Seen:
    """A value that decides something, and where it was seen first."""

    value: Any
    place: Place

    def __str__(self) -> str:
        text = self.value
        if isinstance(text, (list, dict)):
            text = json.dumps(text, ensure_ascii=False, default=float)
        text = str(text)
        return f"{self.place} ({text[:60]!r})" if text else str(self.place)
