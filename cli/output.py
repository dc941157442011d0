"""Results on stdout, in one of six forms.

text     for people: aligned columns, grouped numbers, sizes in KiB and MiB. May change at any time.
json     for programs: one object, in which rows are an array, a row a line; where rows are all
         there is, that array alone. Keys are stable. What was read at a cut has its token.
jsonl    a JSON object a row, and nothing else.
csv      a header, then rows. An empty field is null; an empty text is "".
parquet  the rows, typed.
arrow    the same as a stream of Arrow IPC.

In json, jsonl and csv times are ISO-8601 in UTC with a Z; sizes are bytes. Parquet and Arrow have
their end only if all of it was written: a command that fails leaves no Parquet file behind. Most
readers take an Arrow stream without its end for complete, so they have to look at the exit code
(`lakelog write` refuses such a stream).
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ..errors import UsageError
from . import text
from .errors import Progress
from .values import is_number, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

TYPED: Final = {"parquet": "Parquet", "arrow": "Arrow IPC"}
FORMS: Final = ("text", "json", "jsonl", "csv", *TYPED)
_SAMPLE_ROWS: Final = 1_000
_NARROWEST: Final = 40
_CSV_SPECIAL = re.compile(r'[",\r\n]')


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a result.

    Attributes:
        name: Key in json and header in csv; stable.
        title: Heading in text; the name if empty.
        style: How text shows a value: as it is, as a count, as a size, as yes or no.
        shown: Text shows it at all.
        number: Values that are shown as they are are whole numbers, for the typed forms.
        whole: Text shows even a long value to its end.
    """

    name: str
    title: str = ""
    style: Literal["plain", "count", "size", "yes"] = "plain"
    shown: bool = True
    number: bool = False
    whole: bool = False

    @property
    def heading(self) -> str:
        return text.cell(self.title or self.name.replace("_", " ").upper())

    def cell(self, value: Any) -> str:
        """A value as text shows it."""
        if value is None:
            return "-"
        if self.style == "count":
            return text.count(value)
        if self.style == "size":
            return text.size(value)
        if self.style == "yes":
            return "yes" if value else "no"
        flat = value if isinstance(value, str) else _flat(value)
        return text.printable(flat) if self.whole else text.cell(flat)


def columns(*names: str, **settings: Any) -> tuple[Column, ...]:
    """Columns of these names with the same settings."""
    return tuple(Column(name, **settings) for name in names)


SIZES: Final = (
    Column("row_count", "ROWS", style="count"),
    Column("size_bytes", "SIZE", style="size"),
)


def _flat(value: Any) -> str:
    if isinstance(value, (list, dict, bool)):
        return to_json(value)
    return str(value)


def rows(
    form: str,
    columns: Sequence[Column],
    records: Iterable[Mapping[str, Any]],
    *,
    empty: str = "",
    head: Mapping[str, Any] | None = None,
    name: str = "rows",
) -> None:
    """Print a table.

    Args:
        empty: Text that is printed when there are no rows.
        head: Other keys of the JSON object, such as the token of the cut. Without it the rows are
            an array of their own.
        name: Key of the rows in that object.
    """
    if form in TYPED:
        _typed(form, columns, list(records))
        return
    names = [column.name for column in columns]
    if form != "text":
        stream = Stream(form, names, head=head, name=name)
        for record in records:
            stream.add_row([record[name] for name in names])
        stream.close()
        return
    shown = [column for column in columns if column.shown]
    cells = [[column.cell(record[column.name]) for column in shown] for record in records]
    if not cells:
        line(empty or "(none)")
        return
    headings = [column.heading for column in shown]
    table(headings, cells, [column.style in ("count", "size") for column in shown])


def _typed(form: str, columns: Sequence[Column], records: Sequence[Mapping[str, Any]]) -> None:
    """Write counts, sizes and numbers as int64, yes and no as bool, all else as text, lists and
    objects as JSON."""
    import pyarrow as pa

    fields, arrays = [], []
    for column in columns:
        values, kind = [record[column.name] for record in records], pa.string()
        if column.number or column.style in ("count", "size"):
            kind = pa.int64()
        elif column.style == "yes":
            kind = pa.bool_()
        else:
            values = [v if v is None or isinstance(v, str) else to_json(v) for v in values]
        fields.append(pa.field(column.name, kind))
        arrays.append(pa.array(values, kind))
    stream = TypedStream(form, pa.schema(fields))
    stream.add(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))
    stream.close()


