"""A command that a message or a document names is one that there is."""

from __future__ import annotations

import ast
import re

from lakelog.cli.command_list import COMMANDS

# In backticks, in a text of the package or the prose of a document; and in a document at the start
# of a line of a shell's block. Words in capitals and options stand for no one command.
IN_TICKS = re.compile(r"`lakelog ([a-z][\w-]*)[^`]*`")
IN_BLOCK = re.compile(r"^\s*(?:\$ )?lakelog ([a-z][\w-]*)", re.MULTILINE)
BLOCK = re.compile(r"^```(?:sh|text)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def texts(module) -> list[str]:
    """Every string literal of a module; of an f-string the parts that are fixed, joined."""
    found = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.JoinedStr):
            parts = [v.value if isinstance(v, ast.Constant) else "{}" for v in node.values]
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


def named(text: str) -> set[str]:
    """The commands that a text names."""
    blocks = "".join(BLOCK.findall(text))
    return {*IN_TICKS.findall(text), *IN_BLOCK.findall(blocks)} - {"help"}


def test_every_command_that_is_named_exists(root, modules, text_files):
    known = {entry.name for entry in COMMANDS}
    unknown = set()
    for module in modules:
        for text in texts(module):
            unknown |= {f"{module.path}: {name}" for name in named(text) - known}
    for path in text_files:
        if str(path) == "README.md" or (path.parts[0] == "docs" and path.suffix == ".md"):
            text = (root / path).read_text(encoding="utf-8")
            unknown |= {f"{path}: {name}" for name in named(text) - known}
    assert not unknown


def test_the_test_finds_names():
    block = "```sh\nlakelog scan x\n  $ lakelog log y\n```\n"
    text = f"see `lakelog check x` or\n{block}lakelog keeps; `lakelog COMMAND --help`"
    assert named(text) == {"check", "scan", "log"}
