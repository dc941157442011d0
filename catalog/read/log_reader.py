"""Reading one log from a store: list, fetch, fall back, replay. The shell around `log.listing` and
`log.state`.

A listing may race with writers and with prune: a gap or a 404 means list again. What is still
missing, or is damaged, is read from the mirror; only what both copies lack is an error.

Source: docs/format.md, sections 4.3 and 4.8.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ...errors import (
    BrokenChain,
    CorruptError,
    CorruptObject,
    ForkError,
    MissingTransaction,
    NotFoundError,
    ObjectNotFound,
    RevisionNotFound,
    SnapshotPruned,
    UnsupportedFeature,
)
from ..format.frame import HEADER_BYTES
from ..format.names import LogObject, mirror_key, parse_log_object, segments_folder
from ..format.objects import (
    DecodedCheckpoint,
    DecodedTransaction,
    decode_checkpoint,
    decode_transaction,
)
from ..format.pieces import Piece, open_segment
from ..log.listing import REPAIR, Listing, ReadPlan, fork_error, plan_read
from ..log.replay import OPEN_AGAIN, apply
from ..log.state import SMALL_BYTES, State, empty_state, state_of_checkpoint
from ..parallel import parallel
from .log_folder import (
    ATTEMPTS,
    PAUSE_S,
    LogFolder,
    Vanished,
    base_and_header,
    refuse_other_history,
)
from .mirror import lost_end, warn, warn_of_copies, with_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..format.cut import Position
    from ..format.frame import LogIdentity


_T = TypeVar("_T")
_R = TypeVar("_R")
_D = TypeVar("_D")


class CheckpointWarning(UserWarning):
    """A checkpoint could not be used; an older one and more of the log were read instead."""


@dataclass(frozen=True, slots=True)
class LogReader(LogFolder):
    """One writer's log of one database, for reading.

    Attributes:
        bodies: Objects by key that were read already.
    """

    bodies: Mapping[str, bytes] = field(default_factory=dict)

    def load(
        self,
        target: int | None = None,
        listing: Listing | None = None,
        incarnation: int = 0,
        *,
        sealed: bool = False,
    ) -> State:
        """The state at a revision. Its files and other parts are read when they are asked for.

        Args:
            target: The revision; None for the newest one in the listing. An empty log gives the
                state before the first commit.
            listing: A listing made just before; made here if not given.
            incarnation: Of the revision; 0: the one that counts, or that which it was of.
            sealed: Whether a log that was sealed, and not opened again, is given: to committers.
        Raises:
            ForkError, RevisionNotFound, SnapshotPruned, MissingTransaction: See
                `listing.plan_read`.
            CorruptError: A transaction that is needed is damaged or doesn't fit; says what can
                still be read.
            UnsupportedFeature: The log requires what this lakelog doesn't know.
        Warns:
            CheckpointWarning: An older base was read.
        Requests: 1 LIST; 1 GET for the checkpoint and for each transaction after it; if there is
            none after it, 1 for the beginning of its own; 2 LIST more if it is sealed, or if the
            revision is one of an earlier incarnation.
        """
        try:
            state, listing = self._load(target, listing, incarnation)
        except SnapshotPruned:
            if incarnation or target is None:
                raise
            for lower in self.names_of_both().lower():  # revisions go on through incarnations
                with contextlib.suppress(NotFoundError):
                    return self._load(target, None, lower)[0]
            raise
        if state.sealed_for and not incarnation:
            both = self.names_of_both()
            if both.incarnation > listing.incarnation:
                state, _ = self._load(target, both)
            elif not sealed:
                raise self._unopened(state)
        return state

    def _unopened(self, state: State) -> CorruptObject:
        """The error of a log that was sealed and not opened again."""
        return CorruptObject(
            f"{self.writer}/{self.database} was sealed for a rebuild, and its incarnation "
            f"{state.sealed_for} is not there: the rebuild is under way, or was broken off, or "
            "what it opened with is lost",
            key=self.folder,
            hint=f"Run `lakelog rebuild URL {self.database} --writer {self.writer} --execute`",
        )

    def _load(
        self, target: int | None, listing: Listing | None, incarnation: int = 0
    ) -> tuple[State, Listing]:
        """The state at a revision, and the listing that it was read by."""
        for attempt in range(ATTEMPTS):
            if attempt:
                listing = self.names_of_both(incarnation)
            elif listing is None:
                listing = self._first_listing(target, incarnation)
            final = attempt >= 2  # looked for twice: what is not there now is lost
            if listing.head < 0 and listing.others and not final:
                continue  # what is missing of it may be in the mirror
            _refuse_unfinished(listing)
            if listing.head < 0 and target is None:
                return self._with_reader(empty_state(self.writer, self.database)), listing
            try:
                return self._read(plan_read(listing, target), listing, final=final), listing
            except (RevisionNotFound, SnapshotPruned, CorruptObject, BrokenChain):
                # Believed once it was looked for twice: a scan of a folder can miss a name, and
                # the mirror's names may lead to another base.
                if attempt:
                    raise
            except (Vanished, MissingTransaction):
                if attempt == ATTEMPTS - 1:
                    raise_missing(listing, target)
                    raise
                self.ambient.sleep_s(PAUSE_S * attempt)
        raise AssertionError("unreachable")

    def names_of_both(self, incarnation: int = 0) -> Listing:
        """Lists the names of the log and of its mirror as one.

        Args:
            incarnation: Which one to look at; 0: the one that counts.
        Requests: 2 LIST per 1,000 names on S3.
        """
        copies = self.copies(incarnation)
        return with_copies(self.names(incarnation), copies, incarnation)

    def _first_listing(self, target: int | None, incarnation: int) -> Listing:
        if not incarnation or target is None:
            return self.names_for(target)
        listing = self.names_at(incarnation, target)
        if listing.head < 0:  # all names tell what became of it
            listing = self.names_of_both(incarnation)
            if listing.head < 0:
                refuse_gone(listing, target)
        return listing

    def _read(self, plan: ReadPlan, listing: Listing, *, final: bool) -> State:
        """The state of the target, from the newest base that serves.

        Args:
            final: A base that is not there is taken for a damaged one: it was looked for before.
        """
        fallen: list[CorruptError] = []
        for base in plan.bases:
            tail = plan.tail_after(base)
            try:
                state = self.from_base(base, tail, listing, final=final)
            except UnsupportedFeature:
                raise
            except CorruptError as error:
                if base is None or not self.is_about(error, base):
                    for earlier in fallen:
                        self.warn(earlier)
                    raise
                fallen.append(error)
                continue
            for earlier in fallen:
                self.warn(earlier)
            state.older = partial(other_base, self, warned=set())
            return state
        if listing.lowest > 0:  # there may be older bases than were listed
            return self._load(plan.target, self.names(listing.incarnation))[0]
        if plan.fork >= 0:
            raise fork_error(listing, plan.fork)
        first = fallen[0]
        if isinstance(first, BrokenChain) and len(plan.bases) == 1:
            raise first  # only the beginning, or one checkpoint: the chain breaks here
        raise CorruptObject(
            f"No usable checkpoint of {self.writer}/{self.database} up to revision {plan.target}: "
            f"{first.message}",
            key=first.key,
            hint=f"Revisions {listing.readable()} are there. {REPAIR}",
        )

    def is_about(self, error: CorruptError, base: LogObject) -> bool:
        """Whether a base may be at fault, and a lower one do."""
        return error.key == self.folder + base.name or is_right_above(error, base)

    def warn(self, error: CorruptError) -> None:
        """Say that an older base is used."""
        warnings.warn(
            f"{error.message}; reading an older checkpoint and more of the log instead",
            CheckpointWarning,
            stacklevel=3,
        )

    def from_base(
        self, base: LogObject | None, tail: Sequence[LogObject], listing: Listing, *, final: bool
    ) -> State:
        """Returns the state that a base and the transactions after it lead to. Raises `Vanished` if
        something listed is not there, and `CorruptError` if it can't be read from this base.

        Args:
            final: A base that is not there is taken for a damaged one: it was looked for before.
        """
        state, found = self._fetch(base, tail, listing, final=final)
        self._replay(state, found, listing)
        return state

    def _fetch(
        self,
        base: LogObject | None,
        tail: Sequence[LogObject],
        listing: Listing,
        *,
        final: bool,
    ) -> tuple[State, list[tuple[LogObject, bytes]]]:
        """The state of a base, and the transactions after it, not yet decoded."""
        if base is None:
            empty = self._with_reader(empty_state(self.writer, self.database))
            return empty, list(zip(tail, self._bodies(tail, final=final), strict=True))
        key = listing.key(base)
        own = [] if tail else listing.transactions.get(base.revision, [])
        try:
            if own:
                first, header = base_and_header(self.store, key, listing.key(own[0]))
                bodies: list[bytes] = []
            else:
                first, *bodies = self._bodies([base, *tail], final=final)
        except Vanished:
            if not final:
                raise
            first, header, bodies = b"", b"", []
        decoded = self.decode(decode_checkpoint, first, key)
        state = state_of_checkpoint(decoded, self.writer, self.database)
        if own:
            refuse_other_history(self.store, state, key, listing.key(own[0]), header)
        return self._with_reader(state), list(zip(tail, bodies, strict=True))

    def _with_reader(self, state: State) -> State:
        state.fetch = partial(self._fetch_pieces, state)
        state.map_large = _two_at_a_time
        return state

    def _bodies(self, items: Sequence[LogObject], *, final: bool = False) -> list[bytes]:
        """The bodies of objects, in order.

        Args:
            final: An object that is not there has an empty body: its copy is read when it is
                decoded. Else nothing is returned.
        Raises:
            Vanished: One is not there, and `final` is not set.
        Requests: 1 GET an object.
        """
        keys = [self.folder + item.name for item in items]
        if self.bodies and self.bodies.keys() >= {*keys}:
            return [self.bodies[key] for key in keys]
        bodies = self.store.get_many(keys)
        if not final and None in bodies:
            raise Vanished
        return [body or b"" for body in bodies]

    def objects_at(self, position: Position) -> list[tuple[LogObject, bytes]]:
        """Returns the base of a revision and the transactions after it, with their bodies; none if
        they are not there as they were listed.

        Requests: 1 LIST; 1 GET an object.
        """
        assert position.log is not None
        listing = self.names_at(position.log.incarnation, position.revision)
        try:
            plan = plan_read(listing, position.revision)
            base = plan.bases[0]
            items = [*([base] if base else []), *plan.tail_after(base)]
            return list(zip(items, self._bodies(items), strict=True))
        except (Vanished, NotFoundError, CorruptError, ForkError):
            return []

    def decode(
        self,
        decode: Callable[[bytes, str], _D],
        body: bytes,
        key: str,
        replaced: list[str] | None = None,
    ) -> _D:
        """Decodes an object of the log, or its copy if the object is missing or damaged.

        Args:
            decode: `decode_transaction` or `decode_checkpoint`.
            body: What the log has; empty if the object is missing.
            key: The object's own key.
            replaced: Takes what is wrong with an object whose copy was read; the caller warns.
        Raises:
            CorruptObject: Both copies are missing or damaged.
            UnsupportedFeature: The object is too new.
        Warns:
            MirrorWarning: The copy was read.
        Requests: none; 1 GET if the object is missing or damaged.
        """
        try:
            if not body:
                raise CorruptObject(f"{key} was listed and is gone", key=key, hint=REPAIR)
            return decode(body, key)
        except UnsupportedFeature:
            raise
        except CorruptObject as error:
            copy = self._copy(key)
            if copy is None or copy == body:
                raise
            try:
                found = decode(copy, key)
            except CorruptError:
                raise error from None
        problem = f"{key} is {'damaged' if body else 'missing'}"
        if replaced is None:
            warn_of_copies(self, [problem])
        else:
            replaced.append(problem)
        return found

    def _copy(self, key: str) -> bytes | None:
        """The body of the copy of an object; None if there is none."""
        return self.store.get_many([mirror_key(key)])[0]

    def _fetch_pieces(self, state: State, pieces: Sequence[Piece]) -> list[memoryview]:
        """Arrow IPC bytes of pieces that are objects.

        Requests: 1 GET a piece.
        """
        return self.read_pieces(pieces, state.log, state.newer)

    def read_pieces(
        self, pieces: Sequence[Piece], log: LogIdentity | None, newer: list[str] | None = None
    ) -> list[memoryview]:
        """Arrow IPC bytes of segment objects, checked.

        Args:
            log: The one that they are of, where they don't say themselves which checkpoint's.
            newer: Takes the keys of those whose messages hold fields of a later version.
        Raises:
            CorruptObject: One is damaged, of another log, or not there.
        Requests: 1 GET a piece.
        """
        folder = segments_folder(self.writer, self.database)
        bodies = self.store.get_many([folder + piece.name for piece in pieces])
        replaced: list[str] = []
        assert log is not None

        def opened(pair: tuple[Piece, bytes | None]) -> memoryview | CorruptError:
            piece, body = pair
            try:
                if body is not None:
                    return open_segment(body, piece, piece.log or log, newer)
                error: CorruptError = CorruptObject(
                    f"{piece.where} is referred to by a checkpoint and is not there",
                    key=piece.where,
                    hint=REPAIR,
                )
            except UnsupportedFeature as too_new:
                return too_new
            except CorruptError as damage:
                error = damage
            copy = self._copy(folder + piece.name)
            if copy is None or copy == body:
                return error
            try:
                found = open_segment(copy, piece, piece.log or log, newer)
            except CorruptError:
                return error
            problem = "missing" if body is None else "damaged"
            replaced.append(f"{folder}{piece.name} is {problem}")
            return found

        is_large = sum(piece.length for piece in pieces) > SMALL_BYTES
        found = parallel(opened, zip(pieces, bodies, strict=True), at_once=4 if is_large else 1)
        warn_of_copies(self, replaced)
        errors = [item for item in found if isinstance(item, CorruptError)]
        for error in sorted(errors, key=lambda e: not isinstance(e, UnsupportedFeature)):
            raise error  # what is too new comes before what is damaged
        return [item for item in found if not isinstance(item, CorruptError)]

    def checkpoint_state(self, item: LogObject) -> State:
        """Returns the state of one checkpoint, without any fallback. Raises `ObjectNotFound` or
        `CorruptError`.

        Requests: 1 GET; its parts are read when they are asked for.
        """
        key = self.folder + item.name
        return self.checkpoint_of(decode_checkpoint(self.store.get(key), key))

    def checkpoint_of(self, decoded: DecodedCheckpoint) -> State:
        """Returns the state of a decoded checkpoint. Its parts are read when they are asked for."""
        return self._with_reader(state_of_checkpoint(decoded, self.writer, self.database))

    def _replay(self, state: State, found: list[tuple[LogObject, bytes]], listing: Listing) -> None:
        replaced: list[str] = []
        try:
            for item, body in found:
                self._apply(state, body, listing.key(item), replaced)
            warn_of_copies(self, replaced)
        except UnsupportedFeature:
            raise
        except (CorruptObject, BrokenChain) as error:
            last = state.revision
            readable = f"Revisions up to {last} can still be read: give one as the point in time. "
            error.hint = (readable if last >= 0 else "") + REPAIR
            if isinstance(error, BrokenChain):
                error.hint = f"{OPEN_AGAIN}. {error.hint}"
            raise

    def _apply(self, state: State, body: bytes, key: str, replaced: list[str]) -> None:
        """Applies a transaction to a state; its copy, if another object is in its place."""
        try:
            apply(state, self.decode(decode_transaction, body, key, replaced))
        except BrokenChain:
            copy = self._copy(key)
            if copy is None or copy == body:
                raise
            try:
                apply(state, decode_transaction(copy, key))
            except CorruptObject:
                copy = None
            if copy is None:
                raise
            replaced.append(f"{key} is another transaction than the log's")

    def transaction(self, item: LogObject) -> DecodedTransaction:
        """Reads one transaction, or its copy. Raises `ObjectNotFound` if neither is there, and
        `CorruptError`.

        Requests: 1 GET; 1 more for the copy.
        """
        key = self.folder + item.name
        body = self.store.get_many([key])[0]
        if body is None and (body := self._copy(key)) is None:
            raise ObjectNotFound("no such object", key=key)
        return self.decode(decode_transaction, body, key)

    def advance(self, state: State) -> State:
        """The newest state, from one that was read before.

        Returns:
            The same object if nothing is new, else another one; the given one is not changed. A log
            that was rebuilt or replaced since is read anew.
        Requests: 1 LIST, and 1 GET for each new transaction (or checkpoint); for a log of one
            revision 1 GET.
        """
        if state.log is None:
            return self._newer(state)
        # From the head itself on: on a store without put-if-absent a rival of it may come late.
        listing = self.names_down_to(state.revision)
        if listing.incarnation != state.log.incarnation or not stands(state, listing):
            return self._newer(state)  # also if its own revision is gone: pruned, or lost
        for revision in listing.forks(state.revision):
            raise fork_error(listing, revision)
        if listing.head == state.revision:
            return self._newer(state) if self._is_another_first(state, listing) else state
        if listing.run_start(listing.head) > state.revision + 1:
            return self._newer(state)  # pruned past us, or a racing listing
        tail = [listing.transactions[r][0] for r in range(state.revision + 1, listing.head + 1)]
        try:
            bodies = self._bodies(tail)
        except Vanished:
            return self._newer(state)
        fresh = state.copy()
        if fresh.fetch is not None:
            fresh.fetch = partial(self._fetch_pieces, fresh)
        try:
            self._replay(fresh, list(zip(tail, bodies, strict=True)), listing)
        except BrokenChain:
            other = self._newer(state)
            if other.log == state.log:
                raise
            return other
        return fresh

    def _is_another_first(self, state: State, listing: Listing) -> bool:
        """Whether revision 0 is another log's by now: it has one name in all logs of a folder, so
        that its name doesn't tell."""
        names = listing.transactions.get(0)
        if state.revision != 0 or not names:
            return False
        try:
            header = self.store.get(listing.key(names[0]), start=0, end=HEADER_BYTES)
        except ObjectNotFound:
            return True
        return not header.endswith(state.digest)

    def _newer(self, state: State) -> State:
        """What a fresh look shows, unless it is an older view of the same log: that tells nothing
        new, and a reader's head never goes back."""
        fresh, _ = self._load(None, None)
        older = is_older_view(fresh, state)
        lost = lost_end(self, state, fresh) if older else None
        if lost:
            warn(lost)
        return state if older else fresh


