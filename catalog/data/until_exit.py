"""Streams of batches that break off when Python shuts down.

Arrow reads ahead in threads of its own, and these call our streams: who asks DuckDB for the first
row (`LIMIT 1`) and ends the program leaves such a thread at work. One that calls Python while it
shuts down, or is in a call then, aborts the whole process, though all that was asked for was given.

A stream that is broken off is an error to whoever reads on (an exit handler, a thread that outlives
the program): what looked whole would be committed without the rest of its rows.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import TYPE_CHECKING, Final

from ...errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_PAUSE_S: Final = 0.03
_QUIET_ROUNDS: Final = 4  # a thread of a busy machine may get its turn late
_ROUNDS: Final = 300  # 9 s: who reads from a store that hangs must not hang as well
_exiting: Final = threading.Event()


class _Streams:
    """Those that there are."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Without any; in a forked child too, where no thread would go on with its parent's, or
        give back a lock of these."""
        self._adding = threading.RLock()  # a signal's handler may read, too
        self._live: weakref.WeakSet[UntilExit] = weakref.WeakSet()

    def add(self, stream: UntilExit) -> None:
        with self._adding:
            self._live.add(stream)

    def seen(self) -> list[tuple[int, int, bool]]:
        """How far each is. None of them is held: the last who does may be another thread."""
        with self._adding:
            return sorted((id(stream), stream.calls, stream.is_asked) for stream in self._live)


_streams: Final = _Streams()


class UntilExit:
    """The same batches, and an error once Python shuts down.

    Raises (while reading):
        StorageError: It shuts down.
    Attributes:
        calls: How many were asked for.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._asked = threading.Lock()
        self.calls = 0
        _streams.add(self)

    def __iter__(self) -> UntilExit:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._asked:
            self.calls += 1
            if _exiting.is_set():
                raise StorageError(
                    "Python is shutting down: no more rows are read",
                    hint="Read before the program ends: join its threads, and read in no exit "
                    "handler",
                )
            return next(self._batches)

    @property
    def is_asked(self) -> bool:
        """Whether a call is under way."""
        return self._asked.locked()


def _end_all() -> None:
    """Break off every stream, and wait until no other thread has to do with one: until all are
    gone, or nothing is asked of those that are left, whose readers have read ahead enough."""
    _exiting.set()
    pause = threading.Event()
    quiet, before = 0, _streams.seen()
    for _ in range(_ROUNDS):
        if not before or quiet == _QUIET_ROUNDS:
            return
        pause.wait(_PAUSE_S)
        now = _streams.seen()
        quiet = quiet + 1 if now == before and not any(asked for *_, asked in now) else 0
        before = now


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_streams.begin)
