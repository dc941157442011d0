"""Where a step is planned or executed: a catalog, or a store alone; and where none may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..catalog.ambient import SYSTEM, Ambient
from ..catalog.margins import DEFAULT_MARGINS, Margins
from ..errors import UsageError
from ..store import Store, WideStore

if TYPE_CHECKING:
    from .contract import MaintenancePlan


class Place(Protocol):
    """What a step needs of a catalog."""

    url: str
    store: Store
    wide: WideStore
    ambient: Ambient
    margins: Margins


@dataclass(frozen=True, slots=True)
class Source:
    """What a step works with.

    Attributes:
        store: Where the objects are.
        wide: The same, which also reads files that lie elsewhere.
        ambient: Clock, identities, waiting.
        margins: How long things are left alone.
    """

    store: Store
    wide: WideStore
    ambient: Ambient
    margins: Margins


def open_source(
    source: Place | Store, ambient: Ambient | None = None, margins: Margins | None = None
) -> Source:
    """What a step works with.

    Args:
        source: A catalog, whose ambient and margins are the defaults, or a store.
        ambient, margins: Instead of the source's; the system's for a store without them.
    """
    if isinstance(source, Store):
        return Source(source, WideStore(source), ambient or SYSTEM, margins or DEFAULT_MARGINS)
    return Source(source.store, source.wide, ambient or source.ambient, margins or source.margins)


def check_source(plan: MaintenancePlan, kind: str, store: Store) -> None:
    """Raises `UsageError` if a plan is of another step, or for another catalog."""
    if plan.kind != kind:
        raise UsageError(
            f"This is a {plan.kind} plan, not one of {kind}", hint=f"Make a {kind} plan"
        )
    if plan.url != store.url:
        raise UsageError(
            f"The plan is for {plan.url}, this is {store.url}",
            key=store.url,
            hint="Open the catalog that the plan was made for, or make a new plan",
        )
