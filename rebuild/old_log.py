"""Reads what is left of a log in its two places: the newest state, the transactions above it, and
the seals of a rebuild that was broken off. Nothing of it needs to be sound.

Source: docs/format.md, sections 4.3 and 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..catalog.format.names import (
    MAX_INCARNATION,
    log_folder,
    mirror_log_folder,
    parse_log_object,
)
from ..catalog.format.objects import StandingSeal, decode_checkpoint, decode_transaction, read_seal
from ..catalog.log.admission import check_writer_features
from ..catalog.log.compared import read_whole
from ..catalog.log.listing import plan_read
from ..catalog.log.outcomes import foreign_error
from ..catalog.log.part import Part, batch_parts
from ..catalog.log.state import State, empty_state
from ..catalog.parallel import parallel
from ..catalog.read.log_reader import LogReader
from ..errors import (
    CorruptError,
    CorruptObject,
    ForkError,
    LakelogError,
    NotFoundError,
    UnsupportedFeature,
)

if TYPE_CHECKING:
    from ..catalog.ambient import Ambient
    from ..catalog.format.names import LogObject
    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.log.listing import Listing
    from ..store import Store

MAX_OBJECT_BYTES: Final = 2 << 30  # no object of a log is larger


@dataclass(slots=True)
class OldLog:
    """What can be read of a log.

    Attributes:
        state: The newest state; the empty one if none can be read. No seal is in it.
        readable: Transactions above it, by revision.
        incarnation: The highest of any name; 1 if there is none.
        names: All names of both places.
        log_id: Whose log it is; empty if no object says it.
        epoch: The highest of the objects that could be read.
        seals: Those that end this incarnation.
        successor: Of the highest transaction: the slot uuid that it promises, its own, digest and
            commit time; None if it can't be read.
        doubts: What can't be read, in words.
        rivals: Other transactions of revisions that the log has, by revision: of a fork, or of an
            end that was lost and that writers went on without.
        others: Names above it of a log that was lost before this one was begun: what is left of
            that one.
    """

    state: State
    readable: dict[int, DecodedTransaction] = field(default_factory=dict)
    incarnation: int = 1
    names: frozenset[LogObject] = frozenset()
    log_id: bytes = b""
    epoch: int = 0
    seals: list[StandingSeal] = field(default_factory=list)
    successor: tuple[bytes, bytes, bytes, int] | None = None
    doubts: list[str] = field(default_factory=list)
    rivals: dict[int, list[DecodedTransaction]] = field(default_factory=dict)
    others: set[LogObject] = field(default_factory=set)

    @property
    def seal(self) -> StandingSeal | None:
        """The lowest one is at the agreed name; the others took names that were promised."""
        return min(self.seals, key=lambda one: (one.revision, one.uuid), default=None)

    @property
    def head(self) -> int:
        """The highest revision of this incarnation that is no seal, and not another log's; -1 if
        there is none. What was committed since the names were listed counts: the state and its
        promise are of later."""
        state = self.state
        is_own = state.log is not None and state.log.incarnation == self.incarnation
        sealed = {(one.revision, one.uuid[:4].hex()) for one in self.seals}
        own = (
            item.revision
            for item in self.names - self.others
            if item.incarnation == self.incarnation and (item.revision, item.uuid8) not in sealed
        )
        return max([state.revision if is_own else -1, *own])

    @property
    def base(self) -> tuple[int, int, bytes]:
        """Incarnation, revision and digest of the state; 0, -1 and empty if none can be read."""
        state = self.state
        return (
            (0, -1, b"")
            if state.log is None
            else (state.log.incarnation, state.revision, state.digest)
        )

    @property
    def digests(self) -> tuple[bytes, ...]:
        """Of the transactions above the state that can be read, by revision."""
        return tuple(found.digest for _, found in sorted(self.readable.items()))

    @property
    def top(self) -> int:
        """The highest revision of any name; -1 if there is none."""
        return max([self.state.revision, *(item.revision for item in self.names)])


def read_old_log(
    store: Store, writer: str, database: str, ambient: Ambient, *, below: int = MAX_INCARNATION + 1
) -> OldLog:
    """Reads all that is left of a log.

    Args:
        below: Only of incarnations below this one.
    Raises:
        ForeignLog: It is that of another writer or database.
        UnsupportedFeature: A later version wrote it.
        StorageError: The store failed.
    Requests: 4 LIST per 1,000 names on S3, then as reading the newest state; 2 GET for each
        transaction.
    """
    log = LogReader(store, writer, database, ambient)
    names = _names(store, writer, database, below)
    old = OldLog(empty_state(writer, database), names=names)
    old.incarnation = max((item.incarnation for item in names), default=1)
    for incarnation in sorted({item.incarnation for item in names}, reverse=True):
        state = _newest_state(log, incarnation, old.doubts)
        if state is not None:
            _take_state(old, state)
            break
    _read_above(log, old)
    _choose_branches(old)
    _read_rival_copies(log, old)
    return old


def _names(store: Store, writer: str, database: str, below: int) -> frozenset[LogObject]:
    found: set[LogObject] = set()
    for folder in (log_folder(writer, database), mirror_log_folder(writer, database)):
        parsed = (parse_log_object(info.key[len(folder) :]) for info in store.list(folder))
        found.update(item for item in parsed if item and item.incarnation < below)
    return frozenset(found)


# --- The newest state -----------------------------------------------------------------------------


def _newest_state(log: LogReader, incarnation: int, doubts: list[str]) -> State | None:
    """Returns the newest state of an incarnation of which every part can be read."""
    listing = log.names_of_both(incarnation)
    revisions = sorted({*listing.transactions, *listing.checkpoints}, reverse=True)
    at = 0
    while at < len(revisions):
        target = revisions[at]
        try:
            plan_read(listing, target)  # what is not listed needs no request
            state = log.load(target, listing, incarnation)
            if state.sealed_for:
                state = log.load(target - 1, listing, incarnation)
            read_whole(state)
        except UnsupportedFeature:
            raise
        except (CorruptError, ForkError, NotFoundError) as error:
            _note(doubts, target, error)
            at = _next_to_try(revisions, at, error, listing)
            continue
        return state if state.log is not None else None
    return None


def _note(doubts: list[str], target: int, error: LakelogError) -> None:
    if not doubts:  # what is wrong with the highest says most
        doubts.append(f"Revision {target} can't be read: {error.message}")


def _next_to_try(revisions: list[int], at: int, error: LakelogError, listing: Listing) -> int:
    """Returns the place of the next revision that may be readable: not of one that builds on what
    is missing, unless it has a checkpoint of its own."""
    item = parse_log_object((error.key or "").split(" and ")[0].rsplit("/", 1)[-1])
    broken = item.revision if item is not None else revisions[at]
    for place in range(at + 1, len(revisions)):
        if revisions[place] < broken or revisions[place] in listing.checkpoints:
            return place
    return len(revisions)


def _take_state(old: OldLog, state: State) -> None:
    if state.is_foreign:
        raise foreign_error(state)
    check_writer_features(state)
    assert state.log is not None
    old.state, old.log_id, old.epoch = state, state.log.log_id, state.epoch
    if state.log.incarnation == old.incarnation:
        old.successor = (state.next_uuid, state.uuid, state.digest, state.committed_at_us)


# --- What stands above it -------------------------------------------------------------------------


def _read_above(log: LogReader, old: OldLog) -> None:
    """Reads the objects above the state one by one."""
    low = old.state.log.incarnation if old.state.log is not None else 0
    floor = old.state.revision
    above = sorted(
        (item for item in old.names if item.incarnation >= low and item.revision > floor),
        key=lambda item: (item.revision, item.incarnation),
    )
    for item in above:
        if item.kind == "checkpoint":
            _take_checkpoint(log, old, item)
            continue
        found = read_transaction(log, item)
        if isinstance(found, StandingSeal):
            if found.log.incarnation == old.incarnation:
                old.seals.append(found)
            old.log_id = old.log_id or found.log.log_id
        elif found is None or not _is_sound(found):
            old.doubts.append(f"Neither copy of revision {item.revision} can be read")
        elif not old.log_id or found.log.log_id == old.log_id:
            _take_transaction(old, item, found)
        else:
            old.others.add(item)
    old.epoch = max([old.epoch, *(seal.epoch for seal in old.seals)])


def _is_sound(found: DecodedTransaction) -> bool:
    parts = (part for pieces in found.batches.values() for part, _ in batch_parts(pieces))
    return all(isinstance(part, Part) for part in parts)


def _take_transaction(old: OldLog, item: LogObject, found: DecodedTransaction) -> None:
    message = found.message
    old.log_id = old.log_id or found.log.log_id
    old.epoch = max(old.epoch, message.epoch)
    rival = old.readable.get(item.revision)
    if rival is not None:
        old.doubts.append(f"Revision {item.revision} has two transactions")
        first = rival.message.epoch >= message.epoch
        old.rivals.setdefault(item.revision, []).append(found if first else rival)
        if first:
            return
    old.readable[item.revision] = found
    if item.incarnation == old.incarnation:
        commit = message.commit
        old.successor = (
            commit.successor_uuid, message.uuid, found.digest, commit.committed_at_us
        )  # fmt: skip


def _choose_branches(old: OldLog) -> None:
    """Takes the branch of a fork that goes on, from the top down."""
    for revision in sorted(old.rivals, reverse=True):
        later, rivals = old.readable.get(revision + 1), old.rivals[revision]
        for place, rival in enumerate(rivals):
            if later is not None and later.message.previous_digest == rival.digest:
                old.readable[revision], rivals[place] = rival, old.readable[revision]


def _read_rival_copies(log: LogReader, old: OldLog) -> None:
    """Finds objects that are another transaction than the log's under the very same name.

    Requests: 2 GET for each transaction.
    """
    rows = old.state.history.table()
    columns = (rows.column(name).to_pylist() for name in ("revision", "digest"))
    digests = dict(zip(*columns, strict=True))
    digests |= {revision: found.digest for revision, found in old.readable.items()}
    known = {found.digest for rivals in old.rivals.values() for found in rivals}

    def others(item: LogObject) -> list[DecodedTransaction]:
        found = [decoded for key in copies(log, item) if (decoded := _decoded(log, key))]
        return [one for one in found if one.digest not in (digests[item.revision], *known)]

    low = old.state.log.incarnation if old.state.log is not None else 0
    items = [
        item
        for item in sorted(old.names, key=lambda one: (one.revision, one.name))
        if item.kind == "transaction" and item.incarnation >= low and item.revision in digests
    ]
    for item, rivals in zip(items, parallel(others, items), strict=True):
        if rivals:
            old.rivals.setdefault(item.revision, []).append(rivals[0])


def _decoded(log: LogReader, key: str) -> DecodedTransaction | None:
    try:
        body = get(log.store, key)
        return None if read_seal(body, key) is not None else decode_transaction(body, key)
    except (CorruptError, NotFoundError):
        return None


def _take_checkpoint(log: LogReader, old: OldLog, item: LogObject) -> None:
    """Takes what a checkpoint says of itself, though not all of its parts can be read."""
    for key in copies(log, item):
        try:
            found = decode_checkpoint(get(log.store, key), key)
        except UnsupportedFeature:
            raise
        except (CorruptError, NotFoundError):
            continue
        old.log_id = old.log_id or found.log.log_id
        old.epoch = max(old.epoch, found.message.epoch)
        if found.log.log_id != old.log_id:
            old.others.add(item)
        return


def copies(log: LogReader, item: LogObject) -> tuple[str, str]:
    """Returns the two keys of an object of a log."""
    return log.folder + item.name, mirror_log_folder(log.writer, log.database) + item.name


def read_transaction(log: LogReader, item: LogObject) -> DecodedTransaction | StandingSeal | None:
    """Reads a transaction, or a seal, from whichever copy is sound; None if neither is.

    Requests: 1 or 2 GET.
    """
    for key in copies(log, item):
        try:
            body = get(log.store, key)
            seal = read_seal(body, key)
            return seal if seal is not None else decode_transaction(body, key)
        except UnsupportedFeature:
            raise
        except (CorruptError, NotFoundError):
            continue
    return None


def get(store: Store, key: str) -> bytes:
    """Returns an object of a log.

    Raises:
        CorruptObject: It is larger than any object of a log.
        NotFoundError: It isn't there.
    Requests: 1 HEAD and 1 GET.
    """
    if store.head(key).size_bytes > MAX_OBJECT_BYTES:
        raise CorruptObject(f"{key} is larger than any object of a log", key=key)
    return store.get(key)
