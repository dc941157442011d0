"""Plans of gc and prune: a reason for each object to delete; and reports of executions. Pure.

A saved plan is data of unknown origin, so every key in it must be one that a step of its kind may
delete at all.

Source: docs/maintenance.md.
"""

from __future__ import annotations

import dataclasses
import datetime as dt  # noqa: TC003 - `decode_plan` looks the types of fields up
from dataclasses import dataclass
from fnmatch import fnmatchcase
from heapq import nsmallest
from typing import TYPE_CHECKING, Final, Literal, get_args

from ..catalog.format.names import (
    DataFile,
    base_folder,
    check_id,
    check_path,
    log_folder,
    mirror_log_folder,
    mirror_segments_folder,
    parse_data_file,
    parse_deletes_file,
    parse_log_object,
    parse_replica_file,
    parse_segment_name,
    segments_folder,
)
from ..errors import InvalidPath, UsageError
from ..plans.contract import Effect, Field, Group, as_text
from ..plans.saved import decode_plan, encode_plan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ..store import ObjectInfo

Kind = Literal["prune", "gc"]

SHOWN_NAMES: Final = 100
_DATA: Final = "data/"
_FOLDERS: Final = 3  # of a data file's path: data, at least one of a partition, the table
_ANEW: Final = "Make a new plan"
_ACTION: Final = (Field("key"), Field("size_bytes", "SIZE", style="size"), Field("reason"))
_KEPT: Final = (
    Field("objects", style="count"),
    Field("size_bytes", "SIZE", style="size"),
    Field("reason"),
    Field("names", shown=False),
)


@dataclass(frozen=True, slots=True)
class Deletion:
    """An object to be deleted.

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
    """Objects that stay for one reason.

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
        """Returns the summary of these objects.

        Args:
            named: Whether to name the first `SHOWN_NAMES` of them.
        """
        listed = list(infos)  # there may be a million
        first = nsmallest(SHOWN_NAMES, (info.key for info in listed)) if named else ()
        return cls(reason, len(listed), sum(info.size_bytes for info in listed), tuple(first))


