"""Rows that came or went, as Spark's tasks read them: the steps of `catalog.changes`, packed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from ..errors import UsageError
from .file_tasks import Share, packs, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ..catalog.data.scan import Projection
    from ..catalog.read.commits_between import Found
    from ..catalog.read.step_rows import Seen, Stamp
    from .source_options import SourceAccess

# Of a step all but its file: writer, which file, sign, before, after, stamp, place.
_Step = tuple[str, object, int, "Seen", "Seen", "Stamp", int | None]


@dataclass
class StepTask(InputPartition):
    """The steps of one task.

    Attributes:
        share: Their files.
        steps: As `RowStep`, without the files.
        together: Of files with several steps all of them.
        read: The schema by which files are read, packed.
    """

    share: Share
    steps: tuple[_Step, ...]
    together: dict[object, tuple[tuple[Seen, Seen], ...]]
    read: bytes


def step_tasks(found: Found, projection: Projection) -> list[InputPartition]:
    """Steps packed into tasks."""
    from ..catalog.format.schema import pack_schema

    read = pack_schema(projection.read)
    tasks: list[InputPartition] = []
    for pack in packs(found.steps, lambda step: step.part.size_bytes):
        files = share([step.part for step in pack], [step.writer for step in pack])
        steps = [
            (each.writer, each.file, each.sign, each.before, each.after, each.stamp, each.place)
            for each in pack
        ]
        several = {each.file for each in pack if each.place is not None}
        together = {file: tuple(found.together(file)) for file in several}
        tasks.append(StepTask(files, tuple(steps), together, read))
    return tasks


def read_task(
    access: SourceAccess, task: Any, schema: StructType, *, about: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of a task, in Arrow batches of exactly the schema that Spark wants.

    Args:
        about: Whether that has the columns of `ABOUT`.
    Requests: 1 or more GET a file.
    """
    from ..catalog.data.scan import Projection
    from ..catalog.format.schema import unpack_schema
    from ..catalog.read.step_rows import RowStep, step_batches
    from .arrow_batches import as_spark, exchanged

    if not isinstance(task, StepTask):
        if task is None or task.value is None:  # Spark calls so where there is no partition
            return
        raise UsageError(f"{type(task).__name__} is no partition of format('lakelog')")
    wanted = exchanged(schema)
    steps = [
        RowStep(writer, file, part, sign, before, after, stamp, place)
        for (writer, file, sign, before, after, stamp, place), part in zip(
            task.steps, task.share.parts(), strict=True
        )
    ]
    projection = Projection(unpack_schema(task.read))
    store = access.open().wide
    found = step_batches(store, steps, task.together.__getitem__, projection, about=about)
    for batch in found:
        yield as_spark(batch.select(wanted.names), wanted)
