"""The state that a rebuild believes: replayed from as far below as the log goes, not from the
newest checkpoint. A reader believes a checkpoint that is sound; one that lies is found by the
transactions below it, while they are there.

Source: docs/format.md, sections 4.3 and 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..catalog.format.objects import decode_transaction
from ..catalog.log.differences import differences
from ..catalog.log.listing import plan_read
from ..catalog.log.replay import apply
from ..errors import CorruptError, ForkError, NotFoundError, UnsupportedFeature

if TYPE_CHECKING:
    from ..catalog.format.names import LogObject
    from ..catalog.log.listing import Listing
    from ..catalog.log.state import State
    from ..catalog.read.log_reader import LogReader

_NAMED: Final = 20
_AT_ONCE: Final = 256


def believed_state(
    log: LogReader,
    listing: Listing,
    incarnation: int,
    target: int | None,
    doubts: list[str],
) -> State:
    """The state at a revision, from the lowest base from which it can be replayed.

    Args:
        target: The revision; None for the newest in the listing.
        doubts: Takes what a checkpoint says otherwise, in words.
    Raises:
        ForkError, NotFoundError, CorruptError, UnsupportedFeature: As `LogReader.load`.
    Requests: as `LogReader.load`; where that begins with a checkpoint that isn't the lowest base, 1
        GET for each transaction above the lowest, and for each piece of both.
    """
    state = log.load(target, listing, incarnation)
    if state.base is None:
        return state
    for base in reversed(plan_read(listing, state.revision).bases):
        if base is not None and base.revision >= state.base.message.revision:
            break  # nothing below it can be read: it is all that there is
        replayed = _replayed(log, listing, base, state.revision)
        if replayed is not None:
            doubt = _doubt(replayed, state, base)
            if doubt and doubt not in doubts:
                doubts.append(doubt)
            return replayed
    return state


def _replayed(
    log: LogReader, listing: Listing, base: LogObject | None, target: int
) -> State | None:
    """The state from a base, if all of it can be read."""
    try:
        tail = plan_read(listing, target).tail_after(base)
        state = log.from_base(base, (), listing, final=True)
        _read_all(state)
        for low in range(0, len(tail), _AT_ONCE):
            keys = [listing.key(item) for item in tail[low : low + _AT_ONCE]]
            for key, body in zip(keys, log.store.get_many(keys), strict=True):
                if body is None:
                    return None
                apply(state, decode_transaction(body, key))
            del state.tail[:-1]  # all parts are read: they have taken it in
        _read_all(state)
    except UnsupportedFeature:
        raise
    except (CorruptError, ForkError, NotFoundError):
        return None
    return state


def _read_all(state: State) -> None:
    """Read every part, so that nothing comes to light later."""
    _ = state.schemas, state.definitions, state.applications.rows()
    _ = state.history.table(), state.deletes
    for table in state.files.tables():
        state.files.check(table)
    for error in (*state.files.broken.values(), *(error for _, error in state.files.broken_ranges)):
        raise error


def _doubt(replayed: State, state: State, base: LogObject | None) -> str:
    """What the checkpoint that a reader begins with says otherwise than the log; or nothing."""
    assert state.base is not None
    try:
        different = differences(replayed, state)
    except CorruptError:
        return ""  # damaged: it is not believed either
    if not different:
        return ""
    ours, theirs = _paths(replayed), _paths(state)
    files = [f"{path} is not in it" for path in sorted(ours - theirs)]
    files += [f"{path} is in it" for path in sorted(theirs - ours)]
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    named = f" ({', '.join(files[:_NAMED])}{more})" if files else ""
    from_ = "revision 0" if base is None else f"the checkpoint of revision {base.revision}"
    return (
        f"Checkpoint {state.base.key} says otherwise than the log replayed from {from_}: "
        f"{', '.join(different)}{named}. It is not believed"
    )


def _paths(state: State) -> set[str]:
    return {path for paths in state.files.paths() for path in paths.to_pylist()}
