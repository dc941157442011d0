"""Parquet files as the log knows them, to be handed to Spark: as columns, for there may be millions
of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..catalog.data.parquet import UNKNOWN_DIGEST
from ..catalog.format.columns import array, column, numbers, one_chunk, text_scalar
from .hadoop import hadoop_scheme, split_scheme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from ..catalog.read.file_list import FileList

KnownFiles: TypeAlias = pa.Table
KNOWN: Final = pa.schema(
    {
        "path": pa.string(),
        "size_bytes": pa.int64(),
        "footer_bytes": pa.int64(),
        "footer_digest": pa.binary(8),
    }
)
_HEAD_CHARS: Final = 16  # that hold the scheme of any URL


class KnownFile(NamedTuple):
    """A file as the log knows it.

    Attributes:
        path: Path or URL, raw (never percent-encoded).
        size_bytes: Exact.
        footer_bytes, footer_digest: Of its footer; 0 or zeros: unknown.
    """

    path: str
    size_bytes: int
    footer_bytes: int = 0
    footer_digest: bytes = UNKNOWN_DIGEST


def known_files(files: Sequence[KnownFile]) -> KnownFiles:
    """Some files as columns: those of `KNOWN`."""
    columns = zip(*files, strict=True) if files else ((),) * len(KNOWN)
    arrays = [column(list(values), f.type) for values, f in zip(columns, KNOWN, strict=True)]
    return pa.Table.from_arrays(arrays, schema=KNOWN)


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
        np.array([len(paths), len(folders.dictionary), partition_count], ">i4"),
        name_ends,
        numbers(folders.indices).astype(">i4"),
        numbers(files.column("size_bytes")).astype(">i8"),
        footers,
        of_files,
        folder_ends,
        value_ends,
        numbers(pc.is_null(values)).astype(np.uint8),
    )
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
