"""A log by hand: transactions, checkpoints, seals and rebuilds, in order. See `logs_by_hand`.

Every message, table and header passes a hook before it becomes bytes, so that whoever damages one
gets all digests and links right behind it.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import independent_messages as messages
import pyarrow as pa
from hand_objects import Attachments, Form, Header, Tree, digest_of, encode, frame, ipc, tree
from hand_segments import (
    HandFile,
    Row,
    by_distance,
    facts_of,
    file_rows,
    group_rows,
    group_statistics_rows,
    make_table,
    statistics_rows,
)
from independent_transaction import KNOWN_FEATURES
from independent_view import summary_columns
from independent_wire import BIG, MAX_REVISION

if TYPE_CHECKING:
    from collections.abc import Sequence


class Hooks:
    """What may be changed on the way; this class changes nothing."""

    def message(self, what: str, message: Tree) -> Tree:
        return message

    def header(self, what: str, header: Header) -> Header:
        return header

    def table(self, kind: int, table: pa.Table, form: Form) -> tuple[pa.Table, bool]:
        """The table, and whether the reference tells of it as it is now."""
        return table, True

    def bitmap(self, data: bytes) -> bytes:
        return data


@dataclass
class HandLog:
    """A log and what its writer knows of it."""

    rng: random.Random
    hooks: Hooks
    log_id: bytes
    named: tuple[str, str]
    incarnation: int = 1
    transactions: dict[str, bytes] = field(default_factory=dict)
    segments: dict[str, bytes] = field(default_factory=dict)
    data: dict[str, bytes] = field(default_factory=dict)  # objects of row deletes, by path

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget the state: the next commit is revision 0."""
        self.revision, self.epoch, self.at = -1, 0, 0
        self.first_epoch, self.begun_at = 1, 1
        self.uuid, self.digest, self.successor = b"", b"", self.rng.randbytes(16)
        self.files: dict[tuple[str, str], HandFile] = {}
        self.removed: list[HandFile] = []
        self.schemas: dict[tuple[str, bytes], Row] = {}
        self.definitions: dict[str, Row] = {}  # table, message, revision
        self.tombstones: list[Row] = []  # table, revision, number, message
        self.row_deletes: list[Row] = []  # as rows of a segment
        self.applications: dict[str, Row] = {}
        self.history: list[Row] = []
        self.features: set[str] = set()
        self.locations: set[str] = set()
        self.member: bytes = b""

    def name(self, revision: int, uuid: bytes, kind: str) -> str:
        numbers = f"{999 - self.incarnation:03}-{MAX_REVISION - revision:012}-{revision}"
        return f"{numbers}.{uuid[:4].hex()}.{kind}"

    # --- Transactions ---

    def commit(
        self,
        actions: Sequence[Row],
        members: Sequence[Row],
        *,
        attached: bytes = b"",
        counts: tuple[int, int, int, int] = (0, 0, 0, 0),
        later: int = 1,
        fence: bool = False,
        guest: bool = False,
    ) -> None:
        """Write the next transaction; the caller has changed files and schemas already.

        Args:
            actions: Values of Action messages.
            counts: Files added, files removed, rows and bytes added.
        """
        before = self.uuid, self.digest
        revision, uuid = self.revision + 1, self.successor
        self.epoch += fence or revision == 0
        self.at += later
        if revision == 0:
            said = [a["identity"].get("begun_at_us", 0) for a in actions if "identity" in a]
            self.first_epoch, self.begun_at = self.epoch, max(self.at, *said[:1], 0)
        self.successor = self.rng.randbytes(16)
        commit = {
            "members": members,
            "committed_at_us": self.at,
            "successor_uuid": self.successor,
            "slot_seed": self.rng.randbytes(16),
        }
        values = {
            "revision": revision,
            "uuid": uuid,
            "previous_uuid": before[0],
            "previous_digest": before[1],
            "epoch": self.epoch,
            "guest": guest,
            "actions": actions,
            "commit": commit,
        }
        message = self.hooks.message("transaction", tree(messages.TRANSACTION, values))
        codec = self.rng.random() < 0.3
        header = Header(1, self.log_id, self.incarnation, codec=int(codec))
        data = frame(self.hooks.header("transaction", header), encode(message), attached)
        self.transactions[self.name(revision, uuid, "transaction")] = data
        self.revision, self.uuid, self.digest = revision, uuid, digest_of(data)
        self.member = members[-1]["transaction_id"]
        for member in members:
            self._count(member)
        self._remember(members, counts, guest)

    def _count(self, member: Row) -> None:
        name = member.get("app_id")
        known = self.applications.get(name or "", {"app_version": -1})
        if name and known["app_version"] <= member.get("app_version", 0):
            version = member.get("app_version", 0)
            row = {"app_id": name, "app_version": version, "committed_at_us": self.at}
            self.applications[name] = row

    def _remember(
        self, members: Sequence[Row], counts: tuple[int, int, int, int], guest: bool
    ) -> None:
        summary: dict[str, str] = {}
        for member in members:
            summary |= member.get("summary") or {}
        names = ("files_added", "files_removed", "rows_added", "bytes_added")
        self.history.append(
            {
                "revision": self.revision,
                "uuid": self.uuid,
                "digest": self.digest,
                "committed_at": self.at,
                "epoch": self.epoch,
                "guest": guest,
                "operation": "+".join(dict.fromkeys(m["operation"] for m in members)),
                "transaction_ids": [member["transaction_id"] for member in members],
                **{name: min(n, BIG - 1) for name, n in zip(names, counts)},
                **summary_columns(summary),
            }
        )

    # --- Pieces ---

    def piece(self, kind: int, rows: Sequence[Row]) -> tuple[bytes, Row]:
        """A segment's Arrow IPC, and what a reference says of it."""
        plain, columns = by_distance(kind, rows)
        sound = make_table(kind, plain)
        form = Form(self.rng.choice([None, None, "zstd"]))
        table, consistent = self.hooks.table(kind, sound, form)
        facts = facts_of(kind, sound, columns)
        if consistent and table is not sound:
            try:
                found = facts_of(kind, table, columns)
                tree(messages.SEGMENT, found)
                facts = found
            except (KeyError, IndexError, TypeError, AttributeError):
                pass
        return ipc(table, form), facts

    def pieces_of(self, files: Sequence[HandFile]) -> list[tuple[int, Sequence[Row]]]:
        """A FILES segment and those that describe its rows."""
        found: list[tuple[int, Sequence[Row]]] = [(messages.FILES, file_rows(files))]
        for kind, rows in (
            (messages.ROW_GROUPS, group_rows(files)),
            (messages.STATISTICS, statistics_rows(files)),
            (messages.ROW_GROUP_STATISTICS, group_statistics_rows(files)),
        ):
            for piece in split(self.rng, rows, 2):
                found.append((kind, piece))
        return found

    def batch(self, files: Sequence[HandFile], into: Attachments) -> Row:
        """An AddBatch of files, ascending by table and path, as an Action."""
        refs = []
        for kind, rows in self.pieces_of(files):
            data, facts = self.piece(kind, rows)
            refs.append({"segment": facts, "offset": into.put(data), "length": len(data)})
        return {"add_batch": {"segments": refs}}

    def place(self, data: bytes, facts: Row, into: Attachments, inline: float) -> Row:
        """A piece in the attachments or as an object; gives offset, length and digest."""
        if self.rng.random() < inline:
            return {"offset": into.put(data), "length": len(data), "digest": None}
        message = self.hooks.message("segment", tree(messages.SEGMENT, facts))
        header = self.hooks.header("segment", Header(3, self.log_id, self.incarnation))
        made = frame(header, encode(message), data)
        self.segments[f"{digest_of(made).hex()}.segment"] = made
        return {"offset": 0, "length": len(made), "digest": digest_of(made)}

    def put_deletes(self, path: str, files: Sequence[Row], bitmaps: Sequence[bytes]) -> list[Row]:
        """Write an object of row deletes; gives the messages of its files, with where their bitmaps
        are."""
        attached, found = b"", []
        for file, bitmap in zip(files, bitmaps):
            data = self.hooks.bitmap(bitmap)
            where = {"offset": len(attached), "length": len(data)}
            found.append({**file, **where, "digest": hashlib.sha256(data).digest()})
            attached += data
        values = {
            "writer": self.named[0],
            "database": self.named[1],
            "table": files[0]["table"],
            "transaction_id": self.rng.randbytes(16),
            "base_revision": self.revision,
            "base_transaction_id": self.member,
            "epoch": self.epoch,
            "slot_seed": self.rng.randbytes(16),
            "files": found,
        }
        message = self.hooks.message("deletes", tree(messages.DELETES_OBJECT, values))
        header = Header(5, self.log_id, self.incarnation, codec=int(self.rng.random() < 0.3))
        header = self.hooks.header("deletes", header)
        self.data[path] = frame(header, encode(message), attached)
        return [{**file, "object": path} for file in found]

    def tombstone_rows(self) -> list[Row]:
        """As rows of a segment."""
        return [
            {
                **{name: row[name] for name in ("table", "revision", "number")},
                "tombstone": encode(
                    self.hooks.message("tombstone", tree(messages.TOMBSTONE, row["message"]))
                ),
            }
            for row in sorted(
                self.tombstones, key=lambda r: (r["table"].encode(), r["revision"], r["number"])
            )
        ]

    def row_delete_rows(self) -> list[Row]:
        return sorted(
            self.row_deletes,
            key=lambda r: (r["table"].encode(), r["path"].encode(), r["revision"], r["number"]),
        )

    # --- Checkpoints ---

    def checkpoint(self, *, inline: float = 0.5) -> None:
        """Write a checkpoint of the head."""
        into, rows, count = Attachments(), [], 0
        parts = self._parts()
        for number, (run, files, dead) in enumerate(parts):
            bitmap = self._bitmap(files, dead)
            count += len(files) - len(dead)
            for kind, piece in self.pieces_of(files):
                data, facts = self.piece(kind, piece)
                own = kind == messages.FILES
                row = {"part": number, "run": run if own else -1, "dead": bitmap if own else None}
                rows.append({**facts, **row, **self.place(data, facts, into, inline)})
        rows.sort(key=lambda row: row["kind"] != messages.FILES)
        schemas = sorted(
            self.schemas.values(), key=lambda s: (s["table"].encode(), s["fingerprint"])
        )
        defined = [
            {
                "table": row["table"],
                "definition": encode(
                    self.hooks.message("definition", tree(messages.DEFINITION, row["message"]))
                ),
                "revision": row["revision"],
            }
            for row in sorted(self.definitions.values(), key=lambda row: row["table"].encode())
        ]
        apps = sorted(self.applications.values(), key=lambda row: row["app_id"].encode())
        first = self.rng.randrange(len(self.history)) if self.rng.random() < 0.2 else 0
        for kind, content in (
            (messages.SCHEMAS, schemas),
            (messages.DEFINITIONS, defined),
            (messages.ROW_DELETES, self.row_delete_rows()),
            (messages.TOMBSTONES, self.tombstone_rows()),
            (messages.APPLICATIONS, apps),
            (messages.HISTORY, self.history[first:]),
        ):
            for piece in split(self.rng, content, 3):
                data, facts = self.piece(kind, piece)
                where = self.place(data, facts, into, inline)
                rows.append({**facts, "part": -1, "run": -1, "dead": None, **where})
        data, facts = self.piece(messages.REFERENCES, rows)
        where = self.place(data, facts, into, inline)
        self._write(into.data, {"segment": facts, **where}, count)

    def _write(self, attached: bytes, ref: Row, count: int) -> None:
        live = [file.facts for file in self.files.values()]
        values = {
            "revision": self.revision,
            "uuid": self.uuid,
            "successor_uuid": self.successor,
            "digest": self.digest,
            "epoch": self.epoch,
            "committed_at_us": self.at,
            "transaction_id": self.member,
            "required_reader_features": sorted(self.features & KNOWN_FEATURES),
            "required_writer_features": sorted(self.features),
            "locations": sorted(self.locations, key=str.encode),
            "writer": self.named[0],
            "database": self.named[1],
            "counts": {
                "files": count,
                "rows": sum(facts["row_count"] for facts in live),
                "bytes": sum(facts["size_bytes"] for facts in live),
            },
            "references": ref,
            "first_epoch": self.first_epoch,
            "begun_at_us": self.begun_at,
        }
        message = self.hooks.message("checkpoint", tree(messages.CHECKPOINT, values))
        header = Header(2, self.log_id, self.incarnation, codec=int(self.rng.random() < 0.3))
        data = frame(self.hooks.header("checkpoint", header), encode(message), attached)
        self.transactions[self.name(self.revision, self.uuid, "checkpoint")] = data

    def _parts(self) -> list[tuple[int, list[HandFile], set[int]]]:
        """The files as runs of parts: run, files, dead rows. Some removed files are dead rows."""

        runs: list[list[tuple[HandFile, bool]]] = [[] for _ in range(self.rng.choice([1, 1, 2, 3]))]
        for file in self.files.values():
            self.rng.choice(runs).append((file, False))
        for file in self.removed:
            where = self.rng.choice(runs)
            key = file.facts["table"], file.facts["path"]
            if self.rng.random() < 0.7 and not any(
                (f.facts["table"], f.facts["path"]) == key for f, _ in where
            ):
                where.append((file, True))
        found = []
        for run, items in enumerate(filter(None, runs)):
            items.sort(key=lambda i: (i[0].facts["table"].encode(), i[0].facts["path"].encode()))
            for piece in split(self.rng, items, 3):
                dead = {row for row, (_, is_dead) in enumerate(piece) if is_dead}
                found.append((run, [file for file, _ in piece], dead))
        return found

    def _bitmap(self, files: Sequence[HandFile], dead: set[int]) -> bytes | None:
        if not dead and self.rng.random() < 0.7:
            return None
        return sum(1 << row for row in dead).to_bytes((len(files) + 7) // 8, "little")


def split(rng: random.Random, rows: Sequence[Any], most: int) -> list[Sequence[Any]]:
    """A sequence in up to so many pieces, none of them empty."""
    cuts = sorted({rng.randint(0, len(rows)) for _ in range(rng.randint(0, most - 1))})
    ends = [0, *cuts, len(rows)]
    return [rows[a:b] for a, b in itertools.pairwise(ends) if a < b]


def rebuilt_uuid(rebuild_id: bytes, revision: int) -> bytes:
    """Section 10.6."""
    seed = b"lakelog rebuild" + rebuild_id + revision.to_bytes(8, "little")
    return hashlib.sha256(seed).digest()[:16]
