"""The rows of the tables in tests/model/README.md and docs/protocol.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suite import MUTANTS

if TYPE_CHECKING:
    from explorer import Result


def model_row(result: Result) -> str:
    """Returns a row of the table of models; without the time, it never changes."""
    return f"| {result.name} | {result.states:,} | {result.transitions:,} | {result.depth} |"


def mutant_row(name: str, result: Result) -> str:
    """Returns a row of the table of planted bugs."""
    caught = (result.violation or "nothing").split(":")[0]
    return f"| `{name}` | {MUTANTS[name].bug} | {caught} | {len(result.trace)} |"


def caught_rows() -> list[str]:
    """Returns the rows of the short table: each invariant, and the bugs that break it."""
    names: dict[str, list[str]] = {}
    for name, mutant in MUTANTS.items():
        names.setdefault(mutant.catches.split(":")[0], []).append(f"`{name}`")
    return [f"| {invariant} | {', '.join(names[invariant])} |" for invariant in sorted(names)]
