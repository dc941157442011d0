"""What a transaction takes of its object's message, as far as it is known before the commit. Pure.

Added files go into columns beside the message, in any number. All else stands in it: who gathers
too much is told at once, before anything more is written for it.

Source: docs/format.md, sections 3.2 and 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..format.frame import MAX_MESSAGE_BYTES
from ..log.build import too_large

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..wire import lakelog_transaction_pb2 as wire

_FRAMING: Final = 2  # bytes at least, around an action


class Room:
    """Counts actions that are no adds. A commit may need a little more, and is refused then."""

    def __init__(self, member: wire.Member) -> None:
        self._bytes = member.ByteSize()

    def check(self, actions: Sequence[wire.Action]) -> int:
        """Raise if there is no room for some more actions; the bytes that would be taken with them.

        Raises:
            UsageError: They don't fit. Nothing is changed.
        """
        size_bytes = self._bytes + sum(action.ByteSize() + _FRAMING for action in actions)
        if size_bytes > MAX_MESSAGE_BYTES:
            raise too_large(size_bytes)
        return size_bytes

    def take(self, actions: Sequence[wire.Action]) -> None:
        """The same, and they are counted."""
        self._bytes = self.check(actions)
