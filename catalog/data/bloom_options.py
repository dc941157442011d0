"""Which columns get bloom filters when files are written, and how large these are.

Source: docs/reading.md, "Bloom filters".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import UsageError, some_names
from ..format.schema import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

FALSE_POSITIVES: Final = (
    0.01  # one in a hundred row groups is read for nothing: 10 to 20 bits a value
)


def check_bloom(columns: Sequence[str], schema: pa.Schema) -> Sequence[str]:
    """The columns that are to have bloom filters, if they can.

    Raises:
        UsageError: One isn't there, or of a type that can have none.
    """
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        hint = f"Give [{columns!r}]" if isinstance(columns, str) else "Give a list like ['id']"
        raise UsageError(f"bloom= is a list of names, not {columns!r}", hint=hint)
    for name in columns:
        if not isinstance(name, str):
            raise UsageError(
                f"bloom= holds {name!r}, which is no name", hint="Give names of columns, as text"
            )
        if len(schema.get_all_field_indices(name)) != 1:
            raise UsageError(
                f"bloom= names {name!r}, which is no column of the data",
                key=str(name),
                hint=f"It has: {some_names(schema.names)}",
            )
        kind = plain(schema.field(name).type)
        if kind.num_fields or pa.types.is_boolean(kind) or pa.types.is_null(kind):
            raise UsageError(
                f"Column {name!r} is {kind}, which can have no bloom filter",
                key=name,
                hint="Name columns of numbers, texts, bytes or times, which hold many values",
            )
    return columns


def bloom_options(first: pa.Table, columns: Sequence[str]) -> dict[str, Any]:
    """What Arrow's writer takes, by the values that the first row group has: others are no larger.

    Args:
        columns: As `check_bloom` gave them.
    """
    if not columns:
        return {}
    import pyarrow.compute as pc

    options = {}
    for name in columns:
        values = first.column(name)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        distinct = pc.count_distinct(values).as_py()
        options[name] = {"ndv": max(1, distinct), "fpp": FALSE_POSITIVES}
    return {"bloom_filter_options": options}
