"""Numbered series of immutable objects below one folder. The highest number counts.

The next number is put only if it is absent, so of any number of callers that have read one state
exactly one moves the series on: a compare-and-swap on every store with put-if-absent.

The highest object is never deleted, and a lower one only once it is old: a caller that stood still
since it read the series could put a number again that was deleted meanwhile, so a move that took
longer than half the prune floor counts as failed.

Source: docs/format.md, section 12.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...errors import CapabilityMissing, ObjectExists, ObjectNotFound, RefMoved, StorageError
from ...store import probe
from ...store.base import PAGE_KEYS
from ..ambient import SYSTEM, Ambient
from ..format.names import MAX_REVISION
from ..margins import DEFAULT_MARGINS, Margins

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from ...store import Store

_NAME: Final = re.compile(r"(?P<complement>[0-9]{12})-(?P<number>[1-9][0-9]{0,11})")
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a series.

    Attributes:
        number: From 1; 0 where the series is empty.
        key: Of the object.
        size_bytes: Of it.
        modified_at: By the store's clock, UTC; None where the store doesn't say.
        listed_at_s: When it was listed, on a clock that never jumps.
    """

    number: int
    key: str
    size_bytes: int
    modified_at: dt.datetime | None
    listed_at_s: float


@dataclass(frozen=True, slots=True)
class Series:
    """A series of objects below a folder.

    Attributes:
        store: Where it is.
        folder: A key that ends in `/`. Nothing else lies there.
        suffix: What names end with, with its dot.
    """

    store: Store
    folder: str
    suffix: str
    ambient: Ambient = SYSTEM
    margins: Margins = DEFAULT_MARGINS

    def newest(self) -> Entry:
        """Returns the entry that counts; one of number 0 if the series is empty.

        Requests: 1 LIST.
        """
        entries = self._list(1)
        return entries[0] if entries else Entry(0, "", 0, None, self.ambient.monotonic_s())

    def entries(self) -> list[Entry]:
        """Returns all entries, the newest first.

        Requests: 1 LIST (per 1,000 names on S3).
        """
        return self._list(None)

    def read_newest(self) -> tuple[Entry, bytes]:
        """Returns the entry that counts and its body; empty if there is none.

        Requests: 1 LIST, 1 GET.
        """
        for attempt in range(_ATTEMPTS):
            entry = self.newest()
            if not entry.number:
                return entry, b""
            try:
                return entry, self.store.get(entry.key)
            except ObjectNotFound:  # replaced and deleted since it was listed
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def append(self, body: bytes, after: Entry) -> Entry:
        """Puts the next entry.

        Args:
            body: Holds something random, so that it is known from any other's.
            after: The entry that it replaces, as it was listed.
        Raises:
            RefMoved: Somebody else has put the next entry, or it took too long to tell.
            CapabilityMissing: The store has no put-if-absent.
            StorageError: The outcome is unknown.
        Requests: 1 PUT; 1 GET if its answer was lost or the name is taken; those of `probe`.
        """
        place = self.folder.partition("/")[0] + "/"  # one finding for all series there
        found = probe(self.store, place, new_name=lambda: self.ambient.new_id().hex())
        if not found.put_if_absent:
            raise CapabilityMissing(
                f"{self.folder} needs put-if-absent, which {self.store.url} doesn't have: "
                f"{found.detail}",
                key=self.store.url,
            )
        number = after.number + 1
        key = f"{self.folder}{MAX_REVISION - number:012d}-{number}{self.suffix}"
        try:
            self.store.put(key, body, if_absent=True)
        except (ObjectExists, StorageError) as error:
            if not self._holds(key, body):
                if isinstance(error, ObjectExists):
                    raise self._moved(key) from None
                raise
        took_s = self.ambient.monotonic_s() - after.listed_at_s
        if 0 < self.margins.idle_limit_s < took_s:
            raise self._moved(key)
        return Entry(number, key, len(body), None, self.ambient.monotonic_s())

    def delete(self, entries: Sequence[Entry]) -> None:
        """Deletes entries that are not the newest, the oldest first.

        Requests: 1 DELETE each.
        """
        keys = [entry.key for entry in sorted(entries, key=lambda entry: entry.number)]
        self.store.delete(keys, ordered=True)

    def _list(self, limit: int | None) -> list[Entry]:
        listed_at_s = self.ambient.monotonic_s()
        entries = []
        for info in self.store.list(self.folder, first_page=PAGE_KEYS if limit is None else 16):
            number = self._number(info.key[len(self.folder) :])
            if number:
                entry = Entry(number, info.key, info.size_bytes, info.modified_at, listed_at_s)
                entries.append(entry)
                if len(entries) == limit:
                    break
        return entries

    def _number(self, name: str) -> int:
        """Returns the number that a name says; 0 if it is none of this series."""
        match = _NAME.fullmatch(name.removesuffix(self.suffix))
        if match is None or not name.endswith(self.suffix):
            return 0
        number = int(match["number"])
        return number if int(match["complement"]) + number == MAX_REVISION else 0

    def _holds(self, key: str, body: bytes) -> bool:
        try:
            return self.store.get(key) == body
        except ObjectNotFound:
            return False

    def _moved(self, key: str) -> RefMoved:
        return RefMoved(
            f"{self.folder} has moved on while this call was under way",
            key=key,
            hint="Look at it again, and try again if the change is still wanted",
        )
