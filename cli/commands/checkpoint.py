"""`lakelog checkpoint`: write the state of a log as one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...errors import LakelogError
from .. import options, output
from ..errors import note_error
from ..opening import cut_fields, each_writer, open_catalog, snapshot_after
from ..output import Column
from ..text import many, size

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog

DESCRIPTION: Final = """\
Write a checkpoint of the newest revision of every writer, or of one, so that readers need not
replay the whole log. Writers do this by themselves every 16 commits; nothing is taken over and
nobody is fenced. A writer's prefix gets a probe object for a moment, to learn what the store can
do."""
EXAMPLES: Final = """
lakelog checkpoint s3://lake/catalog weather
lakelog checkpoint ./catalog weather --writer EWR --output json
"""
_COLUMNS: Final = tuple(
    Column(name)
    for name in (
        *("writer", "database", "revision", "key", "size_bytes", "segments", "written"),
        "token",
    )
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_writer(parser, "only this writer's log; else every writer of the database")


def run(args: argparse.Namespace) -> int:
    """Write them, and print keys and sizes. What fails for one writer keeps no other from its
    turn."""
    catalog = open_catalog(args)
    records: list[dict[str, Any]] = []
    failed: list[LakelogError] = []
    writers = each_writer(catalog, args.database, args.writer)  # a misspelt id is not probed
    for writer in writers:
        try:
            records.append(_write(catalog, writer, args.database))
        except LakelogError as error:
            if len(writers) > 1:
                note_error(error)
            failed.append(error)
    if args.output == "json" and args.writer is None:
        output.json_array(records)
    elif args.output == "json":
        for record in records:
            output.json_object(record)
    elif args.output != "text":
        output.rows(args.output, _COLUMNS, records)
    else:
        for record in records:
            _print(record, named=args.writer is None)
    if failed:
        raise failed[0]
    return 0


def _write(catalog: Catalog, writer_id: str, database: str) -> dict[str, Any]:
    with catalog.writer(writer_id, database) as writer:
        info = writer.checkpoint()
    assert info is not None  # the log is not empty
    at = snapshot_after(catalog, database, {writer_id: info.revision})
    return {
        "writer": writer_id,
        "database": database,
        "revision": info.revision,
        "key": info.key,
        "size_bytes": info.size_bytes,
        "segments": info.segments,
        "written": info.written,
        **cut_fields(at),
    }


def _print(record: dict[str, Any], *, named: bool) -> None:
    whose = f"{record['writer']}/{record['database']}: " if named else ""
    done = "wrote" if record["written"] else "there already:"
    spilled = f" and {many(record['segments'], 'segment')}" if record["segments"] else ""
    amount = size(record["size_bytes"])
    output.line(f"{whose}{done} the checkpoint of revision {record['revision']}{spilled}, {amount}")
    output.line(record["key"])
