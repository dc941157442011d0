"""`lakelog checkpoint` and `lakelog adopt-name`: maintenance of single logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...errors import LakelogError
from .. import options, output
from ..command_list import Command
from ..errors import dry_run, for_each
from ..opening import cut_fields, each_writer, existing_log, open_catalog, print_one, snapshot_after
from ..output import columns
from ..text import many, size

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog

_CHECKPOINTS: Final = columns(
    *("writer", "database", "revision", "newest_checkpoint", "due", "key", "size_bytes"),
    *("segments", "written", "token"),
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
    records, failed = for_each(writers, lambda writer: _write_checkpoint(catalog, args, writer))
    if args.output == "json" and args.writer is None:
        output.json_array(records)
    elif args.output == "json":
        for record in records:
            output.json_object(record)
    elif args.output != "text":
        output.rows(args.output, _CHECKPOINTS, records)
    else:
        for record in records:
            _print_checkpoint(record, whose=args.writer is None, executed=args.execute)
    if failed is not None:
        raise failed
    if not args.execute and any(record["due"] for record in records):
        dry_run("nothing was written")
    return 0


def _write_checkpoint(catalog: Catalog, args: argparse.Namespace, writer: str) -> dict[str, Any]:
    from ...catalog.commit.checkpointer import CheckpointInfo
    from ...maintenance.database_plan import CheckpointPlan

    found = catalog.checkpoint(args.database, writers=[writer], execute=args.execute)
    [plan], info = found.logs, found.reports[0] if found.reports else None
    assert isinstance(plan, CheckpointPlan)
    assert info is None or isinstance(info, CheckpointInfo)
    revision = plan.revision if info is None else info.revision
    at = None if info is None else snapshot_after(catalog, args.database, {writer: revision})
    return {
        "writer": writer,
        "database": args.database,
        "revision": revision,
        "newest_checkpoint": plan.checkpoint,
        "due": plan.is_due,
        "key": None if info is None else info.key,
        "size_bytes": None if info is None else info.size_bytes,
        "segments": None if info is None else info.segments,
        "written": info is not None and info.written,
        **cut_fields(at),
    }


def _print_checkpoint(record: dict[str, Any], *, whose: bool, executed: bool) -> None:
    what = f"the checkpoint of revision {record['revision']}"
    if not record["due"]:
        what = f"there already: {what}"
    elif not executed:
        newest = record["newest_checkpoint"]
        what = f"would write {what}; the newest is {'none' if newest is None else newest}"
    else:
        done = "wrote" if record["written"] else "there already:"
        spilled = f" and {many(record['segments'], 'segment')}" if record["segments"] else ""
        what = f"{done} {what}{spilled}, {size(record['size_bytes'])}"
    output.line(f"{record['writer']}/{record['database']}: {what}" if whose else what)
    if record["key"]:
        output.line(record["key"])


CHECKPOINT: Final = Command(
    """\
Write a checkpoint of the newest revision of every writer, or of one, so that readers need not
replay the whole log. Writers do this by themselves every 16 commits. No owner of a log is fenced
off. A writer's prefix holds a probe object for a moment, to learn what the store can do.

Without --execute nothing is written: the plan is shown.""",
    """
lakelog checkpoint s3://lake/catalog weather --execute
lakelog checkpoint ./catalog weather --writer EWR --output json
""",
    (
        *options.IN_DATABASE,
        options.writer("only this writer's log; else every writer of the database"),
        options.execute("write them"),
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
