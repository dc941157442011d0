"""What must hold of a log that is rebuilt, loses objects, or lies on a store that folds names.

The truth is what took effect in the store, object by object: each transaction that stood, whatever
became of it, and which files were committed and are owed to the users since.

Invariants (docs/reliability.md):
    U1  no file that was committed and not removed is ever deleted, whatever happened to the log
    U2  nothing is committed above a seal, nor in an incarnation that has ended
    U3  a rebuilt log has every file that is owed; and it has nothing else if the old log was whole
    U4  a reader sees what stood at its revision, and its head never goes back
    U5  what is told to be committed stands as its committer meant it
    U6  no object is overwritten by another

On a store without put-if-absent two may commit one revision. There, instead of U2:
    P1  one revision is acknowledged once
    P2  what was acknowledged is in the log that readers read, or they are told of the fork
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..catalog.format.frame import FrameKind, decode_frame
from ..catalog.format.names import base_folder, log_folder, parse_log_object
from ..catalog.format.objects import decode_transaction, read_seal
from ..catalog.format.path_column import fold
from ..catalog.read.log_reader import LogReader
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..errors import LakelogError
from .entries import Entry, Meant, live_files
from .shown_rows import changed_files
from .truth import hold

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..catalog.format.frame import Frame
    from ..catalog.format.objects import DecodedTransaction, StandingSeal
    from ..catalog.log.outcomes import CommitInfo
    from ..catalog.log.state import State
    from ..rebuild import RebuildPlan
    from .row_annals import RowAnnals
    from .simulation import World

WRITER, DATABASE = "w", "db"
BASE, FOLDER = base_folder(WRITER, DATABASE), log_folder(WRITER, DATABASE)
DATA = f"{BASE}data/"


@dataclass(slots=True)
class Annals:
    """What has taken effect, by watching the store.

    Attributes:
        entries: Transaction objects that stood, by digest.
        owed: Folded paths that were committed and not removed since, less what nothing that is
            left can tell of (`_forgive`).
        current: The incarnation that readers read.
        is_lossy: Whether objects of the log were lost.
        acknowledged: Transactions that their committers were told of.
        folds: Whether the store takes several spellings of a name for one.
        is_plain: Whether it ignores put-if-absent.
        changes: How many writing requests took effect.
        rows: What a table shows whose rows are changed, if there is one.
        sealed: Incarnations that were sealed once. Where a seal is lost, a process that has the log
            open may still commit in one, and a rebuild that is under way doesn't see that: such
            files are not owed (docs/reliability.md, "What is not covered").
    """

    world: World
    entries: dict[bytes, Entry] = field(default_factory=dict)
    owed: dict[str, str] = field(default_factory=dict)
    current: int = 1
    is_lossy: bool = False
    acknowledged: set[bytes] = field(default_factory=set)
    folds: bool = False
    is_plain: bool = False
    changes: int = 0
    rows: RowAnnals | None = None
    sealed: set[int] = field(default_factory=set)
    _objects: dict[str, bytes] = field(default_factory=dict)
    _standing: dict[tuple[int, int], bytes] = field(default_factory=dict)
    _told: dict[int, str] = field(default_factory=dict)
    _whole: dict[int, bool] = field(default_factory=dict)

    def fold(self, path: str) -> str:
        """What is equal for all paths that the store takes for this one."""
        return fold(path) if self.folds else path

    # --- What takes effect ------------------------------------------------------------------------

    def applied(self, verb: str, key: str, body: bytes) -> None:
        """A writing request took effect."""
        self.changes += 1
        path = self.fold(key[len(BASE) :])
        if verb == "PUT" and key.startswith(BASE):
            hold(self._objects.setdefault(path, body) == body, f"U6 {key} is overwritten")
        if key.startswith(DATA):
            self._data_changed(verb, key, path)
        elif verb == "DELETE":
            self._objects.pop(path, None)
            item = parse_log_object(key[len(FOLDER) :]) if key.startswith(FOLDER) else None
            if item is not None and item.kind == "transaction":
                self._standing.pop((item.incarnation, item.revision), None)
        elif key.startswith(FOLDER):
            item = parse_log_object(key[len(FOLDER) :])
            if item is not None and item.kind == "transaction":
                self._landed(body, key)
            elif item is not None and item.incarnation > self.current:
                self._switched(item.incarnation, item.revision)
            elif item is not None and self.is_lossy:
                self._forgive()  # a late checkpoint can make a lost log readable again

    def _data_changed(self, verb: str, key: str, path: str) -> None:
        if verb == "PUT":
            return
        lost = self.is_lossy and path not in self._read_live()
        hold(lost or path not in self.owed, f"U1 {key} is deleted: committed, and never removed")
        self.owed.pop(path, None)
        self._objects.pop(path, None)
        for digest, entry in self._retained():
            objects = self.rows.objects(digest) if self.rows is not None else ()
            named = {self.fold(one) for one in (*(entry.live or ()), *objects)}
            hold(path not in named, f"U1 {key} is deleted: revision {entry.revision} needs it")

    def _retained(self) -> list[tuple[bytes, Entry]]:
        if self.is_lossy:
            return []  # then the log itself is in doubt, and `owed` tells all that counts
        names = LogReader(self.world.store, WRITER, DATABASE).names(self.current)
        oldest = names.oldest_readable()
        return [
            (digest, entry)
            for digest, entry in self.entries.items()
            if entry.incarnation == self.current and entry.revision >= oldest
        ]

    def _landed(self, body: bytes, key: str) -> None:
        seal = read_seal(body, key)
        if seal is not None:  # it may lie where no chain leads to
            self._sealed(seal, decode_frame(body, FrameKind.TRANSACTION, key))
            return
        found = decode_transaction(body, key)
        message, incarnation = found.message, found.log.incarnation
        if self._standing.get((incarnation, message.revision)) == found.digest:
            return  # its very bytes once more: a late put on a plain store
        before = self.entries.get(message.previous_digest)
        live = (before.live if before else None) if message.revision else frozenset[str]()
        adds, removes = changed_files(found)
        if live is not None:
            live = (live - removes) | adds
        entry = Entry(
            incarnation,
            message.revision,
            found.transaction_ids,
            live,
            adds,
            message.previous_digest,
            is_seal=False,
            epoch=message.epoch,
            removes=frozenset(removes),
            log_id=found.log.log_id,
        )
        self.entries[found.digest] = entry
        self._standing[incarnation, message.revision] = found.digest
        if incarnation > self.current:
            return
        self._rows_landed(found)
        if not self.is_plain and not self.is_lossy:  # what is lost leaves its name free
            self._fenced(entry, before)
        if incarnation < self.current:
            return
        where = f"revision {message.revision} of incarnation {incarnation}"
        for path in removes:
            self.owed.pop(self.fold(path), None)
        self._owe(adds, incarnation, where)

    def _owe(self, adds: Iterable[str], incarnation: int, where: str) -> None:
        for path in adds:
            hold(self.fold(path) in self._objects, f"U1 {path} is committed, and isn't there")
            if incarnation not in self.sealed:
                self.owed[self.fold(path)] = where
        if self.is_lossy:
            self._forgive()  # it may stand where a lost one did, below the head

    def _rows_landed(self, found: DecodedTransaction) -> None:
        if self.rows is not None:
            problem = self.rows.landed(found, lambda path: self.world.store.get(BASE + path))
            hold(not problem, problem)

    def _sealed(self, seal: StandingSeal, frame: Frame) -> None:
        before_it = wire.Transaction.FromString(frame.message).previous_digest
        before = self.entries.get(before_it)
        live = before.live if before else None
        none = frozenset[Any]()
        entry = Entry(
            seal.log.incarnation, seal.revision, none, live, none, before_it, is_seal=True
        )
        self.entries[frame.digest] = entry
        if self.rows is not None:
            self.rows.shown[frame.digest] = self.rows.shown.get(before_it)
        self.sealed.add(seal.log.incarnation)

    def _fenced(self, entry: Entry, before: Entry | None) -> None:
        where = f"revision {entry.revision} of incarnation {entry.incarnation}"
        hold(entry.incarnation == self.current, f"U2 {where} is committed; {self.current} counts")
        hold(before is None or not before.is_seal, f"U2 {where} is committed above a seal")

    def _switched(self, incarnation: int, revision: int) -> None:
        """A rebuild has put its opening checkpoint."""
        log = LogReader(self.world.store, WRITER, DATABASE, self.world.ambient())
        state = log.load(revision, incarnation=incarnation)
        paths = live_files(state)
        live = {self.fold(path) for path in paths}
        before, self.current = self.current, incarnation
        none = frozenset[Any]()
        self.entries[state.digest] = Entry(
            incarnation, revision, none, paths, paths, b"", is_seal=False, epoch=state.epoch
        )
        self._standing[incarnation, revision] = state.digest
        lost = self.owed.keys() - live
        hold(not lost, f"U3 the rebuilt log has not {sorted(lost)}")
        is_whole = self._whole.get(incarnation, False) and not self.is_lossy
        if is_whole:
            more = live ^ self.owed.keys()
            hold(not more, f"U3 a rebuild of a whole log changes what is live: {sorted(more)}")
        if self.rows is not None and is_whole:
            standing = (one for place, one in self._standing.items() if place[0] == before)
            head = max(standing, key=lambda one: self.entries[one].revision)
            problem = self.rows.rebuilt(head, state, self.world.store, self.world.ambient())
            hold(not problem, problem)
        self.owed |= dict.fromkeys(live, f"incarnation {incarnation}")

    # --- What is lost -----------------------------------------------------------------------------

    def lost(self, keys: Iterable[str]) -> None:
        """Objects of the log are gone from now on."""
        for key in keys:
            self.world.store.delete([key])
            item = parse_log_object(key[len(FOLDER) :])
            if item is not None and item.kind == "transaction":
                self._standing.pop((item.incarnation, item.revision), None)
            self._objects.pop(self.fold(key[len(BASE) :]), None)
        self.is_lossy = True
        self._forgive()

    def _forgive(self) -> None:
        """Owes no longer what a lost transaction added, if the log has gone on without it: its
        revision is another one's, or it can't have stood between those that are there. It may come
        back all the same, where a footer names it."""
        head, live = self._readable()
        if head is None:
            return  # everybody notices
        names = LogReader(self.world.store, WRITER, DATABASE).names_of_both()
        self.current = names.incarnation or 1
        there = self._back_from(head)
        for digest in self.entries.keys() - there:
            entry = self.entries[digest]
            if not self._may_have_stood(entry, there):
                for path in {self.fold(path) for path in entry.adds} - live:
                    self.owed.pop(path, None)

    def _may_have_stood(self, entry: Entry, there: Iterable[bytes]) -> bool:
        """Whether a lost transaction can have stood where it did, as the log is now.

        Args:
            there: What readers read, if only of the mirror.
        """
        others = {r: self.entries[d] for (i, r), d in self._standing.items() if i == self.current}
        read = [self.entries[digest] for digest in there]
        others |= {one.revision: one for one in read if one.incarnation == self.current}
        if entry.incarnation != self.current or entry.revision in others:
            return False
        if any(other.log_id not in (b"", entry.log_id) for other in others.values()):
            return False  # the log was begun anew
        below = max((o.epoch for r, o in others.items() if r < entry.revision), default=0)
        above = min((o.epoch for r, o in others.items() if r > entry.revision), default=1 << 62)
        checkpoints = LogReader(self.world.store, WRITER, DATABASE).names(self.current).checkpoints
        return below <= entry.epoch <= above and entry.revision > max(checkpoints, default=-1)

    def _readable(self) -> tuple[bytes | None, set[str]]:
        """The head that can be read and what is live there; None if none can."""
        try:
            state = LogReader(self.world.store, WRITER, DATABASE).load()
            return state.digest, {self.fold(path) for path in live_files(state)}
        except LakelogError:
            return None, set()

    def _read_live(self) -> set[str]:
        return self._readable()[1]

    def _back_from(self, digest: bytes) -> set[bytes]:
        """A transaction, and all those that it stands on."""
        found = set()
        while digest in self.entries:
            found.add(digest)
            digest = self.entries[digest].previous
        return found

    # --- What they are told -----------------------------------------------------------------------

    def planned(self, plan: RebuildPlan) -> None:
        """A rebuild was planned: it leaves out nothing that is owed."""
        for item in plan.left_out:
            path = self.fold(item.path)
            if path in self.owed and "its inputs are there" in item.reason:
                for entry in self.entries.values():  # the same rows
                    if path in map(self.fold, entry.adds):
                        self.owed |= {self.fold(one): "as it was" for one in entry.removes}
                self.owed.pop(path, None)
            if self.is_lossy and item.reason.startswith("the log holds it"):
                self.owed.pop(path, None)  # only a lost restore had brought it back
            if self.is_lossy and item.reason.startswith("another attempt at version"):
                self.owed.pop(path, None)  # which of them was committed is lost: the fullest counts
            hold(path not in self.owed, f"U3 a plan calls {path} {item.kind}: {item.reason}")
        self._whole[plan.incarnation] = plan.is_whole

    def told(self, transaction_id: bytes, info: CommitInfo, meant: Meant) -> None:
        """A committer was told of success."""
        if info.skipped:
            return
        self.acknowledged.add(transaction_id)
        there = {one: entry for one, entry in self.entries.items() if transaction_id in entry.ids}
        places = list(there.values())
        hold(bool(places), f"U5 told of revision {info.revision}, and it never stood")
        good = any(
            entry.live is None
            or (meant.adds <= entry.live and not (meant.removes - meant.adds) & entry.live)
            for entry in places
        )
        if self.rows is not None and meant.asked is not None:
            known = [self.rows.meant[one] for one in there if one in self.rows.meant]
            good = good and (not known or any(meant.asked in found for found in known))
        hold(good, f"U5 revision {info.revision} isn't what its committer meant")
        if self.is_plain:
            first = self._told.setdefault(info.revision, info.uuid)
            hold(first == info.uuid, f"P1 revision {info.revision} is acknowledged to two")

    def read(self, state: State, before: State | None = None, *, is_fresh: bool = False) -> None:
        """A reader got a state, after another one.

        Args:
            is_fresh: Whether it was read from the store alone, and not from what was known before.
        """
        if state.revision < 0:
            return
        entry = self.entries.get(state.digest)
        hold(entry is not None, f"U4 a reader sees a revision {state.revision} that never stood")
        assert entry is not None
        assert state.log is not None
        here = (state.log.incarnation, state.revision)
        hold(here == (entry.incarnation, entry.revision), f"U4 a reader takes {entry} for {here}")
        now = self._standing.get(here, state.digest)
        is_known = now == state.digest or not is_fresh or self.is_plain  # there two may stand
        hold(is_known, f"U4 {here} is read as what stood there before")
        hold(
            entry.live is None or live_files(state) == entry.live,
            f"U4 a reader of revision {state.revision} sees other files than are live",
        )
        problem = self.rows.problem(state) if self.rows is not None else ""
        hold(not problem, problem)
        if before is not None and before.log is not None and not self.is_lossy:
            hold(here >= (before.log.incarnation, before.revision), "U4 a reader's head went back")

    def head(self) -> int:
        """The newest revision of the log that counts; -1 for none."""
        at = [revision for incarnation, revision in self._standing if incarnation == self.current]
        return max(at, default=-1)

    def head_digest(self) -> bytes:
        """What stands there."""
        return self._standing.get((self.current, self.head()), b"")

    def ids_at(self, revision: int) -> frozenset[bytes]:
        """The transactions that stand, or stood, at a revision."""
        found = [entry.ids for entry in self.entries.values() if entry.revision == revision]
        return frozenset[bytes]().union(*found)

    def live_at(self, digest: bytes) -> list[str]:
        """Live paths after a transaction, sorted."""
        entry = self.entries.get(digest)
        return sorted(entry.live) if entry is not None and entry.live else []

    def end(self, state: State) -> None:
        """After everything: what is owed is there, and live."""
        live = {self.fold(path) for path in live_files(state)}
        stored = {self.fold(info.key[len(BASE) :]) for info in self.world.store.list(DATA)}
        gone = sorted(self.owed.keys() - stored)
        hold(not gone, f"U1 {gone} are gone")
        if self.is_plain:
            chain = self._back_from(state.digest)
            there = {one for digest in chain for one in self.entries[digest].ids}
            hold(self.acknowledged <= there, "P2 what was acknowledged isn't in the log")
        lost = sorted(self.owed.keys() - live)
        hold(not lost, f"U3 {lost} are live no more: {[self.owed[path] for path in lost]}")
