"""Completion on TAB: argcomplete does it, from the very parsers that read the command line.

The shell's script, which `lakelog completion` prints, calls `lakelog` with `_ARGCOMPLETE` in the
environment. Only the parser of the command that is being typed is made. Databases, tables and
writers are looked up where that is quick: in a local folder.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .command_list import COMMANDS, find
from .parser import URL, command_parser

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..catalog.catalog import Catalog

_FILES: Final = ("FILE", "DIR", "PLANFILE")


def complete() -> None:
    """Tell the shell what may stand where the cursor is, and end the process."""
    import argcomplete

    argcomplete.autocomplete(
        _whole_parser(os.environ.get("COMP_LINE", "")), always_complete_options=False
    )


def _whole_parser(line: str) -> argparse.ArgumentParser:
    """One parser over all commands, of which only that in the line has its arguments."""
    parser = argparse.ArgumentParser("lakelog", add_help=False)
    parser.add_argument("--help", action="store_true", help="list the commands")
    parser.add_argument("--version", action="store_true", help="show the version")
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=argparse.ArgumentParser)
    typed = {word for word in line.split()[1:] if find(word) is not None}
    for entry in COMMANDS:
        sub = commands.add_parser(entry.name, help=entry.summary, add_help=False)
        if entry.name in typed:
            _take_over(sub, command_parser(entry))
    return parser


def _take_over(sub: argparse.ArgumentParser, full: argparse.ArgumentParser) -> None:
    """Give a parser the arguments of another, each with what completes it."""
    for action in full._actions:
        sub._add_action(action)
        finder = _FINDERS.get(action.dest)
        words = str(action.metavar or "")
        if finder is not None:
            action.completer = finder  # type: ignore[attr-defined]
        elif action.choices is None and not words.startswith(_FILES):
            action.completer = _nothing  # type: ignore[attr-defined]


def _nothing(**_: Any) -> list[str]:
    return []


def _names(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Databases or tables: what may follow the words before the cursor, read with the URL among
    them and with LAKELOG_URL before them."""
    return _both_ways(parsed_args, _following)


def _writers(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    return _both_ways(
        parsed_args, lambda catalog, words: catalog.writers(words[0]) if words else []
    )


def _following(catalog: Catalog, words: list[str]) -> list[str]:
    if not words:
        return catalog.databases()
    return catalog.snapshot(words[0]).tables() if len(words) == 1 else []


def _both_ways(
    parsed_args: argparse.Namespace, look: Callable[[Catalog, list[str]], list[str]]
) -> list[str]:
    found = [getattr(parsed_args, name, None) for name in ("url", "database", "table")]
    words = [word for word in found if isinstance(word, str)]
    names = _looked_up(words[0], look, words[1:]) if words else []
    if os.environ.get(URL):
        names += _looked_up(os.environ[URL], look, words)
    return names


def _looked_up(
    url: str, look: Callable[[Catalog, list[str]], list[str]], words: list[str]
) -> list[str]:
    if "://" in url and not url.startswith("file://"):
        return []
    from ..catalog.catalog import open_catalog

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return look(open_catalog(url), words)
        except Exception:  # a completion has nobody to tell
            return []


def _folders_and_databases(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    folder = Path(prefix).expanduser() if prefix.endswith("/") else Path(prefix).expanduser().parent
    start = prefix[: prefix.rfind("/") + 1]
    try:
        inside = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        inside = []
    return [f"{start}{name}" for name in inside] + _names(parsed_args)


_FINDERS: Final[dict[str, Any]] = {
    "url": _folders_and_databases,
    "database": _names,
    "table": _names,
    "writer": _writers,
}
