"""The arguments of commands: how one is declared, those that several commands share, and how their
values are read.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from typing import TYPE_CHECKING, Any, Final

from ..errors import UsageError
from .output import FORMS
from .parser import URL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..catalog.changing import AsOf
    from .command_list import Argument

ENVIRONMENT: Final = "LAKELOG_STORAGE_OPTIONS"
LOCATION_ENVIRONMENT: Final = "LAKELOG_LOCATION_OPTIONS"


# --- Values ---------------------------------------------------------------------------------------


def whole_number(text: str) -> int:
    """A number from 0."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def positive(text: str) -> float:
    """A number above 0, such as days."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


_BYTES: Final = {"": 1, "b": 1} | {
    f"{letter}{form}": base ** (power + 1)
    for power, letter in enumerate("kmgt")
    for form, base in (("", 1024), ("b", 1000), ("ib", 1024))
}
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def size_bytes(text: str) -> int:
    """A size: `256MiB`, `64MB`, or a number of bytes."""
    return int(_with_unit(text, _BYTES, "a size such as 256MiB"))


def duration_s(text: str) -> float:
    """A duration in seconds: `90s`, `30m`, `2h`, or a number of seconds."""
    return _with_unit(text, _SECONDS, "a time such as 90s, 30m or 2h")


def _with_unit(text: str, units: Mapping[str, int], words: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?) *([A-Za-z]*)", text.strip())
    if found is None or found[2].lower() not in units or float(found[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
    return float(found[1]) * units[found[2].lower()]


def point(text: str) -> AsOf:
    """A point in time."""
    from ..catalog.read.points_in_time import point_in_time  # it loads protobuf

    return point_in_time(text)


def point_or_now(text: str) -> AsOf:
    """A point in time; None for `now`, the newest."""
    return None if text.strip() == "now" else point(text)


def names(text: str) -> list[str]:
    """Names between commas."""
    return [name.strip() for name in text.split(",")]


def column_names(given: Sequence[str] | None) -> list[str]:
    """Names of columns: between commas, or one each if the option is repeated."""
    if len(given or ()) > 1:
        return list(given or ())
    return [name for text in given or () for name in names(text)]


def _named_point(text: str) -> tuple[str, AsOf]:
    name, equals, at = text.partition("=")
    if not equals:
        raise UsageError(
            f"{text[:60]!r} doesn't name a point in time", hint="Write june=2013-06-30T00:00Z"
        )
    return name.strip(), point_or_now(at)


# --- Arguments ------------------------------------------------------------------------------------


def argument(names: str, metavar: str, text: str, **settings: Any) -> Argument:
    """An argument.

    Args:
        names: Its name, or those of an option: `-c --columns`.
        metavar: The name of its value; empty: none.
        text: What `--help` says.
        settings: As for `ArgumentParser.add_argument`.
    """
    if metavar:
        settings["metavar"] = metavar
    return lambda parser: parser.add_argument(*names.split(), help=text, **settings)


def choice(names: str, choices: Sequence[str], text: str, **settings: Any) -> Argument:
    """An argument with a few values."""
    return argument(names, "", text, choices=choices, **settings)


def flag(names: str, text: str) -> Argument:
    """An option without a value."""
    return argument(names, "", text, action="store_true")


def repeated(name: str, metavar: str, text: str) -> Argument:
    """An option that may be given several times."""
    return argument(name, metavar, text, action="append", default=[])


def group(title: str, *arguments: Argument) -> Argument:
    """Arguments under a heading of their own."""
    return lambda parser: _add_all(parser.add_argument_group(title), arguments)


def either(*arguments: Argument) -> Argument:
    """Options that exclude each other."""
    return lambda parser: _add_all(parser.add_mutually_exclusive_group(), arguments)


def _add_all(parser: Any, arguments: Sequence[Argument]) -> None:
    for add in arguments:
        add(parser)


DATABASE: Final = argument("database", "DATABASE", "a database of the catalog")
ONE_DATABASE: Final = argument("database", "DATABASE", "only this database", nargs="?")
TABLE: Final = argument("table", "TABLE", "a table of the database")
CATALOG: Final = (
    argument(
        "url",
        "URL",
        "the catalog: a path, file://, memory://, s3://bucket/prefix, ...; may be left out "
        f"if {URL} is set",
    ),
    argument("-q --quiet", "", "print errors only: no progress, no warnings", action="store_true"),
    choice(
        "-o --output",
        FORMS,
        "text for people (default), json, jsonl, csv, parquet or arrow for programs",
        default="text",
    ),
    repeated(
        "--option",
        "KEY=VALUE",
        "a storage option, e.g. endpoint_url=http://127.0.0.1:9000 or "
        "client_kwargs.region_name=eu-west-1; may be repeated. Keep secrets out of the command "
        f"line: {ENVIRONMENT} takes a JSON object",
    ),
)
IN_DATABASE: Final = (*CATALOG, DATABASE)
ON_TABLE: Final = (*IN_DATABASE, TABLE)
SHARED: Final = flag(
    "--shared", "commit as a guest, without fencing off the owner of the writer id"
)
AS_OF: Final = argument(
    "--as-of",
    "POINT",
    "read an earlier state: a time with its zone (2013-06-30T00:00Z), a token (ll1-...), a tag "
    "(@name), or a revision for each writer (EWR=3,JFK=2). Default: the newest",
    type=point,
)
ALSO: Final = argument(
    "--also",
    "NAME=POINT",
    "the same tables at another point in time, as NAME.table in SQL; POINT is as for "
    "--as-of, or now; may be repeated",
    type=_named_point,
    action="append",
    default=[],
)
MEMORY: Final = argument(
    "--memory",
    "SIZE",
    "the most that DuckDB takes before it uses temporary files, e.g. 500MB (default 1GB)",
    default="1GB",
)


def writer(text: str, *, required: bool = False) -> Argument:
    return argument("--writer", "WRITER", text, required=required)


def writers(text: str) -> Argument:
    return argument("--writer", "WRITER", text, action="append")


def execute(text: str = "commit it; without this nothing is written") -> Argument:
    return flag("--execute", text)


def where(text: str, *, required: bool = False) -> Argument:
    return argument(
        "-w --where",
        "PREDICATE",
        f'{text}, a condition in SQL: "temp > 90 and time_hour >= timestamp '
        "'2013-07-01 00:00:00Z'\"; docs/reading.md has the language",
        required=required,
    )


def partition(what: str) -> Argument:
    return argument("--partition", "NAME", f"only {what} of this partition ('': of none)")


def limit(what: str) -> Argument:
    return argument("-n --limit", "N", f"at most so many {what}", type=whole_number)


# --- Storage options ------------------------------------------------------------------------------


def location_options(environment: Mapping[str, str] = os.environ) -> dict[str, dict[str, Any]]:
    """The storage options of the places of external files, by URL, from the environment."""
    options = _from_environment(environment, LOCATION_ENVIRONMENT)
    if options is None or not all(isinstance(each, dict) for each in options.values()):
        raise UsageError(
            f"{LOCATION_ENVIRONMENT} is not a JSON object of objects",
            hint='Its form is {"s3://bucket": {"key": "...", "secret": "..."}}',
        )
    return options


def storage_options(
    given: Sequence[str], environment: Mapping[str, str] = os.environ, *, name: str = ENVIRONMENT
) -> dict[str, Any]:
    """The storage options: those of the variable `name`, then those of `--option`, which win. No
    value is ever part of an error: it may be a secret."""
    options = _from_environment(environment, name)
    if options is None:
        raise UsageError(
            f"{name} is not a JSON object",
            hint='Its form is {"endpoint_url": "...", "key": "...", "secret": "..."}',
        )
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise UsageError(
                "An --option is not of the form KEY=VALUE",
                hint="For example --option endpoint_url=http://127.0.0.1:9000",
            )
        _set(options, key.split("."), _value(value))
    return options


def _from_environment(environment: Mapping[str, str], name: str) -> dict[str, Any] | None:
    """The JSON object in a variable; None if it is anything else."""
    try:
        options = json.loads(environment.get(name, "").strip() or "{}")
    except ValueError:
        return None
    return options if isinstance(options, dict) else None


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
