"""What stands in a segment of each kind: its columns, their types and their order. Pure.

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

if TYPE_CHECKING:
    from collections.abc import Sequence


FILES: Final = 1
ROW_GROUPS: Final = 2
STATISTICS: Final = 3
ROW_GROUP_STATISTICS: Final = 4
SCHEMAS: Final = 5
APPLICATIONS: Final = 6
HISTORY: Final = 7
REFERENCES: Final = 8
DEFINITIONS: Final = 10
ROW_DELETES: Final = 9
TOMBSTONES: Final = 11

NAMES: Final[dict[int, str]] = {
    FILES: "FILES",
    ROW_GROUPS: "ROW_GROUPS",
    STATISTICS: "STATISTICS",
    ROW_GROUP_STATISTICS: "ROW_GROUP_STATISTICS",
    SCHEMAS: "SCHEMAS",
    APPLICATIONS: "APPLICATIONS",
    HISTORY: "HISTORY",
    REFERENCES: "REFERENCES",
    DEFINITIONS: "DEFINITIONS",
    ROW_DELETES: "ROW_DELETES",
    TOMBSTONES: "TOMBSTONES",
}


MIN_EXACT, MAX_EXACT, NO_NAN = 1, 2, 4
ROWS_PER_SEGMENT: Final = 131_072
MAX_NUMBER: Final = 1 << 62  # counts and sizes are below this, so sums of a few fit 64 bits
MAX_TIME_US: Final = 1 << 55  # the year 3111: what datetime, and every engine, can hold


def _schema(**columns: pa.DataType) -> pa.Schema:
    """Columns of these types, in order; those whose name ends in `_or_null` may hold nulls."""
    return pa.schema(
        [
            pa.field(name.removesuffix("_or_null"), kind, nullable=name.endswith("_or_null"))
            for name, kind in columns.items()
        ]
    )


FILES_COLUMNS: Final = _schema(
    table=pa.string(),
    path=pa.string(),
    partition=pa.string(),
    size_bytes=pa.int64(),
    row_count=pa.int64(),
    revision=pa.int64(),
    schema_fingerprint=pa.binary(16),
    first_clock=pa.int64(),
    last_clock=pa.int64(),
    footer_bytes=pa.int64(),
    footer_digest=pa.binary(8),
    row_groups=pa.int32(),
    original_revision_or_null=pa.int64(),
)
ROW_GROUPS_COLUMNS: Final = _schema(row=pa.int32(), row_group=pa.int32(), row_count=pa.int64())
_FACTS: Final = {
    "null_count_or_null": pa.int64(),
    "min_or_null": pa.int64(),
    "max_or_null": pa.int64(),
    "min_bytes_or_null": pa.binary(),
    "max_bytes_or_null": pa.binary(),
    "exact": pa.uint8(),
    "bloom_offset_or_null": pa.int64(),
    "bloom_bytes_or_null": pa.int64(),
}
_GROUP: Final = {"row_group": pa.int32()}
STATISTICS_COLUMNS: Final = _schema(column=pa.int32(), row_delta=pa.int32(), **_FACTS)
ROW_GROUP_STATISTICS_COLUMNS: Final = _schema(
    column=pa.int32(), row_delta=pa.int32(), **_GROUP, **_FACTS
)
# The same as they are worked with: by name and row (see `statistics_form`).
STATISTICS_ROWS: Final[dict[int, pa.Schema]] = {
    STATISTICS: _schema(column=pa.string(), row=pa.int32(), **_FACTS),
    ROW_GROUP_STATISTICS: _schema(column=pa.string(), row=pa.int32(), **_GROUP, **_FACTS),
}
SCHEMAS_COLUMNS: Final = _schema(
    table=pa.string(),
    fingerprint=pa.binary(16),
    arrow_schema=pa.binary(),
    key_or_null=pa.list_(pa.string()),
    sort_order_or_null=pa.list_(pa.string()),
    revision=pa.int64(),
)
APPLICATIONS_COLUMNS: Final = _schema(
    app_id=pa.string(), app_version=pa.int64(), committed_at_us=pa.int64()
)
DEFINITIONS_COLUMNS: Final = _schema(table=pa.string(), definition=pa.binary(), revision=pa.int64())
HISTORY_COLUMNS: Final = _schema(
    revision=pa.int64(),
    uuid=pa.binary(16),
    digest=pa.binary(32),
    committed_at=pa.timestamp("us", "UTC"),
    epoch=pa.int64(),
    guest=pa.bool_(),
    operation=pa.string(),
    transaction_ids=pa.list_(pa.binary(16)),
    files_added=pa.int64(),
    files_removed=pa.int64(),
    rows_added=pa.int64(),
    bytes_added=pa.int64(),
    summary_keys=pa.list_(pa.string()),
    summary_values=pa.list_(pa.string()),
)
REFERENCES_COLUMNS: Final = _schema(
    kind=pa.uint8(),
    part=pa.int32(),
    run=pa.int32(),
    digest_or_null=pa.binary(32),
    offset=pa.int64(),
    length=pa.int64(),
    row_count=pa.int64(),
    total_rows=pa.int64(),
    total_bytes=pa.int64(),
    first_table=pa.string(),
    first_path=pa.string(),
    last_table=pa.string(),
    last_path=pa.string(),
    min_partition=pa.string(),
    max_partition=pa.string(),
    columns=pa.list_(pa.string()),
    first_revision=pa.int64(),
    last_revision=pa.int64(),
    dead_or_null=pa.binary(),
)
ROW_DELETES_COLUMNS: Final = _schema(
    table=pa.string(),
    path=pa.string(),
    revision=pa.int64(),
    number=pa.int32(),
    object=pa.string(),
    offset=pa.int64(),
    length=pa.int64(),
    cardinality=pa.int64(),
    digest=pa.binary(32),
)
TOMBSTONES_COLUMNS: Final = _schema(
    table=pa.string(), revision=pa.int64(), number=pa.int32(), tombstone=pa.binary()
)

COLUMNS: Final[dict[int, pa.Schema]] = {
    FILES: FILES_COLUMNS,
    ROW_GROUPS: ROW_GROUPS_COLUMNS,
    STATISTICS: STATISTICS_COLUMNS,
    ROW_GROUP_STATISTICS: ROW_GROUP_STATISTICS_COLUMNS,
    SCHEMAS: SCHEMAS_COLUMNS,
    APPLICATIONS: APPLICATIONS_COLUMNS,
    HISTORY: HISTORY_COLUMNS,
    REFERENCES: REFERENCES_COLUMNS,
    DEFINITIONS: DEFINITIONS_COLUMNS,
    ROW_DELETES: ROW_DELETES_COLUMNS,
    TOMBSTONES: TOMBSTONES_COLUMNS,
}
# Columns of numbers that count something: never negative, always below 2^62.
COUNTS: Final[dict[int, frozenset[str]]] = {
    FILES: frozenset({"size_bytes", "row_count", "revision", "footer_bytes", "row_groups"}),
    ROW_GROUPS: frozenset({"row", "row_group", "row_count"}),
    STATISTICS: frozenset({"column", "row_delta"}),
    ROW_GROUP_STATISTICS: frozenset({"column", "row_delta", "row_group"}),
    SCHEMAS: frozenset({"revision"}),
    APPLICATIONS: frozenset({"app_version"}),
    DEFINITIONS: frozenset({"revision"}),
    HISTORY: frozenset(
        {"revision", "epoch", "files_added", "files_removed", "rows_added", "bytes_added"}
    ),
    REFERENCES: frozenset(
        {
            "offset",
            "length",
            "row_count",
            "total_rows",
            "total_bytes",
            "first_revision",
            "last_revision",
        }
    ),
    ROW_DELETES: frozenset({"revision", "number", "offset", "length", "cardinality"}),
    TOMBSTONES: frozenset({"revision", "number"}),
}
# What the rows of a kind ascend by, strictly, in the order of strings by their UTF-8 bytes.
ORDER: Final[dict[int, tuple[str, ...]]] = {
    FILES: ("table", "path"),
    ROW_GROUPS: ("row", "row_group"),
    STATISTICS: ("column", "row"),
    ROW_GROUP_STATISTICS: ("column", "row", "row_group"),
    SCHEMAS: ("table", "fingerprint"),
    APPLICATIONS: ("app_id",),
    HISTORY: ("revision",),
    DEFINITIONS: ("table",),
    ROW_DELETES: ("table", "path", "revision", "number"),
    TOMBSTONES: ("table", "revision", "number"),
}


def total(table: pa.Table, column: str) -> int:
    """The sum of a column of 64-bit numbers, exact where Arrow's would wrap around."""
    values = numbers(table.column(column))
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFF_FFFF).sum())


def sorted_rows(table: pa.Table, kind: int) -> pa.Table:
    """The rows of a segment in the order of its kind; the same table if they are so already."""
    if ascends(table, kind):
        return table
    keys = [(name, "ascending") for name in ORDER[kind]]
    return table.take(pc.sort_indices(table, sort_keys=keys))


def ascends(table: pa.Table, kind: int) -> bool:
    """Whether the rows ascend strictly, as those of the kind must."""
    if table.num_rows < 2:
        return True
    greater = None  # per neighbouring pair: the later one is greater, by the last columns so far
    for name in reversed(ORDER[kind]):
        column = table.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        low, high = column[:-1], column[1:]
        above = pc.less(low, high)
        greater = above if greater is None else pc.or_(above, pc.and_(pc.equal(low, high), greater))
    return greater is None or pc.all(greater).as_py() is not False


# --- Arrow IPC bytes of a segment: written, and read without trust --------------------------------

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
