"""What differs between two cuts of one database, from their states alone. Pure.

Each kind of difference is a function in `KINDS`: a new one is a row there.

Source: docs/changing.md, "What changed".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ..format import compute as pc
from ..format.columns import array, column, numbers, rows_to_table
from ..format.run import CORE_COLUMNS, files_rows, original_revisions
from ..format.segments import FILES_COLUMNS
from .history import summary_of
from .operations import KEEPS, read_gist

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .files import Files
    from .known_schemas import SchemaEntry
    from .part import Part
    from .state import State


_NUL = "\0"  # no path holds it, so that the first one parts path and table


def live_files(state: State, only: str | None = None) -> Files:
    """Returns the live files of a state, of the table `only` or of all. Raises `CorruptObject` if
    those of a table can't be read."""
    if only is not None:
        return state.table_of(only)[0]
    files = state.files
    for error in (*files.broken.values(), *(error for _, error in files.broken_ranges)):
        raise error
    for table in files.tables():
        files.check(table)
    return files


def read_whole(state: State) -> State:
    """Returns a state once every part of it was read. Raises `CorruptObject` if one is damaged."""
    live_files(state)
    _ = state.schemas, state.definitions, state.deletes
    _ = state.applications, state.history.table()
    return state


def live_rows(files: Files, only: str | None = None) -> pa.Table:
    """Returns live files, with the columns of `CORE_COLUMNS`, by table and path; of the table
    `only`."""
    found = [_rows_of(part, only) for part in files.parts]
    added = [
        pair
        for table, there in files.added.items()
        if only in (None, table)
        for pair in there.values()
    ]
    rows = files_rows([add for add, _ in added], [revision for _, revision in added])
    found.append(rows.select(CORE_COLUMNS))
    return by_name(pa.concat_tables(found))


def by_name(rows: pa.Table) -> pa.Table:
    """Rows in the order of table and path."""
    keys = [("table", "ascending"), ("path", "ascending")]
    return rows.take(pc.sort_indices(rows, sort_keys=keys)).combine_chunks()


def _rows_of(part: Part, only: str | None) -> pa.Table:
    run = part.run
    ranges = run.ranges if only is None else {t: r for t, r in run.ranges.items() if t == only}
    lengths = [end - start for start, end in ranges.values()]
    codes = np.repeat(np.arange(len(ranges), dtype=np.int32), lengths)
    tables = pc.take(column(list(ranges), pa.string()), array(codes))
    rows = part.rows(None if only is None else only)
    live = part.live(only)
    names = tables if live is None else pc.filter(tables, live)
    return rows.add_column(0, FILES_COLUMNS.field("table"), names)


def names_of(rows: pa.Table) -> pa.ChunkedArray:
    """What tells a file from every other of its log: path and table, as one text."""
    between = column([_NUL], pa.string())[0]
    return pc.binary_join_element_wise(rows.column("path"), rows.column("table"), between)


def without(rows: pa.Table, others: pa.Table) -> pa.Table:
    """The files that others don't have, or have in another partition, with another schema or as
    first added by another revision: their rows may read otherwise there."""
    at = pc.index_in(names_of(rows), value_set=names_of(others).combine_chunks())
    same = pc.is_valid(at)
    for name in ("partition", "schema_fingerprint"):
        there = pc.take(others.column(name), at)
        same = pc.and_(same, pc.fill_null(pc.equal(rows.column(name), there), False))
    there = pc.take(original_revisions(others), at)
    same = pc.and_(same, pc.fill_null(pc.equal(original_revisions(rows), there), False))
    return pc.filter(rows, pc.invert(same))


# What replaces files by others with the same rows.
REWRITES: Final = frozenset({"rewrite", "maintenance"})

