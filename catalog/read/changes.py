"""The rows that came and went between two cuts of a table, as a stream.

Source: docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from ...errors import TableNotFound, UsageError, some_names
from ..data.unify import FileSchema, distinct
from ..format import compute as pc
from ..format.names import base_folder
from ..log.state import empty_state
from ..log.steps import GONE
from .commits_between import Found, between
from .cut_tables import CutTables
from .file_order import by_commit
from .file_parts import checked, file_parts, projected
from .hidden import hidden_of
from .in_place import keyed
from .key_changes import has_key, key_steps
from .step_rows import ABOUT, RowStep, Seen, Stamp, step_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ...store import Store
    from ..ambient import Ambient
    from ..data.scan import Projection
    from ..log.state import State
    from .commits_between import Between


class Changes(NamedTuple):
    """The rows that differ between two cuts, to be read.

    Attributes:
        found: The steps that they are of.
        projection: The columns that are read of them.
    """

    found: Found
    projection: Projection

    def reader(self, store: Store) -> pa.RecordBatchReader:
        """The rows: the columns of `ABOUT`, then those of the table.

        Args:
            store: A `WideStore`.
        """
        batches = step_batches(store, self.found.steps, self.found.together, self.projection)
        given = pa.schema([*ABOUT, *self.projection.given])
        return pa.RecordBatchReader.from_batches(given, batches)


def table_changes(
    store: Store,
    ambient: Ambient,
    since: Sequence[State],
    until: Sequence[State],
    table: str,
    *,
    columns: Sequence[str] | None,
    net: bool,
    state_at: Callable[[str, int], State],
) -> Changes:
    """The rows that differ between two cuts of one database.

    Args:
        store: A `WideStore`.
        since, until: States of the logs, each by writer.
        columns: Of the table, in this order; None: all that the later cut has, and behind these
            such as only rows have that came or went, and that the later cut didn't drop.
        net: See `Steps.rows`.
        state_at: The state of a writer's log at a revision.
    Raises:
        TableNotFound: Neither cut knows the table.
        UsageError: The cuts don't follow each other, or the table has a column of `ABOUT`.
        SchemaConflict: As for `scan`; also of keys.
        SnapshotPruned, MissingTransaction, CorruptError: The commits between can't all be read.
    """
    check_order(since, until)
    tables = CutTables(until[0].database if until else "", until)
    logs = logs_between(store, ambient, since, until, told_by=tables, table=table)
    found = steps_of(store, logs, table, state_at, net=net)
    seen = partial(seen_in, logs, found.fingerprints)
    projection = told(tables, table, seen, columns)
    refuse_about(projection.given.names, table)
    return Changes(found, projection)


def logs_between(
    store: Store,
    ambient: Ambient,
    since: Sequence[State],
    until: Sequence[State],
    *,
    told_by: CutTables,
    table: str,
    only: Collection[str] | None = None,
) -> list[Between]:
    """What was committed to each log between two cuts.

    Args:
        since, until: Cuts that follow each other.
        told_by: The tables of the cut by whose columns rows are told: the later one, or one after
            it.
        only: The logs of these writers; None: all.
    Raises, Requests: As for `table_changes`.
    """
    earlier = {state.writer: state for state in since}
    logs = []
    for state in until:
        if only is None or state.writer in only:
            before = earlier.get(state.writer) or empty_state(state.writer, state.database)
            logs.append(between(store, ambient, (before, state), told_by, table=table))
    return logs


def steps_of(
    store: Store,
    logs: Sequence[Between],
    table: str,
    state_at: Callable[[str, int], State],
    *,
    net: bool,
) -> Found:
    """The steps of a table in some logs."""
    if has_key(logs, table, net=net):
        return key_steps(store, logs, table, state_at, net=net)
    return _steps_of_files(logs, table, net=net)


def told(
    tables: CutTables,
    table: str,
    seen: Callable[[bool], Iterable[FileSchema]],
    columns: Sequence[str] | None,
) -> Projection:
    """What is read of rows of steps: the columns of a cut; then, of the files of the steps, columns
    that it doesn't have, and wider types of those that it has.

    Args:
        tables: Of the cut by whose columns the rows are told.
        seen: The schemas of the files, as they are told; asked whether the cut knows the table.
        columns: See `table_changes`.
    Raises: As for `table_changes`.
    """
    try:
        live = tables.file_schemas(table)
    except TableNotFound:
        live = []
    schemas = distinct([*live, *seen(bool(live))])
    if not schemas:
        raise TableNotFound(f"Neither cut has a table {table!r}", key=table)
    names = None if columns is None else checked(columns, schemas, table)
    return projected(schemas, table, names, None)


def seen_in(
    logs: Sequence[Between], fingerprints: Mapping[str, Collection[bytes]], is_known: bool
) -> Iterator[FileSchema]:
    """The schemas that files of steps have; of a table that isn't known any more all that it had.

    Args:
        fingerprints: By writer the schemas of these files.
    """
    for log in logs:
        wanted = fingerprints.get(log.writer, ()) if is_known else log.steps.schemas.keys()
        entries = [log.steps.schemas[name] for name in wanted]
        for entry in sorted(entries, key=lambda one: (one.revision, one.fingerprint)):
            schema = log.shown(entry.fingerprint).schema
            yield FileSchema(schema, log.writer, partial(str, entry.where))


def refuse_about(names: Sequence[str], table: str) -> None:
    """Refuse columns of a table that are called as those of `ABOUT`.

    Raises:
        UsageError: There is one.
    """
    clash = [name for name in names if name in ABOUT.names]
    if clash:
        raise UsageError(
            f"Table {table!r} has a column {clash[0]!r}, which changes have too",
            key=clash[0],
            hint="Leave it out: name the columns that you want",
        )


def check_order(earlier: Sequence[State], later: Sequence[State]) -> None:
    """Refuse two cuts that don't follow each other.

    Raises:
        UsageError: They don't.
    """
    since = {state.writer: state for state in earlier}
    until = {state.writer: state for state in later}
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


def _steps_of_files(logs: Sequence[Between], table: str, *, net: bool) -> Found:
    """The steps of a table in which each file's rows are by themselves."""
    rows = [(log, _ordered(log.steps.rows(net=net))) for log in logs]
    several: dict[object, dict[int, tuple[Seen, Seen]]] = {}
    for log, found in rows:
        own = found.filter(pc.invert(found.column("alone")))
        columns = (own.column(name).to_pylist() for name in ("file", "event", "before", "after"))
        for file, event, *places in sorted(zip(*columns, strict=True)):
            before, after = (_seen(log, place) for place in places)
            several.setdefault((log.writer, file), {})[event] = (before, after)
    numbered = {
        (file, event): number
        for file, events in several.items()
        for number, event in enumerate(events)
    }
    return Found(
        (step for log, found in rows for step in _steps(log, found, numbered)),
        lambda file: list(several[file].values()),
        {log.writer: pc.unique(found.column("schema_fingerprint")).to_pylist()
         for log, found in rows},
    )  # fmt: skip


