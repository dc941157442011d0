"""One writer's log of one database, opened for committing.

Source: docs/format.md, section 10.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ...errors import CapabilityMissing, LakelogError, UsageError
from ...store import Capabilities, Store, probe
from ..ambient import SYSTEM, Ambient
from ..format.names import check_id
from ..format.objects import OPERATIONS
from ..log.build import Intent
from ..log.outcome import CommitInfo
from ..log.state import check_features
from ..margins import DEFAULT_MARGINS, Margins
from ..read.log_reader import LogReader
from ..read.lost_log import refuse_lost_log
from .arguments import check_application, check_summary
from .checkpointer import CheckpointInfo, CheckpointPolicy, write_checkpoint
from .committer import Committer
from .queue import CommitQueue
from .transaction import Transaction

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence
    from types import TracebackType


class Writer:
    """Commits to the log of one writer and database. Threads may share it; transactions are for one
    thread each.

    An owner (the default) takes the writer over: whoever had it open before is fenced with this
    one's first commit. A guest (`shared=True`) commits beside the owner and other guests.

    Attributes:
        writer_id, database: Whose log.
        store: Where it lies.
        capabilities: What the probe found.
        last_checkpoint: The newest one that this instance wrote, or None.
    """

    def __init__(
        self,
        store: Store,
        writer_id: str,
        database: str,
        *,
        shared: bool = False,
        checkpoint_every: int = 100,
        ambient: Ambient = SYSTEM,
        margins: Margins = DEFAULT_MARGINS,
    ) -> None:
        self.writer_id = check_id(writer_id, "writer")
        self.database = check_id(database, "database")
        self.store = store
        self.capabilities: Capabilities = probe(
            store, f"{writer_id}/", new_name=lambda: f"{ambient.new_id().hex()}"
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
        self._ambient = ambient
        self._margins = margins
        self._log = LogReader(store, writer_id, database, ambient)
        asked_at_s = ambient.monotonic_s()
        listing = self._log.names()
        if listing.head < 0:
            refuse_lost_log(store, writer_id, database)
        state = self._log.load(listing=listing)
        check_features(state, writing=True)
        self._retained_from = max(0, listing.oldest_readable()) if listing.head >= 0 else 0
        self._committer = Committer(
            self._log,
            state,
            seen_at_s=asked_at_s,
            exclusive=exclusive,
            guest=shared,
            ambient=ambient,
            margins=margins,
        )
        self._policy = CheckpointPolicy(checkpoint_every, max(listing.checkpoints, default=-1))
        self._queue = CommitQueue(self._commit_all)
        # The committer's state, against a checkpoint from another thread.
        self._guard = threading.Lock()
        self._clock_us = 0
        self._store_ahead_s: float | None = None
        self._closed = False
        self.last_checkpoint: CheckpointInfo | None = None

    def transaction(
        self,
        app_id: str | None = None,
        app_version: int | None = None,
        *,
        operation: str | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> Transaction:
        """Begin a transaction. Use it as a context manager: it commits at the end, and discards on
        an exception.

        Args:
            app_id, app_version: Idempotence: if this version or a later one of the application is
                in the log, the commit writes nothing and says `skipped`.
            operation: append, delete, overwrite, rewrite, row_delta, maintenance; seen from the
                changes if not given.
            summary: Words for the history.
        Requests: none.
        """
        if self._closed:
            raise UsageError("This writer is closed", key=self.writer_id, hint="Open it again")
        intent = make_intent(
            self._ambient.new_id(),
            self._committer.current_epoch(),
            self._ambient.monotonic_s(),
            app_id=app_id,
            app_version=app_version,
            operation=operation,
            summary=summary,
        )
        return Transaction(self, intent)

    def checkpoint(self) -> CheckpointInfo | None:
        """Write a checkpoint of the newest state that this writer knows; None while the log is
        empty.

        Requests: 1 PUT, and 1 for each spilled segment; 1 LIST before if this writer was idle for
            long.
        """
        with self._guard:
            self._committer.catch_up()
            state, seen_at_s = self._committer.state.copy(), self._committer.seen_at_s
        if state.revision < 0:
            return None
        info = write_checkpoint(
            self._log,
            state,
            exclusive=self.capabilities.put_if_absent,
            retained_from=self._retained_from,
            is_stale=lambda: self._committer.is_idle(seen_at_s),
        )
        self._policy.written(info.revision)
        self.last_checkpoint = info
        return info

    @property
    def revision(self) -> int:
        """The newest revision that this writer knows; -1 before the first commit."""
        return self._committer.state.revision

    @property
    def epoch(self) -> int:
        """The fencing number that a transaction begun now carries."""
        return self._committer.current_epoch()

    def close(self) -> None:
        """No more transactions. Nothing is written."""
        self._closed = True

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- For transactions -------------------------------------------------------------------------

    def commit_intent(self, intent: Intent) -> CommitInfo:
        """Commit what a transaction gathered (perhaps with others'); then a checkpoint, if one is
        due."""
        return self._queue.commit(intent)

    def base(self) -> tuple[int, bytes]:
        """The head's revision and the id of the last transaction in it: what a transaction begun
        now builds on."""
        with self._guard:
            state = self._committer.state
            return state.revision, state.transaction_ids[-1] if state.transaction_ids else b""

    def clock(self) -> tuple[int, int]:
        """The next reading of the writer's logical clock, as first and last: µs, strictly
        increasing."""
        with self._guard:
            self._clock_us = max(self._clock_us + 1, self._ambient.now_us())
            return self._clock_us, self._clock_us

    def is_live(self, path: str) -> bool:
        """Whether a path is live in the newest state that this writer knows."""
        with self._guard:
            return self._committer.state.table_of(path) is not None

    def written_at_s(self, modified_at: dt.datetime) -> float:
        """When a file of that store time was written, on the clock that never jumps; rather too
        early than too late.

        gc judges ages by the store's clock, so this one asks it once how far it is ahead of ours.

        Requests: once a writer 1 PUT, 1 HEAD, 1 DELETE.
        """
        ambient = self._ambient
        if self._store_ahead_s is None:
            key = f"{self.writer_id}/_probe/{ambient.new_id().hex()}"
            self.store.put(key, b"lakelog: what time is it?")
            try:
                there = self.store.head(key).modified_at
            finally:
                self.store.delete([key])
            here_s = ambient.now_us() / 1e6
            self._store_ahead_s = 0.0 if there is None else max(0.0, there.timestamp() - here_s)
        now_s = ambient.now_us() / 1e6 + self._store_ahead_s
        return ambient.monotonic_s() - max(0.0, now_s - modified_at.timestamp())

    def is_too_old(self, written_at_s: float) -> bool:
        """Whether a file of that age may no longer be committed; see `Margins.file_age_limit_s`."""
        return self._ambient.monotonic_s() - written_at_s > self._margins.file_age_limit_s

    def knows_schema(self, table: str, fingerprint: bytes) -> bool:
        """Whether the log knows this schema of the table already."""
        return (table, fingerprint) in self._committer.state.schemas

    def _commit_all(self, intents: Sequence[Intent]) -> list[CommitInfo | LakelogError]:
        with self._guard:
            results = self._committer.commit(intents)
            revision = self._committer.state.revision
        if any(isinstance(result, CommitInfo) and not result.skipped for result in results):
            self._policy.after_commit(revision, self._checkpoint_now)
        return results

    def _checkpoint_now(self) -> CheckpointInfo:
        info = self.checkpoint()
        assert info is not None
        return info


def make_intent(
    transaction_id: bytes,
    epoch: int,
    begun_s: float,
    *,
    app_id: str | None,
    app_version: int | None,
    operation: str | None,
    summary: Mapping[str, str] | None,
) -> Intent:
    """An intent without actions yet.

    Raises:
        UsageError: An application id without a version or the other way round, an unknown
            operation, or what the log can't hold.
    """
    application, version = check_application(app_id, app_version)
    if operation is not None and operation not in OPERATIONS:
        raise UsageError(
            f"Unknown operation {operation!r}",
            key=operation,
            hint=f"One of {', '.join(sorted(OPERATIONS))}",
        )
    return Intent(
        transaction_id,
        epoch,
        [],
        operation or "",
        application,
        version,
        check_summary(summary),
        begun_s,
    )
