"""What a rebuild plan is made of. Pure.

Source: docs/format.md, sections 8 and 10.6; docs/maintenance.md.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final, Literal

from ..catalog.format.frame import LogIdentity  # noqa: TC001 - `decode_plan` looks it up

MAX_FILE_EPOCH: Final = 1 << 61  # in a footer: room is left for epochs above it
FileName = tuple[str, str]  # table and path
SchemaName = tuple[str, bytes]  # table and fingerprint
Proof = Literal["proven", "unproven", "foreign"]
LeftOutKind = Literal["quarantined", "foreign", "disproved", "undecided", "excluded", "ignored"]


def derived_id(rebuild_id: bytes, what: str) -> bytes:
    """The id of a transaction that a rebuild adds: the same again if it is run again."""
    return hashlib.sha256(b"lakelog rebuild " + what.encode() + rebuild_id).digest()[:16]


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
        app_id, app_version: Idempotence, as its footers say; empty and 0 where the old log has
            forgotten it.
        files: What it adds, in order.
        why: Why it stands at this place, in words.
        removed: Tables and paths that it takes out first, with nothing in their place.
        schemas: Tables and fingerprints of schemas that it names beside those of its files.
        applications: Versions of applications that it sets beside its own.
        forgotten: Tables and fingerprints of schemas that the log knows no more after it.
        definitions: What it says of the columns of tables, as messages.
        deletes: Deletes of rows that it names, as actions.
        tables: That the log knows no more after it.
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
    schemas: tuple[SchemaName, ...] = ()
    applications: tuple[tuple[str, int], ...] = ()
    forgotten: tuple[SchemaName, ...] = ()
    definitions: tuple[bytes, ...] = field(default=(), repr=False)
    deletes: tuple[bytes, ...] = field(default=(), repr=False)
    tables: tuple[str, ...] = ()

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
            `disproved` (its transaction can't have been committed), `undecided` (it may have been
            committed; nothing tells), `excluded` (on request), `ignored` (no Parquet file by its
            name).
        reason: In words.
        transaction_id: Hex, where known.
    """

    path: str
    size_bytes: int
    kind: LeftOutKind
    reason: str
    transaction_id: str = ""


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """A schema that files of a table have.

    Attributes:
        table: Of which table.
        fingerprint, message: As of `EncodedSchema`.
        key, sort_order: Columns of the table's key and sort order, as the old log says; else empty.
    """

    table: str
    fingerprint: bytes
    message: bytes = field(repr=False)
    key: tuple[str, ...] = ()
    sort_order: tuple[str, ...] = ()


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
