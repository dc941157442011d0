"""What hides rows of the live files of a table: the deletes of their log, as far as statistics
leave them any row to hide.

Source: docs/format.md, sections 5.6 and 5.7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject, InvalidPredicate, SchemaConflict
from ..data.hidden import Bitmap, Hidden
from ..data.unify import shown
from ..format import compute as pc
from ..format.columns import array, column, numbers
from ..format.definitions import decode_definition
from ..format.names import base_folder
from ..format.schema import plain, widen
from ..wire import lakelog_transaction_pb2 as wire
from .row_filter import RowFilter
from .scan_request import kept_files
from .table_facts import TableFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..data.file_part import FilePart
    from ..format.definitions import Definition
    from ..log.changelog import View
    from ..log.deletes import RowDeletes, Tombstone
    from ..log.state import State
    from ..where.tree import Predicate
    from .cut_tables import CutTables
    from .scan_request import Asked


# --- Delete predicates, bound to the columns of files ---------------------------------------------


@dataclass(frozen=True, slots=True)
class TombstoneTest:
    """A tombstone as a test of rows."""

    tombstone: Tombstone

    def bound(self, schema: pa.Schema, key: str) -> TombstoneFilter:
        """Returns its predicate for files of a schema. Raises `SchemaConflict` if a column has no
        common type with the file's, and `CorruptObject` if the tombstone can't be understood."""
        return _filter_of(self.tombstone, schema, key)


@dataclass(frozen=True, slots=True)
class TombstoneFilter:
    """A tombstone's predicate, bound to one schema of files.

    Attributes:
        predicate: Bound to `target`.
        target: The columns that it looks at.
        names: Per column its name in the file; None: the file has none.
        defaults: By column that the file has not its one value, where that isn't null.
    """

    predicate: Predicate
    target: pa.Schema
    names: tuple[str | None, ...]
    defaults: Mapping[str, pa.Scalar]

    def true_of(self, batch: pa.RecordBatch, key: str) -> np.ndarray:
        """Of which rows of a batch the predicate is true."""
        from ..where.emit import mask

        columns = []
        try:
            for name, field in zip(self.names, self.target, strict=True):
                if name is None:
                    default = self.defaults.get(field.name, pa.scalar(None, field.type))
                    columns.append(pa.repeat(default.cast(field.type), batch.num_rows))
                    continue
                values = batch.column(batch.schema.get_field_index(name))
                same = values.type.equals(field.type)
                columns.append(values if same else values.cast(field.type))
        except pa.ArrowInvalid as error:
            raise SchemaConflict(
                f"{key} holds a value that is beyond the type by which rows were deleted: {error}",
                key=key,
                hint="Read a point in time before the delete, or leave the writer's files out",
            ) from error
        if not columns:
            return np.full(batch.num_rows, _constant(self.predicate))
        found = mask(self.predicate, pa.RecordBatch.from_arrays(columns, schema=self.target))
        return numbers(found).astype(np.bool_) & numbers(pc.is_valid(found)).astype(np.bool_)


def _constant(predicate: Any) -> bool:
    """What a predicate that looks at no column is of every row."""
    return getattr(predicate, "value", None) is True


def _filter_of(tombstone: Tombstone, schema: pa.Schema, key: str) -> TombstoneFilter:
    found = bound_filter(tombstone, schema)
    if isinstance(found, TombstoneFilter):
        return found
    raise SchemaConflict(
        f"Rows of table {tombstone.table!r} were deleted by column {found!r}, whose type in {key} "
        "has no common type with the one it had then",
        key=key,
        hint="Read a point in time before the delete; the file can't be read since",
    )


def bound_filter(tombstone: Tombstone, schema: pa.Schema) -> TombstoneFilter | str:
    """Returns a tombstone's predicate for files of a schema; the name of a column if types forbid
    it. Raises `CorruptObject` if the tombstone can't be understood."""
    fields: list[pa.Field] = []
    names: list[str | None] = []
    columns = columns_of(tombstone)
    form = shown(schema, columns) if columns is not None else None
    for field in columns.schema if columns is not None else ():
        name = form.stored.get(field.name) if form is not None else None
        kind = plain(field.type)
        if name is not None:
            common = widen(kind, schema.field(name).type)
            if common is None:
                return str(field.name)
            kind = common
        fields.append(pa.field(field.name, kind))
        names.append(name)
    target = pa.schema(fields)
    try:
        predicate = _parsed(tombstone.predicate, target, tombstone.table)
    except InvalidPredicate as error:
        raise _not_understood(tombstone, str(error)) from error
    return TombstoneFilter(predicate, target, tuple(names), {} if form is None else form.defaults)


@lru_cache(maxsize=256)
def _parsed(text: str, target: pa.Schema, table: str) -> Predicate:
    """Schemas that differ in metadata alone are equal: these have none."""
    from ..where.parse import parse_where

    return parse_where(text, target, table)


def columns_of(tombstone: Tombstone) -> Definition | None:
    """Returns the columns that a tombstone names, as they were, or None. Raises `CorruptObject`."""
    return _decoded(tombstone.columns, tombstone.where) if tombstone.columns else None


@lru_cache(maxsize=256)
def _decoded(columns: bytes, where: str) -> Definition:
    return decode_definition(wire.Definition.FromString(columns), where)


def _not_understood(tombstone: Tombstone, problem: str) -> CorruptObject:
    return CorruptObject(
        f"{tombstone.where} deletes rows of table {tombstone.table!r} in a way that can't be "
        f"understood: {problem}",
        key=tombstone.where,
        hint="Was it written by a newer lakelog? Points in time before it can be read",
    )


# --- Which rows of files deletes hide -------------------------------------------------------------


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
    """Returns by path what deletes may hide of the live files of a table in one log. Raises
    `CorruptObject` if a delete can't be understood.

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
