"""What a replication plans, how far it is, and what it did."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..errors import LakelogError


@dataclass(frozen=True, slots=True)
class LogPlan:
    """What is to be copied of one log.

    Attributes:
        writer, database: Whose log.
        incarnation: Of the source's log.
        first: The replica's revision now; -1: it has none of this incarnation.
        last: The one that it will have, which is the source's newest.
        base: The checkpoint to begin with, where the source's log doesn't go back to revision 0 or
            its history isn't wanted; None: none is needed.
        commits: Transactions to copy.
        files, size_bytes: Data files that they add, or that the base names, as the log counts them.
    """

    writer: str
    database: str
    incarnation: int = 0
    first: int = -1
    last: int = -1
    base: int | None = None
    commits: int = 0
    files: int = 0
    size_bytes: int = 0

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do."""
        return self.base is None and not self.commits


@dataclass(slots=True)
class Copied:
    """What was copied of one log.

    Attributes:
        commits: Transactions.
        files, size_bytes: Data files and objects of row deletes that were put.
        files_there: Those that were there already, from a run that was broken off.
        elsewhere: External files, which are not copied.
    """

    commits: int = 0
    files: int = 0
    size_bytes: int = 0
    files_there: int = 0
    elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class LogReport:
    """The outcome of one log.

    Attributes:
        plan: What was to be done.
        copied: What was done.
        revision: The replica's newest revision after; -1: none.
        error: Why it went no further; None: all of the plan was done.
    """

    plan: LogPlan
    copied: Copied = field(default_factory=Copied)
    revision: int = -1
    error: LakelogError | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a replication did.

    Attributes:
        logs: Log by log, sorted by database and writer.
        tokens: By database the cut that the destination now has whole, as a token of the
            destination. Databases with a log that failed have none.
        source_tokens: The same cut, as a token of the source. Of whole logs it is the same token.
        stopped: Whether the caller wanted no more before all was done.
    """

    logs: tuple[LogReport, ...]
    tokens: dict[str, str] = field(default_factory=dict)
    source_tokens: dict[str, str] = field(default_factory=dict)
    stopped: bool = False

    @property
    def errors(self) -> list[LakelogError]:
        """The errors of all logs."""
        return [log.error for log in self.logs if log.error is not None]


@dataclass(slots=True)
class Progress:
    """How far a replication is. Safe for threads.

    Attributes:
        files, size_bytes: Data files that are to be there, and their bytes.
        files_done, bytes_done: Those that are.
    """

    call: Callable[[Progress], None] | None
    files: int = 0
    size_bytes: int = 0
    files_done: int = 0
    bytes_done: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, call: Callable[[Progress], None] | None, plans: Sequence[LogPlan]) -> Progress:
        """The progress of plans before anything is done."""
        return cls(call, sum(plan.files for plan in plans), sum(plan.size_bytes for plan in plans))

    def one(self, size_bytes: int) -> None:
        """Count one more data file."""
        with self._lock:
            self.files_done += 1
            self.bytes_done += size_bytes
            if self.call is not None:
                self.call(self)
