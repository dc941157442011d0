"""Segments and references for the independent reader: docs/format.md, section 6."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import independent_messages as messages
import pyarrow as pa
from independent_frame import SEGMENT, Frame, open_frame
from independent_ipc import Piece
from independent_messages import (
    APPLICATIONS,
    DEFINITION,
    DEFINITIONS,
    FILES,
    HISTORY,
    REFERENCES,
    ROW_DELETES,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS,
    SCHEMAS,
    STATISTICS,
    TOMBSTONE,
    TOMBSTONES,
)
from independent_transaction import (
    MAX_TIME,
    check_columns,
    check_definition,
    check_row_deletes,
    check_tombstone,
    fingerprint,
)
from independent_wire import (
    BIG,
    TooNew,
    check_partition,
    check_path,
    check_table,
    decode,
    need,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Columns = dict[str, list[Any]]
Profile = dict[str, tuple[pa.DataType, bool]]
STRING, INT64, INT32 = (pa.string(), False), (pa.int64(), False), (pa.int32(), False)
STRINGS, MAYBE = (pa.list_(pa.string()), True), (pa.int64(), True)
KNOWN: Profile = {
    "null_count": MAYBE, "min": MAYBE, "max": MAYBE, "min_bytes": (pa.binary(), True),
    "max_bytes": (pa.binary(), True), "exact": (pa.uint8(), False), "bloom_offset": MAYBE,
    "bloom_bytes": MAYBE,
}  # fmt: skip
COLUMNS: dict[int, Profile] = {
    FILES: {
        "table": STRING, "path": STRING, "partition": STRING, "size_bytes": INT64,
        "row_count": INT64, "revision": INT64, "schema_fingerprint": (pa.binary(16), False),
        "first_clock": INT64, "last_clock": INT64, "footer_bytes": INT64,
        "footer_digest": (pa.binary(8), False), "row_groups": INT32, "original_revision": MAYBE,
    },
    ROW_GROUPS: {"row": INT32, "row_group": INT32, "row_count": INT64},
    STATISTICS: {"column": INT32, "row_delta": INT32, **KNOWN},
    ROW_GROUP_STATISTICS: {"column": INT32, "row_delta": INT32, "row_group": INT32, **KNOWN},
    SCHEMAS: {
        "table": STRING, "fingerprint": (pa.binary(16), False),
        "arrow_schema": (pa.binary(), False),
        "key": STRINGS, "sort_order": STRINGS, "revision": INT64,
    },
    DEFINITIONS: {"table": STRING, "definition": (pa.binary(), False), "revision": INT64},
    ROW_DELETES: {
        "table": STRING, "path": STRING, "revision": INT64, "number": INT32, "object": STRING,
        "offset": INT64, "length": INT64, "cardinality": INT64, "digest": (pa.binary(32), False),
    },
    TOMBSTONES: {
        "table": STRING, "revision": INT64, "number": INT32, "tombstone": (pa.binary(), False),
    },
    APPLICATIONS: {"app_id": STRING, "app_version": INT64, "committed_at_us": INT64},
    HISTORY: {
        "revision": INT64, "uuid": (pa.binary(16), False), "digest": (pa.binary(32), False),
        "committed_at": (pa.timestamp("us", "UTC"), False), "epoch": INT64,
        "guest": (pa.bool_(), False), "operation": STRING,
        "transaction_ids": (pa.list_(pa.binary(16)), False), "files_added": INT64,
        "files_removed": INT64, "rows_added": INT64, "bytes_added": INT64,
        "summary_keys": (pa.list_(pa.string()), False),
        "summary_values": (pa.list_(pa.string()), False),
    },
    REFERENCES: {
        "kind": (pa.uint8(), False), "part": INT32, "run": INT32, "digest": (pa.binary(32), True),
        "offset": INT64, "length": INT64, "row_count": INT64, "total_rows": INT64,
        "total_bytes": INT64, "first_table": STRING, "first_path": STRING, "last_table": STRING,
        "last_path": STRING, "min_partition": STRING, "max_partition": STRING,
        "columns": (pa.list_(pa.string()), False), "first_revision": INT64,
        "last_revision": INT64, "dead": (pa.binary(), True),
    },
}  # fmt: skip
ROW_BYTES = dict.fromkeys((SCHEMAS, DEFINITIONS, TOMBSTONES), 8 << 20)
ROW_BYTES |= {HISTORY: 64 << 20, REFERENCES: 64 << 10}
BY_TABLE = (SCHEMAS, ROW_DELETES, TOMBSTONES)  # told by the first and the last table
NAMED = (
    "kind", "row_count", "first_table", "first_path", "last_table", "last_path", "columns",
    "first_revision", "last_revision", "total_rows", "total_bytes", "min_partition",
    "max_partition",
)  # fmt: skip


@dataclass(frozen=True)
class Reference:
    """What a SegmentRef or a row of REFERENCES says of a piece."""

    facts: Mapping[str, Any]  # NAMED
    offset: int
    length: int
    digest: bytes = b""
    part: int = -1
    run: int = -1
    dead: frozenset[int] = field(default_factory=frozenset)

    @property
    def kind(self) -> int:
        return int(self.facts["kind"])

    def covers(self, table: str) -> bool:
        name = table.encode()
        first, last = self.facts["first_table"].encode(), self.facts["last_table"].encode()
        return bool(first <= name <= last)


def reference_of(ref: Any) -> Reference:
    """Of a SegmentRef message."""
    facts = {name: ref.segment.values[name] for name in NAMED}
    return Reference(facts, ref.offset, ref.length, ref.digest)


@dataclass(frozen=True)
class Holder:
    """The frame that refers to segments, and what it says of itself."""

    frame: Frame
    revision: int
    objects: Mapping[str, bytes]  # segments/, by name

    def piece(self, ref: Reference) -> Piece:
        """The Arrow IPC that a reference names, with its profile checked."""
        if ref.digest:
            data = self.referred(ref)
        else:
            need(ref.offset + ref.length <= len(self.frame.attached), "beyond the attachments")
            data = self.frame.attached[ref.offset : ref.offset + ref.length]
        return Piece(data, ref.facts["row_count"], ROW_BYTES.get(ref.kind, 16 << 10))

    def referred(self, ref: Reference) -> bytes:
        """The attachments of a segment object (section 6.7)."""
        name = f"{ref.digest.hex()}.segment"
        need(name in self.objects, f"segment {name} is gone")
        frame = open_frame(self.objects[name], SEGMENT)
        message = decode(messages.SEGMENT, frame.message)
        need(frame.digest == ref.digest and frame.length == ref.length, "another segment")
        need(frame.log_id == self.frame.log_id, "a segment that belongs to another log")
        need(frame.incarnation <= self.frame.incarnation, "incarnation of a segment")
        same = all(message.values[name] == ref.facts[name] for name in NAMED)
        need(same, "a segment says that it is another")
        return frame.attached


def open_segment(holder: Holder, ref: Reference, *, batch: bool = False) -> Columns:
    """The rows of a segment of any kind but REFERENCES, all of its rules checked.

    Args:
        batch: It is a piece of an AddBatch.
    """
    found = holder.piece(ref).columns(COLUMNS[ref.kind])
    CHECKS[ref.kind](found, ref.facts, holder.revision, batch)
    return found


def check_numbers(columns: Columns, *names: str) -> None:
    for name in names:
        need(all(0 <= value < BIG for value in columns[name]), f"numbers in {name}")


def check_ascending(rows: Iterable[Any]) -> None:
    need(all(a < b for a, b in itertools.pairwise(rows)), "rows do not ascend")


def check_range(columns: Columns, facts: Mapping[str, Any], **names: str) -> None:
    """The first and last values are those of the reference."""
    for what, name in names.items():
        ends = facts[f"first_{what}"], facts[f"last_{what}"]
        need(ends == (columns[name][0], columns[name][-1]), f"range of {name}")


def check_files(columns: Columns, facts: Mapping[str, Any], revision: int, batch: bool) -> None:
    tables, paths = columns["table"], columns["path"]
    check_ascending((a.encode(), b.encode()) for a, b in zip(tables, paths))
    for path in paths:
        check_path(path)
    for table in set(tables):
        check_table(table)
    for partition in set(columns["partition"]):
        check_partition(partition)
    check_numbers(columns, "size_bytes", "row_count", "revision", "footer_bytes", "row_groups")
    right = (
        {revision} >= set(columns["revision"]) if batch else max(columns["revision"]) <= revision
    )
    need(right, "revision of a file")
    check_range(columns, facts, table="table", path="path")
    least, *_, greatest = sorted([name.encode() for name in columns["partition"]] * 2)
    stated = facts["min_partition"].encode(), facts["max_partition"].encode()
    need(stated == (least, greatest), "partitions of a segment")
    sums = [min(sum(columns[name]), BIG - 1) for name in ("row_count", "size_bytes")]
    need(sums == [facts["total_rows"], facts["total_bytes"]], "totals of a segment")


def check_groups(columns: Columns, facts: Mapping[str, Any], revision: int, batch: bool) -> None:
    check_numbers(columns, "row", "row_group", "row_count")
    check_ascending(zip(columns["row"], columns["row_group"]))


def check_statistics(
    columns: Columns, facts: Mapping[str, Any], revision: int, batch: bool
) -> None:
    """Adds `row` and `name`, which the entries tell by distance and place."""
    grouped = "row_group" in columns
    check_numbers(columns, "column", "row_delta", *(["row_group"] if grouped else []))
    places, names = columns["column"], facts["columns"]
    need(sorted(places) == places and set(places) == set(range(len(names))), "places of columns")
    rows: list[int] = []
    for at, (place, distance) in enumerate(zip(places, columns["row_delta"])):
        first = not at or places[at - 1] != place
        rows.append(distance if first else rows[-1] + distance)
    need(max(rows) < 1 << 31, "row of an entry")
    check_ascending(zip(places, rows, *([columns["row_group"]] if grouped else [])))
    columns["row"], columns["name"] = rows, [names[place] for place in places]


def check_schemas(columns: Columns, facts: Mapping[str, Any], revision: int, batch: bool) -> None:
    for table in set(columns["table"]):
        check_table(table)
    check_ascending(zip((t.encode() for t in columns["table"]), columns["fingerprint"]))
    check_numbers(columns, "revision")
    need(max(columns["revision"]) <= revision, "revision of a schema")
    for stated, data in zip(columns["fingerprint"], columns["arrow_schema"]):
        need(stated == fingerprint(data), "fingerprint")
    check_range(columns, facts, table="table")


def check_applications(
    columns: Columns, facts: Mapping[str, Any], revision: int, batch: bool
) -> None:
    ids = [name.encode() for name in columns["app_id"]]
    check_ascending(ids)
    need(all(1 <= len(name) <= 1024 for name in ids), "application id")
    check_numbers(columns, "app_version")
    need(all(1 <= at <= MAX_TIME for at in columns["committed_at_us"]), "time of an application")


def check_history(columns: Columns, facts: Mapping[str, Any], revision: int, batch: bool) -> None:
    check_numbers(
        columns, "revision", "epoch", "files_added", "files_removed", "rows_added", "bytes_added"
    )
    need(all(columns["epoch"]), "epoch")
    first = columns["revision"][0]
    need(columns["revision"] == list(range(first, first + len(columns["revision"]))), "gaps")
    check_ascending(columns["committed_at"])
    said = zip(columns["summary_keys"], columns["summary_values"])
    need(all(len(keys) == len(values) for keys, values in said), "a summary")
    need(all(1 <= at <= MAX_TIME for at in columns["committed_at"]), "time of a commit")
    need(columns["revision"][-1] <= revision, "revision beyond the checkpoint")
    check_range(columns, facts, revision="revision")


def check_definitions(
    columns: Columns, facts: Mapping[str, Any], revision: int, batch: bool
) -> None:
    """Adds `message`, taken apart."""
    for table in columns["table"]:
        check_table(table)
    check_ascending(table.encode() for table in columns["table"])
    check_numbers(columns, "revision")
    need(max(columns["revision"]) <= revision, "revision of a definition")
    columns["message"] = [decode(DEFINITION, data) for data in columns["definition"]]
    for table, message in zip(columns["table"], columns["message"]):
        check_definition(message)
        need(message.table == table, "a definition of another table")


def check_deletes(columns: Columns, facts: Mapping[str, Any], revision: int, batch: bool) -> None:
    """Rows of ROW_DELETES or TOMBSTONES. Adds `message` to those of TOMBSTONES, taken apart."""
    for table in columns["table"]:
        check_table(table)
    check_numbers(columns, "revision", "number")
    need(max(columns["revision"]) <= revision, "revision of a delete")
    names = [name for name in ("table", "path") if name in columns]
    texts = zip(*([text.encode() for text in columns[name]] for name in names))
    check_ascending(zip(texts, columns["revision"], columns["number"]))
    check_range(columns, facts, table="table")
    if "tombstone" not in columns:
        for values in zip(*columns.values()):
            check_row_deletes(dict(zip(columns, values)))
        return
    columns["message"] = [decode(TOMBSTONE, data) for data in columns["tombstone"]]
    for table, message in zip(columns["table"], columns["message"]):
        check_tombstone(message)
        need(message.table == table, "a tombstone of another table")


CHECKS: dict[int, Any] = {
    FILES: check_files, ROW_GROUPS: check_groups, STATISTICS: check_statistics,
    ROW_GROUP_STATISTICS: check_statistics, SCHEMAS: check_schemas,
    APPLICATIONS: check_applications, HISTORY: check_history,
    DEFINITIONS: check_definitions, ROW_DELETES: check_deletes, TOMBSTONES: check_deletes,
}  # fmt: skip

# --- Section 6.6 ----------------------------------------------------------------------------------


def open_references(holder: Holder, own: Reference, files: int) -> list[Reference]:
    """What the REFERENCES segment of a checkpoint says; `files` is `counts.files`."""
    piece = holder.piece(own)
    kinds = piece.columns({"kind": COLUMNS[REFERENCES]["kind"]})["kind"]
    if any(kind not in messages.SEGMENTS for kind in kinds):
        raise TooNew("kind of segment")
    columns = piece.columns(COLUMNS[REFERENCES])
    rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
    found = [read_reference(row, len(holder.frame.attached)) for row in rows]
    parts = [ref for ref in found if ref.kind == FILES]
    need(all(ref.kind == FILES for ref in found[: len(parts)]), "FILES come first")
    need([ref.part for ref in parts] == list(range(len(parts))), "numbers of parts")
    describing = (ROW_GROUPS, STATISTICS, ROW_GROUP_STATISTICS)
    need(all(0 <= r.part < len(parts) for r in found if r.kind in describing), "part")
    others = [r for r in found if r.kind not in (FILES, *describing)]
    need(all(ref.part == -1 for ref in others), "part of what is no part")
    need(all(ref.run == -1 for ref in found if ref.kind != FILES), "run of what is in none")
    need(not parts or parts[0].run == 0, "first run")
    for before, ref in itertools.pairwise(parts):
        need(0 <= ref.run - before.run <= 1, "runs")
        if ref.run == before.run:
            need(ends(ref.facts)[0] > ends(before.facts)[1], "order within a run")
    live = sum(ref.facts["row_count"] - len(ref.dead) for ref in parts)
    need(live == files, "number of files")
    return found


NUMBERS = ("offset", "length", "total_rows", "total_bytes", "first_revision", "last_revision")


def ends(facts: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """Table and path of the first and the last row."""
    sides = ("first", "last")
    return [(facts[f"{side}_table"].encode(), facts[f"{side}_path"].encode()) for side in sides]


def read_reference(row: Mapping[str, Any], attached: int) -> Reference:
    kind, rows = row["kind"], row["row_count"]
    need(kind != REFERENCES, "references within references")
    need(1 <= rows < 1 << 31 and all(0 <= row[name] < BIG for name in NUMBERS), "numbers")
    if row["digest"] is None:
        need(row["offset"] + row["length"] <= attached, "attachments")
    first, last = ends(row)
    if kind == FILES:
        need(first <= last, "an inverted range")
        need(row["min_partition"].encode() <= row["max_partition"].encode(), "inverted partitions")
    if kind in BY_TABLE:
        need(first[0] <= last[0], "an inverted range")
    if kind == HISTORY:
        need(row["first_revision"] <= row["last_revision"], "an inverted range")
    check_columns(kind, row["columns"])
    need(kind == FILES or row["dead"] is None, "dead rows of another kind")
    facts = {name: row[name] for name in NAMED}
    dead = dead_rows(row["dead"], rows) if row["dead"] is not None else frozenset()
    digest = row["digest"] or b""
    return Reference(facts, row["offset"], row["length"], digest, row["part"], row["run"], dead)


def dead_rows(bitmap: bytes, rows: int) -> frozenset[int]:
    need(len(bitmap) == (rows + 7) // 8, "length of a bitmap")
    bits = int.from_bytes(bitmap, "little")
    need(bits >> rows == 0, "bits beyond the rows")
    return frozenset(i for i in range(rows) if bits >> i & 1)
