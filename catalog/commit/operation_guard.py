"""Which operation a transaction turns out to be, while it is gathered: what its writer may not do,
or it was declared not to be, is refused before anything is written for it.

Source: docs/changing.md, "Operations".
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ...errors import OperationInvalid, OperationNotAllowed, UsageError
from ..format.frame import MAX_MESSAGE_BYTES
from ..format.objects import OPERATIONS
from ..log.build import too_large
from ..log.operations import check_asked, check_kinds, inferred, reachable
from ..scalars import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ..log.build import Intent
    from ..wire import lakelog_transaction_pb2 as wire


_PLAIN: Final = frozenset({"append", "delete"})  # may turn out to be a part of something else


def check_operations(operations: Any) -> frozenset[str] | None:
    """Returns the operations that a writer is opened for; None for all. Raises `UsageError` for
    anything but names of operations."""
    if operations is None:
        return None
    is_list = isinstance(operations, Iterable) and not isinstance(operations, str | bytes)
    found = {value_of(name) for name in operations} if is_list else set()
    if not found or not found <= OPERATIONS:
        raise UsageError(
            f"operations= can't be {operations!r:.80}",
            hint=f"Give some of {', '.join(sorted(OPERATIONS))}, e.g. operations={{'append'}}; "
            "leave it out to allow all",
        )
    return frozenset(found)


def refuse_other(operation: str, allowed: Collection[str] | None) -> None:
    """Raises `OperationNotAllowed` if a writer wasn't opened for an operation."""
    if allowed is not None and operation not in allowed:
        raise _not_allowed(operation, allowed)


def check_commit(intent: Intent, allowed: Collection[str] | None) -> None:
    """Raises `OperationNotAllowed` or `OperationInvalid` if a writer wasn't opened for a commit, or
    it does what it was declared not to."""
    check_kinds(intent.operation, intent.actions)
    if allowed is None or not intent.actions:
        return
    operation = intent.said_operation
    if operation == "maintenance":  # which may do anything: what counts is what it does
        operation = inferred(intent.actions, intent.asked)
    if operation == "maintenance" and not intent.operation and len(intent.asked) == 1:
        (operation,) = intent.asked  # data without rows: only a schema comes
    refuse_other(operation, allowed)


class OperationGuard:
    """What one transaction was asked to do so far; `allowed` are the operations that its writer was
    opened for, None: all."""

    def __init__(self, intent: Intent, allowed: frozenset[str] | None) -> None:
        self._intent = intent
        self._allowed = allowed
        self._within = False
        self._broken_by = self._cause = ""

    def ask(self, operation: str) -> None:
        """An operation is about to begin; as a part of another one it doesn't count. Raises
        `OperationNotAllowed` or `OperationInvalid` if it can't be, and `UsageError` after one that
        broke off."""
        self.check_whole()
        if self._within:
            return
        check_asked(self._intent.operation, operation)
        if self._allowed is not None and not self._intent.operation:
            if operation not in _PLAIN:
                refuse_other(operation, self._allowed)
            elif self._allowed.isdisjoint(reachable({*self._intent.asked, operation})):
                raise _not_allowed(operation, self._allowed)
        self._intent.asked.add(operation)

    @contextmanager
    def doing(
        self, operation: str, table: str, begun: Callable[[], bool] = lambda: True
    ) -> Iterator[None]:
        """Runs an operation of several steps: if it breaks off once anything of it is there
        (`begun`), the whole transaction is lost, since half of it must never be committed."""
        was_within, self._within = self._within, True
        try:
            yield
        except BaseException as error:
            if begun():
                self._broken_by = f"{operation} of table {table!r} broke off"
                self._cause = f"{error}" or type(error).__name__
            raise
        finally:
            self._within = was_within

    def check_whole(self) -> None:
        """Raises `UsageError` if a part of the transaction is missing."""
        if self._broken_by:
            raise UsageError(
                f"The {self._broken_by}, and the transaction is lost with it: {self._cause}",
                key=self._intent.transaction_id.hex(),
                hint="Nothing of it becomes visible. Begin another transaction",
            )


def _not_allowed(operation: str, allowed: Collection[str]) -> OperationNotAllowed:
    return OperationNotAllowed(
        f"This writer was opened for {', '.join(sorted(allowed))}, and this is {operation}",
        key=operation,
        hint="Nothing was committed. Open it with other operations=, or without",
    )


def rows_lost(what: str, table: str, wanted: int, found: int) -> OperationInvalid:
    """The error of an operation that would have lost or doubled rows: a fault of lakelog's own, or
    of the data that it was given."""
    return OperationInvalid(
        f"The {what} of table {table!r} has {wanted:,} rows to keep, and wrote {found:,}",
        key=table,
        hint="Nothing becomes visible; the transaction is lost",
    )


_FRAMING: Final = 2  # bytes at least, around an action


class MessageSize:
    """Counts actions that are no adds. A commit may need a little more, and is refused then."""

    def __init__(self, member: wire.Member) -> None:
        self._bytes = member.ByteSize()

    def check(self, actions: Sequence[wire.Action]) -> int:
        """Returns the size with some more actions. Raises `UsageError` if they don't fit."""
        size_bytes = self._bytes + sum(action.ByteSize() + _FRAMING for action in actions)
        if size_bytes > MAX_MESSAGE_BYTES:
            raise too_large(size_bytes)
        return size_bytes

    def take(self, actions: Sequence[wire.Action]) -> None:
        """The same, and they are counted."""
        self._bytes = self.check(actions)
