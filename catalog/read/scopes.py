"""Which tombstones hold of a log's files, and of which of them: those of its own log, and those of
other logs in a cut that name it.

A tombstone names another log by its id and by a revision that a cut was taken at. That log may have
been rebuilt since, which numbers its revisions anew, or set back to a copy of it, after which it
has other revisions of these numbers. So the place is found again by the transaction that stood
there; by the time of its commit alone where that is not known any more.

Source: docs/format.md, section 5.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import CorruptObject
from ..log.deletes import Holding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..log.deletes import LogAt, Tombstone
    from ..log.state import State


class Scopes:
    """The tombstones of a cut, by table and log. Each is looked up once.

    Args:
        states: Of all logs of the cut.
    """

    def __init__(self, states: Sequence[State]) -> None:
        self.states = states
        self._named: dict[str, dict[bytes, list[tuple[Tombstone, LogAt, str]]]] = {}
        self._held: dict[tuple[str, str], list[Holding]] = {}

    def of(self, state: State, table: str) -> list[Holding]:
        """The tombstones that hold of files of a table in one of the logs.

        Raises:
            CorruptError: Deletes of a log can't be read, or of which files one holds can't be told.
        Requests: 1 GET for each piece of deletes; where another log was gone on with since it was
            named, those of its history.
        """
        key = (state.writer, table)
        if key not in self._held:
            own = state.deletes.own_of_table(table)
            held = [Holding(item, item.revision, state.writer) for item in own]
            log_id = b"" if state.log is None else state.log.log_id
            named = self._naming(table).get(log_id, ())
            held += [Holding(item, _last_of(state, item, at) + 1, who) for item, at, who in named]
            self._held[key] = held
        return self._held[key]

    def hides(self, state: State, table: str) -> bool:
        """Whether rows of files of a table in one of the logs may be hidden."""
        return bool(self.of(state, table) or state.deletes.rows_of(table))

    def _naming(self, table: str) -> dict[bytes, list[tuple[Tombstone, LogAt, str]]]:
        """By log id the tombstones that name a log, each with the writer that told it, in the order
        of writers and of their logs."""
        if table not in self._named:
            found: dict[bytes, list[tuple[Tombstone, LogAt, str]]] = {}
            for state in self.states:
                for item in state.deletes.of_table(table):
                    for at in item.logs:
                        found.setdefault(at.log_id, []).append((item, at, state.writer))
            self._named[table] = found
        return self._named[table]


def _last_of(state: State, tombstone: Tombstone, at: LogAt) -> int:
    """The last revision of a log of whose files a tombstone holds that names the log; -1: none.

    Raises:
        CorruptObject: It can't be told.
    """
    is_same = state.log is not None and state.log.incarnation == at.incarnation
    if is_same and state.committed_at_us <= at.committed_at_us:
        return state.revision  # times of a log that was lost, and rebuilt, are as its files tell
    row = state.history.of_transactions({at.transaction_id}).get(at.transaction_id)
    if row is not None:
        return int(row["revision"])
    found = state.history.revision_at(at.committed_at_us)
    if found is not None:
        return found
    first = state.history.first()
    if first == 0:
        return -1
    if is_same:
        return min(at.revision, first - 1)
    raise CorruptObject(
        f"{tombstone.where} deletes rows of the files that {state.writer}/{state.database} had at "
        f"revision {at.revision} of incarnation {at.incarnation}: the log was rebuilt since, and "
        "its history doesn't go back so far, so which files these are can't be told",
        key=tombstone.where,
        hint=f"Read the files of {state.writer} alone, in a cut without the writer who deleted",
    )
