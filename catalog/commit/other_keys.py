"""Whether readers resolve the keys of a table, as far as other writers' logs say: this one's may
say nothing of it.

Source: docs/changing.md, "Keys".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import LakelogError
from ..format.names import is_id
from ..parallel import parallel
from ..read.log_reader import LogReader

if TYPE_CHECKING:
    from .session import Session


def has_key_elsewhere(session: Session, table: str) -> bool:
    """Whether the newest state of another log of the database gives a table a key; also if one
    can't be read.

    Raises:
        StorageError: The logs can't be listed.
    Requests: Those of `Catalog.snapshot`, but for this log.
    """

    def says_so(writer: str) -> bool:
        log = LogReader(session.store, writer, session.database, session._ambient)
        try:
            listing = log.names_for()
            if listing.head < 0 and not listing.others:
                return False
            found = log.load(listing=listing).definitions.of(table)
        except LakelogError:
            return True
        return found is not None and bool(found.key)

    names = [name for name in session.store.list_folders("") if is_id(name)]
    return any(parallel(says_so, (name for name in names if name != session.writer_id)))
