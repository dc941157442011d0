"""Arrow IPC bytes of a segment: writing them, and reading them without trust. Pure.

Source: docs/format.md, section 6.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import CorruptObject
from ..wire.lakelog_checkpoint_pb2 import SegmentRef
from . import segments
from .ipc_sizes import ROW_BYTES, check_ipc_sizes
from .path_column import check_paths
from .statistics import bound_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REQUIRED: Final = {
    SegmentRef.FILES: segments.FILES,
    SegmentRef.ROW_GROUPS: segments.ROW_GROUPS,
    SegmentRef.SCHEMAS: segments.SCHEMAS,
    SegmentRef.HISTORY: segments.HISTORY,
}
# What one row can hold at most came out of one transaction message of 8 MiB: a schema, or the
# summaries of its members, whose characters may take six times as many bytes in JSON.
_ROW_BYTES: Final[dict[int, int]] = {SegmentRef.SCHEMAS: 8 << 20, SegmentRef.HISTORY: 64 << 20}
_NUMBERS: Final = frozenset({"size_bytes", "row_count", "revision", "footer_bytes", "row_groups"})
# What the first part of a statistics column's name says of its type.
_STATISTICS: Final[dict[str, pa.DataType | None]] = {
    "nulls": pa.int64(),
    "bloom_offset": pa.int64(),
    "bloom_bytes": pa.int64(),
    "min": None,
    "max": None,
    "exact": pa.uint8(),
}


PLAIN_BYTES: Final = 4_096


def encode_ipc(table: pa.Table) -> bytes:
    """A table as one Arrow IPC file in batches of 64 Ki rows; buffers are zstd-compressed, unless
    the whole table is so small that it isn't worth it."""
    sink = pa.BufferOutputStream()
    codec = pa.Codec("zstd", compression_level=1) if table.nbytes > PLAIN_BYTES else None
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=codec is not None)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks(), max_chunksize=65_536)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _read(
    data: memoryview | bytes, key: str, choose: Callable[[pa.Schema], Sequence[str]]
) -> pa.Table:
    """The columns that `choose` takes of those that are there, each buffer checked."""
    try:
        source = pa.py_buffer(data)
        with pa.ipc.open_file(source) as reader:
            wanted, names = set(choose(reader.schema)), reader.schema.names
            table = reader.read_all() if wanted.issuperset(names) else None
        if table is None:
            found = [place for place, name in enumerate(names) if name in wanted]
            options = pa.ipc.IpcReadOptions(included_fields=found)
            with pa.ipc.open_file(source, options=options) as reader:
                table = reader.read_all()
        table.validate(full=True)  # offsets inside their buffers, text that is UTF-8
        return table
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise CorruptObject(
            f"{key} holds a segment that is not Arrow IPC: {error}", key=key
        ) from error


def _check_table(
    table: pa.Table, required: pa.Schema, rows: int, key: str, columns: Sequence[str] | None
) -> None:
    if table.num_rows != rows:
        raise CorruptObject(f"{key} holds a segment of {table.num_rows} rows, not {rows}", key=key)
    for field in required:
        if columns is not None and field.name not in columns:
            continue
        index = table.schema.get_field_index(field.name)
        if index < 0 or not table.schema.field(index).type.equals(field.type):
            raise CorruptObject(
                f"{key} holds a segment without a column {field.name}: {field.type}", key=key
            )
        if not field.nullable and table.column(index).null_count:
            raise CorruptObject(f"{key} holds a segment with nulls in {field.name}", key=key)


def decode_segment(
    data: memoryview | bytes,
    kind: int,
    rows: int,
    key: str,
    *,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Decode and check the Arrow IPC bytes of one segment.

    Args:
        kind: A `SegmentRef.Kind`.
        rows: The row count that the reference gives.
        columns: Decode only these.
    Raises:
        CorruptObject: Not a segment of this kind.
    """
    required = REQUIRED[kind]  # type: ignore[index]
    row_bytes = _ROW_BYTES.get(kind, ROW_BYTES)
    check_ipc_sizes(data, rows, key, row_bytes=row_bytes)

    def choose(schema: pa.Schema) -> list[str]:
        known = _known_columns(schema, required, key)
        return known if columns is None else [name for name in known if name in columns]

    table = _read(data, key, choose)
    _check_table(table, required, rows, key, columns)
    if kind == SegmentRef.FILES:
        check_paths(table.column("path"), key)
    elif kind in (SegmentRef.SCHEMAS, SegmentRef.HISTORY):
        named = [table.column(name) for name in required.names]
        table = pa.Table.from_arrays(named, schema=required)  # alike, whoever wrote it
    for name in _NUMBERS.intersection(table.schema.names):
        if any(len(chunk) and chunk.to_numpy().min() < 0 for chunk in table.column(name).chunks):
            raise CorruptObject(f"{key} holds a segment with a negative {name}", key=key)
    return table


def _known_columns(schema: pa.Schema, required: pa.Schema, key: str) -> list[str]:
    """Names of the columns that a segment must have, and of its statistics; others are ignored.

    Raises:
        CorruptObject: One of these is missing, stands twice, or has another type.
    """
    fields = [(field.name, field.type) for field in schema]
    statistics = required.names[0] == "path"
    core = set(required.names)
    known: list[str] = []
    for name, kind in fields:
        if name in core:
            known.append(name)
        elif statistics and ":" in name and name.partition(":")[0] in _STATISTICS:
            _check_statistic(name, kind, key)
            known.append(name)
    if len(set(known)) != len(known) or not core.issubset(known):
        raise CorruptObject(f"{key} holds a segment with a column missing or twice", key=key)
    return known


def _check_statistic(name: str, kind: pa.DataType, key: str) -> None:
    what, _, rest = name.partition(":")
    wanted = _STATISTICS[what]
    if wanted is None:  # a bound: its type stands in its name
        fits = bound_type(kind) == kind and rest.startswith(f"{kind}:")
    else:
        fits = kind == wanted and (":" in rest if what == "exact" else rest.startswith(":"))
    if not fits:
        raise CorruptObject(f"{key} holds a segment with {name[:80]!r} of type {kind}", key=key)
