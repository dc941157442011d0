"""A session of SQL at a prompt, or of the statements on stdin: lines in, statements out."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import LakelogError
from . import output
from .batches import print_batches
from .errors import note_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..catalog.sql_session import SqlSession

_HISTORY_LINES: Final = 10_000
_KEYWORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "USING", "HAVING", "UNION",
    "EXCEPT", "DISTINCT", "BETWEEN", "IS NULL", "IS NOT NULL", "DESCRIBE", "SUMMARIZE", "EXPLAIN",
    "SHOW TABLES", "WITH", "QUALIFY", "OVER", "PARTITION BY", "count(*)",
)  # fmt: skip
_HELP: Final = """\
A statement ends with ; and may take several lines. The Tab key completes names.
.tables       the tables          .help    this text
.mode FORM    text, json, jsonl or csv for what follows
.quit         the end, as Ctrl-D; Ctrl-C drops what was typed"""
_MODES: Final = ("text", "json", "jsonl", "csv")


class Shell:
    """Reads lines and runs what they say.

    Args:
        session: Where it is run.
        form: How rows are printed.
    """

    def __init__(self, session: SqlSession, form: str) -> None:
        self._session = session
        self._form = form
        self._typed = ""
        self.done = False

    @property
    def prompt(self) -> str:
        """What stands before the next line."""
        return "   ...> " if self._typed.strip() else "lakelog> "

    def line(self, text: str) -> None:
        """Take one line; run what it ends.

        Raises:
            LakelogError: It failed, and is forgotten.
        """
        if not self._typed.strip() and text.strip().startswith("."):
            self._command(*text.split())
            return
        self._typed += text + "\n"
        if text.rstrip().endswith(";"):
            self.run(whole=False)

    def run(self, *, whole: bool = True) -> None:
        """Run what was typed.

        Args:
            whole: Nothing will follow; else what lacks its end is kept.
        """
        typed, self._typed = self._typed, ""
        statements = self._session.statements(typed, whole=whole)
        if statements is None:
            self._typed = typed
            return
        for statement in statements:
            with self._session.run(statement) as reader:
                print_batches(self._form, reader)
            sys.stdout.flush()

    def forget(self) -> None:
        """Drop what was typed."""
        self._typed = ""

    def _command(self, name: str, *rest: str) -> None:
        if name == ".quit" and not rest:
            self.done = True
        elif name == ".tables" and not rest:
            with self._session.run("SHOW TABLES") as reader:
                print_batches(self._form, reader)
        elif name == ".mode" and len(rest) == 1 and rest[0] in _MODES:
            self._form = rest[0]
        else:
            output.line(_HELP)


def converse(shell: Shell, words: Callable[[], Iterable[str]]) -> int:
    """Talk with a person at a terminal, with history and completion."""
    import readline

    history = _history_file()
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LINES)
    readline.set_completer(Completer(words).complete)
    readline.set_completer_delims(" \t\n,()=<>+-*/;")
    readline.parse_and_bind("tab: complete")
    output.line("SQL, ended by ;  .help says more, Ctrl-D leaves")
    try:
        while not shell.done:
            try:
                shell.line(input(shell.prompt))
            except EOFError:
                output.line()
                break
            except KeyboardInterrupt:
                output.line()
                shell.forget()
            except LakelogError as error:
                note_error(error)
    finally:
        with contextlib.suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)
    return 0


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state, "lakelog", "sql_history")


class Completer:
    """Completes names of tables and columns, and keywords.

    Args:
        words: Gives the names, when the first one is wanted.
    """

    def __init__(self, words: Callable[[], Iterable[str]]) -> None:
        self._words = words
        self._known: list[str] | None = None

    def complete(self, text: str, state: int) -> str | None:
        """The name number `state` that begins with a text, as readline asks for it."""
        if self._known is None:
            self._known = [*sorted(self._words()), *_KEYWORDS]
        found = [word for word in self._known if word.lower().startswith(text.lower())]
        return found[state] if state < len(found) else None


def obey(shell: Shell, lines: Iterable[Any]) -> int:
    """Run the statements of a script; the first error ends it."""
    for line in lines:
        shell.line(line.rstrip("\n"))
        if shell.done:
            return 0
    shell.run()
    return 0
