"""Reads what lies below `data/`: data files with their footers, and deletion vectors.

A file counts as lakelog's own only where its name and place are those that its footer says: a copy
under another name must not become data of a log. Files that the base has live are not opened: the
log says all that there is to know of them.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from ..catalog.data.footers.read import read_footer
from ..catalog.format.deletes import decode_deletes
from ..catalog.format.footer import FooterMetadata
from ..catalog.format.names import (
    MAX_INCARNATION,
    base_folder,
    check_path,
    data_path,
    deletes_path,
    parse_data_file,
    parse_deletes_file,
)
from ..catalog.format.objects import OPERATIONS
from ..catalog.format.path_column import fold
from ..catalog.format.schema import encode_schema
from ..catalog.format.statistics import tell_floats
from ..errors import CorruptError, InvalidName, InvalidParquet, InvalidPath, ObjectNotFound

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Collection, Iterable

    from ..catalog.data.footers.parse import ParsedFooter
    from ..catalog.format.schema import EncodedSchema
    from ..catalog.parallel import Engine
    from ..catalog.wire import lakelog_transaction_pb2 as wire
    from ..plans import Progress
    from ..store import ObjectInfo, Store, WideStore

FileName = tuple[str, str]  # table and path
LeftOutKind = Literal["damaged", "stray", "uncommitted", "removed", "excluded", "gone"]
MAX_FILE_EPOCH: Final = 1 << 61  # room is left for epochs above it
_MAX_REVISION: Final = 100_000_000_000  # the same for revisions
_FAR_ABOVE: Final = 100_000  # no footer is believed that names a base so far above the log
_MAX_CLOCK: Final = 1 << 63
_MAX_VERSION: Final = 1 << 62
_NO_SCHEMA: Final = pa.schema([])


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file below `data/` that the rebuilt log won't name.

    Attributes:
        path: Relative to `<writer>/<database>/`.
        size_bytes, row_count: Of the object; no rows where they can't be read.
        kind: `damaged`; `stray` (not lakelog's, or of another log); `uncommitted`; `removed` (by
            a later commit); `excluded`; `gone` (its table has it, and the store doesn't).
        reason: In words.
        transaction_id: Hex, where known.
    """

    path: str
    size_bytes: int
    row_count: int
    kind: LeftOutKind
    reason: str
    transaction_id: str = ""


@dataclass(frozen=True, slots=True)
class OwnFile(FooterMetadata):
    """A data file or a deletion vector's object, with what it says of its transaction; without its
    schema, which `Scan` has once.

    Attributes:
        path: Relative to `<writer>/<database>/`.
        size_bytes: Of the object.
        add: The `Add` of a data file, serialized; empty for deletion vectors.
        vectors: The `RowDeletes` of a deletion vector's object, serialized; none for a data file.
    """

    path: str = ""
    size_bytes: int = 0
    row_count: int = 0
    fingerprint: bytes = b""
    add: bytes = field(default=b"", repr=False)
    vectors: tuple[bytes, ...] = field(default=(), repr=False)

    def left_out(self, kind: LeftOutKind, reason: str) -> LeftOut:
        """Returns it as one that the rebuilt log won't name."""
        own_id = self.transaction_id.hex()
        return LeftOut(self.path, self.size_bytes, self.row_count, kind, reason, own_id)


@dataclass(slots=True)
class Scan:
    """All that lies below `data/` of one writer and database.

    Attributes:
        digest: Of the names and sizes of all objects, as the store shows them.
        sizes: Of all objects, by path.
        newest_us: When the newest was written, by the store's time in µs; 0 if it doesn't say.
        own: Lakelog's files, without those of the base.
        left_out: The others, each with the reason.
        schemas: By table and fingerprint.
    """

    digest: bytes = b""
    sizes: dict[str, int] = field(default_factory=dict)
    newest_us: int = 0
    own: list[OwnFile] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    schemas: dict[tuple[str, bytes], EncodedSchema] = field(default_factory=dict)


def list_data(store: Store, writer: str, database: str) -> list[ObjectInfo]:
    """Lists all objects below `data/`, by key.

    Requests: 1 LIST per 1,000 objects on S3.
    """
    return list(store.list(base_folder(writer, database) + "data/"))


def data_digest(listed: Iterable[ObjectInfo]) -> bytes:
    """Returns a digest of the names and sizes of objects, as the store shows them."""
    digest = hashlib.sha256()
    for info in listed:
        digest.update(f"{info.key}\0{info.size_bytes}\n".encode())
    return digest.digest()


