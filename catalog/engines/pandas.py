"""Rows as a frame of pandas, without a value lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from .source import package

if TYPE_CHECKING:
    import pandas

_NULLABLE: Final = {
    pa.int8(): "Int8Dtype", pa.int16(): "Int16Dtype", pa.int32(): "Int32Dtype",
    pa.int64(): "Int64Dtype", pa.uint8(): "UInt8Dtype", pa.uint16(): "UInt16Dtype",
    pa.uint32(): "UInt32Dtype", pa.uint64(): "UInt64Dtype", pa.bool_(): "BooleanDtype",
}  # fmt: skip


def data_frame(table: pa.Table) -> pandas.DataFrame:
    """A frame of a table. Integers and booleans that hold nulls get pandas' own nullable types:
    floats, which pyarrow would make of them, can't hold all integers. In floats null becomes NaN.

    Raises:
        MissingDependency: pandas isn't installed.
    """
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
