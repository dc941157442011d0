"""What becomes of the transactions that a committer sends: one fate each, and how fates may change.
Pure.

Whoever commits asks the store for a name and may never hear the answer. From before the put a
transaction is in doubt; what stands in the log tells, whoever else has said something.

Source: docs/format.md, section 10; docs/protocol.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from ..format.names import LogObject
    from ..format.objects import DecodedTransaction


class Fate(Enum):
    """Where a transaction is on its way into the log."""

    WAITING = auto()
    """Nothing of it was ever written: it was not sent, or the store refused it."""
    SENT = auto()
    """In doubt: a put was begun, and nobody knows whether it took effect."""
    LOST = auto()
    """Another one stands under the name that it was sent to: it may be sent to the next one."""
    PRUNED = auto()
    """In doubt for good: its name was pruned before anybody looked. It is never sent again."""
    STANDS = auto()
    """It is in the log."""


# What stands in the log stands, whatever was believed before. It is sent again only if the one who
# would have told of it was interrupted, and a listing missed it: it then finds its own object.
TRANSITIONS: Final[dict[Fate, frozenset[Fate]]] = {
    Fate.WAITING: frozenset({Fate.SENT, Fate.STANDS}),
    Fate.SENT: frozenset(Fate),
    Fate.LOST: frozenset({Fate.SENT, Fate.STANDS}),
    Fate.PRUNED: frozenset({Fate.PRUNED, Fate.LOST, Fate.STANDS}),
    Fate.STANDS: frozenset({Fate.STANDS, Fate.SENT}),
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A transaction object as it is sent, for one or more transactions.

    Attributes:
        item: Its name.
        body: Its bytes.
        decoded: What they say.
        ids: The transactions in it.
    """

    item: LogObject
    body: bytes
    decoded: DecodedTransaction
    ids: tuple[bytes, ...]

    @property
    def key(self) -> str:
        """Where it is put."""
        return self.decoded.key


class Attempts:
    """The fates of all transactions that one committer has ever sent."""

    def __init__(self) -> None:
        self._fates: dict[bytes, tuple[Fate, Attempt | None]] = {}
        self._has_stood = False
        self._digests: dict[bytes, frozenset[bytes]] = {}

    @property
    def own(self) -> AbstractSet[bytes]:
        """Ids of all that were ever sent."""
        return self._fates.keys()

    @property
    def has_stood(self) -> bool:
        """Whether any of them is known to stand."""
        return self._has_stood

    def fate(self, transaction_id: bytes) -> Fate:
        """Where a transaction is."""
        return self._fates.get(transaction_id, (Fate.WAITING, None))[0]

    def may_stand(self, transaction_id: bytes) -> bool:
        """Whether a transaction is in the log, as far as anybody knows, or in doubt."""
        return self.fate(transaction_id) not in (Fate.WAITING, Fate.LOST)

    def digests(self, transaction_id: bytes) -> frozenset[bytes]:
        """Of all objects that were ever sent with a transaction in them."""
        return self._digests.get(transaction_id, frozenset())

    def in_doubt(self, transaction_id: bytes) -> Attempt | None:
        """The attempt of a transaction of which nobody knows whether it stands; None otherwise."""
        return self._fates.get(transaction_id, (Fate.WAITING, None))[1]

    def unanswered(self, ids: Iterable[bytes], digest: bytes) -> Attempt | None:
        """An attempt in doubt that one of these was in, and that follows the object of a digest."""
        for one in ids:
            sent = self.in_doubt(one)
            if sent is not None and sent.decoded.message.previous_digest == digest:
                return sent
        return None

    def sends(self, attempt: Attempt) -> list[bytes]:
        """A put is about to begin: from here on, whatever interrupts it, they are in doubt.

        Returns:
            Those that were not in doubt before.
        """
        fresh = [one for one in attempt.ids if self.fate(one) is not Fate.SENT]
        for one in attempt.ids:
            self._digests[one] = self.digests(one) | {attempt.decoded.digest}
        self._move(attempt.ids, Fate.SENT, attempt)
        return fresh

    def refused(self, ids: Iterable[bytes]) -> None:
        """The store refused the put: nothing was written."""
        self._move(ids, Fate.WAITING)

    def lost(self, ids: Iterable[bytes]) -> None:
        """Another one stands where they were sent to."""
        self._move(ids, Fate.LOST)

    def stands(self, transaction_id: bytes) -> None:
        """The log has it."""
        self._has_stood = True
        self._move((transaction_id,), Fate.STANDS)

    def pruned(self, transaction_id: bytes) -> None:
        """The place that it was sent to is gone."""
        self._move((transaction_id,), Fate.PRUNED, self.in_doubt(transaction_id))

    def _move(self, ids: Iterable[bytes], to: Fate, attempt: Attempt | None = None) -> None:
        for transaction_id in ids:
            fate = self.fate(transaction_id)
            assert to in TRANSITIONS[fate], f"{transaction_id.hex()} can't be {to} after {fate}"
            self._fates[transaction_id] = (to, attempt)
