"""What a base and the transactions above it say of tables, for the independent reader:
docs/format.md, sections 4.2 and 4.7. A view either gives a part or refuses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from independent_content import (
    Content,
    Deletes,
    Entry,
    File,
    Pieces,
    Schema,
    Table,
    files_of,
)
from independent_messages import FILES, SCHEMAS
from independent_segments import Holder, Reference, reference_of
from independent_wire import BIG, Refusal, need

if TYPE_CHECKING:
    from collections.abc import Sequence

    from independent_transaction import Transaction
    from independent_wire import Message

UNKNOWN_DIGEST = bytes(8)
ENDLESS = b"\xff"  # above all names, which are UTF-8
Fault = tuple[bytes, bytes, Refusal]  # a range of names, and why it cannot be listed


def batch_groups(item: Message) -> list[tuple[Reference, tuple[Reference, ...]]]:
    """The FILES segments of an AddBatch, each with those that describe its rows."""
    found: list[tuple[Reference, list[Reference]]] = []
    for ref in map(reference_of, item.segments):
        if ref.kind == FILES:
            found.append((ref, []))
        else:
            found[-1][1].append(ref)
    return [(ref, tuple(others)) for ref, others in found]


class Step:
    """A transaction of the tail, with the segments that it carries."""

    def __init__(self, transaction: Transaction) -> None:
        self.actions, self.places = transaction.actions, transaction.places
        self.message, self.digest = transaction.message, transaction.frame.digest
        self.revision: int = self.message.revision
        self.pieces = Pieces(Holder(transaction.frame, self.revision, {}), batch=True)
        self.batches = {
            index: batch_groups(item)
            for index, (kind, item) in enumerate(self.actions)
            if kind == "add_batch"
        }

    def apply(self, state: Table, table: str, *, files: bool) -> None:
        """Change what is known of a table; damaged if the actions don't fit.

        Args:
            files: False: only its schemas, whatever becomes of the files.
        """
        for index, (kind, item) in enumerate(self.actions):
            if kind == "schema" and item.table == table:
                self.learn(state, item)
            elif kind == "forget":
                self.forget(state, item, table)
            elif not files:
                continue
            elif kind == "remove" and item.table == table:
                need(state.files.pop(item.path, None), f"{item.path} is not live")
            elif kind == "row_deletes" and item.table == table:
                need(item.path in state.files, f"{item.path} is not live")
            elif kind == "add" and item.table == table:
                self.add(state, File(add_facts(item, self.revision), item))
            elif kind == "add_batch":
                for ref, describing in self.batches[index]:
                    if ref.covers(table):
                        for file in files_of(self.pieces, ref, describing, table):
                            self.add(state, file)

    def add(self, state: Table, file: File) -> None:
        path = file.facts["path"]
        need(path not in state.files, f"{path} is live already")
        need(file.facts["schema_fingerprint"] in state.schemas, f"no schema for {path}")
        state.files[path] = file

    def learn(self, state: Table, item: Message) -> None:
        known = state.schemas.get(item.fingerprint)
        first = known.revision if known else self.revision
        state.schemas[item.fingerprint] = Schema(
            item.arrow_schema, item.key, item.sort_order, first
        )

    def forget(self, state: Table, item: Message, table: str) -> None:
        used = {file.facts["schema_fingerprint"] for file in state.files.values()}
        if table in item.tables:
            need(not state.files, "a table with files is forgotten")
            state.schemas.clear()
        for schema in item.schemas:
            if schema.table == table:
                need(schema.fingerprint not in used, "a schema of files is forgotten")
                state.schemas.pop(schema.fingerprint, None)

    def delete(self, found: Deletes) -> None:
        """Change what is deleted (sections 5.6 and 5.7)."""
        for place, (kind, item) in zip(self.places, self.actions):
            entry = Entry(self.revision, place, item.values)
            if kind == "tombstone":
                found.tombstones.setdefault(item.table, []).append(entry)
            elif kind == "row_deletes":
                below = min(item.covers_below, self.revision)
                before = found.rows.get((item.table, item.path), [])
                kept = [other for other in before if other.revision >= below]
                found.rows[item.table, item.path] = [*kept, entry]
            elif kind == "remove":
                found.rows.pop((item.table, item.path), None)
            elif kind == "forget":
                for table in item.tables:
                    found.tombstones.pop(table, None)

    def count_applications(self, found: dict[str, tuple[int, int]]) -> None:
        for kind, item in self.actions:
            if kind == "forget":
                old = [name for name, (_, at) in found.items() if at < item.applications_before_us]
                for name in old:
                    del found[name]
        at = self.message.commit.committed_at_us
        for member in self.message.commit.members:
            if member.app_id and found.get(member.app_id, (-1, 0))[0] <= member.app_version:
                found[member.app_id] = member.app_version, at

    def history_row(self) -> dict[str, Any]:
        """Section 6.3."""
        adds = [item for kind, item in self.actions if kind == "add"]
        refs = [ref.facts for groups in self.batches.values() for ref, _ in groups]
        members = self.message.commit.members
        summary: dict[str, str] = {}
        for member in members:
            summary.update(member.summary)
        rows = sum(item.row_count for item in adds) + sum(ref["total_rows"] for ref in refs)
        size = sum(item.size_bytes for item in adds) + sum(ref["total_bytes"] for ref in refs)
        return {
            "revision": self.revision,
            "uuid": self.message.uuid,
            "digest": self.digest,
            "committed_at": self.message.commit.committed_at_us,
            "epoch": self.message.epoch,
            "guest": self.message.guest,
            "operation": "+".join(dict.fromkeys(member.operation for member in members)),
            "transaction_ids": [member.transaction_id for member in members],
            "files_added": len(adds) + sum(ref["row_count"] for ref in refs),
            "files_removed": sum(kind == "remove" for kind, _ in self.actions),
            "rows_added": min(rows, BIG - 1),
            "bytes_added": min(size, BIG - 1),
            **summary_columns(summary),
        }


def summary_columns(summary: dict[str, str]) -> dict[str, list[str]]:
    """A summary as columns of HISTORY: section 6.3."""
    return {
        "summary_keys": sorted(summary),
        "summary_values": [summary[k] for k in sorted(summary)],
    }


def add_facts(add: Message, revision: int) -> dict[str, Any]:
    """An Add as a row of FILES."""
    names = ("table", "path", "partition", "size_bytes", "row_count")
    facts = {name: add.values[name] for name in names}
    facts["revision"] = revision
    for name in ("schema_fingerprint", "first_clock", "last_clock", "footer_bytes"):
        facts[name] = add.values[name]
    facts["footer_digest"] = add.footer_digest or UNKNOWN_DIGEST
    named = "original_revision" in add.there
    facts["original_revision"] = add.original_revision if named else None
    return {**facts, "row_groups": len(add.row_groups)}


@dataclass
class View:
    """A base, and the transactions from it up to the target."""

    content: Content | None
    steps: Sequence[Step]

    def table(self, name: str) -> Table:
        """All of a table that fits (section 4.7)."""
        if self.content is not None:
            self.content.need_table(name)
        state = self.schemas_at_base(name)
        if self.content is not None:
            state.files = self.content.files(name)
            for path, file in state.files.items():
                need(file.facts["schema_fingerprint"] in state.schemas, f"no schema for {path}")
        for step in self.steps:
            step.apply(state, name, files=True)
        return state

    def schemas(self, name: str) -> dict[bytes, Schema]:
        """The schemas of a table, whatever its files are."""
        state = self.schemas_at_base(name)
        for step in self.steps:
            step.apply(state, name, files=False)
        return state.schemas

    def schemas_at_base(self, name: str) -> Table:
        return Table({}, self.content.schemas(name) if self.content is not None else {})

    def candidates(self) -> tuple[set[str], list[Fault]]:
        """Names that may be tables, and the ranges in which there may be more of them."""
        found = {
            item.table for step in self.steps for kind, item in step.actions if kind == "schema"
        }
        faults: list[Fault] = []
        if self.content is not None:
            try:
                references = self.content.of_kind(SCHEMAS)
            except Refusal as error:
                return found, [(b"", ENDLESS, error)]
            for ref in references:
                try:
                    found.update(self.content.pieces.open(ref)["table"])
                except Refusal as error:
                    ends = [ref.facts[name].encode() for name in ("first_table", "last_table")]
                    faults.append((*ends, error))
        return found, faults

    def definitions(self) -> dict[str, tuple[Message, int]]:
        found = self.content.definitions() if self.content is not None else {}
        for step in self.steps:
            for kind, item in step.actions:
                if kind == "definition":
                    found[item.table] = item, step.revision
                elif kind == "forget":
                    for table in item.tables:
                        found.pop(table, None)
        return found

    def deletes(self) -> Deletes:
        found = self.content.deletes() if self.content is not None else Deletes()
        for step in self.steps:
            step.delete(found)
        return found

    def applications(self) -> dict[str, tuple[int, int]]:
        found = self.content.applications() if self.content is not None else {}
        for step in self.steps:
            step.count_applications(found)
        return found

    def history(self) -> list[dict[str, Any]]:
        rows = self.content.history() if self.content is not None else []
        return [*rows, *(step.history_row() for step in self.steps)]
