"""The options of `lakelog write` that say how its files are to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import UsageError
from .csv_files import CsvOptions
from .sources import FORMATS, SEPARATED

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence, Set

_TAB = ("tab", "\\t")


def csv_options(args: argparse.Namespace) -> CsvOptions:
    """How csv files are to be read.

    Raises:
        UsageError: The options don't go together.
    """
    delimiter = "\t" if args.delimiter in _TAB else args.delimiter
    if delimiter and (len(delimiter) > 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise UsageError(
            f"--delimiter {delimiter[:20]!r} is not one ASCII character",
            hint="For example ';', '|' or tab",
        )
    columns = names_of(args.columns)
    if not args.header and not columns:
        raise UsageError(
            "Without a header the columns have no names", hint="Name them: --columns a,b,c"
        )
    twice = next((name for name in columns if not name or columns.count(name) > 1), None)
    if twice is not None:
        problem = f"{twice!r} stands twice" if twice else "a name is empty"
        raise UsageError(f"In --columns {problem}", hint="Name each column once")
    return CsvOptions(delimiter, args.header, tuple(columns), tuple(args.null))


def names_of(given: Sequence[str] | None) -> list[str]:
    """Names of columns from an option: between commas, or one each where it is repeated."""
    if len(given or ()) > 1:
        return list(given or ())
    return [name.strip() for value in given or () for name in value.split(",")]


def refuse_idle_options(args: argparse.Namespace, forms: Set[str]) -> None:
    """Refuse options that say nothing of any of the files.

    Raises:
        UsageError: There is one.
    """
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
            hint=f"--format says of which format they are: {', '.join(FORMATS)}",
        )
