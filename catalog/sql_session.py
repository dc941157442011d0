"""SQL over cuts, shut off from everything else: no file, no network, none of Python's variables.

Source: docs/engines.md.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from ..errors import InvalidQuery, UsageError
from .engines.duck import HIDDEN, Failures, make_views
from .engines.source import package

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .engines.bare import BareFiles
    from .engines.source import Source
    from .snapshot import Snapshot

_T = TypeVar("_T")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TAKEN: Final = frozenset({"memory", "main", "temp", "system", "information_schema", "pg_catalog"})
_MANY: Final = 100
_BATCH_ROWS: Final = 20_000
_SETTINGS: Final = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "TimeZone": "UTC",
    "enable_progress_bar": "false",  # else it is drawn on stdout, into the rows
}


class SqlSession:
    """A connection to a DuckDB of its own, in memory. Close it.

    Args:
        memory: The most that DuckDB takes, as it writes sizes (`1GB`); beyond that it uses files in
            a temporary folder.
    """

    def __init__(self, memory: str = "1GB") -> None:
        duckdb = package("duckdb")
        self._failures = Failures()
        self._bare: list[BareFiles] = []
        self._sealed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lakelog-sql")
        self._folder = tempfile.mkdtemp(prefix="lakelog-sql-")
        try:
            self._connection: Any = duckdb.connect(
                config={"memory_limit": memory, "temp_directory": self._folder}
            )
            for name, value in _SETTINGS.items():
                self._connection.execute(f"SET {name} = '{value}'")
        except duckdb.Error as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise UsageError(
                f"DuckDB takes no {memory!r} for a size of memory: {_first_line(error)}",
                hint="Give it as 500MB or 4GB",
            ) from error

    def __enter__(self) -> SqlSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop all views, and the temporary folder."""
        self._thread.shutdown(wait=False)
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, snapshot: Snapshot, name: str | None = None, *, query: str = "") -> None:
        """Makes views of a cut's tables. Raises `UsageError` for a name that can't be.

        Args:
            name: What precedes their names, as `june` in `june.hourly`; None: nothing.
            query: Of very many tables only those that it names are looked at.
        """
        if name is not None:
            self._check(name)
        tables = snapshot.tables()
        if query and len(tables) > _MANY:
            words = query.lower().replace('""', '"')
            tables = [table for table in tables if table.lower() in words]

        def source(table: str) -> Source:
            found = self._failures.watch(snapshot._source(table))
            return replace(found, bare=lambda: self._noted(found.bare()))

        asked = [table for table in tables if table.lower() in query.lower()] if query else None
        make_views(self._connection, source, tables, name, all_or_nothing=False, about=asked)

    def _noted(self, bare: BareFiles | None) -> BareFiles | None:
        """Files that DuckDB reads itself: it has to be told that it may."""
        if bare is not None:
            self._bare.append(bare)
        return bare

    def _seal(self) -> None:
        paths = [path for bare in self._bare for path in bare.paths]
        if paths:
            listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
            self._connection.execute(f"SET allowed_paths = [{listed}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")
        self._sealed = True

    def _look_ahead(self, query: str) -> None:
        """Find out which columns a query asks for: of the files that DuckDB reads itself only
        these are held against their checksums."""
        if not self._bare:
            return
        for bare in self._bare:
            bare.wanted = frozenset()
        try:
            plan = self._connection.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()
            words = "\n".join(_words(json.loads(plan[0][1])))
        except (package("duckdb").Error, ValueError, LookupError):
            words = None  # no plan to be had: all columns, then
        for bare in self._bare:
            bare.wanted = None if words is None else bare.named_in(words)

    def _check(self, name: str) -> None:
        """Refuse what SQL would need quotes for, and what is taken."""
        words = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'"
        reserved = {word for (word,) in self._connection.execute(words).fetchall()}
        there = self._connection.execute("SELECT database_name FROM duckdb_databases()").fetchall()
        taken = _TAKEN | reserved | {known.lower() for (known,) in there}
        if not _NAME.fullmatch(name) or name.lower() in taken:
            raise UsageError(
                f"{name!r} can't be the name of a cut in SQL",
                key=name,
                hint="Take letters, digits and _, no keyword of SQL, and each name once",
            )

    def names(self) -> list[str]:
        """Names that a query may use: of views and of their columns."""
        views = (
            "SELECT view_name FROM duckdb_views() WHERE NOT internal"
            " UNION SELECT column_name FROM duckdb_columns() WHERE NOT internal"
        )
        return [name.removesuffix(HIDDEN) for (name,) in self._connection.execute(views).fetchall()]

    def statements(self, text: str, *, whole: bool = True) -> list[str] | None:
        """Returns the statements of a text; None if it may be incomplete (unless `whole`). Raises
        `InvalidQuery` if it is no SQL."""
        duckdb = package("duckdb")
        _check_text(text)
        try:
            return [each.query for each in self._connection.extract_statements(text)]
        except duckdb.Error as error:
            if not whole and "unterminated" in str(error):
                return None
            raise self._typed(error, _place(str(error))) from error

    def run(self, query: str) -> pa.RecordBatchReader:
        """The rows of one statement, as a stream; nothing but the views can be read.

        Raises:
            InvalidQuery: DuckDB refuses it, or what it does while rows are read; or it is a
                statement that would change something.
            KeyboardInterrupt: It was interrupted; the session goes on.
        """
        duckdb = package("duckdb")
        if not self._sealed:
            self._seal()
        self._failures.first = None
        _check_text(query)
        try:
            statements = self._connection.extract_statements(query)
            if len(statements) != 1:
                raise InvalidQuery(
                    f"These are {len(statements)} statements" if statements else "There is no SQL",
                    hint="Give one, such as SELECT * FROM a_table",
                )
            _refuse_change(statements[0])
            rows = self._interruptible(lambda: self._reader(query))
        except (duckdb.Error, pa.ArrowException) as error:
            raise self._typed(error, self._place(error, query)) from error
        if rows is None:
            return pa.RecordBatchReader.from_batches(pa.schema([]), [])
        schema = pa.schema([f.with_name(n) for f, n in zip(rows.schema, _once(rows.schema.names))])
        return pa.RecordBatchReader.from_batches(schema, self._checked(rows, schema))

    def _reader(self, query: str) -> pa.RecordBatchReader | None:
        """Runs a query; None for a statement that gives no rows."""
        self._look_ahead(query)
        self._failures.first = None
        found = self._connection.sql(query)
        return None if found is None else found.to_arrow_reader(_BATCH_ROWS)

    def _interruptible(self, call: Callable[[], _T]) -> _T:
        """What a call of DuckDB gives. It runs in another thread, and an interrupt ends it: DuckDB
        itself looks for one between its tasks only, which may last."""
        done = self._thread.submit(call)
        try:
            return done.result()
        except KeyboardInterrupt:
            self._connection.interrupt()
            wait([done])
            raise

    def _checked(self, rows: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        duckdb = package("duckdb")
        try:
            while (batch := self._interruptible(lambda: next(rows, None))) is not None:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise self._typed(error, _place(str(error))) from error

    def _typed(self, error: Exception, place: str) -> Exception:
        """The error of lakelog's own behind one of DuckDB's, or DuckDB's with its place."""
        message = " ".join(str(error).partition("\nLINE ")[0].split())
        found = _MEANT.search(message)
        if found and found[1] not in self.names():  # a table of DuckDB's own
            message = message[: found.start()]
        return self._failures.first or InvalidQuery(message + place, hint=_hint(error))

    def _place(self, error: Exception, query: str) -> str:
        """Where in the query an error is; some of DuckDB's ways to run one don't tell."""
        if "\nLINE " in str(error):
            return _place(str(error))
        try:
            self._connection.execute("EXPLAIN\n" + query)
        except package("duckdb").Error as again:
            return _place(str(again), lines_before=1)
        return ""


_MEANT: Final = re.compile(r' Did you mean "([^"]*)"\?')
_READING: Final = frozenset({"SELECT", "EXPLAIN", "PRAGMA", "SET", "CALL", "MULTI"})
_WRITE: Final = "`lakelog write` adds and replaces rows"
_COMMANDS: Final = {
    "INSERT": _WRITE,
    "COPY": f"{_WRITE}; --output parquet > FILE takes them out",
    "EXPORT": "--output parquet > FILE takes rows out",
    "UPDATE": "`lakelog write --overwrite --where` replaces rows, tx.upsert does by key",
    "MERGE_INTO": "tx.upsert replaces rows by key; Spark runs MERGE",
    "DELETE": "`lakelog delete` deletes rows",
    "CREATE": "the first `lakelog write` to a table makes it",
    "DROP": "`lakelog drop` takes a table out",
    "ALTER": "`lakelog schema` changes columns",
    "ATTACH": "--also adds another point in time",
    "TRANSACTION": "all statements see one point in time, --as-of",
    "VACUUM": "`lakelog checkpoint`, `prune` and `gc` are for upkeep",
    "CHECKPOINT": "`lakelog checkpoint --execute` makes one",
}


def _refuse_change(statement: Any) -> None:
    """Raises `InvalidQuery` for a statement that would change something, were it DuckDB's."""
    kind, text = statement.type.name, statement.query.strip()
    if kind == "CALL" and not text.lower().startswith("call"):
        kind = "CHECKPOINT"
    if kind not in _READING:
        command = _COMMANDS.get(kind)
        raise InvalidQuery(
            f"SQL only reads here, and this is {kind.replace('_', ' ')}",
            hint=f"Nothing was changed. {f'Instead: {command}' if command else 'Give a SELECT'}",
        )


def _words(plan: Any) -> Iterator[str]:
    """All texts in a value of JSON."""
    if isinstance(plan, dict):
        plan = [*plan, *plan.values()]
    if isinstance(plan, list):
        for each in plan:
            yield from _words(each)
    elif isinstance(plan, str):
        yield plan


def _check_text(query: str) -> None:
    """Refuse what DuckDB can't be told.

    Raises:
        InvalidQuery: A lone surrogate, which is what an argument in no encoding becomes.
    """
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise InvalidQuery(
            f"The SQL is no text: a lone surrogate at character {error.start + 1}",
            hint="Give it as valid Unicode",
        ) from error


def _once(names: Sequence[str]) -> list[str]:
    """Names of columns, each once: a second `temp` becomes `temp_1`, as in DuckDB's own tables."""
    found: list[str] = []
    for name in names:
        new, number = name, 0
        while new in found or (number and new in names):
            number += 1
            new = f"{name}_{number}"
        found.append(new)
    return found


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _place(text: str, lines_before: int = 0) -> str:
    """The line and column that a message of DuckDB's points to."""
    shown = re.match(r"(\d+): (.*)\n( *)\^", text.partition("\nLINE ")[2])
    if shown is None:
        return ""
    number, excerpt, before = shown.groups()
    line, column = int(number) - lines_before, len(before) - len(f"LINE {number}: ") + 1
    return f" (line {line})" if excerpt.startswith("...") else f" (line {line}, column {column})"


def _hint(error: Exception) -> str:
    if type(error).__name__ == "OutOfMemoryException" or "Out of Memory" in str(error):
        return "Give it more memory, or ask for less at once"
    if "disabled" in str(error) or "configuration has been locked" in str(error):
        return "SQL reads the tables of the database here, and nothing else"
    if str(error).startswith("Parser Error"):
        return 'A name that is a word of SQL, or holds other signs, stands in double quotes: "at"'
    return "SHOW TABLES lists the tables, DESCRIBE a_table its columns"
