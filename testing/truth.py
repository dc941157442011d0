"""What must hold of one log, whatever happens to it.

The truth is a small dictionary, kept by watching what takes effect in the store: which transaction
stands on which revision, and which files are live after it. Each write, answer and read is held
against it at once.

Invariants (docs/reliability.md, docs/protocol.md):
    I1  an acknowledged transaction stays readable, or lies below a point that prune may take
    I2  a reader sees exactly what stood at its revision; nobody's unacknowledged half
    I3  one transaction a revision, each transaction once
    I4  after everything, opening works
    I6  a checkpoint says what replay says
    I9  no file that a retained or later revision names is ever deleted, but one of a transaction
        that was under way for longer than gc's grace leaves it and was not acknowledged
    I10 a writer writes below its own prefix only
    I13 what an overwrite replaces was all there when it looked: no file came between
    F1  epochs never decrease; a guest carries the head's
    F2  the owner's commits of one epoch come from one opening
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..catalog.format.objects import decode_transaction
from ..catalog.log.listing import Listing, read_listing
from ..catalog.read.log_reader import LogReader
from .shown_rows import added_files

if TYPE_CHECKING:
    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.log.outcomes import CommitInfo
    from ..catalog.log.state import State
    from ..catalog.wire import lakelog_transaction_pb2 as wire
    from ..errors import LakelogError
    from .shown_rows import RowTruth, Shown
    from .simulation import World

WRITER, DATABASE, TABLE = "w", "db", "t"
FOLDER = f"{WRITER}/{DATABASE}/transactions/"
BASE = f"{WRITER}/{DATABASE}/"


class Violation(AssertionError):
    """An invariant broke. The message begins with its name."""


def hold(condition: bool, words: str) -> None:
    """Raise `Violation` unless something holds."""
    if not condition:
        raise Violation(words)


@dataclass(slots=True)
class Slot:
    """What stands on one revision: transaction ids, the live paths after it, those that it adds
    although it came too late, and the objects of row deletes that it takes to read it."""

    ids: tuple[bytes, ...]
    live: frozenset[str]
    overdue: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()


@dataclass(slots=True)
class Truth:
    """What has taken effect, by watching the store.

    Attributes:
        slots: By revision.
        acknowledged: Transaction id to revision, as its committer was told.
        openings: Who tried to commit a transaction: its writer, one object for each opening.
        claims: Of transactions that overwrite: the revision that they looked at.
        owners: The one opening whose owner has committed under an epoch.
        put_limit_s: How long gc's grace lets a transaction be under way.
        overdue: Data paths of transactions that took longer, as long as nobody was told of success.
        deleted: Data paths that were deleted.
        pruned: Keys of transactions that were deleted.
        junk: Those of them that came again, from a process that slept past the floor.
        changes: How many writing requests took effect.
        rows: What the table shows, where data files hold rows.
    """

    world: World
    put_limit_s: float
    slots: dict[int, Slot] = field(default_factory=dict)
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    openings: dict[bytes, object] = field(default_factory=dict)
    claims: dict[bytes, int] = field(default_factory=dict)
    owners: dict[int, object] = field(default_factory=dict)
    overdue: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    pruned: set[str] = field(default_factory=set)
    junk: set[str] = field(default_factory=set)
    changes: int = 0
    rows: RowTruth | None = None
    _epoch: int = 0

    def applied(self, verb: str, key: str, body: bytes) -> None:
        """A writing request took effect."""
        self.changes += 1
        places = (f"{WRITER}/", f"_pruned/{WRITER}/", "_refs/")
        hold(key.startswith(places), f"I10 {verb} {key} is outside the writer's places")
        if verb == "DELETE":
            self._deleted(key)
        elif key.endswith(".transaction"):
            self._landed(key, body)

    def _landed(self, key: str, body: bytes) -> None:
        found = decode_transaction(body, key)
        revision = found.message.revision
        ids = tuple(member.transaction_id for member in found.message.commit.members)
        if key in self.pruned:
            self.junk.add(key)  # it must never be acknowledged
            return
        if revision in self.slots:
            hold(self.slots[revision].ids == ids, f"I3 {key} replaces another transaction")
            return
        hold(revision == max(self.slots, default=-1) + 1, f"I3 {key} leaves a gap")
        self._fencing(found.message, ids)
        stood = {one for slot in self.slots.values() for one in slot.ids}
        hold(not stood & set(ids), f"I3 a transaction of {key} stands already")
        live = set(self.slots[revision - 1].live) if revision else set()
        for looked_at in (self.claims[one] for one in ids if one in self.claims):
            new = live - self.slots[looked_at].live
            hold(not new, f"I13 {key} replaces what it saw at {looked_at}, and {new} came since")
        came: set[str] = set()
        for position, action in enumerate(found.message.actions):
            if action.WhichOneof("kind") == "remove":
                hold(action.remove.path in live, f"I2 {action.remove.path} is removed, not live")
                live.discard(action.remove.path)
            for _, path, _ in added_files(found, position):
                hold(path not in live, f"I2 {path} is added twice")
                live.add(path)
                came.add(path)
        shown = None if self.rows is None else self._rows_landed(self.rows, found)
        objects = shown.objects() if shown else frozenset[str]()
        named = {one.row_deletes.object for one in found.message.actions if one.row_deletes.object}
        stays = came & live | named & objects  # one that is only named is taken out again
        overdue = stays if self.world.under_way_s > self.put_limit_s else set()
        gone = (stays - overdue) & self.deleted
        hold(not gone, f"I9 {sorted(gone)} are committed and were deleted before")
        self.overdue |= overdue
        self.slots[revision] = Slot(ids, frozenset(live), frozenset(overdue), objects)

    def _rows_landed(self, rows: RowTruth, found: DecodedTransaction) -> Shown | None:
        problem = rows.landed(found, TABLE, lambda path: self.world.store.get(BASE + path))
        hold(not problem, problem)
        return rows.at(found.message.revision)

    def _fencing(self, message: wire.Transaction, ids: tuple[bytes, ...]) -> None:
        epoch, name = message.epoch, f"revision {message.revision}"
        hold(epoch >= self._epoch, f"F1 {name} has epoch {epoch} after {self._epoch}")
        if message.guest:
            head = max(1, self._epoch)
            hold(epoch == head, f"F1 {name} is a guest's, of epoch {epoch} under {head}")
        else:
            opening = self.openings[ids[0]]
            first = self.owners.setdefault(epoch, opening)
            hold(first is opening, f"F2 {name} is a second owner's of epoch {epoch}")
        self._epoch = epoch

    def _deleted(self, key: str) -> None:
        if key.endswith(".transaction"):
            self.pruned.add(key)
        if key.startswith(BASE + "data/"):
            path = key[len(BASE) :]
            self.deleted.add(path)
            oldest = self.listing().oldest_readable()
            for revision, slot in self.slots.items():
                if revision >= oldest and path in (slot.live | slot.objects) - self.overdue:
                    raise Violation(f"I9 {path} was deleted; revision {revision} needs it")
        elif key.startswith(FOLDER) and key not in self.junk:
            listing = self.listing()
            hold(
                listing.oldest_readable() <= listing.head == max(self.slots),
                f"I1 after the deletion of {key} the head can't be read",
            )

    def listing(self) -> Listing:
        """The log's names as they are in the store, without any request."""
        names = (item.key[len(FOLDER) :] for item in self.world.store.list(FOLDER))
        return read_listing(WRITER, DATABASE, names)

    def told(self, transaction_id: bytes, info: CommitInfo) -> None:
        """A committer was told of success."""
        slot = self.slots.get(info.revision)
        hold(slot is not None, f"I1 acknowledged at revision {info.revision}, which isn't there")
        assert slot is not None
        hold(
            transaction_id in slot.ids, f"I3 acknowledged at {info.revision}, another stands there"
        )
        gone = slot.overdue & self.deleted
        hold(not gone, f"I9 {gone} were deleted, and their commit came late and is acknowledged")
        self.overdue -= slot.overdue
        self.acknowledged[transaction_id] = info.revision

    def restored(self, revision: int, to: int) -> None:
        """Somebody was told that a revision goes back to another one."""
        same = self.slots[revision].live == self.slots[to].live
        hold(same, f"I2 revision {revision} goes back to {to}, and other files are live")

    def refused(self, transaction_id: bytes, error: LakelogError) -> None:
        """A committer was told that its transaction doesn't fit."""
        stands = any(transaction_id in slot.ids for slot in self.slots.values())
        hold(not stands, f"I3 a transaction that stands was told as a conflict: {error.message}")

    def live_at(self, revision: int) -> list[str]:
        """Live paths at a revision, sorted."""
        slot = self.slots.get(revision)
        return sorted(slot.live) if slot is not None else []

    def read(self, state: State) -> None:
        """A reader got a state."""
        if state.revision < 0:
            return
        slot = self.slots.get(state.revision)
        hold(slot is not None, f"I2 a reader sees revision {state.revision}, which isn't there")
        assert slot is not None
        seen = set(state.files.table(TABLE).column("path").to_pylist())
        hold(
            seen == slot.live,
            f"I2 a reader of {state.revision} sees {len(seen)} files, {len(slot.live)} are live",
        )
        if self.rows is not None:
            problem = self.rows.problem(state, TABLE)
            hold(not problem, problem)

    def whole(self, *, sample: bool = False) -> None:
        """Every checkpoint and every readable revision in the store says what the truth says.

        Args:
            sample: Only the last revision, one other, and one checkpoint.
        """
        log = LogReader(self.world.store, WRITER, DATABASE, self.world.ambient())
        listing = log.names()
        if listing.head < 0:
            hold(not self.acknowledged, "I1 acknowledged, and the log is empty")
            return
        hold(listing.head == max(self.slots), f"I4 the head is {listing.head}")
        oldest = listing.oldest_readable()
        revisions = list(range(oldest, listing.head + 1))
        checkpoints = [c for names in listing.checkpoints.values() for c in names]
        checkpoints = [item for item in checkpoints if item.revision >= oldest]
        if sample:
            choice = self.world.random.choice
            revisions = sorted({choice(revisions), listing.head})
            checkpoints = [choice(checkpoints)] if checkpoints else []
        for revision in revisions:
            self.read(log.load(revision, listing))
        for item in checkpoints:
            self.read(log.checkpoint_state(item))
        for transaction_id, revision in self.acknowledged.items():
            hold(transaction_id in self.slots[revision].ids, "I1 acknowledged and gone")