FILE_CHANGES: Final = pa.schema(
    [
        pa.field("change", pa.string(), nullable=False),
        pa.field("writer", pa.string(), nullable=False),
        *(pa.field(name, pa.string(), nullable=False) for name in ("table", "path", "partition")),
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in ("row_count", "size_bytes", "revision")
        ),
    ]
)
_TABLES: Final = pa.schema([("change", pa.string()), ("table", pa.string())])
_SCHEMAS: Final = pa.schema(
    [(name, pa.string()) for name in ("change", "table", "column", "before", "after")]
)
_COUNTS: Final = (
    *("files_added", "files_removed", "rows_added", "rows_removed", "bytes_added"),
    "bytes_removed",
)
_IN_PLACE: Final = pa.schema([(name, pa.string()) for name in ("table", "writer", "what")])
_ROWS: Final = pa.schema(
    [
        ("table", pa.string()),
        ("writer", pa.string()),
        *((name, pa.int64()) for name in _COUNTS),
        ("exact", pa.bool_()),
    ]
)


class Pair(NamedTuple):
    """One writer's log in both cuts; the empty state where a cut has nothing of it."""

    before: State
    after: State

    @property
    def writer(self) -> str:
        """Whose log."""
        return self.after.writer


def compared(pairs: Sequence[Pair], only: str | None = None) -> dict[str, pa.Table]:
    """Returns all that differs, by kind, of the table `only` or of all. Raises `CorruptError`."""
    return {kind: differ(pairs, only) for kind, differ in KINDS.items()}


def changed_files(pair: Pair, only: str | None = None) -> pa.Table:
    """The files that one log gained and lost, as `FILE_CHANGES`: removed ones first, each by table
    and path. `revision` added the file."""
    before, after = (live_rows(live_files(state, only), only) for state in pair)
    parts = [
        _labelled(change, pair.writer, rows)
        for change, rows in (
            ("removed", without(before, after)),
            ("added", without(after, before)),
        )
    ]
    return pa.concat_tables(parts).combine_chunks()


def _labelled(change: str, writer: str, rows: pa.Table) -> pa.Table:
    texts = [pa.repeat(column([text], pa.string())[0], rows.num_rows) for text in (change, writer)]
    own = [rows.column(name) for name in FILE_CHANGES.names[2:]]
    return pa.Table.from_arrays([*texts, *own], schema=FILE_CHANGES)


# --- Kinds of difference --------------------------------------------------------------------------


def _tables(pairs: Sequence[Pair], only: str | None) -> pa.Table:
    """Tables that came and went, for the database as a whole."""
    before, after = ({t for p in pairs for t in p[at].schemas.tables()} for at in (0, 1))
    found = [("removed", table) for table in sorted(before - after, key=str.encode)]
    found += [("added", table) for table in sorted(after - before, key=str.encode)]
    return rows_to_table([row for row in found if only in (None, row[1])], _TABLES)


def _schemas(pairs: Sequence[Pair], only: str | None) -> pa.Table:
    """Columns that came, went, or have other types, by table, of tables that both cuts have. Types
    are those of live files; where there are none, all that are known."""
    names = [{t for p in pairs for t in p[at].schemas.tables()} for at in (0, 1)]
    both = [table for table in names[0] & names[1] if only in (None, table)]
    found = []
    for table in sorted(both, key=str.encode):
        entries = [_entries([pair[at] for pair in pairs], table) for at in (0, 1)]
        if entries[0].keys() == entries[1].keys():
            continue
        before, after = (_columns(kept.values()) for kept in entries)
        for name in dict.fromkeys((*before, *after)):
            one, other = before.get(name), after.get(name)
            if one != other:
                change = "added" if one is None else "removed" if other is None else "changed"
                found.append((change, table, name, one, other))
    return rows_to_table(found, _SCHEMAS)


def _entries(states: Iterable[State], table: str) -> dict[bytes, SchemaEntry]:
    """The schemas that count of a table, by fingerprint."""
    listed = list(states)
    live = {f for state in listed for f in live_files(state, table).fingerprints(table)}
    known = {e.fingerprint: e for state in listed for e in state.schemas_of(table).of_table(table)}
    return {name: entry for name, entry in known.items() if name in live} or known


def _columns(entries: Iterable[SchemaEntry]) -> dict[str, str]:
    """Per column its types, as text."""
    found: dict[str, dict[str, None]] = {}
    for entry in entries:
        for item in entry.schema:
            found.setdefault(item.name, {})[str(item.type)] = None
    return {name: " or ".join(sorted(types)) for name, types in found.items()}


