"""How a commit ends: its record or its error, the fates of what was sent, and what fences an owner.
Pure.

Whoever commits asks the store for a name and may never hear the answer. From before the put a
transaction is in doubt; what stands in the log decides, whatever else was answered.

Source: docs/format.md, sections 10 and 10.6; docs/protocol.md.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from ...errors import (
    ClockError,
    CommitOutcomeUnknown,
    CorruptError,
    EpochChanged,
    FencedError,
    ForeignLog,
    ForkError,
    LakelogError,
    PlanOutdated,
    ProcessDoubled,
    TransactionExpired,
    some_names,
)
from ..format.segments import FILES
from .replay import is_own_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from ..format.frame import LogIdentity
    from ..format.names import LogObject
    from ..format.objects import DecodedTransaction
    from .state import State


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A commit that stands in the log.

    Attributes:
        revision: Its number.
        uuid: Slot uuid, hex.
        transaction_id: Hex.
        committed_at_us: µs since 1970, UTC.
        skipped: True if nothing was written, since the application's version was committed before.
    """

    revision: int
    uuid: str
    transaction_id: str
    committed_at_us: int
    skipped: bool = False


def fenced_error(writer: str, why: str, key: str) -> FencedError:
    """The error of an owner that another one has replaced."""
    return FencedError(
        f"Another owner, in this process or another, has taken over writer {writer!r}: {why}",
        key=key,
        hint="This instance can't commit any more. Stop it, or open the writer again to take it "
        "back. A shared writer (`shared=True`) commits beside its owner",
    )


def epoch_changed_error(writer: str, database: str, key: str) -> EpochChanged:
    """The error of a guest whose files carry the epoch of an owner before."""
    return EpochChanged(
        f"A new owner took over {writer}/{database} while this guest worked",
        key=key,
        hint="Run the transaction again: its data files are void, and gc removes them",
    )


def outcome_unknown_error(key: str, transaction_id: bytes) -> CommitOutcomeUnknown:
    """The error of a commit that the store gave no answer to."""
    return CommitOutcomeUnknown(
        f"The store gave no answer for {key}: transaction {transaction_id.hex()} may or may not "
        "be committed",
        key=key,
        transaction_id=transaction_id.hex(),
        hint="Call commit again on the same transaction (that is safe), or look for its id with "
        "`lakelog log`",
    )


def outcome_of(error: LakelogError, transaction_id: bytes, sent_as: str | None) -> LakelogError:
    """Returns the error of a whole attempt for one transaction of it: in doubt stays in doubt, if
    it was sent under a key (`sent_as`) that nobody knows of."""
    if sent_as is None or isinstance(error, (FencedError, ForkError)):
        own = copy(error)  # each caller raises its own: none gathers the others' tracebacks
        own.__cause__ = error
        return own
    unknown = outcome_unknown_error(sent_as, transaction_id)
    if isinstance(error, CorruptError):
        unknown.message = (
            f"{sent_as} was written, but the log that it follows can't be read any more "
            f"({error.message}): a rebuild decides whether transaction {transaction_id.hex()} "
            "is committed"
        )
        unknown.args = (unknown.message,)
        unknown.hint = "`lakelog check` tells more. " + (unknown.hint or "")
    unknown.__cause__ = error
    return unknown


def expired_error(transaction_id: bytes, age_s: float) -> TransactionExpired:
    """The error of a transaction that took too long to commit."""
    return TransactionExpired(
        f"Transaction {transaction_id.hex()} was begun, or its oldest file written, "
        f"{age_s / 3600:.0f} hours ago: gc may have taken its files",
        key=transaction_id.hex(),
        hint="Run it again; commit large work in several transactions",
    )


def files_gone_error(transaction_id: bytes, revision: int, paths: list[str]) -> TransactionExpired:
    """The error of a transaction that stands, and whose files gc took before it did."""
    return TransactionExpired(
        f"Transaction {transaction_id.hex()} stands as revision {revision}, but gc has taken "
        f"{some_names(paths)} before: this process stood still between writing its files and "
        "committing them",
        key=transaction_id.hex(),
        hint="Remove these files in another transaction, since nobody can read them, and run this "
        "one again",
    )


def late_error(transaction_id: bytes, revision: int) -> TransactionExpired:
    """The error of a transaction that stands, and that gc may not have seen in time."""
    return TransactionExpired(
        f"Transaction {transaction_id.hex()} stands as revision {revision}, but came so long after "
        "its files were written that gc may have decided to take them: this process, or its "
        "request, stood still meanwhile",
        key=transaction_id.hex(),
        hint="Its files are there now. Look again in a day (`lakelog check`): if gc took one, "
        "remove it in another transaction and write its rows again",
    )


def doubled_error(transaction_id: bytes, revision: int, key: str) -> ProcessDoubled:
    """The error of a transaction whose id a copy of this process has committed first."""
    return ProcessDoubled(
        f"Revision {revision} has transaction {transaction_id.hex()} of this process in bytes that "
        "it never sent: this process was doubled, and its copy was first. What this one asked for "
        "is not committed",
        key=key,
        hint="Was this machine cloned, or set back to a snapshot of its memory? Open the writer "
        "again, look what is there, and run what is missing as another transaction",
    )


