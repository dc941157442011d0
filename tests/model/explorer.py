"""A small explicit-state explorer: breadth first, exhaustive, with the shortest counterexample.

A model is a class with an initial state (an immutable, hashable value), the steps that lead out
of a state, and the invariants every state must keep. Breadth first means that the first violation
found is one of the shortest, so its trace reads as the smallest story that goes wrong.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator


Kind = TypeVar("Kind", bound=tuple[Any, ...])


def quick(kind: type[Kind]) -> type[Kind]:
    """A named tuple whose `_replace`, which models call at every step, takes half of the time."""
    places = {name: place for place, name in enumerate(kind._fields)}  # type: ignore[attr-defined]
    new = tuple.__new__

    def replace(self: Kind, /, **changes: Any) -> Kind:
        values = list(self)
        for name, value in changes.items():
            values[places[name]] = value
        return new(kind, values)

    kind._replace = replace  # type: ignore[attr-defined]
    return kind


class Step(NamedTuple):
    """One transition.

    Attributes:
        kind: What happens, as a constant; counted, so that a model can prove it was not vacuous.
        detail: Who and what, for the trace; text once it is shown.
        state: The state it leads to.
        broken: The invariant that this very transition breaks, if it does: for promises about an
            event (a wrong acknowledgement, an unjust fence) instead of about a state.
    """

    kind: str
    detail: object
    state: Any
    broken: str | None = None


class Model(Protocol):
    """What the explorer needs of a model."""

    name: str

    def initial(self) -> Hashable:
        """Give the one state everything starts from."""

    def steps(self, state: Any) -> Iterator[Step]:
        """Yield every transition out of a state."""

    def broken(self, state: Any) -> str | None:
        """Name the first invariant that a state breaks, or None."""


@dataclass(frozen=True, slots=True)
class Result:
    """What an exploration found.

    Attributes:
        name: The model's name.
        states: Distinct states reached.
        transitions: Steps taken between them, repeated arrivals included.
        depth: Length of the longest of the shortest paths from the start.
        seconds: Wall time.
        complete: Whether every reachable state was visited; false after a violation or at a limit.
        violation: The broken invariant, or None.
        trace: The steps that lead to it, one line each.
        fired: How often each kind of step was taken.
    """

    name: str
    states: int
    transitions: int
    depth: int
    seconds: float
    complete: bool
    violation: str | None = None
    trace: tuple[str, ...] = ()
    fired: Counter[str] = field(default_factory=Counter)


def explore(model: Model, time_limit_s: float = 3600.0, max_states: int = 50_000_000) -> Result:
    """Visit every reachable state of a model, or stop at the first violation or limit.

    Args:
        model: The model; its states must be hashable and immutable.
        time_limit_s: Give up after this long; the result then says `complete=False`.
        max_states: Give up after so many states, likewise.

    Returns:
        The counts, and the counterexample if there is one.
    """
    collecting = gc.isenabled()
    gc.disable()  # states hold no cycles, and walking millions of tuples costs half of the time
    try:
        return _explore(model, time_limit_s, max_states)
    finally:
        if collecting:
            gc.enable()


def _explore(model: Model, time_limit_s: float, max_states: int) -> Result:
    started = time.perf_counter()
    first = model.initial()
    parent: dict[Any, Any] = {first: None}
    fired: Counter[str] = Counter()
    level, depth, transitions = [first], 0, 0

    def result(complete: bool, violation: str | None = None, trace: tuple[str, ...] = ()) -> Result:
        seconds = time.perf_counter() - started
        return Result(
            model.name, len(parent), transitions, depth, seconds, complete, violation, trace, fired
        )

    if (violation := model.broken(first)) is not None:
        return result(False, violation)
    while level:
        following = []
        for state in level:
            for step in model.steps(state):
                transitions += 1
                fired[step.kind] += 1
                target, known = step.state, len(parent)
                parent.setdefault(target, state)  # hashes it once
                new = len(parent) > known
                violation = step.broken or (model.broken(target) if new else None)
                if violation is not None:
                    return result(False, violation, (*_path(model, parent, state), _line(step)))
                if new:
                    following.append(target)
            if time.perf_counter() - started > time_limit_s or len(parent) > max_states:
                return result(False)
        level = following
        depth += bool(level)
    return result(True)


def _path(model: Model, parent: dict[Any, Any], state: Any) -> list[str]:
    """The lines of the steps from the start to a state, found again from the chain of parents."""
    chain = [state]
    while (before := parent[chain[-1]]) is not None:
        chain.append(before)
    chain.reverse()
    lines = []
    for before, after in pairwise(chain):
        lines.append(_line(next(step for step in model.steps(before) if step.state == after)))
    return lines


def _line(step: Step) -> str:
    detail = str(step.detail)
    return f"{step.kind}: {detail}" if detail else step.kind


def report(result: Result) -> str:
    """Say in one line what an exploration found, and below it the counterexample if there is one.

    Args:
        result: The outcome of `explore`.

    Returns:
        Text for a terminal, without a newline at its end.
    """
    if result.violation:
        end = f"breaks {result.violation}"
    else:
        end = "clean" if result.complete else "NOT FINISHED"
    line = (
        f"{result.name:<34} {result.states:>9,} states {result.transitions:>11,} transitions "
        f"depth {result.depth:>3} {result.seconds:>7.1f} s  {end}"
    )
    return "\n".join([line, *(f"    {n:>2}. {text}" for n, text in enumerate(result.trace, 1))])
