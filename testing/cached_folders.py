"""What one machine shows of a file system of the network: its folders as they were a while ago."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ObjectNotFound
from ..store.base import PAGE_KEYS, ObjectInfo, Store
from .doubles import PassingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..store.base import Keys, Names


@dataclass(frozen=True, slots=True)
class _Folder:
    until_us: int
    files: dict[str, ObjectInfo]
    folders: frozenset[str]


class CachedFolders(PassingStore):
    """A machine's way to a store that it knows by its folders, as clients of NFS and SMB do, which
    keep names and attributes for a minute at the most. So long a listing lacks what other machines
    have made, and shows what they have deleted; and so do look-ups by name. What is read is what
    the server has, and the server decides whether a name can be made.

    Args:
        store: The server's.
        now_us: The time.
        kept_us: How long a folder is shown as it was when it was looked at.
    """

    def __init__(self, store: Store, now_us: Callable[[], int], kept_us: int) -> None:
        super().__init__(store)
        self._now_us = now_us
        self._kept_us = kept_us
        self._seen: dict[str, _Folder] = {}

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        self.inner.put(key, body, if_absent=if_absent)
        self._forget(key)

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> Keys | None:
        for key in (wanted := list(keys)):
            self._forget(key)
        return self.inner.delete(wanted, ordered=ordered)

    def _forget(self, key: str) -> None:
        """Look anew at the folders of a key, as a machine does that changes something there."""
        while key:
            key = _folder_of(key)
            self._seen.pop(key, None)

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        self.head(key)
        return self.inner.get(key, start=start, end=end)

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        self.head(key)
        return self.inner.open_input(key, size_bytes=size_bytes)

    def head(self, key: str) -> ObjectInfo:
        folder = _folder_of(key)
        found = self._look(folder).files.get(key) if self._is_shown(folder) else None
        if found is None:
            raise ObjectNotFound("no such object", key=key)
        return found

    def _is_shown(self, folder: str) -> bool:
        parent = _folder_of(folder)
        return not folder or (self._is_shown(parent) and folder in self._look(parent).folders)

    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        found = self._below(_folder_of(prefix, itself=True))
        wanted = {key for key in found if key.startswith(prefix) and key > (after or "")}
        yield from (found[key] for key in sorted(wanted))

    def list_folders(self, prefix: str) -> Names:
        return sorted(name[len(prefix) : -1] for name in self._look(prefix).folders)

    def _below(self, folder: str) -> dict[str, ObjectInfo]:
        if not self._is_shown(folder):
            return {}
        looked = self._look(folder)
        found = dict(looked.files)
        for name in looked.folders:
            found |= self._below(name)
        return found

    def _look(self, folder: str) -> _Folder:
        known = self._seen.get(folder)
        if known is None or known.until_us <= self._now_us():
            there = {info.key: info for info in self.inner.list(folder)}
            files = {key: info for key, info in there.items() if "/" not in key[len(folder) :]}
            below = (key[len(folder) :].partition("/")[0] for key in there.keys() - files.keys())
            folders = frozenset(f"{folder}{name}/" for name in below)
            known = _Folder(self._now_us() + self._kept_us, files, folders)
            self._seen[folder] = known
        return known


def _folder_of(key: str, *, itself: bool = False) -> str:
    """The folder that a key is in, with its `/`; or that is the key."""
    return key[: key.rfind("/", 0, len(key) if itself else -1) + 1]
