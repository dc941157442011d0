"""`lakelog checkpoint`: write the state of a log as one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..opening import existing_log, only_writer, open_catalog
from ..output import Column
from ..text import many, size

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
Write a checkpoint of a writer's newest revision, so that readers need not replay the whole log.
Writers do this by themselves every 100 commits; nothing is taken over and nobody is fenced. The
writer's prefix gets a probe object for a moment, to learn what the store can do."""
EXAMPLES: Final = """
lakelog checkpoint s3://lake/catalog weather --writer EWR
lakelog checkpoint ./catalog weather --writer EWR --output json
"""
_COLUMNS: Final = tuple(
    Column(name)
    for name in ("writer", "database", "revision", "key", "size_bytes", "segments", "written")
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_writer(parser, "whose log; needed if the database has several writers")


def run(args: argparse.Namespace) -> int:
    """Write it, and print its key and size."""
    catalog = open_catalog(args)
    writer_id = only_writer(catalog, args.database, args.writer)
    existing_log(catalog, writer_id, args.database)  # a misspelt id must not be probed
    with catalog.writer(writer_id, args.database) as writer:
        info = writer.checkpoint()
    assert info is not None  # the log is not empty
    record: dict[str, Any] = {
        "writer": writer_id,
        "database": args.database,
        "revision": info.revision,
        "key": info.key,
        "size_bytes": info.size_bytes,
        "segments": info.segments,
        "written": info.written,
    }
    if args.output == "json":
        output.json_object(record)
    elif args.output == "csv":
        output.rows("csv", _COLUMNS, [record])
    else:
        done = "wrote" if info.written else "there already:"
        spilled = f" and {many(info.segments, 'segment')}" if info.segments else ""
        output.line(
            f"{done} the checkpoint of revision {info.revision}{spilled}, {size(info.size_bytes)}"
        )
        output.line(info.key)
    return 0
