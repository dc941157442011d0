"""Objects on their way from one store to another: fetched, compared with the log's description, put
if absent; several at a time, with a bound on the bytes in memory, by threads of this process or by
an engine.

Source: docs/replication.md, "How it works".
"""

from __future__ import annotations

import contextlib
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from itertools import tee
from typing import TYPE_CHECKING, Final, TypeVar

from ..catalog.data.pages import damaged_column
from ..catalog.data.parquet import footer_digest
from ..catalog.format.deletes import bitmaps_of
from ..catalog.format.frame import FrameKind, decode_frame
from ..catalog.format.names import mirror_key, segment_name
from ..catalog.parallel import parallel
from ..errors import CorruptObject, ObjectExists, ObjectNotFound, ReplicaDiverged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..catalog.parallel import Engine
    from ..store import ObjectInfo, Store, WideStore
    from .dependencies import DataFile

_T = TypeVar("_T")
_R = TypeVar("_R")
AT_ONCE: Final = 16
_SHARE: Final = 8  # files of a task, which are read whole
_MOST_BYTES: Final = 256 << 20  # in memory; a larger object goes alone
_GUESS_BYTES: Final = 1 << 20  # of an object whose size the log doesn't state


class Stopped(Exception):
    """The caller wants no more."""


@dataclass(slots=True)
class Transfer:
    """Copies objects from a source to a destination, under the same keys.

    Args:
        copier: Copies one, in this process.
        is_stopped: Whether the caller wants no more.
        report: Called for each data file that is there, with its bytes.
        stores: The source's and the destination's, for an engine.
        engine: Copies data files; None: threads of this process do.
    """

    copier: Copier
    is_stopped: Callable[[], bool]
    report: Callable[[int], None]
    stores: tuple[WideStore, WideStore]
    engine: Engine | None = None

    def copy_files(
        self,
        folder: str,
        files: Iterable[DataFile],
        number: int,
        *,
        look: bool,
        counted: bool = True,
    ) -> tuple[int, int, list[DataFile]]:
        """Copy data files. Each is durable when this returns.

        Args:
            folder: `<writer>/<database>/`.
            number: How many they are.
            look: Ask first whether a file is there, as after a run that was broken off.
            counted: Whether they count in the progress.
        Returns:
            How many were put, their bytes, and those that were there already.
        Raises:
            ObjectNotFound: One is not at the source.
            CorruptObject: One is not what the log states.
            ReplicaDiverged: Another object has its name.
            Stopped: The caller wants no more.
        Requests: 1 GET and 1 PUT a file; with `look` 1 HEAD before, and for one that is there and
            young 1 GET of its footer instead. Without it, for one that is there 1 GET and 1 HEAD
            more, and 1 PUT if it is old.
        """
        copier = self.copier
        if self.engine is None:
            copy = partial(copier.copy, folder, look)
            return self.each(files, number, copy, counted=counted)
        prepare = partial(_file_copier, folder, look, copier.exclusive, copier.old_s)
        put = size = 0
        there: list[DataFile] = []
        mine, theirs = tee(files)
        copied = self.engine.each(prepare, self.stores, theirs, number, share=_SHARE)
        with contextlib.closing(copied):
            for file, (length, is_new) in zip(mine, copied, strict=True):
                self._refuse_stopped()
                if is_new:
                    put, size = put + 1, size + length
                else:
                    there.append(file)
                if counted:
                    self.report(length)
        return put, size, there

    def each(
        self,
        items: Iterable[_T],
        number: int,
        put: Callable[[_T], tuple[int, bool]],
        *,
        counted: bool = True,
    ) -> tuple[int, int, list[_T]]:
        """Put a file for each item, in threads; `put` gives its bytes, and whether it was put.

        Returns:
            How many were put, their bytes, and those that were there already.
        """
        rest, guard, ended = iter(items), threading.Lock(), threading.Event()
        sizes: list[int] = []
        there: list[_T] = []

        def work(_: int) -> None:
            while True:
                with guard:
                    item = None if ended.is_set() else next(rest, None)
                if item is None:
                    return
                try:
                    self._refuse_stopped()
                    size, is_new = put(item)
                    if is_new:
                        sizes.append(size)
                    else:
                        there.append(item)
                    if counted:
                        self.report(size)
                except BaseException:
                    ended.set()
                    raise

        in_threads(work, range(min(AT_ONCE, number)), ended.set)
        return len(sizes), sum(sizes), there

    def put_made(self, key: str, body: bytes) -> bool:
        """Put a file that was made here under a name that follows from its rows; whether it was
        put. One that is there holds the same rows, perhaps written by another version of Arrow.

        Requests: 1 PUT; 1 HEAD if it is there, and 1 PUT more if gc may be about to take it.
        """
        destination = self.copier.destination
        try:
            info = destination.head(key)
        except ObjectNotFound:
            info = None
        if info is None and self.copier.exclusive:
            with contextlib.suppress(ObjectExists):
                destination.put(key, body, if_absent=True)
                return True
        if info is not None and self.copier.since_s(info) < self.copier.old_s:
            return False
        destination.put(key, body)
        return True

    def put(self, key: str, body: bytes) -> bool:
        """Put an object if none is there; see `Copier.put`."""
        self._refuse_stopped()
        return self.copier.put(key, body)

    def copy_segments(self, keys: Iterable[str], *, mirror: bool = False) -> None:
        """Copies segments, whose names are the digests of their bytes. Raises `ObjectNotFound` or
        `CorruptObject`.

        Args:
            mirror: Put them into the destination's mirror.
        Requests: 1 GET and 1 PUT a segment.
        """
        listed = list(keys)
        for low in range(0, len(listed), AT_ONCE):
            some = listed[low : low + AT_ONCE]
            bodies = self.copier.source.get_many(some)
            pairs = zip(some, bodies, strict=True)
            parallel(lambda pair: self._put_segment(*pair, mirror=mirror), pairs)

    def _put_segment(self, key: str, body: bytes | None, *, mirror: bool) -> None:
        if body is None:
            raise ObjectNotFound("no such object", key=key)
        digest = decode_frame(body, FrameKind.SEGMENT, key).digest
        if segment_name(digest) != key.rpartition("/")[2]:
            raise CorruptObject(f"{key} is another segment than its name says", key=key)
        self.put(mirror_key(key) if mirror else key, body)

    def _refuse_stopped(self) -> None:
        if self.is_stopped():
            raise Stopped


