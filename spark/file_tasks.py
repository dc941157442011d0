"""The files of one Spark task, and what reading them takes: packed to be sent to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from ..catalog.data.file_part import FilePart
    from ..catalog.data.shown import Shown

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
        from ..catalog.data.shown import Shown
        from ..catalog.format.schema import unpack_schema

        own, schema = unpack_schema(self.own), unpack_schema(self.schema)
        return Shown(own, schema, dict(self.stored), dict(self.defaults), self.definition)


@dataclass
class Share(InputPartition):
    """The files of one task, and their schemas.

    Attributes:
        files: Each with the number of its schema, and without the schema itself.
        schemas: Packed, and what such files show.
    """

    files: tuple[tuple[FilePart, int], ...]
    schemas: tuple[Form, ...]

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


def share(pack: Sequence[FilePart], whose: Sequence[str] | None = None) -> Share:
    """The files of a task.

    Args:
        whose: In which log each is, where logs may show files of one form differently.
    """
    from ..catalog.data.shown import shown
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
    return Share(tuple(files), tuple(schemas))
