"""A deterministic simulator: real lakelog code, many processes of it, one seed.

Each simulated process is a greenlet. Whenever it asks the store for something, or sleeps, it hands
control to the scheduler, which decides by the seed who goes on, what becomes of the request, who
dies, and how the clock moves. The same seed gives the same history, request by request.

Faults of a request: lost before it is applied; applied and the answer lost; applied late, when
others have gone on; the process dies before or after it; a body cut short or with a flipped bit;
a listing that misses a name that others saw (as a scan of a folder may); folders that each process
sees as they were a while ago. And a store that takes no put-if-absent, or looks whether the name is
there and writes when others have gone on.
"""

from __future__ import annotations

import datetime as dt
import random
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

from ..catalog.ambient import Ambient
from ..errors import ObjectExists, ObjectNotFound, StorageError
from ..store.base import PAGE_KEYS, ObjectInfo, Store
from ..store.memory import MemoryStore
from .cached_folders import CachedFolders
from .crashing import Crash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

START_US = 1_700_000_000_000_000
_UNTIL_WOKEN_US = 1 << 60
_DAWDLES_US = 50_000  # fifty requests of others


@dataclass(frozen=True, slots=True)
class Faults:
    """Chances, each per request, and the clock.

    Attributes:
        before, after, late: Of a writing request; `before` also of a reading one.
        damage, miss: Of a body, and of a listing.
        die: Of the process, at any request.
        nap: That a process is left alone for long at a request.
        freeze: That its own clocks stand still for a nap, as those of a machine that is paused.
        jump_s: How far the clock jumps, at the most, when everybody naps.
    """

    before: float = 0.04
    after: float = 0.04
    late: float = 0.03
    damage: float = 0.01
    miss: float = 0.02
    die: float = 0.01
    nap: float = 0.03
    freeze: float = 0.0
    jump_s: float = 100_000.0


