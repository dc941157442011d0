"""Results on stdout, in one of six forms.

text     for people: aligned columns, grouped numbers, sizes in KiB and MiB. May change at any time.
json     for programs: one object, in which rows are an array, a row a line; where rows are all
         there is, that array alone. Keys are stable. What is of a cut has its token.
jsonl    a JSON object a row, and nothing else.
csv      a header, then rows. An empty field is null; an empty text is "".
parquet  the rows, typed.
arrow    the same as a stream of Arrow IPC.

In json, jsonl and csv times are ISO-8601 in UTC with a Z; sizes are bytes.
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

from . import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

TYPED: Final = ("parquet", "arrow")
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
        shown: Whether text shows it at all.
        number: Whether values shown as they are are whole numbers; typed forms want to know.
        whole: Whether text shows even a long value to its end.
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
        columns: Order of keys and columns; records may hold more.
        records: A value of each column; None where there is none.
        empty: What text says when there are no rows.
        head: What json says beside the rows, such as the token of the cut. Without it they are an
            array of their own.
        name: Key of the rows beside the head.
    """
    names = [column.name for column in columns]
    if form == "json":
        json_array(({n: record[n] for n in names} for record in records), head, name)
        return
    if form == "jsonl":
        for record in records:
            line(to_json({n: record[n] for n in names}))
        return
    if form in TYPED:
        _typed(form, columns, list(records))
        return
    if form == "csv":
        csv_line(names)
        for record in records:
            csv_line([record[n] for n in names])
        return
    shown = [column for column in columns if column.shown]
    cells = [[column.cell(record[column.name]) for column in shown] for record in records]
    if not cells:
        line(empty or "(none)")
        return
    table(
        [column.heading for column in shown],
        cells,
        [column.style in ("count", "size") for column in shown],
    )


def _typed(form: str, columns: Sequence[Column], records: Sequence[Mapping[str, Any]]) -> None:
    """Counts, sizes and numbers are int64, yes and no bool, all else text, lists and objects as
    JSON."""
    from .typed import write_columns

    found = []
    for column in columns:
        values = [record[column.name] for record in records]
        if column.number or column.style in ("count", "size"):
            found.append((column.name, "int64", values))
        elif column.style == "yes":
            found.append((column.name, "bool", values))
        else:
            texts = [v if v is None or isinstance(v, str) else to_json(v) for v in values]
            found.append((column.name, "string", texts))
    write_columns(form, found)


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
    """Print names and values, one pair a line, the values aligned; a pair without a value is left
    out.
    """
    kept = [(name, value) for name, value in items if value != ""]
    wide = max((len(name) for name, _ in kept), default=0)
    for name, value in kept:
        line(f"{indent}{name.ljust(wide)}{text.GAP}{text.printable(value)}".rstrip())


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
    """A table of unknown length, printed while it comes.

    Args:
        form: text, json, jsonl or csv.
        names: Of the columns.
        right: Which ones text aligns to the right.
        head: What json says beside the rows.
    """

    def __init__(
        self,
        form: str,
        names: Sequence[str],
        right: Sequence[bool],
        head: Mapping[str, Any] | None = None,
    ) -> None:
        self._form = form
        self._names = list(names)
        self._right = right
        self._wide: list[int] | None = None
        self._json = _Array(head, "rows") if form == "json" else None
        if form == "csv":
            csv_line(self._names)

    def add(self, columns: Sequence[Sequence[Any]]) -> None:
        """Print more rows, given column by column."""
        found = list(zip(*columns, strict=True))
        if not found:
            return
        if self._json:
            for row in found:
                self._json.add(dict(zip(self._names, row)))
        elif self._form == "jsonl":
            write("".join(to_json(dict(zip(self._names, row))) + "\n" for row in found))
        elif self._form == "csv":
            write("".join(_csv_row(row) for row in found))
        else:
            self._text(found)

    def _text(self, found: Sequence[Sequence[Any]]) -> None:
        cells = [[_data_cell(value) for value in row] for row in found]
        if self._wide is None:
            heads = [text.cell(name) for name in self._names]
            self._wide = text.widths(cells[:_SAMPLE_ROWS], [text.width(head) for head in heads])
            for item in text.lines([heads], self._wide, self._right):
                line(bold(item))
        write("".join(item + "\n" for item in text.lines(cells, self._wide, self._right)))

    def close(self) -> None:
        """Print what stands at the end."""
        if self._json:
            self._json.close()
        elif self._form == "text" and self._wide is None:
            line("(no rows)")


def _data_cell(value: Any) -> str:
    if value is None:
        return "null"
    return text.cell(value if isinstance(value, str) else _flat(value))


class _Array:
    """A JSON array, a record a line: alone, or the last value of an object.

    Args:
        head: The other values of the object; None for the array alone.
        name: Key of the array in the object.
    """

    def __init__(self, head: Mapping[str, Any] | None, name: str) -> None:
        self._start = "[" if head is None else to_json({**head, name: []})[:-2]
        self._end = "]" if head is None else "]}"
        self._started = False

    def add(self, record: Mapping[str, Any]) -> None:
        """Print one more."""
        line(("," if self._started else self._start) + "\n" + to_json(record), end="")
        self._started = True

    def close(self) -> None:
        """Print what stands at the end."""
        line(f"\n{self._end}" if self._started else self._start + self._end)


def json_array(
    records: Iterable[Mapping[str, Any]],
    head: Mapping[str, Any] | None = None,
    name: str = "rows",
) -> None:
    """Print a JSON array, a record a line; with a head, as the last value of that object."""
    array = _Array(head, name)
    for record in records:
        array.add(record)
    array.close()


def json_object(value: Mapping[str, Any]) -> None:
    """Print one JSON object, indented."""
    line(json.dumps(value, indent=2, ensure_ascii=False, default=_unknown))


def one(
    form: str,
    columns: Sequence[Column],
    record: Mapping[str, Any],
    tell: Callable[[], None],
    *,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print what a command has done, or would do: one record.

    Args:
        tell: Prints it as text.
        more: What a JSON object has besides.
    """
    if form == "json":
        json_object({**record, **(more or {})})
    elif form == "text":
        tell()
    else:
        rows(form, columns, [record])


def to_json(value: Any) -> str:
    """A value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=_unknown)


def _unknown(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def csv_line(values: Sequence[Any]) -> None:
    """Print one row of csv."""
    write(_csv_row(values))


def _csv_row(values: Sequence[Any]) -> str:
    return ",".join(map(_csv_field, values)) + "\n"


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    field = value if isinstance(value, str) else to_json(value)
    if not field or _CSV_SPECIAL.search(field) or field != field.strip():
        return '"' + field.replace('"', '""') + '"'
    return field


def utc(at: dt.datetime | None) -> str | None:
    """A time as text: ISO-8601, UTC, always with microseconds, so that it can be given back to
    `--as-of` exactly.
    """
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
    """Print one line."""
    write(value + end)


def write(value: str) -> None:
    """Print."""
    sys.stdout.write(value)
