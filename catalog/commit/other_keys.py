"""Whether readers resolve the keys of a table, as far as other writers' logs say: this one's may
say nothing of it.

Source: docs/changing.md, "Keys".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import LakelogError
from ..parallel import parallel

if TYPE_CHECKING:
    from ..log.listing import Listing
    from .session import Session


def has_key_elsewhere(session: Session, table: str) -> bool:
    """Whether the newest state of another log of the database gives a table a key; also if one
    can't be read.

    Requests: Those of `Catalog.snapshot`.
    """
    from ..catalog import Catalog

    catalog = Catalog(session.store, ambient=session._ambient)

    def says_so(listing: Listing) -> bool:
        if listing.writer == session.writer_id:
            return False
        try:
            found = catalog._log(listing).load(listing=listing).definitions.of(table)
        except LakelogError:
            return True
        return found is not None and bool(found.key)

    try:
        return any(parallel(says_so, catalog._listings(session.database)))
    except LakelogError:
        return True
