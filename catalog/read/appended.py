"""What the commits of some logs did to one table, one by one, and the rows that they appended. Of
values that were read.

Source: docs/spark.md, "Streams".
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import NotAppended
from ..data.unify import FileSchema, distinct
from ..format import compute as pc
from ..format.columns import numbers, text_scalar
from ..format.cut import TOKEN_DIGEST_BYTES, Position
from ..log.changelog import DELETE, INSERT
from .commits_between import Found, RowStep, Seen, Stamp, told_columns
from .delete_plan import parts_by_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ...store import Store
    from ..data.file_part import FilePart
    from ..log.state import State
    from .commits_between import Between
    from .cut_tables import CutTables


class Commit(NamedTuple):
    """What one commit did to a table.

    Attributes:
        committed_at_us: By its writer's clock.
        writer, position: Where it stands.
        files, size_bytes: Of the files that it put in, took out, or deleted rows of.
        takes_out: Whether it did one of the last two, says a delete, or goes back.
        is_joined: Whether several transactions were committed together.
        is_idle: Whether it did nothing to the table.
    """

    committed_at_us: int
    writer: str
    position: Position
    files: int
    size_bytes: int
    takes_out: bool
    is_joined: bool
    is_idle: bool

    def ends(self, *, skip: bool) -> bool:
        """Whether a stream of appended rows can't go on with it.

        Args:
            skip: Whether what takes rows out is left out. Of transactions that were committed
                together nobody can tell which of them appended rows.
        """
        return self.takes_out and (self.is_joined or not skip)


def commits_of(logs: Sequence[Between]) -> list[Commit]:
    """The commits of some logs, by time; those of one log in their order. Of those that did nothing
    to the table, too."""
    found = [commit for log in logs for commit in _commits(log)]
    return sorted(found, key=lambda each: (each.committed_at_us, each.writer))  # stable


def _work(rows: pa.Table) -> dict[int, tuple[int, int]]:
    """By revision how many files a commit did something to, and their bytes."""
    names = ("revision", "file", "size_bytes")
    revision, file, sizes = (numbers(rows.column(name)).astype(np.int64) for name in names)
    # Of a file that stays there are two steps, and it is read once.
    order = np.lexsort((file, revision))
    new = np.diff(revision[order], prepend=-1) != 0
    first = order[new | (np.diff(file[order], prepend=-1) != 0)]
    found, places, files = np.unique(revision[first], return_inverse=True, return_counts=True)
    size_bytes = np.zeros(len(found), np.int64)
    np.add.at(size_bytes, places, sizes[first])
    return dict(zip(found.tolist(), zip(files.tolist(), size_bytes.tolist()), strict=True))


def _commits(log: Between) -> Iterator[Commit]:
    rows = log.steps.rows(net=False)
    work = _work(rows)
    revision, sign = (numbers(rows.column(name)) for name in ("revision", "sign"))
    restored = log.steps.restoring & set(revision.tolist())
    out = set(revision[sign == DELETE].tolist()) | log.steps.deleting | restored
    busy = {*revision.tolist(), *out, *(entry.revision for entry in log.steps.definitions)}
    for number in range(log.before.revision + 1, log.after.revision + 1):
        digest = log.steps.digests[number][:TOKEN_DIGEST_BYTES]
        position = Position(number, digest, log.after.log)
        files, size_bytes = work.get(number, (0, 0))
        yield Commit(
            log.steps.times[number], log.writer, position, files, size_bytes,
            takes_out=number in out, is_joined=number in log.steps.joined,
            is_idle=number not in busy,
        )  # fmt: skip


def appended(logs: Sequence[Between], found: Found, *, skip: bool) -> Found:
    """Returns the steps of some commits that append rows. Raises `NotAppended` at another commit.

    Args:
        found: Not net.
        skip: Leave out commits that take rows out, instead of refusing them.
    """
    out: dict[str, set[int]] = {}
    for log in logs:
        for commit in _commits(log):
            if commit.ends(skip=skip):
                raise takes_out_error(log.after.database, commit)
            if commit.takes_out:
                out.setdefault(log.writer, set()).add(commit.position.revision)
    return found._replace(steps=_kept(found.steps, out))


def _kept(steps: Iterable[RowStep], out: Mapping[str, set[int]]) -> Iterator[RowStep]:
    for step in steps:
        if step.sign == INSERT and step.stamp.revision not in out.get(step.writer, ()):
            yield step


def takes_out_error(database: str, commit: Commit) -> NotAppended:
    """That a commit takes rows out."""
    where = f"{commit.writer}/{database}"
    together = "; several transactions share it, so what others append can't be told apart"
    return NotAppended(
        f"Revision {commit.position.revision} of {where} deletes or replaces rows of the table, "
        f"and this stream gives appended rows alone{together if commit.is_joined else ''}",
        key=where,
        hint="Read the changes (readChangeFeed=true, with a new checkpointLocation), or go on "
        "with skipChangeCommits=true, which leaves out all that such commits do",
    )


def key_error(table: str) -> NotAppended:
    """That newer rows of a table take the place of older ones."""
    return NotAppended(
        f"Table {table!r} has a key: its newer rows take the place of older ones, and this "
        "stream gives appended rows alone",
        key=table,
        hint="Read the changes: readChangeFeed=true, with a new checkpointLocation",
    )


# --- The rows that a stream begins with -----------------------------------------------------------

_GONE: Final = Seen(is_live=False)
_ORDER: Final = ("first_clock", "writer", "path", "partition")


class Existing:
    """The files of a table at the cut of `tables`; `store` is a `WideStore`."""

    def __init__(self, store: Store, tables: CutTables, table: str) -> None:
        self._store = store
        self._tables = tables
        self._table = table

    @cached_property
    def files(self) -> pa.Table:
        """Returns its files, with `writer`, `path` and `size_bytes`; the oldest rows first. Raises
        `CorruptObject`."""
        found = []
        for state in self._states:
            rows = self._tables.table_of(state, self._table)[0].table(self._table, whole=True)
            names = ["path", "partition", "size_bytes", "first_clock"]
            writers = pa.repeat(text_scalar(state.writer), rows.num_rows)
            found.append(rows.select(names).append_column("writer", writers))
        if not found:
            names = ["path", "partition", "size_bytes", "first_clock", "writer"]
            return pa.table({name: pa.array([], pa.int64()) for name in names})
        keys = [(name, "ascending") for name in _ORDER]
        rows = pa.concat_tables(found)
        return rows.take(pc.sort_indices(rows, sort_keys=keys))

    @property
    def _states(self) -> list[State]:
        return [s for s in self._tables.states if self._tables.schemas_of(s, self._table)]

    def steps(self, start: int, end: int, told: CutTables) -> tuple[Found, list[FileSchema]]:
        """Some of these files, as if they were inserted, by no commit; and their schemas.

        Args:
            start, end: Which of `files`.
            told: The tables of the cut by whose columns rows are told: this one or a later one.
        Raises, Requests: As for `Snapshot.file_parts`.
        """
        chosen = self.files.slice(start, end - start)
        asked: list[tuple[State, Sequence[FilePart]]] = []
        for state in self._states:
            own = chosen.filter(pc.equal(chosen.column("writer"), text_scalar(state.writer)))
            paths = own.column("path").to_pylist()
            there = parts_by_path(self._tables, state, self._table, set(paths))
            asked.append((state, [there[path] for path in paths]))
        resolved = iter(self._tables.resolved(self._store, self._table, asked))
        steps: list[RowStep] = []
        schemas: list[FileSchema] = []
        for state, parts in asked:
            columns = told_columns(told, state, self._table)
            for _ in parts:
                part = next(resolved)
                form = columns.shown(part.schema, part.fingerprint)
                schemas.append(FileSchema(form.schema, state.writer, partial(str, part.key)))
                seen = Seen(is_live=True, hidden=part.hidden)
                file = (state.writer, part.key, part.partition)
                part = replace(part, shown=form, hidden=None)
                stamp = Stamp(state.writer, None, None)
                steps.append(RowStep(state.writer, file, part, INSERT, _GONE, seen, stamp))
        return Found(steps, lambda _: (), {}), distinct(schemas)
