"""`lakelog completion`: the script that makes a shell complete lakelog's command lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .. import output

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
Print a script for your shell, after which TAB completes commands, options and their values, and in
local catalogs the names of databases, tables and writers. Put the line that fits into the file that
your shell reads when it starts."""
EXAMPLES: Final = """
lakelog completion bash > ~/.local/share/bash-completion/completions/lakelog
lakelog completion zsh > ~/.zfunc/_lakelog
lakelog completion fish > ~/.config/fish/completions/lakelog.fish
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    output.write(shellcode(["lakelog"], shell=args.shell))
    return 0
