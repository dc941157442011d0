"""`lakelog completion`: completion on TAB by argcomplete, from the parsers of the command line.

The shell's script, which the command prints, calls `lakelog` with `_ARGCOMPLETE` in the
environment. Only the parser of the command that is being typed is made. Databases, tables and
writers are looked up if that is quick: in a local folder.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..command_list import COMMANDS, Command, find
from ..parser import URL, command_parser

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...catalog.catalog import Catalog

_FILES: Final = ("FILE", "DIR", "PLANFILE")


def complete() -> None:
    """Tell the shell what can be at the cursor, and end the process."""
    import argcomplete

    argcomplete.autocomplete(
        _whole_parser(os.environ.get("COMP_LINE", "")), always_complete_options=False
    )


def _whole_parser(line: str) -> argparse.ArgumentParser:
    """A parser of all commands; only the one in the line has its arguments."""
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
    """Give a parser the arguments of another, each with its completer."""
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


def _finder(look: Callable[[Catalog, list[str]], list[str]]) -> Callable[..., list[str]]:
    """A completer of names in a local catalog.

    Args:
        look: Returns the names that follow the words after the URL.
    """

    def look_up(url: str, words: list[str]) -> list[str]:
        if "://" in url and not url.startswith("file://"):
            return []
        from ...catalog.catalog import open_catalog

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return look(open_catalog(url), words)
            except Exception:  # nobody reads an error here
                return []

    def complete_names(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
        given = [getattr(parsed_args, name, None) for name in ("url", "database", "table")]
        words = [word for word in given if isinstance(word, str)]
        names = look_up(words[0], words[1:]) if words else []
        return names + (look_up(os.environ[URL], words) if os.environ.get(URL) else [])

    return complete_names


def _following(catalog: Catalog, words: list[str]) -> list[str]:
    if not words:
        return catalog.databases()
    return catalog.snapshot(words[0]).tables() if len(words) == 1 else []


_names: Final = _finder(_following)


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
    "writer": _finder(lambda catalog, words: catalog.writers(words[0]) if words else []),
}


def _print_script(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    output.write(shellcode(["lakelog"], shell=args.shell))
    return 0


COMPLETION: Final = Command(
    """\
Print a script for your shell, after which TAB completes commands, options and their values, and in
local catalogs the names of databases, tables and writers. Add the line for your shell to the file
that it reads when it starts.""",
    """
lakelog completion bash > ~/.local/share/bash-completion/completions/lakelog
lakelog completion zsh > ~/.zfunc/_lakelog
lakelog completion fish > ~/.config/fish/completions/lakelog.fish
""",
    (options.choice("shell", ("bash", "zsh", "fish"), "your shell"),),
    _print_script,
)
