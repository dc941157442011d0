"""A log that can't be read to its end: the highest revision that can, and what stands above it.

Each transaction that can be decoded proves that it was committed, what it removed, and what else it
says, also where the chain to it is broken.

Source: docs/format.md, sections 4.2 and 4.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..catalog.format.names import parse_log_object
from ..catalog.format.objects import DecodedTransaction, decode_transaction
from ..catalog.log.outcome import foreign_error
from ..catalog.log.state import State, empty_state
from ..errors import CorruptError, ForkError, LakelogError, NotFoundError, UnsupportedFeature
from .believed import believed_state
from .known_log import KnownLog, absorb, read_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..catalog.log.listing import Listing
    from ..catalog.read.log_reader import LogReader
    from .old_log import OldLog
    from .scanned import Writing

_TRIES: Final = 16
_AT_ONCE: Final = 256


def known_remains(log: LogReader, old: OldLog, own: Iterable[Writing]) -> KnownLog | None:
    """What all that is left of a log says; None if that is nothing.

    Raises:
        ForeignLog: It is that of another writer or database.
        UnsupportedFeature: A later version wrote it.
    Requests: 1 LIST per 1,000 names on S3, 1 GET a transaction; as reading a state, for some.
    """
    if old.head < 0:
        return None
    listing = log.names(old.incarnation)
    known = _highest(log, listing, old, own)
    first = 0 if known is None else known.state.revision + 1
    above = list(_decodable(log, listing, range(first, old.head + 1), old))
    if known is None:
        state = empty_state(log.writer, log.database)
        state.log = above[0].log if above else None
        if not _are_ours(state, above, own):
            return None
        known = KnownLog(False, state)
    for transaction in above:
        absorb(known, transaction)
    known.is_whole = False
    return known


def _highest(
    log: LogReader, listing: Listing, old: OldLog, own: Iterable[Writing]
) -> KnownLog | None:
    """What the highest state says that can be read with all its parts."""
    target = old.head
    for _ in range(_TRIES):
        if target < 0:
            break
        state: State | None = None
        try:
            state = believed_state(log, listing, old.incarnation, target, old.doubts)
            found = read_whole(state, own)
        except UnsupportedFeature:
            raise
        except (CorruptError, ForkError, NotFoundError) as error:
            target = _below(error, state, target)
            continue
        if state.is_foreign:
            raise foreign_error(state)
        return found
    return None


def _below(error: LakelogError, state: State | None, target: int) -> int:
    """The next revision that may be readable: below the object at fault."""
    names = error.keys if isinstance(error, ForkError) else (error.key or "",)
    items = [parse_log_object(name.rsplit("/", 1)[-1]) for name in names]
    revisions = [item.revision for item in items if item is not None]
    if not revisions and state is not None and state.base is not None:
        revisions = [state.base.message.revision]  # one of its segments
    return min([target, *revisions]) - 1


def _decodable(
    log: LogReader, listing: Listing, revisions: range, old: OldLog
) -> Iterator[DecodedTransaction]:
    """Transactions of some revisions, those that are sound in themselves and stand alone."""
    forks = set(listing.forks(revisions.start))
    items = [
        listing.transactions[revision][0]
        for revision in revisions
        if revision in listing.transactions and revision not in forks
    ]
    before: DecodedTransaction | None = None
    for low in range(0, len(items), _AT_ONCE):
        keys = [listing.key(item) for item in items[low : low + _AT_ONCE]]
        for key, body in zip(keys, log.store.get_many(keys), strict=True):
            try:
                found = None if body is None else decode_transaction(body, key)
            except UnsupportedFeature:
                raise
            except CorruptError:
                continue
            if found is None or _is_seal(found) or found.log.log_id != old.log_id:
                continue
            if before is not None and not _may_follow(before, found):
                return  # of two that contradict each other nobody knows which was committed
            before = found
            yield found


def _is_seal(transaction: DecodedTransaction) -> bool:
    return any(action.WhichOneof("kind") == "seal" for action in transaction.message.actions)


def _may_follow(before: DecodedTransaction, found: DecodedTransaction) -> bool:
    one, two = before.message, found.message
    if two.revision == one.revision + 1 and two.previous_digest != before.digest:
        return False
    later = two.commit.committed_at_us > one.commit.committed_at_us
    return two.epoch >= one.epoch and later


def _are_ours(
    state: State, transactions: Sequence[DecodedTransaction], own: Iterable[Writing]
) -> bool:
    """Whether transactions say whose log they are of, or files that were written in one or on top
    of it.

    Args:
        state: The empty one; it is told what names they say.
    Raises:
        ForeignLog: Another's than the folder says.
    """
    named = False
    for transaction in transactions:
        for action in transaction.message.actions:
            if action.WhichOneof("kind") == "identity":
                state.named, named = (action.identity.writer, action.identity.database), True
    if named and state.named != (state.writer, state.database):
        raise foreign_error(state)
    ids = {member.transaction_id for t in transactions for member in t.message.commit.members}
    return named or any({file.transaction_id, file.base_transaction_id} & ids for file in own)
