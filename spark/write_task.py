"""What runs in Spark's Python workers when a frame is written: Arrow batches come, Parquet files
go, one message tells of them.

What is wrong with the data itself is told in the message, so that the driver raises the very error
and Spark doesn't try the task again and again; a store that fails is raised here, for another
attempt may do better.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..catalog.commit.shares import Part, Share, write_part
from ..errors import LakelogError, SchemaConflict, UsageError
from ..store import open_store
from .write_types import conformed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True)
class Job:
    """What all tasks of one write are told. Never shows what opens the store."""

    url: str
    storage_options: str
    share: Share

    def __repr__(self) -> str:
        return f"Job({self.url!r}, {self.share.meta.table!r})"


@dataclass(frozen=True)
class Told:
    """What a task tells: what it has written, or why that can't be."""

    part: Part | None = None
    error: LakelogError | None = None


def run(job: Job, batches: Iterable[pa.RecordBatch]) -> Told:
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
        return Told(error=error)
    return Told(part=part)


def as_batches(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`run`, as `DataFrame.mapInArrow` calls it: one row of one column comes back."""
    told = pickle.dumps(run(job, batches))
    yield pa.RecordBatch.from_arrays([pa.array([told], pa.binary())], names=["told"])


def parts(found: Iterable[Told]) -> list[Part]:
    """What all tasks have written.

    Raises:
        LakelogError: What the first of those told that could not.
    """
    told = list(found)
    for one in told:
        if one.error is not None:
            raise one.error
    return [one.part for one in told if one.part is not None]
