"""How the columns of a table came about in one log: each schema and definition, with the revision
that first said it.

Source: docs/format.md, sections 5.3 and 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import CorruptObject, ObjectNotFound
from ..log.gist import defined_in
from ..log.history import summaries
from .log_reader import LogReader

if TYPE_CHECKING:
    from ...store import Store
    from ..format.names import LogObject
    from ..wire import lakelog_transaction_pb2 as wire


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
