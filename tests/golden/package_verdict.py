"""What lakelog says of a log's head, in the form of `independent_verdict`."""

from __future__ import annotations

import hashlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from independent_verdict import (
    BITMAP,
    FACTS,
    NONE,
    OF_FILES,
    definition_line,
    deleted_line,
    hash_lines,
    history_line,
    plain,
    sorted_hash,
    tombstone_line,
)
from lakelog.catalog.ambient import Ambient
from lakelog.catalog.data.hidden import Bitmaps
from lakelog.catalog.log.deletes import message_of
from lakelog.catalog.read.cut_tables import listed_tables
from lakelog.catalog.read.hidden import bitmap_of, held_by
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.read.statistics import table_statistics
from lakelog.errors import (
    CorruptError,
    ForkError,
    LakelogError,
    MissingTransaction,
    ObjectNotFound,
    RevisionNotFound,
    SnapshotPruned,
    UnsupportedFeature,
)
from lakelog.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakelog.catalog.log.deletes import Deletes
    from lakelog.catalog.log.files import Files
    from lakelog.catalog.log.known_schemas import KnownSchemas, SchemaEntry
    from lakelog.catalog.log.state import State
    from lakelog.store import Store

Verdict = dict[str, Any]
WRITER, DATABASE = "w", "d"
CLASSES: list[tuple[type[LakelogError], str]] = [
    (UnsupportedFeature, "too-new"), (MissingTransaction, "missing"), (ForkError, "forked"),
    (SnapshotPruned, "pruned"), (RevisionNotFound, "not-found"), (CorruptError, "damaged"),
    (ObjectNotFound, "damaged"),
]  # fmt: skip


def kind_of(error: LakelogError) -> str:
    """The class of a refusal; an error of another kind is none, and is raised."""
    for kind, name in CLASSES:
        if isinstance(error, kind):
            return name
    raise error


def told(part: Callable[[], Any]) -> Any:
    """A part, or how it is refused."""
    try:
        return part()
    except LakelogError as error:
        return kind_of(error)


def store_of(
    transactions: Mapping[str, bytes],
    segments: Mapping[str, bytes],
    data: Mapping[str, bytes],
    folder: str,
) -> MemoryStore:
    store = MemoryStore()
    for kind, objects in (("transactions", transactions), ("segments", segments)):
        for name, body in objects.items():
            store.put(f"{folder}/{kind}/{name}", body)
    for path, body in data.items():
        store.put(f"{folder}/{path}", body)
    return store


