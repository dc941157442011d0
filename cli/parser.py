"""The parser of a command line.

`URL` may be left out if LAKELOG_URL is set. The number of words then decides which word is what; if
both readings are possible, an error names both.
"""

from __future__ import annotations

import argparse
import os
import shutil
from typing import TYPE_CHECKING, Final, NoReturn

from ..errors import LakelogError, UsageError
from . import errors

if TYPE_CHECKING:
    from .command_list import Entry

URL: Final = "LAKELOG_URL"
_PATH_STARTS: Final = ("/", "./", "../", "~", "\\")


def command_parser(entry: Entry) -> Parser:
    """The parser of a command."""
    command = entry.load()
    examples = "\n".join(f"  {line}" for line in command.examples.strip().splitlines())
    parser = Parser(
        prog=f"lakelog {entry.name}",
        description=command.description.strip(),
        epilog=f"examples:\n{examples}",
        formatter_class=_Formatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="store_true", help="show this help and do nothing")
    for add in command.arguments:
        add(parser)
    return parser


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        columns = min(shutil.get_terminal_size((100, 24)).columns, 100)
        super().__init__(prog, max_help_position=26, width=max(columns, 60))


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of exiting, and shows no values of unknown arguments."""

    def read(self, words: list[str]) -> argparse.Namespace:
        """Parse the arguments. Errors from now on mention a URL that comes from the environment.

        Raises:
            UsageError: They can't be parsed, or in two ways.
        """
        url = os.environ.get(URL, "").strip()
        if not url or all(action.dest != "url" for action in self._actions):
            return self._read(words)
        at = [action.dest for action in self._positional()].index("url")  # an ACTION may precede it
        given, left_out = self._try(words), self._try([*words[:at], url, *words[at:]])
        if isinstance(left_out, LakelogError):
            if not isinstance(given, LakelogError):
                return given
            if _is_place(words[at] if len(words) > at else ""):
                raise given
            errors.running().url = url
            raise left_out
        if isinstance(given, LakelogError):
            second = self._positional()[at + 1 : at + 2]
            if second and _is_place(str(getattr(left_out, second[0].dest))):
                raise given
            errors.running().url = url
            return left_out
        from ..catalog.format.names import is_id

        if given.url.startswith("@"):  # a tag, and no URL
            errors.running().url = url
            return left_out
        if is_id(given.url):  # or else a URL, and no name of a database
            raise self._two_readings(given, left_out)
        return given

    def _try(self, words: list[str]) -> argparse.Namespace | LakelogError:
        try:
            return self._read(words)
        except LakelogError as error:
            return error

    def _read(self, words: list[str]) -> argparse.Namespace:
        """Parse the arguments. An option with an optional value doesn't take the next word if that
        is needed as an argument: `gc --execute URL DATABASE`.
        """
        try:
            return self.parse_intermixed_args(words)
        except UsageError:
            optional = (a for a in self._actions if a.nargs == argparse.OPTIONAL)
            alone = {name for action in optional for name in action.option_strings}
            if alone.isdisjoint(words):
                raise
            try:
                return self.parse_intermixed_args([f"{w}=" if w in alone else w for w in words])
            except UsageError:
                pass
            raise

    def _positional(self) -> list[argparse.Action]:
        return [action for action in self._actions if not action.option_strings]

    def _two_readings(self, given: argparse.Namespace, left_out: argparse.Namespace) -> UsageError:
        readings = []
        for args, url in ((given, repr(given.url)), (left_out, f"that of {URL}")):
            parts = [f"URL is {url}"]
            for action in self._positional():
                if action.dest == "url":
                    continue
                value = getattr(args, action.dest)
                if value:
                    named = ", ".join(map(repr, value)) if isinstance(value, list) else repr(value)
                    parts.append(f"{action.metavar} is {named}")
            readings.append(" and ".join(parts))
        return errors.usage(
            f"{URL} is set, and this can be read in two ways: {readings[0]}; or {readings[1]}",
            self.prog.split()[-1],
            hint=f"Give the URL: ./{given.url} for the first, ${URL} for the second",
        )

    def error(self, message: str) -> NoReturn:
        name = self.prog.split()[-1]
        kind, _, rest = message.partition(": ")
        if kind == "unrecognized arguments":
            message = f"unexpected: {' '.join(name_only(word) for word in rest.split())}"
        raise errors.usage(message, name)


def _is_place(word: str) -> bool:
    """Tell whether a word is a URL or a path, and no name."""
    return "://" in word or word in (".", "..") or word.startswith(_PATH_STARTS)


def name_only(word: str) -> str:
    """An unknown argument without its value, which may be a secret."""
    name, equals, _ = word.partition("=")
    return f"{name}=***" if equals else name
