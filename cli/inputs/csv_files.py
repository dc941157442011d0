"""Reads CSV files as batches of texts: Arrow splits them, and no value is interpreted yet.

An empty field is null, a quoted empty one is an empty text, as `lakelog scan` prints them.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import UsageError
from ..options import column_names
from .sources import FORMATS, SEPARATED

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Set

    from .sources import Source

_BLOCK_BYTES: Final = 4 << 20
_LARGEST_BLOCK: Final = 1 << 30
_TINY_FILE: Final = 1 << 16
_RAGGED: Final = re.compile(r"(?:Row #\d+: )?(Expected (\d+) columns)")
_LONG_FIELD: Final = 1 << 31
_END: Final = "end"
_TAB: Final = ("tab", "\\t")


@dataclass(slots=True)
class CsvOptions:
    """Options for reading csv files.

    Attributes:
        delimiter: The delimiter of fields; empty: that of the format.
        header: The first line names the columns.
        columns: Names that replace those of the header.
        null_words: Unquoted fields that mean null, as the empty one does.
    """

    delimiter: str = ""
    header: bool = True
    columns: tuple[str, ...] = ()
    null_words: tuple[str, ...] = ()
    _blocks: dict[str, int] = field(default_factory=dict)  # by path: rows may be long

    def delimiter_of(self, source: Source) -> str:
        """The delimiter of a file."""
        return self.delimiter or ("\t" if source.form == "tsv" else ",")


def csv_options(args: argparse.Namespace) -> CsvOptions:
    """Options for reading csv files, from the arguments."""
    delimiter = "\t" if args.delimiter in _TAB else args.delimiter
    if delimiter and (len(delimiter) > 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise UsageError(
            f"--delimiter {delimiter[:20]!r} is not one ASCII character",
            hint="For example ';', '|' or tab",
        )
    columns = column_names(args.columns)
    if not args.header and not columns:
        raise UsageError(
            "Without a header the columns have no names", hint="Name them: --columns a,b,c"
        )
    twice = next((name for name in columns if not name or columns.count(name) > 1), None)
    if twice is not None:
        problem = f"{twice!r} is given twice" if twice else "a name is empty"
        raise UsageError(f"In --columns {problem}", hint="Name each column once")
    return CsvOptions(delimiter, args.header, tuple(columns), tuple(args.null))


def refuse_idle_options(args: argparse.Namespace, forms: Set[str]) -> None:
    """Refuse options that apply to none of the files."""
    given = {
        "--delimiter": bool(args.delimiter),
        "--no-header": not args.header,
        "--columns": bool(args.columns),
        "--null": bool(args.null),
    }
    idle = [name for name, is_given in given.items() if is_given]
    if idle and not forms & {*SEPARATED}:
        raise UsageError(
            f"{idle[0]} is for csv, and no file is one",
            hint=f"--format chooses their format: {', '.join(FORMATS)}",
        )


def read_csv(source: Source, options: CsvOptions) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a file, all columns texts, each batch with the number of its first row. The first
    batch is empty: it names the columns.

    If a row is longer than a block, reading begins again from the first row with larger blocks.

    Raises:
        UsageError: It can't be split into rows and columns.
    """
    from pyarrow import csv

    while True:
        block = options._blocks.get(source.path, _BLOCK_BYTES)
        try:
            names = _names(source, options, block)
            shown = _shown_names(names, source, options)
            reader = _open(
                source,
                options,
                block,
                csv.ConvertOptions(
                    column_types={name: pa.string() for name in names},
                    null_values=["", *options.null_words],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
                alone=len(names) == 1,
            )
            first, last = 0, None
            yield 0, pa.RecordBatch.from_pylist([], pa.schema([(n, pa.string()) for n in shown]))
            for batch in reader:
                yield first, batch.rename_columns(shown)
                first += batch.num_rows
                last = batch if batch.num_rows else last
            _check_last_quote(source, options, last)
            return
        except UnicodeDecodeError as error:
            raise source.undecodable() from error
        except (pa.ArrowException, OSError, ValueError) as error:
            if "conversion error to string: invalid UTF8" in str(error):
                raise source.undecodable() from error
            if "straddling" not in str(error) or block >= _LARGEST_BLOCK:
                raise _unreadable(source, options, error) from error
            options._blocks[source.path] = block * 8


def _names(source: Source, options: CsvOptions, block: int) -> list[str]:
    from pyarrow import csv

    with _open(source, options, block, csv.ConvertOptions(), alone=False) as reader:
        return list(reader.schema.names)


def _shown_names(names: list[str], source: Source, options: CsvOptions) -> list[str]:
    if options.columns and options.header:
        if len(options.columns) != len(names):
            raise UsageError(
                f"{source.name} has {len(names)} columns, --columns names {len(options.columns)}",
                key=source.name,
                hint=f"Its header: {', '.join(names)}"[:400],
            )
        names = list(options.columns)
    wrong = next((name for name in names if not name or names.count(name) > 1), None)
    if wrong is not None:
        raise UsageError(
            f"{source.name} has {'two columns' if wrong else 'a column without a name'}"
            f"{f' named {wrong!r}' if wrong else ''}",
            key=source.name,
            hint="Name them all: --columns a,b,c (the header is ignored then)",
        )
    return names


def _open(source: Source, options: CsvOptions, block: int, convert: Any, *, alone: bool) -> Any:
    from pyarrow import csv

    stream = source.open_utf8()
    start = stream.read(_TINY_FILE)
    if not start.strip():
        raise ValueError("it is empty")
    if len(start) < _TINY_FILE and not stream.read(1):
        ends = b"" if start.endswith((b"\n", b"\r")) else b"\n"  # a header alone needs a line end
        stream = pa.BufferReader(start + ends)
    else:
        stream.close()
        stream = source.open_utf8()
    return csv.open_csv(
        stream,
        read_options=csv.ReadOptions(
            block_size=block, column_names=None if options.header else list(options.columns)
        ),
        parse_options=csv.ParseOptions(
            delimiter=options.delimiter_of(source),
            newlines_in_values=True,
            ignore_empty_lines=not alone,  # the null of a single column is an empty line
        ),
        convert_options=convert,
    )


def _unreadable(source: Source, options: CsvOptions, error: Exception) -> UsageError:
    text = str(error)
    ragged = _RAGGED.search(text)
    where = source.name
    if ragged:
        line = _first_row(source, options, lambda fields: len(fields) != int(ragged[2]))
        where = f"{source.name}, line {line}," if line else where
        text = text.replace(ragged[0], ragged[1])
    return UsageError(
        f"{where} can't be read as {source.form}: {text[:300]}",
        key=source.name,
        hint="Is it of another format, or has it another delimiter (--format, --delimiter)? "
        "Nothing was committed",
    )


def line_of(source: Source, options: CsvOptions, row: int) -> int:
    """The number of the line, from 1, on which a row ends; rows count from 0, after the header."""
    left = itertools.count(row + options.header, -1)
    return _first_row(source, options, lambda _: next(left) == 0) or row + 1 + options.header


def _check_last_quote(source: Source, options: CsvOptions, batch: pa.RecordBatch | None) -> None:
    """Refuse a file that ends within quotes: Arrow reads all that follows them as one field, the
    last one of the last batch."""
    last = batch.columns[-1][-1].as_py() if batch is not None else None
    if last is None or not ("\n" in last or "\r" in last):
        return
    begins, ends, last_row = 0, 0, []
    for line, fields in _rows(source, options, _END):
        begins, ends, last_row = ends, line, fields
    if last_row != [_END]:  # it became part of the quoted field
        raise UsageError(
            f"{source.name}, line {begins + 1}: quotes are opened and never closed",
            key=source.name,
            hint="A quote inside quotes is written twice. Nothing was committed",
        )


def _rows(source: Source, options: CsvOptions, *more: str) -> Iterator[tuple[int, list[str]]]:
    """The rows as Python's parser splits them, each with the line on which it ends; `more` lines
    follow those of the file."""
    import csv as standard_csv

    before = standard_csv.field_size_limit(_LONG_FIELD - 1)
    try:
        with source.open_text() as text:
            lines = itertools.chain(text, more)
            reader = standard_csv.reader(lines, delimiter=options.delimiter_of(source))
            for fields in reader:
                yield reader.line_num, fields
    finally:
        standard_csv.field_size_limit(before)


def _first_row(
    source: Source, options: CsvOptions, matches: Callable[[list[str]], bool]
) -> int | None:
    """The line on which the first row that matches ends; the header is a row, too."""
    import csv as standard_csv

    alone = len(options.columns) == 1 if options.columns else None
    with contextlib.suppress(standard_csv.Error, UnicodeDecodeError):
        for line, fields in _rows(source, options):
            alone = len(fields) == 1 if alone is None else alone
            if (fields or alone) and matches(fields):
                return line
    return None
