"""Replay and checkpoints for the independent reader. See `independent_reader`."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from independent_segments import (
    COLUMNS,
    FILES,
    ROW_GROUPS,
    SCHEMAS,
    Bounds,
    group_statistics,
    merge_groups,
    open_segment,
    statistics_of,
)
from independent_wire import (
    BIG,
    CHECKPOINT,
    SEGMENT,
    TRANSACTION,
    Message,
    Refused,
    TooNew,
    check_path,
    need,
    open_frame,
)

if TYPE_CHECKING:
    from pathlib import Path

FEATURES: frozenset[str] = frozenset()
OBJECT = re.compile(
    r"([0-9]{20})\.([0-9a-f]{8})\.(?:(transaction|checkpoint)|(0|[1-9][0-9]{0,8})\.segment)"
)

# --- Sections 4, 5 and 6: state -------------------------------------------------------------------


@dataclass
class File:
    """A live file."""

    table: str
    facts: dict[str, Any]  # the columns of FILES, but for path
    statistics: Bounds
    groups: list[tuple[int, Bounds]]  # row count and statistics of each, if there are several


@dataclass
class State:
    """All that a log says at one revision."""

    writer: str
    database: str
    revision: int = -1
    uuid: bytes = b""
    digest: bytes = b""
    epoch: int = 0
    committed_at: int = 0
    reader_features: set[str] = field(default_factory=set)
    writer_features: set[str] = field(default_factory=set)
    app_versions: dict[str, int] = field(default_factory=dict)
    schemas: dict[tuple[str, bytes], dict[str, Any]] = field(default_factory=dict)
    files: dict[str, File] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)


def read_schema(message: bytes, fingerprint: bytes) -> pa.Schema:
    need(hashlib.sha256(message).digest()[:16] == fingerprint, "fingerprint")
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(message))
    except (pa.ArrowException, OSError) as error:
        raise Refused(f"schema: {error}") from None
    for item in schema:
        mark = (item.metadata or {}).get(b"lakelog.generation", b"0")
        need(re.fullmatch(rb"0|[1-9][0-9]{0,8}", mark), "generation")
    return schema


def generation(item: pa.Field) -> int:
    return int((item.metadata or {}).get(b"lakelog.generation", b"0"))


def check_features(names: set[str]) -> None:
    if names - FEATURES:
        raise TooNew(f"features {sorted(names - FEATURES)}")


def apply(state: State, data: bytes, name: str) -> None:
    """Section 4: one transaction more."""
    body, attachments, digest = open_frame(data, TRANSACTION)
    message, (number, uuid8) = Message(body), name.split(".")[:2]
    commit, uuid = message.sub(15), message.raw(2)
    members, revision = commit.subs(1), message.uint(1)
    need(revision == int(number) and len(uuid) == 16 and uuid[:4].hex() == uuid8, "name")
    need(1 <= message.uint(5) < BIG and message.has(15) and members, "epoch or commit")
    need(len(commit.raw(3)) == 16 and 0 < commit.sint(2) < 1 << 55, "successor or time")
    need(all(len(m.raw(1)) == 16 and 0 < len(m.text(2)) <= 64 for m in members), "members")
    need(revision == state.revision + 1 and message.raw(3) == state.uuid, "chain: uuid")
    need(message.raw(4) == state.digest, "chain: digest")
    need(message.uint(5) >= state.epoch and commit.sint(2) > state.committed_at, "chain: order")
    did = {"files_added": 0, "files_removed": 0, "rows_added": 0, "bytes_added": 0}
    named: set[str] = set()
    for action in message.subs(7):
        change(state, action, attachments, revision, did, named)
    for member in members:
        if member.text(3):
            old = state.app_versions.get(member.text(3), 0)
            state.app_versions[member.text(3)] = max(old, member.uint(4))
    state.revision, state.uuid, state.digest = revision, uuid, digest
    state.epoch, state.committed_at = message.uint(5), commit.sint(2)
    summary: dict[str, str] = {}
    for member in members:
        summary.update({pair.text(1): pair.text(2) for pair in member.subs(5)})
    state.history.append({
        "revision": revision, "uuid": uuid, "digest": digest, "committed_at": commit.sint(2),
        "epoch": message.uint(5), "guest": bool(message.uint(6)),
        "operation": "+".join(dict.fromkeys(m.text(2) for m in members)),
        "transaction_ids": [m.raw(1) for m in members], **did, "summary": summary or None,
    })  # fmt: skip


def change(
    state: State, action: Message, attachments: bytes, revision: int, did: Bounds, named: set[str]
) -> None:
    """Section 5: one action."""
    kinds = [number for number in action.fields if number < 15]
    if len(kinds) != 1 or kinds[0] > 6:
        if not action.uint(15):
            raise TooNew(f"action of kind {kinds}")
        return
    item = action.sub(kinds[0])
    if kinds[0] == 1:
        add_file(state, item, revision, did)
        named.add(item.text(1))
    elif kinds[0] == 2:
        path = check_path(item.text(1))
        need(path in state.files, f"removes {path}")
        del state.files[path]
        named.add(path)
        did["files_removed"] += 1
    elif kinds[0] == 3:
        need(item.text(1), "schema without table")
        entry = {
            "schema": read_schema(item.raw(3), item.raw(2)),
            "key": item.texts(4),
            "sort_order": item.texts(5),
            "revision": revision,
        }
        entry["revision"] = state.schemas.get((item.text(1), item.raw(2)), entry)["revision"]
        state.schemas[item.text(1), item.raw(2)] = entry
    elif kinds[0] == 4:
        state.reader_features |= set(item.texts(1))
        state.writer_features |= set(item.texts(2))
        check_features(state.reader_features)
    elif kinds[0] == 5:
        add_batch(state, item, attachments, revision, did, named)
    else:
        raise TooNew("tombstone")


def add_file(state: State, add: Message, revision: int, did: Bounds) -> None:
    path, table, mark, groups = check_path(add.text(1)), add.text(2), add.raw(6), add.subs(11)
    numbers = [add.uint(4), add.uint(5), add.uint(9), *(group.uint(1) for group in groups)]
    need(table and len(mark) == 16 and (table, mark) in state.schemas, f"schema of {path}")
    need(max(numbers) < BIG and path not in state.files, f"adds {path}")
    schema = state.schemas[table, mark]["schema"]
    facts = {
        "partition": add.text(3), "size_bytes": numbers[0], "row_count": numbers[1],
        "revision": revision, "schema_fingerprint": mark, "first_clock": add.sint(7),
        "last_clock": add.sint(8), "footer_bytes": numbers[2], "row_groups": len(groups),
    }  # fmt: skip
    several = [
        (
            g.uint(1),
            {k: v for known in group_statistics(g, schema).values() for k, v in known.items()},
        )
        for g in (groups if len(groups) > 1 else [])
    ]
    state.files[path] = File(table, facts, merge_groups(groups, schema), several)
    did["files_added"] += 1
    did["rows_added"] += numbers[1]
    did["bytes_added"] += numbers[0]


def add_batch(
    state: State, item: Message, attachments: bytes, revision: int, did: Bounds, named: set[str]
) -> None:
    def piece(part: Message) -> bytes:
        need(part.uint(1) + part.uint(2) <= len(attachments), "attachment")
        return attachments[part.uint(1) : part.uint(1) + part.uint(2)]

    table, files, groups = item.text(3), item.sub(1), item.sub(2)
    need(table and files.uint(3), "empty batch")
    rows = open_segment(piece(files), FILES, files.uint(3))
    found = files_of(rows, table)
    for path, file in found.items():
        need(path not in state.files and path not in named, f"adds {path}")
        need((table, file.facts["schema_fingerprint"]) in state.schemas, f"schema of {path}")
        need(file.facts["revision"] == revision, f"revision of {path}")
        did["rows_added"] += file.facts["row_count"]
        did["bytes_added"] += file.facts["size_bytes"]
    did["files_added"] += len(found)
    if groups.uint(3):
        put_groups(found, open_segment(piece(groups), ROW_GROUPS, groups.uint(3)))
    state.files.update(found)
    named.update(found)


def files_of(rows: pa.Table, table: str) -> dict[str, File]:
    facts = rows.select(list(COLUMNS[FILES])).to_pylist()
    pairs = zip(facts, statistics_of(rows))
    return {fact.pop("path"): File(table, fact, known, []) for fact, known in pairs}


def put_groups(files: dict[str, File], rows: pa.Table) -> None:
    core = rows.select(list(COLUMNS[ROW_GROUPS])).to_pylist()
    for row, known in zip(core, statistics_of(rows)):
        need(row["path"] in files, "row group of no file")
        groups = files[row["path"]].groups
        need(row["row_group"] == len(groups), "order of row groups")
        groups.append((row["row_count"], known))


def open_checkpoint(folder: Path, name: str, writer: str, database: str) -> State:
    """Section 6: the state that a checkpoint holds."""
    body, attachments, _ = open_frame((folder / name).read_bytes(), CHECKPOINT)
    message, (number, uuid8) = Message(body), name.split(".")[:2]
    state = State(
        writer, database, message.uint(1), message.raw(2), message.raw(4), message.uint(5),
        message.sint(6), set(message.texts(8)), set(message.texts(9)),
        {app.text(1): app.uint(2) for app in message.subs(10)},
    )  # fmt: skip
    need(state.revision == int(number) and len(state.uuid) == 16, "name")
    need(state.uuid[:4].hex() == uuid8 and len(message.raw(3)) == 16, "uuid or successor")
    need(len(state.digest) == 32 and 1 <= state.epoch < BIG, "digest or epoch")
    need(0 < state.committed_at < 1 << 55, "commit time")
    check_features(state.reader_features)
    for ref in message.subs(11):
        kind, rows = ref.uint(1), ref.uint(3)
        if kind not in COLUMNS:
            raise TooNew(f"segment of kind {kind}")
        load_segment(state, ref, open_segment(segment_bytes(folder, ref, attachments), kind, rows))
    need(len(state.files) == message.sub(12).uint(1), "count of files")
    check_history(state)
    for file in state.files.values():
        need((file.table, file.facts["schema_fingerprint"]) in state.schemas, "schema of a file")
    return state


def check_history(state: State) -> None:
    """The rows end with the checkpoint's own, without gaps, with times that ascend."""
    rows = state.history
    need(rows and rows[-1]["revision"] == state.revision, "end of the history")
    need(rows[-1]["digest"] == state.digest, "digest in the history")
    for one, other in itertools.pairwise(rows):
        need(one["revision"] + 1 == other["revision"], "gap in the history")
        need(one["committed_at"] < other["committed_at"], "times in the history")
    need(rows[0]["committed_at"] > 0 and rows[-1]["committed_at"] < 1 << 55, "times")