@dataclass(frozen=True, slots=True)
class Facts:
    """What the plan was based on.

    Attributes:
        head: The newest revision.
        head_digest: The digest of its transaction, hex.
        checkpoint: prune: key of the checkpoint that the log will begin with; empty if there is
            none, and for gc.
        strays: gc: patterns of paths; files that match are planned though lakelog didn't name them.
    """

    head: int
    head_digest: str
    checkpoint: str = ""
    strays: tuple[str, ...] = ()


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
        """The number of objects that it deletes."""
        return len(self.actions)

    @property
    def size_bytes(self) -> int:
        """Bytes of all objects it deletes."""
        return sum(action.size_bytes for action in self.actions)

    @property
    def effect(self) -> Effect:
        """A summary of what it deletes."""
        return Effect("delete", "object", self.objects, self.size_bytes)

    def groups(self) -> tuple[Group, ...]:
        """Returns what it deletes, and what stays."""
        actions = tuple(dataclasses.asdict(action) for action in self.actions)
        return (Group("actions", "", _ACTION, actions), describe_kept("stays", self.kept))

    def describe(self) -> str:
        """Returns the plan as text."""
        return as_text(self)

    def to_json(self) -> str:
        """Returns the plan as JSON text, for `from_json`."""
        return encode_plan(self, "actions")

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Returns a plan from `to_json`, checked.

        Raises:
            UsageError: Not a plan, or one of another format.
            InvalidPath: It names an object that no plan of this kind may delete.
        """
        return check_plan(decode_plan(cls, text))


@dataclass(frozen=True, slots=True)
class Report:
    """What an execution did.

    Attributes:
        kind, writer, database: Of the plan.
        deleted_objects, deleted_bytes: What this execution deleted.
        gone_objects: Planned, and gone before.
        kept: Planned, and left alone after all: what was found in the check before the deletion.
        exact: Whether the store says if an object was there to be deleted. If not, what another
            execution deleted at the same time counts as deleted here too.
    """

    kind: Kind
    writer: str
    database: str
    deleted_objects: int
    deleted_bytes: int
    gone_objects: int = 0
    kept: tuple[Kept, ...] = ()
    exact: bool = True


def describe_kept(title: str, kept: tuple[Kept, ...]) -> Group:
    """Returns objects that stay, as a group of a plan or a report."""
    return Group("kept", title, _KEPT, tuple(dataclasses.asdict(item) for item in kept))


def check_plan(plan: Plan) -> Plan:
    """Returns the plan, if a plan of its kind may delete everything in it.

    Raises:
        UsageError: An unknown kind, or one key twice.
        InvalidName, InvalidPath: It has a writer, database or key that no such plan may name.
    """
    if plan.kind not in get_args(Kind):
        raise UsageError(f"Unknown kind of plan {plan.kind!r}", hint=_ANEW)
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
    names = plan.writer, plan.database
    segments = segments_folder(*names), mirror_segments_folder(*names)
    folders = log_folder(*names), mirror_log_folder(*names)
    if any(key.startswith(at) and parse_segment_name(key[len(at) :]) for at in segments):
        return ""
    items = [parse_log_object(key[len(at) :]) for at in folders if key.startswith(at)]
    item = items[0] if items else None
    if item is None:
        return f"it is no log object below {' or '.join((*folders, *segments))}"
    first = parse_log_object(plan.facts.checkpoint.removeprefix(folders[0]))
    if first is None or first.kind != "checkpoint":
        return "the plan names no checkpoint that survives"
    if (item.incarnation, item.revision) >= (first.incarnation, first.revision):
        return f"it is not older than the checkpoint of revision {first.revision}"
    return ""


def _data_problem(plan: Plan, key: str) -> str:
    base = base_folder(plan.writer, plan.database)
    path = key.removeprefix(base)
    if not key.startswith(base + _DATA) or not _is_path(path):
        return f"it is not below {base}{_DATA}"
    if not is_own(path) and not is_asked_for(path, plan.facts.strays):
        return "lakelog didn't name it, and no pattern of the plan's strays asks for it"
    return ""


def own_name(path: str) -> DataFile | None:
    """Returns the parts of the name of a file or object below `data/` that a writer put; else None.

    Args:
        path: Relative to `<writer>/<database>/`.
    """
    if path.count("/") < _FOLDERS or not _is_path(path):
        return None
    return parse_data_file(path) or parse_deletes_file(path)


def is_own(path: str) -> bool:
    """Checks whether lakelog named a file: as a writer, or as a replication of chosen tables."""
    replica = path.count("/") >= _FOLDERS and parse_replica_file(path) and _is_path(path)
    return bool(replica) or own_name(path) is not None


def is_asked_for(path: str, patterns: Iterable[str]) -> bool:
    """Checks whether a path that a log could name matches one of the patterns of strays."""
    return _is_path(path) and any(fnmatchcase(path, pattern) for pattern in patterns)


def _is_path(path: str) -> bool:
    try:
        check_path(path)
    except InvalidPath:
        return False
    return path.startswith(_DATA)


# --- What was deleted -----------------------------------------------------------------------------


@dataclass(slots=True)
class Deleted:
    """Counts what an execution has deleted; several may execute the same plan at once.

    Attributes:
        objects, size_bytes: Deleted by this execution; or by another one meanwhile, if not `exact`.
        gone: Already deleted by something else.
        exact: Whether the store reports for each object if it was there: a local file system does,
            S3 doesn't.
    """

    objects: int = 0
    size_bytes: int = 0
    gone: int = 0
    exact: bool = True

    def add(self, asked: Sequence[Deletion], gone: Collection[str] | None) -> None:
        """Counts one more batch; `gone` is the answer of `Store.delete`."""
        done = [action for action in asked if gone is None or action.key not in gone]
        self.objects += len(done)
        self.size_bytes += sum(action.size_bytes for action in done)
        self.gone += len(asked) - len(done)
        self.exact = self.exact and (gone is not None or not asked)

    def report(self, plan: Plan, gone: int = 0, kept: tuple[Kept, ...] = ()) -> Report:
        """Returns the report; `gone` counts objects of the plan that no longer existed."""
        return Report(
            plan.kind, plan.writer, plan.database, self.objects, self.size_bytes,
            self.gone + gone, kept, self.exact,
        )  # fmt: skip
