"""What the footer of a Parquet file says of its columns, held against their values: many programs
have written wrong bounds and null counts, and nothing but the values shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..format import compute as pc
from ..format.statistics import bound_type, column_statistics, decode_bounds
from .parquet import primitive_leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_SHOWN: Final = 60  # characters of a value


class WrongStatement(NamedTuple):
    """A footer's statement that its file contradicts.

    Attributes:
        column: The name of the column.
        row_group: The number of the row group.
        of: `min`, `max` or `null_count`.
        stated, actual: What the footer says, and what the values say.
    """

    column: str
    row_group: int
    of: str
    stated: str
    actual: str

    @property
    def text(self) -> str:
        """The same in words."""
        what = {"min": "least value", "max": "greatest value", "null_count": "number of nulls"}
        return (
            f"column {self.column!r} of row group {self.row_group}: its {what[self.of]} is "
            f"{self.actual}, the footer says {self.stated}"
        )


def wrong_statements(file: Any) -> Iterator[WrongStatement]:
    """Yields the statements of a footer that the values contradict; of columns that can have
    bounds in the log. Reads these.

    Args:
        file: A `pyarrow.parquet.ParquetFile`.
    """
    metadata, schema = file.metadata, file.schema_arrow
    leaves = primitive_leaves(metadata, schema)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for leaf, position, field, column in leaves:
            chunk = group.column(leaf)
            if not chunk.is_stats_set:
                continue
            said = column_statistics(chunk, column, position, field, foreign=None)
            values = file.read_row_group(number, [field.name], use_threads=False).column(0)
            if said.HasField("null_count") and said.null_count != values.null_count:
                yield WrongStatement(
                    field.name, number, "null_count", str(said.null_count), str(values.null_count)
                )
            kind = bound_type(field.type)
            if kind is not None and values.null_count < len(values):
                yield from _wrong_bounds(said, values, kind, field.name, number)


def _wrong_bounds(
    said: Any, values: pa.ChunkedArray, kind: pa.DataType, name: str, number: int
) -> Iterator[WrongStatement]:
    """The bounds that a value is beyond."""
    extremes = pc.min_max(values.cast(kind))
    for which, beyond in (("min", pc.less), ("max", pc.greater)):
        if not said.HasField(which):
            continue
        stated = decode_bounds([getattr(said, which)], kind)[0]
        actual = extremes[which]
        if stated.is_valid and actual.is_valid and beyond(actual, stated).as_py():
            yield WrongStatement(name, number, which, _shown(stated), _shown(actual))


def _shown(value: pa.Scalar) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
