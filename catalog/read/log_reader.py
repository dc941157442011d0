"""Reading one log from a store: list, fetch, fall back, replay. The shell around `listing`,
`checkpoint` and `state`.

A listing may race with writers and with prune: a gap or a 404 means list again, and only a gap that
stays is an error.

Source: docs/format.md, section 4.3.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from ...errors import (
    BrokenChain,
    CorruptError,
    CorruptObject,
    ForkError,
    LakelogError,
    MissingTransaction,
    ObjectNotFound,
    RevisionNotFound,
    SnapshotPruned,
    UnsupportedFeature,
)
from ..ambient import SYSTEM, Ambient
from ..format.names import LogObject, log_folder
from ..format.objects import DecodedTransaction, decode_checkpoint, decode_transaction, open_segment
from ..log.checkpoint import decode_state, referenced
from ..log.listing import REPAIR, Listing, ReadPlan, fork_error, plan_read, read_listing
from ..log.state import OPEN_AGAIN, State, apply, check_features, empty_state
from ..parallel import parallel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...store import Store

_ATTEMPTS: Final = 4
_PAUSE_S: Final = 0.02


class CheckpointWarning(UserWarning):
    """A checkpoint could not be used; an older one and more of the log were read instead."""


class _Vanished(Exception):
    """A listed object isn't there any more."""


