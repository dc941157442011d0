"""Logs of some size, in a store without the time that uploads take, and work that is counted."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict

from lakelog.store.memory import MemoryStore
from lakelog.testing.logs import LogBuilder, add_action, schema_action

FOLDER = "w/db/transactions/"


class StoredLog:
    """Commits go into a store; nothing is kept but the state.

    Attributes:
        store: Theirs.
        builder: Has the state.
    """

    def __init__(self, now=None) -> None:
        self.store = MemoryStore("limits", now=now) if now else MemoryStore("limits")
        self.builder = LogBuilder()

    def commit(self, *actions, **options):
        self.builder.commit(*actions, **options)
        ((name, body),) = self.builder.objects
        self.put(FOLDER + name, body)
        self.builder.objects.clear()
        self.builder.transactions.clear()

    def checkpoint(self):
        """Also as a store has it; what it encoded."""
        encoded = self.builder.checkpoint()
        for name, body in encoded.segments:
            self.put(f"w/db/segments/{name}", body)
        self.put(FOLDER + encoded.name, encoded.body)
        return encoded

    def put(self, key, body):
        self.store.put(key, body, if_absent=True)

    def keys(self, ending=""):
        return [item.key for item in self.store.list("w/db/") if item.key.endswith(ending)]


def with_files(count, step=20_000, name="data/_/t/1-{:032x}-0.parquet"):
    """A log with so many files in one table, and their paths."""
    log, paths = StoredLog(), [name.format(number) for number in range(count)]
    log.commit(schema_action())
    for start in range(0, count, step):
        log.commit(*map(add_action, paths[start : start + step]))
    return log, paths


def lines_run(work):
    """How many lines of Python a piece of work takes, in all its threads: no clock is asked, and
    what grows with the square of a size shows at small ones. Also what the work gives."""
    counts: dict[int, int] = defaultdict(int)  # by thread

    def trace(frame, event, arg):
        counts[threading.get_ident()] += 1
        return trace

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        given = work()
    finally:
        sys.settrace(None)
        threading.settrace(None)
    return sum(counts.values()), given
