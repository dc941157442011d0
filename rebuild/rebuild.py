"""Plan a log from the footers of its Parquet files: scan first, plan, write last.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..catalog.format.names import base_folder, check_id, parse_data_file
from ..errors import LogExists, NotFoundError, UsageError
from ..plans import Source, open_source
from .assemble import Assembled, assemble
from .evidence import Evidence, Transaction, group, prove, rule_out
from .notes import notes
from .old_log import padding_after, read_old_log, usable_slots
from .order import Ordered, order
from .plan import RebuildPlan
from .scan import Scan, scan_data
from .values import MAX_EPOCH, KnownSchema, LeftOut, LeftOutKind, OldObject, PromisedName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ..catalog.ambient import Ambient
    from ..catalog.catalog import Catalog
    from ..plans import Progress
    from ..store import ObjectInfo, Store
    from .old_log import OldLog


def plan_rebuild(
    source: Catalog | Store,
    writer: str,
    database: str,
    *,
    replace: bool = False,
    include_foreign: bool = False,
    exclude: Collection[str] = (),
    progress: Progress | None = None,
    ambient: Ambient | None = None,
) -> RebuildPlan:
    """Read the footers of all data files of one writer and database, and plan the log that they
    prove. Nothing is written.

    Args:
        source: The catalog, or its store.
        replace: Also over an existing log: its objects are copied aside first.
        include_foreign: Also take in Parquet files without lakelog metadata, at the end, into the
            table and partition that their path names.
        exclude: Transaction ids (hex) to leave out: of those that the report calls unproven.
        progress: Called with (done, total, what), from this thread.
        ambient: Clock and identities; those of the catalog if not given.
    Raises:
        LogExists: There is a log, and `replace` is not set.
        NotFoundError: There is no data file to rebuild from.
        UsageError: An excluded id that is no unproven transaction's.
        StorageError: The store failed.
    Requests: 2 LIST, 1 or 2 GET a data file; with `replace` 1 GET more.
    """
    place = open_source(source, ambient)
    store, ambient = place.store, place.ambient
    check_id(writer, "writer")
    check_id(database, "database")
    folder = base_folder(writer, database)
    old = read_old_log(store, writer, database)
    if old.objects and not replace:
        raise log_exists(writer, database)
    scan = scan_data(store, writer, database, progress)
    if not scan.objects:
        raise NotFoundError(
            f"There is nothing to rebuild: {store.url} has no data files of {writer}/{database}",
            key=f"{folder}data/",
            hint="Check URL, writer and database",
        )
    transactions, disagreeing = group(scan.own)
    evidence = prove(transactions)
    excluded = _excluded(exclude, transactions, evidence)
    kept = {
        transaction_id: item
        for transaction_id, item in transactions.items()
        if transaction_id not in excluded
    }
    rule_out(kept, evidence)
    ordered = order(kept, evidence)
    assembled = assemble(
        ordered,
        evidence,
        scan.foreign,
        include_foreign=include_foreign,
        foreign_id=ambient.new_id(),
        known_paths={info.key[len(folder) :] for info in scan.objects},
        now_us=ambient.now_us(),
    )
    left_out = [*scan.left_out, *disagreeing, *assembled.left_out]
    left_out += _ruled_out(transactions, evidence, excluded)
    weighed = _Weighed(transactions, evidence, ordered, assembled, left_out)
    return _plan(place, (writer, database), scan, old, weighed)


@dataclass(frozen=True, slots=True)
class _Weighed:
    transactions: dict[bytes, Transaction]
    evidence: Evidence
    ordered: Ordered
    assembled: Assembled
    left_out: list[LeftOut]


def _plan(
    place: Source, names: tuple[str, str], scan: Scan, old: OldLog, weighed: _Weighed
) -> RebuildPlan:
    at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=place.ambient.now_us())
    newest = len(weighed.assembled.transactions) - 1
    padding = padding_after(old, newest) if newest >= 0 else 0
    known = notes(
        weighed.transactions,
        weighed.evidence,
        weighed.ordered,
        weighed.assembled,
        left_out=weighed.left_out,
        old=old,
        padding=padding,
        take_over=newest + padding > old.head and old.names_next,
    )
    return RebuildPlan(
        kind="rebuild",
        url=place.store.url,
        writer=names[0],
        database=names[1],
        made_at=at,
        rebuild_id=place.ambient.new_id().hex()[:16],
        epoch=1 + max(old.epoch, _highest_epoch(scan)),
        transactions=tuple(weighed.assembled.transactions),
        left_out=tuple(sorted(weighed.left_out, key=lambda item: item.path.encode())),
        notes=known,
        replaced=tuple(OldObject(info.key, info.size_bytes) for info in old.objects),
        objects_seen=len(scan.objects),
        bytes_seen=sum(info.size_bytes for info in scan.objects),
        data_digest=data_digest(scan.objects),
        schemas=tuple(KnownSchema(*known, message) for known, message in scan.schemas.items()),
        promised=tuple(
            PromisedName(*item) for item in sorted(usable_slots(old, newest + padding).items())
        ),
        padding=padding,
    )


def log_exists(writer: str, database: str) -> LogExists:
    """The error of a rebuild over a log, without leave to replace it."""
    return LogExists(
        f"{writer}/{database} has a log already",
        key=f"{writer}/{database}",
        hint="If it is beyond repair, rebuild with replace: its objects are copied aside first",
    )


def data_digest(objects: Iterable[ObjectInfo]) -> bytes:
    """A digest of the names and sizes of objects."""
    digest = hashlib.sha256()
    for info in objects:
        digest.update(f"{info.key}\0{info.size_bytes}\n".encode())
    return digest.digest()


def _highest_epoch(scan: Scan) -> int:
    """Of all files, those that can't be read included: their names tell it too."""
    names = (parse_data_file(info.key) for info in scan.objects)
    found = (name.epoch for name in names if name is not None)
    return max((epoch for epoch in found if epoch < MAX_EPOCH), default=0)


def _excluded(
    wanted: Collection[str], transactions: Mapping[bytes, Transaction], evidence: Evidence
) -> set[bytes]:
    found: set[bytes] = set()
    for text in wanted:
        try:
            transaction_id = bytes.fromhex(text)
        except ValueError:
            transaction_id = b""
        if transaction_id not in transactions:
            raise UsageError(
                f"No data file is of transaction {text!r}",
                key=text,
                hint="Exclude ids that the report calls unproven",
            )
        if transaction_id in evidence.proofs:
            raise UsageError(
                f"Transaction {text} was committed: {evidence.proofs[transaction_id]}",
                key=text,
                hint="Only unproven transactions can be excluded; remove its files afterwards",
            )
        found.add(transaction_id)
    return found


def _ruled_out(
    transactions: Mapping[bytes, Transaction], evidence: Evidence, excluded: Collection[bytes]
) -> list[LeftOut]:
    verdicts: dict[bytes, tuple[LeftOutKind, str]] = {
        **{
            transaction_id: ("conflicting", reason)
            for transaction_id, reason in evidence.conflicts.items()
        },
        **{
            transaction_id: ("disproved", reason)
            for transaction_id, reason in evidence.disproofs.items()
        },
        **{transaction_id: ("excluded", "left out on request") for transaction_id in excluded},
    }
    return [
        LeftOut(file.path, file.size_bytes, *verdicts[transaction_id], transaction_id.hex())
        for transaction_id, item in transactions.items()
        if transaction_id in verdicts
        for file in item.files
    ]
