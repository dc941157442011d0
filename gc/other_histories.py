"""Whether a log has lost a transaction and gone on without it: its name is free then, and a process
that was at work may commit under it. A checkpoint that the lost one had is the proof.

Source: docs/maintenance.md; docs/format.md, section 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ..catalog.format import compute as pc
from ..catalog.format.columns import column
from ..catalog.format.objects import decode_checkpoint
from ..errors import CorruptObject, LostTail, UnsupportedFeature

if TYPE_CHECKING:
    from ..catalog.log.listing import Listing
    from ..catalog.log.state import State
    from .context import MaintenanceContext

_READ_AT_ONCE: Final = 64


def refuse_other_histories(context: MaintenanceContext, listing: Listing, state: State) -> None:
    """Refuse a log that has a checkpoint of another transaction than stands at its revision.

    Checkpoints that are damaged, or lie below the history, tell nothing.

    Args:
        state: At the head.
    Raises:
        LostTail: Names the checkpoint.
    Requests: 1 GET for each checkpoint.
    """
    revisions = [revision for revision in sorted(listing.checkpoints) if revision <= state.revision]
    rows = state.history.table().select(["revision", "digest"])
    rows = rows.filter(pc.is_in(rows.column("revision"), column(revisions, pa.int64())))
    digests = dict(zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True))
    items = [item for revision in digests for item in listing.checkpoints[revision]]
    for low in range(0, len(items), _READ_AT_ONCE):
        keys = [listing.key(item) for item in items[low : low + _READ_AT_ONCE]]
        for key, body in zip(keys, context.store.get_many(keys), strict=True):
            try:
                found = None if body is None else decode_checkpoint(body, key)
            except UnsupportedFeature:
                raise
            except CorruptObject:
                continue
            if found is not None and found.message.digest != digests[found.message.revision]:
                raise other_history(context, key)


def other_history(context: MaintenanceContext, key: str) -> LostTail:
    """The error about such a checkpoint."""
    return LostTail(
        f"Checkpoint {key} is not of the transaction that stands at its revision: the log has lost "
        "the one that stood there, and went on in its place",
        key=key,
        hint=f"Nothing was deleted. Plan `lakelog rebuild URL {context.database} --writer "
        f"{context.writer}`: it names what was committed and is in doubt",
    )
