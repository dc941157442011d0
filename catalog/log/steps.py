"""What each commit between two states of a log did to one table: the one resolver of changes.
Pure.

A step is a file whose rows a commit put in or took out. A commit that only replaces files by others
with the same rows makes none. Steps come in the order of the commits, and can be made net: what
came and went again on the way is left out.

Source: docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject
from ..format import compute as pc
from ..format.columns import array, column, numbers
from ..format.run import files_rows
from ..format.segments import FILES_COLUMNS
from .compared import REWRITES
from .known_schemas import KnownSchemas
from .live_rows import live_files
from .part import Part, batch_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..format.objects import DecodedTransaction
    from .known_schemas import SchemaEntry
    from .state import State

INSERT: Final = 1
DELETE: Final = -1

# Beside the columns of FILES: what is done with the file, and by which commit. `revision` is the
# commit's.
STEP_COLUMNS: Final = pa.schema(
    [
        *FILES_COLUMNS,
        pa.field("sign", pa.int32(), nullable=False),
        pa.field("committed_at", pa.int64(), nullable=False),
    ]
)


@dataclass(slots=True)
class Steps:
    """Gathers the steps of one log and table, commit by commit.

    Args:
        before: The state that the first of them follows.
        table: Of which files.

    Attributes:
        schemas: By fingerprint those that files of the steps may have.
    """

    before: State
    table: str
    schemas: dict[bytes, SchemaEntry] = field(default_factory=dict)
    _known: KnownSchemas = field(default_factory=KnownSchemas)
    _facts: list[pa.Table] = field(default_factory=list)  # of files, with the columns of FILES
    # Path, sign, whether it is part of a rewrite, revision, commit time.
    _events: list[tuple[Any, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rows = live_files(self.before, self.table).table(self.table, whole=True)
        self._facts.append(_with_table(rows, self.table))
        self._learn(self.before.schemas_of(self.table))

    def take(self, transaction: DecodedTransaction) -> None:
        """One more commit, the next after those before."""
        message = transaction.message
        stamp = (message.revision, message.commit.committed_at_us)
        adds = []
        for position, (action, rewrite) in enumerate(
            zip(message.actions, _rewrites(transaction), strict=True)
        ):
            kind = action.WhichOneof("kind")
            if kind == "add" and action.add.table == self.table:
                adds.append(action.add)
                self._events.append((action.add.path, INSERT, rewrite, *stamp))
            elif kind == "remove" and action.remove.table == self.table:
                self._events.append((action.remove.path, DELETE, rewrite, *stamp))
            elif kind == "add_batch":
                for rows in self._batch(transaction, position):
                    self._facts.append(rows)
                    paths = rows.column("path").to_pylist()
                    self._events += ((path, INSERT, rewrite, *stamp) for path in paths)
            elif kind == "schema" and action.schema.table == self.table:
                self._known.apply(transaction)
                self._learn(self._known)
        if adds:
            self._facts.append(files_rows(adds, [message.revision] * len(adds)))

    def _batch(self, transaction: DecodedTransaction, position: int) -> Iterator[pa.Table]:
        for part, _ in batch_parts(transaction.batches[position]):
            if not isinstance(part, Part):
                raise part
            if self.table in part.run.ranges:
                start, end = part.run.ranges[self.table]
                yield part.run.full().slice(start, end - start)

    def _learn(self, known: KnownSchemas) -> None:
        self.schemas |= {entry.fingerprint: entry for entry in known.of_table(self.table)}

    def rows(self, *, net: bool) -> pa.Table:
        """The steps, as `STEP_COLUMNS`, in the order of the commits; of one commit what it took out
        before what it put in.

        Args:
            net: Leave out files that came and went again between, and those that went and came
                back.
        Raises:
            CorruptObject: A file was removed that nothing says was there.
        """
        paths, signs, rewrites, revisions, times = (
            zip(*self._events, strict=True) if self._events else ((), (), (), (), ())
        )
        facts = pa.concat_tables(self._facts).combine_chunks()
        named = column(paths, pa.string())
        places = pc.index_in(named, value_set=facts.column("path").combine_chunks())
        if places.null_count:
            path = paths[places.is_null().to_pylist().index(True)]
            raise CorruptObject(
                f"A commit removes {path}, and nothing says that it was there", key=path
            )
        at, sign = numbers(places), np.array(signs, np.int32)
        revision = np.array(revisions, np.int64)
        counts = numbers(facts.column("row_count"))[at] if len(at) else np.zeros(0, np.int64)
        kept = ~_same_rows(revision, sign * counts, np.array(rewrites, np.bool_))
        if net:
            kept[kept] = _net(at[kept], sign[kept])
        order = np.flatnonzero(kept)
        order = order[np.lexsort((order, sign[order], revision[order]))]
        found = facts.take(array(at[order].astype(np.int64)))
        place = FILES_COLUMNS.get_field_index("revision")
        found = found.set_column(place, FILES_COLUMNS.field(place), array(revision[order]))
        more = [array(sign[order]), array(np.array(times, np.int64)[order])]
        return pa.Table.from_arrays([*found.columns, *more], schema=STEP_COLUMNS)


def _with_table(rows: pa.Table, table: str) -> pa.Table:
    names = pa.repeat(column([table], pa.string())[0], rows.num_rows)
    others = [rows.column(name) for name in FILES_COLUMNS.names[1:]]
    return pa.Table.from_arrays([names, *others], schema=FILES_COLUMNS)


def _rewrites(transaction: DecodedTransaction) -> list[bool]:
    """Per action whether its member says that it changes no rows. Where the actions of several
    members were joined it counts only if they all say so."""
    members = transaction.message.commit.members
    count = len(transaction.message.actions)
    said = [member.operation in REWRITES for member in members]
    apart = [
        is_rewrite
        for member, is_rewrite in zip(members, said, strict=True)
        for _ in range(min(member.action_count, count))
    ]
    if all(said) or len(apart) != count or not all(member.action_count for member in members):
        return [all(said)] * count
    return apart


def _same_rows(revision: np.ndarray, rows: np.ndarray, rewrite: np.ndarray) -> np.ndarray:
    """Which steps only replace files by others with as many rows: those of commits that say so, if
    the numbers agree."""
    revisions, places = np.unique(revision, return_inverse=True)
    sums = np.zeros(len(revisions), np.int64)
    np.add.at(sums, places[rewrite], rows[rewrite])
    found: np.ndarray = rewrite & (sums[places] == 0)
    return found


def _net(files: np.ndarray, sign: np.ndarray) -> np.ndarray:
    """Which steps are left once those of one file that cancel each other are gone: of the sign
    that is left over, the last ones."""
    _, codes = np.unique(files, return_inverse=True)
    total = np.zeros(codes.max(initial=-1) + 1, np.int64)
    np.add.at(total, codes, sign)
    left = np.flatnonzero(sign == np.sign(total)[codes])
    order = left[np.lexsort((-left, codes[left]))]  # by file, the last step first
    firsts = np.r_[True, codes[order][1:] != codes[order][:-1]] if len(order) else order
    starts = np.maximum.accumulate(np.where(firsts, np.arange(len(order)), 0))
    rank = np.arange(len(order)) - starts
    kept = np.zeros(len(sign), np.bool_)
    kept[order[rank < np.abs(total)[codes[order]]]] = True
    return kept