def is_there(store: Store, key: str) -> bool:
    """Asks a store for one key: its listings may show it in another spelling.

    Requests: 1 HEAD.
    """
    try:
        store.head(key)
    except ObjectNotFound:
        return False
    return True


def scan_data(
    store: WideStore,
    writer: str,
    database: str,
    top: int,
    *,
    engine: Engine,
    live: Collection[str],
    progress: Progress | None = None,
) -> Scan:
    """Lists `data/` and reads the footer of each file that the base has not live.

    Args:
        top: The highest revision of the log; -1 if nothing of it is there.
        engine: Who reads them.
        live: Paths of live files of the base.
    Raises:
        StorageError: The store failed.
        UnsupportedFeature: A later version wrote a deletion vector.
    Requests: 1 LIST per 1,000 objects on S3, 1 or 2 GET a file, 1 a deletion vector's object; 1
        HEAD for each that the store shows in another spelling.
    """
    folder = base_folder(writer, database)
    listed = list_data(store, writer, database)
    scan = Scan(data_digest(listed), {info.key[len(folder) :]: info.size_bytes for info in listed})
    scan.newest_us = max((_micros(info.modified_at) for info in listed), default=0)
    missing = [path for path in live if path.startswith("data/") and path not in scan.sizes]
    shown = {fold(path): path for path in scan.sizes if path not in live} if missing else {}
    adopt = partial(_adopt, store, folder, scan)
    known = {*live, *(other for path in missing if (other := adopt(path, shown.get(fold(path)))))}
    wanted = [info for info in listed if info.key[len(folder) :] not in known]
    reading = engine.each(_reader, (store,), wanted, len(wanted))
    with contextlib.closing(reading) as read:
        for done, item in enumerate(read, 1):
            path = item.info.key[len(folder) :]
            with contextlib.suppress(InvalidName, InvalidPath):
                own = path if item.meta is None else _own_path(item.meta, path)
                path = own if fold(own) == fold(path) and adopt(own, path) else path
            _sort_in(scan, path, item, _MAX_REVISION if top < 0 else top + _FAR_ABOVE)
            if progress is not None:
                progress(done, len(wanted), "footers read")
    return scan


def _adopt(store: Store, folder: str, scan: Scan, path: str, other: str | None) -> str:
    """Returns `other`, if the store has a path and shows it in this other spelling; the object then
    counts under the path.

    Requests: none, or 1 HEAD.
    """
    if not other or path in scan.sizes or not is_there(store, folder + path):
        return ""
    scan.sizes[path] = scan.sizes.pop(other)
    return other


@dataclass(frozen=True, slots=True)
class _Read:
    """What reading one object gave."""

    info: ObjectInfo
    meta: FooterMetadata | None = None
    parsed: ParsedFooter | None = None
    vectors: tuple[wire.RowDeletes, ...] = ()
    problem: str = ""


def _reader(store: Store) -> Callable[[ObjectInfo], _Read]:
    return partial(_read, store)


def _read(store: Store, info: ObjectInfo) -> _Read:
    name = info.key.rsplit("/", 1)[-1]
    try:
        if parse_deletes_file(name) is not None:
            meta, message = decode_deletes(store.get(info.key), info.key)
            return _Read(info, meta, None, tuple(message.files))
        if parse_data_file(name) is None and not name.endswith(".parquet"):
            return _Read(info, problem="it is no Parquet file by its name")
        parsed = read_footer(store, info.key, info.size_bytes)
    except InvalidParquet as error:
        return _Read(info, problem=str(error.__cause__ or error.message))
    except ObjectNotFound:
        return _Read(info, problem="it was there when the files were listed and is gone now")
    except CorruptError as error:
        return _Read(info, problem=error.message)
    if parsed.meta is None:
        return _Read(info, problem=parsed.problem or "lakelog did not write it")
    return _Read(info, parsed.meta, parsed, (), parsed.problem)


def _sort_in(scan: Scan, path: str, item: _Read, highest: int) -> None:
    """Sorts what was read of a file in.

    Args:
        highest: Of all revisions that one may have been begun on.
    """
    meta = item.meta
    problem = item.problem if meta is None else item.problem or _misplaced(path, meta, highest)
    if problem or meta is None:
        name = parse_data_file(path) or parse_deletes_file(path)
        own_id = name.transaction_id.hex() if name is not None else ""
        kind: LeftOutKind = "stray" if name is None else "damaged"
        scan.left_out.append(LeftOut(path, item.info.size_bytes, 0, kind, problem, own_id))
        return
    scan.own.append(_own(path, item, meta))
    if item.parsed is not None:
        fingerprint = item.parsed.facts.schema_fingerprint
        scan.schemas[meta.table, fingerprint] = encode_schema(item.parsed.schema)


