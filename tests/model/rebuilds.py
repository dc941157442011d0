"""Rebuilds beside committers: the seal, the next incarnation, its switch; and doubled processes.

A rebuild plans on what it has read of the log, puts a seal under the name that comes next, writes
the same transactions as the next incarnation, and puts its checkpoint last. Committers of the old
incarnation go on until they learn of it: their requests are still under way, they sleep, or they
are copies of a machine that was restored from a snapshot of its memory, which carry one transaction
id and may commit other rows under it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from explorer import Step, quick
from invariants import EPOCH, FENCED, FORWARD, ONCE, ONE_OWNER, ONE_REBUILD

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSED, OPEN, READY = 0, 1, 2
IDLE, PLANNED, SEALED = 0, 1, 2
NOTHING = -1


@quick
class Entry(NamedTuple):
    """A transaction in a log: a commit with its rows, or a seal (no transaction)."""

    epoch: int
    tx: int = NOTHING
    rows: int = 0
    opening: int = NOTHING


@quick
class Process(NamedTuple):
    """One committer; its log is that of `incarnation`, of which `base` comes next."""

    phase: int = CLOSED
    incarnation: int = 1
    base: int = 0
    epoch: int = 0
    opening: int = NOTHING
    tx: int = NOTHING
    rows: int = 0

    def __str__(self) -> str:
        return f"opening {self.opening} (epoch {self.epoch}, incarnation {self.incarnation})"


@quick
class Rebuild(NamedTuple):
    """One that rebuilds: its `plan` says which, `view` how much of the log it has read."""

    plan: int
    phase: int = IDLE
    view: int = 0
    written: int = 0


@quick
class State(NamedTuple):
    """Both incarnations, and who is under way.

    `new` holds the rebuilt transactions with the plan that wrote each, `later` the commits after.
    """

    old: tuple[Entry, ...]
    new: tuple[tuple[Entry, int], ...]
    switched: bool
    later: tuple[Entry, ...]
    air: tuple[tuple[int, int, Entry], ...]
    processes: tuple[Process, ...]
    rebuilds: tuple[Rebuild, ...]
    acked: tuple[tuple[int, int], ...]
    began: int
    opened: int
    doubled: bool


class Rebuilds:
    """Owners, rebuilds and doubled processes on a store with put-if-absent.

    Args:
        owners: How many processes may be open at once; a copy takes the place of one that isn't.
        rebuilds: How many processes rebuild, each by a plan of its own.
        transactions: How many transactions may begin, over all processes.
        doubles: Whether a process may once be doubled.
        mutant: A planted bug, or "".
    """

    def __init__(
        self,
        owners: int,
        rebuilds: int,
        transactions: int,
        *,
        doubles: bool = False,
        mutant: str = "",
    ) -> None:
        self.owners = owners
        self.rebuilds = rebuilds
        self.transactions = transactions
        self.doubles = doubles
        self.mutant = mutant
        self.name = f"rebuilds {owners} owners {rebuilds} rebuilds {transactions} tx"
        self.name += " doubles" * doubles

    def initial(self) -> State:
        """An empty log, closed processes, nobody who rebuilds."""
        rebuilds = tuple(map(Rebuild, range(self.rebuilds)))
        closed = (Process(),) * self.owners
        return State((), (), False, (), (), closed, rebuilds, (), 0, 0, not self.doubles)

    def steps(self, state: State) -> Iterator[Step]:
        """Whatever a process, the network or a rebuild may do next."""
        for index, process in enumerate(state.processes):
            if index and process == state.processes[index - 1]:
                continue
            if process.phase == CLOSED:
                yield from self._open(state, process)
                continue
            if process.phase == OPEN and state.began < self.transactions:
                tx = process._replace(phase=READY, tx=state.began, rows=0)
                yield _moved(state._replace(began=tx.tx + 1), process, tx, "begins", f"T{tx.tx}")
            if process.phase == READY:
                yield from self._put(state, process)
            yield from self._list(state, process, "lists again")
            yield from self._double(state, process)
            yield _moved(state, process, Process(), "crashes or closes")
        for flight in state.air:
            yield from self._land(state, *flight)
        for rebuild in state.rebuilds:
            yield from self._rebuild(state, rebuild)

    # ---- committers

    def _current(self, state: State) -> tuple[int, tuple[Entry, ...]]:
        """What a reader finds: the highest incarnation that has its checkpoint."""
        switched = state.switched or (self.mutant == "switch_by_first_revision" and state.new)
        if not switched:
            return 1, state.old
        return 2, (*(entry for entry, _ in state.new), *state.later)

    def _open(self, state: State, process: Process) -> Iterator[Step]:
        incarnation, log = self._current(state)
        if _is_sealed(log):
            return  # refused until the rebuild is done
        epoch = (log[-1].epoch if log else 0) + 1
        after = Process(OPEN, incarnation, len(log), epoch, state.opened)
        state = state._replace(opened=state.opened + 1)
        if state.opened <= self.owners + 1:
            yield _moved(state, process, after, "opens", f"{after} at revision {after.base}")

    def _double(self, state: State, process: Process) -> Iterator[Step]:
        if state.doubled or Process() not in state.processes:
            return
        copy = process._replace(rows=1) if process.phase == READY else process
        state = state._replace(doubled=True)
        yield _moved(state, Process(), copy, "is doubled", f"{process}")

    def _log(self, state: State, incarnation: int) -> tuple[Entry, ...]:
        return state.old if incarnation == 1 else (*(e for e, _ in state.new), *state.later)

    def _put(self, state: State, process: Process) -> Iterator[Step]:
        log = self._log(state, process.incarnation)
        who = f"T{process.tx} of {process} to revision {process.base}"
        if process.base < len(log):
            found = log[process.base]
            if found.tx != process.tx:
                yield from self._list(state, process, "is refused, lists")
            elif found.rows == process.rows or self.mutant == "own_id_is_enough":
                yield self._acknowledged(state, process, "exists, reads back its own")
            else:
                yield _moved(state, process, Process(), "finds its double's rows, is fenced", who)
            return
        entry = Entry(process.epoch, process.tx, process.rows, process.opening)
        air = tuple(sorted({*state.air, (process.incarnation, process.base, entry)}))
        if air != state.air:
            yield Step("sends", who, state._replace(air=air))

    def _land(self, state: State, incarnation: int, base: int, entry: Entry) -> Iterator[Step]:
        air = tuple(f for f in state.air if f != (incarnation, base, entry))
        state = state._replace(air=air)
        if base != len(self._log(state, incarnation)):
            yield Step("is refused, reply lost", f"T{entry.tx}", state)  # `_put` asks again
            return
        if incarnation == 1:
            landed = state._replace(old=(*state.old, entry))
        else:
            landed = state._replace(later=(*state.later, entry))
        what = f"T{entry.tx} as revision {base} of incarnation {incarnation}"
        yield Step("lands, reply lost", what, landed)
        for process in state.processes:
            own = (process.tx, process.rows) == (entry.tx, entry.rows)
            if own and process.phase == READY and process.base == base:
                yield self._acknowledged(landed, process, "lands, replied")

    def _acknowledged(
        self, state: State, process: Process, kind: str, after: Process | None = None
    ) -> Step:
        what = f"T{process.tx} of {process}"
        after = after or process._replace(phase=OPEN, base=process.base + 1, tx=NOTHING, rows=0)
        acked = tuple(sorted({*state.acked, (process.tx, process.rows)}))
        state = state._replace(acked=acked)
        return _moved(state, process, after, f"{kind}: acknowledged", what)

    def _list(self, state: State, process: Process, kind: str) -> Iterator[Step]:
        """Read the current log, and go on by its head: seals and equal epochs fence."""
        incarnation, log = self._current(state)
        if (incarnation, len(log)) == (process.incarnation, process.base):
            return
        what = f"{process} sees revision {len(log) - 1} of incarnation {incarnation}"
        own = [e for e in log if process.phase == READY and e.tx == process.tx]
        if own:
            if own[0].rows == process.rows or self.mutant == "own_id_is_enough":
                rebuilt = incarnation > process.incarnation  # it stands, and its opening is fenced
                goes_on = not rebuilt or self.mutant == "goes_on_after_a_rebuild"
                after = process._replace(phase=OPEN, incarnation=incarnation, tx=NOTHING, rows=0)
                after = after._replace(base=process.base + 1) if goes_on else Process()
                step = self._acknowledged(state, process, "lists, finds its own", after)
                yield step._replace(broken=FENCED) if rebuilt and goes_on else step
            else:
                yield _moved(state, process, Process(), "finds its double's rows, is fenced", what)
            return
        if _is_sealed(log) or (log and log[-1].epoch >= process.epoch):
            kind = "is fenced by a seal" if _is_sealed(log) else "is fenced"
            yield _moved(state, process, Process(), kind, what)
            return
        after = process._replace(incarnation=incarnation, base=len(log))
        step = _moved(state, process, after, kind, what)
        yield step if incarnation == process.incarnation else step._replace(broken=FENCED)

    # ---- rebuilds

    def _rebuild(self, state: State, rebuild: Rebuild) -> Iterator[Step]:
        if rebuild.phase != IDLE:
            yield self._turned(state, rebuild, Rebuild(rebuild.plan), "rebuild crashes or stops")
        if rebuild.phase == IDLE:
            view = len(state.old) - _is_sealed(state.old)
            if view and not state.switched:
                after = rebuild._replace(phase=PLANNED, view=view)
                yield self._turned(state, rebuild, after, "rebuild plans")
        elif rebuild.phase == PLANNED:
            yield from self._seal(state, rebuild)
        elif rebuild.written < rebuild.view and self.mutant != "checkpoint_first":
            yield self._write(state, rebuild)
        elif not state.switched:
            yield self._turned(state._replace(switched=True), rebuild, rebuild, "rebuild switches")
        elif rebuild.written < rebuild.view:
            yield self._write(state, rebuild)

    def _seal(self, state: State, rebuild: Rebuild) -> Iterator[Step]:
        sealed = rebuild._replace(phase=SEALED)
        if self.mutant == "rebuild_without_seal":
            yield self._turned(state, rebuild, sealed, "rebuild seals")
        elif rebuild.view == len(state.old):
            seal = Entry(state.old[-1].epoch + 1)
            state = state._replace(old=(*state.old, seal))
            yield self._turned(state, rebuild, sealed, "rebuild seals")
        elif state.old[rebuild.view].tx == NOTHING or self.mutant == "seal_lost_to_a_commit":
            yield self._turned(state, rebuild, sealed, "rebuild finds the seal")
        else:
            after = Rebuild(rebuild.plan)
            yield self._turned(state, rebuild, after, "rebuild finds a commit, starts over")

    def _write(self, state: State, rebuild: Rebuild) -> Step:
        """The next transaction, put if absent; the first one says whose plan it is."""
        at, after = rebuild.written, rebuild._replace(written=rebuild.written + 1)
        if at == len(state.new):
            low = self.mutant == "epochs_start_anew"
            epoch = 1 if low else state.old[rebuild.view - 1].epoch + 2  # above the seal's
            entry = state.old[at]._replace(epoch=epoch, opening=NOTHING)
            state = state._replace(new=(*state.new, (entry, rebuild.plan)))
            return self._turned(state, rebuild, after, "rebuild writes")
        if at == 0 and state.new[0][1] != rebuild.plan and self.mutant != "plans_mix":
            what = Rebuild(rebuild.plan)
            return self._turned(state, rebuild, what, "rebuild finds another's, stops")
        return self._turned(state, rebuild, after, "rebuild finds it written")

    @staticmethod
    def _turned(state: State, before: Rebuild, after: Rebuild, kind: str) -> Step:
        rebuilds = _with(state.rebuilds, before, after)
        return Step(kind, f"plan {before.plan}", state._replace(rebuilds=rebuilds))

    # ---- invariants

    def broken(self, state: State) -> str | None:
        """Name the invariant that this state breaks."""
        _, log = self._current(state)
        standing = [(entry.tx, entry.rows) for entry in log if entry.tx != NOTHING]
        if len({tx for tx, _ in standing}) != len(standing):
            return ONCE
        if not set(standing).issuperset(state.acked):
            return FORWARD
        if len({plan for _, plan in state.new}) > 1:
            return ONE_REBUILD
        for log in (state.old, state.later):
            owners: dict[int, int] = {}
            for before, entry in zip((Entry(0), *log), log, strict=False):
                if entry.epoch < before.epoch:
                    return EPOCH
                if owners.setdefault(entry.epoch, entry.opening) != entry.opening:
                    return ONE_OWNER
        return None


def _is_sealed(log: tuple[Entry, ...]) -> bool:
    return bool(log) and log[-1].tx == NOTHING


def _with(items: tuple, before: object, after: object) -> tuple:
    changed = list(items)
    changed[changed.index(before)] = after
    return tuple(sorted(changed))


def _moved(
    state: State, before: Process, after: Process, kind: str, detail: str | None = None
) -> Step:
    processes = _with(state.processes, before, after)
    return Step(
        kind, str(before) if detail is None else detail, state._replace(processes=processes)
    )
