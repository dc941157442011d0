"""Writing checkpoints: segments first, the checkpoint that names them last, beside the commits.

A crash in between leaves segments that nobody refers to; prune takes them, by name. So no name of a
segment is used again: a salt makes it new. Two processes may write the checkpoint of one revision:
the first one stands.

Source: docs/format.md, section 6; docs/protocol.md, section 2.7.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import ObjectExists, ObjectNotFound, StorageError
from ..format.names import segments_folder
from ..read.log_reader import CheckpointWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...store import Store
    from ..log.checkpoint import EncodedCheckpoint
    from ..log.state import State
    from ..read.log_reader import LogReader


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A checkpoint that stands in the store.

    Attributes:
        revision: Of the state it holds.
        key: Its object.
        size_bytes: What was written for it: the object and its new segments.
        segments: Number of new segments.
        written: False if it was there already.
    """

    revision: int
    key: str
    size_bytes: int
    segments: int
    written: bool


def write_checkpoint(
    log: LogReader,
    state: State,
    *,
    exclusive: bool,
    salt: bytes,
    retained_from: int = 0,
    is_stale: Callable[[], bool] = lambda: False,
) -> tuple[CheckpointInfo, EncodedCheckpoint]:
    """Write the checkpoint of a state.

    Args:
        exclusive: Whether the store has put-if-absent.
        salt: 16 bytes that nobody has used before: they make the names of segments new.
        retained_from: The oldest revision that can still be read; older history is left out.
        is_stale: Asked before the checkpoint itself is put, and after: whether the view of the log
            is so old that prune may have taken this revision, and the segments with it.
    Raises:
        StorageError: It could not be written; the log is as good as before.
        UnsupportedFeature, CorruptObject: See `encode_state`.
    Requests: 1 PUT, and 1 for each new segment; a GET for each piece of the runs that are merged;
        on a plain store 1 HEAD.
    """
    from ..log.checkpoint import encode_state  # most processes write none

    encoded = encode_state(state, retained_from=retained_from, salt=salt)
    put_segments(log, encoded, exclusive=exclusive)
    key = log.folder + encoded.name
    _refuse_stale(is_stale, state, key)
    written = _put_new(log.store, key, encoded.body, exclusive=exclusive)
    _refuse_stale(is_stale, state, key)  # the answer tells if this process stood still till then
    size = len(encoded.body) + sum(len(body) for _, body in encoded.segments)
    info = CheckpointInfo(state.revision, key, size, len(encoded.segments), written)
    return info, encoded


def _put_new(store: Store, key: str, body: bytes, *, exclusive: bool) -> bool:
    """Whether this checkpoint was put; False if there is one, which may be all that is left of the
    log, and other segments than this one's may be all that is there."""
    try:
        if not exclusive:
            with contextlib.suppress(ObjectNotFound):
                store.head(key)
                return False
        store.put(key, body, if_absent=exclusive)
    except ObjectExists:
        return False
    return True


def _refuse_stale(is_stale: Callable[[], bool], state: State, key: str) -> None:
    if is_stale():
        raise StorageError(
            f"Writing the checkpoint of revision {state.revision} took too long",
            key=key,
            hint="Nothing is lost: the next one will do",
        )


def put_segments(log: LogReader, encoded: EncodedCheckpoint, *, exclusive: bool) -> None:
    """Put all of a checkpoint but its own object.

    Requests: 1 PUT for each new segment.
    """
    folder = segments_folder(log.writer, log.database)
    for name, body in encoded.segments:
        with contextlib.suppress(ObjectExists):  # named by its content: these very bytes
            log.store.put(folder + name, body, if_absent=exclusive)


class CompactionWarning(UserWarning):
    """An owner's own compaction failed; the commits stand, and it is tried again."""


class Recurring:
    """A job that follows commits, and the thread that does it: every so many commits since the
    last time, whatever the commits were, so that programs of one commit each do it too.

    A job that fails never fails the commit before it: it is a warning, and tried again a little
    later.

    Args:
        every: Commits between two times; 0 switches it off.
        last_revision: The revision at which it was done last, -1 for none.
        do: Does it; returns the revision up to which it is done.
        warning: Class of the warning if it fails.
        in_background: Do it beside the commits, in a thread.
    """

    def __init__(
        self,
        every: int,
        last_revision: int,
        do: Callable[[], int],
        warning: type[Warning],
        *,
        in_background: bool,
    ) -> None:
        self.every = every
        self._do = do
        self._what = "checkpoint" if warning is CheckpointWarning else "compaction"
        self._warning = warning
        self._next = last_revision + every
        self._retry = max(1, every // 10)
        self._in_background = in_background
        self._thread: threading.Thread | None = None

    def after_commit(self, revision: int) -> None:
        """Does the job if it is due after the commit of a revision, and not under way."""
        if self.every <= 0 or revision < self._next:
            return
        if not self._in_background:
            self._try(revision)
        elif self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._try, args=(revision,), name=f"lakelog-{self._what}"
            )
            self._thread.start()

    def wait(self) -> None:
        """Until none is under way."""
        if self._thread is not None and self._thread.ident is not None:  # else never begun
            self._thread.join()

    def _try(self, revision: int) -> None:
        try:
            self.done(self._do())
        except Exception as error:  # a commit that stands must not be reported as failed
            self._next = revision + self._retry
            problem = (
                f"No {self._what} at revision {revision}: {error}. The commit stands; the next try "
                f"is at revision {self._next}"
            )
            with contextlib.suppress(self._warning):  # even where warnings are errors
                warnings.warn(problem, self._warning, stacklevel=2)

    def done(self, revision: int) -> None:
        """Count from here."""
        self._next = revision + self.every
