"""What `lakelog doctor` finds: what the store can do, whether the logs of a catalog go together,
which of them are lost, and whose each is. `rebuild.check` reads all that the logs hold.

Source: docs/recovery.md, "doctor".
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from ...errors import AccessDenied, LakelogError, StorageError
from ...store import (
    Capabilities,
    keep_finding,
    kept_finding,
    kept_key,
    probe_names,
    race,
)
from ..ambient import SYSTEM, Ambient
from ..format.names import check_id, is_id
from ..format.objects import WRITER_FEATURES
from ..margins import DEFAULT_MARGINS
from .log_reader import LogReader
from .mirror import MirrorWarning, lost_log_error, rebuild_command, refuse_lost_end, without_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ...store import Store
    from ..log.state import State

Severity = Literal["problem", "note"]

_CLOCK_AHEAD_US: Final = int(DEFAULT_MARGINS.clock_ahead_s * 1e6)


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
    """What the newest state of a log says.

    Attributes:
        database, writer: Whose folder it lies in.
        head: Its newest revision; -1 if there is none, or it can't be read.
        committed_at_us, epoch: Of the head; None if it can't be read.
        log_id, incarnation: Which log it is; None if it can't be read.
        named: The writer and database that it says it is; None if it can't be read.
        sealed_for: The incarnation that a rebuild of it begins; 0 if none does.
        findings: What should be known of it.
    """

    database: str
    writer: str
    head: int = -1
    committed_at_us: int | None = None
    epoch: int | None = None
    log_id: str | None = None
    incarnation: int | None = None
    named: tuple[str, str] | None = None
    sealed_for: int = 0
    findings: tuple[Finding, ...] = ()


# --- One log --------------------------------------------------------------------------------------


def examine_log(
    store: Store, writer: str, database: str, *, ambient: Ambient = SYSTEM
) -> LogHealth:
    """Reads the newest state of a log, and says whose it is and whether it can be committed to.

    Args:
        ambient: For the time, and for waiting between listings.
    Requests: those of `LogReader.load` and of `mirror.refuse_lost_end`.
    """
    log = LogReader(store, writer, database, ambient)
    found = _judge_end(log)
    state, more = _read(log, silent=bool(found))
    found += [item for item in more if item not in found]
    health = LogHealth(database, writer)
    if state is not None and state.log is not None:
        server = store.server_time()
        now_us = ambient.now_us() if server is None else int(server.timestamp() * 1e6)
        found += _judge_identity(state) + _judge_clock(state, now_us) + _judge_features(state)
        health = LogHealth(
            database=database,
            writer=writer,
            head=state.revision,
            committed_at_us=state.committed_at_us,
            epoch=state.epoch,
            log_id=state.log.log_id.hex(),
            incarnation=state.log.incarnation,
            named=state.named,
            sealed_for=state.sealed_for,
        )
    own = tuple(replace(item, writer=writer, database=database) for item in found)
    return replace(health, findings=own)


def _judge_end(log: LogReader) -> list[Finding]:
    """Checks whether the mirror goes further than the log."""
    try:
        refuse_lost_end(log)
    except LakelogError as error:
        return [Finding("problem", error.message, error.key, error.hint)]
    return []


def _read(log: LogReader, *, silent: bool) -> tuple[State | None, list[Finding]]:
    """The newest state. What was warned of on the way is a problem: an object that is damaged.

    Args:
        silent: Whether copies that are read are no problem of their own: the log lost its end.
    """
    state, found = None, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            state = log.load(sealed=True)
        except LakelogError as error:
            found.append(Finding("problem", error.message, error.key, error.hint))
    to_do = f"`lakelog check URL {log.database} --writer {log.writer}` names all that is wrong"
    for item in caught:
        own = item.category.__module__.startswith(__name__.split(".")[0] + ".")
        if own and not (silent and issubclass(item.category, MirrorWarning)):
            found.append(Finding("problem", str(item.message), None, to_do))
    return state, found


def _judge_identity(state: State) -> list[Finding]:
    """Whose log it is, and whether it was sealed."""
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
        key = state.tail[-1].key if state.tail else None
        found.append(Finding("problem", what, key, to_do))
    return found


def _judge_clock(state: State, now_us: int) -> list[Finding]:
    ahead_us = state.committed_at_us - now_us
    if ahead_us <= _CLOCK_AHEAD_US:
        return []
    what = f"The newest commit is {ahead_us // 1_000_000:,} s in the future, by the store's clock"
    to_do = (
        "All later commits are stamped after it: give points in time as tokens or revisions, "
        "which depend on no clock"
    )
    return [Finding("note", what, None, to_do)]


def _judge_features(state: State) -> list[Finding]:
    unknown = sorted(state.writer_features - WRITER_FEATURES)
    if not unknown:
        return []
    what = f"This lakelog can read the log but not write it: {', '.join(unknown)}"
    return [Finding("note", what, None, "Upgrade lakelog before writing")]


# --- Several logs ---------------------------------------------------------------------------------


def compare_logs(logs: Collection[LogHealth]) -> list[Finding]:
    """What several logs have together that they should not: one log that lies in two folders is a
    problem, as no snapshot of a database holds both."""
    found = []
    seen: dict[str, LogHealth] = {}
    for log in sorted(logs, key=lambda log: log.named != (log.writer, log.database)):
        if log.log_id is None:
            continue
        twin = seen.setdefault(log.log_id, log)
        if twin is not log:
            other = f"{twin.writer}/{twin.database}"
            together = twin.database == log.database
            what = f"This is the same log as {other}" + (
                ": the newest snapshot is refused, as rows would count twice" if together else ""
            )
            to_do = (
                "One is a copy of the other. If it was not written to since, remove it; else "
                "keep it in a catalog of its own"
            )
            severity: Severity = "problem" if together else "note"
            found.append(Finding(severity, what, None, to_do, log.writer, log.database))
    return found


def find_case_twins(store: Store) -> list[Finding]:
    """Writers, and databases of one writer, that differ only in case: notes.

    Requests: 1 LIST, and 1 for each writer.
    """
    writers = [name for name in store.list_folders("") if is_id(name)]
    found = _twins(writers, "Writers", "")
    for writer in writers:
        databases = [name for name in store.list_folders(f"{writer}/") if is_id(name)]
        found += _twins(databases, f"Databases of {writer}", f"{writer}/")
    return found


def _twins(names: Collection[str], what: str, prefix: str) -> list[Finding]:
    by_lower: dict[str, list[str]] = {}
    for name in sorted(names):
        by_lower.setdefault(name.lower(), []).append(name)
    to_do = "They are two, and become one where a store folds case: rename one"
    return [
        Finding("note", f"{what} differ only in case: {', '.join(same)}", prefix + same[0], to_do)
        for same in by_lower.values()
        if len(same) > 1
    ]


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
    Requests: those of `losses.without_log`.
    """
    found = []
    for owner, name, has_mirror in without_log(store, writer, database, known=frozenset(known)):
        if has_mirror:
            error = lost_log_error(owner, name)
            what = "The log was lost: there is a mirror and no transactions"
            found.append(Finding("problem", what, error.key, error.hint, owner, name))
            continue
        what = "There are data files and no log: of a first commit that isn't made yet, or lost"
        to_do = f"If it was made: {rebuild_command(owner, name)}"
        found.append(Finding("note", what, None, to_do, owner, name))
    return found


