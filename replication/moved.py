"""Many objects on their way from one store to another: several at a time, and no more bytes in
memory than were agreed; by threads of this process, or by an engine.

Source: docs/replication.md.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import partial
from itertools import tee
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..catalog.format.frame import FrameKind, decode_frame
from ..catalog.format.names import mirror_key, segment_name
from ..catalog.parallel import parallel
from ..errors import CorruptObject, ObjectExists, ObjectNotFound
from .carried import Carrier, carrying
from .threads import Shared, Stopped, together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..catalog.parallel import Engine
    from ..store import Store, WideStore
    from .needs import DataFile
    from .threads import Room

_T = TypeVar("_T")
AT_ONCE: Final = 16
_SHARE: Final = 8  # of a task: the files of which are read whole


@dataclass(slots=True)
class Mover:
    """Brings objects from a source to a destination, under the same keys.

    Args:
        carrier: Carries one, in this process.
        is_stopped: Whether the caller wants no more.
        tell: Told of each data file that is there: its bytes.
        stores: Those of the source and of the destination, for an engine.
        engine: Who brings data files over; None: threads of this process.
    """

    carrier: Carrier
    is_stopped: Callable[[], bool]
    tell: Callable[[int], None]
    stores: tuple[WideStore, WideStore]
    engine: Engine | None = None

    @property
    def source(self) -> Store:
        """Where the objects are."""
        return self.carrier.source

    @property
    def destination(self) -> Store:
        """Where they are to be."""
        return self.carrier.destination

    @property
    def room(self) -> Room:
        """For the bytes that are in memory."""
        return self.carrier.room

    def move_all(
        self,
        folder: str,
        files: Iterable[DataFile],
        number: int,
        *,
        look: bool,
        tell: bool = True,
        anew: bool = False,
    ) -> tuple[int, int, list[DataFile]]:
        """Bring data files over. Each is durable when this returns.

        Args:
            folder: `<writer>/<database>/`.
            number: How many they are.
            tell: Whether they count in the progress.
            look: Ask first whether a file is there, as after a run that was broken off.
            anew: Put those that are there again, however young they are.
        Returns:
            How many were put, their bytes, and those that were there already.
        Raises:
            ObjectNotFound: One is not at the source.
            CorruptObject: One is not what the log says.
            ReplicaDiverged: Another object stands under its name.
            Stopped: The caller wants no more.
        Requests: 1 GET and 1 PUT a file; with `look` 1 HEAD before, and for one that is there and
            young 1 GET of its footer instead. Without it, for one that is there 1 GET and 1 HEAD
            more, and 1 PUT if it is old; with `anew` always.
        """
        carrier = replace(self.carrier, old_s=0.0) if anew else self.carrier
        if self.engine is None:
            bring = partial(carrier.bring, folder, look)
            return self._each(files, number, bring, tell=tell)
        prepare = partial(carrying, folder, look, carrier.exclusive, carrier.old_s)
        return self._each_by(self.engine, prepare, files, number, tell=tell)

    def _each_by(
        self,
        engine: Engine,
        prepare: Callable[..., Any],
        files: Iterable[DataFile],
        number: int,
        *,
        tell: bool,
    ) -> tuple[int, int, list[DataFile]]:
        put = size = 0
        there: list[DataFile] = []
        mine, theirs = tee(files)
        found = engine.each(prepare, self.stores, theirs, number, share=_SHARE)
        with contextlib.closing(found):
            for file, (length, is_new) in zip(mine, found, strict=True):
                self._refuse_stopped()
                if is_new:
                    put, size = put + 1, size + length
                else:
                    there.append(file)
                if tell:
                    self.tell(length)
        return put, size, there

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
        if info is None and self.carrier.exclusive:
            with contextlib.suppress(ObjectExists):
                self.destination.put(key, body, if_absent=True)
                return True
        if info is not None and self.carrier.since_s(info) < self.carrier.old_s:
            return False
        self.destination.put(key, body)
        return True

    def put(self, key: str, body: bytes) -> bool:
        """Put an object if none is there; see `Carrier.put`."""
        self._refuse_stopped()
        return self.carrier.put(key, body)

    def move_segments(self, keys: Iterable[str], *, mirror: bool = False) -> None:
        """Bring segments over, whose names are the digests of their bytes.

        Args:
            mirror: Put them into the destination's mirror.

        Raises:
            ObjectNotFound, CorruptObject: One is not there, or damaged.
        Requests: 1 GET and 1 PUT a segment.
        """
        listed = list(keys)
        for low in range(0, len(listed), AT_ONCE):
            some = listed[low : low + AT_ONCE]
            bodies = self.source.get_many(some)
            parallel(
                lambda pair: self._segment(*pair, mirror=mirror), zip(some, bodies, strict=True)
            )

    def _segment(self, key: str, body: bytes | None, *, mirror: bool) -> None:
        if body is None:
            raise ObjectNotFound("no such object", key=key)
        digest = decode_frame(body, FrameKind.SEGMENT, key).digest
        if segment_name(digest) != key.rpartition("/")[2]:
            raise CorruptObject(f"{key} is another segment than its name says", key=key)
        self.put(mirror_key(key) if mirror else key, body)

    def _refuse_stopped(self) -> None:
        if self.is_stopped():
            raise Stopped
