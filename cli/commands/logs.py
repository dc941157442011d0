"""`lakelog checkpoint` and `lakelog adopt-name`: maintenance of single logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...errors import LakelogError
from .. import options, output
from ..command_list import Command
from ..errors import for_each
from ..opening import cut_fields, each_writer, existing_log, open_catalog, print_one, snapshot_after
from ..output import columns
from ..text import many, size

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog

_CHECKPOINTS: Final = columns(
    *("writer", "database", "revision", "key", "size_bytes", "segments", "written", "token")
)
_NAMES: Final = columns(
    *("writer", "database", "named_writer", "named_database", "log_id", "incarnation"),
    *("revision", "foreign", "twin", "adopted", "token"),
)


# --- Checkpoints ----------------------------------------------------------------------------------


def _write_checkpoints(args: argparse.Namespace) -> int:
    """Write checkpoints, and print keys and sizes. An error in one log doesn't stop the others."""
    catalog = open_catalog(args)
    writers = each_writer(catalog, args.database, args.writer)  # a misspelt id is not probed
    records, failed = for_each(
        writers, lambda writer: _write_checkpoint(catalog, writer, args.database)
    )
    if args.output == "json" and args.writer is None:
        output.json_array(records)
    elif args.output == "json":
        for record in records:
            output.json_object(record)
    elif args.output != "text":
        output.rows(args.output, _CHECKPOINTS, records)
    else:
        for record in records:
            whose = f"{record['writer']}/{record['database']}: " if args.writer is None else ""
            done = "wrote" if record["written"] else "there already:"
            spilled = f" and {many(record['segments'], 'segment')}" if record["segments"] else ""
            what = f"{done} the checkpoint of revision {record['revision']}{spilled}"
            output.line(f"{whose}{what}, {size(record['size_bytes'])}\n{record['key']}")
    if failed is not None:
        raise failed
    return 0


def _write_checkpoint(catalog: Catalog, writer_id: str, database: str) -> dict[str, Any]:
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


CHECKPOINT: Final = Command(
    """\
Write a checkpoint of the newest revision of every writer, or of one, so that readers need not
replay the whole log. Writers do this by themselves every 16 commits. No owner of a log is fenced
off. A writer's prefix holds a probe object for a moment, to learn what the store can do.""",
    """
lakelog checkpoint s3://lake/catalog weather
lakelog checkpoint ./catalog weather --writer EWR --output json
""",
    (
        *options.IN_DATABASE,
        options.writer("only this writer's log; else every writer of the database"),
    ),
    _write_checkpoints,
)


# --- Names ----------------------------------------------------------------------------------------


def _adopt_name(args: argparse.Namespace) -> int:
    """Show the name that a log states; commit its new name if asked to."""
    catalog = open_catalog(args)
    log, listing = existing_log(catalog, args.writer, args.database)
    state = log.load(listing=listing)
    assert state.log is not None  # the log is not empty
    record: dict[str, Any] = {
        "writer": args.writer,
        "database": args.database,
        "named_writer": state.named[0],
        "named_database": state.named[1],
        "log_id": state.log.log_id.hex(),
        "incarnation": state.log.incarnation,
        "revision": state.revision,
        "foreign": state.is_foreign,
        "twin": state.is_foreign and _has_twin(catalog, state.named, state.log.log_id),
        "adopted": False,
    }
    if args.execute and state.is_foreign:
        with catalog.writer(args.writer, args.database, checkpoint_every=0) as writer:
            writer.adopt_name()
            record |= {"adopted": True, "revision": writer.revision}
    after = snapshot_after(catalog, args.database) if record["adopted"] else None
    print_one(args, _NAMES, record, after, lambda: _print_name(record))
    return 0


def _has_twin(catalog: Catalog, named: tuple[str, str], log_id: bytes) -> bool:
    """Tell whether the same log also exists under the name that it states.

    Requests: as reading the newest state of that log.
    """
    from ...catalog.read.log_reader import LogReader

    try:
        other = LogReader(catalog.store, *named).load()
    except LakelogError:  # damage over there doesn't matter here
        return False
    return other.log is not None and other.log.log_id == log_id


def _print_name(record: dict[str, Any]) -> None:
    folder = f"{record['writer']}/{record['database']}"
    named = f"{record['named_writer']}/{record['named_database']}"
    output.pairs(
        [
            ("folder", folder),
            ("stated name", named),
            ("log id", record["log_id"]),
            ("incarnation", str(record["incarnation"])),
            ("revision", str(record["revision"])),
        ]
    )
    if record["twin"]:
        output.note(
            "note",
            f"The same log also exists in {named}: one is a copy of the other, and one database "
            "can't be read with both",
        )
    output.line()
    if record["adopted"]:
        output.line(f"from revision {record['revision']} on its name is {folder}")
    elif record["foreign"]:
        output.line(f"nothing was changed; --execute commits the name {folder}")
    else:
        output.line("it has this name already; nothing to do")


ADOPT_NAME: Final = Command(
    """\
Each log states its writer and database. A log in another folder, because its folder was renamed or
copied, can be read, but nobody can write to it or maintain it: it could be a copy of one that is in
use. Shown is the name that it states; --execute commits that it belongs to WRITER and DATABASE. A
process that still has it open for writing is fenced off.

Two copies of one log can't be read together in one database: keep one.""",
    """
lakelog adopt-name s3://lake/catalog weather --writer EWR
lakelog adopt-name ./catalog weather --writer EWR --execute
lakelog adopt-name ./catalog weather --writer EWR --output json
""",
    (
        *options.IN_DATABASE,
        options.writer("the folder of the log", required=True),
        options.execute(),
    ),
    _adopt_name,
)
