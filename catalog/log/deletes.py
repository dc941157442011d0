"""The deletes of a log: tombstones, and rows of files by number. Pure.

A tombstone says of all files of lower revisions which rows are gone; row deletes say it of one
file, and go with it. Both are of files of their own log alone. They are what a checkpoint says,
and what transactions have said since.

Source: docs/format.md, sections 5.6, 5.7 and 6.8.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import CorruptObject
from ..format import compute as pc
from ..format.columns import column, rows_to_table
from ..format.deletes import row_deletes_problem, tombstone_problem
from ..format.frame import has_unknown_fields, parse_message
from ..format.path_column import table_ranges
from ..format.segments import (
    ROW_DELETES,
    ROW_DELETES_COLUMNS,
    TOMBSTONES,
    TOMBSTONES_COLUMNS,
    ascends,
    decode_segment,
    sorted_rows,
)
from ..wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..format.objects import DecodedTransaction
    from ..format.pieces import Piece

KINDS: Final = (ROW_DELETES, TOMBSTONES)
_GONE: Final = 1 << 62
_File = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A predicate that hides rows of files of lower revisions.

    Attributes:
        table: Whose files.
        predicate: In the language of `where=`.
        columns: Those that it names, as they were: a `Definition` as a message; empty for none.
        paths: Of which files alone; none: of all.
        revision: That committed it.
        number: Its place among the actions of that transaction.
        where: The object that says it, for errors.
    """

    table: str
    predicate: str
    columns: bytes
    revision: int
    number: int
    where: str = field(default="", compare=False)
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowDeletes:
    """A bitmap of rows of one file that are hidden.

    Attributes:
        object: The path of the object that holds it.
        offset, length: Where it lies there.
        cardinality: How many rows it names.
        digest: SHA-256 of its bytes.
        revision, number: As of a tombstone.
    """

    object: str
    offset: int
    length: int
    cardinality: int
    digest: bytes
    revision: int
    number: int


