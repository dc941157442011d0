"""Repair: puts a damaged log back to what it was, from the findings of a check.

Whatever one of the two places still has is copied to the other, byte for byte: the log is then the
same log, with the same revisions and tokens. A checkpoint that neither has is computed from the
transactions below it. A data file that is gone for good is taken out of its table by a commit that
says how many rows that costs. What needs more than that, both copies of a transaction, is a matter
for a rebuild.

A whole transaction is never put over another one: where the two copies of a revision are different
commits, the end of the log was lost and somebody went on, and each is the only copy of its rows.

Order: copies first, since nothing can be committed to a log that has lost its end; then
checkpoints; then commits. Each step looks again before it writes, so a plan can be executed late,
or twice.

Source: docs/maintenance.md, "Repair".
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from ..catalog.commit.checkpointer import put_segments
from ..catalog.commit.writer import Writer
from ..catalog.format.frame import FrameKind, decode_frame
from ..catalog.format.names import base_folder, mirror_key, parse_log_object
from ..catalog.format.objects import decode_checkpoint, decode_transaction
from ..catalog.read.log_reader import LogReader
from ..errors import CorruptObject, LakelogError, UsageError
from .check import Place, check, read_pairs
from .findings import CheckReport, Finding, findings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a repair does.

    Attributes:
        kind: `copy`, `checkpoint`, `remove-file`; `none` for a finding that repair can't mend.
        writer, database: The log.
        target: The key that is written; of a file, the one that is taken out of its table.
        source: The key that is copied; empty for other steps.
        table: Of a file, its table.
        rows: Rows that are lost by the step.
        revision: Of a checkpoint.
        reason: What is wrong.
    """

    kind: str
    writer: str
    database: str
    target: str
    source: str = ""
    table: str = ""
    rows: int = 0
    reason: str = ""
    revision: int = -1


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What a repair is going to do: an immutable value without a store.

    Attributes:
        url: The root that it was made for.
        steps: In the order in which they are done.
    """

    url: str
    steps: tuple[Step, ...]

    @property
    def to_do(self) -> tuple[Step, ...]:
        """The steps that change something."""
        return tuple(step for step in self.steps if step.kind != "none")

    def describe(self) -> str:
        """Returns the plan as text: a line for each folder that objects are copied to, and for each
        other step."""
        lines, copies = [], [step for step in self.steps if step.kind == "copy"]
        for folder in dict.fromkeys(step.target.rpartition("/")[0] for step in copies):
            some = [step for step in copies if step.target.rpartition("/")[0] == folder]
            number = "1 object" if len(some) == 1 else f"{len(some):,} objects"
            source = some[0].source.rpartition("/")[0]
            name = some[0].target.rpartition("/")[2]
            first = f"{'' if len(some) == 1 else 'the first: '}{name} {some[0].reason}"
            lines.append(f"copy {number} from {source}/ to {folder}/ ({first})")
        for step in self.steps:
            if step.kind == "checkpoint":
                text = f"compute the checkpoint {step.target} from the transactions below it"
            elif step.kind == "remove-file":
                lost = "1 row is lost" if step.rows == 1 else f"{step.rows:,} rows are lost"
                text = f"remove {step.target} from table {step.table!r}: {lost}"
            elif step.kind == "none":
                text = f"a repair can't mend {step.target}"
            else:
                continue
            lines.append(f"{text} ({step.reason})")
        return "\n".join(lines) or "nothing to repair"

    def to_json(self) -> str:
        """Returns the plan as text, for `from_json`."""
        steps = [asdict(step) for step in self.steps]
        return json.dumps({"repair": _VERSION, "url": self.url, "steps": steps}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> RepairPlan:
        """Reads a saved plan.

        Raises:
            UsageError: The text is none.
        """
        try:
            found = json.loads(text)
            if found["repair"] != _VERSION:
                raise ValueError("another version")
            return cls(str(found["url"]), tuple(Step(**step) for step in found["steps"]))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"This is no saved plan of a repair: {error}", hint="Make the plan again"
            ) from error


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair has done.

    Attributes:
        plan: What was planned.
        executed: Whether it was done; if not, all else is 0.
        copied: Objects that were put back from their copies.
        checkpoints: Checkpoints that were computed.
        removed: Data files that were taken out of their tables.
        rows_lost: Rows of these.
        left: Findings that are still to be mended, in words.
    """

    plan: RepairPlan
    executed: bool = False
    copied: int = 0
    checkpoints: int = 0
    removed: int = 0
    rows_lost: int = 0
    left: tuple[str, ...] = ()


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
    return RepairPlan(catalog.url, tuple(_steps(found)))


def _steps(found: list[Finding]) -> Iterable[Step]:
    done: set[tuple[str, str, int | None]] = set()

    def step(kind: str, finding: Finding, source: str = "") -> Step:
        return Step(
            kind, finding.writer, finding.database, finding.object, source, finding.table,
            (finding.rows or 0) if kind == "remove-file" else 0, finding.problem,
            -1 if finding.revision is None else finding.revision,
        )  # fmt: skip

    for finding in findings_of(found, "copy"):
        source = _other_place(finding.object)
        yield step("copy", finding, source)
    for finding in findings_of(found, "checkpoint"):
        which = finding.writer, finding.database, finding.revision
        if which not in done:  # whatever of it is damaged, it is written once
            done.add(which)
            yield step("checkpoint", finding)
    for finding in findings_of(found, "remove-file"):
        yield step("remove-file", finding)
    for finding in found:
        if finding.severity == "error" and finding.mend not in (
            "copy",
            "checkpoint",
            "remove-file",
        ):
            yield step("none", finding)