# --- One object -----------------------------------------------------------------------------------


@dataclass(slots=True)
class MemoryLimit:
    """How many bytes may be in memory; safe for threads."""

    most: int = _MOST_BYTES
    _used: int = 0
    _free: threading.Condition = field(default_factory=threading.Condition)

    @contextlib.contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """Reserve so many bytes once they are free; what is larger than all waits for all."""
        size = min(size, self.most)
        with self._free:
            while self._used + size > self.most:
                self._free.wait()
            self._used += size
        try:
            yield
        finally:
            with self._free:
                self._used -= size
                self._free.notify_all()


@dataclass(slots=True)
class Copier:
    """Copies one object after the other: in each thread of a process, or in a task of an engine.

    Args:
        source, destination: The stores.
        exclusive: Whether the destination has put-if-absent.
        old_s: A file that is there for so long may be about to be taken by gc.
        memory: For the bytes of objects.
    """

    source: Store
    destination: Store
    exclusive: bool
    old_s: float
    memory: MemoryLimit = field(default_factory=MemoryLimit)

    def copy(self, folder: str, look: bool, file: DataFile) -> tuple[int, bool]:
        """Copy one data file; its size, and whether it was put: it may be there.

        Raises, Requests: As for `Transfer.copy_files`.
        """
        key = folder + file.path
        age_s = self._age_s(key, file) if look else None
        if age_s is not None and age_s < self.old_s:
            return max(0, file.size_bytes), False
        with self.memory.reserved(_GUESS_BYTES if file.is_deletes else file.size_bytes):
            body = self.source.get(key)
            check_body(body, key, file)
            if age_s is None and self.put(key, body):
                return len(body), True
            if age_s is not None or self._is_old(key):
                self.destination.put(key, body)  # the same bytes, but young: so gc leaves the file
            return len(body), False

    def put(self, key: str, body: bytes) -> bool:
        """Puts an object if none is there; returns whether it was put. Raises `ReplicaDiverged` if
        another one is there.

        Requests: 1 PUT; 1 GET more if it is there, or without put-if-absent.
        """
        if self.exclusive:
            try:
                self.destination.put(key, body, if_absent=True)
                return True
            except ObjectExists:
                known = self.destination.get(key)
        else:
            try:
                known = self.destination.get(key)
            except ObjectNotFound:
                self.destination.put(key, body)
                return True
        if known != body:
            raise diverged(f"{key} holds other bytes there than at the source", key)
        return False

    def _age_s(self, key: str, file: DataFile) -> float | None:
        """Returns the age of a data file at the destination, by its clock, or None. Raises
        `ReplicaDiverged` if another file is there.

        Requests: 1 HEAD; 1 GET of the footer if it is there, of an object of row deletes of all.
        """
        destination = self.destination
        try:
            info = destination.head(key)
            if file.is_deletes:
                bitmaps_of(destination.get(key), key)
                return self.since_s(info)
            is_same = info.size_bytes == file.size_bytes
            if is_same and not file.knows_footer:
                return None  # a length proves too little: it is compared byte by byte
            if is_same:
                footer = destination.get(key, start=file.size_bytes - file.footer_bytes)
                is_same = footer_digest(footer) == file.footer_digest
        except ObjectNotFound:
            return None
        if not is_same:
            raise diverged(f"{key} is another file there than the source's log states", key)
        return self.since_s(info)

    def _is_old(self, key: str) -> bool:
        """Whether gc may be about to take an object, or has just taken it. 1 HEAD."""
        try:
            return self.since_s(self.destination.head(key)) >= self.old_s
        except ObjectNotFound:
            return True

    def since_s(self, info: ObjectInfo) -> float:
        """For how long an object of the destination is there, by its clock."""
        now = self.destination.server_time()
        if now is None or info.modified_at is None:
            return math.inf
        return (now - info.modified_at).total_seconds()


