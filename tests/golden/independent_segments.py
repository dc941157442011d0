"""Statistics and Arrow IPC segments for the independent reader. See `independent_reader`."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pyarrow as pa
from independent_wire import BIG, Message, Refused, check_path, need

FILES, ROW_GROUPS, SCHEMAS, HISTORY = 1, 2, 3, 4

# --- Sections 5.2 and 6.1: statistics -------------------------------------------------------------


def bound_type(kind: pa.DataType) -> str | None:
    types = pa.types
    if types.is_dictionary(kind):
        return bound_type(kind.value_type)
    if types.is_timestamp(kind):
        return f"timestamp[{kind.unit}, tz=UTC]" if kind.tz else f"timestamp[{kind.unit}]"
    if types.is_decimal128(kind):
        return f"decimal128(38, {kind.scale})"
    name = str(kind)
    families = {
        "int64": ("int8", "int16", "int32", "int64"),
        "uint64": ("uint8", "uint16", "uint32", "uint64"),
        "double": ("float", "double"),
        "string": ("string", "large_string", "string_view"),
        "binary": ("binary", "large_binary", "binary_view"),
    }
    for family, members in families.items():
        if name in members:
            return family
    times = ("date32[day]", "time32[s]", "time32[ms]", "time64[us]", "time64[ns]")
    return name if name == "bool" or name in times else None


PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def bound_value(raw: bytes, kind: str) -> Any:
    """A bound as a plain value that sorts as the format says; None for unknown."""
    if kind == "bool":
        return {b"\0": False, b"\1": True}.get(raw)
    if kind == "string":
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return None
    if kind == "binary":
        return raw
    if kind.startswith("decimal"):
        number = int.from_bytes(raw, "little", signed=True)
        return number if len(raw) == 16 and abs(number) < 10**38 else None
    if len(raw) != 8:
        return None
    if kind == "double":
        real = struct.unpack("<d", raw)[0]
        return real if real == real else None
    number = int.from_bytes(raw, "little", signed=kind != "uint64")
    if kind.startswith("time32") or kind.startswith("time64"):
        return number if 0 <= number < PER_DAY[kind[7:-1]] else None
    return None if kind.startswith("date32") and not -(1 << 31) <= number < 1 << 31 else number


Bounds = dict[str, Any]  # by the name of the statistics column, known ones only


def group_statistics(group: Message, schema: pa.Schema) -> dict[int, Bounds]:
    """What is known of each column of a row group, by position."""
    found: dict[int, Bounds] = {}
    for item in group.subs(2):
        position = item.uint(1)
        if position >= len(schema):
            continue
        name, kind = schema.field(position).name, bound_type(schema.field(position).type)
        known: Bounds = {}
        for number, what in ((2, "nulls"), (7, "bloom_offset"), (8, "bloom_bytes")):
            if item.has(number) and item.uint(number) < BIG:
                known[f"{what}::{name}"] = item.uint(number)
        if kind is not None and (item.has(3) or item.has(4)):
            for number, what in ((3, "min"), (4, "max")):
                value = bound_value(item.raw(number), kind) if item.has(number) else None
                if value is not None:
                    known[f"{what}:{kind}:{name}"] = value
            known[f"exact:{kind}:{name}"] = (item.uint(5) and 1) | (item.uint(6) and 2)
        found[position] = known
    return found


def merge_groups(groups: list[Message], schema: pa.Schema) -> Bounds:
    """Statistics of a whole file."""
    parts = [group_statistics(group, schema) for group in groups]
    if len(parts) == 1:
        return {name: value for known in parts[0].values() for name, value in known.items()}
    merged: Bounds = {}
    for position in range(len(schema)) if parts else ():
        if not all(position in part for part in parts):
            continue
        column = [part[position] for part in parts]
        name, kind = schema.field(position).name, bound_type(schema.field(position).type)
        nulls = [known.get(f"nulls::{name}") for known in column]
        if None not in nulls and sum(nulls) < BIG:  # type: ignore[arg-type]
            merged[f"nulls::{name}"] = sum(nulls)  # type: ignore[arg-type]
        full = [c for c, n, group in zip(column, nulls, groups) if n != group.uint(1)]
        exact = 0
        for what, bit in (("min", 1), ("max", 2)):
            key = f"{what}:{kind}:{name}"
            if full and all(key in known for known in full):
                order = sorted(full, key=lambda known, key=key: known[key])
                best = order[0 if what == "min" else -1]
                merged[key] = best[key]
                exact |= best[f"exact:{kind}:{name}"] & bit
                merged[f"exact:{kind}:{name}"] = exact
    return merged


def plain_column(column: pa.ChunkedArray) -> list[Any]:
    """Statistics of a segment as the plain values of `bound_value`."""
    kind = column.type
    if pa.types.is_decimal(kind):
        scale = kind.scale
        return [v if v is None else int(v.scaleb(scale)) for v in column.to_pylist()]
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    return list(column.to_pylist())


# --- Section 6.4 ----------------------------------------------------------------------------------

COLUMNS: dict[int, dict[str, tuple[pa.DataType, bool]]] = {
    FILES: {
        **dict.fromkeys(("path", "partition"), (pa.string(), False)),
        **dict.fromkeys(("size_bytes", "row_count", "revision"), (pa.int64(), False)),
        "schema_fingerprint": (pa.binary(16), False),
        **dict.fromkeys(("first_clock", "last_clock", "footer_bytes"), (pa.int64(), False)),
        "row_groups": (pa.int32(), False),
    },
    ROW_GROUPS: {
        "path": (pa.string(), False),
        "row_group": (pa.int32(), False),
        "row_count": (pa.int64(), False),
    },
    SCHEMAS: {
        "table": (pa.string(), False),
        "fingerprint": (pa.binary(16), False),
        "arrow_schema": (pa.binary(), False),
        **dict.fromkeys(("key", "sort_order"), (pa.list_(pa.string()), True)),
        "revision": (pa.int64(), False),
    },
    HISTORY: {
        "revision": (pa.int64(), False),
        "uuid": (pa.binary(16), False),
        "digest": (pa.binary(32), False),
        "committed_at": (pa.timestamp("us", "UTC"), False),
        "epoch": (pa.int64(), False),
        "guest": (pa.bool_(), False),
        "operation": (pa.string(), False),
        "transaction_ids": (pa.list_(pa.binary(16)), True),
        **dict.fromkeys(
            ("files_added", "files_removed", "rows_added", "bytes_added"), (pa.int64(), False)
        ),
        "summary": (pa.string(), True),
    },
}


def open_segment(data: bytes, kind: int, rows: int) -> pa.Table:
    try:
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise Refused(f"Arrow IPC: {error}") from None
    need(table.num_rows == rows, "row count of a segment")
    for name, (kind_, nulls) in COLUMNS[kind].items():
        need(table.schema.names.count(name) == 1, f"column {name}")
        column = table.column(name)
        need(column.type.equals(kind_) and (nulls or not column.null_count), f"column {name}")
    if kind in (FILES, ROW_GROUPS):
        check_statistics(table.schema)
    if kind == FILES:
        paths = [check_path(path).encode() for path in table.column("path").to_pylist()]
        need(all(a < b for a, b in itertools.pairwise(paths)), "paths do not ascend")
        for name in ("size_bytes", "row_count", "revision", "footer_bytes", "row_groups"):
            need(all(value >= 0 for value in table.column(name).to_pylist()), f"negative {name}")
    return table


WORDS = ("nulls", "bloom_offset", "bloom_bytes", "min", "max", "exact")


def check_statistics(schema: pa.Schema) -> None:
    """Names and types of the statistics columns."""
    for item in schema:
        what, *rest = item.name.split(":", 2)
        if what not in WORDS or not rest:
            continue
        need(len(rest) == 2 and schema.names.count(item.name) == 1, f"column {item.name}")
        if what in ("min", "max"):
            fits = rest[0] == bound_type(item.type) == str(item.type)
        else:
            fits = str(item.type) == ("uint8" if what == "exact" else "int64")
            fits = fits and (what == "exact" or not rest[0])
        need(fits, f"type of {item.name}")


def statistics_of(table: pa.Table) -> list[Bounds]:
    """Per row, what the statistics columns know."""
    rows: list[Bounds] = [{} for _ in range(table.num_rows)]
    for name in table.schema.names:
        if name.split(":")[0] in WORDS and ":" in name:
            for row, value in zip(rows, plain_column(table.column(name))):
                if value is not None and value == value:
                    row[name] = value
    return rows