def _files(pairs: Sequence[Pair], only: str | None) -> pa.Table:
    """Files that came and went."""
    parts = [changed_files(pair, only) for pair in pairs]
    return pa.concat_tables([FILE_CHANGES.empty_table(), *parts]).combine_chunks()


def _rows(pairs: Sequence[Pair], only: str | None) -> pa.Table:
    """How many files, rows and bytes came and went, by table and writer. `exact`: no rewrite lies
    between, which takes rows out and puts them in again, and no row of a file was deleted."""
    found = []
    for pair in pairs:
        files = changed_files(pair, only)
        if not files.num_rows:
            continue
        rewritten = _rewritten(pair)
        for table, sums in _sums(files).items():
            exact = rewritten is not None and "" not in rewritten and table not in rewritten
            exact = exact and not any(state.deletes.hide(table) for state in pair)
            found.append((table, pair.writer, *sums, exact))
    found.sort(key=lambda row: (str(row[0]).encode(), row[1]))
    return rows_to_table(found, _ROWS)


def _sums(files: pa.Table) -> Mapping[str, list[int]]:
    """The numbers of `_COUNTS` by table."""
    coded = files.column("table").combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    codes = numbers(coded.indices).astype(np.int64)
    added = numbers(pc.equal(files.column("change"), column(["added"], pa.string())[0]))
    sums = np.zeros((len(names), len(_COUNTS)), np.int64)
    weights = [np.ones(len(codes), np.int64)]
    weights += [numbers(files.column(name)) for name in ("row_count", "size_bytes")]
    for place, weight in enumerate(weights):
        np.add.at(sums, (codes, 2 * place + np.where(added, 0, 1)), weight)
    return dict(zip(names, sums.tolist(), strict=True))


def _rewritten(pair: Pair) -> set[str] | None:
    """Tables that a commit between the two may have rewritten; the empty name stands for any.
    None: the history doesn't tell."""
    before, after = sorted(pair, key=lambda state: state.revision)  # they may be asked backwards
    if before.revision >= 0 and before.log != after.log:
        return None
    rows = after.history.after(before.revision)
    if len(rows) != after.revision - before.revision:
        return None
    found: set[str] = set()
    for row in rows:
        if row["files_removed"] and not REWRITES.isdisjoint(row["operation"].split("+")):
            gist = read_gist(summary_of(row))
            if KEEPS in (gist.words or ""):
                continue  # it takes out what it has put in
            whole = gist.tables is not None and len(gist.tables) == gist.table_count
            found.update((gist.tables or ()) if whole else ("",))
    return found


def _in_place(pairs: Sequence[Pair], only: str | None) -> pa.Table:
    """What makes rows read otherwise though their files are the same: deletes, and definitions."""
    found = []
    for pair in pairs:
        for table in sorted(_touched_in_place(pair), key=str.encode):
            if only in (None, table):
                found += [(table, pair.writer, what) for what in _differs(pair, table)]
    return rows_to_table(found, _IN_PLACE)


def _touched_in_place(pair: Pair) -> set[str]:
    found: set[str] = set()
    for state in pair:
        deletes = state.deletes
        found |= {*deletes.tables(), *deletes.tombstones, *state.definitions.entries}
    return found


def _differs(pair: Pair, table: str) -> Iterator[str]:
    tombstones = [state.deletes.of_table(table) for state in pair]
    rows = [state.deletes.rows_of(table) for state in pair]
    if tombstones[0] != tombstones[1] or rows[0] != rows[1]:
        yield "deletes"
    before, after = (state.definitions.of(table) for state in pair)
    keys = [() if found is None else found.key for found in (before, after)]
    if keys[0] != keys[1]:
        yield "key"
    if (before and before.name) != (after and after.name):
        yield "columns"


KINDS: Final[Mapping[str, Callable[[Sequence[Pair], str | None], pa.Table]]] = {
    "tables": _tables,
    "schemas": _schemas,
    "rows": _rows,
    "files": _files,
    "in_place": _in_place,
}
