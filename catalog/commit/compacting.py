"""Compaction: small files of a table, and files with many deleted rows, rewritten into fewer.

A plan follows from the log alone. It is groups of files of one log, one table, one partition and
one schema. They become commits of a guest, so that no live writer is fenced, and what has been
rewritten stays so wherever a run ends.

Source: docs/maintenance.md, "Read faster".
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ...errors import UsageError
from ..log.lookup import files_with
from ..read.file_parts import projected
from ..read.keys import GREATEST, LEAST, key_ranges
from .carrying import Carrying
from .change_all import OVERTAKEN
from .sorting import MEMORY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import pyarrow as pa

    from ..log.state import State
    from ..read.cut_tables import CutTables
    from .writer import Writer

Status = Literal["planned", "done", "overtaken", "not begun"]

TARGET_BYTES: Final = 256 << 20
GROUP_BYTES: Final = 2 << 30
_SMALL: Final = 0.75  # of the target: a file below it is small
_GROUP_FILES: Final = 20_000
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """What is rewritten, and into what. The names are those of Iceberg's `rewrite_data_files`.

    Attributes:
        target_file_size_bytes: Of the new files. Files below three quarters of it are small.
        min_input_files: The fewest small files that are rewritten together.
        delete_ratio_threshold: The share of deleted rows, by number, from which on a file is
            rewritten whatever its size.
        max_group_bytes: The most that one commit rewrites, but for files that overlap.
        sort_by: Columns by which the rows of a group are sorted. Files are rewritten then whose
            ranges of the first of these overlap, too. None: rows keep the order of their commits,
            and files are read as streams.
        memory_bytes: What sorted rows may take in memory; a group with more is read several times.
        time_limit_s: No group is begun later than so many seconds after the first; None: no limit.
        tiered: Leave files that are larger than all newer ones of a group together: who compacts
            as it writes rewrites no row more often than its table doubles.
    """

    target_file_size_bytes: int = TARGET_BYTES
    min_input_files: int = 5
    delete_ratio_threshold: float = 0.3
    max_group_bytes: int = GROUP_BYTES
    sort_by: tuple[str, ...] = ()
    time_limit_s: float | None = None
    memory_bytes: int = MEMORY_BYTES
    tiered: bool = False

    def __post_init__(self) -> None:
        counts = ("target_file_size_bytes", "min_input_files", "max_group_bytes", "memory_bytes")
        for name in counts:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{name}= is a whole number from 1 on, not {value!r}", key=name)
        numbers = (self.delete_ratio_threshold, self.time_limit_s or 0.0)
        if not all(isinstance(one, int | float) for one in numbers) or not numbers[1] >= 0:
            raise UsageError(
                "delete_ratio_threshold= and time_limit_s= are numbers, from 0 on",
                key="time_limit_s",
            )
        if not 0 < self.delete_ratio_threshold <= 1:
            raise UsageError(
                f"delete_ratio_threshold= is above 0 and at most 1, not "
                f"{self.delete_ratio_threshold!r}",
                key="delete_ratio_threshold",
                hint="0.3 rewrites files that have three of ten rows deleted",
            )


@dataclass(frozen=True, slots=True)
class CompactGroup:
    """Files that are rewritten together.

    Attributes:
        writer, table, partition: Where the files belong.
        paths: Of the files, in the order of their commits.
        size_bytes, row_count: Of all of them together, deleted rows included.
        deleted_rows: How many of these are deleted by number.
        reason: Why: `small files`, `deleted rows`, or `overlap`: ranges of the first column that
            sorts them.
        status: planned; done; overtaken: others gave the table a key, or took files out three
            times while it was rewritten, and nothing of it was committed; not begun: the time limit
            came first.
        revision: Of its commit.
        files_after, size_after_bytes: Of the new files, once it is done.
    """

    writer: str
    table: str
    partition: str
    paths: tuple[str, ...]
    size_bytes: int
    row_count: int
    deleted_rows: int
    reason: str
    status: Status = "planned"
    revision: int | None = None
    files_after: int = 0
    size_after_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction is going to do, or has done.

    Attributes:
        database: Its name.
        groups: What is rewritten, by table, writer and partition.
        files_kept: How many files stay as they are, by reason: `large enough`, `too few small
            files`, `table has a key`.
    """

    database: str
    groups: tuple[CompactGroup, ...]
    files_kept: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Checks whether there is nothing to rewrite."""
        return not self.groups

    @property
    def remaining(self) -> int:
        """How many groups are still to be rewritten."""
        return sum(group.status != "done" for group in self.groups)

    def describe(self) -> str:
        """Returns the plan or the report as text: a line a group, then what stays and why."""
        lines = []
        for group in self.groups:
            of = f"{group.table} of {group.writer}/{self.database}"
            of += f", partition {group.partition}" if group.partition else ""
            what = f"{of}: {len(group.paths):,} files, {group.size_bytes:,} bytes ({group.reason})"
            if group.status == "done":
                what += (
                    f" -> {group.files_after:,} files, {group.size_after_bytes:,} bytes, "
                    f"revision {group.revision}"
                )
            elif group.status != "planned":
                what += f": {group.status}"
            lines.append(what)
        if not self.groups:
            lines.append("nothing to compact")
        lines += [f"kept: {number:,} files ({why})" for why, number in self.files_kept.items()]
        return "\n".join(lines)


# --- The plan -------------------------------------------------------------------------------------


class TableFiles(NamedTuple):
    """The files of a table that may be rewritten.

    Attributes:
        table: Its name.
        files: As `Snapshot.files` with details.
        deleted: By writer and path, how many rows are deleted by number; none for a missing file.
        has_key: Whether the table has a key.
        ranges: By writer and path the least and the greatest value of the first column that sorts
            them; a file whose values are unknown may be missing.
    """

    table: str
    files: pa.Table
    deleted: Mapping[tuple[str, str], int]
    has_key: bool
    ranges: Mapping[tuple[str, str], tuple[Any, Any]] = {}


def sort_ranges(
    tables: CutTables, states: Sequence[State], table: str, column: str
) -> dict[tuple[str, str], tuple[Any, Any]]:
    """Returns by writer and path the least and the greatest value of a column in files of a table,
    comparable with each other, where both are known.

    Requests: those of `TableFacts.of_files` of this column.
    """
    target = projected(tables.file_schemas(table), table, [column], None).read
    found = key_ranges([tables.facts_of(state, table) for state in states], target)
    writers = [states[number].writer for number in found.logs]
    known = (found.low > LEAST) & (found.high < GREATEST)
    bounds = zip(found.low.tolist(), found.high.tolist(), strict=True)
    named = zip(writers, found.paths.to_pylist(), bounds, known, strict=True)
    return {(writer, path): bound for writer, path, bound, is_known in named if is_known}


def plan_compaction(
    database: str, tables: Iterable[TableFiles], options: CompactOptions
) -> Compaction:
    """Returns the groups to rewrite."""
    groups: list[CompactGroup] = []
    kept: Counter[str] = Counter()
    for one in tables:
        if one.has_key:
            kept["table has a key"] += one.files.num_rows
            continue
        for alike in _alike(one.files):
            groups += _groups(one, alike, options, kept)
    return Compaction(
        database, tuple(groups), {why: number for why, number in kept.items() if number}
    )


@dataclass(frozen=True, slots=True)
class _File:
    writer: str
    partition: str
    path: str
    size_bytes: int
    row_count: int
    clock: tuple[int, int]

    def follows(self, other: _File) -> bool:
        """Checks whether its rows are newer than another's by their logical clocks, too: of a key
        that the table is given later the newest row counts."""
        return self.clock == other.clock or self.clock[0] > other.clock[1]


def _alike(files: pa.Table) -> list[list[_File]]:
    """Files of one writer, partition and schema together, each in the order of their commits."""
    names = ["writer", "partition", "schema_fingerprint", "revision", "first_clock", "path"]
    files = files.sort_by([(name, "ascending") for name in names])
    more = ("last_clock", "size_bytes", "row_count")
    columns = [files.column(name).to_pylist() for name in (*names, *more)]
    found: dict[tuple[str, str, bytes], list[_File]] = {}
    for writer, partition, schema, _, first, path, last, size, rows in zip(*columns, strict=True):
        one = _File(writer, partition, path, size, rows, (first, last))
        found.setdefault((writer, partition, schema), []).append(one)
    return list(found.values())


def deleted_rows(states: Iterable[State], table: str) -> dict[tuple[str, str], int]:
    """Returns by writer and path how many rows of a table's files are deleted by number."""
    return {
        (state.writer, path): sum(entry.cardinality for entry in entries)
        for state in states
        for path, entries in state.deletes.rows_of(table).items()
    }


