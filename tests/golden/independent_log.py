"""From a listing to the state of a revision or a point in time, for the independent reader:
docs/format.md, sections 2, 4.3 and 4.4."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from independent_content import Content
from independent_state import Head, State, follow, head_of
from independent_transaction import open_checkpoint, open_transaction
from independent_view import Step, View
from independent_wire import (
    MAX_REVISION,
    Damaged,
    Empty,
    Forked,
    Missing,
    NotThere,
    Pruned,
    Refusal,
    TooNew,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from independent_transaction import Checkpoint, Transaction

NAME = re.compile(
    r"([0-9]{3})-([0-9]{12})-(0|[1-9][0-9]{0,11})\.([0-9a-f]{8})\.(transaction|checkpoint)"
)


def read_name(name: str) -> tuple[int, int, str, str] | None:
    """Incarnation, revision, uuid8 and kind of a name of the log; None if it is none."""
    match = NAME.fullmatch(name)
    if match is None:
        return None
    incarnation, revision = 999 - int(match[1]), int(match[3])
    if incarnation < 1 or int(match[2]) != MAX_REVISION - revision:
        return None
    return incarnation, revision, match[4], match[5]


class Log:
    """A log as objects by their names.

    Args:
        transactions: What lies in `transactions/`; other names are ignored.
        segments: What lies in `segments/`.
        incarnation: Read this one, whatever is in use; None for the one in use.
    """

    def __init__(
        self,
        transactions: Mapping[str, bytes],
        segments: Mapping[str, bytes],
        *,
        incarnation: int | None = None,
    ) -> None:
        self.objects, self.segments = transactions, dict(segments)
        names = {name: read_name(name) for name in transactions}
        known = {name: found for name, found in names.items() if found}
        if not known:
            raise Empty("no log")
        self.in_use = max(found[0] for found in known.values())
        self.incarnation = self.in_use if incarnation is None else incarnation
        self.done: dict[int, dict[str, str]] = {}  # names by revision and uuid8
        self.saved: dict[int, dict[str, str]] = {}
        for name, (own, revision, uuid8, kind) in known.items():
            if own == self.incarnation:
                where = self.done if kind == "transaction" else self.saved
                where.setdefault(revision, {})[uuid8] = name
        if not self.done and not self.saved:
            raise Damaged(f"no names of incarnation {self.incarnation}")
        self._steps: dict[str, tuple[Transaction, Step] | Refusal] = {}
        self._contents: dict[str, tuple[Checkpoint, Content] | Refusal] = {}

    @cached_property
    def head(self) -> int:
        return max([*self.done, *self.saved])

    # --- Objects, each opened once ---

    def _transaction(self, revision: int) -> tuple[Transaction, Step]:
        (uuid8, name), *_ = self.done[revision].items()
        if name not in self._steps:
            try:
                data = self.objects[name]
                found = open_transaction(data, self.incarnation, revision, uuid8)
                self._steps[name] = found, Step(found)
            except Refusal as error:
                self._steps[name] = error
        known = self._steps[name]
        if isinstance(known, Refusal):
            raise known
        return known

    def _checkpoint(self, revision: int) -> tuple[Checkpoint, Content]:
        (uuid8, name), *_ = self.saved[revision].items()
        if name not in self._contents:
            try:
                data = self.objects[name]
                found = open_checkpoint(data, self.incarnation, revision, uuid8)
                self._contents[name] = found, Content(found, self.segments)
            except Refusal as error:
                self._contents[name] = error
        known = self._contents[name]
        if isinstance(known, Refusal):
            raise known
        return known

    # --- Section 4.3 ---

    def bases(self, goal: int) -> list[int]:
        """The bases that serve a revision, the highest first; -1 is the empty state."""
        lowest = goal + 1
        while lowest - 1 in self.done:
            lowest -= 1
        found = sorted((c for c in self.saved if lowest - 1 <= c <= goal), reverse=True)
        return [*found, -1] if lowest == 0 else found

    def _why_not(self, goal: int) -> Refusal:
        """Why no base serves a revision."""
        if not 0 <= goal <= self.head:
            return NotThere(f"no revision {goal}")
        lowest = min([*self.saved, *([-1] if 0 in self.done else [])], default=None)
        if lowest is not None and goal < lowest:
            return Pruned(f"revision {goal} was pruned")
        gap = goal
        while gap in self.done:
            gap -= 1
        return Missing(f"transaction {gap} is missing")

    def _check_forks(self, base: int, goal: int) -> None:
        for revision in {*self.done, *self.saved}:
            if max(base, 0) <= revision <= goal:
                uuids = {*self.done.get(revision, {}), *self.saved.get(revision, {})}
                if len(uuids) > 1:
                    raise Forked(f"revision {revision}: {sorted(uuids)}")

    def _replays(self, goal: int) -> Iterator[tuple[Head, View, int]]:
        """The state of a revision from each base that gives it, the highest first.

        Raises:
            Refusal: If no base is left, or a lower one must not be tried. If none gave anything, it
                is why the revision cannot be read.
        """
        bases = self.bases(goal)
        if not bases:
            raise self._why_not(goal)
        problem: Refusal | None = None
        for base in bases:
            self._check_forks(base, goal)
            head, content = Head(), None
            if base >= 0:
                try:
                    checkpoint, content = self._checkpoint(base)
                except TooNew:
                    raise
                except Refusal as error:
                    problem = problem or error
                    continue
                head = head_of(checkpoint)
                if base == goal and self._is_of_another(base, head.digest):
                    problem = problem or Damaged(f"checkpoint {base} is of another history")
                    continue
            steps = []
            for revision in range(base + 1, goal + 1):
                try:
                    transaction, step = self._transaction(revision)
                except Damaged as error:
                    raise problem or error from None
                try:
                    head = follow(head, transaction)
                except Damaged as error:
                    problem = problem or error
                    if revision == base + 1:
                        break
                    raise problem from None
                steps.append(step)
            else:
                yield head, View(content, steps), base
        raise problem or Damaged("no base is left")

    def _is_of_another(self, revision: int, digest: bytes) -> bool:
        """Whether the listed transaction of a checkpoint's revision is another than its own; one
        that is damaged proves nothing."""
        if revision not in self.done:
            return False
        try:
            transaction, _ = self._transaction(revision)
        except TooNew:
            data = self.objects[next(iter(self.done[revision].values()))]
            return data[48:80] != digest
        except Refusal:
            return False
        return transaction.frame.digest != digest

    def read(self, goal: int | None = None) -> State:
        """The state of a revision; None for the head."""
        target = self.head if goal is None else goal
        head, _, _ = next(self._replays(target))
        if goal is None and head.seal:
            raise Damaged("sealed, and no later incarnation is there")
        return State(head, lambda: self._views(target, head.digest))

    def _views(self, goal: int, digest: bytes) -> Iterator[View]:
        """The bases that lead to this very state, the highest first."""
        for head, view, _ in self._replays(goal):
            if head.digest == digest:
                yield view

    # --- Section 4.4 ---

    def revision_at(self, at_us: int) -> int:
        """The newest revision committed at or before a time.

        Raises:
            NotThere: It is before the first commit.
        """
        problem: Refusal | None = None
        for k in sorted({*self.done, *self.saved}, reverse=True):
            try:
                state = self.read(k)
            except Refusal as error:
                problem = problem or error
                continue
            if problem is not None and at_us > state.head.committed_at_us:
                raise problem
            return self._newest(k, at_us)
        assert problem is not None
        raise problem

    def _newest(self, k: int, at_us: int) -> int:
        head, view, base = next(self._replays(k))
        if head.committed_at_us <= at_us:
            return k
        times = {step.revision: step.message.commit.committed_at_us for step in view.steps}
        if view.content is not None:
            times[base] = view.content.message.committed_at_us
        found = [revision for revision, at in times.items() if at <= at_us]
        if not found:
            rows = self.read(k).history()
            found = [row["revision"] for row in rows if row["committed_at"] <= at_us]
            if not found and rows[0]["revision"] > 0:
                raise Pruned("the state at that time was pruned")
        if not found:
            raise NotThere("before the first commit")
        return max(found)

    def read_at(self, at_us: int) -> State:
        """The state at a point in time (µs)."""
        return self.read(self.revision_at(at_us))
