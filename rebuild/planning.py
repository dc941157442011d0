"""Plans the rebuild of a log: reads what is left of it, scans `data/`, applies the rules.

Source: docs/maintenance.md, "Rebuild".
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..catalog.format.frame import LogIdentity
from ..catalog.format.names import (
    MAX_INCARNATION,
    base_folder,
    check_id,
    parse_data_file,
    parse_deletes_file,
)
from ..catalog.format.segments import MAX_TIME_US
from ..catalog.log.part import Part, added_files, batch_parts
from ..catalog.parallel import AT_ONCE, Embedded, parallel
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..errors import NotFoundError, StorageError, UsageError
from ..plans import Source, open_source, refuse_refs
from .build import live_files_of, parts_of
from .old_log import read_old_log
from .plan import (
    GoneFile,
    KnownSchema,
    LeftOut,
    LeftOutKind,
    RebuildPlan,
    SalvagedFile,
    SalvagedTransaction,
)
from .rules import EXCLUDED, INCLUDED, REMOVED, Base, Decision, Readable, Salvaged, decide
from .scan import MAX_FILE_EPOCH, Scan, is_there, keep_own, scan_data
from .seals import plan_seal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ..catalog.ambient import Ambient
    from ..catalog.catalog import Catalog
    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.log.state import State
    from ..catalog.parallel import Engine
    from ..plans import Progress
    from ..store import Store
    from .old_log import OldLog
    from .plan import FileName

_ASKED: Final = 1_000
_KINDS: Final[dict[str, LeftOutKind]] = {EXCLUDED: "excluded", REMOVED: "removed"}
_FAR_ABOVE: Final = 100_000  # no footer is believed that names a base so far above the log


def plan_rebuild(
    source: Catalog | Store,
    writer: str,
    database: str,
    *,
    exclude: Collection[str] = (),
    include: Collection[str] = (),
    engine: Engine | None = None,
    progress: Progress | None = None,
    ambient: Ambient | None = None,
) -> RebuildPlan:
    """Plans the next incarnation of a log from whatever can be read of its two copies, and from the
    footers of the data files that it doesn't have live. Nothing is written.

    Args:
        source: The catalog, or its store.
        exclude: Ids (hex) of transactions to leave out: of those that the plan calls unproven.
        include: Ids (hex) of transactions whose files are added though the rules leave them out.
        engine: Who reads the footers; None: threads of this process. The plan is the same.
        progress: Called with (done, total, what), from this thread.
        ambient: Clock and identities; those of the catalog if not given.
    Raises:
        ForeignLog: The log is that of another writer or database.
        NotFoundError: There is neither a log nor a data file.
        UsageError: An excluded id that is no unproven transaction's, an included one of which the
            plan leaves no file out, or the last incarnation is in use.
        UnsupportedFeature: A later version wrote the log, or the catalog has refs.
        StorageError: The store failed.
    Requests: 3 LIST, as reading the newest state of this one log, and 1 or 2 GET for each
        transaction above it; 1 or 2 GET for each data file that it has not live.
    """
    place = open_source(source, ambient)
    store, ambient = place.store, place.ambient
    check_id(writer, "writer")
    check_id(database, "database")
    refuse_refs(store)
    old = read_old_log(store, writer, database, ambient)
    state = old.state
    live = live_files_of(state)
    engine = engine or Embedded(AT_ONCE if ambient.in_background else 1)
    vectors = (path for paths in state.deletes.objects() for path in paths.to_pylist())
    paths = {path for _, path in live}.union(vectors)
    scan = scan_data(place.wide, writer, database, engine=engine, live=paths, progress=progress)
    log_id = keep_own(scan, writer, database, old.log_id)
    if not log_id:
        raise NotFoundError(
            f"There is nothing to rebuild: {store.url} has neither a log nor data files of "
            f"{writer}/{database}",
            key=f"{base_folder(writer, database)}data/",
            hint="Check URL, writer and database",
        )
    _leave_out_absurd(scan, old)
    excluded = {_id_of(text) for text in exclude}
    readable = {revision: _readable(found) for revision, found in old.readable.items()}
    base = _base(state, live, scan)
    rivals = {
        one: revision
        for revision, others in old.rivals.items()
        for found in others
        for one in found.transaction_ids
    }
    included = frozenset(_id_of(text) for text in include) - excluded
    decision = decide(base, readable, scan.own, scan.sizes, excluded, rivals, included)
    _check_excluded(exclude, decision)
    _check_included(include, decision)
    _refuse_unlisted(store, base_folder(writer, database), decision)
    return _plan(place, old, scan, decision, live, log_id)


# --- What the rules are asked ---------------------------------------------------------------------


def _base(state: State, live: Mapping[FileName, int], scan: Scan) -> Base:
    if state.revision < 0 or state.log is None:
        return Base()
    apps = {one.app_id for one in scan.own if one.app_id}
    rows = state.history.table()
    columns = ("revision", "epoch", "transaction_ids")
    history = zip(*(rows.column(one).to_pylist() for one in columns), strict=True)
    return Base(
        state.revision,
        state.epoch,
        state.log.incarnation,
        {revision: (epoch, frozenset(ids)) for revision, epoch, ids in history},
        frozenset(live),
        {app: state.applications.version(app) for app in apps},
    )


def _readable(found: DecodedTransaction) -> Readable:
    adds: set[FileName] = set()
    removes: set[FileName] = set()
    hides: set[FileName] = set()
    for place, action in enumerate(found.message.actions):
        kind = action.WhichOneof("kind")
        if kind == "remove":
            removes.add((action.remove.table, action.remove.path))
            adds.discard((action.remove.table, action.remove.path))
        if kind == "row_deletes":
            hides.add((action.row_deletes.table, action.row_deletes.path))
        new = [(action.add.table, action.add.path)] if kind == "add" else []
        for part, _ in batch_parts(found.batches[place]) if kind == "add_batch" else ():
            assert isinstance(part, Part), "damaged ones were left out"
            tables, paths = (part.run.full().column(one).to_pylist() for one in ("table", "path"))
            new += zip(tables, paths, strict=True)
        adds.update(new)
        removes.difference_update(new)
    members = found.message.commit.members
    versions = frozenset((one.app_id, one.app_version) for one in members if one.app_id)
    named = frozenset(adds), frozenset(removes), frozenset(hides)
    return Readable(found.transaction_ids, found.message.epoch, *named, versions)


def _leave_out_absurd(scan: Scan, old: OldLog) -> None:
    """Leaves out files whose base lies so far above the log that it can't be: the history would be
    filled up to there."""
    if old.top < 0:
        return
    most = old.top + _FAR_ABOVE
    for one in [one for one in scan.own if one.base_revision > most]:
        scan.own.remove(one)
        why = f"its base is revision {one.base_revision}, and the log ends at {old.top}"
        scan.left_out.append(one.left_out("damaged", why))


def _id_of(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _check_excluded(exclude: Collection[str], decision: Decision) -> None:
    proven = {
        one.attempt.transaction_id: one.why for one in decision.salvaged if one.revision is not None
    }
    for text in exclude:
        own = _id_of(text)
        if own in proven:
            raise UsageError(
                f"Transaction {text} was committed: {proven[own]}",
                key=text,
                hint="Only unproven transactions can be excluded; remove its files afterwards",
            )
        if own not in decision.refused:
            raise UsageError(
                f"No data file is of a lost transaction {text!r}",
                key=text,
                hint="Exclude ids that the plan calls unproven",
            )


def _check_included(include: Collection[str], decision: Decision) -> None:
    done = {one.attempt.transaction_id for one in decision.salvaged if one.why == INCLUDED}
    for text in include:
        if _id_of(text) not in done:
            raise UsageError(
                f"The plan leaves no file of a transaction {text!r} out",
                key=text,
                hint="Include ids of files that the plan lists as left out",
            )


def _refuse_unlisted(store: Store, folder: str, decision: Decision) -> None:
    """Refuses a listing that lacks live files which are there: the log would lose them.

    Requests: 1 HEAD for each live file that is not listed, up to 1,000.
    """
    keys = sorted(folder + path for _, path in decision.gone)[:_ASKED]
    for key in itertools.compress(keys, parallel(partial(is_there, store), keys)):
        raise StorageError(
            f"The store's listing doesn't show {key}, which is there",
            key=key,
            hint="Plan the rebuild again. If listings go on to lack it, copy the catalog to another"
            " store, and rebuild there",
        )


# --- The plan -------------------------------------------------------------------------------------


def _plan(  # noqa: PLR0917 - all that was found
    place: Source,
    old: OldLog,
    scan: Scan,
    decision: Decision,
    live: Mapping[FileName, int],
    log_id: bytes,
) -> RebuildPlan:
    state, ambient = old.state, place.ambient
    writer, database = state.writer, state.database
    present = max([old.incarnation, *(one.incarnation for one in scan.own)])
    seal = plan_seal(
        old,
        scan.own,
        writer=writer,
        database=database,
        log_id=log_id,
        incarnation=present,
        top_epoch=max(old.epoch, _highest_epoch(scan)),
    )
    transactions = _transactions(decision, live)
    rows_of = dict(live) | {
        (table, path): count
        for found in old.readable.values()
        for table, path, count in _added(found, "row_count")
    }
    rows_of |= {(one.table, one.path): one.row_count for one in scan.own}
    gone = tuple(GoneFile(*name, rows_of.get(name, 0)) for name in sorted(decision.gone))
    used = {(file.table, file.fingerprint) for one in transactions for file in one.files}
    marked = _marked(old, scan)
    ids = {one for found in old.readable.values() for one in found.transaction_ids}
    used |= {(one.table, one.fingerprint) for one in scan.own if one.transaction_id in ids}
    schemas = tuple(
        KnownSchema(table, one.fingerprint, one.message, tuple(sorted(marked[table, fingerprint])))
        for (table, fingerprint), one in scan.schemas.items()
        if (table, fingerprint) in used
    )
    names = [seal.at.revision, *(one.revision for one in seal.others)]
    counted = {bytes.fromhex(one.transaction_id) for one in transactions}
    bases = [one.base_revision + 1 for one in scan.own if one.transaction_id in counted]
    above = max([old.top, *names, *bases])
    left_out = [*scan.left_out, *_refused(scan, decision)]
    now = dt.timedelta(microseconds=ambient.now_us())
    return RebuildPlan(
        kind="rebuild",
        url=place.store.url,
        writer=writer,
        database=database,
        made_at=dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + now,
        rebuild_id=(old.seal.rebuild_id if old.seal is not None else ambient.new_id()).hex(),
        log=LogIdentity(log_id, _next_incarnation(old, present, f"{writer}/{database}")),
        revision=above + parts_of(transactions, len(gone), len(schemas)),
        epoch=seal.epoch + 1,
        base=old.base,
        readable=old.digests,
        transactions=transactions,
        gone=gone,
        left_out=tuple(sorted(left_out, key=lambda item: item.path.encode())),
        notes=_notes(old, decision, transactions),
        lost=decision.lost,
        seal=seal,
        old_objects=len(old.names),
        data_digest=scan.digest,
        schemas=schemas,
        begun_at_us=min(max(0, scan.newest_us), MAX_TIME_US - 1),
    )


def _marked(old: OldLog, scan: Scan) -> Mapping[tuple[str, bytes], set[bytes]]:
    """Returns, by table and fingerprint of footers, those that the log gives the same files."""
    by_footer = {(one.table, one.path): one.fingerprint for one in scan.own}
    found: dict[tuple[str, bytes], set[bytes]] = defaultdict(set)
    for transaction in old.readable.values():
        for table, path, fingerprint in _added(transaction, "schema_fingerprint"):
            own = by_footer.get((table, path), fingerprint)
            if own != fingerprint:
                found[table, own].add(fingerprint)
    return found


def _added(found: DecodedTransaction, fact: str) -> Iterator[tuple[str, str, Any]]:
    """Yields table, path and a column of FILES of each file that a transaction adds."""
    for rows in added_files(found):
        columns = (rows.column(name).to_pylist() for name in ("table", "path", fact))
        yield from zip(*columns, strict=True)


def _transactions(
    decision: Decision, live: Collection[FileName]
) -> tuple[SalvagedTransaction, ...]:
    # Nothing that a lost end says of files of the log counts.
    of_the_end = {
        (file.table, file.path)
        for one in decision.salvaged
        if one.revision is None
        for file in one.files
    }
    return tuple(_transaction(one, live, of_the_end) for one in decision.salvaged)


def _transaction(
    one: Salvaged, live: Collection[FileName], of_the_end: Collection[FileName]
) -> SalvagedTransaction:
    attempt, first = one.attempt, one.attempt.first
    files = tuple(
        SalvagedFile(
            file.path, file.table, file.size_bytes, file.row_count, file.fingerprint, file.add
        )
        for file in one.files
    )
    vectors = [body for item in attempt.vectors for body in item.vectors if one.is_proven]
    if one.revision is None:
        vectors = [body for body in vectors if _file_of(body) in of_the_end]
    kept = attempt.replaces.intersection(live) - one.removes
    return SalvagedTransaction(
        transaction_id=attempt.transaction_id.hex(),
        proof="proven" if one.is_proven else "unproven",
        revision=one.revision,
        epoch=first.epoch,
        operation=first.operation,
        # A retry of an unproven one must run: rows may be missing.
        app_id=first.app_id if one.is_proven else "",
        app_version=first.app_version if one.is_proven else 0,
        files=files,
        removes=tuple(sorted(one.removes)),
        kept=len(kept) if one.revision is None else 0,
        vectors=tuple(vectors),
        why=one.why,
    )


def _file_of(row_deletes: bytes) -> FileName:
    message = wire.RowDeletes.FromString(row_deletes)
    return message.table, message.path


def _refused(scan: Scan, decision: Decision) -> list[LeftOut]:
    """Returns the files of transactions that don't count, and those of other attempts at a task."""
    counted = {path for _, path in decision.live}
    counted |= {file.path for one in decision.salvaged for file in one.attempt.vectors}
    known = {one.attempt.transaction_id: one.attempt for one in decision.salvaged}
    found: list[LeftOut] = []
    for file in scan.own:
        own = file.transaction_id
        if file.path in counted or (own not in known and own not in decision.refused):
            continue
        is_counted = own in known and file in known[own].files
        rest = REMOVED if is_counted else "another attempt at its task has more rows, or as many"
        why = decision.refused.get(own, rest)
        found.append(file.left_out(_KINDS.get(why, "uncommitted"), why))
    return found


