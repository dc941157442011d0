"""Repair: restores a damaged log, from the findings of a check.

What one of the two places still has is copied to the other, byte for byte: the log is then the same
log, with the same revisions and tokens. A checkpoint that neither has is computed from the
transactions below it. A data file that is gone for good is removed from its table by a commit that
says how many rows that costs. Both copies of a transaction are a matter for a rebuild.

A whole transaction is never put over another one: where the two copies of a revision are different
commits, the log lost its end and writers went on, and each is the only copy of its rows.

Order: copies first, since nothing can be committed to a log that has lost its end; then
checkpoints; then commits. Each step looks again before it writes, so a plan can be executed late,
or twice.

Source: docs/recovery.md, "repair".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..catalog.commit.checkpointer import put_segments
from ..catalog.commit.writer import Writer
from ..catalog.format.names import base_folder, mirror_key, parse_log_object
from ..catalog.read.log_reader import LogReader
from ..errors import CorruptObject, LakelogError, UsageError
from .check import check
from .copies import LOG, MIRROR, MISSING, read_pairs
from .findings import RepairPlan, RepairReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from .check import Place
    from .findings import CheckReport, Finding

_ORDER: Final = ("copy", "checkpoint", "remove-file")


def plan_repair(
    catalog: Place,
    database: str | None = None,
    *,
    writer: str | None = None,
    report: CheckReport | None = None,
    progress: Callable[[int], None] = lambda number: None,
) -> RepairPlan:
    """Plans the repair of a database, or of all.

    Args:
        database, writer: Only of this one; None: all.
        report: A check's; made here, at the level `files`, if not given.
        progress: Called with the number of objects that were looked at since the last call.
    Raises, Requests: As for `check.check`; nothing with a report.
    """
    if report is None:
        report = check(catalog, database, writer=writer, level="files", progress=progress)
    found = [
        finding
        for finding in report.findings
        if (database is None or finding.database == database)
        and (writer is None or finding.writer == writer)
    ]
    steps: dict[tuple[object, ...], Finding] = {}
    for remedy in _ORDER:
        for finding in (one for one in found if one.remedy == remedy):
            # A checkpoint is computed once, whatever of it is damaged.
            key = finding.revision if finding.remedy == "checkpoint" else finding.object
            which = finding.remedy, finding.writer, finding.database, key
            steps.setdefault(which, finding)
    left = (one for one in found if one.severity == "error" and one.remedy not in _ORDER)
    return RepairPlan(catalog.url, tuple(steps.values()), tuple(left))


def execute_repair(
    catalog: Place, plan: RepairPlan, *, progress: Callable[[int], None] = lambda number: None
) -> RepairReport:
    """Does what a plan says. Each step looks again first.

    Raises:
        UsageError: The plan is of another catalog, or names a key that no repair writes.
        StorageError: The store failed. What was done is kept; run the repair again.
    Requests: for a copy 4 GET, 1 LIST and 1 PUT; for a checkpoint those of reading the log below it
        and 1 PUT for each segment; for a file one commit.
    """
    if plan.url != catalog.url:
        raise UsageError(
            f"The plan was made for {plan.url}, this is {catalog.url}", hint="Make the plan again"
        )
    for step in plan.steps:
        _check_step(step)
    copied = checkpoints = removed = rows = 0
    left = [f"{one.object} {one.problem}" for one in plan.left]
    for step in plan.steps:
        if step.remedy == "copy":
            copied += _copy(catalog, step, left)
        elif step.remedy == "checkpoint":
            checkpoints += _write_checkpoint(catalog, step, left)
        elif _remove(catalog, step, left):
            removed += 1
            rows += step.rows or 0
        progress(1)
    return RepairReport(plan, True, copied, checkpoints, removed, rows, tuple(left))


def _check_step(step: Finding) -> None:
    """Refuses keys that no repair writes: a saved report is data of unknown origin."""
    base = base_folder(step.writer, step.database)
    folder, _, name = step.object.removeprefix(base).removeprefix("mirror/").partition("/")
    is_log = step.object.startswith(base) and folder in {"transactions", "segments"}
    fits = step.remedy == "remove-file" or (is_log and "/" not in name)
    if not fits or step.remedy not in _ORDER:
        raise UsageError(
            f"The plan names {step.object[:200]!r}, which no repair writes",
            hint="Make the plan again",
        )


def _copy(catalog: Place, step: Finding, left: list[str]) -> int:
    """Copies one object to the other place, if that is still missing or damaged there."""
    source = step.other_copy
    own, target = step.object, LOG
    if step.object == mirror_key(source):
        own, target = source, MIRROR
    (pair,) = read_pairs(catalog.store, [own], {})
    there, body = pair[target], pair[1 - target].body
    if there.body is not None and there.body == body:
        return 0  # somebody else was first
    if body is None:
        left.append(f"{step.object} {step.problem}, and {source} can't be read any more")
        return 0
    if own.endswith(".transaction") and there.body is not None:
        left.append(f"{step.object} and {source} are two commits of one revision")
        return 0  # each is the only copy of its own
    log = LogReader(catalog.store, step.writer, step.database, catalog.ambient)
    item = parse_log_object(own.removeprefix(log.folder))
    if item and item.revision < max(log.copies(item.incarnation).checkpoints, default=0):
        return 0  # pruned since
    # Missing: any process that puts it has the same bytes. Damaged: it is replaced.
    try:
        catalog.store.put(step.object, body, if_absent=there.problem == MISSING)
    except LakelogError:
        if catalog.store.get_many([step.object])[0] != body:
            raise
    return 1


def _write_checkpoint(catalog: Place, step: Finding, left: list[str]) -> int:
    """Computes a checkpoint from what is below it, and puts it in its place with new segments."""
    from ..catalog.log.checkpoint import encode_state

    log = LogReader(catalog.store, step.writer, step.database, catalog.ambient)
    listing = log.names_of_both()
    revision = -1 if step.revision is None else step.revision
    items = listing.checkpoints.pop(revision, [])
    # Other checkpoints may lack what this one lacks: only what the log begins with is a base.
    first = min(listing.checkpoints, default=-1)
    whole = listing.run_start(revision) == 0
    listing.checkpoints = {} if whole or first < 0 else {first: listing.checkpoints[first]}
    try:
        if not items:
            raise CorruptObject(f"there is no checkpoint of revision {revision} any more")
        state = log.load(revision, listing)
        encoded = encode_state(state, retained_from=0, salt=catalog.ambient.new_id())
    except LakelogError as error:
        left.append(f"{step.object} can't be computed: {error.message}")
        return 0
    put_segments(log, encoded, exclusive=True)
    catalog.store.put(log.folder + encoded.name, encoded.body)
    return 1


def _remove(catalog: Place, step: Finding, left: list[str]) -> bool:
    """Removes a data file that is gone from its table, by a commit that says so. It opens the log
    as a guest: no owner is fenced."""
    path = step.object.removeprefix(base_folder(step.writer, step.database))
    lost = f"{path} is gone: {step.rows or 0} rows of {step.table!r} are lost"
    with (
        Writer(
            catalog.store, step.writer, step.database,
            shared=True, checkpoint_every=0, ambient=catalog.ambient, wide=catalog.wide,
        ) as writer,
        writer.transaction(summary={"repair": lost}) as tx,
    ):  # fmt: skip
        try:
            tx.remove(path)
        except LakelogError as error:
            left.append(f"{step.object}: {error.message}")
            return False
    return True
