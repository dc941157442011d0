"""The tables of a cut that is named to an open writer.

Source: docs/changing.md, "Deletes in the files of all writers".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ..format.cut import parse_token
from ..parallel import parallel
from ..read.cut_checks import state_at
from ..read.cut_tables import CutTables
from ..read.diff import Comparing
from ..read.log_reader import LogReader
from ..scalars import value_of

if TYPE_CHECKING:
    from ..log.state import State
    from .session import Session


def cut_tables(session: Session, cut: Any, table: str) -> CutTables:
    """The tables of a cut of the writer's database.

    Args:
        cut: A snapshot, or a token.
        table: Of which rows are to be deleted there.
    Raises:
        UsageError: It is neither, or of another database or catalog; or a snapshot that leaves out
            files of the table, whose rows a delete of whole logs would delete unseen.
        InvalidToken, RevisionNotFound, SnapshotPruned, CorruptError: It can't be read.
    Requests: none for a snapshot; else 1 LIST for each writer, and 1 GET for a checkpoint and each
        later transaction.
    """
    cut = value_of(cut)
    if isinstance(cut, Comparing):
        url, tables = cut._store.url, cut._tables
        if (url, tables.database) != (session.wide.url, session.database):
            raise _of_another(session, f"{tables.database!r} of {url}")
        if tables.leaves_out(table):
            raise UsageError(
                f"The snapshot leaves out files of table {table!r} whose types conflict with those "
                "of others, and a delete of a cut is of all its files",
                key=table,
                hint="Nothing was deleted. Give a snapshot without on_conflict='skip'; a predicate "
                "over columns that conflict can't be given for all writers: delete in each log",
            )
        return tables
    if not isinstance(cut, str):
        raise UsageError(
            f"cut= can't be {cut!r:.60}",
            hint="Give a snapshot (catalog.snapshot(...)), or the token of one",
        )
    named = parse_token(cut)
    if named.database != session.database:
        raise _of_another(session, repr(named.database))

    def load(writer: str) -> State:
        log = LogReader(session.store, writer, named.database, session._ambient)
        return state_at(log, named.writers[writer])

    return CutTables(named.database, parallel(load, named.writers))


def _of_another(session: Session, words: str) -> UsageError:
    return UsageError(
        f"The cut is of database {words}, and the writer's is {session.database!r} of "
        f"{session.wide.url}",
        key=session.database,
        hint="Give a snapshot of the writer's own database",
    )
