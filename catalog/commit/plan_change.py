"""What takes logs back to an earlier cut, takes files out, or drops a table: from states to plans.

Source: docs/changing.md, "Going back".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from ...errors import (
    FileNotLive,
    PlanOutdated,
    TableNotFound,
    UsageError,
    WriterNotFound,
    it_has,
    some_names,
)
from ..format import compute as pc
from ..format.columns import column
from ..format.names import check_path
from ..log.compared import FILE_CHANGES, Pair, changed_files
from ..log.state import empty_state
from ..read.points_in_time import cut_of
from ..scalars import value_of
from .change_plan import WriterChange
from .restored_columns import restored_columns
from .restored_rows import restored_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...store import Store
    from ..format.cut import Cut
    from ..log.known_schemas import SchemaEntry
    from ..log.state import State
    from ..wire import lakelog_transaction_pb2 as wire


class Prepared(NamedTuple):
    """One writer's part of a plan, with the states that it was made from.

    Attributes:
        change: The part.
        head: The state that it holds for.
        back_to: restore: the state that it goes back to.
        bitmaps: restore: rows that are to be deleted of files that stay or come back.
        definitions: restore: what it says anew of the columns of tables.
    """

    change: WriterChange
    head: State
    back_to: State
    bitmaps: Sequence[tuple[wire.RowDeletes, bytes]] = ()
    definitions: Sequence[wire.Definition] = ()


def plan_restore(store: Store, head: State, back_to: State | None, table: str | None) -> Prepared:
    """What takes a log back.

    Args:
        store: A `WideStore`.
        back_to: The earlier state; None: the cut has nothing of this log.
        table: The only one; None: all.
    Raises:
        UsageError: The cut is of another log.
        PlanOutdated: The cut is later than what was read of the log.
        CorruptError: The files of one of the states can't be told.
        ObjectNotFound, CorruptObject, SchemaConflict: See `restored_rows`.
    Requests: those of `restored_rows`.
    """
    if back_to is not None and not _is_earlier(back_to, head):
        raise UsageError(
            f"The cut is of another log of {head.writer}/{head.database}: the log was replaced "
            "since",
            key=f"{head.writer}/{head.database}",
            hint="Go back to a cut of the log that is there, of this or an earlier incarnation",
        )
    target = back_to or empty_state(head.writer, head.database)
    if target.revision > head.revision:
        raise PlanOutdated(  # the log was read before the cut
            f"The cut is of revision {target.revision} of {head.writer}/{head.database}, which is "
            f"later than its newest, {head.revision}",
            key=f"{head.writer}/{head.database}",
            hint="Look again: others may be pruning or committing beside this",
        )
    files = changed_files(Pair(head, target), table)
    forgotten = tuple(sorted({entry.table for entry in lost_schemas(head, target, table)}))
    definitions = restored_columns(head, target, table)
    rows = restored_rows(store, (head, target), files, table)
    change = replace(
        _change(head, files),
        to=_token(target),
        schemas=forgotten,
        deletes=rows.changes,
        columns=tuple(message.table for message in definitions),
    )
    return Prepared(change, head, target, rows.bitmaps, definitions)


def _is_earlier(back_to: State, head: State) -> bool:
    """Whether a state is of the same log as the head, of its incarnation or an earlier one."""
    if back_to.log is None or head.log is None:
        return back_to.log == head.log
    same = back_to.log.log_id == head.log.log_id
    return same and back_to.log.incarnation <= head.log.incarnation


def lost_schemas(head: State, back_to: State, table: str | None) -> list[SchemaEntry]:
    """Schemas that an earlier state knows and the head has forgotten, oldest first."""
    known = head.schemas.entries
    lost = [entry for identity, entry in back_to.schemas.entries.items() if identity not in known]
    lost = [entry for entry in lost if table in (None, entry.table)]
    return sorted(lost, key=lambda entry: (entry.revision, entry.table, entry.fingerprint))


def plan_remove(head: State, table: str, paths: Sequence[str], partition: str | None) -> Prepared:
    """Returns what takes files out of a table: those of some paths in the log, and all of a
    partition. Raises `FileNotLive` if one is not in the table, and `UsageError` for a partition
    without files."""
    nothing = empty_state(head.writer, head.database)
    files = changed_files(Pair(head, nothing), table)
    wanted = sorted({check_path(path) for path in paths})
    live = files.column("path").combine_chunks()
    there = pc.is_in(column(wanted, pa.string()), live).to_pylist()
    for path, found in zip(wanted, there, strict=True):
        if not found:
            raise FileNotLive(
                f"{path} is not live in table {table!r} of {head.writer}/{head.database}",
                key=path,
                hint="List the live files with `lakelog files`",
            )
    mask = pc.is_in(live, column(wanted, pa.string()))
    if partition is not None:
        own = pc.equal(files.column("partition"), column([partition], pa.string())[0])
        if not pc.any(own).as_py():
            raise UsageError(
                f"Table {table!r} of {head.writer}/{head.database} has no file of partition "
                f"{partition!r}",
                key=partition,
                hint="`lakelog files` lists the partitions; '' stands for none",
            )
        mask = pc.or_(mask, own.combine_chunks())
    return Prepared(_change(head, pc.filter(files, mask)), head, nothing)


def plan_drop(head: State, table: str) -> Prepared | None:
    """What drops a table from a log; None: it doesn't know it."""
    if not head.schemas_of(table).of_table(table):
        return None
    nothing = empty_state(head.writer, head.database)
    files = changed_files(Pair(head, nothing), table)
    return Prepared(_change(head, files, forgets=table), head, nothing)


