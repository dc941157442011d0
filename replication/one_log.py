"""The replication of one log: how far the replica is, and whether it is one; then, up to the newest
revision of the source, what a few transactions name and these transactions, one after the other,
under their own names.

A replica's newest revision must be the source's very transaction of that number. At every moment
the destination holds the beginning of the source's log with all that it names. So a run that ends
anywhere, for any reason, leaves a replica of an earlier revision, and the next one goes on from its
head.

Source: docs/replication.md, "What a replica is" and "How it works".
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from ..catalog.commit.mirror import Mirror, copy_checkpoint
from ..catalog.format.frame import HEADER_BYTES
from ..catalog.format.names import REPLICA_MARK, base_folder, mirror_key, segments_folder
from ..catalog.format.objects import DecodedTransaction, decode_checkpoint, decode_transaction
from ..catalog.log.admission import check_writer_features
from ..catalog.log.listing import fork_error
from ..catalog.log.replay import apply, check_link
from ..catalog.log.state import State, empty_state
from ..catalog.margins import CHECKPOINT_EVERY
from ..catalog.read.log_folder import PAUSE_S
from ..catalog.read.log_reader import CheckpointWarning
from ..catalog.read.mirror import refuse_lost_end
from ..errors import (
    CorruptError,
    ForeignLog,
    ForkError,
    LakelogError,
    MissingTransaction,
    ObjectNotFound,
    SnapshotPruned,
    UnsupportedFeature,
)  # fmt: skip
from .dependencies import Needs, needs_of, needs_of_state
from .reports import Copied, LogPlan
from .transfer import diverged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..catalog.catalog import Catalog
    from ..catalog.format.names import LogObject
    from ..catalog.log.listing import Listing
    from ..catalog.log.state import State
    from ..catalog.read.log_reader import LogReader
    from .dependencies import DataFile
    from .transfer import Transfer

_E = TypeVar("_E", bound=LakelogError)
_DIGEST_BYTES: Final = 32
_LISTINGS: Final = 3


@dataclass(slots=True)
class Position:
    """How far a replication of one log is.

    Attributes:
        source, replica: The log at both ends.
        listing: The source's names, from the head down to the replica's revision at least.
        state: The replica's head, to which the next transaction is applied; the empty state
            before the first revision of an incarnation that it hasn't got.
        base: The checkpoint to begin with; None: none.
        last: The revision to reach.
        begins_whole: Copy the transactions below the base too.
    """

    source: LogReader
    replica: LogReader
    listing: Listing
    state: State
    base: LogObject | None
    last: int
    begins_whole: bool = False


def find_position(source: LogReader, replica: LogReader, *, history: bool) -> Position:
    """Find how far both logs are.

    Args:
        history: Copy all that the source retains; else begin with its newest checkpoint.
    Raises:
        ReplicaDiverged: The destination's log is no copy of this one.
        SnapshotPruned: The source has pruned what the replica needs next.
        ForkError, MissingTransaction: The source's log can't be read.
    Requests: 1 LIST each, and more where they are long; 1 GET for a checkpoint of the replica's and
        each transaction after it; 1 GET of the source's transaction at that revision.
    """
    head = head_of(replica)
    for _ in range(_LISTINGS):
        listing = source.names_down_to(max(head.revision, 0)) if head.log else source.names()
        if head.log is None or listing.incarnation != head.log.incarnation:
            listing = source.names()
        try:
            return _position(source, replica, listing, head, history=history)
        except (MissingTransaction, SnapshotPruned) as error:
            failed: LakelogError = error  # believed once it was looked for more than once
            source.ambient.sleep_s(PAUSE_S)
    raise failed


def head_of(replica: LogReader) -> State:
    """The newest state of the destination's log; the empty one if there is none that can be read
    yet: of a higher incarnation than 1 the checkpoint comes last.

    Raises:
        CorruptError, ForkError: It can't be read; the message names the destination.
    """
    try:
        names = replica.names_for()
        if names.head < 0:
            return empty_state(replica.writer, replica.database)
        return replica.load(listing=names)
    except (CorruptError, ForkError) as error:
        raise destination_error(error, f"{replica.writer}/{replica.database}") from error


def _position(
    source: LogReader, replica: LogReader, listing: Listing, head: State, *, history: bool
) -> Position:
    where = f"{source.writer}/{source.database}"
    if listing.head < 0:
        raise diverged(f"The source has no log of {where} any more", where)
    for revision in listing.forks(max(head.revision, 0)):
        raise fork_error(listing, revision)
    if head.log is not None:
        if head.log.incarnation > listing.incarnation:
            there, here = head.log.incarnation, listing.incarnation
            why = f"incarnation {there}, the source is at {here}"
            raise diverged(f"The log of {where} was rebuilt at the destination: {why}", where)
        _refuse_other(source, listing, head)
        if head.log.incarnation == listing.incarnation:
            _refuse_gap(listing, head.revision)
            return Position(source, replica, listing, head, None, listing.head)
    empty, base = empty_state(source.writer, source.database), _base(listing, history=history)
    whole = history and listing.run_start(listing.head) == 0
    return Position(source, replica, listing, empty, base, listing.head, whole)


def _base(listing: Listing, *, history: bool) -> LogObject | None:
    """The checkpoint that a new replica begins with.

    Of an incarnation above 1 there must be one: it is what makes the incarnation count.
    """
    newest = max(listing.checkpoints, default=-1)
    whole = listing.run_start(listing.head) == 0
    if not history and newest >= 0:
        return listing.checkpoints[newest][0]
    if whole and listing.incarnation == 1:
        return None
    oldest = min(listing.checkpoints) if whole else listing.oldest_readable()
    if oldest not in listing.checkpoints:
        where = f"{listing.writer}/{listing.database}"
        raise _missing(f"The newest revisions of {where} can't be read", listing)
    return listing.checkpoints[oldest][0]


def _refuse_gap(listing: Listing, revision: int) -> None:
    """Refuse a source that lacks a transaction after the replica's revision."""
    start = listing.run_start(listing.head)
    if start <= revision + 1:
        return
    where = f"{listing.writer}/{listing.database}"
    if listing.lowest == 0 and start <= min(listing.transactions, default=start):
        raise _pruned(
            f"revision {revision + 1} of {where}, which comes next: the replica is at {revision}, "
            f"the oldest that is left is {listing.oldest_readable()}", where,
        )  # fmt: skip
    raise _missing(f"Transaction {start - 1} of {where} is missing at the source", listing)


