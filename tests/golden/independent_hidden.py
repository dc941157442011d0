"""Which rows of a file deletes hide, for the independent reader: docs/format.md, sections 5.6 and
5.7. Of the language of predicates it knows comparisons of a column with a number or a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from independent_bitmap import deleted_rows
from independent_ipc import decode_schema
from independent_shown import value_of
from independent_wire import need

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from independent_content import Entry, File
    from independent_shown import Column

COMPARISON = re.compile(r"(\w+) (>=|<|=) (?:(-?\d+)|'([^']*)')", re.ASCII)


def hidden_rows(
    file: File,
    tombstones: Sequence[Entry],
    entries: Sequence[Entry],
    objects: Mapping[str, bytes],
    own: Sequence[Column],
    data: pa.Table,
) -> set[int]:
    """Numbers of the rows of a file that nobody reads.

    Args:
        tombstones: Of its table.
        entries: The row deletes that hold of it.
        own: The columns that it has.
        data: Its rows.
    """
    found: set[int] = set()
    for first, last in deleted_rows(objects, entries, file.facts["row_count"]):
        found.update(range(first, last + 1))
    for entry in tombstones:
        if entry.holds_of(file):
            found.update(row for row, met in enumerate(met_by(entry, own, data)) if met)
    return found


def met_by(entry: Entry, own: Sequence[Column], data: pa.Table) -> list[bool]:
    """Whether each row meets the predicate of a tombstone."""
    match = COMPARISON.fullmatch(entry.facts["predicate"])
    need(match, "a predicate that this reader doesn't know")
    assert match is not None
    name, sign, number, text = match.groups()
    (column,) = [c for c in entry.facts["columns"].columns if c.name == name]
    held = [c for c in own if c.number == column.id]
    values: list[Any]
    if held:
        values = data.column(held[0].stored).to_pylist()
    elif "default" in column.there:
        kind = declared(entry, name)
        values = [value_of(column.default, kind).as_py()] * data.num_rows
    else:
        values = [None] * data.num_rows
    other: Any = int(number) if text is None else text
    compare = {
        ">=": lambda value: value >= other,
        "<": lambda value: value < other,
        "=": lambda value: value == other,
    }[sign]
    return [value is not None and bool(compare(value)) for value in values]


def declared(entry: Entry, name: str) -> pa.DataType:
    return decode_schema(entry.facts["columns"].arrow_schema).field(name).type
