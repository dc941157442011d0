"""What the independent reader says of a log's head, in the form that readers are compared by.

`verdict(log)` is a JSON object with sorted keys. `verdict` is `ok`, or the class of the refusal:
`too-new`, `damaged`, `missing`, `pruned`, `forked`, `empty`; all else is there only with `ok`:

- `log_id`, `uuid`, `digest` in hex; `incarnation`, `revision`, `epoch`, `committed_at_us`;
  `named`: [writer, database]; `sealed_for`: the incarnation that a Seal at the head names, else 0;
- `reader_features`, `writer_features`, `locations`: sorted lists;
- `applications`: {id: version}, or "damaged" or "too-new";
- `definitions`: "damaged", "too-new", or a hash of lines `table|sha256 of arrow_schema|columns
  joined by ";"|last id|key joined by ","|revision`. A column is id=name and, if it has a default,
  `=` and that in hex;
- `deletes`: "damaged", "too-new", or a hash of lines `tombstone|table|revision|number|sha256 of the
  predicate|columns as a line of definitions without its revision, or nothing|paths joined by ","`
  and `rows|table|path|revision|number|object|offset|length|cardinality|digest`, each line once;
- `history`: "damaged", "too-new", or a hash of lines
  `revision|uuid|digest|committed_at_us|epoch|guest 0/1|operation|transaction ids joined by ","|
  files_added|files_removed|rows_added|bytes_added|summary`, in order of revision. The summary is
  its pairs as key=value, joined by ",";
- `complete`: whether all tables can be listed: false if a SCHEMAS segment can't be had from any
  base;
- `tables`: {name: table}, of all tables of which a schema is known, as far as they can be listed.
  A table has
  - `files`: "damaged", "too-new", or a hash of lines `path|partition|size|rows|revision|
    fingerprint|first_clock|last_clock|footer_bytes|footer_digest|row_groups|original_revision`. An
    unknown footer digest is 16 zeros, `row_groups` is 0 where they are unknown, no
    `original_revision` is `-`;
  - `statistics`, `row_group_statistics`: the same word as `files` if that is no hash, else hashes
    of lines `path|column|null_count|min|max|min_exact|max_exact|no_nan|bloom_offset|bloom_bytes`,
    or with the number of the row group after the path; `-` for what is unknown, bounds in hex, in
    the bytes of section 5.2, exactness 0 or 1 (0 if the bound is unknown), no_nan likewise. A
    column of which nothing is known has no line. Row groups are those of files that have more than
    one;
  - `deleted`: the same word as `files` if that is no hash, or as `deletes`; else a hash of lines
    `path|tombstones|rows`, one for each file of which a delete holds: tombstones as
    revision.number, ascending, joined by ","; rows as first-last of each range without a gap, or
    "damaged" or "too-new" if a bitmap can't be used, also where the object is gone;
  - `schemas`: a hash of lines `fingerprint|sha256 of arrow_schema|key joined by ","|sort order
    likewise|revision`.
    They are those of the base that the files come from; without files, of the highest base that
    gives the schemas.

A hash is the SHA-256, in hex, of the lines in UTF-8, each with a line feed; all but those of the
history are sorted by their bytes.
"""

from __future__ import annotations

import hashlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from independent_bitmap import deleted_rows
from independent_log import Log
from independent_wire import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from independent_content import Deletes, File, Schema
    from independent_state import State
    from independent_statistics import Known

Verdict = dict[str, Any]
NONE: Mapping[str, bytes] = MappingProxyType({})
OF_FILES = ("files", "statistics", "row_group_statistics", "deleted")
BITMAP = ("object", "offset", "length", "cardinality", "digest")
FACTS = (
    "path", "partition", "size_bytes", "row_count", "revision", "schema_fingerprint", "first_clock",
    "last_clock", "footer_bytes", "footer_digest", "row_groups", "original_revision",
)  # fmt: skip


def hash_lines(lines: Iterable[str]) -> str:
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def sorted_hash(lines: Iterable[str]) -> str:
    return hash_lines(sorted(lines, key=str.encode))


def plain(value: Any) -> str:
    if value is None:
        return "-"
    return value.hex() if isinstance(value, bytes) else str(value)


def told(part: Callable[[], Any]) -> Any:
    """A part, or how it is refused."""
    try:
        return part()
    except Refusal as error:
        return error.kind


def verdict(
    transactions: Mapping[str, bytes],
    segments: Mapping[str, bytes],
    data: Mapping[str, bytes] = NONE,
) -> Verdict:
    """What the head of a log says.

    Args:
        data: Objects of row deletes by their path.
    """
    try:
        state = Log(transactions, segments).read()
    except Refusal as error:
        return {"verdict": error.kind}
    return describe(state, data)


def describe(state: State, data: Mapping[str, bytes] = NONE) -> Verdict:
    """A state in the form of this module."""
    head = state.head
    names, complete = state.listed()
    return {
        "verdict": "ok",
        "log_id": (head.log_id or b"").hex(),
        "incarnation": head.incarnation,
        "named": [head.writer, head.database],
        "revision": head.revision,
        "uuid": head.uuid.hex(),
        "digest": head.digest.hex(),
        "epoch": head.epoch,
        "committed_at_us": head.committed_at_us,
        "sealed_for": head.seal,
        "reader_features": sorted(head.reader_features, key=str.encode),
        "writer_features": sorted(head.writer_features, key=str.encode),
        "locations": sorted(head.locations, key=str.encode),
        "applications": told(lambda: {k: v for k, (v, _) in state.applications().items()}),
        "definitions": told(
            lambda: sorted_hash(
                definition_line(table, *found) for table, found in state.definitions().items()
            )
        ),
        "deletes": told(lambda: sorted_hash(set(delete_lines(state.deletes())))),
        "history": told(lambda: hash_lines(map(history_line, state.history()))),
        "complete": complete,
        "tables": {name: table(state, name, data) for name in names},
    }


