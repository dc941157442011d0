"""What an old log that can be read says. What it committed is proven, and its live files are live
after. If no footer tells of more, it is whole and decides: what it doesn't hold was never
committed. Pure, but for the pieces of the state.

Source: docs/format.md, section 8: what a log says of a file counts, whatever its footer says.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ..catalog.format.columns import column
from ..catalog.format.schema import EncodedSchema
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..errors import CorruptError
from .values import RebuiltFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ..catalog.log.state import State
    from .assemble import Assembled
    from .evidence import Evidence, Transaction, TransactionId
    from .scanned import OwnFile, Scan
    from .values import FileName


@dataclass(frozen=True, slots=True)
class KnownLog:
    """What a log says that can be read.

    Attributes:
        is_whole: Whether no footer tells of a later revision: else its end is lost.
        state: At its head.
        committed: By transaction id, its revision and commit time (µs).
        first: The lowest revision that its history tells of.
        live: Tables and paths of its live files.
    """

    is_whole: bool
    state: State
    committed: dict[TransactionId, tuple[int, int]]
    first: int
    live: frozenset[FileName]


def known_log(state: State | None, own: Iterable[OwnFile]) -> KnownLog | None:
    """All that a state says; None if a part of it can't be read.

    Args:
        own: All files with lakelog metadata.
    Requests: 1 GET a piece of the checkpoint.
    """
    try:
        return None if state is None else read_whole(state, own)
    except CorruptError:
        return None


def read_whole(state: State, own: Iterable[OwnFile]) -> KnownLog:
    """The same.

    Raises:
        CorruptError: A part of it can't be read.
    """
    history = state.history.table()
    times = history.column("committed_at").cast(pa.int64()).to_pylist()
    revisions = history.column("revision").to_pylist()
    ids = history.column("transaction_ids").to_pylist()
    live = set()
    for table in state.files.tables():
        rows = state.files.table(table)
        live |= {(table, path) for path in rows.column("path").to_pylist()}
    for table in state.files.broken:
        state.files.check(table)
    for _, error in state.files.broken_ranges:
        raise error
    assert state.schemas is not None
    committed = {
        transaction_id: (revision, time)
        for revision, time, members in zip(revisions, times, ids, strict=True)
        for transaction_id in members
    }
    is_whole = not any(
        _same_log(file, state) and file.base_revision > state.revision for file in own
    )
    return KnownLog(is_whole, state, committed, min(revisions), frozenset(live))


def _same_log(item: OwnFile | Transaction, state: State) -> bool:
    log = state.log
    return log is not None and (item.log_id, item.incarnation) == (log.log_id, log.incarnation)


def prove_by_log(
    transactions: Mapping[TransactionId, Transaction], evidence: Evidence, known: KnownLog
) -> None:
    """Add to the evidence what the old log says of each transaction."""
    for transaction_id, item in transactions.items():
        place = known.committed.get(transaction_id)
        if place is not None:
            evidence.revisions[transaction_id], evidence.times_us[transaction_id] = place
            evidence.proofs[transaction_id] = "it is in the old log"
        elif not known.is_whole:
            continue
        elif _is_covered(item, known):
            evidence.proofs.pop(transaction_id, None)
            evidence.disproofs[transaction_id] = "the old log, which can be read, doesn't hold it"
        elif any((file.table, file.path) in known.live for file in item.files):
            evidence.proofs[transaction_id] = "its files are live in the old log"
        elif transaction_id not in evidence.proofs:
            evidence.disproofs[transaction_id] = (
                "none of its files is live in the old log, whose history begins at revision "
                f"{known.first}"
            )


def _is_covered(item: Transaction, known: KnownLog) -> bool:
    """Whether a transaction would be in the history, had it been committed."""
    same = _same_log(item, known.state)
    return known.first == 0 or (same and item.base_revision + 1 >= known.first)


def close(
    result: Assembled,
    known: KnownLog,
    scan: Scan,
    schemas: dict[tuple[str, bytes], EncodedSchema],
    rebuild_id: bytes,
) -> list[str]:
    """Make the live files those of the old log, by one transaction more where footers lead to
    others. Of a log whose end is lost that holds for what it tells of: later transactions stand.

    Args:
        schemas: Those of the files that it adds are put in.
    Returns:
        Paths that are live in the old log and can't be taken over: they are damaged, or gone.
    """
    extra, wanted = result.live - known.live, set(known.live - result.live)
    if not known.is_whole:
        told = {
            (file.table, file.path)
            for item in result.transactions
            if bytes.fromhex(item.transaction_id) in known.committed
            for file in item.files
        }
        extra, wanted = extra & told, {name for name in wanted if name[1] not in result.dead}
    added, lost = _files_of(known, scan, wanted, schemas)
    if extra or added:
        result.append(
            transaction_id=derived_id(rebuild_id, "closing"),
            proof="proven",
            operation="maintenance",
            not_before_us=known.state.committed_at_us,
            files=tuple(added),
            why="what the old log says is live, where footers tell less or more",
            removed=tuple(sorted(extra)),
        )
    return lost


def derived_id(rebuild_id: bytes, what: str) -> bytes:
    """The id of a transaction that a rebuild adds: the same again if it is run again."""
    return hashlib.sha256(b"lakelog rebuild " + what.encode() + rebuild_id).digest()[:16]


def _files_of(
    known: KnownLog,
    scan: Scan,
    wanted: Collection[FileName],
    schemas: dict[tuple[str, bytes], EncodedSchema],
) -> tuple[list[RebuiltFile], list[str]]:
    if not wanted:
        return [], []
    scanned = {file.path: file.add for file in scan.own}
    scanned |= {file.path: file.add for file in (*scan.foreign, *scan.strays.values())}
    added: list[RebuiltFile] = []
    for table in sorted({table for table, _ in wanted}):
        paths = sorted(path for name, path in wanted if name == table)
        rows = known.state.files.table(table, whole=True)
        rows = rows.filter(pc.is_in(rows.column("path"), column(paths, pa.string())))
        for row in rows.sort_by("path").to_pylist():
            if row["path"] in scanned:
                add = wire.Add.FromString(scanned[row["path"]])
                added.append(_as_in_log(add, table, row))
                _keep_schema(known, table, row["schema_fingerprint"], schemas)
    done = {file.path for file in added}
    return added, sorted(path for _, path in wanted if path not in done)


def _as_in_log(add: wire.Add, table: str, row: Mapping[str, object]) -> RebuiltFile:
    """A scanned file under the table, partition, clocks and schema that the log gives it."""
    if add.schema_fingerprint != row["schema_fingerprint"]:
        del add.row_groups[:]  # positions of columns may mean others
    add.table = table
    for name in ("partition", "first_clock", "last_clock", "schema_fingerprint"):
        setattr(add, name, row[name])
    fingerprint, body = add.schema_fingerprint, add.SerializeToString()
    return RebuiltFile(add.path, table, add.size_bytes, add.row_count, fingerprint, body)


def _keep_schema(
    known: KnownLog,
    table: str,
    fingerprint: bytes,
    schemas: dict[tuple[str, bytes], EncodedSchema],
) -> None:
    entry = known.state.schemas.entries[table, fingerprint]
    schemas[table, fingerprint] = EncodedSchema(fingerprint, entry.message, entry.generations)
