"""Prune and names created again: owners and guests on a store with put-if-absent, with clocks.

A pruned name is free, so a committer that slept can create it once more, below the surviving
checkpoint where no reader looks. What prevents it is time, in ticks that all processes see pass:

- a name is pruned only when its object is older than the floor (`FLOOR` ticks);
- a committer sends a PUT only while its belief "this name was absent" is at most half of that old;
- a PUT lands within the other half, or never.

`late=True` drops the last assumption: PUTs land whenever they like. Then names can be created
again, and the model carries the cure: a reply that comes later than the floor after the belief is
not acknowledged before a listing has shown that the commit stands in the log.

`stands=True` lets the clock of a process stand still while the others go on, as that of a machine
does that is paused: it then sends by a belief that is older than it knows. What cures that is the
same look, if the store's clock, told by the reply, dates the belief.

`repair=True` lets somebody repair beside a prune: pruned transactions that the mirror still has, or
had when the repair listed it, are put back under their names. That harms nobody. Nothing goes the
other way there: below the checkpoint a name may hold what was never committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from explorer import Step, quick
from invariants import EPOCH, FORWARD, MIRRORED, NOT_RECREATED, ONCE, ONE_OWNER

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSED, OPEN, READY = 0, 1, 2
NOTHING = -1
HALF = 1
FLOOR = 2 * HALF


@quick
class Commit(NamedTuple):
    """One transaction object."""

    epoch: int
    tx: int
    opening: int
    guest: bool


@quick
class Flight(NamedTuple):
    """A PUT in the air: the revision it names, its object, its age."""

    base: int
    commit: Commit
    age: int


@quick
class Process(NamedTuple):
    """One committer.

    Attributes:
        base: The revision that comes next, as far as it knows.
        belief: Ticks since it knew that name to be absent.
        measured: The same by its own clock.
        sent: Ticks since the first PUT of that name, or NOTHING if none was sent.
        committed: Whether it has seen a commit of this opening stand.
    """

    guest: bool
    phase: int = CLOSED
    base: int = 0
    epoch: int = 0
    opening: int = NOTHING
    tx: int = NOTHING
    belief: int = 0
    measured: int = 0
    sent: int = NOTHING
    committed: bool = False

    def __str__(self) -> str:
        name = "" if self.opening == NOTHING else f" #{self.opening}"
        kind = "guest" if self.guest else "owner"
        return f"{kind}{name} (epoch {self.epoch}, belief {self.belief} old)"


@quick
class State(NamedTuple):
    """The true log with the age of each object, and the store: names below `low` are pruned.

    `again` holds the objects created under pruned names, `restored` the revisions put back there.
    """

    log: tuple[Commit, ...]
    ages: tuple[int, ...]
    low: int
    again: tuple[tuple[int, Commit], ...]
    air: tuple[Flight, ...]
    processes: tuple[Process, ...]
    acked: tuple[int, ...]
    began: int
    restored: tuple[int, ...] = ()

    def stands(self, base: int) -> bool:
        """Whether the committed transaction is there under its name."""
        return self.low <= base < len(self.log) or base in self.restored


class Prune:
    """Owners and guests, prune and time.

    Args:
        owners: How many processes open as owner.
        guests: How many open as guest.
        transactions: How many transactions may begin, over all processes.
        late: Whether a PUT may land at any time after it was sent.
        stands: Whether the clock of a process may stand still; with `late` only.
        repair: Whether somebody repairs.
        rival: Begin where one owner has opened epoch 1, and another has just committed under it.
        mutant: A planted bug, or "".
    """

    def __init__(
        self,
        owners: int,
        guests: int,
        transactions: int,
        *,
        late: bool = False,
        stands: bool = False,
        repair: bool = False,
        rival: bool = False,
        mutant: str = "",
    ) -> None:
        self.processes = tuple(map(Process, [False] * owners + [True] * guests))
        self.transactions = transactions
        self.late = late
        self.stands = stands
        self.repair = repair
        self.rival = rival
        self.mutant = mutant
        self.name = f"prune {owners} owners {guests} guests {transactions} tx" + " late PUTs" * late
        self.name += " standing clocks" * stands + " repair" * repair
        self.name += " rival" * rival

    def initial(self) -> State:
        """An empty log and closed processes, or the rivals."""
        if self.rival:
            first, *others = self.processes
            opened = first._replace(phase=OPEN, epoch=1)
            commit = Commit(1, 0, 0, False)
            return State((commit,), (0,), 0, (), (), tuple(sorted((opened, *others))), (0,), 1)
        return State((), (), 0, (), (), self.processes, (), 0)

    def steps(self, state: State) -> Iterator[Step]:
        """Whatever a process, the network, prune or the clock may do next."""
        for index, process in enumerate(state.processes):
            if index and process == state.processes[index - 1]:
                continue
            if process.phase == CLOSED:
                yield self._open(state, process)
                continue
            if process.phase == OPEN and state.began < self.transactions:
                yield self._begin(state, process)
            if process.phase == READY:
                yield from self._put(state, process)
            if process.measured or process.base < len(state.log):
                yield self._list(state, process, "lists again")
            yield self._moved(state, process, Process(process.guest), "crashes or closes")
        for flight in state.air:
            yield from self._land(state, flight)
        yield from self._prune(state)
        if self.repair:
            yield from self._repair(state)
        yield self._tick(state)
        for process in dict.fromkeys(state.processes) if self.stands else ():
            if process.phase != CLOSED:
                yield self._tick(state, process)

    # ---- committers

    def _open(self, state: State, process: Process) -> Step:
        epoch = state.log[-1].epoch if state.log else 0
        epoch = max(epoch, 1) if process.guest else epoch + 1
        after = Process(process.guest, OPEN, len(state.log), epoch)
        return self._moved(state, process, after, "opens", f"{after} at revision {after.base}")

    def _begin(self, state: State, process: Process) -> Step:
        tx = state.began
        opening = tx if process.opening == NOTHING else process.opening
        after = process._replace(phase=READY, tx=tx, opening=opening, sent=NOTHING)
        state = state._replace(began=tx + 1)
        return self._moved(state, process, after, "begins", f"T{tx} by {after}")

    def _put(self, state: State, process: Process) -> Iterator[Step]:
        """Send, or be refused: both need a belief that is young enough."""
        if process.measured > HALF and self.mutant != "idle_no_list":
            return
        who = f"T{process.tx} of {process} to revision {process.base}"
        if state.stands(process.base):
            if state.log[process.base].tx == process.tx:
                yield self._replied(state, process, "exists, reads back its own")
            else:
                yield self._list(state, process, "is refused, replays")
            return
        flight = Flight(process.base, _object(process), 0)
        if flight.base < state.low and any(a[0] == flight.base for a in state.again):
            return  # a name created twice over: broken or of no consequence already
        after = process._replace(sent=max(process.sent, 0))
        air = tuple(sorted({*state.air, flight}))
        if air != state.air:
            yield self._moved(state._replace(air=air), process, after, "sends", who)

    def _land(self, state: State, flight: Flight) -> Iterator[Step]:
        base, commit, _ = flight
        if state.stands(base):
            return  # refused; what its sender makes of that is in `_put`
        if base == len(state.log):
            landed = state._replace(log=(*state.log, commit), ages=(*state.ages, 0))
            kind = "lands"
        else:
            landed = state._replace(again=tuple(sorted({*state.again, (base, commit)})))
            kind = "lands on a pruned name"
        landed = landed._replace(air=_still_possible(state.air, landed))
        what = f"T{commit.tx} as revision {base}, epoch {commit.epoch}"
        yield Step(f"{kind}, reply lost", what, landed)
        for process in state.processes:
            if process.phase == READY and process.tx == commit.tx and process.base == base:
                yield self._replied(landed, process, f"{kind}, replied")

    def _replied(self, state: State, process: Process, kind: str) -> Step:
        """The store said "created", or a read back found the own object: is it in time?"""
        careless = self.mutant in ("late_reply_acknowledged", "idle_no_list")
        own = self.mutant == "reply_dated_by_own_clock"
        age = process.measured if own else process.belief  # the reply tells the store's time
        if self.late and age > FLOOR and not careless:
            return self._list(state, process, f"{kind} too late, lists")
        return self._acknowledge(state, process, kind)

    def _acknowledge(self, state: State, process: Process, kind: str) -> Step:
        """The next name came into being when this PUT landed: not before it was first sent."""
        since = 0 if self.mutant == "belief_from_reply" else process.sent
        after = process._replace(
            phase=OPEN,
            base=process.base + 1,
            tx=NOTHING,
            belief=since,
            measured=since,
            sent=NOTHING,
            committed=True,
        )
        state = state._replace(acked=tuple(sorted({*state.acked, process.tx})))
        what = f"T{process.tx} as revision {process.base} of {process}"
        return self._moved(state, process, after, f"{kind}: acknowledged", what)

    def _list(self, state: State, process: Process, kind: str) -> Step:
        """List and replay to the head, then go on by the rules."""
        size, base = len(state.log), process.base
        what = f"{process} at revision {base}: revisions {state.low} to {size - 1} are there"
        if base == size:
            sent = min(process.sent, 0)
            return self._moved(
                state, process, process._replace(belief=0, measured=0, sent=sent), kind, what
            )
        if process.phase == READY and process.sent != NOTHING:
            if base < state.low and self.mutant != "retry_unknown_after_prune":
                # Its outcome can be learnt from nothing that is left: unknown for good.
                closed = Process(process.guest)
                return self._moved(state, process, closed, "stays unknown for good", what)
            if base >= state.low and state.log[base].tx == process.tx:
                return self._acknowledge(state, process, "lists, finds its own")
        if self._may_go_on(state, process):
            after = process._replace(base=size, belief=0, measured=0, sent=NOTHING)
            return self._moved(state, process, after, kind, what)
        return self._moved(state, process, Process(process.guest), "is fenced or starts over", what)

    def _may_go_on(self, state: State, process: Process) -> bool:
        """The rule of fencing, where part of what was committed meanwhile may be pruned unseen."""
        head = state.log[-1].epoch
        if process.guest or head != process.epoch:
            return head == process.epoch if process.guest else head < process.epoch
        if process.committed:
            return True
        unseen = process.base < state.low - 1 and self.mutant != "fence_by_retained_only"
        news = state.log[max(process.base, state.low - 1) :]  # the checkpoint tells of its own
        return not unseen and all(c.guest or c.epoch < process.epoch for c in news)

    # ---- prune and the clock

    def _prune(self, state: State) -> Iterator[Step]:
        """Forget all names up to a checkpoint whose objects are all older than the floor."""
        floor = -1 if self.mutant == "prune_floor_zero" else FLOOR
        for last in range(state.low, len(state.log)):
            if state.ages[last] > floor:
                yield Step("prunes", f"up to revision {last}", state._replace(low=last + 1))

    def _repair(self, state: State) -> Iterator[Step]:
        again = dict(state.again)
        for revision in range(state.low):
            if revision not in state.restored and revision not in again:
                restored = tuple(sorted((*state.restored, revision)))
                what = f"revision {revision}"
                yield Step("repair puts back", what, state._replace(restored=restored))
            elif self.mutant == "repair_copies_pruned_names" and revision in again:
                wrong = again[revision] != state.log[revision]
                kind, what = "repair copies to the mirror", f"revision {revision}"
                yield Step(kind, what, state, broken=MIRRORED if wrong else None)

    def _tick(self, state: State, standing: Process | None = None) -> Step:
        ages = tuple(min(age + 1, FLOOR + 1) for age in state.ages)
        processes = list(state.processes)
        if standing is not None:
            processes.remove(standing)
        processes = [self._older(p) for p in processes]
        if standing is not None:
            processes.append(self._older(standing)._replace(measured=standing.measured))
        air = state.air
        if not self.late:
            air = tuple(f._replace(age=f.age + 1) for f in air if f.age < HALF)
        state = state._replace(ages=ages, processes=tuple(sorted(processes)), air=air)
        whose = "" if standing is None else f"but not by the clock of {standing}"
        return Step("half a floor passes", whose, state)

    def _older(self, process: Process) -> Process:
        if process.phase == CLOSED:
            return process
        oldest = (FLOOR if self.late else HALF) + 1
        return process._replace(
            belief=min(process.belief + 1, oldest),
            measured=min(process.measured + 1, oldest),
            sent=process.sent if process.sent == NOTHING else min(process.sent + 1, oldest),
        )

    # ---- invariants

    def broken(self, state: State) -> str | None:
        """Name the invariant that this state breaks."""
        standing = [commit.tx for commit in state.log]
        if len(set(standing)) != len(standing):
            return ONCE
        if not set(standing).issuperset(state.acked):
            return FORWARD
        if state.again and not self.late:
            return NOT_RECREATED
        head, owner = 0, NOTHING
        for commit in state.log:
            if commit.epoch < head or (commit.guest and commit.epoch != max(head, 1)):
                return EPOCH
            if commit.epoch > head:
                owner = NOTHING
            if not commit.guest:
                if owner not in (NOTHING, commit.opening):
                    return ONE_OWNER
                owner = commit.opening
            head = commit.epoch
        return None

    @staticmethod
    def _moved(
        state: State, before: Process, after: Process, kind: str, detail: str | None = None
    ) -> Step:
        processes = list(state.processes)
        processes[processes.index(before)] = after
        state = state._replace(processes=tuple(sorted(processes)))
        return Step(kind, before if detail is None else detail, state)


def _object(process: Process) -> Commit:
    return Commit(process.epoch, process.tx, process.opening, process.guest)


def _still_possible(air: tuple[Flight, ...], landed: State) -> tuple[Flight, ...]:
    """The PUTs in the air that the store would not refuse now.

    A name taken above `low` may be pruned while a late PUT to it is still in the air, so only names
    created again are out of reach for good.
    """
    taken = {base for base, _ in landed.again}
    return tuple(f for f in air if f.base not in taken)
