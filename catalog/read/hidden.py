"""What hides rows of the live files of a table: the deletes of their log, as far as statistics
leave them any row to hide.

Source: docs/format.md, sections 5.6 and 5.7.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..data.hidden import Bitmap, Hidden
from ..format import compute as pc
from ..format.columns import array, column, numbers
from ..format.names import base_folder
from ..format.schema import plain
from .row_filter import RowFilter
from .skipping import kept_files
from .table_facts import TableFacts
from .tombstones import TombstoneTest, bound_filter, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..data.file_part import FilePart
    from ..log.deletes import RowDeletes, Tombstone
    from ..log.state import State
    from ..log.touched import View
    from .asked import Asked
    from .cut_tables import CutTables


def with_deletes(
    tables: CutTables, state: State, asked: Asked, rows: pa.Table, parts: Iterable[FilePart]
) -> Iterable[FilePart]:
    """Files of one log that are asked for, each with what hides rows of it: see `with_hidden`."""
    if not state.deletes.hide(asked.table):
        return parts
    # A tombstone means columns as files have them, whatever they are called now.
    held = tables.table_of(state, asked.table, asked.partition)
    facts = TableFacts(state, asked.table, held, as_stored=True)
    return with_hidden(parts, rows, state, facts)


def hidden_files(state: State, table: str) -> dict[str, Hidden]:
    """By path what deletes hide of the live files of a table in one log, of those of which they may
    hide rows.

    Raises:
        CorruptObject: A delete can't be understood.
    Requests: those of the table's files, and of `with_hidden`.
    """
    if not state.deletes.hide(table):
        return {}
    held = state.table_of(table)
    facts = TableFacts(state, table, held, as_stored=True)
    rows, folder = held[0].table(table), base_folder(state.writer, state.database)
    tombstones = _by_path(state.deletes.of_table(table), rows, facts)
    by_number = state.deletes.rows_of(table)
    return {
        path: _hidden(tombstones.get(path, ()), by_number.get(path, ()), folder)
        for path in rows.column("path").to_pylist()
        if path in tombstones or path in by_number
    }


def may_hide(tombstones: Sequence[Tombstone], facts: TableFacts) -> dict[str, list[Tombstone]]:
    """By path the tombstones that may hide rows of a file.

    Requests: those of `TableFacts.of_files` of their columns.
    """
    return _by_path(tombstones, facts.files.table(facts.table), facts)


def spared_by(tombstone: Tombstone, facts: TableFacts) -> set[str]:
    """The files of which a tombstone hides no row by their statistics, whichever revision they are
    of, by path."""
    rows = facts.files.table(facts.table)
    spared = rows.column("path").filter(array(_spared(tombstone, rows, facts)))
    return set(spared.to_pylist())


def hidden_of(view: View, folder: str) -> Hidden | None:
    """What deletes hide of a file; None: nothing."""
    return _hidden(*view, folder) if any(view) else None


def with_hidden(
    parts: Iterable[FilePart], rows: pa.Table, state: State, facts: TableFacts
) -> Iterator[FilePart]:
    """Files of one table in one log, each with what hides rows of it.

    Args:
        rows: The same files, in the same order, with `path` and `revision`.
        facts: Of the table, or of the partition asked for.
    Raises:
        CorruptObject: A delete can't be understood.
    Requests: for each tombstone those of `TableFacts.of_files` of its columns.
    """
    table, folder = facts.table, base_folder(state.writer, state.database)
    tombstones = _by_path(state.deletes.of_table(table), rows, facts)
    by_number = state.deletes.rows_of(table)
    if not tombstones and not by_number:
        yield from parts
        return
    for part, path in zip(parts, rows.column("path").to_pylist(), strict=True):
        said = by_number.get(path, ())
        found = tombstones.get(path, ())
        if not said and not found:
            yield part
            continue
        yield replace(part, hidden=_hidden(found, said, folder))


def _hidden(
    tombstones: Iterable[Tombstone], by_number: Iterable[RowDeletes], folder: str
) -> Hidden:
    tests = tuple(TombstoneTest(tombstone) for tombstone in tombstones)
    return Hidden(tests, tuple(bitmap_of(entry, folder) for entry in by_number))


def bitmap_of(entry: RowDeletes, folder: str) -> Bitmap:
    """Where a bitmap lies; `folder` is that of the log."""
    return Bitmap(
        folder + entry.object, entry.offset, entry.length, entry.cardinality, entry.digest
    )


def _by_path(
    tombstones: Sequence[Tombstone], rows: pa.Table, facts: TableFacts
) -> dict[str, list[Tombstone]]:
    """By path the tombstones that may hide rows of a file."""
    found: dict[str, list[Tombstone]] = {}
    if not rows.num_rows:
        return found
    for each in tombstones:
        held = held_by(each, rows)
        if held.any():
            kept = held & ~_spared(each, rows, facts)
            for path in rows.column("path").filter(array(kept)).to_pylist():
                found.setdefault(path, []).append(each)
    return found


def held_by(tombstone: Tombstone, rows: pa.Table) -> np.ndarray:
    """Per file, with `path` and `revision`, whether a tombstone of its table holds of it: by the
    commit that added it last, for a file that comes back has the rows that it had then."""
    held: np.ndarray = numbers(rows.column("revision")) < tombstone.revision
    if tombstone.paths:
        named = column(tombstone.paths, pa.string())
        held &= numbers(pc.is_in(rows.column("path"), named))
    return held


def _spared(tombstone: Tombstone, rows: pa.Table, facts: TableFacts) -> np.ndarray:
    """Per file whether no row of it can meet a tombstone, by its statistics."""
    nothing = np.zeros(rows.num_rows, np.bool_)
    wanted = _as_filter(tombstone)
    if wanted is None:
        return nothing
    sound = [n for n, schema in facts.schemas.items() if _is_plain(tombstone, schema, wanted)]
    if not sound:
        return nothing
    files = facts.files.table(facts.table)
    ruled_out = files.column("path").filter(array(~kept_files(facts, wanted)))
    if not len(ruled_out):
        return nothing
    alike = pc.is_in(rows.column("schema_fingerprint"), column(sound, pa.binary(16)))
    found = numbers(pc.is_in(rows.column("path"), ruled_out.combine_chunks()))
    spared: np.ndarray = np.logical_and(numbers(alike), found)
    return spared


def _as_filter(tombstone: Tombstone) -> RowFilter | None:
    """A tombstone as a filter of a cut, where its columns have no defaults."""
    columns = columns_of(tombstone)
    if columns is None or columns.defaults:
        return None
    target = pa.schema([field.with_type(plain(field.type)) for field in columns.schema])
    found = bound_filter(tombstone, target)
    return None if isinstance(found, str) else RowFilter(found.predicate, target)


def _is_plain(tombstone: Tombstone, schema: pa.Schema, wanted: RowFilter) -> bool:
    """Whether files of a schema have the names and types by which statistics are judged, or
    narrower types."""
    found = bound_filter(tombstone, schema)
    if isinstance(found, str) or found.target.types != wanted.target.types:
        return False
    called = zip(found.target.names, found.names, strict=True)
    return all(own == name or (own is None and name not in schema.names) for name, own in called)
