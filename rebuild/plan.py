"""What a rebuild will do: a plan (`plans`) of the log that footers prove. Pure.

Source: docs/format.md, section 8; docs/maintenance.md.
"""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - `decode_plan` looks the types of fields up
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from google.protobuf.message import DecodeError

from ..catalog.format.names import check_id, check_path, log_folder, parse_log_object
from ..catalog.format.objects import OPERATIONS
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..errors import InvalidPath
from ..plans.contract import Effect, Group
from ..plans.saved import decode_plan, encode_plan
from .describe import (
    describe_left_out,
    describe_replaced,
    describe_transactions,
    describe_unproven,
)
from .values import (
    MAX_EPOCH,
    MAX_PADDING,
    KnownSchema,
    LeftOut,
    OldObject,
    PromisedName,
    RebuiltFile,
    RebuiltTransaction,
)

_REBUILD_ID: Final = re.compile(r"[0-9a-f]{16}")
_LATEST_US: Final = 253_402_300_799_999_999  # the end of year 9999
_TRANSACTION_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """A log as it will be rebuilt from footers. Immutable; `execute_rebuild` writes it.

    Attributes:
        kind: `rebuild`.
        url: The catalog's root.
        writer, database: Whose log.
        made_at: When, UTC, by the planner's clock.
        rebuild_id: Names this rebuild; old objects go to `<writer>/<database>/replaced/<it>/`.
        epoch: Of all rebuilt commits: above that of every file, so that old owners are fenced.
        transactions: The rebuilt revisions, from 0 without gaps.
        left_out: Objects that it won't name, with the reason for each.
        notes: What can't be known from footers, in words.
        replaced: Objects of the old log, which are copied aside and then deleted.
        objects_seen, bytes_seen: All objects below `data/`.
        data_digest: Of names and sizes below `data/`, to see a change.
        schemas: Of the files of all transactions.
        promised: Names that the new log takes over, so that a committer that still runs finds its
            next name taken.
        padding: Empty revisions after the last transaction, for the same reason.
    """

    kind: Literal["rebuild"]
    url: str
    writer: str
    database: str
    made_at: dt.datetime
    rebuild_id: str
    epoch: int
    transactions: tuple[RebuiltTransaction, ...] = field(repr=False)
    left_out: tuple[LeftOut, ...] = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)
    replaced: tuple[OldObject, ...] = field(repr=False)
    objects_seen: int
    bytes_seen: int
    data_digest: bytes = field(repr=False)
    schemas: tuple[KnownSchema, ...] = field(repr=False)
    promised: tuple[PromisedName, ...] = field(repr=False)
    padding: int

    @property
    def unproven(self) -> tuple[RebuiltTransaction, ...]:
        """Transactions that may have been written and never committed."""
        return tuple(item for item in self.transactions if item.proof == "unproven")

    @property
    def quarantined(self) -> tuple[LeftOut, ...]:
        """Files that are damaged, or that belong elsewhere."""
        return tuple(item for item in self.left_out if item.kind == "quarantined")

    @property
    def live(self) -> dict[str, RebuiltFile]:
        """The files that are live at the end, by path."""
        files: dict[str, RebuiltFile] = {}
        for transaction in self.transactions:
            for file in transaction.files:
                for path in file.removes:
                    files.pop(path, None)
                files[file.path] = file
        return files

    @property
    def effect(self) -> Effect:
        """What it writes; the size is that of the live files that the log will name."""
        size_bytes = sum(file.size_bytes for file in self.live.values())
        return Effect("write", "transaction", len(self.transactions), size_bytes)

    def describe(self) -> tuple[Group, ...]:
        """The new log, what it leaves out, and what becomes of the old log's objects."""
        return (
            describe_transactions(self.transactions),
            describe_unproven(self.transactions),
            describe_left_out(self.left_out),
            describe_replaced(self.replaced, self.rebuild_id),
        )

    def to_json(self) -> str:
        """The plan as JSON text, for `from_json`."""
        return encode_plan(self, "transactions")

    @classmethod
    def from_json(cls, text: str | bytes) -> RebuildPlan:
        """A plan from `to_json`, checked.

        Raises:
            UsageError: Not a plan, one of another format, or one that contradicts itself.
            InvalidName, InvalidPath: It names what no rebuild may write, copy or delete.
        """
        return check_plan(decode_plan(cls, text))


@dataclass(frozen=True, slots=True)
class RebuildInfo:
    """A rebuilt log that stands in the store.

    Attributes:
        writer, database: Whose log.
        revision: Its newest.
        transactions: How many were rebuilt.
        files, rows, size_bytes: Live at the newest revision.
        checkpoint_key: The checkpoint written at the end.
        replaced_prefix: Where the old log's objects were copied; empty if there were none.
        replaced_objects: How many.
    """

    writer: str
    database: str
    revision: int
    transactions: int
    files: int
    rows: int
    size_bytes: int
    checkpoint_key: str
    replaced_prefix: str
    replaced_objects: int


def check_plan(plan: RebuildPlan) -> RebuildPlan:
    """The plan, if all that it names is what a rebuild of its writer and database may touch.

    Raises:
        UsageError: It contradicts itself, or a number is out of range.
        InvalidName, InvalidPath: A writer, database, path or key that breaks the rules of names, or
            that lies elsewhere.
    """
    check_id(plan.writer, "writer")
    check_id(plan.database, "database")
    folder = log_folder(plan.writer, plan.database)
    for item in plan.replaced:
        name = item.key.removeprefix(folder)
        if name == item.key or parse_log_object(name) is None:
            raise _changed(f"{item.key!r} is no log object below {folder}", item.key)
    known = {(schema.table, schema.fingerprint) for schema in plan.schemas}
    for revision, transaction in enumerate(plan.transactions):
        if (
            not _TRANSACTION_ID.fullmatch(transaction.transaction_id)
            or transaction.revision != revision
            or transaction.operation not in OPERATIONS
            or transaction.committed_at_us > _LATEST_US
        ):
            raise _changed(
                f"a field of transaction {revision} is wrong", transaction.transaction_id
            )
        for file in transaction.files:
            check_path(file.path)
            if (file.table, file.fingerprint) not in known or not _fits(file):
                raise _changed(f"{file.path!r} is not the file that its facts tell of", file.path)
            for path in file.removes:
                check_path(path)
    if (
        not _REBUILD_ID.fullmatch(plan.rebuild_id)
        or not 1 <= plan.epoch <= MAX_EPOCH
        or not 0 <= plan.padding <= MAX_PADDING
        or not all(name.revision > 0 and len(name.start) == 4 for name in plan.promised)
    ):
        raise _changed("a number is out of range", plan.rebuild_id)
    return plan


def _fits(file: RebuiltFile) -> bool:
    """Whether the `Add` of a file is about it."""
    try:
        add = wire.Add.FromString(file.add)
    except DecodeError:
        return False
    said = (add.path, add.table, add.size_bytes, add.row_count, add.schema_fingerprint)
    return said == (file.path, file.table, file.size_bytes, file.row_count, file.fingerprint)


def _changed(problem: str, key: str) -> InvalidPath:
    return InvalidPath(
        f"This can't be a rebuild plan: {problem}",
        key=key,
        hint="The plan was not made by lakelog, or was changed. Make a new one",
    )
