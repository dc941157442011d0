"""Rows split by the values of some columns: each partition's apart, in the order that they had.

A stream is split piece by piece, and what has no file yet is held in memory up to a limit: beyond
it, the partitions that hold most are written, so that one with many rows has several files.

Source: docs/writing.md, "Partitions".
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import InvalidPartition, InvalidSchema, UsageError, it_has
from ..format import compute as pc
from ..format.columns import array, numbers
from ..format.names import parse_partition, partition_name
from ..format.schema import decode_schema, encode_schema, hint_of_uuid, partition_columns
from ..format.statistics import value_statistics
from ..scalars import value_of
from .parquet import row_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..format.schema import EncodedSchema
    from ..wire import lakelog_transaction_pb2 as wire


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
                hint=it_has(name, schema.names),
            )
        check_type(schema.field(name))
    return found


def can_partition(name: str, schema: pa.Schema) -> bool:
    """Whether data has a column, and its values make names."""
    if schema.names.count(name) != 1:
        return False
    try:
        check_type(schema.field(name))
    except InvalidSchema:
        return False
    return True


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
            f"name partitions{hint_of_uuid(kind)}",
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
                hint="Nothing of this write becomes visible. Partition by less, or by nothing: "
                "statistics skip files by every column",
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


# --- Values that names of partitions state --------------------------------------------------------

_INTEGER: Final = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_CANONICAL: Final = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_DECIMAL: Final = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"([ T](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})(\.(?P<fraction>[0-9]{1,6}))?)?"
    r"(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?",
    re.ASCII,
)
_INT64: Final = 1 << 63
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000}
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def told_by_partition(
    schema: pa.Schema, partition: str, wanted: Iterable[str] | None = None
) -> dict[str, pa.Scalar]:
    """The values of the columns that a file lacks, by their names.

    Args:
        wanted: Only of these.
        schema: As the log has it, with its marks.
        partition: Of the file.
    Raises:
        InvalidPartition: The name doesn't tell one, or not as its type.
    """
    names = partition_columns(schema)
    if names and wanted is not None:
        chosen = set(wanted)
        names = [name for name in names if name in chosen]
    texts = parse_partition(partition) if names else {}
    return {name: _value(name, schema.field(name).type, texts, partition) for name in names}


def with_partition(
    schema: pa.Schema,
    partition: str,
    partition_by: Any,
    known: Mapping[str, pa.DataType] | None = None,
) -> EncodedSchema:
    """The schema of a file with those columns that its partition's name tells of, behind its own.

    Args:
        schema: As the file has it: what is in the file is not told by a name.
        partition_by: Types by column, or names of columns, whose types are found; None: no columns.
        known: Types that the table has: of a name whose value fits its own.
    Raises:
        UsageError: Neither.
        InvalidSchema: A type that can't be in a name.
        InvalidPartition: The name doesn't tell a value, or not as its type.
    """
    kinds = {} if partition_by is None else _kinds(partition_by, partition, known)
    told = {name: kind for name, kind in kinds.items() if name not in schema.names}
    whole = pa.schema([*schema, *(pa.field(name, kind) for name, kind in told.items())])
    encoded = encode_schema(whole, by_partition=told.keys())
    texts = parse_partition(partition)
    for name, kind in told.items():
        _value(name, kind, texts, partition)
    return encoded


def _kinds(
    partition_by: Any, partition: str, known: Mapping[str, pa.DataType] | None = None
) -> dict[str, pa.DataType]:
    if not isinstance(partition_by, Mapping):
        names = check_columns(partition_by)
        fitting = {name: kind for name, kind in (known or {}).items() if name in names}
        fitting = {n: kind for n, kind in fitting.items() if _all_fit(n, kind, [partition])}
        return infer_types([partition], names) | fitting
    for name, kind in partition_by.items():
        if not isinstance(name, str) or not isinstance(kind, pa.DataType):
            raise UsageError(
                f"partition_by= has {name!r:.60} of type {kind!r:.60}",
                hint="Give pyarrow types by names of columns, or a list of names",
            )
        check_type(pa.field(name, kind))
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            raise UsageError(
                f"Column {name!r} is a timestamp in ns, which a partition's name can't tell",
                key=name,
                hint="Give it in us",
            )
    return dict(partition_by)


def infer_types(partitions: Iterable[str], names: Sequence[str]) -> dict[str, pa.DataType]:
    """Types of columns, from all that names of partitions tell of them: int64 if all are integers
    without leading zeros, date32 if all are days, else string; null if there are only nulls.

    Raises:
        InvalidPartition: A name doesn't tell of a column.
    """
    texts: dict[str, set[str]] = {name: set() for name in names}
    for partition in partitions:
        told = parse_partition(partition)
        for name in names:
            text = _text(name, told, partition)
            texts[name] |= set() if text is None else {text}
    return {name: _kind(found) for name, found in texts.items()}


def partition_types(
    partitions: Iterable[str],
    known: Mapping[str, pa.DataType] | None = None,
    forced: Mapping[str, pa.DataType] | None = None,
) -> dict[str, dict[str, pa.DataType]]:
    """Returns the columns in the names of partitions, by name, with types that fit all values.

    Args:
        known: Types that columns have if all their values fit.
        forced: Types that they have.
    """
    columns_of = {name: parse_partition(name).keys() for name in set(partitions)}
    columns = {column for columns in columns_of.values() for column in columns}
    kinds: dict[str, pa.DataType] = {}
    for column in columns:
        names = [name for name in columns_of if column in columns_of[name]]
        wanted = (forced or {}).get(column)
        if wanted is None and _all_fit(column, (known or {}).get(column), names):
            wanted = (known or {})[column]
        kinds[column] = infer_types(names, [column])[column] if wanted is None else wanted
    return {name: {each: kinds[each] for each in own} for name, own in columns_of.items()}


def columns_by_partition(schemas: Iterable[EncodedSchema]) -> list[tuple[str, pa.DataType]]:
    """Returns the columns, with types, that some schemas take from the names of partitions."""
    found: list[tuple[str, pa.DataType]] = []
    for encoded in schemas:
        schema = decode_schema(encoded.message)
        found += ((name, schema.field(name).type) for name in partition_columns(schema))
    return found


def _all_fit(column: str, kind: pa.DataType | None, partitions: Iterable[str]) -> bool:
    """Checks whether all values of a column, in the names of partitions, fit a type."""
    if kind is None or pa.types.is_null(kind):
        return False
    try:
        _kinds({column: kind}, "")
        for partition in partitions:
            _value(column, kind, parse_partition(partition), partition)
    except (InvalidPartition, InvalidSchema, UsageError):
        return False
    return True


def _kind(texts: set[str]) -> pa.DataType:
    if not texts:
        return pa.null()
    if all(_CANONICAL.fullmatch(text) and -_INT64 <= int(text) < _INT64 for text in texts):
        return pa.int64()
    try:
        for text in texts:
            _date(text)
    except ValueError:
        return pa.string()
    return pa.date32()


def tell_values(add: wire.Add, schema: pa.Schema) -> None:
    """Put into the statistics of a file what its partition's name tells: one value, or null.

    Args:
        add: With its partition, and row groups as its footer has them.
        schema: As the log has it, with its marks.
    """
    for name, value in told_by_partition(schema, add.partition).items():
        at = schema.get_field_index(name)
        for group in add.row_groups:
            group.columns.append(value_statistics(value, at, group.row_count))


def filled(batch: pa.RecordBatch, values: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """A batch of a file with columns that it lacks."""
    if not values:
        return batch
    arrays = [*batch.columns, *(pa.repeat(value, batch.num_rows) for value in values.values())]
    return pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, *values])


def texts_by_partition(
    schema: pa.Schema, partition: str, names: Iterable[str]
) -> dict[str, str | None]:
    """Returns values of columns that a file lacks, as texts that mean the same to any engine.
    Raises as `told_by_partition`."""
    values = told_by_partition(schema, partition, names)
    rows = {name: pa.chunked_array([pa.repeat(value, 1)]) for name, value in values.items()}
    return {name: texts_of(row)[0] for name, row in rows.items()}


def _text(name: str, told: Mapping[str, str | None], partition: str) -> str | None:
    if name not in told:
        raise InvalidPartition(
            f"The partition {partition!r} doesn't tell the value of column {name!r}",
            key=name,
            hint=f"Name it as {name}=value, with / between several",
        )
    return told[name]


def _value(
    name: str, kind: pa.DataType, told: Mapping[str, str | None], partition: str
) -> pa.Scalar:
    text = _text(name, told, partition)
    if text is None or pa.types.is_null(kind):
        if text is not None:
            raise _misfit(name, kind, text, partition)
        return pa.scalar(None, kind)
    try:
        return pa.scalar(_parsed(text, kind), kind)
    except (ValueError, OverflowError, ArithmeticError, pa.ArrowException):
        raise _misfit(name, kind, text, partition) from None


def _misfit(name: str, kind: pa.DataType, text: str, partition: str) -> InvalidPartition:
    return InvalidPartition(
        f"Column {name!r} is {kind}, and the partition {partition!r} says {text[:60]!r}",
        key=name,
        hint="Give the type that all partitions of the table have, such as string",
    )


def _parsed(text: str, kind: pa.DataType) -> Any:
    """A value as pyarrow takes it for a type.

    Raises:
        ValueError: The text is not a value of that type.
    """
    types = pa.types
    if types.is_string(kind):
        return text
    if types.is_boolean(kind):
        return {"true": True, "false": False}[text] if text in ("true", "false") else int("")
    if types.is_integer(kind):
        return int(_matched(_INTEGER, text))
    if types.is_date(kind):
        return _date(text)
    if types.is_decimal(kind):
        return Decimal(_matched(_DECIMAL, text))
    return _time(text, kind)


def _matched(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(text)
    return text


def _date(text: str) -> dt.date:
    return dt.date.fromisoformat(_matched(_DATE, text))


def _time(text: str, kind: pa.DataType) -> int:
    """A time in the type's unit; only one with a zone says which instant it is."""
    found = _TIME.fullmatch(text)
    if found is None or bool(found["zone"]) != bool(kind.tz):
        raise ValueError(text)
    whole = f"{found['date']}T{found['time'] or '00:00:00'}{found['zone'] or 'Z'}"
    since = dt.datetime.fromisoformat(whole) - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000
    micros += int((found["fraction"] or "0").ljust(6, "0"))
    value, rest = divmod(micros * _PER_SECOND[kind.unit], 1_000_000)
    if rest:
        raise ValueError(text)
    return value
