"""Commit and fencing on a store with put-if-absent: owners, guests, lost PUTs, crashes, gc.

The log is an append-only tuple, because every revision has one agreed name: a PUT of revision r
lands if the log has r entries and is refused if it has more. Time plays no part here: PUTs stay in
the air for as long as they like. What pruned names add, and with them clocks, is in `prune.py`; the
grace period of gc is in `grace.py`.

Abstractions: one data file per transaction; a transaction id is the order in which it began; an
opening is named by its first transaction. A listing and the replay after it are one step, which
loses nothing: the log may have grown before the next step. A file is old, and so gc's, once its
transaction is carried by no process and no PUT.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from explorer import Step, quick
from invariants import EPOCH, FORWARD, JUST, KEPT, ONCE, ONE_OWNER, VALID

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSED, OPEN, READY = 0, 1, 2
NOTHING = -1


@quick
class Commit(NamedTuple):
    """One transaction object: what the store keeps under the name of its revision."""

    epoch: int
    guest: bool
    tx: int
    opening: int
    file_epoch: int
    removes: int


@quick
class Pending(NamedTuple):
    """A transaction whose outcome is unknown, kept by its application while it does another."""

    tx: int
    base: int
    file_epoch: int
    removes: int


@quick
class Process(NamedTuple):
    """One committer.

    READY means that the transaction's files are written and it wants revision `base`.
    """

    guest: bool
    phase: int = CLOSED
    base: int = 0
    epoch: int = 0
    opening: int = NOTHING
    tx: int = NOTHING
    file_epoch: int = 0
    removes: int = NOTHING
    pending: Pending | None = None

    def __str__(self) -> str:
        kind = "guest" if self.guest else "owner"
        name = "" if self.opening == NOTHING else f" #{self.opening}"
        return f"{kind}{name} (epoch {self.epoch})"


@quick
class State(NamedTuple):
    """The store, the processes, and what has been promised to whom.

    `kept_from` is the surviving checkpoint's revision: states before it are pruned away.
    """

    log: tuple[Commit, ...]
    air: tuple[tuple[int, Commit], ...]
    files: tuple[tuple[int, int], ...]
    processes: tuple[Process, ...]
    acked: tuple[int, ...]
    began: int
    kept_from: int


@cache
def live(log: tuple[Commit, ...]) -> dict[int, int]:
    """Replay a log: the live transactions' files, as transaction to epoch in the file's name."""
    result: dict[int, int] = {}
    for commit in log:
        result.pop(commit.removes, None)
        result[commit.tx] = commit.file_epoch
    return result


@cache
def referenced(log: tuple[Commit, ...], kept_from: int) -> set[tuple[int, int]]:
    """The files that any retained revision up to the end of this log references."""
    result: set[tuple[int, int]] = set()
    for end in range(max(kept_from, 0) + 1, len(log) + 1):
        result.update((epoch, tx) for tx, epoch in live(log[:end]).items())
    return result


@cache
def log_broken(log: tuple[Commit, ...]) -> str | None:
    """Name the invariant that a log breaks by itself."""
    if len({commit.tx for commit in log}) != len(log):
        return ONCE
    head, owner = 0, NOTHING
    for commit in log:
        if commit.epoch < head or (commit.guest and commit.epoch != max(head, 1)):
            return EPOCH
        if commit.file_epoch != commit.epoch:
            return EPOCH  # a rebuild finds a lost commit's place by the epoch of its files
        if commit.epoch > head:
            owner = NOTHING
        if not commit.guest:
            if owner not in (NOTHING, commit.opening):
                return ONE_OWNER
            owner = commit.opening
        head = commit.epoch
    for size, commit in enumerate(log):
        if commit.removes != NOTHING and commit.removes not in live(log[:size]):
            return VALID
    return None


class Exclusive:
    """Owners and guests on one log.

    Args:
        owners: How many processes open as owner.
        guests: How many open as guest.
        transactions: How many transactions may begin, over all processes.
        compaction: Guests remove the oldest live file, and prune forgets old revisions.
        mutant: A planted bug, or "".
    """

    def __init__(
        self,
        owners: int,
        guests: int,
        transactions: int,
        *,
        compaction: bool = False,
        mutant: str = "",
    ) -> None:
        self.kinds = [False] * owners + [True] * guests
        self.transactions = transactions
        self.compaction = compaction
        self.mutant = mutant
        self.name = f"exclusive {owners} owners {guests} guests {transactions} tx"
        self.name += " compaction" * compaction

    def initial(self) -> State:
        """An empty log and processes that have opened nothing."""
        return State((), (), (), tuple(Process(guest) for guest in self.kinds), (), 0, NOTHING)

    # ---- steps

    def steps(self, state: State) -> Iterator[Step]:
        """Whatever a process, the network, prune or gc may do next."""
        for index, process in enumerate(state.processes):
            if index and process == state.processes[index - 1]:
                continue  # equal processes do equal things
            if process.phase == CLOSED:
                yield self._open(state, process)
            elif process.phase == OPEN:
                yield from self._idle(state, process)
            else:
                yield from self._commit(state, process)
            if process.phase == READY or process.pending or not process.guest:
                if process.phase == CLOSED:
                    continue
                yield self._moved(state, process, self._closed(process), "crashes or closes")
        for flight in state.air:
            yield from self._land(state, flight)
        yield from self._collect(state)
        if self.compaction and state.kept_from < len(state.log) - 1:
            kept = state.kept_from + 1
            yield Step("prune", f"up to revision {kept}", state._replace(kept_from=kept))

    def _open(self, state: State, process: Process) -> Step:
        epoch = state.log[-1].epoch if state.log else 0
        if process.guest:
            epoch = max(epoch, 1)  # on an empty log, as the first owner
        elif self.mutant != "epoch_not_bumped_on_open":
            epoch += 1
        after = process._replace(phase=OPEN, base=len(state.log), epoch=epoch)
        return self._moved(state, process, after, "opens", f"{after} at revision {after.base}")

    def _idle(self, state: State, process: Process) -> Iterator[Step]:
        if state.began < self.transactions:
            yield self._begin(state, process)
        if process.pending:
            tx, base, file_epoch, removes = process.pending
            after = process._replace(
                phase=READY, tx=tx, base=base, file_epoch=file_epoch, removes=removes, pending=None
            )
            if process.guest and self.mutant != "guest_resumes_at_new_epoch":
                after = after._replace(epoch=file_epoch)  # a retry keeps its bytes and its epoch
            yield self._moved(state, process, after, "calls commit again", f"T{tx} of {process}")
        if process.base < len(state.log):
            yield self._learn(state, process, "lists again")

    def _begin(self, state: State, process: Process) -> Step:
        tx = state.began
        removes = NOTHING
        if self.compaction and process.guest:
            removes = min(live(state.log[: process.base]), default=NOTHING)
        file_epoch = process.epoch
        if self.mutant == "adds_old_epoch_file" and not process.guest:
            file_epoch -= 1  # a file left behind by a predecessor, added as it is
        after = process._replace(
            phase=READY,
            tx=tx,
            opening=tx if process.opening == NOTHING else process.opening,
            file_epoch=file_epoch,
            removes=removes,
        )
        files = tuple(sorted({*state.files, (file_epoch, tx)}))
        state = state._replace(files=files, began=tx + 1)
        return self._moved(state, process, after, "begins and writes its file", f"T{tx} by {after}")

    def _commit(self, state: State, process: Process) -> Iterator[Step]:
        size = len(state.log)
        who = f"T{process.tx} of {process} to revision {process.base}"
        if process.base < size:
            yield self._learn(state, process, "is refused, reads back, replays")
        sent = (process.base, self._object(process))
        if process.base == size and sent not in state.air:
            air = tuple(sorted((*state.air, sent)))
            yield Step("sends", who, state._replace(air=air))
        may_have_landed = sent in state.air or process.base < size
        if may_have_landed and process.pending is None and state.began < self.transactions:
            pending = Pending(process.tx, process.base, process.file_epoch, process.removes)
            after = self._done(process)._replace(pending=pending)
            yield self._moved(state, process, after, "raises CommitOutcomeUnknown", who)

    def _land(self, state: State, flight: tuple[int, Commit]) -> Iterator[Step]:
        base, commit = flight
        log = (*state.log, commit)
        landed = state._replace(log=log, air=tuple(f for f in state.air if f[0] >= len(log)))
        what = f"T{commit.tx} as revision {base}, epoch {commit.epoch}"
        yield Step("lands, reply lost", what, landed)
        for process in state.processes:
            if process.phase == READY and process.tx == commit.tx and process.base == base:
                yield self._acked(landed, process, "lands, acknowledged")

    # ---- what a committer does with what it learns

    def _learn(self, state: State, process: Process, kind: str) -> Step:
        """The name is taken, or the process listed: replay to the head and go by the rules."""
        taken = state.log[process.base]
        if process.phase == READY and taken.tx == process.tx and self.mutant != "no_readback":
            return self._acked(state, process, "exists, reads back its own")
        after, fenced = self._rule(state, process, taken)
        detail = f"{process} at revision {process.base}, taken by T{taken.tx} (epoch {taken.epoch})"
        if not fenced:
            return self._moved(state, process, after, kind, detail)
        others = (c for c in state.log if c.opening != process.opening and not c.guest)
        just = any(c.epoch >= process.epoch for c in others)
        step = self._moved(state, process, after, "is fenced", detail)
        return step if just else step._replace(broken=JUST)

    def _rule(self, state: State, process: Process, taken: Commit) -> tuple[Process, bool]:
        """Decide by the head's epoch. Gives the process afterwards and whether it was fenced."""
        head, bug = state.log[-1].epoch, self.mutant
        base = len(state.log)
        if process.guest:
            return self._guest_rule(state, process, head), False
        judged = (taken,) if bug == "fence_by_lost_name_only" else state.log
        rivals = (c for c in judged if c.opening != process.opening and not c.guest)
        unrivalled = all(c.epoch < process.epoch for c in rivals)
        allowed = unrivalled and judged[-1].epoch <= process.epoch
        if bug == "retry_equal_epoch":
            allowed = head <= process.epoch
        if bug == "retry_higher_epoch":
            allowed = allowed or head > process.epoch
        if bug == "relist_no_fence" and process.phase == OPEN:
            allowed = True
        if bug == "fence_own_commit":
            allowed = taken.epoch < process.epoch or taken.guest
        if allowed:
            return process._replace(base=base), False
        return self._closed(process), True

    def _guest_rule(self, state: State, process: Process, head: int) -> Process:
        base, bug = len(state.log), self.mutant
        if head != process.epoch and bug == "guest_keeps_files":
            return process._replace(base=base, epoch=head)
        if head != process.epoch and bug != "guest_any_epoch":
            return self._done(process)._replace(base=base, epoch=head)  # starts over, files stay
        valid = process.removes == NOTHING or process.removes in live(state.log)
        if process.phase == READY and not valid and bug != "guest_no_recheck":
            return self._done(process)._replace(base=base)  # its input is gone: nothing to do
        return process._replace(base=base)

    def _acked(self, state: State, process: Process, kind: str) -> Step:
        after = self._done(process)._replace(base=process.base + 1)
        state = state._replace(acked=tuple(sorted({*state.acked, process.tx})))
        return self._moved(state, process, after, kind, f"T{process.tx} as revision {process.base}")

    # ---- gc

    def _collect(self, state: State) -> Iterator[Step]:
        """Delete one file that is old: nobody carries its transaction any more (`grace.py`)."""
        log = state.log
        kept = referenced(log, state.kept_from) if log else set(state.files)
        if self.mutant == "gc_refs_of_head_only":
            kept = {(epoch, tx) for tx, epoch in live(log).items()}
        carried = {process.tx for process in state.processes} | {
            commit.tx for _, commit in state.air
        }
        carried |= {one.pending.tx for one in state.processes if one.pending}
        for file in state.files:
            if file not in kept and file[1] not in carried:
                files = tuple(one for one in state.files if one != file)
                what = f"file of T{file[1]} (epoch {file[0]})"
                yield Step("gc deletes", what, state._replace(files=files))

    # ---- invariants

    def broken(self, state: State) -> str | None:
        """Name the invariant that this state breaks."""
        if (wrong := log_broken(state.log)) is not None:
            return wrong
        if not {commit.tx for commit in state.log}.issuperset(state.acked):
            return FORWARD
        if not referenced(state.log, state.kept_from).issubset(state.files):
            return KEPT
        return None

    # ---- helpers

    @staticmethod
    def _object(process: Process) -> Commit:
        return Commit(
            process.epoch,
            process.guest,
            process.tx,
            process.opening,
            process.file_epoch,
            process.removes,
        )

    @staticmethod
    def _closed(process: Process) -> Process:
        return Process(process.guest)

    @staticmethod
    def _done(process: Process) -> Process:
        return process._replace(phase=OPEN, tx=NOTHING, file_epoch=0, removes=NOTHING)

    @staticmethod
    def _moved(
        state: State, before: Process, after: Process, kind: str, detail: str | None = None
    ) -> Step:
        """Replace one process, keeping them sorted: equal kinds are interchangeable."""
        processes = list(state.processes)
        processes[processes.index(before)] = after
        processes.sort(key=repr_key)
        return Step(
            kind,
            before if detail is None else detail,
            state._replace(processes=tuple(processes)),
        )


def repr_key(process: Process) -> tuple[object, ...]:
    """A total order of processes, also where one has no pending transaction."""
    return (*process[:-1], process.pending or ())
