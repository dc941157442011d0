"""The shape of every plan, and of what it says about itself. Pure.

Source: docs/maintenance.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

Progress = Callable[[int, int, str], None]
"""Called with: how many are done, of how many, of what."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a plan does, in one sentence: `delete 3 objects, 512 bytes`.

    Attributes:
        verb: `delete`.
        noun: Of what, in the singular: `object`.
        number: How many.
        size_bytes: Of all of them.
    """

    verb: str
    noun: str
    number: int
    size_bytes: int

    def __str__(self) -> str:
        if not self.number:
            return f"nothing to {self.verb}"
        many = self.noun if self.number == 1 else f"{self.noun}s"
        return f"{self.verb} {self.number:,} {many}, {self.size_bytes:,} bytes"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the rows of a group.

    Attributes:
        name: Key in a row; stable.
        title: Heading for people; the name if empty.
        style: How people read a value.
        shown: Whether people see it in a table; programs always do.
    """

    name: str
    title: str = ""
    style: Literal["plain", "count", "size", "yes"] = "plain"
    shown: bool = True


@dataclass(frozen=True, slots=True)
class Group:
    """Things that a plan treats alike, one a row.

    Attributes:
        name: For programs; stable.
        title: For people; empty for what the plan is all about.
        fields: Of each row.
        rows: Values by field. A row may have `names`: examples, where a row stands for many.
    """

    name: str
    title: str
    fields: tuple[Field, ...]
    rows: tuple[Mapping[str, Any], ...]


class MaintenancePlan(Protocol):
    """What a step is going to do to one writer's database: an immutable value without a store.

    The step that made it has `execute_…(source, plan)`, which checks it again first.
    """

    @property
    def kind(self) -> str:
        """The step: `gc`, `prune`, `rebuild`."""

    @property
    def url(self) -> str:
        """The root that it was made for, without secrets."""

    @property
    def writer(self) -> str:
        """Whose."""

    @property
    def database(self) -> str:
        """Of which database."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know."""

    @property
    def made_at(self) -> dt.datetime:
        """When, UTC, by the planner's clock."""

    @property
    def effect(self) -> Effect:
        """What it does, in one sentence; a number of 0 means nothing."""

    def groups(self) -> tuple[Group, ...]:
        """All that it touches or leaves, with the reason for each; what it does comes first."""

    def describe(self) -> str:
        """The same as text: a sentence, then a line for each thing."""


class SavedPlan(MaintenancePlan, Protocol):
    """A plan that can be saved. Its class has `from_json`, which refuses what no such plan may
    name: a saved plan is data of unknown origin."""

    def to_json(self) -> str:
        """The plan as text, for `from_json` of its class."""


def as_text(plan: MaintenancePlan) -> str:
    """A plan as text, from its effect, its groups and its notes."""
    lines = [f"{plan.kind} of {plan.writer}/{plan.database}: {plan.effect}"]
    for group in plan.groups():
        lines += [group.title] if group.title and group.rows else []
        shown = [one for one in group.fields if one.shown]
        for row in group.rows:
            values = [f"{one.title.lower() or one.name} {row[one.name]}" for one in shown[1:]]
            lines.append(f"  {row[shown[0].name]}: {', '.join(values)}")
    return "\n".join([*lines, *(f"note: {note}" for note in plan.notes)])
