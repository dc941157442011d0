"""A checkpoint by hand, piece by piece, each of which may be told wrongly. See `logs_by_hand`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hand_objects import Attachments, Form, Header, digest_of, encode, frame, ipc, tree
from hand_segments import facts_of, file_rows, make_table
from independent_messages import FILES, HISTORY, REFERENCES, SCHEMAS, SEGMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hand_log import HandLog


@dataclass
class Made:
    """A piece of a checkpoint.

    Attributes:
        table: Its rows.
        row: What the reference says otherwise than it is.
        spilled: Whether it is an object of its own.
        header, message: What that object says otherwise.
        alter: Changes the object's bytes, or takes it away with None.
        raw: Changes the bytes of Arrow IPC.
    """

    kind: int
    table: pa.Table
    row: dict[str, Any] = field(default_factory=dict)
    columns: Sequence[str] = ()
    spilled: bool = False
    header: dict[str, Any] = field(default_factory=dict)
    message: dict[str, Any] = field(default_factory=dict)
    alter: Callable[[bytes], bytes | None] = lambda data: data
    form: Form = field(default_factory=Form)
    raw: Callable[[bytes], bytes] = lambda data: data

    def place(self, log: HandLog, into: Attachments) -> dict[str, Any]:
        """The piece where it lies; gives the row of its reference."""
        known = facts_of(self.kind, self.table, self.columns)
        facts = {"part": -1, "run": -1, "dead": None, **known}
        if self.kind == FILES:
            facts |= {"part": 0, "run": 0}
        data = self.raw(ipc(self.table, self.form))
        if not self.spilled:
            where = {"offset": into.put(data), "length": len(data), "digest": None}
            return {**facts, **where, **self.row}
        message = encode(tree(SEGMENT, known | self.message))
        header = Header(
            **{"kind": 3, "log_id": log.log_id, "incarnation": log.incarnation} | self.header
        )
        made = self.alter(whole := frame(header, message, data))
        if made is not None:
            log.segments[f"{digest_of(whole).hex()}.segment"] = made
        where = {"offset": 0, "length": len(whole), "digest": digest_of(whole)}
        return {**facts, **where, **self.row}


def sound(log: HandLog) -> list[Made]:
    """One FILES piece, one of SCHEMAS and one of HISTORY."""
    files = [file for _, file in sorted(log.files.items())]
    schemas = [entry for _, entry in sorted(log.schemas.items())]
    return [
        Made(FILES, make_table(FILES, file_rows(files))),
        Made(SCHEMAS, make_table(SCHEMAS, schemas)),
        Made(HISTORY, make_table(HISTORY, log.history)),
    ]


def write(
    log: HandLog,
    pieces: Sequence[Made],
    *,
    count: int | None = None,
    references: Made | None = None,
    change: Callable[[list[dict[str, Any]]], Any] = lambda rows: None,
) -> None:
    """Write a checkpoint of the head that has these pieces.

    Args:
        count: The number of live files, if it is to be said otherwise than it is.
        references: What is told otherwise of the REFERENCES piece; its table is made here.
        change: Alters the rows of the references.
    """
    into = Attachments()
    rows = [piece.place(log, into) for piece in pieces]
    change(rows)
    own = references or Made(REFERENCES, None)
    own.table = make_table(REFERENCES, rows)
    ref = own.place(log, into)
    live = sum(
        row["row_count"] - int.from_bytes(row["dead"] or b"", "little").bit_count()
        for row in rows
        if row["kind"] == FILES
    )
    where = {name: ref.pop(name) for name in ("offset", "length", "digest")}
    log._write(into.data, {"segment": ref, **where}, live if count is None else count)
