"""Files of an earlier state that are live once more: carried as rows, with all that the log knows
of them, so that no footer is read again. Pure, but for the pieces of that state.

Source: docs/format.md, section 5.1; docs/protocol.md, section 2.10; docs/changing.md, "Going back".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import DuplicateFile, UnknownSchema
from ..format import compute as pc
from ..format.columns import array, column, numbers
from ..format.run import files_rows
from ..format.statistics_rows import statistics_rows
from ..wire import lakelog_transaction_pb2 as wire
from .checkpoint_files import rows_of
from .lookup import files_with, schemas_with
from .merge import DESCRIBING, Rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from .build import Intent
    from .files import Files
    from .known_schemas import SchemaEntry
    from .state import State


def rows_again(state: State, files: Files, wanted: Mapping[str, pa.Array]) -> tuple[Rows, ...]:
    """Returns live files of a state with what describes them, to be added again: those of the
    `wanted` paths by table. Raises `CorruptObject` if a piece that holds them is damaged."""
    found = []
    for part in files.parts:
        live = np.zeros(part.run.rows, np.bool_)
        for table, (start, end) in part.run.ranges.items():
            if table in wanted:
                paths = part.run.core.column("path").slice(start, end - start)
                live[start:end] = numbers(pc.is_in(paths, wanted[table]))
        if part.dead is not None:
            live &= ~part.dead
        if live.any():
            found.append(replace(rows_of(state, part), live=live))
    named = {table: set(paths.to_pylist()) for table, paths in wanted.items()}
    added = [
        pair
        for table, there in files.added.items()
        for path, pair in there.items()
        if path in named.get(table, ())
    ]
    if added:
        adds, revisions = zip(*added, strict=True)
        found.append(_of_adds(state, adds, revisions))
    return tuple(found)


def _of_adds(state: State, adds: Sequence[wire.Add], revisions: Sequence[int]) -> Rows:
    identities = {(add.table, add.schema_fingerprint) for add in adds if add.row_groups}
    known = schemas_with(state, {table for table, _ in identities}) if identities else None
    said = statistics_rows(adds, known.arrow_schemas(identities) if known else {})
    describing = dict(zip(DESCRIBING, (said.row_groups, said.files, said.groups), strict=True))
    return Rows(files_rows(adds, revisions), describing)


def names_again(again: Iterable[Rows]) -> list[tuple[str, str]]:
    """Table and path of each file."""
    return [
        pair
        for rows in again
        for pair in zip(
            *(_live(rows).column(name).to_pylist() for name in ("table", "path")), strict=True
        )
    ]


def tables_again(again: Iterable[Rows]) -> list[str]:
    """Their tables."""
    found = (pc.unique(_live(rows).column("table")).to_pylist() for rows in again)
    return list(dict.fromkeys(table for tables in found for table in tables))


def _live(rows: Rows) -> pa.Table:
    return rows.files if rows.live is None else pc.filter(rows.files, array(rows.live))


def named_for_now(again: Iterable[Rows], live: Collection[str]) -> list[wire.Action]:
    """Returns actions that add files and take them out again: nothing is live by them, and gc sees
    them named. Files of the paths `live` are named already."""
    columns = ("table", "path", "partition", "size_bytes", "row_count", "schema_fingerprint")
    actions = []
    for rows in again:
        found = _live(rows)
        for values in zip(*(found.column(name).to_pylist() for name in columns), strict=True):
            add = wire.Add(**dict(zip(columns, values, strict=True)))
            if add.path in live:
                continue
            actions.append(wire.Action(add=add))
            actions.append(wire.Action(remove=wire.Remove(path=add.path, table=add.table)))
    return actions


def schemas_again(head: State, entries: Iterable[SchemaEntry]) -> list[wire.Action]:
    """Returns the actions that name schemas (`entries` of the state gone back to) which the head
    has forgotten. The features that they need are required already: the log named them before."""
    wanted = list(entries)
    known = schemas_with(head, {entry.table for entry in wanted})
    actions: list[wire.Action] = []
    for entry in wanted:
        if (entry.table, entry.fingerprint) in known:
            continue
        item = wire.Schema(
            table=entry.table,
            fingerprint=entry.fingerprint,
            arrow_schema=entry.message,
            key=entry.key,
            sort_order=entry.sort_order,
        )
        actions.append(wire.Action(schema=item))
    return actions


def check_again(state: State, intent: Intent) -> None:
    """Raises `DuplicateFile` if a file that an intent adds again is live and not removed first, and
    `UnknownSchema` if the log doesn't know its schema."""
    names = names_again(intent.again)
    paths = [path for _, path in names]
    removed = {a.remove.path for a in intent.actions if a.WhichOneof("kind") == "remove"}
    live = files_with(state, paths).live_among(paths) - removed
    twice = live or _repeated(paths)
    if twice:
        path = min(twice)
        raise DuplicateFile(f"{path} is in the log already", key=path, hint="Plan again")
    said = {
        (a.schema.table, a.schema.fingerprint)
        for a in intent.actions
        if a.WhichOneof("kind") == "schema"
    }
    known = schemas_with(state, {table for table, _ in names})
    for rows in intent.again:
        for identity in _identities(_live(rows)):
            if identity not in said and identity not in known:
                raise UnknownSchema(
                    f"A file of table {identity[0]!r} has a schema that the log doesn't know",
                    key=identity[0],
                    hint="Plan again",
                )


def _repeated(paths: Collection[str]) -> set[str]:
    if len(set(paths)) == len(paths):
        return set()
    counts = pc.value_counts(column(list(paths), pa.string()))
    return set(pc.filter(counts.field(0), pc.greater(counts.field(1), 1)).to_pylist())


def _identities(rows: pa.Table) -> set[tuple[str, bytes]]:
    """Tables with the fingerprints of their files."""
    found: set[tuple[str, bytes]] = set()
    for table in pc.unique(rows.column("table")).to_pylist():
        own = pc.filter(rows, pc.equal(rows.column("table"), column([table], pa.string())[0]))
        fingerprints = pc.unique(own.column("schema_fingerprint")).to_pylist()
        found.update((table, fingerprint) for fingerprint in fingerprints)
    return found
