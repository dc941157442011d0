"""What a transaction takes of its object's message, as far as it is known before the commit. Pure.

Added files go into columns beside the message, in any number. All else stands in it: who gathers
too much is told at once, before anything more is written for it.

Source: docs/format.md, sections 3.2 and 11.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..format.frame import MAX_MESSAGE_BYTES
from ..format.messages import MAX_TINY
from ..log.build import too_large, too_many_tiny

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..wire import lakelog_transaction_pb2 as wire

_FRAMING: Final = 2  # bytes at least, around an action
# As `format.messages` counts them, a byte after a byte.
_TINY: Final = re.compile(
    b"[" + b"".join(rb"\x%02x" % byte for byte in range(2, 256, 8)) + rb"](?=[\x00-\x07])"
)


class Room:
    """Counts actions that are no adds. A commit may need a little more, and is refused then."""

    def __init__(self, member: wire.Member) -> None:
        self._bytes = member.ByteSize()
        self._tiny = 0

    def check(self, actions: Sequence[wire.Action]) -> tuple[int, int]:
        """Raise if there is no room for some more actions; what would be taken with them.

        Raises:
            UsageError: They don't fit. Nothing is changed.
        """
        found = [action.SerializeToString() for action in actions]
        size_bytes = self._bytes + sum(len(data) + _FRAMING for data in found)
        tiny = self._tiny + sum(len(_TINY.findall(data)) for data in found)
        if size_bytes > MAX_MESSAGE_BYTES:
            raise too_large(size_bytes)
        if tiny > MAX_TINY:
            raise too_many_tiny(tiny)
        return size_bytes, tiny

    def take(self, actions: Sequence[wire.Action]) -> None:
        """The same, and they are counted."""
        self._bytes, self._tiny = self.check(actions)
