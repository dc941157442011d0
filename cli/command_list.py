"""The list of commands. A new one is a row here and a module."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    import argparse


class Command(Protocol):
    """What the module of a command has."""

    DESCRIPTION: str
    EXAMPLES: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; returns the exit code."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command in the overview.

    Attributes:
        name: As the user types it, and, with `_` for `-`, the name of its module.
        summary: What it does, in a few words.
        group: Heading in the overview.
        pandas: Whether it may import pandas, which Spark does.
    """

    name: str
    summary: str
    group: str
    pandas: bool = False

    @property
    def module(self) -> str:
        """The name of the command's module."""
        return self.name.replace("-", "_")

    def load(self) -> Command:
        """Import the command's module."""
        return cast("Command", import_module(f".commands.{self.module}", __package__))


COMMANDS: Final = (
    Entry("demo", "make a small catalog of real data and look at it", "Try", pandas=True),
    Entry("completion", "the script that makes your shell complete command lines", "Try"),
    Entry("databases", "the databases of a catalog", "Look"),
    Entry("tables", "the tables of a database: files, rows, size, columns", "Look"),
    Entry("log", "what was committed: when, by whom, how much", "Look"),
    Entry("show", "one transaction, checkpoint or segment, decoded", "Look"),
    Entry("files", "the live files of a table", "Look"),
    Entry("explain", "which files a condition leaves, and why others are skipped", "Look"),
    Entry("schema", "the columns of a table, and which files differ", "Look"),
    Entry("scan", "the rows of a table", "Look"),
    Entry("diff", "what differs between two points in time: files, rows, columns", "Look"),
    Entry("changes", "the rows that came and went between two points in time", "Look"),
    Entry("query", "SQL over the tables of a database, at one point in time or several", "Look"),
    Entry("shell", "SQL at a prompt, with history and completion", "Look"),
    Entry("doctor", "what the store can do, and whose logs are there", "Look"),
    Entry("write", "commit Parquet, CSV or JSON-lines files to a table", "Change"),
    Entry("add", "take Parquet files in where they lie, without copying", "Change"),
    Entry("delete", "rows out of a table, by a condition", "Change"),
    Entry("restore", "go back to an earlier point in time, in one commit a writer", "Change"),
    Entry("remove", "take files out of a table", "Change"),
    Entry("drop", "take all files out of a table, and forget it", "Change"),
    Entry("checkpoint", "write a checkpoint, so that opening stays quick", "Maintain"),
    Entry("prune", "forget old history", "Maintain"),
    Entry("gc", "delete data files that no retained revision needs", "Maintain"),
    Entry("replicate", "bring a copy of a catalog up to date, once or again and again", "Maintain"),
    Entry("check", "what is wrong with logs and files: nothing is changed", "Maintain"),
    Entry("repair", "put back what is missing or damaged, from the second copy", "Maintain"),
    Entry("adopt-name", "give a log that was copied or renamed its new name", "Maintain"),
    Entry("rebuild", "make a lost log again from the footers of the data files", "Maintain"),
)


def find(name: str) -> Entry | None:
    """The command of a name, or None."""
    return next((entry for entry in COMMANDS if entry.name == name), None)
