"""The files of a table by what has to be done to them: those of one schema that are read alike, and
that have one value in the same columns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from ..catalog.data.partition_values import texts_by_partition
from ..catalog.data.partitioned import texts_of
from ..catalog.format.columns import array, numbers, one_chunk
from ..catalog.format.schema import partition_columns
from ..errors import InvalidSchema
from .known_files import known_files, of_list
from .partition_columns import WRITER_COLUMN, shares, values_of_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..catalog.data.shown import Shown
    from ..catalog.read.file_list import FileList
    from ..catalog.read.one_values import OneValues
    from .known_files import KnownFiles

_YEARS: Final = range(1, 10_000)  # that Spark and Arrow spell alike
MAX_GROUPS: Final = 200  # relations in one union; planning takes a few ms for each


@dataclass(frozen=True)
class FileGroup:
    """Files of one physical schema that are to be treated alike.

    Attributes:
        schema: The Arrow schema as it stands in the files' footers (`pyarrow.parquet.read_schema`),
            not as it was in the writer's memory: Parquet stores some types as others.
        files: As the log knows them.
        hidden: Columns that are in the files but mean something else there (a column that was
            dropped or renamed).
        numbers: What `judge` of `read_files` calls them, where it is given.
        values: Texts of columns that the files lack, told by the name of their partition, or
            defaults; None is null.
        renamed: By column what the files call it, where that is something else.
        partitions: Columns that the index of files tells, and the value of each file: of
            `partition_columns.held_type`.
    """

    schema: pa.Schema
    files: KnownFiles
    hidden: frozenset[str] = frozenset()
    numbers: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    values: Mapping[str, str | None] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    partitions: pa.Table = field(default_factory=lambda: pa.table({}))


def file_groups(
    files: FileList,
    target: pa.Schema,
    known: Mapping[str, OneValues],
    *,
    with_writer: bool = False,
) -> list[FileGroup]:
    """The files by form, and by which of their columns are partition columns; where columns that
    are wanted have to be filled in besides, by what they are filled with as well.

    Args:
        known: Columns that may be partition columns; without any the index of files isn't needed.
        with_writer: Whether the target has a column for it at its end.
    Raises:
        InvalidSchema: There are too many.
    """
    forms = numbers(files.rows.column("form"))
    as_known = of_list(files)
    found: list[FileGroup] = []
    most = 0
    for names, members in shares(known, len(forms)):
        for number in np.unique(forms[members]).tolist():
            form = files.forms[number]
            places = members[forms[members] == number]
            told = _told(form, target, names)
            fill = ["partition"] if told else []
            fill += ["writer"] if with_writer and WRITER_COLUMN not in names else []
            parts = _apart(files.rows, fill, places)
            most += len(parts) if fill else 0
            for values, chosen in parts:
                group = _group(form, values.get("partition", ""), target, told)
                texts = {WRITER_COLUMN: values["writer"]} if "writer" in values else {}
                found.append(
                    replace(
                        group,
                        files=as_known.take(array(chosen)),
                        numbers=chosen,
                        values={**group.values, **texts},
                        partitions=values_of_files(known, names, chosen),
                    )
                )
    if most > MAX_GROUPS:
        raise InvalidSchema(
            f"Columns that only the names of {most:,} partitions tell are too many for "
            "Spark's own reader",
            hint=f"Ask for less by where=, at most {MAX_GROUPS} partitions, or leave them out",
        )
    return found


def _told(form: Shown, target: pa.Schema, names: list[str]) -> set[str]:
    """What the names of partitions tell, as the files call it, beside some columns."""
    stored = form.found(target).stored
    wanted = {own for name, own in stored.items() if name not in names}
    return wanted.intersection(partition_columns(form.own))


def _apart(
    rows: pa.Table, by: list[str], places: np.ndarray
) -> list[tuple[dict[str, str], np.ndarray]]:
    """Places of files by the values of some columns of texts."""
    found: list[tuple[dict[str, str], np.ndarray]] = [({}, places)]
    for name in by:
        finer = []
        for values, members in found:
            encoded = one_chunk(rows.column(name).take(array(members))).dictionary_encode()
            of = numbers(encoded.indices)
            for at, text in enumerate(encoded.dictionary.to_pylist()):
                finer.append(({**values, name: text}, members[of == at]))
        found = finer
    return found


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


# --- Constants ------------------------------------------------------------------------------------


def text_of(value: pa.Scalar, name: str) -> str:
    """A value that isn't null.

    Args:
        name: Of its column, for errors.
    Raises:
        InvalidSchema: No text tells it.
    """
    kind = value.type
    if kinds.is_floating(kind) and math.isfinite(value.as_py()):
        return repr(value.as_py())
    plain = (
        kinds.is_boolean(kind)
        or kinds.is_integer(kind)
        or kinds.is_string(kind)
        or kinds.is_decimal(kind)
    )
    timed = kinds.is_date32(kind) or (kinds.is_timestamp(kind) and kind.unit != "ns")
    if plain or (timed and _year(value) in _YEARS):
        (text,) = texts_of(pa.chunked_array([pa.repeat(value, 1)]))
        assert text is not None
        return text
    raise InvalidSchema(
        f"Column {name!r} has a default of type {kind}, which Spark's own reader can't fill in",
        key=name,
    )


def _year(value: pa.Scalar) -> int:
    """The year of a time in UTC; 0 if Python can't tell."""
    try:
        return int(value.as_py().year)
    except (ValueError, OverflowError):
        return 0
