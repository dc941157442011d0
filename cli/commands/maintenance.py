"""`lakelog prune`, `gc` and `rebuild`: make a plan for each writer, print it, save it, and execute
it only when asked. All plans are printed by the same rules.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ...errors import ObjectNotFound, UsageError
from .. import engines, options, output
from ..command_list import Command
from ..errors import Progress, dry_run, for_each
from ..opening import cut_fields, each_writer, open_catalog, snapshot_after
from ..output import Column
from ..text import count, many, size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from ...catalog.catalog import Catalog
    from ...gc.plan import Plan, Report
    from ...plans import Group, SavedPlan
    from ...rebuild import RebuildInfo, RebuildPlan

_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Step:
    """A step of maintenance.

    Attributes:
        kind: Its name.
        undone: What a plan that isn't executed leaves undone: `nothing was deleted`.
        make: Makes a plan for a catalog, writer and database.
        load: Makes a plan from the text of one.
        execute: Executes a plan of a catalog; returns the report, a dataclass.
        show: Prints the report of a plan.
        engine: Reads footers for a plan; None: threads of this process.
    """

    kind: str
    undone: str
    make: Callable[..., SavedPlan]
    load: Callable[[str], SavedPlan]
    execute: Callable[..., Any]
    show: Callable[[Any, Any], None]
    engine: engines.SparkOnDemand | None = None


def _run(args: argparse.Namespace, step: Step) -> int:
    """Plan, print, and execute if asked, one writer after the other.

    An error of one writer is printed and doesn't stop the others; the first one is raised at the
    end.
    """
    catalog = open_catalog(args)
    if args.execute and args.plan_out:
        raise UsageError(
            "--plan-out makes no sense with a saved plan", hint="Leave one of them out"
        )

    def run(make: Callable[[], SavedPlan]) -> tuple[SavedPlan, Any]:
        plan = make()
        if args.execute is None:
            return plan, None
        with Progress(f"{step.kind} of {plan.writer}/{plan.database}") as progress:
            return plan, step.execute(catalog, plan, progress=_progress_of(progress))

    done, failed = for_each(_makers(args, catalog, step), run)
    if args.plan_out and done:
        _save(args.plan_out, [plan for plan, _ in done])
    if done or failed is None:
        _print(args, step, catalog, done)
    if failed is not None:
        raise failed
    if args.execute is None and any(plan.effect.number for plan, _ in done):
        dry_run(step.undone)
    return 0


def _progress_of(progress: Progress) -> Callable[[int, int | None, str], None]:
    return lambda done, total, _: progress.at(done, total)


def _makers(
    args: argparse.Namespace, catalog: Catalog, step: Step
) -> list[Callable[[], SavedPlan]]:
    """Functions that return the plans: saved ones, or a new one for each writer."""
    if args.execute:
        return [lambda plan=plan: plan for plan in _load(args, catalog, step)]  # type: ignore[misc]
    writers = each_writer(catalog, args.database, args.writer, log=step.kind != "rebuild")

    def make(writer: str) -> SavedPlan:
        with Progress(f"planning {step.kind}", asked=step.engine is not None) as progress:
            if step.engine is not None:
                step.engine.shown = progress
            return step.make(catalog, writer, args.database, progress=_progress_of(progress))

    return [partial(make, writer) for writer in writers]


def _load(args: argparse.Namespace, catalog: Catalog, step: Step) -> list[SavedPlan]:
    from ...plans import split_plans

    path = Path(args.execute)
    if not path.is_file():
        raise ObjectNotFound(
            "No such plan file",
            key=args.execute,
            hint="--plan-out saves one; put --execute last to make a new plan",
        )
    plans = [step.load(text) for text in split_plans(path.read_bytes())]
    for plan in plans:
        wanted = (step.kind, args.database, args.writer or plan.writer)
        if (plan.kind, plan.database, plan.writer) != wanted:
            raise UsageError(
                f"The plan is of {plan.kind} for {plan.writer}/{plan.database}, not of "
                f"{step.kind} for {wanted[2]}/{args.database}",
                key=args.execute,
            )
        if plan.url != catalog.url:
            raise UsageError(
                f"The plan is of the catalog {plan.url}, not of {catalog.url}",
                key=args.execute,
                hint="Make a new plan here",
            )
    return plans


def _save(name: str, plans: Sequence[SavedPlan]) -> None:
    from ...plans import dump_plans

    try:
        Path(name).write_text(dump_plans(plans), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"The plan can't be saved: {error.strerror}", key=name) from error


# --- Printing -------------------------------------------------------------------------------------


def _print(
    args: argparse.Namespace,
    step: Step,
    catalog: Catalog,
    done: Sequence[tuple[SavedPlan, Any]],
) -> None:
    if args.output == "json":
        records = [_fields(step, catalog, plan, report) for plan, report in done]
        if args.writer is None:
            output.json_array(records)
        else:
            output.json_object(records[0])
        return
    if args.output != "text":
        groups = [plan.groups()[0] for plan, _ in done]
        if groups:
            rows = [row for group in groups for row in _plain_rows(group)]
            output.rows(args.output, _columns(groups[0]), rows)
        return
    for number, (plan, report) in enumerate(done):
        if number:
            output.line()
        if report is None:
            _print_plan(plan)
        else:
            step.show(plan, report)
        for note in plan.notes:
            output.note("note", note)
    if args.plan_out and args.execute is None and done:
        output.line(f"\nsaved as {args.plan_out}; --execute {args.plan_out} executes it")


def _fields(step: Step, catalog: Catalog, plan: SavedPlan, report: Any) -> dict[str, Any]:
    fields = {
        "dry_run": report is None,
        "kind": plan.kind,
        "url": plan.url,
        "writer": plan.writer,
        "database": plan.database,
        "made_at": output.utc(plan.made_at),
        "objects": plan.effect.number,
        "size_bytes": plan.effect.size_bytes,
        **{group.name: _plain_rows(group) for group in plan.groups()},
        "notes": list(plan.notes),
        "report": None if report is None else dataclasses.asdict(report),
    }
    if step.kind == "rebuild":  # readers see another state
        fields |= cut_fields(None if report is None else snapshot_after(catalog, plan.database))
    return fields


def _plain_rows(group: Group) -> list[dict[str, Any]]:
    return [
        {n: output.utc(v) if isinstance(v, dt.datetime) else v for n, v in row.items()}
        for row in group.rows
    ]


def _columns(group: Group) -> list[Column]:
    return [Column(field.name, field.title, field.style, field.shown) for field in group.fields]


def _print_plan(plan: SavedPlan) -> None:
    effect, where = plan.effect, f"{plan.writer}/{plan.database}"
    if effect.number:
        total = f"{many(effect.number, effect.noun)}, {size(effect.size_bytes)}"
        output.line(f"{plan.kind} of {where} would {effect.verb} {total}")
    else:
        output.line(f"{plan.kind} of {where}: nothing to {effect.verb}")
    for group in plan.groups():
        _print_group(group)


def _print_group(group: Group) -> None:
    """Print a group of a plan or a report, up to a limit; nothing if it is empty."""
    if not group.rows:
        return
    output.line(f"\n{group.title}" if group.title else "")
    rows = _plain_rows(group)
    output.rows("text", _columns(group), rows[:_SHOWN])
    if len(rows) > _SHOWN:
        output.line(f"and {count(len(rows) - _SHOWN)} more; --output json lists them all")
    for row in rows[:_SHOWN]:
        names = row.get("names") or ()
        if names:
            output.line(f"  {row['reason']}")
        for name in names[:_SHOWN]:
            output.pairs([("   ", name)])


# --- The commands ---------------------------------------------------------------------------------


def _prune(args: argparse.Namespace) -> int:
    if args.keep_revisions is None and args.keep_days is None and not args.execute:
        raise UsageError(
            "prune needs to know what to keep",
            hint="--keep-days 90, --keep-revisions 1000, or both (what either keeps stays)",
        )
    keep = {"keep_revisions": args.keep_revisions, "keep_days": args.keep_days}
    return _run(args, _deleting("prune", keep))


def _gc(args: argparse.Namespace) -> int:
    return _run(args, _deleting("gc", {"strays": args.strays}))


def _deleting(kind: Literal["prune", "gc"], given: dict[str, Any]) -> Step:
    from ...gc.plan import Plan
    from ...maintenance.database_plan import execute_log

    def make(catalog: Catalog, writer: str, database: str, progress: Any) -> SavedPlan:
        call = catalog.prune if kind == "prune" else catalog.gc
        [plan] = call(database, writers=[writer], progress=progress, **given).logs
        assert isinstance(plan, Plan)
        return plan

    return Step(kind, "nothing was deleted", make, Plan.from_json, execute_log, _show_deleted)


def _show_deleted(plan: Plan, report: Report) -> None:
    from ...gc.plan import describe_kept

    total = f"{many(report.deleted_objects, 'object')}, {size(report.deleted_bytes)}"
    done = f"deleted {total}" if plan.actions else "nothing to delete"
    output.line(f"{plan.kind} of {plan.writer}/{plan.database}: {done}")
    if report.deleted_objects and not report.exact:
        output.line(
            "(deleted or already gone: this store doesn't say whether an object still existed)"
        )
    if report.gone_objects:
        output.line(f"{many(report.gone_objects, 'object')} of the plan no longer existed")
    _print_group(describe_kept("left alone after all", report.kept))


def _rebuild(args: argparse.Namespace) -> int:
    from ...rebuild import RebuildPlan, execute_rebuild, plan_rebuild

    with engines.engine_of(args, "rebuild") as engine:
        make = partial(plan_rebuild, exclude=args.exclude, include=args.include, engine=engine)
        load, execute = RebuildPlan.from_json, partial(execute_rebuild, engine=engine)
        step = Step("rebuild", "nothing was written", make, load, execute, _show_rebuilt, engine)
        return _run(args, step)


def _show_rebuilt(plan: RebuildPlan, info: RebuildInfo) -> None:
    live = f"{many(info.files, 'file')}, {many(info.rows, 'row')}, {size(info.size_bytes)}"
    output.line(f"rebuilt {plan.writer}/{plan.database} to revision {info.revision}: {live}")
    for group in plan.groups():
        _print_group(group)
    output.line(f"\nincarnation {plan.sealed} is sealed, and its objects stay")
    output.line(f"\ncheckpoint  {info.checkpoint_key}")


_PLANNING: Final = (
    options.argument("--plan-out", "FILE", "save the plan, to execute it later"),
    options.argument(
        "--execute",
        "PLANFILE",
        "execute a saved plan, or else a new one. Everything is checked again first",
        nargs="?",
        const="",
    ),
)
_EACH_WRITER: Final = (
    *options.IN_DATABASE,
    options.writer("only this writer's; else every writer of the database"),
    *_PLANNING,
)
PRUNE: Final = Command(
    """\
