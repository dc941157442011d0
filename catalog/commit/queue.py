"""Many threads, one committer: whoever comes first commits for all who wait.

While one commit is under way the others queue; the next leader takes the whole queue into one
transaction object. So thirty threads cost a few puts, not thirty, and no thread ever races another
of its own process.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...errors import LakelogError
from ..format.frame import MAX_MESSAGE_BYTES
from ..log.build import Intent
from ..log.outcome import CommitInfo, outcome_unknown_error

MAX_MEMBERS: Final = 1_000
MAX_ACTIONS: Final = 50_000
MAX_BYTES: Final = MAX_MESSAGE_BYTES // 2

CommitAll = Callable[[Sequence[Intent]], list[CommitInfo | LakelogError]]


@dataclass(slots=True, eq=False)
class _Waiter:
    intent: Intent
    done: threading.Event = field(default_factory=threading.Event)
    result: CommitInfo | LakelogError | BaseException | None = None


class CommitQueue:
    """Lets one thread at a time commit, for itself and for all who queue behind it.

    Args:
        commit_all: Commits intents together and gives each its result, in order; never called
            concurrently.
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
            with self._guard:
                self._queue.append(waiter)
            with self._turn:
                while not waiter.done.is_set():  # a long queue takes more than one turn
                    self._lead()
        except BaseException:
            self._withdraw(waiter)  # once its caller has an error, it must not be committed
            raise
        result = waiter.result
        if isinstance(result, CommitInfo):
            return result
        assert result is not None
        raise result

    def _lead(self) -> None:
        batch: list[_Waiter] = []
        try:
            self._take(batch)
            results = self._commit_all([waiter.intent for waiter in batch])
        except BaseException as error:
            for waiter in batch:
                waiter.result = _for_others(error, waiter.intent)
                waiter.done.set()
            raise
        for waiter, result in zip(batch, results, strict=True):
            waiter.result = result
            waiter.done.set()

    def _withdraw(self, waiter: _Waiter) -> None:
        with self._guard:
            if waiter in self._queue:
                self._queue.remove(waiter)

    def _take(self, batch: list[_Waiter]) -> None:
        """As much of the queue's head as one transaction object takes; never nothing."""
        with self._guard:
            actions = size_bytes = 0
            while self._queue and len(batch) < MAX_MEMBERS:
                if self._queue[0].done.is_set():  # taken before by one who was interrupted here
                    self._queue.popleft()
                    continue
                intent = self._queue[0].intent
                actions += len(intent.actions)
                size_bytes += _message_bytes(intent)
                if batch and (actions > MAX_ACTIONS or size_bytes > MAX_BYTES):
                    break
                batch.append(self._queue[0])
                self._queue.popleft()


def _for_others(error: BaseException, intent: Intent) -> BaseException:
    """What the leader's error means to those whom it committed for: an interrupt is its own."""
    if isinstance(error, Exception):
        return error
    transaction_id = intent.transaction_id
    return outcome_unknown_error(
        f"transaction {transaction_id.hex()}, which another thread was committing", transaction_id
    )


def _message_bytes(intent: Intent) -> int:
    """What an intent takes of the message, but for adds: many of those go into columns."""
    kept = (action for action in intent.actions if action.WhichOneof("kind") != "add")
    return intent.member().ByteSize() + sum(action.ByteSize() for action in kept)
