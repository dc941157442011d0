"""The reports of `gc` and `prune`: what was deleted, and what was not after all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import output
from .plans import print_group
from .text import many, size

if TYPE_CHECKING:
    from ..gc import Plan, Report


def show_report(plan: Plan, report: Report) -> None:
    """Print what an execution did."""
    from ..gc import describe_kept

    total = f"{many(report.deleted_objects, 'object')}, {size(report.deleted_bytes)}"
    done = f"deleted {total}" if plan.actions else "nothing to delete"
    output.line(f"{plan.kind} of {plan.writer}/{plan.database}: {done}")
    if report.deleted_objects and not report.exact:
        output.line(
            "(deleted or already gone: this store doesn't say whether an object was still there)"
        )
    if report.gone_objects:
        output.line(f"{many(report.gone_objects, 'object')} of the plan had gone before")
    print_group(describe_kept("left alone after all", report.kept))
