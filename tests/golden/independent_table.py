"""Rows of a table at a cut for the independent reader: docs/format.md, section 5.3. See
`independent_reader`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from independent_state import generation
from independent_wire import Refused, need

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from independent_state import State

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
REAL = ("halffloat", "float", "double")
UNITS = ("s", "ms", "us", "ns")
DIGITS = {"int8": 3, "int16": 5, "int32": 10, "int64": 19}
DIGITS |= {"uint8": 3, "uint16": 5, "uint32": 10, "uint64": 20}


def plain(kind: pa.DataType) -> pa.DataType:
    name = str(kind)
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if name in ("large_string", "string_view"):
        return pa.string()
    if name in ("large_binary", "binary_view"):
        return pa.binary()
    return pa.list_(kind.value_field) if pa.types.is_large_list(kind) else kind


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The common type of two types, or None."""
    if one == other:
        return one
    one, other = plain(one), plain(other)
    if one == other:
        return one
    for a, b in ((one, other), (other, one)):
        if pa.types.is_null(a):
            return b
        found = directed(a, b, str(a), str(b))
        if found is not None:
            return found
    return symmetric(one, other)


def directed(a: pa.DataType, b: pa.DataType, x: str, y: str) -> pa.DataType | None:
    """The rows of the table of section 5.3 that have a left and a right side."""
    types = pa.types
    if x in UNSIGNED[:3] and y in SIGNED:
        return pa.type_for_alias(SIGNED[max(UNSIGNED.index(x) + 1, SIGNED.index(y))])
    if x in (*SIGNED[:3], *UNSIGNED[:3]) and y == "double":
        return pa.float64()
    if x in (*SIGNED[:2], *UNSIGNED[:2]) and y == "float":
        return pa.float32()
    if x in ("int32", "uint32") and y == "float":
        return pa.float64()
    if types.is_date32(a) and types.is_date64(b):
        return b
    if types.is_date32(a) and types.is_timestamp(b) and b.tz is None:
        return b
    if types.is_decimal(b) and (types.is_decimal(a) or x in DIGITS):
        digits, scale = (a.precision, a.scale) if types.is_decimal(a) else (DIGITS[x], 0)
        wide = max(digits - scale, b.precision - b.scale)
        scale = max(scale, b.scale)
        if wide + scale > 76:
            return None
        return (pa.decimal128 if wide + scale <= 38 else pa.decimal256)(wide + scale, scale)
    return None


def symmetric(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The rows of the table of section 5.3 whose sides are alike."""
    types = pa.types
    for family in (SIGNED, UNSIGNED, REAL):
        if str(one) in family and str(other) in family:
            return max(one, other, key=lambda kind, family=family: family.index(str(kind)))
    if types.is_list(one) and types.is_list(other):
        inner = common(one.value_type, other.value_type)
        return None if inner is None else pa.list_(inner)
    if types.is_struct(one) and types.is_struct(other):
        return common_struct(one, other)
    for same in (types.is_timestamp, types.is_time, types.is_duration):
        if same(one) and same(other):
            break
    else:
        return None
    unit = max(one.unit, other.unit, key=UNITS.index)
    if types.is_duration(one):
        return pa.duration(unit)
    if types.is_time(one):
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if (one.tz is None) != (other.tz is None):
        return None
    return pa.timestamp(unit, one.tz if one.tz == other.tz else "UTC")


def common_struct(one: pa.StructType, other: pa.StructType) -> pa.StructType | None:
    sides = [[kind.field(i) for i in range(kind.num_fields)] for kind in (one, other)]
    if any(len({f.name for f in side}) < len(side) for side in sides):
        return None
    left, right = ({f.name: f.type for f in side} for side in sides)
    fields = []
    for name in {**left, **right}:
        a, b = left.get(name), right.get(name)
        kind = common(a, b) if a is not None and b is not None else a if b is None else b
        if kind is None:
            return None
        fields.append((name, kind))
    return pa.struct(fields)


def unify(states: Sequence[State], table: str) -> pa.Schema:
    """The schema that a table of a cut is read with."""
    schemas: list[pa.Schema] = []
    live = [
        {f.facts["schema_fingerprint"] for f in state.files.values() if f.table == table}
        for state in states
    ]
    for state, marks in sorted(zip(states, live), key=lambda pair: pair[0].writer):
        known = sorted(
            (entry["revision"], mark)
            for (name, mark), entry in state.schemas.items()
            if name == table and (mark in marks or not any(live))
        )
        for _, mark in known:
            schema = state.schemas[table, mark]["schema"]
            if not any(schema.equals(other, check_metadata=True) for other in schemas):
                schemas.append(schema)
    need(schemas, f"no table {table}")
    newest: dict[str, int] = {}
    for item in (item for schema in schemas for item in schema):
        newest[item.name] = max(newest.get(item.name, 0), generation(item))
    found: dict[str, pa.DataType] = {}
    for item in (item for schema in schemas for item in schema):
        if generation(item) == newest[item.name]:
            wider = common(found[item.name], item.type) if item.name in found else plain(item.type)
            need(wider is not None, f"column {item.name} has no common type")
            found[item.name] = wider
    return pa.schema([(name, kind) for name, kind in found.items()])


def rows(root: Path, states: Sequence[State], table: str) -> pa.Table:
    """The rows of a table, in order of writer and path."""
    schema = unify(states, table)
    parts = [schema.empty_table()]
    newest = newest_generations(states, table)
    for state in sorted(states, key=lambda state: state.writer):
        for path, file in sorted(state.files.items()):
            if file.table != table:
                continue
            own = state.schemas[table, file.facts["schema_fingerprint"]]["schema"]
            data = pq.ParquetFile(root / state.writer / state.database / path).read()
            need(data.num_rows == file.facts["row_count"], f"rows of {path}")
            columns = []
            for item in schema:
                at = own.get_field_index(item.name)
                same = at >= 0 and generation(own.field(at)) == newest[item.name]
                column = data.column(item.name) if same else pa.nulls(data.num_rows, item.type)
                columns.append(column.cast(item.type))
            parts.append(pa.table(columns, schema=schema))
    return pa.concat_tables(parts)


def newest_generations(states: Sequence[State], table: str) -> dict[str, int]:
    """The generation of each column that counts at a cut."""
    used = {
        (state.writer, f.facts["schema_fingerprint"])
        for state in states
        for f in state.files.values()
        if f.table == table
    }
    newest: dict[str, int] = {}
    for state in states:
        for (name, mark), entry in state.schemas.items():
            if name == table and ((state.writer, mark) in used or not used):
                for item in entry["schema"]:
                    newest[item.name] = max(newest.get(item.name, 0), generation(item))
    return newest


__all__ = ["Refused", "common", "rows", "unify"]
