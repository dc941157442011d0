"""Which rows one table of a log shows after each revision, twice over: what the actions of its
transactions say by docs/format.md, and what their committers asked for. Both must be the same; and
every reader must see them.

Columns are known by numbers of their own here, whatever they are called; rows are what stands in
the Parquet files, by these numbers.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ..catalog.format.deletes import bitmap_rows, bitmaps_of
from ..catalog.log.part import Part, batch_parts
from ..errors import ObjectNotFound
from .same_columns import Column, same_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.log.state import State
    from ..catalog.wire import lakelog_transaction_pb2 as wire

Row = dict[int, int | None]


class File(NamedTuple):
    """A live file: its rows, the numbers of those that are hidden, and what tells which of several
    rows with one key is the newest: clock, revision, place in its transaction. A file that comes
    back keeps that order; delete predicates go by the revision that added it last."""

    rows: tuple[Row, ...]
    hidden: frozenset[int]
    order: tuple[int, int, int]
    revision: int


class Hides(NamedTuple):
    """That a transaction deletes rows: those that `met` is true of, in all files that stand before
    it, or in these alone."""

    met: Callable[[Row], bool]
    paths: frozenset[str] | None = None


@dataclass(slots=True)
class Asked:
    """What a committer asked for with one transaction.

    Attributes:
        writes: Rows by the path of their new file.
        names: What the columns are called in files that this transaction writes.
        drops: Paths that are removed.
        hides: Rows that are deleted.
        predicate: That of its tombstone, if it has one.
        columns, key: What the table has from here on; None: no change.
        knew: The columns of the table that was looked at for that; files are for `names`.
        back: The table as of the revision that it goes back to; None: it doesn't.
        empties: Whether all files go, and the table is forgotten.
    """

    writes: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    names: dict[str, Column] = field(default_factory=dict)
    drops: set[str] = field(default_factory=set)
    hides: list[Hides] = field(default_factory=list)
    predicate: Callable[[Row], bool] | None = None
    columns: dict[str, Column] | None = None
    key: tuple[int, ...] | None = None
    knew: dict[str, Column] | None = None
    back: Shown | None = None
    empties: bool = False


BORN = {"k": Column(0), "v": Column(1)}


@dataclass(frozen=True, slots=True)
class Shown:
    """A table after one revision.

    Attributes:
        files: Live, by path.
        columns: By name.
        key: Numbers of columns.
        needs: Per live file the objects of row deletes that count, each with its revision.
        tombstones: Revision and place of each.
        definition: What the log says of the columns; empty: nothing yet.
        went_back: Whether columns may have gone that the log doesn't call dropped, as by a restore:
            who still writes them brings them again, or new ones.
        forgotten: Whether the log doesn't know the table any more.
    """

    files: dict[str, File] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=lambda: dict(BORN))
    key: tuple[int, ...] = ()
    needs: dict[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    tombstones: tuple[tuple[int, int], ...] = ()
    definition: bytes = b""
    went_back: bool = False
    forgotten: bool = False

    def rows(self) -> Counter[tuple[int | None, ...]]:
        """The rows that readers see, each by its values in the order of the columns' names."""
        newest: dict[tuple[int | None, ...], tuple[tuple[int, ...], tuple[str, int]]] = {}
        places = [(path, n) for path, file in self.files.items() for n in range(len(file.rows))]
        if self.key:
            for path, n in places:
                value = tuple(self.files[path].rows[n].get(number) for number in self.key)
                found = ((*self.files[path].order, n), (path, n))
                newest[value] = max(newest.get(value, found), found)
            places = [place for _, place in newest.values()]
        columns = [column for _, column in sorted(self.columns.items())]
        return Counter(
            tuple(value_of(self.files[path].rows[n], column) for column in columns)
            for path, n in places
            if n not in self.files[path].hidden
        )

    def objects(self) -> frozenset[str]:
        """The objects of row deletes that it takes to read it."""
        return frozenset(name for found in self.needs.values() for _, name in found)

    def without(self, hides: Iterable[Hides]) -> dict[str, File]:
        """The files with some more rows hidden."""
        files = dict(self.files)
        for met, paths in hides:
            for path in files if paths is None else paths & files.keys():
                gone = {n for n, row in enumerate(files[path].rows) if met(row)}
                files[path] = files[path]._replace(hidden=files[path].hidden | gone)
        return files

    def problem(self, state: State, table: str) -> str:
        """In what a reader's state says something else; empty for nothing. What it says that no
        live file is touched by doesn't count."""
        oldest = min((file.revision for file in self.files.values()), default=1 << 62)
        own = [one for one in self.tombstones if one[0] > oldest]
        said = [(t.revision, t.number) for t in state.deletes.of_table(table)]
        if own != [one for one in said if one[0] > oldest]:
            return f"tombstones {said}, not {own}"
        rows = {
            path: tuple(sorted((entry.revision, entry.object) for entry in entries))
            for path, entries in state.deletes.rows_of(table).items()
        }
        if rows != self.needs:
            return f"row deletes {rows}, not {self.needs}"
        entry = state.definitions.entries.get(table)
        if (b"" if entry is None else entry.message) != self.definition:
            return "another definition"
        return ""