def _notes(
    old: OldLog, decision: Decision, transactions: Collection[SalvagedTransaction]
) -> tuple[str, ...]:
    """Says what can't be known."""
    found = list(old.doubts[:1])
    if old.state.revision < 0 and not old.readable:
        found.append("Nothing of the log's state can be read: all is by the footers of data files")
    if decision.lost:
        found.append(
            f"{count(decision.lost, 'revision')} below the head left nothing to read: rows that it "
            "deleted and files that it removed are live again, and files that it brought back or "
            "that lie elsewhere are not"
        )
    unproven = [one for one in transactions if one.proof == "unproven"]
    if unproven:
        rows = sum(one.rows for one in unproven)
        found.append(
            f"Of {count(len(unproven), 'transaction')} with {count(rows, 'row')} nothing says "
            "whether it was committed: its rows come back. --exclude leaves one out"
        )
    of_the_end = [one for one in transactions if one.proof == "proven" and one.revision is None]
    if of_the_end:
        rows = sum(one.rows for one in of_the_end)
        found.append(
            f"{count(len(of_the_end), 'commit')} with {count(rows, 'row')} had a revision that the "
            "log has given to another: the log lost its end, or forked. The rows come back, and so "
            "do rows of the log that they deleted. --exclude leaves one out"
        )
    kept = sum(one.kept for one in transactions)
    if kept:
        found.append(
            f"Transactions that are added again replaced {count(kept, 'live file')} that the log "
            "keeps: rows may be there twice"
        )
    if any(one.app_id for one in (item.attempt.first for item in decision.salvaged)):
        found.append("A version of an application whose transaction is unproven can be run again")
    if decision.gone:
        found.append(
            f"{count(len(decision.gone), 'live file')} is not in the store, and is live no longer"
        )
    return tuple(found)


def count(number: int, noun: str) -> str:
    """Returns `3 rows`, `1 row`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _next_incarnation(old: OldLog, present: int, where: str) -> int:
    if old.seal is not None:
        return old.seal.next_incarnation
    if present >= MAX_INCARNATION:
        raise UsageError(
            f"{where} is in its last incarnation, {MAX_INCARNATION}",
            key=where,
            hint="Copy its data files to another writer, and add them there",
        )
    return present + 1


def _highest_epoch(scan: Scan) -> int:
    """Of all files, those that can't be read included: their names tell it too."""
    names = (parse_data_file(path) or parse_deletes_file(path) for path in scan.sizes)
    found = (name.epoch for name in names if name is not None)
    return max((epoch for epoch in found if epoch < MAX_FILE_EPOCH), default=0)
