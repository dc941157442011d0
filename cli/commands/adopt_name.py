"""`lakelog adopt-name`: a log that was copied or renamed says from now on whose it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..opening import cut_fields, existing_log, open_catalog, print_cut, snapshot_after
from ..output import Column

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog

DESCRIPTION: Final = """\
A log says itself which writer and database it is of. One that lies elsewhere, because its folder
was renamed or copied, can be read, and nobody can write to it or maintain it: it could be a copy of
one that is in use. Shown is whose log it says it is; with --execute it is committed that it is
WRITER's and DATABASE's. Whoever still has it open for writing is fenced off.

Two copies of one log can't be read together in one database: keep one."""
EXAMPLES: Final = """
lakelog adopt-name s3://lake/catalog weather --writer EWR
lakelog adopt-name ./catalog weather --writer EWR --execute
lakelog adopt-name ./catalog weather --writer EWR --output json
"""
_COLUMNS: Final = tuple(
    Column(name)
    for name in (
        *("writer", "database", "named_writer", "named_database", "log_id", "incarnation"),
        *("revision", "foreign", "twin", "adopted", "token"),
    )
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_writer(parser, "the folder that the log lies in", required=True)
    options.add_execute(parser)


def run(args: argparse.Namespace) -> int:
    """Show whose log it says it is; commit its new name if asked to."""
    catalog = open_catalog(args)
    log, listing = existing_log(catalog, args.writer, args.database)
    state = log.load(listing=listing)
    assert state.log is not None  # the log is not empty
    found: dict[str, Any] = {
        "writer": args.writer,
        "database": args.database,
        "named_writer": state.named[0],
        "named_database": state.named[1],
        "log_id": state.log.log_id.hex(),
        "incarnation": state.log.incarnation,
        "revision": state.revision,
        "foreign": state.is_foreign,
        "twin": state.is_foreign and _is_there(catalog, state.named, state.log.log_id),
        "adopted": False,
    }
    if args.execute and state.is_foreign:
        with catalog.writer(args.writer, args.database, checkpoint_every=0) as writer:
            writer.adopt_name()
            found |= {"adopted": True, "revision": writer.revision}
    after = snapshot_after(catalog, args.database) if found["adopted"] else None
    found |= cut_fields(after)

    def show() -> None:
        _print(found)
        print_cut(after)

    output.one(args.output, _COLUMNS, found, show)
    return 0


def _is_there(catalog: Catalog, named: tuple[str, str], log_id: bytes) -> bool:
    """Whether the log lies under the name that it says, too.

    Requests: as reading the newest state of that log.
    """
    from ...catalog.read.log_reader import LogReader
    from ...errors import LakelogError

    try:
        other = LogReader(catalog.store, *named).load()
    except LakelogError:  # whatever is wrong with that one is not asked here
        return False
    return other.log is not None and other.log.log_id == log_id


def _print(found: dict[str, Any]) -> None:
    folder, named = (
        f"{found['writer']}/{found['database']}",
        f"{found['named_writer']}/{found['named_database']}",
    )
    output.pairs(
        [
            ("folder", folder),
            ("says it is", named),
            ("log id", found["log_id"]),
            ("incarnation", str(found["incarnation"])),
            ("revision", str(found["revision"])),
        ]
    )
    if found["twin"]:
        output.note(
            "note",
            f"The same log lies in {named} as well: one is a copy of the other, and one database "
            "can't be read with both",
        )
    output.line()
    if found["adopted"]:
        output.line(f"from revision {found['revision']} on it says that it is {folder}")
    elif found["foreign"]:
        output.line(f"nothing was changed; --execute commits that it is {folder}")
    else:
        output.line("it has this name already; nothing to do")