def delete_lines(deletes: Deletes) -> Iterator[str]:
    for table, entries in deletes.tombstones.items():
        for entry in entries:
            yield tombstone_line(table, entry.revision, entry.number, entry.facts)
    for (table, path), entries in deletes.rows.items():
        for entry in entries:
            said = [plain(entry.facts[name]) for name in BITMAP]
            yield "|".join(["rows", table, path, str(entry.revision), str(entry.number), *said])


def tombstone_line(table: str, revision: int, number: int, facts: Mapping[str, Any]) -> str:
    predicate = hashlib.sha256(facts["predicate"].encode()).hexdigest()
    columns = facts["columns"]
    line = definition_line(table, columns, None) if columns.columns else ""
    where = [table, str(revision), str(number)]
    return "|".join(["tombstone", *where, predicate, line, ",".join(facts["paths"])])


def definition_line(table: str, message: Any, revision: int | None) -> str:
    columns = [
        f"{c.id}={c.name}" + (f"={c.default.hex()}" if has_default(c) else "")
        for c in message.columns
    ]
    digest = hashlib.sha256(message.arrow_schema).hexdigest()
    told = [";".join(columns), str(message.last_id), ",".join(message.key)]
    return "|".join([table, digest, *told, *([] if revision is None else [str(revision)])])


def has_default(column: Any) -> bool:
    """Of this reader's messages, and of protobuf's."""
    return "default" in column.there if hasattr(column, "there") else column.HasField("default")


def history_line(row: Mapping[str, Any]) -> str:
    names = ("revision", "uuid", "digest", "committed_at", "epoch")
    counts = ("files_added", "files_removed", "rows_added", "bytes_added")
    ids = ",".join(transaction_id.hex() for transaction_id in row["transaction_ids"])
    cells = [plain(row[name]) for name in names]
    cells += [str(int(row["guest"])), row["operation"], ids]
    pairs = zip(row["summary_keys"], row["summary_values"])
    summary = ",".join(f"{key}={value}" for key, value in pairs)
    return "|".join([*cells, *(plain(row[name]) for name in counts), summary])


def table(state: State, name: str, data: Mapping[str, bytes]) -> Verdict:
    """What is said of one table."""
    schemas = told(lambda: sorted_hash(map(schema_line, *split(state.schemas(name)))))
    try:
        files = state.files(name)
        known = state.statistics(name)
    except Refusal as error:
        words = dict.fromkeys(OF_FILES, error.kind)
        return {**words, "schemas": schemas}
    whole = [
        known_line((path, column), found)
        for path, (columns, _) in known.items()
        for column, found in columns.items()
    ]
    groups = [
        known_line((path, str(number), column), found)
        for path, (_, parts) in known.items()
        for number, (_, columns) in enumerate(parts)
        for column, found in columns.items()
    ]
    return {
        "files": sorted_hash(map(file_line, files.values())),
        "statistics": sorted_hash(whole),
        "row_group_statistics": sorted_hash(groups),
        "deleted": told(lambda: sorted_hash(deleted_lines(state, name, files, data))),
        "schemas": schemas,
    }


def deleted_lines(
    state: State, name: str, files: Mapping[str, File], data: Mapping[str, bytes]
) -> Iterator[str]:
    """A line for each file of which a delete holds."""
    deletes = state.deletes()
    tombstones = deletes.tombstones.get(name, [])
    for path, file in files.items():
        held = {(t.revision, t.number) for t in tombstones if t.holds_of(file)}
        entries = deletes.rows.get((name, path), [])
        if held or entries:
            rows = told(lambda e=entries, f=file: deleted_rows(data, e, f.facts["row_count"]))
            yield deleted_line(path, held, rows)


def deleted_line(
    path: str, tombstones: Iterable[tuple[int, int]], rows: str | Sequence[tuple[int, int]]
) -> str:
    numbers = ",".join(f"{revision}.{number}" for revision, number in sorted(tombstones))
    ranges = rows if isinstance(rows, str) else ",".join(f"{a}-{b}" for a, b in rows)
    return f"{path}|{numbers}|{ranges}"


def split(schemas: Mapping[bytes, Schema]) -> tuple[Iterable[bytes], Iterable[Schema]]:
    return schemas.keys(), schemas.values()


def file_line(file: File) -> str:
    return "|".join(plain(file.facts[name]) for name in FACTS)


def schema_line(fingerprint: bytes, schema: Schema) -> str:
    digest = hashlib.sha256(schema.arrow_schema).hexdigest()
    cells = [
        fingerprint.hex(),
        digest,
        ",".join(schema.key),
        ",".join(schema.sort_order),
    ]
    return "|".join([*cells, str(schema.revision)])


def known_line(where: tuple[str, ...], known: Known) -> str:
    offset, size = known.bloom or (None, None)
    cells = [*where, *map(plain, (known.nulls, known.least, known.greatest))]
    flags = (known.least_exact, known.greatest_exact, known.no_nan)
    cells += [str(int(flag)) for flag in flags]
    return "|".join([*cells, plain(offset), plain(size)])
