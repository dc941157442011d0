"""`lakelog replicate`: update a copy of a catalog, once or continuously."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ...catalog.ambient import SYSTEM
from ...errors import LakelogError, NotFoundError, UsageError
from ...progress import span
from .. import engines, options, output
from ..command_list import Command
from ..errors import Progress, dry_run, note_error, running, to_stderr
from ..opening import open_catalog
from ..output import Column, columns
from ..text import count, many, size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ...catalog.catalog import Catalog
    from ...replication import Progress as Copying
    from ...replication import Report

ENVIRONMENT: Final = "LAKELOG_DESTINATION_OPTIONS"
_COLUMNS: Final = (
    *columns("database", "writer"),
    Column("from_revision", "FROM", style="count"),
    Column("to_revision", "TO", style="count"),
    *columns("commits", "files", style="count"),
    Column("size_bytes", "SIZE", style="size"),
    *columns("files_there", "files_elsewhere", style="count", shown=False),
    Column("token", shown=False),
)


def _run(args: argparse.Namespace) -> int:
    from ...replication import follow, plan_replication, replicate

    if args.plan and args.follow:
        raise UsageError("--plan and --follow don't go together", hint="Leave one of them out")
    source, destination = open_catalog(args), _destination(args)
    if args.plan:
        with RateProgress("planning"):
            report = plan_replication(source, destination, **_selection(args))
        code = _print(args, report, planned=True)
        sys.stdout.flush()
        if any(not log.plan.is_done for log in report.logs):
            to_stderr("\nPLAN: nothing was copied; leave out --plan\n")
        return code
    with engines.engine_of(args, "replicate") as engine, _signals() as stop:
        with RateProgress("replicating", asked=engine is not None) as progress:
            if engine is not None:
                engine.shown = progress
            job = {**_selection(args), "engine": engine, "progress": progress.update, "stop": stop}
            if args.follow:
                _print_rounds(args, follow(source, destination, every_s=args.every, **job))
                return 0
            report = replicate(source, destination, **job)
        if report.stopped:
            raise KeyboardInterrupt
    return _print(args, report)


def _print_rounds(args: argparse.Namespace, rounds: Iterator[Report]) -> None:
    """Print a row for each log that changed in a round. Each printed round was completed, however
    the command ends."""
    failed: list[LakelogError] = []

    def records() -> Iterator[dict[str, Any]]:
        try:
            for report in rounds:
                yield from (one for one in _records(report) if one["commits"] or one["files"])
                sys.stdout.flush()
        except LakelogError as error:
            failed.append(error)

    if args.output == "text":
        for one in records():
            begun = "" if one["from_revision"] is None else f"{one['from_revision']} to "
            output.line(
                f"{one['writer']}/{one['database']}: {begun}{one['to_revision']}, "
                f"{many(one['commits'], 'commit')}, {many(one['files'], 'file')}, "
                f"{size(one['size_bytes'])}"
            )
    else:
        output.rows(args.output, _COLUMNS, records())
    if failed:
        raise failed[0]


def _selection(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "databases": args.database,
        "writers": args.writer,
        "tables": args.table,
        "columns": args.columns,
        "where": args.where,
        "as_of": args.as_of,
        "history": not args.no_history,
    }


def _destination(args: argparse.Namespace) -> Catalog:
    from ...catalog.catalog import open_catalog as open_url

    own = options.storage_options(args.destination_option, name=ENVIRONMENT)
    running().redact.learn(own)
    return open_url(args.destination, own or args.storage_options)


def _records(report: Report, *, planned: bool = False) -> Iterator[dict[str, Any]]:
    for log in report.logs:
        done = log.copied
        if log.error is not None and not done.commits:
            continue  # the error is printed
        yield {
            "database": log.plan.database,
            "writer": log.plan.writer,
            "from_revision": None if log.plan.first < 0 else log.plan.first,
            "to_revision": log.plan.last if planned else log.revision,
            "commits": log.plan.commits if planned else done.commits,
            "files": log.plan.files if planned else done.files,
            "size_bytes": log.plan.size_bytes if planned else done.size_bytes,
            "files_there": None if planned else done.files_there,
            "files_elsewhere": None if planned else done.elsewhere,
            "token": report.tokens.get(log.plan.database),
        }


def _print(args: argparse.Namespace, report: Report, *, planned: bool = False) -> int:
    errors: list[LakelogError] = report.errors
    empty = "nothing was replicated" if errors else "nothing to replicate"
    output.rows(args.output, _COLUMNS, _records(report, planned=planned), empty=empty)
    if args.output == "text" and report.tokens:
        output.line()
        output.pairs([(f"token of {name}", token) for name, token in report.tokens.items()])
    if len(report.logs) > 1:
        for error in errors:
            note_error(error)
    if errors:
        raise errors[0]
    return 0


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """While this is open, an interrupt or a request to terminate sets an event; the second one acts
    as usual."""
    stop = threading.Event()
    before: dict[int, Any] = {}

    def set_once(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, before[number])

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, set_once)
    try:
        yield stop
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)


# --- Rates ----------------------------------------------------------------------------------------


class RateProgress(Progress):
    """A line like `lakelog: replicating: 12 of 40 files, 1 MiB of 4 MiB, 3 MiB/s, 1 s left`."""

    def __init__(self, what: str, *, asked: bool = False) -> None:
        super().__init__(what, asked=asked)
        self._last: Copying | None = None
        self._begun_s = SYSTEM.monotonic_s()
        self._turn = threading.Lock()

    def update(self, last: Copying) -> None:
        """Show the newest state; from any thread."""
        with self._turn:
            if self._last is not last and last is not None:
                self._begun_s = SYSTEM.monotonic_s()
            self._last = last
            self.at(last.files_done)

    def _text(self) -> str:
        last = self._last
        if last is None:
            return super()._text()
        passed_s = max(1e-3, SYSTEM.monotonic_s() - self._begun_s)
        rate = last.bytes_done / passed_s
        files = max(last.files, last.files_done)  # objects of row deletes aren't counted before
        total = max(last.size_bytes, last.bytes_done)
        parts = [
            f"{count(last.files_done)} of {count(files)} files",
            f"{size(last.bytes_done)} of {size(total)}",
            f"{size(int(rate))}/s",
        ]
        if rate > 0 and total > last.bytes_done:
            parts.append(f"{span((total - last.bytes_done) / rate)} left")
        return ", ".join(parts)


REPLICATE: Final = Command(
    """\
