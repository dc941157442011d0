"""Every operation that writes, each with a log to begin with: what the exhaustive tests break off.

An operation gets a store and a notebook. It notes each transaction id that it attempts and each
that was acknowledged; everything else is judged from the store.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import Margins
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.read.mirror import MirrorWarning
from lakelog.errors import MissingTransaction, SnapshotPruned
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import START_US, FakeAmbient, PlainStore
from lakelog.testing.logs import live_paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakelog.catalog.commit.writer import Writer
    from lakelog.catalog.format.names import LogObject
    from lakelog.catalog.log.state import State
    from lakelog.store import Store

W, D = "EWR", "weather"
CHECKPOINT, SEGMENT = ".checkpoint", ".segment"
NO_MARGINS = Margins(prune_floor_s=0.0, gc_grace_s=0.0)
Content = dict[str, bytes]


@dataclass
class Notebook:
    """What a process knew of its own commits when it ended."""

    attempted: list[bytes] = field(default_factory=list)
    acknowledged: list[bytes] = field(default_factory=list)
    unsettled: Any = None  # the transaction whose commit was asked for and has not returned

    def begin(self, writer, **options):
        tx = writer.transaction(**options)
        self.attempted.append(bytes.fromhex(tx.transaction_id))
        return tx

    def commit(self, tx) -> None:
        self.unsettled = tx
        tx.commit()
        self.unsettled = None
        self.acknowledged.append(bytes.fromhex(tx.transaction_id))


@dataclass(frozen=True)
class Seen:
    """What a reader finds: the head, who committed what is there, the live files, the versions.

    A log without objects is the empty state at revision -1. Transactions that only say whose log it
    is are left out: nobody is told of them.
    """

    revision: int
    oldest: int
    transactions: tuple[bytes, ...]
    live: frozenset[str]
    applications: tuple[tuple[str, int], ...]
    foreign: bool


def memory(content: Content | None = None) -> MemoryStore:
    """A store whose clock stands where that of the ambient stands."""
    store = MemoryStore("faults", now=lambda: dt.datetime.fromtimestamp(START_US / 1e6, dt.UTC))
    for key, body in (content or {}).items():
        store.put(key, body)
    return store


def everything(store: Store) -> Content:
    """But for what openings found out about the store: so each operation begins with the race."""
    listed = (info.key for info in store.list(""))
    return {key: store.get(key) for key in listed if "/_probe/" not in key}


def catalog(store: Store, seed: int = 0, *, margins: Margins | None = None) -> Catalog:
    """A new process's view: other identities by the seed, waiting costs nothing."""
    return Catalog(store, ambient=FakeAmbient(seed).ambient, margins=margins or Margins())


def digest_of(store: Store) -> bytes:
    """Equal for stores that hold the same."""
    digest = hashlib.sha256()
    for key, body in sorted(everything(store).items()):
        digest.update(f"{len(key)} {key} {len(body)} ".encode())
        digest.update(body)
    return digest.digest()


_read: dict[bytes, Seen] = {}


def read(store: Store, *, warned: Literal["error", "ignore"] = "error") -> Seen:
    """The newest state, by a reader that has never been here. The same store is read once.

    Args:
        warned: What a checkpoint is that can't be used: after most faults it would be a finding.
    """
    if warned == "ignore":
        return _read_anew(store, warned)
    digest = digest_of(store)
    if digest not in _read:
        _read[digest] = _read_anew(store, warned)
    return _read[digest]


def _read_anew(store: Store, warned: Literal["error", "ignore"]) -> Seen:
    log = LogReader(store, W, D, FakeAmbient(99).ambient)
    listing = log.names()
    with warnings.catch_warnings():
        warnings.simplefilter(warned)
        warnings.simplefilter("ignore", ResourceWarning)  # transactions of who died are dropped
        state = log.load()
    rows = state.history.table().select(["revision", "transaction_ids"]).to_pylist()
    found = tuple(
        one
        for row in rows
        if not only_names_the_log(log, listing.transactions.get(row["revision"]))
        for one in row["transaction_ids"]
    )
    live = live_files(state)
    oldest = listing.oldest_readable()
    versions = tuple(sorted(state.applications.versions().items()))
    return Seen(state.revision, oldest, found, live, versions, state.is_foreign)


_pasts: dict[bytes, dict[int, frozenset[str]]] = {}


