"""Reads what is left of a log in its two places: the newest state, the transactions above it, and
the seals of a rebuild that was broken off. Nothing of it needs to be sound.

It also says how the log is to be ended. A seal is a transaction under a name that a committer may
still use: who still commits there has either been first (then the plan is void), or finds the name
taken and is refused. One takes the name that the head has promised. Where the end of the log is
lost, others take the names that follow from the slot seeds in footers.

Source: docs/format.md, sections 4.3 and 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..catalog.format.footer import MAX_FILE_EPOCH
from ..catalog.format.names import (
    MAX_INCARNATION,
    first_slot_uuid,
    parse_own_file,
    rebuilt_slot_uuid,
    successor_uuid,
)
from ..catalog.format.objects import StandingSeal, read_seal
from ..catalog.log.admission import check_writer_features
from ..catalog.log.compared import live_files, live_rows, read_whole
from ..catalog.log.outcomes import SEALED_AHEAD, foreign_error
from ..catalog.log.part import Part, batch_parts
from ..catalog.log.state import State, empty_state
from ..catalog.read.log_reader import LogReader
from ..catalog.read.points_in_time import newest_sound
from ..errors import NotFoundError, UnsupportedFeature
from .copies import names_of, read_items

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..catalog.ambient import Ambient
    from ..catalog.format.frame import LogIdentity
    from ..catalog.format.names import LogObject
    from ..catalog.format.objects import DecodedTransaction
    from ..store import Store
    from .copies import Names
    from .scan import FileName, OwnFile, Scan

Slot = tuple[int, bytes]  # a name in the log: revision and slot uuid
_OPENINGS: Final = 32  # so many of the newest may still commit
_NOBODYS: Final = bytes(16)


@dataclass(slots=True)
class OldLog:
    """What can be read of a log.

    Attributes:
        state: The newest state; the empty one if none can be read. No seal is in it.
        readable: Transactions above it, by revision.
        incarnation: The highest of any name; 1 if there is none.
        names: All names of both places, with the sizes there.
        log_id: Whose log it is; empty if no object says it.
        epoch: The highest of the objects that could be read.
        seals: Those that end this incarnation.
        doubts: What can't be read, in words.
        rivals: Other transactions of revisions that the log has: of a fork, or of an end that was
            lost and that writers went on without.
        others: Names above it of a log that was lost before this one was begun: what is left of
            that one.
    """

    state: State
    readable: dict[int, DecodedTransaction] = field(default_factory=dict)
    incarnation: int = 1
    names: Names = field(default_factory=dict)
    log_id: bytes = b""
    epoch: int = 0
    seals: list[StandingSeal] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    rivals: list[DecodedTransaction] = field(default_factory=list)
    others: set[LogObject] = field(default_factory=set)

    @property
    def seal(self) -> StandingSeal | None:
        """The lowest one is at the agreed name; the others took names that were promised."""
        return min(self.seals, key=lambda one: (one.revision, one.uuid), default=None)

    @property
    def successor(self) -> tuple[bytes, bytes, bytes, int] | None:
        """Of the highest transaction of this incarnation that can be read: the slot uuid that it
        promises, its own, digest and commit time; None if there is none."""
        own = [one for one in self.readable.values() if one.log.incarnation == self.incarnation]
        if own:
            top = max(own, key=lambda one: one.message.revision)
            commit = top.message.commit
            return commit.successor_uuid, top.message.uuid, top.digest, commit.committed_at_us
        state = self.state
        if state.log is None or state.log.incarnation != self.incarnation:
            return None
        return state.next_uuid, state.uuid, state.digest, state.committed_at_us

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
            for item in self.names.keys() - self.others
            if item.incarnation == self.incarnation and (item.revision, item.uuid8) not in sealed
        )
        return max([state.revision if is_own else -1, *own])

    @property
    def digests(self) -> list[bytes]:
        """Of the state, of the transactions above it that can be read, and of their rivals."""
        found = sorted([*self.readable.values(), *self.rivals], key=lambda one: one.digest)
        return [self.state.digest, *(one.digest for one in found)]

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
        transaction of the history and above it.
    """
    log = LogReader(store, writer, database, ambient)
    names = {item: of for item, of in names_of(log).items() if item.incarnation < below}
    old = OldLog(empty_state(writer, database), names=names)
    old.incarnation = max((item.incarnation for item in names), default=1)
    for incarnation in sorted({item.incarnation for item in names}, reverse=True):
        state = _newest_state(log, incarnation, old.doubts)
        if state is not None and state.log is not None:
            if state.is_foreign:
                raise foreign_error(state)
            check_writer_features(state)
            old.state, old.log_id, old.epoch = state, state.log.log_id, state.epoch
            break
    _take_objects(log, old)
    return old


