"""Local Parquet, CSV and JSON files, pipes and stdin as Arrow data, for `lakelog write`."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
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
STDIN: Final = "-"
_STDIN_PATH: Final = "/dev/stdin"
_PEEK_BYTES: Final = 1 << 10
_BLOCK_BYTES: Final = 1 << 20
_ODD_FLOATS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_COMPRESSIONS: Final = frozenset({".gz", ".bz2", ".zst", ".lz4"})


def input_format(name: str, given: str | None) -> str:
    """The format of a file, by its name if none is given. Compressed csv and jsonl are read too.

    Raises:
        ObjectNotFound: There is no such file.
        UsageError: It is a folder, or its name doesn't say its format.
    """
    path = _path(name)
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
            "Its name doesn't say of what format this is",
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
        with _seekable(_path(name)) as path:
            return readers[form](path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(name, form, error) from error


def _path(name: str) -> Path:
    return Path(_STDIN_PATH if name == STDIN else name)


@contextlib.contextmanager
def _seekable(path: Path) -> Iterator[str]:
    """The path, or that of a copy if it is a pipe: readers look into a file more than once.

    The copy has no name any more when this ends; who still has it open reads on.
    """
    if path.is_file():
        yield str(path)
        return
    with tempfile.NamedTemporaryFile(prefix="lakelog-") as copy:
        stdin = str(path) == _STDIN_PATH
        with open(0 if stdin else path, "rb", closefd=not stdin) as source:
            shutil.copyfileobj(source, copy)
        copy.flush()
        yield copy.name


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
    """A CSV file, by the rules of what `lakelog scan` prints: an empty field is null, a quoted one
    is an empty text, and no other word means null.
    """
    from pyarrow import csv

    convert = csv.ConvertOptions(
        null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    parse = csv.ParseOptions(newlines_in_values=True)
    table = csv.read_csv(name, parse_options=parse, convert_options=convert)
    if table.num_columns > 1:
        return table
    parse.ignore_empty_lines = False  # the null of a single column is an empty line
    return csv.read_csv(name, parse_options=parse, convert_options=convert)


def _json_lines(name: str) -> Any:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    with pa.input_stream(name) as source:  # decompresses by the name's ending
        start = source.read(_PEEK_BYTES).lstrip()
    with pa.input_stream(name) as source:
        return _json_array(source.read()) if start[:1] == b"[" else arrow_json.read_json(source)


def _json_array(text: bytes) -> Any:
    """One array of objects, as `lakelog scan --output json` prints it. It is turned into lines, so
    that types are inferred the same way.
    """
    import pyarrow as pa
    from pyarrow import json as arrow_json

    rows = json.loads(text)
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ValueError(f"element {number} of the array is no object")
    for column in {name: None for row in rows for name in row}:
        _restore_odd_floats(rows, column)
    lines = [json.dumps(row).encode() for row in rows]
    block = max(_BLOCK_BYTES, 2 * max(map(len, lines), default=0))  # a line must fit in one
    options = arrow_json.ReadOptions(block_size=block)
    return arrow_json.read_json(pa.BufferReader(b"\n".join(lines)), read_options=options)


def _restore_odd_floats(rows: list[dict[str, Any]], column: str) -> None:
    """JSON has no NaN and no infinities: `lakelog scan` prints them as texts among the numbers."""
    values = [row.get(column) for row in rows]
    texts = {value for value in values if isinstance(value, str)}
    if not texts or not texts <= _ODD_FLOATS or not any(map(_is_number, values)):
        return
    if not all(value is None or isinstance(value, str) or _is_number(value) for value in values):
        return
    for row, value in zip(rows, values):
        if value is not None:
            row[column] = float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


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
