"""Objects on their way from one store to another: fetched, held against what the log says of them,
put if absent. Several at a time, and no more bytes in memory than were agreed.

Source: docs/replication.md.
"""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Final, TypeVar

from ..catalog.data.pages import damaged_column
from ..catalog.data.parquet import footer_digest
from ..catalog.format.deletes_object import bitmaps_of
from ..catalog.format.frame import FrameKind, decode_frame
from ..catalog.format.names import segment_name
from ..catalog.parallel import parallel
from ..errors import CorruptObject, ObjectExists, ObjectNotFound, ReplicaDiverged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..store import Store
    from .needs import DataFile

_T = TypeVar("_T")
_R = TypeVar("_R")
AT_ONCE: Final = 16
MOST_BYTES: Final = 256 << 20  # in memory; a larger object goes alone
_GUESS_BYTES: Final = 1 << 20  # of an object whose size the log doesn't say


class Stopped(Exception):
    """The caller wants no more."""


@dataclass(slots=True)
class Room:
    """How many bytes may be in memory; safe for threads."""

    most: int = MOST_BYTES
    _used: int = 0
    _free: threading.Condition = field(default_factory=threading.Condition)

    def enter(self, size: int) -> int:
        """Wait until so many bytes have room. What is larger than all of it waits for all."""
        size = min(size, self.most)
        with self._free:
            while self._used + size > self.most:
                self._free.wait()
            self._used += size
        return size

    def leave(self, size: int) -> None:
        """They are gone."""
        with self._free:
            self._used -= size
            self._free.notify_all()


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
        left = _Shared(iter(files))
        moved: list[int] = []
        there: list[DataFile] = []

        def work(_: int) -> None:
            while (file := left.take()) is not None:
                try:
                    self._refuse_stopped()
                    size, put = self._one(folder, file, look=look)
                    if put:
                        moved.append(size)
                    else:
                        there.append(file)
                    if tell:
                        self.tell(size)
                except BaseException:
                    left.end()
                    raise

        together(work, range(min(AT_ONCE, number)), left.end)
        return len(moved), sum(moved), there

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


def together(
    work: Callable[[_T], _R], items: Sequence[_T], give_up: Callable[[], None]
) -> list[_R]:
    """`work` on all items at once, in threads.

    Args:
        give_up: Called when one fails, or the caller is interrupted: the others are to end soon,
            for they are waited for.
    """
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(len(items), thread_name_prefix="lakelog-replicate") as pool:
        try:
            return list(pool.map(work, items))
        except BaseException:
            give_up()
            raise


class _Shared:
    """Items that several threads take from."""

    def __init__(self, items: Iterator[DataFile]) -> None:
        self._items = items
        self._lock = threading.Lock()
        self._ended = False

    def take(self) -> DataFile | None:
        """The next one; None: there are no more."""
        with self._lock:
            return None if self._ended else next(self._items, None)

    def end(self) -> None:
        """Nobody gets another one."""
        with self._lock:
            self._ended = True


def check_body(body: bytes, key: str, file: DataFile) -> None:
    """Hold an object against what the log says of it, and a Parquet file's pages against their
    checksums.

    Raises:
        CorruptObject: It is damaged, or another one.
    """
    if file.is_deletes:
        bitmaps_of(body, key)
        return
    problem = ""
    if len(body) != file.size_bytes:
        problem = f"has {len(body):,} bytes, the log says {file.size_bytes:,}"
    elif file.knows_footer and footer_digest(body[-file.footer_bytes :]) != file.footer_digest:
        problem = "has another footer than the log says"
    else:
        problem = _damaged_pages(body)
    if problem:
        raise CorruptObject(
            f"{key} {problem}",
            key=key,
            hint="Nothing of it was copied. Restore the file at the source, or take it out of its "
            "table there; `lakelog doctor` looks for more",
        )


def _damaged_pages(body: bytes) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(pa.BufferReader(body))
        found = damaged_column(BytesIO(body), metadata)
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"is no sound Parquet file: {error}"
    if found is None:
        return ""
    return (
        f"is damaged: a page of column {found[0]!r} in row group {found[1]} is not its checksum's"
    )


def diverged(what: str, key: str) -> ReplicaDiverged:
    """The error for a destination that isn't a copy of the source's log."""
    return ReplicaDiverged(
        what,
        key=key,
        hint="Nothing there was changed. A replica is written by replication alone: replicate into "
        "another place, or remove the log there first if its commits are not wanted",
    )
