"""Writes a rebuilt log beside the old one. Nothing is overwritten, and nothing deleted.

The order of requests, and why:

1. Log and footers are read as planning has read them, and must give the very same plan. The opening
   state is built in memory: what can't be built is known before anything is touched.
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

import contextlib
import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..catalog.commit.checkpointer import put_segments
from ..catalog.commit.mirror import Mirror, copy_checkpoint
from ..catalog.format.names import (
    LogObject,
    mirror_key,
    mirror_log_folder,
    parse_log_object,
)
from ..catalog.format.objects import StandingSeal, encode_seal, read_seal
from ..catalog.log.checkpoint import encode_state
from ..catalog.parallel import AT_ONCE, each_in_parallel, parallel
from ..catalog.read.log_reader import LogReader
from ..errors import (
    CorruptError,
    LostTail,
    ObjectExists,
    PlanOutdated,
    StorageError,
    UsageError,
)
from ..plans import check_source, open_source
from ..store import probe
from .build import opening_state
from .plan import survey
from .scan import data_digest, list_data

if TYPE_CHECKING:
    from ..catalog.ambient import Ambient
    from ..catalog.catalog import Catalog
    from ..catalog.log.checkpoint import EncodedCheckpoint
    from ..catalog.parallel import Engine
    from ..plans import Progress, Source
    from ..store import Store
    from .plan import RebuildPlan, Survey


@dataclass(frozen=True, slots=True)
class RebuildInfo:
    """A rebuilt log in the store.

    Attributes:
        incarnation, revision: Of its opening checkpoint.
        files, rows, size_bytes: Live now.
        checkpoint_key: The opening checkpoint, which switched the log over.
        seal_key: The seal that ended the incarnation before.
    """

    incarnation: int
    revision: int
    files: int
    rows: int
    size_bytes: int
    checkpoint_key: str
    seal_key: str


def execute_rebuild(
    source: Catalog | Store,
    plan: RebuildPlan,
    *,
    engine: Engine | None = None,
    ambient: Ambient | None = None,
    progress: Progress | None = None,
) -> RebuildInfo:
    """Makes a plan again, seals the log, and opens its next incarnation.

    Args:
        source: The catalog that the plan was made for, or its store.
        engine: Who reads the footers; None: threads of this process.
        ambient: Clock and identities; those of the catalog if not given.
        progress: Called with (done, total, what), from this thread.
    Raises:
        UsageError: Not a plan for this.
        PlanOutdated: The data files or the log changed since, or another rebuild was first; plan
            again.
        UnsupportedFeature: The catalog uses what this lakelog doesn't know.
        StorageError: The store failed on the way: execute again, or plan again.
    Requests: those of `store.probe`, those of planning, and 4 LIST; 1 PUT for each transaction that
        has no copy; 2 PUT for each seal, each new segment and the checkpoint; 2 GET for each of
        these segments.
    """
    place = open_source(source, ambient)
    store, ambient = place.store, place.ambient
    check_source(plan, "rebuild", store)
    exclusive = probe(
        store, f"{plan.writer}/", new_name=lambda: ambient.new_id().hex()
    ).put_if_absent
    at_once = AT_ONCE if ambient.in_background else 1
    log = LogReader(store, plan.writer, plan.database, ambient)
    found = _made_again(place, plan, engine, progress)
    state = opening_state(found)
    encoded = encode_state(state)
    _refuse_other_opening(log, plan, encoded)
    _complete_mirror(log, found, exclusive=exclusive)
    _seal(log, found, at_once, exclusive=exclusive)
    put_segments(log, encoded, exclusive=False)
    pieces = [[piece] for piece in encoded.pieces if piece.inline is None]
    for _ in each_in_parallel(partial(log.read_pieces, log=state.log), pieces, at_once=at_once):
        pass  # they are let go
    if data_digest(list_data(store, plan.writer, plan.database)) != found.scan.digest:
        raise _outdated(plan, "its data files changed")
    _refuse_other_opening(log, plan, encoded)
    key = log.folder + encoded.name
    if _put_once(store, key, encoded.body, exclusive=exclusive) != encoded.body:
        raise _outdated(plan, f"another one has put {key}")
    item = LogObject(plan.incarnation, state.revision, state.uuid[:4].hex(), "checkpoint")
    copy_checkpoint(log, item, exclusive=exclusive)
    counts = encoded.decoded.message.counts
    return RebuildInfo(
        incarnation=plan.incarnation,
        revision=plan.revision,
        files=counts.files,
        rows=counts.rows,
        size_bytes=counts.bytes,
        checkpoint_key=key,
        seal_key=log.folder + seal_name(found.seals[0]),
    )


# --- Before anything is written -------------------------------------------------------------------


def _made_again(
    place: Source, plan: RebuildPlan, engine: Engine | None, progress: Progress | None
) -> Survey:
    """Plans once more: it must be the same plan, of a log that nobody else has sealed."""
    names = plan.writer, plan.database, plan.exclude, plan.include
    try:
        found = survey(place, *names, engine=engine, progress=progress, again=plan)
    except UsageError as error:  # an excluded transaction is gone
        raise _outdated(plan, "the list of unproven transactions changed") from error
    # It may go on with the seals of another plan, whose names differ.
    if found.plan != plan or any(s.rebuild_id.hex() != plan.rebuild_id for s in found.old.seals):
        raise _outdated(plan, "the log or its data changed")
    return found


def _outdated(plan: RebuildPlan, why: str) -> PlanOutdated:
    where = f"{plan.writer}/{plan.database}"
    return PlanOutdated(
        f"The rebuild of {where} can't go on as it was planned: {why}",
        key=where,
        hint="Stop what writes there, look at what is there now, and plan again if you want to",
    )


def _refuse_other_opening(log: LogReader, plan: RebuildPlan, encoded: EncodedCheckpoint) -> None:
    """Refuses a plan whose incarnation, or a higher one, was begun by another rebuild."""
    for folder in (log.folder, mirror_log_folder(plan.writer, plan.database)):
        for info in log.store.list(folder, first_page=1):
            item = parse_log_object(info.key[len(folder) :])
            if item is not None and item.incarnation < plan.incarnation:
                break
            if item is not None and item.name != encoded.name:
                raise _outdated(plan, f"another one has put {info.key}")


# --- The seals ------------------------------------------------------------------------------------


def _complete_mirror(log: LogReader, found: Survey, *, exclusive: bool) -> None:
    """Copies the newest transactions of the present incarnation that have no copy: two, if their
    writer died. What is damaged has none to give.

    Requests: 2 LIST; 1 GET and 1 PUT for each.
    """
    present = found.plan.sealed
    copies, listing = log.copies(present), log.names(present)
    mirror = Mirror(log, exclusive=exclusive, in_background=False)
    with contextlib.suppress(LostTail), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            mirror.complete(listing, copies)
        except StorageError as error:
            if not isinstance(error.__cause__, CorruptError):
                raise


def _seal(log: LogReader, found: Survey, at_once: int, *, exclusive: bool) -> None:
    """Takes the names that a committer may still use in the present incarnation."""
    take = partial(_take, log, found, exclusive=exclusive)
    take(found.seals[0])
    if exclusive:  # else names are random, and nothing is promised
        parallel(take, found.seals[1:], at_once=at_once)


def _take(log: LogReader, found: Survey, seal: StandingSeal, *, exclusive: bool) -> None:
    """Puts a seal in both places, or copies that which another execution of this rebuild has put.

    Raises:
        PlanOutdated: Somebody has committed under this name, or another rebuild sealed it.
    """
    key, standing = log.folder + seal_name(seal), None
    head = found.old.successor if found.old.seal is None else None
    _, uuid, digest, at_us = head or (b"", bytes(16), bytes(32), 0)
    at_us = max(at_us + 1, int(found.plan.made_at.timestamp() * 1_000_000))
    body = encode_seal(seal, (uuid, digest), at_us)
    there = _put_once(log.store, key, body, exclusive=exclusive)
    with contextlib.suppress(CorruptError):
        standing = read_seal(there, key)
    if standing is None or standing.rebuild_id != seal.rebuild_id:
        raise _outdated(found.plan, f"{key} was taken first")
    _put_once(log.store, mirror_key(key), there, exclusive=exclusive)


def seal_name(seal: StandingSeal) -> str:
    """Returns the name of a seal, without its folder."""
    return LogObject(seal.log.incarnation, seal.revision, seal.uuid[:4].hex(), "transaction").name


def _put_once(store: Store, key: str, body: bytes, *, exclusive: bool) -> bytes:
    """Puts an object where there is none; returns the bytes that are there now.

    Requests: 1 GET and 1 PUT.
    """
    there = store.get_many([key])[0]
    if there is None:
        try:
            store.put(key, body, if_absent=exclusive)
        except ObjectExists:
            return store.get(key)
    return body if there is None else there