# --- The store ------------------------------------------------------------------------------------


def name_rules(store: Store, writer: str) -> str | None:
    """What the store does with names, in words; None if it can't be found out.

    Requests: those of `store.probe_names`.
    """
    try:
        folds = probe_names(store, f"{check_id(writer, 'writer')}/")
    except LakelogError:
        return None
    if not folds:
        return "told apart byte by byte"
    return f"not told apart by {', '.join(folds)}: files that differ in nothing else are one"


def examine_store(
    store: Store, writer: str, writers: Iterable[str] = ()
) -> tuple[Capabilities | None, str, list[Finding]]:
    """Find out what the store can do, with objects below a writer's prefix, and compare what
    writers have kept of it. Nothing is written but to tell a writer that the store is worse than
    it took it for.

    Args:
        writers: The writers that have findings to compare.
    Returns:
        What it can do, or None if that is not known; in words, how it went; and findings.
    Requests: those of `store.race`, thorough; 1 GET a writer, and 1 PUT where it is wrong.
    """
    check_id(writer, "writer")
    try:
        found = race(store, f"{writer}/", thorough=True)
        findings = [_kept(store, one, found) for one in sorted(set(writers))]
    except AccessDenied as error:
        what = f"The probe was refused: {error.message}. Reading works"
        return None, "writing is not allowed here", [Finding("note", what)]
    except LakelogError as error:
        what = f"The probe failed: {error.message}"
        return None, "failed", [Finding("problem", what, None, error.hint)]
    return found, found.detail, [finding for finding in findings if finding is not None]


def _kept(store: Store, writer: str, found: Capabilities) -> Finding | None:
    """What is wrong with what a writer's openings believe of the store; put right if that is
    dangerous."""
    kept, key = kept_finding(store, f"{writer}/"), kept_key(store, f"{writer}/")
    if kept is None or kept.put_if_absent == found.put_if_absent:
        return None
    if found.put_if_absent:
        what = f"Writer {writer!r} takes the store for a plain one: {kept.detail}"
        to_do = "If the store was changed since, delete this object: the next opening tries again"
        return Finding("note", what, key, to_do)
    what = (
        f"Put-if-absent does not work here, and writer {writer!r} was opened as if it did: where "
        "two committed at once, one commit may have replaced the other"
    )
    to_do = "Open the writer again wherever it is open, and look with `lakelog check`"
    try:
        keep_finding(store, f"{writer}/", found)
    except StorageError:
        to_do = f"Put {{}} in the place of this object, so that openings try again. {to_do}"
    return Finding("problem", what, key, to_do)
