"""The one schema that a cut is read with: the common type of each column, and files conformed to
it. Pure.

Source: docs/format.md, section 5.3.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from ...errors import SchemaConflict
from ..format.schema import column_id, column_of, common_type, encode_schema, plain, widen

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from ..format.definitions import Definition


# --- What a file shows to readers of its table ----------------------------------------------------


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
    defaults: Mapping[str, pa.Scalar] = dataclasses.field(default_factory=dict)
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
        nullable = True
        if number in names:
            stored[name] = names[number]
            held, nullable = own.field(stored[name]).type, own.field(stored[name]).nullable
            # Never cast with loss: what doesn't fit shows as it is, and conflicts.
            kind = kind if fits(held, kind) else held
        fields.append(column_of(name, kind, number, nullable=nullable))
    for each in own:
        if column_id(each) > definition.last_id and each.name not in definition.schema.names:
            fields.append(column_of(each.name, each.type, column_id(each), nullable=each.nullable))
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


# --- One schema for the files of a table ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileSchema:
    """A schema that some files of a cut have.

    Attributes:
        schema: As they show it.
        writer: Whose they are, for messages.
        example: Finds one of them, for messages: its path, or nothing if none is live.
        words: What messages call them instead.
    """

    schema: pa.Schema
    writer: str
    example: Callable[[], str] = dataclasses.field(default=lambda: "", compare=False)
    words: str = dataclasses.field(default="", compare=False)

    def __str__(self) -> str:
        if self.words:
            return self.words
        path = self.example()
        return f"files of {self.writer!r}" + (f" ({path} for one)" if path else "")


def unify(schemas: Sequence[FileSchema], table: str) -> pa.Schema:
    """The one schema that a cut's files of a table are read with.

    Columns come in the order in which they are first seen, by their names; each has the common type
    of its types. All columns are nullable.

    Raises:
        SchemaConflict: Two types of one column have no safe common type. Names column, types,
            writers and a file of each.
    Source: docs/format.md, section 5.3.
    """
    found: dict[str, dict[Hashable, tuple[pa.DataType, FileSchema]]] = {}
    for item in schemas:
        for field in item.schema:
            seen = found.setdefault(field.name, {})
            seen.setdefault(type_key(field.type), (field.type, item))
    types = {name: _common(name, table, list(seen.values())) for name, seen in found.items()}
    return pa.schema(list(types.items()))


def type_key(kind: pa.DataType) -> Hashable:
    """What is equal for equal types: extension types of a user's own may have no hash."""
    try:
        hash(kind)
    except TypeError:
        raw: bytes = pa.schema([("", kind)]).serialize().to_pybytes()
        return raw
    found: Hashable = kind
    return found


def _common(name: str, table: str, seen: Sequence[tuple[pa.DataType, FileSchema]]) -> pa.DataType:
    """The type of a column by those that files have."""
    kind = common_type(each for each, _ in seen)
    if kind is not None:
        return plain(kind)
    (one, first), (other, second) = next(
        pair for pair in itertools.combinations(seen, 2) if widen(pair[0][0], pair[1][0]) is None
    )
    raise SchemaConflict(
        f"Column {name!r} of table {table!r} is {one} in {first} and {other} in {second}",
        key=name,
        writers=(first.writer, second.writer),
        hint="No safe common type exists. Rewrite one side with the other's type. Meanwhile choose "
        "the columns that agree, or writer=; or read snapshot.without_conflicts()",
    )


def column_names(schemas: Iterable[FileSchema]) -> list[str]:
    """Names of the columns of some schemas, in the order in which they are first met."""
    return list(dict.fromkeys(name for item in schemas for name in item.schema.names))


def agreed(
    schemas: Sequence[FileSchema], table: str
) -> tuple[pa.Schema, dict[str, SchemaConflict]]:
    """The columns of a cut without those about whose type its files disagree; and why, by these."""
    try:
        return unify(schemas, table), {}
    except SchemaConflict:
        pass
    fields, conflicts = [], {}
    for name in column_names(schemas):
        alone = [dataclasses.replace(item, schema=only(item.schema, {name})) for item in schemas]
        try:
            fields.append(unify(alone, table).field(name))
        except SchemaConflict as error:
            conflicts[name] = error
    return pa.schema(fields), conflicts


def only(schema: pa.Schema, names: set[str]) -> pa.Schema:
    """Some columns of a schema."""
    return pa.schema([field for field in schema if field.name in names])


def conform(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """A batch of what one file has of the target, in the order and types of the cut's schema; what
    it lacks is null.

    Raises:
        pyarrow.ArrowInvalid: A value doesn't fit (a timestamp out of the finer unit's range).
    """
    columns = []
    for field in target:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(index)
        columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def distinct(schemas: Iterable[FileSchema]) -> list[FileSchema]:
    """The schemas without repeats, in order."""
    seen: set[bytes] = set()
    kept = []
    for item in schemas:
        plain = pa.schema([field.remove_metadata() for field in item.schema])
        fingerprint = encode_schema(plain).fingerprint
        if fingerprint not in seen:
            seen.add(fingerprint)
            kept.append(item)
    return kept
