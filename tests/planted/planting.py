"""What a planted bug is, and all of them by name: the modules `plants_…` put theirs in."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Plant(NamedTuple):
    """A bug.

    Attributes:
        what: In words.
        tests: What must fail of it, as for pytest.
        patch: Plants it.
        in_children: Whether the processes that the tests start need it.
    """

    what: str
    tests: str
    patch: Callable[[], Any]
    in_children: bool = False


PLANTS: dict[str, Plant] = {}


def plant(
    tests: str, *, in_children: bool = False
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """A function that plants a bug, and what must fail of it."""

    def register(patch: Callable[[], Any]) -> Callable[[], Any]:
        assert patch.__name__ not in PLANTS
        PLANTS[patch.__name__] = Plant(patch.__doc__ or "", tests, patch, in_children)
        return patch

    return register


class Together(ExitStack):
    """Several patches as one."""

    def __init__(self, *patches: Any) -> None:
        super().__init__()
        self._patches = patches

    def __enter__(self) -> Any:
        for patch in self._patches:
            self.enter_context(patch)
        return self

    start = __enter__
