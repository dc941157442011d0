"""One writer's log of one database, opened for committing: what users see of it.

Source: docs/format.md, section 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...store import WideStore
from ..ambient import SYSTEM, Ambient
from ..margins import CHECKPOINT_EVERY, DEFAULT_MARGINS, Margins
from .arguments import check_forgotten, check_forgotten_before
from .operation_guard import check_operations
from .session import Session
from .transaction import Transaction

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection, Mapping, Sequence
    from types import TracebackType

    from ...store import Capabilities, Store
    from ..log.outcomes import CommitInfo
    from .checkpointer import CheckpointInfo


class Writer:
    """Commits to the log of one writer and database. Threads may share it; transactions are for one
    thread each.

    An owner (the default) takes the writer over: whoever had it open before is fenced with this
    one's first commit. A guest (`shared=True`) commits beside the owner and other guests.

    Attributes:
        writer_id, database: Whose log.
    """

    def __init__(
        self,
        store: Store,
        writer_id: str,
        database: str,
        *,
        shared: bool = False,
        checkpoint_every: int = CHECKPOINT_EVERY,
        ambient: Ambient = SYSTEM,
        margins: Margins = DEFAULT_MARGINS,
        wide: WideStore | None = None,
        operations: Collection[str] | None = None,
    ) -> None:
        self._session = Session(
            store,
            writer_id,
            database,
            shared=shared,
            checkpoint_every=checkpoint_every,
            ambient=ambient,
            margins=margins,
            wide=wide or WideStore(store),
            operations=check_operations(operations),
        )
        self.writer_id = self._session.writer_id
        self.database = self._session.database

    def __repr__(self) -> str:
        return f"Writer({self.writer_id!r}, {self.database!r}, revision {self.revision})"

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
            operation: append, delete, overwrite, rewrite, row_delta, maintenance: what is something
                else is refused, and a rewrite has to keep the number of rows. Seen from the changes
                if not given.
            summary: Words for the history.
        Raises:
            UsageError: The writer is closed, or an argument can't be.
            OperationNotAllowed: The writer was opened for others.
            FencedError: Another process has taken the writer over.
            ForeignLog: The log is another writer's or database's: see `adopt_name`.
            CorruptError, SnapshotPruned, StorageError: The log, or with `app_id` the versions of
                applications, can't be read.
        The transaction sees all that was committed before it began, by whomever.

        Requests: 1 HEAD, or 1 LIST on a store without put-if-absent; if others have committed since
            this writer last looked, 1 LIST, and 1 GET a transaction. The first with `app_id` reads
            the versions: 1 GET where they are many.
        """
        return Transaction(
            self._session, self._session.begin(app_id, app_version, operation, summary)
        )

    def checkpoint(self) -> CheckpointInfo | None:
        """Write a checkpoint of the newest state that this writer knows; None while the log is
        empty. Writers make them by themselves; this is for who wants one now.

        Raises:
            UsageError: This writer is closed.
            ForeignLog: The log is another writer's or database's.
            StorageError: It could not be written; the log is as good as before.
        Requests: 1 PUT, and 1 for each new segment; the LIST of all names, to leave out the history
            of what was pruned.
        """
        self._session.check_open()
        return self._session.checkpoint(trim=True)

    def adopt_name(self) -> None:
        """Make a log that was copied or renamed this writer's: nothing happens if it is already.

        Raises:
            FencedError, CommitOutcomeUnknown: As for any commit.
        Requests: 1 PUT.
        """
        self._session.adopt_name()

    def forget(
        self, *, tables: Sequence[str] = (), applications_before: dt.datetime | None = None
    ) -> CommitInfo:
        """Let the log forget what it need not know any more; its history stays.

        Args:
            tables: Without live files: they are listed no more, and their schemas are gone. Remove
                the files in a transaction before.
            applications_before: An aware time: applications whose version was last committed before
                it begin anew, as if they had never committed. Choose it so that none of them will
                repeat a commit.
        Raises:
            UsageError: A table has files, there is nothing to forget, or an argument can't be, as a
                time that is still to come.
            TableNotFound: The log knows no such table.
            NaiveTime: The time has no zone.
            FencedError, ForeignLog, CommitOutcomeUnknown: As for any commit.
        Requests: 1 PUT, and 1 GET for each piece of the checkpoint that holds files or schemas.
        """
        before_us = check_forgotten_before(applications_before)
        return self._session.forget(check_forgotten(tables, before_us), before_us)

    @property
    def capabilities(self) -> Capabilities:
        """What the probe found the store to do."""
        return self._session.capabilities

    @property
    def last_checkpoint(self) -> CheckpointInfo | None:
        """The newest checkpoint that this instance wrote, or None."""
        return self._session.last_checkpoint

    @property
    def revision(self) -> int:
        """The newest revision that this writer knows; -1 before the first commit."""
        return self._session.revision

    @property
    def epoch(self) -> int:
        """The fencing number that a transaction begun now carries."""
        return self._session.epoch

    def close(self) -> None:
        """No more transactions. Waits for a checkpoint that is being written."""
        self._session.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
