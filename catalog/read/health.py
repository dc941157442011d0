"""Whether the logs of a catalog are sound, and what its store can do: findings, for `doctor`.

A log is judged from its names, from reading its newest revision, and from each of its transactions
by itself: one that is damaged below a checkpoint hinders nobody from reading the newest revision,
but from reading its own.

Source: docs/maintenance.md.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import pyarrow.compute as pc

from ...errors import AccessDenied, CorruptError, CorruptObject, LakelogError, LogLost
from ...store import Capabilities, probe
from ..ambient import SYSTEM, Ambient
from ..format.names import check_id
from ..format.objects import decode_transaction
from ..log.listing import REPAIR, Listing
from ..log.state import WRITER_FEATURES, State
from .log_reader import LogReader
from .lost_log import refuse_lost_log, without_log

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Collection

    from ...store import Store
    from ..format.names import LogObject

Severity = Literal["problem", "note"]
_OLD_CHECKPOINT_REVISIONS: Final = 1_000
_CLOCK_AHEAD_US: Final = 300_000_000
_NAMED: Final = 3
_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that somebody should know.

    Attributes:
        severity: `problem`: something is wrong. `note`: worth knowing.
        what: What was found, in words.
        key: The object it is about, or None.
        to_do: What to do about it, or None.
        writer, database: Whose log; None where it is about the store.
    """

    severity: Severity
    what: str
    key: str | None = None
    to_do: str | None = None
    writer: str | None = None
    database: str | None = None