def _pruned(what: str, where: str) -> SnapshotPruned:
    return SnapshotPruned(
        f"The source has pruned {what}",
        key=where,
        hint="Nothing was changed, and the replica can still be read. Replicate this log into a "
        "new place, or remove it at the destination first; and prune less, or replicate more often",
    )


def _missing(what: str, listing: Listing) -> MissingTransaction:
    return MissingTransaction(
        what,
        key=listing.folder,
        readable=listing.readable(),
        hint="`lakelog check` of the source shows more",
    )


def _refuse_other(source: LogReader, listing: Listing, head: State) -> None:
    """Refuse a replica whose newest revision isn't the source's transaction of that number.

    Raises:
        ReplicaDiverged: It isn't, or the source has none.
        SnapshotPruned: The source has it no more.
    """
    assert head.log is not None
    where = f"{source.writer}/{source.database}"
    named = listing
    if head.log.incarnation != listing.incarnation or head.revision not in listing.transactions:
        named = source.names_at(head.log.incarnation, head.revision)
    digest = digest_at(source, named, head.revision)
    if digest == head.digest:
        return
    if digest is not None:
        why = "is another commit at the destination than at the source"
        raise diverged(f"Revision {head.revision} of {where} {why}", where)
    if head.log.incarnation == listing.incarnation and head.revision > listing.head:
        why = f"has revision {head.revision} of {where}, the source ends at {listing.head}"
        raise diverged(f"The destination {why}", where)
    raise _pruned(f"revision {head.revision} of {where}, which the replica is at", where)


def digest_at(log: LogReader, listing: Listing, revision: int) -> bytes | None:
    """The frame digest of a log's transaction; None if neither it nor its checkpoint is there.

    Requests: 1 GET.
    """
    try:
        for item in listing.transactions.get(revision, ()):
            header = log.store.get(listing.key(item), start=0, end=HEADER_BYTES)
            return header[-_DIGEST_BYTES:]
        for item in listing.checkpoints.get(revision, ()):
            key = listing.key(item)
            return decode_checkpoint(log.store.get(key), key).message.digest
    except ObjectNotFound:
        return None
    return None


def plan_of(position: Position) -> LogPlan:
    """What is to be copied, counted by the source's own history.

    Requests: none if there is nothing to do; else as reading the newest state of the source, and
        its history.
    """
    source, listing, base = position.source, position.listing, position.base
    first = position.state.revision
    start = first if base is None or position.begins_whole else base.revision
    files = size_bytes = 0
    if base is not None and not position.begins_whole:
        found = source.checkpoint_state(base).base
        assert found is not None
        files, size_bytes = found.message.counts.files, found.message.counts.bytes
    if position.last > start:
        for row in source.load(position.last).history.after(start):
            files += row["files_added"]
            size_bytes += row["bytes_added"]
    return LogPlan(
        source.writer, source.database, listing.incarnation, first, position.last,
        None if base is None else base.revision, position.last - start, files, size_bytes,
    )  # fmt: skip