@dataclass(slots=True)
class Deletes:
    """All deletes of a log.

    Attributes:
        tombstones: By table, in the order of the log.
        based: ROW_DELETES of a checkpoint, each sorted by table and path.
        recent: Row deletes by table and path that came since.
        covered: What of `based` holds no more: of a file all of revisions below this one.
        newer: Objects that hold fields of a later version.
    """

    tombstones: dict[str, list[Tombstone]] = field(default_factory=dict)
    based: list[pa.Table] = field(default_factory=list)
    recent: dict[_File, list[RowDeletes]] = field(default_factory=dict)
    covered: dict[_File, int] = field(default_factory=dict)
    newer: list[str] = field(default_factory=list)
    _rows: dict[str, dict[str, list[RowDeletes]]] = field(default_factory=dict)

    def copy(self) -> Deletes:
        """An independent copy; rows are shared."""
        return replace(
            self,
            tombstones={table: list(found) for table, found in self.tombstones.items()},
            based=list(self.based),
            recent={file: list(found) for file, found in self.recent.items()},
            covered=dict(self.covered),
            newer=list(self.newer),
            _rows={},
        )

    # --- Reading ----------------------------------------------------------------------------------

    def of_table(self, table: str) -> list[Tombstone]:
        """The tombstones of a table, oldest first."""
        return self.tombstones.get(table, [])

    def hide(self, table: str) -> bool:
        """Whether rows of a table's files may be hidden."""
        return bool(self.of_table(table) or self.rows_of(table))

    def rows_of(self, table: str) -> dict[str, list[RowDeletes]]:
        """By path the row deletes of a table's files; not to be changed."""
        if table not in self._rows:
            found: dict[str, list[RowDeletes]] = {}
            for rows in self.based:
                start, end = table_ranges(rows.column("table")).get(table, (0, 0))
                for row in rows.slice(start, end - start).to_pylist():
                    if row["revision"] >= self.covered.get((table, row["path"]), 0):
                        found.setdefault(row["path"], []).append(_entry(row))
            for (own, path), entries in self.recent.items():
                if own == table:
                    found.setdefault(path, []).extend(entries)
            self._rows[table] = found
        return self._rows[table]

    def tables(self) -> set[str]:
        """The tables that may have row deletes."""
        based = {name for rows in self.based for name in table_ranges(rows.column("table"))}
        return based | {table for table, _ in self.recent}

    def objects(self) -> list[pa.Array]:
        """Paths of all objects that hold a bitmap which counts, with repeats."""
        found = [
            entry.object
            for table in self.tables()
            for entries in self.rows_of(table).values()
            for entry in entries
        ]
        return [column(found, pa.string())] if found else []

    # --- Replay -----------------------------------------------------------------------------------

    def load(self, piece: Piece, data: memoryview, newest: int, *, exact: bool = False) -> None:
        """Takes in a segment of the checkpoint of the revision `newest`; `exact` refuses columns of
        a later version. Raises `CorruptObject`."""
        rows = decode_segment(data, piece.kind, piece.rows, piece.where, exact=exact)
        tables = rows.column("table")
        said = (piece.segment.first_table, piece.segment.last_table)
        if (tables[0].as_py(), tables[len(tables) - 1].as_py()) != said:
            raise _damaged(piece.where, "holds other tables than its reference says")
        if pc.max(rows.column("revision")).as_py() > newest:
            raise _damaged(piece.where, "holds deletes of revisions to come")
        if piece.kind == TOMBSTONES:
            self._load_tombstones(rows, piece.where)
            return
        for row in rows.to_pylist():
            names = ("table", "path", "object", "offset", "length", "cardinality", "digest")
            problem = row_deletes_problem(wire.RowDeletes(**{name: row[name] for name in names}))
            if problem:
                raise _damaged(piece.where, problem)
        self.based.append(rows)

    def settle(self, where: str) -> None:
        """Brings the rows of several segments into one order. Raises `CorruptObject` if two are of
        one action."""
        if len(self.based) > 1:
            rows = sorted_rows(pa.concat_tables(self.based).combine_chunks(), ROW_DELETES)
            if not ascends(rows, ROW_DELETES):
                raise _damaged(where, "holds row deletes of one action twice")
            self.based = [rows]
        for found in self.tombstones.values():
            found.sort(key=_place)
            if any(_place(one) == _place(two) for one, two in itertools.pairwise(found)):
                raise _damaged(where, "holds one tombstone twice")

    def _load_tombstones(self, rows: pa.Table, where: str) -> None:
        for row in rows.to_pylist():
            item = wire.Tombstone()
            parse_message(item, row["tombstone"], where)
            problem = tombstone_problem(item)
            if problem or item.table != row["table"]:
                raise _damaged(where, problem or "holds a tombstone of another table")
            if has_unknown_fields(item):
                self.newer.append(where)
            found = tombstone_of(item, row["revision"], row["number"], where)
            self.tombstones.setdefault(item.table, []).append(found)

    def apply(self, transaction: DecodedTransaction) -> None:
        """Take in what one more transaction says."""
        revision = transaction.message.revision
        for number, action in enumerate(transaction.message.actions):
            kind = action.WhichOneof("kind")
            if kind == "tombstone":
                item = tombstone_of(action.tombstone, revision, number, transaction.key)
                self.tombstones.setdefault(item.table, []).append(item)
            elif kind == "row_deletes":
                self._apply_rows(action.row_deletes, revision, number)
            elif kind == "remove":
                self._end((action.remove.table, action.remove.path), _GONE)
            elif kind == "forget":
                for table in action.forget.tables:
                    self.tombstones.pop(table, None)

    def _apply_rows(self, item: wire.RowDeletes, revision: int, number: int) -> None:
        file = (item.table, item.path)
        if item.covers_below:
            self._end(file, min(item.covers_below, revision))
        entry = RowDeletes(
            item.object, item.offset, item.length, item.cardinality, item.digest, revision, number
        )
        self.recent.setdefault(file, []).append(entry)
        self._rows.pop(item.table, None)

    def _end(self, file: _File, below: int) -> None:
        """What was said of a file in revisions below this one holds no more."""
        kept = [entry for entry in self.recent.pop(file, ()) if entry.revision >= below]
        if kept:
            self.recent[file] = kept
        if self.based:
            self.covered[file] = max(below, self.covered.get(file, 0))
        self._rows.pop(file[0], None)

    # --- Writing ----------------------------------------------------------------------------------

    def row_rows(self) -> pa.Table:
        """All row deletes as rows of a segment, sorted."""
        rows = [
            (
                table,
                path,
                e.revision,
                e.number,
                e.object,
                e.offset,
                e.length,
                e.cardinality,
                e.digest,
            )
            for table in sorted(self.tables(), key=str.encode)
            for path, entries in sorted(self.rows_of(table).items(), key=lambda i: i[0].encode())
            for e in entries
        ]
        return rows_to_table(rows, ROW_DELETES_COLUMNS)

    def tombstone_rows(self) -> pa.Table:
        """All tombstones as rows of a segment, sorted."""
        rows = [
            (table, item.revision, item.number, message_of(item).SerializeToString())
            for table in sorted(self.tombstones, key=str.encode)
            for item in self.tombstones[table]
        ]
        return rows_to_table(rows, TOMBSTONES_COLUMNS)


def _place(item: Tombstone) -> tuple[int, int]:
    return item.revision, item.number


def _entry(row: dict[str, object]) -> RowDeletes:
    names = RowDeletes.__dataclass_fields__
    return RowDeletes(**{name: row[name] for name in names})  # type: ignore[arg-type]


def tombstone_of(item: wire.Tombstone, revision: int, number: int, where: str) -> Tombstone:
    """A tombstone of a message."""
    columns = item.columns.SerializeToString(deterministic=True)
    paths = tuple(item.paths)
    return Tombstone(item.table, item.predicate, columns, revision, number, where, paths)


def message_of(item: Tombstone) -> wire.Tombstone:
    """A tombstone as a message."""
    found = wire.Tombstone(table=item.table, predicate=item.predicate, paths=item.paths)
    if item.columns:
        found.columns.ParseFromString(item.columns)
    return found


def load_deletes(
    pieces: Iterable[tuple[Piece, memoryview]],
    tail: Iterable[DecodedTransaction],
    newest: int,
    *,
    exact: bool = False,
) -> Deletes:
    """Returns the deletes in pieces of the checkpoint of the revision `newest`, and in the
    transactions since; `exact` refuses columns of a later version. Raises `CorruptObject`."""
    found, where = Deletes(), ""
    for piece, data in pieces:
        found.load(piece, data, newest, exact=exact)
        where = piece.where
    found.settle(where)
    for transaction in tail:
        found.apply(transaction)
    return found


def _damaged(where: str, problem: str) -> CorruptObject:
    return CorruptObject(f"{where} {problem}", key=where)
