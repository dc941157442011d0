"""Putting one transaction object under the name of its revision, whatever becomes of the answer.

On a store with put-if-absent the name is agreed and one put wins it; on a plain store the name is
random, and looking before and after tells whether anybody else stands on the revision. What was
put and got no answer stays in doubt until the log tells: `log.attempts` has its fate.

Source: docs/format.md, section 10; docs/protocol.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import (
    AccessDenied,
    CapabilityMissing,
    CommitOutcomeUnknown,
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
    from ..log.attempts import Attempt, Attempts
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

    Args:
        attempts: Told what becomes of them.
    """

    def __init__(
        self, log: LogReader, attempts: Attempts, ambient: Ambient, *, exclusive: bool
    ) -> None:
        self.exclusive = exclusive
        self._attempts = attempts
        self._log = log
        self._ambient = ambient

    def put(self, attempt: Attempt) -> bool:
        """Whether this object now stands, and stands alone, on its revision; False if somebody
        else's does, or if only a replay can tell.

        Raises:
            CommitOutcomeUnknown: The store gave no answer, and what it holds doesn't tell either.
            ForkError: A plain store, and two names on one revision.
            AccessDenied, CapabilityMissing, NotFoundError, UsageError: Nothing was written.
        Requests: 1 PUT on an exclusive store, and 1 GET if the name is taken or the put refused;
            LIST, PUT, LIST on a plain one.
        """
        return self._exclusive(attempt) if self.exclusive else self._plain(attempt)

    def pause(self, turn: int) -> None:
        """Wait a little, longer with each turn and never for as long as anybody else."""
        share = int.from_bytes(self._ambient.new_id()[:2], "little") / 65_536
        self._ambient.sleep_s(min(2.0, _PAUSE_S * 2 ** min(turn, 6)) * (0.5 + share))

    # --- With put-if-absent -----------------------------------------------------------------------

    def _exclusive(self, attempt: Attempt) -> bool:
        unsent, cause = self._attempts.sends(attempt), None
        for turn in range(ATTEMPTS):
            try:
                self._log.store.put(attempt.key, attempt.body, if_absent=True)
                return True
            except ObjectExists:
                return self._read_back(attempt)
            except LakelogError as error:
                cause = error
                self._no_answer(error, unsent, attempt.key, first=turn == 0)
            self.pause(turn)
        raise _unknown(attempt) from cause

    def _no_answer(
        self, error: LakelogError, unsent: Sequence[bytes], key: str, *, first: bool
    ) -> None:
        """A put without an answer, unless the answer is that nothing was written.

        A client may have sent the request twice, and show the answer to the second: so even a
        refusal is believed only if nothing is there.
        """
        if first and isinstance(error, _REFUSED) and self._is_absent(key):
            self._attempts.refused(unsent)
            raise error

    def _is_absent(self, key: str) -> bool:
        try:
            self._log.store.get(key)
        except ObjectNotFound:
            return True
        except LakelogError:
            return False
        return False

    def _read_back(self, attempt: Attempt) -> bool:
        """Whether it is this very body that stands under its key; in doubt until that is known."""
        key, ids = attempt.key, attempt.ids
        for turn in range(ATTEMPTS):
            try:
                found = self._log.store.get(key)
                is_own = found == attempt.body
                if not is_own and decode_transaction(found, key).transaction_ids.isdisjoint(ids):
                    self._attempts.lost(ids)
                return is_own
            except (ObjectNotFound, CorruptError):
                return False  # pruned since, or damaged: the replay tells what stands there
            except StorageError:
                self.pause(turn)
        raise _unknown(attempt)

    # --- Without ----------------------------------------------------------------------------------

    def _plain(self, attempt: Attempt) -> bool:
        item = attempt.item
        listing = self._log.names_down_to(item.revision - 1)
        if len(listing.transactions.get(item.revision - 1, ())) > 1:
            raise fork_error(listing, item.revision - 1)  # a rival of the head came late
        if listing.head >= item.revision or _is_over(listing, item):
            return False
        self._put_plain(attempt)
        try:
            listing = self._log.names_down_to(item.revision)
        except StorageError as error:
            raise _unknown(attempt) from error
        names = listing.transactions.get(item.revision, [])
        if len(names) > 1:
            raise fork_error(listing, item.revision)
        if item not in names and not _is_over(listing, item):
            raise _unknown(attempt)
        # If somebody went on from here already, the replay tells whose transaction this is.
        return listing.head == item.revision and not _is_over(listing, item)

    def _put_plain(self, attempt: Attempt) -> None:
        unsent, cause = self._attempts.sends(attempt), None
        for turn in range(ATTEMPTS):
            try:
                self._log.store.put(attempt.key, attempt.body)
                return
            except LakelogError as error:
                cause = error
                self._no_answer(error, unsent, attempt.key, first=turn == 0)
                self.pause(turn)
        raise _unknown(attempt) from cause


def _unknown(attempt: Attempt) -> CommitOutcomeUnknown:
    return outcome_unknown_error(attempt.key, attempt.ids[0])