Delete the beginning of a log: transactions and checkpoints that are older than what you keep. The
log will begin with a checkpoint, which is read back and verified first. Points in time before it
can no longer be read. Data files are not touched: run `lakelog gc` afterwards.

Without --execute nothing is deleted: the plan is shown.""",
    """
lakelog prune s3://lake/catalog weather --keep-days 90
lakelog prune ./catalog weather --writer EWR --keep-revisions 1000 --plan-out plan.json
lakelog prune ./catalog weather --writer EWR --execute plan.json
""",
    (
        *_EACH_WRITER,
        options.argument(
            "--keep-revisions",
            "N",
            "keep the newest N revisions readable",
            type=options.whole_number,
        ),
        options.argument(
            "--keep-days",
            "DAYS",
            "keep every state of the last DAYS days readable",
            type=options.positive,
        ),
    ),
    _prune,
)
GC: Final = Command(
    """\
Delete data files that no retained revision names: files removed from their tables before the
oldest readable revision, and leftovers of attempts that never committed. Files that could still be
committed are left alone for a grace period of a week by the store's clock. Files that lakelog did
not name (strays) stay unless a pattern asks for them (--strays).

gc stops if the log belongs to another name, was sealed, was set back, or has lost its end.

Without --execute nothing is deleted: the plan is shown, with the reason for each file.""",
    """
