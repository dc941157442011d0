"""A lake whose clocks the test holds, and a store that can be interrupted before each request."""

from __future__ import annotations

import datetime as dt
import secrets
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lakelog.catalog.ambient import Ambient
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import name_prefix, parse_log_object
from lakelog.catalog.log.listing import read_listing
from lakelog.catalog.margins import Margins
from lakelog.catalog.read.log_reader import LogReader
from lakelog.store import Store, open_store
from lakelog.store.local import LocalStore
from lakelog.store.memory import MemoryStore
from lakelog.testing.rebuilt import rebuild, seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakelog.store import ObjectInfo
    from lakelog.store.base import Keys
    from lakelog.testing.servers import S3Server


sys.path.append(str(Path(__file__).parent))  # what several files of tests share lies beside them

DAY_S = 86_400.0
WRITER, DATABASE = "EWR", "weather"
BASE = f"{WRITER}/{DATABASE}/"
NO_MARGINS = Margins(prune_floor_s=0.0, gc_grace_s=0.0)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass
class Clock:
    """One clock for the store and for everybody else, unless a test sets them apart."""

    now_s: float = 1_800_000_000.0

    def time(self) -> dt.datetime:
        return EPOCH + dt.timedelta(seconds=self.now_s)

    def ambient(self, ahead_s: float = 0.0) -> Ambient:
        return Ambient(
            now_us=lambda: int((self.now_s + ahead_s) * 1_000_000),
            new_id=lambda: secrets.token_bytes(16),
            monotonic_s=lambda: self.now_s,
            sleep_s=lambda seconds: None,
        )


class HookStore(Store):
    """Calls `before(request, key)` before each request; a deletion of many keys is one for each.

    Args:
        infos: Changes what a listing says of an object, for stores that say less or lie.
    """

    def __init__(
        self,
        inner: Store,
        before: Callable[[str, str], None] = lambda request, key: None,
        infos: Callable[[ObjectInfo], ObjectInfo] = lambda info: info,
    ) -> None:
        self.inner, self.before, self.infos = inner, before, infos
        self.url, self.backend, self.probed = inner.url, inner.backend, inner.probed

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        self.before("put", key)
        self.inner.put(key, body, if_absent=if_absent)

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        self.before("get", key)
        return self.inner.get(key, start=start, end=end)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        found = []
        for key in keys:
            self.before("get", key)
            found += self.inner.get_many([key])
        return found

    def list(self, prefix: str, **options: Any) -> Iterator[ObjectInfo]:
        self.before("list", prefix)
        yield from [self.infos(info) for info in self.inner.list(prefix, **options)]

    def list_folders(self, prefix: str) -> list[str]:
        self.before("list", prefix)
        return self.inner.list_folders(prefix)

    def head(self, key: str) -> ObjectInfo:
        self.before("head", key)
        return self.infos(self.inner.head(key))

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> Keys | None:
        gone = set()
        for key in keys:
            self.before("delete", key)
            gone |= self.inner.delete([key], ordered=ordered) or frozenset()
        return frozenset(gone)

    def server_time(self) -> dt.datetime | None:
        return self.inner.server_time()

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        return self.inner.open_input(key, size_bytes=size_bytes)

    def object_url(self, key: str) -> str:
        return self.inner.object_url(key)


