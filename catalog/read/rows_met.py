"""Rows that meet a predicate, and files that surely hold no others: for operations that replace
rows, where each row that doesn't meet it has to stay.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ..data.shown import readable_columns
from ..data.unify import conform
from ..format.columns import array, is_null, numbers

if TYPE_CHECKING:
    from .row_filter import RowFilter
    from .table_facts import TableFacts


class Judged(NamedTuple):
    """Per live file, in the order of `Files.table`, what is known of its rows.

    Attributes:
        some: Whether one may meet a predicate.
        all: Whether each does, for certain.
    """

    some: np.ndarray
    all: np.ndarray


def judge_files(facts: TableFacts, wanted: RowFilter) -> Judged:
    """Judge the live files of a table by the log's statistics.

    Requests: as `TableFacts.of_files`.
    """
    some, every = [np.zeros(0, np.bool_)], [np.zeros(0, np.bool_)]
    for source in facts.of_files(wanted.target.names):
        found = source.units.judge(wanted)
        some.append(found.true[source.live])
        # An expression may rule out rows that the predicate lets through.
        sure = found.true & ~found.false & ~found.null & (wanted.expression is None)
        every.append(sure[source.live])
    return Judged(np.concatenate(some), np.concatenate(every))


def meets(wanted: RowFilter, batch: pa.RecordBatch) -> np.ndarray:
    """Per row of a batch of one file whether it meets a predicate: true, not false and not null.

    Args:
        batch: With the columns and types of the file, in whose metadata ids stand.
    """
    if wanted.expression is None and not wanted.target.names:
        rows = batch  # a constant
    else:
        own = batch.select(readable_columns(batch.schema, wanted.target))
        rows = conform(own, wanted.target)
    if wanted.expression is None:
        from ..where.arrow import mask

        said = mask(wanted.predicate, rows)
        true: np.ndarray = numbers(said).astype(np.bool_) & ~is_null(said)
        return true
    name = "row"
    while name in rows.schema.names:
        name += "_"
    count = array(np.arange(batch.num_rows, dtype=np.int64))
    numbered = pa.Table.from_batches([rows]).append_column(name, count)
    met = np.zeros(batch.num_rows, np.bool_)
    met[numbers(numbered.filter(wanted.expression).column(name))] = True
    return met
