"""Rows that were deleted at an earlier state, or are by now: which files of that state must be
added again so that rows come back, and which rows are to be deleted of them.

Deletes are never taken back. But a file that is added again is free of all that was said of it
before, and rows of it can be deleted by number in the same
transaction.

Source: docs/changing.md, "Going back"; docs/format.md, sections 5.6 and 5.7.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...errors import UsageError
from ..data.hidden import Bitmaps
from ..data.scan import hidden_rows
from ..format import deletes as form
from ..format.columns import rows_to_table
from ..parallel import parallel
from ..read.cut_tables import CutTables
from ..read.delete_plan import bare_parts
from ..read.hidden import hidden_files
from ..wire import lakelog_transaction_pb2 as wire
from .change_plan import DELETE_CHANGES

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from ...store import Store
    from ..data.file_part import FilePart
    from ..data.hidden import Hidden
    from ..log.state import State

_AT_ONCE = 4
_NO_ROWS = np.zeros(0, np.int64)


class RestoredRows(NamedTuple):
    """What becomes of the deletes of files.

    Attributes:
        changes: Of each file of which other rows are deleted by then, as `DELETE_CHANGES`.
        bitmaps: What says which rows, and the bitmap; without those of which none are.
    """

    changes: pa.Table
    bitmaps: list[tuple[wire.RowDeletes, bytes]]


class _File(NamedTuple):
    """A file that is live at the state gone back to.

    Attributes:
        part: What reading it takes.
        then: What hid rows of it.
        now: What hides rows of it; None: nothing.
        is_live: Whether it stays live, or is added in any case.
    """

    table: str
    path: str
    part: FilePart
    then: Hidden | None
    now: Hidden | None
    is_live: bool


def restored_rows(
    store: Store, states: tuple[State, State], files: pa.Table, only: str | None
) -> RestoredRows:
    """Compare the rows that are deleted of the files of two states of a log.

    Args:
        store: A `WideStore`.
        states: The newest one, and the one that is gone back to.
        files: Those that come and go (`FILE_CHANGES`).
        only: A table; None: all.
    Raises:
        ObjectNotFound, CorruptObject, SchemaConflict: A file can't be read of which rows were
            deleted by a predicate, or an object that says which rows.
        UsageError: A file has more rows than can be named by number.
    Requests: 1 GET for an object of row deletes; 1 or more GET for each file of which rows were
        deleted by a predicate in one of the states and not in the other.
    """
    head, back_to = states
    tables = {*head.deletes.tables(), *back_to.deletes.tables()}
    tables |= {*head.deletes.tombstones, *back_to.deletes.tombstones}
    wanted = sorted(tables if only is None else tables & {only}, key=str.encode)
    found = [file for table in wanted for file in _differing(head, back_to, files, table)]
    bitmaps = Bitmaps(store)

    def rows_of(file: _File) -> tuple[np.ndarray, np.ndarray]:
        then, now = (
            _NO_ROWS if h is None else hidden_rows(store, replace(file.part, hidden=h), bitmaps)
            for h in (file.then, file.now)
        )
        return then, now

    rows = parallel(rows_of, found, at_once=_AT_ONCE)
    return _restored(zip(found, rows, strict=True), head)


def _differing(head: State, back_to: State, files: pa.Table, table: str) -> list[_File]:
    """The files of which other rows may be deleted in the two states."""
    if table not in back_to.schemas.tables():
        return []
    then, now = hidden_files(back_to, table), hidden_files(head, table)
    come: set[str] = set()
    go: set[str] = set()
    columns = (files.column(name).to_pylist() for name in ("change", "table", "path"))
    for change, own, path in zip(*columns, strict=True):
        if own == table:
            (come if change == "added" else go).add(path)
    paths = {path for path in then if path in come or then[path] != now.get(path)}
    paths |= {path for path in now if path not in go and then.get(path) != now[path]}
    tables = CutTables(back_to.database, [back_to])
    rows, parts = bare_parts(tables, back_to, table, paths)
    return [
        _File(
            table,
            path,
            part,
            then.get(path),
            None if path in come else now.get(path),
            path not in come,
        )
        for path, part in zip(rows.column("path").to_pylist(), parts, strict=True)
    ]


def _restored(
    found: Iterable[tuple[_File, tuple[np.ndarray, np.ndarray]]], head: State
) -> RestoredRows:
    changes = []
    bitmaps = []
    for file, (then, now) in found:
        if np.array_equal(then, now) and (file.is_live or not len(then)):
            continue
        again = file.is_live and not np.isin(now, then, assume_unique=True).all()
        was = len(now) if file.is_live else None
        said = (head.writer, file.table, file.path, file.part.row_count, file.part.size_bytes)
        changes.append((*said, was, len(then), again))
        if len(then):
            if file.part.row_count > form.MAX_ROWS:
                raise UsageError(
                    f"{file.part.key} has {file.part.row_count} rows, more than a bitmap can name",
                    key=file.part.key,
                    hint="Take other tables back one by one, or write its rows anew",
                )
            covers = 0 if again or not file.is_live else head.revision + 1
            item = wire.RowDeletes(
                table=file.table, path=file.path, cardinality=len(then), covers_below=covers
            )
            bitmaps.append((item, form.encode_bitmap(then)))
    return RestoredRows(rows_to_table(changes, DELETE_CHANGES), bitmaps)