def table(
    headings: Sequence[str],
    cells: Sequence[Sequence[str]],
    right: Sequence[bool],
    *,
    indent: str = "",
) -> None:
    """Print headings and rows of text, aligned."""
    wide = text.widths(cells, [text.width(heading) for heading in headings])
    for item in text.lines([headings], wide, right):
        line(indent + bold(item))
    for item in text.lines(cells, wide, right):
        line(indent + item)


def pairs(items: Iterable[tuple[str, str]], *, indent: str = "") -> None:
    """Print names and values, one pair a line, the values aligned; leave out empty values."""
    kept = [(name, value) for name, value in items if value != ""]
    wide = max((len(name) for name, _ in kept), default=0)
    for name, value in kept:
        line(f"{indent}{name.ljust(wide)}{text.GAP}{text.printable(value)}".rstrip())


def named(record: Mapping[str, Any], *names: str) -> list[tuple[str, str]]:
    """Values of a record with their names, for `pairs`; empty for None."""
    values = [record[name] for name in names]
    texts = [", ".join(v) if isinstance(v, list) else "" if v is None else str(v) for v in values]
    return [(name.replace("_", " "), text) for name, text in zip(names, texts)]


def note(label: str, value: str) -> None:
    """Print a sentence under a label, wrapped, after an empty line."""
    line()
    wide = max(_NARROWEST, min(shutil.get_terminal_size((100, 24)).columns, 100))
    start, body = f"{label}{text.GAP}", text.printable(" ".join(value.split()))
    for item in textwrap.wrap(
        body,
        wide,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    ):
        line(item)


class Stream:
    """A table of unknown length, printed as its rows arrive.

    Args:
        form: text, json, jsonl or csv.
        names: Names of the columns.
        right: For each column, whether text aligns it to the right.
        head, name: As for `rows`.
    """

    def __init__(
        self,
        form: str,
        names: Sequence[str],
        right: Sequence[bool] = (),
        head: Mapping[str, Any] | None = None,
        name: str = "rows",
    ) -> None:
        self._form = form
        self._names = list(names)
        self._right = right
        self._wide: list[int] | None = None
        self._json = _Array(head, name) if form == "json" else None
        if form == "csv":
            csv_line(self._names)

    def add(self, columns: Sequence[Sequence[Any]]) -> None:
        """Print more rows, given column by column."""
        rows = list(zip(*columns, strict=True))
        if rows and self._form == "text":
            self._text(rows)
        else:
            for row in rows:
                self.add_row(row)

    def add_row(self, row: Sequence[Any]) -> None:
        """Print one more row, in a form for programs."""
        if self._json:
            self._json.add(dict(zip(self._names, row)))
        elif self._form == "jsonl":
            write(to_json(dict(zip(self._names, row))) + "\n")
        else:
            csv_line(row)

    def _text(self, rows: Sequence[Sequence[Any]]) -> None:
        cells = [[_data_cell(value) for value in row] for row in rows]
        if self._wide is None:
            heads = [text.cell(name) for name in self._names]
            self._wide = text.widths(cells[:_SAMPLE_ROWS], [text.width(head) for head in heads])
            for item in text.lines([heads], self._wide, self._right):
                line(bold(item))
        write("".join(item + "\n" for item in text.lines(cells, self._wide, self._right)))

    def close(self) -> None:
        if self._json:
            self._json.close()
        elif self._form == "text" and self._wide is None:
            line("(no rows)")


def _data_cell(value: Any) -> str:
    if value is None:
        return "null"
    return text.cell(value if isinstance(value, str) else _flat(value))


class _Array:
    """A JSON array, a record a line: alone, or as `name` the last value of an object."""

    def __init__(self, head: Mapping[str, Any] | None, name: str) -> None:
        self._start = "[" if head is None else to_json({**head, name: []})[:-2]
        self._end = "]" if head is None else "]}"
        self._started = False

    def add(self, record: Mapping[str, Any]) -> None:
        line(("," if self._started else self._start) + "\n" + to_json(record), end="")
        self._started = True

    def close(self) -> None:
        line(f"\n{self._end}" if self._started else self._start + self._end)


