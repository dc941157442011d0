"""Progress on stderr, for work that takes long: on a terminal, or with LAKELOG_PROGRESS=1; else,
and with --quiet, silence.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, Self

from ..catalog.ambient import SYSTEM
from .errors import is_quiet
from .streams import tell
from .text import count

if TYPE_CHECKING:
    from types import TracebackType

_EVERY_S: Final = 0.2
_FIRST_S: Final = 0.5  # quick work needs no progress


class Progress:
    """A counter that shows itself now and then.

    On a terminal it rewrites one line and leaves none behind.

    Args:
        what: The work, e.g. `reading files`.
        total: How much there is; None if unknown.
        streaming: Results are printed meanwhile: silence if they go to the same terminal.
    """

    def __init__(self, what: str, total: int | None = None, *, streaming: bool = False) -> None:
        self._what = what
        self._total = total
        self._done = 0
        forced = os.environ.get("LAKELOG_PROGRESS")
        taken = is_quiet() or (streaming and sys.stdout.isatty())
        self._line = sys.stderr.isatty() and forced != "0" and not taken
        self._on = self._line or (forced == "1" and not taken)
        self._next_s = SYSTEM.monotonic_s() + (0 if forced == "1" else _FIRST_S)
        self._shown = 0

    def step(self, number: int = 1) -> None:
        """So much more is done."""
        self._done += number
        if self._on and SYSTEM.monotonic_s() >= self._next_s:
            self._show()
            self._next_s = SYSTEM.monotonic_s() + _EVERY_S

    def at(self, done: int, total: int | None = None) -> None:
        """So much is done altogether."""
        self._total = self._total if total is None else total
        self.step(done - self._done)

    def _show(self) -> None:
        text = f"lakelog: {self._what}: {self._text()}"
        if self._line:
            tell("\r" + text.ljust(self._shown))
            self._shown = len(text)
        else:
            tell(text + "\n")

    def _text(self) -> str:
        of = "" if self._total is None else f" of {count(self._total)}"
        return f"{count(self._done)}{of}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._line and self._shown:
            tell("\r" + " " * self._shown + "\r")
        elif self._on and not self._line and kind is None:
            self._show()