def _newest_state(log: LogReader, incarnation: int, doubts: list[str]) -> State | None:
    """Returns the newest state of an incarnation of which every part can be read."""
    try:
        listing = log.names_of_both(incarnation)
        state, broken = newest_sound(log, listing, incarnation, read_whole)
        if state is not None and state.sealed_for:
            state = log.load(state.revision - 1, None, incarnation)
    except NotFoundError:
        return None
    if isinstance(broken, UnsupportedFeature):
        raise broken
    if broken is not None and not doubts:  # what is wrong with the highest says most
        doubts.append(broken.message)
    return state


def live_files_of(state: State) -> dict[FileName, int]:
    """Returns the live files of a state with their rows."""
    rows = live_rows(live_files(state))
    columns = [rows.column(name).to_pylist() for name in ("table", "path", "row_count")]
    return {(table, path): count for table, path, count in zip(*columns, strict=True)}


# --- What is beside it ----------------------------------------------------------------------------


def _take_objects(log: LogReader, old: OldLog) -> None:
    """Reads every object in both places: the transactions above the state, and those that another
    one has the revision of, in the log or in its mirror."""
    low = old.state.log.incarnation if old.state.log is not None else 0
    rows = old.state.history.table()
    columns = (rows.column(name).to_pylist() for name in ("revision", "digest"))
    digests = dict(zip(*columns, strict=True))
    newest = old.state.revision
    items = [
        item
        for item in old.names
        if item.incarnation >= low
        and (item.revision > newest or (item.revision in digests and item.kind == "transaction"))
    ]
    items.sort(key=lambda item: (item.revision, item.incarnation, item.name))
    found: dict[int, list[DecodedTransaction]] = {}
    for item, pair in zip(items, read_items(log, old.names, items), strict=True):
        bodies = {copy.body: copy.decoded for copy in pair if copy.body is not None}
        for body, decoded in bodies.items():
            if _take(old, item, body, decoded, digests.get(item.revision)):
                found.setdefault(item.revision, []).append(decoded)
        if item.revision > newest and item.kind == "transaction" and not bodies:
            old.doubts.append(f"Neither copy of revision {item.revision} can be read")
    for revision in sorted(found, reverse=True):
        some = found[revision]
        if revision > newest:
            old.readable[revision] = _chosen(some, old.readable.get(revision + 1))
            some.remove(old.readable[revision])
        if some:
            old.rivals += some
            old.doubts.append(f"Revision {revision} has two transactions")


def _take(old: OldLog, item: LogObject, body: bytes, decoded: Any, known: bytes | None) -> bool:
    """Takes what one object says; returns whether it is a transaction of this log that its history,
    which has the digest `known` there, doesn't have."""
    is_above = item.revision > old.state.revision
    old.log_id = old.log_id or decoded.log.log_id
    if item.kind == "transaction" and (seal := read_seal(body, item.name)) is not None:
        if is_above and seal.log.incarnation == old.incarnation:
            old.seals = [*(one for one in old.seals if one != seal), seal]
            old.epoch = max(old.epoch, seal.epoch)
        return False
    if decoded.log.log_id != old.log_id:
        old.others |= {item} if is_above else set()
        return False
    if is_above:
        old.epoch = max(old.epoch, decoded.message.epoch)
    return item.kind == "transaction" and decoded.digest != known and _is_sound(decoded)


