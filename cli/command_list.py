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
        pandas: It may import pandas, which Spark does.
    """

    name: str
    module: str
    summary: str
    group: str
    pandas: bool = False

    def load(self) -> Command:
        """Import the command."""
        module = import_module(f".commands.{self.module}", __package__)
        return cast("Command", getattr(module, self.name.upper().replace("-", "_")))


_TRY, _LOOK, _CHANGE, _MAINTAIN = "Try", "Look", "Change", "Maintain"
COMMANDS: Final = (
    Entry("demo", "demo", "make a small catalog of real data and look at it", _TRY, pandas=True),
    Entry("completion", "completion", "print the script for completion in your shell", _TRY),
    Entry("databases", "tables", "list the databases of a catalog", _LOOK),
    Entry("tables", "tables", "list the tables of a database: files, rows, size, columns", _LOOK),
    Entry("log", "history", "show what was committed: when, by whom, how much", _LOOK),
    Entry("show", "show", "decode one transaction, checkpoint or segment", _LOOK),
    Entry("files", "tables", "list the live files of a table", _LOOK),
    Entry("explain", "tables", "show which files a condition keeps, and why others go", _LOOK),
    Entry("schema", "schema", "show or change the columns of a table", _LOOK),
    Entry("scan", "rows", "print the rows of a table", _LOOK),
    Entry("diff", "history", "compare two points in time: files, rows, columns", _LOOK),
    Entry(
        "changes", "rows", "print the rows inserted and deleted between two points in time", _LOOK
    ),
    Entry("query", "rows", "run SQL on the tables of a database, at any points in time", _LOOK),
    Entry("shell", "rows", "run SQL at a prompt, with history and completion", _LOOK),
    Entry("doctor", "health", "show what the store can do, and which logs exist", _LOOK),
    Entry("write", "write", "commit Parquet, CSV or JSON files to a table", _CHANGE),
    Entry("add", "add", "add Parquet files in place, without copying them", _CHANGE),
    Entry("delete", "changing", "delete the rows of a table that meet a condition", _CHANGE),
    Entry(
        "restore", "changing", "go back to an earlier point in time, by a commit a writer", _CHANGE
    ),
    Entry("remove", "changing", "remove files from a table", _CHANGE),
    Entry("drop", "changing", "remove all files of a table, and forget the table", _CHANGE),
    Entry("checkpoint", "logs", "write a checkpoint, so that opening stays quick", _MAINTAIN),
    Entry("prune", "maintenance", "delete old history", _MAINTAIN),
    Entry("gc", "maintenance", "delete data files that no retained revision needs", _MAINTAIN),
    Entry("replicate", "replicate", "update a copy of a catalog, once or continuously", _MAINTAIN),
    Entry("check", "health", "check logs and files, without changing anything", _MAINTAIN),
    Entry("repair", "health", "restore what is missing or damaged from the second copy", _MAINTAIN),
    Entry("adopt-name", "logs", "give a log that was copied or renamed its new name", _MAINTAIN),
    Entry("rebuild", "maintenance", "rebuild a lost log from the footers of data files", _MAINTAIN),
)


def find(name: str) -> Entry | None:
    """The command of a name, or None."""
    return next((entry for entry in COMMANDS if entry.name == name), None)