def past(store: Store) -> dict[int, frozenset[str]]:
    """The live files of each revision that can be read, of earlier incarnations too; all below were
    pruned, and none is a gap, but between incarnations while prune is at work: the mirror of an
    earlier one goes after the log of the later one. The same store is read once."""
    digest = digest_of(store)
    if digest not in _pasts:
        log = LogReader(store, W, D, FakeAmbient(99).ambient)
        found: dict[int, frozenset[str]] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ResourceWarning)
            listing = log.names()
            oldest = listing.oldest_readable()
            # Nothing says of an earlier incarnation without its beginning that it was pruned.
            gone = (SnapshotPruned, MissingTransaction)[: listing.incarnation]
            for revision in range(listing.head, -1, -1):
                if revision < oldest:  # of an earlier incarnation: prune leaves its mirror for last
                    warnings.simplefilter("ignore", MirrorWarning)
                try:
                    found[revision] = live_files(log.load(revision))
                except gone:
                    continue
        assert len(found) == listing.head + 1 - min(found, default=0) or listing.incarnation > 1
        _pasts[digest] = found
    return _pasts[digest]


def live_files(state: State) -> frozenset[str]:
    return frozenset(path for paths in live_paths(state).values() for path in paths)


def only_names_the_log(log: LogReader, names: list[LogObject] | None) -> bool:
    if not names:
        return False
    message = log.transaction(names[0]).message
    kinds = [action.WhichOneof("kind") for action in message.actions]
    return kinds == ["identity"] and not any(member.app_id for member in message.commit.members)


def rows(value: int) -> pa.Table:
    return pa.table({"n": pa.array([value], pa.int64())})


# --- Operations -----------------------------------------------------------------------------------


def commit_versions(store: Store, notes: Notebook, *, guest: bool = False) -> None:
    """Commits without data files: two, the second on the state that the first one left."""
    with catalog(store, 1).writer(W, D, shared=guest, checkpoint_every=0) as writer:
        for version in (100, 101):
            notes.commit(notes.begin(writer, app_id="job", app_version=version))


def commit_files(store: Store, notes: Notebook, *, guest: bool = False) -> None:
    with catalog(store, 1).writer(W, D, shared=guest, checkpoint_every=0) as writer:
        tx = notes.begin(writer)
        tx.write("hourly", rows(10), partition="p")
        tx.write("daily", rows(11))
        notes.commit(tx)


def commit_guest(store: Store, notes: Notebook) -> None:
    commit_files(store, notes, guest=True)


def commit_plainly(store: Store, notes: Notebook) -> None:
    """On a store without put-if-absent: list, put, list."""
    commit_versions(PlainStore(store), notes)


def checkpoint_plainly(store: Store, notes: Notebook) -> None:
    commit_with_checkpoint(PlainStore(store), notes)


def adopt_name(store: Store, notes: Notebook) -> None:
    """And a commit: nothing else can be committed before."""
    with catalog(store, 1).writer(W, D, checkpoint_every=0) as writer:
        writer.adopt_name()
        notes.commit(notes.begin(writer, app_id="job", app_version=100))


def commit_with_checkpoint(store: Store, notes: Notebook) -> None:
    with catalog(store, 1).writer(W, D, checkpoint_every=1) as writer:
        for value in (10, 11):
            tx = notes.begin(writer)
            tx.write("hourly", rows(value))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a checkpoint that fails is a warning
                notes.commit(tx)


def checkpoint(store: Store, notes: Notebook) -> None:
    """Spilled segments of several kinds and tables."""
    with catalog(store, 1).writer(W, D) as writer:
        writer.checkpoint()


def open_writer(store: Store, notes: Notebook) -> None:
    with catalog(store, 1).writer(W, D):
        pass


def prune(store: Store, notes: Notebook) -> None:
    source = catalog(store, 1, margins=NO_MARGINS)
    execute_prune(source, plan_prune(source, W, D, keep_revisions=2))


def gc(store: Store, notes: Notebook) -> None:
    source = catalog(store, 1, margins=NO_MARGINS)
    execute_gc(source, plan_gc(source, W, D))


def rebuild(store: Store, notes: Notebook) -> None:
    fake = FakeAmbient(1)
    plan = plan_rebuild(store, W, D, ambient=fake.ambient)
    execute_rebuild(store, plan, ambient=fake.ambient)


# --- What they begin with -------------------------------------------------------------------------


