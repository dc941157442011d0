"""`lakelog shell`: SQL over a database, statement by statement."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from .. import options
from ..opening import open_catalog

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
Ask the tables of a database in SQL, one statement after another, as with `lakelog query`: all at
one cut, which stays the same for the whole session. At a terminal there is a history, and the Tab
key completes names; else statements are read from stdin (< report.sql), and the first error ends
the command."""
EXAMPLES: Final = """
lakelog shell s3://lake/catalog weather
lakelog shell ./catalog weather --as-of 2013-06-30T00:00Z --also now=now
lakelog shell ./catalog weather --output csv --memory 4GB
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_as_of(parser)
    options.add_also(parser)
    options.add_memory(parser)


def run(args: argparse.Namespace) -> int:
    """Talk."""
    from ...catalog.sql_session import SqlSession
    from ..shell import Shell, converse, obey

    catalog = open_catalog(args)
    with SqlSession(args.memory) as session:
        session.add(catalog.snapshot(args.database, args.as_of))
        for name, point in args.also:
            session.add(catalog.snapshot(args.database, point), name)
        shell = Shell(session, args.output)
        if sys.stdin.isatty() and sys.stdout.isatty():
            return converse(shell, session.names)
        return obey(shell, sys.stdin)
