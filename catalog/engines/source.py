"""What an engine reads of one table of a cut; and packages of engines, imported when needed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from ...errors import MissingDependency

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas

    from .bare import BareFiles

_NULLABLE: Final = {
    pa.int8(): "Int8Dtype", pa.int16(): "Int16Dtype", pa.int32(): "Int32Dtype",
    pa.int64(): "Int64Dtype", pa.uint8(): "UInt8Dtype", pa.uint16(): "UInt16Dtype",
    pa.uint32(): "UInt32Dtype", pa.uint64(): "UInt64Dtype", pa.bool_(): "BooleanDtype",
}  # fmt: skip
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


def data_frame(table: pa.Table) -> pandas.DataFrame:
    """Returns the frame of a table. Integers and booleans that hold nulls get pandas' own nullable
    types: floats, which pyarrow would make of them, can't hold all integers. In floats null becomes
    NaN. Raises `MissingDependency` if pandas isn't installed."""
    pd = package("pandas")
    nullable = {
        index: _NULLABLE[column.type]
        for index, column in enumerate(table.columns)
        if column.null_count and column.type in _NULLABLE
    }
    rest = [index for index in range(table.num_columns) if index not in nullable]
    frame: Any = table.select(rest).to_pandas() if rest else pd.DataFrame(index=range(len(table)))
    for index, kind in nullable.items():
        values = getattr(pd, kind)().__from_arrow__(table.column(index))
        frame.insert(index, table.schema.names[index], values)
    return frame
