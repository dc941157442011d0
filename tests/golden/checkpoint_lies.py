"""What may be told or done wrongly in pieces of a checkpoint, for `test_rules_of_checkpoints`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hand_checkpoint import Made
from hand_flat import (
    Parts,
    altered,
)
from hand_segments import make_table
from hand_small import Small
from independent_messages import (
    APPLICATIONS,
    FILES,
    HISTORY,
    ROW_GROUPS,
)
from rule_outcome import told_by_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from three_readers import GoReader

OK, DAMAGED, TOO_NEW = "ok", "damaged", "too-new"
FILES_BAD, SCHEMAS_BAD, HISTORY_BAD = "files damaged", "schemas damaged", "history damaged"
NO_TABLES = "not all tables"
PARTS = ("applications", "definitions", "deletes", "history")
ALL_BAD = ", ".join([*(f"{part} damaged" for part in PARTS), NO_TABLES])
ALL_NEW = ", ".join([*(f"{part} too-new" for part in PARTS), NO_TABLES])


def trial() -> Small:
    """A log of six revisions: three files of t, and u has a schema."""
    log = Small().schema("t").schema("u").file("data/a").file("data/b").file("data/c")
    log.log.rng.random = lambda: 0.9  # type: ignore[method-assign] - no compression
    return log


def outcome(log: Small, go: GoReader | None) -> str:
    """What is said of a log of which only the checkpoint is left."""
    log.drop(*range(log.log.revision + 1))
    return told_by_all(log, go)


def rows_of(table: pa.Table, *rows: int) -> pa.Table:
    return table.take(list(rows))


def with_value(table: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    kind = table.schema.field(name).type
    column = table.column(name)
    values = (column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column).to_pylist()
    values[row] = value
    array = pa.array(values, pa.int64() if pa.types.is_timestamp(kind) else kind).cast(kind)
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place).with_nullable(True), array)


def with_children(table: pa.Table) -> pa.Table:
    """Lists whose elements are called otherwise, and marked as never null."""
    for name in ("key", "sort_order"):
        kind = pa.list_(pa.field("other", pa.string(), nullable=False))
        column = pa.array([["temp"], None], kind)
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


Pieces = list[Made]


def files(*groups: tuple[int, ...], runs: tuple[int, ...] = ()) -> Callable[[Pieces], Any]:
    """The files as several pieces, of these rows each, of one run or of these."""

    def change(pieces: Pieces) -> None:
        whole = pieces.pop(0).table
        for part, rows in enumerate(groups):
            run = runs[part] if runs else 0
            pieces.insert(part, Made(FILES, rows_of(whole, *rows), {"part": part, "run": run}))

    return change


def history(*groups: tuple[int, ...]) -> Callable[[Pieces], Any]:
    def change(pieces: Pieces) -> None:
        whole = pieces.pop().table
        pieces += [Made(HISTORY, rows_of(whole, *rows)) for rows in groups]

    return change


def value(piece: int, name: str, row: int, new: Any) -> Callable[[Pieces], Any]:
    def change(pieces: Pieces) -> None:
        pieces[piece].table = with_value(pieces[piece].table, name, row, new)

    return change


def said(piece: int, **lies: Any) -> Callable[[Pieces], Any]:
    """What the reference of a piece says otherwise."""
    return lambda pieces: pieces[piece].row.update(lies)


def together(*changes: Callable[[Pieces], Any]) -> Callable[[Pieces], Any]:
    """Several changes, one after the other."""
    return lambda pieces: [change(pieces) for change in changes]


def spilled(piece: int, **changes: Any) -> Callable[[Pieces], Any]:
    """A piece as an object of its own."""

    def change(pieces: Pieces) -> None:
        pieces[piece].spilled = True
        for name, new in changes.items():
            setattr(pieces[piece], name, new)

    return change


def raw(
    change: Callable[[Parts], None] = lambda parts: None, further: bool = False
) -> Callable[[Pieces], Any]:
    """The flatbuffers of the files otherwise, perhaps with a column of a later version."""

    def change_piece(pieces: Pieces) -> None:
        pieces[0].raw = altered(change)
        if further:
            table = pieces[0].table
            pieces[0].table = table.append_column(
                "later", pa.array([None] + [1] * (len(table) - 1))
            )

    return change_piece


def more(*made: Made) -> Callable[[Pieces], Any]:
    return lambda pieces: pieces.extend(made)


def applications(*rows: tuple[str, int, int]) -> Made:
    names = ("app_id", "app_version", "committed_at_us")
    return Made(APPLICATIONS, make_table(APPLICATIONS, [dict(zip(names, row)) for row in rows]))


def groups(*rows: tuple[int, int, int], part: int = 0) -> Made:
    names = ("row", "row_group", "row_count")
    table = make_table(ROW_GROUPS, [dict(zip(names, row)) for row in rows])
    return Made(ROW_GROUPS, table, {"part": part})
