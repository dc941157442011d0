"""Arrow IPC bytes of a segment: writing them, and reading them without trust. Pure.

Source: docs/format.md, section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import CorruptObject, LakelogError, UnsupportedFeature
from . import compute as pc
from .columns import numbers
from .ipc_sizes import ROW_BYTES, check_ipc_sizes
from .path_column import ascending_files, check_partitions, check_paths, check_tables
from .segments import COLUMNS, COUNTS, MAX_NUMBER, ORDER, ascends
from .wire_kinds import (
    DEFINITIONS,
    FILES,
    HISTORY,
    NAMES,
    REFERENCES,
    ROW_DELETES,
    ROW_GROUPS,
    SCHEMAS,
    TOMBSTONES,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PLAIN_BYTES: Final = 4_096
# What one row can hold at most came out of one transaction message of 8 MiB: a schema, or the
# summaries of its members, whose characters may take six times as many bytes in JSON.
_ROW_BYTES: Final[dict[int, int]] = {
    SCHEMAS: 8 << 20,
    DEFINITIONS: 8 << 20,
    HISTORY: 64 << 20,
    REFERENCES: 64 << 10,
    TOMBSTONES: 8 << 20,
}
_LIST: Final = pa.list_(pa.int32()).id
_BY_TABLE: Final = (SCHEMAS, DEFINITIONS, ROW_DELETES, TOMBSTONES)


def encode_ipc(table: pa.Table, salt: bytes = b"") -> bytes:
    """A table as one Arrow IPC file of one record batch; buffers are zstd-compressed, unless the
    whole table is so small that it isn't worth it. Other salt, other bytes."""
    sink = pa.BufferOutputStream()
    codec = pa.Codec("zstd", compression_level=1) if table.nbytes > PLAIN_BYTES else None
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=codec is not None)
    schema = table.schema.with_metadata({"salt": salt} if salt else None)
    arrays = [_whole(column) for column in table.itercolumns()]
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def decode_segment(
    data: memoryview | bytes,
    kind: int,
    rows: int,
    key: str,
    *,
    columns: Sequence[str] | None = None,
    exact: bool = False,
) -> pa.Table:
    """Decode and check the Arrow IPC bytes of one segment, already known to be undamaged.

    Args:
        kind: Of `wire_kinds`.
        rows: The row count that the reference gives.
        key: Named in errors.
        columns: Decode and check only these.
        exact: Refuse columns of a later version, which would be lost by writing the rows anew.
    Returns:
        The columns of the kind (or those asked for), in their order, as one chunk.
    Raises:
        CorruptObject: Not a segment of this kind.
        UnsupportedFeature: It holds more than this version knows (if `exact`).
    """
    required = COLUMNS[kind]
    wanted = [name for name in required.names if columns is None or name in columns]
    check_ipc_sizes(data, rows, key, row_bytes=_ROW_BYTES.get(kind, ROW_BYTES))
    if columns is not None:
        required = pa.schema([required.field(name) for name in wanted])
    table = _read(data, required, key, NAMES[kind], exact=exact)
    same = table.schema.equals(required)  # as nearly all are: no need to look at each column
    _check_columns(table, required, rows, key, same=same)
    if not same:
        table = pa.Table.from_arrays([table.column(name) for name in wanted], schema=required)
    table = table.replace_schema_metadata(None)
    _check_values(table, kind, key)
    return table


