"""The rows that came and went between two cuts of a table, as a stream.

Source: docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import TableNotFound, UsageError, some_names
from ..data.unify import FileSchema, distinct, only
from ..format import compute as pc
from ..format.names import base_folder
from ..format.schema import generation
from ..log.state import empty_state
from ..log.steps import GONE
from .commits_between import Found, between
from .cut_tables import CutTables
from .file_order import by_commit
from .file_parts import checked, file_parts, projected
from .hidden import hidden_of
from .in_place import keyed
from .key_changes import has_key, key_steps
from .scopes import Scopes
from .step_rows import ABOUT, RowStep, Seen, Stamp, step_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ...store import Store
    from ..ambient import Ambient
    from ..log.state import State
    from .commits_between import Between


def change_stream(
    store: Store,
    ambient: Ambient,
    since: Sequence[State],
    until: Sequence[State],
    table: str,
    *,
    columns: Sequence[str] | None,
    net: bool,
    state_at: Callable[[str, int], State],
) -> pa.RecordBatchReader:
    """The rows that differ between two cuts of one database.

    Args:
        store: A `WideStore`.
        since, until: States of the logs, each by writer.
        columns: Of the table, in this order; None: all.
        net: See `Steps.rows`.
        state_at: The state of a writer's log at a revision.
    Returns:
        The columns of `ABOUT`, then those of the table as the later cut has them; behind these such
        as only rows have that came or went, and that the later cut didn't drop.
    Raises:
        TableNotFound: Neither cut knows the table.
        UsageError: The cuts don't follow each other, or the table has a column of `ABOUT`.
        SchemaConflict: As for `scan`; also of keys.
        SnapshotPruned, MissingTransaction, CorruptError: The commits between can't all be read.
    """
    earlier = {state.writer: state for state in since}
    _check_order(earlier, {state.writer: state for state in until})
    tables = CutTables(until[0].database if until else "", until)
    scopes = Scopes(since)
    logs = []
    for state in until:
        before = earlier.get(state.writer) or empty_state(state.writer, state.database)
        logs.append(between(store, ambient, (before, state), scopes, tables, table=table))
    if has_key(logs, table, net=net):
        found = key_steps(store, logs, table, state_at, net=net)
    else:
        found = _steps_of_files(logs, table, net=net)
    schemas = _schemas(logs, tables, table, found.fingerprints)
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
    batches = step_batches(store, found.steps, found.together, projection)
    given = pa.schema([*ABOUT, *projection.given])
    return pa.RecordBatchReader.from_batches(given, batches)


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


def _schemas(
    logs: Sequence[Between],
    until: CutTables,
    table: str,
    fingerprints: Mapping[str, Collection[bytes]],
) -> list[FileSchema]:
    """What the rows of changes are shown by: the schemas of the later cut; then, of files of which
    rows came or went, columns that it doesn't have, and wider types of those that it has.

    Args:
        fingerprints: By writer the schemas of these files.
    """
    try:
        live = until.file_schemas(table)
    except TableNotFound:
        live = []
    numbers: dict[str, int] = {}
    for item in live:
        for each in item.schema:
            numbers[each.name] = max(generation(each), numbers.get(each.name, 0))
    others = []
    for log in logs:
        wanted = log.steps.schemas.keys() if not live else fingerprints.get(log.writer, ())
        entries = [log.steps.schemas[name] for name in wanted]
        for entry in sorted(entries, key=lambda one: (one.revision, one.fingerprint)):
            seen = log.shown(entry.fingerprint).schema
            # Another column of the same name is none that the later cut has.
            kept = {f.name for f in seen if numbers.get(f.name, generation(f)) == generation(f)}
            others.append(FileSchema(only(seen, kept), log.writer, partial(str, entry.where)))
    return distinct([*live, *others])


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
    times = {(log.writer, revision): at for log in logs for revision, at in log.steps.times.items()}
    return Found(
        (step for log, found in rows for step in _steps(log, found, numbered, times)),
        lambda file: list(several[file].values()),
        {log.writer: pc.unique(found.column("schema_fingerprint")).to_pylist()
         for log, found in rows},
    )  # fmt: skip


def _steps(
    log: Between,
    rows: pa.Table,
    places: Mapping[tuple[object, int], int],
    times: Mapping[tuple[str, int], int],
) -> Iterator[RowStep]:
    state, tellers = log.after, list(log.steps.tellers)
    folder = base_folder(state.writer, state.database)
    parts = file_parts(rows, folder, log.shown, {}, {})
    columns = (rows.column(name).to_pylist() for name in _STEP)
    for part, file, event, sign, before, after, teller in zip(
        keyed(parts, folder, state), *columns, strict=True
    ):
        own = (log.writer, file)
        seen = (_seen(log, before), _seen(log, after))
        writer, revision = tellers[teller]
        stamp = Stamp(writer, revision, times[writer, revision])
        yield RowStep(log.writer, own, part, sign, *seen, stamp, places.get((own, event)))


_STEP: Final = ("file", "event", "sign", "before", "after", "teller")


def _seen(log: Between, place: int) -> Seen:
    if place == GONE:
        return Seen(is_live=False)
    folder = base_folder(log.after.writer, log.after.database)
    return Seen(is_live=True, hidden=hidden_of(log.steps.views[place], folder))


def _ordered(rows: pa.Table) -> pa.Table:
    """By commit; of one what it took out first, each as `scan` would give it."""
    ordered = by_commit(rows)
    keys = [("order", "ascending"), ("sign", "ascending")]
    return ordered.sort_by(keys)  # stable
