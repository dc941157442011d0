"""The rows that came and went between two cuts of a table, as a stream.

Source: docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import (
    CorruptObject,
    MissingTransaction,
    SnapshotPruned,
    TableNotFound,
    UsageError,
    some_names,
)
from ..data.scan import scan_each
from ..data.shown import shown
from ..data.unify import FileSchema, distinct
from ..format.columns import column
from ..format.names import base_folder
from ..format.objects import decode_transaction
from ..log.replay import apply
from ..log.state import empty_state
from ..log.steps import DELETE, Steps
from ..log.taken_back import refuse_elsewhere, refuse_row_changes
from .file_order import by_commit
from .file_parts import checked, file_parts, projected
from .in_place import keyed
from .log_reader import LogReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...store import Store
    from ..ambient import Ambient
    from ..data.file_part import FilePart
    from ..data.scan import Projection
    from ..log.state import State

_AT_ONCE: Final = 256  # transactions in memory
ABOUT: Final = pa.schema(
    [
        pa.field("_change", pa.string(), nullable=False),
        pa.field("_writer", pa.string(), nullable=False),
        pa.field("_revision", pa.int64(), nullable=False),
        pa.field("_committed_at", pa.timestamp("us", "UTC"), nullable=False),
    ]
)


def change_stream(
    store: Store,
    ambient: Ambient,
    since: Sequence[State],
    until: Sequence[State],
    table: str,
    *,
    columns: Sequence[str] | None,
    net: bool,
) -> pa.RecordBatchReader:
    """The rows that differ between two cuts of one database.

    Args:
        store: A `WideStore`.
        since, until: States of the logs, each by writer.
        columns: Of the table, in this order; None: all.
        net: See `Steps.rows`.
    Returns:
        The columns of `ABOUT`, then those of the table, with the types that they have over both
        cuts and all that lies between.
    Raises:
        TableNotFound: Neither cut knows the table.
        UsageError: The cuts don't follow each other, or the table has a column of `ABOUT`; or rows
            of it were deleted, or its columns changed, without writing files anew.
        SchemaConflict: As for `scan`.
        SnapshotPruned, MissingTransaction, CorruptError: The commits between can't all be read.
    """
    earlier = {state.writer: state for state in since}
    _check_order(earlier, {state.writer: state for state in until})
    refuse_elsewhere((*since, *until), table)
    found = []
    for state in until:
        before = earlier.get(state.writer) or _beginning(state)
        if before.digest != state.digest:
            refuse_row_changes(before, state, table)
        found.append((state, _steps(store, ambient, before, state, table)))
    schemas = distinct(
        FileSchema(
            shown(entry.schema, state.definitions.of(table)).schema,
            state.writer,
            partial(_example, entry.where),
        )
        for state, steps in found
        for entry in sorted(steps.schemas.values(), key=lambda e: (e.revision, e.fingerprint))
    )
    if not schemas:
        raise TableNotFound(f"Neither cut has a table {table!r}", key=table)
    names = None if columns is None else checked(columns, schemas, table)
    projection = projected(schemas, table, names, None)
    clash = [name for name in projection.given.names if name in ABOUT.names]
    if clash:
        raise UsageError(
            f"Table {table!r} has a column {clash[0]!r}, which changes have too",
            key=clash[0],
            hint="Leave it out: name the columns that you want",
        )
    batches = (
        batch
        for state, steps in found
        for batch in _rows(store, state, steps, table, projection, net=net)
    )
    given = pa.schema([*ABOUT, *projection.given])
    return pa.RecordBatchReader.from_batches(given, batches)


def _example(where: str) -> str:
    return where


def _beginning(state: State) -> State:
    return empty_state(state.writer, state.database)


def _check_order(since: dict[str, State], until: dict[str, State]) -> None:
    lost = sorted(since.keys() - until.keys())
    if lost:
        raise UsageError(
            f"The later cut has nothing of {some_names(lost)}, which the earlier one has",
            key=lost[0],
            hint="Give two cuts of the same writers",
        )
    for writer, before in since.items():
        after = until[writer]
        if before.log != after.log:
            raise UsageError(
                f"The log of {writer}/{after.database} was rebuilt or replaced between the two "
                "cuts: its commits were numbered anew",
                key=f"{writer}/{after.database}",
                hint="Ask for changes on one side of that; `lakelog diff` compares the files",
            )
        if before.revision > after.revision:
            raise UsageError(
                f"Of {writer}/{after.database} the first cut is revision {before.revision}, which "
                f"is later than {after.revision}",
                key=f"{writer}/{after.database}",
                hint="Give the earlier cut first",
            )


def _steps(store: Store, ambient: Ambient, before: State, after: State, table: str) -> Steps:
    """The steps of one log between two of its states.

    Requests: 1 LIST; 1 GET a transaction.
    """
    steps = Steps(before, table)
    if before.revision == after.revision:
        return steps
    assert after.log is not None
    log = LogReader(store, after.writer, after.database, ambient)
    listing = log.names(after.log.incarnation)
    wanted = range(before.revision + 1, after.revision + 1)
    missing = next((r for r in wanted if r not in listing.transactions), None)
    if missing is not None:
        raise _lost(after, missing, listing.first_readable())
    probe = before.copy()
    probe.start_from(before.base, list(before.tail))
    for low in range(wanted.start, wanted.stop, _AT_ONCE):
        revisions = range(low, min(low + _AT_ONCE, wanted.stop))
        keys = [listing.key(listing.transactions[r][0]) for r in revisions]
        for revision, key, body in zip(revisions, keys, store.get_many(keys), strict=True):
            if body is None:
                raise _lost(after, revision, listing.first_readable())
            transaction = decode_transaction(body, key)
            apply(probe, transaction)
            probe.tail.clear()
            steps.take(transaction)
    if probe.digest != after.digest:
        raise CorruptObject(
            f"The commits of {after.writer}/{after.database} don't lead from revision "
            f"{before.revision} to {after.revision} as it was read",
            key=listing.folder,
            hint="`lakelog doctor` tells more",
        )
    return steps


def _lost(after: State, revision: int, oldest: int) -> SnapshotPruned | MissingTransaction:
    where = f"{after.writer}/{after.database}"
    if revision < oldest:
        return SnapshotPruned(
            f"What revision {revision} of {where} changed can't be told: it was pruned",
            key=where,
            hint=f"Ask for changes since revision {oldest} or later, or compare the files with "
            "`lakelog diff`",
        )
    return MissingTransaction(
        f"What revision {revision} of {where} changed can't be told: it is missing",
        key=where,
        hint="Restore the object from a copy, or compare the files with `lakelog diff`",
    )


def _rows(
    store: Store, state: State, steps: Steps, table: str, projection: Projection, *, net: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of one log's steps."""
    rows = steps.rows(net=net)
    if not rows.num_rows:
        return
    rows = _ordered(rows)
    about = list(zip(*(rows.column(n).to_pylist() for n in _STAMP), strict=True))
    folder = base_folder(state.writer, state.database)
    definition = state.definitions.of(table)
    forms = {name: shown(entry.schema, definition) for name, entry in steps.schemas.items()}
    parts: Iterator[FilePart] = keyed(
        file_parts(rows, folder, forms.__getitem__, {}, {}), folder, state
    )
    for number, batch in scan_each(store, parts, projection):
        sign, revision, at_us = about[number]
        change = "delete" if sign == DELETE else "insert"
        values = zip((change, state.writer, revision, at_us), ABOUT, strict=True)
        arrays = [pa.repeat(column([v], f.type)[0], batch.num_rows) for v, f in values]
        schema = pa.schema([*ABOUT, *projection.given])
        yield pa.RecordBatch.from_arrays([*arrays, *batch.columns], schema=schema)


_STAMP: Final = ("sign", "revision", "committed_at")


def _ordered(rows: pa.Table) -> pa.Table:
    """By revision; of one commit what it took out first, each as `scan` would give it."""
    ordered = by_commit(rows)
    keys = [("revision", "ascending"), ("sign", "ascending")]
    return ordered.sort_by(keys)  # stable
