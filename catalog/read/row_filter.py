"""What `where=` asks for, made ready for a table of a cut: bound to the types that its columns have
there, in SQL or as a pyarrow expression.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import InvalidPredicate, SchemaConflict, UsageError
from ..data.unify import agreed, only, unify
from ..where.tree import (
    And,
    Compare,
    Constant,
    In,
    Not,
    Or,
    all_of,
    any_of,
    columns_of,
    family,
    negation,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..data.unify import FileSchema
    from ..where.tree import Predicate


_BY_PLACE: Final = "FieldPath("  # how pyarrow spells pc.field(0)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """What rows of a table are asked for.

    Attributes:
        predicate: Bound to the cut's schema; nothing that it rules out meets the filter.
        target: The columns that it looks at, as the cut has them.
        expression: A pyarrow expression that decides in its place, and may say more. It may name
            columns by their place in `target`.
    """

    predicate: Predicate
    target: pa.Schema
    expression: Any = None

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that are asked for."""
        if self.expression is not None:
            names, first = batch.schema.names, self.target.names
            ordered = batch.select([*first, *(name for name in names if name not in first)])
            found = _filtered(pa.Table.from_batches([ordered]), self.expression)
            return _one_batch(found.select(names))
        from ..where.emit import mask

        return batch.filter(mask(self.predicate, batch))


def _filtered(rows: pa.Table, expression: Any) -> pa.Table:
    try:
        return rows.filter(expression)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InvalidPredicate(
            f"pyarrow can't filter by this expression: {error}",
            key=str(expression)[:200],
            hint="Compare columns of the table with values of their types",
        ) from error


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def row_filter(
    where: Any, schemas: Sequence[FileSchema], table: str, *, decides: bool = True
) -> RowFilter:
    """A filter from what a user gave.

    Args:
        where: SQL text, or a pyarrow expression.
        schemas: Of the files that are read.
        decides: Whether rows are filtered by it; else it is for skipping only.
    Raises:
        InvalidPredicate: It isn't a predicate over this table.
        SchemaConflict: Files disagree about the type of a column that it looks at.
        UsageError: Neither text nor an expression.
    """
    if isinstance(where, str):
        return _of_text(where, schemas, table)
    if not _is_expression(where):
        raise UsageError(
            f"where= is SQL text or a pyarrow expression, not {type(where).__name__}",
            hint='Give something like "temp > 30 AND hour < 6"',
        )
    from ..where.from_arrow import from_arrow

    by_place = _BY_PLACE in str(where)
    whole, conflicts = (unify(schemas, table), {}) if by_place else agreed(schemas, table)
    if decides or conflicts:
        try:
            _filtered(whole.empty_table(), where)
        except InvalidPredicate:
            _raise_conflict(conflicts, str(where))
            raise
    predicate = from_arrow(where, whole)
    if predicate is None:  # not understood: Arrow filters by it, and nothing is skipped
        return RowFilter(Constant(True), whole, where)
    if not decides:
        predicate = _however_nan_compares(predicate)
    return RowFilter(predicate, whole if by_place else _chosen(whole, predicate), where)


def _however_nan_compares(predicate: Predicate, *, wanted: bool = True) -> Predicate:
    """A predicate that NaN meets in any comparison: for engines that compare it otherwise.

    Args:
        wanted: Whether it is to be true; else, inside of NOT, to be false.
    """
    if isinstance(predicate, Not):
        return negation(_however_nan_compares(predicate.item, wanted=not wanted))
    if isinstance(predicate, And | Or):
        items = [_however_nan_compares(item, wanted=wanted) for item in predicate.items]
        return all_of(items) if isinstance(predicate, And) else any_of(items)
    if not isinstance(predicate, Compare | In) or family(predicate.column.kind) != "float":
        return predicate
    nan = Compare(predicate.column, ">", math.inf)
    return any_of([predicate, nan]) if wanted else all_of([predicate, negation(nan)])


def _is_expression(where: Any) -> bool:
    if type(where).__module__.split(".")[0] != "pyarrow":
        return False
    import pyarrow.compute as pc

    return isinstance(where, pc.Expression)


def _of_text(where: str, schemas: Sequence[FileSchema], table: str) -> RowFilter:
    from ..where.parse import parse_where

    whole, conflicts = agreed(schemas, table)
    try:
        predicate = parse_where(where, whole, table)
    except InvalidPredicate:
        _raise_conflict(conflicts, where)
        raise
    return RowFilter(predicate, _chosen(whole, predicate))


def columns_of_text(where: str, schemas: Sequence[FileSchema], table: str) -> pa.Schema:
    """The columns that a sound predicate names, as the cut has them."""
    from ..where.parse import columns_in

    whole, _ = agreed(schemas, table)
    return only(whole, set(columns_in(where, whole, table)))


def _raise_conflict(conflicts: Mapping[str, SchemaConflict], where: str) -> None:
    """Raise the conflict about a column that a filter names, if there is one."""
    for name, conflict in conflicts.items():
        if name.lower() in where.lower():
            raise conflict from None


def _chosen(schema: pa.Schema, predicate: Predicate) -> pa.Schema:
    return only(schema, set(columns_of(predicate)))
