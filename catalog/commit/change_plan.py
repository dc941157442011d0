"""What `restore`, `remove` and `drop` are going to commit: a plan, and a value. Pure.

It is made against one head of each log and holds for that head alone: who executes it later is told
if anything was committed since.

Source: docs/changing.md, "Going back".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..format import compute as pc
from ..format.columns import column
from ..log.compared import FILE_CHANGES
from ..log.live_rows import names_of

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["restore", "remove", "drop"]


@dataclass(frozen=True, slots=True)
class WriterCommit:
    """What became of the part of a plan that is about one writer.

    Attributes:
        revision: That stands for it.
        forgotten_at: The revision that forgot the table after that; None: none had to.
    """

    revision: int
    forgotten_at: int | None = None


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
        commit: What became of it; None: it wasn't executed.
    """

    writer: str
    head: int
    head_digest: str
    to: str
    files: pa.Table
    schemas: tuple[str, ...] = ()
    forgets: str = ""
    commit: WriterCommit | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.files.num_rows or self.schemas or self.forgets)

    def total(self, change: str, of: str = "") -> int:
        """How many files come (`added`) or go (`removed`), or the sum of a column of them."""
        rows = self.of(change)
        return rows.num_rows if not of else pc.sum(rows.column(of)).as_py() or 0

    def of(self, change: str) -> pa.Table:
        """The files that come, or those that go."""
        wanted = column([change], FILE_CHANGES.field("change").type)[0]
        return pc.filter(self.files, pc.equal(self.files.column("change"), wanted))

    def same_as(self, other: WriterChange) -> bool:
        """Whether both do the same to the same head."""
        fields = ("writer", "head", "head_digest", "to", "schemas", "forgets")
        if any(getattr(self, name) != getattr(other, name) for name in fields):
            return False
        for change in ("added", "removed"):
            one, two = (names_of(each.of(change)) for each in (self, other))
            if len(one) != len(two) or pc.all(pc.is_in(one, two.combine_chunks())).as_py() is False:
                return False
        return True


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
