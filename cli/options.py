"""Arguments that several commands share, and how their values are read."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any, Final

from ..catalog.points import point_in_time
from ..errors import UsageError
from .output import FORMS
from .parser import URL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..catalog.changing import AsOf

ENVIRONMENT: Final = "LAKELOG_STORAGE_OPTIONS"
LOCATION_ENVIRONMENT: Final = "LAKELOG_LOCATION_OPTIONS"


def add_url(parser: argparse.ArgumentParser) -> None:
    """`URL`, `--output`, `--quiet` and `--option`: what every command takes."""
    parser.add_argument(
        "url",
        metavar="URL",
        help="the catalog: a path, file://, memory://, s3://bucket/prefix, ...; may be left out "
        f"where {URL} holds it",
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="no progress and no warnings, only errors"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMS,
        default="text",
        help="text for people (default), json, jsonl, csv, parquet or arrow for programs",
    )
    parser.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a storage option, e.g. endpoint_url=http://127.0.0.1:9000 or "
        "client_kwargs.region_name=eu-west-1; may be repeated. Keep secrets out of the command "
        f"line: {ENVIRONMENT} takes a JSON object",
    )


def add_database(parser: argparse.ArgumentParser) -> None:
    """`DATABASE`."""
    parser.add_argument("database", metavar="DATABASE", help="a database of the catalog")


def add_table(parser: argparse.ArgumentParser) -> None:
    """`TABLE`."""
    parser.add_argument("table", metavar="TABLE", help="a table of the database")


def add_writer(parser: argparse.ArgumentParser, text: str, *, required: bool = False) -> None:
    """`--writer`."""
    parser.add_argument("--writer", metavar="WRITER", required=required, help=text)


def add_shared(parser: argparse.ArgumentParser) -> None:
    """`--shared`."""
    parser.add_argument(
        "--shared", action="store_true", help="commit as a guest, beside the owner of the writer id"
    )


def add_execute(
    parser: argparse.ArgumentParser, text: str = "commit it; without this nothing is written"
) -> None:
    """`--execute`."""
    parser.add_argument("--execute", action="store_true", help=text)


def add_where(parser: argparse.ArgumentParser, what: str, *, required: bool = False) -> None:
    """`--where`."""
    parser.add_argument(
        "-w",
        "--where",
        metavar="PREDICATE",
        required=required,
        help=f'{what}, a condition in SQL: "temp > 90 and time_hour >= timestamp '
        "'2013-07-01 00:00:00Z'\"; docs/reading.md has the language",
    )


def add_partition(parser: argparse.ArgumentParser, what: str) -> None:
    """`--partition`."""
    parser.add_argument(
        "--partition", metavar="NAME", help=f"only {what} of this partition ('': of none)"
    )


def add_as_of(parser: argparse.ArgumentParser) -> None:
    """`--as-of`."""
    parser.add_argument(
        "--as-of",
        metavar="POINT",
        type=point_in_time,
        help="read an earlier state: a time with its zone (2013-06-30T00:00Z), a token (ll1-...), "
        "or a revision for each writer (EWR=3,JFK=2). Default: the newest",
    )


def add_point(parser: argparse._ActionsContainer, name: str, text: str) -> None:
    """A point in time in its place; `now` is the newest."""

    def point(value: str) -> AsOf:
        return None if value.strip() == "now" else point_in_time(value)

    parser.add_argument(name, metavar="CUT", type=point, help=text)


def add_limit(parser: argparse.ArgumentParser, what: str) -> None:
    """`--limit`."""
    parser.add_argument(
        "-n", "--limit", metavar="N", type=whole_number, help=f"at most so many {what}"
    )


def whole_number(text: str) -> int:
    """A number from 0.

    Raises:
        argparse.ArgumentTypeError: The text is not such a number.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def positive(text: str) -> float:
    """A number above 0, such as days.

    Raises:
        argparse.ArgumentTypeError: The text is not such a number.
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def location_options(environment: Mapping[str, str] = os.environ) -> dict[str, dict[str, Any]]:
    """The storage options of places where files lie, by URL: those of the environment.

    Raises:
        UsageError: Not a JSON object of objects. No value is shown: it may be a secret.
    """
    text = environment.get(LOCATION_ENVIRONMENT, "").strip()
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise UsageError(
            f"{LOCATION_ENVIRONMENT} is not a JSON object of objects",
            hint='Its form is {"s3://bucket": {"key": "...", "secret": "..."}}',
        )
    return found


def storage_options(
    given: Sequence[str], environment: Mapping[str, str] = os.environ, *, name: str = ENVIRONMENT
) -> dict[str, Any]:
    """The storage options: those of the environment, then those of `--option` over them.

    Args:
        name: The variable of the environment.

    No value is ever part of an error here: it may be a secret.

    Raises:
        UsageError: Not KEY=VALUE, or the environment's is not a JSON object.
    """
    options: dict[str, Any] = {}
    text = environment.get(name, "").strip()
    if text:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise UsageError(
                f"{name} is not a JSON object",
                hint='Its form is {"endpoint_url": "...", "key": "...", "secret": "..."}',
            )
        options = found
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(
                "An --option is not of the form KEY=VALUE",
                hint="For example --option endpoint_url=http://127.0.0.1:9000",
            )
        _set(options, name.split("."), _value(value))
    return options


def _set(options: dict[str, Any], names: Sequence[str], value: Any) -> None:
    for name in names[:-1]:
        inner = options.get(name)
        if not isinstance(inner, dict):
            inner = options[name] = {}
        options = inner
    options[names[-1]] = value


def _value(text: str) -> Any:
    """true, false, null, an object or a list as JSON; all else is text, so that a key of digits
    stays one.
    """
    if text in ("true", "false", "null") or text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def add_also(parser: argparse.ArgumentParser) -> None:
    """`--also`."""
    parser.add_argument(
        "--also",
        metavar="NAME=POINT",
        type=_named_point,
        action="append",
        default=[],
        help="the same tables at another point in time, as NAME.table in SQL; POINT is as for "
        "--as-of, or now; may be repeated",
    )


def _named_point(text: str) -> tuple[str, AsOf]:
    name, equals, point = text.partition("=")
    if not equals:
        raise UsageError(
            f"{text[:60]!r} doesn't name a point in time", hint="Write june=2013-06-30T00:00Z"
        )
    return name.strip(), None if point.strip() == "now" else point_in_time(point)


def add_memory(parser: argparse.ArgumentParser) -> None:
    """`--memory`."""
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        default="1GB",
        help="the most that DuckDB takes before it uses temporary files, e.g. 500MB (default 1GB)",
    )