def _two_at_a_time(function: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """Large pieces decoded by two threads."""
    return parallel(function, list(items), at_once=2)


def _refuse_unfinished(listing: Listing) -> None:
    """A log of which only other incarnations are there is damaged, not empty."""
    if listing.head < 0 and listing.others:
        raise CorruptObject(
            f"{listing.folder} holds an incarnation without its checkpoint, and no other",
            key=listing.key(listing.others[0]),
            hint=REPAIR,
        )


def raise_missing(listing: Listing, target: int | None) -> None:
    """Raise what `plan_read` says of a listing, if it says anything."""
    plan_read(listing, target)
    raise MissingTransaction(
        f"Objects of {listing.writer}/{listing.database} were listed but could not be read, "
        "several times",
        key=listing.folder,
        readable=listing.readable(),
        hint="Is something deleting objects there? Try again, or run `lakelog check`",
    )


# --- An earlier view of a log beside a later one --------------------------------------------------


def is_older_view(fresh: State, state: State) -> bool:
    """Whether a state that was read later shows the log as it was before; another log, and a log
    that was put back and went on otherwise, are no older view."""
    if fresh.log is None or state.log is None:
        return fresh.log is None
    if fresh.log.log_id != state.log.log_id:
        return False
    if fresh.log.incarnation != state.log.incarnation:
        return fresh.log.incarnation < state.log.incarnation
    if fresh.revision >= state.revision:
        return fresh.digest == state.digest
    try:
        rows = state.history.after(fresh.revision - 1)
    except CorruptError:
        return True
    return rows[0]["revision"] != fresh.revision or bool(rows[0]["digest"] == fresh.digest)


def stands(state: State, listing: Listing) -> bool:
    """Whether a listing shows the revision of a state. What follows it can't be relied on without:
    the log may have been lost, and be no more than a commit of somebody who doesn't know."""
    uuid8 = state.uuid[:4].hex()
    return any(item.uuid8 == uuid8 for item in listing.names_at(state.revision))


def refuse_gone(listing: Listing, revision: int) -> None:
    """Refuses a revision of an incarnation of which nothing is left (`listing` has all names, of
    the mirror, too), if a later one is in use."""
    where = f"{listing.writer}/{listing.database}"
    if any(item.incarnation > listing.incarnation for item in listing.others):
        raise SnapshotPruned(
            f"Revision {revision} of {where} was pruned, with its whole incarnation, "
            f"{listing.incarnation}",
            key=where,
            hint="The log was rebuilt since: open it again",
        )
    if listing.others:
        raise RevisionNotFound(
            f"{where} has no incarnation {listing.incarnation}",
            key=where,
            hint="Is the token of another copy of it, or was a backup put back?",
        )


def is_right_above(error: CorruptError, base: LogObject) -> bool:
    """Whether a chain broke at the first transaction above a base: then the base may be wrong."""
    item = parse_log_object((error.key or "").rsplit("/", 1)[-1])
    return (
        isinstance(error, BrokenChain) and item is not None and item.revision == base.revision + 1
    )


# --- Another base, where the newest one is damaged ------------------------------------------------


def other_base(
    log: LogReader, state: State, error: CorruptError, *, warned: set[str]
) -> tuple[DecodedCheckpoint | None, list[DecodedTransaction]]:
    """Another base and tail for a state, of the same revision.

    What can't be had may only have been pruned since the state was read, so the log is listed
    again: a base that is not listed any more was not damaged, and any other one will do.

    Args:
        error: What failed at the highest base.
        warned: What was warned of already: each part of a state comes here by itself.
    Raises:
        SnapshotPruned: The state's revision can't be read any more: its base was pruned.
        CorruptError: There is no other base: the given error.
    Requests: 1 LIST, 1 GET a base that is tried and a transaction after it.
    """
    for attempt in range(ATTEMPTS):
        log.ambient.sleep_s(PAUSE_S * attempt)
        incarnation = 0 if state.log is None else state.log.incarnation
        listing = log.names_of_both(incarnation) if attempt else log.names(incarnation)
        pruned = _is_gone(state, listing)
        final = attempt == ATTEMPTS - 1
        try:
            plan = _plan(listing, state, pruned=pruned)
            found = _first_that_serves(log, plan, listing, state, pruned=pruned, final=final)
        except Vanished:
            continue
        except SnapshotPruned:
            if attempt:  # believed once it was looked for twice: a scan of a folder can miss it
                raise
            continue
        except (ForkError, MissingTransaction, RevisionNotFound):
            found = None
        if found is None:
            if attempt:
                break
            continue  # a base may be had from the mirror's names
        if not pruned and error.message not in warned:
            warned.add(error.message)
            log.warn(error)
        return found.base, found.tail
    error.hint = f"Revisions {listing.readable()} are there. {REPAIR}"
    raise error


def _is_gone(state: State, listing: Listing) -> bool:
    """Whether the base of a state is not listed any more."""
    assert state.base is not None
    named = listing.checkpoints.get(state.base.message.revision, ())
    return state.base.key not in {listing.key(item) for item in named}


def _plan(listing: Listing, state: State, *, pruned: bool) -> ReadPlan:
    if pruned and listing.head < 0:
        where = f"{listing.writer}/{listing.database}"
        raise SnapshotPruned(
            f"Revision {state.revision} of {where} was pruned, with its whole incarnation",
            key=where,
            hint="The log was rebuilt since: open it again",
        )
    return plan_read(listing, state.revision)


def _first_that_serves(
    log: LogReader,
    plan: ReadPlan,
    listing: Listing,
    state: State,
    *,
    pruned: bool,
    final: bool,
) -> State | None:
    """Returns the state of the same revision from the first base that gives it. Raises `Vanished`
    if something listed is not there.

    Args:
        pruned: Whether the state's own base is gone; else only lower ones are tried.
        final: Whether what is listed and not there counts as damaged.
    """
    assert state.base is not None
    below = state.base.message.revision
    for base in plan.bases:
        if not pruned and base is not None and base.revision >= below:
            continue
        try:
            other = log.from_base(base, plan.tail_after(base), listing, final=final)
        except UnsupportedFeature:
            raise
        except CorruptError as failed:
            if base is not None and log.is_about(failed, base):
                continue
            return None  # every lower base needs the same transaction
        except Vanished:
            if not final:
                raise
            continue
        if other.digest == state.digest:
            return other
    return None
