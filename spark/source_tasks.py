"""The tasks of `format("lakelog")` when it reads: files, or steps of `catalog.changes`, and what
reading them takes, packed to be sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql.datasource import InputPartition

from ..errors import ObjectNotFound, UsageError, some_names
from ..store.places import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ..catalog.data.file_part import FilePart
    from ..catalog.data.scan import Projection
    from ..catalog.data.unify import Shown
    from ..catalog.format.cut import Cut
    from ..catalog.read.commits_between import Found, Seen, Stamp
    from .source_options import SourceAccess

PARTITION_BYTES: Final = 128 << 20
PARTITION_FILES: Final = 1_000
_T = TypeVar("_T")


@dataclass(frozen=True)
class Form:
    """What files of one form show, to be sent to a task: `Shown`, packed."""

    own: bytes
    schema: bytes
    stored: tuple[tuple[str, str], ...]
    defaults: tuple[tuple[str, pa.Scalar], ...]
    definition: bytes

    def unpacked(self) -> Shown:
        from ..catalog.data.unify import Shown
        from ..catalog.format.schema import unpack_schema

        own, schema = unpack_schema(self.own), unpack_schema(self.schema)
        return Shown(own, schema, dict(self.stored), dict(self.defaults), self.definition)


@dataclass
class Share(InputPartition):
    """The files of one task, and their schemas.

    Attributes:
        files: Each with the number of its schema, and without the schema itself.
        schemas: Packed, and what such files show.
        owner: Whose they are, where all are one writer's and that is asked for.
    """

    files: tuple[tuple[FilePart, int], ...]
    schemas: tuple[Form, ...]
    owner: str = ""

    def parts(self) -> list[FilePart]:
        """Its files, whole."""
        forms = [form.unpacked() for form in self.schemas]
        return [
            replace(part, schema=forms[number].own, shown=forms[number])
            for part, number in self.files
        ]


def packs(items: Iterable[_T], size_bytes: Callable[[_T], int]) -> Iterator[list[_T]]:
    """Files packed into tasks: a task of its own for each of many small ones costs 40 ms.

    Args:
        size_bytes: Of the file that an item is about.
    """
    pack: list[_T] = []
    packed_bytes = 0
    for item in items:
        more = size_bytes(item)
        if pack and (packed_bytes + more > PARTITION_BYTES or len(pack) >= PARTITION_FILES):
            yield pack
            pack, packed_bytes = [], 0
        pack.append(item)
        packed_bytes += more
    if pack:
        yield pack


def share(
    pack: Sequence[FilePart], whose: Sequence[str] | None = None, *, owner: str = ""
) -> Share:
    """The files of a task.

    Args:
        whose: In which log each is, where logs may show files of one form differently.
        owner: See `Share`.
    """
    from ..catalog.data.unify import shown
    from ..catalog.format.schema import pack_schema

    numbers: dict[tuple[str, bytes, bytes], int] = {}
    schemas: list[Form] = []
    files: list[tuple[FilePart, int]] = []
    for part, writer in zip(pack, whose or [""] * len(pack), strict=True):
        name = (writer, *part.form)
        number = numbers.get(name)
        if number is None:
            number = numbers[name] = len(schemas)
            form = part.shown or shown(part.schema, None)
            schemas.append(
                Form(
                    pack_schema(form.own),
                    pack_schema(form.schema),
                    tuple(form.stored.items()),
                    tuple(form.defaults.items()),
                    form.definition,
                )
            )
        files.append((replace(part, schema=None, shown=None), number))
    return Share(tuple(files), tuple(schemas), owner)


# --- Rows that came or went -----------------------------------------------------------------------

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
        whose: What of which table is read, between which cuts, and what to do where a file of
            these is gone: in words.
    """

    share: Share
    steps: tuple[_Step, ...]
    together: dict[object, tuple[tuple[Seen, Seen], ...]]
    read: bytes
    whose: str = ""


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


def told_whose(tasks: Sequence[InputPartition], whose: str) -> list[InputPartition]:
    """The same tasks, which know what they are of: see `StepTask.whose`."""
    return [replace(each, whose=whose) if isinstance(each, StepTask) else each for each in tasks]


def cut_words(cut: Cut) -> str:
    """A cut, as revisions."""
    named = [f"{writer}={number}" for writer, number in sorted(cut.revisions.items())]
    return some_names(named) if named else "the beginning"


def read_task(
    access: SourceAccess, task: Any, schema: StructType, *, about: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of a task, in Arrow batches of exactly the schema that Spark wants.

    Args:
        about: Whether that has the columns of `ABOUT`.
    Raises:
        ObjectNotFound: A file is gone: says between which cuts it is read, and what to do.
    Requests: 1 or more GET a file.
    """
    from ..catalog.data.scan import Projection
    from ..catalog.format.schema import unpack_schema
    from ..catalog.read.commits_between import RowStep, step_batches
    from .arrow_types import as_spark, exchanged

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
    try:
        for batch in found:
            yield as_spark(batch.select(wanted.names), wanted)
    except ObjectNotFound as error:
        if not is_url(str(error.key)):  # else it says already whose file it is
            error.hint = f"The data file is gone: deleted by hand, or by gc. {task.whose}"
        raise
