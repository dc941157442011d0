"""Checkpoints in segments, made by several processes, and several prunes at once.

A checkpoint is a header and the segments it names: its own, and in an incremental one those of the
checkpoint it was built on. A header counts only if all its segments are there (readers and prune
verify). The log itself is one sequence of revisions that some owner appends: how it stays one is
in `exclusive.py`.

The danger is one prune deleting a segment by an old view while a new checkpoint starts to need it,
and a second prune trusting that new checkpoint. What prevents it is the floor again: only a
checkpoint older than the floor may survive others, and a header is written within the floor of the
listing that its maker built on. A segment is doomed only if it is older than the floor, so never
one that a maker has put since a listing which still counts; and its name is new whenever it is put,
for a prune with an old view deletes by name.

Segments carry no age here: that of a maker's own is at most its maker's. One that no header and no
maker refers to is dropped at once: as no name comes again, nobody can miss it.

With `mirror=True` prune copies its survivor (the segments, then the header) before it deletes
anything, then deletes in the log, then in the mirror; and what has to be retained differs, so that
the survivor may be any checkpoint that is old enough. Each transaction has its copy here: when
committers put them is in `mirror.py`.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from explorer import Step, quick
from invariants import CHECKPOINT, COPIED, FORWARD, READABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

HALF = 1
FLOOR = 2 * HALF
IDLE = -1
# The revision, whether it is the whole state (else only what changed), and what makes it new.
Segment = tuple[int, bool, int]

# What to delete: "transactions" up to a revision, a "header", a "segment"; the same in the mirror;
# and before that what to copy.
Item = tuple[str, Any]
Plan = tuple[Item, ...]
COPIES = ("copy segment", "copy header")
LOG = ("transactions", "header", "segment")
MIRROR = ("copies of transactions", "copy of a header", "copy of a segment")


@quick
class Header(NamedTuple):
    """A checkpoint's header: `covers` is the last revision that its content really includes."""

    revision: int
    covers: int
    segments: tuple[Segment, ...]
    damaged: bool
    age: int


@quick
class Maker(NamedTuple):
    """A process that writes checkpoints.

    Attributes:
        target: The revision it checkpoints, or IDLE.
        segments: What the header will name.
        written: Whether its own segment is in the store.
        age: Ticks since the listing it builds on.
    """

    target: int = IDLE
    segments: tuple[Segment, ...] = ()
    written: bool = False
    age: int = 0


@quick
class State(NamedTuple):
    """`size` revisions were committed, transactions below `low` are pruned.

    `plans` holds, per prune under way, what it still has to copy and to delete. The mirror has the
    transactions from `mirror_low` on, and copies of headers and segments.
    """

    size: int
    low: int
    mirror_low: int
    copies: tuple[Header, ...]
    copied: tuple[Segment, ...]
    headers: tuple[Header, ...]
    segments: tuple[Segment, ...]
    makers: tuple[Maker, ...]
    plans: tuple[Plan, ...]