def nothing() -> Content:
    return {}


def leave_orphan(store: Store, writer: Writer) -> None:
    """A data file of a transaction that died: else it would have deleted it."""
    transaction = writer.transaction()
    (path,) = transaction.write("hourly", rows(-1))
    key = f"{writer.writer_id}/{writer.database}/{path}"
    body = store.get(key)
    transaction.discard()
    store.put(key, body)


def a_log(database: str = D) -> Content:
    """Six revisions, checkpoints at 1 and 3, files of two tables, an orphan of an old epoch."""
    store = memory()
    paths: list[str] = []
    with catalog(store, 7).writer(W, database, checkpoint_every=0) as writer:
        leave_orphan(store, writer)
        for value in range(5):
            with writer.transaction() as tx:
                if value > 2:
                    tx.remove(paths[value - 2])
                paths += tx.write("hourly", rows(value), partition="p")
                tx.write("daily", rows(value))
            if value in (1, 3):
                writer.checkpoint()
    with catalog(store, 8).writer(W, database, checkpoint_every=0) as writer:
        writer.transaction(app_id="job", app_version=5).commit()
    return everything(store)


def a_log_without_checkpoint() -> Content:
    return {key: body for key, body in a_log().items() if not key.endswith((CHECKPOINT, SEGMENT))}


def a_renamed_log() -> Content:
    """It says that it is another one than its folder says."""
    return {key: body for key, body in a_log().items() if "/data/" in key} | {
        key.replace("/nowcast/", f"/{D}/"): body for key, body in a_log("nowcast").items()
    }


def a_rebuilt_log() -> Content:
    """Two incarnations: the old one sealed, the new one with commits and a checkpoint on top."""
    store = memory(a_log())
    rebuild(store, Notebook())
    with catalog(store, 9).writer(W, D, checkpoint_every=0) as writer:
        leave_orphan(store, writer)
        for value in range(20, 22):
            with writer.transaction() as tx:
                tx.write("hourly", rows(value))
        writer.checkpoint()
    with catalog(store, 10).writer(W, D, checkpoint_every=0) as writer:
        writer.transaction(app_id="job", app_version=6).commit()
    return everything(store)


def a_lost_log() -> Content:
    return {key: body for key, body in a_log().items() if "/data/" in key}


@dataclass(frozen=True)
class Operation:
    """One row of the matrix.

    Attributes:
        run: Does it.
        begin: Makes the store's content before.
        commits: Whether it appends to the log (else a reader must see the same before and after).
        exactly_once: Done again, whatever became of it before, it changes the log once in all.
        least: At least so many writing requests, so that a test that lost its object fails.
    """

    name: str
    run: Callable[[Store, Notebook], None]
    begin: Callable[[], Content]
    least: int
    commits: bool = False
    exactly_once: bool = False


OPERATIONS = [
    Operation("first commit", commit_versions, nothing, 5, commits=True, exactly_once=True),
    Operation("first files", commit_files, nothing, 6, commits=True),
    Operation("first guest", commit_guest, nothing, 7, commits=True),
    Operation("commit", commit_versions, a_log, 5, commits=True, exactly_once=True),
    Operation("files", commit_files, a_log, 6, commits=True),
    Operation("guest", commit_guest, a_log, 6, commits=True),
    Operation("commit to a rebuilt log", commit_files, a_rebuilt_log, 6, commits=True),
    Operation("plain commit", commit_plainly, a_log, 5, commits=True, exactly_once=True),
    Operation("plain checkpoint due", checkpoint_plainly, a_log, 14, commits=True),
    Operation("checkpoint due", commit_with_checkpoint, a_log, 14, commits=True),
    Operation("first checkpoint", checkpoint, a_log_without_checkpoint, 7),
    Operation("checkpoint", checkpoint, a_log, 7),
    Operation("open", open_writer, a_log, 3),
    Operation("open empty", open_writer, nothing, 3),
    Operation("adopt name", adopt_name, a_renamed_log, 5, commits=True),
    Operation("prune", prune, a_log, 8),
    Operation("prune a rebuilt log", prune, a_rebuilt_log, 19),
    Operation("gc", gc, a_log, 3),
    Operation("gc of a rebuilt log", gc, a_rebuilt_log, 4),
]
REBUILDS = [
    Operation("rebuild", rebuild, a_lost_log, 2),
    Operation("rebuild beside", rebuild, a_log, 7),
]
