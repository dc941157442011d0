"""Rebuilds beside committers: the seal, the opening checkpoint that switches; doubled processes.

A rebuild plans on what it has read of the log, puts a seal under the name that comes next, and then
the opening checkpoint of the next incarnation, under a name that follows from the seal: put if
absent, and copied to the mirror. That object is the switch. The incarnation in use is the highest
of any name, so readers that find a commit of it whose opening checkpoint is lost read its copy, or
refuse; a log that ends in a seal is refused, too. Whoever opens the new incarnation makes sure of
that copy first.

Committers of the old incarnation go on until they learn of it: their requests are still under way,
they sleep, or they are copies of a machine that was restored from a snapshot of its memory, which
carry one transaction id and may commit other rows under it. A disaster takes the opening checkpoint
from the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from explorer import Step, quick
from invariants import EPOCH, FENCED, FORWARD, ONCE, ONE_OWNER, ONE_REBUILD, READABLE

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
    """One committer; in its incarnation the commit number `base` comes next."""

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


@quick
class Opening(NamedTuple):
    """An opening checkpoint: the plan that wrote it, what it covers of the old log."""

    plan: int
    covers: int
    epoch: int


class View(NamedTuple):
    """What a listing shows: an incarnation, its commits, which of them comes next, its epoch."""

    incarnation: int
    entries: tuple[Entry, ...]
    base: int
    epoch: int
    refused: bool = False


@quick
class State(NamedTuple):
    """Both incarnations, and who is under way.

    Attributes:
        old: The commits of the old incarnation, and the seal.
        openings: The opening checkpoints of the new one.
        copied: Whether the mirror has the opening checkpoint.
        lost: Whether the log has lost it.
        later: The commits of the new incarnation.
    """

    old: tuple[Entry, ...]
    openings: tuple[Opening, ...]
    copied: bool
    lost: bool
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
        return State((), (), False, False, (), (), closed, rebuilds, (), 0, 0, not self.doubles)

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
        in_use = any(process.incarnation == 2 for process in state.processes)
        if state.openings and not state.lost and (state.copied or not in_use):
            yield Step("the opening checkpoint is lost", "", state._replace(lost=True))

    # ---- committers

    def _current(self, state: State) -> View:
        """What a reader finds: the highest incarnation of any name, or a refusal."""
        named = bool(state.openings and not state.lost) or bool(state.later)
        sealed = _is_sealed(state.old)
        falls = state.lost and self.mutant == "falls_back_to_the_older"
        if falls or not (named or (sealed and state.copied)):
            epoch = state.old[-1].epoch if state.old else 0
            return View(1, state.old, len(state.old), epoch, sealed and not falls)
        refused = state.lost and not state.copied
        opening = state.openings[0]
        entries = (*state.old[: opening.covers], *state.later)
        epoch = state.later[-1].epoch if state.later else opening.epoch
        return View(2, entries, len(state.later), epoch, refused)

    def _open(self, state: State, process: Process) -> Iterator[Step]:
        view = self._current(state)
        if view.refused or _is_sealed(view.entries) or state.opened > self.owners + 1:
            return  # refused until the rebuild is done
        after = Process(OPEN, view.incarnation, view.base, view.epoch + 1, state.opened)
        copies = view.incarnation == 2 and self.mutant != "opener_copies_no_checkpoint"
        state = state._replace(opened=state.opened + 1, copied=state.copied or copies)
        yield _moved(state, process, after, "opens", f"{after} at revision {after.base}")

    def _double(self, state: State, process: Process) -> Iterator[Step]:
        if state.doubled or Process() not in state.processes:
            return
        copy = process._replace(rows=1) if process.phase == READY else process
        state = state._replace(doubled=True)
        yield _moved(state, Process(), copy, "is doubled", f"{process}")

    def _log(self, state: State, incarnation: int) -> tuple[Entry, ...]:
        return state.old if incarnation == 1 else state.later

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
        view = self._current(state)
        incarnation, log = view.incarnation, view.entries
        if (incarnation, view.base) == (process.incarnation, process.base):
            return
        what = f"{process} sees {view.base} commits of incarnation {incarnation}"
        own = [e for e in log if process.phase == READY and e.tx == process.tx]
        if own:
            if own[0].rows == process.rows or self.mutant == "own_id_is_enough":
                rebuilt = incarnation > process.incarnation  # it stands, and its opening is fenced
                goes_on = not rebuilt or self.mutant == "goes_on_after_a_rebuild"
                after = process._replace(phase=OPEN, incarnation=incarnation, tx=NOTHING, rows=0)
                base = view.base if rebuilt else process.base + 1
                after = after._replace(base=base) if goes_on else Process()
                step = self._acknowledged(state, process, "lists, finds its own", after)
                yield step._replace(broken=FENCED) if rebuilt and goes_on else step
            else:
                yield _moved(state, process, Process(), "finds its double's rows, is fenced", what)
            return
        if _is_sealed(log) or view.epoch >= process.epoch:
            kind = "is fenced by a seal" if _is_sealed(log) else "is fenced"
            yield _moved(state, process, Process(), kind, what)
            return
        after = process._replace(incarnation=incarnation, base=view.base)
        step = _moved(state, process, after, kind, what)
        yield step if incarnation == process.incarnation else step._replace(broken=FENCED)

    # ---- rebuilds

    def _rebuild(self, state: State, rebuild: Rebuild) -> Iterator[Step]:
        if rebuild.phase != IDLE:
            yield self._turned(state, rebuild, Rebuild(rebuild.plan), "rebuild crashes or stops")
        if rebuild.phase == IDLE:
            read = len(state.old) - _is_sealed(state.old)
            view = self._current(state)
            if read and (view.refused or view.incarnation == 1):
                after = rebuild._replace(phase=PLANNED, view=read)
                yield self._turned(state, rebuild, after, "rebuild plans")
        elif rebuild.phase == PLANNED:
            yield from self._seal(state, rebuild)
        else:
            yield from self._switch(state, rebuild)

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

    def _switch(self, state: State, rebuild: Rebuild) -> Iterator[Step]:
        """Put the opening checkpoint if absent, then its copy; the name follows from the seal."""
        there = () if state.lost and not state.copied else state.openings
        if any(opening.plan == rebuild.plan for opening in there):
            if not state.copied:
                after = state._replace(copied=True)
                yield self._turned(after, rebuild, Rebuild(rebuild.plan), "rebuild copies")
            return
        if there and self.mutant != "opening_named_by_plan":
            after = Rebuild(rebuild.plan)
            yield self._turned(state, rebuild, after, "rebuild finds another's, stops")
            return
        low = self.mutant == "epochs_start_anew"
        epoch = 1 if low else state.old[rebuild.view - 1].epoch + 2  # above the seal's
        opening = Opening(rebuild.plan, rebuild.view, epoch)
        state = state._replace(openings=(*there, opening), lost=state.lost and state.copied)
        yield self._turned(state, rebuild, rebuild, "rebuild switches")

    @staticmethod
    def _turned(state: State, before: Rebuild, after: Rebuild, kind: str) -> Step:
        rebuilds = _with(state.rebuilds, before, after)
        return Step(kind, f"plan {before.plan}", state._replace(rebuilds=rebuilds))

    # ---- invariants

    def broken(self, state: State) -> str | None:
        """Name the invariant that this state breaks."""
        view = self._current(state)
        if view.refused and (state.later or state.copied):
            return READABLE
        standing = [(entry.tx, entry.rows) for entry in view.entries if entry.tx != NOTHING]
        if len({tx for tx, _ in standing}) != len(standing):
            return ONCE
        if not set(standing).issuperset(state.acked):
            return FORWARD
        if len(state.openings) > 1:
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