# In the place of what can't be told: the one column that a table has whatever becomes of it.
UNTOLD = Shown(columns={"k": Column(0)})


def value_of(row: Row, column: Column) -> int | None:
    """The value of a column in a row."""
    return row.get(column.number, column.default)


def met_in(columns: Mapping[str, Column], met: Any) -> Callable[[Row], bool]:
    """A predicate over names, for rows, as these names are now."""
    there = dict(columns)

    def of_row(row: Row) -> bool:
        return met({name: value_of(row, column) for name, column in there.items()}) is True

    return of_row


def rows_of(columns: Mapping[str, Column], rows: Iterable[Mapping[str, Any]]) -> tuple[Row, ...]:
    """Rows by numbers of columns."""
    return tuple({columns[name].number: value for name, value in row.items()} for row in rows)


class _Another(Exception):
    """A transaction isn't what was asked for: a process and its double may draw one id for two."""


def said(
    before: Shown,
    found: DecodedTransaction,
    table: str,
    asked: Asked,
    body_of: Callable[[str], bytes],
) -> Shown:
    """The table after one more transaction, by its actions.

    Args:
        table: Its name: others' actions don't count.
        body_of: The bytes of an object, by path.
    Raises:
        _Another: It can't be what was asked for.
    """
    revision = found.message.revision
    columns = before.columns if asked.columns is None else asked.columns
    key = before.key if asked.key is None else asked.key
    files, needs = dict(before.files), dict(before.needs)
    tombstones, definition = list(before.tombstones), before.definition
    went_back = before.went_back or asked.back is not None
    forgotten = before.forgotten
    for number, action in enumerate(found.message.actions):
        kind = action.WhichOneof("kind") or ""
        for own, path, clock in added_files(found, number):
            if own == table:
                files[path] = _file(path, (clock, revision, number), asked, body_of)
        if kind == "forget" and table in action.forget.tables:
            tombstones, definition, key, went_back = [], b"", (), True
            columns = {name: column._replace(default=None) for name, column in columns.items()}
            forgotten = True
        if getattr(getattr(action, kind), "table", "") != table:
            continue
        if kind == "remove":
            del files[action.remove.path]
            needs.pop(action.remove.path, None)
        elif kind == "tombstone":
            predicate = _predicate_of(asked)
            tombstones.append((revision, number))
            older = frozenset(path for path, file in files.items() if file.revision < revision)
            now = replace(before, files=files)
            files = now.without([Hides(predicate, older)])
        elif kind == "row_deletes":
            item = action.row_deletes
            file = files[item.path]
            files[item.path] = file._replace(hidden=file.hidden | _numbers_in(item, body_of))
            kept = [one for one in needs.get(item.path, ()) if one[0] >= item.covers_below]
            needs[item.path] = tuple(sorted([*kept, (revision, item.object)]))
        elif kind == "definition":
            definition = action.definition.SerializeToString(deterministic=True)
            forgotten = forgotten and not action.definition.columns
    forgotten = forgotten and not files  # it may be that they were only named: for a restore
    return Shown(files, columns, key, needs, tuple(tombstones), definition, went_back, forgotten)


def added_files(found: DecodedTransaction, number: int) -> list[tuple[str, str, int]]:
    """Table, path and last clock of each file that one action of a transaction adds."""
    action = found.message.actions[number]
    if action.WhichOneof("kind") == "add":
        return [(action.add.table, action.add.path, action.add.last_clock)]
    if number not in found.batches:
        return []
    runs = [part.run for part, _ in batch_parts(found.batches[number]) if isinstance(part, Part)]
    return [
        (table, *file)
        for run in runs
        for table, (start, end) in run.ranges.items()
        for file in zip(
            *(run.full().column(name).to_pylist()[start:end] for name in ("path", "last_clock")),
            strict=True,
        )
    ]


def changed_files(found: DecodedTransaction) -> tuple[frozenset[str], frozenset[str]]:
    """Paths that a transaction adds and removes, in the end."""
    adds: set[str] = set()
    removes: set[str] = set()
    for number, action in enumerate(found.message.actions):
        paths = {path for _, path, _ in added_files(found, number)}
        adds |= paths
        removes -= paths
        if action.WhichOneof("kind") == "remove":
            removes.add(action.remove.path)
            adds.discard(action.remove.path)
    return frozenset(adds), frozenset(removes)


def _predicate_of(asked: Asked) -> Callable[[Row], bool]:
    if asked.predicate is None:
        raise _Another
    return asked.predicate


