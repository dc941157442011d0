"""What `prune`, `gc` and `rebuild` have in common: make a plan a writer, show it, save it, and
execute it only when asked. Every plan is shown by the same rules, whatever step it is of.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import LakelogError, ObjectNotFound, UsageError
from . import options, output
from .errors import note_error
from .opening import cut_fields, each_writer, open_catalog, snapshot_after
from .output import Column
from .progress import Progress
from .streams import tell
from .text import count, many, size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from ..catalog.catalog import Catalog
    from ..plans import Group, MaintenancePlan
    from ..plans import Progress as Told

_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Step:
    """A step of maintenance, as its command sees it.

    Attributes:
        kind: Its name.
        done: What a plan that isn't executed leaves undone: `nothing was deleted`.
        make: A plan, from catalog, writer, database and who is told how far it is.
        load: A plan from the text of one.
        execute: Does what a plan says; returns the report, a dataclass.
        show: Prints the report of a plan.
        planning: What shows how far the making of a plan is, from what is to be shown.
        makes_state: Whether readers see another state once it is done: then json has its token.
    """

    kind: str
    done: str
    make: Callable[[Catalog, str, str, Told], MaintenancePlan]
    load: Callable[[str], MaintenancePlan]
    execute: Callable[[Catalog, Any, Told], Any]
    show: Callable[[Any, Any], None]
    planning: Callable[[str], Progress] = Progress
    makes_state: bool = False


def add_arguments(parser: argparse.ArgumentParser, *, one_writer: bool = False) -> None:
    """What all of these commands take.

    Args:
        one_writer: Whether `--writer` must be given.
    """
    options.add_url(parser)
    options.add_database(parser)
    whose = "whose log" if one_writer else "only this writer's; else every writer of the database"
    options.add_writer(parser, whose, required=one_writer)
    parser.add_argument("--plan-out", metavar="FILE", help="save the plan, to execute it later")
    parser.add_argument(
        "--execute",
        metavar="PLANFILE",
        nargs="?",
        const="",
        help="do it: what a saved plan says, or what a new plan says. All is checked again first",
    )


def run(args: argparse.Namespace, step: Step) -> int:
    """MaintenancePlan, print, and execute if asked, one writer after the other.

    What fails for one writer is told and keeps no other from its turn; at the end the first of
    these errors is raised.
    """
    catalog = open_catalog(args)
    if args.execute and args.plan_out:
        raise UsageError(
            "--plan-out makes no sense with a saved plan", hint="Leave one of them out"
        )
    found: list[tuple[MaintenancePlan, Any]] = []
    failed: list[LakelogError] = []
    todo = _todo(args, catalog, step)
    for plan_of in todo:
        try:
            found.append(_one(args, catalog, step, plan_of()))
        except LakelogError as error:
            if len(todo) > 1:
                note_error(error)
            failed.append(error)
    if args.plan_out and found:
        _save(args.plan_out, [plan for plan, _ in found])
    if found or not failed:
        _print(args, step, catalog, found)
    if failed:
        raise failed[0]
    if args.execute is None and any(plan.effect.number for plan, _ in found):
        sys.stdout.flush()
        tell(f"\nDRY RUN: {step.done}; add --execute\n")
    return 0


def _todo(
    args: argparse.Namespace, catalog: Catalog, step: Step
) -> list[Callable[[], MaintenancePlan]]:
    """What makes each plan: a saved one, or a new one for each writer."""
    if args.execute:
        return [lambda plan=plan: plan for plan in _load(args, catalog, step)]  # type: ignore[misc]
    writers = each_writer(catalog, args.database, args.writer, log=step.kind != "rebuild")

    def make(writer: str) -> MaintenancePlan:
        with step.planning(f"planning {step.kind}") as progress:
            return step.make(
                catalog, writer, args.database, lambda done, total, _: progress.at(done, total)
            )

    return [lambda writer=writer: make(writer) for writer in writers]  # type: ignore[misc]


def _one(
    args: argparse.Namespace, catalog: Catalog, step: Step, plan: MaintenancePlan
) -> tuple[MaintenancePlan, Any]:
    """A plan, with the report if it was executed."""
    if args.execute is None:
        return plan, None
    with Progress(f"{step.kind} of {plan.writer}/{plan.database}") as progress:
        report = step.execute(catalog, plan, lambda done, total, _: progress.at(done, total))
    return plan, report


def _load(args: argparse.Namespace, catalog: Catalog, step: Step) -> list[MaintenancePlan]:
    from ..plans import split_plans

    path = Path(args.execute)
    if not path.is_file():
        raise ObjectNotFound(
            "No such plan file",
            key=args.execute,
            hint="--plan-out saves one; put --execute last to plan anew",
        )
    plans = [step.load(text) for text in split_plans(path.read_bytes())]
    for plan in plans:
        asked = (step.kind, args.database, args.writer or plan.writer)
        if (plan.kind, plan.database, plan.writer) != asked:
            raise UsageError(
                f"The plan is of {plan.kind} for {plan.writer}/{plan.database}, not of "
                f"{step.kind} for {asked[2]}/{args.database}",
                key=args.execute,
            )
        if plan.url != catalog.url:
            raise UsageError(
                f"The plan is of the catalog {plan.url}, not of {catalog.url}",
                key=args.execute,
                hint="Make a new plan here",
            )
    return plans


def _save(name: str, plans: Sequence[MaintenancePlan]) -> None:
    from ..plans import dump_plans

    try:
        Path(name).write_text(dump_plans(plans), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"The plan can't be saved: {error.strerror}", key=name) from error


# --- Showing --------------------------------------------------------------------------------------


def _print(
    args: argparse.Namespace,
    step: Step,
    catalog: Catalog,
    found: Sequence[tuple[MaintenancePlan, Any]],
) -> None:
    if args.output == "json":
        records = [
            {**_fields(plan, report), **_state_made(step, catalog, plan, report)}
            for plan, report in found
        ]
        if args.writer is None:
            output.json_array(records)
        else:
            output.json_object(records[0])
        return
    if args.output != "text":
        groups = [plan.describe()[0] for plan, _ in found]
        if groups:
            rows = [row for group in groups for row in _plain_rows(group)]
            output.rows(args.output, _columns(groups[0]), rows)
        return
    for number, (plan, report) in enumerate(found):
        if number:
            output.line()
        if report is None:
            _print_plan(plan)
        else:
            step.show(plan, report)
            print_notes(plan.notes)
    if args.plan_out and args.execute is None and found:
        output.line(f"\nsaved as {args.plan_out}; --execute {args.plan_out} executes it")


def _fields(plan: MaintenancePlan, report: Any) -> dict[str, Any]:
    return {
        "dry_run": report is None,
        "kind": plan.kind,
        "url": plan.url,
        "writer": plan.writer,
        "database": plan.database,
        "made_at": output.utc(plan.made_at),
        "objects": plan.effect.number,
        "size_bytes": plan.effect.size_bytes,
        **{group.name: _plain_rows(group) for group in plan.describe()},
        "notes": list(plan.notes),
        "report": None if report is None else dataclasses.asdict(report),
    }


def _state_made(step: Step, catalog: Catalog, plan: MaintenancePlan, report: Any) -> dict[str, Any]:
    """The cut after a step that makes another state of the log, as part of a JSON object."""
    if not step.makes_state:
        return {}
    return cut_fields(None if report is None else snapshot_after(catalog, plan.database))


def _plain_rows(group: Group) -> list[dict[str, Any]]:
    return [{name: _plain(value) for name, value in row.items()} for row in group.rows]


def _plain(value: Any) -> Any:
    return output.utc(value) if isinstance(value, dt.datetime) else value


def _columns(group: Group) -> list[Column]:
    return [Column(field.name, field.title, field.style, field.shown) for field in group.fields]


def _print_plan(plan: MaintenancePlan) -> None:
    effect, where = plan.effect, f"{plan.writer}/{plan.database}"
    if effect.number:
        total = f"{many(effect.number, effect.noun)}, {size(effect.size_bytes)}"
        output.line(f"{plan.kind} of {where} would {effect.verb} {total}")
    else:
        output.line(f"{plan.kind} of {where}: nothing to {effect.verb}")
    for group in plan.describe():
        print_group(group)
    print_notes(plan.notes)


def print_group(group: Group) -> None:
    """Print a group of a plan or a report, as far as there is room; nothing if it is empty."""
    if not group.rows:
        return
    output.line(f"\n{group.title}" if group.title else "")
    rows = _plain_rows(group)
    output.rows("text", _columns(group), rows[:_SHOWN])
    if len(rows) > _SHOWN:
        output.line(f"and {count(len(rows) - _SHOWN)} more; --output json lists them all")
    for row in rows[:_SHOWN]:
        _print_names(row)


def _print_names(row: Mapping[str, Any]) -> None:
    names = row.get("names") or ()
    if names:
        output.line(f"  {row['reason']}")
    for name in names[:_SHOWN]:
        output.pairs([("   ", name)])


def print_notes(notes: Sequence[str]) -> None:
    """Print the notes of a plan."""
    for note in notes:
        output.note("note", note)
