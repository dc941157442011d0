"""Whether what stands in the log under an own transaction id is what was meant, and can be read.

A process may be doubled: a machine that is cloned, or set back to a snapshot of its memory, has its
twin's transaction ids, and the twin may have committed one of them with other content. And it may
have stood still between writing its files and committing them, for so long that gc took them.

Source: docs/protocol.md, sections 2.2 and 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import ObjectNotFound
from ..format.names import LogObject, base_folder, is_in_place
from ..log.lookup import files_with
from ..log.outcome import (
    CommitInfo,
    doubled_error,
    files_gone_error,
    late_error,
)
from ..parallel import parallel

if TYPE_CHECKING:
    from ...errors import LakelogError
    from ..log.attempts import Attempts
    from ..log.build import Intent
    from ..log.history import Row
    from ..log.state import State
    from ..read.log_reader import LogReader
    from .clocks import Clocks


class Standing:
    """Judges what stands under the ids of a committer's transactions.

    Args:
        attempts: What was sent.
        in_background: Whether threads may ask for files.
    """

    def __init__(
        self, log: LogReader, attempts: Attempts, clocks: Clocks, *, in_background: bool
    ) -> None:
        self._log = log
        self._attempts = attempts
        self._clocks = clocks
        self._in_background = in_background

    def found(self, state: State, intent: Intent, row: Row) -> CommitInfo | LakelogError:
        """What becomes of an intent whose id a revision has.

        Args:
            row: Of that revision, in the history of `state`.
        Requests: those of `stands`.
        """
        own = intent.transaction_id
        revision = row["revision"]
        if row["digest"] not in self._attempts.digests(own) and state.log is not None:
            self._attempts.stands(own)
            uuid8 = row["uuid"][:4].hex()
            item = LogObject(state.log.incarnation, revision, uuid8, "transaction")
            return doubled_error(own, revision, self._log.folder + item.name)
        result = self.stands(state, intent, row)
        self._attempts.stands(own)
        return result

    def stands(self, state: State, intent: Intent, row: Row) -> CommitInfo | LakelogError:
        """What becomes of an intent that stands: no success if its files are gone, or it came so
        late that they may yet go.

        Requests: none; 1 HEAD a file if they are so old that gc may have taken them before, and 1
            of the transaction if gc may have decided to.
        """
        own, revision = intent.transaction_id, row["revision"]
        gone = self._gone(state, intent)
        if gone:
            return files_gone_error(own, revision, gone)
        if self._was_late(state, intent, row):
            return late_error(own, revision)
        return CommitInfo(revision, row["uuid"].hex(), own.hex(), row["committed_at"])

    def _gone(self, state: State, intent: Intent) -> list[str]:
        """The files of an intent that the log names as live and that aren't there."""
        if not intent.adds or intent.begun is None or not self._clocks.is_too_old(intent.begun):
            return []
        added = {(a.add.table, a.add.path) for a in intent.actions if a.WhichOneof("kind") == "add"}
        files = files_with(state, [path for _, path in added])
        own = ((table, path) for table, path in added if not is_in_place(path))  # gc takes no other
        live = sorted(path for table, path in own if files.is_live(table, path))
        live += sorted(_objects(intent) & set(_held(state, intent)))
        there = parallel(self._is_there, live, at_once=16 if self._in_background else 1)
        return [path for path, found in zip(live, there, strict=True) if not found]

    def _was_late(self, state: State, intent: Intent, row: Row) -> bool:
        """Whether an intent with files took effect so late that a gc which didn't see it may still
        delete them."""
        begun = intent.begun
        if not intent.adds or begun is None or not self._clocks.may_be_late(begun):
            return False
        if state.log is None:
            return True
        uuid8, revision = row["uuid"][:4].hex(), row["revision"]
        item = LogObject(state.log.incarnation, revision, uuid8, "transaction")
        try:
            found = self._log.store.head(self._log.folder + item.name)
        except ObjectNotFound:  # pruned: nobody can tell any more
            return True
        return self._clocks.was_late(begun, found.modified_at)

    def _is_there(self, path: str) -> bool:
        try:
            self._log.store.head(base_folder(self._log.writer, self._log.database) + path)
        except ObjectNotFound:
            return False
        return True


def _objects(intent: Intent) -> set[str]:
    """The objects of row deletes that an intent names."""
    actions = (*intent.actions, *intent.last)
    found = (a.row_deletes for a in actions if a.WhichOneof("kind") == "row_deletes")
    return {item.object for item in found}


def _held(state: State, intent: Intent) -> list[str]:
    """Objects of row deletes that still count; looked up only if the intent named some."""
    if not _objects(intent):
        return []
    return [path for paths in state.deletes.objects() for path in paths.to_pylist()]