class Checkpoints:
    """Makers and prunes on one log.

    Args:
        revisions: How long the log may grow.
        makers: How many processes write checkpoints.
        prunes: How many processes prune.
        damage: Whether a header may land damaged.
        mirror: Whether there is a mirror, which prune completes and prunes.
        mutant: A planted bug, or "".
    """

    def __init__(
        self,
        revisions: int,
        makers: int,
        prunes: int,
        *,
        damage: bool = False,
        mirror: bool = False,
        mutant: str = "",
    ) -> None:
        self.revisions = revisions
        self.makers = makers
        self.prunes = prunes
        self.damage = damage
        self.mirror = mirror
        self.mutant = mutant
        self.name = f"checkpoints {revisions} rev {makers} makers {prunes} prunes"
        self.name += " damage" * damage + " mirror" * mirror

    def initial(self) -> State:
        """An empty log."""
        return State(0, 0, 0, (), (), (), (), (Maker(),) * self.makers, ((),) * self.prunes)

    def steps(self, state: State) -> Iterator[Step]:
        """Whatever the owner, a maker, a prune or the clock may do next."""
        for step in self._steps(state):
            yield step._replace(state=self._tidy(step.state))

    def _tidy(self, state: State) -> State:
        """Without segments that nobody refers to, and without their deletion."""
        if self.mutant == "segment_name_again":
            return state
        known = {s for h in (*state.headers, *state.copies) for s in h.segments}
        known |= {s for maker in state.makers for s in maker.segments}
        segments = tuple(s for s in state.segments if s in known)
        copied = tuple(s for s in state.copied if s in known)
        plans = (
            tuple(i for i in plan if i[0] != "segment" or i[1] in segments) for plan in state.plans
        )
        return state._replace(segments=segments, copied=copied, plans=tuple(sorted(plans)))

    def _steps(self, state: State) -> Iterator[Step]:
        if state.size < self.revisions:
            yield Step("commits", f"revision {state.size}", state._replace(size=state.size + 1))
        for index, maker in enumerate(state.makers):
            if index and maker == state.makers[index - 1]:
                continue
            yield from self._make(state, maker)
        for index, plan in enumerate(state.plans):
            if index and plan == state.plans[index - 1]:
                continue
            yield from self._prune(state, plan)
        yield self._tick(state)

    # ---- makers

    def _make(self, state: State, maker: Maker) -> Iterator[Step]:
        if maker.target == IDLE:
            yield from self._choose(state, maker)
            return
        yield self._made(state, maker, Maker(), "maker gives up or crashes", str(maker.target))
        own = maker.segments[-1]
        if not maker.written:
            segments = tuple(sorted({*state.segments, own}))
            after = maker._replace(written=True)
            begun = state._replace(segments=segments)
            yield self._made(begun, maker, after, "maker writes a segment", str(own))
            return
        if maker.age > FLOOR and self.mutant != "checkpoint_after_idle":
            return  # sent within one half, landed within the other, or never
        yield from self._land(state, maker)

    def _choose(self, state: State, maker: Maker) -> Iterator[Step]:
        """List, aim at the head, build on the newest whole checkpoint or on nothing."""
        target = state.size - 1
        if target < 0 or any(h.revision == target for h in state.headers):
            return
        after = Maker(target, (self._new(state, target, True),))
        yield self._made(state, maker, after, "maker starts from the log", f"revision {target}")
        base = max((h for h in state.headers if self._whole(state, h)), default=None)
        if base is not None:
            after = Maker(target, (*base.segments, self._new(state, target, False)))
            what = f"revision {target} on {base.revision}"
            yield self._made(state, maker, after, "maker starts on a checkpoint", what)

    def _new(self, state: State, target: int, whole: bool) -> Segment:
        """A segment of a name that nothing in the world knows."""
        if self.mutant == "segment_name_again":
            return target, whole, 0
        known = {*state.segments, *state.copied}
        known |= {s for h in (*state.headers, *state.copies) for s in h.segments}
        known |= {s for maker in state.makers for s in maker.segments}
        known |= {key for plan in state.plans for what, key in plan if what.endswith("segment")}
        return next(s for n in count() if (s := (target, whole, n)) not in known)

    def _land(self, state: State, maker: Maker) -> Iterator[Step]:
        revision = maker.target
        if self.mutant == "checkpoint_of_unread_revision":
            revision = state.size - 1  # named after a listing newer than what was replayed
        if any(h.revision == revision for h in state.headers):
            return
        header = Header(revision, maker.target, maker.segments, False, 0)
        newest = max((h.revision for h in state.headers if self._whole(state, h)), default=-1)
        wrong = revision > newest and not self._whole(state, header)
        for damaged in (False, True) if self.damage else (False,):
            headers = tuple(sorted((*state.headers, header._replace(damaged=damaged))))
            kind = "header lands" + " damaged" * damaged
            landed = state._replace(headers=headers)
            step = self._made(landed, maker, Maker(), kind, f"of revision {revision}")
            yield step._replace(broken=CHECKPOINT) if wrong and not damaged else step

    @staticmethod
    def _whole(state: State, header: Header) -> bool:
        return not header.damaged and set(header.segments) <= set(state.segments)

    # ---- prune

    def _prune(self, state: State, plan: Plan) -> Iterator[Step]:
        if plan:
            yield self._planned(state, plan, (), "prune crashes or stops", "")
            stage = min(map(self._stage, plan))
            for item in plan:
                if self._stage(item) == stage:
                    yield self._execute(state, plan, item)
            return
        young = {m.segments[-1] for m in state.makers if m.written and m.age <= FLOOR}
        for survivor, segments in self._survivors(state):
            doomed: list[Item] = []
            if state.low <= survivor:
                doomed.append(("transactions", survivor))
            doomed += [("header", h.revision) for h in state.headers if h.revision < survivor]
            doomed += [
                ("segment", s) for s in state.segments if s not in segments and s not in young
            ]
            if self.mirror:
                doomed += self._of_mirror(state, survivor, segments)
            if doomed:
                what = f"by checkpoint {survivor}"
                yield self._planned(state, plan, tuple(doomed), "prune plans", what)

    def _of_mirror(self, state: State, survivor: int, segments: set[Segment]) -> Iterator[Item]:
        """What to copy to the mirror, and what to delete there by its own listing."""
        header = next((h for h in state.headers if h.revision == survivor), None)
        if header is not None and self.mutant != "survivor_not_mirrored":
            yield from (("copy segment", s) for s in header.segments if s not in state.copied)
            if all(copy.revision != survivor for copy in state.copies):
                yield "copy header", survivor
        if state.mirror_low <= survivor:
            yield "copies of transactions", survivor
        stay = [copy for copy in state.copies if copy.revision >= survivor]
        yield from (("copy of a header", c.revision) for c in state.copies if c not in stay)
        kept = {*segments, *(s for copy in stay for s in copy.segments)}
        if self.mutant == "mirror_segments_by_mirror":
            kept = {s for copy in (*stay, *filter(None, [header])) for s in copy.segments}
        yield from (("copy of a segment", s) for s in state.copied if s not in kept)

    def _stage(self, item: Item) -> int:
        """Copies come first, then the log, then the mirror."""
        if item[0] in COPIES:
            late = 4 if self.mutant == "survivor_mirrored_last" else 0
            return late + COPIES.index(item[0])
        first = MIRROR if self.mutant == "mirror_pruned_first" else LOG
        return 2 if item[0] in first else 3

    def _survivors(self, state: State) -> Iterator[tuple[int, set[Segment]]]:
        """The checkpoints fit to survive, and the segments to keep with each."""
        bug = self.mutant
        if bug == "prune_without_checkpoint" and state.size:
            yield state.size - 1, set(state.segments)
            return
        fit = [
            h
            for h in state.headers
            if (h.age > FLOOR or bug == "prune_by_young_checkpoint")
            and (self._whole(state, h) or bug == "prune_unverified")
        ]
        if not fit:
            return
        for survivor in [h.revision for h in fit] if self.mirror else [fit[-1].revision]:
            newer = [h for h in state.headers if h.revision >= survivor]
            if bug == "prune_segments_by_survivor":
                newer = [h for h in newer if h.revision == survivor]
            yield survivor, {segment for h in newer for segment in h.segments}

    def _execute(self, state: State, plan: Plan, item: Item) -> Step:
        what, key = item
        rest = tuple(other for other in plan if other != item)
        kind = f"prune deletes {what}"
        if what == "header":
            after = state._replace(headers=tuple(h for h in state.headers if h.revision != key))
        elif what == "segment":
            after = state._replace(segments=tuple(s for s in state.segments if s != key))
        elif what == "transactions":
            after = state._replace(low=max(state.low, key + 1))
        elif what == "copy of a header":
            after = state._replace(copies=tuple(c for c in state.copies if c.revision != key))
        elif what == "copy of a segment":
            after = state._replace(copied=tuple(s for s in state.copied if s != key))
        elif what == "copies of transactions":
            after = state._replace(mirror_low=max(state.mirror_low, key + 1))
        else:
            return self._copy(state, plan, item, rest)
        return self._planned(after, plan, rest, kind, str(key))

    def _copy(self, state: State, plan: Plan, item: Item, rest: Plan) -> Step:
        """Copy a part of the survivor, or stop: another prune has deleted it."""
        what, key = item
        if what == "copy segment":
            there = [s for s in state.segments if s == key]
            after = state._replace(copied=tuple(sorted({*state.copied, *there})))
        else:
            there = [h._replace(age=0) for h in state.headers if h.revision == key]
            after = state._replace(copies=tuple(sorted({*state.copies, *there})))
        if not there:
            return self._planned(state, plan, (), "prune misses its survivor, stops", str(key))
        return self._planned(after, plan, rest, f"prune makes a {what}", str(key))

    # ---- the clock, invariants, helpers

    def _tick(self, state: State) -> Step:
        headers = tuple(h._replace(age=min(h.age + 1, FLOOR + 1)) for h in state.headers)
        makers = sorted(
            m if m.target == IDLE else m._replace(age=min(m.age + 1, FLOOR + 1))
            for m in state.makers
        )
        state = state._replace(headers=headers, makers=tuple(makers))
        return Step("half a floor passes", "", state)

    def broken(self, state: State) -> str | None:
        """Name the invariant that this state breaks."""
        if any(h.covers != h.revision and not h.damaged for h in state.headers):
            return CHECKPOINT
        newest = max((h.covers for h in state.headers if self._whole(state, h)), default=-1)
        if newest + 1 < state.low:
            return FORWARD
        if not self.mirror:
            return None
        copied = set(state.copied)
        whole = (c.covers for c in state.copies if copied.issuperset(c.segments))
        if max(whole, default=-1) + 1 < state.mirror_low:
            return READABLE
        return COPIED if state.mirror_low > state.low else None

    @staticmethod
    def _made(state: State, before: Maker, after: Maker, kind: str, detail: str) -> Step:
        makers = list(state.makers)
        makers[makers.index(before)] = after
        return Step(kind, detail, state._replace(makers=tuple(sorted(makers))))

    @staticmethod
    def _planned(
        state: State,
        before: Plan,
        after: Plan,
        kind: str,
        detail: str,
    ) -> Step:
        plans = list(state.plans)
        plans[plans.index(before)] = after
        return Step(kind, detail, state._replace(plans=tuple(sorted(plans))))
