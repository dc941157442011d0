"""Deletes of rows in the rebuilt log: each in the transaction that it was of, where that is there,
and what is left of them at the end, for the very files that they hold of. Pure, but for the pieces
of the state.

Source: docs/format.md, sections 5.6, 5.7, 8.1 and 10.6.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..catalog.format.deletes import ROW_DELETES, TOMBSTONES
from ..catalog.log.build import require_actions
from .carried_rows import RowsPlaced
from .carried_tombstones import TombstonesPlaced
from .placed import Placed
from .values import derived_id

if TYPE_CHECKING:
    from .moments import Moments

_BYTES_IN_ONE: Final = 2 << 20
_WHY: Final = "rows that were deleted, of files that stand otherwise in the new log"


def place_deletes(moments: Moments, rebuild_id: bytes) -> list[str]:
    """Put all deletes into the transactions of `moments.result`, and more of these at its end.

    Returns:
        What is in doubt, in words.
    """
    result, placed = moments.result, Placed()
    TombstonesPlaced(moments, placed).place()
    RowsPlaced(moments, placed).place()
    required = tuple(
        action.SerializeToString() for action in require_actions([TOMBSTONES, ROW_DELETES])
    )
    for revision in sorted(placed.at):
        item = result.transactions[revision]
        actions = (*required, *placed.at[revision])
        result.transactions[revision] = replace(item, deletes=actions)
        required = ()
    chunk: list[bytes] = []
    for action in placed.rest:
        if chunk and sum(map(len, chunk)) + len(action) > _BYTES_IN_ONE:
            _append(moments, rebuild_id, (*required, *chunk))
            chunk, required = [], ()
        chunk.append(action)
    if chunk:
        _append(moments, rebuild_id, (*required, *chunk))
    return placed.doubts


def _append(moments: Moments, rebuild_id: bytes, deletes: tuple[bytes, ...]) -> None:
    result, known = moments.result, moments.known
    result.append(
        transaction_id=derived_id(rebuild_id, f"deletes {len(result.transactions)}"),
        proof="proven",
        operation="maintenance",
        not_before_us=0 if known is None else known.latest_us,
        files=(),
        why=_WHY,
        deletes=deletes,
    )
