"""Proof that a log can begin with a checkpoint: read back, matched, and followed to the head.

The checkpoint is about to be the only witness of what lies before it. So, while the older log is
still there, it is replayed from its very beginning and compared. A log that was always pruned so
has been verified without a break since revision 0.

Source: docs/maintenance.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalog.format.names import segments_folder
from ..catalog.log.checkpoint_files import decode_describing
from ..catalog.log.merge import DESCRIBING
from ..catalog.read.statistics_differences import all_differences
from ..errors import CorruptError, CorruptObject, UnsupportedFeature
from .ends import check_checkpoints
from .log_names import check_names
from .other_histories import refuse_other_histories
from .retained import SET_ASIDE, digests_of, read_base, refuse_untouchable, replay

if TYPE_CHECKING:
    from ..catalog.format.names import LogObject
    from ..catalog.format.pieces import Piece
    from ..catalog.log.listing import Listing
    from ..catalog.log.state import State
    from .context import MaintenanceContext
    from .log_names import LogNames

_PIECES_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found.

    Attributes:
        state: At the head.
        digests: Hex digests of the transactions, by revision, as far as the history goes back.
        needed: Names of all segments that checkpoints that stay refer to; None if one that may stay
            can't be read.
        note: What could not be compared, or empty.
    """

    state: State
    digests: dict[int, str]
    needed: set[str] | None
    note: str


def prove(context: MaintenanceContext, names: LogNames, first: LogObject) -> Proof:
    """Check that all from a checkpoint on can be read without anything before it.

    Args:
        first: The checkpoint; its transaction must be listed.
    Raises:
        ForkError, MissingTransaction, CorruptError: It can't be, or is not the same.
        ObjectNotFound: Something vanished since the listing.
    Requests: 1 GET for each listed transaction from the beginning of the log and for each listed
        checkpoint, 2 for the checkpoint, 1 for each of its segments and for each later one; where
        segments may go, 1 for each transaction that stays and has no checkpoint.
    """
    listing = names.listing
    check_names(listing)
    state = read_base(context, listing, first)
    notes = [_unusable_statistics(state), _compare_with_log(context, listing, first, state)]
    replay(context, listing, state, listing.head)
    refuse_untouchable(state)
    refuse_other_histories(context, listing, state)
    digests = digests_of(state)
    needed: set[str] = set()
    for revision in sorted(c for c in listing.checkpoints if c >= first.revision):
        item = listing.checkpoints[revision][0]
        needed |= _check_checkpoint(context, names, item)
    if names.segments.keys() - needed:
        check_checkpoints(context, listing, first.revision)
    kept: set[str] | None = None
    try:
        kept = needed | _segments_of_others(context, listing)
    except CorruptError as error:
        notes.append(f"No segment goes, since one may be needed: {error.message}")
    return Proof(state, digests, kept, ". ".join(note for note in notes if note))


def _segments_of_others(context: MaintenanceContext, listing: Listing) -> set[str]:
    """Names of the segments that checkpoints of other incarnations refer to."""
    found: set[str] = set()
    for item in listing.others:
        if item.kind == "checkpoint":
            found |= _segments(context.log.checkpoint_state(item))
    return found


def _unusable_statistics(state: State) -> str:
    """Read back what describes files, too: `read_base` has read all else. What of it can't be used
    is said and stops nothing: it costs skipping and never rows, and whatever reads the log from
    here on takes it as unknown, whether the log before it is there or not."""
    pieces = [piece for piece in state.pieces if piece.kind in DESCRIBING]
    bad: list[str] = []
    for low in range(0, len(pieces), _PIECES_AT_ONCE):
        batch = pieces[low : low + _PIECES_AT_ONCE]
        try:
            bodies = state.bytes_of(batch)
            for piece, data in zip(batch, bodies, strict=True):
                decode_describing(data, piece)
        except CorruptError:
            bad += [piece.where for piece in batch if not _is_usable(state, piece)]
    if not bad:
        return ""
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    return (
        f"Statistics can't be used: {bad[0]}{more}. No row is lost, but queries skip less; a "
        "`lakelog rebuild` makes them anew from the data files"
    )


def _is_usable(state: State, piece: Piece) -> bool:
    try:
        decode_describing(state.bytes_of([piece])[0], piece)
    except CorruptError:
        return False
    return True


def _compare_with_log(
    context: MaintenanceContext, listing: Listing, first: LogObject, state: State
) -> str:
    """Replay what lies before the checkpoint and compare; what prevented it, or nothing."""
    goal = first.revision
    start = listing.run_start(goal)
    bases = [c for c in listing.checkpoints if start - 1 <= c < goal]
    if start > 0 and not bases:
        # A log that begins here has nothing to compare with; leftovers of a prune are no log.
        return ""
    base = None if start == 0 else listing.checkpoints[min(bases)][0]
    try:
        replayed = replay(context, listing, read_base(context, listing, base), goal)
    except UnsupportedFeature:
        raise
    except CorruptError as error:
        return (
            f"The log before revision {goal} is damaged ({error.message}), so its checkpoint could "
            "not be compared with it. `lakelog doctor` names what is damaged there"
        )
    different = all_differences(replayed, state)
    if different:
        raise CorruptObject(
            f"The checkpoint of revision {goal} doesn't hold what the log before it says: "
            f"{', '.join(different)}",
            key=listing.key(first),
            hint="Nothing was deleted. Keep both, and plan `lakelog rebuild`: its plan shows "
            "what the data files say",
        )
    return ""


def _check_checkpoint(context: MaintenanceContext, names: LogNames, item: LogObject) -> set[str]:
    """The segments that a retained checkpoint refers to; all of them must be there."""
    key = names.listing.key(item)
    state = context.log.checkpoint_state(item)
    segments = _segments(state)
    costs_rows = {piece.name for piece in state.pieces if piece.kind not in DESCRIBING}
    for name in sorted((segments & costs_rows) - names.segments.keys()):
        raise CorruptObject(
            f"{key} refers to {name}, which is not there",
            key=segments_folder(context.writer, context.database) + name,
            hint=f"Nothing was deleted. {SET_ASIDE}",
        )
    return segments


def _segments(state: State) -> set[str]:
    """Names of the segment objects that a checkpoint refers to."""
    assert state.base is not None
    pieces = (state.base.references, *state.pieces)
    return {piece.name for piece in pieces if piece.name}