def verdict(
    transactions: Mapping[str, bytes],
    segments: Mapping[str, bytes],
    data: Mapping[str, bytes] = NONE,
) -> Verdict:
    """What the head of a log says.

    Args:
        data: Objects of row deletes by their path.
    """
    store = store_of(transactions, segments, data, f"{WRITER}/{DATABASE}")
    reader = LogReader(store, WRITER, DATABASE, Ambient(sleep_s=lambda _: None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            state = reader.load()
        except LakelogError as error:
            return {"verdict": kind_of(error)}
        return describe(state, store) if state.revision >= 0 else {"verdict": "empty"}


def describe(state: State, store: Store) -> Verdict:
    """A state in the form of `independent_verdict`. Each part is asked of a state of its own, so
    that none hangs on which base another one came from.

    Args:
        store: With the objects of row deletes.
    """
    assert state.log is not None
    listed, unlisted = listed_tables(state.copy())
    tables = {name: table(state, name, store) for name in listed}
    return {
        "verdict": "ok",
        "log_id": state.log.log_id.hex(),
        "incarnation": state.log.incarnation,
        "named": list(state.named),
        "revision": state.revision,
        "uuid": state.uuid.hex(),
        "digest": state.digest.hex(),
        "epoch": state.epoch,
        "committed_at_us": state.committed_at_us,
        "sealed_for": state.sealed_for,
        "reader_features": sorted(state.reader_features, key=str.encode),
        "writer_features": sorted(state.writer_features, key=str.encode),
        "locations": sorted(state.locations, key=str.encode),
        "applications": told(lambda: state.copy().applications.versions()),
        "definitions": told(lambda: sorted_hash(definition_lines(state.copy()))),
        "deletes": told(lambda: sorted_hash(delete_lines(state.copy().deletes))),
        "history": told(lambda: hash_lines(map(history_line, history_rows(state.copy())))),
        "complete": not unlisted,
        "tables": {name: found for name, found in tables.items() if found},
    }


def definition_lines(state: State) -> Iterator[str]:
    for table, entry in state.definitions.entries.items():
        yield definition_line(table, entry.wire, entry.revision)


def delete_lines(deletes: Deletes) -> Iterator[str]:
    for name, found in deletes.tombstones.items():
        for item in found:
            message = message_of(item)
            facts = {n: getattr(message, n) for n in ("predicate", "columns", "paths")}
            yield tombstone_line(name, item.revision, item.number, facts)
    for name in deletes.tables():
        for path, entries in deletes.rows_of(name).items():
            for entry in entries:
                said = [plain(getattr(entry, n)) for n in BITMAP]
                where = [name, path, str(entry.revision), str(entry.number)]
                yield "|".join(["rows", *where, *said])


def deleted_lines(state: State, name: str, files: pa.Table, store: Store) -> Iterator[str]:
    deletes, folder = state.deletes, f"{state.writer}/{state.database}/"
    by_number, bitmaps = deletes.rows_of(name), Bitmaps(store)
    found = [(item, held_by(item, files)) for item in deletes.of_table(name)]
    for number, row in enumerate(files.to_pylist()):
        held = [(t.revision, t.number) for t, of in found if of[number]]
        said = [bitmap_of(entry, folder) for entry in by_number.get(row["path"], ())]
        if held or said:
            count = row["row_count"]
            rows = told(lambda said=said, count=count: ranges(bitmaps.rows(said, count)))
            yield deleted_line(row["path"], held, rows)


def ranges(rows: np.ndarray) -> list[tuple[int, int]]:
    """Ascending numbers as first and last of each range without a gap."""
    if not len(rows):
        return []
    wide = rows.astype(np.int64)
    ends = np.flatnonzero(np.diff(wide) > 1)
    firsts, lasts = wide[[0, *(ends + 1)]], wide[[*ends, len(wide) - 1]]
    return list(zip(firsts.tolist(), lasts.tolist()))


def history_rows(state: State) -> Iterator[Mapping[str, Any]]:
    rows = state.history.table()
    place = rows.schema.get_field_index("committed_at")
    times = rows.column(place).cast(pa.int64())
    yield from rows.set_column(place, "committed_at", times).to_pylist()


def table(state: State, name: str, store: Store) -> Verdict | None:
    """What is said of one table; None if it is not known."""
    own = state.copy()
    words: Verdict = {}
    try:
        held, schemas = own.table_of(name)
        files = held.table(name, whole=True)
        lines = ("|".join(plain(row[f]) for f in FACTS) for row in files.to_pylist())
        words["files"] = sorted_hash(lines)
    except LakelogError as error:
        words = dict.fromkeys(OF_FILES, kind_of(error))
        own = state.copy()
        try:
            schemas = own.schemas_of(name)
        except LakelogError:
            return None
    else:
        for what, groups in (("statistics", False), ("row_group_statistics", True)):
            words[what] = told(
                lambda g=groups: statistics_hash(own, name, (held, schemas), row_groups=g)
            )
        words["deleted"] = told(lambda: sorted_hash(deleted_lines(own, name, files, store)))
    entries = schemas.of_table(name)
    return {**words, "schemas": sorted_hash(map(schema_line, entries))} if entries else None


def statistics_hash(
    state: State, name: str, of: tuple[Files, KnownSchemas], *, row_groups: bool
) -> str:
    rows = table_statistics(state, name, row_groups=row_groups, of=of).to_pylist()
    return sorted_hash(known_line(row, row_groups) for row in rows)


def known_line(row: Mapping[str, Any], row_groups: bool) -> str:
    where = [row["path"], *([str(row["row_group"])] if row_groups else []), row["column"]]
    facts = [plain(row[f]) for f in ("null_count", "min", "max")]
    exact = [str(int(row[f])) for f in ("min_exact", "max_exact", "no_nan")]
    bloom = [plain(row[f]) for f in ("bloom_offset", "bloom_bytes")]
    return "|".join([*where, *facts, *exact, *bloom])


def schema_line(entry: SchemaEntry) -> str:
    digest = hashlib.sha256(entry.message).hexdigest()
    cells = [entry.fingerprint.hex(), digest, ",".join(entry.key)]
    return "|".join([*cells, ",".join(entry.sort_order), str(entry.revision)])
