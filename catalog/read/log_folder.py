"""The names of one log in a store: listed newest first, and only as far down as is needed.

Source: docs/format.md, section 4.3.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from ...errors import CorruptError, CorruptObject, ObjectNotFound, UnsupportedFeature
from ...store.base import PAGE_KEYS
from ..ambient import SYSTEM, Ambient
from ..format.frame import HEADER_BYTES
from ..format.names import base_folder, is_id, log_folder, mirror_log_folder, name_prefix
from ..format.objects import decode_transaction
from ..log.listing import Listing
from ..parallel import parallel

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ...store import Store
    from ..log.state import State


FIRST_PAGE: Final = 100  # names: the newest checkpoint and the transactions after it are among them
# How often a log that moves is listed before what it says is believed, and how much longer to wait
# each time.
ATTEMPTS: Final = 4
PAUSE_S: Final = 0.02


class Vanished(Exception):
    """A listed object isn't there any more."""


@dataclass(frozen=True, slots=True)
class LogFolder:
    """Where one writer's log of one database lies, and what its listings show.

    Attributes:
        store: Where it is.
        writer, database: Whose.
        ambient: For waiting between listings.
    """

    store: Store
    writer: str
    database: str
    ambient: Ambient = SYSTEM

    @property
    def folder(self) -> str:
        """Key prefix of the log's objects."""
        return log_folder(self.writer, self.database)

    def names(self, incarnation: int = 0, *, mirror: bool = False) -> Listing:
        """Lists all names of the log.

        Args:
            incarnation: Which one to look at; 0: the one that counts.
            mirror: Whether a log without names is listed from its mirror.
        Requests: 1 LIST per 1,000 names on S3.
        """
        listing = self._listed(self.folder, incarnation=incarnation)
        if mirror and listing.head < 0 and not listing.others:
            return self.copies(incarnation)
        return listing

    def names_for(self, target: int | None = None, *, mirror: bool = True) -> Listing:
        """Lists names from the head down to a base for a revision (None: the head), or all.

        Args:
            mirror: Whether a log without names is listed from its mirror.
        Requests: 1 LIST in a log with checkpoints, 2 for a revision far below the head, or where
            the log has no names.
        """

        def is_far_below(listing: Listing) -> bool:
            return bool(listing.incarnation) and (target or 0) < listing.lowest - FIRST_PAGE

        def is_enough(listing: Listing) -> bool:
            complete = listing.is_complete_for(target)
            return complete or (target is not None and is_far_below(listing))

        listing = self._listed(self.folder, is_enough)
        if target is not None and not listing.is_complete_for(target):
            below = self.names_at(listing.incarnation, target)
            below.others[:0] = listing.others
            return below
        if mirror and listing.head < 0 and not listing.others:
            return self.copies()
        return listing

    def names_at(self, incarnation: int, target: int) -> Listing:
        """Lists names of one incarnation from a revision down to a base for it.

        Requests: 1 LIST in a log with checkpoints.
        """
        above = self.folder + name_prefix(incarnation, target).rpartition("-")[0]
        is_enough = partial(Listing.is_complete_for, target=target)
        return self._listed(self.folder, is_enough, incarnation=incarnation, after=above)

    def names_down_to(self, revision: int) -> Listing:
        """Lists all names from the head down to a revision.

        Requests: 1 LIST if the head is not far above it.
        """
        return self._listed(self.folder, lambda o: bool(o.incarnation) and o.lowest <= revision)

    def copies(self, incarnation: int = 0) -> Listing:
        """Lists all names in the log's mirror.

        Args:
            incarnation: Which one to look at; 0: the one that counts.
        Requests: 1 LIST per 1,000 names on S3.
        """
        folder = mirror_log_folder(self.writer, self.database)
        return self._listed(folder, incarnation=incarnation)

    def newest_copies(self) -> Listing:
        """Lists the first page of the log's mirror: `head` is the newest revision that has a copy,
        -1 if the mirror is empty.

        Requests: 1 LIST.
        """
        number = count(1)
        folder = mirror_log_folder(self.writer, self.database)
        return self._listed(folder, lambda _: next(number) == FIRST_PAGE)

    def _listed(
        self,
        folder: str,
        is_enough: Callable[[Listing], bool] | None = None,
        *,
        incarnation: int = 0,
        after: str | None = None,
    ) -> Listing:
        """Lists names, all of them or until `is_enough`, which is asked after each name."""
        listing = Listing(self.writer, self.database, incarnation)
        page = PAGE_KEYS if is_enough is None else FIRST_PAGE
        for info in self.store.list(folder, after=after, first_page=page):
            listing.take(info.key[len(folder) :])
            if is_enough is not None and is_enough(listing):
                return listing
        listing.end()
        return listing


