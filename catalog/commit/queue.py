"""Many threads, one committer: whoever comes first commits for all who wait.

While one commit is under way the others queue; the next leader takes the whole queue into one
transaction object. So thirty threads cost a few puts, not thirty, and no thread ever races another
of its own process.

A thread can be interrupted anywhere: `KeyboardInterrupt` comes between any two steps. Nobody waits
for a result that an interrupted leader should have handed over: whoever has its turn and finds no
result commits again, which is safe, and so learns what became of its transaction.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...errors import LakelogError
from ..format.frame import MAX_MESSAGE_BYTES
from ..log.build import Intent
from ..log.outcomes import CommitInfo

MAX_MEMBERS: Final = 1_000
MAX_ACTIONS: Final = 50_000
MAX_BYTES: Final = MAX_MESSAGE_BYTES // 2

CommitAll = Callable[[Sequence[Intent]], list[CommitInfo | LakelogError]]


@dataclass(slots=True, eq=False)
class _Waiter:
    """One who waits. Whoever has set the result has told everything: there is no second step."""

    intent: Intent
    result: CommitInfo | LakelogError | None = None


class CommitQueue:
    """Lets one thread at a time commit, for itself and for all who queue behind it.

    Args:
        commit_all: Commits intents together and gives each its result, in order; never called
            concurrently, nor twice with one transaction in it. Committing one again that was
            committed, or interrupted in it, must be safe.
    """

    def __init__(self, commit_all: CommitAll) -> None:
        self._commit_all = commit_all
        self._queue: deque[_Waiter] = deque()
        self._guard = threading.Lock()
        self._turn = threading.Lock()

    def commit(self, intent: Intent) -> CommitInfo:
        """Commit one intent, perhaps together with others; returns when its own outcome is known.

        Raises:
            LakelogError: Whatever became of this very intent.
        """
        waiter = _Waiter(intent)
        try:
            self._enter(waiter)
            # Locks are held by `with` alone: an interrupt can't come between it and its lock.
            with self._turn:
                while waiter.result is None:  # a long queue takes more than one turn
                    self._enter(waiter)  # who took it out of the queue was interrupted
                    self._lead()
        except BaseException:
            self._withdraw(waiter)  # once its caller has an error, it must not be committed
            raise
        if isinstance(waiter.result, CommitInfo):
            return waiter.result
        assert waiter.result is not None
        raise waiter.result

    def _lead(self) -> None:
        """Commit the queue's head. An interrupt, and any error that is not a result, is the
        leader's own: those whom it committed for have no result then, and look themselves."""
        batch = self._take()
        results = self._commit_all([waiter.intent for waiter in batch])
        for waiter, result in zip(batch, results, strict=True):
            waiter.result = result

    def _enter(self, waiter: _Waiter) -> None:
        with self._guard:
            if waiter not in self._queue:
                self._queue.append(waiter)

    def _withdraw(self, waiter: _Waiter) -> None:
        with self._guard:
            if waiter in self._queue:
                self._queue.remove(waiter)

    def _take(self) -> list[_Waiter]:
        """As much of the queue's head as one transaction object takes; never nothing."""
        batch: list[_Waiter] = []
        with self._guard:
            actions = size_bytes = 0
            taken: set[bytes] = set()
            while self._queue and len(batch) < MAX_MEMBERS:
                waiter = self._queue[0]
                actions += len(waiter.intent.actions)
                size_bytes += _message_bytes(waiter.intent)
                if batch and (actions > MAX_ACTIONS or size_bytes > MAX_BYTES):
                    break
                if waiter.intent.transaction_id in taken:
                    break  # one that gave up and came back, while its first try still waited
                taken.add(waiter.intent.transaction_id)
                batch.append(waiter)
                self._queue.popleft()
        return batch


def _message_bytes(intent: Intent) -> int:
    """What an intent takes of the message, but for adds: many of those go into columns."""
    kept = (action for action in intent.actions if action.WhichOneof("kind") != "add")
    return intent.member().ByteSize() + sum(action.ByteSize() for action in kept)
