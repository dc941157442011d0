"""Writing a rebuilt log beside the old one. Nothing is overwritten, and nothing deleted.

The order of requests, and why:

1. All objects are built and replayed in memory. What can't be built is known before anything is
   touched.
2. The seal is put, if absent, under the name that the old head promised: who still commits there
   has either been first (then the plan is void), or is refused from here on. Other names that may
   still be used are taken too. The sealed log reads as before.
3. The transactions of the next incarnation: revision 0 first. It holds a digest of the plan, so of
   two rebuilds that would write other logs the second stops here. They are read back.
4. The checkpoint's segments, read back, and the data files looked for once more.
5. The checkpoint: this one put switches the log over.

A crash leaves the old log, or the new one, whole. Planning and executing again goes on from the
seal, and writes the same names and bytes.

Source: docs/format.md, sections 4.5 and 10.6.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ..catalog.commit.checkpointer import put_segments
from ..catalog.format.locations import is_in_place
from ..catalog.format.names import base_folder, name_prefix
from ..catalog.format.seals import read_seal
from ..catalog.log.checkpoint import encode_state
from ..catalog.log.listing import fork_error
from ..catalog.parallel import AT_ONCE, each_in_parallel
from ..catalog.read.log_reader import LogReader
from ..errors import CorruptError, CorruptObject, NotFoundError, ObjectNotFound, PlanOutdated
from ..plans import check_source, open_source, refuse_refs
from ..store import probe
from .begun import begun_error
from .build import LogBytes, build_objects, compare
from .plan import RebuildInfo, RebuildPlan, check_plan
from .scan import data_digest, list_data
from .seal import seal_body, seal_key
from .spelling import is_there
from .taken import put_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..catalog.ambient import Ambient
    from ..catalog.catalog import Catalog
    from ..catalog.log.checkpoint import EncodedCheckpoint
    from ..catalog.log.state import State
    from ..plans import Progress
    from ..store import Store
    from .values import SlotName

    # Does one thing to many items, several at a time, and gives each result when it is there.
    _Many = Callable[[Callable[[Any], None], Iterable[Any]], Iterator[None]]


def execute_rebuild(
    source: Catalog | Store,
    plan: RebuildPlan,
    *,
    ambient: Ambient | None = None,
    progress: Progress | None = None,
) -> RebuildInfo:
    """Check a plan again, seal the log, and write its next incarnation, the checkpoint last.

    A crash at any point leaves the old log or the new one, whole; planning and executing again, or
    executing the same plan again, finishes it.

    Args:
        source: The catalog that the plan was made for, or its store.
        ambient: Clock and identities; those of the catalog if not given.
        progress: Called with (done, total, what), from this thread.
    Raises:
        UsageError, InvalidPath: Not a plan for this.
        NotFoundError: The plan holds no transaction; nothing was touched.
        PlanOutdated: The data files or the old log changed since, or another rebuild was first;
            plan again.
        ForkError: A store without put-if-absent, and something committed meanwhile.
        UnsupportedFeature: The catalog uses what this lakelog doesn't know.
        StorageError: The store failed on the way: plan and execute again.
    Requests: 4 for the probe, 1 HEAD, 7 LIST; 1 PUT and 1 GET a revision and a segment, 1 PUT for
        the checkpoint and for each seal.
    """
    place = open_source(source, ambient)
    store, ambient = place.store, place.ambient
    check_source(plan, "rebuild", store)
    check_plan(plan)
    if not plan.transactions:
        raise NotFoundError(
            f"No file of {plan.writer}/{plan.database} can be used: there is nothing to rebuild",
            key=f"{plan.writer}/{plan.database}",
            hint="The report says what is wrong with each file",
        )
    refuse_refs(store)
    exclusive = probe(
        store, f"{plan.writer}/", new_name=lambda: ambient.new_id().hex()
    ).put_if_absent
    many = partial(each_in_parallel, at_once=AT_ONCE if ambient.in_background else 1)
    log = LogReader(store, plan.writer, plan.database, ambient)
    objects, state = build_objects(plan)
    _check(log, plan)
    _seal(log, plan, many, exclusive=exclusive, now_us=ambient.now_us())
    _put_all(log, plan, objects, many, exclusive=exclusive, progress=progress)
    _read_back(log, plan, state)
    # Not salted: a rebuild that is run again writes the same, and prune leaves a sealed log alone.
    encoded = encode_state(state)
    put_segments(log, encoded, exclusive=exclusive)
    log.read_pieces([piece for piece in encoded.pieces if piece.inline is None], state.log)
    _refuse_gone(log, plan)
    put_once(store, log.folder + encoded.name, encoded.body, exclusive=exclusive)
    _read_back(log, plan, state)
    _refuse_gone(log, plan)
    return _info(log, plan, state, encoded)


def _info(
    log: LogReader, plan: RebuildPlan, state: State, encoded: EncodedCheckpoint
) -> RebuildInfo:
    live = plan.live.values()
    return RebuildInfo(
        writer=plan.writer,
        database=plan.database,
        incarnation=plan.incarnation,
        revision=state.revision,
        transactions=len(plan.transactions),
        files=len(live),
        rows=sum(file.row_count for file in live),
        size_bytes=sum(file.size_bytes for file in live),
        checkpoint_key=log.folder + encoded.name,
        seal_key=seal_key(plan, plan.seal.at),
    )


# --- Before anything is written -------------------------------------------------------------------


def _check(log: LogReader, plan: RebuildPlan) -> None:
    """Whether all is as it was planned on."""
    present = plan.seal.log.incarnation
    listing = log.names()
    if listing.incarnation > present:
        raise _outdated(plan, "its log")
    if max(1, listing.incarnation) < present:
        listing = log.names(present)
    if listing.head != plan.seal.at.revision - 1 and not _stands(log, plan):
        raise _outdated(plan, "its log")
    if data_digest(list_data(log.store, plan.writer, plan.database)) != plan.data_digest:
        raise _outdated(plan, "what lies below data/")


def _outdated(plan: RebuildPlan, what: str) -> PlanOutdated:
    return PlanOutdated(
        f"{what} of {plan.writer}/{plan.database} has changed since the rebuild was planned",
        key=f"{plan.writer}/{plan.database}",
        hint="Stop what writes there, and plan the rebuild again",
    )


# --- The seal -------------------------------------------------------------------------------------


def _seal(log: LogReader, plan: RebuildPlan, many: _Many, *, exclusive: bool, now_us: int) -> None:
    """Take the names that a committer may still use in the present incarnation."""
    at = plan.seal.at
    if not _stands(log, plan):
        if not put_once(
            log.store, seal_key(plan, at), seal_body(plan, at, now_us), exclusive=exclusive
        ) and not _stands(log, plan):
            raise _outdated(plan, "its log")
        if not exclusive:
            listing = log.names(plan.seal.log.incarnation)
            if len(listing.transactions.get(at.revision, ())) > 1:
                raise fork_error(listing, at.revision)
            if listing.head > at.revision:
                raise _outdated(plan, "its log")
    if exclusive:  # else names are random, and nothing is promised
        for _ in many(lambda name: _take(log, plan, name, now_us), plan.seal.others):
            pass


def _take(log: LogReader, plan: RebuildPlan, name: SlotName, now_us: int) -> None:
    taken = put_once(log.store, seal_key(plan, name), seal_body(plan, name, now_us))
    if not taken and not _stands(log, plan, name):
        raise _outdated(plan, "its log")  # somebody has committed under this name


def _stands(log: LogReader, plan: RebuildPlan, at: SlotName | None = None) -> bool:
    """Whether the seal of this rebuild is there."""
    key = seal_key(plan, at or plan.seal.at)
    try:
        found = read_seal(log.store.get(key), key)
    except (ObjectNotFound, CorruptError):
        return False
    return found is not None and found.rebuild_id.hex() == plan.rebuild_id


# --- The new incarnation --------------------------------------------------------------------------


def _put_all(
    log: LogReader,
    plan: RebuildPlan,
    objects: list[LogBytes],
    many: _Many,
    *,
    exclusive: bool,
    progress: Progress | None,
) -> None:
    def put(item: LogBytes) -> None:
        if not put_once(log.store, item.key, item.body, exclusive=exclusive):
            raise begun_error(log, plan, item.key)

    def told(done: int) -> None:
        if progress is not None:
            progress(done, len(objects), "objects written")

    put(objects[0])
    told(1)
    for done, _ in enumerate(many(put, objects[1:]), 2):
        told(done)


def _read_back(log: LogReader, plan: RebuildPlan, state: State) -> None:
    """Whether the new incarnation reads as it was built."""
    found = log.load(state.revision, incarnation=plan.incarnation)
    if found.digest != state.digest or found.log != state.log:
        raise CorruptObject(
            f"What was written of the new log of {plan.writer}/{plan.database} reads otherwise",
            key=log.folder + name_prefix(plan.incarnation),
            hint="The old log still stands. Check the store with `lakelog doctor`",
        )
    compare(plan, found)


def _refuse_gone(log: LogReader, plan: RebuildPlan) -> None:
    folder = base_folder(plan.writer, plan.database)
    there = {info.key[len(folder) :] for info in list_data(log.store, plan.writer, plan.database)}
    # What isn't shown may be there under another spelling, on a store that folds names.
    missing = sorted(path for path in plan.live.keys() - there if not is_in_place(path))
    gone = [path for path in missing if not is_there(log.store, folder + path)]
    if gone:
        raise PlanOutdated(
            f"{len(gone)} data files were deleted while the log was rebuilt, {gone[0]} among them",
            key=gone[0],
            hint="Does gc run? Stop it, and plan the rebuild again",
        )