def segment_bytes(folder: Path, ref: Message, attachments: bytes) -> bytes:
    if not ref.text(6):
        need(ref.uint(4) + ref.uint(5) <= len(attachments), "inline segment")
        return attachments[ref.uint(4) : ref.uint(4) + ref.uint(5)]
    match = OBJECT.fullmatch(ref.text(6))
    need(match is not None and match[4] is not None and len(ref.raw(7)) == 32, "segment name")
    try:
        data = (folder / ref.text(6)).read_bytes()
    except FileNotFoundError:
        raise Refused("segment is not there") from None
    _, found, digest = open_frame(data, SEGMENT)
    need(digest == ref.raw(7), "another segment")
    return found


def load_segment(state: State, ref: Message, rows: pa.Table) -> None:
    kind, table = ref.uint(1), ref.text(2)
    if kind == FILES:
        found = files_of(rows, table)
        paths = list(found) or [""]
        need((paths[0], paths[-1]) == (ref.text(8), ref.text(9)), "paths of a segment")
        before = [path.encode() for path, file in state.files.items() if file.table == table]
        need(not found or not before or before[-1] < paths[0].encode(), "segments overlap")
        need(not state.files.keys() & found.keys(), "a file twice")
        state.files.update(found)
    elif kind == ROW_GROUPS:
        put_groups(state.files, rows)
    elif kind == SCHEMAS:
        for row in rows.to_pylist():
            mark = row["fingerprint"]
            state.schemas[row["table"], mark] = {
                "schema": read_schema(row["arrow_schema"], mark),
                "key": row["key"] or [],
                "sort_order": row["sort_order"] or [],
                "revision": row["revision"],
            }
    else:
        times = rows.column("committed_at").cast(pa.int64()).to_pylist()
        for row, at in zip(rows.drop_columns("committed_at").to_pylist(), times):
            summary = json.loads(row["summary"]) if row["summary"] else None
            state.history.append({**row, "committed_at": at, "summary": summary})
