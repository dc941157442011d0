"""A command that a message or a document names is one that there is, and so are its options."""

from __future__ import annotations

import argparse
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


def options(text: str) -> set[tuple[str, str]]:
    """The options that a text gives to commands that it names: command and option."""
    return {
        (match[1], option)
        for match in IN_TICKS.finditer(text)
        for option in re.findall(r"(?<!\S)--[a-z][\w-]*", match[0].rstrip("`"))
    }


def test_every_option_that_is_named_exists(root, modules, text_files):
    known = {entry.name: options_of(entry) for entry in COMMANDS}
    unknown = set()
    documents = [p for p in text_files if str(p) == "README.md" or p.parts[0] == "docs"]
    places = [(module.path, text) for module in modules for text in texts(module)]
    places += [(path, (root / path).read_text(encoding="utf-8")) for path in documents]
    for path, text in places:
        for command, option in options(text):
            if option not in known.get(command, {option}):
                unknown.add(f"{path}: lakelog {command} {option}")
    assert not unknown


def options_of(entry) -> set[str]:
    parser = argparse.ArgumentParser()
    entry.load().configure(parser)
    return {name for action in parser._actions for name in action.option_strings}


def test_the_test_finds_options():
    text = "run `lakelog rebuild URL {} --writer {} --replace`, or `lakelog log --limit 5`"
    assert options(text) == {("rebuild", "--writer"), ("rebuild", "--replace"), ("log", "--limit")}


def test_the_test_finds_names():
    block = "```sh\nlakelog scan x\n  $ lakelog log y\n```\n"
    text = f"see `lakelog check x` or\n{block}lakelog keeps; `lakelog COMMAND --help`"
    assert named(text) == {"check", "scan", "log"}