def pruned_in_doubt_error(key: str, transaction_id: bytes) -> CommitOutcomeUnknown:
    """The error of a commit whose place in the log was pruned before anybody could look."""
    return CommitOutcomeUnknown(
        f"Whether transaction {transaction_id.hex()} was committed can't be learnt any more: "
        f"{key} was pruned",
        key=key,
        transaction_id=transaction_id.hex(),
        hint="Look whether its files are live (`lakelog files`); if not, run it again as another "
        "transaction",
    )


def foreign_error(state: State) -> ForeignLog:
    """The error of a log that lies under another name than its own."""
    named, folder = "/".join(state.named), f"{state.writer}/{state.database}"
    return ForeignLog(
        f"The log in {folder} says that it is that of {named}: it was copied or renamed",
        key=folder,
        hint=f"It can be read. To write to it or maintain it here, give it its new name: `lakelog "
        f"adopt-name URL {state.database} --writer {state.writer} --execute`",
    )


def outdated_error(state: State) -> PlanOutdated:
    """The error of a plan that was made for another head than the log has by now."""
    where = f"{state.writer}/{state.database}"
    return PlanOutdated(
        f"Others have committed to {where} since the plan was made: it is at revision "
        f"{state.revision} now",
        key=where,
        hint="Nothing was committed to it. Plan again, and look at the new plan",
    )


def clock_error(writer: str, ahead_s: float) -> ClockError:
    """The error of a machine whose clock is far ahead."""
    return ClockError(
        f"This machine's clock is {ahead_s / 60:.0f} minutes ahead of the store's: nothing was "
        "committed, since its commit time would be stamped on all later ones",
        key=writer,
        hint="Set the clock, and commit again",
    )


# --- Fates: what becomes of the transactions that a committer sends -------------------------------


class Fate(Enum):
    """Where a transaction is on its way into the log."""

    WAITING = auto()
    """Nothing of it was ever written: it was not sent, or the store refused it."""
    SENT = auto()
    """In doubt: a put was begun, and nobody knows whether it took effect."""
    LOST = auto()
    """Another one stands under the name that it was sent to: it may be sent to the next one."""
    PRUNED = auto()
    """In doubt for good: its name was pruned before anybody looked. It is never sent again."""
    STANDS = auto()
    """It is in the log."""