def _is_sound(found: DecodedTransaction) -> bool:
    parts = (part for pieces in found.batches.values() for part, _ in batch_parts(pieces))
    return all(isinstance(part, Part) for part in parts)


def _chosen(some: list[DecodedTransaction], later: DecodedTransaction | None) -> DecodedTransaction:
    """Returns the one on which the log goes on; of others that of the highest epoch."""
    following = b"" if later is None else later.message.previous_digest
    return max(some, key=lambda one: (one.digest == following, one.message.epoch))


# --- How it is ended ------------------------------------------------------------------------------


def plan_seals(
    old: OldLog, scan: Scan, log: LogIdentity, rebuild_id: bytes, following: int
) -> list[StandingSeal]:
    """Returns the seals that end the present incarnation, `log`: first that under the agreed name
    of the revision after the head, or as good a guess as can be made; then those under further
    names that a living committer may still use.

    Args:
        following: The incarnation that the rebuild begins.
    """
    at = _agreed_name(old, log.incarnation)
    names = map(parse_own_file, scan.sizes)  # of files that can't be read, too
    epochs = [one.epoch for one in names if one is not None and one.epoch < MAX_FILE_EPOCH]
    epoch = max([old.epoch + 1, *epochs]) if old.seal is None else old.seal.epoch
    slots = [at, *_promised(scan.own, old, at, log.incarnation)]
    return [StandingSeal(log, *slot, rebuild_id, following, epoch) for slot in slots]


def _agreed_name(old: OldLog, incarnation: int) -> Slot:
    """Returns the name of the revision after the head. If nobody can know it, one that any two
    rebuilds agree on."""
    if old.seal is not None:
        return old.seal.revision, old.seal.uuid
    here = incarnation == old.incarnation
    revision = old.head + 1 if here else 0
    readable = max([old.state.revision, *old.readable])
    if here and old.successor is not None and readable == old.head:
        return revision, old.successor[0]
    if revision == 0 and incarnation == 1:
        return 0, first_slot_uuid(old.state.writer, old.state.database)
    return revision, rebuilt_slot_uuid(_NOBODYS, revision)


def _promised(own: Iterable[OwnFile], old: OldLog, at: Slot, incarnation: int) -> list[Slot]:
    """Returns the names above the head that a committer may still use, as far as footers say."""
    tops: dict[bytes, int] = {}  # the highest base of each opening
    order: dict[bytes, tuple[int, int, int]] = {}
    for file in own:
        if file.incarnation == incarnation:
            seed, base = file.slot_seed, file.base_revision
            tops[seed] = max(base, tops.get(seed, base))
            order[seed] = max((file.epoch, base, file.last_clock), order.get(seed, (0, -1, 0)))
    is_whole = old.state.revision == old.head and old.state.revision >= 0 and not old.others
    if is_whole and max(tops.values(), default=-1) < at[0]:
        return []  # the head is what footers say it is: it has promised one name
    first = max(0, at[0] if is_whole else at[0] - 1)
    newest = sorted(tops, key=lambda seed: (order[seed], seed))[-_OPENINGS:]
    bases = {tops[seed] for seed in newest if tops[seed] >= first}
    found: set[Slot] = set()
    for seed in newest:
        start = max(tops[seed], first)
        for revision in bases.union(range(start, start + SEALED_AHEAD + 1)):
            found.add((revision + 1, successor_uuid(seed, revision)))
    taken = {(item.revision, item.uuid8) for item in old.names if item.incarnation == incarnation}
    return [slot for slot in sorted(found - {at}) if (slot[0], slot[1][:4].hex()) not in taken]
