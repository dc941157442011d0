"""`lakelog scan`, `changes`, `query` and `shell`: the rows of tables, directly or by SQL."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...errors import LakelogError, TimeBeforeFirstCommit
from .. import errors, options, output
from ..command_list import Command
from ..opening import cut_fields, open_catalog, open_snapshot
from ..output import print_batches

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from ...catalog.sql_session import SqlSession


def _scan(args: argparse.Namespace) -> int:
    snapshot = open_snapshot(args)
    columns = _columns(args.columns, snapshot.column_names(args.table))
    with snapshot.scan(args.table, columns, where=args.where, partition=args.partition) as reader:
        print_batches(args.output, reader, limit=args.limit, head=cut_fields(snapshot))
    return 0


def _columns(given: list[str] | None, known: list[str]) -> list[str] | None:
    """The names asked for. A value that is a column's whole name is that column, commas or not."""
    if given is None:
        return None
    names = [name for value in given for name in ([value] if value in known else value.split(","))]
    names = [name if name in known else name.strip() for name in names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not all(names):
        problem = f"{twice[0]!r} is given twice" if twice else "a name is empty"
        raise errors.usage(f"in --columns {problem}", "scan")
    return names


SCAN: Final = Command(
    """\
Print the rows of a table as a stream, writer by writer and in the order of commits: memory stays
bounded whatever the size. With --where only rows that meet the condition: files and parts of files
that can't hold any are not read.

jsonl is an object a line; json is one object with the token of what was read and the rows, a row a
line. In csv an empty field is null and "" is an empty text. Times with a zone are printed in UTC,
binary values in base64, NaN and infinities as the texts NaN, Infinity and -Infinity. parquet and
arrow (a stream of Arrow IPC) have all of that in their own types. `lakelog write` reads each of
these forms, value by value, into a table that has the same types.""",
    """
lakelog scan s3://lake/catalog weather hourly --limit 10
lakelog scan ./catalog weather hourly --columns time_hour,temp --output csv > temp.csv
lakelog scan ./catalog weather hourly --where "origin = 'JFK' and temp < 15" --output jsonl
lakelog scan ./catalog weather hourly --as-of 2013-06-30T00:00Z --output parquet > june.parquet
lakelog scan ./a db orders -o arrow | lakelog write ./b db orders - --format arrow --writer x
""",
    (
        *options.ON_TABLE,
        options.argument(
            "-c --columns",
            "A,B,C",
            "only these columns, in this order (repeat the option for a name with a comma)",
            action="append",
        ),
        options.where("only rows that meet this"),
        options.partition("rows of files"),
        options.limit("rows"),
        options.AS_OF,
        options.writer("only rows of this writer's files"),
    ),
    _scan,
)


def _print_changes(args: argparse.Namespace) -> int:
    catalog = open_catalog(args)
    since, until, head = args.since, args.until, None
    if args.output == "json":
        later = catalog.snapshot(args.database, until)
        until, earlier = later.token, since
        if not isinstance(since, str):
            try:
                earlier = since = catalog.snapshot(args.database, since).token
            except TimeBeforeFirstCommit:
                earlier = None
        head = {"since": earlier, **cut_fields(later)}
    reader = catalog.changes(
        args.database, args.table, since, until, args.columns, net=not args.every_commit
    )
    with reader:
        print_batches(args.output, reader, limit=args.limit, head=head)
    return 0


_POINT: Final = (
    "point in time, as for --as-of: a time with its zone, a token, or a revision for each writer"
)
CHANGES: Final = Command(
    """\
Print the rows that were inserted into a table, and deleted from it, between two points in time, as
a stream: memory stays bounded. _change is insert or delete; _writer, _revision and _committed_at
name the commit. Commits that only replace files by others with the same rows, as compactions do,
give none; nor do rows that were inserted and deleted again in between, unless --every-commit asks
for what each commit did. The columns are those of the later point in time.

In a table with a key, a row that is superseded by a newer one of the same key counts as deleted;
only --every-commit, which takes longer there, names the commit that did it.

json is one object with the tokens of both points in time, the later one's as `token`: the --since
of the next call. jsonl and csv are the rows alone: get the token first (`lakelog log --limit 0
--output json` prints it), and pass it to --until.

All commits between must still be there: after a prune, rows can't be attributed any more. `lakelog
diff` compares any two points in time by their files.""",
    """
lakelog changes s3://lake/catalog weather hourly --since 2013-06-30T00:00Z
lakelog changes ./catalog weather hourly --since EWR=3,JFK=2 --until EWR=5,JFK=2 --output jsonl
lakelog changes ./catalog weather hourly --since ll1-CgdleGFtcGxl --columns origin,temp
""",
    (
        *options.ON_TABLE,
        options.argument(
            "--since", "POINT", f"the earlier {_POINT}", type=options.point, required=True
        ),
        options.argument(
            "--until", "POINT", f"the later {_POINT}. Default: the newest", type=options.point
        ),
        options.argument(
            "-c --columns",
            "A,B,C",
            "only these columns of the table, in this order",
            type=options.names,
        ),
        options.flag("--every-commit", "what each commit did, not the net result"),
        options.limit("rows"),
    ),
    _print_changes,
)


# --- SQL ------------------------------------------------------------------------------------------


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
.quit         leave, as Ctrl-D does; Ctrl-C ends a query, or discards what was typed"""
_MODES: Final = ("text", "json", "jsonl", "csv")


# --- One statement --------------------------------------------------------------------------------


def _query(args: argparse.Namespace) -> int:
    from ...catalog.sql_session import SqlSession

    query = args.sql
    if query == "-":
        try:
            query = sys.stdin.read()
        except UnicodeDecodeError as error:
            raise errors.usage(f"the SQL on stdin is no text: {error}", "query") from error
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


QUERY: Final = Command(
    """\
Run SQL on the tables of a database, with DuckDB (pip install 'lakelog[duckdb]'). All tables are
read at one cut: the newest, or that of --as-of. --also adds another cut under a name of its own, so
that one query compares two points in time.

Columns and conditions of the query reach the log's statistics: files that can't hold such rows are
not read. Some local tables are read by DuckDB itself, after a check against the log. Memory stays
within --memory, and what doesn't fit goes to temporary files; rows are printed as they arrive.
SQL only reads, and sees the tables and nothing else, neither other files nor the network. Times are
in UTC; json holds the token of what was read. With - the SQL is read from stdin: < report.sql""",
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
        """Takes one line, and runs the statements that it ends. Raises the error of one that
        failed."""
        if not self._typed.strip() and text.strip().startswith("."):
            self._command(*text.split())
            return
        if not self._typed.strip() and text.strip().rstrip(";").lower() in ("exit", "quit"):
            self.done = True
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
            if name != ".help":
                output.line(f"There is no {' '.join((name, *rest))}")
            output.line(_HELP)


def _run_interactive(shell: Shell, words: Callable[[], Iterable[str]]) -> None:
    """Run the statements that a person types, with history and completion."""
    import readline

    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    history = Path(state, "lakelog", "sql_history")
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
                errors.to_stderr("lakelog: interrupted\n")
            except LakelogError as error:
                errors.note_error(error)
    finally:
        with contextlib.suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)


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
