"""The replication of one log: what a few transactions name first, then these transactions, one
after the other, under their own names.

At every moment the destination holds the beginning of the source's log with all that it names. So a
run that ends anywhere, by whatever, leaves a replica of an earlier revision, and the next one goes
on from its head.

Source: docs/replication.md, "How it works".
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..catalog.commit.mirror import Mirror, copy_checkpoint
from ..catalog.format.names import base_folder, mirror_key, segments_folder
from ..catalog.format.objects import DecodedTransaction, decode_transaction
from ..catalog.log.features import check_writer_features
from ..catalog.log.replay import apply, check_link
from ..catalog.margins import CHECKPOINT_EVERY
from ..catalog.read.log_reader import CheckpointWarning
from ..catalog.read.mirror import refuse_lost_end
from ..errors import ForeignLog, LakelogError, ObjectNotFound, UnsupportedFeature
from .dependencies import Needs, needs_of, needs_of_state
from .position import head_of
from .reports import Copied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..catalog.catalog import Catalog
    from ..catalog.format.names import LogObject
    from ..catalog.log.state import State
    from .dependencies import DataFile
    from .position import Position
    from .transfer import Transfer

_READ_AT_ONCE: Final = 16  # transactions; one at a time where they are large
_LARGE_BYTES: Final = 16 << 20
_MOST_COMMITS: Final = 256  # of one range
_MOST_FILES: Final = 1_000
_MOST_BYTES: Final = 256 << 20
_BY_AN_ENGINE: Final = 64  # times as many files and bytes: it is to have enough for all its workers
_CHECKPOINT_WITHIN: Final = 512  # commits of a long way


@dataclass(slots=True)
class OneLog:
    """Copies one log up to the revision that was planned.

    Args:
        position: Its position; the `state` follows what is copied.
        transfer: Copies objects.
        catalog: The destination.
    """

    position: Position
    transfer: Transfer
    catalog: Catalog
    copied: Copied = field(default_factory=Copied)
    _mirror: Mirror = field(init=False)
    _look: bool = True  # whether files may be there from a run that was broken off
    _seen_s: float = 0.0

    def run(self) -> None:
        """Copy all that is planned.

        Raises:
            ObjectNotFound: Something is gone at the source.
            CorruptError: Something is damaged at the source.
            ReplicaDiverged: Something else is at the destination.
            Stopped: The caller wants no more; what was copied until then remains.
        """
        self._seen_s = self._now_s()
        position = self.position
        self._mirror = self._open_mirror()
        if position.base is not None:
            self._begin(position.base)
        for some in self._ranges(position.last):
            self._copy_range(some)
            if position.state.revision - _checkpointed(position.state) >= _CHECKPOINT_WITHIN:
                self._checkpoint()
        self._mirror.close(position.state)
        if position.state.revision - _checkpointed(position.state) >= CHECKPOINT_EVERY:
            self._checkpoint()

    def _open_mirror(self) -> Mirror:
        """Completes the replica's mirror, as each opening for writing does.

        Raises:
            LostTail: The replica has lost its end.
        Requests: 2 LIST; 1 GET and 1 PUT for each copy that is missing.
        """
        replica, exclusive = self.position.replica, self.transfer.copier.exclusive
        in_background = self.catalog.ambient.in_background
        mirror = Mirror(replica, exclusive=exclusive, in_background=in_background)
        copies = replica.newest_copies()
        if self.position.state.log is not None:
            refuse_lost_end(replica, copies)
            names = replica.names_for(mirror=False)
            if names.head not in {*names.transactions, *copies.checkpoints}:
                # A first run was broken off between the checkpoint and its copy.
                copy_checkpoint(replica, names.checkpoints[names.head][0], exclusive=exclusive)
            mirror.complete(names, copies)
        return mirror

    # --- The beginning ----------------------------------------------------------------------------

    def _begin(self, base: LogObject) -> None:
        """Make the state of a checkpoint the replica's. Until the checkpoint is put, last, no
        reader sees anything of it."""
        position = self.position
        state = position.source.checkpoint_state(base)
        check_writer_features(state)
        if position.begins_whole:
            for some in self._ranges(base.revision):
                self._copy_range(some)
        folder = segments_folder(position.source.writer, position.source.database)
        assert state.base is not None
        pieces = [state.base.references, *state.pieces]
        segments = dict.fromkeys(folder + piece.name for piece in pieces if piece.name)
        # Its live files were copied with the transactions up to it, if these were.
        needs = needs_of([]) if position.begins_whole else needs_of_state(state)
        there = self._copy_files(needs, look=True)
        self.transfer.copy_segments(segments)
        key = position.source.folder + base.name
        body = position.source.store.get(key)
        self.transfer.put(key, body)
        self.transfer.copy_segments(segments, mirror=True)
        self.transfer.put(mirror_key(key), body)
        self._mirror.begin(base.revision)
        self._look_again(there)
        position.state = position.source.checkpoint_state(base)

    # --- Range by range ---------------------------------------------------------------------------

    def _ranges(self, last: int) -> Iterator[list[tuple[DecodedTransaction, bytes]]]:
        """The transactions up to a revision, so many at a time as are copied together."""
        some: list[tuple[DecodedTransaction, bytes]] = []
        files = size = held = 0
        times = 1 if self.transfer.engine is None else _BY_AN_ENGINE
        for transaction, body in self._transactions(last):
            needs = needs_of([transaction])
            # A file that is there before a higher epoch begins is gc's, unless it is named by then.
            if some and needs.names_below(some[-1][0].message.epoch):
                yield some
                some, files, size, held = [], 0, 0, 0
            files, size = files + needs.number, size + needs.size_bytes + len(body)
            held += len(body)
            some.append((transaction, body))
            full = files >= times * _MOST_FILES or size >= times * _MOST_BYTES
            if full or len(some) >= times * _MOST_COMMITS or held >= _MOST_BYTES:
                yield some
                some, files, size, held = [], 0, 0, 0
        if some:
            yield some

    def _transactions(self, last: int) -> Iterator[tuple[DecodedTransaction, bytes]]:
        listing, store = self.position.listing, self.position.source.store
        low, at_once = self.position.state.revision + 1, _READ_AT_ONCE
        while low <= last:
            revisions = range(low, min(last + 1, low + at_once))
            low, at_once = revisions.stop, _READ_AT_ONCE
            keys = [listing.key(listing.transactions[revision][0]) for revision in revisions]
            for key, body in zip(keys, store.get_many(keys), strict=True):
                if body is None:
                    raise ObjectNotFound("The transaction is gone", key=key)
                transaction = decode_transaction(body, key)
                _refuse_unknown(transaction)
                yield transaction, body
                at_once = 1 if len(body) > _LARGE_BYTES else at_once

    def _copy_range(self, some: list[tuple[DecodedTransaction, bytes]]) -> None:
        needs = needs_of(transaction for transaction, _ in some)
        state = self.position.state
        # A file there of a past epoch may be an orphan, which gc takes at any age.
        there = self._copy_files(needs, look=self._look, renew=needs.names_below(state.epoch))
        self._refuse_stale()
        for transaction, body in some:
            check_link(state, transaction)
            self._mirror.before_send(state)
            self.transfer.put(transaction.key, body)
            apply(state, transaction)
            self._mirror.committed(state.revision, transaction.key, transaction.digest, body)
            check_writer_features(state)
            self.copied.commits += 1
            self._look = False  # what an earlier run had copied was for the first range
            state.tail.clear()
        self._look_again(there)

    def _copy_files(self, needs: Needs, *, look: bool, renew: bool = False) -> list[DataFile]:
        """Copy data files; those that were there already."""
        number, size, there = self.transfer.copy_files(
            self._folder, needs.each(), needs.number, look=look, renew=renew
        )
        self.copied.files += number
        self.copied.size_bytes += size
        self.copied.files_there += len(there)
        self.copied.elsewhere += needs.elsewhere
        return there

    def _look_again(self, there: list[DataFile]) -> None:
        """Files that were there before anything named them may have been taken by gc until now:
        from here on their names are in the log, and gc leaves them alone."""
        self.transfer.copy_files(self._folder, there, len(there), look=True, counted=False)

    def _refuse_stale(self) -> None:
        """A replica that was not looked at for long may have been pruned past the next name."""
        limit_s = self.catalog.margins.idle_limit_s
        if self._now_s() - self._seen_s < limit_s:
            return
        self._seen_s = self._now_s()
        head = head_of(self.position.replica)
        if head.log == self.position.state.log and head.revision > self.position.state.revision:
            raise ObjectNotFound(
                "Another replication has gone on meanwhile, and may have been pruned since",
                key=self.position.replica.folder,
                hint="Run it again: it goes on from the newest revision",
            )

    # --- The end ----------------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        """Write a checkpoint of the replica's own. One that fails fails nothing."""
        replica = self.position.replica
        try:
            with self.catalog.writer(
                replica.writer, replica.database, checkpoint_every=0
            ) as writer:
                writer.checkpoint()
            self.position.state = head_of(replica)
        except ForeignLog:
            pass  # nobody may write one until the log has its name
        except LakelogError as error:
            warnings.warn(
                f"No checkpoint of {replica.writer}/{replica.database} at the destination: "
                f"{error.message}. The next run tries again",
                CheckpointWarning,
                stacklevel=2,
            )

    @property
    def _folder(self) -> str:
        return base_folder(self.position.source.writer, self.position.source.database)

    def _now_s(self) -> float:
        return self.position.source.ambient.monotonic_s()


def _checkpointed(state: State) -> int:
    return -1 if state.base is None else state.base.message.revision


def _refuse_unknown(transaction: DecodedTransaction) -> None:
    """A reader may pass over an optional action of the future. It may name objects: we may not."""
    if any(action.WhichOneof("kind") is None for action in transaction.message.actions):
        raise UnsupportedFeature(
            f"{transaction.key} holds an optional action of a kind this lakelog doesn't know",
            key=transaction.key,
            hint="Upgrade lakelog before you replicate this log",
        )
