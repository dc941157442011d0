"""What runs in Spark's Python workers when rows are changed: rows that come are written, as those
of any write, and rows that go are told to the driver.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ..catalog.format import compute as pc
from .gone_rows import Gone
from .write_task import Job, Told, run

if TYPE_CHECKING:
    from collections.abc import Iterator

# What Spark says of a row, in the first column of its query (RowDeltaUtils).
_DELETE: Final = 1
_UPDATE: Final = 2
_INSERT: Final = 3
_REINSERT: Final = 4


@dataclass(frozen=True)
class ChangeJob:
    """What all tasks of one statement are told.

    Attributes:
        job: How rows that come are written; None: none do.
        new: Which columns of the query have the row that comes.
        old: Which one has the row that goes, whole.
        watched: See `gone_rows.watched_columns`.
        held: Of how many rows that go the values are told.
        key: Of the table: a row that comes takes the place of the older one of its key by itself.
    """

    job: Job | None
    new: tuple[int, ...]
    old: int
    watched: pa.Schema
    held: int
    key: tuple[str, ...]


@dataclass(frozen=True)
class Changed:
    """What a task tells."""

    written: Told
    gone: Gone


def change_rows(job: ChangeJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do one task, as `DataFrame.mapInArrow` calls it: one row of one column comes back."""
    gone = Gone(job.watched, job.held)
    new = _split(job, batches, gone)
    if job.job is None:
        came = sum(batch.num_rows for batch in new)  # whoever reads them notes those that go
        if came:
            raise AssertionError(f"a DELETE makes no rows, and here are {came}")
        told = Told()
    else:
        told = run(job.job, new)
    packed = pickle.dumps(Changed(told, gone))
    yield pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], names=["told"])


def _split(
    job: ChangeJob, batches: Iterator[pa.RecordBatch], gone: Gone
) -> Iterator[pa.RecordBatch]:
    """The rows that come; those that go are noted on the way."""
    for batch in batches:
        gone.add(_old_rows(job, batch.filter(_of(batch, _DELETE, _UPDATE))))
        if job.new:
            comes = batch.filter(_of(batch, _UPDATE, _INSERT, _REINSERT))
            if comes.num_rows:
                yield _columns(comes, job.new)


def _old_rows(job: ChangeJob, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that go, but for those whose place a row of the same key takes."""
    old = rows.column(job.old)
    names = [field.name for field in old.type]
    whole = pa.RecordBatch.from_arrays(old.flatten(), names=names)
    if not (job.key and job.new):
        return whole.select(job.watched.names)
    new = _columns(rows, job.new).rename_columns(names)
    goes = _of(rows, _DELETE)
    for name in job.key:
        same = pc.fill_null(pc.equal(whole.column(name), new.column(name)), False)
        goes = pc.or_(goes, pc.invert(same))
    return whole.filter(goes).select(job.watched.names)


def _columns(rows: pa.RecordBatch, places: tuple[int, ...]) -> pa.RecordBatch:
    names = [rows.schema.names[place] for place in places]
    return pa.RecordBatch.from_arrays([rows.column(place) for place in places], names=names)


def _of(rows: pa.RecordBatch, *what: int) -> pa.Array:
    """Which rows are of some kinds."""
    return pa.array(np.isin(rows.column(0).to_numpy(), what))
