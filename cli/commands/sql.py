"""`lakelog query` and `lakelog shell`: SQL over the tables of a database, one statement, or
statements at a prompt or on stdin.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...errors import LakelogError
from .. import errors, options, output
from ..command_list import Command
from ..opening import cut_fields, open_catalog
from ..output import print_batches

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from ...catalog.sql_session import SqlSession

_HISTORY_LINES: Final = 10_000
_KEYWORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "USING", "HAVING", "UNION",
    "EXCEPT", "DISTINCT", "BETWEEN", "IS NULL", "IS NOT NULL", "DESCRIBE", "SUMMARIZE", "EXPLAIN",
    "SHOW TABLES", "WITH", "QUALIFY", "OVER", "PARTITION BY", "count(*)",
)  # fmt: skip
_HELP: Final = """\
A statement ends with ; and may take several lines. The Tab key completes names.
.tables       list the tables     .help    print this text
.mode FORM    text, json, jsonl or csv for what follows
.quit         leave, as Ctrl-D does; Ctrl-C discards what was typed"""
_MODES: Final = ("text", "json", "jsonl", "csv")


# --- One statement --------------------------------------------------------------------------------


def _query(args: argparse.Namespace) -> int:
    from ...catalog.sql_session import SqlSession

    query = _stdin() if args.sql == "-" else args.sql
    catalog = open_catalog(args)
    with SqlSession(args.memory) as session:
        snapshot = catalog.snapshot(args.database, args.as_of)
        session.add(snapshot, query=query)
        head: dict[str, Any] = cut_fields(snapshot)
        for name, point in args.also:
            other = catalog.snapshot(args.database, point)
            session.add(other, name, query=query)
            head.setdefault("also", {})[name] = cut_fields(other)
        with session.run(query) as reader:
            print_batches(args.output, reader, limit=args.limit, head=head)
    return 0


def _stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise errors.usage(f"the SQL on stdin is no text: {error}", "query") from error


QUERY: Final = Command(
    """\
Run SQL on the tables of a database, with DuckDB (pip install 'lakelog[duckdb]'). All tables are
read at one cut: the newest, or that of --as-of. --also adds another cut under a name of its own, so
that one query compares two points in time.

Columns and conditions of the query reach the log's statistics: files that can't hold such rows are
not read. Some local tables are read by DuckDB itself, after a check against the log. Memory stays
within --memory, and what doesn't fit goes to temporary files; rows are printed as they arrive.
SQL sees the tables and nothing else, neither other files nor the network. Times are in UTC; json
holds the token of what was read. With - the SQL is read from stdin: < report.sql""",
    """
lakelog query s3://lake/catalog weather "SELECT origin, max(temp) FROM hourly GROUP BY origin"
lakelog query ./catalog weather "SELECT count(*) FROM hourly" --as-of 2013-06-30T00:00Z
lakelog query ./catalog weather "FROM hourly EXCEPT FROM old.hourly" --also old=2013-06-30T00:00Z
lakelog query ./catalog weather "FROM hourly" --output parquet > hourly.parquet
""",
    (
        *options.IN_DATABASE,
        options.argument("sql", "SQL", "one statement; - reads it from stdin"),
        options.AS_OF,
        options.ALSO,
        options.MEMORY,
        options.limit("rows"),
    ),
    _query,
)


# --- A session ------------------------------------------------------------------------------------


def _run_shell(args: argparse.Namespace) -> int:
    from ...catalog.sql_session import SqlSession

    catalog = open_catalog(args)
    with SqlSession(args.memory) as session:
        session.add(catalog.snapshot(args.database, args.as_of))
        for name, point in args.also:
            session.add(catalog.snapshot(args.database, point), name)
        shell = Shell(session, args.output)
        if sys.stdin.isatty() and sys.stdout.isatty():
            _run_interactive(shell, session.names)
        else:
            _run_script(shell, sys.stdin)
    return 0


class Shell:
    """A session that takes lines and runs the statements in them.

    Args:
        session: The session that runs them.
        form: The form in which rows are printed.
    """

    def __init__(self, session: SqlSession, form: str) -> None:
        self._session = session
        self._form = form
        self._typed = ""
        self.done = False

    @property
    def prompt(self) -> str:
        """The prompt of the next line."""
        return "   ...> " if self._typed.strip() else "lakelog> "

    def line(self, text: str) -> None:
        """Take one line, and run the statements that it ends.

        Raises:
            LakelogError: A statement failed; it is discarded.
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
            whole: Nothing will follow; else a statement without its end is kept.
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
        """Discard what was typed."""
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


def _run_interactive(shell: Shell, words: Callable[[], Iterable[str]]) -> None:
    """Run the statements that a person types, with history and completion."""
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
                errors.note_error(error)
    finally:
        with contextlib.suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state, "lakelog", "sql_history")


class Completer:
    """Completes names of tables and columns, and keywords.

    Args:
        words: Returns the names, when the first one is needed.
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


def _run_script(shell: Shell, lines: Iterable[Any]) -> None:
    """Run the statements of a script; the first error ends it."""
    for line in lines:
        shell.line(line.rstrip("\n"))
        if shell.done:
            return
    shell.run()


SHELL: Final = Command(
    """\
Run SQL on the tables of a database, one statement after another, as with `lakelog query`: all at
one cut, which stays the same for the whole session. At a terminal there is a history, and the Tab
key completes names; otherwise statements are read from stdin (< report.sql), and the first error
ends the command.""",
    """
lakelog shell s3://lake/catalog weather
lakelog shell ./catalog weather --as-of 2013-06-30T00:00Z --also now=now
lakelog shell ./catalog weather --output csv --memory 4GB
""",
    (*options.IN_DATABASE, options.AS_OF, options.ALSO, options.MEMORY),
    _run_shell,
)
