"""`lakelog log`: the history of a database."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptError
from .. import options, output
from ..errors import as_far_as_told
from ..opening import cut_fields, cut_of_history, open_catalog
from ..output import Column
from ..text import cell, count
from ..values import plain

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from ...catalog.snapshot import Snapshot

DESCRIPTION: Final = """\
Show the commits of a database, newest first: when, by which writer, what was done, to which
tables, how many files and rows came and went. A time shown here can be given to `--as-of` and
means the state just after that commit (by that writer's clock). Where a log can't be read to its
end, the commits that can be are shown, and the command ends with 5.

json also gives the token of the state after the newest of them: with `--as-of TOKEN` every command
reads exactly that again."""
EXAMPLES: Final = """
lakelog log s3://lake/catalog weather
lakelog log ./catalog weather --writer EWR --limit 10
lakelog log ./catalog weather --reverse --output csv
lakelog log ./catalog weather --limit 0 --output json
"""
_COLUMNS: Final = (
    Column("revision", number=True),
    Column("committed_at"),
    Column("writer"),
    Column("operation"),
    Column("files_added", shown=False, number=True),
    Column("files_removed", shown=False, number=True),
    Column("rows_added", shown=False, number=True),
    Column("rows_removed", shown=False, number=True),
    Column("bytes_added", shown=False, number=True),
    Column("tables", shown=False),
    Column("table_count", shown=False, number=True),
    Column("epoch", shown=False, number=True),
    Column("guest", style="yes", shown=False),
    Column("transaction_ids", shown=False),
    Column("uuid", shown=False),
    Column("summary", shown=False),
    Column("rows_rewritten", shown=False, number=True),
    Column("replaced_where", shown=False),
)
_NAMED: Final = 3
_RIGHT: Final = {"REVISION", "FILES", "ROWS"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_writer(parser, "only this writer's commits")
    options.add_limit(parser, "commits, the newest ones")
    parser.add_argument("--reverse", action="store_true", help="oldest first")


def run(args: argparse.Namespace) -> int:
    """Print a row a commit."""
    from ...catalog.read.history_table import HistoryWarning

    catalog = open_catalog(args)
    cut = cut_of_history(args, catalog)
    history, is_whole = as_far_as_told(
        lambda: catalog.history(args.database, args.writer), HistoryWarning
    )
    if cut is not None:
        history = _up_to(history, cut)
    total = history.num_rows
    kept = total if args.limit is None else min(args.limit, total)
    records = _records(history.slice(total - kept))
    if not args.reverse:
        records.reverse()
    if args.output == "text":
        _print(records, total)
    else:
        output.rows(args.output, _COLUMNS, records, head=cut_fields(cut), name="commits")
    return 0 if is_whole else CorruptError.exit_code


def _up_to(history: pa.Table, cut: Snapshot) -> pa.Table:
    """Without the commits that came after the cut was looked up."""
    import pyarrow as pa
    import pyarrow.compute as pc

    writers = list(cut.cut.revisions)
    at = pc.index_in(history.column("writer"), pa.array(writers, pa.string()))
    newest = pa.array(cut.cut.revisions.values(), pa.int64()).take(at.combine_chunks())
    return history.filter(pc.less_equal(history.column("revision"), newest))


def _records(history: pa.Table) -> list[dict[str, Any]]:
    names = history.schema.names
    columns = [plain(history.column(name)) for name in names]
    records = [dict(zip(names, row)) for row in zip(*columns)]
    for record in records:
        record["summary"] = json.loads(record["summary"]) if record["summary"] else None
    return records


def _print(records: list[dict[str, Any]], total: int) -> None:
    if not total:
        output.line("(no commits)")
        return
    if not records:
        output.line(f"0 of {count(total)} commits")
        return
    heads = [
        "REVISION",
        "COMMITTED AT",
        "WRITER",
        "OPERATION",
        "FILES",
        "ROWS",
        "TABLES",
        "TRANSACTION",
    ]
    notes = any(record["summary"] or record["replaced_where"] for record in records)
    if notes:
        heads.append("SUMMARY")
    cells = [_cells(record)[: len(heads)] for record in records]
    output.table(heads, cells, [head in _RIGHT for head in heads])
    if len(records) < total:
        output.line(f"\n{count(len(records))} of {count(total)} commits")


def _cells(record: dict[str, Any]) -> list[str]:
    changes = _changes(record["files_added"], record["files_removed"])
    transaction_ids = record["transaction_ids"] or []
    more = f" and {len(transaction_ids) - 1} more" if len(transaction_ids) > 1 else ""
    summary = dict(record["summary"] or {})
    if record["replaced_where"]:
        summary["where"] = record["replaced_where"]
    return [
        str(record["revision"]),
        record["committed_at"],
        record["writer"],
        record["operation"] + (" (guest)" if record["guest"] else ""),
        changes,
        _rows(record),
        cell(_tables(record)),
        (transaction_ids[0][:8] if transaction_ids else "-") + more,
        cell(", ".join(f"{name}: {value}" for name, value in summary.items())),
    ]


def _changes(added: int, removed: int | None) -> str:
    parts = [f"+{count(added)}"] if added else []
    parts += [f"-{count(removed)}"] if removed else []
    return " ".join(parts) or "-"


def _rows(record: dict[str, Any]) -> str:
    if record["rows_removed"] is None:  # of a commit that doesn't say
        return _changes(record["rows_added"], 0).replace("-", "") + " -?"
    return _changes(record["rows_added"], record["rows_removed"])


def _tables(record: dict[str, Any]) -> str:
    names = record["tables"]
    if names is None:
        return "-"
    more = (record["table_count"] or len(names)) - len(names[:_NAMED])
    return ", ".join(names[:_NAMED]) + (f" and {count(more)} more" if more > 0 else "")
