"""What a scan of `data/` finds: lakelog's own files, foreign ones, and the rest. Pure.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import datetime as dt

    from ..catalog.format.schema import EncodedSchema
    from ..catalog.wire import lakelog_transaction_pb2 as wire
    from ..store import ObjectInfo
    from .values import LeftOut


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A Parquet file that can be used.

    Attributes:
        path: Relative to `<writer>/<database>/`.
        size_bytes, modified_at_us: Of the object; the time is None where the store doesn't say.
        row_count: Of the file.
        add: Its `Add`, serialized.
        table: Its table.
        fingerprint: Of its schema.
    """

    path: str
    size_bytes: int
    modified_at_us: int | None
    row_count: int
    add: bytes = field(repr=False)
    table: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class OwnFile(ScannedFile):
    """A file that lakelog wrote, at its place. Fields as in `FooterMetadata`."""

    transaction_id: bytes
    number: int
    base_revision: int
    base_transaction_id: bytes
    epoch: int
    last_clock: int
    log_id: bytes
    incarnation: int
    slot_seed: bytes = field(repr=False)
    replaces: tuple[tuple[str, str], ...]
    replaced: int
    app_id: str
    app_version: int
    base_app_version: int
    operation: str
    task: int = -1
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class OwnObject:
    """An object of row deletes or of actions, at its place: it says of its transaction what a data
    file would. Fields as in `FooterMetadata`, and:

    Attributes:
        actions: What it says.
        objects: How many objects of actions the transaction has; 0 if this is one of row deletes.
        definition_before: Name of the definition that it takes the place of; empty for none.
        head: The newest revision that was known when it was written, and the id of its last
            transaction; -1 for none.
    """

    path: str
    size_bytes: int
    modified_at_us: int | None
    table: str
    transaction_id: bytes
    number: int
    base_revision: int
    base_transaction_id: bytes
    epoch: int
    last_clock: int
    log_id: bytes
    incarnation: int
    slot_seed: bytes = field(repr=False)
    app_id: str
    app_version: int
    base_app_version: int
    operation: str
    actions: tuple[wire.Action, ...] = field(repr=False)
    objects: int
    definition_before: bytes
    head: tuple[int, bytes]


# Whatever a transaction has written for itself below `data/`.
Writing: TypeAlias = OwnFile | OwnObject


@dataclass(frozen=True, slots=True)
class ForeignFile(ScannedFile):
    """A file without lakelog metadata, in a table's folder: table and partition are those of its
    path.
    """


@dataclass(frozen=True, slots=True)
class RenamedFile:
    """A file that lakelog wrote under the name of another writer or database; an object has no
    schema."""

    file: Writing
    schema: EncodedSchema | None


@dataclass(slots=True)
class Scan:
    """All that lies below `data/` of one writer and database.

    Attributes:
        digest: Of the names and sizes of all objects, as the store shows them.
        objects: All, under the names that the log knows them by.
        own, foreign: Files that can be used.
        said: Objects of row deletes and of actions that can be.
        damaged: Those that can't be read, by path, each with the reason.
        strays: Sound files that are not where their names and footers say, by path: only a log
            that names them makes them count.
        renamed: Those of the strays that only name another writer or database, by path.
        claimed: How many of `own` and `said` do that, and are of this log all the same.
        left_out: All but `own` and `foreign`, each with the reason.
        schemas: By table and fingerprint.
        elsewhere: Of files that lie elsewhere and are live in the old log their `Add`, serialized,
            by path.
    """

    digest: bytes = b""
    objects: list[ObjectInfo] = field(default_factory=list)
    own: list[OwnFile] = field(default_factory=list)
    foreign: list[ForeignFile] = field(default_factory=list)
    said: list[OwnObject] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)
    strays: dict[str, ForeignFile] = field(default_factory=dict)
    renamed: dict[str, RenamedFile] = field(default_factory=dict)
    claimed: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    schemas: dict[tuple[str, bytes], EncodedSchema] = field(default_factory=dict)
    elsewhere: dict[str, bytes] = field(default_factory=dict)

    @property
    def written(self) -> list[Writing]:
        """All that tells of transactions."""
        return [*self.own, *self.said]

    @property
    def incarnation(self) -> int:
        """The highest that a footer names; 0 for none."""
        return max((item.incarnation for item in self.written), default=0)

    @property
    def newest_us(self) -> int:
        """When the newest object was written, by the store's time; 0 if it doesn't say."""
        return max((micros(info.modified_at) or 0 for info in self.objects), default=0)


def micros(at: dt.datetime | None) -> int | None:
    """A store's time in µs since 1970."""
    return None if at is None else int(at.timestamp() * 1_000_000)