def writer_ids(store: Store) -> list[str]:
    """Returns the names of all folders that may be a writer's.

    Requests: 1 LIST.
    """
    return [name for name in store.list_folders("") if is_id(name)]


def log_places(
    store: Store,
    writer: str | None = None,
    database: str | None = None,
    *,
    known: Collection[tuple[str, str]] = (),
) -> list[tuple[str, str, frozenset[str]]]:
    """Returns where logs may be: writer, database, and the names of the folders there; sorted.

    Args:
        writer, database: Only of this one.
        known: Pairs that are not asked for.
    Requests: 1 LIST for the writers, 1 for each writer, 1 for each pair.
    """
    writers = [name for name in writer_ids(store) if writer in (None, name)]
    names = parallel(lambda one: store.list_folders(f"{one}/"), writers)
    pairs = [
        (owner, name)
        for owner, found in zip(writers, names, strict=True)
        for name in found
        if is_id(name) and database in (None, name) and (owner, name) not in known
    ]
    folders = parallel(lambda pair: store.list_folders(base_folder(*pair)), pairs)
    return [(*pair, frozenset(found)) for pair, found in zip(pairs, folders, strict=True)]


_AT_HAND: Final = ("memory", "file")  # stores that answer without a round trip


def base_and_header(store: Store, base: str, transaction: str) -> tuple[bytes, bytes]:
    """Returns a checkpoint's object, and the beginning of its transaction; empty if that is gone.
    Raises `Vanished` if the checkpoint isn't there.

    Requests: 1 GET each, at once.
    """
    ask = partial(_beginning, store, transaction)
    if store.backend in _AT_HAND:
        header, body = ask(), store.get_many([base])[0]
    else:
        beside = _Beside(ask)
        try:
            body = store.get_many([base])[0]
        finally:
            beside.join()
        header = beside.result()
    if body is None:
        raise Vanished
    return body, header


def _beginning(store: Store, key: str) -> bytes:
    try:
        return store.get(key, start=0, end=HEADER_BYTES)
    except ObjectNotFound:
        return b""  # pruned since it was listed


class _Beside(threading.Thread):
    """One request beside another. (A pool is more than a job that appends once should load.)"""

    def __init__(self, ask: Callable[[], bytes]) -> None:
        super().__init__(name="lakelog-read")
        self._ask = ask
        self._found = b""
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._found = self._ask()
        except BaseException as error:
            self._error = error

    def result(self) -> bytes:
        """What came, once the thread has ended."""
        if self._error is not None:
            raise self._error
        return self._found


def refuse_other_history(
    store: Store, state: State, base: str, transaction: str, header: bytes
) -> None:
    """Raises `CorruptObject`, about a checkpoint, if the transaction of its revision, of which
    `header` is the beginning, is not the one it is of. A damaged or missing one proves nothing.

    Requests: none if it fits; else 1 GET.
    """
    if not header or header.endswith(state.digest):
        return
    body = store.get_many([transaction])[0]
    try:
        if body is None or decode_transaction(body, transaction).digest == state.digest:
            return
    except UnsupportedFeature:
        pass
    except CorruptError:
        return
    raise CorruptObject(
        f"{base} is a checkpoint of another history: not of {transaction}, which stands on its "
        "revision",
        key=base,
        hint="The revision was lost once and committed anew, or one of the two was put back from "
        "another copy. Move the checkpoint elsewhere; `lakelog check` tells more",
    )
