"""The tables of a cut as views of DuckDB.

A view stands on a dataset of ours, or where that is sound on DuckDB's own reader of Parquet: see
`bare`. DuckDB hands a dataset the columns and those filters that pyarrow decides as it does itself,
and doesn't look at the rows again. On floats it keeps `>`, `>=`, `<>` and whatever names NaN, which
is the greatest of all to it: there it asks for all rows, and filters them itself.
"""

from __future__ import annotations

import atexit
import itertools
import warnings
import weakref
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from ...errors import CorruptError, LakelogError, SchemaConflict, UsageError
from .bare import LEFT, OPTIONS
from .dataset import TableDataset
from .source import package

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import duckdb

    from .bare import BareFiles
    from .source import Source

_MAIN: Final = "memory"  # what DuckDB calls the database of a connection that has no file
HIDDEN: Final = " (lakelog)"  # at the end of a view's name that another view stands on
_OPTIONS: Final = (
    "can_have_nan = true, hive_partitioning = false, union_by_name = false,"
    " binary_as_string = false"
)
_FILES: Final = "lakelog_files_"
_NO_VIEW: Final = "lakelog has no view "
_numbers: Final = itertools.count(1)


class ViewsWarning(UserWarning):
    """A table of the cut has no view, or its view calls columns by other names."""


