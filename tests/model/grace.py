"""gc: a file goes once it is older than the grace period and unnamed.

Nothing tells a slow transaction's file from an abandoned one but its age. So gc deletes an unnamed
file only when it is older than the grace period by the store's own time, and a committer sends a
commit only while its oldest file is younger than half of that: the PUT has the other half to land.
gc takes the ages first and reads the log after that: a file that was old at the first moment was
committed before it or never will be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from explorer import Step, quick
from invariants import FORWARD, KEPT, ONCE

if TYPE_CHECKING:
    from collections.abc import Iterator

HALF = 1
GRACE = 2 * HALF
NOTHING = -1


@quick
class Flight(NamedTuple):
    """A PUT in the air."""

    base: int
    tx: int
    age: int


@quick
class Process(NamedTuple):
    """A committer and the transaction that it carries, if any."""

    tx: int = NOTHING
    base: int = 0


@quick
class Collector(NamedTuple):
    """A gc under way: what it took for old (then unnamed too), or the log it read too early."""

    old: tuple[int, ...] | None = None
    named: tuple[int, ...] | None = None


@quick
class State(NamedTuple):
    """The log as transactions, the files as (transaction, age)."""

    log: tuple[int, ...]
    files: tuple[tuple[int, int], ...]
    air: tuple[Flight, ...]
    processes: tuple[Process, ...]
    collector: Collector
    acked: tuple[int, ...]
    began: int


class Grace:
    """Committers and gc.

    Args:
        committers: How many processes.
        transactions: How many transactions may begin, over all processes.
        mutant: A planted bug, or "".
    """

    def __init__(self, committers: int, transactions: int, *, mutant: str = "") -> None:
        self.committers = committers
        self.transactions = transactions
        self.mutant = mutant
        self.name = f"grace {committers} committers {transactions} tx"

    def initial(self) -> State:
        """An empty log, no files."""
        processes = (Process(),) * self.committers
        return State((), (), (), processes, Collector(), (), 0)

    def steps(self, state: State) -> Iterator[Step]:
        """Whatever a committer, the network, gc or the clock may do next."""
        for index, process in enumerate(state.processes):
            if index and process == state.processes[index - 1]:
                continue
            if process.tx == NOTHING:
                if state.began < self.transactions:
                    yield self._begin(state, process)
                continue
            yield from self._commit(state, process)
            yield _moved(state, process, Process(), "gives up or crashes", f"T{process.tx}")
        for flight in state.air:
            yield from self._land(state, flight)
        yield from self._collect(state)
        files = tuple((tx, min(age + 1, GRACE + 1)) for tx, age in state.files)
        air = tuple(f._replace(age=f.age + 1) for f in state.air if f.age < HALF)
        yield Step("half a grace period passes", "", state._replace(files=files, air=air))

    def _begin(self, state: State, process: Process) -> Step:
        tx = state.began
        files = (*state.files, (tx, 0))
        after = Process(tx, len(state.log))
        state = state._replace(files=files, began=tx + 1)
        return _moved(state, process, after, "begins and writes its file", f"T{tx}")

    def _commit(self, state: State, process: Process) -> Iterator[Step]:
        tx, base = process
        if base < len(state.log):
            if state.log[base] == tx:
                yield self._acked(state, process, "reads back its own")
            else:
                after = Process(tx, len(state.log))
                yield _moved(state, process, after, "loses and replays", f"T{tx}")
            return
        age = dict(state.files).get(tx, GRACE + 1)
        if age > HALF and self.mutant != "commit_old_files":
            return  # refused: its files may be gone, so they have to be written again
        air = tuple(sorted({*state.air, Flight(base, tx, 0)}))
        what = f"T{tx} to revision {base}, its file {age} old"
        yield Step("sends", what, state._replace(air=air))

    def _land(self, state: State, flight: Flight) -> Iterator[Step]:
        log = (*state.log, flight.tx)
        air = tuple(f for f in state.air if f.base >= len(log))
        landed = state._replace(log=log, air=air)
        yield Step("lands, reply lost", f"T{flight.tx} as revision {flight.base}", landed)
        for process in state.processes:
            if process == (flight.tx, flight.base):
                yield self._acked(landed, process, "lands, acknowledged")

    def _acked(self, state: State, process: Process, kind: str) -> Step:
        acked = tuple(sorted({*state.acked, process.tx}))
        return _moved(state._replace(acked=acked), process, Process(), kind, f"T{process.tx}")

    def _collect(self, state: State) -> Iterator[Step]:
        old, named = state.collector
        grace = -1 if self.mutant == "gc_grace_zero" else GRACE
        aged = tuple(tx for tx, age in state.files if age > grace)
        if old is None and named is None:
            if self.mutant == "gc_log_before_ages":
                collector = Collector(None, state.log)
                yield Step("gc reads the log", "", state._replace(collector=collector))
            elif aged:
                collector = Collector(aged, None)
                yield Step("gc takes the ages", f"{aged}", state._replace(collector=collector))
        elif old is None or named is None:
            names = state.log if named is None else named
            doomed = tuple(tx for tx in (aged if old is None else old) if tx not in names)
            collector = Collector(doomed, ()) if doomed else Collector()
            kind = "gc reads the log" if named is None else "gc takes the ages"
            yield Step(kind, f"to delete: {doomed}", state._replace(collector=collector))
        else:
            for tx in old:
                rest = tuple(other for other in old if other != tx)
                collector = Collector(rest, ()) if rest else Collector()
                files = tuple(file for file in state.files if file[0] != tx)
                state_after = state._replace(files=files, collector=collector)
                yield Step("gc deletes", f"the file of T{tx}", state_after)
            yield Step("gc stops or crashes", "", state._replace(collector=Collector()))

    def broken(self, state: State) -> str | None:
        """Name the invariant that this state breaks."""
        if len(set(state.log)) != len(state.log):
            return ONCE
        if not set(state.log).issuperset(state.acked):
            return FORWARD
        return None if set(state.log) <= {tx for tx, _ in state.files} else KEPT


def _moved(state: State, before: Process, after: Process, kind: str, detail: str) -> Step:
    processes = list(state.processes)
    processes[processes.index(before)] = after
    return Step(kind, detail, state._replace(processes=tuple(sorted(processes))))