def refuse_lost_key(heads: Sequence[State], everyone: Sequence[State], table: str) -> None:
    """Raises `UsageError` if a drop takes the table's key with it while other logs keep the
    table."""
    going = {head.writer for head in heads}
    keyed = {s.writer for s in everyone if (found := s.definitions.of(table)) and found.key}
    left = [s.writer for s in everyone if s.writer not in going]
    left = [s.writer for s in everyone if s.writer in left and s.schemas_of(table).of_table(table)]
    if keyed and keyed <= going and left:
        raise UsageError(
            f"The key of table {table!r} is given by {some_names(sorted(keyed))} alone: without it "
            f"{some_names(left)} would show older rows again",
            key=table,
            hint="Give the table its key in the other logs first (`catalog.evolve(key=...)`), or "
            "drop it for all writers",
        )


def refuse_unnamed(heads: Sequence[State], cut: Cut, writers: Sequence[str] | None) -> None:
    """Raises `UsageError` if a cut doesn't name a writer that nobody asked for: its log would be
    emptied, but a token or a mapping may be of some writers only."""
    if writers is not None:
        return
    unnamed = [state.writer for state in heads if state.writer not in cut.writers]
    if unnamed:
        raise UsageError(
            f"The cut has nothing of {some_names(unnamed)}: whether they are to be emptied or left "
            "as they are is not said",
            key=unnamed[0],
            hint="Name the writers that are to be taken back (`--writer`, writers=[...]): those "
            "that the cut doesn't have lose all their files",
        )


def refuse_unknown_writers(database: str, heads: Sequence[State], to: object) -> None:
    """Raises `WriterNotFound` if a mapping `to` names a writer that there isn't: a mistyped name
    would leave the right one unnamed, and all its files would go."""
    there = [state.writer for state in heads]
    named = map(value_of, to) if isinstance(to, Mapping) else ()
    lost = [name for name in named if name not in there]
    if lost:
        raise WriterNotFound(
            f"Writer {lost[0]!r} has no log of database {database!r}",
            key=str(lost[0]),
            hint=it_has(lost[0], there),
        )


def refuse_unknown_table(prepared: Sequence[Prepared], table: str) -> None:
    """Raises `TableNotFound` if no state knows a table."""
    states = [state for each in prepared for state in (each.head, each.back_to)]
    if not any(state.schemas_of(table).of_table(table) for state in states):
        writers = some_names([each.head.writer for each in prepared])
        raise TableNotFound(
            f"No log of {writers} has a table {table!r}, now or at the cut",
            key=table,
            hint=it_has(table, sorted({t for state in states for t in state.schemas.tables()})),
        )


def _change(
    head: State,
    files: pa.Table,
    *,
    forgets: str = "",
) -> WriterChange:
    assert files.schema.equals(FILE_CHANGES)
    digest = head.digest.hex()
    return WriterChange(head.writer, head.revision, digest, "", files, forgets=forgets)


def _token(state: State) -> str:
    """The token of one log at one revision; empty before the first."""
    if state.revision < 0:
        return ""
    return cut_of(state.database, [state]).token
