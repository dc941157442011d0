"""Whether checkpoints say what the log says: recomputed from the base below, for `doctor`.

By itself a checkpoint that lies looks sound. While the log below it is there, it can be replayed
without it, and held against it in everything.

Source: docs/protocol.md, section 2.8; docs/maintenance.md.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ...errors import LakelogError, ObjectNotFound
from ..format.objects import decode_transaction
from ..log.replay import apply
from ..log.state import empty_state
from .findings import Finding
from .statistics_differences import all_differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..log.listing import Listing
    from ..log.state import State
    from .log_reader import LogReader

_BEGINNING: Final = -1
_QUICK_REVISIONS: Final = 1_000
_QUICK_FILES: Final = 100_000
_AT_ONCE: Final = 256
_TO_DO: Final = (
    "Prune refuses it. While the log below it is there, that is right: move the checkpoint "
    "elsewhere, and the later ones, which may have taken it over; after the next commit `lakelog "
    "checkpoint` writes a new one"
)


def recompute_checkpoints(
    log: LogReader, listing: Listing, *, deep: bool, step: Callable[[int], None]
) -> list[Finding]:
    """Checkpoints that say something else than the log below them, and such as can't be used.

    Args:
        deep: Each checkpoint, from the one below it; else the newest one, from as far below it as
            takes at most 1,000 transactions, if it has at most 100,000 files.
        step: Told of so many transactions more that were read.
    Requests: for each checkpoint that is compared 1 GET for it and each of its pieces, and 1 for
        each transaction from its base up to it; those of a base likewise.
    """
    found: list[Finding] = []
    held: State | None = None  # of the checkpoint compared last: the base of the next
    for below, above in _pairs(listing, deep=deep):
        if held is None or held.revision != below:
            held = _base(log, listing, below, found)
        checkpoint = _base(log, listing, above, found)
        small = checkpoint is not None and (deep or _count(checkpoint) <= _QUICK_FILES)
        if held is not None and checkpoint is not None and small:
            replayed = _replay(log, listing, held, above, step)
            if replayed is not None:
                found += _compare(replayed, checkpoint, listing, below)
        held = checkpoint
    return found


def _pairs(listing: Listing, *, deep: bool) -> Iterator[tuple[int, int]]:
    """Revisions of checkpoints, each with the base from which it is recomputed; ascending."""
    revisions = sorted(listing.checkpoints)
    if not revisions:
        return
    if deep:
        first = [_BEGINNING] if listing.run_start(revisions[0]) == 0 else []
        for below, above in pairwise([*first, *revisions]):
            if listing.run_start(above) <= below + 1:
                yield below, above
        return
    newest = revisions[-1]
    start = listing.run_start(newest)
    bases = [c for c in revisions[:-1] if c >= start - 1]
    bases += [_BEGINNING] if start == 0 else []
    near = [base for base in bases if newest - base <= _QUICK_REVISIONS]
    if near:
        yield min(near), newest


def _base(log: LogReader, listing: Listing, revision: int, found: list[Finding]) -> State | None:
    """The state of a checkpoint, or that before the first revision, with all its parts read; None
    if it can't be used, which is told."""
    if revision == _BEGINNING:
        return _whole(empty_state(log.writer, log.database))
    item = listing.checkpoints[revision][0]
    try:
        return _whole(log.checkpoint_state(item))
    except ObjectNotFound:
        return None  # pruned since it was listed
    except LakelogError as error:
        problem = Finding("problem", error.message, error.key or listing.key(item), error.hint)
        if problem not in found:
            found.append(problem)
        return None


def _whole(state: State) -> State:
    _ = state.files, state.schemas, state.definitions, state.deletes
    _ = state.applications, state.history.table()
    return state


def _count(state: State) -> int:
    return 0 if state.base is None else int(state.base.message.counts.files)


def _replay(
    log: LogReader, listing: Listing, base: State, goal: int, step: Callable[[int], None]
) -> State | None:
    """The state of a revision; None if the log doesn't lead there, which is told elsewhere."""
    state = base.copy()
    items = [listing.transactions[r][0] for r in range(base.revision + 1, goal + 1)]
    for start in range(0, len(items), _AT_ONCE):
        piece = items[start : start + _AT_ONCE]
        keys = [listing.key(item) for item in piece]
        try:
            for key, body in zip(keys, log.store.get_many(keys), strict=True):
                if body is None:
                    return None
                apply(state, decode_transaction(body, key))
        except LakelogError:
            return None
        state.tail.clear()  # all parts are read: they have taken it in
        step(len(piece))
    return state


def _compare(replayed: State, checkpoint: State, listing: Listing, below: int) -> list[Finding]:
    key = listing.key(listing.checkpoints[checkpoint.revision][0])
    try:
        different = all_differences(replayed, checkpoint)
    except LakelogError as error:
        return [Finding("problem", error.message, error.key or key, error.hint)]
    if not different:
        return []
    since = "its beginning" if below == _BEGINNING else f"the checkpoint of revision {below}"
    what = (
        f"The checkpoint of revision {checkpoint.revision} doesn't hold what the log from {since} "
        f"on says: {', '.join(different)}"
    )
    return [Finding("problem", what, key, _TO_DO)]
