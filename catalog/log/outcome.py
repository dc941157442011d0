"""How a commit ends: the record of one that stands, and the errors of those that don't. Pure."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
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
    """An error of a whole attempt, as it stands for one transaction of it: in doubt stays in doubt.

    Args:
        sent_as: The key that it was sent under and nobody knows of; None for none.
    """
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
