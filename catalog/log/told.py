"""Whether footers of data files tell the name of the next revision. Pure.

A rebuild of a lost log takes every name that a living committer may still use, as far as footers
tell: they carry the slot seed of who wrote them, from which names follow. A name that none tells
can't be taken, so whoever commits under it looks at the log once more before it believes a success.

Source: docs/format.md, sections 10 and 10.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..format.segments import FILES
from .validate import is_own_file

if TYPE_CHECKING:
    from ..format.objects import DecodedTransaction
    from .state import State

AHEAD: Final = 16  # revisions above a footer's base whose names a rebuild takes, for each seed
_SURE: Final = AHEAD // 2  # a transaction may have been begun some revisions before its own


def is_told(state: State) -> bool:
    """Whether a footer tells the name that the head of a state has promised.

    Where that isn't known, as with a checkpoint at the head, it is taken to be untold.
    """
    if state.revision < 0:
        return True  # it follows from the names of writer and database
    seed = b""
    for transaction in reversed(state.tail):
        message = transaction.message
        if message.revision < state.revision - _SURE:
            break
        seed = seed or message.commit.slot_seed
        if message.commit.slot_seed == seed and has_own_files(transaction):
            return True
    return False


def has_own_files(transaction: DecodedTransaction) -> bool:
    """Whether it adds a file that was written for it: such a file has a footer."""
    own = {member.transaction_id for member in transaction.message.commit.members}
    for place, action in enumerate(transaction.message.actions):
        kind = action.WhichOneof("kind")
        if kind == "add" and is_own_file(action.add.path, own):
            return True
        if kind == "add_batch" and any(
            is_own_file(piece.segment.first_path, own)
            for piece in transaction.batches.get(place, ())
            if piece.kind == FILES
        ):
            return True
    return False
