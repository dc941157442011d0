"""What lies below `data/`: lakelog's own files with their footers, foreign files, and the rest.

A file counts as lakelog's own only where its name and place are those that its footer says: a copy
under another name, or in another writer's prefix, must not become data of a log. Those that only
name another writer or database are kept apart: they may be of this log, before it was renamed.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..catalog.format.floats import tell_floats
from ..catalog.format.names import (
    MAX_INCARNATION,
    MAX_REVISION,
    base_folder,
    check_path,
    data_path,
    parse_actions_file,
    parse_data_file,
    parse_deletes_file,
    parse_own_file,
    place_of,
)
from ..catalog.format.objects import OPERATIONS
from ..catalog.format.schema import encode_schema
from ..errors import InvalidName, InvalidPath
from .footers import FooterOf, read_footers
from .scan_objects import ObjectOf, own_path, read_objects
from .scanned import ForeignFile, OwnFile, RenamedFile, Scan, micros
from .spelling import Spelling
from .values import MAX_FILE_EPOCH, LeftOut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..catalog.data.footers.parse import ParsedFooter
    from ..catalog.format.footer import FooterMetadata
    from ..catalog.parallel import Engine
    from ..plans import Progress
    from ..store import ObjectInfo, Store, WideStore

_MAX_CLOCK: Final = 1 << 63
_MAX_VERSION: Final = 1 << 62
_ID_BYTES: Final = 16


def list_data(store: Store, writer: str, database: str) -> list[ObjectInfo]:
    """All objects below `data/`, by key.

    Requests: 1 LIST per 1,000 objects on S3.
    """
    return list(store.list(base_folder(writer, database) + "data/"))


def scan_data(
    store: WideStore,
    writer: str,
    database: str,
    progress: Progress | None = None,
    *,
    engine: Engine,
    named: Iterable[str] = (),
) -> Scan:
    """List `data/` and read every footer.

    Args:
        engine: Who reads them.
        named: Paths that the log knows: the store may show them in other spellings.
    Raises:
        StorageError: The store failed.
        UnsupportedFeature: A later version wrote an object of actions.
    Requests: 1 LIST per 1,000 objects on S3, 1 or 2 GET a file, 1 for each other object; 1 HEAD
        for each that is shown in another spelling, or that the log knows and no listing shows.
    """
    folder = base_folder(writer, database)
    listed = list_data(store, writer, database)
    spelling = Spelling(store, folder, {info.key[len(folder) :] for info in listed})
    spelling.learn(named)
    scan = Scan(digest=data_digest(listed))
    candidates: list[ObjectInfo] = []
    objects: list[ObjectInfo] = []
    for info in listed:
        path = info.key[len(folder) :]
        reason = _not_a_candidate(path)
        if reason:
            scan.left_out.append(LeftOut(path, info.size_bytes, "ignored", reason))
        elif parse_deletes_file(path) is not None or parse_actions_file(path) is not None:
            objects.append(info)
        else:
            candidates.append(info)
    with contextlib.closing(read_footers(engine, store, candidates)) as footers:
        for done, footer in enumerate(footers, 1):
            path = footer.info.key[len(folder) :]
            if footer.parsed is not None and footer.parsed.meta is not None:
                with contextlib.suppress(InvalidName, InvalidPath):  # `_misplaced` says so
                    path = spelling.of(path, _own_path(footer.parsed.meta))
            _sort_in(scan, footer, spelling.logged.get(path, path), writer, database)
            if progress is not None:
                progress(done, len(candidates), "footers read")
    with contextlib.closing(read_objects(engine, store, objects, folder)) as items:
        for item in items:
            _sort_in_object(scan, item, spelling, writer, database)
    logged = {folder + path: folder + name for path, name in spelling.logged.items()}
    scan.objects = [
        replace(info, key=logged[info.key]) if info.key in logged else info for info in listed
    ]
    return scan


def data_digest(listed: Iterable[ObjectInfo]) -> bytes:
    """A digest of the names and sizes of objects, as the store shows them."""
    digest = hashlib.sha256()
    for info in listed:
        digest.update(f"{info.key}\0{info.size_bytes}\n".encode())
    return digest.digest()


def _not_a_candidate(path: str) -> str:
    try:
        check_path(path)
    except InvalidPath as error:
        return f"its path can't stand in a log: {error.message}"
    if path.rsplit("/", 1)[-1][0] in "._":
        return "names that begin with '.' or '_' are no data files"
    return ""


def _sort_in(scan: Scan, footer: FooterOf, path: str, writer: str, database: str) -> None:
    info, parsed = footer.info, footer.parsed
    if parsed is None:
        known = path.endswith(".parquet") or parse_data_file(path) is not None
        kind = "quarantined" if known else "ignored"
        scan.left_out.append(_left_out(path, info.size_bytes, kind, footer.problem))
        return
    meta = parsed.meta
    problem = parsed.problem
    if meta is not None:
        problem = _misplaced(path, meta) or _misnamed(meta, writer, database)
    elif not problem and parse_data_file(path) is not None:
        problem = "it has a name of lakelog's and no lakelog metadata: something else rewrote it"
    if problem:
        scan.left_out.append(_left_out(path, info.size_bytes, "quarantined", problem))
        scan.strays[path] = _foreign(path, info, parsed, ("", ""))
        if meta is not None and not _misplaced(path, meta):
            file = _own(path, info, parsed, meta)
            scan.renamed[path] = RenamedFile(file, encode_schema(parsed.schema))
    elif meta is not None:
        scan.own.append(_own(path, info, parsed, meta))
        scan.schemas[meta.table, parsed.facts.schema_fingerprint] = encode_schema(parsed.schema)
    else:
        _sort_in_foreign(scan, path, info, parsed)


def _sort_in_object(
    scan: Scan, item: ObjectOf, spelling: Spelling, writer: str, database: str
) -> None:
    path = item.info.key[len(spelling.folder) :]
    if item.meta is None or item.found is None:
        scan.damaged[path] = item.problem
        scan.left_out.append(_left_out(path, item.info.size_bytes, "quarantined", item.problem))
        return
    with contextlib.suppress(InvalidName, InvalidPath):
        path = spelling.of(path, own_path(item.meta, path))
    found = replace(item.found, path=path)
    for action in found.actions:
        if action.WhichOneof("kind") == "row_deletes":
            action.row_deletes.object = path
    misplaced = _misplaced(path, item.meta)
    problem = misplaced or _misnamed(item.meta, writer, database)
    if not problem:
        scan.said.append(found)
        return
    scan.left_out.append(_left_out(path, item.info.size_bytes, "quarantined", problem))
    if not misplaced:
        scan.renamed[path] = RenamedFile(found, None)


def _left_out(path: str, size_bytes: int, kind: str, reason: str) -> LeftOut:
    own = parse_own_file(path)
    transaction_id = own.transaction_id.hex() if own is not None else ""
    return LeftOut(path, size_bytes, kind, reason, transaction_id)  # type: ignore[arg-type]


def _own(path: str, info: ObjectInfo, parsed: ParsedFooter, meta: FooterMetadata) -> OwnFile:
    add = parsed.facts
    add.path, add.table, add.partition = path, meta.table, meta.partition
    add.first_clock, add.last_clock = meta.first_clock, meta.last_clock
    tell_floats(add, meta.floats)
    return OwnFile(
        path=path,
        size_bytes=info.size_bytes,
        modified_at_us=micros(info.modified_at),
        row_count=add.row_count,
        add=add.SerializeToString(),
        table=meta.table,
        fingerprint=add.schema_fingerprint,
        transaction_id=meta.transaction_id,
        number=meta.number,
        base_revision=meta.base_revision,
        base_transaction_id=meta.base_transaction_id,
        epoch=meta.epoch,
        last_clock=meta.last_clock,
        log_id=meta.log_id,
        incarnation=meta.incarnation,
        slot_seed=meta.slot_seed,
        replaces=meta.replaces,
        replaced=meta.replaced,
        app_id=meta.app_id,
        app_version=meta.app_version,
        base_app_version=meta.base_app_version,
        operation=meta.operation,
        task=meta.task,
        attempt=meta.attempt,
    )


def _misnamed(meta: FooterMetadata, writer: str, database: str) -> str:
    if (meta.writer, meta.database) == (writer, database):
        return ""
    return f"it was copied here: its footer says writer {meta.writer}, database {meta.database}"


def _misplaced(path: str, meta: FooterMetadata) -> str:
    """Why a file isn't what its footer says, but for the names of writer and database, or is
    nothing that a log may hold; empty if it is."""
    problem = _out_of_range(meta)
    if problem:
        return f"its lakelog metadata can't be true: {problem}"
    try:
        is_object = parse_deletes_file(path) or parse_actions_file(path)
        own = own_path(meta, path) if is_object else _own_path(meta)
    except (InvalidName, InvalidPath) as error:
        return f"its lakelog metadata can't be true: {error.message}"
    if path == own:
        return ""
    if path.rsplit("/", 1)[0] == own.rsplit("/", 1)[0]:
        return f"it is a copy under another name: its footer says {own}"
    return f"it was copied here: its footer says table {meta.table!r}, partition {meta.partition!r}"


def _own_path(meta: FooterMetadata) -> str:
    """Where a footer says that its file lies.

    Raises:
        InvalidName, InvalidPath: It names what can't be.
    """
    own = data_path(meta.partition, meta.table, meta.epoch, meta.transaction_id, meta.number)
    for _, replaced in meta.replaces:
        check_path(replaced)
    return own


def _out_of_range(meta: FooterMetadata) -> str:
    clocks = (meta.first_clock, meta.last_clock)
    for name, good in (
        ("epoch", 1 <= meta.epoch < MAX_FILE_EPOCH),
        ("base revision", -1 <= meta.base_revision < MAX_REVISION),
        ("incarnation", 1 <= meta.incarnation <= MAX_INCARNATION),
        ("base transaction", len(meta.base_transaction_id) in {0, _ID_BYTES}),
        ("number", meta.number >= 0),
        ("task", -1 <= meta.task < _MAX_VERSION and 0 <= meta.attempt < _MAX_VERSION),
        ("clock", all(-_MAX_CLOCK <= clock < _MAX_CLOCK for clock in clocks)),
        ("application version", 0 <= meta.app_version < _MAX_VERSION),
        ("known application version", -1 <= meta.base_app_version < _MAX_VERSION),
        ("operation", meta.operation in OPERATIONS),
    ):
        if not good:
            return f"its {name} is out of range"
    return ""


def _sort_in_foreign(scan: Scan, path: str, info: ObjectInfo, parsed: ParsedFooter) -> None:
    place = place_of(path)
    if place is None or parsed.unfit:
        where = "its path is not data/<partition>/<table>/<file>"
        reason = f"no lakelog metadata, and {parsed.unfit or where}"
        scan.left_out.append(LeftOut(path, info.size_bytes, "foreign", reason))
        scan.strays[path] = _foreign(path, info, parsed, ("", ""))
        return
    file = _foreign(path, info, parsed, place)
    scan.foreign.append(file)
    scan.schemas[file.table, file.fingerprint] = encode_schema(parsed.schema)


def _foreign(
    path: str, info: ObjectInfo, parsed: ParsedFooter, place: tuple[str, str]
) -> ForeignFile:
    modified_at_us = micros(info.modified_at)
    add = parsed.facts
    add.partition, add.table = place
    add.path = path
    add.first_clock = add.last_clock = modified_at_us or 0
    return ForeignFile(
        path,
        info.size_bytes,
        modified_at_us,
        add.row_count,
        add.SerializeToString(),
        add.table,
        add.schema_fingerprint,
    )