@dataclass(frozen=True, slots=True)
class LogHealth:
    """What one log looks like.

    Attributes:
        database, writer: Whose.
        head: Its newest revision.
        committed_at_us, epoch: Of the head; None if it can't be read.
        oldest_readable: None if no revision can be read.
        readable: All revisions that can be, in words.
        transactions, checkpoints: How many objects.
        checkpoint_revision, checkpoint_committed_at: Of the newest checkpoint, or None.
        forks: Revisions on which several transactions stand.
        unknown_names: Names that are not lakelog's.
        findings: What should be known of it.
    """

    database: str
    writer: str
    head: int
    committed_at_us: int | None
    epoch: int | None
    oldest_readable: int | None
    readable: str
    transactions: int
    checkpoints: int
    checkpoint_revision: int | None
    checkpoint_committed_at: dt.datetime | None
    forks: list[int]
    unknown_names: list[str]
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong with it."""
        return all(finding.severity != "problem" for finding in self.findings)


def examine_log(
    store: Store,
    writer: str,
    database: str,
    *,
    ambient: Ambient = SYSTEM,
    step: Callable[[int], None] = lambda number: None,
) -> LogHealth:
    """Look at one log.

    Args:
        ambient: For the time, and for waiting between listings.
        step: Told of so many transactions more that were read.
    Requests: 1 LIST; those of reading the newest revision; 1 GET for each transaction.
    """
    log = LogReader(store, writer, database, ambient)
    listing = log.names()
    state, found = _read(log, listing)
    found += _judge_names(listing)
    sound, damage = _without_damage(log, listing, {finding.key for finding in found}, step)
    found += damage
    checkpoint = max(listing.checkpoints, default=None)
    if state is not None:
        found += _judge_state(state, listing, checkpoint, ambient.now_us())
    oldest = sound.oldest_readable()
    return LogHealth(
        database=database,
        writer=writer,
        head=listing.head,
        committed_at_us=state.committed_at_us if state else None,
        epoch=state.epoch if state else None,
        oldest_readable=oldest if oldest <= listing.head else None,
        readable=sound.readable(),
        transactions=sum(map(len, listing.transactions.values())),
        checkpoints=sum(map(len, listing.checkpoints.values())),
        checkpoint_revision=checkpoint,
        checkpoint_committed_at=_committed_at(state, checkpoint),
        forks=list(listing.forks()),
        unknown_names=list(listing.unknown),
        findings=tuple(replace(item, writer=writer, database=database) for item in found),
    )


def _read(log: LogReader, listing: Listing) -> tuple[State | None, list[Finding]]:
    """The newest state. What was warned of on the way is a problem: a checkpoint that can't be
    used.
    """
    state, found = None, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            state = log.load(listing=listing)
        except LakelogError as error:
            found.append(Finding("problem", error.message, error.key, error.hint))
    for item in caught:
        if item.category.__module__.startswith(__name__.split(".")[0] + "."):
            to_do = "`lakelog checkpoint` writes a new one"
            found.append(Finding("problem", str(item.message), None, to_do))
    return state, found


def _without_damage(
    log: LogReader, listing: Listing, told: set[str | None], step: Callable[[int], None]
) -> tuple[Listing, list[Finding]]:
    """The listing without the transactions that are damaged; each of these is a problem.

    Args:
        told: Keys of objects that reading the newest revision has met already.
    """
    damaged: set[LogObject] = set()
    found: list[Finding] = []

    def tell(error: LakelogError) -> None:
        if error.key not in told:
            to_do = REPAIR if isinstance(error, CorruptObject) else error.hint
            found.append(Finding("problem", error.message, error.key, to_do))

    items = sorted(item for names in listing.transactions.values() for item in names)
    for start in range(0, len(items), _AT_ONCE):
        piece = items[start : start + _AT_ONCE]
        try:
            bodies = log.store.get_many([listing.key(item) for item in piece])
        except LakelogError as error:
            tell(error)
            continue
        for item, body in zip(piece, bodies, strict=True):
            try:
                if body is not None:  # else pruned since it was listed
                    decode_transaction(body, listing.key(item))
            except CorruptError as error:
                damaged.add(item)
                tell(error)
        step(len(piece))
    kept = {
        revision: [item for item in names if item not in damaged]
        for revision, names in listing.transactions.items()
    }
    return replace(listing, transactions={r: names for r, names in kept.items() if names}), found


def _judge_names(listing: Listing) -> list[Finding]:
    found = []
    for revision in listing.forks()[1:]:  # the first is what reading the log raised
        names = " and ".join(listing.key(item) for item in sorted(listing.transactions[revision]))
        found.append(Finding("problem", f"Two transactions stand on revision {revision}", names))
    spans = listing.readable()
    if ", " in spans:
        what = f"Not every revision can be read, only {spans}"
        to_do = "Restore the missing transactions from a copy"
        found.append(Finding("problem", what, listing.folder, to_do))
    if listing.unknown:
        named = ", ".join(listing.unknown[:_NAMED])
        more = f" and {len(listing.unknown) - _NAMED} more" if len(listing.unknown) > _NAMED else ""
        what = f"Names that are not lakelog's, ignored and never deleted: {named}{more}"
        found.append(Finding("note", what, listing.folder))
    return found


def _judge_state(
    state: State, listing: Listing, checkpoint: int | None, now_us: int
) -> list[Finding]:
    found = []
    behind = listing.head - (-1 if checkpoint is None else checkpoint)
    if behind > _OLD_CHECKPOINT_REVISIONS:
        what = f"{behind:,} transactions are read after the newest checkpoint"
        to_do = "`lakelog checkpoint` makes opening quick again"
        found.append(Finding("note", what, None, to_do))
    ahead_us = state.committed_at_us - now_us
    if ahead_us > _CLOCK_AHEAD_US:
        ahead = f"{ahead_us // 1_000_000:,} s"
        what = f"The newest commit is {ahead} in the future, by this machine's clock"
        to_do = "Points in time are by the writer's clock; tokens and revisions don't depend on any"
        found.append(Finding("note", what, None, to_do))
    unknown = state.writer_features - WRITER_FEATURES
    if unknown:
        what = f"This lakelog can read the log but not write it: {', '.join(sorted(unknown))}"
        found.append(Finding("note", what, None, "Upgrade lakelog before writing"))
    return found


def _committed_at(state: State | None, revision: int | None) -> dt.datetime | None:
    if state is None or revision is None:
        return None
    table = state.history.table()
    found = table.filter(pc.equal(table.column("revision"), revision)).column("committed_at")
    at: dt.datetime | None = found[0].as_py() if len(found) else None
    return at


def find_lost_logs(
    store: Store,
    writer: str | None = None,
    database: str | None = None,
    *,
    known: Collection[tuple[str, str]] = (),
) -> list[Finding]:
    """Data files without a log: a problem where they prove that there was one.

    Args:
        writer, database: Only of this one.
        known: Pairs of writer and database that have a log.
    Requests: those of `lost_log.without_log`, and of `lost_log.refuse_lost_log` for each found.
    """
    found = []
    for owner, name in without_log(store, writer, database, known=frozenset(known)):
        try:
            refuse_lost_log(store, owner, name)
        except LogLost as error:
            what = error.message.removeprefix(f"{owner}/{name} ")
            finding = Finding("problem", what, error.key, error.hint, owner, name)
        else:
            what = "There are data files and no log: of a first commit that isn't made yet, or lost"
            to_do = f"If it was made: `lakelog rebuild URL {name} --writer {owner}`"
            finding = Finding("note", what, None, to_do, owner, name)
        found.append(finding)
    return found


def examine_store(store: Store, writer: str) -> tuple[Capabilities | None, str, list[Finding]]:
    """Find out what the store can do, with a probe object below a writer's prefix.

    Returns:
        What it can do, or None if that is not known; in words, how it went; and findings.
    Requests: those of `store.probe`.
    """
    check_id(writer, "writer")
    try:
        capabilities = probe(store, f"{writer}/")
    except AccessDenied as error:
        what = f"The probe was refused: {error.message}. Reading works"
        return None, "writing is not allowed here", [Finding("note", what)]
    except LakelogError as error:
        what = f"The probe failed: {error.message}"
        return None, "failed", [Finding("problem", what, None, error.hint)]
    return capabilities, capabilities.detail, []
