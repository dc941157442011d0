"""The content of a checkpoint, for the independent reader: docs/format.md, section 6."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from independent_messages import (
    APPLICATIONS,
    DEFINITIONS,
    FILES,
    HISTORY,
    ROW_DELETES,
    SCHEMAS,
    TOMBSTONES,
)
from independent_segments import (
    Columns,
    Holder,
    Reference,
    open_references,
    open_segment,
    reference_of,
)
from independent_wire import Refusal, TooNew, need

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from independent_transaction import Checkpoint
    from independent_wire import Message


@dataclass(frozen=True)
class File:
    """A live file, with all columns of section 6.1, and where its statistics are."""

    facts: dict[str, Any]
    add: Message | None = None
    pieces: Pieces | None = None
    row: int = -1
    describing: tuple[Reference, ...] = ()


@dataclass
class Schema:
    """A schema that a table knows."""

    arrow_schema: bytes
    key: list[str]
    sort_order: list[str]
    revision: int


@dataclass(frozen=True)
class Entry:
    """A tombstone or row deletes: what they say, and where in the log they do."""

    revision: int
    number: int
    facts: dict[str, Any]

    def holds_of(self, file: File) -> bool:
        """Of a tombstone: whether it may delete rows of a file (section 5.6)."""
        paths, facts = self.facts["paths"], file.facts
        return facts["revision"] < self.revision and (not paths or facts["path"] in paths)


@dataclass
class Deletes:
    """Tombstones by table, and row deletes by table and path."""

    tombstones: dict[str, list[Entry]] = field(default_factory=dict)
    rows: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)


@dataclass
class Table:
    """The files by path and the schemas by fingerprint of a table."""

    files: dict[str, File] = field(default_factory=dict)
    schemas: dict[bytes, Schema] = field(default_factory=dict)


class Pieces:
    """The segments that one frame refers to; each is opened at most once."""

    def __init__(self, holder: Holder, *, batch: bool = False) -> None:
        self.holder, self.batch = holder, batch
        self.opened: dict[int, tuple[Reference, Columns | Refusal]] = {}

    def open(self, ref: Reference) -> Columns:
        if id(ref) not in self.opened:
            found: Columns | Refusal
            try:
                found = open_segment(self.holder, ref, batch=self.batch)
            except Refusal as error:
                found = error
            self.opened[id(ref)] = ref, found
        known = self.opened[id(ref)][1]
        if isinstance(known, Refusal):
            raise known
        return known

    def open_all(self, references: Iterable[Reference]) -> None:
        """Open what a part needs: too new comes before damaged (section 4.7)."""
        problem: Refusal | None = None
        for ref in references:
            try:
                self.open(ref)
            except TooNew:
                raise
            except Refusal as error:
                problem = problem or error
        if problem is not None:
            raise problem


class Content:
    """The content of a checkpoint."""

    def __init__(self, checkpoint: Checkpoint, objects: dict[str, bytes]) -> None:
        self.message = checkpoint.message
        self.pieces = Pieces(Holder(checkpoint.frame, self.message.revision, objects))
        self.found: list[Reference] | Refusal | None = None

    def references(self) -> list[Reference]:
        if self.found is None:
            own = reference_of(self.message.references)
            try:
                self.found = open_references(self.pieces.holder, own, self.message.counts.files)
            except Refusal as error:
                self.found = error
        if isinstance(self.found, Refusal):
            raise self.found
        return self.found

    def of_kind(self, kind: int) -> list[Reference]:
        return [ref for ref in self.references() if ref.kind == kind]

    def need_table(self, table: str) -> None:
        """Open all segments that a table needs."""
        found = self.references()
        self.pieces.open_all(r for r in found if r.kind in (FILES, SCHEMAS) and r.covers(table))

    def schemas(self, table: str) -> dict[bytes, Schema]:
        """The schemas of a table that the segments which cover it hold."""
        found: dict[bytes, Schema] = {}
        self.pieces.open_all(ref for ref in self.of_kind(SCHEMAS) if ref.covers(table))
        for ref in self.of_kind(SCHEMAS):
            if ref.covers(table):
                add_schemas(found, self.pieces.open(ref), table)
        return found

    def files(self, table: str) -> dict[str, File]:
        found: dict[str, File] = {}
        references = self.references()
        for ref in self.of_kind(FILES):
            if not ref.covers(table):
                continue
            others = tuple(r for r in references if r.part == ref.part and 2 <= r.kind <= 4)
            for file in files_of(self.pieces, ref, others, table):
                if file.row not in ref.dead:
                    need(file.facts["path"] not in found, "a path is live twice")
                    found[file.facts["path"]] = file
        return found

    def history(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        self.pieces.open_all(self.of_kind(HISTORY))
        for ref in self.of_kind(HISTORY):
            columns = self.pieces.open(ref)
            rows += [dict(zip(columns, values)) for values in zip(*columns.values())]
        need(rows, "no history")
        for a, b in itertools.pairwise(rows):
            need(a["revision"] + 1 == b["revision"], "gaps in the history")
            need(a["committed_at"] < b["committed_at"], "times in the history")
        own = self.message.revision, self.message.digest, self.message.committed_at_us
        last = tuple(rows[-1][name] for name in ("revision", "digest", "committed_at"))
        need(last == own, "the last row of the history")
        return rows

    def definitions(self) -> dict[str, tuple[Message, int]]:
        """By table what defines it, and since when."""
        found: dict[str, tuple[Message, int]] = {}
        self.pieces.open_all(self.of_kind(DEFINITIONS))
        for ref in self.of_kind(DEFINITIONS):
            columns = self.pieces.open(ref)
            rows = zip(columns["table"], columns["message"], columns["revision"])
            found |= {table: (message, revision) for table, message, revision in rows}
        return found

    def deletes(self) -> Deletes:
        found = Deletes()
        self.pieces.open_all(r for r in self.references() if r.kind in (ROW_DELETES, TOMBSTONES))
        for ref in self.of_kind(ROW_DELETES):
            columns = self.pieces.open(ref)
            for values in zip(*columns.values()):
                facts = dict(zip(columns, values))
                entry = Entry(facts["revision"], facts["number"], facts)
                found.rows.setdefault((facts["table"], facts["path"]), []).append(entry)
        for ref in self.of_kind(TOMBSTONES):
            columns = self.pieces.open(ref)
            rows = zip(columns["revision"], columns["number"], columns["message"])
            for revision, number, message in rows:
                entry = Entry(revision, number, message.values)
                found.tombstones.setdefault(message.table, []).append(entry)
        for entries in (*found.rows.values(), *found.tombstones.values()):
            places = [(entry.revision, entry.number) for entry in entries]
            need(len(set(places)) == len(places), "two rows of one action")
        return found

    def applications(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        self.pieces.open_all(self.of_kind(APPLICATIONS))
        for ref in self.of_kind(APPLICATIONS):
            columns = self.pieces.open(ref)
            rows = zip(columns["app_id"], columns["app_version"], columns["committed_at_us"])
            for name, version, at in rows:
                found[name] = max((version, at), found.get(name, (version, at)))
        return found


def add_schemas(found: dict[bytes, Schema], columns: Columns, table: str) -> None:
    """Take the schemas of a table from a SCHEMAS segment."""
    for row in zip(*columns.values()):
        item = dict(zip(columns, row))
        if item["table"] != table:
            continue
        key, order = item["key"] or [], item["sort_order"] or []
        first = item["revision"]
        if item["fingerprint"] in found:
            first = min(first, found[item["fingerprint"]].revision)
        found[item["fingerprint"]] = Schema(item["arrow_schema"], key, order, first)


def files_of(
    pieces: Pieces, ref: Reference, describing: tuple[Reference, ...], table: str
) -> Iterator[File]:
    """The rows of a FILES segment that are of a table."""
    columns = pieces.open(ref)
    for row, name in enumerate(columns["table"]):
        if name == table:
            facts = {what: values[row] for what, values in columns.items()}
            yield File(facts, None, pieces, row, describing)