Copy the logs of a catalog, with the data files that they name, to another place, and continue where
the last run ended, whatever ended it. The replica's commits are the source's: same revisions, same
times, same rows; a token of one reads the same in the other. The digest of every object is checked
before it is put. Nothing is deleted, and a destination in which anybody else has committed is
refused.

--table, with --columns and --where for one table, copies a part of a database instead, into logs of
the destination's own: one commit in each for each round, whose summary names the source's cut.

--plan shows how far the replica is and what would be copied. --follow goes on until it is
interrupted or terminated.""",
    """
lakelog replicate s3://lake/catalog s3://other-region/catalog
lakelog replicate ./catalog /mnt/backup/catalog --database weather --plan
lakelog replicate s3://lake/catalog ./copy --writer EWR --no-history
lakelog replicate ./catalog s3://lake/copy --follow --every 30
lakelog replicate s3://lake/catalog s3://lake/copy --engine spark --spark spark.master=yarn
lakelog replicate ./catalog ./warm --table hourly --columns origin,temp --where "temp > 90"
lakelog replicate ./catalog ./mart --database weather --table hourly --as-of @prod
""",
    (
        *options.CATALOG,
        options.argument("destination", "DESTINATION", "the place of the replica"),
        options.argument(
            "--database", "DATABASE", "only this one; may be repeated", action="append"
        ),
        options.writers("only this one's logs; may be repeated"),
        options.argument(
            "--table",
            "TABLE",
            "only this table of one database, in logs of the destination's own; may be repeated",
            action="append",
        ),
        options.argument(
            "-c --columns", "A,B,C", "with one --table: only these columns", type=options.names
        ),
        options.where("with one --table: only rows that meet it"),
        options.argument(
            "--as-of",
            "POINT",
            "with --table: the point in time that is copied, such as @prod (default: the newest)",
            type=options.point,
        ),
        options.flag(
            "--no-history",
            "a log that is new to the replica begins with the source's newest checkpoint instead "
            "of all that the source retains",
        ),
        options.flag("--plan", "show what would be copied, and copy nothing"),
        options.flag("--follow", "continue with new commits until interrupted"),
        options.argument(
            "--every",
            "SECONDS",
            "with --follow: wait so long between two rounds (default 10)",
            type=options.positive,
            default=10.0,
        ),
        options.repeated(
            "--destination-option",
            "KEY=VALUE",
            "a storage option of the destination, as --option is one of the source; "
            f"{ENVIRONMENT} takes a JSON object. Without either the source's are taken",
        ),
        *engines.arguments("the copying of data files"),
    ),
    _run,
)


# --- A replica that takes the place of its source -------------------------------------------------

_REPLICAS: Final = columns("database", "writer")


def _promote(args: argparse.Namespace) -> int:
    from ...replication import promote
    from ...replication.replicate import marked

    catalog = open_catalog(args)
    act = promote if args.execute else marked
    found = act(catalog, args.database, writer=args.writer)
    records = [{"database": database, "writer": writer} for writer, database in sorted(found)]
    if not records:
        raise NotFoundError(
            f"{catalog.url} has no replica",
            hint="A log that lakelog replicate has copied as a whole is one, until it is promoted",
        )
    output.rows(args.output, _REPLICAS, records)
    if not args.execute:
        dry_run("these are replicas, and stay so")
    return 0


PROMOTE: Final = Command(
    """\
Let the logs of a replica be written to, because it takes the place of its source. Stop replicating
into it first: once somebody has committed here, it can't follow its source any more. Shown are the
logs that are replicas; --execute makes them logs of their own.""",
    """
lakelog promote s3://other-region/catalog
lakelog promote s3://other-region/catalog weather --writer EWR --execute
""",
    (
        *options.CATALOG,
        options.argument("database", "DATABASE", "only this database", nargs="?"),
        options.writer("only the log of this writer"),
        options.execute(),
    ),
    _promote,
)
