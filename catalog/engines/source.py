"""What an engine reads of one table of a cut; and packages of engines, imported when needed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from ...errors import LakelogError, MissingDependency, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas

    from .bare import BareFiles

_NULLABLE: Final = {
    pa.int8(): "Int8Dtype", pa.int16(): "Int16Dtype", pa.int32(): "Int32Dtype",
    pa.int64(): "Int64Dtype", pa.uint8(): "UInt8Dtype", pa.uint16(): "UInt16Dtype",
    pa.uint32(): "UInt32Dtype", pa.uint64(): "UInt64Dtype", pa.bool_(): "BooleanDtype",
}  # fmt: skip
# Of pandas: an offset without a colon.
_UNKNOWN_ZONE: Final = re.compile(r"[zZ]|[+-]\d{4}", re.ASCII)
_NAMES: Final = {"duckdb": "DuckDB", "pandas": "pandas", "polars": "Polars"}


class Scan(Protocol):
    """Reads rows of a table."""

    def __call__(
        self, columns: Sequence[str] | None, where: Any | None, *, exact: bool = True
    ) -> pa.RecordBatchReader:
        """The rows, as `Snapshot.scan` gives them.

        Args:
            columns: Names; None: all.
            where: A pyarrow expression.
            exact: Whether rows that don't meet it are left out. Otherwise only files and row groups
                are that hold none which does, however NaN compares: for engines that filter again.
        """


@dataclass(frozen=True, slots=True)
class Source:
    """One table of a cut.

    Attributes:
        name: Of the table.
        schema: Of its rows.
        scan: Reads them.
        row_count: How many there are, as the log says.
        bare: Its files as they are, for an engine that reads them itself; None: there is a reason
            why it shall not.
    """

    name: str
    schema: pa.Schema
    scan: Scan
    row_count: Callable[[], int]
    bare: Callable[[], BareFiles | None] = lambda: None


def package(name: str) -> Any:
    """Imports the package of an engine. Raises `MissingDependency` if it isn't installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingDependency(
            f"This call needs {_NAMES[name]}, which is not installed",
            key=name,
            hint=f"pip install 'lakelog[{name}]'",
        ) from error


def by_column(
    rows: pa.Table, call: Callable[[pa.Table], Any], engine: str, *also: type[BaseException]
) -> Any:
    """What a call makes of some rows. Raises `UsageError` with the name of the column if an engine
    can't hold its type or a value.

    Args:
        also: What the engine raises beside exceptions.
    """
    kinds: tuple[type[BaseException], ...] = (Exception, *also)
    try:
        return call(rows)
    except kinds as error:
        if isinstance(error, (LakelogError, MemoryError)):
            raise
        for name in rows.schema.names:
            try:
                call(rows.select([name]))
            except kinds as of_column:
                kind = rows.schema.field(name).type
                raise UsageError(
                    f"{engine} can't hold column {name!r} ({kind}): {str(of_column)[:200]}",
                    key=name,
                    hint="Read other columns, or take the rows as Arrow: snapshot.to_arrow(table)",
                ) from error
        raise


def data_frame(table: pa.Table) -> pandas.DataFrame:
    """Returns the frame of a table. Integers and booleans that hold nulls get pandas' own nullable
    types: floats, which pyarrow would make of them, can't hold all integers. In floats null becomes
    NaN. Raises `MissingDependency` if pandas isn't installed, and `UsageError` for a column that it
    can't hold."""
    pd = package("pandas")
    nullable = {
        index: _NULLABLE[column.type]
        for index, column in enumerate(table.columns)
        if column.null_count and column.type in _NULLABLE
    }
    rest = [index for index in range(table.num_columns) if index not in nullable]
    frame: Any = _to_pandas(table.select(rest)) if rest else pd.DataFrame(index=range(len(table)))
    for index, kind in nullable.items():
        values = getattr(pd, kind)().__from_arrow__(table.column(index))
        frame.insert(index, table.schema.names[index], values)
    return frame


def _to_pandas(table: pa.Table) -> Any:
    return by_column(in_utc(table, _UNKNOWN_ZONE), lambda rows: rows.to_pandas(), "pandas")


def in_utc(table: pa.Table, unknown: re.Pattern[str]) -> pa.Table:
    """The same instants, in UTC where an engine doesn't know a zone."""
    kinds = [_in_utc(each.type, unknown) for each in table.schema]
    if kinds == table.schema.types:
        return table
    fields = [each.with_type(kind) for each, kind in zip(table.schema, kinds, strict=True)]
    return table.cast(pa.schema(fields, table.schema.metadata))


def _in_utc(kind: pa.DataType, unknown: re.Pattern[str]) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(kind) and kind.tz and unknown.fullmatch(kind.tz):
        return pa.timestamp(kind.unit, "UTC")
    if types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([each.with_type(_in_utc(each.type, unknown)) for each in fields])
    if types.is_map(kind):
        return pa.map_(_in_utc(kind.key_type, unknown), _in_utc(kind.item_type, unknown))
    if types.is_fixed_size_list(kind):
        return pa.list_(_in_utc(kind.value_type, unknown), kind.list_size)
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type, unknown)))
    return kind
