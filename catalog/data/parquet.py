"""Parquet bytes from data, and what the log keeps of a Parquet file's metadata. No store: bytes in,
bytes out.

Source: docs/format.md, sections 5.1, 5.2 and 8.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import InvalidSchema, StorageError, UsageError, it_has
from ..format import compute as pc
from ..format.footer import FLOATS, FooterMetadata, encode_footer
from ..format.schema import encode_schema, plain
from ..format.statistics import (
    column_statistics,
    encode_floats,
    fit,
    float_statistics,
    is_float,
    tell_floats,
    unwrapped,
)
from ..scalars import value_of
from ..wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..format.schema import EncodedSchema


FALSE_POSITIVES: Final = (
    0.01  # one in a hundred row groups is read for nothing: 10 to 20 bits a value
)


def check_bloom(columns: Sequence[str], schema: pa.Schema) -> Sequence[str]:
    """The columns that are to have bloom filters, if they can.

    Raises:
        UsageError: One isn't there, or of a type that can have none.
    """
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        hint = f"Give [{columns!r}]" if isinstance(columns, str) else "Give a list like ['id']"
        raise UsageError(f"bloom= is a list of names, not {columns!r}", hint=hint)
    for name in columns:
        if not isinstance(name, str):
            raise UsageError(
                f"bloom= holds {name!r}, which is no name", hint="Give names of columns, as text"
            )
        if len(schema.get_all_field_indices(name)) != 1:
            raise UsageError(
                f"bloom= names {name!r}, which is no column of the data",
                key=str(name),
                hint=it_has(name, schema.names),
            )
        kind = plain(schema.field(name).type)
        if kind.num_fields or pa.types.is_boolean(kind) or pa.types.is_null(kind):
            raise UsageError(
                f"Column {name!r} is {kind}, which can have no bloom filter",
                key=name,
                hint="Name columns of numbers, texts, bytes or times, which hold many values",
            )
    return columns


def bloom_options(first: pa.Table, columns: Sequence[str]) -> dict[str, Any]:
    """What Arrow's writer takes, by the values that the first row group has: others are no larger.

    Args:
        columns: As `check_bloom` gave them.
    """
    if not columns:
        return {}
    import pyarrow.compute as pc

    options = {}
    for name in columns:
        values = first.column(name)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        distinct = pc.count_distinct(values).as_py()
        options[name] = {"ndv": max(1, distinct), "fpp": FALSE_POSITIVES}
    return {"bloom_filter_options": options}


ROW_GROUP_ROWS: Final = 1 << 20
ROW_GROUP_BYTES: Final = 64 << 20
FILE_BYTES: Final = 128 << 20
UNKNOWN_DIGEST: Final = bytes(8)


class Body:
    """The bytes of a file while it is made, for Arrow's writer: of a large one on the disk.

    Args:
        spool: Makes a file to hold them.

    Attributes:
        size: How many bytes.
        file: That holds them; None: they are in memory.
    """

    closed = False

    def __init__(self, spool: Callable[[], IO[bytes]]) -> None:
        self._spool = spool
        self._memory = io.BytesIO()
        self.file: IO[bytes] | None = None
        self.size = 0

    def write(self, data: Any) -> int:
        """Adds bytes."""
        added = memoryview(data).nbytes
        try:
            if self.file is None and self.size + added > _IN_MEMORY_BYTES:
                self.file = self._spool()
                self.file.write(self._memory.getbuffer())
                self._memory = io.BytesIO()
            (self.file or self._memory).write(data)
        except OSError as error:
            raise StorageError(
                f"There is no room for a data file while it is made: {error}",
                hint=f"It is made in the catalog's own folder, or in {tempfile.gettempdir()}: make "
                "room there, or name another folder (TMPDIR=/large/disk), or give file_bytes=",
            ) from error
        self.size += added
        return added

    def tell(self) -> int:
        """How many there are."""
        return self.size

    def flush(self) -> None:
        """Nothing is to be flushed before it is whole."""

    def close(self) -> None:
        """Arrow's writer is done: now it is read."""

    def read(self, start: int = 0) -> bytes:
        """Returns the bytes from a place on."""
        source = self.file or self._memory
        source.seek(start)
        return source.read()


