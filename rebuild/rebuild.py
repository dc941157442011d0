"""Plan a log from the footers of its Parquet files, and from what is left of the old log: scan
first, plan, write last.

Source: docs/format.md, sections 8 and 10.6.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..catalog.format.frame import LogIdentity
from ..catalog.format.locations import is_in_place, path_at
from ..catalog.format.names import (
    MAX_INCARNATION,
    base_folder,
    check_id,
    parse_own_file,
)
from ..catalog.format.segments import MAX_TIME_US
from ..catalog.parallel import AT_ONCE, Embedded
from ..catalog.read.log_reader import LogReader
from ..errors import NotFoundError, UsageError
from ..plans import Source, open_source, refuse_refs
from .again import Again
from .assemble import SKEW_US, Assembled, assemble, doubted, take_foreign
from .attempts import one_attempt_each
from .begun import as_begun
from .by_log import tell_by_log
from .carried import carry_over
from .elsewhere import locations_of_all, read_elsewhere
from .evidence import Evidence, FoundTransaction, group, prove
from .gaps import place_in_gaps
from .known_log import KnownLog, known_log, live_paths, read_whole
from .lost_bitmaps import lost_bitmaps
from .moments import Moments
from .notes import back_note, notes
from .old_log import OldLog, last_state, read_old_log
from .old_state import close, prove_by_log, scanned_files
from .order import Ordered, order
from .place_deletes import place_deletes
from .plan import RebuildPlan
from .remains import known_remains
from .renamed import claim_renamed, renamed_note
from .replays import rule_out_replays
from .rivals import rule_out
from .scan import scan_data
from .seal_names import plan_seal
from .values import MAX_FILE_EPOCH, KnownSchema, LeftOut, LeftOutKind, derived_id

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..catalog.ambient import Ambient
    from ..catalog.catalog import Catalog
    from ..catalog.format.schema import EncodedSchema
    from ..catalog.parallel import Engine
    from ..plans import Progress
    from ..store import Store
    from .scanned import Scan


def plan_rebuild(
    source: Catalog | Store,
    writer: str,
    database: str,
    *,
    include_foreign: bool = False,
    exclude: Collection[str] = (),
    back_to: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    ambient: Ambient | None = None,
) -> RebuildPlan:
    """Read the footers of all data files of one writer and database, and plan the log that they
    and the old log prove, as its next incarnation. Nothing is written.

    Args:
        source: The catalog, or its store.
        include_foreign: Also take in Parquet files without lakelog metadata, at the end, into the
            table and partition that their path names.
        exclude: Transaction ids (hex) to leave out: of those that the report calls unproven.
        back_to: An incarnation that is there still: what it said at its end counts, and no later
            commit does. The way back after a rebuild that wasn't wanted.
        engine: Who reads the footers; None: threads of this process. The plan is the same.
        progress: Called with (done, total, what), from this thread.
        ambient: Clock and identities; those of the catalog if not given.
    Raises:
        ForeignLog: The log is that of another writer or database.
        NotFoundError: There is no data file to rebuild from, or no such incarnation.
        CorruptObject: The incarnation to go back to can't be read whole.
        UsageError: An excluded id that is no unproven transaction's, an incarnation that can't be,
            or the last one is in use.
        UnsupportedFeature: A later version wrote the log, or the catalog has refs.
        StorageError: The store failed.
    Requests: 1 HEAD, 3 LIST, 1 or 2 GET a data file, those that lie elsewhere included; as reading
        the newest state of this one log.
    """
    place = open_source(source, ambient)
    store, ambient = place.store, place.ambient
    check_id(writer, "writer")
    check_id(database, "database")
    if back_to is not None:
        _check_incarnation(back_to)
    refuse_refs(store)
    old = read_old_log(store, writer, database, ambient)
    engine = engine or Embedded(AT_ONCE if ambient.in_background else 1)
    named = live_paths(old.state)
    scan = scan_data(place.wide, writer, database, progress, engine=engine, named=named)
    if not scan.objects and not any(map(is_in_place, named)):
        raise NotFoundError(
            f"There is nothing to rebuild: {store.url} has no data files of {writer}/{database}",
            key=f"{base_folder(writer, database)}data/",
            hint="Check URL, writer and database",
        )
    if scan.incarnation > old.incarnation:
        old = read_old_log(store, writer, database, ambient, scan.incarnation)
    claim_renamed(scan, old)
    rebuild_id = old.seal.rebuild_id if old.seal is not None else ambient.new_id()
    if back_to is None:
        known = known_log(old.state, scan.written)
        log = LogReader(store, writer, database, ambient)
        known = known or known_remains(log, old, scan.written)
    else:
        state = last_state(store, writer, database, ambient, back_to, doubts=old.doubts)
        known = replace(read_whole(state, scan.written), is_whole=True)
    where = f"{writer}/{database}"
    scan.elsewhere, elsewhere = read_elsewhere(
        engine, place.wide, where, known, scan.said, progress=progress
    )
    weighed = _weigh(
        scan,
        known,
        rebuild_id=rebuild_id,
        folder=base_folder(writer, database),
        incarnation=max(old.incarnation, scan.incarnation),
        exclude=exclude,
        include_foreign=include_foreign,
    )
    log_id = old.log_id or _log_id(scan) or ambient.new_id()
    names = (writer, database)
    plan = _plan(place, names, scan, old, weighed, rebuild_id=rebuild_id, log_id=log_id)
    back = "" if back_to is None else back_note(back_to)
    plan, begun = as_begun(store, plan)
    more = (begun, back, renamed_note(scan), elsewhere, *old.doubts)
    return replace(plan, notes=(*(note for note in more if note), *plan.notes))


def _check_incarnation(number: object) -> None:
    if type(number) is not int or not 1 <= number <= MAX_INCARNATION:
        raise UsageError(
            f"{number!r} is no incarnation: they are numbered from 1 to {MAX_INCARNATION}",
            key=str(number),
            hint="`lakelog doctor` shows which incarnations are there",
        )


@dataclass(frozen=True, slots=True)
class _Weighed:
    transactions: dict[bytes, FoundTransaction]
    evidence: Evidence
    ordered: Ordered
    assembled: Assembled
    left_out: list[LeftOut]
    lost: list[str]
    known: KnownLog | None
    doubts: list[str]


def _weigh(
    scan: Scan,
    known: KnownLog | None,
    *,
    rebuild_id: bytes,
    folder: str,
    incarnation: int,
    exclude: Collection[str],
    include_foreign: bool,
) -> _Weighed:
    """What becomes of each file."""
    told = set() if known is None else {*known.live, *known.removed}
    own, tried = one_attempt_each(scan.own, scan.said, told)
    transactions, disagreeing = group([*own, *scan.said], told)
    evidence = prove(transactions)
    evidence.incarnation = incarnation
    if known is not None:
        transactions = tell_by_log(transactions, evidence, known, scanned_files(scan), rebuild_id)
        prove_by_log(transactions, evidence, known)
        place_in_gaps(transactions, evidence, known)
    excluded = _excluded(exclude, transactions, evidence)
    kept = {
        transaction_id: item
        for transaction_id, item in transactions.items()
        if transaction_id not in excluded
    }
    rule_out_replays(kept, evidence)
    rule_out(kept, evidence)
    ordered = order(kept, evidence)
    assembled = assemble(
        ordered,
        evidence,
        known_paths={info.key[len(folder) :] for info in scan.objects},
        latest_us=scan.newest_us + SKEW_US,
        again=Again(scan, ordered.transactions, known),
    )
    moments = Moments(assembled, ordered.transactions, evidence, known)
    lost, doubts = close(moments, known, scan, rebuild_id) if known is not None else ([], [])
    take_foreign(
        assembled,
        scan.foreign,
        include=include_foreign,
        transaction_id=derived_id(rebuild_id, "foreign"),
    )
    if assembled.transactions:  # else there is nothing to rebuild
        doubts += carry_over(moments, scan.schemas, rebuild_id)
        doubts += place_deletes(moments, rebuild_id)
        there = {info.key[len(folder) :] for info in scan.objects} - scan.damaged.keys()
        doubts = lost_bitmaps(assembled, there) + doubts
    found = [*scan.left_out, *tried, *disagreeing, *assembled.left_out]
    found += _ruled_out(transactions, evidence, excluded)
    live = {path for _, path in assembled.live}
    is_whole = known is not None and known.is_whole
    left_out = [
        doubted(item, scan.strays, is_whole=is_whole) for item in found if item.path not in live
    ]
    return _Weighed(transactions, evidence, ordered, assembled, left_out, lost, known, doubts)


def _plan(
    place: Source,
    names: tuple[str, str],
    scan: Scan,
    old: OldLog,
    weighed: _Weighed,
    *,
    rebuild_id: bytes,
    log_id: bytes,
) -> RebuildPlan:
    writer, database = names
    seal = plan_seal(
        old,
        scan.written,
        writer=writer,
        database=database,
        log_id=log_id,
        top_epoch=max(old.epoch, _highest_epoch(scan)),
        is_whole=weighed.known is not None and weighed.known.is_whole,
    )
    known = notes(
        weighed.transactions,
        weighed.evidence,
        weighed.ordered,
        weighed.assembled,
        left_out=weighed.left_out,
        lost=weighed.lost,
        old=old,
        known=weighed.known,
        doubts=weighed.doubts,
        damaged=scan.damaged,
    )
    now = dt.timedelta(microseconds=place.ambient.now_us())
    return RebuildPlan(
        kind="rebuild",
        url=place.store.url,
        writer=writer,
        database=database,
        made_at=dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + now,
        rebuild_id=rebuild_id.hex(),
        log=LogIdentity(log_id, _next_incarnation(old, scan, f"{writer}/{database}")),
        epoch=seal.epoch + 1,
        transactions=tuple(weighed.assembled.transactions),
        left_out=tuple(sorted(weighed.left_out, key=lambda item: item.path.encode())),
        notes=known,
        seal=seal,
        old_objects=old.names,
        data_digest=scan.digest,
        is_whole=weighed.known is not None and weighed.known.is_whole,
        schemas=tuple(
            _known_schema(table, schema, weighed.known)
            for (table, _), schema in scan.schemas.items()
        ),
        begun_at_us=min(max(0, scan.newest_us), MAX_TIME_US - 1),
        locations=_locations(weighed, scan),
    )


def _locations(weighed: _Weighed, scan: Scan) -> tuple[str, ...]:
    """What the old log names; and what objects name, where files of the plan lie there."""
    found = weighed.known.locations if weighed.known is not None else frozenset()
    paths = {file.path for item in weighed.assembled.transactions for file in item.files}
    said = {url for url in locations_of_all(None, scan.said) if _lies_below(paths, url)}
    return tuple(sorted(found | said))


def _lies_below(paths: Collection[str], url: str) -> bool:
    prefix = path_at(url, "x")[:-1]
    return any(path.startswith(prefix) for path in paths)


def _known_schema(table: str, schema: EncodedSchema, known: KnownLog | None) -> KnownSchema:
    """With the key and sort order that the old log says."""
    found = KnownSchema(table, schema.fingerprint, schema.message)
    entry = known and known.schemas.get((table, schema.fingerprint))
    return replace(found, key=entry.key, sort_order=entry.sort_order) if entry else found


def _next_incarnation(old: OldLog, scan: Scan, where: str) -> int:
    if old.seal is not None:
        return old.seal.next_incarnation
    following = 1 + max(old.incarnation, old.highest, scan.incarnation)
    if following > MAX_INCARNATION:
        raise UsageError(
            f"{where} is in its last incarnation, {MAX_INCARNATION}",
            key=where,
            hint="Copy its data files to another writer, and add them there",
        )
    return following


def _log_id(scan: Scan) -> bytes:
    """The log id that the newest footers name; of those that were written when there was a log."""
    newest = max(
        scan.written,
        key=lambda file: (
            file.incarnation,
            file.base_revision >= 0,
            file.epoch,
            file.base_revision,
            file.last_clock,
            file.transaction_id,
        ),
        default=None,
    )
    return b"" if newest is None else newest.log_id


def _highest_epoch(scan: Scan) -> int:
    """Of all files, those that can't be read included: their names tell it too."""
    names = (parse_own_file(info.key) for info in scan.objects)
    found = (name.epoch for name in names if name is not None)
    return max((epoch for epoch in found if epoch < MAX_FILE_EPOCH), default=0)


def _excluded(
    wanted: Collection[str], transactions: Mapping[bytes, FoundTransaction], evidence: Evidence
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
    transactions: Mapping[bytes, FoundTransaction], evidence: Evidence, excluded: Collection[bytes]
) -> list[LeftOut]:
    verdicts: dict[bytes, tuple[LeftOutKind, str]] = {
        **{
            transaction_id: ("undecided", reason)
            for transaction_id, reason in evidence.undecided.items()
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
        for file in item.written
    ]
