"""What a rebuild will do: a plan (`plans`), and how it is shown. Pure.

Source: docs/maintenance.md, "Rebuild"; docs/format.md, section 4.5.
"""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - `decode_plan` looks the types of fields up
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from google.protobuf.message import DecodeError

from ..catalog.format.frame import LogIdentity  # noqa: TC001 - the same
from ..catalog.format.names import (
    LOG_ID_BYTES,
    MAX_EPOCH,
    MAX_INCARNATION,
    MAX_REVISION,
    check_id,
    check_path,
)
from ..catalog.format.objects import MAX_APP_ID_BYTES, OPERATIONS
from ..catalog.format.segments import MAX_NUMBER, MAX_TIME_US
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..errors import InvalidPath
from ..plans.contract import Effect, Field, Group
from ..plans.saved import decode_plan, encode_plan

if TYPE_CHECKING:
    from collections.abc import Iterable

FileName = tuple[str, str]  # table and path
Proof = Literal["proven", "unproven"]
LeftOutKind = Literal["damaged", "stray", "uncommitted", "removed", "excluded"]
_ID: Final = re.compile(r"[0-9a-f]{32}")
_UUID_BYTES: Final = 16
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class SalvagedFile:
    """A file that the rebuilt log adds, with its `Add`, serialized."""

    path: str
    table: str
    size_bytes: int
    row_count: int
    fingerprint: bytes = field(repr=False)
    add: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SalvagedTransaction:
    """A lost transaction, by the footers of its files.

    Attributes:
        transaction_id: Hex.
        proof: `proven`: a footer says that it was committed. `unproven`: none does, and it may have
            been.
        revision: Its place in the log; None if it has none there.
        epoch, operation, app_id, app_version: As its footers say.
        files: What it adds.
        removes: Live files that it takes out: none if it is unproven, but for a rewrite.
        kept: How many live files it replaced that are kept all the same; 0 if it has a place.
        vectors: Deletion vectors of a proven one, as `RowDeletes`.
        why: Why it counts, in words.
    """

    transaction_id: str
    proof: Proof
    revision: int | None
    epoch: int
    operation: str
    app_id: str
    app_version: int
    files: tuple[SalvagedFile, ...]
    removes: tuple[FileName, ...]
    kept: int
    vectors: tuple[bytes, ...] = field(repr=False)
    why: str

    @property
    def rows(self) -> int:
        """Of the files that it adds."""
        return sum(file.row_count for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Of the files that it adds."""
        return sum(file.size_bytes for file in self.files)

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
class KnownSchema:
    """A schema that files of a table have by their footers; see `EncodedSchema`.

    Attributes:
        marked: Fingerprints that readable transactions give such files: of the same schema with
            marks that no footer has, which was lost.
    """

    table: str
    fingerprint: bytes
    message: bytes = field(repr=False)
    marked: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class GoneFile:
    """A live file that is not in the store any more."""

    table: str
    path: str
    row_count: int


@dataclass(frozen=True, slots=True)
class SlotName:
    """A name in the log: a revision and its slot uuid."""

    revision: int
    uuid: bytes


@dataclass(frozen=True, slots=True)
class SealPlan:
    """How the present incarnation is ended.

    Attributes:
        log: The present incarnation.
        at: The agreed name of the revision after the head, or as good a guess as can be made.
        previous_uuid, previous_digest: Of the head; empty if it can't be read.
        epoch: The seal's.
        after_us: Commit time of the head; 0 if it can't be read.
        others: Further names that a living committer may still use.
        exists: Whether a seal is there already, and this plan goes on with its numbers.
    """

    log: LogIdentity
    at: SlotName
    previous_uuid: bytes
    previous_digest: bytes
    epoch: int
    after_us: int
    others: tuple[SlotName, ...] = ()
    exists: bool = False


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """A log as it will be rebuilt: the next incarnation. Immutable; `execute_rebuild` writes it.

    Attributes:
        kind: `rebuild`.
        url: The catalog's root.
        writer, database: Whose log.
        made_at: When, UTC, by the planner's clock.
        rebuild_id: Hex; the names that it writes follow from it.
        log: The rebuilt log: its id, which is the old one's, and its incarnation.
        revision: Of its opening checkpoint, above all that was seen.
        epoch: Of that: above all that was seen, so that old owners are fenced.
        base: Incarnation, revision and digest of the newest state that can be read; 0, -1 and empty
            if none can.
        readable: Digests of the transactions above it that can be read, by revision.
        transactions: Lost transactions that count, in order.
        gone: Live files that are not in the store any more.
        left_out: Objects that the log won't name, with the reason for each.
        notes: What can't be known, in words.
        lost: How many revisions are lost that no footer names.
        seal: How the present incarnation is ended.
        old_objects: Names of the log that are there now; all of them stay.
        data_digest: Of names and sizes below `data/`, to see a change.
        schemas: Of the files of salvaged and readable transactions.
        begun_at_us: When the newest object below `data/` was written, by the store's time; 0 if
            there is none, or it doesn't say.
    """

    kind: Literal["rebuild"]
    url: str
    writer: str
    database: str
    made_at: dt.datetime
    rebuild_id: str
    log: LogIdentity
    revision: int
    epoch: int
    base: tuple[int, int, bytes]
    readable: tuple[bytes, ...] = field(repr=False)
    transactions: tuple[SalvagedTransaction, ...] = field(repr=False)
    gone: tuple[GoneFile, ...] = field(repr=False)
    left_out: tuple[LeftOut, ...] = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)
    lost: int
    seal: SealPlan = field(repr=False)
    old_objects: int
    data_digest: bytes = field(repr=False)
    schemas: tuple[KnownSchema, ...] = field(repr=False)
    begun_at_us: int = 0

    @property
    def incarnation(self) -> int:
        """That of the rebuilt log."""
        return self.log.incarnation

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
        sealed = "is sealed" if self.seal.exists else "will be sealed"
        reason = f"{sealed}; the objects of the old log stay"
        old = (self.seal.log.incarnation, self.old_objects, reason)
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
        """Returns a plan from `to_json`, checked.

        Raises:
            UsageError: Not a plan, one of another format, or one that contradicts itself.
            InvalidName, InvalidPath: It names what no rebuild may write.
        """
        return check_plan(decode_plan(cls, text))


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


# --- Checks of a plan of unknown origin -----------------------------------------------------------


def check_plan(plan: RebuildPlan) -> RebuildPlan:
    """Returns the plan, if all that it names is what a rebuild of its log may write.

    Raises:
        InvalidName, InvalidPath: A writer, database, path or number that can't be.
    """
    check_id(plan.writer, "writer")
    check_id(plan.database, "database")
    known = {(schema.table, schema.fingerprint) for schema in plan.schemas}
    for item in plan.transactions:
        _check_transaction(item, known)
    for gone in plan.gone:
        check_path(gone.path)
    seal = plan.seal
    names = (seal.at, *seal.others)
    if (
        not _ID.fullmatch(plan.rebuild_id)
        or not 1 <= seal.epoch < plan.epoch <= MAX_EPOCH
        or plan.log.log_id != seal.log.log_id
        or len(plan.log.log_id) != LOG_ID_BYTES
        or not 1 <= seal.log.incarnation < plan.log.incarnation <= MAX_INCARNATION
        or not 0 <= plan.begun_at_us < MAX_TIME_US
        or not max(name.revision for name in names) < plan.revision < MAX_REVISION
        or not -1 <= plan.base[1] < plan.revision
        or any(name.revision < 0 or len(name.uuid) != _UUID_BYTES for name in names)
        or len(seal.previous_uuid) not in {0, _UUID_BYTES}
        or len(seal.previous_digest) not in {0, _DIGEST_BYTES}
        or not 0 <= seal.after_us < MAX_TIME_US
    ):
        raise _changed("a number or an id is out of range", plan.rebuild_id)
    return plan


def _check_transaction(item: SalvagedTransaction, known: set[tuple[str, bytes]]) -> None:
    for _, path in item.removes:
        check_path(path)
    if (
        not _ID.fullmatch(item.transaction_id)
        or item.operation not in OPERATIONS
        or len(item.app_id.encode()) > MAX_APP_ID_BYTES
        or not 0 <= item.app_version < MAX_NUMBER
    ):
        raise _changed("a field of a transaction is wrong", item.transaction_id)
    for file in item.files:
        check_path(file.path)
        if (file.table, file.fingerprint) not in known or not _fits(file):
            raise _changed(f"{file.path!r} is not the file of its facts", file.path)


def _fits(file: SalvagedFile) -> bool:
    try:
        add = wire.Add.FromString(file.add)
    except DecodeError:
        return False
    facts = (add.path, add.table, add.size_bytes, add.row_count, add.schema_fingerprint)
    return facts == (file.path, file.table, file.size_bytes, file.row_count, file.fingerprint)


def _changed(problem: str, key: str) -> InvalidPath:
    return InvalidPath(
        f"This can't be a rebuild plan: {problem}",
        key=key,
        hint="The plan was not made by lakelog, or was changed. Make a new one",
    )


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
