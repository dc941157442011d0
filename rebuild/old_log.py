"""What is left of the log that a rebuild ends: where its head is, whose it is, and whether it is
sealed already. Nothing of it needs to be sound.

Source: docs/format.md, sections 4.5 and 10.6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..catalog.format.objects import decode_checkpoint, decode_transaction
from ..catalog.format.seals import StandingSeal, read_seal
from ..catalog.log.features import check_writer_features
from ..catalog.log.outcome import foreign_error
from ..catalog.read.log_reader import LogReader
from ..catalog.read.losses import is_of_a_rebuild
from ..errors import CorruptError, ForkError, NotFoundError, UnsupportedFeature
from .believed import believed_state

if TYPE_CHECKING:
    from ..catalog.ambient import Ambient
    from ..catalog.format.frame import LogIdentity
    from ..catalog.format.names import LogObject
    from ..catalog.log.listing import Listing
    from ..catalog.log.state import State
    from ..store import Store

_LOOKED_AT: Final = 64  # objects from the top of a log that can't be read as a whole


@dataclass(slots=True)
class OldLog:
    """The incarnation that a rebuild ends.

    Attributes:
        incarnation: Its number: the one in use, or a higher one that footers tell of.
        highest: The highest incarnation of any name.
        names: How many names of the log there are.
        taken: Revision and uuid8 of the transactions that are listed.
        head: The highest revision listed, seals of a broken-off rebuild aside; -1 if there is none.
        state: At the head, if it can be read.
        seal: The seal that stands.
        log_id: Whose log it is; empty if no object tells.
        epoch: The highest of the objects that could be read; 0 if none could.
        successor_uuid: Promised by the head; empty if it can't be read.
        doubts: What its checkpoints say otherwise than its transactions, in words.
    """

    incarnation: int
    highest: int
    names: int = 0
    taken: frozenset[tuple[int, str]] = frozenset()
    head: int = -1
    state: State | None = None
    seal: StandingSeal | None = None
    log_id: bytes = b""
    epoch: int = 0
    successor_uuid: bytes = field(default=b"", repr=False)
    doubts: list[str] = field(default_factory=list)


def read_old_log(
    store: Store, writer: str, database: str, ambient: Ambient, incarnation: int = 0
) -> OldLog:
    """What is left of a log.

    Args:
        incarnation: The highest that footers name. One that commits stand in counts likewise.
    Raises:
        ForeignLog: It is that of another writer or database.
        UnsupportedFeature: A later version wrote it.
    Requests: 1 LIST per 1,000 names on S3, then as reading the newest state; some GET if that can't
        be read.
    """
    log = LogReader(store, writer, database, ambient)
    listing = log.names()
    incarnation = max(incarnation, _committed_in(log, listing))
    is_sure = incarnation > 0 or listing.head >= 0 or not listing.others
    if not is_sure:  # what a rebuild wrote, and nothing of what it replaced
        incarnation = max(item.incarnation for item in listing.others)
    if incarnation > max(1, listing.incarnation):
        listing = log.names(incarnation)
    present = max(1, listing.incarnation)
    every = [*listing.others]
    for names in (listing.transactions, listing.checkpoints):
        every += [item for items in names.values() for item in items]
    highest = max((item.incarnation for item in every), default=0)
    listed = (item for items in listing.transactions.values() for item in items)
    taken = frozenset((item.revision, item.uuid8) for item in listed)
    old = OldLog(present, highest, len(every), taken, listing.head)
    if listing.head >= 0:
        state = _whole(log, listing, present, None, old.doubts) if is_sure else None
        if state is None:
            _look_at_the_top(log, listing, old)
        elif state.sealed_for:
            key = state.tail[-1].key  # a seal is never in a checkpoint
            old.seal = read_seal(store.get(key), key)
        if old.seal is not None:
            # What stands below is what the rebuild that sealed it saw.
            old.head, old.log_id = old.seal.revision - 1, old.seal.log.log_id
            state = _whole(log, listing, present, old.head, old.doubts) if old.head >= 0 else None
        if state is not None:
            _take_state(old, state)
    return old


def _committed_in(log: LogReader, listing: Listing) -> int:
    """The highest incarnation above that in use in which somebody has committed: it was in use, and
    has lost its checkpoint; 0 if there is none.

    Requests: none if no transaction stands in a higher one; else 1 GET for each, up to 64.
    """
    above = [
        item
        for item in listing.others
        if item.incarnation > max(1, listing.incarnation) and item.kind == "transaction"
    ]
    above.sort(key=lambda item: (item.incarnation, item.revision), reverse=True)
    for item in above[:_LOOKED_AT]:
        key = listing.key(item)
        try:
            found = decode_transaction(log.store.get(key), key)
        except UnsupportedFeature:
            raise
        except (CorruptError, NotFoundError):
            continue
        if not is_of_a_rebuild(found):
            return item.incarnation
    return 0


def last_state(
    store: Store,
    writer: str,
    database: str,
    ambient: Ambient,
    incarnation: int,
    *,
    doubts: list[str],
) -> State:
    """What an incarnation said at its end, before it was sealed.

    Args:
        doubts: Takes what its checkpoints say otherwise than its transactions.
    Raises:
        NotFoundError: It isn't there.
        CorruptError, ForkError: It can't be read.
        ForeignLog: It is the log of another writer or database.
    Requests: 1 LIST per 1,000 names on S3, then as reading the newest state.
    """
    log = LogReader(store, writer, database, ambient)
    listing = log.names(incarnation)
    state = log.load(None, listing, incarnation) if listing.head >= 0 else None
    if state is None or state.log is None:
        raise NotFoundError(
            f"{writer}/{database} has no incarnation {incarnation}: it never had, or it was pruned",
            key=log.folder,
            hint="`lakelog doctor` shows which incarnations are there",
        )
    end = state.revision - 1 if state.sealed_for else state.revision
    state = believed_state(log, listing, incarnation, end, doubts)
    if state.is_foreign:
        raise foreign_error(state)
    return state


def _whole(
    log: LogReader, listing: Listing, incarnation: int, target: int | None, doubts: list[str]
) -> State | None:
    try:
        state = believed_state(log, listing, incarnation, target, doubts)
    except UnsupportedFeature:
        raise
    except (CorruptError, ForkError, NotFoundError):
        return None
    return None if state.log is None else state  # all of it went since it was listed


def _take_state(old: OldLog, state: State) -> None:
    if state.is_foreign:
        raise foreign_error(state)
    check_writer_features(state)
    assert state.log is not None
    old.state, old.log_id = state, state.log.log_id
    old.epoch, old.successor_uuid = state.epoch, state.successor_uuid


def _look_at_the_top(log: LogReader, listing: Listing, old: OldLog) -> None:
    """The newest objects one by one: seals, and what the head promised."""
    names: list[LogObject] = []
    for revision in sorted(listing.transactions.keys() | listing.checkpoints.keys(), reverse=True):
        names += listing.names_at(revision)
    for item in names[:_LOOKED_AT]:
        key = listing.key(item)
        try:
            body = log.store.get(key)
            seal = read_seal(body, key) if item.kind == "transaction" else None
            if seal is not None:
                # The lowest one is the agreed one: the others are on names that were promised.
                if old.seal is None or seal.revision < old.seal.revision:
                    old.seal = seal
                continue
            _take_object(old, item, body, key)
        except UnsupportedFeature:
            raise
        except (CorruptError, NotFoundError):
            continue


def _take_object(old: OldLog, item: LogObject, body: bytes, key: str) -> None:
    log: LogIdentity
    if item.kind == "transaction":
        transaction = decode_transaction(body, key)
        log, epoch = transaction.log, transaction.message.epoch
        successor = transaction.message.commit.successor_uuid
    else:
        checkpoint = decode_checkpoint(body, key)
        log, epoch = checkpoint.log, checkpoint.message.epoch
        successor = checkpoint.message.successor_uuid
    old.log_id = old.log_id or log.log_id
    old.epoch = max(old.epoch, epoch)
    if item.revision == old.head:
        old.successor_uuid = successor
