"""What the log keeps of columns of floats in files that lakelog writes: from the values, since
Parquet tells nothing of NaN. The file's footer keeps it for a log that is lost. Pure.

Source: docs/format.md, sections 5.2 and 8.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pyarrow as pa
from google.protobuf.message import DecodeError

from ..wire import lakelog_transaction_pb2 as wire
from . import compute as pc
from .statistics import bound_type, encode_float

if TYPE_CHECKING:
    from collections.abc import Sequence


def is_float(kind: pa.DataType) -> bool:
    """Whether a column is one of floats, whatever its type is wrapped in."""
    return bool(pa.types.is_floating(plain(kind)))


def plain(kind: pa.DataType) -> pa.DataType:
    """A type without what it is wrapped in: an extension, a dictionary."""
    while isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind):
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind.storage_type
    return kind


def float_statistics(values: pa.ChunkedArray, position: int) -> wire.ColumnStatistics:
    """What the log keeps of a column of floats, from its values: NaN is left out of bounds.

    Args:
        position: Of the column among the schema's top-level fields.
    """
    result = wire.ColumnStatistics(column=position, null_count=values.null_count)
    if bound_type(values.type) is None or pa.types.is_dictionary(values.type):
        return result
    result.no_nan = not pc.any(pc.is_nan(values)).as_py()
    found = pc.min_max(values)
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is not None and not math.isnan(low):
        result.min, result.max = encode_float(low, "min"), encode_float(high, "max")
        result.min_exact = result.max_exact = True
    return result


def encode_floats(groups: Sequence[wire.RowGroup]) -> bytes:
    """What a footer keeps: of each row group its rows and its columns of floats; nothing if there
    are no such columns."""
    if not any(group.columns for group in groups):
        return b""
    return wire.Add(row_groups=groups).SerializeToString(deterministic=True)


def tell_floats(facts: wire.Add, floats: bytes) -> None:
    """Put what is known of floats into the other facts of their file.

    Args:
        floats: What `encode_floats` gave, of this very file.
    """
    if not floats:
        return
    told = wire.Add.FromString(floats)
    told.DiscardUnknownFields()
    for group, own in zip(facts.row_groups, told.row_groups, strict=True):
        known = {each.column: each for each in own.columns}
        for entry in group.columns:
            if entry.column in known:
                entry.MergeFrom(known[entry.column])


def fit(floats: bytes, facts: wire.Add, schema: pa.Schema) -> bool:
    """Whether this may be what `encode_floats` gave of a file: its row groups, and of its columns
    those of floats alone."""
    try:
        told = wire.Add.FromString(floats)
    except DecodeError:
        return False
    counts = [group.row_count for group in facts.row_groups]
    if [group.row_count for group in told.row_groups] != counts:
        return False
    places = {at for at, field in enumerate(schema) if is_float(field.type)}
    listed = [[each.column for each in group.columns] for group in told.row_groups]
    return all(len(set(one)) == len(one) and places.issuperset(one) for one in listed)
