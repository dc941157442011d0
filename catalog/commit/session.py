"""What an open writer knows: its log, committer, queue, clocks and checkpoints. `Writer` is its
face for users, `Transaction` gathers changes for it.

Source: docs/format.md, section 10.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...errors import (
    CapabilityMissing,
    CorruptError,
    InvalidName,
    IsReplica,
    LakelogError,
    LogLost,
    SnapshotPruned,
    TableNotFound,
    UnsupportedFeature,
    UsageError,
    some_names,
)
from ...store import Capabilities, Store, WideStore, probe, probe_names
from ..format.footer import BaseRevision
from ..format.frame import MAX_MESSAGE_BYTES
from ..format.names import check_id, is_id
from ..log.admission import Results, admit, check_writer_features
from ..log.build import Intent, forget_action, identity_action
from ..log.column_ids import forgotten_ids
from ..log.lookup import files_with, schemas_with
from ..log.outcomes import CommitInfo
from ..log.partitioning import Partitionings
from ..nesting import refuse_nested
from ..read.log_reader import CheckpointWarning, LogReader
from ..read.mirror import goes_further, refuse_lost_end, refuse_lost_log
from .arguments import check_past, make_intent
from .checkpointer import CheckpointInfo, CompactionWarning, Recurring, write_checkpoint
from .clocks import Clocks
from .committer import Committer
from .operation_guard import check_commit, refuse_other
from .schema_compatibility import UnitedSchemas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..ambient import Ambient
    from ..format.frame import LogIdentity
    from ..log.listing import Listing
    from ..log.state import State
    from ..margins import Margins


# --- Many threads, one committer ------------------------------------------------------------------

MAX_MEMBERS: Final = 1_000
MAX_ACTIONS: Final = 50_000
MAX_BYTES: Final = MAX_MESSAGE_BYTES // 2

CommitAll = Callable[[Sequence[Intent]], list[CommitInfo | LakelogError]]


@dataclass(slots=True, eq=False)
class _Waiter:
    """One who waits. Whoever has set the result has told everything: there is no second step."""

    intent: Intent
    result: CommitInfo | LakelogError | None = None


class CommitQueue:
    """Lets one thread at a time commit, for itself and for all who queue behind it.

    Args:
        commit_all: Commits intents together and gives each its result, in order; never called
            concurrently, nor twice with one transaction in it. Committing one again that was
            committed, or interrupted in it, must be safe.
    """

    def __init__(self, commit_all: CommitAll) -> None:
        self._commit_all = commit_all
        self._queue: deque[_Waiter] = deque()
        self._guard = threading.Lock()
        self._turn = threading.Lock()

    def commit(self, intent: Intent) -> CommitInfo:
        """Commits one intent, perhaps together with others; returns, or raises, its own outcome."""
        waiter = _Waiter(intent)
        try:
            self._enter(waiter)
            # Locks are held by `with` alone: an interrupt can't come between it and its lock.
            with self._turn:
                while waiter.result is None:  # a long queue takes more than one turn
                    self._enter(waiter)  # who took it out of the queue was interrupted
                    self._lead()
        except BaseException:
            self._withdraw(waiter)  # once its caller has an error, it must not be committed
            raise
        if isinstance(waiter.result, CommitInfo):
            return waiter.result
        assert waiter.result is not None
        raise waiter.result

    def _lead(self) -> None:
        """Commit the queue's head. An interrupt, and any error that is not a result, is the
        leader's own: those whom it committed for have no result then, and look themselves."""
        batch = self._take()
        results = self._commit_all([waiter.intent for waiter in batch])
        for waiter, result in zip(batch, results, strict=True):
            waiter.result = result

    def _enter(self, waiter: _Waiter) -> None:
        with self._guard:
            if waiter not in self._queue:
                self._queue.append(waiter)

    def _withdraw(self, waiter: _Waiter) -> None:
        with self._guard:
            if waiter in self._queue:
                self._queue.remove(waiter)

    def _take(self) -> list[_Waiter]:
        """As much of the queue's head as one transaction object takes; never nothing."""
        batch: list[_Waiter] = []
        with self._guard:
            actions = size_bytes = 0
            taken: set[bytes] = set()
            while self._queue and len(batch) < MAX_MEMBERS:
                waiter = self._queue[0]
                actions += len(waiter.intent.actions)
                size_bytes += _message_bytes(waiter.intent)
                if batch and (actions > MAX_ACTIONS or size_bytes > MAX_BYTES):
                    break
                if waiter.intent.transaction_id in taken:
                    break  # one that gave up and came back, while its first try still waited
                taken.add(waiter.intent.transaction_id)
                batch.append(waiter)
                self._queue.popleft()
        return batch


