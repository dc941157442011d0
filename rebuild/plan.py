"""What a rebuild will do, as a value: nothing is written until `execute_rebuild` gets it. Pure.

Source: docs/format.md, sections 8 and 10.6; seed 002, sections 1.3 and 2.6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

if TYPE_CHECKING:
    from ..catalog.format.frame import LogIdentity
    from ..catalog.format.schema import EncodedSchema
    from ..store import Store

FileName = tuple[str, str]  # table and path
Proof = Literal["proven", "unproven", "foreign"]
LeftOutKind = Literal["quarantined", "foreign", "disproved", "conflicting", "excluded", "ignored"]


@dataclass(frozen=True, slots=True)
class RebuiltFile:
    """One file that a rebuilt transaction adds.

    Attributes:
        path: Relative to `<writer>/<database>/`.
        table: Its table.
        size_bytes, row_count: Of the file.
        fingerprint: Of its schema.
        add: Its `Add`, serialized: a million of these stay small.
        removes: Tables and paths taken out right before it, as its footer says; only such as are
            live then.
    """

    path: str
    table: str
    size_bytes: int
    row_count: int
    fingerprint: bytes = field(repr=False)
    add: bytes = field(repr=False)
    removes: tuple[FileName, ...] = ()


@dataclass(frozen=True, slots=True)
class RebuiltTransaction:
    """One revision of the rebuilt log.

    Attributes:
        revision: Its new number.
        transaction_id: Hex; of the footers.
        proof: `proven`: a later footer, or what is left of the old log, says that it was committed.
            `unproven`: it may have been written and never committed. `foreign`: files without
            lakelog metadata, taken in on request.
        original_revision: Its number in the old log, where anything tells; else None.
        base_revision: The head that it was begun on.
        epoch: Under which its files were written.
        operation: As its footers say.
        committed_at_us: The commit time it gets.
        app_id, app_version: Idempotence, as its footers say.
        files: What it adds, in order.
        why: Why it stands at this place, in words.
        removed: Tables and paths that it takes out first, with nothing in their place.
    """

    revision: int
    transaction_id: str
    proof: Proof
    original_revision: int | None
    base_revision: int
    epoch: int
    operation: str
    committed_at_us: int
    app_id: str
    app_version: int
    files: tuple[RebuiltFile, ...]
    why: str
    removed: tuple[FileName, ...] = ()

    @property
    def removes(self) -> tuple[FileName, ...]:
        """Tables and paths that it takes out."""
        return (*self.removed, *(name for file in self.files for name in file.removes))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An object below `data/` that the rebuilt log won't name. It is never moved or deleted.

    Attributes:
        path: Relative to `<writer>/<database>/`.
        size_bytes: Of the object.
        kind: `quarantined` (damaged, or it belongs elsewhere), `foreign` (no lakelog metadata),
            `disproved` (its transaction can't have been committed), `conflicting` (its transaction
            or another unproven one was not committed; the later one is kept), `excluded` (on
            request), `ignored` (no Parquet file by its name).
        reason: In words.
        transaction_id: Hex, where known.
    """

    path: str
    size_bytes: int
    kind: LeftOutKind
    reason: str
    transaction_id: str = ""


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
        stands: Whether a seal stands there already, and this plan goes on with its numbers.
    """

    log: LogIdentity
    at: SlotName
    previous_uuid: bytes
    previous_digest: bytes
    epoch: int
    after_us: int
    others: tuple[SlotName, ...] = ()
    stands: bool = False


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """A log as it will be rebuilt: the next incarnation. Immutable; `execute_rebuild` writes it.

    Attributes:
        url: The catalog's root.
        writer, database: Whose log.
        rebuild_id: Hex; the names of the rebuilt revisions follow from it.
        log: The rebuilt log: its id, which is the old one's, and its incarnation.
        epoch: Of all rebuilt commits: above that of every file, so that old owners are fenced.
        transactions: The rebuilt revisions, from 0 without gaps.
        left_out: Objects that it won't name, with the reason for each.
        notes: What can't be known, in words.
        seal: How the present incarnation is ended.
        old_objects: Names of the log that are there now; all of them stay.
        objects_seen, bytes_seen: All objects below `data/`.
        data_mark: A digest of names and sizes below `data/`, to see a change.
        schemas: By table and fingerprint.
        store: Where the log is.
    """

    url: str
    writer: str
    database: str
    rebuild_id: str
    log: LogIdentity
    epoch: int
    transactions: tuple[RebuiltTransaction, ...] = field(repr=False)
    left_out: tuple[LeftOut, ...] = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)
    seal: SealPlan = field(repr=False)
    old_objects: int
    objects_seen: int
    bytes_seen: int
    data_mark: bytes = field(repr=False)
    schemas: dict[tuple[str, bytes], EncodedSchema] = field(repr=False)
    store: Store = field(repr=False, compare=False)

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
    def live(self) -> dict[str, RebuiltFile]:
        """The files that are live at the end, by path."""
        files: dict[str, RebuiltFile] = {}
        for transaction in self.transactions:
            for _, path in transaction.removed:
                files.pop(path, None)
            for file in transaction.files:
                for _, path in file.removes:
                    files.pop(path, None)
                files[file.path] = file
        return files


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


def transactions_table(plan: RebuildPlan) -> pa.Table:
    """The rebuilt revisions, one a row.

    Returns:
        revision, transaction_id, proof, original_revision (null if unknown), epoch, operation,
        committed_at (timestamp[us, UTC]), files_added, files_removed, rows_added, bytes_added, why.
    """
    schema = pa.schema(
        [
            ("revision", pa.int64()),
            ("transaction_id", pa.string()),
            ("proof", pa.string()),
            ("original_revision", pa.int64()),
            ("epoch", pa.int64()),
            ("operation", pa.string()),
            ("committed_at", pa.timestamp("us", "UTC")),
            ("files_added", pa.int64()),
            ("files_removed", pa.int64()),
            ("rows_added", pa.int64()),
            ("bytes_added", pa.int64()),
            ("why", pa.string()),
        ]
    )
    rows = [
        (
            item.revision,
            item.transaction_id,
            item.proof,
            item.original_revision,
            item.epoch,
            item.operation,
            item.committed_at_us,
            len(item.files),
            len(item.removes),
            sum(file.row_count for file in item.files),
            sum(file.size_bytes for file in item.files),
            item.why,
        )
        for item in plan.transactions
    ]
    columns = list(zip(*rows)) or [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(list(values), entry.type) for values, entry in zip(columns, schema)],
        schema=schema,
    )


def left_out_table(plan: RebuildPlan) -> pa.Table:
    """The objects that the rebuilt log won't name, one a row, by path.

    Returns:
        path, size_bytes, kind, transaction_id (empty if unknown), reason.
    """
    items = sorted(plan.left_out, key=lambda item: item.path.encode())
    return pa.table(
        {
            "path": pa.array([item.path for item in items], pa.string()),
            "size_bytes": pa.array([item.size_bytes for item in items], pa.int64()),
            "kind": pa.array([item.kind for item in items], pa.string()),
            "transaction_id": pa.array([item.transaction_id for item in items], pa.string()),
            "reason": pa.array([item.reason for item in items], pa.string()),
        }
    )