lakelog gc s3://lake/catalog weather
lakelog gc ./catalog weather --writer EWR --plan-out plan.json
lakelog gc ./catalog weather --writer EWR --execute plan.json
lakelog gc ./catalog weather --writer EWR --strays 'data/in/*.csv'
""",
    (
        *_EACH_WRITER,
        options.repeated(
            "--strays",
            "PATTERN",
            "also delete files of more than a week that lakelog didn't name and whose path in the "
            "plan matches (* stands for any characters, / too); repeatable",
        ),
    ),
    _gc,
)
REBUILD: Final = Command(
    """\
Rebuild a writer's log if both copies of a part of it are lost: from what can still be read of
either copy, and from the footers of the Parquet files. No row that is in the store is lost; rows
that had been removed may come back, and the plan says which. Nothing is overwritten, moved or
deleted: the old log is sealed, and the new one is written next to it as the next incarnation. If
nothing shows whether a transaction was committed, it is listed as unproven, and --exclude leaves it
out. --include brings back a transaction whose files the plan leaves out.

Without --execute nothing is written: the plan is shown.""",
    """
lakelog rebuild s3://lake/catalog weather --writer EWR
lakelog rebuild ./catalog weather --writer EWR --plan-out plan.json
lakelog rebuild ./catalog weather --writer EWR --execute plan.json
lakelog rebuild ./catalog weather --writer EWR --execute
lakelog rebuild ./catalog weather --writer EWR --include 3f9c5a0d1b7e4c28a6d2f0b9e8c71a54
lakelog rebuild s3://lake/catalog weather --writer EWR --engine spark --spark spark.master=yarn
""",
    (
        *options.IN_DATABASE,
        options.writer("the writer of the log", required=True),
        *_PLANNING,
        options.repeated(
            "--exclude", "TRANSACTION", "leave an unproven transaction out (may be repeated)"
        ),
        options.repeated(
            "--include",
            "TRANSACTION",
            "add the files of a transaction that the plan leaves out (may be repeated)",
        ),
        *engines.arguments("the reading of footers"),
    ),
    _rebuild,
)
