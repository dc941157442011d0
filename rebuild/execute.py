"""Writes a rebuilt log beside the old one. Nothing is overwritten, and nothing deleted.

The order of requests, and why:

1. The log is read as planning has read it, and must be the same; so must the names below `data/`.
   The opening state is built in memory: what can't be built is known before anything is touched.
2. The mirror of the present incarnation is completed, for nobody opens it for writing again. The
   seals are put, if absent, and mirrored. Who still commits under one of these names has either
   been first (then the plan is void), or is refused from here on.
3. The segments are put, and read back; the data files are looked for once more.
4. The opening checkpoint is put, if absent: this one put switches the log over.
5. Segments and checkpoint are put into the mirror.

Broken off anywhere, it can be run again, with this plan or another one. Between 2 and 4 the log is
refused by readers, for its head is a seal.

Source: docs/format.md, section 4.5.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..catalog.commit.checkpointer import put_segments
from ..catalog.commit.mirror import copy_checkpoint
from ..catalog.format.names import (
    LogObject,
    mirror_key,
    mirror_log_folder,
    parse_log_object,
)
from ..catalog.format.objects import decode_transaction, read_seal
from ..catalog.log.checkpoint import encode_state
from ..catalog.parallel import AT_ONCE, each_in_parallel, parallel
from ..catalog.read.log_reader import LogReader
from ..errors import (
    CorruptError,
    CorruptObject,
    NotFoundError,
    ObjectExists,
    ObjectNotFound,
    PlanOutdated,
)
from ..plans import check_source, open_source, refuse_refs
from ..store import probe
from .build import live_files_of, opening_state
from .old_log import get, read_old_log
from .plan import RebuildInfo, RebuildPlan, check_plan
from .scan import data_digest, list_data
from .seals import seal_body, seal_name

if TYPE_CHECKING:
    from ..catalog.ambient import Ambient
    from ..catalog.catalog import Catalog
    from ..catalog.log.checkpoint import EncodedCheckpoint
    from ..catalog.log.state import State
    from ..plans import Progress
    from ..store import Store
    from .old_log import OldLog
    from .plan import SlotName


def execute_rebuild(
    source: Catalog | Store,
    plan: RebuildPlan,
    *,
    ambient: Ambient | None = None,
    progress: Progress | None = None,
) -> RebuildInfo:
    """Checks a plan again, seals the log, and opens its next incarnation.

    Args:
        source: The catalog that the plan was made for, or its store.
        ambient: Clock and identities; those of the catalog if not given.
        progress: Called with (done, total, what), from this thread.
    Raises:
        UsageError, InvalidPath: Not a plan for this.
        PlanOutdated: The data files or the log changed since, or another rebuild was first; plan
            again.
        UnsupportedFeature: The catalog uses what this lakelog doesn't know.
        StorageError: The store failed on the way: execute again, or plan again.
    Requests: 4 for the probe, 5 LIST, as planning reads the log; 1 PUT for each transaction that
        has no copy; 2 PUT for each seal, each new segment and the checkpoint; 2 GET for each of
        these segments.
    """
    place = open_source(source, ambient)
    store, ambient = place.store, place.ambient
    check_source(plan, "rebuild", store)
    check_plan(plan)
    refuse_refs(store)
    exclusive = probe(
        store, f"{plan.writer}/", new_name=lambda: ambient.new_id().hex()
    ).put_if_absent
    at_once = AT_ONCE if ambient.in_background else 1
    log = LogReader(store, plan.writer, plan.database, ambient)
    _check_data(log, plan)
    old = _planned_on(log, plan)
    state = opening_state(plan, old.state, old.readable)
    encoded = encode_state(state)
    _refuse_other_opening(log, plan, encoded)
    _complete_mirror(log, plan, at_once, exclusive=exclusive)
    _seal(log, plan, at_once, exclusive=exclusive)
    _put_segments(log, plan, encoded, at_once, progress)
    _check_data(log, plan)
    _refuse_other_opening(log, plan, encoded)
    if not _put_once(store, log.folder + encoded.name, encoded.body, exclusive=exclusive):
        raise _another_was_first(plan, log.folder + encoded.name)
    _mirror(log, encoded, exclusive=exclusive)
    _read_back(log, plan, state)
    return _info(log, plan, state, encoded)


def _info(
    log: LogReader, plan: RebuildPlan, state: State, encoded: EncodedCheckpoint
) -> RebuildInfo:
    counts = encoded.decoded.message.counts
    return RebuildInfo(
        writer=plan.writer,
        database=plan.database,
        incarnation=plan.incarnation,
        revision=state.revision,
        transactions=len(plan.transactions),
        files=counts.files,
        rows=counts.rows,
        size_bytes=counts.bytes,
        checkpoint_key=log.folder + encoded.name,
        seal_key=log.folder + seal_name(plan, plan.seal.at),
    )


# --- Before anything is written -------------------------------------------------------------------


def _check_data(log: LogReader, plan: RebuildPlan) -> None:
    """Refuses a plan if the objects below `data/` are not those that it was made from."""
    if data_digest(list_data(log.store, plan.writer, plan.database)) != plan.data_digest:
        raise _outdated(plan, "what lies below data/")


def _planned_on(log: LogReader, plan: RebuildPlan) -> OldLog:
    """Reads the old log again: it must be what was planned on, and sealed by nobody else."""
    names = plan.writer, plan.database
    old = read_old_log(log.store, *names, log.ambient, below=plan.incarnation)
    is_same = (old.base, old.digests) == (plan.base, plan.readable)
    if not is_same or any(seal.rebuild_id.hex() != plan.rebuild_id for seal in old.seals):
        raise _outdated(plan, "its log")
    return old


def _outdated(plan: RebuildPlan, what: str) -> PlanOutdated:
    return PlanOutdated(
        f"{what} of {plan.writer}/{plan.database} has changed since the rebuild was planned",
        key=f"{plan.writer}/{plan.database}",
        hint="Stop what writes there, and plan the rebuild again",
    )


def _another_was_first(plan: RebuildPlan, key: str) -> PlanOutdated:
    return PlanOutdated(
        f"Another rebuild of {plan.writer}/{plan.database} was first: incarnation "
        f"{plan.incarnation} is in use",
        key=key,
        hint="Nothing is left to do, unless you want it otherwise: then plan again",
    )


def _refuse_other_opening(log: LogReader, plan: RebuildPlan, encoded: EncodedCheckpoint) -> None:
    """Refuses a plan whose incarnation, or a higher one, was begun by another rebuild."""
    for folder in (log.folder, mirror_log_folder(plan.writer, plan.database)):
        for info in log.store.list(folder, first_page=1):
            item = parse_log_object(info.key[len(folder) :])
            if item is not None and item.incarnation < plan.incarnation:
                break
            if item is not None and item.name != encoded.name:
                raise _another_was_first(plan, info.key)


# --- The seals ------------------------------------------------------------------------------------


def _complete_mirror(log: LogReader, plan: RebuildPlan, at_once: int, *, exclusive: bool) -> None:
    """Copies the transactions of the present incarnation that have no copy: its newest two, if
    their writer died. What is damaged, pruned or one side of a fork is left alone.

    Requests: 2 LIST; 1 HEAD, 1 GET and 1 PUT for each.
    """
    present = plan.seal.log.incarnation
    copies, listing = log.copies(present), log.names(present)
    start = max(copies.checkpoints, default=0)

    def copy(item: LogObject) -> None:
        try:
            body = get(log.store, log.folder + item.name)
            found = decode_transaction(body, log.folder + item.name)
        except (CorruptError, NotFoundError):
            return
        if found.log == plan.seal.log:
            _put_once(log.store, mirror_key(log.folder + item.name), body, exclusive=exclusive)

    missing = [
        items[0]
        for revision, items in listing.transactions.items()
        if revision >= start and len(items) == 1 and revision not in copies.transactions
    ]
    parallel(copy, missing, at_once=at_once)


def _seal(log: LogReader, plan: RebuildPlan, at_once: int, *, exclusive: bool) -> None:
    """Takes the names that a committer may still use in the present incarnation."""
    _take(log, plan, plan.seal.at, exclusive=exclusive)
    if exclusive:  # else names are random, and nothing is promised
        take = partial(_take, log, plan, exclusive=True)
        parallel(take, plan.seal.others, at_once=at_once)


def _take(log: LogReader, plan: RebuildPlan, at: SlotName, *, exclusive: bool) -> None:
    key, body = log.folder + seal_name(plan, at), seal_body(plan, at)
    if not _put_once(log.store, key, body, exclusive=exclusive):
        body = _other_seal(log, plan, key)
    _put_once(log.store, mirror_key(key), body, exclusive=exclusive)


def _other_seal(log: LogReader, plan: RebuildPlan, key: str) -> bytes:
    """Returns the seal that another execution of this rebuild has put.

    Raises:
        PlanOutdated: Somebody has committed under this name, or another rebuild sealed it.
    """
    try:
        body = log.store.get(key)
        found = read_seal(body, key)
    except (ObjectNotFound, CorruptError):
        found = None
    if found is None or found.rebuild_id.hex() != plan.rebuild_id:
        raise _outdated(plan, "its log")
    return body


# --- The new incarnation --------------------------------------------------------------------------


def _put_segments(
    log: LogReader,
    plan: RebuildPlan,
    encoded: EncodedCheckpoint,
    at_once: int,
    progress: Progress | None,
) -> None:
    """Puts the segments, and reads back all that the checkpoint refers to."""
    put_segments(log, encoded, exclusive=False)
    pieces = [[piece] for piece in encoded.pieces if piece.inline is None]
    read = partial(log.read_pieces, log=plan.log)
    for done, _ in enumerate(each_in_parallel(read, pieces, at_once=at_once), 1):
        if progress is not None:
            progress(done, len(pieces), "segments written")


def _mirror(log: LogReader, encoded: EncodedCheckpoint, *, exclusive: bool) -> None:
    """Puts the second copy of the opening checkpoint and its segments."""
    item = parse_log_object(encoded.name)
    assert item is not None
    copy_checkpoint(log, item, exclusive=exclusive)
    key = mirror_key(log.folder + encoded.name)
    if log.store.get(key) != encoded.body:
        raise CorruptObject(f"{key} is another object than the log has", key=key)


def _put_once(store: Store, key: str, body: bytes, *, exclusive: bool) -> bool:
    """Puts an object where there is none; returns whether it has these bytes now.

    Requests: 1 PUT; 1 GET if it is there, or without put-if-absent.
    """
    try:
        if exclusive:
            store.put(key, body, if_absent=True)
            return True
        there = store.get(key)
    except ObjectExists:
        return store.get(key) == body
    except ObjectNotFound:
        store.put(key, body)
        return True
    return there == body


def _read_back(log: LogReader, plan: RebuildPlan, state: State) -> None:
    """Checks that the new incarnation reads as it was built."""
    found = log.load(state.revision, incarnation=plan.incarnation)
    is_same = found.digest == state.digest and found.log == state.log
    if not is_same or live_files_of(found) != live_files_of(state):
        raise CorruptObject(
            f"What was written of the new log of {plan.writer}/{plan.database} reads otherwise",
            key=log.folder,
            hint="The old log is still beside it. Check the store with `lakelog doctor`",
        )
