"""What other writers' logs of the database say of a table: its key, and rows of this log's files
that they have deleted.

Source: docs/changing.md, "Keys" and "Deletes in the files of all writers".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import LakelogError, OperationConflict, PlanOutdated
from ..format.names import is_id
from ..log.replaced import replaced_since
from ..parallel import parallel
from ..read.log_reader import LogReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..log.deletes import Tombstone
    from ..log.state import State
    from .session import Session


def refuse_replaced(
    session: Session, states: Sequence[State], table: str, touched: Mapping[str, Sequence[str]]
) -> None:
    """Look again: refuse to delete rows of the files of a cut, if rows of these stand in other
    files since, or if they were added again: the delete would not hold of them.

    Args:
        states: Of the cut.
        touched: By writer paths of the files that may hold such rows.
    Raises:
        OperationConflict: It is so.
        LakelogError: A log can't be read.
    Requests: 1 LIST for each of these writers, and 1 GET for each new transaction.
    """
    named = [state for state in states if state.writer in touched]

    def newest(state: State) -> State:
        log = LogReader(session.store, state.writer, session.database, session._ambient)
        return log.advance(state)

    for before, after in zip(named, parallel(newest, named), strict=True):
        row = replaced_since(before, after, table, touched[before.writer])
        if row is not None:
            raise OperationConflict(
                f"Rows of table {table!r} were to be deleted of the files that {before.writer}/"
                f"{before.database} had at revision {before.revision}, and its revision "
                f"{row['revision']} ({row['operation']}) has put others in their place since",
                key=table,
                table=table,
                revision=row["revision"],
                operation=row["operation"],
                hint="Nothing was committed. Delete the rows of a new cut: catalog.snapshot(...)",
            )


class OtherLogs:
    """The other logs of a writer's database, at their newest revisions.

    Args:
        known: As they were read before, with this one; None: they are read now.
    Raises:
        StorageError: The logs can't be listed.
    Requests: Those of `Catalog.snapshot`, but for this log.
    """

    def __init__(self, session: Session, known: Sequence[State] | None = None) -> None:
        self._session = session
        self._known: dict[str, State] = {}
        self._looked: dict[str, set[tuple[str, int, int]]] = {}
        self.unreadable: list[LakelogError] = []
        if known is None:
            self._read()
        else:
            self._known = {s.writer: s for s in known if s.writer != session.writer_id}

    @property
    def states(self) -> list[State]:
        """Those that have a revision, and can be read."""
        return list(self._known.values())

    def give_key(self, table: str) -> bool:
        """Whether one gives a table a key; also if one can't be read."""
        if self.unreadable:
            return True
        try:
            found = [state.definitions.of(table) for state in self.states]
        except LakelogError:
            return True
        return any(each is not None and each.key for each in found)

    def rely_on(self, table: str) -> None:
        """Rows of a table are about to be read, and written anew, or to come back: see
        `refuse_deleted` and `refuse_outdated`."""
        self._looked[table] = {key for key, _, _ in self._naming(table)}

    def refuse_deleted(self) -> None:
        """Look again: refuse a commit of rows that were written anew, if another writer has deleted
        rows of this log's files of the table since they were read. They would come back.

        Raises:
            OperationConflict: One has.
            LakelogError: One can't be read.
        Requests: 1 LIST, and 1 LIST for each other log and 1 GET for each new transaction of it.
        """
        for state, item in self._deleted_since():
            raise OperationConflict(
                f"Rows of table {item.table!r} were read to be written anew, and "
                f"{state.writer}/{state.database} has deleted rows of the same files "
                f"since, in its revision {item.revision}",
                key=item.table,
                table=item.table,
                revision=item.revision,
                operation="delete",
                hint="Nothing was committed. Run the transaction again: it then sees what the "
                "other one did",
            )

    def refuse_outdated(self) -> None:
        """Look again: refuse a plan to go back, if another writer has deleted rows of this log's
        files since it was made. Files that are added again would have them.

        Raises:
            PlanOutdated: One has.
            LakelogError: One can't be read.
        Requests: as for `refuse_deleted`.
        """
        for state, item in self._deleted_since():
            raise PlanOutdated(
                f"{state.writer}/{state.database} has deleted rows of table {item.table!r} in "
                f"files of {self._session.writer_id} since the plan was made, in its revision "
                f"{item.revision}",
                key=item.table,
                hint="Nothing was committed to this writer's log. Plan again",
            )

    def _deleted_since(self) -> Iterator[tuple[State, Tombstone]]:
        """What other logs have come to say of this log's files since they were looked at."""
        self._read()
        if self.unreadable:
            raise self.unreadable[0]
        for table, known in self._looked.items():
            for key, state, item in self._naming(table):
                if key not in known:
                    yield state, item

    def _read(self) -> None:
        session, known = self._session, self._known
        names = [name for name in session.store.list_folders("") if is_id(name)]

        def newest(writer: str) -> State | LakelogError | None:
            log = LogReader(session.store, writer, session.database, session._ambient)
            try:
                if writer in known:
                    return log.advance(known[writer])
                listing = log.names_for()
                if listing.head < 0 and not listing.others:
                    return None
                return log.load(listing=listing)
            except LakelogError as error:
                return error

        others = [name for name in names if name != session.writer_id]
        found = dict(zip(others, parallel(newest, others), strict=True))
        self.unreadable = [item for item in found.values() if isinstance(item, LakelogError)]
        read = {name: item for name, item in found.items() if not isinstance(item, LakelogError)}
        self._known = {name: item for name, item in read.items() if item is not None}

    def _naming(self, table: str) -> Iterator[tuple[tuple[str, int, int], State, Tombstone]]:
        """The tombstones of a table that name this log, each with what tells it from others."""
        own = self._session.log.log_id
        for state in self.states:
            for item in state.deletes.of_table(table):
                if any(at.log_id == own for at in item.logs):
                    yield (state.writer, item.revision, item.number), state, item