def _numbers_in(item: wire.RowDeletes, body_of: Callable[[str], bytes]) -> set[int]:
    """Which rows a bitmap names."""
    data = bitmaps_of(body_of(item.object), item.object)
    return set(bitmap_rows(bytes(data[item.offset : item.offset + item.length])).tolist())


def _file(
    path: str, order: tuple[int, int, int], asked: Asked, body_of: Callable[[str], bytes]
) -> File:
    """A file that is added: if it comes back, with the rows and the order that it had."""
    if asked.back is not None and path in asked.back.files:
        return asked.back.files[path]._replace(hidden=frozenset(), revision=order[1])
    # Not by `read_table`, whose dataset costs more than a small file does.
    data = pq.ParquetFile(pa.BufferReader(body_of(path))).read(use_threads=False)
    if not asked.names.keys() >= set(data.column_names):
        raise _Another
    return File(rows_of(asked.names, data.to_pylist()), frozenset(), order, order[1])


def wanted(before: Shown, after: Shown, asked: Asked) -> Shown:
    """The table after one more transaction, by what its committer asked for. Which of several rows
    is the newest is taken from what was done: only the log tells clocks."""
    if asked.back is not None and asked.columns is not None:
        return asked.back
    files = {} if asked.empties else before.without(asked.hides)
    for path in asked.drops:
        files.pop(path, None)
    for path, rows in asked.writes.items():
        order = after.files[path].order if path in after.files else (0, 0, 0)
        files[path] = File(rows, frozenset(), order, order[1])
    return replace(after, files=files)


@dataclass(slots=True)
class RowTruth:
    """A table of one log at each of its revisions.

    Attributes:
        asked: What committers asked for, by transaction id.
        shown: By revision; None where it can't be told, for a file was gone when it came.
        numbers: Of columns to come.
        kinds: Of transactions, each as often as it is wanted.
    """

    asked: dict[bytes, Asked] = field(default_factory=dict)
    shown: dict[int, Shown | None] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(len(BORN)))
    kinds: list[str] = field(default_factory=list)

    def at(self, revision: int) -> Shown | None:
        """The table at a revision; before the first one it is empty."""
        return self.shown.get(revision) if revision >= 0 else Shown()

    def landed(self, found: DecodedTransaction, table: str, body_of: Callable[[str], bytes]) -> str:
        """One more transaction stands; what it does to the rows though nobody asked for it."""
        revision = found.message.revision
        asked = self.asked.get(found.message.commit.members[0].transaction_id, Asked())
        after, problem = outcome(self.at(revision - 1), found, table, asked, body_of)
        self.shown[revision] = after and replace(after, columns=self._columns(after))
        return problem

    def _columns(self, after: Shown) -> dict[str, Column]:
        known = [one for one in self.shown.values() if one is not None]
        used = {n for one in known for file in one.files.values() for row in file.rows for n in row}
        said = [one.columns for one in known if one.definition == after.definition]
        return same_columns(after.columns, said if after.definition else (), used)

    def problem(self, state: State, table: str) -> str:
        """In what a reader's state differs; empty for nothing."""
        shown = self.at(state.revision)
        found = "" if shown is None else shown.problem(state, table)
        return f"R2 a reader of revision {state.revision} sees {found}" if found else ""


def outcome(
    before: Shown | None,
    found: DecodedTransaction,
    table: str,
    asked: Asked,
    body_of: Callable[[str], bytes],
) -> tuple[Shown | None, str]:
    """The table after one more transaction, None if that can't be told; and what is wrong with it,
    empty for nothing."""
    if before is None:
        return None, ""
    knew = asked.knew or asked.names
    if before.went_back and knew and knew != before.columns:
        return None, ""  # dropped since, and begun anew: of other columns than were looked at
    if asked.back is not None and found.message.commit.members[0].operation == "maintenance":
        asked = Asked(back=asked.back)  # names the files for a while, before they come back
    kinds = [action.WhichOneof("kind") for action in found.message.actions]
    added = {path for n in range(len(kinds)) for _, path, _ in added_files(found, n)}
    said_columns = any(action.definition.columns for action in found.message.actions)
    defines = asked.back is not None or said_columns  # without columns: a table is forgotten
    means = asked.back is not None or asked.columns is not None
    another = f"R1 revision {found.message.revision} isn't what its committer asked for"
    if not asked.writes.keys() <= added or defines != means:
        return None, another
    try:
        after = said(before, found, table, asked, body_of)
    except _Another:
        return None, another
    except ObjectNotFound:  # whether that may be is asked elsewhere
        return None, ""
    want, got = wanted(before, after, asked).rows(), after.rows()
    if want == got:
        return after, ""
    words = f"takes away {dict(want - got)} and shows {dict(got - want)}"
    return after, f"R1 revision {found.message.revision} {words}, and nobody asked for that"