def _read(
    data: memoryview | bytes, required: pa.Schema, key: str, kind: str, *, exact: bool = False
) -> pa.Table:
    """The columns of these names, each buffer checked."""
    where, wanted = f"{key} ({kind})", required.names
    try:
        source = pa.py_buffer(data)
        with pa.ipc.open_file(source) as reader:
            if reader.schema.equals(required):  # as nearly all are: no need to look at each column
                table = pa.Table.from_batches([reader.get_batch(0)])
                table.validate(full=True)
                return table
            names = reader.schema.names
            if any(_has_dictionary(field.type) for field in reader.schema):
                raise CorruptObject(f"{where} has a column with a dictionary", key=key)
            places = [place for place, name in enumerate(names) if name in set(wanted)]
            if len(places) == len(names):
                table = pa.Table.from_batches([reader.get_batch(0)])
        if sorted(names[place] for place in places) != sorted(wanted):
            raise CorruptObject(f"{where} has a column missing or twice", key=key)
        if exact and len(names) > len(wanted):
            raise UnsupportedFeature(
                f"{where} holds columns that this lakelog doesn't know, so it writes no checkpoint",
                key=key,
                hint="Upgrade lakelog. Nothing is lost: the log can be read and committed to",
            )
        if len(places) != len(names):
            options = pa.ipc.IpcReadOptions(included_fields=places)
            with pa.ipc.open_file(source, options=options) as reader:
                table = pa.Table.from_batches([reader.get_batch(0)])
        table.validate(full=True)  # offsets inside their buffers, text that is UTF-8
        return table
    except LakelogError:
        raise
    except Exception as error:  # extension types run code of whoever registered them
        raise CorruptObject(f"{where} is not sound Arrow IPC: {error}", key=key) from error


def _has_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(place).type) for place in range(kind.num_fields))


def _check_columns(
    table: pa.Table, required: pa.Schema, rows: int, key: str, *, same: bool = False
) -> None:
    if table.num_rows != rows:
        raise CorruptObject(f"{key} holds a segment of {table.num_rows} rows, not {rows}", key=key)
    for field, values in zip(table.schema, table.itercolumns(), strict=True):
        wanted = field if same else required.field(field.name)
        if not same and not _is_same(field.type, wanted.type):
            raise CorruptObject(
                f"{key} holds a segment whose column {field.name} is {field.type}, not "
                f"{wanted.type}",
                key=key,
            )
        if not wanted.nullable and values.null_count:
            raise CorruptObject(f"{key} holds a segment with nulls in {field.name}", key=key)
        if field.type.id == _LIST and _null_elements(values):
            raise CorruptObject(f"{key} holds a list with nulls in {field.name}", key=key)


def _is_same(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether types are the same, whatever the elements of lists are named and marked."""
    if pa.types.is_list(kind) and pa.types.is_list(wanted):
        kind, wanted = kind.value_type, wanted.value_type
    return bool(kind == wanted)


def _null_elements(lists: pa.ChunkedArray) -> bool:
    """Whether a list has a null. What is in none of them, in spare bytes, does not matter."""
    return any(
        chunk.values.null_count and pc.list_flatten(chunk).null_count for chunk in lists.chunks
    )


def _check_values(table: pa.Table, kind: int, key: str) -> None:
    names = table.schema.names
    for name in COUNTS[kind].intersection(names):
        for chunk in table.column(name).iterchunks():
            values = numbers(chunk)
            unsigned = values.view(f"u{values.itemsize}")  # what is negative becomes the largest
            if len(values) and unsigned.max() >= min(MAX_NUMBER, 1 << 8 * values.itemsize - 1):
                raise CorruptObject(f"{key} holds a segment with an absurd {name}", key=key)
    if kind == FILES and "path" in names:
        check_paths(table.column("path"), key)
        check_tables(table.column("table"), key)
        if not ascending_files(table.column("table"), table.column("path")):
            raise CorruptObject(f"{key} holds files that do not ascend", key=key)
    if kind == FILES and "partition" in names:
        check_partitions(table.column("partition"), key)
    if kind in _BY_TABLE and "table" in names:
        check_tables(table.column("table"), key)
    whole = kind in (*_BY_TABLE, ROW_GROUPS) and set(ORDER[kind]) <= set(names)
    if whole and not ascends(table, kind):
        raise CorruptObject(f"{key} holds rows that do not ascend", key=key)
