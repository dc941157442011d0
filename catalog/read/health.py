"""Whether a log is sound: findings, for `doctor`.

A log is judged from its names, from reading its newest revision with all its parts, and from each
of its transactions by itself: one that is damaged below a checkpoint hinders nobody from reading
the newest revision, but from reading its own.

Source: docs/maintenance.md.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from ...errors import CorruptError, CorruptObject, LakelogError, LogLost, LostTail
from ...store import WideStore
from ..ambient import SYSTEM, Ambient
from ..format import compute as pc
from ..format.names import base_folder
from ..format.objects import WRITER_FEATURES, decode_transaction
from ..format.pieces import OF_A_PART
from ..log.checkpoint_files import decode_describing
from ..log.listing import REPAIR, Listing, fork_error
from ..margins import DEFAULT_MARGINS
from .data_files import examine_data_files
from .findings import Finding
from .log_reader import LogReader
from .losses import LostLogWarning
from .mirror import refuse_lost_end
from .recompute import recompute_checkpoints

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from ...store import ObjectInfo, Store
    from ..format.names import LogObject
    from ..log.state import State

_OLD_CHECKPOINT_REVISIONS: Final = 1_000
_CLOCK_AHEAD_US: Final = int(DEFAULT_MARGINS.clock_ahead_s * 1e6)
_NAMED: Final = 3
_AT_ONCE: Final = 256
_NAMES_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class LogHealth:
    """What one log looks like.

    Attributes:
        database, writer: Whose folder it lies in.
        log_id, incarnation: Which log it is, and in which life; None if it can't be read.
        named: The writer and database that it says it is; None if it can't be read.
        sealed_for: The incarnation that a rebuild of it begins; 0 if none does.
        other_incarnations: Objects of other incarnations.
        head: Its newest revision; -1 if there is none.
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
    log_id: str | None
    incarnation: int | None
    named: tuple[str, str] | None
    sealed_for: int
    other_incarnations: int
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
    deep: bool = False,
    ambient: Ambient = SYSTEM,
    step: Callable[[int], None] = lambda number: None,
    wide: WideStore | None = None,
) -> LogHealth:
    """Look at one log.

    Args:
        deep: Recompute every checkpoint, and look for every data file; else the newest checkpoint,
            and the data files of a log that has at most 100,000.
        ambient: For the time, and for waiting between listings.
        step: Told of so many objects more that were looked at.
        wide: Reads files that lie elsewhere.
    Requests: 1 LIST, and 1 of the data files; those of reading the newest revision and all pieces
        of its checkpoint; 1 GET for each transaction; for each of up to 32 transactions that wrote
        what lies below `data/` and are in no history, 1 or 2 GET of a data file and 1 of an object
        of row deletes and of actions; those of `recompute_checkpoints` and `examine_data_files`.
    """
    log = LogReader(store, writer, database, ambient)
    data = _list_data(store, writer, database, step)  # first: no commit is missed
    listing = log.names()
    state, found = _read(log, listing)
    found += _judge_names(listing, {finding.key for finding in found})
    sound, damage = _without_damage(log, listing, {finding.key for finding in found}, step)
    found += damage
    checkpoint = max(listing.checkpoints, default=None)
    found += _not_told(recompute_checkpoints(log, listing, deep=deep, step=step), found)
    if state is not None:
        found += examine_data_files(wide or WideStore(store), state, data, deep=deep)
        server = store.server_time()
        now_us = ambient.now_us() if server is None else int(server.timestamp() * 1e6)
        found += _judge_state(state, listing, checkpoint, now_us)
        found += _judge_identity(state, listing)
        found += _judge_end(log)
    elif listing.others and listing.head >= 0:
        found.append(_others(listing))
    oldest = sound.oldest_readable()
    return LogHealth(
        database=database,
        writer=writer,
        log_id=state.log.log_id.hex() if state and state.log else None,
        incarnation=state.log.incarnation if state and state.log else None,
        named=state.named if state else None,
        sealed_for=state.sealed_for if state else 0,
        other_incarnations=len(listing.others),
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


def _list_data(
    store: Store, writer: str, database: str, step: Callable[[int], None]
) -> list[ObjectInfo]:
    """All that lies below `data/`."""
    found: list[ObjectInfo] = []
    left = iter(store.list(f"{base_folder(writer, database)}data/"))
    while some := list(islice(left, _NAMES_AT_ONCE)):
        found += some
        step(len(some))
    return found


def _not_told(findings: list[Finding], told: list[Finding]) -> list[Finding]:
    """The findings about objects of which nothing was told yet."""
    return [
        finding
        for finding in findings
        if not any(finding.key and finding.key in (item.key or item.what) for item in told)
    ]


def _read(log: LogReader, listing: Listing) -> tuple[State | None, list[Finding]]:
    """The newest state. What was warned of on the way is a problem: a checkpoint that can't be
    used.
    """
    state, found = None, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            state = log.load(listing=listing)
            found += _judge_parts(state)
        except LakelogError as error:
            found.append(Finding("problem", error.message, error.key, error.hint))
    for item in caught:
        if item.category.__module__.startswith(__name__.split(".")[0] + "."):
            lost = issubclass(item.category, LostLogWarning)  # it says itself what to do
            to_do = None if lost else "After the next commit `lakelog checkpoint` writes a new one"
            found.append(Finding("problem", str(item.message), None, to_do))
    return state, found


def _judge_parts(state: State) -> list[Finding]:
    """Read everything that the newest state holds.

    Requests: 1 GET for each piece of its checkpoint.
    """
    found: dict[str | None, Finding] = {}

    def tell(error: LakelogError) -> None:
        found[error.key] = Finding("problem", error.message, error.key, error.hint)

    try:
        for table in sorted(state.schemas.tables() | set(state.files.tables())):
            try:
                state.files.check(table)
            except LakelogError as error:
                tell(error)
        state.applications.versions()
        state.history.table()
        state.deletes.tables()
    except LakelogError as error:
        tell(error)
        return list(found.values())
    for piece in state.pieces:
        if piece.kind in OF_A_PART:
            try:
                decode_describing(state.bytes_of([piece])[0], piece)
            except LakelogError as error:
                what = f"{error.message}: nothing is skipped by these statistics"
                found[error.key] = Finding("problem", what, error.key, REPAIR)
    return list(found.values())


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


def _judge_names(listing: Listing, told: set[str | None]) -> list[Finding]:
    found = []
    forks = listing.forks()
    for revision in forks:
        rivals = fork_error(listing, revision)
        if rivals.key not in told:
            found.append(Finding("problem", rivals.message, rivals.key, rivals.hint))
    spans = listing.readable()
    if ", " in spans:
        what = f"Not every revision can be read, only {spans}"
        to_do = None if forks else "Restore the missing transactions from a copy"
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
        what = f"The newest commit is {ahead} in the future, by the store's clock"
        to_do = (
            "All later commits are stamped after it: give points in time as tokens or revisions, "
            "which depend on no clock"
        )
        found.append(Finding("note", what, None, to_do))
    unknown = state.writer_features - WRITER_FEATURES
    if unknown:
        what = f"This lakelog can read the log but not write it: {', '.join(sorted(unknown))}"
        found.append(Finding("note", what, None, "Upgrade lakelog before writing"))
    return found


def _judge_identity(state: State, listing: Listing) -> list[Finding]:
    """Whose log it is, and what there is of its other lives."""
    found = []
    if state.is_foreign:
        what = f"The log says that it is that of {'/'.join(state.named)}: it was copied or renamed"
        to_do = (
            "It can be read, and nobody can commit to it. To give it this name: `lakelog "
            f"adopt-name URL {state.database} --writer {state.writer}`"
        )
        found.append(Finding("problem", what, None, to_do))
    if state.sealed_for:
        what = (
            f"The log was sealed for a rebuild, and incarnation {state.sealed_for}, which that "
            "begins, is not there: nobody can commit"
        )
        to_do = (
            "If no rebuild is under way, run it again; it goes on where it ended: "
            f"`lakelog rebuild URL {state.database} --writer {state.writer} --execute`"
        )
        found.append(Finding("problem", what, state.tail[-1].key, to_do))
    if listing.others:
        found.append(_others(listing))
    return found


def _judge_end(log: LogReader) -> list[Finding]:
    """Checks whether the mirror goes further than the log."""
    try:
        refuse_lost_end(log)
    except (LostTail, LogLost) as error:
        return [Finding("problem", error.message, error.key, error.hint)]
    return []


def _others(listing: Listing) -> Finding:
    """What there is of other incarnations."""
    numbers = sorted({item.incarnation for item in listing.others})
    count = len(listing.others)
    objects = "1 object" if count == 1 else f"{count:,} objects"
    of = f"incarnation{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    above = any(number > listing.incarnation for number in numbers)
    to_do = (
        "Of a rebuild that is under way or was cut short, if no problem is told" if above else None
    )
    what = f"{objects} of {of}; in use is {listing.incarnation}"
    return Finding("note", what, listing.key(listing.others[0]), to_do)


def _committed_at(state: State | None, revision: int | None) -> dt.datetime | None:
    if state is None or revision is None:
        return None
    try:
        table = state.history.table()
    except LakelogError:  # it is a problem already
        return None
    found = table.filter(pc.equal(table.column("revision"), revision)).column("committed_at")
    at: dt.datetime | None = found[0].as_py() if len(found) else None
    return at
