"""Objects on their way from one store to another: fetched, held against what the log says of them,
put if absent. Several at a time, and no more bytes in memory than were agreed.

Source: docs/replication.md.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from ..catalog.data.parquet import footer_digest
from ..catalog.format.deletes_object import bitmaps_of
from ..catalog.format.frame import FrameKind, decode_frame
from ..catalog.format.names import segment_name
from ..catalog.parallel import parallel
from ..errors import CorruptObject, ObjectExists, ObjectNotFound
from .checks import check_body, diverged
from .threads import Room, Shared, Stopped, together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..store import ObjectInfo, Store
    from .needs import DataFile

_T = TypeVar("_T")
AT_ONCE: Final = 16
_GUESS_BYTES: Final = 1 << 20  # of an object whose size the log doesn't say


@dataclass(slots=True)
class Mover:
    """Brings objects from a source to a destination, under the same keys.

    Args:
        source, destination: The stores.
        exclusive: Whether the destination has put-if-absent.
        is_stopped: Whether the caller wants no more.
        tell: Told of each data file that is there: its bytes.
        old_s: A file that is there for so long may be about to be taken by gc.
    """

    source: Store
    destination: Store
    exclusive: bool
    is_stopped: Callable[[], bool]
    tell: Callable[[int], None]
    old_s: float
    room: Room = field(default_factory=Room)

    def move_all(
        self, folder: str, files: Iterable[DataFile], number: int, *, look: bool, tell: bool = True
    ) -> tuple[int, int, list[DataFile]]:
        """Bring data files over. Each is durable when this returns.

        Args:
            folder: `<writer>/<database>/`.
            number: How many they are.
            tell: Whether they count in the progress.
            look: Ask first whether a file is there, as after a run that was broken off.
        Returns:
            How many were put, their bytes, and those that were there already.
        Raises:
            ObjectNotFound: One is not at the source.
            CorruptObject: One is not what the log says.
            ReplicaDiverged: Another object stands under its name.
            Stopped: The caller wants no more.
        Requests: 1 GET and 1 PUT a file; with `look` 1 HEAD before, and for one that is there 1 GET
            of its footer instead.
        """
        return self._each(files, number, lambda file: self._one(folder, file, look=look), tell=tell)

    def make_all(
        self, items: Sequence[_T], make: Callable[[_T], tuple[int, bool]]
    ) -> tuple[int, int, list[_T]]:
        """Make and put files; `make` says of one how long it is, and whether it was put.

        Returns:
            How many were put, their bytes, and those that were there already.
        """
        return self._each(items, len(items), make)

    def _each(
        self,
        items: Iterable[_T],
        number: int,
        bring: Callable[[_T], tuple[int, bool]],
        *,
        tell: bool = True,
    ) -> tuple[int, int, list[_T]]:
        left = Shared(iter(items))
        moved: list[int] = []
        there: list[_T] = []

        def work(_: int) -> None:
            while (found := left.take()) is not None:
                try:
                    self._refuse_stopped()
                    size, put = bring(found[0])
                    if put:
                        moved.append(size)
                    else:
                        there.append(found[0])
                    if tell:
                        self.tell(size)
                except BaseException:
                    left.end()
                    raise

        together(work, range(min(AT_ONCE, number)), left.end)
        return len(moved), sum(moved), there

    def put_made(self, key: str, body: bytes) -> bool:
        """Put a file that was made here under a name that tells what is in it; whether it was put.
        One that is there holds the same rows, perhaps written by another version of Arrow.

        Requests: 1 PUT; 1 HEAD if it is there, and 1 PUT more if gc may be about to take it.
        """
        try:
            info = self.destination.head(key)
        except ObjectNotFound:
            info = None
        if info is None and self.exclusive:
            with contextlib.suppress(ObjectExists):
                self.destination.put(key, body, if_absent=True)
                return True
        if info is not None and self._since_s(info) < self.old_s:
            return False
        self.destination.put(key, body)
        return True

    def _one(self, folder: str, file: DataFile, *, look: bool) -> tuple[int, bool]:
        """Bring one data file over; its size, and whether it was put: it may be there."""
        key = folder + file.path
        age_s = self._age_s(key, file) if look else None
        if age_s is not None and age_s < self.old_s:
            return max(0, file.size_bytes), False
        held = self.room.enter(_GUESS_BYTES if file.is_deletes else file.size_bytes)
        try:
            body = self.source.get(key)
            check_body(body, key, file)
            if age_s is not None:  # the same bytes, so that gc takes the file for a new one
                self.destination.put(key, body)
                return len(body), False
            return len(body), self.put(key, body)
        finally:
            self.room.leave(held)

    def put(self, key: str, body: bytes) -> bool:
        """Put an object if none is there; whether it was put.

        Raises:
            ReplicaDiverged: Another one is there.
        Requests: 1 PUT; 1 GET more if it is there, or without put-if-absent.
        """
        self._refuse_stopped()
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
        return self._since_s(info)

    def _since_s(self, info: ObjectInfo) -> float:
        now = self.destination.server_time()
        if now is None or info.modified_at is None:
            return math.inf
        return (now - info.modified_at).total_seconds()

    def move_segments(self, keys: Iterable[str]) -> None:
        """Bring segments over, whose names are the digests of their bytes.

        Raises:
            ObjectNotFound, CorruptObject: One is not there, or damaged.
        Requests: 1 GET and 1 PUT a segment.
        """
        listed = list(keys)
        for low in range(0, len(listed), AT_ONCE):
            some = listed[low : low + AT_ONCE]
            bodies = self.source.get_many(some)
            parallel(lambda pair: self._segment(*pair), zip(some, bodies, strict=True))

    def _segment(self, key: str, body: bytes | None) -> None:
        if body is None:
            raise ObjectNotFound("no such object", key=key)
        digest = decode_frame(body, FrameKind.SEGMENT, key).digest
        if segment_name(digest) != key.rpartition("/")[2]:
            raise CorruptObject(f"{key} is another segment than its name says", key=key)
        self.put(key, body)

    def _refuse_stopped(self) -> None:
        if self.is_stopped():
            raise Stopped
