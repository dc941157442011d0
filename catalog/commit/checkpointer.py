"""Writing a checkpoint: segments first, the checkpoint that names them last.

A crash in between leaves segments that nobody refers to; prune takes them with their revision. Two
processes may write the checkpoint of one revision: the bytes are the same, and the first one
stands.

Source: docs/format.md, sections 6 and 10.5.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...errors import ObjectExists, StorageError
from ..log.checkpoint import EncodedCheckpoint, encode_state
from ..read.log_reader import CheckpointWarning, LogReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..log.state import State

_RENAMES: Final = 5


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A checkpoint that stands in the store.

    Attributes:
        revision: Of the state it holds.
        key: Its object.
        size_bytes: Of the object and its spilled segments.
        segments: Number of spilled segments.
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
    retained_from: int = 0,
    is_stale: Callable[[], bool] = lambda: False,
) -> CheckpointInfo:
    """Write the checkpoint of a state.

    Args:
        exclusive: Whether the store has put-if-absent.
        retained_from: The oldest revision that can still be read; older history is left out.
        is_stale: Asked before the checkpoint itself is put: whether the view of the log is so old
            that prune may have taken this revision, and the segments with it.
    Raises:
        StorageError: It could not be written; the log is as good as before.
    Requests: 1 PUT, and 1 for each spilled segment.
    """
    encoded, first = encode_state(state, retained_from=retained_from), 0
    for _ in range(_RENAMES):
        if _put_segments(log, encoded, exclusive=exclusive):
            break
        # A segment of such a name with other bytes: left by an attempt of another version. Take
        # names above all of these: the next attempt numbers its segments differently.
        first += len(encoded.spilled)
        encoded = encode_state(state, retained_from=retained_from, first_segment=first)
    else:
        raise StorageError(f"No free segment names at revision {state.revision}", key=log.folder)
    key = log.folder + encoded.name
    if is_stale():
        raise StorageError(
            f"Writing the checkpoint of revision {state.revision} took too long",
            key=key,
            hint="Nothing is lost: the next one will do",
        )
    try:
        log.store.put(key, encoded.body, if_absent=exclusive)
        written = True
    except ObjectExists:
        written = False
    size = len(encoded.body) + sum(len(body) for _, body in encoded.spilled)
    return CheckpointInfo(state.revision, key, size, len(encoded.spilled), written)


def _put_segments(log: LogReader, encoded: EncodedCheckpoint, *, exclusive: bool) -> bool:
    """Put the segments; False as soon as other bytes stand under one of their names."""
    for name, body in encoded.spilled:
        try:
            log.store.put(log.folder + name, body, if_absent=exclusive)
        except ObjectExists:
            if log.store.get(log.folder + name) != body:
                return False
    return True


class CheckpointPolicy:
    """When to write a checkpoint: every so many commits since the last one, whatever the commits
    were.

    A checkpoint that fails never fails the commit before it: it is a warning, and tried again a
    little later.

    Args:
        every: Commits between checkpoints; 0 switches them off.
        last_revision: Revision of the newest checkpoint, -1 for none.
    """

    def __init__(self, every: int, last_revision: int) -> None:
        self.every = every
        self._next = last_revision + every
        self._retry = max(1, every // 10)

    def after_commit(
        self, revision: int, write: Callable[[], CheckpointInfo]
    ) -> CheckpointInfo | None:
        """Write one if it is due.

        Args:
            revision: Of the commit just made.
            write: Writes the checkpoint of the present state.
        """
        if self.every <= 0 or revision < self._next:
            return None
        try:
            info = write()
        except Exception as error:  # a commit that stands must not be reported as failed
            self._next = revision + self._retry
            problem = (
                f"No checkpoint at revision {revision}: {error}. The commit stands; the next try "
                f"is at revision {self._next}"
            )
            with contextlib.suppress(CheckpointWarning):  # even where warnings are errors
                warnings.warn(problem, CheckpointWarning, stacklevel=2)
            return None
        self.written(info.revision)
        return info

    def written(self, revision: int) -> None:
        """Count from here."""
        self._next = revision + self.every
