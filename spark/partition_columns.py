"""Partition columns as Spark has them: columns with one value in each file, which the index of
files tells it, so that it picks files by them exactly, and while a query runs (dynamic pruning).

The names of partitions say which columns to look at, no more: anything may be named `year=2025`.
That a file has one value of a column, and which, the log's statistics say, or, of a column that the
file lacks, its partition's name. Where it isn't known, the column is read like any other.

Source: docs/format.md, section 5.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from ..catalog.data.partition_values import told_by_partition
from ..catalog.format.columns import array, numbers, one_chunk, text_scalar
from ..catalog.format.names import parse_partition
from ..catalog.format.schema import partition_columns
from ..catalog.read.one_values import OneValues, joined, nothing_known, taken
from .arrow_types import MAX_PRECISION, storage
from .filters import SURE_DAY, SURE_MICROS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..catalog.data.shown import Shown
    from ..catalog.read.file_list import FileList
    from ..catalog.read.judged import JudgedFiles

WRITER_COLUMN: Final = "_writer"
"""The column that tells whose a row is, where a user asks for it."""

FILE_COLUMN: Final = "__lakelog_file"
"""The column that names the file of a row, for DELETE, UPDATE and MERGE: its writer, `/`, its
key."""
PLACE_COLUMN: Final = "__lakelog_place"
"""The column that tells the number of a row in its file."""

_MAX_COLUMNS: Final = 32
_MAX_SHARES: Final = 8  # each a relation of its own


def held_type(kind: pa.DataType) -> pa.DataType | None:
    """In which type the file index is given values of a column; None: it can't hold them."""
    kind = storage(kind)
    if kinds.is_boolean(kind) or kinds.is_string(kind) or kinds.is_date32(kind):
        return kind
    if kinds.is_integer(kind):
        return pa.decimal128(20, 0) if kinds.is_uint64(kind) else pa.int64()
    if kinds.is_timestamp(kind) and kind.unit != "ns":  # Spark cuts those
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if kinds.is_decimal(kind) and kind.precision <= MAX_PRECISION and kind.scale >= 0:
        return pa.decimal128(kind.precision, kind.scale)
    return None


def known_values(
    files: FileList,
    target: pa.Schema,
    judged: JudgedFiles,
    *,
    with_writer: bool = False,
    with_places: bool = False,
) -> dict[str, OneValues]:
    """Columns that may be partition columns, by name: in the order of the target, those of the
    writer and of the file at the end.

    Args:
        target: The columns that are read.
        judged: The same files.
    Returns:
        Values are of `held_type`.
    Raises:
        InvalidPartition: A name doesn't tell a column that the file lacks.
    Requests: 1 GET for each piece of statistics of such columns.
    """
    told = _told_columns(files.rows.column("partition"))
    forms = [form.found(target).stored for form in files.forms] if told else []
    found: dict[str, OneValues] = {}
    for wanted in target:
        named = any(stored.get(wanted.name) in told for stored in forms)
        kind = held_type(wanted.type)
        if named and kind is not None and len(found) < _MAX_COLUMNS:
            values = _values_of(files, wanted, kind, judged)
            if values.known.any():
                found[wanted.name] = values
    if with_writer:
        writers = files.rows.column("writer")
        found[WRITER_COLUMN] = OneValues(np.ones(len(writers), np.bool_), writers)
    if with_places:
        names = files_named(files.rows.column("writer"), files.rows.column("key"))
        found[FILE_COLUMN] = OneValues(np.ones(len(names), np.bool_), names)
    return found


def files_named(writers: pa.ChunkedArray, keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of `FILE_COLUMN`."""
    return pc.binary_join_element_wise(writers, keys, text_scalar("/"))


def owner_of(file: str) -> str:
    """The writer that a value of `FILE_COLUMN` names."""
    return file.partition("/")[0]


def _told_columns(partitions: pa.ChunkedArray) -> set[str]:
    """The columns that names of partitions speak of."""
    distinct = one_chunk(partitions).dictionary_encode().dictionary
    # There may be as many names as files, but few once their values are taken out.
    patterns = pc.unique(pc.replace_substring_regex(distinct, "=[^/]*", "="))
    return {name for each in patterns.to_pylist() for name in parse_partition(each)}


def _values_of(
    files: FileList, wanted: pa.Field, kind: pa.DataType, judged: JudgedFiles
) -> OneValues:
    plain = wanted.with_type(storage(wanted.type))
    parts = [_cast(judged.one_values(plain), kind)]
    _leave_out_old(parts[0])
    count = files.rows.num_rows
    where = np.arange(count)
    forms = numbers(files.rows.column("form"))
    for number, form in enumerate(files.forms):
        own = form.found(pa.schema([wanted])).stored.get(wanted.name)
        if own not in partition_columns(form.own):
            continue
        places = np.flatnonzero(forms == number)
        names = one_chunk(files.rows.column("partition").take(array(places))).dictionary_encode()
        where[places] = sum(len(part.known) for part in parts) + numbers(names.indices)
        parts.append(_cast(_by_name(form, own, names.dictionary.to_pylist()), kind))
    return taken(joined(parts), where)


def _by_name(form: Shown, own: str, names: list[str]) -> OneValues:
    """What some names of partitions tell of a column that files lack."""
    values = [told_by_partition(form.own, name, [own])[own] for name in names]
    chunks = [pa.repeat(value, 1) for value in values]
    kind = form.own.field(own).type
    return OneValues(np.ones(len(names), np.bool_), pa.chunked_array(chunks, kind))


def _cast(found: OneValues, kind: pa.DataType) -> OneValues:
    values = found.values
    if values.type == kind:
        return found
    try:
        return OneValues(found.known, values.cast(kind))
    except pa.ArrowException:  # a time that Spark lacks: it says so when it reads it
        return nothing_known(len(values), kind)


def _leave_out_old(found: OneValues) -> None:
    """Let Spark read old dates and times: it moves them in files of its older versions."""
    kind = found.values.type
    if kinds.is_date(kind) or kinds.is_timestamp(kind):
        plain = found.values.cast(pa.int32() if kinds.is_date(kind) else pa.int64())
        old = pc.less(plain, SURE_DAY if kinds.is_date(kind) else SURE_MICROS)
        found.known[numbers(pc.fill_null(old, False))] = False


def shares(found: Mapping[str, OneValues], count: int) -> Iterator[tuple[list[str], np.ndarray]]:
    """The files by the columns of which they have one value: those columns, and places of files.
    Those with most columns come first: by the first part of a union Spark decides whether to prune
    while a query runs.

    Args:
        found: By column.
        count: Of the files.
    """
    codes = np.zeros(count, np.int64)
    for bit, values in enumerate(found.values()):
        codes |= values.known.astype(np.int64) << bit
    each, sizes = np.unique(codes, return_counts=True)
    if len(each) > _MAX_SHARES:
        rare = each[np.argsort(sizes)[: 1 - _MAX_SHARES]]
        codes = np.where(np.isin(codes, rare), np.bitwise_and.reduce(codes), codes)
    for code in sorted(set(codes.tolist()), key=int.bit_count, reverse=True):
        names = [name for bit, name in enumerate(found) if code >> bit & 1]
        yield names, np.flatnonzero(codes == code)


def values_of_files(
    found: Mapping[str, OneValues], names: list[str], places: np.ndarray
) -> pa.Table:
    """Values of some columns in some files."""
    columns = {name: found[name].values.take(array(places)) for name in names}
    return pa.table(columns)
