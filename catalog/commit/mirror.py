"""The log is written twice: when the second copy of a transaction is put, and who waits for it.

The rule:

1. Only what is known to be committed is copied: the answer of the put, or a replay, said so. So
   nothing in the mirror ever has to be weighed: it is the log.
2. The copy of revision r is put beside commit r+1, and **nobody sends r+2 before the copy of r is
   there**. A commit waits for no copy of its own; and at any moment only the two newest revisions
   can lack one.
3. So whoever sees revision h committed, whoever did it, knows that everything up to h-2 has a copy.
   After a lost race only the copies of h-1 and h are in question.
4. Closing a writer waits for the copies of all that it knows to be committed. (A commit of unknown
   outcome may land later; the next opening completes the mirror.)
5. Whoever opens a log for writing lists the newest names of both places, the mirror first, and
   completes the mirror before its first commit. (The other way round a living writer commits and
   copies between the two listings.) If the mirror goes further than the log, the log has lost its
   end, and nothing is committed until it is repaired.
6. What is put is put in the log first and in the mirror second. What is deleted (prune) is deleted
   in the log first and in the mirror second, after the checkpoint from which the retained log
   begins, and its segments, have been put into the mirror.

A copy is put if absent, with the bytes that the log has. If other bytes stand under its name, the
log had lost its end and went on otherwise: nothing more is committed. If a copy can't be put, the
commit after the next fails before it is sent: never more than two revisions lack a copy.

Source: docs/protocol.md; docs/format.md, section 4.8.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...errors import (
    CorruptError,
    LakelogError,
    LostTail,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from ..format.frame import FrameKind, decode_frame
from ..format.names import LogObject, mirror_key, segments_folder
from ..format.objects import decode_transaction
from ..parallel import parallel
from ..read.mirror import MirrorWarning, repair_command

if TYPE_CHECKING:
    from ..log.listing import Listing
    from ..log.state import State
    from ..read.log_reader import LogReader

_MOST_AT_OPENING = 100  # copies that an opening puts; more are a matter for repair


@dataclass(slots=True)
class _Copy:
    """The copy of one revision, on its way.

    Attributes:
        key: The transaction's own key.
        digest: Of the transaction.
        body: Its bytes; None: still to be read from the log.
        error: What the last try to put it raised.
    """

    key: str
    digest: bytes
    body: bytes | None
    thread: threading.Thread | None = None
    is_there: bool = False
    error: LakelogError | None = field(default=None)


def _without_copies(listing: Listing, copies: Listing) -> list[int]:
    """The newest revisions of a log that lack their copies, in order."""
    newest = copies.transactions if copies.incarnation == listing.incarnation else {}
    head = copies.head if newest else -1
    return sorted(
        revision
        for revision, names in listing.transactions.items()
        # Copies of two revisions are put at once: the newer one may be there alone.
        if len(names) == 1  # of a fork nobody knows which one is committed
        and (revision > head or (revision >= listing.head - 1 and revision not in newest))
    )[-_MOST_AT_OPENING:]


class Mirror:
    """Puts the copies of one log's transactions. Not safe for threads: its committer's turn is.

    Args:
        exclusive: Whether the store has put-if-absent.
        in_background: Whether threads put the copies; else each is put when it is waited for.
    """

    def __init__(self, log: LogReader, *, exclusive: bool, in_background: bool) -> None:
        self._log = log
        self._exclusive = exclusive
        self._in_background = in_background
        self._copied = -1  # every revision up to this one has a copy
        self._copies: dict[int, _Copy] = {}

    def complete(self, listing: Listing, copies: Listing) -> None:
        """Puts the copies that a log lacks, as it was opened.

        Args:
            listing, copies: The newest names of the log and of its mirror, which was listed first.
        Raises:
            StorageError: One can't be put.
        Warns:
            MirrorWarning: More are missing than any interrupted writer leaves.
        Requests: none if the mirror is complete; else 1 GET and 1 PUT for each copy, and 1 LIST
            where more than two are missing.
        """
        if copies.incarnation != listing.incarnation and listing.incarnation > 1:
            names = self._log.names(listing.incarnation)
            item = names.checkpoints[min(names.checkpoints)][0]
            copy_checkpoint(self._log, item, exclusive=self._exclusive)
        missing = _without_copies(listing, copies)
        if len(missing) > 2:  # others may have committed between the two listings
            missing = _without_copies(listing, self._log.newest_copies())
        for revision in missing:
            self._start(revision, listing.key(listing.transactions[revision][0]), b"", None)
        if len(missing) > 2:
            warnings.warn(
                f"The mirror of {listing.writer}/{listing.database} lacks revisions up to "
                f"{listing.head}: more than an interrupted writer leaves. "
                f"{repair_command(listing.writer, listing.database)} completes it",
                MirrorWarning,
                stacklevel=6,
            )
        for revision in missing:
            self._finish(revision)
        self._copied = max(self._copied, listing.head)

    def begin(self, revision: int) -> None:
        """Takes note that a log begins with a checkpoint of a revision, which has its copy."""
        self._copied = max(self._copied, revision)

    @property
    def is_pending(self) -> bool:
        """Whether a copy was begun and not waited for."""
        return bool(self._copies)

    def committed(self, revision: int, key: str, digest: bytes, body: bytes) -> None:
        """Begins to put the copy of an own commit that is known to be in the log."""
        self._start(revision, key, digest, body)

    def seen(self, revision: int) -> None:
        """Takes note that others have committed up to a revision."""
        self._copied = max(self._copied, revision - 2)

    def before_send(self, state: State) -> None:
        """Waits until the revision after a state's head may be sent: until everything below the
        head has a copy. Begins the head's own copy, beside what is sent.

        Raises:
            StorageError: A copy can't be put. Nothing was sent.
        Requests: none in a log of one writer; 1 HEAD for each of the two newest revisions that
            others have committed, and 1 GET and 1 PUT if it lacks its copy.
        """
        self._need(state, state.revision - 1)
        if state.revision > self._copied and state.revision not in self._copies:
            self._start(state.revision, *self._key(state, state.revision), None)

    def close(self, state: State) -> None:
        """Waits until everything up to a state's head has a copy.

        Raises:
            LostTail: Another transaction has the name of a copy.
        Warns:
            MirrorWarning: A copy can't be put. The next opening for writing puts it.
        """
        try:
            self._need(state, state.revision)
        except LostTail:
            raise
        except LakelogError as error:
            warnings.warn(
                f"{error.message}. The commits are safe in the log; the next writer that opens it "
                "puts the copy",
                MirrorWarning,
                stacklevel=4,
            )

    # --- One copy ---------------------------------------------------------------------------------

    def _need(self, state: State, revision: int) -> None:
        for number in range(self._copied + 1, revision + 1):
            if number not in self._copies:
                self._start(number, *self._key(state, number), None)
        for number in range(self._copied + 1, revision + 1):
            self._finish(number)
        self._copied = max(self._copied, revision)

    def _key(self, state: State, revision: int) -> tuple[str, bytes]:
        """Returns key and digest of a state's head, or of the transaction below it."""
        assert state.log is not None
        uuid, digest = state.uuid, state.digest
        if revision < state.revision:
            if state.tail:
                head = state.tail[-1]
            else:  # a checkpoint is the head, and doesn't name what is below it
                head = self._log.transaction(self._item(state, state.revision, uuid))
            uuid, digest = head.message.previous_uuid, head.message.previous_digest
        return self._log.folder + self._item(state, revision, uuid).name, digest

    @staticmethod
    def _item(state: State, revision: int, uuid: bytes) -> LogObject:
        assert state.log is not None
        return LogObject(state.log.incarnation, revision, uuid[:4].hex(), "transaction")

    def _start(self, revision: int, key: str, digest: bytes, body: bytes | None) -> None:
        copy = self._copies[revision] = _Copy(key, digest, body)
        if self._in_background:
            thread = threading.Thread(target=self._try, args=(copy,), name="lakelog-mirror")
            thread.start()
            copy.thread = thread  # an interrupted start leaves none: `_finish` puts the copy then

    def _finish(self, revision: int) -> None:
        """Waits for a copy, and tries once more if it failed."""
        copy = self._copies.get(revision)
        if copy is None:
            return
        if copy.thread is not None:
            copy.thread.join()
            copy.thread = None
        if not copy.is_there:
            self._try(copy)
        if isinstance(copy.error, LostTail):
            raise copy.error
        if copy.error is not None:
            raise StorageError(
                f"The copy of revision {revision} could not be put: {copy.error.message}",
                key=mirror_key(copy.key),
                hint="The commit of that revision is safe. Nothing more is committed before it has "
                "its copy: commit again once the store takes it",
            ) from copy.error
        del self._copies[revision]

    def _try(self, copy: _Copy) -> None:
        copy.error = None
        try:
            self._put(copy)
        except LakelogError as error:
            copy.error = error
        else:
            copy.is_there = True

    def _put(self, copy: _Copy) -> None:
        """Puts one copy. Raises `LostTail` if another transaction has its name, `StorageError` if
        it can't be put, and `CorruptError` if the original can't be read."""
        store, key = self._log.store, mirror_key(copy.key)
        if copy.body is None:
            if copy.digest and self._is_there(key, copy.digest):
                return
            try:
                body = store.get(copy.key)
            except ObjectNotFound:
                return  # pruned since
            copy.digest = decode_transaction(body, copy.key).digest
            copy.body = body
        try:
            store.put(key, copy.body, if_absent=self._exclusive)
        except ObjectExists:
            self._is_there(key, copy.digest)

    def _is_there(self, key: str, digest: bytes) -> bool:
        """Checks whether the copy of a transaction is there. Raises `LostTail` if it is of another
        one.

        Requests: 1 GET.
        """
        try:
            found = decode_transaction(self._log.store.get(key), key).digest
        except (ObjectNotFound, CorruptError):
            return False  # a damaged copy is a matter for repair
        if found != digest:
            where = f"{self._log.writer}/{self._log.database}"
            raise LostTail(
                f"{key} is the copy of another transaction than the log has under this name: the "
                f"log of {where} had lost its end, and went on",
                key=key,
                hint=f"Stop the writers of {where}. `lakelog check URL {self._log.database} "
                f"--writer {self._log.writer}` shows both transactions",
            )
        return True


def copy_checkpoint(log: LogReader, item: LogObject, *, exclusive: bool) -> None:
    """Puts the copies of a checkpoint and its segments into the mirror: segments first.

    Args:
        exclusive: Whether the store has put-if-absent.
    Raises:
        ObjectNotFound, CorruptError: The checkpoint or a segment can't be read.
        StorageError: A copy can't be put.
    Requests: 1 GET and 1 PUT for the checkpoint and for each of its segments.
    """
    state = log.checkpoint_state(item)
    assert state.base is not None
    names = dict.fromkeys(p.name for p in (state.base.references, *state.pieces) if p.name)
    folder = segments_folder(log.writer, log.database)

    def put(key: str, kind: FrameKind) -> None:
        body = log.store.get(key)
        decode_frame(body, kind, key)
        with contextlib.suppress(ObjectExists):
            log.store.put(mirror_key(key), body, if_absent=exclusive)

    parallel(lambda name: put(folder + name, FrameKind.SEGMENT), names)
    put(log.folder + item.name, FrameKind.CHECKPOINT)