def _file_copier(  # noqa: PLR0917 - an engine adds the stores behind what is the same for all tasks
    folder: str, look: bool, exclusive: bool, old_s: float, source: Store, destination: Store
) -> Callable[[DataFile], tuple[int, bool]]:
    """Copies data files of a log, for an engine."""
    return partial(Copier(source, destination, exclusive, old_s).copy, folder, look)


def check_body(body: bytes, key: str, file: DataFile) -> None:
    """Raises `CorruptObject` if an object isn't what the log says of it, or a Parquet file's pages
    don't match their checksums."""
    if file.is_deletes:
        bitmaps_of(body, key)
        return
    if len(body) != file.size_bytes:
        problem = f"has {len(body):,} bytes, the log states {file.size_bytes:,}"
    elif file.knows_footer and footer_digest(body[-file.footer_bytes :]) != file.footer_digest:
        problem = "has another footer than the log states"
    else:
        problem = _damaged_pages(body)
    if problem:
        raise CorruptObject(
            f"{key} {problem}",
            key=key,
            hint="Nothing of it was copied. Restore the file at the source, or take it out of its "
            "table there; `lakelog check` looks for more",
        )


def _damaged_pages(body: bytes) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(pa.BufferReader(body))
        damaged = damaged_column(BytesIO(body), metadata)
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"is no sound Parquet file: {error}"
    if damaged is None:
        return ""
    column, group = damaged
    return f"is damaged: a page of column {column!r} in row group {group} is not its checksum's"


def diverged(what: str, key: str) -> ReplicaDiverged:
    """The error for a destination that isn't a copy of the source's log."""
    return ReplicaDiverged(
        what,
        key=key,
        hint="Nothing there was changed. A replica is written by replication alone: replicate into "
        "another place, or remove the log there first if its commits are not wanted",
    )


# --- Threads --------------------------------------------------------------------------------------


def in_threads(
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
