"""A store on which the process dies: at the nth writing request, before or after it took effect."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..store.base import PAGE_KEYS
from .doubles import PassingStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..store.base import ObjectInfo, Store


class Crash(BaseException):
    """The process is dead. No handler of errors may catch this and go on."""


class CrashingStore(PassingStore):
    """Passes requests on until the end; from there on nothing gets through, reads neither.

    Args:
        store: The store that does the work.
        at: Which writing request (put, or deletion of one key) is the last, from 0; -1 for none.
        after: Whether that one still takes effect.

    Attributes:
        requests: How many writing requests came.
    """

    def __init__(self, store: Store, at: int = -1, *, after: bool = False) -> None:
        super().__init__(store)
        self.requests = 0
        self._at = at
        self._after = after
        self._dead = False
        self._guard = threading.Lock()

    def _enter(self) -> bool:
        """Whether the process dies right after this request."""
        with self._guard:
            self._alive()
            number, self.requests = self.requests, self.requests + 1
            self._dead = number == self._at
            if self._dead and not self._after:
                raise Crash
            return self._dead

    def _alive(self) -> None:
        if self._dead:
            raise Crash

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        last = self._enter()
        try:
            self.inner.put(key, body, if_absent=if_absent)
        finally:
            if last:
                raise Crash  # whatever the answer was: nobody hears it

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> None:
        for key in keys:
            last = self._enter()
            self.inner.delete([key])
            if last:
                raise Crash

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        self._alive()
        return self.inner.get(key, start=start, end=end)

    def head(self, key: str) -> ObjectInfo:
        self._alive()
        return self.inner.head(key)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        self._alive()
        return self.inner.get_many(keys)

    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        self._alive()
        for info in self.inner.list(prefix, after=after, first_page=first_page):
            self._alive()
            yield info
