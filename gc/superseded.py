"""When the epoch of a log's head began, by the store's clock.

Source: docs/format.md, section 10.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..catalog.format.columns import numbers
from ..catalog.format.names import LogObject
from ..errors import ObjectNotFound

if TYPE_CHECKING:
    import datetime as dt

    from ..catalog.log.state import State
    from .context import MaintenanceContext


def superseded_at(context: MaintenanceContext, state: State) -> dt.datetime | None:
    """When the first transaction of the head's epoch was put: what is older and of a lower epoch
    was there before that epoch was superseded.

    Returns:
        None if nobody knows any more: that transaction was pruned, or is that of revision 0.
    Requests: 1 HEAD.
    """
    rows = state.history.table()
    first = int(np.argmax(numbers(rows["epoch"]) == state.epoch))
    if first == 0:  # of what came before the history says nothing
        return None
    assert state.log is not None
    revision, uuid = rows["revision"][first].as_py(), rows["uuid"][first].as_py()
    name = LogObject(state.log.incarnation, revision, uuid.hex()[:8], "transaction").name
    try:
        return context.store.head(context.log.folder + name).modified_at
    except ObjectNotFound:
        return None
