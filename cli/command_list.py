"""The list of commands. A new command is a row here and a `Command` in a module of `commands`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    # Adds itself to a parser, or to a group of one.
    Argument = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        description: What it does, in a few sentences, for `--help`.
        examples: Complete command lines, one a line.
        arguments: The arguments that it takes, in order; see `options`.
        run: Runs it and returns the exit code.
    """

    description: str
    examples: str
    arguments: Sequence[Argument]
    run: Callable[[argparse.Namespace], int]


@dataclass(frozen=True, slots=True)
class Entry:
    """A command in the overview. Its `Command` is imported when it is called.

    Attributes:
        name: The name as the user types it; in capitals, with `_` for `-`, that of its `Command`.
        module: The module in `commands`.
        summary: What it does, in a few words.
        group: Heading in the overview.
        starts_spark: Whether it does, with whatever arguments.
    """

    name: str
    module: str
    summary: str
    group: str
    starts_spark: bool = False

    def load(self) -> Command:
        """Import the command."""
        module = import_module(f".commands.{self.module}", __package__)
        return cast("Command", getattr(module, self.name.upper().replace("-", "_")))


# Of each group the commands: name, module, summary.
_GROUPS: Final = {
    "Try": (
        ("demo", "demo", "make a small catalog of real data and look at it"),
        ("completion", "completion", "print the script for completion in your shell"),
    ),
    "Look": (
        ("databases", "tables", "list the databases of a catalog"),
        ("tables", "tables", "list the tables of a database: files, rows, size, columns"),
        ("log", "history", "show what was committed: when, by whom, how much"),
        ("show", "show", "decode one transaction, checkpoint or segment"),
        ("files", "tables", "list the live files of a table"),
        ("explain", "tables", "show which files a condition keeps, and why others are skipped"),
        ("schema", "schema", "show or change the columns of a table"),
        ("scan", "rows", "print the rows of a table"),
        ("diff", "history", "compare two points in time: files, rows, columns"),
        ("changes", "rows", "print the rows inserted and deleted between two points in time"),
        ("query", "rows", "run SQL on the tables of a database, at any points in time"),
        ("shell", "rows", "run SQL at a prompt, with history and completion"),
        ("doctor", "health", "show what the store can do, and which logs exist"),
    ),
    "Change": (
        ("write", "write", "commit Parquet, CSV or JSON files to a table"),
        ("add", "add", "add Parquet files in place, without copying them"),
        ("delete", "changing", "delete the rows of a table that meet a condition"),
        ("restore", "changing", "go back to an earlier point in time, in one commit a writer"),
        ("remove", "changing", "remove files from a table"),
        ("drop", "changing", "remove all files of a table, and forget the table"),
        ("tag", "tags", "name a point in time, list the names, remove one"),
        ("publish", "tags", "move a name to a point in time, for all its readers at once"),
    ),
    "Maintain": (
        ("maintain", "maintain", "do all that is due: the job for every night"),
        ("policy", "maintain", "show or set what maintain does"),
        ("compact", "compact", "rewrite small files into fewer"),
        ("checkpoint", "logs", "write a checkpoint, so that opening stays quick"),
        ("prune", "maintenance", "delete old history"),
        ("gc", "maintenance", "delete data files that no retained revision needs"),
        ("replicate", "replicate", "update a copy of a catalog, once or continuously"),
        ("promote", "replicate", "let a replica be written to"),
        ("check", "health", "check logs and files, without changing anything"),
        ("repair", "health", "restore what is missing or damaged from the second copy"),
        ("adopt-name", "logs", "give a log that was copied or renamed its new name"),
        ("rebuild", "maintenance", "rebuild a lost log from the footers of data files"),
    ),
}
COMMANDS: Final = tuple(
    Entry(name, module, summary, group, starts_spark=name == "demo")
    for group, rows in _GROUPS.items()
    for name, module, summary in rows
)


def find(name: str) -> Entry | None:
    """The command of a name, or None."""
    return next((entry for entry in COMMANDS if entry.name == name), None)
