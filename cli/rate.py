"""Progress of a copy on stderr: how many files and bytes, how fast, and how long it will take."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..catalog.ambient import SYSTEM
from ..progress import span
from .progress import Progress
from .text import count, size

if TYPE_CHECKING:
    from ..replication import Told


class RateProgress(Progress):
    """A line such as `lakelog: replicating: 12 of 40 files, 1.2 MiB of 4.0 MiB, 3 MiB/s, 1 s left`.

    Args:
        what: The work.
        asked: Whether lines are wanted where there is no terminal.
    """

    def __init__(self, what: str, *, asked: bool = False) -> None:
        super().__init__(what, asked=asked)
        self._last: Told | None = None
        self._begun_s = SYSTEM.monotonic_s()
        self._turn = threading.Lock()

    def told(self, last: Told) -> None:
        """So far it is; from any thread."""
        with self._turn:
            if self._last is not last and last is not None:
                self._begun_s = SYSTEM.monotonic_s()
            self._last = last
            self.at(last.files_done)

    def _text(self) -> str:
        last = self._last
        if last is None:
            return super()._text()
        passed_s = max(1e-3, SYSTEM.monotonic_s() - self._begun_s)
        rate = last.bytes_done / passed_s
        files = max(last.files, last.files_done)  # objects of row deletes aren't counted before
        total = max(last.size_bytes, last.bytes_done)
        parts = [
            f"{count(last.files_done)} of {count(files)} files",
            f"{size(last.bytes_done)} of {size(total)}",
            f"{size(int(rate))}/s",
        ]
        if rate > 0 and total > last.bytes_done:
            parts.append(f"{span((total - last.bytes_done) / rate)} left")
        return ", ".join(parts)
