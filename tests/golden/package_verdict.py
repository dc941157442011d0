"""What lakelog says of a log's head, in the form of `independent_verdict`."""

from __future__ import annotations

import hashlib
import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from independent_verdict import FACTS, definition_line, hash_lines, history_line, plain, sorted_hash
from lakelog.catalog.ambient import Ambient
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.read.statistics import table_statistics
from lakelog.catalog.read.tables import listed_tables
from lakelog.errors import (
    CorruptError,
    ForkError,
    LakelogError,
    MissingTransaction,
    RevisionNotFound,
    SnapshotPruned,
    UnsupportedFeature,
)
from lakelog.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakelog.catalog.log.files import Files
    from lakelog.catalog.log.known_schemas import KnownSchemas, SchemaEntry
    from lakelog.catalog.log.state import State

Verdict = dict[str, Any]
WRITER, DATABASE = "w", "d"
CLASSES: list[tuple[type[LakelogError], str]] = [
    (UnsupportedFeature, "too-new"), (MissingTransaction, "missing"), (ForkError, "forked"),
    (SnapshotPruned, "pruned"), (RevisionNotFound, "not-found"), (CorruptError, "damaged"),
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
    transactions: Mapping[str, bytes], segments: Mapping[str, bytes], folder: str
) -> MemoryStore:
    store = MemoryStore()
    for kind, objects in (("transactions", transactions), ("segments", segments)):
        for name, data in objects.items():
            store.put(f"{folder}/{kind}/{name}", data)
    return store


def verdict(
    transactions: Mapping[str, bytes],
    segments: Mapping[str, bytes],
) -> Verdict:
    """What the head of a log says."""
    store = store_of(transactions, segments, f"{WRITER}/{DATABASE}")
    reader = LogReader(store, WRITER, DATABASE, Ambient(sleep_s=lambda _: None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            state = reader.load()
        except LakelogError as error:
            return {"verdict": kind_of(error)}
        return describe(state) if state.revision >= 0 else {"verdict": "empty"}


def describe(state: State) -> Verdict:
    """A state in the form of `independent_verdict`. Each part is asked of a state of its own, so
    that none hangs on which base another one came from."""
    assert state.log is not None
    listed, unlisted = listed_tables(state.copy())
    tables = {name: table(state, name) for name in listed}
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
        "history": told(lambda: hash_lines(map(history_line, history_rows(state.copy())))),
        "complete": not unlisted,
        "tables": {name: found for name, found in tables.items() if found},
    }


def definition_lines(state: State) -> Iterator[str]:
    for table, entry in state.definitions.entries.items():
        yield definition_line(table, entry.wire, entry.revision)


def history_rows(state: State) -> Iterator[Mapping[str, Any]]:
    rows = state.history.table()
    place = rows.schema.get_field_index("committed_at")
    times = rows.column(place).cast(pa.int64())
    yield from rows.set_column(place, "committed_at", times).to_pylist()


def table(state: State, name: str) -> Verdict | None:
    """What is said of one table; None if it is not known."""
    own = state.copy()
    words: Verdict = {}
    try:
        held, schemas = own.table_of(name)
        files = held.table(name, whole=True).to_pylist()
        words["files"] = sorted_hash("|".join(plain(row[f]) for f in FACTS) for row in files)
    except LakelogError as error:
        words = dict.fromkeys(("files", "statistics", "row_group_statistics"), kind_of(error))
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
    entries = schemas.of_table(name)
    return {**words, "schemas": sorted_hash(map(schema_line, entries))} if entries else None


def statistics_hash(
    state: State, name: str, of: tuple[Files, KnownSchemas], *, row_groups: bool
) -> str:
    rows = table_statistics(state, name, row_groups=row_groups, of=of).to_pylist()
    return sorted_hash(known_line(row, row_groups) for row in rows)


def known_line(row: Mapping[str, Any], row_groups: bool) -> str:
    where = [row["path"], *([str(row["row_group"])] if row_groups else []), row["column"]]
    facts = ["-" if row[f] is None else plain(row[f]) for f in ("null_count", "min", "max")]
    exact = [str(int(row[f])) for f in ("min_exact", "max_exact", "no_nan")]
    bloom = ["-" if row[f] is None else str(row[f]) for f in ("bloom_offset", "bloom_bytes")]
    return "|".join([*where, *facts, *exact, *bloom])


def schema_line(entry: SchemaEntry) -> str:

    generations = ",".join(f"{name}={number}" for name, number in entry.generations)
    digest = hashlib.sha256(entry.message).hexdigest()
    cells = [entry.fingerprint.hex(), digest, generations, ",".join(entry.key)]
    return "|".join([*cells, ",".join(entry.sort_order), str(entry.revision)])
