"""What a file shows: its columns as its log's definition of the table has them, each under the
name and type that readers see. Pure.

All that reads files goes by it: a column that was renamed is found under its old name, for its id
is the same; one that was dropped is not found, and one that came later has its default.

Source: docs/format.md, section 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from ..format.schema import column_id, column_of, plain, widen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..format.definitions import Definition


class Found(NamedTuple):
    """What a file has of the columns of a target, in its order.

    Attributes:
        stored: By column what the file calls it.
        defaults: By column the one value of all its rows; neither: null.
    """

    stored: dict[str, str]
    defaults: dict[str, pa.Scalar]

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the file's columns under the names that readers see, with the defaults."""
        if not self.defaults and all(name == own for name, own in self.stored.items()):
            return batch
        columns = [batch.column(own) for own in self.stored.values()]
        columns += [pa.repeat(value, batch.num_rows) for value in self.defaults.values()]
        return pa.RecordBatch.from_arrays(columns, names=[*self.stored, *self.defaults])


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The columns of files of one schema.

    Attributes:
        own: As the files have them, with the ids of columns.
        schema: As readers see them.
        stored: By column what the files call it; they lack the others.
        defaults: By column that they lack its value, where that isn't null.
        definition: Names the definition by which that is so; empty for none.
    """

    own: pa.Schema
    schema: pa.Schema
    stored: Mapping[str, str]
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    definition: bytes = b""

    @property
    def is_as_stored(self) -> bool:
        """Whether readers see what the files have, and nothing else."""
        same = self.schema.names == self.own.names and self.schema.types == self.own.types
        return same and all(self.stored.get(name) == name for name in self.own.names)

    def seen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of these columns as readers see them: under their names, with defaults. Types are
        their own; columns that are null in all rows are lacking."""
        return self.found(self.schema).of(batch) if self.definition else batch

    def found(self, target: pa.Schema) -> Found:
        """What there is of the columns of a target, by their names."""
        names = target.names
        stored = {name: self.stored[name] for name in names if name in self.stored}
        defaults = {name: self.defaults[name] for name in names if name in self.defaults}
        return Found(stored, defaults)


def shown(own: pa.Schema, definition: Definition | None) -> Shown:
    """What files of a schema show.

    Args:
        definition: Of their table, in their log; None: they are as they are.
    """
    if definition is None:
        return Shown(own, own, {name: name for name in own.names})
    names = {number: each.name for each in own if (number := column_id(each))}
    fields: list[pa.Field] = []
    stored: dict[str, str] = {}
    for declared in definition.schema:
        name, kind, number = declared.name, declared.type, column_id(declared)
        if number in names:
            stored[name] = names[number]
            held = own.field(stored[name]).type
            # Never cast with loss: what doesn't fit shows as it is, and conflicts.
            kind = kind if fits(held, kind) else held
        fields.append(column_of(name, kind, number))
    for each in own:
        if column_id(each) > definition.last_id and each.name not in definition.schema.names:
            fields.append(column_of(each.name, each.type, column_id(each)))
            stored[each.name] = each.name
    lacking = {name: value for name, value in definition.defaults.items() if name not in stored}
    return Shown(own, pa.schema(fields), stored, lacking, definition.name)


def readable_columns(schema: pa.Schema, target: pa.Schema) -> list[str]:
    """What rows of a schema have of the columns of a target, by their names."""
    return list(shown(schema, None).found(target).stored)


def fits(held: pa.DataType, declared: pa.DataType) -> bool:
    """Whether every value of a type is one of a declared type."""
    wider = widen(declared, held)
    return wider is not None and wider.equals(plain(declared))


def stored_names(schemas: Iterable[Shown], names: Iterable[str]) -> list[str]:
    """What files of some schemas call some columns, each once."""
    wanted = list(names)
    found = dict.fromkeys(wanted)
    for each in schemas:
        if each.definition:
            found |= {each.stored[name]: None for name in wanted if name in each.stored}
    return list(found)
