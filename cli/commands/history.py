"""`lakelog log` and `lakelog diff`: the commits of a database, and the difference between two
points in time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptError
from .. import options, output
from ..command_list import Command
from ..errors import as_far_as_readable
from ..opening import cut_fields, cut_of_history, open_catalog
from ..output import SIZES, Column, columns
from ..text import cell, count
from ..values import records

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from ...catalog.snapshot import Diff, Snapshot

_LOG: Final = (
    Column("revision", number=True),
    *columns("committed_at", "writer", "operation"),
    *columns("files_added", "files_removed", "rows_added", shown=False, number=True),
    *columns("rows_removed", "bytes_added", shown=False, number=True),
    Column("tables", shown=False),
    *columns("table_count", "epoch", shown=False, number=True),
    Column("guest", style="yes", shown=False),
    *columns("transaction_ids", "uuid", "summary", shown=False),
    Column("rows_rewritten", shown=False, number=True),
    Column("replaced_where", shown=False),
)
_NAMED: Final = 3
_HEADINGS: Final = (
    *("REVISION", "COMMITTED AT", "WRITER", "OPERATION", "FILES", "ROWS", "TABLES", "TRANSACTION"),
    "SUMMARY",
)
_RIGHT: Final = {"REVISION", "FILES", "ROWS"}
FILES: Final = (
    *columns("change", "writer", "table", "partition"),
    *SIZES,
    Column("revision", style="count"),
    Column("path"),
)
# The parts of a difference other than its files.
_PARTS: Final = {
    "tables": columns("change", "table"),
    "schemas": columns("change", "table", "column", "before", "after"),
    "in_place": (*columns("table", "writer"), Column("what", title="read otherwise by")),
    "rows": (
        *columns("table", "writer"),
        *columns("files_added", "files_removed", style="count"),
        *columns("rows_added", "rows_removed"),
        *columns("bytes_added", "bytes_removed", style="size"),
    ),
}
_SHOWN: Final = 40


# --- The log --------------------------------------------------------------------------------------


def _show_log(args: argparse.Namespace) -> int:
    from ...catalog.read.history_table import HistoryWarning

    catalog = open_catalog(args)
    cut = cut_of_history(args, catalog)
    history, is_whole = as_far_as_readable(
        lambda: catalog.history(args.database, args.writer), HistoryWarning
    )
    if cut is not None:
        history = _up_to(history, cut)
    total = history.num_rows
    kept = total if args.limit is None else min(args.limit, total)
    commits = records(history.slice(total - kept))
    for record in commits:
        record["summary"] = json.loads(record["summary"]) if record["summary"] else None
    if not args.reverse:
        commits.reverse()
    if args.output == "text":
        _print_log(commits, total)
    else:
        output.rows(args.output, _LOG, commits, head=cut_fields(cut), name="commits")
    return 0 if is_whole else CorruptError.exit_code


def _up_to(history: pa.Table, cut: Snapshot) -> pa.Table:
    """The history without the commits that came after the cut was read."""
    import pyarrow as pa
    import pyarrow.compute as pc

    writers = list(cut.cut.revisions)
    at = pc.index_in(history.column("writer"), pa.array(writers, pa.string()))
    newest = pa.array(cut.cut.revisions.values(), pa.int64()).take(at.combine_chunks())
    return history.filter(pc.less_equal(history.column("revision"), newest))


def _print_log(commits: list[dict[str, Any]], total: int) -> None:
    if not total:
        output.line("(no commits)")
        return
    if not commits:
        output.line(f"0 of {count(total)} commits")
        return
    noted = any(record["summary"] or record["replaced_where"] for record in commits)
    headings = _HEADINGS if noted else _HEADINGS[:-1]
    cells = [_cells(record)[: len(headings)] for record in commits]
    output.table(headings, cells, [heading in _RIGHT for heading in headings])
    if len(commits) < total:
        output.line(f"\n{count(len(commits))} of {count(total)} commits")


def _cells(record: dict[str, Any]) -> list[str]:
    transaction_ids = record["transaction_ids"] or []
    more = f" and {len(transaction_ids) - 1} more" if len(transaction_ids) > 1 else ""
    rows = _changes(record["rows_added"], record["rows_removed"])
    if record["rows_removed"] is None:  # the commit doesn't record it
        rows = rows.replace("-", "") + " -?"
    names, tables = record["tables"], "-"
    if names is not None:
        others = (record["table_count"] or len(names)) - len(names[:_NAMED])
        tables = ", ".join(names[:_NAMED]) + (f" and {count(others)} more" if others > 0 else "")
    summary = dict(record["summary"] or {})
    if record["replaced_where"]:
        summary["where"] = record["replaced_where"]
    return [
        str(record["revision"]),
        record["committed_at"],
        record["writer"],
        record["operation"] + (" (guest)" if record["guest"] else ""),
        _changes(record["files_added"], record["files_removed"]),
        rows,
        cell(tables),
        (transaction_ids[0][:8] if transaction_ids else "-") + more,
        cell(", ".join(f"{name}: {value}" for name, value in summary.items())),
    ]


def _changes(added: int, removed: int | None) -> str:
    parts = [f"+{count(added)}"] if added else []
    parts += [f"-{count(removed)}"] if removed else []
    return " ".join(parts) or "-"


LOG: Final = Command(
    """\
