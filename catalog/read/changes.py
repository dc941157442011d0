"""The rows that came and went between two cuts of a table, as a stream.

Source: docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from ...errors import SchemaConflict, TableNotFound, UsageError, it_has, some_names
from ..data.unify import FileSchema, distinct
from ..format import compute as pc
from ..format.columns import column
from ..format.names import base_folder
from ..log.changelog import DELETE, GONE, INSERT, NUL
from ..log.state import empty_state
from .commits_between import ABOUT, Found, RowStep, Seen, Stamp, between, step_batches
from .cut_tables import CutTables
from .delete_plan import parts_by_path
from .file_order import by_commit
from .file_parts import checked, file_parts, keyed, projected
from .hidden import hidden_files, hidden_of
from .keys import table_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ...store import Store
    from ..ambient import Ambient
    from ..data.file_part import FilePart
    from ..data.scan import Projection
    from ..log.state import State
    from .commits_between import Between


# --- Changes of rows in a table with a key --------------------------------------------------------

_FACTS = ("path", "partition", "schema_fingerprint", "revision", "last_clock")
_Path = tuple[str, str]  # of a file: its writer, and its path


class _Stretch(NamedTuple):
    """From one cut to a later one.

    Attributes:
        start, end: Revisions by writer.
        stamp: The only commit between; None: there may be several.
    """

    start: dict[str, int]
    end: dict[str, int]
    stamp: Stamp | None


class _Change(NamedTuple):
    """A file that reads otherwise at a later cut.

    Attributes:
        added: The revision that added it, if it is live at the later cut.
    """

    file: _Path
    part: FilePart
    before: Seen
    after: Seen
    added: int


def has_key(logs: Sequence[Between], table: str, *, net: bool) -> bool:
    """Whether rows of a table come and go by a key, at one of two cuts, or (if not `net`) at any
    point between.

    Raises:
        SchemaConflict: Logs of a cut give it different keys.
    """
    ends = [[log.before for log in logs], [log.after for log in logs]]
    found = [bool(table_key(states, table)) for states in ends]
    return any(found) or (
        not net and any(entry.wire.key for log in logs for entry in log.steps.definitions)
    )


def key_steps(
    store: Store,
    logs: Sequence[Between],
    table: str,
    state_at: Callable[[str, int], State],
    *,
    net: bool,
) -> Found:
    """The steps of a table with a key.

    Args:
        store: A `WideStore`.
        state_at: The state of a writer's log at a revision.
        net: Compare the two cuts, and those before and after each commit that only rewrites files
            where no log gives a key; else those before and after every commit, the logs one after
            the other, but no cut at which logs call the key otherwise.
    Raises:
        SchemaConflict, ObjectNotFound, CorruptObject: As for reading the table at these cuts.
    Requests: for each cut those of resolving the keys of the files that came or went, and of those
        that may share keys with these; where another key, or other columns, came between, of all.
    """
    states = {(log.writer, end.revision): end for log in logs for end in (log.before, log.after)}

    @lru_cache(maxsize=4)  # where one stretch ends the next begins
    def tables(revisions: tuple[tuple[str, int], ...]) -> CutTables:
        found = []
        for writer, revision in revisions:
            if revision >= 0 and (writer, revision) not in states:
                states[writer, revision] = state_at(writer, revision)
            if revision >= 0:
                found.append(states[writer, revision])
        return CutTables(logs[0].after.database, found)

    def cut(revisions: Mapping[str, int]) -> CutTables:
        return tables(tuple(revisions.items()))

    by_writer = {log.writer: log for log in logs}
    stretches = list(_stretches(logs, lambda revisions: _key(cut(revisions), table), net=net))
    several: dict[object, list[tuple[Seen, Seen]]] = {}
    steps: list[RowStep] = []
    for stretch in stretches:
        found: list[RowStep] = []
        for change in _changes(store, cut(stretch.start), cut(stretch.end), table):
            log = by_writer[change.file[0]]
            shown = log.columns.shown(change.part.schema, change.part.fingerprint)
            part = replace(change.part, shown=shown)
            file = (change.file, part.partition, part.fingerprint)
            pairs = several.setdefault(file, [])
            place = len(pairs) if net and len(stretches) > 1 else None
            pairs.append((change.before, change.after))
            stamp = stretch.stamp or _stamp(log, change)
            found += (
                RowStep(log.writer, file, part, sign, change.before, change.after, stamp, place)
                for sign, there in ((DELETE, change.before), (INSERT, change.after))
                if there.is_live
            )
        steps += sorted(found, key=_order)
    if net:
        steps.sort(key=_order)
    fingerprints: dict[str, set[bytes]] = {log.writer: set() for log in logs}
    for step in steps:
        fingerprints[step.writer].add(step.part.fingerprint)
    return Found(steps, several.__getitem__, fingerprints)


def _order(step: RowStep) -> tuple[str, int, int]:
    """By writer and revision, what no commit is named for first; of one commit what went first."""
    revision = step.stamp.revision
    return (step.stamp.writer, -1 if revision is None else revision, step.sign)


def _stretches(
    logs: Sequence[Between],
    key_at: Callable[[Mapping[str, int]], tuple[str, ...] | None],
    *,
    net: bool,
) -> Iterator[_Stretch]:
    """The way from the first cut to the last, one log after the other, without the commits that
    only rewrite files.

    The cuts on this way need never have been: one log may be long past what another has yet to
    say. So a rewrite of a table without a key may stand where there is one, and change which rows
    are newest: it is left out only where there is none. And where logs call the key otherwise,
    as while they rename its column one after the other, no stretch ends.

    Args:
        key_at: As `_key`.
    """
    start = {log.writer: log.before.revision for log in logs}
    now = dict(start)
    for log in logs:
        rewrites = log.steps.rewrites()
        revisions = range(log.before.revision + 1, log.after.revision + 1)
        for revision in rewrites if net else revisions:
            before, now = now | {log.writer: revision - 1}, now | {log.writer: revision}
            if revision in rewrites and key_at(before) == key_at(now) == ():
                if start != before:
                    yield _Stretch(start, before, None)
                start = now
            elif not net and key_at(now) is not None:
                stamp = Stamp(log.writer, revision, log.steps.times[revision])
                yield _Stretch(start, now, stamp if start == before else None)
                start = now
        now = now | {log.writer: log.after.revision}
    if start != now:
        yield _Stretch(start, now, None)


def _key(cut: CutTables, table: str) -> tuple[str, ...] | None:
    """The key of a table at a cut; None: logs call it otherwise, or rows can't be told apart by it.

    A name that was taken for another column is another key, which the logs that have yet to say so
    would lose for a while.
    """
    definitions = [state.definitions.of(table) for state in cut.states]
    given = {frozenset(each.key) for each in definitions if each is not None and each.key}
    if not given:
        return ()
    try:
        keys = cut.keys_of(table) if len(given) == 1 else None
        if keys is not None and any(cut.schemas_of(state, table) for state in cut.states):
            _ = keys.columns
    except SchemaConflict:
        return None
    return None if keys is None else keys.key


def _stamp(log: Between, change: _Change) -> Stamp:
    """The commit by which a file came or went; of one that stays nothing says which it was."""
    if change.before.is_live and change.after.is_live:
        return Stamp(log.writer, None, None)
    revision = change.added if change.after.is_live else log.steps.removed[change.file[1]]
    return Stamp(log.writer, revision, log.steps.times[revision])


# --- Two cuts -------------------------------------------------------------------------------------


def _changes(store: Store, one: CutTables, other: CutTables, table: str) -> Iterator[_Change]:
    """The files of which other rows can be seen at one cut than at another."""
    wanted = _that_may_differ(one, other, table)
    before, after = (_visible(store, cut, table, wanted) for cut in (one, other))
    for file in sorted(before.keys() | after.keys()):
        found = (before.get(file), after.get(file))
        seen = [Seen(each is not None, each and each[0].hidden) for each in found]
        part, added = found[1] or found[0] or (None, 0)
        if part is not None and seen[0] != seen[1]:
            yield _Change(file[:2], replace(part, hidden=None), seen[0], seen[1], added)


def _visible(
    store: Store, cut: CutTables, table: str, wanted: Iterable[_Path]
) -> dict[tuple[str, str, str, bytes], tuple[FilePart, int]]:
    """Files of a cut, each with all that hides rows of it, and the revision that added it."""
    paths: dict[str, set[str]] = {}
    for writer, path in wanted:
        paths.setdefault(writer, set()).add(path)
    asked, names = [], []
    for state in cut.states:
        if state.writer not in paths or not cut.schemas_of(state, table):
            continue
        found = parts_by_path(cut, state, table, paths[state.writer])
        rows = cut.table_of(state, table)[0].table(table)
        columns = (rows.column(name).to_pylist() for name in ("path", "revision"))
        added = dict(zip(*columns, strict=True))
        names += [(state.writer, path, added[path]) for path in found]
        asked.append((state, list(found.values())))
    parts = cut.resolved(store, table, asked) if asked else []
    return {
        (writer, path, part.partition, part.fingerprint): (part, revision)
        for (writer, path, revision), part in zip(names, parts, strict=True)
    }


def _that_may_differ(one: CutTables, other: CutTables, table: str) -> set[_Path]:
    """The files of both cuts of which other rows may be seen: those that came, went or of which
    rows were deleted, and those that may share keys with them."""
    changed: set[_Path] = set()
    held: list[tuple[str, pa.Table]] = []
    is_same = table_key(one.states, table) == table_key(other.states, table)
    states = [{state.writer: state for state in cut.states} for cut in (one, other)]
    for writer in sorted(states[0].keys() | states[1].keys()):
        before, after = (found.get(writer) for found in states)
        names = [_names(cut, state, table) for cut, state in ((one, before), (other, after))]
        held += ((writer, each) for each in names)
        if before is not None and after is not None:
            if before.digest == after.digest:
                continue
            is_same &= _definition(before, table) == _definition(after, table)
            deletes = [hidden_files(state, table) for state in (before, after)]
            either = deletes[0].keys() | deletes[1].keys()
            changed |= {(writer, p) for p in either if deletes[0].get(p) != deletes[1].get(p)}
        for mine, others in (names, names[::-1]):
            new = pc.invert(pc.is_in(mine["name"], value_set=others["name"].combine_chunks()))
            changed |= {(writer, path) for path in mine.filter(new)["path"].to_pylist()}
    keys = [cut.keys_of(table) for cut in (one, other)] if changed else []
    # A file that comes with a newer column of the name makes those of other files none of the key.
    if not is_same or len({each and each.columns for each in keys}) > 1:
        return {(writer, path) for writer, each in held for path in each["path"].to_pylist()}
    return changed.union(*(each.near(changed) for each in keys if each is not None))


def _definition(state: State, table: str) -> bytes:
    entry = state.definitions.entries.get(table)
    return b"" if entry is None else entry.message


def _names(cut: CutTables, state: State | None, table: str) -> pa.Table:
    """Paths of the live files in a log, and what tells each as it is from every other."""
    schema = pa.schema([("path", pa.string()), ("name", pa.binary())])
    if state is None:
        return schema.empty_table()
    rows = cut.table_of(state, table)[0].table(table, whole=True)
    texts = [rows.column(name) for name in _FACTS]
    texts = [pc.cast(v, pa.string()) if pa.types.is_integer(v.type) else v for v in texts]
    texts = [pc.cast(v, pa.binary()) for v in texts]
    name = pc.binary_join_element_wise(*texts, column([NUL], pa.binary())[0])
    return pa.Table.from_arrays([rows.column("path"), name], schema=schema)


# --- Changes between two cuts ---------------------------------------------------------------------


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
        raise TableNotFound(
            f"Neither cut has a table {table!r}", key=table, hint=it_has(table, tables.names())
        )
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
    """Raises `UsageError` if a column of a table is called like one of `ABOUT`."""
    clash = [name for name in names if name in ABOUT.names]
    if clash:
        raise UsageError(
            f"Table {table!r} has a column {clash[0]!r}, which changes have too",
            key=clash[0],
            hint="Leave it out: name the columns that you want",
        )


def check_order(earlier: Sequence[State], later: Sequence[State]) -> None:
    """Raises `UsageError` if two cuts don't follow each other."""
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
