"""What a replication tells: while it goes on, and at its end."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..errors import LakelogError
    from .one_log import Copied
    from .position import LogPlan


@dataclass(frozen=True, slots=True)
class LogReport:
    """What became of one log.

    Attributes:
        plan: What was to be done.
        copied: What was done.
        revision: The replica's newest revision after; -1: none.
        error: Why it went no further; None: it is where it was to be.
    """

    plan: LogPlan
    copied: Copied
    revision: int
    error: LakelogError | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a replication did.

    Attributes:
        logs: Log by log, sorted by database and writer.
        tokens: By database the cut that the destination now has whole, as a token of the
            destination. Databases of which a log failed have none.
        source_tokens: The same cut, as a token of the source. Of whole logs it is the same token.
        stopped: Whether the caller wanted no more before all was done.
    """

    logs: tuple[LogReport, ...]
    tokens: dict[str, str]
    source_tokens: dict[str, str]
    stopped: bool = False

    @property
    def errors(self) -> list[LakelogError]:
        """What went wrong."""
        return [log.error for log in self.logs if log.error is not None]


@dataclass(slots=True)
class Told:
    """How far a replication is. Safe for threads.

    Attributes:
        files, size_bytes: Data files that are to be there, and their bytes.
        files_done, bytes_done: Those that are.
    """

    progress: Callable[[Told], None] | None
    files: int = 0
    size_bytes: int = 0
    files_done: int = 0
    bytes_done: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def one(self, size_bytes: int) -> None:
        """One more data file is there."""
        with self._lock:
            self.files_done += 1
            self.bytes_done += size_bytes
            if self.progress is not None:
                self.progress(self)
