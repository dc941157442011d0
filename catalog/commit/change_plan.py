"""What `restore`, `remove` and `drop` are going to commit: a plan, and a value. Pure.

It is made against one head of each log and holds for that head alone: who executes it later is told
if anything was committed since.

Source: docs/changing.md, "Going back".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from ..format import compute as pc
from ..format.columns import column
from ..log.compared import FILE_CHANGES, names_of

if TYPE_CHECKING:
    from ..log.outcomes import CommitInfo

Kind = Literal["restore", "remove", "drop"]

DELETE_CHANGES: Final = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("writer", "table", "path")),
        pa.field("row_count", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("deleted_now", pa.int64()),  # null: the file isn't live
        pa.field("deleted_then", pa.int64(), nullable=False),
        pa.field("added_again", pa.bool_(), nullable=False),  # being live, to be free of deletes
    ]
)
_NONE: Final = column([0], pa.int64())[0]
_NAMED: Final = ["table", "path", "size_bytes"]


@dataclass(frozen=True, slots=True)
class WriterChange:
    """What is going to be committed to one writer's log.

    Attributes:
        writer: Whose.
        head, head_digest: Its newest revision, and the digest of that (hex): it holds for no other.
        to: restore: the token of the revision that it goes back to; empty: to before the first.
        files: Of each file that comes or goes: change (added, removed), writer, table, path,
            partition, row_count, size_bytes, revision (that added it).
        schemas: Tables with schemas that the log has forgotten, and is told again.
        forgets: The table that it forgets afterwards; empty: none.
        deletes: restore: of each file of which other rows are deleted by then than now: writer,
            table, path, row_count, size_bytes, deleted_now and deleted_then (how many rows; null:
            it isn't live now), added_again (it is live, and added again to be free of its deletes).
        columns: restore: tables whose columns, or key, go back too.
        commit: Its last commit; None: it wasn't executed.
    """

    writer: str
    head: int
    head_digest: str
    to: str
    files: pa.Table
    schemas: tuple[str, ...] = ()
    forgets: str = ""
    deletes: pa.Table = field(default_factory=DELETE_CHANGES.empty_table)
    columns: tuple[str, ...] = ()
    commit: CommitInfo | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        rows = self.files.num_rows or self.deletes.num_rows
        return not (rows or self.schemas or self.forgets or self.columns)

    @property
    def tables(self) -> list[str]:
        """The tables of whose files any come or go, or rows of them."""
        found = {name for rows in (self.files, self.deletes) for name in _tables(rows)}
        return sorted(found, key=str.encode)

    def deleted(self, *, back: bool) -> int:
        """Of files that stay, how many more rows come back than go by deletes (`back`), or the
        other way round, file by file."""
        now, then = (self.deletes.column(name) for name in ("deleted_now", "deleted_then"))
        more = pc.subtract(now, then) if back else pc.subtract(then, now)
        return pc.sum(pc.filter(more, pc.greater(more, _NONE))).as_py() or 0

    def total(self, change: str, of: str = "") -> int:
        """How many files come (`added`) or go (`removed`), or the sum of a column of them."""
        rows = self.of(change)
        return rows.num_rows if not of else pc.sum(rows.column(of)).as_py() or 0

    def of(self, change: str) -> pa.Table:
        """The files that come, or those that go."""
        wanted = column([change], FILE_CHANGES.field("change").type)[0]
        return pc.filter(self.files, pc.equal(self.files.column("change"), wanted))

    def coming_or_going(self, change: str) -> pa.Table:
        """Table, path and size of the files that it adds, or removes, those included that are added
        again to be free of deletes."""
        files = self.of(change).select(_NAMED)
        again = self.deletes.filter(self.deletes.column("added_again")).select(_NAMED)
        return pa.concat_tables([files, again]).combine_chunks()

    def same_as(self, other: WriterChange) -> bool:
        """Whether both do the same to the same head."""
        fields = ("writer", "head", "head_digest", "to", "schemas", "forgets", "columns", "deletes")
        if any(getattr(self, name) != getattr(other, name) for name in fields):
            return False
        for change in ("added", "removed"):
            one, two = (names_of(each.of(change)) for each in (self, other))
            if len(one) != len(two) or pc.all(pc.is_in(one, two.combine_chunks())).as_py() is False:
                return False
        return True


def _tables(rows: pa.Table) -> list[str]:
    found: list[str] = pc.unique(rows.column("table")).to_pylist()
    return found


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """What is going to be committed, writer by writer; or was, where these have a `commit`.

    Attributes:
        kind: restore, remove or drop.
        url: The catalog, without secrets.
        database: Whose files.
        table: The only one that it is about; None: all.
        to: restore: the token of the cut that it goes back to.
        changes: By writer; also of those for which there is nothing to do.
        notes: What the user should know.
    """

    kind: Kind
    url: str
    database: str
    table: str | None
    to: str
    changes: tuple[WriterChange, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        where = "/".join(name for name in (self.database, self.table) if name)
        what = f"{self.files_removed:,} files removed, {self.files_added:,} added"
        done = "executed" if self.is_done else "nothing to do" if self.is_empty else "not executed"
        return f"ChangePlan({self.kind} of {where}: {what} in {len(self.changes)} logs; {done})"

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return all(change.is_empty for change in self.changes)

    @property
    def is_done(self) -> bool:
        """Whether it was executed."""
        return any(change.commit is not None for change in self.changes)

    @property
    def files_added(self) -> int:
        """How many files it adds again."""
        return sum(change.total("added") for change in self.changes)

    @property
    def files_removed(self) -> int:
        """How many files it takes out of their tables."""
        return sum(change.total("removed") for change in self.changes)

    @property
    def rows_back(self) -> int:
        """How many more rows than now are not deleted of files that stay, file by file."""
        return sum(change.deleted(back=True) for change in self.changes)

    @property
    def rows_deleted(self) -> int:
        """How many more rows than now are deleted of files that stay, file by file."""
        return sum(change.deleted(back=False) for change in self.changes)
