"""How far a replica of one log is, and whether it is one: its newest revision must be the source's
very transaction of that number.

Source: docs/replication.md, "What a replica is".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from ..catalog.format.frame import HEADER_BYTES
from ..catalog.format.objects import decode_checkpoint
from ..catalog.log.listing import fork_error
from ..catalog.log.state import State, empty_state
from ..catalog.read.log_folder import PAUSE_S
from ..errors import (
    CorruptError,
    ForkError,
    LakelogError,
    MissingTransaction,
    ObjectNotFound,
    SnapshotPruned,
    UnsupportedFeature,
)
from .reports import LogPlan
from .transfer import diverged

if TYPE_CHECKING:
    from ..catalog.format.names import LogObject
    from ..catalog.log.listing import Listing
    from ..catalog.read.log_reader import LogReader

_E = TypeVar("_E", bound=LakelogError)
_FALLEN_BEHIND: Final = (
    "Nothing was changed, and the replica can still be read. Replicate this log into a new place, "
    "or remove it at the destination first; and prune less, or replicate more often"
)
_DIGEST_BYTES: Final = 32
_LISTINGS: Final = 3


@dataclass(slots=True)
class Position:
    """Where a replication of one log stands.

    Attributes:
        source, replica: The log at both ends.
        listing: The source's names, from the head down to the replica's revision at least.
        state: The replica's head, by which the next transaction is judged; before the first
            revision of an incarnation that it hasn't got.
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
    """Look where both logs are.

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
        CorruptError, ForkError: It can't be read; says that it is the destination's.
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
            raise diverged(
                f"The log of {where} was rebuilt at the destination: incarnation "
                f"{head.log.incarnation}, the source is at {listing.incarnation}",
                where,
            )
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
        raise MissingTransaction(
            f"The newest revisions of {listing.writer}/{listing.database} can't be read",
            key=listing.folder,
            readable=listing.readable(),
            hint="`lakelog check` of the source tells more",
        )
    return listing.checkpoints[oldest][0]


def _refuse_gap(listing: Listing, revision: int) -> None:
    """Whether the source has each transaction after the replica's revision."""
    start = listing.run_start(listing.head)
    if start <= revision + 1:
        return
    where = f"{listing.writer}/{listing.database}"
    if listing.lowest == 0 and start <= min(listing.transactions, default=start):
        raise SnapshotPruned(
            f"The source has pruned revision {revision + 1} of {where}, which comes next: the "
            f"replica is at {revision}, the oldest that is left is {listing.oldest_readable()}",
            key=where,
            hint=_FALLEN_BEHIND,
        )
    raise MissingTransaction(
        f"Transaction {start - 1} of {where} is missing at the source",
        key=listing.folder,
        readable=listing.readable(),
        hint="`lakelog check` of the source tells more",
    )


def _refuse_other(source: LogReader, listing: Listing, head: State) -> None:
    """Whether the replica's newest revision is the source's transaction of that number.

    Raises:
        ReplicaDiverged: It isn't, or the source has none.
        SnapshotPruned: The source can't tell any more.
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
        raise diverged(
            f"Revision {head.revision} of {where} is another commit at the destination than at the "
            "source",
            where,
        )
    same = head.log.incarnation == listing.incarnation
    if same and head.revision > listing.head:
        raise diverged(
            f"The destination has revision {head.revision} of {where}, the source ends at "
            f"{listing.head}",
            where,
        )
    raise SnapshotPruned(
        f"The source has pruned revision {head.revision} of {where}, which the replica is at",
        key=where,
        hint=_FALLEN_BEHIND,
    )


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
    """An error of the destination's log that says so, and what to do if it is a replica: it may
    hold what the source has not, or be no replica at all."""
    error.message = f"At the destination: {error.message}"
    if not isinstance(error, UnsupportedFeature):
        error.hint = (
            f"If all of {where}/ there came from this source, and the source still has it: delete "
            f"{where}/ at the destination, and replicate that log again. Else leave it as it is, "
            "and replicate into another place: a rebuild there keeps its data, and is no replica"
        )
    return error
