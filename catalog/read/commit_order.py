"""The order in which commits of several logs are told: by time, but never a delete of rows of
another log's files before the commits that put these in. Of values that were read.

Source: docs/spark.md, "Streams".
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..format.cut import Cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..log.state import State
    from .appended import Commit
    from .cut_tables import CutTables

# By the writer and the revision of a commit: which revisions of other writers it comes behind.
Waits = dict[tuple[str, int], dict[str, int]]


def waits_of(tables: CutTables, since: Cut, table: str) -> Waits:
    """Behind which revisions commits come that delete rows of other logs' files of a table: those
    at which they name these logs, as far as these logs still go.

    Args:
        tables: Of the newest cut.
        since: A cut before it: of the commits behind it.
    Raises:
        CorruptError: Deletes of a log can't be read, or of which files one holds can't be told.
    Requests: those of `Scopes.of` if there are such commits.
    """
    start = since.revisions
    named = {
        (state.writer, item.revision)
        for state in tables.states
        for item in state.deletes.of_table(table)
        if item.logs and item.revision > start.get(state.writer, -1)
    }
    found: Waits = {}
    for state in tables.states if named else ():
        for holding in tables.scopes.of(state, table):
            teller = (holding.teller, holding.tombstone.revision)
            if holding.tombstone.logs and teller in named and holding.teller != state.writer:
                found.setdefault(teller, {})[state.writer] = holding.below - 1
    return found


def in_order(commits: Sequence[Commit], since: Cut, waits: Waits) -> list[Commit]:
    """Commits behind a cut, each behind those that it waits for.

    Args:
        commits: By time; those of one log in their order.
    Returns:
        Those of which that can be: what waits for a commit that isn't among them is left out, with
        all that follows it in its log. At least one, if there is any.
    """
    if not waits:
        return list(commits)
    reached = since.revisions
    found: list[Commit] = []
    held: dict[str, deque[Commit]] = {}

    def is_free(commit: Commit) -> bool:
        after = waits.get((commit.writer, commit.position.revision), {})
        return all(reached.get(writer, -1) >= revision for writer, revision in after.items())

    def take(commit: Commit) -> None:
        found.append(commit)
        reached[commit.writer] = commit.position.revision

    for commit in commits:
        if commit.writer in held or not is_free(commit):
            held.setdefault(commit.writer, deque()).append(commit)
            continue
        take(commit)
        while ready := [one for one in held.values() if is_free(one[0])]:
            first = min(ready, key=lambda one: (one[0].committed_at_us, one[0].writer))
            take(first.popleft())
            if not first:
                del held[found[-1].writer]
    # None is free only where a log was set back: a feed must not stand still for that.
    return found or list(commits[:1])


def behind(states: Sequence[State], table: str) -> tuple[set[str], set[bytes]]:
    """The logs of a cut that a delete of rows of their files names further on than they are there:
    they were read before that was committed, or set back since.

    Returns:
        Their writers; and the ids of logs that the cut doesn't have.
    Raises:
        CorruptError: Deletes of a log can't be read.
    """
    named: dict[bytes, int] = {}
    for state in states:
        for item in state.deletes.of_table(table):
            for at in item.logs:
                named[at.log_id] = max(at.committed_at_us, named.get(at.log_id, 0))
    writers: set[str] = set()
    for state in states:
        at_us = named.pop(state.log.log_id, 0) if state.log is not None else 0
        if state.committed_at_us < at_us:
            writers.add(state.writer)
    return writers, set(named)


def cut_after(since: Cut, commits: Iterable[Commit]) -> Cut:
    """Where commits behind a cut lead to, if those of one log come in their order."""
    found = dict(since.writers) | {each.writer: each.position for each in commits}
    return Cut(since.database, dict(sorted(found.items())))
