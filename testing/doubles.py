"""Stand-ins for what a test must control: the clock, identities, and a store that misbehaves.

The store behind each wrapper is a real one; only the named deviation is added.
"""

from __future__ import annotations

import datetime as dt
import random
import threading
import time
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..catalog.ambient import Ambient
from ..errors import ObjectExists, StorageError
from ..store.base import PAGE_KEYS, ObjectInfo, Store
from ..store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..store.base import Keys, Names

Fault = Literal["ok", "lost request", "lost response"]
START_US = 1_700_000_000_000_000


class ClockedStore(MemoryStore):
    """A store with a clock of its own: the processes' may stand still while it goes on.

    Attributes:
        at_us: What it shows, µs since 1970; set it as you like.
    """

    def __init__(self, at_us: int = START_US) -> None:
        super().__init__("clocked", now=lambda: dt.datetime.fromtimestamp(self.at_us / 1e6, dt.UTC))
        self.at_us = at_us

    def move(self, seconds: float) -> None:
        """Let time go by, for the store alone."""
        self.at_us += int(seconds * 1e6)


class FakeAmbient:
    """A clock that stands still until it is moved, and identities from a seed.

    Args:
        seed: Of the identities.
        now_us: Where the wall clock starts.

    Attributes:
        wall_us: The wall clock, µs since 1970; set it as you like.
        steady_s: The clock that never jumps; set it as you like.
        slept_s: How long was waited, in all. Waiting moves both clocks.
    """

    def __init__(self, seed: int = 0, now_us: int = START_US) -> None:
        self.wall_us = now_us
        self.steady_s = 1_000.0
        self.slept_s = 0.0
        self._random = random.Random(seed)
        self._guard = threading.Lock()
        self.ambient = Ambient(self._now_us, self._new_id, self._monotonic_s, self._sleep)

    def move(self, seconds: float) -> None:
        """Let time go by, on both clocks."""
        self.wall_us += int(seconds * 1e6)
        self.steady_s += seconds

    def _now_us(self) -> int:
        return self.wall_us

    def _new_id(self) -> bytes:
        with self._guard:
            return self._random.randbytes(16)

    def _monotonic_s(self) -> float:
        return self.steady_s

    def _sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self.move(seconds)


class PassingStore(Store):
    """Passes every call on to another store; subclasses change one thing each."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.url = store.url
        self.backend = store.backend
        self.racers, self.raced_names = store.racers, store.raced_names

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        self.inner.put(key, body, if_absent=if_absent)

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        return self.inner.get(key, start=start, end=end)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return self.inner.get_many(keys)

    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        return self.inner.list(prefix, after=after, first_page=first_page)

    def list_folders(self, prefix: str) -> Names:
        return self.inner.list_folders(prefix)

    def head(self, key: str) -> ObjectInfo:
        return self.inner.head(key)

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> Keys | None:
        return self.inner.delete(keys, ordered=ordered)

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        return self.inner.open_input(key, size_bytes=size_bytes)

    def object_url(self, key: str) -> str:
        return self.inner.object_url(key)

    def identity(self) -> str:
        return self.inner.identity()

    def server_time(self) -> dt.datetime | None:
        return self.inner.server_time()


class FoldingStore(PassingStore):
    """A store that takes names for one that differ in case, in normal form, or in dots and spaces
    at an end, as file systems of Macs and Windows and SMB shares do. The first spelling of each
    folder and file stays, and is what listings show."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._spelled: dict[str, str] = {}

    @staticmethod
    def _fold(key: str) -> str:
        """As such file systems do, which fold less than all that Unicode knows."""
        parts = [unicodedata.normalize("NFC", part).lower() for part in key.split("/")]
        return "/".join(part.rstrip(". ") for part in parts)

    def _spell(self, key: str, *, new: bool = False) -> str:
        """The key as the store has it: each folder as it was first spelled."""
        spelled = ""
        for part in key.split("/"):
            path = f"{spelled}/{part}" if spelled else part
            folded = self._fold(path)
            spelled = self._spelled.get(folded, path)
            if new:
                self._spelled[folded] = spelled
        return spelled

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        self.inner.put(self._spell(key, new=True), body, if_absent=if_absent)

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        return self.inner.get(self._spell(key), start=start, end=end)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return self.inner.get_many([self._spell(key) for key in keys])

    def head(self, key: str) -> ObjectInfo:
        return self.inner.head(self._spell(key))

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> Keys | None:
        spelled = [self._spell(key) for key in keys]
        self._spelled = {at: name for at, name in self._spelled.items() if name not in spelled}
        return self.inner.delete(spelled, ordered=ordered)

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        return self.inner.open_input(self._spell(key), size_bytes=size_bytes)


