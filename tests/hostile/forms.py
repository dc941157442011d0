"""Arrow IPC files that Arrow can write and a segment should not be: other types, dictionaries,
codecs, metadata of older versions."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator


def forms_of(table: pa.Table) -> list[bytes]:
    """IPC files with about these rows, in many forms; some are honest."""
    found = []
    for variant in _tables(table):
        for options in _options():
            try:
                found.append(_file(variant, options))
            except (pa.ArrowException, TypeError, ValueError):
                continue  # Arrow itself can't write this one
    return found


def _file(table: pa.Table, options: pa.ipc.IpcWriteOptions) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _options() -> Iterator[pa.ipc.IpcWriteOptions]:
    yield pa.ipc.IpcWriteOptions()
    yield pa.ipc.IpcWriteOptions(compression="zstd")
    yield pa.ipc.IpcWriteOptions(compression="lz4")
    yield pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)


def _tables(table: pa.Table) -> Iterator[pa.Table]:
    yield table
    yield pa.concat_tables([table, table])
    yield table.slice(0, 0)
    yield table.replace_schema_metadata({b"x": b"y" * 1000})
    for index, field in enumerate(table.schema):
        column = table.column(index)
        for change in _columns(column, field):
            yield table.set_column(index, pa.field(field.name, change.type), change)
        if index > 2:
            break
    yield table.append_column("min:int64:a", pa.array([1] * table.num_rows, pa.int64()))
    yield table.append_column("min:int64:a", pa.array(["x"] * table.num_rows))
    for extra in _extras(table.num_rows):
        yield table.append_column("nulls::a", extra)


def _columns(column: pa.ChunkedArray, field: pa.Field) -> Iterator[pa.Array]:
    rows = len(column)
    yield pa.nulls(rows, field.type)
    yield pa.nulls(rows)
    whole = column.combine_chunks()
    if pa.types.is_string(field.type):
        for kind in (pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()):
            yield whole.cast(kind)
        yield whole.dictionary_encode()
    else:
        yield pa.array(["x"] * rows)
        yield pa.array([None] * rows, pa.list_(field.type))


def _extras(rows: int) -> Iterator[pa.Array]:
    yield pa.array(["é"] * rows).dictionary_encode()
    yield pa.array([[1, None]] * rows, pa.list_(pa.int16()))
    yield pa.array([[1, 2]] * rows, pa.list_(pa.int16(), 2))
    yield pa.array([[1, 2]] * rows, pa.list_view(pa.int16()))
    yield pa.array([{"a": 1, "b": {"c": "x"}}] * rows)
    yield pa.array([[("k", 1)]] * rows, pa.map_(pa.string(), pa.int64()))
    yield pa.array(["x" * 40] * rows, pa.string_view())
    yield pa.array([True] * rows)
    if rows:
        yield pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.array(["r"]))
        types = pa.array([0] * rows, pa.int8())
        yield pa.UnionArray.from_sparse(types, [pa.array([1] * rows)])
        yield pa.UnionArray.from_dense(
            types, pa.array(range(rows), pa.int32()), [pa.array([1] * rows)]
        )
        inner = pa.array(["z"] * rows).dictionary_encode()
        yield pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), inner)


def odd_fields() -> list[pa.Field]:
    """Columns of types that few think of."""
    kinds = [
        pa.null(), pa.float16(), pa.decimal256(70, 3), pa.duration("ns"),
        pa.month_day_nano_interval(),
        pa.dictionary(pa.int8(), pa.string()), pa.map_(pa.string(), pa.list_(pa.int8())),
        pa.run_end_encoded(pa.int32(), pa.string()), pa.sparse_union([pa.field("u", pa.int8())]),
        pa.timestamp("s", "Mars/Olympus"), pa.binary(3), pa.string_view(), pa.list_(pa.int8(), 3),
        pa.struct([]), pa.time64("ns"), pa.date64(), pa.bool_(), pa.list_view(pa.int8()),
        pa.dictionary(pa.int8(), pa.timestamp("ns", "UTC")), pa.decimal128(38, -38),
    ]  # fmt: skip
    fields = [pa.field(f"c{number}", kind) for number, kind in enumerate(kinds)]
    known = [("arrow.uuid", "\xff"), ("pandas.period", "{}"), ("pandas.interval", "[]")]
    return fields + [
        pa.field(
            name, pa.binary(16),
            metadata={"ARROW:extension:name": name, "ARROW:extension:metadata": meta},
        )
        for name, meta in known
    ]  # fmt: skip
