"""`lakelog show`: one object of a log, decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import NotFoundError, RevisionNotFound, UsageError
from .. import options, output
from ..opening import existing_log, only_writer, open_catalog
from ..output import Column

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog
    from ...catalog.format.names import LogObject
    from ...catalog.log.listing import Listing
    from ...catalog.read.log_reader import LogReader

DESCRIPTION: Final = """\
Decode one transaction, or with --checkpoint one checkpoint, and print every field. Without
--revision it is the newest one; without --writer the database must have one writer only. In
place of DATABASE the key of an object may stand, as errors name it, also of a segment that a
checkpoint refers to; then nothing else is read first.

json and csv hold every file of a transaction with its statistics, and every row of a segment;
text leaves those out, but for the statistics with --statistics."""
EXAMPLES: Final = """
lakelog show s3://lake/catalog weather --writer EWR
lakelog show ./catalog weather --writer EWR --revision 12 --statistics
lakelog show ./catalog weather --writer EWR --checkpoint --output json
lakelog show ./catalog EWR/weather/transactions/998-999999999987-12.bdb70c0a.transaction
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    parser.add_argument(
        "database", metavar="DATABASE|KEY", help="a database, or the key of an object"
    )
    options.add_writer(parser, "whose log")
    parser.add_argument(
        "-r",
        "--revision",
        metavar="N",
        type=options.whole_number,
        help="which one; with --checkpoint the newest one at or before it. Default: the newest",
    )
    parser.add_argument("--checkpoint", action="store_true", help="a checkpoint, not a transaction")
    parser.add_argument(
        "--statistics", action="store_true", help="in text, also the statistics of each file"
    )


def run(args: argparse.Namespace) -> int:
    """Print the object."""
    catalog = open_catalog(args)
    if "/" in args.database:
        log, item = _by_key(catalog, args)
    else:
        writer = only_writer(catalog, args.database, args.writer)
        log, listing = existing_log(catalog, writer, args.database)
        item = _pick(log, listing, args.revision, args.checkpoint)
    if isinstance(item, str):
        from .. import show_segment

        found, print_text = show_segment.describe(log, item), show_segment.print_text
        rows = found[show_segment.ROWS]
        columns = tuple(Column(name) for name in (rows[0] if rows else ()))
    elif item.kind == "checkpoint":
        from .. import show_checkpoint

        found, print_text = show_checkpoint.describe(log, item), show_checkpoint.print_text
        rows, columns = found[show_checkpoint.ROWS], show_checkpoint.COLUMNS
    else:
        from .. import show_transaction

        found, print_text = show_transaction.describe(log, item), show_transaction.print_text
        rows, columns = found[show_transaction.ROWS], show_transaction.COLUMNS
    if args.output == "json":
        output.json_object(found)
    elif args.output != "text":
        output.rows(args.output, columns, rows)
    else:
        print_text(found, statistics=args.statistics)
    return 0


def _by_key(catalog: Catalog, args: argparse.Namespace) -> tuple[LogReader, LogObject | str]:
    """The log, and the object in `transactions/` or the name of a segment."""
    from ...catalog.format.names import is_id, parse_log_object, parse_segment_name
    from ...catalog.read.log_reader import LogReader
    from ...store.base import check_key

    if args.writer is not None or args.revision is not None or args.checkpoint:
        raise UsageError(
            "A key says it all", hint="Leave out --writer, --revision and --checkpoint"
        )
    parts = check_key(args.database).split("/")
    item: LogObject | str | None = None
    if len(parts) == 4 and is_id(parts[0]) and is_id(parts[1]):
        if parts[2] == "transactions":
            item = parse_log_object(parts[3])
        elif parts[2] == "segments" and parse_segment_name(parts[3]) is not None:
            item = parts[3]
    if item is None:
        raise UsageError(
            "Not the key of a transaction, checkpoint or segment",
            key=args.database,
            hint="Its form is WRITER/DATABASE/transactions/NAME.transaction or .checkpoint, or "
            "WRITER/DATABASE/segments/NAME.segment, as `lakelog show` and errors give it",
        )
    return LogReader(catalog.store, parts[0], parts[1]), item


def _pick(log: LogReader, listing: Listing, revision: int | None, checkpoint: bool) -> LogObject:
    """The object that was asked for."""
    from ...catalog.log.listing import fork_error

    found = listing.checkpoints if checkpoint else listing.transactions
    if checkpoint:
        top = listing.head if revision is None else revision
        number = max((n for n in found if n <= top), default=-1)
    else:
        number = max(found, default=-1) if revision is None else revision
    if number not in found:
        raise _absent(log, listing, revision, checkpoint)
    if len(found[number]) > 1:
        if not checkpoint:
            raise fork_error(listing, number)
        raise UsageError(
            f"Revision {number} has {len(found[number])} checkpoints",
            key=" and ".join(listing.key(item) for item in found[number]),
            hint="Give the key of one",
        )
    return found[number][0]


def _absent(
    log: LogReader, listing: Listing, revision: int | None, checkpoint: bool
) -> NotFoundError:
    where = f"{log.writer}/{log.database}"
    if checkpoint:
        numbers = ", ".join(map(str, sorted(listing.checkpoints))) or "none"
        upto = "" if revision is None else f" up to revision {revision}"
        return RevisionNotFound(
            f"{where} has no checkpoint{upto}",
            key=where,
            hint=f"It has: {numbers}. `lakelog checkpoint` writes one",
        )
    return RevisionNotFound(
        f"{where} has no transaction {'at all' if revision is None else revision}",
        key=where,
        hint=f"Its newest revision is {listing.head}; readable are {listing.readable()}",
    )