_IN_MEMORY_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class EncodedFile:
    """One Parquet file, ready to be stored.

    Attributes:
        body: Its bytes.
        facts: Its `Add` without path, table, partition and clocks.
    """

    body: Body
    facts: wire.Add


def file_facts(
    metadata: Any,
    schema: pa.Schema,
    size_bytes: int,
    *,
    fingerprint: bytes,
    is_foreign: bool = False,
    statistics: bool = True,
) -> wire.Add:
    """What the log keeps of a Parquet file: size, rows, footer length, schema fingerprint,
    row-group statistics.

    Reading statistics of a malformed footer can abort the process: for a file of unknown origin
    call this in a child process (`lakelog.catalog.data.footers.read`).

    Args:
        metadata: pyarrow FileMetaData.
        schema: The file's Arrow schema with the ids of columns.
        size_bytes: Of the whole file.
        fingerprint: Of the schema, as the log keeps it.
        is_foreign: Whether another program than lakelog wrote the file.
    """
    add = wire.Add(
        size_bytes=size_bytes,
        row_count=metadata.num_rows,
        schema_fingerprint=fingerprint,
        footer_bytes=metadata.serialized_size + 8,
    )
    if not statistics:
        return add
    foreign = str(metadata.created_by or "") if is_foreign else None
    leaves = primitive_leaves(metadata, schema)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        entry = add.row_groups.add(row_count=group.num_rows)
        for leaf, position, field, column in leaves:
            chunk = group.column(leaf)
            entry.columns.append(column_statistics(chunk, column, position, field, foreign=foreign))
    return add


def primitive_leaves(metadata: Any, schema: pa.Schema) -> list[tuple[int, int, pa.Field, Any]]:
    """The columns of a file of which the log may know something: the place in the file, the
    place in the schema, the field, and Parquet's description of each."""
    columns = [metadata.schema.column(leaf) for leaf in range(metadata.num_columns)]
    paths = Counter(column.path for column in columns)
    names = Counter(schema.names)
    positions = {field.name: position for position, field in enumerate(schema)}
    found = []
    for leaf, column in enumerate(columns):
        position = positions.get(column.path) if column.max_repetition_level == 0 else None
        if position is None or schema.field(position).type.num_fields:
            continue
        # Field `b` of a struct `a` has the path of a column named `a.b`: then neither is known.
        if paths[column.path] == 1 and names[column.path] == 1:
            found.append((leaf, position, schema.field(position), column))
    return found


_UNFIT: Final = (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid)


