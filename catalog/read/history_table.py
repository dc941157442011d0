"""The history of a log as users see it.

Source: docs/format.md, section 6.3.
"""

from __future__ import annotations

import pyarrow as pa

from ..format.columns import column


def history_for_users(table: pa.Table, writer: str) -> pa.Table:
    """Rows of HISTORY with the columns of `Catalog.history`: ids as hex."""
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
        "bytes_added": table.column("bytes_added"),
        "transaction_ids": column(
            [
                [transaction_id.hex() for transaction_id in transaction_ids]
                for transaction_ids in table.column("transaction_ids").to_pylist()
            ],
            pa.list_(pa.string()),
        ),
        "uuid": column([uuid.hex() for uuid in table.column("uuid").to_pylist()], pa.string()),
        "summary": table.column("summary"),
    }
    return pa.Table.from_arrays(list(columns.values()), names=list(columns))
