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
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from ..catalog.data.footers.read import read_footer
from ..catalog.format.deletes import decode_deletes
from ..catalog.format.footer import MAX_BASE_REVISION, FooterMetadata, out_of_range
from ..catalog.format.names import (
    base_folder,
    check_path,
    data_path,
    deletes_path,
    parse_deletes_file,
    parse_own_file,
)
from ..catalog.format.objects import OPERATIONS
from ..catalog.format.path_column import fold
from ..catalog.format.schema import encode_schema
from ..catalog.format.statistics import tell_floats
from ..errors import CorruptError, InvalidName, InvalidParquet, InvalidPath, ObjectNotFound

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection, Iterable

    from ..catalog.format.schema import EncodedSchema
    from ..catalog.parallel import Engine
    from ..catalog.wire import lakelog_transaction_pb2 as wire
    from ..plans import Progress
    from ..store import ObjectInfo, Store, WideStore

FileName = tuple[str, str]  # table and path
LeftOutKind = Literal["damaged", "stray", "uncommitted", "removed", "excluded", "gone"]
_FAR_ABOVE: Final = 100_000  # no footer is believed that names a base so far above the log
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
    Requests: 1 LIST per 1,000 objects on S3, 1 or 2 GET a file, 1 a deletion vector's object; 1
        HEAD for each that the store shows in another spelling.
    """
    folder = base_folder(writer, database)
    listed = list_data(store, writer, database)
    scan = Scan(data_digest(listed), {info.key[len(folder) :]: info.size_bytes for info in listed})
    scan.newest_us = max((_micros(info.modified_at) for info in listed), default=0)
    wanted = [info for info in listed if info.key[len(folder) :] not in live]
    highest = MAX_BASE_REVISION if top < 0 else top + _FAR_ABOVE
    prepare = partial(partial, _look, folder, highest)  # given the store, it gives what looks
    with contextlib.closing(engine.each(prepare, (store,), wanted, len(wanted))) as found:
        for done, (info, (file, schema)) in enumerate(zip(wanted, found, strict=True), 1):
            scan.sizes[file.path] = scan.sizes.pop(info.key[len(folder) :])
            if isinstance(file, LeftOut):
                scan.left_out.append(file)
            elif file.path not in live:
                scan.own.append(file)
            if schema is not None and isinstance(file, OwnFile):
                scan.schemas[file.table, file.fingerprint] = schema
            if progress is not None:
                progress(done, len(wanted), "footers read")
    return scan


# --- One file -------------------------------------------------------------------------------------

_Look = tuple[OwnFile | LeftOut, "EncodedSchema | None"]


def _look(folder: str, highest: int, store: Store, info: ObjectInfo) -> _Look:
    """Reads one file.

    Args:
        highest: Of all revisions that a transaction may have been begun on.
    """
    path = info.key[len(folder) :]
    name = parse_own_file(path)
    try:
        if name is None and not path.endswith(".parquet"):
            raise CorruptError("it is no Parquet file by its name")
        return _own(store, folder, highest, info)
    except InvalidParquet as error:
        problem = str(error.__cause__ or error.message)
    except ObjectNotFound:
        problem = "it was there when the files were listed and is gone now"
    except CorruptError as error:
        problem = error.message
    except (InvalidName, InvalidPath) as error:
        problem = f"its lakelog metadata can't be true: {error.message}"
    kind, own_id = ("stray", "") if name is None else ("damaged", name.transaction_id.hex())
    return LeftOut(path, info.size_bytes, 0, kind, problem, own_id), None  # type: ignore[arg-type]


def _own(store: Store, folder: str, highest: int, info: ObjectInfo) -> tuple[OwnFile, Any]:
    """Reads a file of lakelog's own: one that lies where its footer says.

    Raises:
        InvalidParquet, CorruptError: It is none, or is damaged.
        InvalidName, InvalidPath: It names what can't be.
    """
    path, parsed = info.key[len(folder) :], None
    vectors: list[wire.RowDeletes] = []
    is_vectors = parse_deletes_file(path) is not None
    if is_vectors:
        meta, message = decode_deletes(store.get(info.key), info.key)
        vectors = list(message.files)
    else:
        parsed = read_footer(store, info.key, info.size_bytes)
        if parsed.meta is None or parsed.problem:
            raise CorruptError(parsed.problem or "lakelog did not write it")
        meta = parsed.meta
    wrong = out_of_range(meta) or ("" if meta.base_revision <= highest else "base revision")
    wrong = wrong or ("" if meta.operation in OPERATIONS else "operation")
    if wrong:
        raise CorruptError(f"its lakelog metadata can't be true: its {wrong} is out of range")
    names = meta.table, meta.epoch, meta.transaction_id, meta.number
    own = deletes_path(*names) if is_vectors else data_path(meta.partition, *names)
    for _, replaced in meta.replaces:
        check_path(replaced)
    # A store may show a name in another spelling than that which it was written under.
    if own != path and not (fold(own) == fold(path) and is_there(store, folder + own)):
        raise CorruptError(f"it is a copy: its footer says {own}")
    said = {one.name: getattr(meta, one.name) for one in fields(FooterMetadata)}
    said |= {"schema": _NO_SCHEMA, "path": own, "size_bytes": info.size_bytes}
    for one in vectors:
        one.object = own
    if parsed is None:
        return OwnFile(**said, vectors=tuple(one.SerializeToString() for one in vectors)), None
    facts = parsed.facts
    facts.path, facts.table, facts.partition = own, meta.table, meta.partition
    facts.first_clock, facts.last_clock = meta.first_clock, meta.last_clock
    tell_floats(facts, meta.floats)
    said |= {"row_count": facts.row_count, "fingerprint": facts.schema_fingerprint}
    return OwnFile(**said, add=facts.SerializeToString()), encode_schema(parsed.schema)


def _micros(at: dt.datetime | None) -> int:
    return 0 if at is None else int(at.timestamp() * 1_000_000)


# --- Whose files they are -------------------------------------------------------------------------


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
