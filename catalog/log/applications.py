"""The application versions of a log: what makes a retried commit write nothing. Pure.

A million ids are looked up in sorted columns, not kept in a dict.

Source: docs/format.md, section 6.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject
from ..format import compute as pc
from ..format.columns import array, numbers, rows_to_table
from ..format.objects import MAX_APP_ID_BYTES
from ..format.path_column import PathIndex
from ..format.segments import (
    APPLICATIONS,
    APPLICATIONS_COLUMNS,
    MAX_TIME_US,
    ascends,
    decode_segment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..format.objects import DecodedTransaction
    from ..format.pieces import Piece


@dataclass(slots=True)
class Applications:
    """Versions by application id.

    Attributes:
        tables: Of APPLICATIONS segments, each sorted by id.
        recent: Version and commit time (µs) by id, of transactions since.
        forgotten_before_us: What was committed earlier is forgotten.
    """

    tables: list[pa.Table] = field(default_factory=list)
    recent: dict[str, tuple[int, int]] = field(default_factory=dict)
    forgotten_before_us: int = 0

    def copy(self) -> Applications:
        """An independent copy; tables are shared."""
        return Applications(list(self.tables), dict(self.recent), self.forgotten_before_us)

    def load(self, rows: pa.Table, where: str) -> None:
        """Takes in an APPLICATIONS segment. Raises `CorruptObject` if its ids don't ascend."""
        times = numbers(rows.column("committed_at_us"))
        sizes = numbers(pc.binary_length(rows.column("app_id")))
        sane = times.min() > 0 and times.max() < MAX_TIME_US and sizes.min() > 0
        if not sane or sizes.max() > MAX_APP_ID_BYTES:
            raise CorruptObject(f"{where} holds application versions that can't be", key=where)
        if not ascends(rows, APPLICATIONS):
            raise CorruptObject(f"{where} holds application ids that do not ascend", key=where)
        self.tables.append(rows)

    def version(self, app_id: str) -> int:
        """The highest version committed for an id; -1 for none."""
        based = []
        for table in self.tables:
            ids = table.column("app_id").chunk(0)
            row = PathIndex(ids).find(app_id, 0, len(ids))
            if row >= 0:
                based.append(tuple(table.column(name)[row].as_py() for name in _VALUES))
        found = [max(based)] if based and max(based)[1] >= self.forgotten_before_us else []
        found += [self.recent[app_id]] if app_id in self.recent else []
        return max(found)[0] if found else -1

    def apply(self, transaction: DecodedTransaction) -> None:
        """Take in what one more transaction says."""
        commit = transaction.message.commit
        before = max(
            (
                action.forget.applications_before_us
                for action in transaction.message.actions
                if action.WhichOneof("kind") == "forget"
            ),
            default=0,
        )
        if before > 0:
            self.forgotten_before_us = max(self.forgotten_before_us, before)
            self.recent = {a: found for a, found in self.recent.items() if found[1] >= before}
        for member in commit.members:
            if member.app_id and member.app_version >= self.version(member.app_id):
                self.recent[member.app_id] = (member.app_version, commit.committed_at_us)

    def rows(self) -> pa.Table:
        """All that is known, a row an id, as one APPLICATIONS segment."""
        based = merge_applications(self.tables, self.forgotten_before_us) if self.tables else None
        recent = application_rows(self.recent)  # set after what was forgotten
        return recent if based is None else merge_applications([based, recent])

    def versions(self) -> dict[str, int]:
        """All versions by id: for reports."""
        rows = self.rows()
        return dict(
            zip(*(rows.column(name).to_pylist() for name in ("app_id", "app_version")), strict=True)
        )


def load_applications(
    pieces: Sequence[Piece], bodies: Sequence[memoryview], tail: Iterable[DecodedTransaction]
) -> Applications:
    """Returns the applications of a state: of the base's pieces, with their Arrow IPC bytes, and of
    the transactions since."""
    applications = Applications()
    for piece, data in zip(pieces, bodies, strict=True):
        rows = decode_segment(data, APPLICATIONS, piece.rows, piece.where)
        applications.load(rows, piece.where)
    for transaction in tail:
        applications.apply(transaction)
    return applications


_VALUES = ("app_version", "committed_at_us")


def application_rows(recent: dict[str, tuple[int, int]]) -> pa.Table:
    """Versions as rows of an APPLICATIONS segment."""
    ordered = sorted(recent.items(), key=lambda item: item[0].encode())
    return rows_to_table([(app, *found) for app, found in ordered], APPLICATIONS_COLUMNS)


def merge_applications(tables: Iterable[pa.Table], forgotten_before_us: int = 0) -> pa.Table:
    """Several segments as one: of each id the highest version counts, of equal versions the latest
    time; what is forgotten is left out."""
    rows = pa.concat_tables(tables)
    if not rows.num_rows:
        return rows
    order = [
        ("app_id", "ascending"), ("app_version", "descending"), ("committed_at_us", "descending")
    ]  # fmt: skip
    rows = rows.sort_by(order).combine_chunks()
    kept = np.ones(rows.num_rows, np.bool_)
    if rows.num_rows > 1:
        ids = rows.column("app_id").combine_chunks()
        kept[1:] = numbers(pc.not_equal(ids[1:], ids[:-1]))
    if forgotten_before_us:
        kept &= numbers(rows.column("committed_at_us")) >= forgotten_before_us
    return rows.take(array(np.flatnonzero(kept))).combine_chunks()
