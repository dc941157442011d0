"""Local Parquet, CSV and JSON-lines files as Arrow data, for `lakelog write`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidParquet, LakelogError, ObjectNotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

FORMATS: Final = ("parquet", "csv", "jsonl")
_SUFFIXES: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_COMPRESSIONS: Final = frozenset({".gz", ".bz2", ".zst", ".lz4"})


def input_format(name: str, given: str | None) -> str:
    """The format of a file, by its name if none is given. Compressed csv and jsonl are read too.

    Raises:
        ObjectNotFound: There is no such file.
        UsageError: It is a folder, or its name doesn't say its format.
    """
    path = Path(name)
    if path.is_dir():
        raise UsageError(
            "This is a folder", key=name, hint="Name the files in it, e.g. FOLDER/*.parquet"
        )
    if not path.exists():
        raise ObjectNotFound("No such file", key=name, hint="FILE is a path on this machine")
    if given is not None:
        return given
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    found = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if found is None:
        raise UsageError(
            "The name of this file doesn't say its format",
            key=name,
            hint=f"Add --format: {', '.join(FORMATS)}",
        )
    return found


def read_input(name: str, form: str) -> pa.Table | pa.RecordBatchReader:
    """The data of one file. Parquet is a stream; the others are read whole, so that types are
    inferred from all rows.

    Raises:
        InvalidParquet, UsageError: Not a file of this format; perhaps only while it is read.
    """
    import pyarrow as pa

    readers = {"parquet": _parquet, "csv": _csv, "jsonl": _json_lines}
    try:
        return readers[form](name)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(name, form, error) from error


def _parquet(name: str) -> pa.RecordBatchReader:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(name)

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from file.iter_batches()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _unreadable(name, "parquet", error) from error

    return pa.RecordBatchReader.from_batches(file.schema_arrow, batches())


def _csv(name: str) -> Any:
    from pyarrow import csv

    return csv.read_csv(name)


def _json_lines(name: str) -> Any:
    import pyarrow as pa
    from pyarrow import json

    with pa.input_stream(name) as source:  # decompresses by the name's ending
        return json.read_json(source)


def _unreadable(name: str, form: str, error: Exception) -> LakelogError:
    if form == "parquet":
        return InvalidParquet(
            f"{name} can't be read as Parquet: {error}",
            key=name,
            hint="Check it with another Parquet reader; nothing was committed",
        )
    return UsageError(
        f"{name} can't be read as {form}: {error}",
        key=name,
        hint="Is it of another format? --format says which; nothing was committed",
    )
