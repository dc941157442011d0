"""The history of a log as users see it.

Source: docs/format.md, section 6.3.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import CorruptError, CorruptObject, ForkError, ObjectNotFound
from ..format.columns import array, column, numbers
from ..log.history import history_rows, summaries, transaction_row
from ..log.operations import Gist, defined_in, read_gist
from .log_reader import LogReader

if TYPE_CHECKING:
    from ...store import Store
    from ..format.names import LogObject
    from ..log.listing import Listing
    from ..wire import lakelog_transaction_pb2 as wire


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


@dataclass(frozen=True, slots=True)
class ColumnsAt:
    """What a revision said of the columns of a table.

    Attributes:
        revision: Of the log.
        at_us: When it was committed; None: the history begins later.
        kind: `schema`: files have these columns; `definition`: readers see these.
        schema: The columns of files; None if this Arrow can't read them.
        definition: What readers see; None for a schema, or where its transaction was pruned.
    """

    revision: int
    at_us: int | None
    kind: str
    schema: pa.Schema | None = None
    definition: wire.Definition | None = None


def column_history(store: Store, writer: str, database: str, table: str) -> list[ColumnsAt]:
    """All that is left of it, oldest first.

    Requests: those of reading the newest state and the history of one log; 1 LIST, and 1 GET for
        each earlier definition.
    """
    log = LogReader(store, writer, database)
    state = log.load()
    if state.revision < 0:
        return []
    history = state.history.table()
    times = dict(
        zip(
            history.column("revision").to_pylist(),
            history.column("committed_at").cast(pa.int64()).to_pylist(),
            strict=True,
        )
    )
    found = []
    for entry in state.schemas_of(table).of_table(table):
        try:
            schema = entry.schema
        except CorruptObject:
            schema = None
        found.append(ColumnsAt(entry.revision, times.get(entry.revision), "schema", schema))
    told = zip(history.column("revision").to_pylist(), summaries(history), strict=True)
    revisions = {revision for revision, summary in told if table in defined_in(summary)}
    newest = state.definitions.entries.get(table)
    if newest is not None:
        revisions.add(newest.revision)
    names = log.names(mirror=True).transactions if revisions else {}
    for revision in revisions:
        message = None
        if newest is not None and revision == newest.revision:
            message = newest.wire
        elif revision in names:
            message = _definition(log, names[revision][0], table)
        found.append(ColumnsAt(revision, times.get(revision), "definition", None, message))
    return sorted(found, key=lambda item: (item.revision, item.kind == "definition"))


def _definition(log: LogReader, item: LogObject, table: str) -> wire.Definition | None:
    """What a transaction says last of a table's columns; None if it was pruned meanwhile."""
    try:
        actions = log.transaction(item).message.actions
    except ObjectNotFound:
        return None
    said = [a.definition for a in actions if a.WhichOneof("kind") == "definition"]
    return next((one for one in reversed(said) if one.table == table), None)