@dataclass(frozen=True, slots=True)
class LogReader:
    """One writer's log of one database, for reading.

    Attributes:
        store: Where it is.
        writer, database: Whose.
        ambient: For waiting between listings.
    """

    store: Store
    writer: str
    database: str
    ambient: Ambient = SYSTEM

    @property
    def folder(self) -> str:
        """Key prefix of the log's objects."""
        return log_folder(self.writer, self.database)

    def names(self, *, after_revision: int | None = None) -> Listing:
        """List the log, or the part above a revision.

        Requests: 1 LIST per 1,000 names on S3.
        """
        above = after_revision is not None and after_revision >= 0
        after = f"{self.folder}{after_revision:020d}.~" if above else None
        found = self.store.list(self.folder, after=after)
        return read_listing(
            self.writer, self.database, (item.key[len(self.folder) :] for item in found)
        )

    def load(self, target: int | None = None, listing: Listing | None = None) -> State:
        """The state at a revision.

        Args:
            target: The revision; None for the newest one in the listing. An empty log gives the
                state before the first commit.
            listing: A listing made just before; made here if not given.
        Raises:
            ForkError, RevisionNotFound, SnapshotPruned, MissingTransaction: See
                `listing.plan_read`.
            CorruptError: A transaction that is needed is damaged or doesn't fit; says what can
                still be read.
            UnsupportedFeature: The log requires what this lakelog doesn't know.
        Requests: 1 LIST; 1 GET for the checkpoint, 1 for each spilled segment, 1 for each
            transaction after it.
        """
        for attempt in range(_ATTEMPTS):
            if listing is None or attempt:
                listing = self.names()
            if listing.head < 0 and target is None:
                return empty_state(self.writer, self.database)
            try:
                return self._read(plan_read(listing, target), listing)
            except RevisionNotFound:
                if attempt:  # believed once it was looked for twice: a scan of a folder can miss it
                    raise
            except (_Vanished, MissingTransaction):
                if attempt == _ATTEMPTS - 1:
                    raise_missing(listing, target)
                    raise
                self.ambient.sleep_s(_PAUSE_S * (attempt + 1))
        raise AssertionError("unreachable")

    def _read(self, plan: ReadPlan, listing: Listing) -> State:
        fallen: LakelogError | None = None
        for base in plan.bases:
            tail = plan.tail_after(base)
            try:
                state, bodies = self._fetch(base, tail, listing)
            except UnsupportedFeature:
                raise
            except CorruptError as error:
                warnings.warn(
                    f"{error.message}; reading an older checkpoint and more of the log instead",
                    CheckpointWarning,
                    stacklevel=2,
                )
                fallen = fallen or error
                continue
            check_features(state)
            return self._replay(state, tail, bodies, listing)
        assert fallen is not None
        raise CorruptObject(
            f"No usable checkpoint of {self.writer}/{self.database} up to revision {plan.target}: "
            f"{fallen.message}",
            key=fallen.key,
            hint=f"Revisions {listing.readable()} are listed. {REPAIR}",
        )

    def _fetch(
        self, base: LogObject | None, tail: Sequence[LogObject], listing: Listing
    ) -> tuple[State, list[bytes]]:
        if base is None:
            return empty_state(self.writer, self.database), self._bodies(tail)
        first, *bodies = self._bodies([base, *tail])
        return self._open_checkpoint(first, listing.key(base)), bodies

    def _bodies(self, items: Sequence[LogObject]) -> list[bytes]:
        bodies = self.store.get_many([self.folder + item.name for item in items])
        found = [body for body in bodies if body is not None]
        if len(found) < len(items):
            raise _Vanished
        return found

    def _open_checkpoint(self, body: bytes, key: str) -> State:
        decoded = decode_checkpoint(body, key)
        probe = State(self.writer, self.database)
        probe.reader_features = frozenset(decoded.message.required_reader_features)
        check_features(probe)
        wanted = referenced(decoded)
        bodies = self.store.get_many([self.folder + name for name, _ in wanted])

        def opened(item: tuple[tuple[str, bytes], bytes | None]) -> tuple[str, memoryview]:
            (name, digest), data = item
            where = self.folder + name
            if data is None and self.store.get_many([key]) == [None]:
                raise _Vanished  # prune takes a checkpoint first, then its segments
            if data is None:
                raise CorruptObject(f"{key} refers to {where}, which is not there", key=where)
            return name, open_segment(data, digest, where)

        pairs = zip(wanted, bodies, strict=True)
        fetched = dict(parallel(opened, pairs, at_once=4))
        two_at_once = partial(parallel, at_once=2)
        return decode_state(decoded, fetched, self.writer, self.database, map_large=two_at_once)

    def checkpoint_state(self, item: LogObject) -> State:
        """Read one checkpoint whole, without any fallback: what prune asks of the one that is to
        survive.

        Raises:
            ObjectNotFound, CorruptError: It can't be relied on.
        Requests: 1 GET and 1 for each spilled segment.
        """
        key = self.folder + item.name
        try:
            return self._open_checkpoint(self.store.get(key), key)
        except _Vanished as error:
            raise ObjectNotFound("the checkpoint went while it was read", key=key) from error

    def _replay(
        self, state: State, tail: Sequence[LogObject], bodies: list[bytes], listing: Listing
    ) -> State:
        try:
            for item, body in zip(tail, bodies, strict=True):
                apply(state, decode_transaction(body, listing.key(item)))
            return state
        except UnsupportedFeature:
            raise
        except (CorruptObject, BrokenChain) as error:
            last = state.revision
            readable = f"Revisions up to {last} can still be read: give one as the point in time. "
            error.hint = (readable if last >= 0 else "") + REPAIR
            if isinstance(error, BrokenChain):
                error.hint = f"{OPEN_AGAIN}. {error.hint}"
            raise

    def load_at(self, at_us: int, listing: Listing) -> State | None:
        """The state at a time: that of the newest revision committed at or before it.

        Args:
            at_us: µs since 1970, UTC, by this writer's own commit times.
            listing: A listing made just before.
        Returns:
            The state; None if the log begins later.
        Raises:
            SnapshotPruned: What is left of the log begins later.
            LakelogError: As `load`; damage after the time asked for doesn't matter.
        Requests: as `load`, twice if the time lies before the head.
        """
        state, broken = self._newest_sound(listing)
        revision = None if state is None else state.history.revision_at(at_us)
        at_head = state is not None and revision == state.revision
        if broken is not None and (state is None or (at_head and at_us > state.committed_at_us)):
            raise broken  # its own commit time is unknown: it may have been before
        if state is not None and revision == state.revision:
            return state
        oldest = listing.first_readable()
        if revision is None or revision < oldest:
            told = state is not None and state.history.holds(0)
            if revision is None and (oldest == 0 or told):
                return None
            raise SnapshotPruned(
                f"At that time {self.writer}/{self.database} stood before revision {oldest}, "
                "which is the oldest left",
                key=f"{self.writer}/{self.database}",
                hint="Ask for a later time",
            )
        return self.load(revision, listing)

    def _newest_sound(self, listing: Listing) -> tuple[State | None, LakelogError | None]:
        """The newest state that can be read, and the error that stands above it, if any."""
        broken: LakelogError | None = None
        target = listing.head
        while target >= 0:
            try:
                return self.load(target, listing), broken
            except (ForkError, CorruptError) as error:
                broken = broken or error
                target = min(target, _revision_of(error, listing)) - 1
        return None, broken

    def transaction(self, item: LogObject) -> DecodedTransaction:
        """Read one transaction.

        Requests: 1 GET.
        """
        key = self.folder + item.name
        return decode_transaction(self.store.get(key), key)

    def advance(self, state: State) -> State:
        """The newest state, from one that was read before.

        Returns:
            The same object if nothing is new, else another one; the given one is not changed.
        Requests: 1 LIST, and 1 GET for each new transaction (or checkpoint).
        """
        if state.revision < 0:
            return self._newer(state)
        # From the head itself on: on a store without put-if-absent a rival of it may come late.
        listing = self.names(after_revision=state.revision - 1)
        for revision in listing.forks():
            raise fork_error(listing, revision)
        if listing.head <= state.revision:
            return state
        if listing.run_start(listing.head) > state.revision + 1:
            return self._newer(state)  # pruned past us, or a racing listing
        tail = [listing.transactions[r][0] for r in range(state.revision + 1, listing.head + 1)]
        try:
            bodies = self._bodies(tail)
        except _Vanished:
            return self._newer(state)
        return self._replay(state.copy(), tail, bodies, listing)

    def _newer(self, state: State) -> State:
        """What a fresh look shows, unless it shows nothing newer."""
        fresh = self.load()
        return fresh if fresh.revision > state.revision else state


def _revision_of(error: LakelogError, listing: Listing) -> int:
    """The revision that an error is about; the head if it doesn't say."""
    name = (error.key or "").split(" and ")[0].rsplit("/", 1)[-1][:20]
    return int(name) if len(name) == 20 and name.isdigit() else listing.head


def raise_missing(listing: Listing, target: int | None) -> None:
    """Raise what `plan_read` says of a listing, if it says anything."""
    plan_read(listing, target)
    raise MissingTransaction(
        f"Objects of {listing.writer}/{listing.database} were listed but could not be read, "
        "several times",
        key=listing.folder,
        readable=listing.readable(),
        hint="Is something deleting objects there? Try again, or run `lakelog doctor`",
    )
