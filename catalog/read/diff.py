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

    from ..format.cut import Cut
    from ..log.state import State


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
    """

    before: str
    after: str
    tables: pa.Table
    schemas: pa.Table
    rows: pa.Table
    files: pa.Table

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        found = (self.tables, self.schemas, self.rows, self.files)
        return not any(table.num_rows for table in found)


def diff_of(
    before: Cut,
    before_states: Sequence[State],
    after: Cut,
    after_states: Sequence[State],
    table: str | None,
) -> Diff:
    """What differs between two cuts, of all tables or one.

    Raises:
        UsageError: They are of two databases.
        TableNotFound: Neither knows the table.
        CorruptError: The files of a table can't be told.
    """
    if before.database != after.database:
        raise UsageError(
            f"One cut is of database {before.database!r}, the other of {after.database!r}",
            key=after.database,
            hint="Compare two cuts of one database",
        )
    earlier = {state.writer: state for state in before_states}
    later = {state.writer: state for state in after_states}
    nothing = {w: empty_state(w, before.database) for w in (*earlier, *later)}
    pairs = [
        Pair(earlier.get(writer, nothing[writer]), later.get(writer, nothing[writer]))
        for writer in sorted(nothing)
    ]
    states = (state for pair in pairs for state in pair)
    if table is not None and not any(state.schemas_of(table).of_table(table) for state in states):
        raise TableNotFound(f"Neither cut has a table {table!r}", key=table)
    return Diff(before.token, after.token, **compared(pairs, table))
