"""What a rebuild will do: a plan (`plans`) of the log that footers prove. Pure.

Source: docs/format.md, sections 8 and 10.6; docs/maintenance.md.
"""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - `decode_plan` looks the types of fields up
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from google.protobuf.message import DecodeError

from ..catalog.format.definitions import parse_definition
from ..catalog.format.frame import LogIdentity  # noqa: TC001 - the same
from ..catalog.format.locations import MAX_LOCATIONS, Places, is_in_place, location_problem
from ..catalog.format.names import (
    LOG_ID_BYTES,
    MAX_EPOCH,
    MAX_INCARNATION,
    MAX_REVISION,
    check_id,
    check_path,
    escape_name,
)
from ..catalog.format.objects import MAX_APP_ID_BYTES, OPERATIONS
from ..catalog.format.segments import MAX_NUMBER, MAX_TIME_US
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..errors import CorruptObject, InvalidPath
from ..plans.contract import Effect, Group
from ..plans.saved import decode_plan, encode_plan
from .describe import (
    describe_incarnations,
    describe_left_out,
    describe_transactions,
    describe_undecided,
    describe_unproven,
)
from .undecided import live_files, undecided_files
from .values import KnownSchema, LeftOut, RebuiltFile, RebuiltTransaction, SealPlan  # noqa: TC001

_REBUILD_ID: Final = re.compile(r"[0-9a-f]{32}")
_LATEST_US: Final = 253_402_300_799_999_999  # the end of year 9999
_TRANSACTION_ID: Final = re.compile(r"[0-9a-f]{32}")
_UUID_BYTES: Final = 16
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """A log as it will be rebuilt: the next incarnation. Immutable; `execute_rebuild` writes it.

    Attributes:
        kind: `rebuild`.
        url: The catalog's root.
        writer, database: Whose log.
        made_at: When, UTC, by the planner's clock.
        rebuild_id: Hex; the names of the rebuilt revisions follow from it.
        log: The rebuilt log: its id, which is the old one's, and its incarnation.
        epoch: Of all rebuilt commits: above that of every file, so that old owners are fenced.
        transactions: The rebuilt revisions, from 0 without gaps.
        left_out: Objects that it won't name, with the reason for each.
        notes: What can't be known, in words.
        is_whole: Whether the old log was read to its end, so that nothing but it had to tell.
        seal: How the present incarnation is ended.
        old_objects: Names of the log that are there now; all of them stay.
        data_digest: Of names and sizes below `data/`, to see a change.
        schemas: Of the files of all transactions.
        begun_at_us: When the newest object below `data/` was written, by the store's time; 0 if it
            doesn't say. The new incarnation tells its own files from older ones by it.
        locations: That the old log names, for files that lie elsewhere.
    """

    kind: Literal["rebuild"]
    url: str
    writer: str
    database: str
    made_at: dt.datetime
    rebuild_id: str
    log: LogIdentity
    epoch: int
    transactions: tuple[RebuiltTransaction, ...] = field(repr=False)
    left_out: tuple[LeftOut, ...] = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)
    is_whole: bool
    seal: SealPlan = field(repr=False)
    old_objects: int
    data_digest: bytes = field(repr=False)
    schemas: tuple[KnownSchema, ...] = field(repr=False)
    begun_at_us: int = 0
    locations: tuple[str, ...] = ()

    @property
    def incarnation(self) -> int:
        """That of the rebuilt log."""
        return self.log.incarnation

    @property
    def unproven(self) -> tuple[RebuiltTransaction, ...]:
        """Transactions that may have been written and never committed."""
        return tuple(item for item in self.transactions if item.proof == "unproven")

    @property
    def quarantined(self) -> tuple[LeftOut, ...]:
        """Files that are damaged, or that belong elsewhere."""
        return tuple(item for item in self.left_out if item.kind == "quarantined")

    @property
    def undecided(self) -> dict[str, str]:
        """Files that won't be live and may have been, by path, each with the reason. They stay in
        the store, and gc takes none of them by itself."""
        return undecided_files(self.transactions, self.left_out, is_whole=self.is_whole)

    @property
    def live(self) -> dict[str, RebuiltFile]:
        """The files that are live at the end, by path."""
        return live_files(self.transactions)

    @property
    def effect(self) -> Effect:
        """What it writes; the size is that of the live files that the log will name."""
        size_bytes = sum(file.size_bytes for file in self.live.values())
        return Effect("write", "transaction", len(self.transactions), size_bytes)

    def describe(self) -> tuple[Group, ...]:
        """The new log, what it leaves out, and what becomes of the old one."""
        return (
            describe_transactions(self.transactions),
            describe_unproven(self.transactions),
            describe_undecided(self.undecided),
            describe_left_out(self.left_out),
            describe_incarnations(self.log, self.seal, self.old_objects),
        )

    def to_json(self) -> str:
        """The plan as JSON text, for `from_json`."""
        return encode_plan(self, "transactions")

    @classmethod
    def from_json(cls, text: str | bytes) -> RebuildPlan:
        """A plan from `to_json`, checked.

        Raises:
            UsageError: Not a plan, one of another format, or one that contradicts itself.
            InvalidName, InvalidPath: It names what no rebuild may write.
        """
        return check_plan(decode_plan(cls, text))


