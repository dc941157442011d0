"""What an old log says, as far as it can be read, against what footers say. What it committed is
proven, and its live files are live after. If it is whole it decides: what it doesn't hold is left
out. Pure, but for the pieces of the state.

Source: docs/format.md, section 8: what a log says of a file counts, whatever its footer says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..catalog.data.partition_values import tell_again
from ..catalog.format.columns import column
from ..catalog.format.locations import is_in_place
from ..catalog.format.schema import EncodedSchema
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .known_log import ROW, same_log
from .later import ReplacedLater, added_later
from .values import RebuiltFile, derived_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from .evidence import Evidence, FoundTransaction, TransactionId
    from .known_log import KnownLog
    from .moments import Moments
    from .scanned import Scan
    from .values import FileName, SchemaName


LIVE_IN_LOG: Final = "its files are live in the old log"
# Of a last commit that is lost nothing else tells: it looks like one that was never made.
_NOT_HELD: Final = (
    "the old log, which can be read, doesn't hold it: it was never committed, unless the log has "
    "lost its end unseen"
)


def prove_by_log(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence, known: KnownLog
) -> None:
    """Add to the evidence what the old log says of each transaction."""
    evidence.forgotten = _forgotten(transactions, known)
    if known.splits and known.state.log is not None:
        log = known.state.log
        evidence.split_at(log.log_id, log.incarnation, known.splits[0])
    for transaction_id, item in transactions.items():
        place = known.committed.get(transaction_id)
        if place is not None:
            evidence.revisions[transaction_id], evidence.times_us[transaction_id] = place
            evidence.members[transaction_id] = known.members[transaction_id]
            evidence.proofs[transaction_id] = "it is in the old log"
            _count_as_before(item, evidence, known)
        elif known.is_whole:
            _judge(item, evidence, known)


def _count_as_before(item: FoundTransaction, evidence: Evidence, known: KnownLog) -> None:
    """The number of a transaction in the life before, as the rebuild that began the log knew it."""
    log, number = known.state.log, known.numbers.get(item.transaction_id)
    if log is None or (item.log_id, item.incarnation + 1) != (log.log_id, log.incarnation):
        return
    if number is not None:
        evidence.counted.setdefault(item.transaction_id, number)


def _judge(item: FoundTransaction, evidence: Evidence, known: KnownLog) -> None:
    """What becomes of a transaction that a whole log's history doesn't hold."""
    transaction_id = item.transaction_id
    if same_log(item, known.state):
        evidence.before_us[transaction_id] = known.first_us
    if _is_covered(item, known):
        evidence.proofs.pop(transaction_id, None)
        evidence.undecided[transaction_id] = _NOT_HELD
    elif any((file.table, file.path) in known.live for file in item.files):
        evidence.proofs[transaction_id] = LIVE_IN_LOG
    elif transaction_id not in evidence.proofs:
        evidence.undecided[transaction_id] = (
            "none of its files is live in the old log, whose history begins at revision "
            f"{known.first}"
        )


def _forgotten(
    transactions: Mapping[TransactionId, FoundTransaction], known: KnownLog
) -> set[TransactionId]:
    """Transactions whose application version is above that of the old log, which knows of them: a
    lower one that came after must not be taken for a repeated one."""
    if not known.has_applications:
        return set()
    versions = known.applications.versions()
    return {
        transaction_id
        for transaction_id, item in transactions.items()
        if (known.is_whole or transaction_id in known.committed)
        and item.app_id
        and item.app_version > versions.get(item.app_id, -1)
    }


def _is_covered(item: FoundTransaction, known: KnownLog) -> bool:
    """Whether a transaction would be in the history, had it been committed."""
    same = same_log(item, known.state)
    return known.first == 0 or (same and item.base_revision + 1 >= known.first)


def close(
    moments: Moments, known: KnownLog, scan: Scan, rebuild_id: bytes
) -> tuple[list[str], list[str]]:
    """Make the live files those of the old log, by one transaction more where footers lead to
    others. Of a log whose end is lost that holds for what it tells of: later transactions stand.

    Args:
        moments: Of the rebuild; the transaction goes to the end of its result.
        scan: The schemas of files that are added are put in.
    Returns:
        Paths that are live in the old log and can't be taken over: they are damaged, or gone; and
        what is in doubt, in words.
    """
    result, doubts = moments.result, list[str]()
    extra, wanted = result.live - known.live, set(known.live - result.live)
    if not known.is_whole:
        told = {
            (file.table, file.path)
            for item in result.transactions
            if bytes.fromhex(item.transaction_id) in known.committed
            for file in item.files
        }
        extra = (extra & told) | (known.removed.keys() & result.live)
        extra = {name for name in extra if not added_later(name, moments, known)}
        later = ReplacedLater(moments, wanted, known)
        wanted -= later.names
        doubts = later.doubts()
    added, lost = _files_of(known, scan, wanted)
    if extra or added:
        result.append(
            transaction_id=derived_id(rebuild_id, "closing"),
            proof="proven",
            operation="maintenance",
            not_before_us=known.latest_us,
            files=tuple(added),
            why="what the old log says is live, where footers tell less or more",
            removed=tuple(sorted(extra)),
        )
    return lost, doubts


def _files_of(
    known: KnownLog,
    scan: Scan,
    wanted: Collection[FileName],
) -> tuple[list[RebuiltFile], list[str]]:
    if not wanted:
        return [], []
    scanned = scanned_files(scan)
    added: list[RebuiltFile] = []
    for table, row in facts_of(known, wanted):
        path = row["path"]
        if path not in scanned:
            continue
        add = wire.Add.FromString(scanned[path])
        if not is_in_place(path) and (table, row["schema_fingerprint"]) not in known.schemas:
            row["schema_fingerprint"] = add.schema_fingerprint  # that of its own footer
        if keep_schema(known, scan, (table, row["schema_fingerprint"])):
            schema = scan.schemas[table, row["schema_fingerprint"]]
            added.append(as_in_log(add, table, row, schema))
    done = {file.path for file in added}
    return added, sorted(path for _, path in wanted if path not in done)


def scanned_files(scan: Scan) -> dict[str, bytes]:
    """The `Add` of each file that can be used, serialized, by path."""
    files = (*scan.own, *scan.foreign, *scan.strays.values())
    return {file.path: file.add for file in files} | scan.elsewhere


def facts_of(known: KnownLog, wanted: Collection[FileName]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the old log says of files, by table and path."""
    for table in sorted({table for table, _ in wanted}):
        paths = sorted(path for name, path in wanted if name == table)
        facts = {path: known.added[table, path] for path in paths if (table, path) in known.added}
        if known.state.revision >= 0 and len(facts) < len(paths):
            rows = known.state.files.table(table, whole=True)
            rows = rows.filter(pc.is_in(rows.column("path"), column(paths, pa.string())))
            facts = {row["path"]: row for row in rows.to_pylist()} | facts
        for path in sorted(facts):
            yield table, facts[path]


def as_in_log(
    add: wire.Add, table: str, row: Mapping[str, object], schema: EncodedSchema
) -> RebuiltFile:
    """A scanned file under the table, partition, clocks and schema that the log gives it."""
    footer = add.schema_fingerprint
    add.table = table
    for name in ROW:
        setattr(add, name, row[name])
    if footer != add.schema_fingerprint and not tell_again(add, schema, footer):
        del add.row_groups[:]  # positions of columns may mean others
    fingerprint, body = add.schema_fingerprint, add.SerializeToString()
    return RebuiltFile(add.path, table, add.size_bytes, add.row_count, fingerprint, body)


def keep_schema(
    known: KnownLog | None,
    scan: Scan,
    name: SchemaName,
) -> bool:
    """Put the schema of a file in; whether it is known."""
    entry = known.schemas.get(name) if known is not None else None
    if entry is not None:
        scan.schemas[name] = EncodedSchema(name[1], entry.message)
        return True
    found = next((item for (_, own), item in scan.schemas.items() if own == name[1]), None)
    if found is not None:
        scan.schemas.setdefault(name, found)
    return found is not None
