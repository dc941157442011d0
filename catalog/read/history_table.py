"""The history of a log as users see it.

Source: docs/format.md, section 6.3.
"""

from __future__ import annotations

import pyarrow as pa

from ..format.columns import column
from ..log.gist import Gist, read_gist


def history_for_users(table: pa.Table, writer: str) -> pa.Table:
    """Rows of HISTORY with the columns of `Catalog.history`: ids as hex."""
    gists = [read_gist(summary) for summary in table.column("summary").to_pylist()]
    columns = {
        "writer": column([writer] * table.num_rows, pa.string()),
        "revision": table.column("revision"),
        "committed_at": table.column("committed_at"),
        "operation": table.column("operation"),
        "epoch": table.column("epoch"),
        "guest": table.column("guest"),
        "files_added": table.column("files_added"),
        "files_removed": table.column("files_removed"),
        "rows_added": table.column("rows_added"),
        "rows_removed": _rows_removed(table.column("files_removed"), gists),
        "bytes_added": table.column("bytes_added"),
        "tables": column([gist.tables for gist in gists], pa.list_(pa.string())),
        "table_count": column([gist.table_count for gist in gists], pa.int64()),
        "transaction_ids": column(
            [
                [transaction_id.hex() for transaction_id in transaction_ids]
                for transaction_ids in table.column("transaction_ids").to_pylist()
            ],
            pa.list_(pa.string()),
        ),
        "uuid": column([uuid.hex() for uuid in table.column("uuid").to_pylist()], pa.string()),
        "summary": column([gist.words for gist in gists], pa.string()),
        "rows_rewritten": column([gist.rows_rewritten for gist in gists], pa.int64()),
        "replaced_where": column([gist.where for gist in gists], pa.string()),
    }
    return pa.Table.from_arrays(list(columns.values()), names=list(columns))


def _rows_removed(files_removed: pa.ChunkedArray, gists: list[Gist]) -> pa.Array:
    """Where no file was removed none was a row's; else as the commit says, or null."""
    counts = zip(files_removed.to_pylist(), gists, strict=True)
    return column([gist.rows_removed if files else 0 for files, gist in counts], pa.int64())
