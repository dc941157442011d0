"""Plans the rebuild of a log: reads what is left of it, scans `data/`, applies the rules.

Source: docs/maintenance.md, "Rebuild".
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
from functools import partial
from typing import TYPE_CHECKING, Final

from ..catalog.format.frame import LogIdentity
from ..catalog.format.names import MAX_INCARNATION, base_folder, check_id
from ..catalog.log.part import Part, added_files, batch_parts
from ..catalog.parallel import AT_ONCE, Embedded, parallel
from ..errors import NotFoundError, StorageError, UsageError
from ..plans import Source, open_source, refuse_refs
from .build import Survey, live_files_of, parts_of
from .old_log import read_old_log
from .plan import FileName, GoneFile, LeftOut, LeftOutKind, RebuildPlan, SalvagedTransaction
from .rules import EXCLUDED, INCLUDED, REMOVED, Base, Decision, Readable, Salvaged, decide
from .scan import Scan, is_there, keep_own, scan_data
from .seals import plan_seal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..catalog.ambient import Ambient
    from ..catalog.catalog import Catalog
    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.log.state import State
    from ..catalog.parallel import Engine
    from ..plans import Progress
    from ..store import Store
    from .old_log import OldLog
    from .seals import Seal

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
    Requests: 3 LIST, as reading the newest state of this one log, and 2 GET for each transaction;
        1 or 2 GET for each data file that it has not live.
    """
    place = open_source(source, ambient)
    asked = tuple(exclude), tuple(include)
    return survey(place, writer, database, *asked, engine=engine, progress=progress).plan


def survey(
    place: Source,
    writer: str,
    database: str,
    exclude: tuple[str, ...],
    include: tuple[str, ...],
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    again: RebuildPlan | None = None,
) -> Survey:
    """Reads all that is left of a log, and decides what becomes of it.

    Args:
        again: A plan that was made before: its time and its names are taken, and what it may have
            written of its incarnation is not looked at.
    Raises, Requests: As `plan_rebuild`.
    """
    store, ambient = place.store, place.ambient
    check_id(writer, "writer")
    check_id(database, "database")
    refuse_refs(store)
    below = MAX_INCARNATION + 1 if again is None else again.incarnation
    old = read_old_log(store, writer, database, ambient, below=below)
    live = live_files_of(old.state)
    engine = engine or Embedded(AT_ONCE if ambient.in_background else 1)
    vectors = (path for paths in old.state.deletes.objects() for path in paths.to_pylist())
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
    rivals = {
        one: revision
        for revision, others in old.rivals.items()
        for found in others
        for one in found.transaction_ids
    }
    included = frozenset(_id_of(text) for text in include) - excluded
    base = _base(old.state, live, scan)
    decision = decide(base, readable, scan.own, scan.sizes, excluded, rivals, included)
    _check_asked(exclude, include, decision)
    _refuse_unlisted(store, base_folder(writer, database), decision)
    present = max([old.incarnation, *(one.incarnation for one in scan.own)])
    seal = plan_seal(old, scan, LogIdentity(log_id, present))
    plan = _plan(place, old, scan, decision, live, seal, (exclude, include), again)
    return Survey(old, scan, decision, seal, plan)


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


