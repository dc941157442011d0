"""Whether rows of files may stand in other files since an earlier state. Pure, but for the pieces
of the states.

Source: docs/changing.md, "Deletes in the files of all writers".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..format import compute as pc
from ..format.columns import column
from .gist import KEEPS, read_gist
from .history import summary_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .state import State


def replaced_since(
    before: State, after: State, table: str, paths: Sequence[str]
) -> dict[str, Any] | None:
    """The history row of a commit that may have put rows of some files into others: one that took
    files of the table out and added some, if any of these files is gone. Or of one that added any
    of them again, whichever commit had taken it out.

    Args:
        before: In which they are live.
        after: A later state of the log. None is found if it was rebuilt or replaced since.
    Raises:
        CorruptError: The files, or the history, can't be told.
    """
    if before.log != after.log or before.revision >= after.revision:
        return None
    rows = after.table_of(table)[0].table(table)
    newest = column([before.revision], pa.int64())[0]
    wanted = column(paths, pa.string())
    again = rows.filter(pc.greater(rows.column("revision"), newest))
    again = again.filter(pc.is_in(again.column("path"), wanted))
    later = after.history.after(before.revision)
    if again.num_rows:
        came = set(again.column("revision").to_pylist())
        found = (row for row in later if row["revision"] in came)
        return next(found, {"revision": min(came), "operation": "no longer in the history"})
    live = rows.filter(pc.less_equal(rows.column("revision"), newest))
    there = pc.is_in(wanted, live.column("path").combine_chunks())
    if pc.all(there).as_py():
        return None
    for row in later:
        if row["files_removed"] and row["files_added"]:
            gist = read_gist(summary_of(row))
            whole = gist.tables is not None and len(gist.tables) == gist.table_count
            if KEEPS not in (gist.words or "") and (not whole or table in (gist.tables or ())):
                return row
    return None
