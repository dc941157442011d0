"""Putting one transaction object under the name of its revision, whatever becomes of the answer.

On a store with put-if-absent the name is agreed and one put wins it; on a plain store the name is
random, and looking before and after tells whether anybody else stands on the revision. What was
put and got no answer stays in `in_doubt` until the log tells.

Source: docs/format.md, sections 10.1 and 10.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import (
    AccessDenied,
    CapabilityMissing,
    CorruptError,
    LakelogError,
    NotFoundError,
    ObjectExists,
    ObjectNotFound,
    StorageError,
    UsageError,
)
from ..format.objects import decode_transaction
from ..log.listing import fork_error
from ..log.outcome import outcome_unknown_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..ambient import Ambient
    from ..format.names import LogObject
    from ..log.listing import Listing
    from ..read.log_reader import LogReader

ATTEMPTS: Final = 4
# Answers that say that nothing was written.
_REFUSED: Final = (AccessDenied, CapabilityMissing, NotFoundError, UsageError)
_PAUSE_S: Final = 0.05


def _is_over(listing: Listing, item: LogObject) -> bool:
    """Whether the log goes on in another incarnation than that of a name."""
    return listing.incarnation not in (0, item.incarnation)


class Publisher:
    """Puts transaction objects into one log.

    Attributes:
        in_doubt: Transaction id to key, of puts whose outcome nobody knows.
    """

    def __init__(self, log: LogReader, ambient: Ambient, *, exclusive: bool) -> None:
        self.exclusive = exclusive
        self.in_doubt: dict[bytes, str] = {}
        self._log = log
        self._ambient = ambient

    def put(self, item: LogObject, body: bytes, ids: Sequence[bytes]) -> bool:
        """Whether this body now stands, and stands alone, on its revision; False if somebody
        else's does, or if only a replay can tell.

        Args:
            ids: Transaction ids of the members in the body.
        Raises:
            CommitOutcomeUnknown: The store gave no answer, and what it holds doesn't tell either.
            ForkError: A plain store, and two names on one revision.
            AccessDenied, CapabilityMissing, NotFoundError, UsageError: Nothing was written.
        Requests: 1 PUT on an exclusive store, and 1 GET if the name is taken or the put refused;
            LIST, PUT, LIST on a plain one.
        """
        return self._exclusive(item, body, ids) if self.exclusive else self._plain(item, body, ids)

    def doubt(self, ids: Sequence[bytes], key: str) -> None:
        """From here on nobody knows whether these stand."""
        self.in_doubt.update(dict.fromkeys(ids, key))

    def settled(self, ids: Sequence[bytes]) -> None:
        """It is known what became of these."""
        for transaction_id in ids:
            self.in_doubt.pop(transaction_id, None)

    def pause(self, attempt: int) -> None:
        """Wait a little, longer with each attempt and never for as long as anybody else."""
        share = int.from_bytes(self._ambient.new_id()[:2], "little") / 65_536
        self._ambient.sleep_s(min(2.0, _PAUSE_S * 2 ** min(attempt, 6)) * (0.5 + share))

    # --- With put-if-absent -----------------------------------------------------------------------

    def _exclusive(self, item: LogObject, body: bytes, ids: Sequence[bytes]) -> bool:
        key = self._log.folder + item.name
        unsent, cause = self._before_put(ids, key), None
        for attempt in range(ATTEMPTS):
            try:
                self._log.store.put(key, body, if_absent=True)
                return True
            except ObjectExists:
                return self._read_back(key, body, ids)
            except LakelogError as error:
                cause = error
                self._no_answer(error, unsent, key, first=attempt == 0)
            self.pause(attempt)
        raise outcome_unknown_error(key, ids[0]) from cause

    def _before_put(self, ids: Sequence[bytes], key: str) -> list[bytes]:
        """In doubt from before the put, so that whatever interrupts it leaves them so. Returns
        those that were not in doubt before."""
        unsent = [transaction_id for transaction_id in ids if transaction_id not in self.in_doubt]
        self.doubt(ids, key)
        return unsent

    def _no_answer(
        self, error: LakelogError, unsent: Sequence[bytes], key: str, *, first: bool
    ) -> None:
        """A put without an answer, unless the answer is that nothing was written.

        A client may have sent the request twice, and show the answer to the second: so even a
        refusal is believed only if nothing is there.
        """
        if first and isinstance(error, _REFUSED) and self._is_absent(key):
            self.settled(unsent)
            raise error

    def _is_absent(self, key: str) -> bool:
        try:
            self._log.store.get(key)
        except ObjectNotFound:
            return True
        except LakelogError:
            return False
        return False

    def _read_back(self, key: str, body: bytes, ids: Sequence[bytes]) -> bool:
        """Whether it is this very body that stands under its key; in doubt until that is known."""
        self.doubt(ids, key)
        for attempt in range(ATTEMPTS):
            try:
                found = self._log.store.get(key)
                if found != body and decode_transaction(found, key).transaction_ids.isdisjoint(ids):
                    self.settled(ids)
                return found == body
            except (ObjectNotFound, CorruptError):
                return False  # pruned since, or damaged: the replay tells what stands there
            except StorageError:
                self.pause(attempt)
        raise outcome_unknown_error(key, ids[0])

    # --- Without ----------------------------------------------------------------------------------

    def _plain(self, item: LogObject, body: bytes, ids: Sequence[bytes]) -> bool:
        key = self._log.folder + item.name
        listing = self._log.names_down_to(item.revision - 1)
        if len(listing.transactions.get(item.revision - 1, ())) > 1:
            raise fork_error(listing, item.revision - 1)  # a rival of the head came late
        if listing.head >= item.revision or _is_over(listing, item):
            return False
        self._put_plain(key, body, ids)
        try:
            listing = self._log.names_down_to(item.revision)
        except StorageError as error:
            raise outcome_unknown_error(key, ids[0]) from error
        names = listing.transactions.get(item.revision, [])
        if len(names) > 1:
            raise fork_error(listing, item.revision)
        if item not in names and not _is_over(listing, item):
            raise outcome_unknown_error(key, ids[0])
        # If somebody went on from here already, the replay tells whose transaction this is.
        return listing.head == item.revision and not _is_over(listing, item)

    def _put_plain(self, key: str, body: bytes, ids: Sequence[bytes]) -> None:
        unsent, cause = self._before_put(ids, key), None
        for attempt in range(ATTEMPTS):
            try:
                self._log.store.put(key, body)
                return
            except LakelogError as error:
                cause = error
                self._no_answer(error, unsent, key, first=attempt == 0)
                self.pause(attempt)
        raise outcome_unknown_error(key, ids[0]) from cause