class DatedStore(PassingStore):
    """Another process's way to a store: it knows the store's time by the answers that it got, as
    remote stores tell it, and none goes by while this machine stands still."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._told = store.server_time()

    def _saw(self) -> None:
        self._told = self.inner.server_time()

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        try:
            self.inner.put(key, body, if_absent=if_absent)
        finally:
            self._saw()

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        self._saw()
        return self.inner.get(key, start=start, end=end)

    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        self._saw()
        return self.inner.list(prefix, after=after, first_page=first_page)

    def head(self, key: str) -> ObjectInfo:
        self._saw()
        return self.inner.head(key)

    def server_time(self) -> dt.datetime | None:
        return self._told


class PlainStore(PassingStore):
    """A store that takes put-if-absent without a word and overwrites, as some real ones do."""

    def identity(self) -> str:
        """Another store's than what it passes calls on to."""
        return f"plain {self.inner.identity()}"

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        """Write, whatever is there."""
        self.inner.put(key, body)


class CheckingStore(PassingStore):
    """A store that looks whether a name is there, and writes then, as some real ones do: of those
    that come at once all win, and one that comes later is refused.

    Attributes:
        between_s: How long it takes from the look to the write.
    """

    def __init__(self, store: Store, between_s: float = 0.005) -> None:
        super().__init__(store)
        self.racers, self.raced_names = Store.racers, Store.raced_names  # as of any remote one
        self.between_s = between_s

    def identity(self) -> str:
        """Another store's than what it passes calls on to."""
        return f"checking {self.inner.identity()}"

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        """Look, and then write."""
        if if_absent:
            if self.inner.get_many([key]) != [None]:
                raise ObjectExists("the object exists already", key=key)
            time.sleep(self.between_s)
        self.inner.put(key, body)


@dataclass
class Script:
    """What becomes of the next puts under matching keys, one entry a put; "ok" once it is used up.

    Attributes:
        match: Only keys that contain this.
        faults: What happens, in order.
        puts: Keys that were put, with what became of each.
    """

    match: str = ".transaction"
    faults: list[Fault] = field(default_factory=list)
    puts: list[tuple[str, Fault]] = field(default_factory=list)


class FaultyStore(PassingStore):
    """A store that loses requests (nothing happens) or responses (it happens, and nobody learns).

    Attributes:
        script: What to lose.
        before_put: Called with the key before each put that the script matches.
        fail_reads: True: every get raises.
    """

    def __init__(self, store: Store, faults: Sequence[Fault] = (), *, match: str = ".tra") -> None:
        super().__init__(store)
        self.script = Script(match, list(faults))
        self.before_put: Callable[[str], None] | None = None
        self.fail_reads = False
        self._guard = threading.Lock()

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        """Write, or lose the request or the response, as the script says."""
        if self.script.match not in key:
            self.inner.put(key, body, if_absent=if_absent)
            return
        with self._guard:
            fault: Fault = self.script.faults.pop(0) if self.script.faults else "ok"
            self.script.puts.append((key, fault))
        if self.before_put is not None:
            self.before_put(key)
        if fault == "lost request":
            raise StorageError("the request was lost", key=key)
        self.inner.put(key, body, if_absent=if_absent)
        if fault == "lost response":
            raise StorageError("the response was lost", key=key)

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        """Read, unless reads are to fail."""
        if self.fail_reads:
            raise StorageError("the store is away", key=key)
        return self.inner.get(key, start=start, end=end)
