"""`lakelog compact`: rewrites small files and files with many deleted rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..command_list import Command
from ..errors import Progress, dry_run
from ..opening import open_catalog, print_rows, snapshot_after
from ..output import Column, columns
from ..text import count, many, size

if TYPE_CHECKING:
    import argparse

    from ...catalog.commit.compacting import CompactGroup, Compaction

_GROUPS: Final = (
    *columns("table", "writer", "partition", "reason", "status"),
    Column("files", style="count"),
    Column("size_bytes", "SIZE", style="size"),
    Column("row_count", "ROWS", style="count"),
    Column("deleted_rows", "DELETED", style="count"),
    Column("files_after", "FILES AFTER", style="count"),
    Column("size_after_bytes", "SIZE AFTER", style="size"),
    Column("revision", number=True),
)
_SHOWN: Final = 40


def _compact(args: argparse.Namespace) -> int:
    catalog = open_catalog(args)
    with Progress("groups compacted") as progress:
        found = catalog.compact(
            args.database,
            args.table,
            where=args.where,
            writers=args.writer,
            target_file_size_bytes=args.target_file_size,
            min_input_files=args.min_input_files,
            delete_ratio_threshold=args.delete_ratio,
            max_group_bytes=args.max_group_size,
            sort_by=options.column_names(args.sort_by),
            memory_bytes=args.memory,
            time_limit_s=args.time_limit,
            execute=args.execute,
            step=progress.at,
        )
    committed = any(group.revision is not None for group in found.groups)
    print_rows(
        args,
        _GROUPS,
        [_record(group) for group in found.groups],
        snapshot_after(catalog, args.database) if committed else None,
        lambda: _print(found, executed=args.execute),
        name="groups",
        head={
            "dry_run": not args.execute,
            "remaining": found.remaining,
            "files_kept": dict(found.files_kept),
        },
    )
    if found.groups and not args.execute:
        dry_run("nothing was rewritten")
    return 0


def _record(group: CompactGroup) -> dict[str, Any]:
    record = asdict(group)
    record["files"] = len(record.pop("paths"))
    return record


def _print(found: Compaction, *, executed: bool) -> None:
    groups = found.groups
    if groups:
        after = ("status", "files_after", "size_after_bytes", "revision")
        shown = [one for one in _GROUPS if executed or one.name not in after]
        output.rows("text", shown, [_record(group) for group in groups[:_SHOWN]])
        if len(groups) > _SHOWN:
            output.line(f"and {many(len(groups) - _SHOWN, 'more group')}; -o jsonl lists all")
        output.line()
    done = [group for group in groups if group.status == "done"]
    chosen = done if executed else groups
    files, size_bytes = sum(len(g.paths) for g in chosen), sum(g.size_bytes for g in chosen)
    if not groups:
        output.line("nothing to compact")
    elif executed:
        after_bytes = sum(g.size_after_bytes for g in done)
        output.line(
            f"rewrote {many(files, 'file')} ({size(size_bytes)}) into "
            f"{many(sum(g.files_after for g in done), 'file')} ({size(after_bytes)})"
        )
        if found.remaining:
            output.line(f"{many(found.remaining, 'group')} remain: run the command again")
    else:
        output.line(f"would rewrite {many(files, 'file')} ({size(size_bytes)})")
    for why, number in found.files_kept.items():
        output.line(f"kept: {count(number)} {'file' if number == 1 else 'files'} ({why})")


COMPACT: Final = Command(
    """\
Rewrite small files, and files with many deleted rows, into fewer and larger ones. Files of one
writer, table, partition and schema are rewritten together, each group in one commit of its own.
Rows stay what they are: they are counted, and a digest of sorted ones is compared, before each
commit. Deleted rows are left out; a file added in place is rewritten below data/ if it is small,
and stays where it is for all others.

Writers may go on meanwhile: nobody is fenced, and appends never conflict. Rows of a group that are
deleted while it is rewritten are deleted of its new files; only if files of it are removed is it
rewritten again, three times at most. The old files stay readable for earlier points in time until
prune and gc delete them.

Tables with a key are left as they are. Without --execute the plan is shown. A run that was
interrupted, or stopped by --time-limit, is continued by running the command again.""",
    """
lakelog compact ./catalog weather
lakelog compact ./catalog weather --execute
lakelog compact s3://lake/catalog weather hourly --sort-by time_hour --time-limit 30m --execute
lakelog compact ./catalog weather hourly --target-file-size 64MiB --writer EWR --execute
""",
    (
        *options.IN_DATABASE,
        options.argument("table", "TABLE", "compact only this table; else all", nargs="?"),
        options.where("only files that may hold rows which meet a condition; with TABLE"),
        options.writers("only this writer's files; may be repeated"),
        options.argument(
            "--target-file-size",
            "SIZE",
            "size of the new files; files below three quarters of it are small (default 256MiB)",
            type=options.size_bytes,
            default=256 << 20,
        ),
        options.argument(
            "--min-input-files",
            "N",
            "the fewest small files that are rewritten together (default 5)",
            type=options.whole_number,
            default=5,
        ),
        options.argument(
            "--delete-ratio",
            "SHARE",
            "rewrite a file of any size once this share of its rows is deleted by number "
            "(default 0.3)",
            type=options.positive,
            default=0.3,
        ),
        options.argument(
            "--max-group-size",
            "SIZE",
            "the most that one commit rewrites, but for files that overlap (default 2GiB)",
            type=options.size_bytes,
            default=2 << 30,
        ),
        options.argument(
            "--sort-by",
            "COLUMN",
            "sort the rows of each group by this column, and rewrite files whose ranges of the "
            "first overlap, too; may be repeated; with TABLE",
            action="append",
        ),
        options.argument(
            "--memory",
            "SIZE",
            "what sorted rows may take in memory; a group with more is read several times "
            "(default 1GiB)",
            type=options.size_bytes,
            default=1 << 30,
        ),
        options.argument(
            "--time-limit",
            "TIME",
            "begin no group later than this: 90s, 30m, 2h",
            type=options.duration_s,
        ),
        options.execute("rewrite them"),
    ),
    _compact,
)
