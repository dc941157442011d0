"""A command that a message or a document names is one that there is, with options that it has."""

from __future__ import annotations

import ast
import re
import shlex

import pytest
from lakelog.cli.command_list import COMMANDS, find
from lakelog.cli.parser import command_parser
from lakelog.errors import UsageError

# In backticks, in a text of the package or the prose of a document; and in a document at the start
# of a line of a shell's block. Words in capitals and options stand for no one command.
IN_TICKS = re.compile(r"`lakelog ([a-z][\w-]*)[^`]*`")
WHOLE = re.compile(r"`lakelog ([a-z][^`]*)`")
LINE = re.compile(r"^\s*(?:\$ )?lakelog ([a-z].*)$", re.MULTILINE)
IN_BLOCK = re.compile(r"^\s*(?:\$ )?lakelog ([a-z][\w-]*)", re.MULTILINE)
BLOCK = re.compile(r"^```(?:sh|text)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def texts(module) -> list[str]:
    """Every string literal of a module; of an f-string the parts that are fixed, joined."""
    found = []
    for node in module.nodes:
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


def misnamed(text: str) -> set[str]:
    """The commands in a text that the command line would refuse."""
    lines = LINE.findall("".join(BLOCK.findall(text)))
    return {found for found in (*WHOLE.findall(text), *lines) if not _is_taken(found)}


def _is_taken(found: str) -> bool:
    """Whether a command is taken as it stands; one that isn't whole, whether it has the options."""
    alone = re.split(r" [#|] ?", found.replace("{}", "1"))[0]
    name, *words = shlex.split(alone)
    entry = find(name)
    if entry is None:
        return not re.fullmatch(r"[a-z][\w-]*", name) or name == "help"  # prose, or known missing
    parser = command_parser(entry)
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    if not options <= {o for action in parser._actions for o in action.option_strings}:
        return False
    if not words or words[0].startswith("-") or "..." in words:
        return True
    try:
        parser.read(words)
    except UsageError:
        return False
    return True


@pytest.fixture(scope="module")
def all_texts(root, modules, text_files):
    """Every text of the package and every document, each with where it stands."""
    found = [(str(module.path), text) for module in modules for text in texts(module)]
    for path in text_files:
        if str(path) == "README.md" or (path.parts[0] == "docs" and path.suffix == ".md"):
            found.append((str(path), (root / path).read_text(encoding="utf-8")))
    return found


def test_every_command_that_is_named_exists(all_texts):
    known = {entry.name for entry in COMMANDS}
    assert not {f"{where}: {name}" for where, text in all_texts for name in named(text) - known}


def test_every_command_that_is_named_has_the_options_and_arguments(all_texts):
    assert not {f"{where}: {line}" for where, text in all_texts for line in misnamed(text)}


@pytest.mark.parametrize(
    ("line", "good"),
    [
        ("lakelog rebuild URL weather --writer EWR --execute", True),
        ("lakelog rebuild URL weather --writer EWR --replace", False),
        ("lakelog rebuild --exclude", True),
        ("lakelog rebuild --replace", False),
        ("lakelog rebuild URL", False),
        ("lakelog doctor", True),
        ("lakelog doctor a b c d", False),
        ("lakelog rebuild URL {} --writer {} --exclude {}", True),
    ],
)
def test_the_test_tells_commands_that_would_be_refused(line, good):
    assert (not misnamed(f"see `{line}`")) == good
    assert (not misnamed(f"```sh\n{line}\n```\n")) == good


def test_the_test_finds_names():
    block = "```sh\nlakelog scan x\n  $ lakelog log y\n```\n"
    text = f"see `lakelog check x` or\n{block}lakelog keeps; `lakelog COMMAND --help`"
    assert named(text) == {"check", "scan", "log"}
