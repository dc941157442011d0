"""One table of a cut as a lazy frame of Polars.

Polars hands a dataset of pyarrow filters that pyarrow decides otherwise, so that rows are lost: NaN
is the greatest of all to Polars, and neither less nor greater than anything to pyarrow. Here its
filters only skip files and row groups that hold no such row either way, and Polars filters what is
read.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from ...errors import UsageError
from .source import by_column, in_utc, package

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars

    from .source import Source


_MOST_DIGITS: Final = 38
_OFFSET: Final = re.compile(r"[zZ]|[+-]\d\d:?\d\d", re.ASCII)


def lazy_frame(source: Source) -> polars.LazyFrame:
    """Returns a frame that reads columns and files when they are needed. Raises `MissingDependency`
    if Polars isn't installed."""
    pl = package("polars")
    from polars.io.plugins import register_io_source

    def read(
        columns: list[str] | None,
        predicate: polars.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[polars.DataFrame]:
        del batch_size
        where = None
        if predicate is not None and n_rows is None:  # the first rows are counted before a filter
            where = _as_arrow(predicate, source.schema, pl)
        names = _needed(columns, predicate, source.schema.names)
        with source.scan(names, where, exact=False) as reader:
            for frame in _frames(reader, n_rows, pl):
                found = frame if predicate is None else frame.filter(predicate)
                yield found if columns is None else found.select(columns)

    empty = _frame(source.schema.empty_table(), pl)
    return register_io_source(read, schema=empty.schema, is_pure=True)


def _needed(
    columns: list[str] | None, predicate: polars.Expr | None, names: list[str]
) -> list[str] | None:
    """The columns to read: those that are given and those that are looked at, in order."""
    if columns is None:
        return None
    wanted = set(columns)
    if predicate is not None:
        wanted |= set(predicate.meta.root_names())
    return [name for name in names if name in wanted] or names[:1]


def _frames(
    reader: pa.RecordBatchReader, n_rows: int | None, pl: Any
) -> Iterator[polars.DataFrame]:
    left = n_rows
    for batch in reader:
        if left is not None and left <= 0:
            return
        rows = pa.Table.from_batches([batch if left is None else batch.slice(0, left)])
        frame = _frame(rows, pl)
        left = None if left is None else left - frame.height
        yield frame
    if n_rows is None:
        yield _frame(reader.schema.empty_table(), pl)


def _frame(rows: pa.Table, pl: Any) -> polars.DataFrame:
    """The same rows; times of zones that Polars lacks are in UTC, the same instants.

    Raises:
        UsageError: A column holds what Polars can't.
    """
    for each in rows.schema:
        if _has_long_decimals(each.type):
            raise UsageError(
                f"Polars can't hold column {each.name!r} ({each.type}): its decimals have 38 "
                "digits at most",
                key=each.name,
                hint="Take the rows as Arrow: snapshot.to_arrow(table)",
            )
    return by_column(in_utc(rows, _OFFSET), pl.from_arrow, "Polars", pl.exceptions.PanicException)


def _has_long_decimals(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return bool(kind.precision > _MOST_DIGITS)
    return any(_has_long_decimals(kind.field(index).type) for index in range(kind.num_fields))


def _as_arrow(predicate: polars.Expr, schema: pa.Schema, pl: Any) -> Any | None:
    """A filter as Polars tells it to a dataset of pyarrow, or the part that it can tell; None if
    that is nothing."""
    listener = _Listener(schema)
    try:
        if _has_zones(predicate, schema):
            return None
        pl.scan_pyarrow_dataset(listener).filter(predicate).collect()
    except Exception as error:  # whatever it is: Polars itself filters
        what = f"{type(error).__name__}: {error}: nothing is skipped by a filter of Polars"
        warnings.warn(what, RuntimeWarning, stacklevel=2)
        return None
    return listener.heard


def _has_zones(predicate: polars.Expr, schema: pa.Schema) -> bool:
    """Whether a filter may look at a time in a zone other than UTC: Polars 2.1 tells pyarrow of
    such ones with the zone's offset taken off twice."""
    text = predicate.meta.serialize(format="json")
    zones = {schema.field(name).type.tz for name in _timestamps(predicate, schema)} - {None}
    hidden = zones and re.search(r'"(List|Series|Array)"', text)  # values as bytes
    told = set(re.findall(r'"inner": ?"([^"]*)"', text))
    return bool(hidden or (zones | told) - {"UTC"})


def _timestamps(predicate: polars.Expr, schema: pa.Schema) -> list[str]:
    names = predicate.meta.root_names()
    return [name for name in names if pa.types.is_timestamp(schema.field(name).type)]


class _Listener(ds.InMemoryDataset):
    """An empty dataset that keeps the filter that it is asked for.

    Attributes:
        heard: The filter.
    """

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema.empty_table())
        self.heard: Any | None = None

    def scanner(self, *args: Any, **options: Any) -> ds.Scanner:
        """No rows."""
        self.heard = options.get("filter")
        return super().scanner(*args, **options)
