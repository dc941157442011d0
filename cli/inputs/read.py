"""The rows of a given file in the schema that was decided on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...catalog.data.unify import conform
from ...errors import UsageError
from .arrow_files import read_batches, read_schema
from .csv_files import CsvOptions, read_csv
from .json_files import read_json
from .json_values import texts_of_any, values_as
from .sources import SEPARATED

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from .sources import Source


def open_rows(
    source: Source, schema: pa.Schema, options: CsvOptions, forced: Set[str]
) -> pa.RecordBatchReader:
    """The rows of a file; columns that it lacks are null.

    Args:
        forced: Columns whose type the user has named.
    Raises (while reading):
        UsageError: It was changed since it was surveyed, or is damaged.
    """
    return pa.RecordBatchReader.from_batches(schema, _checked(source, schema, options, forced))


def _checked(
    source: Source, schema: pa.Schema, options: CsvOptions, forced: Set[str]
) -> Iterator[pa.RecordBatch]:
    try:
        source.check_unchanged()
        yield from _batches(source, schema, options, forced)
        source.check_unchanged()
    except (pa.ArrowException, ValueError) as error:
        source.check_unchanged()
        raise UsageError(
            f"{source.name} can't be written as {', '.join(map(str, schema.types))[:200]}: {error}",
            key=source.name,
            hint="Nothing was committed. --type names another type for a column",
        ) from error


def _batches(
    source: Source, schema: pa.Schema, options: CsvOptions, forced: Set[str]
) -> Iterator[pa.RecordBatch]:
    if source.form in SEPARATED:
        for _, batch in read_csv(source, options):
            held = dict(zip(batch.schema.names, batch.columns))
            columns = [
                texts_of_any(held[one.name], one.type, forced=one.name in forced)
                if one.name in held
                else pa.nulls(batch.num_rows, one.type)
                for one in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    elif source.form == "jsonl":
        for _, rows in read_json(source):
            columns = [
                values_as([r.get(one.name) for r in rows], one.type, forced=one.name in forced)
                for one in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    else:
        names = read_schema(source).names
        for batch in read_batches(source):
            yield conform(batch.rename_columns(names), schema)
