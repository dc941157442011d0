"""Plain stores, without put-if-absent: random names, PUT, LIST; detection, not prevention.

Two writers on one base create two names for one revision, and the store keeps both. The promise is
less than on an exclusive store: an acknowledged transaction stays in the log, or a fork is visible
to every reader; no slot is acknowledged twice. The model has late PUTs, crashes, retries with the
same name and bytes, listings that race with PUTs and deletes, checkpoints and prune with no floor.

An object is (revision, transaction, previous transaction); a transaction is its own random name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from explorer import Step, quick
from invariants import FORK_SEEN, ONE_ACK

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTHING = -1
CLOSED, OPEN, PUTTING, LISTING, FORKED = "closed", "open", "putting", "listing", "forked"


@quick
class Object(NamedTuple):
    """One transaction object; `previous` is the transaction that it builds on."""

    revision: int
    tx: int
    previous: int


@quick
class Checkpoint(NamedTuple):
    """A checkpoint: its revision, and the transactions it covers in their order."""

    revision: int
    covers: tuple[int, ...]


class Fork(Exception):
    """Two names on one revision, or a successor of something else: what readers raise."""


@quick
class Process(NamedTuple):
    """One writer: `head` is the last transaction it knows, `start` what its listing began with."""

    phase: str = CLOSED
    base: int = 0
    head: int = NOTHING
    tx: int = NOTHING
    start: tuple[tuple[Object, ...], int] = ((), -1)


@quick
class State(NamedTuple):
    """The store, the PUTs in the air, the writers, what was acknowledged, and a prune's plan."""

    objects: tuple[Object, ...]
    checkpoint: Checkpoint
    air: tuple[Object, ...]
    processes: tuple[Process, ...]
    acked: tuple[tuple[int, int], ...]
    began: int
    plan: tuple[Object, ...]
    maker: Checkpoint


def replay(objects: tuple[Object, ...], checkpoint: Checkpoint) -> tuple[int, ...]:
    """Read the log as a reader does, or raise Fork."""
    result = list(checkpoint.covers)
    revision = checkpoint.revision + 1
    while found := [o for o in objects if o.revision == revision]:
        if len(found) > 1 or found[0].previous != (result[-1] if result else NOTHING):
            raise Fork
        result.append(found[0].tx)
        revision += 1
    return tuple(result)


