"""Objects of row deletes, as a transaction writes them: from bitmaps to bytes and actions.

Source: docs/format.md, section 5.7.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from ..format.deletes import encode_deletes
from ..format.names import base_folder, deletes_path
from ..wire import lakelog_transaction_pb2 as wire
from .file_footer import footer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..format.footer import BaseRevision
    from ..log.build import Intent
    from .session import Session

_IN_ONE: Final = 4_096  # bitmaps in one object
_BYTES_IN_ONE: Final = 32 << 20


class DeletesObjects(NamedTuple):
    """What is to be put, and to be committed after that.

    Attributes:
        bodies: By key the bytes of each object.
        actions: That point to them.
    """

    bodies: list[tuple[str, bytes]]
    actions: list[wire.Action]


def deletes_objects(
    session: Session,
    intent: Intent,
    base: BaseRevision,
    first: int,
    bitmaps: Sequence[tuple[wire.RowDeletes, bytes]],
) -> DeletesObjects:
    """Bitmaps of files of one table as objects. Their messages learn where they lie.

    Args:
        base: That the transaction was begun on.
        first: The number of the first object among the files of the transaction.
    """
    table = bitmaps[0][0].table
    meta = footer_of(session, intent, base, table, pa.schema([]), session.clock())
    meta = replace(meta, operation=intent.operation or "delete")
    folder = base_folder(session.writer_id, session.database)
    found = DeletesObjects([], [])
    for number, some in enumerate(_in_parts(bitmaps), start=first):
        path = deletes_path(table, intent.epoch, intent.transaction_id, number)
        found.bodies.append((folder + path, encode_deletes(replace(meta, number=number), some)))
        for item, _ in some:
            item.object = path
            found.actions.append(wire.Action(row_deletes=item))
    return found


def _in_parts(
    bitmaps: Iterable[tuple[wire.RowDeletes, bytes]],
) -> Iterator[list[tuple[wire.RowDeletes, bytes]]]:
    """What goes into one object."""
    some: list[tuple[wire.RowDeletes, bytes]] = []
    size = 0
    for item, bitmap in bitmaps:
        if some and (len(some) >= _IN_ONE or size + len(bitmap) > _BYTES_IN_ONE):
            yield some
            some, size = [], 0
        some.append((item, bitmap))
        size += len(bitmap)
    if some:
        yield some