def keep_own(scan: Scan, writer: str, database: str, log_id: bytes) -> bytes:
    """Leaves out the files of other logs; returns the id of the log.

    A file is of the log by its id, for a log may be renamed, or by its names: its log may have lost
    the race to begin, or may have been lost before this one was begun.

    Args:
        log_id: As objects of the log say it; empty if none can be read: then the newest file of
            these names says it, or the newest of all.
    """
    named = [one for one in scan.own if (one.writer, one.database) == (writer, database)]
    newest = max(named or scan.own, key=_age, default=None)
    if not log_id and newest is not None:
        log_id = newest.log_id
    names = {(one.writer, one.database) for one in scan.own if one.log_id == log_id}
    names.add((writer, database))
    kept = []
    for one in scan.own:
        if one.log_id == log_id or (one.writer, one.database) in names:
            kept.append(one)
            continue
        why = f"it is of another log: its footer says {one.writer}/{one.database}"
        scan.left_out.append(one.left_out("stray", why))
    scan.own = kept
    return log_id


def _age(one: OwnFile) -> tuple[int, bool, int, int, int, bytes]:
    begun = one.base_revision >= 0
    return one.incarnation, begun, one.epoch, one.base_revision, one.last_clock, one.transaction_id


def _own(path: str, item: _Read, meta: FooterMetadata) -> OwnFile:
    said = {one.name: getattr(meta, one.name) for one in fields(FooterMetadata)}
    said |= {"schema": _NO_SCHEMA, "path": path, "size_bytes": item.info.size_bytes}
    for one in item.vectors:
        one.object = path
    if item.parsed is None:
        return OwnFile(**said, vectors=tuple(one.SerializeToString() for one in item.vectors))
    facts = item.parsed.facts
    facts.path, facts.table, facts.partition = path, meta.table, meta.partition
    facts.first_clock, facts.last_clock = meta.first_clock, meta.last_clock
    tell_floats(facts, meta.floats)
    add, fingerprint = facts.SerializeToString(), facts.schema_fingerprint
    return OwnFile(**said, row_count=facts.row_count, fingerprint=fingerprint, add=add)


def _misplaced(path: str, meta: FooterMetadata, highest: int) -> str:
    """Returns why a file isn't what its footer says, or nothing that a log may hold; else ""."""
    problem = _out_of_range(meta, highest)
    if problem:
        return f"its lakelog metadata can't be true: {problem}"
    try:
        own = _own_path(meta, path)
        for _, replaced in meta.replaces:
            check_path(replaced)
    except (InvalidName, InvalidPath) as error:
        return f"its lakelog metadata can't be true: {error.message}"
    return "" if path == own else f"it is a copy: its footer says {own}"


def _own_path(meta: FooterMetadata, path: str) -> str:
    """Returns where a file says that it lies.

    Raises:
        InvalidName, InvalidPath: It names what can't be.
    """
    if parse_deletes_file(path) is not None:
        return deletes_path(meta.table, meta.epoch, meta.transaction_id, meta.number)
    return data_path(meta.partition, meta.table, meta.epoch, meta.transaction_id, meta.number)


def _out_of_range(meta: FooterMetadata, highest: int) -> str:
    clocks = (meta.first_clock, meta.last_clock)
    for name, good in (
        ("epoch", 1 <= meta.epoch < MAX_FILE_EPOCH),
        ("base revision", -1 <= meta.base_revision <= highest),
        ("incarnation", 1 <= meta.incarnation <= MAX_INCARNATION),
        ("base transaction", len(meta.base_transaction_id) in {0, 16}),
        ("number", meta.number >= 0),
        ("task", -1 <= meta.task < _MAX_VERSION and 0 <= meta.attempt < _MAX_VERSION),
        ("clock", all(-_MAX_CLOCK <= clock < _MAX_CLOCK for clock in clocks)),
        ("application version", 0 <= meta.app_version < _MAX_VERSION),
        ("operation", meta.operation in OPERATIONS),
    ):
        if not good:
            return f"its {name} is out of range"
    return ""


def _micros(at: dt.datetime | None) -> int:
    return 0 if at is None else int(at.timestamp() * 1_000_000)
