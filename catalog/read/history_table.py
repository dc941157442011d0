"""The history of a log as users see it.

Source: docs/format.md, section 6.3.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import CorruptError, ForkError, ObjectNotFound
from ..format.columns import array, column, numbers
from ..log.gist import Gist, read_gist
from ..log.history import history_rows, summaries, transaction_row

if TYPE_CHECKING:
    from ..log.listing import Listing
    from .log_reader import LogReader


class HistoryWarning(UserWarning):
    """Part of a log can't be read; its history shows the rest."""


def history_of(log: LogReader, listing: Listing) -> pa.Table:
    """The history of one log, with the columns of `Catalog.history`.

    Warns:
        HistoryWarning: Part of it can't be read.
    Requests: as `LogReader.load`, 1 GET for each piece of a checkpoint that holds history, and the
        LIST of all names.
    """
    try:
        table = log.load(listing=listing).history.table()
    except (CorruptError, ForkError) as error:
        warnings.warn(f"{error}", HistoryWarning, stacklevel=2)
        table = _by_object(log, log.names(mirror=True))
    listing = log.names(mirror=True)
    oldest = listing.oldest_readable()
    if oldest <= listing.head:
        table = table.filter(array(numbers(table.column("revision")) >= oldest))
    return history_for_users(table, listing.writer)


def _by_object(log: LogReader, listing: Listing) -> pa.Table:
    """Rows of the transactions that can be decoded one by one, when the log as a whole can't be
    replayed."""
    rows: list[dict[str, Any]] = []
    for revision in sorted(listing.transactions):
        for item in sorted(listing.transactions[revision]):
            try:
                found = log.transaction(item)
            except (CorruptError, ObjectNotFound) as error:
                warnings.warn(f"{error}", HistoryWarning, stacklevel=2)
                continue
            rows.append(transaction_row(found))
    return history_rows(rows)


def history_for_users(table: pa.Table, writer: str) -> pa.Table:
    """Rows of HISTORY with the columns of `Catalog.history`: ids as hex."""
    gists = [read_gist(summary) for summary in summaries(table)]
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