QUIET = Faults(0, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(slots=True)
class Process:
    """One simulated process.

    Attributes:
        name: For traces.
        run: Its greenlet.
        wakes_us: It isn't scheduled before this time.
        lost_us: How far its clocks are behind those of the store.
    """

    name: str
    run: greenlet
    wakes_us: int = 0
    lost_us: int = 0


@dataclass(slots=True)
class _LatePut:
    due_step: int
    due_us: int
    apply: Callable[[], None]


@dataclass(slots=True)
class World:
    """Store, clock, identities and scheduler of one history.

    Attributes:
        seed: Replays the history.
        faults: What may go wrong; `QUIET` for nothing.
        plain: Whether put-if-absent is ignored.
        looks_first: Then it isn't, but two that come at once both win: the store looks whether the
            name is there, and writes when others have looked too.
        late_limit_s: A late request lands before the clock has gone on by so much: the protocol's
            assumption about how long a request can be under way.
        cached_s: How long each process sees a folder as it was, but for what it does itself.
        on_applied: Called after each writing request that took effect: verb, key, body.
        under_way_s: How long the PUT that took effect last had been under way, the sleep of its
            process included.
        trace: A line a request, if not None.
    """

    seed: int
    faults: Faults = field(default_factory=Faults)
    late_limit_s: float = 20_000.0
    plain: bool = False
    looks_first: bool = False
    cached_s: float = 0.0
    on_applied: Callable[[str, str, bytes], None] = lambda verb, key, body: None
    trace: list[str] | None = None
    under_way_s: float = 0.0
    now_us: int = START_US
    steps: int = 0
    store: Store = field(default_factory=MemoryStore)
    processes: list[Process] = field(default_factory=list)
    _late: list[_LatePut] = field(default_factory=list)
    random: random.Random = field(default_factory=random.Random)
    _main: greenlet | None = None
    _turn: Process | None = None  # who was let go on last
    _nobody: Process = field(default_factory=lambda: Process("nobody", greenlet(lambda: None)))

    def __post_init__(self) -> None:
        self.random.seed(self.seed)
        self.store = _ClockedMemory(self)

    def ambient(self, ids: bytes = b"") -> Ambient:
        """Clocks, identities and sleep of the process that asks. All share one true clock, as far
        as theirs didn't stand still.

        Args:
            ids: What identities are drawn from: equal for a process and its double.
        """
        drawn = random.Random(ids) if ids else self.random
        process = self._running() or self._nobody

        def now_us() -> int:
            self.now_us += 1
            return self.now_us - process.lost_us

        def sleep_s(seconds: float) -> None:
            self._pause(int(seconds * 1e6))

        return Ambient(
            now_us,
            lambda: drawn.randbytes(16),
            lambda: (self.now_us - process.lost_us) / 1e6,
            sleep_s,
        )

    def spawn(self, name: str, body: Callable[[SimulatedStore], None]) -> None:
        """A process that runs `body` with a store of its own. It ends when that returns."""
        store = SimulatedStore(self, name)

        def run() -> None:
            try:
                body(store)
            except Crash:
                self.note(f"{name} dies")

        self.processes.append(Process(name, greenlet(run)))

    def run(self, check: Callable[[], None]) -> None:
        """Let the processes run to their ends, in an order that the seed decides.

        Args:
            check: Called after every step.
        """
        self._main = getcurrent()
        while self.processes:
            self._land_late()
            self._step()
            check()
        self._land_late(everything=True)
        check()

    def at_once(self, calls: Sequence[Callable[[], Any]]) -> list[Future[Any]]:
        """Make calls as threads of the process that is running would, in an order that the seed
        decides. If one of them dies, the process does."""
        results: list[Future[Any]] = [Future() for _ in calls]
        if not self.looks_first or self._main is None:  # their order changes nothing
            for result, call in zip(results, calls, strict=True):
                result.set_result(call())
            return results
        parent = self._running()

        def run(result: Future[Any], call: Callable[[], Any]) -> None:
            _settle(result, call)
            if parent is not None and all(one.done() for one in results):
                parent.wakes_us = self.now_us

        owner = parent or self._nobody
        for number, (result, call) in enumerate(zip(results, calls, strict=True)):
            thread = greenlet(partial(run, result, call), parent=self._main)
            name = f"{owner.name}.{number}"
            self.processes.append(Process(name, thread, lost_us=owner.lost_us))
        if parent is None:  # after all processes
            while self.processes:
                self._step()
        else:
            self._pause(_UNTIL_WOKEN_US)
        return results

    def note(self, text: str) -> None:
        """A line of the trace."""
        if self.trace is not None:
            self.trace.append(f"{self.steps:4d} {(self.now_us - START_US) / 1e6:10.1f}s  {text}")

    def chance(self, share: float) -> bool:
        """True so often."""
        return share > 0 and self.random.random() < share

    def bare(self) -> Store:
        """The store without faults, for what comes after all processes."""
        return SimulatedStore(self, "afterwards")

    def request(self, name: str, what: str) -> None:
        """A request boundary: others may go on here, for long, and the process may die."""
        self.note(f"{name}: {what}")
        if getcurrent() is self._main or self._main is None:
            return
        if self.chance(self.faults.die):
            raise Crash
        nap_us = 0
        if self.chance(self.faults.nap):
            nap_us = int(self.random.random() * self.faults.jump_s * 1e6)
        if nap_us and self.chance(self.faults.freeze):
            self.freeze(nap_us)
        else:
            self._pause(nap_us)

    def freeze(self, wait_us: int) -> None:
        """The process that is running does nothing for so long, and its clocks stand still."""
        process, began_us = self._running(), self.now_us
        self._pause(wait_us)
        if process is not None:
            self.note(f"{process.name}: its clocks stood still")
            process.lost_us += self.now_us - began_us

    def dawdle(self) -> None:
        """Let others make some requests."""
        self._pause(self.random.randrange(_DAWDLES_US))

    def later(self, apply: Callable[[], None]) -> None:
        """Apply something some steps from now."""
        due_us = self.now_us + int(self.late_limit_s * 1e6)
        self._late.append(_LatePut(self.steps + self.random.randint(1, 12), due_us, apply))

    def _step(self) -> None:
        self._turn = process = self._choose()
        process.run.switch()
        self.steps += 1
        if process.run.dead:
            self.processes.remove(process)

    def _running(self) -> Process | None:
        """The process that is running; None outside of all."""
        process = self._turn
        return process if process is not None and process.run is getcurrent() else None

    def _pause(self, wait_us: int) -> None:
        process = self._running()
        if process is None or self._main is None:
            self.now_us += wait_us
            return
        process.wakes_us = self.now_us + wait_us
        self._main.switch()

    def _choose(self) -> Process:
        ready = [p for p in self.processes if p.wakes_us <= self.now_us]
        if not ready:
            wakes_us = min(p.wakes_us for p in self.processes)
            # Late requests are under way for a bounded time: they land before the clock jumps.
            self._land_late(before_us=wakes_us)
            self.now_us = wakes_us
            ready = [p for p in self.processes if p.wakes_us <= wakes_us]
        self.now_us += 1_000
        return ready[self.random.randrange(len(ready))] if len(ready) > 1 else ready[0]

    def _land_late(self, *, everything: bool = False, before_us: int = 0) -> None:
        if not self._late:
            return
        due = [
            put
            for put in self._late
            if everything or put.due_step <= self.steps or put.due_us <= before_us
        ]
        for put in due:
            self._late.remove(put)
            put.apply()


def _settle(result: Future[Any], call: Callable[[], Any]) -> None:
    try:
        result.set_result(call())
    except BaseException as error:  # a crash too, for the process that waits
        result.set_exception(error)


class _ClockedMemory(MemoryStore):
    """The objects, stamped by the world's clock."""

    def __init__(self, world: World) -> None:
        super().__init__(
            "simulation", now=lambda: dt.datetime.fromtimestamp(world.now_us / 1e6, dt.UTC)
        )


class SimulatedStore(Store):
    """One process's way to the store: each request is a boundary, and may fail.

    Attributes:
        missed: How many listings so far left out a name.
    """

    backend = "memory"

    def __init__(self, world: World, name: str) -> None:
        self.url = "memory://simulation"
        self._world = world
        self._name = name
        self._cached = CachedFolders(world.store, lambda: world.now_us, int(world.cached_s * 1e6))
        self.missed = 0
        # Where two that come at once both win, a race for few names could miss it by chance.
        self.racers, self.raced_names = (8, 8) if world.looks_first else (2, 1)

    def _view(self) -> Store:
        """The store as this process sees it."""
        world = self._world
        return self._cached if world.cached_s and world.faults is not QUIET else world.store

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        world, faults = self._world, self._world.faults
        asked_us = world.now_us
        world.request(self._name, f"PUT {key}")
        if world.plain and not world.looks_first:
            if_absent = False
        fate = world.random.random() if faults.before else 1.0
        if fate < faults.before:
            world.note("  ... is lost")
            raise StorageError("lost request", key=key)
        if fate < faults.before + faults.late:
            world.note("  ... is late")
            world.later(lambda: self._apply_late(key, body, asked_us, if_absent=if_absent))
            raise StorageError("no answer", key=key)
        if world.looks_first and if_absent:
            if world.store.get_many([key]) != [None]:
                raise ObjectExists("the object exists already", key=key)
            world.note("  ... finds nothing there")
            world.dawdle()
            if_absent = False
        self._cached.put(key, body, if_absent=if_absent)
        world.under_way_s = (world.now_us - asked_us) / 1e6
        world.on_applied("PUT", key, body)
        if fate < faults.before + faults.late + faults.after:
            world.note("  ... its answer is lost")
            raise StorageError("lost answer", key=key)
        if world.chance(faults.die):
            raise Crash

    def _apply_late(self, key: str, body: bytes, asked_us: int, *, if_absent: bool) -> None:
        try:
            self._world.store.put(key, body, if_absent=if_absent)
        except ObjectExists:
            self._world.note(f"late PUT {key} finds it taken")
            return
        self._world.note(f"late PUT {key} lands")
        self._world.under_way_s = (self._world.now_us - asked_us) / 1e6
        self._world.on_applied("PUT", key, body)

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        world = self._world
        world.request(self._name, f"GET {key}")
        if world.chance(world.faults.before):
            raise StorageError("lost answer", key=key)
        return self._maybe_damaged(self._view().get(key, start=start, end=end))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for key in keys:
            try:
                found.append(self.get(key))
            except ObjectNotFound:
                found.append(None)
        return found

    def _maybe_damaged(self, body: bytes) -> bytes:
        world = self._world
        if not body or not world.chance(world.faults.damage):
            return body
        at = world.random.randrange(len(body))
        world.note(f"  ... is damaged at byte {at}")
        if world.chance(0.5):
            return body[:at]
        return body[:at] + bytes([body[at] ^ 1 << world.random.randrange(8)]) + body[at + 1 :]

    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        world = self._world
        world.request(self._name, f"LIST {prefix}")
        if world.chance(world.faults.before):
            raise StorageError("lost answer", key=prefix)
        found = list(self._view().list(prefix, after=after))
        if found and world.chance(world.faults.miss):
            missed = found.pop(world.random.randrange(len(found)))
            self.missed += 1
            world.note(f"  ... misses {missed.key}")
        yield from found

    def list_folders(self, prefix: str) -> Any:
        self._world.request(self._name, f"LIST {prefix}")
        return self._view().list_folders(prefix)

    def head(self, key: str) -> ObjectInfo:
        self._world.request(self._name, f"HEAD {key}")
        return self._view().head(key)

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> None:
        world = self._world
        for key in keys:
            world.request(self._name, f"DELETE {key}")
            fate = world.random.random() if world.faults.before else 1.0
            if fate < world.faults.before:
                raise StorageError("lost request", key=key)
            self._cached.delete([key])
            world.on_applied("DELETE", key, b"")
            if fate < world.faults.before + world.faults.after:
                raise StorageError("lost answer", key=key)

    def server_time(self) -> dt.datetime | None:
        return self._world.store.server_time()

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        self._world.request(self._name, f"GET {key}")
        if self._world.chance(self._world.faults.before):
            raise StorageError("lost answer", key=key)
        return self._view().open_input(key, size_bytes=size_bytes)

    def object_url(self, key: str) -> str:
        return self._world.store.object_url(key)
