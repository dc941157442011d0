"""What `prune` and `gc` have in common: show a plan, save it, and execute it only when asked."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import ObjectNotFound, UsageError
from . import options, output
from .opening import existing_log, only_writer, open_catalog
from .output import Column
from .progress import Progress
from .streams import tell
from .text import count, many, size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from ..catalog.catalog import Catalog
    from ..gc import Kept, Plan, Report

_SHOWN: Final = 40
_COLUMNS: Final = (Column("key"), Column("size_bytes", "SIZE", style="size"), Column("reason"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What both commands take."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_writer(parser, "whose objects; needed if the database has several writers")
    parser.add_argument("--plan-out", metavar="FILE", help="save the plan, to execute it later")
    parser.add_argument(
        "--execute",
        metavar="PLANFILE",
        nargs="?",
        const="",
        help="delete: what a saved plan says, or what a new plan says. All is checked again first",
    )


def run(
    args: argparse.Namespace,
    make: Callable[[Catalog, str, str, Callable[[int, int, str], None]], Plan],
    execute: Callable[[Catalog, Plan, Callable[[int, int, str], None]], Report],
    kind: str,
) -> int:
    """Plan, print, and execute if asked."""
    catalog = open_catalog(args)
    if args.execute and args.plan_out:
        raise UsageError(
            "--plan-out makes no sense with a saved plan", hint="Leave one of them out"
        )
    if args.execute:
        plan = _load(args, catalog, kind)
    else:
        writer = only_writer(catalog, args.database, args.writer)
        existing_log(catalog, writer, args.database)
        with Progress(f"planning {kind}") as progress:
            plan = make(
                catalog, writer, args.database, lambda done, total, _: progress.at(done, total)
            )
    if args.plan_out:
        _save(args.plan_out, plan)
    report: Report | None = None
    if args.execute is not None:
        with Progress(f"{kind}, objects deleted") as progress:
            report = execute(catalog, plan, lambda done, total, _: progress.at(done, total))
    _print(args, plan, report)
    if report is None and plan.actions:
        say_dry_run("nothing was deleted")
    return 0


def say_dry_run(what: str) -> None:
    """The banner of a plan that was not executed, on stderr and after all else."""
    sys.stdout.flush()
    tell(f"\nDRY RUN: {what}; add --execute\n")


def _load(args: argparse.Namespace, catalog: Catalog, kind: str) -> Plan:
    from ..gc import Plan

    path = Path(args.execute)
    if not path.is_file():
        raise ObjectNotFound(
            "No such plan file",
            key=args.execute,
            hint="--plan-out saves one; put --execute last to plan anew",
        )
    plan = Plan.from_json(path.read_bytes())
    asked = (kind, args.database, args.writer or plan.writer)
    if (plan.kind, plan.database, plan.writer) != asked:
        raise UsageError(
            f"The plan is of {plan.kind} for {plan.writer}/{plan.database}, not of {kind} for "
            f"{asked[2]}/{args.database}",
            key=args.execute,
        )
    if plan.url != catalog.url:
        raise UsageError(
            f"The plan is of the catalog {plan.url}, not of {catalog.url}",
            key=args.execute,
            hint="Make a new plan here",
        )
    return plan


def _save(name: str, plan: Plan) -> None:
    try:
        Path(name).write_text(plan.to_json(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"The plan can't be saved: {error.strerror}", key=name) from error


def _print(args: argparse.Namespace, plan: Plan, report: Report | None) -> None:
    if args.output == "json":
        output.json_object(
            {
                "dry_run": report is None,
                **_fields(plan),
                "report": None if report is None else dataclasses.asdict(report),
            }
        )
    elif args.output == "csv":
        output.rows("csv", _COLUMNS, [dataclasses.asdict(action) for action in plan.actions])
    elif report is None:
        _print_plan(plan)
        if args.plan_out:
            output.line(f"\nsaved as {args.plan_out}; --execute {args.plan_out} executes it")
    else:
        _print_report(plan, report)


def _fields(plan: Plan) -> dict[str, Any]:
    return {
        "kind": plan.kind,
        "url": plan.url,
        "writer": plan.writer,
        "database": plan.database,
        "made_at": output.utc(plan.made_at),
        "objects": plan.objects,
        "size_bytes": plan.size_bytes,
        "actions": [dataclasses.asdict(action) for action in plan.actions],
        "kept": [dataclasses.asdict(kept) for kept in plan.kept],
        "notes": list(plan.notes),
        "facts": dataclasses.asdict(plan.facts),
    }


def _print_plan(plan: Plan) -> None:
    where = f"{plan.writer}/{plan.database}"
    if plan.actions:
        total = f"{many(plan.objects, 'object')}, {size(plan.size_bytes)}"
        output.line(f"{plan.kind} of {where} would delete {total}\n")
        shown = [dataclasses.asdict(action) for action in plan.actions[:_SHOWN]]
        output.rows("text", _COLUMNS, shown)
        if plan.objects > _SHOWN:
            output.line(f"and {count(plan.objects - _SHOWN)} more; --output csv lists them all")
    else:
        output.line(f"{plan.kind} of {where}: nothing to delete")
    _print_kept("stays", plan.kept)
    for note in plan.notes:
        output.note("note", note)


def _print_report(plan: Plan, report: Report) -> None:
    where = f"{plan.writer}/{plan.database}"
    total = f"{many(report.deleted_objects, 'object')}, {size(report.deleted_bytes)}"
    done = f"deleted {total}" if plan.actions else "nothing to delete"
    output.line(f"{plan.kind} of {where}: {done}")
    if report.gone_objects:
        output.line(f"{many(report.gone_objects, 'object')} of the plan had gone before")
    _print_kept("left alone after all", report.kept)
    for note in plan.notes:
        output.note("note", note)


def _print_kept(heading: str, kept: Sequence[Kept]) -> None:
    if not kept:
        return
    output.line(f"\n{heading}")
    for item in kept:
        output.pairs([(f"  {many(item.objects, 'object')}, {size(item.size_bytes)}", item.reason)])
        for name in item.names[:_SHOWN]:
            output.pairs([("     ", name)])