def json_array(
    records: Iterable[Mapping[str, Any]], head: Mapping[str, Any] | None = None, name: str = "rows"
) -> None:
    """Print a JSON array, a record a line; with a head, as the last value of that object."""
    array = _Array(head, name)
    for record in records:
        array.add(record)
    array.close()


def json_object(value: Mapping[str, Any]) -> None:
    """Print one JSON object, indented."""
    line(json.dumps(value, indent=2, ensure_ascii=False, default=_unknown))


def object_or_rows(
    form: str,
    value: Mapping[str, Any],
    columns: Sequence[Column],
    records: Iterable[Mapping[str, Any]],
) -> None:
    """Print a JSON object, or in the other forms for programs its rows."""
    if form == "json":
        json_object(value)
    else:
        rows(form, columns, records)


def to_json(value: Any) -> str:
    """A value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=_unknown)


def _unknown(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def csv_line(values: Sequence[Any]) -> None:
    write(",".join(map(_csv_field, values)) + "\n")


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    field = value if isinstance(value, str) else to_json(value)
    if not field or _CSV_SPECIAL.search(field) or field != field.strip():
        return '"' + field.replace('"', '""') + '"'
    return field


def utc(at: dt.datetime | None) -> str | None:
    """A time as text: ISO-8601, UTC, always with microseconds: `--as-of` takes it exactly."""
    if at is None:
        return None
    return at.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def utc_from_us(at_us: int) -> str:
    """`utc` of a time in µs since 1970."""
    return utc(dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=at_us)) or ""


def bold(value: str) -> str:
    """The text in bold on a terminal that wants it."""
    stream = sys.stdout
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return value
    return f"\x1b[1m{value}\x1b[0m"


def line(value: str = "", *, end: str = "\n") -> None:
    write(value + end)


def write(value: str) -> None:
    sys.stdout.write(value)


# --- Rows of Arrow --------------------------------------------------------------------------------


def print_batches(
    form: str,
    reader: pa.RecordBatchReader,
    *,
    limit: int | None = None,
    head: Mapping[str, Any] | None = None,
) -> None:
    """Print the rows of a reader in any form as they arrive: memory stays bounded, and no more
    batches are read than `limit` takes."""
    stream: Stream | TypedStream
    if form in TYPED:
        stream = TypedStream(form, reader.schema)
    else:
        right = [is_number(field.type) for field in reader.schema]
        stream = Stream(form, reader.schema.names, right, head)
    done = 0
    with Progress("rows read", streaming=True) as progress:
        while limit is None or done < limit:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                break
            batch = batch if limit is None else batch.slice(0, limit - done)
            done += batch.num_rows
            progress.step(batch.num_rows)
            if isinstance(stream, TypedStream):
                stream.add(batch)
            else:
                stream.add([plain(column) for column in batch.columns])
    stream.close()


class TypedStream:
    """Rows of one schema, written to stdout as they arrive, a row group or a message a batch."""

    def __init__(self, form: str, schema: pa.Schema) -> None:
        import pyarrow as pa

        sink = pa.PythonFile(_Stdout(TYPED[form]), "w")
        if form == "arrow":
            self._writer = pa.ipc.new_stream(sink, schema)
            return
        import pyarrow.parquet as pq

        try:
            self._writer = pq.ParquetWriter(sink, schema, compression="zstd")
        except pa.ArrowNotImplementedError as error:
            raise UsageError(
                f"The rows can't be written as Parquet: {error}",
                hint="Leave such columns out, or choose --output json",
            ) from error

    def add(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()
        sys.stdout.flush()


class _Stdout:
    """Stdout as a file of bytes with a position, which a pipe lacks. Arrow may close it; stdout
    stays open."""

    closed = False

    def __init__(self, shown: str) -> None:
        if sys.stdout.isatty():
            raise UsageError(
                f"A terminal can't show {shown}",
                hint="Redirect it to a file (> rows) or to another program",
            )
        raw = getattr(sys.stdout, "buffer", None)
        if raw is None:
            raise UsageError("Stdout takes text only", hint="Choose --output json or csv")
        sys.stdout.flush()
        self._raw = raw
        self._written = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._raw.write(data)
        self._written += size
        return size

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        self._raw.flush()

    def close(self) -> None:
        """Leave stdout open."""
