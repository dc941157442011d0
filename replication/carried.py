"""One object on its way from one store to another: fetched, held against what the log says of it,
put if absent. What a thread does for each, or a task of an engine.

Source: docs/replication.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ..catalog.data.parquet import footer_digest
from ..catalog.format.deletes import bitmaps_of
from ..errors import ObjectExists, ObjectNotFound
from .checks import check_body, diverged
from .threads import Room

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store import ObjectInfo, Store
    from .needs import DataFile

_GUESS_BYTES: Final = 1 << 20  # of an object whose size the log doesn't say


@dataclass(slots=True)
class Carrier:
    """Carries objects, under the same keys.

    Args:
        source, destination: The stores.
        exclusive: Whether the destination has put-if-absent.
        old_s: A file that is there for so long may be about to be taken by gc.
        room: For the bytes that are in memory.
    """

    source: Store
    destination: Store
    exclusive: bool
    old_s: float
    room: Room = field(default_factory=Room)

    def bring(self, folder: str, look: bool, file: DataFile) -> tuple[int, bool]:
        """Bring one data file over; its size, and whether it was put: it may be there.

        Raises, Requests: As for `Mover.move_all`.
        """
        key = folder + file.path
        age_s = self._age_s(key, file) if look else None
        if age_s is not None and age_s < self.old_s:
            return max(0, file.size_bytes), False
        with self.room.held(_GUESS_BYTES if file.is_deletes else file.size_bytes):
            body = self.source.get(key)
            check_body(body, key, file)
            if age_s is None and self.put(key, body):
                return len(body), True
            if age_s is not None or self._is_old(key):
                self.destination.put(key, body)  # the same bytes, but young: so gc leaves the file
            return len(body), False

    def put(self, key: str, body: bytes) -> bool:
        """Put an object if none is there; whether it was put.

        Raises:
            ReplicaDiverged: Another one is there.
        Requests: 1 PUT; 1 GET more if it is there, or without put-if-absent.
        """
        if self.exclusive:
            try:
                self.destination.put(key, body, if_absent=True)
                return True
            except ObjectExists:
                found = self.destination.get(key)
        else:
            try:
                found = self.destination.get(key)
            except ObjectNotFound:
                self.destination.put(key, body)
                return True
        if found != body:
            raise diverged(f"{key} holds other bytes there than at the source", key)
        return False

    def _age_s(self, key: str, file: DataFile) -> float | None:
        """How old a data file is at the destination, by its clock; None: it isn't there.

        Raises:
            ReplicaDiverged: Another one is there.
        Requests: 1 HEAD; 1 GET of the footer if it is there, of an object of row deletes of all.
        """
        try:
            info = self.destination.head(key)
            if file.is_deletes:
                bitmaps_of(self.destination.get(key), key)
            elif info.size_bytes == file.size_bytes and not file.knows_footer:
                return None  # a length proves too little: it is compared byte by byte
            elif (
                info.size_bytes != file.size_bytes
                or footer_digest(
                    self.destination.get(key, start=file.size_bytes - file.footer_bytes)
                )
                != file.footer_digest
            ):
                raise diverged(f"{key} is another file there than the source's log says", key)
        except ObjectNotFound:
            return None
        return self.since_s(info)

    def _is_old(self, key: str) -> bool:
        """Whether gc may be about to take an object, or has just taken it.

        Requests: 1 HEAD.
        """
        try:
            return self.since_s(self.destination.head(key)) >= self.old_s
        except ObjectNotFound:
            return True

    def since_s(self, info: ObjectInfo) -> float:
        """How long an object of the destination is there, by its clock."""
        now = self.destination.server_time()
        if now is None or info.modified_at is None:
            return math.inf
        return (now - info.modified_at).total_seconds()


def carrying(  # noqa: PLR0917 - an engine gives the stores behind what is the same for all tasks
    folder: str, look: bool, exclusive: bool, old_s: float, source: Store, destination: Store
) -> Callable[[DataFile], tuple[int, bool]]:
    """What brings data files of a log over, for an engine."""
    return partial(Carrier(source, destination, exclusive, old_s).bring, folder, look)