def _message_bytes(intent: Intent) -> int:
    """What an intent takes of the message, but for adds: many of those go into columns."""
    kept = (action for action in intent.actions if action.WhichOneof("kind") != "add")
    return intent.member().ByteSize() + sum(action.ByteSize() for action in kept)


# --- The open log ---------------------------------------------------------------------------------

_T = TypeVar("_T")


class Session:
    """One writer's log, opened for committing. Safe to use from many threads.

    Attributes:
        writer_id, database: Whose log.
        store: Where it lies.
        wide: The same, which also reads files that lie elsewhere.
        capabilities: What the probe found.
        clocks: How old beliefs and files are.
        operations: Those that may be committed; None: all.
        last_checkpoint: The newest one that this session wrote, or None.
    """

    def __init__(
        self,
        store: Store,
        writer_id: str,
        database: str,
        *,
        shared: bool,
        checkpoint_every: int,
        ambient: Ambient,
        margins: Margins,
        wide: WideStore,
        operations: frozenset[str] | None = None,
    ) -> None:
        self.operations = operations
        self.writer_id = check_id(writer_id, "writer")
        self.database = check_id(database, "database")
        self.store = store
        self.wide = wide
        self._ambient = ambient
        self._log = LogReader(store, writer_id, database, ambient)
        self._may_begin = False
        self.capabilities: Capabilities = probe(
            store,
            f"{writer_id}/",
            new_name=lambda: ambient.new_id().hex(),
            before=self._listed,  # nothing is written where no log may begin
        )
        exclusive = self.capabilities.put_if_absent
        if shared and not exclusive:
            raise CapabilityMissing(
                f"Guests need put-if-absent, which {store.url} doesn't have: "
                f"{self.capabilities.detail}",
                key=store.url,
                hint="Open the writer as its only owner, or give this process a writer id of its "
                "own",
            )
        self.clocks = Clocks(store, f"{writer_id}/", ambient, margins)
        asked_at = self.clocks.now()
        copies = self._log.newest_copies()  # before the log, whose end it must not pass
        listing = self._listed()
        if goes_further(copies, listing):
            refuse_lost_end(self._log, copies)
        state = self._log.load(listing=listing, sealed=True)
        check_writer_features(state)
        self._committer = Committer(
            self._log,
            state,
            seen_at=asked_at,
            exclusive=exclusive,
            guest=shared,
            ambient=ambient,
            clocks=self.clocks,
        )
        self._committer.mirror.complete(listing, copies)
        self._is_replica = listing.is_replica
        if shared and state.revision < 0:
            self._committer.begin_log()
        self._checkpointer = Recurring(
            checkpoint_every,
            max(listing.checkpoints, default=-1),
            self._write_due,
            CheckpointWarning,
            in_background=ambient.in_background,
        )
        self._compactor: Recurring | None = None
        self._queue = CommitQueue(self._commit_all)
        self._united = UnitedSchemas(self.writer_id)
        self._partitionings = Partitionings()
        self._guard = threading.Lock()  # the committer's state, against other threads
        self._clock_us = state.committed_at_us  # where an opening before this one has been
        self._closed = False
        self._process = os.getpid()
        self.last_checkpoint: CheckpointInfo | None = None

    def _listed(self) -> Listing:
        """The names of the log. Raises what `check_birth` raises where there are none."""
        listing = self._log.names_for(mirror=False)
        if listing.head < 0 and not listing.others and not self._may_begin:
            try:
                check_birth(self.store, self.writer_id, self.database)
            except LogLost:
                listing = self._log.names_for(mirror=False)
                if listing.head < 0:  # else somebody has just begun it
                    raise
            self._may_begin = True
        return listing

    # --- For the writer ---------------------------------------------------------------------------

    def begin(
        self,
        app_id: str | None,
        app_version: int | None,
        operation: str | None,
        summary: Mapping[str, str] | None,
    ) -> Intent:
        """Returns the intent of a new transaction, which sees all that was committed before.

        Raises:
            UsageError: The session is closed, or an argument can't be.
            FencedError, ForeignLog: This session can't commit.
            StorageError: The log can't be read.
        Requests: those of `Committer.look`.
        """
        self.check_open()
        asked_s = self._ambient.monotonic_s()
        with self._guard:
            self._committer.look(asked_s)
        self._committer.refuse_fenced()
        self._committer.refuse_foreign()
        intent = self._intent(app_id, app_version, operation, summary)
        if intent.operation:
            refuse_other(intent.operation, self.operations)
        return intent

    def _intent(self, *said: Any) -> Intent:
        if self._is_replica:
            where = f"{self.writer_id}/{self.database}"
            raise IsReplica(
                f"{where} is a replica, which replication alone writes: a commit here would part "
                "it from its source",
                key=where,
                hint="Nothing was written. Write to the source. If it is lost, or this is to take "
                "its place: stop replicating, and `lakelog promote` it",
            )
        epoch = self._committer.current_epoch()
        return make_intent(self._ambient.new_id(), epoch, self.clocks.now(), *said)

    @property
    def revision(self) -> int:
        """The newest revision that is known; -1 before the first commit."""
        return self._committer.state.revision

    @property
    def epoch(self) -> int:
        """The fencing number that a transaction begun now carries."""
        return self._committer.current_epoch()

    def checkpoint(self, *, trim: bool = False) -> CheckpointInfo | None:
        """Writes a checkpoint of the newest known state; None while the log is empty. `trim` leaves
        out the history of what was pruned."""
        self.check_process()
        with self._guard:
            state, seen_at = self._committer.checkpointable()
        if state.revision < 0 or state.sealed_for:
            return None
        info, encoded = write_checkpoint(
            self._log,
            state,
            exclusive=self.capabilities.put_if_absent,
            salt=self._ambient.new_id(),
            retained_from=max(0, self._log.names().oldest_readable()) if trim else 0,
            is_stale=lambda: self._committer.is_idle(seen_at),
        )
        with self._guard:
            self._committer.rebase(encoded, seen_at)
        self._checkpointer.done(info.revision)
        self.last_checkpoint = info
        return info

    def adopt_name(self) -> None:
        """Commit that the log is this writer's and database's, if it says otherwise."""
        self.check_open()
        self._committer.refuse_fenced()
        if not self._committer.state.is_foreign:
            return
        intent = self._intent(None, None, "maintenance", None)
        intent.actions.append(identity_action(self.writer_id, self.database))
        self.commit(intent)

    def forget(self, tables: Sequence[str], applications_before_us: int) -> CommitInfo:
        """Commits that emptied tables, and applications last committed before a time, are no part
        of the log any more. Raises `TableNotFound`, and `UsageError` for a time to come."""
        intent = self.begin(None, None, "maintenance", None)
        check_past(applications_before_us, self._ambient.now_us())
        known = self.ask(lambda state: state.schemas.tables())
        for table in tables:
            if table not in known:
                raise TableNotFound(
                    f"The log of {self.writer_id}/{self.database} knows no table {table!r}",
                    key=table,
                    hint=f"It knows: {some_names(sorted(known))}",
                )
        intent.actions.append(forget_action(tables, applications_before_us))
        intent.actions += self.ask(lambda state: forgotten_ids(state, tables, intent))
        return self.commit(intent)

    def compact_every(self, commits: int, compact: Callable[[], object]) -> None:
        """Has compactions follow commits."""

        def do() -> int:
            compact()
            self.ask_anew(lambda state: state)
            return self._committer.state.revision

        last = self._committer.state.revision
        last -= (last + 1) % commits  # of programs of one commit each one is the next to do it
        self._compactor = Recurring(
            commits, last, do, CompactionWarning,
            in_background=self._ambient.in_background,
        )  # fmt: skip

    def close(self) -> None:
        """Closes the writer. Waits for a checkpoint or a compaction that is under way, and for the
        copy of the last commit."""
        self._closed = True
        if not self.is_forked:
            if self._compactor is not None:
                self._compactor.wait()
            self._checkpointer.wait()
            with self._guard:
                self._committer.close()

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the one that opened the writer."""
        return self._process != os.getpid()

    def check_process(self) -> None:
        """Raises `UsageError` in a process that was forked from the one that opened the writer:
        both would use one slot seed and one epoch. It asks for no lock, which another thread may
        have held then."""
        if self.is_forked:
            raise UsageError(
                "This writer was opened by another process, which this one was forked from",
                key=self.writer_id,
                hint="Nothing was written. Open the writer, and begin the transaction, in the "
                "process that uses it",
            )

    def check_open(self) -> None:
        """Raises `UsageError` if the writer was closed, or opened by another process."""
        self.check_process()
        if self._closed:
            raise UsageError("This writer is closed", key=self.writer_id, hint="Open it again")

    # --- For transactions -------------------------------------------------------------------------

    @property
    def log(self) -> LogIdentity:
        """The log that is committed to."""
        return self._committer.identity

    @property
    def slot_seed(self) -> bytes:
        """From which the names of this session's commits follow."""
        return self._committer.slot_seed

    def refuse_fenced(self) -> None:
        """Raises `FencedError` if the writer is known to be taken over."""
        self._committer.refuse_fenced()

    @property
    def in_background(self) -> bool:
        """Whether threads may put data files."""
        return self._ambient.in_background

    def commit(self, intent: Intent) -> CommitInfo:
        """Commit what a transaction gathered, perhaps with others'; then a checkpoint, if one is
        due."""
        self.check_process()
        check_commit(intent, self.operations)
        return self._queue.commit(intent)

    def base(self, app_id: str) -> BaseRevision:
        """The head that a transaction begun now builds on, and the version of an application."""

        def asked(state: State) -> BaseRevision:
            version = state.applications.version(app_id) if app_id else -1
            return BaseRevision(state.revision, state.transaction_id, version)

        return self.ask(asked)

    def clock(self) -> tuple[int, int]:
        """The next reading of the writer's logical clock, as first and last: µs, strictly
        increasing."""
        with self._guard:
            self._clock_us = max(self._clock_us + 1, self._ambient.now_us())
            return self._clock_us, self._clock_us

    def tables_of(self, path: str) -> list[str]:
        """The tables in which a path is live, in the newest state that is known.

        Requests: none but for pieces of a checkpoint; 1 LIST, and 1 GET for each new transaction,
            before it says none.
        """

        def asked(state: State) -> list[str]:
            return files_with(state, [path]).tables_of(path)

        return self.ask(asked) or self.ask_anew(asked)

    def may_stand(self, transaction_id: bytes) -> bool:
        """Whether a transaction stands, or may come to stand: it was sent, and nobody knows that
        another one has its place. Without put-if-absent a put may land late."""
        attempts = self._committer.attempts
        was_sent = transaction_id in attempts.own
        return attempts.may_stand(transaction_id) or (
            was_sent and not self.capabilities.put_if_absent
        )

    def is_nobodys(self, intent: Intent) -> bool:
        """Whether no log can name the files of a transaction that this session has not sent: no
        copy of this process has committed it, and no rebuild has taken its files in. An incarnation
        that a rebuild opened begins above the epochs of all files that it saw.

        Requests: 1 LIST, and 1 GET for each new transaction.
        """
        with self._guard:
            before = self._committer.identity
            self._committer.absorb()
            state = self._committer.state
            if state.sealed_for or state.log not in (None, before):
                return False
            if before.incarnation > 1 and intent.epoch < state.first_epoch:
                return False
            own = intent.transaction_id
            return own not in state.history.of_transactions({own})

    def knows_schema(self, table: str, fingerprint: bytes) -> bool:
        """Whether the log knows this schema of the table already."""
        return self.ask(lambda state: (table, fingerprint) in schemas_with(state, [table]))

    def ask_united(self, asked: Callable[[UnitedSchemas, State], _T]) -> _T:
        """What is asked of the schemas of the newest state that is known; see `UnitedSchemas`."""
        return self.ask(lambda state: asked(self._united, state))

    def partitioning(self, table: str) -> tuple[str, ...]:
        """The columns by which a table is partitioned in the newest state that is known; none if it
        isn't. Requests: those of `Partitionings.of`."""
        return self.ask(lambda state: self._partitionings.of(state, table))

    def ask(self, asked: Callable[[State], _T]) -> _T:
        """What the newest state that is known says. If it can't be read, others may have gone on
        and pruned what it was read from: then it is asked of what they have committed."""
        with self._guard:
            return self._ask(asked)

    def _ask(self, asked: Callable[[State], _T]) -> _T:
        # Apart from the lock: where a `try` begins a block, an interpreter that traces can be
        # interrupted before the block has its end, and the lock would stay taken.
        try:
            return asked(self._committer.state)
        except UnsupportedFeature:
            raise
        except (CorruptError, SnapshotPruned):
            known = self._committer.state
            self._committer.catch_up()
            if self._committer.state is known:
                self._committer.absorb()
            if self._committer.state is known:
                raise
            return asked(self._committer.state)

    def ask_anew(self, asked: Callable[[State], _T]) -> _T:
        """Asks the newest state in the log, so that nothing is refused by an old one. Raises
        `FencedError`."""
        with self._guard:
            self._committer.absorb()
            self._committer.refuse_fenced()
            return asked(self._committer.state)

    def refuse_unfit(self, intent: Intent) -> None:
        """Raises the error of its commit if an intent could not be committed onto the newest
        state."""
        results: Results = {}
        with self._guard:
            self._committer.absorb()
            admit(self._committer.state, [intent], results, self._committer._limits())
        found = results.get(intent.transaction_id)
        if isinstance(found, LakelogError):
            raise found

    def folds_names(self) -> bool:
        """Whether the store takes several spellings of a name for one.

        Requests: those of `store.probe_names`.
        """
        new_id = self._ambient.new_id
        return bool(probe_names(self.store, f"{self.writer_id}/", new_name=lambda: new_id().hex()))

    def _write_due(self) -> int:
        """Write the checkpoint that is due; its revision, or -1 if there is nothing to say."""
        info = self.checkpoint()
        return -1 if info is None else info.revision

    def _commit_all(self, intents: Sequence[Intent]) -> list[CommitInfo | LakelogError]:
        with self._guard:
            results = self._committer.commit(intents)
            revision = self._committer.state.revision
        if any(isinstance(result, CommitInfo) and not result.skipped for result in results):
            self._checkpointer.after_commit(revision)
            if self._compactor is not None:
                self._compactor.after_commit(revision)
        return results


def check_birth(store: Store, writer: str, database: str) -> None:
    """Refuse to begin a log where one was lost, or under a name that differs from another one's
    only in case: stores that fold case would take both for one.

    Raises:
        LogLost: Its mirror says that there was a log.
        NestedCatalog: The log would begin inside another catalog.
        InvalidName: Another writer or database has this name in other letters.
    Requests: 3 LIST, and those of `nesting.refuse_nested`.
    """
    _refuse_twin(store.list_folders(""), writer, "writer")
    _refuse_twin(store.list_folders(f"{writer}/"), database, "database")
    refuse_lost_log(store, writer, database)
    refuse_nested(store)


def _refuse_twin(names: list[str], name: str, what: str) -> None:
    for other in names:
        if is_id(other) and other != name and other.lower() == name.lower():
            raise InvalidName(
                f"{what} {name!r} differs only in case from {other!r}, which is there",
                key=name,
                hint=f"Use {other!r}, or a name that differs in more than case",
            )
