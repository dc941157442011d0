"""Rows split by the values of some columns: each partition's apart, in the order that they had.

A stream is split piece by piece, and what has no file yet is held in memory up to a limit: beyond
it, the partitions that hold most are written, so that one with many rows has several files.

Source: docs/writing.md, "Partitions".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import InvalidSchema, UsageError, some_names
from ..format import compute as pc
from ..format.columns import array, numbers
from ..format.names import partition_name
from ..scalars import value_of
from .parquet import row_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_PARTITIONS: Final = 10_000  # of one write: each has a file of its own
HELD_BYTES: Final = 256 << 20  # of rows that have no file yet


def check_partition_by(names: Any, schema: pa.Schema, partition: str = "") -> list[str]:
    """The columns that data is to be split by; none if it is not.

    Args:
        partition: A name that was given for all of it.
    Raises:
        UsageError: No list of columns of the data, or one twice; or a name beside it.
        InvalidSchema: A column of a type whose values don't make names.
    """
    if names is None:
        return []
    if partition != "":
        raise UsageError(
            "partition= and partition_by= can't be given together",
            key=str(partition)[:60],
            hint="partition_by= makes the names of partitions from values",
        )
    found = check_columns(names)
    for name in found:
        if name not in schema.names:
            raise UsageError(
                f"The data has no column {name!r} to be partitioned by",
                key=name,
                hint=f"It has: {some_names(schema.names)}",
            )
        check_type(schema.field(name))
    return found


def check_columns(names: Any) -> list[str]:
    """A list of names, each once.

    Raises:
        UsageError: It is not a list of names, or names a column twice.
    """
    is_list = isinstance(names, Iterable) and not isinstance(names, str | bytes | Mapping)
    found = [value_of(name) for name in names] if is_list else []
    if not is_list or not all(isinstance(name, str) for name in found):
        raise UsageError(
            f"partition_by= is a list of names of columns, not {names!r:.60}",
            hint=f"Give [{names!r:.60}]" if isinstance(names, str) else "Give names as text",
        )
    for name in found:
        if found.count(name) > 1:
            raise UsageError(
                f"Column {name!r} stands twice in partition_by=", key=name, hint="Name it once"
            )
    return found


def check_type(field: pa.Field) -> None:
    """Refuse a column whose values don't make names.

    Raises:
        InvalidSchema: Of a type without exact texts, or without bounds in the log.
    """
    types, kind = pa.types, field.type
    if not (
        types.is_integer(kind)
        or types.is_string(kind)
        or types.is_boolean(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
        or (types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision)
    ):
        raise InvalidSchema(
            f"Column {field.name!r} has type {kind}, by which no table can be partitioned",
            key=field.name,
            hint="Integers, texts, booleans, dates, timestamps and decimals up to 38 digits can "
            "name partitions",
        )


def partitions(
    batches: Iterator[pa.RecordBatch], by: Sequence[str], *, held_bytes: int | None = None
) -> Iterator[tuple[str, Iterator[pa.RecordBatch]]]:
    """Partitions by name, each with some of its rows, in their order: a partition may come again.

    Args:
        batches: With the columns of `by`.
        by: As `check_partition_by` gives it.
        held_bytes: How much may be in memory; `HELD_BYTES` if not given.
    Raises:
        UsageError: More than `MAX_PARTITIONS`.
        InvalidName: A value makes too long a name.
    """
    limit = HELD_BYTES if held_bytes is None else held_bytes
    held: dict[str, list[pa.Table]] = {}
    sizes: dict[str, int] = {}
    for piece in row_groups(batches):
        for name, rows in _split(piece, by):
            held.setdefault(name, []).append(rows)
            sizes[name] = sizes.get(name, 0) + rows.nbytes
        if len(sizes) > MAX_PARTITIONS:
            raise UsageError(
                f"The data has more than {MAX_PARTITIONS:,} partitions by {', '.join(by)}",
                key=by[-1],
                hint="Nothing of this write becomes visible. Partition by less: statistics skip "
                "files by every column",
            )
        if sum(sizes.values()) > limit:
            for name in sorted(held, key=sizes.__getitem__, reverse=True):
                yield name, _batches(held.pop(name))
                sizes[name] = 0
                if sum(sizes.values()) <= limit // 2:
                    break
    for name in list(held):
        yield name, _batches(held.pop(name))


def _batches(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    for rows in tables:
        yield from rows.to_batches()


def _split(rows: pa.Table, by: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each partition, copied: a slice would keep the memory of all."""
    codes = np.zeros(rows.num_rows, np.int64)
    for name in by:
        found = _codes(rows.column(name))
        _, codes = np.unique(codes * (found.max(initial=0) + 1) + found, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    starts = np.concatenate([[0], ends[:-1]])
    keys = pc.take(rows.select(list(by)), array(order[starts]))
    names = _names(keys, by)
    if len(names) == 1:
        yield names[0], rows
        return
    for name, start, end in zip(names, starts.tolist(), ends.tolist(), strict=True):
        yield name, pc.take(rows, array(order[start:end]))


def _codes(values: pa.ChunkedArray) -> np.ndarray:
    """A number for each value, the same for the same; null has its own."""
    coded = values.combine_chunks().dictionary_encode(null_encoding="encode")
    return numbers(coded.indices).astype(np.int64)


def _names(keys: pa.Table, by: Sequence[str]) -> list[str]:
    texts = [texts_of(keys.column(name)) for name in by]
    return [partition_name(zip(by, values, strict=True)) for values in zip(*texts, strict=True)]


def texts_of(values: pa.ChunkedArray) -> list[str | None]:
    """Values as they stand in names of partitions. Source: docs/format.md, section 5.4."""
    types, kind = pa.types, values.type
    if types.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in values.to_pylist()]
    if types.is_timestamp(kind):
        in_utc = values.cast(pa.timestamp(kind.unit, "UTC")) if kind.tz else values
        found = in_utc.cast(pa.string()).to_pylist()
        return [None if text is None else _short(text) for text in found]
    return values.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]


def _short(text: str) -> str:
    """A time without the zeros at the end of its fraction."""
    time, zone = (text[:-1], "Z") if text.endswith("Z") else (text, "")
    return (time.rstrip("0").rstrip(".") if "." in time else time) + zone
