"""Row deletes of the new log whose object is gone or damaged: rows of those files can't be read.
Pure.

Source: docs/format.md, section 5.7; docs/maintenance.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.wire import lakelog_transaction_pb2 as wire
from .evidence import of_kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from .assemble import Assembled
    from .values import FileName


def lost_bitmaps(result: Assembled, there: Collection[str]) -> list[str]:
    """What is lost, in words: each object with the file and how many of its rows it named.

    Args:
        there: Paths of the objects that can be read.
    """
    holding: dict[FileName, list[wire.RowDeletes]] = {}
    for transaction in result.transactions:
        for item in of_kind(map(wire.Action.FromString, transaction.deletes), "row_deletes"):
            name = (item.table, item.path)
            if name not in result.live or transaction.revision <= result.lives[name][-1][0]:
                continue
            if item.covers_below:
                holding[name] = []
            holding.setdefault(name, []).append(item)
    return [
        f"{item.object} is gone or damaged, which named {item.cardinality:,} deleted rows of "
        f"{item.path} in table {item.table!r}: rows of that file can't be read until it is "
        "restored from a copy"
        for _, items in sorted(holding.items())
        for item in items
        if item.object not in there
    ]