# What stands in the log stands, whatever was believed before. It is sent again only if the one who
# would have told of it was interrupted, and a listing missed it: it then finds its own object.
TRANSITIONS: Final[dict[Fate, frozenset[Fate]]] = {
    Fate.WAITING: frozenset({Fate.SENT, Fate.STANDS}),
    Fate.SENT: frozenset(Fate),
    Fate.LOST: frozenset({Fate.SENT, Fate.STANDS}),
    Fate.PRUNED: frozenset({Fate.PRUNED, Fate.LOST, Fate.STANDS}),
    Fate.STANDS: frozenset({Fate.STANDS, Fate.SENT}),
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A transaction object as it is sent, for one or more transactions.

    Attributes:
        item: Its name.
        body: Its bytes.
        decoded: What they say.
        ids: The transactions in it.
    """

    item: LogObject
    body: bytes
    decoded: DecodedTransaction
    ids: tuple[bytes, ...]

    @property
    def key(self) -> str:
        """Where it is put."""
        return self.decoded.key


class Attempts:
    """The fates of all transactions that one committer has ever sent."""

    def __init__(self) -> None:
        self._fates: dict[bytes, tuple[Fate, Attempt | None]] = {}
        self._has_stood = False
        self._digests: dict[bytes, frozenset[bytes]] = {}

    @property
    def own(self) -> AbstractSet[bytes]:
        """Ids of all that were ever sent."""
        return self._fates.keys()

    @property
    def has_stood(self) -> bool:
        """Whether any of them is known to stand."""
        return self._has_stood

    def fate(self, transaction_id: bytes) -> Fate:
        """Where a transaction is."""
        return self._fates.get(transaction_id, (Fate.WAITING, None))[0]

    def may_stand(self, transaction_id: bytes) -> bool:
        """Whether a transaction is in the log, as far as anybody knows, or in doubt."""
        return self.fate(transaction_id) not in (Fate.WAITING, Fate.LOST)

    def digests(self, transaction_id: bytes) -> frozenset[bytes]:
        """Of all objects that were ever sent with a transaction in them."""
        return self._digests.get(transaction_id, frozenset())

    def in_doubt(self, transaction_id: bytes) -> Attempt | None:
        """The attempt of a transaction of which nobody knows whether it stands; None otherwise."""
        return self._fates.get(transaction_id, (Fate.WAITING, None))[1]

    def unanswered(self, ids: Iterable[bytes], digest: bytes) -> Attempt | None:
        """An attempt in doubt that one of these was in, and that follows the object of a digest."""
        for one in ids:
            sent = self.in_doubt(one)
            if sent is not None and sent.decoded.message.previous_digest == digest:
                return sent
        return None

    def sends(self, attempt: Attempt) -> list[bytes]:
        """A put is about to begin: from here on, whatever interrupts it, they are in doubt. Returns
        those that were not in doubt before."""
        fresh = [one for one in attempt.ids if self.fate(one) is not Fate.SENT]
        for one in attempt.ids:
            self._digests[one] = self.digests(one) | {attempt.decoded.digest}
        self._move(attempt.ids, Fate.SENT, attempt)
        return fresh

    def refused(self, ids: Iterable[bytes]) -> None:
        """The store refused the put: nothing was written."""
        self._move(ids, Fate.WAITING)

    def lost(self, ids: Iterable[bytes]) -> None:
        """Another one stands where they were sent to."""
        self._move(ids, Fate.LOST)

    def stands(self, transaction_id: bytes) -> None:
        """The log has it."""
        self._has_stood = True
        self._move((transaction_id,), Fate.STANDS)

    def pruned(self, transaction_id: bytes) -> None:
        """The place that it was sent to is gone."""
        self._move((transaction_id,), Fate.PRUNED, self.in_doubt(transaction_id))

    def _move(self, ids: Iterable[bytes], to: Fate, attempt: Attempt | None = None) -> None:
        for transaction_id in ids:
            fate = self.fate(transaction_id)
            assert to in TRANSITIONS[fate], f"{transaction_id.hex()} can't be {to} after {fate}"
            self._fates[transaction_id] = (to, attempt)


# --- Fencing --------------------------------------------------------------------------------------


def fencing_reason(
    state: State, before: int, *, epoch: int, own: AbstractSet[bytes], committed: bool
) -> str | None:
    """Why an owner may not commit any more, or None while it may.

    A guest's commit carries the epoch of its owner and fences nobody. What prune took before this
    owner could read it is judged by the head alone: if that has this owner's epoch and this owner
    has not committed yet, another one may have.

    Args:
        state: The log as it is now.
        before: The revision up to which this owner has looked already.
        epoch: This owner's.
        own: Ids of the transactions that this owner has sent.
        committed: Whether one of them is known to stand: the epoch is then this owner's alone.
    """
    rows = state.history.after(before)
    for row in rows:
        theirs = row["epoch"] > epoch or (row["epoch"] == epoch and not row["guest"])
        if theirs and own.isdisjoint(row["transaction_ids"]):
            own_epoch = (
                f"this one's too: both were opened at the same revision, and {row['revision']} "
                "came first"
                if row["epoch"] == epoch
                else f"this one has {epoch}"
            )
            return (
                f"revision {row['revision']} was committed under epoch {row['epoch']}, {own_epoch}"
            )
    first = rows[0]["revision"] if rows else state.revision + 1
    if first > before + 1 and not committed and state.epoch >= epoch:
        return (
            f"revisions {before + 1} to {first - 1} were pruned before this one read them, and the "
            f"log has reached epoch {state.epoch} without it"
        )
    return None


def replaced_reason(state: State, opened: LogIdentity) -> str | None:
    """Why the log is not the one that was opened for committing, or None."""
    found = state.log
    if state.sealed_for:
        return (
            f"the log was sealed for a rebuild, which begins incarnation {state.sealed_for}. If "
            "none runs, finish it with `lakelog rebuild`"
        )
    if found is None or found == opened:
        return None
    if found.log_id == opened.log_id:
        return f"the log was rebuilt and goes on as incarnation {found.incarnation}"
    return "another log stands there now, begun or restored by another process"


# --- Names that a rebuild can foresee ------------------------------------------------------------
#
# A rebuild of a lost log seals every name that a living committer may still use, as far as footers
# show: they carry the slot seed of whoever wrote them, from which names follow. A name that no
# footer foretells can't be sealed, so whoever commits under it lists the log before it believes a
# success.-

SEALED_AHEAD: Final = 16  # revisions above a footer's base whose names a rebuild seals, a seed
_SURE: Final = SEALED_AHEAD // 2  # a transaction may have been begun some revisions before its own


def is_next_name_foreseeable(state: State) -> bool:
    """Whether a footer foretells the name that the head of a state has promised.

    Where that isn't known, as with a checkpoint at the head, the answer is no.
    """
    if state.revision < 0:
        return True  # it follows from the names of writer and database
    seed = b""
    for transaction in reversed(state.tail):
        message = transaction.message
        if message.revision < state.revision - _SURE:
            break
        seed = seed or message.commit.slot_seed
        if message.commit.slot_seed == seed and has_own_files(transaction):
            return True
    return False


def has_own_files(transaction: DecodedTransaction) -> bool:
    """Whether it adds a file that was written for it: such a file has a footer."""
    own = {member.transaction_id for member in transaction.message.commit.members}
    for place, action in enumerate(transaction.message.actions):
        kind = action.WhichOneof("kind")
        if kind == "add" and is_own_file(action.add.path, own):
            return True
        if kind == "add_batch" and any(
            is_own_file(piece.segment.first_path, own)
            for piece in transaction.batches.get(place, ())
            if piece.kind == FILES
        ):
            return True
    return False