def make_views(
    connection: duckdb.DuckDBPyConnection | None,
    sources: Callable[[str], Source],
    tables: Sequence[str],
    schema: str | None,
    *,
    all_or_nothing: bool,
    about: Sequence[str] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Views in a connection, or in a new one in memory.

    Args:
        sources: What is read of a table.
        schema: Where to put the views: a database in memory, attached under this name; None: they
            are temporary ones.
        all_or_nothing: A table that can't have a view is an error; else a warning, and it has none.
        about: The tables of which it is told that columns have other names; None: all.
    """
    duckdb = package("duckdb")
    # A name without a view is an error, not a variable of the caller's that is called so.
    config = {"python_enable_replacements": False}
    found = duckdb.connect(config=config) if connection is None else connection
    if schema is not None:
        _make_room(found, schema)
    twins = _twins(tables)
    for table in tables:
        try:
            if table in twins:
                others = ", ".join(name for name in tables if name.lower() == table.lower())
                raise UsageError(
                    f"DuckDB takes names that differ in case only for one: {others}",
                    key=table,
                    hint="Name one of them in tables=",
                )
            source = sources(table)
            _make_view(found, source, schema)
            renamed = _renamed(found, source, schema)
        except (SchemaConflict, CorruptError, UsageError) as error:
            if all_or_nothing:
                raise
            if connection is not None and schema is None:
                _claim(found, table, error)
            warnings.warn(f"There is no view {table!r}: {error}", ViewsWarning, stacklevel=4)
        else:
            if renamed and (about is None or table in about):
                said = f"DuckDB takes names that differ in case only for one. {renamed}"
                warnings.warn(said, ViewsWarning, stacklevel=4)
    return found


def _make_room(connection: Any, schema: str) -> None:
    """A database in memory with the name of a schema; one that is there may be of an earlier call.

    Raises:
        UsageError: DuckDB takes no such name, or it is that of a database of the user's own, whose
            views would be replaced.
    """
    duckdb = package("duckdb")
    known = "SELECT database_name, path FROM duckdb_databases()"
    for name, path in connection.execute(known).fetchall():
        if name.lower() == schema.lower() and (path is not None or name == _MAIN):
            raise UsageError(
                f"The connection has a database {name!r}, so schema={schema!r} can't be used",
                key=schema,
                hint="Take another name: views of that database could be replaced",
            )
    try:
        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quoted(schema)}")
    except duckdb.Error as error:
        raise UsageError(
            f"schema={schema!r} can't be used: {str(error).splitlines()[0]}",
            key=schema,
            hint="Take another name",
        ) from error


def _twins(tables: Sequence[str]) -> set[str]:
    names = [table.lower() for table in tables]
    return {table for table in tables if names.count(table.lower()) > 1}


def _renamed(connection: Any, source: Source, schema: str | None) -> str:
    """Which columns a view calls otherwise, in words: their own names would find others."""
    own = source.schema.names
    if len({name.lower() for name in own}) == len(own):
        return ""
    view = quoted(source.name) if schema is None else f"{quoted(schema)}.main.{quoted(source.name)}"
    there = [name for name, *_ in connection.execute(f"DESCRIBE {view}").fetchall()]
    pairs = [f"{old!r} is {quoted(new)}" for old, new in zip(own, there, strict=True) if old != new]
    return f"In view {source.name!r} the column {', '.join(pairs)}" if pairs else ""


def _make_view(connection: Any, source: Source, schema: str | None) -> None:
    duckdb = package("duckdb")
    dataset = _Pulled(without_half_floats(source))
    name = source.name if schema is None else f"{schema}.{source.name}{HIDDEN}"
    if source.name.lower().endswith(HIDDEN):
        raise UsageError(f"A table's view can't be named {source.name!r}", key=source.name)
    try:
        if schema is None:
            _drop_own(connection, name)
        if _stands_on_files(connection, source, schema):
            return
        connection.register(name, dataset)
        if schema is not None:
            connection.execute(
                f"CREATE OR REPLACE VIEW {quoted(schema)}.main.{quoted(source.name)} AS"
                f" FROM temp.main.{quoted(name)}"
            )
    except duckdb.Error as error:
        raise UsageError(
            f"DuckDB can't read table {source.name!r}: {str(error).splitlines()[0]}",
            key=source.name,
            hint="`scan` reads it, and its columns can be chosen",
        ) from error


def _stands_on_files(connection: Any, source: Source, schema: str | None) -> bool:
    """Make a view that DuckDB reads by its own reader, if that is sound.

    The list of its files is a function's, so that they are held against the log each time that a
    query is bound, before anything is read.
    """
    duckdb = package("duckdb")
    try:
        bare = source.bare()
    except LakelogError:  # whoever asks for rows is told
        return False
    if bare is None:
        return False
    is_made = False

    def files() -> list[str]:
        if is_made:
            bare.check()
        return bare.paths

    function, view = f"{_FILES}{next(_numbers)}", quoted(source.name)
    create = f"CREATE OR REPLACE VIEW {quoted(schema)}.main.{view}" if schema else ""
    create = create or f"CREATE TEMP VIEW {view}"
    try:
        connection.create_function(function, files, [], "VARCHAR[]")
        _remove_at_exit(connection, function)
        if not bare.left.are_all:
            named = connection.execute(f"SELECT file FROM glob({function}())").fetchall()
            if [name for (name,) in named] != bare.paths:
                _remove(connection, function)
                return False  # by their names it is told which rows are left
            connection.create_function(f"{function}_bits", bare.bits, ["BIGINT"], "BLOB")
            _remove_at_exit(connection, f"{function}_bits")
        connection.execute(f"{create} AS {_rows(bare, function)}")
    except duckdb.Error:  # it may read no files; or can't read the first: so says the other view
        _remove(connection, function, f"{function}_bits")
        return False
    is_made = True
    return True


def _rows(bare: BareFiles, function: str) -> str:
    """The rows of files as SQL.

    Args:
        function: Gives their names; with `_bits` behind its name, which rows of them are gone.
    """
    columns = ", ".join(f"CAST({quoted(n)} AS {kind}) AS {quoted(n)}" for n, kind in bare.columns)
    where = f" WHERE {bare.left.everywhere}" if bare.left.everywhere else ""
    some = bare.left.somewhere(f"{function}_bits")
    if not some:
        return f"SELECT {columns} FROM read_parquet({function}(), {_OPTIONS}){where}"
    names, left = ", ".join(quoted(name) for name, _ in bare.columns), quoted(LEFT)
    files = f"FROM read_parquet({function}(), {_OPTIONS}, {OPTIONS}){where}"
    return f"SELECT {names} FROM (SELECT {columns}, {some} AS {left} {files}) WHERE {left}"


def _drop_own(connection: Any, name: str) -> None:
    """Make room for a view in place of an earlier one of lakelog's; no other is replaced."""
    connection.unregister(name)
    asked = "SELECT sql FROM duckdb_views() WHERE temporary AND NOT internal AND view_name = ?"
    for (text,) in connection.execute(asked, [name]).fetchall():
        if f"read_parquet({_FILES}" in text or _NO_VIEW in text:
            connection.execute(f"DROP VIEW temp.main.{quoted(name)}")


def _claim(connection: Any, table: str, reason: LakelogError) -> None:
    """Makes a view that is an error, under the name of a table that can't have one: else DuckDB
    takes a variable of the caller's for it. A view of the user's own stays."""
    duckdb = package("duckdb")
    text = f"{_NO_VIEW}{table!r}: {reason}".replace("'", "''").replace("\0", "")
    with suppress(duckdb.Error):
        _drop_own(connection, table)
        connection.execute(f"CREATE TEMP VIEW {quoted(table)} AS SELECT 0 WHERE error('{text}')")


def _remove_at_exit(connection: Any, function: str) -> None:
    """Else DuckDB complains, when Python ends, of what an open connection still holds."""
    known = weakref.ref(connection)

    def remove() -> None:
        found = known()
        if found is not None:
            _remove(found, function)

    atexit.register(remove)


def _remove(connection: Any, *functions: str) -> None:
    """Take away functions, of which some may not be there."""
    for function in functions:
        with suppress(Exception):
            connection.remove_function(function)


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def without_half_floats(source: Source) -> Source:
    """The same with floats in place of half floats, which DuckDB doesn't take.

    Filters are decided after the cast, as DuckDB means them.
    """
    half = pa.float16()
    if half not in source.schema.types:
        return source
    fields = [f.with_type(pa.float32()) if f.type == half else f for f in source.schema]
    wide = pa.schema(fields)

    def scan(
        columns: Sequence[str] | None, where: Any | None, *, exact: bool = True
    ) -> pa.RecordBatchReader:
        names = wide.names if columns is None else list(columns)
        if where is None or not exact:
            target = pa.schema([wide.field(name) for name in names])
            return source.scan(names, where, exact=exact).cast(target)
        rows = source.scan(None, where, exact=False).cast(wide)
        return ds.Scanner.from_batches(rows, columns=names, filter=where).to_reader()

    return replace(source, schema=wide, scan=scan)


class _Pulled(TableDataset):
    """A dataset for DuckDB, which asks its scanner for a reader and for nothing else."""

    def scanner(  # type: ignore[override]
        self, columns: Any | None = None, filter: Any | None = None, **_: Any
    ) -> _Scanner:
        """The rows as DuckDB asks for them. A scanner of Arrow's would read ahead in a thread that
        calls Python, and aborts the process where Python ends meanwhile."""
        return _Scanner(self._read(columns, filter))


class _Scanner:
    """Has the reader that DuckDB asks a scanner for."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows, once."""
        return self._reader


class Failures:
    """The first error of lakelog's own while DuckDB read: DuckDB tells of it in words only."""

    def __init__(self) -> None:
        self.first: LakelogError | None = None

    def watch(self, source: Source) -> Source:
        """The same, and its errors are kept."""

        def scan(
            columns: Sequence[str] | None, where: Any | None, *, exact: bool = True
        ) -> pa.RecordBatchReader:
            try:
                reader = source.scan(columns, where, exact=exact)
            except LakelogError as error:
                self._keep(error)
                raise
            return pa.RecordBatchReader.from_batches(reader.schema, self._kept(reader))

        def bare() -> BareFiles | None:
            found = source.bare()
            return None if found is None else found.telling(self._keep)

        return replace(source, scan=scan, bare=bare)

    def _kept(self, reader: pa.RecordBatchReader) -> Any:
        try:
            yield from reader
        except LakelogError as error:
            self._keep(error)
            raise

    def _keep(self, error: LakelogError) -> None:
        self.first = self.first or error