def _steps(
    log: Between, rows: pa.Table, places: Mapping[tuple[object, int], int]
) -> Iterator[RowStep]:
    state = log.after
    folder = base_folder(state.writer, state.database)
    parts = file_parts(rows, folder, log.shown, {}, {})
    columns = (rows.column(name).to_pylist() for name in _STEP)
    for part, file, event, sign, before, after, revision in zip(
        keyed(parts, folder, state), *columns, strict=True
    ):
        own = (log.writer, file)
        seen = (_seen(log, before), _seen(log, after))
        stamp = Stamp(log.writer, revision, log.steps.times[revision])
        yield RowStep(log.writer, own, part, sign, *seen, stamp, places.get((own, event)))


_STEP: Final = ("file", "event", "sign", "before", "after", "revision")


def _seen(log: Between, place: int) -> Seen:
    if place == GONE:
        return Seen(is_live=False)
    folder = base_folder(log.after.writer, log.after.database)
    return Seen(is_live=True, hidden=hidden_of(log.steps.views[place], folder))


def _ordered(rows: pa.Table) -> pa.Table:
    """By commit; of one what it took out first, each as `scan` would give it."""
    ordered = by_commit(rows)
    keys = [("revision", "ascending"), ("sign", "ascending")]
    return ordered.sort_by(keys)  # stable