def _other_place(key: str) -> str:
    """Returns the key of an object's other copy."""
    writer, database, rest = key.split("/", 2)
    if rest.startswith("mirror/"):
        return f"{writer}/{database}/{rest.removeprefix('mirror/')}"
    return mirror_key(key)


def execute_repair(
    catalog: Place, plan: RepairPlan, *, progress: Callable[[int], None] = lambda number: None
) -> RepairReport:
    """Does what a plan says. Each step looks again first.

    Raises:
        UsageError: The plan is of another catalog, or names a key that no repair writes.
        StorageError: The store failed. What was done stands; run the repair again.
    Requests: for a copy 4 GET, 1 LIST and 1 PUT; for a checkpoint those of reading the log below it
        and 1 PUT for each segment; for a file one commit.
    """
    if plan.url != catalog.url:
        raise UsageError(
            f"The plan was made for {plan.url}, this is {catalog.url}", hint="Make the plan again"
        )
    copied = checkpoints = removed = rows = 0
    left: list[str] = []
    for step in plan.steps:
        _check_step(step)
    for step in plan.steps:
        if step.kind == "none":
            left.append(f"{step.target} {step.reason}")
        elif step.kind == "copy":
            copied += _copy(catalog, step, left)
        elif step.kind == "checkpoint":
            checkpoints += _write_checkpoint(catalog, step, left)
        progress(1)
    for step in plan.steps:
        if step.kind == "remove-file" and _remove(catalog, step, left):
            removed += 1
            rows += step.rows
    return RepairReport(plan, True, copied, checkpoints, removed, rows, tuple(left))


def _check_step(step: Step) -> None:
    """Refuses keys that no repair writes: a saved plan is data of unknown origin."""
    base = base_folder(step.writer, step.database)
    folders = ("transactions/", "segments/", "mirror/transactions/", "mirror/segments/")
    fits = step.kind in ("none", "remove-file") or any(
        step.target.startswith(base + folder) and "/" not in step.target[len(base + folder) :]
        for folder in folders
    )
    if not fits or (step.kind == "copy" and step.source != _other_place(step.target)):
        raise UsageError(
            f"The plan names {step.target[:200]!r}, which no repair writes",
            hint="Make the plan again",
        )


def _decoder(key: str) -> Callable[[bytes, str], Any]:
    kind = key.rsplit(".", 1)[-1]
    if kind == "transaction":
        return decode_transaction
    if kind == "checkpoint":
        return decode_checkpoint
    return lambda body, name: decode_frame(body, FrameKind.SEGMENT, name)


def _copy(catalog: Place, step: Step, left: list[str]) -> int:
    """Copies one object to the other place, if that is still missing or damaged there."""
    own = step.target.replace("/mirror/", "/", 1) if "/mirror/" in step.target else step.target
    target = 1 if own != step.target else 0
    pair = read_pairs(catalog.store, [own], _decoder(own))[0]
    body = pair.bodies[1 - target]
    if pair.decoded[target] is not None and pair.bodies[target] == body:
        return 0  # somebody else was first
    if body is None:
        left.append(f"{step.target} {step.reason}, and {step.source} can't be read any more")
        return 0
    if own.endswith(".transaction") and pair.decoded[target] is not None:
        left.append(f"{step.target} and {step.source} are two commits of one revision")
        return 0  # each is the only copy of its own
    log = LogReader(catalog.store, step.writer, step.database, catalog.ambient)
    item = parse_log_object(own.rsplit("/", 1)[-1])
    if item is not None and item.revision < max(log.copies().checkpoints, default=0):
        return 0  # pruned since
    # Missing: whoever puts it first has the same bytes. Damaged: it is replaced.
    missing = pair.bodies[target] is None and pair.errors[target] == "is missing"
    try:
        catalog.store.put(step.target, body, if_absent=missing)
    except LakelogError:
        if catalog.store.get_many([step.target])[0] != body:
            raise
    return 1


def _write_checkpoint(catalog: Place, step: Step, left: list[str]) -> int:
    """Computes a checkpoint from what is below it, and puts it in its place with new segments."""
    from ..catalog.log.checkpoint import encode_state

    log = LogReader(catalog.store, step.writer, step.database, catalog.ambient)
    listing = log.names_of_both()
    items = listing.checkpoints.pop(step.revision, [])
    # Other checkpoints may lack what this one lacks: only what the log begins with is a base.
    first = min(listing.checkpoints, default=-1)
    whole = listing.run_start(step.revision) == 0
    listing.checkpoints = {} if whole or first < 0 else {first: listing.checkpoints[first]}
    try:
        if not items:
            raise CorruptObject(f"there is no checkpoint of revision {step.revision} any more")
        state = log.load(step.revision, listing)
        encoded = encode_state(state, retained_from=0, salt=catalog.ambient.new_id())
    except LakelogError as error:
        left.append(f"{step.target} can't be computed: {error.message}")
        return 0
    put_segments(log, encoded, exclusive=True)
    catalog.store.put(log.folder + encoded.name, encoded.body)
    return 1


def _open(catalog: Place, step: Step) -> Writer:
    """Opens a log as a guest: no owner is fenced."""
    return Writer(
        catalog.store, step.writer, step.database,
        shared=True, checkpoint_every=0, ambient=catalog.ambient, wide=catalog.wide,
    )  # fmt: skip


def _remove(catalog: Place, step: Step, left: list[str]) -> bool:
    """Takes a data file that is gone out of its table, by a commit that says so."""
    folder = base_folder(step.writer, step.database)
    path = step.target.removeprefix(folder)
    with (
        _open(catalog, step) as writer,
        writer.transaction(
            summary={"repair": f"{path} is gone: {step.rows} rows of {step.table!r} are lost"}
        ) as tx,
    ):
        try:
            tx.remove(path)
        except LakelogError as error:
            left.append(f"{step.target}: {error.message}")
            return False
    return True