def encode_files(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    meta: FooterMetadata,
    *,
    encoded: EncodedSchema | None = None,
    file_bytes: int = FILE_BYTES,
    bloom: Sequence[str] = (),
    see: Callable[[pa.Table], None] | None = None,
    spool: Callable[[], IO[bytes]] = tempfile.TemporaryFile,
) -> Iterator[EncodedFile]:
    """Parquet files of about `file_bytes` each, one at a time, so that memory stays bounded.

    No statistics of floats, nested ones as well, go into the footer: they would ignore NaN, and
    engines skip rows by them that hold it. What the log keeps of them comes from the data, and
    stands in the footer as lakelog's own.

    Args:
        batches: Of `schema`. No rows at all give no file.
        meta: For the footers; `number` counts up from the given one.
        encoded: The schema as the log keeps it, if it is known.
        bloom: Columns that get bloom filters.
        see: Called with each row group before the file that holds it is given.
        spool: Makes files on this machine, which hold what is too large for memory.
    Raises:
        InvalidSchema: A type that Parquet can't hold turned up while writing.
        UsageError: A column can't have a filter, or `file_bytes` can't be.
    """
    import pyarrow.parquet as pq  # with the file systems of Arrow: what only adds files needs none

    check_bloom(bloom, schema)
    file_bytes = value_of(file_bytes)
    if isinstance(file_bytes, bool) or not isinstance(file_bytes, int) or file_bytes < 1:
        raise UsageError(
            f"file_bytes can't be {file_bytes!r}", hint="Give a whole number of bytes, from 1 on"
        )
    encoded = encoded or encode_schema(schema)
    groups = row_groups(batches)
    floats = [at for at, field in enumerate(schema) if is_float(field.type)]
    number = meta.number
    group = next(groups, None)
    while group is not None:
        body = Body(spool)
        collected: list[Any] = []
        told: list[wire.RowGroup] = []
        try:
            with pq.ParquetWriter(
                body,
                schema,
                compression="zstd",
                store_decimal_as_integer=True,
                metadata_collector=collected,
                use_dictionary=_repeating(group, schema, bloom),
                write_page_checksum=True,
                write_statistics=_without_floats(schema),
                **bloom_options(group, bloom),
            ) as writer:
                while group is not None:
                    known = [float_statistics(group.column(at), at) for at in floats]
                    told.append(wire.RowGroup(row_count=group.num_rows, columns=known))
                    if see is not None:
                        see(group)
                    writer.write_table(group, row_group_size=max(1, group.num_rows))
                    group = next(groups, None)
                    if body.size >= file_bytes:
                        break
                own = replace(meta, number=number, floats=encode_floats(told))
                writer.add_key_value_metadata(encode_footer(own, encoded) | FLOATS)
        except (*_UNFIT, RuntimeError) as error:
            # Closing a writer that has failed raises an error of its own.
            why = error if isinstance(error, _UNFIT) else error.__context__
            if not isinstance(why, _UNFIT):
                raise
            raise InvalidSchema(
                f"Parquet can't hold this data: {why}", hint="Cast the column first"
            ) from error
        facts = file_facts(collected[0], schema, body.size, fingerprint=encoded.fingerprint)
        tell_floats(facts, own.floats)
        # Metadata that comes from a writer doesn't know its own serialized size.
        facts.footer_bytes = int.from_bytes(body.read(body.size - 8)[:4], "little") + 8
        facts.footer_digest = footer_digest(body.read(body.size - facts.footer_bytes))
        yield EncodedFile(body, facts)
        number, meta = number + 1, replace(meta, replaces=())  # each removal is named once


_SAMPLE: Final = 8_192  # rows
_DISTINCT: Final = 0.985  # of 130,000 values, more than a dictionary takes


def _repeating(group: pa.Table, schema: pa.Schema, bloom: Sequence[str]) -> bool | list[str]:
    """What `use_dictionary` of Arrow's writer takes: all leaves but those whose values hardly ever
    come again. There a dictionary only adds to a small file, and to reading it; in a large one it
    would be given up once it had grown too large.

    Args:
        bloom: Columns with bloom filters, which Arrow makes of dictionaries.
    """
    import numpy as np

    from ..format.columns import array

    if any(isinstance(kind, pa.BaseExtensionType) for kind in schema.types):
        return True  # somebody's class may lack what is asked for below, such as a hash
    columns, rows = group.columns, group.num_rows
    if rows > 4 * _SAMPLE:
        some = array(np.linspace(0, rows - 1, _SAMPLE).astype(np.int64))
        kinds = [field.type for field in schema]
        columns = [
            pc.take(values, some) if _may_be_unique(kind) else values
            for kind, values in zip(kinds, columns, strict=True)
        ]
        rows = _SAMPLE
    unique = {
        field.name
        for field, values in zip(schema, columns, strict=True)
        if field.name not in bloom
        and _may_be_unique(field.type)
        and len(pc.unique(values)) > _DISTINCT * rows
    }
    if not unique:
        return True
    return [leaf.path for leaf in _leaves(schema) if leaf.path not in unique]


