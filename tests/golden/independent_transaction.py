"""Transactions and the messages of checkpoints for the independent reader: docs/format.md,
sections 4.1, 5 and 6."""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import independent_messages as messages
from independent_frame import CHECKPOINT, TRANSACTION, Frame, open_frame
from independent_wire import (
    BIG,
    TooNew,
    check_id,
    check_partition,
    check_path,
    check_table,
    decode,
    need,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from independent_wire import Message

KNOWN_FEATURES = frozenset(
    {"locations", "partition_columns", "definitions", "tombstones", "row_deletes"}
)
MAX_TIME = (1 << 55) - 1
MAX_REVISION = 10**12 - 1
DELETES_NAME = re.compile(r"data/(?:.*/)?([1-9][0-9]{0,18})-[0-9a-f]{32}-[0-9]{1,9}\.deletes", re.S)
DESCRIBING = (
    messages.FILES,
    messages.ROW_GROUPS,
    messages.STATISTICS,
    messages.ROW_GROUP_STATISTICS,
)


@dataclass(frozen=True)
class Transaction:
    """A transaction that keeps all rules that need no state; `actions` without ignored ones."""

    frame: Frame
    message: Message
    actions: list[tuple[str, Message]]
    places: list[int]  # of the actions in the message

    @property
    def seal(self) -> int:
        """The incarnation that a Seal names; 0 without one."""
        return sum(item.next_incarnation for kind, item in self.actions if kind == "seal")


def open_transaction(data: bytes, incarnation: int, revision: int, uuid8: str) -> Transaction:
    frame = open_frame(data, TRANSACTION, incarnation)
    message = decode(messages.TRANSACTION, frame.message)
    actions, places = known_actions(message.actions)
    need(message.revision == revision, "revision")
    need(len(message.uuid) == 16 and message.uuid[:4].hex() == uuid8, "uuid")
    before = (0, 0) if revision == 0 else (16, 32)
    need((len(message.previous_uuid), len(message.previous_digest)) == before, "previous")
    need(1 <= message.epoch < BIG, "epoch")
    need("commit" in message.there, "no commit")
    check_commit(message.commit)
    need(revision or (actions and actions[0][0] == "identity"), "revision 0 without an Identity")
    for kind, item in actions:
        check_action(kind, item, len(frame.attached), incarnation)
        need(kind != "seal" or len(actions) == 1, "a Seal beside other actions")
    return Transaction(frame, message, actions, places)


def known_actions(actions: Iterable[Message]) -> tuple[list[tuple[str, Message]], list[int]]:
    """The actions that count, by kind, and their places; looks for all that is too new (section
    4.1)."""
    found, places = [], []
    for place, action in enumerate(actions):
        known = [messages.ACTION.fields[n].name for n in messages.KINDS]
        kinds = [name for name in known if name in action.there]
        if not kinds:
            if not action.optional:
                raise TooNew("kind of action")
            continue
        (kind,) = kinds
        item = action.values[kind]
        if kind == "upgrade" and is_too_new(item):
            raise TooNew(kind)
        if kind == "add_batch" and any(
            r.segment.kind not in messages.SEGMENTS for r in item.segments
        ):
            raise TooNew("kind of segment")
        found.append((kind, item))
        places.append(place)
    return found, places


def is_too_new(item: Message) -> bool:
    """Whether an Upgrade or a Checkpoint requires a feature that this reader doesn't know."""
    return not KNOWN_FEATURES.issuperset(item.required_reader_features)


def check_location(url: str) -> None:
    """Section 2."""
    match = re.fullmatch(r"([a-z][a-z0-9+.-]*)://([^/]*)((?:/[^/]+)*)", url)
    need(match and len(url.encode()) <= 1024, "location")
    scheme, authority, path = match.groups() if match else ("", "", "")
    need(not any(c in "?#\\" or c < " " or c == "\x7f" for c in url), "sign in a location")
    need((scheme == "file") == (authority == ""), "authority of a location")
    need(not {".", ".."}.intersection(path.split("/")), "segment of a location")
    if "@" in authority:
        user, _, host = authority.rpartition("@")
        need(scheme.startswith("abfs") and user and host and ":" not in user, "credentials")


def location_id(url: str) -> str:
    """Section 2."""
    return hashlib.sha256(b"lakelog location\n" + url.encode()).hexdigest()[:16]


def check_commit(commit: Message) -> None:
    need(len(commit.successor_uuid) == len(commit.slot_seed) == 16, "successor or seed")
    need(1 <= commit.committed_at_us <= MAX_TIME, "time of commit")
    need(commit.members, "no members")
    for member in commit.members:
        need(len(member.transaction_id) == 16, "transaction id")
        need(1 <= len(member.operation) <= 64, "operation")
        need(len(member.app_id.encode()) <= 1024 and member.app_version < BIG, "application")


def check_action(kind: str, item: Message, attached: int, incarnation: int) -> None:
    """The rules of section 5 that are marked (E)."""
    if kind == "add":
        check_add(item)
    elif kind == "remove":
        check_path(item.path)
        check_table(item.table)
    elif kind == "schema":
        check_table(item.table)
        need(item.fingerprint == fingerprint(item.arrow_schema), "fingerprint")
    elif kind == "upgrade":
        names = *item.required_reader_features, *item.required_writer_features
        need(all(1 <= len(name) <= 64 for name in names), "feature")
    elif kind == "identity":
        check_id(item.writer)
        check_id(item.database)
        need(0 <= item.begun_at_us <= MAX_TIME, "time of the beginning")
    elif kind == "seal":
        need(incarnation < item.next_incarnation <= 999 and len(item.rebuild_id) == 16, "seal")
    elif kind == "forget":
        for table in [*item.tables, *(schema.table for schema in item.schemas)]:
            check_table(table)
        need(all(len(schema.fingerprint) == 16 for schema in item.schemas), "fingerprint")
    elif kind == "location":
        check_location(item.url)
    elif kind == "definition":
        check_definition(item)
    elif kind == "tombstone":
        check_tombstone(item)
    elif kind == "row_deletes":
        check_row_deletes(item.values)
        need(item.covers_below < BIG, "revision below which row deletes cover others")
    elif kind == "add_batch":
        check_batch(item.segments, attached)


def check_definition(item: Message) -> None:
    """Section 5.5."""
    check_table(item.table)
    names, ids = [c.name for c in item.columns], [c.id for c in item.columns]
    need(item.last_id < 1 << 31, "last id")
    need(all(names) and all(1 <= number <= item.last_id for number in ids), "a name or an id")
    need(len(set(names)) == len(names) and len(set(ids)) == len(ids), "two columns of one name")
    need(len(set(item.key)) == len(item.key) and set(item.key) <= set(names), "a wrong key")
    need(all(len(column.default) <= 65_536 for column in item.columns), "a long default")


def check_tombstone(item: Message) -> None:
    """Section 5.6."""
    check_table(item.table)
    need(1 <= len(item.predicate.encode()) <= 65_536, "predicate")
    if "columns" in item.there:
        check_definition(item.columns)
        need(item.columns.table == item.table, "columns of another table")
        need(item.columns.columns, "columns of a tombstone")
    paths = [check_path(path).encode() for path in item.paths]
    need(all(a < b for a, b in itertools.pairwise(paths)), "order of paths")


def check_row_deletes(facts: Mapping[str, Any]) -> None:
    """Section 5.7, of an action or a row."""
    check_table(facts["table"])
    check_path(facts["path"])
    named = DELETES_NAME.fullmatch(check_path(facts["object"]))
    need(named and int(named[1]) < BIG, "name of an object of row deletes")
    need(0 <= facts["offset"] < BIG and 1 <= facts["length"] <= 1 << 30, "place of a bitmap")
    need(1 <= facts["cardinality"] <= 1 << 32 and len(facts["digest"]) == 32, "a bitmap")


def check_add(add: Message) -> None:
    check_path(add.path)
    check_table(add.table)
    check_partition(add.partition)
    need(len(add.schema_fingerprint) == 16 and len(add.footer_digest) in (0, 8), "fingerprint")
    sizes = [add.size_bytes, add.row_count, add.footer_bytes]
    need(max([*sizes, *(group.row_count for group in add.row_groups)]) < BIG, "sizes")


def check_batch(segments: Sequence[Message], attached: int) -> None:
    need(segments and segments[0].segment.kind == messages.FILES, "first segment of an AddBatch")
    for ref in segments:
        need(ref.segment.kind in DESCRIBING and not ref.digest, "segment of an AddBatch")
        need(ref.offset + ref.length <= attached, "segment beyond the attachments")
        need(1 <= ref.segment.row_count < 1 << 31, "row count of a segment")
        totals = ref.segment.total_rows, ref.segment.total_bytes
        need(ref.segment.kind != messages.FILES or max(totals) < BIG, "totals of a segment")
        first, last = (
            [ref.segment.values[f"{side}_{what}"].encode() for what in ("table", "path")]
            for side in ("first", "last")
        )
        need(ref.segment.kind != messages.FILES or first <= last, "an inverted range")
        least, greatest = ref.segment.min_partition.encode(), ref.segment.max_partition.encode()
        need(ref.segment.kind != messages.FILES or least <= greatest, "inverted partitions")
        check_columns(ref.segment.kind, ref.segment.columns)


def check_columns(kind: int, columns: Sequence[str]) -> None:
    """The names of columns in a reference (section 6.5)."""
    names = [name.encode() for name in columns]
    right = kind in (messages.STATISTICS, messages.ROW_GROUP_STATISTICS)
    need(bool(names) == right and all(names), "columns of a reference")
    need(all(a < b for a, b in itertools.pairwise(names)), "columns of a reference")


def fingerprint(arrow_schema: bytes) -> bytes:
    """Section 5.3."""
    return hashlib.sha256(arrow_schema).digest()[:16]


def check_ascending(names: Sequence[str]) -> None:
    raw = [name.encode() for name in names]
    need(len(raw) <= 256 and all(a < b for a, b in itertools.pairwise(raw)), "order, or too many")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose message keeps all rules; its segments were not looked at."""

    frame: Frame
    message: Message


def open_checkpoint(data: bytes, incarnation: int, revision: int, uuid8: str) -> Checkpoint:
    frame = open_frame(data, CHECKPOINT, incarnation)
    message = decode(messages.CHECKPOINT, frame.message)
    if is_too_new(message):
        raise TooNew("required reader feature")
    ref = message.references
    if ref.segment.kind not in messages.SEGMENTS:
        raise TooNew("kind of segment")
    need(message.revision == revision, "revision")
    need(len(message.uuid) == 16 and message.uuid[:4].hex() == uuid8, "uuid")
    need(len(message.successor_uuid) == 16 and len(message.digest) == 32, "successor or digest")
    need(1 <= message.epoch < BIG and 1 <= message.committed_at_us <= MAX_TIME, "epoch or time")
    need(1 <= message.first_epoch <= message.epoch, "first epoch")
    need(1 <= message.begun_at_us <= MAX_TIME, "time of the beginning")
    need(len(message.transaction_id) == 16, "transaction id")
    for names in (message.required_reader_features, message.required_writer_features):
        check_ascending(names)
        need(all(1 <= len(name) <= 64 for name in names), "feature")
    check_ascending(message.locations)
    for url in message.locations:
        check_location(url)
    check_id(message.writer)
    check_id(message.database)
    need(ref.segment.kind == messages.REFERENCES, "references")
    need(1 <= ref.segment.row_count <= 1 << 20, "row count of the references")
    inline = not ref.digest and ref.offset + ref.length <= len(frame.attached)
    need(inline or len(ref.digest) == 32, "where the references are")
    return Checkpoint(frame, message)
