"""Readers: listings that race with commits, checkpoints and prune; refresh by name; fallback.

A listing is not a snapshot: it surely shows what was there from its start to its end, and may or
may not show what came or went meanwhile (measured on local folders; paged listings do the same).
A GET after it may find nothing. The reader's cures: a gap or a 404 means list again, a damaged
checkpoint means an older one, and a refresh by the successor's name instead of a listing is
allowed only while the reader's belief about its head is young.

The log is one sequence of revisions; its acknowledged head is `size - 1`. Time is in ticks; a
listing lies within one tick (it must be shorter than the floor's reserve), fetching may take long.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from explorer import Step, quick
from invariants import EXACT, FRESH, MONOTONIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FLOOR = 1
IDLE, LISTING, FETCHING, TAILING = "idle", "listing", "fetching", "tailing"
Names = tuple[tuple[str, int], ...]  # ("t", 3) is transaction 3, ("c", 3) checkpoint 3


@quick
class Reader(NamedTuple):
    """One reader.

    Attributes:
        phase: What it is doing.
        view: The revisions it has applied, or None before the first read.
        belief: Ticks since the head of its view was known to be the head.
        promised: How many revisions were committed when this refresh began (known to the model).
        start: What was in the store when the listing began.
        names: What the listing showed, while fetching.
        built: The revisions applied so far in this refresh.
        last: The revision that this refresh wants to reach.
    """

    phase: str = IDLE
    view: tuple[int, ...] | None = None
    belief: int = 0
    promised: int = 0
    start: Names = ()
    names: Names = ()
    built: tuple[int, ...] | None = None
    last: int = -1


@quick
class State(NamedTuple):
    """The store (names with ages), the damaged checkpoints, the prune under way, the readers."""

    size: int
    ages: tuple[tuple[tuple[str, int], int], ...]
    damaged: tuple[int, ...]
    pruning: int
    readers: tuple[Reader, ...]

    @property
    def names(self) -> Names:
        """What is in the store."""
        return tuple(name for name, _ in self.ages)


class Readers:
    """Readers of one log under commits, checkpoints and prune.

    Args:
        revisions: How long the log may grow.
        readers: How many readers.
        damage: Whether a checkpoint may be damaged.
        mutant: A planted bug, or "".
    """

    def __init__(
        self, revisions: int, readers: int, *, damage: bool = False, mutant: str = ""
    ) -> None:
        self.revisions = revisions
        self.readers = readers
        self.damage = damage
        self.mutant = mutant
        self.name = f"readers {readers} of {revisions} revisions" + " damage" * damage

    def initial(self) -> State:
        """An empty log."""
        return State(0, (), (), -1, (Reader(),) * self.readers)

    def steps(self, state: State) -> Iterator[Step]:
        """Whatever the owner, maintenance, a reader or the clock may do next."""
        yield from self._write(state)
        yield from self._prune(state)
        for index, reader in enumerate(state.readers):
            if index == 0 or reader != state.readers[index - 1]:
                yield from self._read(state, reader)
        if all(reader.phase != LISTING for reader in state.readers):
            yield self._tick(state)

    # ---- the store changes

    def _write(self, state: State) -> Iterator[Step]:
        if state.size < self.revisions:
            after = _with(state, ("t", state.size))._replace(size=state.size + 1)
            yield Step("commits", f"revision {state.size}", after)
        head = state.size - 1
        if head >= 0 and ("c", head) not in state.names and head > state.pruning:
            after = _with(state, ("c", head))
            yield Step("checkpoint", f"of revision {head}", after)
            if not self.damage:
                return
            broken = after._replace(damaged=(*state.damaged, head))
            yield Step("checkpoint, damaged", f"of revision {head}", broken)

    def _prune(self, state: State) -> Iterator[Step]:
        old = [name for name, age in state.ages if age > FLOOR]
        if self.mutant == "reader_of_young_checkpoint":
            old = list(state.names)
        whole = [r for kind, r in old if kind == "c" and r not in state.damaged]
        survivor = max(whole, default=-1)
        if survivor > state.pruning:
            begun = state._replace(pruning=survivor)
            yield Step("prune starts", f"by checkpoint {survivor}", begun)
        for name in old:
            kind, revision = name
            if revision < state.pruning or (kind == "t" and revision == state.pruning):
                ages = tuple(item for item in state.ages if item[0] != name)
                yield Step("prune deletes", f"{kind}{revision}", state._replace(ages=ages))

    # ---- a reader

    def _read(self, state: State, reader: Reader) -> Iterator[Step]:
        if reader.phase == IDLE:
            begun = reader._replace(promised=state.size)
            start = begun._replace(phase=LISTING, start=state.names)
            yield _moved(state, reader, start, "starts a listing", "")
            young = reader.belief <= FLOOR or self.mutant == "reader_tails_after_idle"
            if reader.view and young:
                yield _moved(state, reader, begun._replace(phase=TAILING), "refreshes by name", "")
        elif reader.phase == LISTING:
            for seen in _possible_listings(reader.start, state.names):
                yield self._listed(state, reader, seen)
        elif reader.phase == TAILING:
            yield self._tail(state, reader)
        else:
            yield self._fetch(state, reader)

    def _listed(self, state: State, reader: Reader, seen: Names) -> Step:
        """Choose where to begin: the held view if the tail joins it, else the newest checkpoint."""
        shown = " ".join(f"{kind}{revision}" for kind, revision in seen) or "nothing"
        last = max((revision for _, revision in seen), default=-1)
        held = len(reader.view or ()) - 1
        if last < held:  # it can only have missed something
            return self._again(state, reader, f"listing shows {shown}")
        if last == held:
            return self._finish(state, reader, reader.view or (), f"listing shows {shown}")
        listed = reader._replace(phase=FETCHING, start=(), names=seen, last=last, belief=0)
        if reader.view and self._joined(seen, held, last):
            listed = listed._replace(built=reader.view)
        return _moved(state, reader, listed, "listing shows", shown)

    def _joined(self, names: Iterable[tuple[str, int]], after: int, last: int) -> bool:
        return all(("t", revision) in names for revision in range(after + 1, last + 1))

    def _fetch(self, state: State, reader: Reader) -> Step:
        if reader.built is None:
            return self._begin(state, reader)
        built = reader.built
        if built and built[-1] == reader.last:
            return self._finish(state, reader, built, "is done")
        following = (built[-1] if built else -1) + 1
        if ("t", following) not in reader.names and self.mutant == "reader_skips_gap":
            later = [r for kind, r in reader.names if kind == "t" and r > following]
            if not later:
                return self._finish(state, reader, built, "is done")
            following = min(later)
        if ("t", following) in state.names:
            after = reader._replace(built=(*built, following))
            return _moved(state, reader, after, "gets a transaction", f"t{following}")
        if self.mutant == "reader_trusts_listing_once":
            return self._finish(state, reader, built, f"404 on t{following} taken as the end")
        return self._again(state, reader, f"404 on t{following}")

    def _begin(self, state: State, reader: Reader) -> Step:
        """GET the newest checkpoint listed, or start from revision 0; a gap means list again."""
        checkpoints = [revision for kind, revision in reader.names if kind == "c"]
        newest = max(checkpoints, default=-1)
        skips = self.mutant == "reader_skips_gap"
        if not self._joined(reader.names, newest, reader.last) and not skips:
            return self._again(state, reader, f"finds a gap after {newest}")
        if newest < 0:
            return _moved(state, reader, reader._replace(built=()), "starts from revision 0", "")
        if ("c", newest) not in state.names:
            return self._again(state, reader, f"404 on c{newest}")
        if newest in state.damaged:
            rest = tuple(name for name in reader.names if name != ("c", newest))
            after = reader._replace(names=rest)
            return _moved(state, reader, after, "falls back", f"c{newest} is damaged")
        after = reader._replace(built=tuple(range(newest + 1)))
        return _moved(state, reader, after, "gets a checkpoint", f"c{newest}")

    def _tail(self, state: State, reader: Reader) -> Step:
        """GET the successor by name: a 404 means that there is none, if the belief is young."""
        view = reader.view or ()
        following = len(view)
        young = reader.belief <= FLOOR or self.mutant == "reader_tails_after_idle"
        if not young:
            return self._again(state, reader, "tail grew old")
        if ("t", following) not in state.names:
            return self._finish(state, reader, view, f"404 on t{following}, the head")
        belief = 0 if self.mutant == "reader_belief_from_get" else reader.belief
        after = reader._replace(view=(*view, following), belief=belief)
        return _moved(state, reader, after, "gets by name", f"t{following}")

    def _again(self, state: State, reader: Reader, why: str) -> Step:
        """Start the listing again; the view stays as it is."""
        view, belief = reader.view, reader.belief
        after = Reader(LISTING, view, belief, reader.promised, state.names)
        return _moved(state, reader, after, "lists again", why)

    def _finish(self, state: State, reader: Reader, view: tuple[int, ...], why: str) -> Step:
        fetching = reader.phase == FETCHING
        belief = reader.belief if fetching else 0
        what = f"{why}: head {len(view) - 1}"
        step = _moved(state, reader, Reader(IDLE, view, belief), "has read", what)
        if reader.view is not None and len(view) < len(reader.view):
            return step._replace(broken=MONOTONIC)
        if len(view) < reader.promised:
            return step._replace(broken=FRESH)
        return step

    # ---- the clock and invariants

    def _tick(self, state: State) -> Step:
        ages = tuple((name, min(age + 1, FLOOR + 1)) for name, age in state.ages)
        readers = tuple(
            r
            if r.view is None and r.phase == IDLE
            else r._replace(belief=min(r.belief + 1, FLOOR + 1))
            for r in state.readers
        )
        return Step("the floor passes", "", state._replace(ages=ages, readers=_sorted(readers)))

    def broken(self, state: State) -> str | None:
        """Name the invariant that this state breaks."""
        for reader in state.readers:
            for view in (reader.view, reader.built):
                if view and view != tuple(range(len(view))):
                    return EXACT
        return None


def _possible_listings(start: Names, end: Names) -> Iterator[Names]:
    """What a listing may show: all that stayed, and any of what came or went."""
    stayed = set(start) & set(end)
    fleeting = sorted(set(start) ^ set(end))
    for count in range(len(fleeting) + 1):
        for some in combinations(fleeting, count):
            yield tuple(sorted(stayed.union(some)))


def _with(state: State, name: tuple[str, int]) -> State:
    return state._replace(ages=tuple(sorted((*state.ages, (name, 0)))))


def _sorted(readers: Iterable[Reader]) -> tuple[Reader, ...]:
    return tuple(sorted(readers, key=_order))


def _order(reader: Reader) -> tuple[object, ...]:
    return (*reader[:1], reader.view or (), *reader[2:6], reader.built or (), reader.last)


def _moved(state: State, before: Reader, after: Reader, kind: str, detail: str) -> Step:
    readers = list(state.readers)
    readers[readers.index(before)] = after
    return Step("reader " + kind, detail, state._replace(readers=_sorted(readers)))
