"""What differs between two cuts of one database.

Source: docs/changing.md, "What changed".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import TableNotFound, UsageError
from ..log.compared import Pair, compared
from ..log.state import empty_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ...store import Store
    from ..format.cut import Cut
    from ..log.state import State
    from .cut_tables import CutTables


@dataclass(frozen=True, slots=True)
class Diff:
    """What differs between two cuts; all tables are empty if nothing does.

    Attributes:
        before, after: Tokens of the cuts.
        tables: change (added, removed), table.
        schemas: change (added, removed, changed), table, column, before, after (types as text, null
            where there is none), of tables that both cuts have.
        rows: table, writer, files_added, files_removed, rows_added, rows_removed, bytes_added,
            bytes_removed; exact (false where a commit between may have replaced files by others
            with the same rows, or the history doesn't tell).
        files: change (added, removed), writer, table, path, partition, row_count, size_bytes,
            revision (that added it).
        in_place: table, writer, what: `deletes` (of rows of files that are in both), `columns`
            (what `evolve` said of them) or `key`.
    """

    before: str
    after: str
    tables: pa.Table
    schemas: pa.Table
    rows: pa.Table
    files: pa.Table
    in_place: pa.Table

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        found = (self.tables, self.schemas, self.rows, self.files, self.in_place)
        return not any(table.num_rows for table in found)


class Comparing:
    """A cut that is compared with others."""

    cut: Cut
    _states: Sequence[State]
    _store: Store
    _tables: CutTables

    def diff(self, other: Comparing, table: str | None = None) -> Diff:
        """What differs in a later cut of the same database (or in any other): files, rows, schemas,
        tables. By the logs alone.

        Args:
            other: The later snapshot.
            table: The only one to look at; None: all.
        Raises:
            UsageError: It is of another database.
            TableNotFound: Neither cut knows the table.
            CorruptError: The files of a table can't be told.
        Requests: 1 GET for each piece of a checkpoint that holds files or schemas.
        """
        if not isinstance(other, Comparing):
            raise UsageError(
                f"A snapshot is compared with another one, not with {other!r:.60}",
                hint="Give catalog.snapshot(...)",
            )
        before, after = self.cut, other.cut
        if before.database != after.database:
            raise UsageError(
                f"One cut is of database {before.database!r}, the other of {after.database!r}",
                key=after.database,
                hint="Compare two cuts of one database",
            )
        pairs = _pairs(before.database, self._states, other._states)
        states = (state for pair in pairs for state in pair)
        if table is not None and not any(s.schemas_of(table).of_table(table) for s in states):
            raise TableNotFound(f"Neither cut has a table {table!r}", key=table)
        return Diff(before.token, after.token, **compared(pairs, table))


def _pairs(database: str, before: Sequence[State], after: Sequence[State]) -> list[Pair]:
    earlier = {state.writer: state for state in before}
    later = {state.writer: state for state in after}
    nothing = {writer: empty_state(writer, database) for writer in (*earlier, *later)}
    return [
        Pair(earlier.get(writer, nothing[writer]), later.get(writer, nothing[writer]))
        for writer in sorted(nothing)
    ]
