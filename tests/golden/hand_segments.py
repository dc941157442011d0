"""Segments by hand: the tables of docs/format.md, section 6, from plain rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from independent_ipc import decode_file_schema, decode_schema
from independent_messages import (
    APPLICATIONS,
    FILES,
    HISTORY,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS,
    STATISTICS,
)
from independent_segments import BY_TABLE, COLUMNS, NAMED
from independent_statistics import Known, bound_type, from_key, key_of, merge
from independent_wire import BIG, Damaged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]


@dataclass
class HandFile:
    """A file as its writer knows it: the row of FILES, and its row groups by column position."""

    facts: Row
    arrow_schema: bytes
    groups: list[tuple[int, dict[int, Known]]] = field(default_factory=list)

    def whole(self) -> dict[str, Known]:
        """Statistics of the file by column name."""
        try:
            schema, _ = decode_file_schema(self.arrow_schema)
        except Damaged:
            return {}
        return {schema.field(at).name: known for at, known in merge(self.groups, schema).items()}

    def kind(self, name: str) -> str | None:
        schema = decode_schema(self.arrow_schema)
        return bound_type(schema.field(schema.get_field_index(name)).type)

    def name(self, position: int) -> str:
        return str(decode_schema(self.arrow_schema).field(position).name)

    def add(self) -> Row:
        """As the values of an Add message."""
        groups = [
            {
                "row_count": rows,
                "columns": [column_values(at, k) for at, k in sorted(found.items())],
            }
            for rows, found in self.groups
        ]
        original = self.facts["original_revision"]
        said = {} if original is None else {"original_revision": (original,)}
        facts = {name: value for name, value in self.facts.items() if name != "original_revision"}
        return {**facts, **said, "row_groups": groups}


def column_values(position: int, known: Known) -> Row:
    offset, size = known.bloom or (None, None)
    optional = {
        "null_count": known.nulls,
        "min": known.least,
        "max": known.greatest,
        "bloom_offset": offset,
        "bloom_bytes": size,
    }
    said = {name: (value,) for name, value in optional.items() if value is not None}
    flags = {"min_exact": known.least_exact, "max_exact": known.greatest_exact}
    return {"column": position, **said, **flags, "no_nan": known.no_nan}


def make_table(kind: int, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as a table of a kind."""
    columns, fields = [], []
    for name, (type_, nulls) in COLUMNS[kind].items():
        columns.append(pa.array([row[name] for row in rows], type_))
        fields.append(pa.field(name, type_, nullable=nulls))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def by_distance(kind: int, rows: Sequence[Row]) -> tuple[Sequence[Row], list[str]]:
    """Rows of a kind with columns told by place and files by distance, and the columns' names;
    rows of other kinds are as they are."""
    if kind not in (STATISTICS, ROW_GROUP_STATISTICS):
        return rows, []
    names = sorted({row["column"] for row in rows}, key=str.encode)
    found: list[Row] = []
    last = {name: 0 for name in names}
    for row in rows:
        name = row["column"]
        own = {"column": names.index(name), "row_delta": row["row"] - last[name]}
        found.append({**row, **own})
        last[name] = row["row"]
    return found, names


def facts_of(kind: int, table: pa.Table, columns: Sequence[str] = ()) -> Row:
    """What a reference says of a table, and of the columns that it is of."""
    texts = ("first", "last", "min", "max")
    facts: Row = {name: "" if name.split("_")[0] in texts else 0 for name in NAMED}
    facts |= {"first_revision": 0, "last_revision": 0, "columns": []}
    facts |= {"kind": kind, "row_count": table.num_rows}

    def ends(**names: str) -> None:
        for what, name in names.items():
            values = table.column(name).to_pylist()
            facts[f"first_{what}"], facts[f"last_{what}"] = values[0], values[-1]

    if kind == FILES:
        ends(table="table", path="path")
        held = [column for name, column in zip(table.column_names, table.columns)
                if name == "partition"]  # fmt: skip
        names = sorted(
            (name or "" for column in held for name in column.to_pylist()), key=str.encode
        )
        facts["min_partition"], facts["max_partition"] = (
            (names[0], names[-1]) if names else ("", "")
        )
        for what, name in (("total_rows", "row_count"), ("total_bytes", "size_bytes")):
            facts[what] = min(sum(table.column(name).to_pylist()), BIG - 1)
    elif kind in BY_TABLE:
        ends(table="table")
    elif kind in (STATISTICS, ROW_GROUP_STATISTICS):
        facts["columns"] = list(columns)
    elif kind == HISTORY:
        ends(revision="revision")
    return facts


def file_rows(files: Sequence[HandFile]) -> list[Row]:
    return [{**file.facts, "row_groups": len(file.groups)} for file in files]


def group_rows(files: Sequence[HandFile]) -> list[Row]:
    """Rows of ROW_GROUPS."""
    return [
        {"row": row, "row_group": number, "row_count": rows}
        for row, file in enumerate(files)
        if len(file.groups) > 1
        for number, (rows, _) in enumerate(file.groups)
    ]


def statistics_rows(files: Sequence[HandFile]) -> list[Row]:
    found = [
        {"column": name, "row": row, **known_values(known, file.kind(name))}
        for row, file in enumerate(files)
        for name, known in file.whole().items()
        if known
    ]
    return sorted(found, key=lambda item: (item["column"].encode(), item["row"]))


def group_statistics_rows(files: Sequence[HandFile]) -> list[Row]:
    found = [
        {
            "column": file.name(at),
            "row": row,
            "row_group": number,
            **known_values(known, file.kind(file.name(at))),
        }
        for row, file in enumerate(files)
        if len(file.groups) > 1
        for number, (_, columns) in enumerate(file.groups)
        for at, known in columns.items()
        if known
    ]
    order = [(item["column"].encode(), item["row"], item["row_group"]) for item in found]
    return [item for _, item in sorted(zip(order, found), key=lambda pair: pair[0])]


def known_values(known: Known, kind: str | None) -> Row:
    """The columns of section 6.5."""
    found: Row = {"null_count": known.nulls}
    for what, raw in (("min", known.least), ("max", known.greatest)):
        key = None if raw is None or kind is None else key_of(raw, kind)
        found[what] = key
        plain = key is None or kind is None or from_key(key, kind) == raw
        found[f"{what}_bytes"] = None if plain else raw
    no_nan = known.no_nan or kind != "double"  # where it means nothing
    found["exact"] = known.least_exact | known.greatest_exact << 1 | no_nan << 2
    found["bloom_offset"], found["bloom_bytes"] = known.bloom or (None, None)
    return found


__all__ = ["APPLICATIONS", "ROW_GROUPS", "HandFile", "facts_of", "make_table"]