def _may_be_unique(kind: pa.DataType) -> bool:
    types = pa.types
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal128(kind)
    is_number = (is_number and not types.is_float16(kind)) or types.is_temporal(kind)
    return is_number or types.is_string(kind) or types.is_binary(kind)


def write_rows(rows: pa.RecordBatchReader) -> bytes:
    """One Parquet file of some rows, or of none, which says nothing of any log.

    As in lakelog's own files, pages have checksums, and floats no statistics: bounds in Parquet
    ignore NaN.
    """
    import pyarrow.parquet as pq

    schema, sink = rows.schema.remove_metadata(), pa.BufferOutputStream()
    schema = pa.schema([field.remove_metadata() for field in schema])
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        store_decimal_as_integer=True,
        write_page_checksum=True,
        write_statistics=_without_floats(schema),
    ) as writer:
        for group in row_groups(iter(rows)):
            writer.write_table(group.cast(schema), row_group_size=max(1, group.num_rows))
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _without_floats(schema: pa.Schema) -> bool | list[str]:
    """What `write_statistics` of Arrow's writer takes: the leaves that aren't floats, as Parquet
    names them."""
    if not any(_holds_float(field.type) for field in schema):
        return True
    leaves = _leaves(schema)
    floats = {leaf.path for leaf in leaves if _is_float(leaf)}
    return [leaf.path for leaf in leaves if leaf.path not in floats]


@lru_cache(maxsize=64)
def _leaves(schema: pa.Schema) -> list[Any]:
    """The columns of a file as Parquet describes them."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema).close()
    found = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return [found.column(leaf) for leaf in range(len(found))]


def _is_float(leaf: Any) -> bool:
    return leaf.physical_type in {"FLOAT", "DOUBLE"} or leaf.logical_type.type == "FLOAT16"


def _holds_float(kind: pa.DataType) -> bool:
    kind = unwrapped(kind)
    if pa.types.is_floating(kind):
        return True
    return any(_holds_float(kind.field(at).type) for at in range(kind.num_fields))


def proven_floats(meta: FooterMetadata, metadata: Any, facts: wire.Add) -> bytes:
    """What a footer of lakelog's says of columns of floats, if it can be its own; else nothing.

    Whoever writes a file anew may keep its keys. They don't fit it then, as far as that shows: by
    the row groups, by another library's name, and by statistics of floats, which lakelog's files
    don't have. That the file is where its footer says is for the caller to see.

    Args:
        metadata: pyarrow FileMetaData.
        facts: As of `file_facts`.
    """
    by_arrow = str(metadata.created_by).startswith("parquet-cpp-arrow")
    if not meta.floats or not by_arrow or not fit(meta.floats, facts, meta.schema):
        return b""
    leaves = [at for at in range(metadata.num_columns) if _is_float(metadata.schema.column(at))]
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    anew = any(group.column(leaf).is_stats_set for group in groups for leaf in leaves)
    return b"" if anew else meta.floats


def footer_digest(footer: bytes) -> bytes:
    """What the log keeps of a file's footer, to notice a file that was replaced: 8 bytes.

    Args:
        footer: The file's last bytes, from the metadata to the end.
    """
    return hashlib.sha256(footer).digest()[:8]


def row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together, and cut, to about `ROW_GROUP_BYTES`, with at most `ROW_GROUP_ROWS`."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for start in range(0, batch.num_rows, ROW_GROUP_ROWS):
            piece = batch.slice(start, ROW_GROUP_ROWS)
            if pending and (rows + piece.num_rows > ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES):
                yield pa.Table.from_batches(pending)
                pending, rows, size = [], 0, 0
            pending.append(piece)
            rows, size = rows + piece.num_rows, size + piece.nbytes
    if pending:
        yield pa.Table.from_batches(pending)