def _groups(
    of: TableFiles, files: Sequence[_File], options: CompactOptions, kept: Counter[str]
) -> list[CompactGroup]:
    """The groups of files that are alike; counts in `kept` those that stay."""
    gone = {one.path: of.deleted.get((one.writer, one.path), 0) for one in files}
    dirty = {
        one.path
        for one in files
        if gone[one.path] and gone[one.path] >= options.delete_ratio_threshold * one.row_count
    }
    small_bytes = _SMALL * options.target_file_size_bytes
    chosen = {one.path for one in files if one.path in dirty or one.size_bytes < small_bytes}
    if options.sort_by:
        runs, overlapping = _clustered(files, chosen, of.ranges, options.max_group_bytes)
    else:
        some = [one for one in files if one.path in chosen]
        some = _newest(some) if options.tiered else some
        runs, overlapping = _packed(some, options.max_group_bytes), set()
    kept["large enough"] += len(files) - len(chosen | {one.path for run in runs for one in run})
    kept["too few small files"] += len(chosen) - len(
        chosen.intersection(one.path for run in runs for one in run)
    )
    groups = []
    for part in runs:
        size_bytes = sum(one.size_bytes for one in part)
        expected = -(-size_bytes // options.target_file_size_bytes)
        paths = tuple(one.path for one in part)
        if not dirty.isdisjoint(paths):
            reason = "deleted rows"
        elif not overlapping.isdisjoint(paths):
            reason = "overlap"
        elif len(part) >= options.min_input_files and expected < len(part):
            reason = "small files"
        else:
            kept["too few small files"] += len(part)
            continue
        groups.append(
            CompactGroup(
                part[0].writer, of.table, part[0].partition, paths, size_bytes,
                sum(one.row_count for one in part), sum(gone[path] for path in paths), reason,
            )
        )  # fmt: skip
    return groups


_TINY_BYTES: Final = 64 << 10


def _newest(files: Sequence[_File]) -> list[_File]:
    """Returns the newest files, back to the first that is larger than all newer ones together.

    Args:
        files: In the order of their commits.
    """
    found: list[_File] = []
    size_bytes = _TINY_BYTES
    for one in reversed(files):
        if found and one.size_bytes > size_bytes:
            break
        found.append(one)
        size_bytes += one.size_bytes
    return found[::-1]


def _clustered(
    files: Sequence[_File],
    chosen: Collection[str],
    ranges: Mapping[tuple[str, str], tuple[Any, Any]],
    limit_bytes: int,
) -> tuple[list[list[_File]], set[str]]:
    """Files in runs so that none that stays lies between those of a run, and which of them overlap
    others. Ranges that only touch don't: sorted files may share the value at which they part.

    Args:
        chosen: Paths of those that may be rewritten anyway.
        limit_bytes: Of a run; more only where all of it overlaps.
    """
    known = [one for one in files if (one.writer, one.path) in ranges]
    known.sort(key=lambda one: ranges[one.writer, one.path])
    parts: list[list[_File]] = []
    reach: Any = None
    for one in known:
        low, high = ranges[one.writer, one.path]
        if parts and low < reach:
            parts[-1].append(one)
            reach = max(reach, high)
        else:
            parts.append([one])
            reach = high
    overlapping = {one.path for part in parts if len(part) > 1 for one in part}
    parts += [[one] for one in files if (one.writer, one.path) not in ranges]
    runs: list[list[_File]] = []
    is_open, size_bytes = False, 0
    for part in parts:
        if len(part) == 1 and part[0].path not in chosen:
            is_open = False
            continue
        part_bytes = sum(one.size_bytes for one in part)
        if not is_open or size_bytes + part_bytes > limit_bytes:
            runs.append([])
            is_open, size_bytes = True, 0
        runs[-1] += part
        size_bytes += part_bytes
    return runs, overlapping


def _packed(files: Sequence[_File], limit_bytes: int) -> list[list[_File]]:
    """Files in runs of at most so many bytes, in the order of their clocks; a larger file alone."""
    runs: list[list[_File]] = []
    size_bytes = 0
    for one in files:
        is_full = not runs or len(runs[-1]) == _GROUP_FILES
        is_full = is_full or size_bytes + one.size_bytes > limit_bytes
        if is_full or not one.follows(runs[-1][-1]):
            runs.append([])
            size_bytes = 0
        runs[-1].append(one)
        size_bytes += one.size_bytes
    return runs


# --- Its execution --------------------------------------------------------------------------------


def execute_compaction(
    plan: Compaction,
    opened: Callable[[str], Writer],
    options: CompactOptions,
    step: Callable[[int, int], None] = lambda done, total: None,
) -> Compaction:
    """Rewrites the groups, small ones of several partitions in one commit; returns the plan with
    what became of each.

    Args:
        opened: Opens the log of a writer as a guest.
        step: Called after each commit: how many groups are done, of how many.
    Raises:
        CapabilityMissing: The store has no put-if-absent, so that there are no guests.
        Else as `Transaction.rewrite`: groups that were done before stay done.
    Requests: for each log those of opening a writer; for each commit those of
        `Transaction.rewrite` and of a commit.
    """
    began_s = time.monotonic()
    done: list[CompactGroup] = []
    with ExitStack() as stack:
        writers: dict[str, Writer] = {}
        for groups in _batches(plan.groups, options.target_file_size_bytes):
            is_late = options.time_limit_s is not None and (
                time.monotonic() - began_s >= options.time_limit_s
            )
            if is_late:
                done += (replace(group, status="not begun") for group in groups)
                continue
            name = groups[0].writer
            if name not in writers:
                writers[name] = stack.enter_context(opened(name))
            done += _rewritten(writers[name], groups, options)
            step(len(done), len(plan.groups))
    return replace(plan, groups=tuple(done))


def _batches(groups: Sequence[CompactGroup], limit_bytes: int) -> list[list[CompactGroup]]:
    """Groups that go into one commit: of one table of one writer, each of another partition."""
    found: list[list[CompactGroup]] = []
    size_bytes = 0
    for group in groups:
        last = found[-1][-1] if found else None
        if (
            last is None
            or (last.writer, last.table) != (group.writer, group.table)
            or size_bytes + group.size_bytes > limit_bytes
            or group.partition in {one.partition for one in found[-1]}
        ):
            found.append([])
            size_bytes = 0
        found[-1].append(group)
        size_bytes += group.size_bytes
    return found


def _rewritten(
    writer: Writer, groups: Sequence[CompactGroup], options: CompactOptions
) -> list[CompactGroup]:
    """Rewrites groups in one commit; again without the files that others have taken out
    meanwhile."""
    table = groups[0].table
    for turn in range(_TRIES):
        tx = writer.transaction(operation="rewrite", summary={"job": "compact"})
        tx._carrying, tx._memory_bytes = Carrying(), options.memory_bytes
        paths = [path for group in groups for path in group.paths]
        paths = paths if turn == 0 else _live(writer, table, paths)
        try:
            tx.rewrite(
                table, paths,
                sort_by=options.sort_by or None, file_bytes=options.target_file_size_bytes,
            )  # fmt: skip
            info = tx.commit()
        except OVERTAKEN:
            tx.discard()
            continue
        except UsageError:
            tx.discard()
            if tx._files_stay(table):  # this log, or another one, has given it a key meanwhile
                break
            raise
        except BaseException:
            tx.discard()
            raise
        added: dict[str, list[int]] = {}
        for action in tx._intent.actions:
            if action.HasField("add"):
                added.setdefault(action.add.partition, []).append(action.add.size_bytes)
        return [
            replace(
                group,
                status="done",
                revision=None if info is None else info.revision,
                files_after=len(added.get(group.partition, ())),
                size_after_bytes=sum(added.get(group.partition, ())),
            )
            for group in groups
        ]
    return [replace(group, status="overtaken") for group in groups]


def _live(writer: Writer, table: str, paths: Sequence[str]) -> list[str]:
    """The files that are still there."""

    def asked(state: State) -> list[str]:
        files = files_with(state, paths)
        return [path for path in paths if files.is_live(table, path)]

    return writer._session.ask(asked)
