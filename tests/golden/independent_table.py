"""Rows of a table at a cut for the independent reader: docs/format.md, section 5.3. See
`independent_reader`."""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from independent_hidden import hidden_rows
from independent_ipc import decode_file_schema, storage
from independent_shown import Column, shown, value_of
from independent_wire import need

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from independent_content import Entry, File, Schema
    from independent_state import State
    from independent_wire import Message

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


def common_of(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """The common type of some types, or None: if each two have one, then it is found step by step,
    in an order in which no step forgets what the next one needs."""
    if any(common(one, other) is None for one, other in itertools.combinations(kinds, 2)):
        return None
    found, *others = sorted(kinds, key=lambda kind: rank(plain(kind)))
    if all(other == found for other in others):
        return found
    shapes = [plain(kind) for kind in kinds if not pa.types.is_null(plain(kind))]
    if len(shapes) > 1 and all(map(pa.types.is_list, shapes)):
        if all(shape == shapes[0] for shape in shapes):
            return shapes[0]
        return pa.list_(common_of([shape.value_type for shape in shapes]))
    if len(shapes) > 1 and all(map(pa.types.is_struct, shapes)):
        return shapes[0] if all(s == shapes[0] for s in shapes) else common_struct(shapes)
    for other in others:
        found = common(found, other)
    return found


def rank(kind: pa.DataType) -> int:
    """Decimals know of digits and reals of precision; integers of one sign have the fewest."""
    if pa.types.is_decimal(kind):
        return 0
    return 1 + ("double", "float", "halffloat", str(kind)).index(str(kind))


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
    if x in (*SIGNED[:2], *UNSIGNED[:2]) and y in REAL[:2]:
        return pa.float32()
    if x in ("int32", "uint32") and y in REAL[:2]:
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
        return common_struct([one, other])
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


def common_struct(kinds: Sequence[pa.StructType]) -> pa.StructType | None:
    sides = [[kind.field(i) for i in range(kind.num_fields)] for kind in kinds]
    if any(len({f.name for f in side}) < len(side) for side in sides):
        return None
    types: dict[str, list[pa.DataType]] = {}
    for item in itertools.chain(*sides):
        types.setdefault(item.name, []).append(item.type)
    fields = [(name, common_of(own)) for name, own in types.items()]
    return None if any(kind is None for _, kind in fields) else pa.struct(fields)


@dataclass(frozen=True)
class Part:
    """A log in a cut: the table's files and schemas there, and what defines it."""

    writer: str
    folder: Path
    files: Mapping[str, File]
    schemas: Mapping[bytes, Schema]
    definition: Message | None = None
    tombstones: Sequence[Entry] = ()
    struck: Mapping[str, Sequence[Entry]] = field(default_factory=dict)


def part_of(state: State, writer: str, folder: Path, table: str) -> Part:
    """What a state says of a table; `folder` is that of the writer and database."""
    found = state.table(table)
    definition, _ = state.definitions().get(table, (None, 0))
    deletes = state.deletes()
    struck = {path: entries for (own, path), entries in deletes.rows.items() if own == table}
    tombstones = deletes.tombstones.get(table, [])
    return Part(writer, folder, found.files, found.schemas, definition, tombstones, struck)


def columns_of(part: Part, fingerprint: bytes) -> list[Column]:
    """What files of a schema show."""
    own = own_columns(part, fingerprint)
    return own if part.definition is None else shown(own, part.definition, common)


def own_columns(part: Part, fingerprint: bytes) -> list[Column]:
    """What files of a schema have."""
    schema, ids = decode_file_schema(part.schemas[fingerprint].arrow_schema)
    return [
        Column(item.name, storage(item.type), number, item.name)
        for item, number in zip(schema, ids)
    ]


def used_schemas(parts: Sequence[Part]) -> list[list[Column]]:
    """The schemas that count, in the order of section 5.3."""
    any_live = any(part.files for part in parts)
    found: list[list[Column]] = []
    for part in sorted(parts, key=lambda part: part.writer.encode()):
        live = {file.facts["schema_fingerprint"] for file in part.files.values()}
        known = sorted(
            (schema.revision, fingerprint)
            for fingerprint, schema in part.schemas.items()
            if fingerprint in live or not any_live
        )
        for _, fingerprint in known:
            own = columns_of(part, fingerprint)
            columns = [replace(c, number=0, stored=None, default=None) for c in own]
            if columns not in found:
                found.append(columns)
    need(found, "no such table")
    return found


def unify(parts: Sequence[Part]) -> pa.Schema:
    """The schema that a table of a cut is read with."""
    schemas = used_schemas(parts)
    types: dict[str, list[pa.DataType]] = {}
    for column in (column for schema in schemas for column in schema):
        types.setdefault(column.name, []).append(column.kind)
    found = {name: common_of(own) for name, own in types.items()}
    for name, kind in found.items():
        need(kind is not None, f"column {name} has no common type")
    return pa.schema([(name, plain(kind)) for name, kind in found.items()])


def rows(parts: Sequence[Part]) -> pa.Table:
    """The rows of a table, in order of writer, and of one writer as it committed them."""
    schema = unify(parts)
    tables = [schema.empty_table()]
    for part in sorted(parts, key=lambda part: part.writer.encode()):
        for path, file in sorted(part.files.items(), key=place):
            own = columns_of(part, file.facts["schema_fingerprint"])
            here = {c.name: c for c in own}
            data = visible(part, path, file)
            columns = []
            for item in schema:
                found = here.get(item.name)
                column = pa.nulls(data.num_rows, item.type)
                if found is not None and found.stored is not None:
                    column = data.column(found.stored)
                elif found is not None and found.default is not None:
                    column = pa.repeat(value_of(found.default, found.kind), data.num_rows)
                columns.append(column.cast(item.type))
            tables.append(pa.table(columns, schema=schema))
    return pa.concat_tables(tables)


def visible(part: Part, path: str, file: File) -> pa.Table:
    """The rows of a file that no delete hides."""
    data = read_file(part.folder / path, file)
    struck = part.struck.get(path, ())
    named = {entry.facts["object"] for entry in struck}
    objects = {name: (part.folder / name).read_bytes() for name in named}
    own = own_columns(part, file.facts["schema_fingerprint"])
    hidden = hidden_rows(file, part.tombstones, struck, objects, own, data)
    kept = [row for row in range(data.num_rows) if row not in hidden]
    return data.take(pa.array(kept, pa.int64()))


def place(item: tuple[str, File]) -> tuple[int, int, int, bytes]:
    """Where a file comes among those of its log: the revision that first added it, clock, number in
    its name, path."""
    path, file = item
    named = re.search(r"/[1-9]\d{0,18}-[0-9a-f]{32}-(\d{1,9})\.parquet\Z", path, re.ASCII)
    number = int(named[1]) if named else 10**9
    original = file.facts["original_revision"]
    first = file.facts["revision"] if original is None else original
    return first, file.facts["first_clock"], number, path.encode()


def read_file(path: Path, file: File) -> pa.Table:
    """A data file, if it is as the log says (section 4.7)."""
    need(path.is_file() and path.stat().st_size == file.facts["size_bytes"], f"length of {path}")
    size, told = file.facts["footer_bytes"], file.facts["footer_digest"]
    if size and told != bytes(8):
        tail = path.read_bytes()[-size:]
        need(hashlib.sha256(tail).digest()[:8] == told, f"footer of {path}")
    data = pq.ParquetFile(path).read()
    need(data.num_rows == file.facts["row_count"], f"rows of {path}")
    return data
