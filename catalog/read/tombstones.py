"""Tombstones as tests of rows.

A predicate is decided on the file's own values, whatever the table's columns have become since: a
tombstone knows what files called its columns, and which value those have that lack one.

Source: docs/format.md, section 5.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject, InvalidPredicate, SchemaConflict
from ..data.shown import shown
from ..format import compute as pc
from ..format.columns import numbers
from ..format.definitions import decode_definition
from ..format.schema import plain, widen
from ..wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..format.definitions import Definition
    from ..log.deletes import Tombstone
    from ..where.tree import Predicate


@dataclass(frozen=True, slots=True)
class TombstoneTest:
    """A tombstone as a test of rows."""

    tombstone: Tombstone

    def bound(self, schema: pa.Schema, key: str) -> TombstoneFilter:
        """Its predicate for files of a schema.

        Raises:
            SchemaConflict: A column has another type in the file, and none in common.
            CorruptObject: The tombstone can't be understood.
        """
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
        from ..where.arrow import mask

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
    """A tombstone's predicate for files of a schema; the name of a column if types forbid it.

    Raises:
        CorruptObject: The tombstone can't be understood.
    """
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
    """The columns that a tombstone names, as they were; None if it names none.

    Raises:
        CorruptObject: They can't be read.
    """
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
