"""What a destructive step is going to do: an immutable value with a reason for each object. Pure.

Planning reads and decides; nothing is deleted before somebody hands the plan to `execute`, which
checks it again. A plan can be shown, saved and executed later; a saved plan is data of unknown
origin, so every key in it must be one that a step of its kind may delete at all.

Source: docs/maintenance.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from ..catalog.format.names import (
    base_folder,
    check_id,
    check_path,
    log_folder,
    parse_log_object,
    parse_segment_name,
    segments_folder,
)
from ..errors import InvalidPath, UsageError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable

    from ..store import ObjectInfo

Kind = Literal["prune", "gc"]
KINDS: Final[tuple[Kind, ...]] = ("prune", "gc")

Progress = Callable[[int, int, str], None]
"""Called with: how many are done, of how many, of what."""

SHOWN_NAMES: Final = 100
_SUFFIX: Final = ".parquet"
_ANEW: Final = "Make a new plan"
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class Deletion:
    """One object to be deleted.

    Attributes:
        key: Relative to the root.
        size_bytes: As listed.
        reason: Why it may go, in words.
    """

    key: str
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Objects that stay, for one reason.

    Attributes:
        reason: Why, in words.
        objects: How many.
        size_bytes: Of all of them.
        names: Keys of the first `SHOWN_NAMES` of them, where they are worth naming; ascending.
    """

    reason: str
    objects: int
    size_bytes: int
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, reason: str, infos: Iterable[ObjectInfo], *, named: bool) -> Kept:
        """The summary of these objects.

        Args:
            named: Whether to name them, as far as there is room.
        """
        listed = sorted(infos, key=lambda info: info.key)
        names = tuple(info.key for info in listed[:SHOWN_NAMES]) if named else ()
        return cls(reason, len(listed), sum(info.size_bytes for info in listed), names)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the plan was based on.

    Attributes:
        head: Newest revision.
        head_digest: Digest of its transaction, hex.
        epoch: Of the head.
        oldest: Oldest revision that could be read.
        exclusive: Whether the store has put-if-absent (gc); None where nobody asked.
        keep_from: prune: the oldest revision that retention wants; -1 for gc.
        checkpoint: prune: key of the checkpoint that the log will begin with; empty if there is
            none, and for gc.
    """

    head: int
    head_digest: str
    epoch: int
    oldest: int
    exclusive: bool | None = None
    keep_from: int = -1
    checkpoint: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which objects of one writer and database are to be deleted, and why.

    Attributes:
        kind: prune (objects of the log) or gc (data files).
        url: The root, without secrets.
        writer, database: Whose.
        actions: What is to be deleted; prune in the order of deletion, gc by key.
        kept: What stays and why.
        notes: What the user should know; says why and what to do where there is nothing to delete.
        facts: What it was based on.
        made_at: When, UTC, by the planner's clock.
    """

    kind: Kind
    url: str
    writer: str
    database: str
    actions: tuple[Deletion, ...]
    kept: tuple[Kept, ...]
    notes: tuple[str, ...]
    facts: Facts
    made_at: dt.datetime

    @property
    def objects(self) -> int:
        """How many objects it deletes."""
        return len(self.actions)

    @property
    def size_bytes(self) -> int:
        """Bytes of all objects it deletes."""
        return sum(action.size_bytes for action in self.actions)

    def table(self) -> pa.Table:
        """The deletions as a table: key, size_bytes, reason; in the order of `actions`."""
        columns = {
            "key": pa.array([action.key for action in self.actions], pa.string()),
            "size_bytes": pa.array([action.size_bytes for action in self.actions], pa.int64()),
            "reason": pa.array([action.reason for action in self.actions], pa.string()),
        }
        return pa.table(columns)

    def text(self, *, limit: int = SHOWN_NAMES) -> str:
        """The plan for people, in lines.

        Args:
            limit: So many deletions are shown one by one.
        """
        what = f"{self.kind} of {self.writer}/{self.database} in {self.url}"
        lines = [f"{what}: {_amount(self.objects, self.size_bytes)} to delete"]
        lines += [
            f"  delete {action.key} ({size_text(action.size_bytes)}): {action.reason}"
            for action in self.actions[:limit]
        ]
        if len(self.actions) > limit:
            lines.append(f"  ... and {len(self.actions) - limit} more")
        for kept in self.kept:
            lines.append(f"  keep {_amount(kept.objects, kept.size_bytes)}: {kept.reason}")
            lines += [f"    {name}" for name in kept.names[:limit]]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def to_json(self) -> str:
        """The plan as JSON text, for `from_json`."""
        from .plan_json import encode_plan

        return encode_plan(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """A plan from `to_json`, checked.

        Raises:
            UsageError: Not a plan, or one of another format.
            InvalidPath: It names an object that no plan of this kind may delete.
        """
        from .plan_json import decode_plan

        return decode_plan(text)


@dataclass(frozen=True, slots=True)
class Report:
    """What an execution did.

    Attributes:
        kind, writer, database: Of the plan.
        deleted_objects, deleted_bytes: What was deleted now.
        gone_objects: Planned, and not there any more.
        kept: Planned, and left alone after all: what was found in the check before the deletion.
    """

    kind: Kind
    writer: str
    database: str
    deleted_objects: int
    deleted_bytes: int
    gone_objects: int = 0
    kept: tuple[Kept, ...] = ()

    def text(self) -> str:
        """The report for people, in lines."""
        what = f"{self.kind} of {self.writer}/{self.database}"
        lines = [f"{what}: {_amount(self.deleted_objects, self.deleted_bytes)} deleted"]
        if self.gone_objects:
            lines.append(f"  {self.gone_objects} of the plan were gone already")
        for kept in self.kept:
            lines.append(f"  left {_amount(kept.objects, kept.size_bytes)}: {kept.reason}")
            lines += [f"    {name}" for name in kept.names]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def check_plan(plan: Plan) -> Plan:
    """The plan, if everything in it is something that a plan of its kind may delete.

    Raises:
        UsageError: An unknown kind, or one key twice.
        InvalidName, InvalidPath: A writer, database or key that breaks the rules of names, or a key
            that lies elsewhere.
    """
    if plan.kind not in KINDS:
        raise UsageError(f"Unknown kind of plan {plan.kind!r}", hint=f"One of {', '.join(KINDS)}")
    check_id(plan.writer, "writer")
    check_id(plan.database, "database")
    problem_of = _log_problem if plan.kind == "prune" else _data_problem
    seen: set[str] = set()
    for action in plan.actions:
        problem = problem_of(plan, action.key)
        if problem:
            raise InvalidPath(
                f"No {plan.kind} plan of {plan.writer}/{plan.database} may delete {action.key!r}: "
                f"{problem}",
                key=action.key,
                hint="The plan was not made by lakelog, or was changed. Make a new one",
            )
        if action.key in seen:
            raise UsageError("The plan names an object twice", key=action.key, hint=_ANEW)
        seen.add(action.key)
    return plan


def _log_problem(plan: Plan, key: str) -> str:
    folder = log_folder(plan.writer, plan.database)
    segments = segments_folder(plan.writer, plan.database)
    if key.startswith(segments) and parse_segment_name(key[len(segments) :]) is not None:
        return ""
    item = parse_log_object(key[len(folder) :]) if key.startswith(folder) else None
    if item is None:
        return f"it is no log object below {folder} or {segments}"
    first = parse_log_object(plan.facts.checkpoint.removeprefix(folder))
    if first is None or first.kind != "checkpoint":
        return "the plan names no checkpoint that survives"
    if (item.incarnation, item.revision) >= (first.incarnation, first.revision):
        return f"it is not older than the checkpoint of revision {first.revision}"
    return ""


def _data_problem(plan: Plan, key: str) -> str:
    base = base_folder(plan.writer, plan.database)
    if not key.startswith(base):
        return f"it is not below {base}"
    return "" if is_data_path(key[len(base) :]) else "it is no Parquet file below data/"


def is_data_path(path: str) -> bool:
    """Whether a path, relative to `<writer>/<database>/`, may be that of a data file.

    No others are ever deleted by gc.
    """
    try:
        check_path(path)
    except InvalidPath:
        return False
    return path.endswith(_SUFFIX) and not path.endswith("/" + _SUFFIX)


def size_text(size_bytes: int) -> str:
    """A size for people."""
    value, unit = float(size_bytes), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{size_bytes} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def _amount(objects: int, size_bytes: int) -> str:
    return f"{objects} object{'' if objects == 1 else 's'} ({size_text(size_bytes)})"
