"""What runs in Spark's Python workers when rows are written or changed: Arrow batches come, Parquet
files are put, and one message reports them to the driver, with the rows that are deleted, by file
and number.

What is wrong with the data itself is in the message, so that the driver raises the very error and
Spark doesn't try the task again and again; a store that fails is raised here, for another attempt
may do better.
"""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ..catalog.commit.distributed_write import Part, Share, write_part
from ..catalog.format.columns import numbers
from ..catalog.format.deletes import encode_bitmap
from ..errors import LakelogError, SchemaConflict, UsageError
from ..store import open_store
from .arrow_types import conformed
from .selection import owner_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True)
class Job:
    """The input of all tasks of one write. Never shows what opens the store."""

    url: str
    storage_options: str
    share: Share

    def __repr__(self) -> str:
        return f"Job({self.url!r}, {self.share.meta.table!r})"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a task: what it has written, or why that can't be."""

    part: Part | None = None
    error: LakelogError | None = None


def run(job: Job, batches: Iterable[pa.RecordBatch]) -> Outcome:
    """Write the rows of the task that this process is.

    Raises:
        LakelogError: The store failed; another attempt may be made.
    Requests: Those of `write_part`.
    """
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    store = open_store(job.url, json.loads(job.storage_options))
    rows = conformed(batches, job.share.meta.schema)
    try:
        part = write_part(
            store, job.share, rows, task=context.partitionId(), attempt=context.taskAttemptId()
        )
    except (UsageError, SchemaConflict) as error:
        return Outcome(error=error)
    return Outcome(part=part)


def as_batches(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`run`, as `DataFrame.mapInArrow` calls it: one row of one column comes back."""
    packed = pickle.dumps(run(job, batches))
    yield pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], names=["message"])


def parts(found: Iterable[Outcome]) -> list[Part]:
    """What all tasks have written.

    Raises:
        LakelogError: The error of the first that could not.
    """
    outcomes = list(found)
    for one in outcomes:
        if one.error is not None:
            raise one.error
    return [one.part for one in outcomes if one.part is not None]


# --- Changes of rows ------------------------------------------------------------------------------

# What Spark says of a row, in the first column of its query (RowDeltaUtils).
_DELETE: Final = 1
_UPDATE: Final = 2
_INSERT: Final = 3
_REINSERT: Final = 4


@dataclass(frozen=True)
class ChangeJob:
    """The input of all tasks of one statement.

    Attributes:
        jobs: By writer how rows that come to its log are written; empty: none come.
        inserts: The writer to whose log rows come that have no old version.
        new: Which columns of the query have the row that comes.
        old: Which ones have the file of the row that goes, and its number there.
    """

    jobs: Mapping[str, Job]
    inserts: str
    new: tuple[int, ...]
    old: tuple[int, int]


@dataclass(frozen=True)
class Changed:
    """The outcome of a task that changes rows.

    Attributes:
        written: By writer.
        gone: By file a bitmap of the rows that go.
    """

    written: Mapping[str, Outcome]
    gone: Mapping[str, bytes]


def change_rows(job: ChangeJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do one task, as `DataFrame.mapInArrow` calls it: one row of one column comes back.

    Args:
        batches: Of the query; rows that come to one log one after the other.
    """
    gone: dict[str, list[np.ndarray]] = defaultdict(list)
    written: dict[str, Outcome] = {}
    for writer, some in groupby(_by_owner(job, batches, gone), key=lambda pair: pair[0]):
        if writer in written:
            raise AssertionError(f"rows of {writer} come twice")
        written[writer] = run(job.jobs[writer], (batch for _, batch in some))
    bitmaps = {file: _bitmap(file, rows) for file, rows in gone.items()}
    packed = pickle.dumps(Changed(written, bitmaps))
    yield pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], names=["message"])


def _by_owner(
    job: ChangeJob, batches: Iterator[pa.RecordBatch], gone: dict[str, list[np.ndarray]]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows that come, with the writer to whose log; those that go are noted on the way."""
    for batch in batches:
        for file, rows in _apart(batch.filter(_of(batch, _DELETE, _UPDATE)), job.old[0]):
            if file is None:
                raise AssertionError("a row goes, and nothing says of which file")
            gone[file].append(numbers(rows.column(job.old[1])))
        if not job.new:
            continue
        comes = batch.filter(_of(batch, _UPDATE, _INSERT, _REINSERT))
        found: dict[str, list[pa.RecordBatch]] = {}
        for file, rows in _apart(comes, job.old[0]):
            owner = job.inserts if file is None else owner_of(file)
            found.setdefault(owner, []).append(_columns(rows, job.new))
        yield from ((owner, rows) for owner, some in found.items() for rows in some)


def _apart(rows: pa.RecordBatch, by: int) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Rows by the text in one column, in the order in which each is first met."""
    if not rows.num_rows:
        return
    coded = rows.column(by).dictionary_encode(null_encoding="encode")
    codes = numbers(coded.indices)
    names = coded.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], rows
        return
    for code, name in enumerate(names):
        yield name, rows.filter(pa.array(codes == code))


def _bitmap(file: str, rows: list[np.ndarray]) -> bytes:
    found = np.unique(np.concatenate(rows))
    if found[0] < 0:
        raise AssertionError(f"a row of {file} goes, and nothing says which")
    return encode_bitmap(found.astype(np.uint32))


def _columns(rows: pa.RecordBatch, places: tuple[int, ...]) -> pa.RecordBatch:
    names = [rows.schema.names[place] for place in places]
    return pa.RecordBatch.from_arrays([rows.column(place) for place in places], names=names)


def _of(batch: pa.RecordBatch, *what: int) -> pa.Array:
    """Which rows are of some kinds."""
    return pa.array(np.isin(batch.column(0).to_numpy(), what))