@dataclass
class Lake:
    """One writer's database on a store, with a clock in the test's hand."""

    store: Store
    clock: Clock
    zero: bool = False  # a store whose times can't be set: everything counts as old
    promised: Margins = field(default_factory=Margins)  # what committers keep to

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.store, ambient=self.clock.ambient(), margins=self.promised)

    @property
    def margins(self) -> Margins:
        return NO_MARGINS if self.zero else Margins()

    @property
    def real_clock(self) -> bool:
        return not isinstance(self.store, MemoryStore)

    def writer(self, **options: Any) -> Any:
        return self.catalog.writer(WRITER, DATABASE, **{"checkpoint_every": 0, **options})

    def rows(self, value: int) -> pa.Table:
        return pa.table({"value": pa.array([value, None], pa.int64())})

    def commit(self, writer: Any, value: int, remove: Sequence[str] = ()) -> str:
        with writer.transaction() as tx:
            for path in remove:
                tx.remove(path)
            return tx.write("hourly", self.rows(value), partition="p")[0]

    def orphan(self, writer: Any) -> str:
        """A file of a transaction whose process died."""
        tx = writer.transaction()
        path = tx.write("hourly", self.rows(0), partition="p")[0]
        self.die(tx)
        return path

    def die(self, tx: Any) -> None:
        """Give a transaction up and leave what it has put, as a process does that dies."""
        keys = [info.key for info in self.store.list(f"{BASE}data/")]
        # Its own alone: gc may be deleting others.
        bodies = {key: self.store.get(key) for key in keys if tx.transaction_id in key}
        tx.discard()
        for key in bodies.keys() - {info.key for info in self.store.list(f"{BASE}data/")}:
            self.store.put(key, bodies[key])

    def put_foreign(self, name: str, body: bytes = b"not really Parquet") -> str:
        """A second after whatever was written before."""
        self.pass_time(1)
        self.store.put(f"{BASE}data/{name}", body)
        return f"data/{name}"

    def put_orphan(self, number: int, body: bytes = b"not really Parquet", epoch: int = 1) -> str:
        """A file of a transaction that the log doesn't know; a second after what came before."""
        return self.put_foreign(f"p/hourly/{epoch}-{number:032x}-0.parquet", body)

    def pass_time(self, seconds: float) -> None:
        """Let everything in the store become older by so much, if its times can be told."""
        if not self.zero:
            self.clock.now_s += seconds

    def log_names(self) -> str:
        """Names in the log, short and in order: `t0 t2 c2`; of other incarnations `1:t0`."""
        listing = read_listing(WRITER, DATABASE, sorted(self._names("transactions/")))
        found = [parse_log_object(name) for name in self._names("transactions/")]
        items = sorted(
            (item for item in found if item is not None),
            key=lambda x: (x.incarnation, x.revision, "tc".index(x.kind[0])),
        )
        return " ".join(
            ("" if x.incarnation == listing.incarnation else f"{x.incarnation}:")
            + f"{x.kind[0]}{x.revision}"
            for x in items
        )

    def log_key(self, short: str) -> str:
        """The key of `t3` or `c3`, or of `2:c3` of another incarnation than the first."""
        incarnation, _, short = short.rpartition(":")
        kind = {"t": "transaction", "c": "checkpoint"}[short[0]]
        prefix = name_prefix(int(incarnation or 1), int(short[1:]))
        (name,) = [
            name
            for name in self._names("transactions/")
            if name.startswith(prefix) and name.endswith(kind)
        ]
        return f"{BASE}transactions/{name}"

    def segments(self) -> set[str]:
        """Names of the segment objects."""
        return set(self._names("segments/"))

    def needed(self, *shorts: str) -> set[str]:
        """Names of the segment objects that checkpoints refer to: `c3`."""
        found = set()
        for short in shorts:
            item = parse_log_object(self.log_key(short).rsplit("/", 1)[-1])
            assert item is not None
            state = self.log().checkpoint_state(item)
            assert state.base is not None
            found |= {piece.name for piece in (state.base.references, *state.pieces) if piece.name}
        return found

    def rebuild(self) -> None:
        """Begin the next incarnation, of one revision and its checkpoint, after a seal."""
        seal(self.store, WRITER, DATABASE)
        rebuild(self.store, WRITER, DATABASE)

    def data(self) -> set[str]:
        return {f"data/{name}" for name in self._names("data/")}

    def _names(self, folder: str) -> list[str]:
        cut = len(BASE + folder)
        return [info.key[cut:] for info in self.store.list(BASE + folder)]

    def log(self) -> LogReader:
        return LogReader(self.store, WRITER, DATABASE, self.clock.ambient())

    def paths_at(self, revision: int | None = None) -> set[str]:
        """Live paths of one revision, by a reader of its own."""
        state = self.log().load(revision)
        return {path for paths in state.files.paths() for path in paths.to_pylist()}

    def retained_paths(self) -> set[str]:
        listing = self.log().names()
        revisions = range(listing.oldest_readable(), listing.head + 1)
        return set().union(*(self.paths_at(revision) for revision in revisions))

    def read(self) -> list[int]:
        """Values of the newest snapshot, read from its data files."""
        table = self.catalog.snapshot(DATABASE).to_arrow("hourly")
        return sorted(v for v in table.column("value").to_pylist() if v is not None)

    def damage(self, key: str) -> None:
        """Flip one bit in the middle of an object."""
        body = bytearray(self.store.get(key))
        body[len(body) // 2] ^= 1
        self.store.put(key, bytes(body))


def memory_lake() -> Lake:
    clock = Clock()
    return Lake(MemoryStore("gc", now=clock.time), clock)


def local_lake(folder: Any) -> Lake:
    clock = RealClock()
    return Lake(LaterStore(str(folder), clock), clock)


class RealClock(Clock):
    """The real time, and what a test lets go by besides."""

    def __init__(self) -> None:
        super().__init__(0.0)

    def ambient(self, ahead_s: float = 0.0) -> Ambient:
        real = Ambient()
        now_us = lambda: real.now_us() + int((self.now_s + ahead_s) * 1_000_000)  # noqa: E731
        return replace(real, now_us=now_us, monotonic_s=lambda: real.monotonic_s() + self.now_s)


class LaterStore(LocalStore):
    """A file system whose clock goes with the test's: nobody can set a file's time of arrival."""

    def __init__(self, root: str, clock: Clock) -> None:
        super().__init__(root)
        self.later, self.put_at = clock, dict[str, float]()

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        super().put(key, body, if_absent=if_absent)
        self.put_at[key] = self.later.now_s

    def head(self, key: str) -> ObjectInfo:
        return self._later(super().head(key))

    def list(self, prefix: str, **options: Any) -> Iterator[ObjectInfo]:
        return map(self._later, super().list(prefix, **options))

    def server_time(self) -> dt.datetime | None:
        now = super().server_time()
        return None if now is None else now + dt.timedelta(seconds=self.later.now_s)

    def _later(self, info: ObjectInfo) -> ObjectInfo:
        assert info.modified_at is not None
        late = dt.timedelta(seconds=self.put_at.get(info.key, 0.0))
        return replace(info, modified_at=info.modified_at + late)


@pytest.fixture
def lake() -> Lake:
    """An empty lake in memory, every clock in the test's hand."""
    return memory_lake()


@pytest.fixture(
    params=["memory", "local", pytest.param("s3", marks=pytest.mark.s3)],
)
def any_lake(request: pytest.FixtureRequest) -> Lake:
    """An empty lake on each backend."""
    if request.param == "memory":
        return memory_lake()
    if request.param == "local":
        return local_lake(request.getfixturevalue("tmp_path") / "lake")
    moto: S3Server = request.getfixturevalue("moto")
    url = f"s3://{moto.make_bucket()}/lakes/{secrets.token_hex(4)}"
    return Lake(open_store(url, moto.storage_options), RealClock(), zero=True)


@pytest.fixture
def spilling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every segment becomes an object of its own."""
    monkeypatch.setattr("lakelog.catalog.log.checkpoint_files.SPILL_FROM_BYTES", 0)


@pytest.fixture
def hooked() -> type[HookStore]:
    return HookStore


@pytest.fixture
def make_local_lake() -> Callable[[Any], Lake]:
    return local_lake


@pytest.fixture
def make_memory_lake() -> Callable[[], Lake]:
    return memory_lake


@pytest.fixture(autouse=True)
def no_thread_left() -> Any:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("gc-test"):
            thread.join(30)
            assert not thread.is_alive()