def _check_asked(exclude: Collection[str], include: Collection[str], decision: Decision) -> None:
    """Refuses ids that choose nothing, and such of transactions that are known to be committed."""
    placed = {
        one.attempt.transaction_id: one.why for one in decision.salvaged if one.revision is not None
    }
    done = {one.attempt.transaction_id for one in decision.salvaged if one.why == INCLUDED}
    for text in exclude:
        if _id_of(text) in placed:
            raise UsageError(
                f"Transaction {text} was committed: {placed[_id_of(text)]}",
                key=text,
                hint="Only unproven transactions can be excluded; remove its files afterwards",
            )
        if _id_of(text) not in decision.refused:
            raise UsageError(
                f"No data file is of a lost transaction {text!r}",
                key=text,
                hint="Exclude ids that the plan calls unproven",
            )
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
    seal: Seal,
    asked: tuple[tuple[str, ...], tuple[str, ...]],
    again: RebuildPlan | None,
) -> RebuildPlan:
    state = old.state
    rows_of = dict(live) | {(one.table, one.path): one.row_count for one in scan.own}
    for found in old.readable.values() if decision.gone else ():
        for rows in added_files(found):
            columns = [rows.column(name).to_pylist() for name in ("table", "path", "row_count")]
            rows_of |= {(table, path): n for table, path, n in zip(*columns, strict=True)}
    counted = {one.attempt.transaction_id for one in decision.salvaged}
    bases = [one.base_revision + 1 for one in scan.own if one.transaction_id in counted]
    above = max([old.top, seal.at.revision, *(one.revision for one in seal.others), *bases])
    if again is not None:
        rebuild_id, made_at = again.rebuild_id, again.made_at
    else:
        rebuild_id = (place.ambient.new_id() if old.seal is None else old.seal.rebuild_id).hex()
        now = dt.timedelta(microseconds=place.ambient.now_us())
        made_at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + now
    left_out = [*scan.left_out, *_refused(scan, decision)]
    return RebuildPlan(
        kind="rebuild",
        url=place.store.url,
        writer=state.writer,
        database=state.database,
        made_at=made_at,
        rebuild_id=rebuild_id,
        sealed=seal.log.incarnation,
        incarnation=_next_incarnation(old, seal.log.incarnation),
        revision=above + parts_of(decision, scan),
        epoch=seal.epoch + 1,
        base=(0, -1) if state.log is None else (state.log.incarnation, state.revision),
        exclude=asked[0],
        include=asked[1],
        transactions=tuple(_transaction(one, live) for one in decision.salvaged),
        gone=tuple(GoneFile(*name, rows_of.get(name, 0)) for name in sorted(decision.gone)),
        left_out=tuple(sorted(left_out, key=lambda item: item.path.encode())),
        lost=decision.lost,
        digest=hashlib.sha256(b"".join([seal.log.log_id, *old.digests, scan.digest])).digest(),
        notes=_notes(old, decision, live),
        old_objects=len(old.names),
    )


def _transaction(one: Salvaged, live: Collection[FileName]) -> SalvagedTransaction:
    attempt = one.attempt
    return SalvagedTransaction(
        transaction_id=attempt.transaction_id.hex(),
        proof="proven" if one.is_proven else "unproven",
        revision=one.revision,
        epoch=attempt.first.epoch,
        operation=attempt.first.operation,
        files=tuple((file.table, file.path) for file in one.files),
        rows=sum(file.row_count for file in one.files),
        size_bytes=sum(file.size_bytes for file in one.files),
        removes=tuple(sorted(one.removes)),
        kept=_kept(one, live),
        why=one.why,
    )


def _kept(one: Salvaged, live: Collection[FileName]) -> int:
    """Counts live files that a transaction without a place replaced, and that are kept."""
    return len(one.attempt.replaces.intersection(live) - one.removes) if one.revision is None else 0


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


def _notes(old: OldLog, decision: Decision, live: Collection[FileName]) -> tuple[str, ...]:
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
    placeless = [one for one in decision.salvaged if one.revision is None]
    for is_proven, what in (
        (False, "nothing says whether it was committed: its rows come back"),
        (
            True,
            "the revision is another one's, for the log lost its end, or forked: its rows come "
            "back, and so do rows that it deleted",
        ),
    ):
        some = [one for one in placeless if one.is_proven is is_proven]
        if some:
            rows = count(sum(file.row_count for one in some for file in one.files), "row")
            of = f"Of {count(len(some), 'transaction')} with {rows} {what}"
            found.append(f"{of}. --exclude leaves one out")
    kept = sum(_kept(one, live) for one in placeless)
    if kept:
        found.append(
            f"Transactions that are added again replaced {count(kept, 'live file')} that the log "
            "keeps: rows may be there twice"
        )
    if any(one.attempt.first.app_id for one in decision.salvaged):
        found.append("A version of an application whose transaction is unproven can be run again")
    if decision.gone:
        found.append(
            f"{count(len(decision.gone), 'live file')} is not in the store, and is live no longer"
        )
    return tuple(found)


def count(number: int, noun: str) -> str:
    """Returns `3 rows`, `1 row`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _next_incarnation(old: OldLog, present: int) -> int:
    if old.seal is not None:
        return old.seal.next_incarnation
    if present >= MAX_INCARNATION:
        where = f"{old.state.writer}/{old.state.database}"
        raise UsageError(
            f"{where} is in its last incarnation, {MAX_INCARNATION}",
            key=where,
            hint="Copy its data files to another writer, and add them there",
        )
    return present + 1
