"""The files of a table by what has to be done to them: those of one schema that are read alike."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ..catalog.data.partition_values import texts_by_partition
from ..catalog.format.columns import array, numbers, one_chunk
from ..catalog.format.schema import partition_columns
from ..errors import InvalidSchema
from .constants import text_of
from .known_files import known_files, of_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from ..catalog.data.shown import Shown
    from ..catalog.read.file_list import FileList
    from .known_files import KnownFiles

MAX_GROUPS: Final = 200  # relations in one union; planning takes a few ms for each


@dataclass(frozen=True)
class FileGroup:
    """Files of one physical schema that are to be treated alike.

    Attributes:
        schema: The Arrow schema as it stands in the files' footers (`pyarrow.parquet.read_schema`),
            not as it was in the writer's memory: Parquet stores some types as others.
        files: As the log knows them.
        hidden: Columns that are in the files but mean something else there (an older generation of
            the name).
        numbers: What `judge` of `read_files` calls them, where it is given.
        values: Texts of columns that the files lack, told by the name of their partition, or
            defaults; None is null.
        renamed: By column what the files call it, where that is something else.
    """

    schema: pa.Schema
    files: KnownFiles
    hidden: frozenset[str] = frozenset()
    numbers: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    values: Mapping[str, str | None] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)


def file_groups(files: FileList, target: pa.Schema) -> list[FileGroup]:
    """The files by form; where only the names of partitions tell a column that is wanted, by these
    as well.

    Raises:
        InvalidSchema: There are too many.
    """
    forms = numbers(files.rows.column("form"))
    known = of_list(files)
    found: list[FileGroup] = []
    told = [
        set(partition_columns(form.own)).intersection(form.found(target).stored.values())
        for form in files.forms
    ]
    for number, form in enumerate(files.forms):
        chosen = np.flatnonzero(forms == number)
        shares = {"": chosen}
        if told[number]:
            shares = _by_partition(files.rows.column("partition").take(array(chosen)), chosen)
        for partition, places in shares.items():
            group = _group(form, partition, target, told[number])
            found.append(replace(group, files=known.take(array(places)), numbers=places))
    if len(found) > MAX_GROUPS and any(told):
        raise InvalidSchema(
            f"Columns that only the names of {len(found):,} partitions tell are too many for "
            "Spark's own reader",
            hint=f"Ask for less by where=, at most {MAX_GROUPS} partitions, or leave them out",
        )
    return found


def _by_partition(names: pa.ChunkedArray, places: np.ndarray) -> dict[str, np.ndarray]:
    """Places of files by partition."""
    encoded = one_chunk(names).dictionary_encode()
    of = numbers(encoded.indices)
    return {name: places[of == at] for at, name in enumerate(encoded.dictionary.to_pylist())}


def _group(form: Shown, partition: str, target: pa.Schema, told: set[str]) -> FileGroup:
    """How files of a form are read."""
    stored, defaults = form.found(target)
    as_named = {name for name, own in stored.items() if own == name}
    hidden = frozenset(set(form.own.names) & set(target.names)) - as_named
    texts = texts_by_partition(form.own, partition, told)
    values = {name: texts[own] for name, own in stored.items() if own in told}
    values |= {name: text_of(value, name) for name, value in defaults.items()}
    renamed = {name: own for name, own in stored.items() if own != name}
    return FileGroup(form.own, known_files([]), hidden, values=values, renamed=renamed)