@dataclass(frozen=True, slots=True)
class RebuildInfo:
    """A rebuilt log that stands in the store.

    Attributes:
        writer, database: Whose log.
        incarnation: That it is in now.
        revision: Its newest.
        transactions: How many were rebuilt.
        files, rows, size_bytes: Live at the newest revision.
        checkpoint_key: The checkpoint written at the end, which switched the log over.
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


def check_plan(plan: RebuildPlan) -> RebuildPlan:
    """The plan, if all that it names is what a rebuild of its writer and database may touch.

    Raises:
        UsageError: It contradicts itself, or a number is out of range.
        InvalidName, InvalidPath: A writer, database, path or key that breaks the rules of names, or
            that lies elsewhere.
    """
    check_id(plan.writer, "writer")
    check_id(plan.database, "database")
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
        for _, path in transaction.removed:
            check_path(path)
        if not known.issuperset((*transaction.schemas, *transaction.forgotten)) or any(
            not 0 < len(app.encode()) <= MAX_APP_ID_BYTES or not 0 <= version < MAX_NUMBER
            for app, version in transaction.applications
        ):
            raise _changed(
                f"a schema or application of transaction {revision} is wrong",
                transaction.transaction_id,
            )
        _check_definitions(transaction)
        for table in transaction.tables:
            escape_name(table, "table")
        for file in transaction.files:
            check_path(file.path)
            if (file.table, file.fingerprint) not in known or not _fits(file):
                raise _changed(f"{file.path!r} is not the file that its facts tell of", file.path)
            for _, path in file.removes:
                check_path(path)
    _check_locations(plan)
    if (
        not _REBUILD_ID.fullmatch(plan.rebuild_id)
        or not 1 <= plan.seal.epoch < plan.epoch <= MAX_EPOCH
        or plan.log.log_id != plan.seal.log.log_id
        or len(plan.log.log_id) != LOG_ID_BYTES
        or not 1 <= plan.seal.log.incarnation < plan.log.incarnation <= MAX_INCARNATION
        or not 0 <= plan.begun_at_us < MAX_TIME_US
        or not _can_stand(plan.seal)
    ):
        raise _changed("a number or an id is out of range", plan.rebuild_id)
    return plan


def _check_definitions(transaction: RebuiltTransaction) -> None:
    """Whether what it says of the columns of tables keeps the rules."""
    where = f"transaction {transaction.revision}"
    try:
        for data in transaction.definitions:
            parse_definition(data, where)
    except CorruptObject as error:
        raise _changed(error.message, transaction.transaction_id) from None


def _check_locations(plan: RebuildPlan) -> None:
    """Whether each file that lies elsewhere is at a place that the log will name."""
    places = Places(plan.locations, f"{plan.writer}/{plan.database}")
    for url in plan.locations:
        if location_problem(url):
            raise _changed(f"the location {url!r} {location_problem(url)}", url)
    if len(plan.locations) > MAX_LOCATIONS:
        raise _changed("it names too many locations", plan.rebuild_id)
    for path in (file.path for item in plan.transactions for file in item.files):
        if is_in_place(path):
            try:
                places.location(path)
            except CorruptObject as error:
                raise _changed(error.message, path) from None


def _can_stand(seal: SealPlan) -> bool:
    """Whether a seal has names and a predecessor as there are in logs."""
    return (
        all(
            0 <= name.revision <= MAX_REVISION and len(name.uuid) == _UUID_BYTES
            for name in (seal.at, *seal.others)
        )
        and len(seal.previous_uuid) in {0, _UUID_BYTES}
        and len(seal.previous_digest) in {0, _DIGEST_BYTES}
        and 0 <= seal.after_us < _LATEST_US
    )


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