class Plain:
    """Writers on one log of a plain store.

    Args:
        writers: How many processes.
        transactions: How many transactions may begin, over all processes.
        maintenance: Whether checkpoints are made and names pruned.
        mutant: A planted bug, or "".
    """

    def __init__(
        self, writers: int, transactions: int, *, maintenance: bool = False, mutant: str = ""
    ) -> None:
        self.writers = writers
        self.transactions = transactions
        self.maintenance = maintenance
        self.mutant = mutant
        self.name = f"plain {writers} writers {transactions} tx" + " maintenance" * maintenance

    def initial(self) -> State:
        """An empty store."""
        none = Checkpoint(-1, ())
        return State((), none, (), (Process(),) * self.writers, (), 0, (), none)

    def steps(self, state: State) -> Iterator[Step]:
        """Whatever a writer, the network or maintenance may do next."""
        for index, process in enumerate(state.processes):
            if index and process == state.processes[index - 1]:
                continue
            if process.phase == CLOSED:
                yield self._open(state, process)
            elif process.phase == OPEN and state.began < self.transactions:
                tx = state.began
                after = process._replace(phase=PUTTING, tx=tx)
                begun = state._replace(began=tx + 1)
                yield _moved(begun, process, after, "begins", f"T{tx} for revision {after.base}")
            elif process.phase == PUTTING:
                yield from self._put(state, process)
            elif process.phase == LISTING:
                yield from self._listed(state, process)
            if process.phase in (PUTTING, LISTING):
                yield _moved(state, process, Process(), "crashes", f"T{process.tx}")
        for item in state.air:
            yield from self._land(state, item)
        if self.maintenance:
            yield from self._maintain(state)

    # ---- writers

    def _open(self, state: State, process: Process) -> Step:
        try:
            log = replay(state.objects, state.checkpoint)
        except Fork:
            after = Process(FORKED)
            return _moved(state, process, after, "opens, raises ForkError", "")
        after = Process(OPEN, len(log), log[-1] if log else NOTHING)
        return _moved(state, process, after, "opens", f"at revision {after.base}")

    def _put(self, state: State, process: Process) -> Iterator[Step]:
        item = Object(process.base, process.tx, process.head)
        what = f"T{item.tx} as revision {item.revision}"
        if item not in state.air:  # the first time, or again with the same name and bytes
            air = tuple(sorted((*state.air, item)))
            yield Step("sends", what, state._replace(air=air))

    def _land(self, state: State, item: Object) -> Iterator[Step]:
        objects = tuple(sorted({*state.objects, item}))
        air = tuple(other for other in state.air if other != item)
        landed = state._replace(objects=objects, air=air)
        what = f"T{item.tx} as revision {item.revision}"
        yield Step("lands, reply lost", what, landed)
        for process in state.processes:
            if process.phase == PUTTING and process.tx == item.tx:
                if self.mutant == "plain_ack_on_put":
                    yield self._acked(landed, process)
                    return
                start = (landed.objects, landed.checkpoint.revision)
                after = process._replace(phase=LISTING, start=start)
                yield _moved(landed, process, after, "lands, answered; starts to list", what)

    def _listed(self, state: State, process: Process) -> Iterator[Step]:
        """The listing ends: it shows what stayed throughout, with or without what came and went."""
        before, checkpoint = process.start
        stayed = set(before) & set(state.objects)
        either = set(before) | set(state.objects)
        for seen in (stayed, either):
            for newest in {checkpoint, state.checkpoint.revision}:
                yield self._judge(state, process, seen, newest)

    def _judge(self, state: State, process: Process, seen: set[Object], checkpoint: int) -> Step:
        if self.mutant == "plain_ignores_checkpoints":
            checkpoint = -1
        own = Object(process.base, process.tx, process.head)
        higher = {o for o in seen if o.revision >= own.revision and o != own}
        if self.mutant == "plain_ignores_siblings":
            higher = {o for o in higher if o.revision > own.revision}
        if own in seen and not higher and checkpoint < own.revision:
            return self._acked(state, process)
        after = Process(FORKED)
        return _moved(state, process, after, "lists, is not the single highest", f"T{process.tx}")

    def _acked(self, state: State, process: Process) -> Step:
        acked = tuple(sorted((*state.acked, (process.base, process.tx))))
        after = Process(OPEN, process.base + 1, process.tx)
        what = f"T{process.tx} as revision {process.base}"
        return _moved(state._replace(acked=acked), process, after, "is acknowledged", what)

    # ---- maintenance

    def _maintain(self, state: State) -> Iterator[Step]:
        """A checkpoint is read, then written; a prune plans by one listing, then deletes."""
        if state.maker.revision < 0:
            try:
                log = replay(state.objects, state.checkpoint)
            except Fork:
                log = ()
            if len(log) - 1 > state.checkpoint.revision:
                maker = Checkpoint(len(log) - 1, log)
                yield Step("maker reads", f"{log}", state._replace(maker=maker))
        else:
            none = Checkpoint(-1, ())
            newest = max(state.checkpoint, state.maker)
            after = state._replace(checkpoint=newest, maker=none)
            yield Step("checkpoint lands", f"of revision {newest.revision}", after)
            yield Step("maker crashes", "", state._replace(maker=none))
        if not state.plan:
            old = tuple(o for o in state.objects if o.revision <= state.checkpoint.revision)
            if old and (self._unforked(state) or self.mutant == "plain_prunes_forks"):
                yield Step("prune plans", f"{old}", state._replace(plan=old))
        for item in state.plan:
            objects = tuple(o for o in state.objects if o != item)
            plan = tuple(o for o in state.plan if o != item)
            what = f"T{item.tx} at revision {item.revision}"
            yield Step("prune deletes", what, state._replace(objects=objects, plan=plan))

    @staticmethod
    def _unforked(state: State) -> bool:
        try:
            replay(state.objects, state.checkpoint)
        except Fork:
            return False
        old = [o.revision for o in state.objects if o.revision <= state.checkpoint.revision]
        return len(set(old)) == len(old)

    # ---- invariants

    def broken(self, state: State) -> str | None:
        """Name the invariant that this state breaks."""
        slots = [revision for revision, _ in state.acked]
        if len(set(slots)) != len(slots):
            return ONE_ACK
        try:
            log = replay(state.objects, state.checkpoint)
        except Fork:
            return None  # visible to whoever reads: that is all a plain store promises
        for revision, tx in state.acked:
            if revision >= len(log) or log[revision] != tx:
                return FORK_SEEN
        return None


def _moved(state: State, before: Process, after: Process, kind: str, detail: str) -> Step:
    processes = list(state.processes)
    processes[processes.index(before)] = after
    return Step(kind, detail, state._replace(processes=tuple(sorted(processes))))
