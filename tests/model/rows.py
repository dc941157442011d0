"""The rows of the tables in docs/protocol.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suite import MUTANTS

if TYPE_CHECKING:
    from explorer import Result


def model_row(result: Result) -> str:
    """A row of the table of models; without the time, it never changes."""
    return f"| {result.name} | {result.states:,} | {result.transitions:,} | {result.depth} |"


def mutant_row(name: str, result: Result) -> str:
    """A row of the table of planted bugs."""
    caught = (result.violation or "nothing").split(":")[0]
    return f"| `{name}` | {MUTANTS[name].bug} | {caught} | {len(result.trace)} |"
