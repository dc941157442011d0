"""Whether the logs of a catalog go together, which are lost, and what its store can do: findings,
for `doctor`.

Source: docs/maintenance.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import AccessDenied, LakelogError
from ...store import Capabilities, probe, probe_names
from ..format.names import check_id, is_id
from .findings import Finding, Severity
from .losses import rebuild_command, without_log
from .mirror import lost_log_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...store import Store
    from .health import LogHealth


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
