"""What the other logs of a writer's database say: whether they give a table its key, and the tables
of the cut that they make with this one.

Source: docs/changing.md, "Keys".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import LakelogError
from ..format.names import is_id
from ..parallel import parallel
from ..read.log_reader import LogReader

if TYPE_CHECKING:
    from ..log.state import State
    from .session import Session


def other_states(session: Session) -> list[State | LakelogError]:
    """The newest states of the other logs of a writer's database; of one that can't be read, why.

    Raises:
        StorageError: The logs can't be listed.
    Requests: those of `Catalog.snapshot`, but for this log.
    """

    def newest(writer: str) -> State | LakelogError | None:
        log = LogReader(session.store, writer, session.database, session._ambient)
        try:
            listing = log.names_for()
            if listing.head < 0 and not listing.others:
                return None
            return log.load(listing=listing)
        except LakelogError as error:
            return error

    names = [name for name in session.store.list_folders("") if is_id(name)]
    others = [name for name in names if name != session.writer_id]
    return [item for item in parallel(newest, others) if item is not None]


def readable_states(session: Session) -> list[State]:
    """The same states.

    Raises:
        LakelogError: One can't be read.
    """
    states = []
    for item in other_states(session):
        if isinstance(item, LakelogError):
            raise item
        states.append(item)
    return states


def others_give_key(session: Session, table: str) -> bool:
    """Whether another log of the database gives a table a key; also if one can't be read.

    Requests: those of `other_states`.
    """
    states = other_states(session)
    try:
        found = [None if isinstance(s, LakelogError) else s.definitions.of(table) for s in states]
    except LakelogError:
        return True
    unreadable = any(isinstance(item, LakelogError) for item in states)
    return unreadable or any(each is not None and each.key for each in found)
