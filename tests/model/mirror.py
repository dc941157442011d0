"""The mirror: committed transactions are copied, at most the two newest revisions lack their copy.

A committer copies revision r once it knows that r is committed, in parallel with its next commit.
It sends revision r only when the copy of r-2 is there. A committer that opens lists the mirror,
then the log, and owes the copies that are missing. One that replays to a head h which it didn't
commit owes the copies of h-1 and h at most: whoever committed h had seen that of h-2. A writer
closes when it owes no copy.

A disaster takes the end of the log once: from a log at rest, or under committers that have not seen
what is lost. Then the agreed names are free again, and a stale committer may use one. It learns of
that when it finds other bytes under the name of its copy. (If it dies before that, only a
comparison of bytes shows that log and mirror differ.)

Abstractions: one name per revision, as in `exclusive.py`. Fencing is not modelled: a fenced owner
stops at some point, and every process here may stop, or close, at any point. Two copies of one
process are put in either order, and the answer to a put may be lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from explorer import Step, quick
from invariants import COPIED, FORWARD, LOST_END, MIRRORED, ONCE, SOUND

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSED, LISTED, OPEN, READY = 0, 1, 2, 3
NOTHING = -1
WHOLE, AT_REST, IN_USE = 0, 1, 2  # what the disaster has met


@quick
class Process(NamedTuple):
    """One committer.

    Attributes:
        listing: What its first listing showed: the revisions that have copies.
        base: The revision that comes next, as far as it knows.
        tx: The transaction that it wants to commit.
        owed: Committed revisions whose copies it has to put, or to find.
    """

    phase: int = CLOSED
    listing: tuple[int, ...] = ()
    base: int = 0
    tx: int = NOTHING
    owed: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"committer at revision {self.base}, owes {self.owed}"


@quick
class State(NamedTuple):
    """The log and the mirror (revision, transaction), PUTs under way, what was acknowledged.

    Attributes:
        disaster: Whether the end of the log was lost, and under whom.
        gone: The transactions that were lost with it.
        reported: Whether somebody was told that log and mirror differ.
    """

    log: tuple[int, ...]
    mirror: tuple[tuple[int, int], ...]
    air: tuple[tuple[int, int], ...]
    processes: tuple[Process, ...]
    acked: tuple[int, ...]
    began: int
    disaster: int
    gone: tuple[int, ...]
    reported: bool


class Mirror:
    """Committers of one log, and its mirror.

    Args:
        committers: How many processes.
        transactions: How many transactions may begin, over all processes.
        disaster: Whether the end of the log may be lost.
        mutant: A planted bug, or "".
    """

    def __init__(
        self, committers: int, transactions: int, *, disaster: bool = False, mutant: str = ""
    ) -> None:
        self.committers = committers
        self.transactions = transactions
        self.disaster = disaster
        self.mutant = mutant
        self.name = f"mirror {committers} committers {transactions} tx" + " disaster" * disaster

    def initial(self) -> State:
        """An empty log, an empty mirror, closed processes."""
        closed = (Process(),) * self.committers
        return State((), (), (), closed, (), 0, WHOLE, (), False)

    def steps(self, state: State) -> Iterator[Step]:
        """Whatever a process, the network or a disaster may do next."""
        for index, process in enumerate(state.processes):
            if index and process == state.processes[index - 1]:
                continue
            if process.phase == CLOSED:
                yield self._first_listing(state, process)
                continue
            if process.phase == LISTED:
                yield self._second_listing(state, process)
            else:
                yield from self._idle(state, process)
                yield from self._copy(state, process)
            if process.phase == READY:
                yield from self._commit(state, process)
            yield _moved(state, process, Process(), "crashes")
        for flight in state.air:
            yield from self._land(state, flight)
        if self.disaster and state.disaster == WHOLE and not state.air:
            yield from self._lose(state)

    # ---- opening and closing

    def _first_listing(self, state: State, process: Process) -> Step:
        """The mirror: whatever is committed and copied after this shows in the log's listing."""
        listing = tuple(revision for revision, _ in state.mirror)
        if self.mutant == "log_listed_first":
            listing = tuple(range(len(state.log)))
        after = Process(LISTED, listing)
        return _moved(state, process, after, "opens, lists the mirror", f"{listing}")

    def _second_listing(self, state: State, process: Process) -> Step:
        copies, size = process.listing, len(state.log)
        if self.mutant == "log_listed_first":
            copies, size = tuple(revision for revision, _ in state.mirror), len(process.listing)
        what = f"{size} revisions, copies of {copies}"
        if max(copies, default=NOTHING) >= size and self.mutant != "opener_trusts_the_log":
            step = _moved(state, process, Process(), "refuses to open: LostTail", what)
            return step if state.disaster else step._replace(broken=SOUND)
        owed = tuple(revision for revision in range(size) if revision not in copies)
        if self.mutant == "opener_completes_nothing":
            owed = ()
        if self.mutant == "opener_compares_heads_only" and size - 1 in copies:
            owed = ()
        after = Process(OPEN, (), size, NOTHING, owed)
        step = _moved(state, process, after, "lists the log, is open", what)
        hidden = {tx for _, tx in state.mirror if tx in state.gone and tx in state.acked}
        unseen = state.disaster == AT_REST and hidden and not state.reported
        return step._replace(broken=LOST_END) if unseen else step

    def _idle(self, state: State, process: Process) -> Iterator[Step]:
        if process.phase != OPEN:
            return
        if state.began < self.transactions:
            after = process._replace(phase=READY, tx=state.began)
            begun = state._replace(began=state.began + 1)
            yield _moved(begun, process, after, "begins", f"T{state.began} of {process}")
        if process.base < len(state.log):
            yield _moved(state, process, self._replayed(state, process), "lists again")
        if not process.owed or self.mutant == "close_does_not_wait":
            step = _moved(state, process, Process(), "closes")
            copied = {revision for revision, _ in state.mirror}
            complete = copied.issuperset(range(process.base))
            yield step if complete else step._replace(broken=COPIED)

    # ---- commits

    def _commit(self, state: State, process: Process) -> Iterator[Step]:
        base, size = process.base, len(state.log)
        who = f"T{process.tx} of {process}"
        if base < size and state.log[base] == process.tx:
            yield self._acked(state, process, "exists, reads back its own")
        elif base < size:
            after = self._replayed(state, process)
            yield _moved(state, process, after, "is refused, replays", who)
        sent = (base, process.tx)
        waits = any(revision <= base - 2 for revision in process.owed)
        if base == size and sent not in state.air and (not waits or self.mutant == "no_wait"):
            air = tuple(sorted((*state.air, sent)))
            begun = state._replace(air=air)
            if self.mutant == "copy_before_the_commit_is_known":
                begun = _copied(begun, base, process.tx)
            yield Step("sends", who, begun)
        if sent in state.air or base < size:
            after = process._replace(phase=OPEN, tx=NOTHING)
            yield _moved(state, process, after, "leaves its commit of unknown outcome", who)

    def _land(self, state: State, flight: tuple[int, int]) -> Iterator[Step]:
        base, tx = flight
        log = (*state.log, tx)
        landed = state._replace(log=log, air=tuple(f for f in state.air if f[0] >= len(log)))
        yield Step("lands, reply lost", f"T{tx} as revision {base}", landed)
        for process in state.processes:
            if (process.phase, process.base, process.tx) == (READY, base, tx):
                yield self._acked(landed, process, "lands, acknowledged")

    @staticmethod
    def _acked(state: State, process: Process, kind: str) -> Step:
        owed = (*process.owed, process.base)
        after = Process(OPEN, (), process.base + 1, NOTHING, owed)
        acked = tuple(sorted({*state.acked, process.tx}))
        what = f"T{process.tx} as revision {process.base}"
        return _moved(state._replace(acked=acked), process, after, kind, what)

    def _replayed(self, state: State, process: Process) -> Process:
        """At the head that others have committed: who did had the copy of the one before two."""
        size = len(state.log)
        owed = {*process.owed, *range(process.base, size)}
        if self.mutant == "lost_race_hides_copies":
            owed = {size - 1}
        newest = tuple(sorted(revision for revision in owed if revision >= size - 2))
        return process._replace(base=size, owed=newest)

    # ---- copies

    def _copy(self, state: State, process: Process) -> Iterator[Step]:
        """Put an owed copy if absent. If a copy is there already, it has to be the same bytes."""
        copies = dict(state.mirror)
        for revision in process.owed:
            tx = state.log[revision]
            what = f"revision {revision}, T{tx}"
            known = process._replace(owed=tuple(r for r in process.owed if r != revision))
            if revision not in copies:
                landed = _copied(state, revision, tx)
                yield _moved(landed, process, known, "copies", what)
                yield Step("copies, reply lost", what, landed)
            elif copies[revision] == tx or self.mutant == "takes_any_copy":
                step = _moved(state, process, known, "finds the copy", what)
                yield step if copies[revision] == tx else step._replace(broken=COPIED)
            else:
                told = state._replace(reported=True)
                yield _moved(told, process, Process(), "finds another's copy: LostTail", what)

    # ---- disaster and invariants

    @staticmethod
    def _lose(state: State) -> Iterator[Step]:
        """Lose the newest revisions, none of which an open process has seen."""
        in_use = any(process.phase != CLOSED for process in state.processes)
        seen = max(process.base for process in state.processes)
        listed = max(len(process.listing) for process in state.processes)
        for size in range(max(seen, listed), len(state.log)):
            after = state._replace(
                log=state.log[:size],
                gone=state.log[size:],
                disaster=IN_USE if in_use else AT_REST,
            )
            yield Step("the end is lost", f"from revision {size} on", after)

    def broken(self, state: State) -> str | None:
        """Name the invariant that this state breaks."""
        if len(set(state.log)) != len(state.log):
            return ONCE
        if not {*state.log, *state.gone}.issuperset(state.acked):
            return FORWARD
        committed = {*enumerate(state.log)}
        if any(copy not in committed and copy[1] not in state.gone for copy in state.mirror):
            return MIRRORED
        copies = dict(state.mirror)
        return None if copies.keys() >= set(range(len(state.log) - 2)) else COPIED


def _copied(state: State, revision: int, tx: int) -> State:
    copies = dict(state.mirror)
    copies.setdefault(revision, tx)
    return state._replace(mirror=tuple(sorted(copies.items())))


def _moved(
    state: State, before: Process, after: Process, kind: str, detail: str | None = None
) -> Step:
    processes = list(state.processes)
    processes[processes.index(before)] = after
    state = state._replace(processes=tuple(sorted(processes)))
    return Step(kind, str(before) if detail is None else detail, state)
