"""What a rebuild plan is made of. Pure.

Source: docs/format.md, section 8; docs/maintenance.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

MAX_EPOCH: Final = 1 << 61
MAX_PADDING: Final = 1_000
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
        removes: Paths taken out right before it, as its footer says; only such as are live then.
    """

    path: str
    table: str
    size_bytes: int
    row_count: int
    fingerprint: bytes = field(repr=False)
    add: bytes = field(repr=False)
    removes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RebuiltTransaction:
    """One revision of the rebuilt log.

    Attributes:
        revision: Its new number.
        transaction_id: Hex; of the footers.
        proof: `proven`: a later footer says that it was committed. `unproven`: it may have been
            written and never committed. `foreign`: files without lakelog metadata, taken in on
            request.
        original_revision: Its number in the lost log, where a footer tells; else None.
        base_revision: The head that it was begun on.
        epoch: Under which its files were written.
        operation: As its footers say.
        committed_at_us: The commit time it gets.
        app_id, app_version: Idempotence, as its footers say.
        files: What it adds, in order.
        why: Why it stands at this place, in words.
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

    @property
    def removes(self) -> tuple[str, ...]:
        """Paths that it takes out."""
        return tuple(path for file in self.files for path in file.removes)


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
class KnownSchema:
    """A schema that files of a table have.

    Attributes:
        table: Of which table.
        fingerprint: Of the schema.
        message: As an Arrow IPC message.
    """

    table: str
    fingerprint: bytes
    message: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class OldObject:
    """An object of the old log."""

    key: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PromisedName:
    """The name of a revision that the old log promised, and that the new one takes over.

    Attributes:
        revision: Which one.
        start: The first 4 bytes of its slot uuid.
    """

    revision: int
    start: bytes