Show the commits of a database, newest first: when, by which writer, the operation, the tables, and
how many files and rows were added and removed. A time shown here can be given to `--as-of` and
means the state just after that commit (by that writer's clock). If a log can't be read to its end,
the commits that can be read are shown, and the command ends with exit code 5.

json also gives the token of the state after the newest of them: with `--as-of TOKEN` every command
reads exactly that again.""",
    """
lakelog log s3://lake/catalog weather
lakelog log ./catalog weather --writer EWR --limit 10
lakelog log ./catalog weather --reverse --output csv
lakelog log ./catalog weather --limit 0 --output json
""",
    (
        *options.IN_DATABASE,
        options.writer("only this writer's commits"),
        options.limit("commits, the newest ones"),
        options.flag("--reverse", "oldest first"),
    ),
    _show_log,
)


# --- Differences ----------------------------------------------------------------------------------


def _compare(args: argparse.Namespace) -> int:
    catalog = open_catalog(args)
    before = catalog.snapshot(args.database, args.before)
    diff = before.diff(catalog.snapshot(args.database, args.after), args.table)
    if args.output == "text":
        _print_diff(diff)
        return 0
    parts = {
        name: records(getattr(diff, name)) for name in ("tables", "schemas", "rows", "in_place")
    }
    head = {"before": diff.before, "after": diff.after, **parts}
    if args.output == "json":
        output.json_array(records(diff.files), head, "files")
    else:
        output.rows(args.output, FILES, records(diff.files))
    return 0


def _print_diff(diff: Diff) -> None:
    if diff.is_empty:
        output.line("nothing differs")
    first = True
    for name, shown in _PARTS.items():
        rows = records(getattr(diff, name))
        if name == "rows":
            for row in rows:
                mark = "" if row["exact"] else "~"
                row |= {n: f"{row[n]:,}{mark}" for n in ("rows_added", "rows_removed")}
        if rows:
            if not first:
                output.line()
            output.rows("text", shown, rows)
            first = False
    print_files(FILES, records(diff.files))
    output.line()
    output.pairs([("before", diff.before), ("after", diff.after)])


def print_files(shown: tuple[Column, ...], files: list[dict[str, Any]]) -> None:
    """Print changes of files after an empty line, up to a limit; nothing if there are none."""
    if not files:
        return
    output.line()
    output.rows("text", shown, files[:_SHOWN])
    if len(files) > _SHOWN:
        output.line(f"and {len(files) - _SHOWN:,} more; --output json lists them all")


_POINT: Final = "as for --as-of, or now for the newest"
DIFF: Final = Command(
    """\
Compare a database, or one of its tables, at two points in time: the files added and removed, their
rows and bytes, the tables and columns added, removed or changed; and where rows of files were
deleted, columns redefined, or a key set. Only the logs are read, no data file.
`lakelog changes` gives the rows themselves.

The numbers of rows are exact unless a commit between replaced files by others with the same rows,
as compactions do; text marks those with a ~. json has all parts; jsonl, csv and parquet have a row
for each file.""",
    """
lakelog diff s3://lake/catalog weather 2013-06-30T00:00Z 2013-07-01T00:00Z
lakelog diff ./catalog weather hourly EWR=3,JFK=2 now
lakelog diff ./catalog weather ll1-CgdleGFtcGxl now --output json
""",
    (
        *options.IN_DATABASE,
        options.argument("table", "TABLE", "compare only this table; else all", nargs="?"),
        options.argument(
            "before", "CUT", f"the earlier point in time, {_POINT}", type=options.point_or_now
        ),
        options.argument("after", "CUT", f"the later one, {_POINT}", type=options.point_or_now),
    ),
    _compare,
)