def destination_error(error: _E, where: str) -> _E:
    """An error of the destination's log, with what to do if it is a replica: it may hold what the
    source has not, or be no replica at all."""
    error.message = f"At the destination: {error.message}"
    if not isinstance(error, UnsupportedFeature):
        error.hint = (
            f"If all of {where}/ there came from this source, and the source still has it: delete "
            f"{where}/ at the destination, and replicate that log again. Else leave it as it is, "
            "and replicate into another place: a rebuild there keeps its data, and is no replica"
        )
    return error


# --- Copying --------------------------------------------------------------------------------------

_READ_AT_ONCE: Final = 16  # transactions; one at a time where they are large
_LARGE_BYTES: Final = 16 << 20
_MOST_COMMITS: Final = 256  # of one range
_MOST_FILES: Final = 1_000
_MOST_BYTES: Final = 256 << 20
_BY_AN_ENGINE: Final = 64  # times as many files and bytes: it is to have enough for all its workers
_CHECKPOINT_WITHIN: Final = 512  # commits of a long way


@dataclass(slots=True)
class OneLog:
    """Copies one log up to the revision that was planned.

    Args:
        position: Its position; the `state` follows what is copied.
        transfer: Copies objects.
        catalog: The destination.
    """

    position: Position
    transfer: Transfer
    catalog: Catalog
    copied: Copied = field(default_factory=Copied)
    _mirror: Mirror = field(init=False)
    _folder: str = ""
    _look: bool = True  # whether files may be there from a run that was broken off
    _seen_s: float = 0.0

    def run(self) -> None:
        """Copy all that is planned.

        Raises:
            ObjectNotFound: Something is gone at the source.
            CorruptError: Something is damaged at the source.
            ReplicaDiverged: Something else is at the destination.
            Stopped: The caller wants no more; what was copied until then remains.
        """
        self._seen_s = self._now_s()
        position = self.position
        self._folder = base_folder(position.source.writer, position.source.database)
        if position.state.log is None:
            self.transfer.put(position.replica.folder + REPLICA_MARK, b"")
        self._mirror = self._open_mirror()
        if position.base is not None:
            self._begin(position.base)
        for some in self._ranges(position.last):
            self._copy_range(some)
            if position.state.revision - _checkpointed(position.state) >= _CHECKPOINT_WITHIN:
                self._checkpoint()
        self._mirror.close(position.state)
        if position.state.revision - _checkpointed(position.state) >= CHECKPOINT_EVERY:
            self._checkpoint()

    def _open_mirror(self) -> Mirror:
        """Completes the replica's mirror, as each opening for writing does. Raises `LostTail` if
        the replica has lost its end.

        Requests: 2 LIST; 1 GET and 1 PUT for each copy that is missing.
        """
        replica, exclusive = self.position.replica, self.transfer.copier.exclusive
        in_background = self.catalog.ambient.in_background
        mirror = Mirror(replica, exclusive=exclusive, in_background=in_background)
        copies = replica.newest_copies()
        if self.position.state.log is not None:
            refuse_lost_end(replica, copies)
            names = replica.names_for(mirror=False)
            if names.head not in {*names.transactions, *copies.checkpoints}:
                # A first run was broken off between the checkpoint and its copy.
                copy_checkpoint(replica, names.checkpoints[names.head][0], exclusive=exclusive)
            mirror.complete(names, copies)
        return mirror

    # --- The beginning ----------------------------------------------------------------------------

    def _begin(self, base: LogObject) -> None:
        """Make the state of a checkpoint the replica's. Until the checkpoint is put, last, no
        reader sees anything of it."""
        position = self.position
        state = position.source.checkpoint_state(base)
        check_writer_features(state)
        if position.begins_whole:
            for some in self._ranges(base.revision):
                self._copy_range(some)
        folder = segments_folder(position.source.writer, position.source.database)
        assert state.base is not None
        pieces = [state.base.references, *state.pieces]
        segments = dict.fromkeys(folder + piece.name for piece in pieces if piece.name)
        # Its live files were copied with the transactions up to it, if these were.
        needs = needs_of([]) if position.begins_whole else needs_of_state(state)
        there = self._copy_files(needs, look=True)
        self.transfer.copy_segments(segments)
        key = position.source.folder + base.name
        body = position.source.store.get(key)
        self.transfer.put(key, body)
        self.transfer.copy_segments(segments, mirror=True)
        self.transfer.put(mirror_key(key), body)
        self._mirror.begin(base.revision)
        self._look_again(there)
        position.state = position.source.checkpoint_state(base)

    # --- Range by range ---------------------------------------------------------------------------

    def _ranges(self, last: int) -> Iterator[list[tuple[DecodedTransaction, bytes]]]:
        """The transactions up to a revision, so many at a time as are copied together."""
        some: list[tuple[DecodedTransaction, bytes]] = []
        files = size = held = 0
        times = 1 if self.transfer.engine is None else _BY_AN_ENGINE
        for transaction, body in self._transactions(last):
            needs = needs_of([transaction])
            files, size = files + needs.number, size + needs.size_bytes + len(body)
            held += len(body)
            some.append((transaction, body))
            full = files >= times * _MOST_FILES or size >= times * _MOST_BYTES
            if full or len(some) >= times * _MOST_COMMITS or held >= _MOST_BYTES:
                yield some
                some, files, size, held = [], 0, 0, 0
        if some:
            yield some

    def _transactions(self, last: int) -> Iterator[tuple[DecodedTransaction, bytes]]:
        listing, store = self.position.listing, self.position.source.store
        low, at_once = self.position.state.revision + 1, _READ_AT_ONCE
        while low <= last:
            revisions = range(low, min(last + 1, low + at_once))
            low, at_once = revisions.stop, _READ_AT_ONCE
            keys = [listing.key(listing.transactions[revision][0]) for revision in revisions]
            for key, body in zip(keys, store.get_many(keys), strict=True):
                if body is None:
                    raise ObjectNotFound("The transaction is gone", key=key)
                transaction = decode_transaction(body, key)
                _refuse_unknown(transaction)
                yield transaction, body
                at_once = 1 if len(body) > _LARGE_BYTES else at_once

    def _copy_range(self, some: list[tuple[DecodedTransaction, bytes]]) -> None:
        needs = needs_of(transaction for transaction, _ in some)
        state = self.position.state
        there = self._copy_files(needs, look=self._look)
        self._refuse_stale()
        for transaction, body in some:
            check_link(state, transaction)
            self._mirror.before_send(state)
            self.transfer.put(transaction.key, body)
            apply(state, transaction)
            self._mirror.committed(state.revision, transaction.key, transaction.digest, body)
            check_writer_features(state)
            self.copied.commits += 1
            self._look = False  # what an earlier run had copied was for the first range
            state.tail.clear()
        self._look_again(there)

    def _copy_files(self, needs: Needs, *, look: bool) -> list[DataFile]:
        """Copy data files; those that were there already."""
        number, size, there = self.transfer.copy_files(
            self._folder, needs.each(), needs.number, look=look
        )
        self.copied.files += number
        self.copied.size_bytes += size
        self.copied.files_there += len(there)
        self.copied.elsewhere += needs.elsewhere
        return there

    def _look_again(self, there: list[DataFile]) -> None:
        """Files that were there before anything named them may have been taken by gc until now:
        from here on their names are in the log, and gc leaves them alone."""
        self.transfer.copy_files(self._folder, there, len(there), look=True, counted=False)

    def _refuse_stale(self) -> None:
        """A replica that was not looked at for long may have been pruned past the next name."""
        limit_s = self.catalog.margins.idle_limit_s
        if self._now_s() - self._seen_s < limit_s:
            return
        self._seen_s = self._now_s()
        head = head_of(self.position.replica)
        if head.log == self.position.state.log and head.revision > self.position.state.revision:
            raise ObjectNotFound(
                "Another replication has gone on meanwhile, and may have been pruned since",
                key=self.position.replica.folder,
                hint="Run it again: it goes on from the newest revision",
            )

    # --- The end ----------------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        """Write a checkpoint of the replica's own. One that fails fails nothing."""
        log = self.position.replica
        try:
            with self.catalog.writer(log.writer, log.database, checkpoint_every=0) as writer:
                writer.checkpoint()
            self.position.state = head_of(log)
        except ForeignLog:
            pass  # nobody may write one until the log has its name
        except LakelogError as error:
            warnings.warn(
                f"No checkpoint of {log.writer}/{log.database} at the destination: "
                f"{error.message}. The next run tries again",
                CheckpointWarning,
                stacklevel=2,
            )

    def _now_s(self) -> float:
        return self.position.source.ambient.monotonic_s()


def _checkpointed(state: State) -> int:
    return -1 if state.base is None else state.base.message.revision


def _refuse_unknown(transaction: DecodedTransaction) -> None:
    """A reader may pass over an optional action of the future. It may name objects: we may not."""
    if any(action.WhichOneof("kind") is None for action in transaction.message.actions):
        raise UnsupportedFeature(
            f"{transaction.key} holds an optional action of a kind this lakelog doesn't know",
            key=transaction.key,
            hint="Upgrade lakelog before you replicate this log",
        )
