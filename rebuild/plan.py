"""What a rebuild will do: a plan (`plans`), and how it is shown. Pure.

A plan says what comes back and what does not. It holds nothing that is written: executing it reads
the log and the footers again, and does what they say, if that is the very same plan. So a plan of
unknown origin can choose nothing but which transactions to exclude and include.

Source: docs/maintenance.md, "Rebuild"; docs/format.md, section 4.5.
"""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - `decode_plan` looks the types of fields up
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ..catalog.format.names import MAX_INCARNATION, check_id
from ..errors import UsageError
from ..plans.contract import Effect, Field, Group
from ..plans.saved import decode_plan, encode_plan

if TYPE_CHECKING:
    from collections.abc import Iterable

FileName = tuple[str, str]  # table and path
Proof = Literal["proven", "unproven"]
LeftOutKind = Literal["damaged", "stray", "uncommitted", "removed", "excluded"]
_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class SalvagedTransaction:
    """A lost transaction, by the footers of its files.

    Attributes:
        transaction_id: Hex.
        proof: `proven`: a footer says that it was committed. `unproven`: none does, and it may have
            been.
        revision: Its place in the log; None if it has none there.
        epoch, operation: As its footers say.
        files: Tables and paths of what it adds.
        rows, size_bytes: Of these files.
        removes: Live files that it takes out: none if it is unproven, but for a rewrite.
        kept: How many live files it replaced that are kept all the same; 0 if it has a place.
        why: Why it counts, in words.
    """

    transaction_id: str
    proof: Proof
    revision: int | None
    epoch: int
    operation: str
    files: tuple[FileName, ...]
    rows: int
    size_bytes: int
    removes: tuple[FileName, ...]
    kept: int
    why: str

    @property
    def files_removed(self) -> int:
        """How many live files it takes out."""
        return len(self.removes)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An object below `data/` that the rebuilt log won't name. It is never moved or deleted.

    Attributes:
        path: Relative to `<writer>/<database>/`.
        size_bytes, row_count: Of the object; no rows where they can't be read.
        kind: `damaged`; `stray` (not lakelog's, or of another log); `uncommitted`; `removed` (by
            a later commit); `excluded`.
        reason: In words.
        transaction_id: Hex, where known.
    """

    path: str
    size_bytes: int
    row_count: int
    kind: LeftOutKind
    reason: str
    transaction_id: str = ""


@dataclass(frozen=True, slots=True)
class GoneFile:
    """A live file that is not in the store any more."""

    table: str
    path: str
    row_count: int


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """A log as it will be rebuilt: the next incarnation. Immutable; `execute_rebuild` writes it.

    Attributes:
        kind: `rebuild`.
        url: The catalog's root.
        writer, database: Whose log.
        made_at: When, UTC, by the planner's clock.
        rebuild_id: Hex; the names that it writes follow from it.
        sealed, incarnation: The present incarnation, which is ended, and the next.
        revision: Of its opening checkpoint, above all that was seen.
        epoch: Of that: above all that was seen, so that old owners are fenced.
        base: Incarnation and revision of the newest state that can be read; 0 and -1 if none can.
        exclude, include: Ids (hex) of transactions that the user left out, or took in.
        transactions: Lost transactions that count, in order.
        gone: Live files that are not in the store any more.
        left_out: Objects that the log won't name, with the reason for each.
        lost: How many revisions are lost that no footer names.
        digest: Of all that it was made from: the log, and the names and sizes below `data/`.
        notes: What can't be known, in words.
        old_objects: Names of the log that are there now; all of them stay.
    """

    kind: Literal["rebuild"]
    url: str
    writer: str
    database: str
    made_at: dt.datetime
    rebuild_id: str
    sealed: int
    incarnation: int
    revision: int
    epoch: int
    base: tuple[int, int]
    exclude: tuple[str, ...]
    include: tuple[str, ...]
    transactions: tuple[SalvagedTransaction, ...] = field(repr=False)
    gone: tuple[GoneFile, ...] = field(repr=False)
    left_out: tuple[LeftOut, ...] = field(repr=False)
    lost: int
    digest: bytes = field(repr=False)
    # An execution that was broken off has put seals: they are no change.
    notes: tuple[str, ...] = field(repr=False, compare=False)
    old_objects: int = field(compare=False)

    @property
    def is_whole(self) -> bool:
        """Whether the old log is read to its end, and no file is of anything more."""
        return not (self.transactions or self.lost or self.base[1] < 0)

    @property
    def unproven(self) -> tuple[SalvagedTransaction, ...]:
        """Transactions that may have been written and never committed."""
        return tuple(item for item in self.transactions if item.proof == "unproven")

    @property
    def effect(self) -> Effect:
        """What it writes; the size is that of the files that it brings back."""
        return Effect("write", "checkpoint", 1, sum(one.size_bytes for one in self.transactions))

    def describe(self) -> tuple[Group, ...]:
        """What comes back, what is lost, what is left out, and what becomes of the old log."""
        old = (self.sealed, self.old_objects, "will be sealed; the objects of the old log stay")
        logs = [old] * bool(self.old_objects) + [(self.incarnation, None, "the rebuilt log")]
        names = [column.name for column in _INCARNATION]
        return (
            Group("transactions", "", _TRANSACTION, _rows(_TRANSACTION, self.transactions)),
            Group(
                "gone", "gone: live, and not in the store any more", _GONE, _rows(_GONE, self.gone)
            ),
            Group("left_out", "left out", _LEFT_OUT, _rows(_LEFT_OUT, self.left_out)),
            Group(
                "incarnations", "incarnations", _INCARNATION,
                tuple(dict(zip(names, row, strict=True)) for row in logs),
            ),
        )  # fmt: skip

    def to_json(self) -> str:
        """Returns the plan as JSON text, for `from_json`."""
        return encode_plan(self, "transactions")

    @classmethod
    def from_json(cls, text: str | bytes) -> RebuildPlan:
        """Returns a plan from `to_json`.

        Raises:
            UsageError: Not a plan, or one of another format.
            InvalidName: It names what can't be.
        """
        plan = decode_plan(cls, text)
        check_id(plan.writer, "writer")
        check_id(plan.database, "database")
        if not _ID.fullmatch(plan.rebuild_id) or not 1 < plan.incarnation <= MAX_INCARNATION:
            raise UsageError(
                "This can't be a rebuild plan: a number or an id is out of range",
                key=plan.rebuild_id[:60],
                hint="The plan was not made by lakelog, or was changed. Make a new one",
            )
        return plan


@dataclass(frozen=True, slots=True)
class RebuildInfo:
    """A rebuilt log in the store.

    Attributes:
        writer, database: Whose log.
        incarnation, revision: Of its opening checkpoint.
        transactions: How many lost ones count.
        files, rows, size_bytes: Live now.
        checkpoint_key: The opening checkpoint, which switched the log over.
        seal_key: The seal that ended the incarnation before.
    """

    writer: str
    database: str
    incarnation: int
    revision: int
    transactions: int
    files: int
    rows: int
    size_bytes: int
    checkpoint_key: str
    seal_key: str


# --- How it is shown ------------------------------------------------------------------------------

_TRANSACTION: Final = (
    Field("transaction_id"),
    Field("proof"),
    Field("revision", style="count"),
    Field("operation"),
    Field("files", "FILES+", style="count"),
    Field("files_removed", "FILES-", style="count"),
    Field("rows", "ROWS", style="count"),
    Field("size_bytes", "SIZE", style="size"),
    Field("kept", shown=False, style="count"),
    Field("epoch", shown=False),
    Field("why", shown=False),
)
_GONE: Final = (Field("table"), Field("path"), Field("row_count", "ROWS", style="count"))
_LEFT_OUT: Final = (
    Field("kind"),
    Field("path"),
    Field("row_count", "ROWS", style="count"),
    Field("size_bytes", "SIZE", style="size"),
    Field("transaction_id", shown=False),
    Field("reason"),
)
_INCARNATION: Final = (Field("incarnation"), Field("objects", style="count"), Field("reason"))


def _rows(columns: Iterable[Field], items: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """Returns a row for each item: its attributes; of several things their number."""
    return tuple(
        {
            column.name: len(value) if isinstance(value, tuple) else None if value == "" else value
            for column in columns
            for value in [getattr(item, column.name)]
        }
        for item in items
    )
