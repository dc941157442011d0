"""The files of a table as Spark is given them: as columns, for there may be millions, and in groups
of one schema that are read alike, and that have one value in the same columns.

Columns with one value in each file are partition columns to Spark, which the index of files gives
it, so that it picks files by them exactly, also while a query runs (dynamic pruning). The names of
partitions say which columns to look at, no more: anything may be named `year=2025`. That a file has
one value of a column, and which, the log's statistics say, or, of a column that the file lacks, its
partition's name. Where it isn't known, the column is read like any other.

Source: docs/format.md, section 5.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from ..catalog.data.partitioned import texts_by_partition, texts_of, told_by_partition
from ..catalog.format.columns import array, numbers, one_chunk, text_scalar
from ..catalog.format.names import parse_partition
from ..catalog.format.schema import partition_columns
from ..catalog.read.file_parts import by_others
from ..catalog.read.file_skipping import OneValues, joined, nothing_known, taken
from ..errors import InvalidSchema
from .access import hadoop_scheme, split_scheme
from .arrow_types import MAX_PRECISION, storage
from .filters import SURE_DAY, SURE_MICROS
from .selection import FILE_COLUMN, WRITER_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from ..catalog.data.unify import Shown
    from ..catalog.read.file_skipping import JudgedFiles
    from ..catalog.read.scan_request import FileList

KnownFiles: TypeAlias = pa.Table
KNOWN: Final = pa.schema({
    "path": pa.string(), "size_bytes": pa.int64(), "footer_bytes": pa.int64(),
    "footer_digest": pa.binary(8),
})  # fmt: skip
_HEAD_CHARS: Final = 16  # that hold the scheme of any URL


def of_list(files: FileList) -> KnownFiles:
    """Files of a table."""
    rows = files.rows.select(["url", *KNOWN.names[1:]]).rename_columns(KNOWN.names)
    return rows.cast(KNOWN)


def paths_of(files: KnownFiles) -> list[str]:
    """Their paths."""
    found: list[str] = files.column("path").to_pylist()
    return found


def hadoop_files(spark: SparkSession, files: KnownFiles) -> KnownFiles:
    """Spell URLs as Hadoop does; a scheme without a connector stays, for Spark to complain of."""
    paths = files.column("path")
    heads = pc.utf8_slice_codeunits(paths, 0, _HEAD_CHARS)
    schemes = {split_scheme(head)[0] if "://" in head else "" for head in _distinct(heads)}
    for scheme in sorted(schemes):
        name = hadoop_scheme(spark, scheme or "file") or scheme
        if scheme == name:
            continue
        if not scheme:
            plain = pc.invert(pc.match_substring(heads, "://"))
            paths = pc.if_else(plain, _behind(f"{name}://", paths), paths)
            continue
        same = pc.starts_with(pc.utf8_lower(heads), f"{scheme}://")
        rest = pc.utf8_slice_codeunits(paths, len(scheme), 1 << 30)
        paths = pc.if_else(same, _behind(name, rest), paths)
    return files.set_column(0, KNOWN.field(0), paths)


def _distinct(values: pa.ChunkedArray) -> list[str]:
    found: list[str] = pc.unique(values).to_pylist()
    return found


def _behind(prefix: str, paths: pa.ChunkedArray) -> pa.ChunkedArray:
    before = text_scalar(prefix)
    return pc.binary_join_element_wise(before, paths, text_scalar(""))


def pack(files: KnownFiles, partitions: pa.Table) -> bytes:
    """Put the files into one byte string, as the file index keeps them.

    Big-endian: their number, those of their folders and of their partitions (4 bytes each); where
    each file's name ends (4 each, from the first name on), the number of its folder (4 each), its
    size (8 each), length and digest of its footer (8 and 8), and, if there are partition columns,
    the number of its partition (4 each); where each folder ends (4 each); column by column where
    the value of each partition ends (4 each), and then whether it is null (1 each); the names, the
    folders, and the values as texts.

    Args:
        partitions: Per file the values of partition columns: of `partition_columns.held_type`.
    """
    paths = one_chunk(files.column("path"))
    folders_of, names_of = _folders_and_names(paths)
    folders = folders_of.dictionary_encode()
    names, name_ends = _bytes_of(names_of)
    texts, folder_ends = _bytes_of(folders.dictionary)
    of_files, rows = _distinct_rows(partitions, len(paths))
    partition_count = rows.num_rows if rows.num_columns else 1
    values = pa.concat_arrays([pa.array([], pa.string()), *map(_texts, rows.columns)])
    value_texts, value_ends = _bytes_of(pc.fill_null(values, ""))
    footers = np.empty((len(paths), 2), ">i8")
    footers[:, 0] = numbers(files.column("footer_bytes"))
    digests = one_chunk(files.column("footer_digest"))
    known = np.frombuffer(digests.buffers()[1] or b"", ">i8")
    footers[:, 1] = known[digests.offset : digests.offset + len(paths)]
    found = (
        np.array([len(paths), len(folders.dictionary), partition_count], ">i4"), name_ends,
        numbers(folders.indices).astype(">i4"), numbers(files.column("size_bytes")).astype(">i8"),
        footers, of_files, folder_ends, value_ends, numbers(pc.is_null(values)).astype(np.uint8),
    )  # fmt: skip
    return b"".join([*(part.tobytes() for part in found), names, texts, value_texts])


def _distinct_rows(rows: pa.Table, count: int) -> tuple[np.ndarray, pa.Table]:
    """Per row the number of those that are like it, and these, each once; of a table without
    columns nothing."""
    if not rows.num_columns:
        return np.empty(0, ">i4"), rows
    codes = np.zeros(count, np.int64)
    for values in rows.columns:
        encoded = one_chunk(values).dictionary_encode(null_encoding="encode")
        own = numbers(encoded.indices).astype(np.int64)
        _, codes = np.unique(codes * (own.max(initial=0) + 1) + own, return_inverse=True)
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    return codes.astype(">i4"), rows.take(array(first))


def _texts(values: pa.ChunkedArray) -> pa.Array:
    """Values as the file index reads them: days and microseconds as numbers."""
    kind = values.type
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        values = values.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    return one_chunk(values.cast(pa.string()))


def _folders_and_names(paths: pa.StringArray) -> tuple[pa.StringArray, pa.StringArray]:
    """What stands before the last slash of each path, and behind it."""
    if not len(paths):
        return paths, paths
    _, offsets, body = paths.buffers()
    ends = np.frombuffer(offsets, np.int32)[paths.offset : paths.offset + len(paths) + 1]
    slashes = np.flatnonzero(np.frombuffer(body, np.uint8)[: ends[-1]] == ord("/"))
    last = slashes[np.searchsorted(slashes, ends[1:]) - 1]
    # Each path as three texts, one behind the other: the folder, the slash, the name.
    cuts = np.append(np.stack([ends[:-1], last, last + 1], axis=1), ends[-1]).astype(np.int32)
    texts = pa.Array.from_buffers(pa.string(), 3 * len(paths), [None, pa.py_buffer(cuts), body])
    places = 3 * np.arange(len(paths))
    return texts.take(array(places)), texts.take(array(places + 2))


def _bytes_of(texts: pa.StringArray) -> tuple[memoryview | bytes, np.ndarray]:
    """Texts one behind the other, and where each ends."""
    if not len(texts):
        return b"", np.empty(0, ">i4")
    _, offsets, body = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(body or b"")[ends[0] : ends[-1]], (ends[1:] - ends[0]).astype(">i4")


# --- Groups ---------------------------------------------------------------------------------------

_YEARS: Final = range(1, 10_000)  # that Spark and Arrow spell alike
MAX_GROUPS: Final = 200  # relations in one union; planning takes a few ms for each


@dataclass(frozen=True)
class FileGroup:
    """Files of one physical schema that are to be treated alike.

    Attributes:
        schema: The Arrow schema as it is in the files' footers (`pyarrow.parquet.read_schema`),
            not as it was in the writer's memory: Parquet stores some types as others.
        files: As the log knows them.
        hidden: Columns that are in the files but mean something else there (a column that was
            dropped or renamed).
        numbers: What `judge` of `read_files` calls them, where it is given.
        values: Texts of columns that the files lack, by the name of their partition, or defaults;
            None is null.
        renamed: By column what the files call it, where that is something else.
        partitions: Columns that the index of files tells, and the value of each file: of
            `partition_columns.held_type`.
        foreign: Whether another program than lakelog may have written them: what their footers say
            of their values proves nothing.
    """

    schema: pa.Schema
    files: KnownFiles
    hidden: frozenset[str] = frozenset()
    numbers: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    values: Mapping[str, str | None] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    partitions: pa.Table = field(default_factory=lambda: pa.table({}))
    foreign: bool = False


def file_groups(
    files: FileList,
    target: pa.Schema,
    known: Mapping[str, OneValues],
    *,
    with_writer: bool = False,
) -> list[FileGroup]:
    """The files by form, by who wrote them, by which of their columns are partition columns, and,
    where columns that are wanted have to be filled in besides, by what they are filled with.

    Args:
        known: Columns that may be partition columns; without any the index of files isn't needed.
        with_writer: Whether the target has a column for it at its end.
    Raises:
        InvalidSchema: There are too many.
    """
    codes = 2 * numbers(files.rows.column("form")) + by_others(files.rows.column("key"))
    as_known = of_list(files)
    found: list[FileGroup] = []
    most = 0
    for names, members in shares(known, len(codes)):
        for code in np.unique(codes[members]).tolist():
            form = files.forms[code // 2]
            places = members[codes[members] == code]
            named_columns = _columns_by_name(form, target, names)
            fill = ["partition"] if named_columns else []
            fill += ["writer"] if with_writer and WRITER_COLUMN not in names else []
            parts = _apart(files.rows, fill, places)
            most += len(parts) if fill else 0
            for values, chosen in parts:
                group = _group(form, values.get("partition", ""), target, named_columns)
                texts = {WRITER_COLUMN: values["writer"]} if "writer" in values else {}
                group = replace(
                    group,
                    files=as_known.take(array(chosen)),
                    values={**group.values, **texts},
                    numbers=chosen,
                    partitions=values_of_files(known, names, chosen),
                    foreign=bool(code % 2),
                )
                found.append(group)
    if most > MAX_GROUPS:
        raise InvalidSchema(
            f"Columns that only the names of {most:,} partitions tell are too many for "
            "Spark's own reader",
            hint=f"Ask for less by where=, at most {MAX_GROUPS} partitions, or leave them out",
        )
    return found


def _columns_by_name(form: Shown, target: pa.Schema, names: list[str]) -> set[str]:
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


def _group(form: Shown, partition: str, target: pa.Schema, named_columns: set[str]) -> FileGroup:
    """How files of a form are read."""
    stored, defaults = form.found(target)
    as_named = {name for name, own in stored.items() if own == name}
    hidden = frozenset(set(form.own.names) & set(target.names)) - as_named
    texts = texts_by_partition(form.own, partition, named_columns)
    values = {name: texts[own] for name, own in stored.items() if own in named_columns}
    values |= {name: text_of(value, name) for name, value in defaults.items()}
    renamed = {name: own for name, own in stored.items() if own != name}
    return FileGroup(form.own, KNOWN.empty_table(), hidden, values=values, renamed=renamed)


# --- Constants ------------------------------------------------------------------------------------


def text_of(value: pa.Scalar, name: str) -> str:
    """Returns a value that isn't null as text. Raises `InvalidSchema`, with the name of its column,
    if no text can be it."""
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


# --- Partition columns ----------------------------------------------------------------------------

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
    named_columns = _named_columns(files.rows.column("partition"))
    forms = [form.found(target).stored for form in files.forms] if named_columns else []
    found: dict[str, OneValues] = {}
    for wanted in target:
        named = any(stored.get(wanted.name) in named_columns for stored in forms)
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


def _named_columns(partitions: pa.ChunkedArray) -> set[str]:
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
