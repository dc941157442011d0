"""Whether a log belongs to the data files beside it.

A log that was restored to the wrong place, or a checkpoint of another writer's copied into it, is
sound in itself; but then the files that it calls live are not here, and those that are here look
like orphans. gc deletes nothing by such a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..catalog.format.columns import column
from ..catalog.format.names import IN_PLACE, base_folder
from ..errors import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..catalog.log.state import State
    from .context import MaintenanceContext

_LOOKED_AT: Final = 20


def refuse_foreign_log(context: MaintenanceContext, state: State, listed: Sequence[str]) -> None:
    """Raise if files that the newest state calls live are not in the store.

    Args:
        listed: Paths of the data files that were listed before the state was read; a file that was
            committed in between is looked at by itself.
    Raises:
        ObjectNotFound: Names one of them.
    Requests: 1 HEAD for each live file that was not listed, 20 at most.
    """
    there = column(listed, pa.string())
    missing: list[str] = []
    for paths in state.files.paths():
        own = paths.filter(pc.invert(pc.starts_with(paths, IN_PLACE)))  # others say nothing of this
        missing += own.filter(pc.invert(pc.is_in(own, there))).to_pylist()
    base = base_folder(context.writer, context.database)
    for path in missing[:_LOOKED_AT]:
        try:
            context.store.head(base + path)
        except ObjectNotFound as error:
            raise ObjectNotFound(
                f"The log of {context.writer}/{context.database} calls files live that are not "
                f"there, {path} for one",
                key=base + path,
                hint="Nothing was deleted. If this log was restored or copied, is it the one of "
                "these data files? If it is, restore the missing files, or take them out of their "
                "table with `tx.remove`; then run gc again",
            ) from error
