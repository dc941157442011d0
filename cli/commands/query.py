"""`lakelog query`: SQL over all tables of a database."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from .. import errors, options
from ..batches import print_batches
from ..opening import cut_fields, open_catalog

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
Ask the tables of a database in SQL, by DuckDB (pip install 'lakelog[duckdb]'). All of them are read
at one cut: the newest, or that of --as-of. --also adds another one under a name of its own, so that
one query compares two points in time.

Columns and conditions of the query reach the log's statistics: files that can't hold such rows are
not read. Of some local tables DuckDB reads the files itself, held against the log first. Memory
stays within --memory, and what doesn't fit goes to temporary files; rows are printed as they come.
SQL sees the tables and nothing else, neither other files nor the network. Times are in UTC; json
holds the token of what was read. For - the SQL is read from stdin: < report.sql"""
EXAMPLES: Final = """
lakelog query s3://lake/catalog weather "SELECT origin, max(temp) FROM hourly GROUP BY origin"
lakelog query ./catalog weather "SELECT count(*) FROM hourly" --as-of 2013-06-30T00:00Z
lakelog query ./catalog weather "FROM hourly EXCEPT FROM old.hourly" --also old=2013-06-30T00:00Z
lakelog query ./catalog weather "FROM hourly" --output parquet > hourly.parquet
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    parser.add_argument("sql", metavar="SQL", help="one statement; - reads it from stdin")
    options.add_as_of(parser)
    options.add_also(parser)
    options.add_memory(parser)
    options.add_limit(parser, "rows")


def run(args: argparse.Namespace) -> int:
    """Print the rows."""
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
