"""Deletes of rows and where they go in a rebuilt log. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class Placed:
    """Deletes and where they go.

    Attributes:
        at: Actions by revision of the new log.
        rest: Those that go to the end.
        doubts: Deletes that may have held, and are not taken to, in words.
    """

    at: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    rest: list[bytes] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
