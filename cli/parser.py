"""How the words of a command line are read.

`URL` may be left out where LAKELOG_URL is set. Which word is what then follows from their number,
and where that leaves two readings, none is chosen: an error tells both.
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
    module = entry.load()
    examples = "\n".join(f"  {line}" for line in module.EXAMPLES.strip().splitlines())
    parser = Parser(
        prog=f"lakelog {entry.name}",
        description=module.DESCRIPTION.strip(),
        epilog=f"examples:\n{examples}",
        formatter_class=_Formatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="store_true", help="show this help and do nothing")
    module.configure(parser)
    return parser


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        columns = min(shutil.get_terminal_size((100, 24)).columns, 100)
        super().__init__(prog, max_help_position=26, width=max(columns, 60))


class Parser(argparse.ArgumentParser):
    """Raises instead of printing and exiting, and shows no value of an argument that it doesn't
    know.
    """

    def read(self, words: list[str]) -> argparse.Namespace:
        """The arguments. From now on errors say it if the URL is that of the environment.

        Raises:
            UsageError: They can't be read, or in two ways.
        """
        url = os.environ.get(URL, "").strip()
        if not url or all(action.dest != "url" for action in self._actions):
            return self._read(words)
        given = self._tried(words)
        left_out = self._tried([url, *words])
        if isinstance(left_out, LakelogError):
            if not isinstance(given, LakelogError):
                return given
            if self._names_a_place(words):
                raise given
            errors.took_url(url)
            raise left_out
        if isinstance(given, LakelogError):
            if self._names_a_place([str(self._second(left_out))]):
                raise given
        elif not _may_be_a_name(given.url):
            return given
        else:
            raise self._two_readings(given, left_out, words)
        errors.took_url(url)
        return left_out

    def _tried(self, words: list[str]) -> argparse.Namespace | LakelogError:
        try:
            return self._read(words)
        except LakelogError as error:
            return error

    def _read(self, words: list[str]) -> argparse.Namespace:
        """The arguments. An option that may stand alone doesn't take the next word where that is
        needed as an argument: `gc --execute URL DATABASE`.
        """
        try:
            return self.parse_intermixed_args(words)
        except UsageError:
            alone = {
                name
                for a in self._actions
                if a.nargs == argparse.OPTIONAL
                for name in a.option_strings
            }
            if alone.isdisjoint(words):
                raise
            try:
                return self.parse_intermixed_args([f"{w}=" if w in alone else w for w in words])
            except UsageError:
                pass
            raise

    def _places(self) -> list[argparse.Action]:
        return [action for action in self._actions if not action.option_strings]

    def _second(self, args: argparse.Namespace) -> object:
        """The word behind the URL."""
        behind = self._places()[1:2]
        return getattr(args, behind[0].dest) if behind else None

    @staticmethod
    def _names_a_place(words: list[str]) -> bool:
        """Whether the first of these is a URL or a path, and no name."""
        first = words[0] if words else ""
        return "://" in first or first in (".", "..") or first.startswith(_PATH_STARTS)

    def _two_readings(
        self, given: argparse.Namespace, left_out: argparse.Namespace, words: list[str]
    ) -> UsageError:
        readings = []
        for args, url in ((given, repr(given.url)), (left_out, f"that of {URL}")):
            said = [f"URL is {url}"]
            for action in self._places()[1:]:
                value = getattr(args, action.dest)
                if value:
                    named = ", ".join(map(repr, value)) if isinstance(value, list) else repr(value)
                    said.append(f"{action.metavar} is {named}")
            readings.append(" and ".join(said))
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


def _may_be_a_name(word: str) -> bool:
    """Whether a word may be the name of a database, and not only a URL."""
    from ..catalog.format.names import is_id

    return is_id(word)


def name_only(word: str) -> str:
    """An argument that isn't known, without a value that may be a secret."""
    name, equals, _ = word.partition("=")
    return f"{name}=***" if equals else name
