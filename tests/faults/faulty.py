"""A store on which chosen requests fail: lost on the way there, lost on the way back, or deadly."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from lakelog.errors import ObjectExists, StorageError
from lakelog.testing.crashing import Crash
from lakelog.testing.doubles import PassingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lakelog.store import ObjectInfo, Store

T = TypeVar("T")
# "exists": the request took effect, and the client's own retry of it found its own object.
# "damaged": of a body that is read one bit is another one; "cut": half of it is there.
Kind = Literal[
    "lost request", "lost response", "exists", "damaged", "cut", "dies before", "dies after"
]
ERRORS: tuple[Kind, ...] = ("lost request", "lost response", "exists")
DEATHS: tuple[Kind, ...] = ("dies before", "dies after")


def spoiled(body: bytes, fault: Kind | None) -> bytes:
    """What arrives of a body."""
    if fault == "damaged":
        middle = len(body) // 2
        return body[:middle] + bytes([body[middle] ^ 4]) + body[middle + 1 :]
    return body[: len(body) // 2] if fault == "cut" else body


class FaultPlanStore(PassingStore):
    """Numbers all requests, reading and writing, and fails those that the plan names.

    Attributes:
        requests: What came, in order: "put", "get", "list", "head", "delete".
        keys: About which key each was.
    """

    def __init__(self, store: Store, plan: Mapping[int, Kind] | None = None) -> None:
        super().__init__(store)
        self.plan = dict(plan or {})
        self.requests: list[str] = []
        self.keys: list[str] = []
        self._dead = False
        self._guard = threading.Lock()

    def _do(self, what: str, key: str, work: Callable[[], T]) -> T:
        with self._guard:
            if self._dead:
                raise Crash
            fault = self.plan.get(len(self.requests))
            self.requests.append(what)
            self.keys.append(key)
            self._dead = fault in DEATHS
        if fault == "dies before":
            raise Crash
        if fault == "lost request":
            raise StorageError("the request was lost", key=key)
        try:
            return work()
        finally:  # whatever the answer was
            if fault == "dies after":
                raise Crash
            if fault == "lost response":
                raise StorageError("the response was lost", key=key)

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        number = len(self.requests)
        self._do("put", key, lambda: self.inner.put(key, body, if_absent=if_absent))
        if if_absent and self.plan.get(number) == "exists":
            raise ObjectExists("the object exists already", key=key)

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        number = len(self.requests)
        body = self._do("get", key, lambda: self.inner.get(key, start=start, end=end))
        return spoiled(body, self.plan.get(number))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        bodies = []
        for key in keys:
            number = len(self.requests)
            body = self._do("get", key, lambda k=key: self.inner.get_many([k])[0])
            bodies.append(body and spoiled(body, self.plan.get(number)))
        return bodies

    def list(self, prefix: str, **options: Any) -> Iterator[ObjectInfo]:
        yield from self._do("list", prefix, lambda: list(self.inner.list(prefix, **options)))

    def list_folders(self, prefix: str) -> Any:
        return self._do("list", prefix, lambda: self.inner.list_folders(prefix))

    def head(self, key: str) -> ObjectInfo:
        return self._do("head", key, lambda: self.inner.head(key))

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> None:
        for key in keys:
            self._do("delete", key, lambda k=key: self.inner.delete([k]))
