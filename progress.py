"""Progress on stderr, for work that takes long: one line that is written again on a terminal, plain
lines elsewhere, where they are asked for.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Final, Self

from .catalog.ambient import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_EVERY_S: Final = 0.2
_LINES_EVERY_S: Final = 10.0  # in a file that people read later
_FIRST_S: Final = 0.5  # quick work needs no progress


def _tell(words: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
        sys.stderr.write(words)
        sys.stderr.flush()


class Progress:
    """A counter that shows itself now and then. Safe for threads.

    On a terminal it rewrites one line and leaves none behind. Elsewhere it is silent, unless
    `asked`, or with LAKELOG_PROGRESS=1; with LAKELOG_PROGRESS=0 it is silent everywhere.

    Args:
        what: The work, e.g. `reading files`.
        total: How much there is; None if unknown.
        asked: Whether lines are wanted where there is no terminal, one every 10 s.
        quiet: Whether nothing is to be shown at all.
        tell: Who writes.
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        asked: bool = False,
        quiet: bool = False,
        tell: Callable[[str], None] = _tell,
    ) -> None:
        self._what = what
        self._total = total
        self._tell = tell
        self._done = 0
        self._note = ""
        self._lock = threading.RLock()
        forced = os.environ.get("LAKELOG_PROGRESS")
        silent = quiet or forced == "0"
        self._line = sys.stderr.isatty() and not silent
        self._on = self._line or ((forced == "1" or asked) and not silent)
        self._every_s = _EVERY_S if self._line or forced == "1" else _LINES_EVERY_S
        first_s = _FIRST_S if self._line else self._every_s
        self._next_s = SYSTEM.monotonic_s() + (0 if forced == "1" else first_s)
        self._shown = 0

    def step(self, number: int = 1) -> None:
        """So much more is done."""
        with self._lock:
            self._done += number
            if self._on and SYSTEM.monotonic_s() >= self._next_s:
                self._show()
                self._next_s = SYSTEM.monotonic_s() + self._every_s

    def at(self, done: int, total: int | None = None) -> None:
        """So much is done altogether."""
        with self._lock:
            self._total = self._total if total is None else total
            self.step(done - self._done)

    def note(self, text: str) -> None:
        """What is shown behind the count."""
        with self._lock:
            self._note = text
            self.step(0)

    def _show(self) -> None:
        said = "" if self._note and not self._done and self._total is None else self._text()
        text = f"lakelog: {self._what}: {'; '.join(each for each in (said, self._note) if each)}"
        if self._line:
            self._tell("\r" + text.ljust(self._shown))
            self._shown = len(text)
        else:
            self._tell(text + "\n")

    def _text(self) -> str:
        of = "" if self._total is None else f" of {self._total:,}"
        return f"{self._done:,}{of}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._line and self._shown:
            self._tell("\r" + " " * self._shown + "\r")
        elif self._on and not self._line and kind is None:
            self._show()


def span(seconds: float) -> str:
    """A time for people: `12 s`, `5 min`, `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6_000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"
